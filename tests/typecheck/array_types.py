"""beartype for the annotations of arrays alone.

What else a function takes is for mypy and for its own checks: tests hand over wrong words and numbers on
purpose, to be answered with a sentence.
"""

from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function):
    """The function, which looks at the shapes and dtypes of its arrays whenever it is called."""
    every = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in every.items() if _is_of_arrays(hint)}
    try:
        looking = beartype(function)
    finally:
        function.__annotations__ = every
    looking.__annotations__ = every
    return looking


def _is_of_arrays(hint: Any) -> bool:
    parts = get_args(hint)
    return any(map(_is_of_arrays, parts)) or (isinstance(hint, type) and issubclass(hint, AbstractArray))
