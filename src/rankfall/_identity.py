"""A stable name for a function: its own, and for one of the user's a hash of all that it holds as well.

The same function has one name in every process, and another function has another: so the checkpoint of a call
is told from that of a call with a different optimiser.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def stable_name(function: Callable[..., Any]) -> str:
    """The function as one would write it; the versions of the libraries tell the rest of a library's own."""
    if isinstance(function, partial):
        options = [*map(_option, function.args), *(f"{k}={_option(v)}" for k, v in function.keywords.items())]
        return f"{stable_name(function.func)}({', '.join(options)})"
    name = str(getattr(function, "__name__", type(function).__name__))
    if str(getattr(function, "__module__", "")).partition(".")[0] == "optax" and not _made(function):
        return name
    return f"{name.strip('<>')} {_digest(function)}"


def _option(value: object) -> str:
    if isinstance(value, str | int | float | None):
        return str(value)
    return stable_name(value) if callable(value) else _digest(value)


def _digest(thing: object) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in _inside(thing, set()):
        digest.update(part)
    return digest.hexdigest()


def _inside(thing: Any, seen: set[int]) -> Iterator[bytes]:
    """All that tells a thing from others: the code of functions and what they hold, the bytes of arrays."""
    yield f"{type(thing).__name__}:".encode()
    held = _held(thing)
    if isinstance(thing, np.ndarray | jax.Array):
        array = np.ascontiguousarray(thing)
        yield f"{array.dtype} {array.shape}".encode() + array.tobytes()
    elif held is None:
        yield _ADDRESS.sub("", repr(thing)).encode()
    elif id(thing) not in seen:  # a function may hold itself
        for part in held:
            yield from _inside(part, seen | {id(thing)})


def _held(thing: Any) -> list[Any] | None:
    """What a thing holds, in an order that is the same in every process; None for a plain value."""
    match thing:
        case CodeType():
            return [thing.co_code, thing.co_names, thing.co_consts]
        case FunctionType():
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            around = [thing.__globals__.get(name) for name in _names(thing.__code__)]
            beside = [each for each in around if _made(each) or _is_beside(each, thing)]
            return [thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells, beside]
        case partial():
            return [thing.func, thing.args, thing.keywords]
        case Mapping():
            return list(thing.items())
        case tuple() | list():
            return list(thing)
        case set() | frozenset():
            return sorted(map(repr, thing))
    told = _ADDRESS.search(repr(thing)) is None or not hasattr(thing, "__dict__")
    return None if told else [vars(thing)]


def _names(code: CodeType) -> list[str]:
    """The names that a function uses, with those of the functions inside it."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return [*code.co_names, *inner]


def _is_beside(thing: Any, function: FunctionType) -> bool:
    """Is it a function of the same module?"""
    return isinstance(thing, FunctionType) and thing.__module__ == function.__module__


def _made(thing: Any) -> bool:
    """Is it a value or a function that was made while running, not one that a module or a library defines?"""
    return not isinstance(thing, ModuleType | type) and "<" in str(getattr(thing, "__qualname__", "<"))
