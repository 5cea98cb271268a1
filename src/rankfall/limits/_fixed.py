"""The search with a fixed second layer.

The limit is the solution of the convex margin problem of the cell in which the flow stays, and that is proved
in exact arithmetic.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankfall._progress import progress
from rankfall.certificates import Missing, optimal, rank, stable_rank
from rankfall.dynamics import FlowWarning, flow
from rankfall.limits._asymptote import Asymptote, asymptote
from rankfall.limits._at_rest import RestSearch
from rankfall.limits._error import SAFE
from rankfall.limits._leaps import leap
from rankfall.limits._proof import Proof, document_of, prove, proved_point
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict
from rankfall.outcome import Outcome

LARGE = 100_000  # pairs of neuron and sample up to which every kink is met exactly
LOOSE = 1e-4  # the tolerance of the adaptive flow for larger ones
FIRST = 0.5  # the loss clock at which its state is tried first
AHEAD, LEAPS = 50.0, 200  # margins from which on it goes along half-lines, and how often at most
HOPELESS, CALM = 1e5, 10.0  # margins, and their growth since the last event, beyond which rounding decides


class FixedSecondLayer(RestSearch):
    """The solution of the convex margin problem of the cell in which the flow stays."""

    def search(self) -> Limit:
        """The limit with its certificate; or what is known of it."""
        large = self.walk.region.side.size > self.large
        found, why = None, "no limit was found yet"
        self.leaps = 0
        self._settled = -1, 1.0  # the number of events, and the margins when it was first seen
        for _ in self._late_states() if large else self.stretches():
            if self._hopeless():
                break
            near = self.near_kinks() if large else None
            if self.margins().min() <= 0:
                rests = self.at_rest(near) or self.at_rest_in_part()
                if rests is not None:
                    return rests
                if self.comes_to_rest():
                    break
                continue
            found = asymptote(self.walk, near)
            if large and self.margins().min() > AHEAD:
                found = self._leaps(found)
            if found is None or not found.stays:
                why = "this cell has no margin" if found is None else found.why
                continue
            proof = prove(self, found)
            if isinstance(proof, Missing):
                why = proof.why.removesuffix(".")
                continue
            if large:
                return self._large(found, proof)
            distance = self.run_error(proof.room)
            if distance <= SAFE * proof.room:
                return self._certified(found, proof, distance)
            why = (
                f"the run may be off by {distance:.1e}, and the proof has room for {proof.room:.1e}"
                if np.isfinite(distance)
                else "a second run, at another tolerance, does not come to the same state"
            )
        if self.margins().min() <= 0:
            near = self.near_kinks() if large else None
            if self.interrupted:
                return self.undecided((why,))
            rests = self.at_rest(near, anyway=True) or self.at_rest_in_part() or self.stopped()
            return rests or self.undecided(self._in_part or (why,))
        if found is None:
            return self.undecided((why,))
        missing = (why, *self.spent())
        return self.margin_limit(found.point, Verdict.NOT_DECIDED, missing, {}, found.region)

    def _hopeless(self) -> bool:
        """Are the margins so large, so long after the last event, that waiting longer proves no more?"""
        smallest, events = float(self.margins().min()), len(self.walk.events)
        if events != self._settled[0]:
            self._settled = events, max(smallest, 1.0)
        return smallest > max(HOPELESS, CALM * self._settled[1])

    def _certified(self, found: Asymptote, proof: Proof, error: float) -> Limit:
        followed = {
            "the run": f"came to a state {proof.distance:.3g} from the given one",
            "its error, by a second run": error,
            "error over room": error / proof.room,
        }
        more = {
            "distance": proof.distance,
            "radius": proof.radius,
            "error": error,
            "error_over_room": error / proof.room,
        }
        return self._at(found, proof, Verdict.CERTIFIED, more, followed)

    def _large(self, found: Asymptote, proof: Proof) -> Limit:
        leaps = f", then {self.leaps} leaps along the half-lines of cells" if self.leaps else ""
        self.route = f"adaptive flow to rtol {LOOSE:g}{leaps}"
        more = {"distance": proof.distance, "radius": proof.radius}
        followed = {"the route": f"approximate: {self.route}"}
        return self._at(found, proof, Verdict.APPROXIMATE_ROUTE, more, followed)

    def _at(
        self, found: Asymptote, proof: Proof, verdict: Verdict, more: dict[str, Any], followed: dict[str, Any]
    ) -> Limit:
        point, region = proved_point(self, proof, found.region)
        claims = [rank(proof.problem, proof.point), stable_rank(proof.problem, proof.point)]
        if self.optimality:
            claims.append(optimal(proof.problem, proof.point))
        document = document_of(proof, followed, [claim for claim in claims if isinstance(claim, dict)])
        return self.margin_limit(point, verdict, (), more, region, document)

    # Large problems: an approximate route

    def _leaps(self, found: Asymptote | None) -> Asymptote | None:
        """From cell to cell along their half-lines, until the flow stays in one."""
        with progress("limit", self.show) as shown:
            while found is not None and not found.stays and self.leaps < LEAPS and not self.late:
                if not leap(self.walk, found):
                    break
                self.leaps += 1
                shown.update(self.leaps / LEAPS, f"margins of {self.margins().min():.3g}; {found.why}")
                found = asymptote(self.walk)
        return found

    def _late_states(self) -> Iterator[None]:
        """States of the adaptive flow, each at twice the clock of the one before."""
        network, s, steps = self.network, 0.0, 0
        self.route = f"adaptive flow to rtol {LOOSE:g}"
        while steps < self.budget and not self.late:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FlowWarning)
                span = max(s, FIRST)
                run = flow(
                    network,
                    self.data,
                    self.loss,
                    span,
                    clock="loss",
                    rtol=LOOSE,
                    measures=["log_loss"],
                    record=[span],
                    budget=self.budget - steps,
                    seconds=max(self.deadline - time.monotonic(), 0.1),
                    show=self.show,
                )
            network, s, steps = run.network, s + float(run.s[-1]), steps + run.statistics.tried
            log_time = float(np.logaddexp(self.walk.clock.log_time, run.log_time[-1]))
            self.begin(network)
            walk = self.walk
            walk.clock.now, walk.steps, walk.clock.log_time = s, steps, log_time
            walk.motion.evaluations = float(run.statistics.evaluations or 0)
            yield
            if run.outcome is Outcome.INTERRUPTED:
                self.interrupted = True
                return
