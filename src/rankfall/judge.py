"""How theorems and claims are judged: an interval with its reason, what was measured, and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

Measure = Callable[["xr.Dataset"], Any]


class Verdict(StrEnum):
    """What became of a theorem's prediction or of a paper's claim. `meaning` says what the word means."""

    HOLDS = "holds"
    FAILS = "fails"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    REFUTED = "refuted"
    OUTSIDE = "outside its hypotheses"
    NOT_MEASURED = "not measured"
    NEEDS_DATA = "needs data"

    @property
    def meaning(self) -> str:
        """A sentence for somebody who sees the word for the first time."""
        return MEANINGS[self]


MEANINGS = {
    Verdict.HOLDS: "what was measured is what the result predicts, within the tolerance",
    Verdict.FAILS: "what was measured differs from the prediction by more than the tolerance",
    Verdict.REPRODUCED: "every number lies where the claim says",
    Verdict.NOT_REPRODUCED: "some number does not",
    Verdict.REFUTED: "some number does not, and a certificate shows that this is no accident of the run",
    Verdict.OUTSIDE: "the runs do not satisfy what the claim supposes: it says nothing about them",
    Verdict.NOT_MEASURED: "the run or limit does not have what the prediction speaks about",
    Verdict.NEEDS_DATA: "the runs need data that must be downloaded first",
}


@dataclass(frozen=True)
class Interval:
    """Where a number must lie, and why there; made by `at_most`, `at_least`, `near` or `between`.

    The ends may be arrays: they are compared entry by entry with what was measured, whose leading
    dimensions (the seeds) are free.
    """

    low: Any
    high: Any
    told: str
    because: str

    def contains(self, values: np.ndarray | float) -> np.ndarray:
        """Which of the values lie in the interval? NaN lies in none."""
        return np.asarray((np.asarray(self.low) <= values) & (values <= np.asarray(self.high)))


def at_most(bound: float, because: str, form: str = "{:.3g}") -> Interval:
    """Not above the bound; `because` says where the bound comes from."""
    return Interval(-np.inf, bound, f"≤ {form.format(bound)}", because)


def at_least(bound: float, because: str, form: str = "{:.3g}") -> Interval:
    """Not below the bound."""
    return Interval(bound, np.inf, f"≥ {form.format(bound)}", because)


def between(low: float, high: float, because: str, form: str = "{:.3g}") -> Interval:
    """From `low` to `high`."""
    return Interval(low, high, f"{form.format(low)} to {form.format(high)}", because)


def near(
    value: Any, tolerance: float, because: str, form: str = "{:.4g}", relative: bool = False
) -> Interval:
    """The value, or the values entry by entry, up to the tolerance; `relative`: a part of the value."""
    values = np.asarray(value, dtype=float)
    reach = tolerance * np.abs(values) if relative else np.full_like(values, tolerance)
    shown = ", ".join(form.format(v) for v in values.ravel())
    allowed = f"{100 * tolerance:.3g} %" if relative else f"{tolerance:.3g}"
    return Interval(values - reach, values + reach, f"{shown} ± {allowed}", because)


@dataclass(frozen=True)
class Check:
    """A number taken from the runs, and the interval in which it must lie: a hypothesis, or a certificate."""

    metric: str
    measure: Measure
    expected: Interval
    form: str = "{:.3g}"

    def on(self, runs: "xr.Dataset") -> "Measured":
        """Take the number and compare."""
        values = np.asarray(self.measure(runs), dtype=float)
        return Measured(self.metric, values, self.expected.contains(values), self.expected, self.form)


@dataclass(frozen=True)
class Measured:
    """The numbers that came out, which of them lie in the interval, and how to write them."""

    metric: str
    values: np.ndarray
    within: np.ndarray
    expected: Interval
    form: str = "{:.3g}"

    @property
    def holds(self) -> bool:
        """Do all of them? No number proves nothing."""
        return bool(self.within.size and self.within.all())

    def __str__(self) -> str:
        """The number; of several the range, the median, and how many lie in the interval."""
        values = np.ravel(self.values)
        if values.size == 0:
            return "nothing was measured"
        if values.size == 1:
            return self.form.format(values[0])
        low, middle, high = (
            self.form.format(float(v)) for v in (values.min(), np.median(values), values.max())
        )
        count = f"{int(self.within.sum())} of {self.within.size} within"
        if low == high:
            return f"{low}; {count}"
        return f"{low} to {high}, median {middle}; {count}"
