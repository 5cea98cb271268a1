"""From words on the command line to data: a file or a known set, its options, and how it is prepared."""

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rankfall.data import Data
    from rankfall.limits import Limit
    from rankfall.trajectory import Trajectory

ENDINGS = (".npz", ".npy", ".csv")
PREPARATIONS = ("pair", "subset", "split", "centre", "standardise", "with_bias", "symmetrise")

DataName = Annotated[
    str, typer.Argument(help="A file (.npz, .npy, .csv), or a set: symmetric_sine, xor, ..., or mnist, ...")
]
Label = Annotated[str | None, typer.Option(help="The label column of a .csv file.")]
DataOption = Annotated[
    list[str] | None,
    typer.Option("--data-option", "-d", help="key=value for a set, e.g. pairs=100."),
]
Prepare = Annotated[
    list[str] | None,
    typer.Option(
        "--prepare",
        "-p",
        help=f"Any of {', '.join(PREPARATIONS)}, with what they take: -p pair=0,1 -p subset=200.",
    ),
]


def read(data: str, label: str | None, options: list[str], preparations: list[str]) -> "Data":
    """A file, or a constructed or real set with its options; prepared."""
    found = _found(data, label, options)
    for each in preparations:
        found = _prepared(found, each)
    return found


def saved(path: Path) -> "Limit | Trajectory":
    """A limit or a run that was saved."""
    from rankfall.limits import Limit
    from rankfall.trajectory import Trajectory

    try:
        return Limit.load(path)
    except ValueError:
        return Trajectory.load(path)


def file_name(text: str) -> str:
    """The text as the name of a file: "mnist 0/1, 200 samples" has signs that none should have."""
    return re.sub(r"[^\w.+-]+", "-", text)


def _found(data: str, label: str | None, options: list[str]) -> "Data":
    from rankfall import data as sets
    from rankfall._naming import unknown

    if data.endswith(ENDINGS) or (data not in sets.real_sets() and Path(data).exists()):
        if options:
            raise ValueError("--data-option is for known sets; a file has no options.")
        return sets.load(data, label=label)
    if label is not None:
        raise ValueError("--label names a column of a .csv file; a known set has its own targets.")
    known = [*sets.CONSTRUCTED, *sets.real_sets()]
    if data not in known:
        raise unknown("file or data set", data, known)
    try:
        return getattr(sets, data)(**dict(map(_key_value, options)))
    except TypeError as error:
        raise ValueError(f"{data} does not take these options: {error}.") from None


def _prepared(data: "Data", preparation: str) -> "Data":
    """The data after one preparation, such as `pair=0,1`."""
    from rankfall import data as sets
    from rankfall._naming import unknown

    name, _, values = preparation.partition("=")
    if name not in PREPARATIONS:
        raise unknown("preparation", name, PREPARATIONS)
    given = [_value(name, value) for value in values.split(",")] if values else []
    try:
        return getattr(sets, name)(data, *given)
    except TypeError:
        taken = ", ".join(list(inspect.signature(getattr(sets, name)).parameters)[1:]) or "nothing"
        raise ValueError(f"--prepare {preparation} does not give {name} what it takes: {taken}.") from None


def _key_value(option: str) -> tuple[str, Any]:
    key, found, value = option.partition("=")
    if not found:
        raise ValueError(f"a data option is key=value, not {option!r}.")
    return key, _value(key, value)


def _value(key: str, value: str) -> Any:
    if value.isidentifier() and value not in ("True", "False", "None"):
        return value  # a word, as in features=genes
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise ValueError(
            f"the value of {key!r} must be a number, a word, True or False, not {value!r}."
        ) from None
