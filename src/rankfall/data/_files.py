"""A user's own data from a file."""

import csv
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.lib.npyio import NpzFile

from .._naming import closest, suggestion, unknown
from . import _formats as formats
from ._dataset import Data

Reader = Callable[[Path, str | int | None, str], Data]


def load(path: str | Path, label: str | int | None = None, name: str | None = None) -> Data:
    """The data in a file, called `name` or else as the file is.

    - `.npz`: the arrays `x` (or `X`) and `y`; `label` names another array of targets. If not given and
      there is no `y`, it is the one array called label, target or class, in any case. If `x_test` and
      `y_test` (or `X_test`, `<label>_test`) are there as well, they become the test part.
    - `.npy`: one matrix, a row a sample. `label` is the number of the column with the targets, counted
      from 0, negative from the end; the last column if not given.
    - `.csv`: a header row, then numbers, separated by commas, semicolons or tabs. `label` is the name of
      the column with the targets; if not given, the one column called y, label, target or class, in any
      case. All other columns are features.

    Nothing is guessed about the content: text, empty cells and NaN are refused, with their place, and
    numbers stay as they are, so labels 0 and 1 stay 0 and 1. Pickled objects are never loaded.
    """
    return read_file(path, label, name, {".npz": npz, ".npy": npy, ".csv": _csv})


def read_file(
    path: str | Path, label: str | int | None, name: str | None, readers: Mapping[str, Reader]
) -> Data:
    """The data in a file by the reader for its ending; a sentence if there is nothing to read."""
    path = Path(path)
    try:
        if path.is_dir():
            raise ValueError(f"{path} is a directory, not a file with data.")
        if not path.exists():
            raise no_file(path)
        if path.suffix.lower() not in readers:
            raise unknown(f"file ending of {path}:", path.suffix, readers)
        if path.is_file() and not path.stat().st_size:
            raise ValueError(f"{path} is empty.")
        return readers[path.suffix.lower()](path, label, name or path.stem)
    except (OSError, EOFError, csv.Error) as error:
        raise ValueError(f"{path} {formats.fault(error)}.") from error


def no_file(path: Path) -> ValueError:
    """The exception to raise for a path with nothing there: it tells a file nearby that may be meant."""
    if path.is_symlink():
        return ValueError(f"{path} is a link that leads to no file.")
    nearby = ""
    with suppress(OSError):
        match = closest(path.name, sorted(p.name for p in path.parent.iterdir()))
        nearby = f" Did you mean {str(path.with_name(match))!r}?" if match is not None else ""
    if not path.parent.is_dir():
        nearby = f" There is no directory {path.parent} either."
    return ValueError(f"there is no file {path}.{nearby}")


def npz(
    path: Path,
    label: str | int | None,
    name: str,
    numbered: Callable[[Path, list[np.ndarray]], list[np.ndarray]] = lambda _, parts: parts,
) -> Data:
    """The data in an .npz file; `numbered` turns the targets of its parts into numbers."""
    with _archive(path) as archive:
        x = "X" if "X" in archive and "x" not in archive else "x"
        usual = [each for each in archive.files if each.lower() in formats.LABELS]
        y = str(label) if label is not None else usual[0] if len(usual) == 1 else "y"
        parts = [f"{x}_test" in archive, f"{y}_test" in archive]
        if any(parts) and not all(parts):
            raise ValueError(f"{path} needs both {x}_test and {y}_test for a test part, but has only one.")
        members = [y, f"{y}_test"] if all(parts) else [y]
        targets = numbered(path, [_array(path, archive, member) for member in members])
        test = Data(_array(path, archive, f"{x}_test"), targets[1], f"{name} test") if all(parts) else None
        return Data(_array(path, archive, x), targets[0], name, test)


@contextmanager
def _archive(path: Path) -> Iterator[NpzFile]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is not a valid .npz archive: save it with numpy.savez.")
        file.seek(0)
        try:
            archive = np.load(file, allow_pickle=False)
        except Exception as error:  # whatever zipfile and NumPy make of a damaged one
            raise ValueError(f"{path} {formats.fault(error)}.") from error
        with archive:
            yield archive


def _array(path: Path, archive: NpzFile, member: str) -> np.ndarray:
    if member not in archive:
        raise ValueError(f"{path} has no array {member!r}. {suggestion(member, archive.files)}")
    try:
        array = np.asarray(archive[member])
    except Exception as error:  # a damaged or pickled member fails in zipfile, in zlib or in NumPy
        raise ValueError(f"the array {member!r} of {path} {formats.fault(error)}.") from error
    return _real(array, f"the array {member!r} of {path}")


def _real(array: np.ndarray, what: str) -> np.ndarray:
    """The array, unless numbers could only be made of it by leaving something out."""
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"{what} holds {array.dtype} entries: give real numbers.")
    return array


def npy(path: Path, label: str | int | None, name: str) -> Data:
    """The data in an .npy file."""
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path} is not a valid .npy file: save it with numpy.save.")
    try:
        matrix = np.load(path, allow_pickle=False)
    except Exception as error:
        raise ValueError(f"{path} {formats.fault(error)}.") from error
    if _real(matrix, str(path)).ndim != 2 or matrix.shape[1] < 2:
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
            column = label_column(path, header, label)
            table = _numbers(file, delimiter)
        if table is None or table.shape[1] != len(header) or not np.isfinite(table).all():
            raise ValueError(_first_fault(path, delimiter, header))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8: export it as .csv in that encoding.") from None
    return Data(np.delete(table, column, axis=1), table[:, column], name)


def _header(path: Path, file: TextIO) -> tuple[str, list[str]]:
    """The delimiter, which is the one that gives most columns, and the names of the columns."""
    line = file.readline()
    delimiter, _ = formats.separator(line)
    header = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
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
            f"column {header.index('') + 1} of {path} has no name. If it numbers the rows, it is not a "
            "feature: remove it (pandas leaves it out with index=False)."
        )
    return delimiter, header


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == ""
    return True


def label_column(path: Path, header: list[str], label: str | int | None) -> int:
    """Which column of a table holds the targets: the one called `label`, or as labels usually are."""
    if label is None:
        usual = [i for i, column in enumerate(header) if column.lower() in formats.LABELS]
        if len(usual) != 1:
            raise ValueError(
                f"which column of {path} holds the targets? Name it by label=, or by --label on the command "
                f"line. {suggestion('label', header)}"
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
                return _about_cell(path, line, column, cell.strip())
    return f"{path} has a header row but no data." if not rows else f"{path} is not a table of numbers."


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with the numbers of their lines, counted from 1 as an editor does."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        next(reader)
        for row in reader:
            if row:
                yield reader.line_num, row


def _about_cell(path: Path, line: int, column: str, cell: str) -> str:
    where = f"column {column!r} of {path}, line {line},"
    if not cell:
        return f"{where} is empty: fill in a number, or remove the row or the column."
    if _is_number(cell):
        return f"{where} is {cell}: remove or impute NaN and infinite values first."
    if formats.has_commas(cell):
        return f"{where} is {cell!r}: {formats.NO_COMMAS}"
    return (
        f"{where} is {cell!r}, not a number. Remove the column if it is not a feature. Labels in words are "
        "not translated, because which class is +1 is your choice: replace them by -1 and +1, or 0, 1, 2, ..."
    )
