"""The search, where the flow comes to rest in a minimum of the loss (second layer fixed)."""

from dataclasses import replace
from typing import Any

import numpy as np

from rankfall._progress import progress
from rankfall.certificates import Certificate, Missing
from rankfall.dynamics.exact import Region
from rankfall.limits._balance import rest_of
from rankfall.limits._base import Search
from rankfall.limits._dead import never_classified
from rankfall.limits._endpoint import subgradient
from rankfall.limits._error import LONG, SAFE, TWINS, Error
from rankfall.limits._partly import Turning, partly
from rankfall.limits._proof import RestProof, prove_rest
from rankfall.limits._rest import RestPoint, derivatives, rest_point
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict

NEAR = 3e-3  # pre-activations that are this small, relative to weights and inputs, may be at their kinks
AGAIN = 0.1  # a proof that failed is tried again when the state is nearer by this factor,
STILL = 1e-6  # how far a rest point may be, relative to the weights, where nothing moves any more
CLEAR = 1e-3  # and not any more where the state is so near, relative to the room that the kinks leave


class RestSearch(Search):
    """A search that knows when the flow comes to rest, and what its error is."""

    def __init__(self, *given: Any, **settings: Any):
        super().__init__(*given, **settings)
        self._twins, self._tried = list(TWINS), np.inf
        self._error: Error | None = None
        self._in_part: tuple[str, ...] = ()  # why the flow has no end yet at which it rests in part

    def run_error(self, room: float) -> float:
        """The error of the run by a second one; by better ones until it is far below the room."""
        while True:
            second = self._second_run()
            with progress("limit", self.show) as shown:
                distance = second.at(self.walk, self.deadline, shown)
            if distance <= SAFE * room or not self._twins or not distance <= 1e3 * room or self.late:
                return distance
            self.close()
            self._error = None  # a better estimate, that is

    def _second_run(self) -> Error:
        self._error = self._error or Error(self.new_walk(self._twins.pop(0)))
        return self._error

    def on_the_way(self) -> None:
        """Let a second run follow a long one, where something may be proved of its end."""
        if self.dead.any():
            self.close()
        elif self.walk.steps >= LONG and not self.both:
            self._second_run().beside(self.walk)

    def close(self) -> None:
        """The second run ends with the first."""
        if self._error is not None:
            self._error.end()

    def candidate(self, near: np.ndarray | None) -> RestPoint | None:
        """The minimum next to the present state, if there is one."""
        found = rest_point(self.walk, near)
        return rest_point(self.walk, self.near_kinks()) if found is None and near is None else found

    def near_kinks(self) -> np.ndarray:
        """The pairs that may be at their kinks: an adaptive flow zigzags there, and never meets them."""
        walk = self.walk
        sizes = np.linalg.norm(walk.weights.w, axis=1)[:, None] * walk.region.lengths
        return np.asarray(np.abs(walk.z) <= NEAR * sizes)

    def at_rest(self, near: np.ndarray | None = None, anyway: bool = False) -> Limit | None:
        """The minimum in which the flow comes to rest, if that is proved, or cannot be proved better later.

        `near`: pairs that may be at their kinks; `anyway`: the search is over, say what is known.
        """
        found = None if self.dead.any() else self.candidate(near)
        if found is None or not found.distance < found.room:
            return None
        exact = self.route.startswith("exact")
        clear = exact and found.distance <= (SAFE if anyway else CLEAR) * found.room
        if found.distance > AGAIN * self._tried and not clear and not anyway:
            return None
        self._tried = found.distance
        proof = prove_rest(self, found)
        if isinstance(proof, Missing):
            return self._followed(found, proof.why.removesuffix(".")) if clear else None
        error = self.run_error(proof.room) if exact else np.nan
        if exact and not error <= SAFE * proof.room:
            why = f"the run may be off by {error:.1e}, and the proof has room for {proof.room:.1e}"
            return self._followed(found, why) if clear else None
        return self._proved(found, proof, error)

    def at_rest_in_part(self) -> Limit | None:
        """The end of a flow that comes to rest in part, if it is near enough; followed, and not proved."""
        found = partly(self.walk) if self.route.startswith("exact") else None
        if isinstance(found, Turning):
            resting = int(self.samples.each(found.rests).sum())
            self._in_part = (
                f"{resting} of {len(self.samples.where)} samples come to rest, but {found.pairs} pairs of "
                "neuron and sample cross their kinks while the margins of the others grow",
            )
            return None
        if found is None or not found.distance < SAFE * found.room:
            return None
        if not max(found.residuals.values()) <= self.tol:
            return None
        samples, y = self.samples, self.walk.pull.y
        rests, wrong = samples.each(found.rests), samples.each(found.rests & (y * found.outputs <= 0))
        told = (
            never_classified(int(rests.sum()), len(rests))
            if (found.rests == self.dead).all()
            else f"{int(rests.sum())} of {len(rests)} samples keep finite margins, and {int(wrong.sum())} of "
            "them are misclassified. The margins of the others grow without bound, and this is the limit of "
            "the direction"
        )
        return self.finish(
            verdict=Verdict.FOLLOWED,
            missing=(told,),
            network=self.lifted(found.w, self.walk.weights.a),
            multipliers=samples.shared(found.multipliers),
            margins=samples.each(np.where(found.rests, 0.0, self._margins_of(found.w))),
            residuals=found.residuals,
            region=Region(self.walk.region.x, self.walk.region.slope, found.side, self.walk.region.lines),
            slopes=found.slopes,
            more={
                "end": "at rest in part",
                "loss_at_end": found.loss * self.walk.pull.weight,
                "distance": found.distance,
            },
        )

    def stopped(self) -> Limit | None:
        """The state, if nothing moves any more, up to rounding, though no minimum of the loss was found."""
        rest = rest_of(self.walk, self.both) if self.rests else None
        if rest is None or not rest.gradient <= self.tol or not rest.distance <= STILL:
            return None
        return self.at_rest_point(rest)

    def _margins_of(self, w: np.ndarray) -> np.ndarray:
        """The margins of another first layer, without the bias of the output."""
        walk, still = self.walk, self.walk.weights
        return np.asarray(walk.pull.y * walk.outputs_of(replace(still, w=w, c=np.zeros_like(still.c))))

    def _proved(self, found: RestPoint, proof: RestProof, error: float) -> Limit:
        followed: dict[str, Any] = {"the run": f"came to a state {proof.distance:.3g} from the given one"}
        more = {"distance": proof.distance, "radius": proof.radius}
        if np.isfinite(error):
            followed |= {"its error, by a second run": error, "error over room": error / proof.room}
            more |= {"error": error, "error_over_room": error / proof.room}
        else:
            followed |= {"the route": f"approximate: {self.route}"}
        document = Certificate.of(proof.problem, None, [proof.claim], followed=followed).document
        why = self._misclassified(found, proof.claim.get("wrong"))
        verdict = Verdict.AT_REST if np.isfinite(error) else Verdict.APPROXIMATE_ROUTE
        return self._resting(found, verdict, (why,) if why else (), more, document)

    def _followed(self, found: RestPoint, why: str) -> Limit | None:
        weights = replace(self.walk.weights, w=found.w)
        if not subgradient(weights, self.walk.region, found.pulls, False)[0] <= self.tol:
            return None  # it still moves, however slowly
        told = (self._misclassified(found), f"that it stays is not proved: {why}")
        more = {"distance": found.distance}
        return self._resting(found, Verdict.FOLLOWED, tuple(filter(None, told)), more)

    def _misclassified(self, found: RestPoint, wrong: int | None = None) -> str:
        """The sentence that says how many samples are; of how many that is proved, if it is not of all."""
        if not self.walk.pull.normalised:
            return ""
        q = self.samples.each(self.walk.pull.y * found.outputs)
        if wrong == 0:  # their outputs are zero
            return "there the network does not separate the data"
        many = int((q <= 0).sum())
        proved = "" if wrong in (None, many) else f" (proved of at least {wrong})"
        return f"there the network misclassifies {many} of {len(q)} samples{proved}"

    def _resting(
        self,
        found: RestPoint,
        verdict: Verdict,
        missing: tuple[str, ...],
        more: dict[str, Any],
        document: dict[str, Any] | None = None,
    ) -> Limit:
        walk, samples = self.walk, self.samples
        weights = replace(walk.weights, w=found.w)
        gradient, _ = subgradient(weights, walk.region, found.pulls, False)
        loss = derivatives(walk.pull, found.outputs)[2] * walk.pull.weight
        square = not walk.pull.normalised
        off = np.abs(found.outputs - walk.pull.y).max() / max(np.abs(walk.pull.y).max(), 1e-300)
        fits = square and float(off) <= self.tol
        kind = "interpolates" if fits else "least squares: the loss does not go to zero"
        return self.finish(
            verdict=verdict,
            missing=missing,
            network=self.lifted(found.w, weights.a, weights.c, still=True),
            multipliers=np.zeros(len(samples.where)),
            margins=samples.each(found.outputs * (1.0 if square else walk.pull.y)),
            residuals={"gradient": 0.0 if fits else gradient} | ({"misfit": float(off)} if square else {}),
            region=Region(walk.region.x, walk.region.slope, found.side, walk.region.lines),
            slopes=found.slopes,
            more={"end": kind if square else "at rest", "loss_at_end": loss} | more,
            document=document,
        )
