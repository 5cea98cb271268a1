import gzip
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rankfall.cli import main
from rankfall.data import _catalogue as catalogue
from rankfall.data import _download as download


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def rankfall(monkeypatch, capsys, tmp_path):
    """`rankfall ...` in an empty folder with an empty cache, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("RANKFALL_MIRROR", "http://127.0.0.1:9")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["rankfall", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(end.value.code, *capsys.readouterr())

    # Nothing here may leave the machine.
    with catalogue.listing(*(replace(each, mirrors=()) for each in catalogue.real_sets().values())):
        yield call


def test_the_list_names_every_set_in_eighty_columns(rankfall, tmp_path):
    answer = rankfall("data", "list")
    assert answer.code == 0
    for name in catalogue.real_sets():
        assert f"│ {name} " in answer.out
    assert "60,000 x 3,072" in answer.out
    assert str(tmp_path / "cache") in answer.out
    assert not (tmp_path / "cache").exists()


def test_where_is_a_path_that_a_shell_can_use(rankfall, tmp_path):
    assert rankfall("data", "where").out == f"{tmp_path / 'cache'}\n"
    assert rankfall("data", "where", "mnist").out == f"{tmp_path / 'cache' / 'mnist'}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("get", "mnits"), "unknown set of real data 'mnits'. Did you mean 'mnist'?"),
        (("get", "all", "bogus"), "unknown set of real data 'bogus'"),
        (("get", "gordon"), "gordon has no download whose content could be verified"),
        (("get", "mnist"), "`rankfall data import PATH` takes it"),
        (("where", "x"), "unknown set of real data 'x'"),
        (("import", "nothing.gz"), "there is no file nothing.gz."),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(rankfall, words, sentence):
    answer = rankfall("data", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("rankfall: ")
    assert sentence in answer.err
    assert "Traceback" not in answer.err


def test_an_import_says_what_it_took_and_what_it_refused_and_why(rankfall, tmp_path, sample, autism):
    folder = tmp_path / "mine"
    folder.mkdir()
    labels = sample("mnist/t10k-labels-idx1-ubyte.gz").read_bytes()
    (folder / "labels.gz").write_bytes(labels)
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(labels[:1000])
    (folder / "notes.txt").write_text("mine")
    answer = rankfall("data", "import", folder, autism)
    assert answer.code == 2  # one of them was meant to be a known file, and is not
    assert f"took: {folder / 'labels.gz'} is t10k-labels-idx1-ubyte of MNIST" in answer.out
    assert "mnist: still missing train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images" in answer.out
    assert "left alone: 1 other files" in answer.out
    assert f"autism: complete, in {tmp_path / 'cache' / 'autism'}" in answer.out
    assert "t10k-labels-idx1-ubyte.gz of MNIST has 1,000 bytes instead of 4,542" in answer.err
    assert "│ 1 of 4 │ get" in rankfall("data", "list").out
    assert rankfall("data", "get", "autism").out == f"autism: verified, in {tmp_path / 'cache' / 'autism'}\n"


def test_what_is_foreign_in_a_folder_is_no_failure(rankfall, tmp_path, autism):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "autism.csv").write_bytes(autism.read_bytes())
    (folder / "notes.txt").write_text("mine")
    (folder / "empty").write_text("")
    answer = rankfall("data", "import", folder)
    assert (answer.code, answer.err) == (0, "")
    assert "left alone: 2 other files" in answer.out


def test_get_says_that_it_fetched_only_what_it_fetched(rankfall, tmp_path, autism, monkeypatch):
    official = autism.read_bytes()
    kept = tmp_path / "cache" / "autism" / "autism.csv"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"B" + official[1:])  # the right size, so that it looks whole
    monkeypatch.setattr(download, "_transfer", lambda address, path, size, shown: path.write_bytes(official))
    assert rankfall("data", "get", "autism").out.startswith("autism: fetched and verified, in ")
    assert rankfall("data", "get", "autism").out.startswith("autism: verified, in ")


def test_a_reader_that_has_seen_enough_of_the_list_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path))
    end, start = os.pipe()
    os.close(end)
    listing = subprocess.run(
        [sys.executable, "-m", "rankfall", "data", "list"], stdout=start, stderr=subprocess.PIPE
    )
    os.close(start)
    assert (listing.returncode, listing.stderr) == (0, b"")


def test_an_import_of_nothing_known_ends_with_code_2(rankfall, tmp_path):
    (tmp_path / "notes.gz").write_bytes(gzip.compress(b"mine"))
    answer = rankfall("data", "import", "notes.gz")
    assert (answer.code, answer.out) == (2, "")
    assert "refused: notes.gz has a content that no known set has" in answer.err
    assert answer.err.endswith("rankfall: nothing was taken.\n")


def test_ctrl_c_is_a_sentence_and_nothing_is_left(rankfall, tmp_path, monkeypatch):
    def interrupted(address, path, size, shown):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_transfer", interrupted)
    answer = rankfall("data", "get", "mnist")
    assert answer.code == 3
    assert answer.err == "rankfall: stopped. What was complete is kept, nothing else is left.\n"
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == [".lock"]


def test_a_real_set_has_its_name_on_the_command_line(rankfall):
    answer = rankfall("assess", "gordon")
    assert answer.code == 2
    assert "gordon is not here: `rankfall data import PATH` takes files you have" in answer.err
    assert "does not take these options" in rankfall("assess", "gordon", "-d", "n=3").err
    assert "a known set has its own targets" in rankfall("assess", "gordon", "--label", "y").err


def test_a_real_set_is_read_with_its_options(rankfall, tmp_path):
    from rankfall.cli.input import read

    content = b"\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02" + bytes([0, 255])
    label = b"\0\0\x08\x01\0\0\0\x01\x07"
    files = []
    for part in ("train", "t10k"):
        for name, held in ((f"{part}-images-idx3-ubyte", content), (f"{part}-labels-idx1-ubyte", label)):
            files.append(catalogue.File(name, len(held), catalogue.checksum(held, "sha256")))
            (tmp_path / "cache" / "mnist").mkdir(parents=True, exist_ok=True)
            (tmp_path / "cache" / "mnist" / name).write_bytes(held)
    with catalogue.listing(replace(catalogue.real_set("mnist"), files=tuple(files))):
        data = read("mnist", None, ["mean=0.5", "std=0.25"], [])
    np.testing.assert_array_equal(data.x, [[-2, 2]])
    assert data.y.tolist() == [7]
