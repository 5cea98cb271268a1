"""A user's own data from a file."""

import csv
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.lib.npyio import NpzFile

from ..naming import closest, suggestion, unknown
from .dataset import Data

_USUAL_LABELS = ("y", "label", "target")


def load(path: str | Path, label: str | int | None = None, name: str | None = None) -> Data:
    """The data in a file, called `name` or else as the file is.

    - `.npz`: the arrays `x` (or `X`) and `y`; `label` names another array of targets. If `x_test` and
      `y_test` (or `X_test`, `<label>_test`) are there as well, they become the test part.
    - `.npy`: one matrix, a row a sample. `label` is the number of the column with the targets, counted
      from 0, negative from the end; the last column if not given.
    - `.csv`: a header row, then numbers, separated by commas, semicolons or tabs. `label` is the name of
      the column with the targets; if not given, the one column called y, label or target, in any case.
      All other columns are features.

    Nothing is guessed about the content: text, empty cells and NaN are refused, with their place, and
    numbers stay as they are, so labels 0 and 1 stay 0 and 1. Pickled objects are never loaded.
    """
    path = Path(path)
    readers = {".npz": _npz, ".npy": _npy, ".csv": _csv}
    if path.is_dir():
        raise ValueError(f"{path} is a directory, not a file with data.")
    if not path.exists():
        raise ValueError(f"there is no file {path}.{_nearby(path)}")
    if path.suffix.lower() not in readers:
        raise unknown(f"file ending of {path}:", path.suffix, readers)
    try:
        return readers[path.suffix.lower()](path, label, name or path.stem)
    except (OSError, EOFError, csv.Error, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no directory {path.parent} either."
    match = closest(path.name, sorted(p.name for p in path.parent.iterdir()))
    return f" Did you mean {str(path.with_name(match))!r}?" if match is not None else ""


def _npz(path: Path, label: str | int | None, name: str) -> Data:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is no .npz archive in spite of its ending, or damaged: save it with numpy.savez."
        )
    with np.load(path, allow_pickle=False) as archive:
        x = "X" if "X" in archive and "x" not in archive else "x"
        y = "y" if label is None else str(label)
        parts = [f"{x}_test" in archive, f"{y}_test" in archive]
        if any(parts) and not all(parts):
            raise ValueError(f"{path} needs both {x}_test and {y}_test for a test part, but has only one.")
        test = None
        if all(parts):
            test = Data(
                _array(path, archive, f"{x}_test"), _array(path, archive, f"{y}_test"), f"{name} test"
            )
        return Data(_array(path, archive, x), _array(path, archive, y), name, test)


def _array(path: Path, archive: NpzFile, member: str) -> np.ndarray:
    if member not in archive:
        raise ValueError(f"{path} has no array {member!r}. {suggestion(member, archive.files)}")
    try:
        return np.asarray(archive[member])
    except Exception as error:  # a damaged or pickled member fails in zipfile, in zlib or in NumPy
        raise ValueError(f"the array {member!r} of {path} cannot be read: {error}") from error


def _npy(path: Path, label: str | int | None, name: str) -> Data:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(
                f"{path} is no .npy array in spite of its ending, or damaged: save it with numpy.save."
            )
    try:
        matrix = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            f"{path} must hold a matrix, a row a sample, with a column of targets and at least one of "
            f"features, but its shape is {matrix.shape}. For separate x and y use numpy.savez."
        )
    column = _column_number(path, label, matrix.shape[1])
    return Data(np.delete(matrix, column, axis=1), matrix[:, column], name)


def _column_number(path: Path, label: str | int | None, columns: int) -> int:
    try:
        column = int(label) if label is not None else -1
    except ValueError:
        raise ValueError(
            f"the columns of {path} have no names: label must be a number from 0 to {columns - 1}, "
            f"not {label!r}."
        ) from None
    if not -columns <= column < columns:
        raise ValueError(f"{path} has the columns 0 to {columns - 1}, but label is {column}.")
    return column


