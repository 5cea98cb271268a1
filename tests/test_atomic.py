import pytest

from rankfall.atomic import atomically


def write_half(path):
    with atomically(path) as draft:
        draft.write_text("ha")
        raise OSError("disk full")


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "new" / "run.txt"
    with atomically(path) as draft:
        draft.write_text("whole")
        assert not path.exists()
        assert draft.suffix == ".txt"
    assert path.read_text() == "whole"
    with pytest.raises(OSError, match="disk full"):
        write_half(path)
    assert [(p.name, p.read_text()) for p in path.parent.iterdir()] == [("run.txt", "whole")]


def test_nothing_written_is_nothing_kept(tmp_path):
    with pytest.raises(FileNotFoundError), atomically(tmp_path / "run.txt"):
        pass
    assert not list(tmp_path.iterdir())
