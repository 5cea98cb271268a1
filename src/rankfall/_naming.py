"""What to say to a user who named something that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 20


def unknown(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The exception to raise for the unknown `name` of a `kind`: it tells the closest known name.

    >>> raise unknown("loss", "sqare", ["square", "logistic"])
    Traceback (most recent call last):
    ValueError: unknown loss 'sqare'. Did you mean 'square'? Known: square, logistic.
    """
    return ValueError(f"unknown {kind} {name!r}. {suggestion(name, known)}")


def suggestion(name: object, known: Iterable[str]) -> str:
    """The sentences "Did you mean ...? Known: ...", the first one only if some known name is close."""
    known = list(known)
    if not known:
        return "None is known."
    match = closest(name, known)
    asked = f"Did you mean {match!r}? " if match is not None else ""
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{asked}Known: {', '.join(known[:_LISTED])}{more}."


def closest(name: object, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, whatever its case; None if none is close."""
    by_folded = {k.casefold(): k for k in reversed(list(known))}
    matches = get_close_matches(str(name).casefold(), by_folded, n=1)
    return by_folded[matches[0]] if matches else None
