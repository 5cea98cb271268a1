"""Conditions, which results ask for, and hypotheses: conditions as they were found in one situation."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rankfall import judge
from rankfall.theory.core.situation import Situation


@dataclass(frozen=True)
class Condition:
    """What a result asks for.

    - `id`: a short name for code, which it keeps for ever: "near-orthogonal".
    - `name`: what is asked for, in a few words.

    `fact`, `at_most` and `at_least` say what was found of it.
    """

    id: str
    name: str

    def fact(self, holds: bool, measured: str, needed: str) -> "Hypothesis":
        """It is true or not."""
        return Hypothesis(self, measured, needed, bool(holds))

    def at_most(self, value: float, bound: float, reach: float | None = None) -> "Hypothesis":
        """It is that value ≤ bound; up to `reach` a violation is only a matter of degree."""
        return self._within(value, judge.at_most(bound, self.name), reach is not None and value <= reach)

    def at_least(self, value: float, bound: float, reach: float | None = None) -> "Hypothesis":
        """It is that value ≥ bound; down to `reach` a violation is only a matter of degree."""
        return self._within(value, judge.at_least(bound, self.name), reach is not None and value >= reach)

    def _within(self, value: float, expected: judge.Interval, near: bool) -> "Hypothesis":
        return Hypothesis(self, float(value), expected.told, bool(expected.contains(value)), near)


@dataclass(frozen=True)
class Measurable(Condition):
    """A condition that several results ask for: called on a situation, it says what it finds there."""

    measure: Callable[[Condition, Situation], "Hypothesis"] = field(repr=False, compare=False)

    def __call__(self, situation: Situation) -> "Hypothesis":
        """What is found there."""
        return self.measure(self, situation)


def condition(id: str, name: str) -> Callable[[Callable[[Condition, Situation], "Hypothesis"]], Measurable]:
    """Decorate a function of the condition and a situation: it becomes a condition, called as `leaky(s)`."""
    return lambda measure: Measurable(id, name, measure)


@dataclass(frozen=True)
class Hypothesis:
    """A condition in one situation.

    - `measured`, `needed`: the number (or fact) found, and the one asked for.
    - `holds`: is it so?
    - `near`: it is violated, but by so little, or in such a way, that the predictions are still worth a
        comparison.
    """

    condition: Condition
    measured: float | str
    needed: str
    holds: bool
    near: bool = False

    @property
    def id(self) -> str:
        """The short name of the condition."""
        return self.condition.id

    @property
    def name(self) -> str:
        """What is asked for, in a few words: the same in every situation."""
        return self.condition.name

    def __str__(self) -> str:
        value = self.measured if isinstance(self.measured, str) else f"{self.measured:.3g}"
        return f"{self.name}: {value}" + ("" if self.holds else f", needs {self.needed}")
