import os
import subprocess
import sys

import pytest

from rankfall._atomic import atomically


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


KILLED = """
import os, signal, sys
from rankfall._atomic import atomically
with atomically(sys.argv[1]) as draft:
    draft.write_text("ha")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_never_read_and_swept_by_the_next(tmp_path):
    path = tmp_path / "run.txt"
    subprocess.run([sys.executable, "-c", KILLED, str(path)])
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".run.")
    alive = left.with_name(left.name.rsplit("-", 1)[0] + f"-{os.getppid()}.txt")
    alive.write_text("being written")
    with atomically(path) as draft:
        draft.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([alive, path])
