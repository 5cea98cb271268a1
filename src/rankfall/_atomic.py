"""Files that are either whole or not there: written under a temporary name beside their own, then renamed."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path


@contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path to write to; if the `with` block succeeds it becomes `path`, otherwise it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = f".{path.stem}.{platform.node()}-"
    draft = path.with_name(f"{mark}{os.getpid()}{path.suffix}")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())  # on the disk before it has its name, also if the power fails
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    for left in path.parent.glob(f"{escape(mark)}*{escape(path.suffix)}"):
        number = left.name.removeprefix(mark).removesuffix(path.suffix)
        if number.isdigit() and not is_running(int(number)):
            left.unlink(missing_ok=True)  # of a process that was killed


def is_running(process: int) -> bool:
    """Is there a process of this number on this machine?"""
    with suppress(PermissionError):  # somebody else's
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
