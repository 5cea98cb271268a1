"""Documents that are malformed, too large, or made to mislead: both checkers say so, alike and at once."""

import hashlib
import json
import shutil
import subprocess
import sys
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from rankfall.certificates import (
    Certificate,
    Missing,
    Point,
    Problem,
    check,
    propose,
    propose_both,
    rank,
    refutes,
    stable_rank,
    stays,
)

PROGRAM = Path(check.__file__)
RUNNER = """
const { checkText } = require(process.argv[1]);
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean);
console.log(JSON.stringify(lines.map((line) => checkText(JSON.parse(line)))));
"""


@pytest.fixture(scope="module")
def document():
    """Three samples, and an exact point with claims of most kinds."""
    x = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 1.0, 3.0]])
    problem = Problem(x, np.array([1.0, -1.0, 1.0]), 0.5, np.array([1.0, -1.0]))
    point = propose(problem, np.array([[1, -1, 1], [-1, 1, -1]]), np.ones(3))
    assert isinstance(point, Point)
    u, lam = point.weights(problem), point.lam()
    with np.errstate(divide="ignore"):
        levels = np.where(lam > 0, -np.log(lam / lam.sum()), 0.0)
    shares = np.where(point.patterns > 0, 1.0, 0.5) * np.array([[1.0], [-1.0]]) * problem.y
    base = np.linalg.lstsq(np.einsum("ji,id->ijd", shares, x).reshape(3, -1), levels, rcond=None)[0]
    ball = stays(problem, point, base.reshape(2, 3) + 60 * u, "features")
    assert ball, ball
    claims = [ball.claim, rank(problem, point), stable_rank(problem, point)]
    claims.append(refutes("paper/claim", "the rank is at most 1", "rank", "<=", 1.0))
    made = Certificate.of(problem, point, claims, followed={"distance": 0.1})
    return json.loads(json.dumps(made.document))


