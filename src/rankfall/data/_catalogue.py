"""What is known of the real data: the files of each set, their checksums, who serves them, what to cite.

The facts are in `catalogue.toml`, which says how to read it.
"""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._naming import unknown


@dataclass(frozen=True)
class File:
    """A file by its content; `size` is 0 where it is not known."""

    name: str
    size: int
    checksum: str

    @property
    def algorithm(self) -> str:
        """The algorithm of the checksum."""
        return self.checksum.partition(":")[0]

    def fault(self, content: bytes) -> str | None:
        """What is wrong with this content; None if it is the file's, byte for byte."""
        if self.size and len(content) != self.size:
            return f"has {len(content):,} bytes instead of {self.size:,}"
        if checksum(content, self.algorithm) != self.checksum:
            return "has another content: its checksum is wrong"
        return None


@dataclass(frozen=True)
class RealSet:
    """A set of real data: `files` is what is kept, `downloads` what the mirrors serve.

    `samples` are those of the training part, and of the test part if there is one.
    """

    name: str
    title: str
    samples: tuple[int, ...]
    features: int
    classes: int
    files: tuple[File, ...]
    citation: str
    downloads: tuple[File, ...] = ()
    mirrors: tuple[str, ...] = ()
    source: str = ""  # where a user finds it, if there is no download that could be verified

    @property
    def size(self) -> int:
        """How many bytes it takes to fetch it, or to keep it if it cannot be fetched."""
        return sum(file.size for file in self.downloads or self.files)


def checksum(content: bytes, algorithm: str) -> str:
    """The checksum of a file's content, as the catalogue writes it."""
    if algorithm == "git":
        found = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
        found.update(content)
    else:
        found = hashlib.new(algorithm, content, usedforsecurity=False)
    return f"{algorithm}:{found.hexdigest()}"


def real_sets() -> Mapping[str, RealSet]:
    """All sets of real data, by their names."""
    return _LISTED.get()


def real_set(name: str) -> RealSet:
    """The set of this name."""
    if name not in (listed := real_sets()):
        raise unknown("set of real data", name, listed)
    return listed[name]


@contextmanager
def listing(*sets: RealSet) -> Iterator[None]:
    """In this context these sets are listed too, in place of those with the same names."""
    token = _LISTED.set({**real_sets(), **{each.name: each for each in sets}})
    try:
        yield
    finally:
        _LISTED.reset(token)


def identify(content: bytes) -> tuple[RealSet, File] | None:
    """The set and the file with exactly this content; None if no set has such a file."""
    likely = [
        (each, file) for each in real_sets().values() for file in each.files if file.size in (0, len(content))
    ]
    found = {name: checksum(content, name) for name in {file.algorithm for _, file in likely}}
    return next(((each, file) for each, file in likely if found[file.algorithm] == file.checksum), None)


def _file(line: str) -> File:
    name, size, found = line.split()
    return File(name, int(size), found)


def _read(name: str, facts: dict[str, Any]) -> RealSet:
    lists: dict[str, Any] = {key: tuple(map(_file, facts.get(key, ()))) for key in ("files", "downloads")}
    lists |= {"samples": tuple(facts["samples"]), "mirrors": tuple(facts.get("mirrors", ()))}
    return RealSet(name, **(facts | lists))


_FACTS = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
_LISTED: ContextVar[Mapping[str, RealSet]] = ContextVar(
    "catalogue", default=MappingProxyType({name: _read(name, facts) for name, facts in _FACTS.items()})
)
