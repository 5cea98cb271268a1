"""How long a user waits until `rankfall limit` begins to search, beside the import of what it computes with.

The time is that from the start of the process to the line that says how large the problem is, which is
printed right before the search. Where the history of the repository is, the same is measured of a commit
from before the imports were put off.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rankfall as rf
from benchmarks.before import COMMIT, ROOT, source_before, with_source
from benchmarks.table import Row, duration
from benchmarks.timing import side_by_side

LIMIT = ("-m", "rankfall", "limit", "data.csv", "--label", "y", "--slope", "0.1", "--width", "20")
PEER = ("-c", "import jax, numpy, scipy.optimize; print()")


def first_line(words: tuple[str, ...], source: Path, folder: Path) -> None:
    """Wait until a process of Python has printed its first line, and end it."""
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=with_source(source), cwd=folder) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    if not line:
        raise RuntimeError(f"this printed nothing: {' '.join(command)}")


def write_data(file: Path) -> None:
    """A small problem of a user's."""
    data = rf.data.gaussian_mixture(n=16, dim=20, seed=0)
    head = ",".join([*(f"x{i}" for i in range(data.dim)), "y"])
    rows = [",".join(map(repr, [*map(float, x), int(y)])) for x, y in zip(data.x, data.y, strict=True)]
    file.write_text("\n".join([head, *rows]), encoding="utf-8")


def bench() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data.csv")
        waits: list[Callable[[], None]] = [
            partial(first_line, LIMIT, ROOT / "src", folder),
            partial(first_line, PEER, ROOT / "src", folder),
        ]
        old = source_before(folder)
        if old is not None:
            waits.append(partial(first_line, LIMIT, old, folder))
        ours, peer, *before = side_by_side(waits)
    what = (
        "from the start of the process to the beginning of the search of `rankfall limit`, against "
        "`import jax, numpy, scipy.optimize`"
    )
    rows = [Row("start of a limit", duration(ours), duration(peer), ours / peer, what)]
    for time in before:
        what = f"the same, against the commit {COMMIT}"
        rows.append(Row("start, before", duration(ours), duration(time), ours / time, what))
    return rows
