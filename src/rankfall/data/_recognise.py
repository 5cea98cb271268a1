"""Which known file is this? Told by the content alone, in whatever archive or format it comes.

Archives are read member by member and never unpacked onto the disk, and nothing is ever unpickled.
"""

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from . import _formats as formats
from . import _store as store
from ._catalogue import File, RealSet, identify, real_sets
from ._files import no_file

_LARGEST = 2**28  # bytes; no known file has as many, so a bomb of zeros is not blown up further
_LARGEST_TEXT = 2**26
_GZIP = b"\x1f\x8b"
_PICKLES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
_UNOPENED = (b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!")
_FEATURES = ("genes", "transcripts", "introns")
_SEQC = ("is_training", "y_3yr", *(f"X_{features}" for features in _FEATURES))
_FOREIGN = (
    "has a content that no known set has. Gene sets are taken as .csv with a label column, or as .npz with X "
    "and y; rankfall.data.gene_expression reads tables of your own"
)


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
        raise no_file(path)
    with store.writing() as incoming:
        for found in recognise(path):
            if found.known is not None and not store.is_kept(*found.known):
                store.keep(*found.known, found.content, incoming)
            yield replace(found, content=b"")  # it is in the cache, and may be large


def recognise(path: Path) -> Iterator[Found]:
    """What is in a file, in all files of a folder, or in all members of an archive."""
    if path.is_dir():
        yield from _folder(path)
        return
    if not path.is_file():
        yield Found(str(path), refusal="is neither a file nor a folder")
        return
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == _GZIP
        with gzip.GzipFile(path) if packed else path.open("rb") as file:
            if _is_tar(file):
                yield from _tar(path, file)
                return
        if path.stat().st_size > _LARGEST:
            yield Found(str(path), refusal="is larger than any known file", foreign=True)
        else:
            yield from _blob(str(path), path.read_bytes())
    except Exception as error:  # one bad file must not end the import of the others
        yield Found(str(path), refusal=formats.fault(error))


def _folder(path: Path) -> Iterator[Found]:
    unread: list[OSError] = []
    walk = os.walk(path, onerror=unread.append)
    paths = [os.path.join(folder, name) for folder, _, names in walk for name in names]
    files = [Path(each) for each in paths if os.path.isfile(each)]
    yield from (Found(str(error.filename), refusal=formats.fault(error)) for error in unread)
    if not files and not unread:
        yield Found(str(path), refusal="is a folder without files")
    for file in sorted(files):
        yield from recognise(file)


def _is_tar(file: io.BufferedIOBase) -> bool:
    """Does a tar archive start here? Told by the mark in its first block, or the checksum of old ones."""
    try:
        start = file.read(512)
        file.seek(0)
        return start[257:262] == b"ustar" or bool(tarfile.TarInfo.frombuf(start, "utf-8", "replace"))
    except Exception:  # no header, or a damaged file: `_blob` says so
        return False


def _tar(path: Path, file: io.BufferedIOBase) -> Iterator[Found]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            where = f"{path}: {member.name}"
            if member.isfile() and member.size > _LARGEST:
                yield Found(where, refusal="is larger than any known file", foreign=True)
            elif member.isfile() and (content := archive.extractfile(member)) is not None:
                yield from _blob(where, content.read())
        # The archive ends with zeros. Where they are not, tarfile just stops, as if there were no more files;
        # and only the end of a compressed file has its checksum.
        file.seek(archive.offset)
        zeros = file.read(512) == bytes(512)
        while more := file.read(2**20):
            zeros = zeros and not more.strip(b"\0")
        if not zeros:
            at = f"at byte {archive.offset:,} there is neither a file nor the end"
            yield Found(str(path), refusal=f"is damaged: {at}, and what follows was not read")


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
                members = [member for member in archive.infolist() if not member.filename.endswith("/")]
                if packed and not all(member.filename.endswith(".npy") for member in members):
                    yield from _zip(where, archive, members)
                    return
                if sum(member.file_size for member in members) > _LARGEST:
                    yield Found(where, refusal="is larger than any known file", foreign=True)
                    return
            candidates = _of_npz(content)
        else:
            candidates = _with_other_line_ends(content) + _of_table(content)
    except Exception as error:
        yield _refused(where, content) if _namesakes(where) else Found(where, refusal=formats.fault(error))
        return
    found = [Found(where, known, each) for each in candidates if (known := identify(each))]
    yield from found or [_refused(where, content, *candidates)]


def _zip(where: str, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Found]:
    for member in members:
        name = f"{where}: {member.filename}"
        if member.file_size > _LARGEST:
            yield Found(name, refusal="is larger than any known file", foreign=True)
            continue
        try:
            content = archive.read(member)
        except Exception as error:
            yield Found(name, refusal=formats.fault(error))
        else:
            yield from _blob(name, content, packed=False)


def _of_npz(content: bytes) -> list[bytes]:
    """A set in an .npz file: CIFAR-10's x and y, X and y of genes, or the three matrices of SEQC."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        held = {name: np.asarray(arrays[name]) for name in (*_SEQC, "X", "x", "y") if name in arrays}
    if any(array.dtype.kind not in "biufUS" for array in held.values()):
        return []
    if held.keys() >= set(_SEQC):
        labels = [held["is_training"], held["y_3yr"]]
        return [formats.npy_bytes(np.column_stack([held[f"X_{each}"], *labels])) for each in _FEATURES]
    if "y" not in held or not held.keys() & {"x", "X"}:
        return []
    x, y = held["x" if "x" in held else "X"], held["y"]
    if x.shape[1:] == (32, 32, 3) and x.dtype == np.uint8 and y.dtype.kind in "iu" and y.shape == (len(x),):
        return [formats.cifar_bytes(x, y)]
    if x.ndim == 2 and x.dtype.kind in "fiu" and y.shape == (len(x),):
        labels_of = y if y.dtype.kind in "fiub" else formats.class_numbers(y)
        return [formats.npy_bytes(np.column_stack([x, labels_of]))]
    return []


def _with_other_line_ends(content: bytes) -> list[bytes]:
    """The same text as it is after a way through Windows, Unix or git."""
    if len(content) > _LARGEST_TEXT or b"\0" in content:
        return []
    lines = [line for line in content.splitlines() if line]
    return [mark.join(lines) + end for mark in (b"\n", b"\r\n") for end in (b"", mark)]


def _of_table(content: bytes) -> list[bytes]:
    """A table of genes, with its label column moved to the end; which column that is has to be tried."""
    header = content[: 2**20].partition(b"\n")[0]
    _, width = formats.separator(header.decode("utf-8", "replace"))
    if b"\0" in header or not any(0 < width - each.features < 4 for each in real_sets().values()):
        return []  # no table of a known set, and perhaps a large one
    try:
        table = formats.table(content, "the file")
        columns = [table.numbers(i) if name else None for i, name in enumerate(table.header)]
        named = [i for i, name in enumerate(table.header) if name.lower() in formats.LABELS]
        candidates = []
        for label in dict.fromkeys([*named, len(columns) - 1, 0]):
            features = [values for i, values in enumerate(columns) if i != label and values is not None]
            if features:
                candidates.append(formats.npy_bytes(np.column_stack([*features, table.classes(label)])))
    except ValueError:  # gaps, or no table at all
        return []
    return candidates


def _refused(where: str, content: bytes, *unpacked: bytes) -> Found:
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
    if any(each.startswith(_UNOPENED) or _is_tar(io.BytesIO(each)) for each in (content, *unpacked)):
        return Found(
            where,
            refusal="is an archive of a kind that is not opened, or inside another one: unpack it first, or "
            "bring it as .gz, .tar, .tar.gz or .zip",
        )
    endings = (".npz", ".csv")
    if called := [each.title for each in real_sets().values() for end in endings if name == each.name + end]:
        return Found(
            where,
            refusal=f"is called like {called[0]}, but has other numbers: they must be the same, in the same "
            "order and unrounded. rankfall.data.gene_expression reads it as a table of your own",
        )
    return Found(where, refusal=_FOREIGN if content else "is empty", foreign=True)


def _name(where: str) -> str:
    return where.replace(": ", "/").rpartition("/")[2]


def _namesakes(where: str) -> list[tuple[RealSet, File]]:
    """The known files that are called like this one, as they are kept or as the mirrors serve them."""
    return [
        (each, file)
        for each in real_sets().values()
        for file in dict.fromkeys(each.files + each.downloads)
        if file.name == _name(where)
    ]
