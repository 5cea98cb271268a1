"""Which known file is this? Told by the content alone, in whatever archive or format it comes.

Archives are read member by member and never unpacked onto the disk, and nothing is ever unpickled.
"""

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import formats, store
from .catalogue import CATALOGUE, File, RealSet, identify

_LARGEST = 2**28  # bytes; no known file has as many, so a bomb of zeros is not blown up further
_GZIP = b"\x1f\x8b"
_PICKLES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    MemoryError,
    NotImplementedError,  # a compression that zipfile does not know
    RuntimeError,  # an encrypted archive
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
_FEATURES = ("genes", "transcripts", "introns")
_FOREIGN = "has a content that no known set has; rankfall.data.gene_expression reads tables of your own"


@dataclass(frozen=True)
class Found:
    """What was found in a file: a known file with its content as it is kept, or why it is refused."""

    where: str
    known: tuple[RealSet, File] | None = None
    content: bytes = b""
    refusal: str = ""
    foreign: bool = False  # nothing says that it is meant to be one of the sets


def take(path: str | Path) -> list[Found]:
    """Take the known files among those at a path into the cache, and tell of each what was found.

    The path is a file, a folder, or an archive (.gz, .tar, .zip) of the official files, or an .npz or .csv
    file with the same numbers. What it is is told by its content; what is damaged or not known is refused.
    """
    return list(taking(Path(path)))


def taking(path: Path) -> Iterator[Found]:
    """`take`, telling of each file as soon as it is taken."""
    if not path.exists():
        raise ValueError(f"there is no file {path}.")
    with store.writing() as incoming:
        for found in recognise(path):
            if found.known is not None and not store.is_kept(*found.known):
                store.keep(*found.known, found.content, incoming)
            yield replace(found, content=b"")  # it is in the cache, and may be large


def recognise(path: Path) -> Iterator[Found]:
    """What is in a file, in all files of a folder, or in all members of an archive."""
    if path.is_dir():
        for inner in sorted(inner for inner in path.rglob("*") if inner.is_file()):
            yield from recognise(inner)
        return
    if not path.is_file():
        yield Found(str(path), refusal="is neither a file nor a folder")
        return
    try:
        if _is_tar(path):
            yield from _tar(path)
        elif path.stat().st_size > _LARGEST:
            yield Found(str(path), refusal="is larger than any known file")
        else:
            yield from _blob(str(path), path.read_bytes())
    except _DAMAGE as error:
        yield Found(str(path), refusal=f"is damaged or cannot be read: {error}")


def _is_tar(path: Path) -> bool:
    """Is it a tar archive, compressed or not? Told by the mark in its first block."""
    with path.open("rb") as file:
        start = file.read(512)
    if start[:2] == _GZIP:
        try:
            with gzip.open(path) as file:
                start = file.read(512)
        except _DAMAGE:
            return False
    return start[257:262] == b"ustar"


def _tar(path: Path) -> Iterator[Found]:
    with tarfile.open(path) as archive:
        for member in archive:
            where = f"{path}: {member.name}"
            if member.isfile() and member.size > _LARGEST:
                yield Found(where, refusal="is larger than any known file")
            elif member.isfile() and (file := archive.extractfile(member)) is not None:
                yield from _blob(where, file.read())


def _blob(where: str, content: bytes, packed: bool = True) -> Iterator[Found]:
    """What one file holds: it is known as it is, or what is packed in it is."""
    if known := identify(content):
        yield Found(where, known, content)
        return
    try:
        if content[:2] == _GZIP:
            with gzip.open(io.BytesIO(content)) as file:
                candidates = [file.read(_LARGEST)]
        elif content[:4] == b"PK\x03\x04":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [member for member in archive.infolist() if not member.is_dir()]
                if packed and not all(member.filename.endswith(".npy") for member in members):
                    yield from _zip(where, archive, members)
                    return
                if sum(member.file_size for member in members) > _LARGEST:
                    yield Found(where, refusal="is larger than any known file")
                    return
            candidates = _of_npz(content)
        else:
            candidates = _of_table(content)
    except _DAMAGE as error:
        yield _refused(where, content) if _namesakes(where) else Found(where, refusal=f"is damaged: {error}")
        return
    found = [Found(where, known, each) for each in candidates if (known := identify(each))]
    yield from found or [_refused(where, content)]