@pytest.fixture(scope="module")
def verdicts():
    """ "accepted", "refused" or "malformed" for each text, by both checkers, which must agree."""
    node = shutil.which("node") or shutil.which("nodejs")

    def word(accepted, malformed):
        return "malformed" if malformed else "accepted" if accepted else "refused"

    def judge(texts):
        ours = [check.check_text(text) for text in texts]
        found = [word(each.accepted, each.malformed) for each in ours]
        if node is not None:
            lines = "".join(json.dumps(text) + "\n" for text in texts)
            command = [node, "-e", RUNNER, str(PROGRAM.with_name("check.js"))]
            ran = subprocess.run(command, input=lines, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr[-2000:]
            theirs = [word(each["accepted"], each["malformed"]) for each in json.loads(ran.stdout)]
            assert theirs == found, [t[:80] for t, a, b in zip(texts, found, theirs, strict=True) if a != b]
        return found

    return judge


def changed(document, *path, to):
    copy = deepcopy(document)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return copy


def sealed(document, x, y, **problem):
    """Other data, with their sha256."""
    copy = deepcopy(document)
    digest = hashlib.sha256(check.canonical(x, y)).hexdigest()
    about = {"name": "made", "samples": len(x), "features": len(x[0]), "sha256": digest}
    about |= {"x": [[v.hex() for v in row] for row in x], "y": [v.hex() for v in y]}
    copy["problem"] |= {"data": about} | problem
    return copy


def test_the_document_itself_is_accepted(document, verdicts):
    assert verdicts([json.dumps(document)]) == ["accepted"]
    assert [claim["claim"] for claim in document["claims"]] == [
        "kkt",
        "stays",
        "rank",
        "stable rank",
        "refutes",
    ]


# --- limits -----------------------------------------------------------------------------------------------


def told(document, value):
    return f'{json.dumps(document)[:-1]}, "estimated": {{"a": {value}}}}}'


def test_the_limit_of_nesting_is_explicit(document, verdicts):
    deepest = check.DEEPEST - 1  # below "estimated" and "a"; the innermost list is empty
    depths = [1, deepest, deepest + 1, 100, 950, 1000, 100_000]
    texts = [told(document, "[" * depth + "]" * depth) for depth in depths]
    assert verdicts(texts) == ["accepted", "accepted"] + 5 * ["malformed"]
    objects = [told(document, '{"a":' * depth + "1" + "}" * depth) for depth in (deepest - 1, deepest)]
    assert verdicts(objects) == ["accepted", "malformed"]
    assert verdicts(["[" * 1_000_000, '{"a":' * 100_000, "[" * 900, '"'])[0:] == 4 * ["malformed"]


def test_a_parsed_document_may_not_be_nested_deeply_either(document):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    report = check.check(document | {"followed": {"a": deep}})
    assert report.malformed == "it is nested too deeply."
    assert "nested" in check.check(deep).malformed


def test_the_length_of_numbers_is_limited(document, verdicts):
    point = document["point"]
    numbers = {key: [int(v, 16) for v in point[key]] for key in ("multipliers", "kinks")}
    below, cases = int(point["denominator"], 16), []
    for digits in (1000, check.DIGITS - 100, check.DIGITS, 10 * check.DIGITS):
        factor = 16**digits - 1
        longer = {key: [hex(v * factor) for v in values] for key, values in numbers.items()}
        longer["denominator"] = hex(below * factor)
        cases.append(json.dumps(document | {"point": point | longer}))
    assert verdicts(cases) == ["accepted", "accepted", "malformed", "malformed"]
    numerals = ["1" * 100, "1" * 101, "-" + "1" * 100, "0." + "1" * 98, "0." + "1" * 99, "1" * 100_000]
    numerals += ["1e308", "1e309", "-1e999", "1e-999", "NaN", "Infinity", "-Infinity", "1e" + "9" * 97]
    found = verdicts([told(document, each) for each in numerals])
    good = {"1" * 100, "0." + "1" * 98, "1e308", "1e-999"}
    assert found == ["accepted" if each in good else "malformed" for each in numerals]


def test_matrices_that_would_not_fit_are_refused_at_once(document, verdicts):
    one, ones = (1.0).hex(), [1.0]
    kkt = {"claims": [{"claim": "kkt"}]}

    def made(n, groups, pattern, *, digits=1, tau=False, both=False, last=""):
        sides = [pattern] * (groups - 1) + [last or pattern]
        point = {
            "groups": [{"neurons": [j], "pattern": side * n} for j, side in enumerate(sides)],
            "support": list(range(n)) if pattern == "0" else [0],
            "denominator": "0x" + "f" * digits,
            "multipliers": ["0x" + "f" * digits] * (n if pattern == "0" else 1),
            "kinks": ["0x1"] * n * sides.count("0"),
        }
        if tau:
            point["tau"] = (0.1).hex()
        if both:
            point["amplitudes"] = ["0x1"] * groups
            point["groups"] = [group | {"sign": 1} for group in point["groups"]]
        second = {"second_layer": None if both else [one] * groups, "width": groups}
        trained = {"trained": "both layers" if both else "first layer"}
        whole = sealed(document, [ones] * n, ones * n, **second, **trained)
        return json.dumps(whole | kkt | {"point": point})

    cases = [
        made(20_000, 1, "+"),  # a Gram matrix of 4e8 numbers
        made(100, 1000, "+", digits=90_000),  # long numbers for many groups
        made(300, 700, "0", tau=True),  # 210,000 unknowns
        made(100, 60, "0", tau=True, last="+"),  # 6000 that equal samples couple
        made(40, 30, "0", tau=True, both=True),  # 1200 unknowns of quadratic equations
    ]
    assert verdicts(cases) == 5 * ["malformed"]
    for text in cases:
        assert "too large" in check.check_text(text).malformed


def test_data_of_any_number_may_be_inseparable(document, verdicts):
    n = 20_000
    whole = sealed(document, [[1.0 + i] for i in range(n)], [1.0] * (n - 1) + [-1.0])
    claims = [{"claim": "inseparable", "samples": [0, n - 1]}]
    wrong = [{"claim": "inseparable", "samples": [0, n - 2]}]
    cases = [json.dumps(whole | {"point": None, "claims": each}) for each in (claims, wrong)]
    assert verdicts(cases) == ["accepted", "refused"]


def test_a_proposal_that_cannot_be_checked_is_missing_and_no_error():
    x, y = np.diag([1.0, 2.0]), np.array([1.0, -1.0])
    side, second, lam = np.array([[1, -1], [-1, 1]]), np.array([1.0, -np.sqrt(0.5)]), np.array([1.0, 0.5])
    assert isinstance(propose_both(Problem(x, y, 0.0, None, width=2), side, second, lam), Point)
    small = Problem(x, y, 0.0, None, width=2)
    small.checked.unknowns = 3  # the most that this checker takes on; there are four
    found = propose_both(small, side, second, lam)
    assert isinstance(found, Missing)
    assert "too large" in found.why


def test_elimination_stops_when_the_rank_is_too_large():
    rows = [[int(i == k) << 40 for k in range(6)] for i in range(6)]
    assert [check.eliminate(rows, enough=r) for r in (0, 2, 5, 6)] == [1, 3, 6, 6]
    assert check.eliminate(rows) == check.eliminate(rows, check.PRIME) == 6


# --- numbers are spelled in one way only --------------------------------------------------------------------

ODD = [
    None,
    True,
    False,
    0,
    1,
    1.5,
    [],
    {},
    "",
    "1",
    "0",
    "x",
    "0x",
    "-0x",
    "0X1",
    "0x1 ",
    " 0x1",
    "+0x1",
    "--0x1",
]
ODD += [
    "0x_1",
    "0x1_0",
    "0x00",
    "0x01",
    "-0x0",
    "0xA",
    "0x\uff11",
    "\uff10x1",
    "\u0660x1",
    "0x1\n",
    "0x1\x00",
    "0b1",
]
ODD += [
    "nan",
    "NaN",
    "inf",
    "-inf",
    "infinity",
    "0x1p0",
    "0x1.p+0",
    "0x1.0p+0",
    "0x1.8p0",
    "0x1p99999",
    "0x.8p+1",
]
ODD += [
    "0x1.0000000000000p+1024",
    "0x1.0000000000000p-1023",
    "0x0.0000000000000p-1022",
    "0x1.0000000000000p-0",
]
ODD += [
    "0x1.0000000000000p+00",
    "0x1.00000000000000p+0",
    "0X1.0000000000000P+0",
    "0x1.0000000000000p+0 ",
    "0x0p+0",
]
ODD += [
    "0x0.8000000000000p-1021",
    "0x1.0000000000000p+\u0661",
    "1e3",
    "1.0",
    "0x1.000000000000Ap+0",
    "-",
    "+",
    "e",
]


def test_numbers_are_spelled_in_one_way_only(document, verdicts):
    integers = [("point", "denominator"), ("point", "multipliers", 0)]
    doubles = [("problem", "slope"), ("problem", "second_layer", 0), ("problem", "data", "x", 0, 0)]
    doubles += [("problem", "data", "y", 0), ("claims", 1, "radius"), ("claims", 1, "level")]
    doubles += [("claims", 1, "start", 0, 0), ("claims", 4, "bound")]
    cases = [json.dumps(changed(document, *path, to=odd)) for path in integers + doubles for odd in ODD]
    assert {*verdicts(cases)} == {"malformed"}


def test_whole_numbers_are_neither_booleans_nor_decimals_nor_negative(document, verdicts):
    paths = [
        ("version",),
        ("problem", "width"),
        ("problem", "data", "samples"),
        ("problem", "data", "features"),
    ]
    paths += [("point", "support", 1), ("point", "groups", 0, "neurons", 0), ("claims", 2, "rank")]
    values = [True, False, None, "1", "0x1", -1, 1.0, 2.0, 10**9, [1], {"a": 1}]
    cases = [json.dumps(changed(document, *path, to=value)) for path in paths for value in values]
    assert {*verdicts(cases)} == {"malformed"}
    assert {
        *verdicts([json.dumps(changed(document, "problem", "bias", to=v)) for v in (0, 1, None, "false")])
    } == {"malformed"}


def test_claims_groups_and_samples_may_not_be_repeated_or_empty(document, verdicts):
    point, claims = document["point"], document["claims"]
    twice = {key: [*point[key], point[key][0]] for key in ("support", "multipliers", "groups")}
    cases = [
        document | {"claims": []},
        document | {"claims": claims[1:]},
        document | {"claims": [*claims, claims[0]]},
        document | {"claims": [*claims, claims[2]]},
        document | {"point": None},
        document | {"point": None, "claims": []},
        document | {"point": None, "claims": [{"claim": "inseparable"}]},
        document | {"point": None, "claims": [{"claim": "inseparable", "samples": []}]},
        document | {"point": None, "claims": [{"claim": "inseparable", "samples": [0, 1, 2]}]},
        document | {"claims": [*claims, {"claim": "inseparable", "sample": 0}]},
        document | {"claims": [*claims, {"claim": "true"}]},
        document | {"claims": [*claims, []]},
        document | {"point": point | {"groups": []}},
        document | {"point": point | {"support": [], "multipliers": [], "kinks": []}},
        document | {"point": point | {"support": twice["support"], "multipliers": twice["multipliers"]}},
        document | {"point": point | {"denominator": "0x0"}},
        document | {"point": point | {"denominator": "-0x1"}},
        document | {"more": 1},
        document | {"problem": document["problem"] | {"more": 1}},
        changed(document, "point", "groups", 0, "neurons", to=[]),
    ]
    assert {*verdicts([json.dumps(each) for each in cases])} == {"malformed"}
    repeated = document | {"point": point | {"groups": twice["groups"]}}
    assert verdicts([json.dumps(repeated)]) == ["refused"]


def test_a_sample_may_be_orthogonal_to_all_that_a_group_is_made_of(verdicts):
    """Then it is exactly at its kink, though the point is known only nearly."""
    x, y = np.diag([1.0, 2.0, 0.7, 1.3]), np.array([1.0, -1.0, 1.0, -1.0])
    size = np.array([np.sqrt((1 / np.diag(x)[y == s] ** 2).sum()) for s in (1.0, -1.0)])
    lam = 1 / (np.where(y > 0, *size) * np.diag(x) ** 2)
    problem = Problem(x, y, 0.0, None, width=2)
    side = np.where(np.array([[1.0], [-1.0]]) * y > 0, 1, -1)
    point = propose_both(problem, side, np.sqrt(size) * [1, -1], lam)
    assert isinstance(point, Point), point
    assert point.tau is not None
    assert verdicts([json.dumps(Certificate.of(problem, point).document)]) == ["accepted"]


def test_data_are_in_the_file_as_a_whole_or_not_at_all(document, verdicts):
    for key in ("x", "y"):
        about = {k: v for k, v in document["problem"]["data"].items() if k != key}
        half = document | {"problem": document["problem"] | {"data": about}}
        assert verdicts([json.dumps(half)]) == ["malformed"]
        x = [[float.fromhex(v) for v in row] for row in document["problem"]["data"]["x"]]
        y = [float.fromhex(v) for v in document["problem"]["data"]["y"]]
        assert "both 'x' and 'y'" in check.check(half, (x, y)).malformed


# --- what is printed ----------------------------------------------------------------------------------------


def printed(text, tmp_path, program=PROGRAM):
    """The output of a checker as a program, and its exit code."""
    file = tmp_path / "certificate.json"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", program] if program.suffix == ".py" else [shutil.which("node"), program]
    ran = subprocess.run([*map(str, command), str(file)], capture_output=True)
    assert not ran.stderr, ran.stderr.decode()
    return ran.stdout.decode(), ran.returncode


HOSTILE = [
    "\nproved  stays: all",
    "\r",
    "\x1b[2K\x1b[1A",
    "\u2028x",
    "\u202ex",
    "\x85",
    "\ud800",
    "\u200b",
    "\x00",
]


@pytest.mark.parametrize("suffix", [".py", ".js"])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_a_file_cannot_be_taken_for_a_verdict(document, tmp_path, suffix, text):
    program = PROGRAM.with_suffix(suffix)
    if suffix == ".js" and not shutil.which("node"):
        pytest.skip("there is no Node.js")
    plain = len(printed(json.dumps(document), tmp_path, program)[0].splitlines())
    forged = changed(changed(document, "claims", 4, "sentence", to=text), "claims", 4, "id", to=text)
    forged["followed"] = {text: text}
    out, code = printed(json.dumps(forged), tmp_path, program)
    assert (code, len(out.splitlines())) == (0, plain)
    assert all(line.isprintable() for line in out.splitlines())
    out, code = printed(json.dumps(document | {text: 1}), tmp_path, program)
    assert (code, len(out.splitlines())) == (2, 1)
    assert all(line.isprintable() for line in out.splitlines())


def test_what_a_certificate_says_of_itself_stays_on_its_lines(document):
    lines = len(str(Certificate(document)).splitlines())
    forged = changed(document, "problem", "data", "name", to="x\n  proved     everything")
    assert len(str(Certificate(forged)).splitlines()) == lines


def test_a_terminal_that_knows_few_letters_is_no_reason_to_fail(document, tmp_path):
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(changed(document, "claims", 4, "sentence", to="≤ 2")), encoding="utf-8")
    environment = {"PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([sys.executable, str(PROGRAM), str(file)], capture_output=True, env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\\u2264 2" in ran.stdout


def test_numbers_in_sentences_are_not_rounded(document):
    """A bound just below 2 must not be printed as 2: "stable rank <= 2 is false" may be false itself."""
    low = float.fromhex(document["claims"][3]["lower"])
    bound = low * (1 - 1e-9)
    claim = refutes("a/b", "-", "stable rank", "<=", bound)
    report = check.check(document | {"claims": [*document["claims"], claim]})
    assert report.accepted
    assert f"stable rank <= {bound!r} is false" in report.verdicts[-1].sentence
    radius = float.fromhex(document["claims"][1]["radius"])
    assert f"within {check.spoken(Fraction(radius))} of" in report.verdicts[1].sentence
    assert float(check.spoken(Fraction(radius))) == radius
    words = report.verdicts[3].sentence.removesuffix(".").split()
    claimed = [float.fromhex(document["claims"][3][key]) for key in ("lower", "upper")]
    assert [float(words[-3]), float(words[-1])] == claimed


def test_a_certificate_tells_bounds_that_are_rounded_to_the_safe_side(document):
    told = str(Certificate(document)).splitlines()[1].split()
    claim = {key: float.fromhex(document["claims"][3][key]) for key in ("lower", "upper")}
    place = told.index("from", told.index("stable"))
    assert float(told[place + 1]) <= claim["lower"]
    assert float(told[place + 3].rstrip(";.")) >= claim["upper"]
    assert float(told[told.index("within") + 1]) <= float.fromhex(document["claims"][1]["radius"])


def test_what_is_not_finite_is_told_as_text(cells):
    found = cells.solved(0, slope=0.1)
    certificate = Certificate.of(
        found.problem, found.propose(), followed={"error": np.inf, "b": float("nan")}
    )
    assert certificate.document["followed"] == {"error": "inf", "b": "nan"}
    assert certificate.check().accepted


# --- the reader's own table ---------------------------------------------------------------------------------


def test_a_first_row_with_a_gap_is_not_taken_for_names(document, tmp_path):
    """It is a sample. If it were left out, a certificate about the others would be one about this table."""
    x = [[float.fromhex(v) for v in row] for row in document["problem"]["data"]["x"]]
    y = [float.fromhex(v) for v in document["problem"]["data"]["y"]]
    rows = [",".join([*map(repr, row), f"{label:g}"]) for row, label in zip(x, y, strict=True)]
    certificate, table = tmp_path / "end.json", tmp_path / "mine.csv"
    certificate.write_text(json.dumps(document))
    for first, code in (
        ([], 0),
        (["a,b,c,y"], 0),
        (["0,1,2,label"], 0),
        (["a,b,c,last"], 0),
        (["NA,1,2,1"], 2),
        ([",1,2,1"], 2),
        (["1,2,3,1"], 2),
        (["0,1,y,label"], 2),
        (["a,b,c,1"], 2),
    ):
        table.write_text("\n".join([*first, *rows]) + "\n")
        assert check.main([str(certificate), "--data", str(table)]) == code, first
    table.write_text("\n".join(["a,b,y,label", *rows]) + "\n")
    assert check.main([str(certificate), "--data", str(table), "--label", "label"]) == 0
    assert check.main([str(certificate), "--data", str(table), "--label", "-1"]) == 0
    assert check.main([str(certificate), "--data", str(table), "--label", "c"]) == 2
