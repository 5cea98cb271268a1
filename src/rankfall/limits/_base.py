"""Search: what the searches for a limit share: the walk, its time, and the way back to the user."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import equinox as eqx
import numpy as np

from rankfall._progress import progress
from rankfall.certificates import Certificate, Problem, inseparable
from rankfall.data import Data
from rankfall.dynamics import Reduction
from rankfall.dynamics.exact import AtRest, Fork, Region, Stalled, Walk, walk_of
from rankfall.limits._balance import Rest
from rankfall.limits._compare import compare
from rankfall.limits._dead import dark, dead_of, with_walls
from rankfall.limits._forecast import Forecast
from rankfall.limits._kkt import Point, margins, residuals
from rankfall.limits._optimality import Optimality, optimality_of_both, optimality_of_fixed
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict
from rankfall.loss import Loss
from rankfall.measure import Spectrum
from rankfall.network import Network, with_origin
from rankfall.trajectory import versions

RETRY = 1.2  # the certificate is tried again when the clock has grown by this factor,
PATIENCE = 50  # or after so many steps,
SPARING = 1.1  # but not before the steps have grown by this factor: a certificate costs many steps;
LATER = 2.0  # or the clock by this one: late steps are long
COMPILING = "compiling the steps of the exact flow, once, in the background: it goes faster then"
SHARE, SWIFT = 0.5, 2.0  # of the time so far, and seconds besides, that certificates may have taken
RTOL = 1e-10  # of the exact flow
DARK = 10.0  # the margin of all other samples from which on one without active neuron is a wall
FOREVER = 1e300  # of the clock
ROUNDED = 100.0  # times the tolerance: the residuals of a point whose exact numbers are proved


class Samples:
    """Data with samples that occur several times put together, and the way back."""

    def __init__(self, data: Data):
        rows = np.column_stack([data.x.astype(float) + 0.0, np.asarray(data.y, dtype=float).reshape(data.n)])
        _, first, where, counts = np.unique(
            rows, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        self.first = first[order]
        self.where = np.argsort(order)[where.ravel()]
        self.counts = counts[order].astype(float)
        self.once = len(self.first) == data.n
        self.data = data if self.once else Data(data.x[self.first], data.y[self.first], name=data.name)

    def each(self, values: np.ndarray) -> np.ndarray:
        """Values (..., different samples) for every sample."""
        return np.asarray(values[..., self.where])

    def shared(self, values: np.ndarray) -> np.ndarray:
        """The same where equal samples share a value in equal parts."""
        return np.asarray((values / self.counts)[..., self.where])


class Search:
    """A search for the limit of one flow: `run` returns it."""

    def __init__(
        self,
        network: Network,
        data: Data,
        loss: Loss,
        *,
        tol: float,
        budget: int,
        seconds: float,
        large: int,
        optimality: bool,
        show: bool,
        choices: tuple[int, ...] = (),
    ):
        self.network, self.given, self.loss = network, data, loss
        self.tol, self.budget, self.optimality, self.show = tol, budget, optimality, show
        self.large = large
        self.seconds, self.deadline = seconds, time.monotonic() + seconds
        self.samples = Samples(data)
        self.data = self.samples.data
        self.choices = choices
        self.route = "exact flow, region by region"
        self.both = network.trained[1]
        self.interrupted, self.stalled, self.rests = False, "", False
        self.begin(network)
        self.began, self.forecast = time.monotonic(), Forecast(self.walk.region.side.size)

    def begin(self, network: Network) -> None:
        """Walk from this network on."""
        self.reduction = Reduction([network], self.data, self.loss)
        self.walk = self.new_walk(RTOL)

    def new_walk(self, rtol: float) -> Walk:
        """A walk from the start."""
        return walk_of(self.reduction, rtol, self.samples.counts, self.choices)

    def run(self) -> Limit:
        """Search; Ctrl-C ends it with what is known by then."""
        try:
            claim = inseparable(self.problem) if self.walk.pull.normalised else None
            return self._not_separated(claim) if isinstance(claim, dict) else self.search()
        except KeyboardInterrupt:  # within a certificate; while walking, the search ends it in its own way
            self.interrupted = True
            return self.undecided()
        finally:
            self.close()

    def close(self) -> None:
        """End what was begun beside the search."""

    def search(self) -> Limit:
        """The limit."""
        raise NotImplementedError

    def _not_separated(self, claim: dict[str, Any]) -> Limit:
        """No network of this kind separates the data: the start, with the proof."""
        return replace(
            self.undecided(),
            verdict=Verdict.NOT_SEPARATED,
            missing=(inseparable_because(claim),),
            document=Certificate.of(self.problem, None, [claim]).document,
            comparison=None,
        )

    @cached_property
    def problem(self) -> Problem:
        """The problem of which certificates speak, in the user's samples."""
        network, data = self.network, self.given
        linear = network.linear_tail == network.depth
        return Problem(
            x=data.x.astype(np.float64),
            y=np.asarray(data.y, dtype=np.float64).reshape(data.n),
            slope=1.0 if linear else float(network.slope),
            second=None if self.both else np.asarray(network.weights[1][0]),
            bias=network.biases[0] is not None,
            loss=self.loss.name,
            name=data.name,
            width=len(network.weights[0]),
        )

    # On the way

    @property
    def late(self) -> bool:
        """Is the time up?"""
        return time.monotonic() >= self.deadline

    def stretches(self) -> Iterator[None]:
        """Stretches of the walk after which a certificate is worth trying."""
        clock, last = 0.0, 0
        began, tried = time.monotonic(), 0.0  # certificates do not take longer than the walk between them
        with progress("limit", self.show) as shown:
            try:
                while self.walk.steps < self.budget and not self.late:
                    walk = self.walk
                    if walk.clock.now > FOREVER:
                        raise Stalled("the clock has come to the end of what a double can count")
                    some = min(PATIENCE, self.budget - walk.steps) if walk.clock.now else 1
                    walk.forward(some, walk.clock.now * RETRY or np.inf)
                    self.forecast.update(walk.clock.now, len(walk.events))
                    shown.update(self._done(), self._note)
                    self.mark_dead()
                    if self.walk is not walk:  # its clock begins anew
                        clock = 0.0
                        continue
                    self.on_the_way()
                    due = walk.clock.now >= RETRY * clock or walk.steps >= last + PATIENCE
                    worth = walk.clock.now >= LATER * clock or walk.steps >= SPARING * last
                    now = time.monotonic()
                    if due and worth and tried <= SHARE * (now - began) + SWIFT:
                        clock, last = walk.clock.now, walk.steps
                        yield
                        tried += time.monotonic() - now
            except KeyboardInterrupt:
                self.interrupted = True
            except Stalled as stalled:
                self.stalled, self.rests = str(stalled), isinstance(stalled, AtRest)

    @property
    def dead(self) -> np.ndarray:
        """The samples on which no neuron is active; their loss stays while that of the others falls."""
        return dead_of(self.walk.pull)

    def smallest(self) -> float:
        """The smallest margin of a sample that is not dead."""
        return float(self.margins()[~self.dead].min())

    def mark_dead(self) -> None:
        """Go on without the samples that are dead, once all others have large margins; and wake them."""
        now, dead = dark(self.walk), self.dead
        others = self.margins()[~now]
        if dead.any() and not (dead <= now).all():
            self.walk = with_walls(self.walk, dead & now)
        elif self.walk.pull.normalised and (now > dead).any() and others.size and others.min() > DARK:
            self.walk = with_walls(self.walk, now)

    def on_the_way(self) -> None:
        """Do what is to be done beside the walk."""

    def comes_to_rest(self) -> bool:
        """Does nothing move any more, as far as floating point can tell? Then the search ends."""
        if not self.walk.at_rest():
            return False
        self.stalled, self.rests = "the flow is at rest, up to rounding", True
        return True

    def _done(self) -> float:
        left = max(self.deadline - time.monotonic(), 0.0)
        spent = 1 - left / self.seconds if np.isfinite(self.seconds) else 0.0
        return max(self.walk.steps / self.budget, spent)

    def _note(self) -> str:
        """How far the search is, and where the flow seems to go."""
        walk, q, events = self.walk, self.margins(), len(self.walk.events)
        rate = events / max(time.monotonic() - self.began, 1e-3)
        notes = [
            f"{events:,} of about {self.forecast.expected(events):,} events ({rate:,.0f} per second)",
            f"log t = {walk.clock.log_time:.1f}",
            f"stable rank {Spectrum.of(walk.weights.w).stable_rank:.2f}",
        ]
        if walk.pull.normalised:
            wrong = int((self.samples.each(q) <= 0).sum())
            sizes = f"{wrong} of {len(self.samples.where)} samples on the wrong side"
            notes.append(sizes if wrong else f"smallest margin {q.min():.3g}")
        if walk.compiles:
            notes.append(COMPILING)
        return ", ".join(notes)

    def spent(self) -> tuple[str, ...]:
        """Why the search has ended, if it was not because of an answer."""
        if self.interrupted:
            return ("interrupted",)
        if self.stalled:
            return (self.stalled,)
        if self.walk.steps >= self.budget:
            return (f"the budget of {self.budget:,} steps is spent",)
        return (f"the {self.seconds:g} seconds are spent",) if self.late else ()

    def margins(self) -> np.ndarray:
        """The margins of the present state."""
        return np.asarray(self.walk.pull.y * self.walk.outputs)

    # What comes out

    def margin_limit(
        self,
        point: Point,
        verdict: Verdict,
        missing: tuple[str, ...],
        more: dict[str, Any],
        region: Region | None = None,
        document: dict[str, Any] | None = None,
    ) -> Limit:
        """The limit at a KKT point, scaled to the margin 1."""
        region, y = region or self.walk.region, self.walk.pull.y
        q = margins(point, region.x, y, region.slope)
        if q.min() > 0:  # to the margin 1 exactly
            point = point.scaled(float(q.min()) ** (-0.5 if self.both else -1.0), self.both)
            q = margins(point, region.x, y, region.slope)
        found = residuals(point, region.x, y, region.slope, self.both)
        # of a point that is proved, the residuals are those of its rounded weights
        allowed = self.tol if document is None else ROUNDED * self.tol
        if verdict is not Verdict.NOT_DECIDED and not found.largest <= allowed:
            verdict, missing = Verdict.NOT_DECIDED, (f"a residual is above the tolerance {allowed:g}",)
            document = None
        answered = verdict is not Verdict.NOT_DECIDED
        return self.finish(
            verdict=verdict,
            missing=missing,
            network=self.lifted(point.w, point.a),
            multipliers=self.samples.shared(point.multipliers),
            margins=self.samples.each(q),
            residuals=vars(found).copy(),
            region=region,
            slopes=point.slopes,
            optimality=self._optimality(point) if self.optimality and answered else None,
            comparison=self._compare(point),
            more=more,
            document=document,
        )

    def at_rest_point(self, rest: Rest) -> Limit:
        """The present state as the end of a flow that comes to rest at finite weights; followed."""
        walk, weights, q = self.walk, self.walk.weights, self.samples.each(self.margins())
        wrong = int((q <= 0).sum())
        with np.errstate(over="ignore"):
            loss = float(np.exp(walk.pull.log_loss(walk.outputs)))
        return self.finish(
            verdict=Verdict.FOLLOWED,
            missing=(),
            network=self.lifted(weights.w, weights.a, weights.c, still=True),
            multipliers=np.zeros(len(q)),
            margins=q,
            residuals={"gradient": rest.gradient},
            region=walk.region,
            slopes=rest.slopes,
            more={
                "end": f"rest point: {wrong} of {len(q)} samples are misclassified",
                "loss_at_end": loss,
                "distance": rest.distance,
            },
        )

    def finish(
        self,
        *,
        verdict: Verdict,
        missing: tuple[str, ...],
        network: Network,
        multipliers: np.ndarray,
        margins: np.ndarray,
        residuals: dict[str, float],
        region: Region,
        slopes: np.ndarray,
        more: dict[str, Any],
        optimality: Optimality | None = None,
        comparison: Any = None,
        document: dict[str, Any] | None = None,
    ) -> Limit:
        """A Limit in the user's samples, with the state from which to go on."""
        side, slopes = self.samples.each(region.side), self.samples.each(slopes)
        weights = self.walk.weights
        return Limit(
            verdict=verdict,
            missing=missing,
            network=network,
            multipliers=multipliers,
            margins=margins,
            residuals=residuals,
            region=side,
            kinks=kinks_of(side, slopes, float(region.slope)),
            optimality=optimality,
            comparison=comparison,
            settings=self._settings(more),
            state=self.lifted(weights.w, weights.a, weights.c, still=True),
            document=document,
        )

    def undecided(self, missing: tuple[str, ...] = (), more: dict[str, Any] | None = None) -> Limit:
        """No answer yet: the last state, scaled to the margin 1 if it separates the data."""
        walk, q = self.walk, self.margins()
        missing = (*missing, *self.spent())
        weights, r = walk.weights, walk.pull(walk.outputs)
        if walk.pull.normalised and q.min() > 0:
            multipliers = np.abs(r)
            point = Point(weights.w, weights.a, multipliers, walk.region.slopes)
            point = point.scaled(float(q.min()) ** (-0.5 if self.both else -1.0), self.both)
            norm2 = (point.w**2).sum() + (point.a**2).sum() * self.both
            share = multipliers / multipliers.sum() * norm2 / (2 if self.both else 1)
            point = replace(point, multipliers=share)
            return self.margin_limit(point, Verdict.NOT_DECIDED, missing, more or {})
        wrong = int((q <= 0).sum())
        if walk.pull.normalised:
            missing = (f"{wrong} of {len(q)} samples are on the wrong side so far", *missing)
        with np.errstate(over="ignore"):  # a loss may be infinite; its logarithm is not
            loss = float(np.exp(walk.pull.log_loss(walk.outputs)))
        return self.finish(
            verdict=Verdict.NOT_DECIDED,
            missing=missing,
            network=self.lifted(weights.w, weights.a, weights.c, still=True),
            multipliers=np.zeros(len(self.samples.where)),
            margins=self.samples.each(q if walk.pull.normalised else walk.outputs),
            residuals={},
            region=walk.region,
            slopes=walk.region.slopes,
            more={"loss_at_end": loss} | (more or {}),
        )

    def lifted(self, w: np.ndarray, a: np.ndarray, c: Any = None, still: bool = False) -> Network:
        """The network with these weights in the user's coordinates; `still`: keep what never moved."""
        network, spans = self.network, self.reduction.spans
        bias = network.biases[0] is not None
        w, b = (w[:, :-1], w[:, -1]) if bias else (w, None)
        first = w
        if spans:
            first = spans[0].lift(network.weights[0], w) if still else w @ spans[0].inside.T
        made = eqx.tree_at(lambda n: (n.weights[0], n.weights[1]), network, (first, a[None, :]))
        if bias:
            made = eqx.tree_at(lambda n: n.biases[0], made, b)
        if c is not None and network.biases[1] is not None:
            made = eqx.tree_at(lambda n: n.biases[1], made, np.atleast_1d(c))
        return with_origin(made, f"{'state' if still else 'limit'} of ({network.origin})")

    def to_user(self, rows: np.ndarray) -> np.ndarray:
        """Rows (..., k) of the walk's coordinates in those of the user."""
        if not self.reduction.spans:
            return rows
        inside = self.reduction.spans[0].inside
        k = inside.shape[1]
        return np.concatenate([rows[..., :k] @ inside.T, rows[..., k:]], axis=-1)

    def from_user(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the user's coordinates in those of the walk, if they are in the span of the samples."""
        if not self.reduction.spans:
            return rows
        inside = self.reduction.spans[0].inside
        d = inside.shape[0]
        return np.concatenate([rows[..., :d] @ inside, rows[..., d:]], axis=-1)

    def _optimality(self, point: Point) -> Optimality | None:
        """Whether the point is globally optimal; None after Ctrl-C, for the limit is known all the same."""
        region, y = self.walk.region, self.walk.pull.y
        judge = optimality_of_both if self.both else optimality_of_fixed
        try:
            found = judge(point.w, point.a, region.x, y, region.slope, point.multipliers)
        except KeyboardInterrupt:
            return None
        return found if found.better is None else replace(found, better=self.to_user(found.better))

    def _compare(self, point: Point) -> Any:
        region = self.walk.region
        found = compare(point.w, point.a, region.slope, region.x, self.walk.pull.y)
        svm = None if found.svm is None else self.to_user(found.svm)
        return replace(found, z=self.to_user(found.z), svm=svm)

    def _settings(self, more: dict[str, Any]) -> dict[str, Any]:
        walk = self.walk
        return {
            "way": self.route,
            "loss": str(self.loss),
            "data": self.given.name,
            "tolerance": self.tol,
            "steps": walk.steps,
            "evaluations": round(walk.evaluations),
            "events": len(walk.events),
            "log_time": walk.clock.log_time,
            **more,
            "versions": versions(),
        }

    @property
    def fork(self) -> Fork | None:
        """The first point from which several solutions leave, beyond those that were chosen."""
        return self.walk.forks[0] if self.walk.forks else None


def inseparable_because(claim: dict[str, Any]) -> str:
    """Why no network of a kind separates the data."""
    if "combination" in claim:
        several = sum(int(number, 16) > 0 for number in claim["combination"])
        return (
            f"the data are not linearly separable: a combination of {several} of the y_i x_i with positive "
            "weights vanishes"
        )
    if "samples" in claim:
        first, second = claim["samples"]
        return f"the samples {first} and {second} lie on one ray from the origin, but have different labels"
    return f"sample {claim['sample']} is zero, where every network without biases is zero"


def kinks_of(side: np.ndarray, slopes: np.ndarray, slope: float) -> tuple[tuple[int, int, float], ...]:
    """The pairs (neuron, sample) whose slope is not that of their side, with it: W follows from these."""
    usual = np.where(side > 0, 1.0, slope)
    pairs = np.nonzero((side == 0) | (slopes != usual))
    return tuple((int(j), int(i), float(slopes[j, i])) for j, i in zip(*pairs, strict=True))
