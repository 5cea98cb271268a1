"""Settings: the numbers of an experiment, as a frozen dataclass whose defaults are those of the paper."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rankfall._identity import stable_name
from rankfall._naming import unknown
from rankfall.data import Data

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


def changed(setting: S, changes: Mapping[str, Any]) -> S:
    """The setting with some of its numbers replaced: `changed(setting, {"n": 20, "slope": 0.3})`.

    Where a field holds several numbers its singular is one of them: slope=0.3 means slopes=(0.3,).
    """
    found: dict[str, Any] = {}
    for name, value in changes.items():
        field, many = _field(setting, name)
        if field in found:
            raise ValueError(f"{field} is set twice.")
        found[field] = _fitting(name, (value,) if many else value, getattr(setting, field))
    return replace(setting, **found)


def parsed(setting: Any, assignments: Iterable[str]) -> dict[str, Any]:
    """Changes written as on the command line: "n=20", "slopes=0.1,0.3", "loss=logistic"."""
    found: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, as in --set n=20; this is {text!r}.")
        field, many = _field(setting, name.strip())
        if field in found:
            raise ValueError(f"{field} is set twice.")
        before = getattr(setting, field)
        read = _read(name.strip(), value.strip(), before[0] if many else before)
        found[field] = (read,) if many else read
    return found


def text_of(value: Any) -> str:
    """A value of a setting as text: equal values in equal order have equal texts, and others another one.

    Functions of this package count by their name, a user's own by all that they hold; data by their numbers.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {text_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(text_of, value)) + ")"
    if isinstance(value, Data):
        numbers = hashlib.sha256(np.ascontiguousarray(value.x).tobytes() + np.asarray(value.y).tobytes())
        return f"{value.name} {numbers.hexdigest()[:8]}"
    if callable(value):
        plain = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '<>')}"
        ours = plain.startswith("rankfall.") and "<" not in plain  # its code counts with its module
        return plain if ours else stable_name(value)
    return repr(value)


def values(setting: Any) -> dict[str, str]:
    """The fields of a setting and their values, as text."""
    return {field.name: text_of(getattr(setting, field.name)) for field in fields(setting)}


def differences(setting: Any, usual: Any) -> str:
    """What differs from the usual setting, as a reader wants it: "n = 20 (paper: 8)"."""
    now, then = values(setting), values(usual)
    return ", ".join(
        f"{name} = {value} (paper: {then[name]})" for name, value in now.items() if value != then[name]
    )


def _field(setting: Any, name: str) -> tuple[str, bool]:
    """The field of this name, and whether the name is its singular."""
    names = [field.name for field in fields(setting)]
    if name in names:
        return name, False
    for plural in (f"{name}s", f"{name}es"):
        if plural in names and isinstance(getattr(setting, plural), tuple) and getattr(setting, plural):
            return plural, True
    raise unknown("setting", name, names)


def _fitting(name: str, value: Any, before: Any) -> Any:
    """The value, if it is of the kind of the present one; whole numbers are numbers, NumPy's too."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(before, tuple) and isinstance(value, (list, tuple)):
        return tuple(_fitting(name, each, before[0]) for each in value) if before else tuple(value)
    if isinstance(before, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    same = callable(value) if callable(before) else type(value) is type(before)
    if before is not None and not same:
        raise ValueError(f"{name} must be {_kind(before)}, such as {text_of(before)}; {value!r} is not.")
    return value


def _read(name: str, text: str, before: Any) -> Any:
    """A value from the command line, of the kind of the present one."""
    if isinstance(before, tuple) and before and isinstance(before[0], (int, float, str)):
        return tuple(_read(name, part.strip(), before[0]) for part in text.split(","))
    if isinstance(before, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
    elif isinstance(before, str):
        if text:
            return text
    elif isinstance(before, (int, float)):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and (isinstance(before, float) or number.is_integer()):
            return type(before)(number)
    else:
        raise ValueError(f"{name} cannot be set from the command line; from Python it can.")
    raise ValueError(f"{name} must be {_kind(before)}, such as {text_of(before)}; {text!r} is not.")


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
    return kinds.get(type(value), "a function" if callable(value) else f"a {type(value).__name__}")
