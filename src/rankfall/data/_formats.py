"""The file formats of the real data, from bytes to arrays: IDX, CIFAR-10's binary version, NumPy, tables."""

import csv
import io
import re
from dataclasses import dataclass

import numpy as np

CIFAR_RECORD = 1 + 3 * 32 * 32  # the label, then the red, the green and the blue plane, row by row
_IDX_BYTES = 0x08  # the type code of unsigned bytes, the only one that MNIST and its kin use
_SEPARATORS = ",;\t"
_GAPS = ("", "na", "n/a", "nan", "null", "none")
LABELS = ("y", "label", "target", "class")  # what a column of labels is usually called
NO_COMMAS = "write numbers with a decimal point, and without commas."


def idx(content: bytes, what: str) -> np.ndarray:
    """The array of unsigned bytes in an IDX file; `what` names it in the sentence of a refusal."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _IDX_BYTES:
        raise ValueError(
            f"{what} is not an IDX file of unsigned bytes: it starts with {content[:4].hex()!r}."
        )
    start = 4 + 4 * content[3]
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if len(shape) != content[3] or len(content) - start != np.prod(shape, dtype=np.int64):
        raise ValueError(
            f"{what} should have an array of {shape}, but {max(len(content) - start, 0):,} bytes follow."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def cifar(content: bytes, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The images (n x 3072: channel, row, column) and the labels in a file of CIFAR-10's binary version."""
    if not content or len(content) % CIFAR_RECORD:
        raise ValueError(
            f"{what} has {len(content):,} bytes, not a multiple of the {CIFAR_RECORD:,} of a CIFAR-10 image."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    return records[:, 1:], records[:, 0]


def cifar_bytes(x: np.ndarray, y: np.ndarray) -> bytes:
    """The binary version of the images x (n x 32 x 32 x 3) with the labels y."""
    planes = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return np.concatenate([y.reshape(-1, 1).astype(np.uint8), planes], axis=1).tobytes()


def npy_bytes(matrix: np.ndarray) -> bytes:
    """A `.npy` file of a float64 matrix, the same bytes with every version of NumPy."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {matrix.shape}, }}"
    size = -(-(10 + len(header) + 1) // 64) * 64 - 10  # padded to a multiple of 64, as the format asks
    start = b"\x93NUMPY\x01\x00" + size.to_bytes(2, "little")
    return start + header.ljust(size - 1).encode() + b"\n" + matrix.astype("<f8", order="C").tobytes()


def npy(content: bytes) -> np.ndarray:
    """The matrix in a `.npy` file; pickled objects are never loaded."""
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))


@dataclass(frozen=True)
class Table:
    """The text of a table: the names of its columns, and each column's cells."""

    header: list[str]
    columns: list[list[str]]
    what: str

    def numbers(self, column: int) -> np.ndarray | None:
        """The column as finite numbers, or None if it holds words; a mixture, or gaps alone, are refused."""
        cells = self.columns[column]
        try:
            values = np.array(cells, dtype=np.float64)
        except ValueError:
            values = np.array([_number(cell) for cell in cells])
            if np.isnan(values).all() and not all(is_gap(cell) or has_commas(cell) for cell in cells):
                return None
        bad = ~np.isfinite(values)
        if bad.any():
            row = int(np.argmax(bad))
            where = f"{self.what}: column {self.header[column]!r}, row {row + 1} below the header, is"
            if has_commas(cells[row]):
                raise ValueError(f"{where} {cells[row]!r}: {NO_COMMAS}")
            raise ValueError(f"{where} {cells[row]!r}, not a finite number: remove or impute it first.")
        return values

    def classes(self, column: int) -> np.ndarray:
        """The column as labels: numbers as they are, text as class numbers 0, 1, ... in sorted order."""
        values = self.numbers(column)
        if values is not None:
            return values
        gaps = [row for row, cell in enumerate(self.columns[column], 1) if is_gap(cell)]
        if gaps:
            raise ValueError(
                f"{self.what}: the label in row {gaps[0]} below the header is missing: remove such rows."
            )
        return class_numbers(np.array(self.columns[column]))


def class_numbers(labels: np.ndarray) -> np.ndarray:
    """Labels in words as the numbers 0, 1, ... of the classes in sorted order."""
    return np.unique(np.char.strip(labels), return_inverse=True)[1].astype(np.float64)


def table(content: bytes, what: str) -> Table:
    """The table in a csv file with a header row, separated by commas, semicolons or tabs."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not a text file in UTF-8: export it as .csv in that encoding.") from None
    lines = io.StringIO(text, newline="")
    mark, _ = separator(lines.readline())
    lines.seek(0)
    try:
        rows = [row for row in csv.reader(lines, delimiter=mark) if row]
    except csv.Error as error:
        raise ValueError(f"{what} is not a table: {error}.") from None
    if len(rows) < 2 or len(rows[0]) < 2:
        raise ValueError(
            f"{what} needs a header row, and below it rows with a label and one feature or more."
        )
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{what}: row {number} below the header has {len(row)} cells, but the header names "
                f"{len(rows[0])} columns."
            )
    header = [cell.strip() for cell in rows[0]]
    if all(np.isfinite(_number(cell)) for cell in header):
        raise ValueError(f"{what} must start with a row that names its columns, not with numbers.")
    return Table(header, [list(cells) for cells in zip(*rows[1:], strict=True)], what)


def separator(first: str) -> tuple[str, int]:
    """What separates the cells of a table with this first line, and into how many, quoted cells whole."""
    bare = re.sub('"[^"]*"', "", first)
    mark = max(_SEPARATORS, key=bare.count)
    return mark, bare.count(mark) + 1


def is_gap(cell: str) -> bool:
    """Does the cell say that nothing is known?"""
    return cell.strip().lower() in _GAPS


def has_commas(cell: str) -> bool:
    """Is the cell a number but for its commas, decimal ones or of thousands?"""
    return "," in cell and not np.isnan(_number(cell.replace(",", "")))


def fault(error: Exception) -> str:
    """What is the matter with a file whose reading ended so, as the rest of a sentence that names it."""
    if "allow_pickle" in str(error):
        return "cannot be read: it holds pickled objects, which could run anything and are never opened"
    told = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"is damaged or cannot be read: {told.rstrip('.')}"


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan
