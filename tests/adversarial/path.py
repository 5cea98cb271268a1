"""What a run of an oracle leaves: a state whenever its clock, or its smallest margin, has doubled."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.adversarial.problems import Problem


@dataclass(frozen=True)
class Mark:
    """A state on the way."""

    clock: float
    w: np.ndarray
    a: np.ndarray
    outputs: np.ndarray

    @property
    def theta(self) -> np.ndarray:
        """All weights as one vector."""
        return np.concatenate([self.w.ravel(), self.a])


@dataclass
class Path:
    """The marks of one run, and how many steps it took."""

    problem: Problem
    marks: list[Mark] = field(default_factory=list)
    steps: int = 0
    separated: float | None = None  # the clock when all margins became positive for the first time

    @property
    def margins(self) -> np.ndarray:
        """The margins at the last mark."""
        return self.problem.y * self.marks[-1].outputs

    @property
    def last_step(self) -> np.ndarray:
        """The first layer's increment from the last mark but one to the last."""
        return self.marks[-1].w - self.marks[-2].w

    def look(self, mark: Mark, before: Mark) -> None:
        """Note the clock between two states at which the smallest margin changed its sign."""
        now, then = (float((self.problem.y * m.outputs).min()) for m in (mark, before))
        if self.separated is None and now > 0:
            share = then / (then - now) if then < 0 else 0.0
            self.separated = before.clock + share * (mark.clock - before.clock)


Stop = Callable[[Path], bool]


def by_margin(problem: Problem) -> bool:
    """Are marks set by the smallest margin? With both layers trained it grows exponentially in the clock."""
    return problem.both and not problem.square


def start(problem: Problem, nudge: float) -> tuple[np.ndarray, np.ndarray]:
    """The weights at the start, each neuron moved by the share `nudge` of its size in a random direction.

    A neuron that is zero is moved by the share of a mean one: from zero several solutions may leave.
    """
    w = problem.weights
    sizes = np.linalg.norm(w, axis=1)
    sizes = np.where(sizes > 0, sizes, sizes.mean() or 1.0)
    noise = np.random.default_rng(12345).normal(size=w.shape) / np.sqrt(w.shape[1])
    return w + nudge * sizes[:, None] * noise, problem.a.copy()
