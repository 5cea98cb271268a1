"""Mistakes in a paper of a user's own, in sentences: what is wrong, and in which line of the file."""

import dataclasses
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Mistake(ValueError):
    """Something that a paper, an experiment or a claim must not be; its sentence needs no explanation."""


def need(holds: bool, what: str, kind: str, value: Any) -> None:
    """`what` must be of this kind, in words; the value that is not is named by its type."""
    if not holds:
        raise Mistake(f"{what} must be {kind}, not {_a(value)}.")


def need_tuple(values: Any, what: str, kind: type) -> None:
    """`what` must be a tuple whose entries are of this type."""
    wanted = f"a tuple of {kind.__name__}"
    if isinstance(values, kind):
        raise Mistake(f"{what} must be {wanted}: write a comma after a single one, as in (ONE,).")
    need(isinstance(values, tuple), what, wanted, values)
    for each in values:
        if not isinstance(each, kind):
            raise Mistake(f"{what} must be {wanted}; {_a(each)} is in it.")


def twice(names: Iterable[str]) -> str | None:
    """The first name that is there more than once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _a(value: Any) -> str:
    """The type of a value with its article; None is no type for a reader."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


@contextmanager
def in_words(file: str, failed: str) -> Iterator[None]:
    """Run what a user's file brings; an error in it becomes a sentence that names the line.

    `failed` says what then went wrong: "the picture of limits does not run". Without a `file` the code is
    rankfall's own, and its errors stay as they are.
    """
    try:
        yield
    except Exception as error:
        if not file:
            raise
        raise ValueError(told(error, file, failed)) from error


def told(error: Exception, file: str, failed: str) -> str:
    """The error in a sentence: the file and the line, what failed, and why."""
    place = str(Path(file).resolve())
    line, said = _line(error, place), str(error)
    if isinstance(error, Mistake):
        return f"{file}{f', line {line}' if line else ''}: {said}"
    if isinstance(error, SyntaxError) and error.filename == place:
        said = error.msg  # without its own words for the place
    kind = type(error).__name__ + (f" in line {line}" if line else "")
    reason = f"{kind}: {said.rstrip('.')}." if said else f"{kind}."
    if isinstance(error, ValueError) and _raised_in(error) == dataclasses.__file__:  # a mutable default
        reason += " Settings hold tuples: (0.5, 0.3) in place of [0.5, 0.3]."
    return f"{file}: {failed}: {reason}"


def _raised_in(error: Exception) -> str:
    """The file whose code raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename if frames else ""


def _line(error: Exception, file: str) -> int | None:
    """The line of the file in which it happened; none if it happened elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)
