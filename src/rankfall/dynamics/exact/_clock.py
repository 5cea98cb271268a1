r"""Clock: which pulls move the weights, and what time it is.

For the exponential and the logistic loss the clock is $s$ with $ds = L\,dt$, in which the pulls never
underflow, and $\log t$ is gathered along with it. For the square loss it is $t$, and $s$ is gathered.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from rankfall.dynamics.exact._events import Hit, Watched
from rankfall.dynamics.exact._motion import Motion, Path
from rankfall.dynamics.exact._pull import Pull
from rankfall.dynamics.exact._step import Piece, Solved, collocate


class Clock(ABC):
    """The time of a walk: `now` by its own clock, and `log_time`, the logarithm of t."""

    def __init__(self, pull: Pull, log_time: float = -np.inf):
        self.pull, self.now, self.log_time = pull, 0.0, log_time

    # The pulls

    def pulls(self, motion: Motion) -> np.ndarray:
        """The pulls r of the samples."""
        return self.pull(motion.outputs)

    def solve(self, path: Path, f: np.ndarray, r: np.ndarray) -> tuple[Solved | None, float]:
        """The outputs and pulls at the nodes of a step from outputs f and pulls r, and the cost in gradients.

        None if the step is too long.
        """
        return collocate(path, self.pull, f, r)

    def watched(self, f: np.ndarray, r: np.ndarray) -> Iterable[Watched]:
        """What ends a step besides kinks, given outputs f and pulls r on `GRID`."""
        return ()

    def arrive(self, motion: Motion, hits: tuple[Hit, ...]) -> None:  # noqa: B027 - most clocks do nothing
        """Do what has to be done at the end of a step."""

    # The time

    @abstractmethod
    def log_time_at(self, piece: Piece, theta: float) -> float:
        """log t within the next step."""

    def other_at(self, piece: Piece, theta: float) -> float:
        """The time that is gathered along with the clock's own, within the next step: t."""
        return _exp(self.log_time_at(piece, theta))

    @property
    def other(self) -> float:
        """The same now."""
        return _exp(self.log_time)

    def put(self, now: float, log_time: float, other: float) -> None:
        """Show these times."""
        self.now, self.log_time = now, log_time

    def go(self, piece: Piece, theta: float) -> None:
        """Go to a place in the next step."""
        self.log_time = self.log_time_at(piece, theta)
        self.now = piece.time(theta)


class LossClock(Clock):
    """s, with ds = L dt; t is gathered."""

    def log_time_at(self, piece: Piece, theta: float) -> float:
        """log t within the next step: dt = ds / L."""
        return float(np.logaddexp(self.log_time, piece.log_integral(theta, -1)))


class TimeClock(Clock):
    """t; s is gathered."""

    def __init__(self, pull: Pull):
        super().__init__(pull)
        self._s = 0.0

    def log_time_at(self, piece: Piece, theta: float) -> float:
        """log t within the next step."""
        with np.errstate(divide="ignore"):
            return float(np.log(piece.time(theta)))

    def other_at(self, piece: Piece, theta: float) -> float:
        """s within the next step: ds = L dt."""
        return float(self._s + np.exp(piece.log_integral(theta, 1)))

    @property
    def other(self) -> float:
        """The loss clock s now."""
        return self._s

    def put(self, now: float, log_time: float, other: float) -> None:
        """Show these times."""
        super().put(now, log_time, other)
        self._s = other

    def go(self, piece: Piece, theta: float) -> None:
        """Go to a place in the next step."""
        self._s = self.other_at(piece, theta)
        super().go(piece, theta)


def _exp(log: float) -> float:
    return float(np.exp(min(log, 709.0)))