def _csv(path: Path, label: str | int | None, name: str) -> Data:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter, header = _header(path, file)
            column = _label_column(path, header, label)
            table = _numbers(file, delimiter)
        if table is None or table.shape[1] != len(header) or not np.isfinite(table).all():
            raise ValueError(_first_fault(path, delimiter, header))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8: export it as .csv in that encoding.") from None
    return Data(np.delete(table, column, axis=1), table[:, column], name)


def _header(path: Path, file: TextIO) -> tuple[str, list[str]]:
    """The delimiter, which is the one that gives most columns, and the names of the columns."""
    line = file.readline()
    rows = {mark: next(csv.reader([line], delimiter=mark), []) for mark in ",;\t"}
    delimiter = max(rows, key=lambda mark: len(rows[mark]))
    header = [cell.strip() for cell in rows[delimiter]]
    if all(_is_number(cell) for cell in header):
        raise ValueError(
            f"{path} must start with a row that names its columns, but its first row is "
            f"{line.strip()[:40]!r}. Add one, for example x1,x2,y."
        )
    if len(header) < 2:
        raise ValueError(
            f"{path} has the column {header[0]!r} only, but needs a column of targets and at least one of "
            "features, separated by commas, semicolons or tabs."
        )
    if "" in header:
        raise ValueError(
            f"column {header.index('') + 1} of {path} has no name. If it numbers the rows, it is no feature: "
            "remove it (pandas leaves it out with index=False)."
        )
    return delimiter, header


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == ""
    return True


def _label_column(path: Path, header: list[str], label: str | int | None) -> int:
    if label is None:
        usual = [i for i, column in enumerate(header) if column.lower() in _USUAL_LABELS]
        if len(usual) != 1:
            raise ValueError(
                f"which column of {path} holds the targets? Name it as label. {suggestion('y', header)}"
            )
        return usual[0]
    if str(label) not in header:
        raise ValueError(f"{path} has no column {str(label)!r}. {suggestion(label, header)}")
    if header.count(str(label)) > 1:
        raise ValueError(f"{path} has {header.count(str(label))} columns named {str(label)!r}: rename them.")
    return header.index(str(label))


def _numbers(file: TextIO, delimiter: str) -> np.ndarray | None:
    """The rest of the file as a matrix; None if it is not one. The fault is looked for only then."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            return np.loadtxt(file, delimiter=delimiter, quotechar='"', comments=None, ndmin=2)
        except UnicodeDecodeError:
            raise
        except ValueError:
            return None


def _first_fault(path: Path, delimiter: str, header: list[str]) -> str:
    """The sentence about the first row that is not one finite number for each column."""
    rows = 0
    for line, row in _rows(path, delimiter):
        rows += 1
        if len(row) != len(header):
            return f"line {line} of {path} has {len(row)} cells, but the header names {len(header)} columns."
        for column, cell in zip(header, row, strict=True):
            if not _is_number(cell) or not cell.strip() or not np.isfinite(float(cell)):
                return _about_cell(path, line, column, cell.strip(), delimiter)
    return f"{path} has a header row but no data." if not rows else f"{path} is not a table of numbers."


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with the numbers of their lines, counted from 1 as an editor does."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        next(reader)
        for row in reader:
            if row:
                yield reader.line_num, row


def _about_cell(path: Path, line: int, column: str, cell: str, delimiter: str) -> str:
    where = f"column {column!r} of {path}, line {line},"
    if not cell:
        return f"{where} is empty: fill in a number, or remove the row or the column."
    if _is_number(cell):
        return f"{where} is {cell}: remove or impute NaN and infinite values first."
    if delimiter != "," and _is_number(cell.replace(",", ".")):
        return f"{where} is {cell!r}: write numbers with a decimal point, not a comma."
    return (
        f"{where} is {cell!r}, not a number. Remove the column if it is no feature. Labels in words are not "
        "translated, because which class is +1 is yours to say: replace them by -1 and +1, or by 0, 1, 2, ..."
    )
