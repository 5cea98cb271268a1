"""Certificates as files, and the checker as a program of its own."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rankfall.certificates import Certificate, Problem, check, inseparable, stays


@pytest.fixture(scope="module")
def certificate(cells):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    ball = stays(found.problem, point, cells.line_start(found.problem, point, 1000.0), "features")
    told = {"distance": 0.125, "error": 1e-9}
    return Certificate.of(found.problem, point, [ball.claim], followed=told, estimated={"hours": 2})


def run(*arguments):
    program = Path(check.__file__)
    done = subprocess.run(
        [sys.executable, "-I", str(program), *map(str, arguments)], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def test_a_certificate_survives_its_file(certificate, tmp_path):
    path = certificate.save(tmp_path / "new" / "end.json")
    loaded = Certificate.load(path)
    assert loaded.document == certificate.document
    assert loaded.check().accepted
    assert [each.name for each in path.parent.iterdir()] == ["end.json"]


def test_a_certificate_from_a_file_claims_what_nobody_has_checked(certificate, tmp_path):
    assert str(certificate).splitlines()[1].split()[0] == "proved"
    read = Certificate.load(certificate.save(tmp_path / "end.json"))
    assert str(read).splitlines()[1].split()[0] == "claims"


def test_it_says_what_is_proved_what_is_followed_and_what_is_estimated(certificate):
    lines = str(certificate).splitlines()
    assert len(lines) == 4
    assert "4 neurons, slope 0.1, first layer trained" in lines[0]
    assert lines[1].split()[0] == "proved"
    assert "KKT point" in lines[1]
    assert "every flow from within" in lines[1]
    assert lines[2].split() == ["followed", "distance", "0.125,", "error", "1e-09."]
    assert lines[3].split() == ["estimated", "hours", "2."]
    assert certificate.claims == ["kkt", "stays"]


def test_files_that_are_no_certificates_are_told(tmp_path):
    for text in ("", "{}", '{"format": "another"}', "[1]", '{"a": 1, "a": 2}'):
        path = tmp_path / "no.json"
        path.write_text(text)
        with pytest.raises(ValueError, match="certificate"):
            Certificate.load(path)
    with pytest.raises(ValueError, match="is not a certificate that can be read"):
        Certificate.load(tmp_path / "absent.json")


def test_the_checker_imports_the_standard_library_alone():
    tree = ast.parse(Path(check.__file__).read_text())
    names = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_checker_runs_by_itself(certificate, tmp_path):
    path = certificate.save(tmp_path / "end.json")
    code, text = run(path)
    assert code == 0
    assert text.count("proved  ") == 2
    assert "followed (not proved)" in text
    document = json.loads(path.read_text())
    document["claims"][1]["radius"] = (1e9).hex()
    path.write_text(json.dumps(document))
    code, text = run(path)
    assert code == 1
    assert "proved  kkt" in text
    assert "REFUSED  stays: neuron" in text
    path.write_text("{")
    code, text = run(path)
    assert code == 2
    assert text.startswith("Nothing is checked: this is not JSON: Expecting property name")
    assert run(tmp_path / "absent.json")[0] == 2


def table(problem, path, header=True, label=-1, delimiter=","):
    columns = [f"x{f}" for f in range(problem.x.shape[1])]
    rows = [[repr(float(v)) for v in row] for row in problem.x]
    place = len(columns) if label == -1 else label
    columns.insert(place, "y")
    for row, y in zip(rows, problem.y, strict=True):
        row.insert(place, f"{y:g}")
    lines = ([columns] if header else []) + rows
    path.write_text("\n".join(delimiter.join(line) for line in lines) + "\n")
    return path


def problem_of(certificate):
    told = certificate.document["problem"]
    x = np.array([[float.fromhex(v) for v in row] for row in told["data"]["x"]])
    y = np.array([float.fromhex(v) for v in told["data"]["y"]])
    return Problem(
        x, y, float.fromhex(told["slope"]), np.array([float.fromhex(v) for v in told["second_layer"]])
    )


def test_it_is_checked_against_the_readers_own_table(certificate, tmp_path):
    path, problem = certificate.save(tmp_path / "end.json"), problem_of(certificate)
    assert check.main([str(path), "--data", str(table(problem, tmp_path / "a.csv"))]) == 0
    assert check.main([str(path), "--data", str(table(problem, tmp_path / "b.csv", header=False))]) == 0
    assert (
        check.main([str(path), "--data", str(table(problem, tmp_path / "c.csv", label=2, delimiter=";"))])
        == 0
    )
    bare = table(problem, tmp_path / "d.csv", header=False, label=0)
    assert check.main([str(path), "--data", str(bare), "--label", "0"]) == 0
    assert check.main([str(path), "--data", str(bare)]) == 2
    other = Problem(problem.x + np.eye(*problem.x.shape) * 1e-15, problem.y, 0.1, problem.second)
    assert check.main([str(path), "--data", str(table(other, tmp_path / "e.csv"))]) == 2
    fewer = Problem(problem.x[:-1], problem.y[:-1], 0.1, problem.second)
    assert check.main([str(path), "--data", str(table(fewer, tmp_path / "f.csv"))]) == 2


@pytest.mark.parametrize(
    "text", ["", "a,b\n", "a,b\n1,x\n", "1,2\n3\n", "1,nan\n", "\ufeffa;y\n1;\n", "\x00"]
)
def test_bad_tables_are_told(certificate, tmp_path, text, capsys):
    path = certificate.save(tmp_path / "end.json")
    data = tmp_path / "bad.csv"
    data.write_text(text, encoding="utf-8")
    assert check.main([str(path), "--data", str(data)]) == 2
    assert capsys.readouterr().out.startswith("Nothing is checked: ")


def test_a_certificate_without_data_needs_the_readers(cells, tmp_path):
    found = cells.solved(0, slope=0.1)
    slim = Certificate.of(found.problem, found.propose(), data=False)
    assert "--data" in slim.check().malformed
    mine = found.problem.x.tolist(), found.problem.y.tolist()
    assert slim.check(mine).accepted
    mine[0][0][0] += 1e-12
    assert "sha256" in slim.check(mine).malformed
    mine[0][0][0] = float("nan")
    assert slim.check(mine).malformed


def test_minus_zero_is_zero():
    x, y = np.array([[-0.0, 1.0], [0.0, 2.0]]), np.array([1.0, -1.0])
    problem = Problem(x, y, 0.0, np.array([1.0]))
    told = Certificate.of(problem, None, [inseparable(problem)])
    document = told.document
    document["problem"]["data"]["x"][0][0] = "-0x0.0p+0"
    assert check.check(document).accepted
    assert check.check(document, (x.tolist(), y.tolist())).accepted


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"y": np.array([1.0, 0.0])}, "labels -1 and \\+1"),
        ({"x": np.array([[1.0, np.nan], [0.0, 1.0]])}, "finite"),
        ({"slope": 1.5}, "slope"),
        ({"loss": "hinge"}, "square"),
        ({"second": None}, "how many neurons"),
        ({"y": np.array([1.0])}, "one label for each"),
    ],
)
def test_problems_that_no_certificate_is_for_are_told(settings, match):
    given = {"x": np.eye(2), "y": np.array([1.0, -1.0]), "slope": 0.1, "second": np.ones(2)} | settings
    with pytest.raises(ValueError, match=match):
        Problem(**given)