def _zip(where: str, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Found]:
    for member in members:
        name = f"{where}: {member.filename}"
        if member.file_size > _LARGEST:
            yield Found(name, refusal="is larger than any known file")
        else:
            yield from _blob(name, archive.read(member), packed=False)


def _of_npz(content: bytes) -> list[bytes]:
    """A set in an .npz file: CIFAR-10's x and y, X and y of genes, or the three matrices of SEQC."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        names = set(arrays.files)
        if names >= {"y_3yr", "is_training"} | {f"X_{features}" for features in _FEATURES}:
            labels = [arrays["is_training"], arrays["y_3yr"]]
            kept = [np.column_stack([arrays[f"X_{features}"], *labels]) for features in _FEATURES]
            return [formats.npy_bytes(matrix) for matrix in kept]
        if "y" not in names or not names & {"x", "X"}:
            return []
        x, y = arrays["x" if "x" in names else "X"], arrays["y"]
    if x.shape[1:] == (32, 32, 3) and x.dtype == np.uint8 and y.shape == (len(x),):
        return [formats.cifar_bytes(x, y)]
    if x.ndim == 2 and x.dtype.kind in "fiu" and y.shape == (len(x),):
        labels_of = y if y.dtype.kind in "fiub" else formats.class_numbers(y)
        return [formats.npy_bytes(np.column_stack([x, labels_of]))]
    return []


def _of_table(content: bytes) -> list[bytes]:
    """A table of genes, with its label column moved to the end; which column that is has to be tried."""
    header = content[: 2**20].partition(b"\n")[0]
    width = 1 + max(header.count(mark) for mark in (b",", b";", b"\t"))
    if b"\0" in header or not any(0 < width - each.features < 4 for each in CATALOGUE.values()):
        return []  # no table of a known set, and perhaps a large one
    try:
        table = formats.table(content, "the file")
        columns = [table.numbers(i) if name else None for i, name in enumerate(table.header)]
    except ValueError:
        return []
    named = [i for i, name in enumerate(table.header) if name.lower() in formats.LABELS]
    candidates = []
    for label in dict.fromkeys([*named, len(columns) - 1, 0]):
        features = [values for i, values in enumerate(columns) if i != label and values is not None]
        if features:
            candidates.append(formats.npy_bytes(np.column_stack([*features, table.classes(label)])))
    return candidates


def _refused(where: str, content: bytes) -> Found:
    """The most helpful thing that can be said of a file that is not known."""
    name = _name(where)
    faults = [f"of {each.title} {file.fault(content)}" for each, file in _namesakes(where)]
    if faults:
        nor = "; that ".join(faults)
        return Found(where, refusal=f"is not what it is called: {name} {nor}. It is damaged, or another file")
    if content[:1] == b"\x80" or name in _PICKLES:
        return Found(
            where,
            refusal="is a pickle, which could run anything and is never opened: "
            "CIFAR-10 is taken from cifar-10-binary.tar.gz",
        )
    if content[:3] == b"\0\0\x08":
        return Found(
            where, refusal="is an IDX file, but not of MNIST; of Fashion-MNIST the official .gz are taken"
        )
    return Found(where, refusal=_FOREIGN, foreign=True)


def _name(where: str) -> str:
    return where.replace(": ", "/").rpartition("/")[2]


def _namesakes(where: str) -> list[tuple[RealSet, File]]:
    """The known files that are called like this one, as they are kept or as the mirrors serve them."""
    return [
        (each, file)
        for each in CATALOGUE.values()
        for file in dict.fromkeys(each.files + each.downloads)
        if file.name == _name(where)
    ]
