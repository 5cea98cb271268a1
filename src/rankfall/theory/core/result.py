"""Result: what a paper says, as an object: its hypotheses with numbers, and its predictions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np

from rankfall.judge import Interval
from rankfall.limits import Limit
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.situation import Situation
from rankfall.trajectory import Trajectory


class Kind(StrEnum):
    """How far to trust a result. `meaning` says what the word means."""

    THEOREM = "theorem"
    DERIVED = "derived"
    RECALLED = "recalled"
    CONJECTURE = "conjecture"

    @property
    def meaning(self) -> str:
        """A few words for somebody who sees the word for the first time."""
        return MEANINGS[self]


MEANINGS = {
    Kind.THEOREM: "proved in the source",
    Kind.DERIVED: "derived and checked here",
    Kind.RECALLED: "the source's constants are recalled, not read",
    Kind.CONJECTURE: "not proved",
}


class Relation(StrEnum):
    """Of a measurement to what was predicted; `sign` is how it is written before a number."""

    EQUALS = "equals"
    AT_MOST = "at most"
    AT_LEAST = "at least"

    @property
    def sign(self) -> str:
        """The sign before the predicted number."""
        return {Relation.EQUALS: "", Relation.AT_MOST: "≤ ", Relation.AT_LEAST: "≥ "}[self]


class Subject(IntEnum):
    """What an advice is about; what comes first matters most to a practitioner."""

    WHAT_CAN_BE_LEARNED = 1
    THE_END_OF_TRAINING = 2
    OTHER = 3


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
class Prediction:
    """Something a result predicts, and how to measure it.

    - `name`: a few words; `says`: a sentence with the predicted number, if there is one.
    - `value`: the number or array; or a function of the evidence, such as a curve at the recorded times.
    - `measure`: the same of a run or a limit. It raises `Unmeasurable`, with what to record, if it cannot.
    - `relation`: of the measurement to the value.
    - `tolerance`: where the error must lie: `at_most(1e-6, "why")`, or a function of the evidence. If the
        measurement is to equal the value, the error is |measured - value| / |value| (Euclidean norms; the
        denominator is `scale` if given, and 1 if value is zero); for bounds it is the largest excess, entry
        by entry, over |value|, likewise.
    """

    name: str
    says: str
    value: Any
    measure: Callable[[Evidence], Any]
    tolerance: Interval | Callable[[Evidence], Interval]
    relation: Relation = Relation.EQUALS
    scale: float | None = None

    def predicted(self, evidence: Evidence) -> np.ndarray:
        """The value, for this evidence."""
        value = self.value(evidence) if callable(self.value) else self.value
        return np.asarray(value, dtype=float)

    def allowed(self, evidence: Evidence) -> Interval:
        """The tolerance, for this evidence."""
        return self.tolerance(evidence) if callable(self.tolerance) else self.tolerance

    def error(self, predicted: np.ndarray, measured: np.ndarray) -> float:
        """What the tolerance bounds."""
        scale = self.scale or float(np.linalg.norm(predicted)) or 1.0
        if self.relation is Relation.EQUALS:
            return float(np.linalg.norm(measured - predicted)) / scale
        excess = measured - predicted if self.relation is Relation.AT_MOST else predicted - measured
        size = np.abs(predicted)
        each = self.scale or np.where(size > 0, size, 1.0)
        return float(np.maximum(0.0, excess / each).max())  # a NaN stays one


@dataclass(frozen=True)
class Advice:
    """What a result tells a practitioner; `violation` says which hypotheses are violated, if any."""

    subject: Subject
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
    - `kind`: how far to trust it.
    - `hypotheses`, `predictions`: functions of a situation. Predictions are only asked for where every
        hypothesis holds, or is `near`.
    - `example`: where it applies. `broken`: for each condition, a situation that violates it.
    - `advice`: what a practitioner in this situation should know, in a sentence or two; None for nothing.
        `subject` says what it is about.
    - `penalised`: it also speaks about a loss with an L2 penalty; `stochastic`: about SGD.
    """

    name: str
    title: str
    source: Source
    statement: str
    hypotheses: Callable[[Situation], Iterable[Hypothesis]]
    predictions: Callable[[Situation], Iterable[Prediction]]
    example: Callable[[], Example]
    broken: Callable[[], dict[Condition, Situation]]
    kind: Kind = Kind.THEOREM
    advice: Callable[[Situation], str | None] | None = None
    subject: Subject = Subject.OTHER
    penalised: bool = False
    stochastic: bool = False
