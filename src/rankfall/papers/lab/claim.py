"""Claims: sentences of a paper that can be false, the interval that would make each true, and a verdict.

A claim is declared apart from the runs. Judging it takes the runs of its experiment, measures one number
(or several, one for each seed say), and asks whether every one of them lies in the interval. Where a claim
rests on certified limits, the runs bring the certificates with them: files that anybody can check.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr

Verdict = Literal["reproduced", "not reproduced", "refuted", "outside its hypotheses", "needs data"]
VERDICTS: dict[Verdict, str] = {
    "reproduced": "every number lies where the claim says",
    "not reproduced": "some number does not",
    "refuted": "some number does not, and a certificate shows that this is no accident of the run",
    "outside its hypotheses": "the runs do not satisfy what the claim supposes: it says nothing about them",
    "needs data": "the runs need data that must be downloaded first",
}

Measure = Callable[[xr.Dataset], Any]


@dataclass(frozen=True)
class Expected:
    """An interval, and where its ends come from; made by `at_most`, `at_least`, `near` or `between`.

    The ends may be arrays: they are compared entry by entry with what was measured, whose leading
    dimensions (the seeds) are free.
    """

    low: Any
    high: Any
    told: str
    because: str

    def contains(self, values: np.ndarray) -> np.ndarray:
        """Which of the values lie in the interval? NaN lies in none."""
        return np.asarray((np.asarray(self.low) <= values) & (values <= np.asarray(self.high)))


def at_most(bound: float, because: str, form: str = "{:.3g}") -> Expected:
    """Not above the bound; `because` says where the bound comes from."""
    return Expected(-np.inf, bound, f"≤ {form.format(bound)}", because)


def at_least(bound: float, because: str, form: str = "{:.3g}") -> Expected:
    """Not below the bound."""
    return Expected(bound, np.inf, f"≥ {form.format(bound)}", because)


def between(low: float, high: float, because: str, form: str = "{:.3g}") -> Expected:
    """From `low` to `high`."""
    return Expected(low, high, f"{form.format(low)} to {form.format(high)}", because)


def near(
    value: Any, tolerance: float, because: str, form: str = "{:.4g}", relative: bool = False
) -> Expected:
    """The value, or the values entry by entry, up to the tolerance; `relative`: a part of the value."""
    values = np.asarray(value, dtype=float)
    reach = tolerance * np.abs(values) if relative else np.full_like(values, tolerance)
    shown = ", ".join(form.format(v) for v in values.ravel())
    allowed = f"{100 * tolerance:.3g} %" if relative else f"{tolerance:.3g}"
    return Expected(values - reach, values + reach, f"{shown} ± {allowed}", because)


@dataclass(frozen=True)
class Check:
    """A number taken from the runs, and the interval in which it must lie: a hypothesis, or a certificate."""

    metric: str
    measure: Measure
    expected: Expected
    form: str = "{:.3g}"

    def on(self, runs: xr.Dataset) -> "Measured":
        """Take the number and compare."""
        values = np.asarray(self.measure(runs), dtype=float)
        return Measured(self.metric, values, self.expected.contains(values), self.expected, self.form)


@dataclass(frozen=True)
class Measured:
    """The numbers that came out, which of them lie in the interval, and how to write them."""

    metric: str
    values: np.ndarray
    within: np.ndarray
    expected: Expected
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


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and what would make it true.

    - `id`: its name within the paper, which it keeps for ever: "rank-two".
    - `sentence`: what is claimed, in our words.
    - `source`: version of the paper and place in it: "TMLR, Fig. 3a". "rankfall" for a finding of our own.
    - `metric`: what is measured, in words and symbols, with its unit.
    - `measure`: takes it from the runs of the experiment (a dataset with the dimension "seed"): a number or
        an array, every entry of which has to lie in `expected`.
    - `expected`: the interval, with the reason for its ends: `at_most`, `at_least`, `near`, `between`.
    - `recorded`: the verdict on record; `rankfall reproduce` fails when another one comes out.
    - `hypotheses`: what the claim supposes about the runs; if one does not hold the claim is outside them.
    - `certificate`: a check that, where the claim fails, shows that it is false and not merely missed.
    - `proofs`: the names of the certificates that the claim rests on, see `lab.with_certificates`.
    - `form`: how to write the measured numbers.
    - `note`: what a reader should know to judge the verdict.
    """

    id: str
    sentence: str
    source: str
    metric: str
    measure: Measure
    expected: Expected
    recorded: Verdict = "reproduced"
    hypotheses: tuple[Check, ...] = ()
    certificate: Check | None = None
    proofs: tuple[str, ...] = ()
    form: str = "{:.3g}"
    note: str = ""

    def judge(self, runs: xr.Dataset | None) -> "Judged":
        """Measure, compare, and give the verdict; without runs the claim needs data."""
        if runs is None:
            return Judged("needs data")
        measured = Check(self.metric, self.measure, self.expected, self.form).on(runs)
        supposed = tuple(check.on(runs) for check in self.hypotheses)
        if not all(check.holds for check in supposed):
            return Judged("outside its hypotheses", measured, supposed)
        if measured.holds:
            return Judged("reproduced", measured, supposed)
        proof = self.certificate.on(runs) if self.certificate is not None else None
        refuted = proof is not None and proof.holds
        return Judged("refuted" if refuted else "not reproduced", measured, supposed, proof)


@dataclass(frozen=True)
class Judged:
    """What became of a claim: the verdict, and the numbers behind it."""

    verdict: Verdict
    measured: Measured | None = None
    hypotheses: tuple[Measured, ...] = ()
    certificate: Measured | None = None
