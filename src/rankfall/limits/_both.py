"""The search with both layers trained: a KKT point next to a late state, of the flow or of the slow flow."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankfall._progress import progress
from rankfall.certificates import Certificate, Missing, propose_both, rank, stable_rank
from rankfall.dynamics.exact import AtRest, Stalled
from rankfall.limits._balance import rest_of
from rankfall.limits._base import FOREVER, RETRY, Search
from rankfall.limits._clusters import polish
from rankfall.limits._dead import dark, never_classified
from rankfall.limits._kkt import Point, margins, residuals
from rankfall.limits._result import Limit
from rankfall.limits._shares import leap
from rankfall.limits._slow import SlowClock, slow_walk
from rankfall.limits._verdict import Verdict

EARLY = 20.0  # the margin from which on a KKT point is tried,
LATE = 3e3  # and that up to which the flow itself is followed: an error of order 1/q in the shares is left
TOGETHER = 20  # steps of the flow after which its state is looked at
AGAIN = 1.3  # times the margin, where the slow flow could not begin
STEADY = 1e-6  # the distance of two KKT points, relative, at margins of which one is four times the other
AGREED = 1e-6  # 1 - cos between a late state and the limit
CALM = 5  # steps of the slow flow without event, after which it may leap,
FIRST, FURTHER, BACK = 5.0, 3.0, 4.0  # how far at first, and by which factors that grows, or shrinks
AT_REST = 1e-6  # how far a rest point may be, relative to the weights


class BothLayers(Search):
    """The KKT point to which a late state leads: of the flow itself, or of the slow flow after it."""

    def search(self) -> Limit:
        """The limit, followed; or what is known of it."""
        target, late, point = EARLY, LATE, None
        missing: tuple[str, ...] = ("the data are not separated yet",)
        for calm in self._steps():
            self.mark_dead()
            smallest = self.smallest()
            if smallest <= 0 and calm and self._rests():
                return self.at_rest_point(rest_of(self.walk, both=True))
            if smallest >= late:
                late = AGAIN * smallest
                if self._slows_down():
                    break
            if smallest >= target:
                target = 4 * smallest
                point, missing = self._next_point(point, smallest)
                if not missing:
                    break
        if isinstance(self.walk.clock, SlowClock):
            if not self.interrupted:
                point, missing = self._slow_flow(self.walk.clock, point, missing)
        elif (smallest := self.smallest()) <= 0:
            return (
                self.at_rest_point(rest_of(self.walk, both=True))
                if self.rests and self._rests()
                else self.undecided()
            )
        elif target == EARLY:
            missing = (f"the smallest margin is {smallest:.3g}, and a late state has {EARLY:g} or more",)
        if point is None:
            return self.undecided(missing)
        if self.dead.any():
            return self._partly(point, missing)
        if missing:
            return self.margin_limit(point, Verdict.NOT_DECIDED, (*missing, *self.spent()), self._more(point))
        document, more = self._proved(point)
        return self.margin_limit(point, Verdict.FOLLOWED, (), self._more(point) | more, document=document)

    # On the way

    def _steps(self) -> Iterator[bool]:
        """Walk on, with the present walk and those that take its place: many steps of the flow itself at a
        time, or one of the slow flow. Tells whether the last step was without event.
        """
        with progress("limit", self.show) as shown:
            try:
                while self.walk.steps < self.budget and not self.late:
                    if self.walk.clock.now > FOREVER:
                        raise Stalled("the clock has come to the end of what a double can count")
                    if isinstance(self.walk.clock, SlowClock):
                        calm = not self.walk.advance().hits
                    else:
                        self.walk.forward(min(TOGETHER, self.budget - self.walk.steps))
                        calm = self.walk.calm
                    self.forecast.update(self.walk.clock.now, len(self.walk.events))
                    shown.update(self._done(), self._note)
                    yield calm
            except KeyboardInterrupt:
                self.interrupted = True
            except Stalled as stalled:
                self.stalled, self.rests = str(stalled), isinstance(stalled, AtRest)

    def _rests(self) -> bool:
        """Do the pulls of the samples balance on every neuron, at weights that stay as they are?"""
        if not self.comes_to_rest():
            return False
        rest = rest_of(self.walk, both=True)
        return rest.gradient <= self.tol and rest.distance <= AT_REST

    # Ends at which samples stay on the wrong side

    def _partly(self, point: Point, missing: tuple[str, ...]) -> Limit:
        """The limit direction where some samples are dead: that of the margins of the others."""
        dead, region, y = self.dead, self.walk.region, self.walk.pull.y
        found = residuals(point, region.x, y, region.slope, True, dead)
        if not missing and not found.largest <= self.tol:
            missing = (f"a residual is above the tolerance {self.tol:g}",)
        silent = int(self.samples.each(dead).sum())
        q = np.where(dead, 0.0, margins(point, region.x, y, region.slope))
        end = never_classified(silent, len(self.samples.where))
        return self.finish(
            verdict=Verdict.NOT_DECIDED if missing else Verdict.FOLLOWED,
            missing=(*missing, *self.spent()) if missing else (),
            network=self.lifted(point.w, point.a),
            multipliers=self.samples.shared(point.multipliers),
            margins=self.samples.each(q),
            residuals=vars(found).copy(),
            region=region,
            slopes=point.slopes,
            more={"end": end} | self._more(point),
        )

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

    def _slows_down(self) -> bool:
        """Go over to the slow flow, if it can begin at the present state."""
        try:
            slow = slow_walk(self.walk)
        except Stalled:
            return False
        if slow is None:
            return False
        self._log_margin = float(np.log(self.smallest()))
        self.walk = slow
        self.route = f"exact flow to margins of {np.exp(self._log_margin):.3g}, then the slow flow"
        return True

    def _slow_flow(
        self, clock: SlowClock, point: Point | None, missing: tuple[str, ...]
    ) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point to which the slow flow leads, and what is missing."""
        target, calm, far = 0.0, 0, FIRST
        for without_event in self._steps():
            calm = calm + 1 if without_event else 0
            if calm >= CALM:
                gone = leap(self.walk, clock, far)
                calm, far = 0, far * FURTHER if gone else max(far / BACK, 1.0)
            if not (self.dead <= dark(self.walk)).all():
                return None, ("a dead sample wakes at margins that are beyond the flow itself",)
            if clock.now >= target:
                target = RETRY * clock.now + FIRST
                point, missing = self._next_point(point, 1.0)
                if not missing:
                    break
        return point, missing

    def _next_point(self, last: Point | None, smallest: float) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point next to the present state, and what is missing to make it the limit."""
        walk = self.walk
        point = polish(walk.weights, walk.region, walk.present_pulls(), walk.pull.y, smallest, self.dead)
        if point is None:
            return None, ("there is no KKT point next to the present state",)
        return point, self._missing(point, last)

    def _missing(self, point: Point, last: Point | None) -> tuple[str, ...]:
        walk = self.walk
        worst = residuals(point, walk.region.x, walk.pull.y, walk.region.slope, True, self.dead).largest
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
        return more | ({"log_margin": float(self._log_margin + self.walk.clock.now)} if slow else {})


def _apart(one: Point, other: Point) -> float:
    size = np.hypot(np.linalg.norm(other.w), np.linalg.norm(other.a))
    return float(np.hypot(np.linalg.norm(one.w - other.w), np.linalg.norm(one.a - other.a)) / size)
