"""What a benchmark found, in one row, and the table of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from textwrap import fill

HEAD = ("name", "rankfall", "peer", "ratio", "target", "verdict")


@dataclass(frozen=True)
class Row:
    """One comparison. The target is a bound on the ratio; `also` is what must be true besides."""

    name: str
    ours: str
    peer: str
    ratio: float
    what: str
    at_least: float | None = None
    at_most: float | None = None
    also: bool = True

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "none" if self.at_most is None else f"at most {self.at_most:g}"

    @property
    def verdict(self) -> str:
        if isnan(self.ratio):
            return "too noisy to tell"
        if self.target == "none":
            return "for information"
        enough = self.at_least is None or self.ratio >= self.at_least
        little = self.at_most is None or self.ratio <= self.at_most
        return "holds" if enough and little and self.also else "falls short"

    @property
    def cells(self) -> tuple[str, ...]:
        return self.name, self.ours, self.peer, f"{self.ratio:.3g}", self.target, self.verdict


def table(rows: Sequence[Row]) -> str:
    """The rows in columns, and below each what it compares."""
    lines = [HEAD, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    below = [fill(row.what, 110, initial_indent="    ", subsequent_indent="    ") for row in rows]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join(
        [text[0], rule, *(f"{line}\n{what}" for line, what in zip(text[1:], below, strict=True))]
    )


def duration(seconds: float) -> str:
    """A time in the unit in which it is easy to read."""
    if isnan(seconds):
        return "unknown"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
