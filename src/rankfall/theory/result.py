"""Result: what a paper says, as an object: its hypotheses with numbers, and its predictions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankfall.limits import Limit
from rankfall.theory.evidence import Evidence
from rankfall.theory.situation import Situation
from rankfall.trajectory import Trajectory

APPLIES = "applies"
UP_TO = "applies up to a violation"
DOES_NOT = "does not apply"
NOT_EXAMINED = "not examined"

Kind = Literal["theorem", "derived", "recalled", "conjecture"]
KINDS = {
    "theorem": "proved in the source",
    "derived": "derived and checked here",
    "recalled": "the source's constants are recalled, not read",
    "conjecture": "not proved",
}


@dataclass(frozen=True)
class Source:
    """Where a result comes from: authors, year, where it was published, and the place in it."""

    authors: str
    year: int
    published: str
    place: str = ""

    def at(self, place: str) -> "Source":
        """The same paper, at this place."""
        return Source(self.authors, self.year, self.published, place)

    def __str__(self) -> str:
        place = f", {self.place}" if self.place else ""
        return f"{self.authors} {self.year} ({self.published}){place}"


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis in one situation.

    - `name`: what is asked for, in a few words: the same in every situation.
    - `measured`, `needed`: the number (or fact) found, and the one asked for.
    - `holds`: is it so?
    - `near`: it is violated, but by so little, or in such a way, that the predictions are still worth a
        comparison.
    """

    name: str
    measured: float | str
    needed: str
    holds: bool
    near: bool = False

    def __str__(self) -> str:
        value = self.measured if isinstance(self.measured, str) else f"{self.measured:.3g}"
        return f"{self.name}: {value}" + ("" if self.holds else f", needs {self.needed}")


def fact(name: str, holds: bool, measured: str, needed: str) -> Hypothesis:
    """A hypothesis that is true or not."""
    return Hypothesis(name, measured, needed, bool(holds))


def at_most(name: str, value: float, bound: float, reach: float | None = None) -> Hypothesis:
    """The hypothesis value <= bound; up to `reach` a violation is only a matter of degree."""
    return Hypothesis(
        name, float(value), f"<= {bound:.3g}", value <= bound, reach is not None and value <= reach
    )


def at_least(name: str, value: float, bound: float, reach: float | None = None) -> Hypothesis:
    """The hypothesis value >= bound; down to `reach` a violation is only a matter of degree."""
    return Hypothesis(
        name, float(value), f">= {bound:.3g}", value >= bound, reach is not None and value >= reach
    )


@dataclass(frozen=True)
class Tolerance:
    """How far a measurement may be from its prediction, and why."""

    value: float
    because: str


@dataclass(frozen=True)
class Prediction:
    """Something a result foresees, and how to measure it.

    - `name`: a few words; `says`: a sentence with the predicted number, if there is one.
    - `value`: the number or array; or a function of the evidence, such as a curve at the recorded times.
    - `measure`: the same of a run or a limit. It raises `Unmeasurable`, with what to record, if it cannot.
    - `relation`: "equals", "at most" or "at least": of the measurement to the value.
    - `tolerance`: a `Tolerance`, or a function of the evidence. For "equals" it bounds
        |measured - value| / |value| (Euclidean norms; the denominator is `scale` if given, and 1 if value is
        zero), for the others the largest excess, entry by entry, over |value|, likewise.
    """

    name: str
    says: str
    value: Any
    measure: Callable[[Evidence], Any]
    tolerance: Tolerance | Callable[[Evidence], Tolerance]
    relation: Literal["equals", "at most", "at least"] = "equals"
    scale: float | None = None

    def predicted(self, evidence: Evidence) -> np.ndarray:
        """The value, for this evidence."""
        value = self.value(evidence) if callable(self.value) else self.value
        return np.asarray(value, dtype=float)

    def error(self, predicted: np.ndarray, measured: np.ndarray) -> float:
        """What the tolerance bounds."""
        scale = self.scale or float(np.linalg.norm(predicted)) or 1.0
        if self.relation == "equals":
            return float(np.linalg.norm(measured - predicted)) / scale
        excess = measured - predicted if self.relation == "at most" else predicted - measured
        size = np.abs(predicted)
        each = self.scale or np.where(size > 0, size, 1.0)
        return float(np.maximum(0.0, excess / each).max())  # a NaN stays one


@dataclass(frozen=True)
class Advice:
    """What a result tells a practitioner; `violation` says which hypotheses are violated, if any."""

    result: str
    text: str
    violation: str = ""


@dataclass(frozen=True)
class Example:
    """A situation in which a result applies, and how to make evidence of it."""

    situation: Situation
    run: Callable[[Situation], Trajectory | Limit]

    def evidence(self) -> Trajectory | Limit:
        """The run or limit."""
        return self.run(self.situation)


@dataclass(frozen=True)
class Result:
    """A theorem, a conjecture, or a family of them that share their hypotheses.

    - `name`: the word it is called by; `title`: what it is about; `source`: who says so, and where.
    - `statement`: one sentence.
    - `kind`: how far to trust it, see `KINDS`.
    - `hypotheses`, `predictions`: functions of a situation. Predictions are only asked for where every
        hypothesis holds, or is `near`.
    - `example`: where it applies. `broken`: for the name of each hypothesis, a situation that violates it.
    - `advice`: what a practitioner in this situation should know, in a sentence or two; None for nothing.
    - `penalised`: it also speaks about a loss with an L2 penalty; `stochastic`: about SGD.
    """

    name: str
    title: str
    source: Source
    statement: str
    hypotheses: Callable[[Situation], Iterable[Hypothesis]]
    predictions: Callable[[Situation], Iterable[Prediction]]
    example: Callable[[], Example]
    broken: Callable[[], dict[str, Situation]]
    kind: Kind = "theorem"
    advice: Callable[[Situation], str | None] | None = None
    penalised: bool = False
    stochastic: bool = False
