"""Where the real data are kept: a folder for each set, with nothing in it that was not verified.

A file comes into place by one renaming, after its content was verified, and is verified again whenever it
is read. What is under way is in folders called `.incoming-...`; if a process dies, the next one that
writes removes them. One process writes at a time: the others wait for the lock, which the operating
system takes from a process that dies.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ._catalogue import File, RealSet, real_set

_INCOMING = ".incoming-"
_DAMAGED = "damaged"


def folder() -> Path:
    """The folder of all sets: RANKFALL_DATA if this environment variable is set, or the user's cache."""
    if chosen := os.environ.get("RANKFALL_DATA"):
        return Path(os.path.expanduser(chosen))
    import pooch

    return Path(pooch.os_cache("rankfall"))


class NotHere(ValueError):
    """A file of real data is missing, or not what it should be."""


def place(each: RealSet, file: File) -> Path:
    """Where a file of a set is kept."""
    return folder() / each.name / file.name


def missing(each: RealSet) -> list[File]:
    """The files of a set that are not there, judged by their names and sizes: nothing is read."""
    return [file for file in each.files if not _looks_whole(place(each, file), file)]


def _looks_whole(path: Path, file: File) -> bool:
    try:
        size = path.stat().st_size if path.is_file() else -1
    except OSError:
        return False
    return size == file.size or (not file.size and size > 0)


def available(name: str) -> bool:
    """Is this set of real data here? Only looks, which takes no time; loading it verifies every byte."""
    return not missing(real_set(name))


def read(name: str, file_name: str) -> bytes:
    """The content of a file of a set, verified now; a sentence if it is missing, or not what it should be."""
    each = real_set(name)
    file = next(file for file in each.files if file.name == file_name)
    path = place(each, file)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotHere(f"{each.title} is not here: {how_to_get(each)}") from None
    except OSError as error:
        raise NotHere(f"{path} cannot be read ({error.strerror}): {how_to_get(each)}") from error
    if fault := file.fault(content):
        raise NotHere(f"{path} {fault}, so it is not used: {how_to_get(each)}")
    return content


def how_to_get(each: RealSet) -> str:
    """The sentence that says how a set comes here."""
    take = "`rankfall data import PATH` takes files you have"
    if each.downloads:
        return f"`rankfall data get {each.name}` fetches it ({size_text(each.size)}), {take}."
    return f"{take}. It comes from {each.source}."


def size_text(size: int) -> str:
    """A number of bytes as a person says it."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def is_kept(each: RealSet, file: File) -> bool:
    """Is this file here and right, byte for byte?"""
    path = place(each, file)
    try:
        return _looks_whole(path, file) and file.fault(path.read_bytes()) is None
    except OSError:  # it cannot be read, so it is to be replaced
        return False


def keep(each: RealSet, file: File, content: bytes, incoming: Path) -> Path:
    """Put a verified content into place by one renaming, so that nobody ever sees a part of it."""
    if fault := file.fault(content):
        raise ValueError(f"{file.name} of {each.name} {fault}, so it is not kept.")
    target = place(each, file)
    draft = incoming / f"{each.name}-{file.name}"
    with draft.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())  # or a power cut could leave the name without the content
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(draft, target)
    return target


def set_aside(path: Path, name: str) -> Path:
    """Move a wrong file to where it is never used, but can be looked at; returns where that is."""
    target = folder() / _DAMAGED / name
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)
    return target


@contextmanager
def writing() -> Iterator[Path]:
    """A folder for what is under way, while no other process writes; in the end it is gone.

    If the disk is full, or something is in the way, what is done in this context ends with a sentence.
    """
    root = folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".lock").open("a") as lock:
            if _locked(lock):
                for leftover in root.glob(f"{_INCOMING}*"):  # whoever made it is dead: the lock was free
                    shutil.rmtree(leftover, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=_INCOMING, dir=root) as incoming:
                yield Path(incoming)
    except OSError as error:
        where, why = error.filename2 or error.filename or root, error.strerror or error
        raise ValueError(
            f"{where} cannot be written to ({why}): make room, remove what is in the way, or set the "
            "environment variable RANKFALL_DATA to a folder that can."
        ) from error


def _locked(lock: IO[str]) -> bool:
    """Wait for the lock; False on a file system without locks, where unique names have to do."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"Another process is writing to {folder()}: waiting for it.", file=sys.stderr, flush=True)
    except OSError:
        return False
    else:
        return True
    fcntl.flock(lock, fcntl.LOCK_EX)
    return True
