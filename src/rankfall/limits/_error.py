"""The error of a run, by a second run at another tolerance."""

import os
import time
from collections import deque
from contextlib import ExitStack
from threading import Thread

import numpy as np
from scipy.optimize import brentq

from rankfall._progress import Progress
from rankfall.dynamics.exact import AtRest, OneThread, Piece, Stalled, Walk

TWINS = (1e-8, 1e-9, 3e-10)  # tolerances of the second run, from which the error of the first is estimated
TOGETHER = 50  # steps of the second run in one call
MOST = 5  # times the steps of the first run that the second may take
SAFE = 0.1  # the share of the room around the state that this error may take; the run itself is better yet
ALIKE = 1e-4  # slopes at a fork that are so near each other belong to one branch
LONG, APART = 4000, 500  # steps from which on a run is worth a second one beside it, and between its stations
BESIDE = (os.cpu_count() or 1) > 1


class Error:
    """An estimate of the error of a run: a second run from the same start, at a looser tolerance.

    It may run beside the first one, on another core, to stations that the first has left behind; the stations
    are the same each time, and so is the result.
    """

    def __init__(self, walk: Walk, long: int = LONG, apart: int = APART):
        self.walk, self.failed, self._ended = walk, False, False
        self._stations: deque[tuple[float, int]] = deque()
        self._thread: Thread | None = None
        self._alone = ExitStack()
        self._apart, self._last = apart, long - apart

    def beside(self, walk: Walk) -> None:
        """Let the second run follow this one up to here, in the background."""
        if walk.steps < self._last + self._apart or not BESIDE:
            return
        self._last = walk.steps
        self._stations.append((walk.clock.log_time, walk.steps))
        if self._thread is None or not self._thread.is_alive():
            if self._thread is None:
                self._alone.enter_context(OneThread())  # a core for each run
            self._thread = Thread(target=self._follow, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Do not follow any further."""
        self._ended = True
        if self._thread is not None:
            self._thread.join()
        self._alone.close()

    def at(self, walk: Walk, deadline: float, shown: Progress) -> float:
        """The distance of the two runs at the time of the first; infinity if the second is not there."""
        while self._thread is not None and self._thread.is_alive():
            if time.monotonic() > deadline:
                return np.inf
            self._tell(walk, shown)
            self._thread.join(0.1)
        self._follow()  # to a station that came when the thread was about to end
        twin, goal = self.walk, walk.clock.log_time
        try:
            while not self.failed and twin.clock.log_time < goal:
                if time.monotonic() > deadline or twin.steps > MOST * (walk.steps + 10):
                    return np.inf
                if not self._go(goal):  # the time is reached in the next step
                    piece = twin.step()
                    there = twin.clock.log_time_at(piece, piece.cut) >= goal
                    twin.take(piece, _place(twin, piece, goal) if there else None)
                    if there:
                        break
                self._tell(walk, shown)
        except AtRest:
            pass  # it is there, and stays
        except Stalled:
            self.failed = True
        same = len(twin.forks) == len(walk.forks) and all(
            np.allclose(one.slopes, other.slopes, rtol=0, atol=ALIKE)
            for one, other in zip(twin.forks, walk.forks, strict=True)
        )
        return float(np.linalg.norm(twin.weights.w - walk.weights.w)) if same and not self.failed else np.inf

    def _follow(self) -> None:
        """Run to just before the stations, one after the other."""
        try:
            while self._stations and not self._ended and not self.failed:
                goal, steps = self._stations.popleft()
                while self.walk.clock.log_time < goal and not self._ended:
                    if not self._go(goal) or self.walk.steps > MOST * (steps + 10):
                        break
        except AtRest:
            self._ended = True
        except Stalled:
            self.failed = True

    def _go(self, goal: float) -> bool:
        """Some steps, of those before the time is reached; False if there are none."""
        before = self.walk.steps
        self.walk.forward(TOGETHER, log_time=goal)
        return self.walk.steps > before

    def _tell(self, walk: Walk, shown: Progress) -> None:
        shown.update(min(self.walk.steps / (walk.steps + 1), 0.99), "a second run, to compare")


def _place(walk: Walk, piece: Piece, log_time: float) -> float:
    """Where in the next step of a walk the logarithm of time has this value."""

    def ahead(theta: float) -> float:
        return walk.clock.log_time_at(piece, theta) - log_time

    return float(brentq(ahead, 0.0, piece.cut, xtol=1e-15))
