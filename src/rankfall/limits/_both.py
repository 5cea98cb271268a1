"""The search with both layers trained: a KKT point next to a late state, of the flow or of the slow flow."""

from typing import Any

import numpy as np

from rankfall.certificates import Certificate, Missing, propose_both, rank, stable_rank
from rankfall.dynamics.exact import Stalled
from rankfall.limits._base import Search
from rankfall.limits._clusters import polish
from rankfall.limits._kkt import Point, residuals
from rankfall.limits._result import Limit
from rankfall.limits._slow import SlowClock, slow_walk
from rankfall.limits._verdict import Verdict

EARLY = 20.0  # the margin from which on a KKT point is tried,
LATE = 1e4  # and that up to which the flow itself is followed
STEADY = 1e-6  # the distance of two KKT points, relative, at margins of which one is four times the other
AGREED = 1e-4  # 1 - cos between a late state and the limit


class BothLayers(Search):
    """The KKT point to which a late state leads: of the flow itself, or of the slow flow after it."""

    def search(self) -> Limit:
        """The limit, followed; or what is known of it."""
        target, point = EARLY, None
        missing: tuple[str, ...] = ("the data are not separated yet",)
        for _ in self.stretches():
            smallest = float(self.margins().min())
            if smallest <= 0 and self.comes_to_rest():
                break
            if smallest < target:
                continue
            target = 4 * smallest
            point, missing = self._next_point(point, smallest)
            if not missing or smallest > LATE:
                break
        smallest = float(self.margins().min())
        if smallest <= 0:
            return self.undecided()
        if target == EARLY:
            missing = (f"the smallest margin is {smallest:.3g}, and a late state has {EARLY:g} or more",)
        if missing and smallest > LATE and not self.interrupted:
            point, missing = self._slow_flow(point, missing)
        if point is None:
            return self.undecided(missing)
        if missing:
            return self.margin_limit(point, Verdict.NOT_DECIDED, (*missing, *self.spent()), self._more(point))
        document, more = self._proved(point)
        return self.margin_limit(point, Verdict.FOLLOWED, (), self._more(point) | more, document=document)

    def _proved(self, point: Point) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The certificate that this is a KKT point; without one, why not."""
        samples, problem = self.samples, self.problem
        side, slopes = samples.each(self.walk.region.side), samples.each(point.slopes)
        found = propose_both(problem, side, point.a, samples.shared(point.multipliers), slopes)
        if isinstance(found, Missing):
            return None, {"not_proved": f"that it is a KKT point: {found.why}"}
        claims = [
            claim for claim in (rank(problem, found), stable_rank(problem, found)) if isinstance(claim, dict)
        ]
        followed = {"the flow": "comes to this point", "1 - cos of the last state": self._angle(point)}
        return Certificate.of(problem, found, claims, followed=followed).document, {}

    def _slow_flow(
        self, point: Point | None, missing: tuple[str, ...]
    ) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point to which the slow flow leads, and what is missing."""
        try:
            self.walk, target = slow_walk(self.walk), 0.0
        except Stalled as stalled:
            self.stalled = str(stalled)
            return point, missing
        self.route = f"exact flow to margins of {LATE:g}, then the slow flow"
        for _ in self.stretches():
            if self.walk.clock.now >= target:
                target = self.walk.clock.now + 5.0
                point, missing = self._next_point(point, 1.0)
                if not missing:
                    break
        return point, missing

    def _next_point(self, last: Point | None, smallest: float) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point next to the present state, and what is missing to make it the limit."""
        walk = self.walk
        point = polish(walk.weights, walk.region, walk.present_pulls(), walk.pull.y, smallest)
        if point is None:
            return None, ("there is no KKT point next to the present state",)
        return point, self._missing(point, last)

    def _missing(self, point: Point, last: Point | None) -> tuple[str, ...]:
        walk = self.walk
        worst = residuals(point, walk.region.x, walk.pull.y, walk.region.slope, True).largest
        if not worst <= self.tol:
            return (f"the KKT point next to the present state has a residual of {worst:.1e}",)
        v = walk.region.pulls(walk.pull.y * point.multipliers) @ walk.region.x
        left = (point.a == 0) & (walk.weights.a != 0)
        growing = left & (np.linalg.norm(v, axis=1) >= 1)
        if growing.any():
            return (f"{int(growing.sum())} small neurons still grow as fast as the others, or faster",)
        turning = np.sign(walk.weights.a)[:, None] * walk.region.side * (v @ walk.region.x.T)
        if (turning[left] < -1e-12 * walk.region.lengths).any():
            return ("a small neuron has still to cross a kink",)
        longer = np.inf if last is None else abs(np.linalg.norm(last.w) / np.linalg.norm(point.w) - 1)
        if last is None or longer > 1e-9 or _apart(last, point) > STEADY:
            return ("the KKT point next to the state still changes",)
        if self._angle(point) > AGREED:
            return (f"the direction has not come near yet: 1 - cos = {self._angle(point):.1e}",)
        return ()

    def _angle(self, point: Point) -> float:
        now = np.concatenate([self.walk.weights.w.ravel(), self.walk.weights.a])
        then = np.concatenate([point.w.ravel(), point.a])
        return float(1 - now @ then / np.linalg.norm(now) / np.linalg.norm(then))

    def _more(self, point: Point) -> dict[str, Any]:
        more: dict[str, Any] = {
            "distance": self._angle(point),
            "stays": "followed: every neuron that is not in the limit loses",
        }
        slow = isinstance(self.walk.clock, SlowClock)
        return more | ({"log_margin": float(np.log(LATE) + self.walk.clock.now)} if slow else {})


def _apart(one: Point, other: Point) -> float:
    size = np.hypot(np.linalg.norm(other.w), np.linalg.norm(other.a))
    return float(np.hypot(np.linalg.norm(one.w - other.w), np.linalg.norm(one.a - other.a)) / size)
