"""The search with the square loss: the end point of the flow."""

import numpy as np

from rankfall.dynamics.exact import Weights
from rankfall.limits._base import Search
from rankfall.limits._endpoint import distance_to_end, end_of_region, outside, rounding, subgradient
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict

NEAR = 1e-3  # how far the end may be, as far as rounded pulls can tell, relative to the weights


class SquareLoss(Search):
    """The end of a flow of the square loss: the loss is zero there, or its shortest subgradient is."""

    def search(self) -> Limit:
        """The end point, followed; or what is known of it."""
        walk = self.walk
        missing: tuple[str, ...] = ("the flow is not at its end yet",)
        weights, distance = walk.weights, np.inf
        for _ in self.stretches():
            weights = walk.weights
            if not self.both:
                end = end_of_region(walk)
                weights, distance = end.weights, end.distance
                if distance > self.tol and not end.stays:
                    continue
                if pairs := outside(walk.region, weights):
                    missing = (
                        f"{pairs} pairs are on the other side of their kinks at the end of the region",
                    )
                    continue
            if self._rests_at(weights):
                missing = ()
                break
        if self.rests and self._rests_at(walk.weights):
            weights, missing = walk.weights, ()
        return self._limit(weights, missing, distance)

    def _rests_at(self, weights: Weights) -> bool:
        """Are the samples fitted, or does nothing move the weights, up to their rounding?"""
        walk = self.walk
        r = walk.pull(walk.outputs_of(weights))
        fitted = float(np.abs(r).max()) <= self.tol * np.abs(walk.pull.y).max() * walk.pull.weight
        small = self.tol if self.both else max(self.tol, rounding(walk, weights, r))
        if fitted:
            return True
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
