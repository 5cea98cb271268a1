"""The error of a run, by a second run at another tolerance."""

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from rankfall._progress import Progress
from rankfall.dynamics.exact import AtRest, Piece, Stalled, Walk

TWINS = (1e-8, 1e-9, 3e-10)  # tolerances of the second run, from which the error of the first is estimated
TOGETHER = 50  # steps of the second run in one call
MOST = 5  # times the steps of the first run that the second may take
SAFE = 0.1  # the share of the room around the state that this error may take; the run itself is better yet


@dataclass
class Error:
    """An estimate of the error of a run: a second run from the same start, at a looser tolerance."""

    walk: Walk
    failed: bool = False

    def at(self, walk: Walk, deadline: float, shown: Progress) -> float:
        """The distance of the two runs at the time of the first; infinity if the second is not there."""
        twin, goal = self.walk, walk.clock.log_time
        try:
            while not self.failed and twin.clock.log_time < goal:
                if time.monotonic() > deadline or twin.steps > MOST * (walk.steps + 10):
                    return np.inf
                before = twin.steps
                twin.forward(TOGETHER, log_time=goal)
                if twin.steps == before:  # the time is reached in the next step
                    piece = twin.step()
                    there = twin.clock.log_time_at(piece, piece.cut) >= goal
                    twin.take(piece, _place(twin, piece, goal) if there else None)
                    if there:
                        break
                shown.update(min(twin.steps / (walk.steps + 1), 0.99), "a second run, to compare")
        except AtRest:
            pass  # it is there, and stays
        except Stalled:
            self.failed = True
        same = [fork.slopes.tolist() for fork in twin.forks] == [fork.slopes.tolist() for fork in walk.forks]
        return float(np.linalg.norm(twin.weights.w - walk.weights.w)) if same and not self.failed else np.inf


def _place(walk: Walk, piece: Piece, log_time: float) -> float:
    """Where in the next step of a walk the logarithm of time has this value."""

    def ahead(theta: float) -> float:
        return walk.clock.log_time_at(piece, theta) - log_time

    return float(brentq(ahead, 0.0, piece.cut, xtol=1e-15))
