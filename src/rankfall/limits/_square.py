"""The search with the square loss: the end point of the flow."""

import numpy as np

from rankfall.dynamics.exact import Weights
from rankfall.limits._at_rest import RestSearch
from rankfall.limits._endpoint import distance_to_end, end_of_region, outside, rounding, subgradient
from rankfall.limits._rest import RestPoint, fitted_point
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict

NEAR = 1e-3  # how far the end may be, as far as rounded pulls can tell, relative to the weights
MORE = 40  # stretches beyond the one from which the end is known, in which it may yet be proved


class SquareLoss(RestSearch):
    """The end of a flow of the square loss: the loss is zero there, or its shortest subgradient is."""

    def search(self) -> Limit:
        """The end point: proved with a fixed second layer, if it can be, else followed; or what is known."""
        walk, left = self.walk, MORE
        why, end = "the flow is not at its end yet", (walk.weights, np.inf)
        self._known: tuple[Weights, float] | None = None
        for _ in self.stretches():
            found = self._end_of_region()
            if isinstance(found, str):
                why = found or why
            else:
                end = found
                self._known = found if self._rests_at(found[0]) else self._known
            rests = None if self.both else self.at_rest()
            if rests is not None and rests.verdict is Verdict.AT_REST:
                return rests
            if self._known is not None:
                left -= 1
                if self.both or self._known[1] <= self.tol or left < 0:
                    break
        if self._known is None and self.rests and self._rests_at(walk.weights):
            self._known = walk.weights, end[1]
        if self._known is not None:
            return self._limit(self._known[0], (), self._known[1])
        return self._limit(end[0], (why,), end[1])

    def _end_of_region(self) -> tuple[Weights, float] | str:
        """The end if the flow stays in its region, and how far it is; or why there is none (perhaps "")."""
        walk = self.walk
        if self.both:
            return walk.weights, np.inf
        end = end_of_region(walk)
        if end.distance > self.tol and not end.stays:
            return ""
        pairs = outside(walk.region, end.weights)
        told = f"{pairs} pairs are on the other side of their kinks at the end of the region"
        return told if pairs else (end.weights, end.distance)

    def candidate(self, near: np.ndarray | None) -> RestPoint | None:
        """The minimum next to the present state; or the end that is known, if it fits all samples."""
        if self._known is not None and self._fits(self._known[0]):
            return fitted_point(self.walk, self._known[0].w)
        return super().candidate(near)

    def _fits(self, weights: Weights) -> bool:
        """Are all samples fitted?"""
        walk = self.walk
        r = walk.pull(walk.outputs_of(weights))
        return float(np.abs(r).max()) <= self.tol * np.abs(walk.pull.y).max() * walk.pull.weight

    def _rests_at(self, weights: Weights) -> bool:
        """Are the samples fitted, or does nothing move the weights, up to their rounding?"""
        walk = self.walk
        if self._fits(weights):
            return True
        r = walk.pull(walk.outputs_of(weights))
        small = self.tol if self.both else max(self.tol, rounding(walk, weights, r))
        balanced = subgradient(weights, walk.region, r, self.both)[0] <= small
        return balanced and distance_to_end(walk, weights, r) <= NEAR

    def _limit(self, weights: Weights, missing: tuple[str, ...], distance: float) -> Limit:
        walk = self.walk
        f = walk.outputs_of(weights)
        gradient, slopes = subgradient(weights, walk.region, walk.pull(f), self.both)
        misfit = float(np.abs(f - walk.pull.y).max() / max(np.abs(walk.pull.y).max(), 1e-300))
        with np.errstate(over="ignore"):
            loss = float(np.exp(walk.pull.log_loss(f)))
        kind = "interpolates" if misfit <= self.tol else "least squares: the loss does not go to zero"
        return self.finish(
            verdict=Verdict.NOT_DECIDED if missing else Verdict.FOLLOWED,
            missing=missing + (self.spent() if missing else ()),
            network=self.lifted(weights.w, weights.a, weights.c, still=True),
            multipliers=np.zeros(len(self.samples.where)),
            margins=self.samples.each(f),
            residuals={"gradient": gradient if misfit > self.tol else 0.0, "misfit": misfit},
            region=walk.region,
            slopes=np.where(
                walk.region.side == 0, slopes, np.where(walk.region.side > 0, 1.0, walk.region.slope)
            ),
            more={"end": kind, "loss_at_end": loss, "distance": distance},
        )
