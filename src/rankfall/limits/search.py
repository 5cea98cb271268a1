"""limit: from a network and data, or from where a run stopped, to the end of the flow and its certificate."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np

from rankfall.data import Data, combination_that_vanishes
from rankfall.dynamics.affine import AffineWalk
from rankfall.dynamics.exact import LOSSES, walk_of
from rankfall.dynamics.flow import FlowWarning, flow
from rankfall.dynamics.problem import Reduction
from rankfall.dynamics.regions import Region
from rankfall.dynamics.step import Piece
from rankfall.dynamics.walk import AtRest, Stalled
from rankfall.limits.approximate import approximate
from rankfall.limits.asymptote import Asymptote, asymptote, leap
from rankfall.limits.clusters import polish
from rankfall.limits.compare import compare
from rankfall.limits.endpoint import end_of_region, subgradient
from rankfall.limits.kkt import Point, margins, residuals
from rankfall.limits.optimality import Optimality, optimality_of_both, optimality_of_fixed
from rankfall.limits.result import CERTIFIED, NO_MARGIN, NOT_CERTIFIED, Limit
from rankfall.limits.slow import SlowWalk
from rankfall.loss import Loss, named
from rankfall.network import Network, with_origin
from rankfall.progress import progress
from rankfall.trajectory import Trajectory, versions

RETRY = 1.2  # the certificate is tried again when the clock has grown by this factor,
PATIENCE = 50  # or after so many steps,
SPARING = 1.1  # but not before the steps have grown by this factor: a certificate costs as much as many steps
LARGE = 20_000  # pairs of neuron and sample up to which every kink is met exactly
LOOSE = 1e-4  # the tolerance of the adaptive flow for larger ones
FIRST = 0.5  # the loss clock at which its state is tried first
AHEAD, LEAPS = 50.0, 200  # margins from which on it goes along half-lines, and how often at the most
NEAR = 3e-3  # pre-activations that are this small, relative to weights and inputs, may be at their kinks
EARLY = 20.0  # the margin from which on a KKT point is tried with both layers trained,
LATE = 1e4  # and that up to which the flow itself is followed
AGREED = 1e-4  # 1 - cos between a late state and the limit, with both layers trained


def limit(
    network: Network | Trajectory,
    data: Data,
    loss: Loss | str = "exponential",
    *,
    tol: float = 1e-10,
    budget: int = 100_000,
    optimality: bool = True,
    show: bool = True,
) -> Limit:
    r"""Where the gradient flow from `network` ends, with a certificate.

    A two-layer network is followed exactly, from region to region (`exact_flow`), and after every stretch the
    end of the flow in its present region is computed. It is the limit if its KKT conditions hold and the flow
    provably stays in the region; else the flow goes on. Deeper networks are followed by `flow`, and their
    last state is judged as it is: that is approximate.

    **Arguments:**

    - `network`: where the flow starts; or a run, to go on from where it stopped.
    - `data`, `loss`: exponential and logistic loss have a limit direction, the square loss an end point.
    - `tol`: the largest residual that a certificate may have.
    - `budget`: how many steps to take at the most.
    - `optimality`: also find out whether the limit is globally optimal.
    - `show`: show progress after two seconds.

    **Returns:** a `Limit`. Print it. Ctrl-C ends the search early and returns what is known by then.
    """
    loss = named(loss)
    network = network.network if isinstance(network, Trajectory) else network
    network = network.astype(np.float64)
    if not tol > 0 or budget < 1:
        raise ValueError("the tolerance must be positive and the budget at least one step.")
    exact = network.depth == 2 and network.trained[0] and not network.has_skips and loss.name in LOSSES
    if network.outputs != 1 or loss.targets == "classes":
        raise ValueError(f"a limit is for networks with one output; this is {network!r}.")
    if loss.name != "square" and not network.homogeneity:
        raise ValueError(
            "this network is not homogeneous in what is trained, so that the margin problem is not defined: "
            "only the first trained layer may have a bias, and a skip asks for a fixed layer beside it."
        )
    if not exact:
        return approximate(network, data, loss, budget=budget, show=show)
    search = _Search(network, data, loss, tol, budget, optimality, show)
    return search.run()


class _Search:
    """A search for the limit of one flow."""

    def __init__(
        self, network: Network, data: Data, loss: Loss, tol: float, budget: int, optimality: bool, show: bool
    ):
        self.network, self.data, self.loss = network, data, loss
        self.tol, self.budget, self.optimality, self.show = tol, budget, optimality, show
        self.reduction = Reduction([network], data, loss)
        self.walk = walk_of(self.reduction.one, rtol=1e-10)
        self.both = network.trained[1]
        self.interrupted = False
        self.stalled, self.rests, self.leaps = "", False, 0

    def run(self) -> Limit:
        """Search; Ctrl-C ends it with what is known by then."""
        square = self.loss.name == "square"
        try:
            if square:
                return self.end_point()
            return self.both_layers() if self.both else self.fixed_second_layer()
        except KeyboardInterrupt:  # within a certificate; while walking, the search ends it in its own way
            self.interrupted = True
            if square:
                return self._end_limit(self.walk.weights, self._spent(), np.inf)
            return self._open(()) if self._margins().min() > 0 else self._not_separated()

    # The three kinds of flows

    def fixed_second_layer(self) -> Limit:
        """The solution of the convex margin problem of the cell in which the flow stays."""
        large = self.walk.region.side.size > LARGE
        found: Asymptote | None = None
        for _ in self._late_states() if large else self._stretches():
            if self._margins().min() > 0:
                found = asymptote(self.walk, self._near_kinks() if large else None)
                if large and self._margins().min() > AHEAD:
                    found = self._leaps(found)
                if found is not None and found.stays:
                    break
            elif self.walk.at_rest():
                return self._not_separated()
        if found is None:
            return self._not_separated() if self._margins().min() <= 0 else self._open(("no limit found",))
        missing = () if found.stays else (found.why, *self._spent())
        stays = "proved: two solutions in one cell never move apart" if found.stays else "open"
        more: dict[str, Any] = {"distance": found.distance, "stays": stays}
        if large:
            leaps = f", then {self.leaps} leaps along the half-lines of cells" if self.leaps else ""
            more["way"] = f"adaptive flow to rtol {LOOSE:g}{leaps}; certified from there on"
        return self._margin_limit(found.point, missing, more, found.region)

    def _leaps(self, found: Asymptote | None) -> Asymptote | None:
        """From cell to cell along their half-lines, until the flow stays in one."""
        walk = self.walk
        assert isinstance(walk, AffineWalk)
        with progress("limit", self.show) as shown:
            while found is not None and not found.stays and self.leaps < LEAPS and leap(walk, found):
                self.leaps += 1
                shown.update(self.leaps / LEAPS, f"margins of {self._margins().min():.3g}; {found.why}")
                found = asymptote(walk)
        return found

    def _late_states(self) -> Iterator[None]:
        """States of the adaptive flow, each at twice the clock of the one before."""
        network, s, steps = self.network, 0.0, 0
        while steps < self.budget:
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
                    show=self.show,
                )
            network, s, steps = run.network, s + float(run.s[-1]), steps + run.settings["steps"]
            steps += run.settings["rejected_steps"]
            self.reduction = Reduction([network], self.data, self.loss)
            self.walk = walk_of(self.reduction.one, rtol=1e-10)
            self.walk.clock, self.walk.steps = s, steps
            self.walk.evaluations = float(run.settings["evaluations"])
            self.walk.log_time = float(np.logaddexp(self.walk.log_time, run.log_time[-1]))
            yield
            if run.settings["outcome"].startswith("interrupted"):
                self.interrupted = True
                return

    def _near_kinks(self) -> np.ndarray:
        """The pairs that may be held at their kinks: an adaptive flow zigzags there, and never meets them."""
        walk = self.walk
        sizes = np.linalg.norm(walk.weights.w, axis=1)[:, None] * walk.lengths
        return np.asarray(np.abs(walk.z) <= NEAR * sizes)

    def both_layers(self) -> Limit:
        """The KKT point to which a late state leads: of the flow itself, or of the slow flow after it."""
        target, point = EARLY, None
        missing: tuple[str, ...] = ("the data are not separated yet",)
        for _ in self._stretches():
            smallest = float(self._margins().min())
            if smallest <= 0 and self.walk.at_rest():
                return self._not_separated()
            if smallest < target:
                continue
            target = 4 * smallest
            point, missing = self._next_point(point, smallest)
            if not missing or smallest > LATE:
                break
        if self._margins().min() <= 0:
            return self._not_separated()
        if target == EARLY:
            missing = (f"the smallest margin is {self._margins().min():.3g}, and a late state is wanted",)
        if missing and self._margins().min() > LATE and not self.interrupted:
            point, missing = self._slow_flow(point, missing)
        if point is None:
            return self._open(missing)
        return self._margin_limit(point, (*missing, *(self._spent() if missing else ())), self._way(point))

    def _slow_flow(
        self, point: Point | None, missing: tuple[str, ...]
    ) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point to which the slow flow leads, and what is wanting."""
        try:
            self.walk, target = SlowWalk(self.walk), 0.0
        except Stalled as stalled:
            self.stalled = str(stalled)
            return point, missing
        for _ in self._stretches():
            if self.walk.clock >= target:
                target = self.walk.clock + 5.0
                point, missing = self._next_point(point, 1.0)
                if not missing:
                    break
        return point, missing

    def _next_point(self, last: Point | None, smallest: float) -> tuple[Point | None, tuple[str, ...]]:
        """The KKT point next to the present state, and what is wanting to make it the limit."""
        walk = self.walk
        point = polish(walk.weights, walk.region, walk.present_pulls(), walk.pull.y, smallest)
        if point is None:
            return None, ("there is no KKT point next to the present state",)
        return point, self._wanting(point, last)

    def _way(self, point: Point) -> dict[str, Any]:
        walk = self.walk
        slow = isinstance(walk, SlowWalk)
        way = (
            f"exact flow to margins of {LATE:g}, then the slow flow"
            if slow
            else "exact flow, region by region"
        )
        more = {
            "way": way,
            "distance": self._angle(point),
            "stays": "followed: every neuron that is not in the limit loses",
        }
        return more | ({"log_margin": float(np.log(LATE) + walk.clock)} if slow else {})

    def end_point(self) -> Limit:
        """The end of a flow of the square loss."""
        walk = self.walk
        missing: tuple[str, ...] = ("the flow is not at its end yet",)
        weights, distance = walk.weights, np.inf
        for _ in self._stretches():
            weights, r = walk.weights, walk.pull(walk.outputs)
            if not self.both:
                end = end_of_region(walk)
                weights, distance = end.weights, end.distance
                if distance > self.tol:
                    continue
                r = walk.pull(walk.outputs_of(weights))
            fitted = float(np.abs(r).max()) <= self.tol * np.abs(walk.pull.y).max() * walk.pull.weight
            if fitted or subgradient(weights, walk.region, r, self.both)[0] <= self.tol:
                missing = ()
                break
        return self._end_limit(weights, missing + (self._spent() if missing else ()), distance)

    # On the way

    def _stretches(self) -> Iterator[Piece]:
        """Steps of the walk after which a certificate is worth trying: those without event, some apart."""
        walk, again, last = self.walk, 0.0, 0
        with progress("limit", self.show) as shown:
            try:
                while walk.steps < self.budget:
                    piece = walk.advance()
                    kinks = int(walk.region.held.sum())
                    note = f"{len(walk.events):,} events, {kinks} kinks, log t = {walk.log_time:.4g}"
                    shown.update(walk.steps / self.budget, note)
                    due = walk.clock >= again or walk.steps >= last + PATIENCE
                    if not piece.hits and due and walk.steps >= SPARING * last:
                        again, last = walk.clock * RETRY, walk.steps
                        yield piece
            except KeyboardInterrupt:
                self.interrupted = True
            except Stalled as stalled:
                self.stalled, self.rests = str(stalled), isinstance(stalled, AtRest)

    def _spent(self) -> tuple[str, ...]:
        if self.interrupted:
            return ("interrupted",)
        if self.stalled:
            return (self.stalled,)
        return (f"spent the budget of {self.budget:,} steps",) if self.walk.steps >= self.budget else ()

    def _margins(self) -> np.ndarray:
        return np.asarray(self.walk.pull.y * self.walk.outputs)

    def _angle(self, point: Point) -> float:
        now = np.concatenate([self.walk.weights.w.ravel(), self.walk.weights.a])
        then = np.concatenate([point.w.ravel(), point.a])
        return float(1 - now @ then / np.linalg.norm(now) / np.linalg.norm(then))

    def _wanting(self, point: Point, last: Point | None) -> tuple[str, ...]:
        """What is wanting to make a KKT point the limit of the flow of both layers."""
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
        if (turning[left] < -1e-12 * walk.lengths).any():
            return ("a small neuron has still to cross a kink",)
        if last is None or abs(np.linalg.norm(last.w) / np.linalg.norm(point.w) - 1) > 1e-9:
            return ("the KKT point next to the state still changes",)
        if self._angle(point) > AGREED:
            return (f"the direction has not come near yet: 1 - cos = {self._angle(point):.1e}",)
        return ()

    # What comes out

    def _margin_limit(
        self, point: Point, missing: tuple[str, ...], more: dict[str, Any], region: Region | None = None
    ) -> Limit:
        region, y = region or self.walk.region, self.walk.pull.y
        q = margins(point, region.x, y, region.slope)
        if q.min() > 0:  # to the margin 1 exactly
            point = point.scaled(float(q.min()) ** (-0.5 if self.both else -1.0), self.both)
            q = margins(point, region.x, y, region.slope)
        found = residuals(point, region.x, y, region.slope, self.both)
        if not missing and not found.largest <= self.tol:
            missing = (f"a residual is above the tolerance {self.tol:g}",)
        kinks = tuple(
            (int(j), int(i), float(point.slopes[j, i])) for j, i in zip(*np.nonzero(region.held), strict=True)
        )
        return Limit(
            verdict=NOT_CERTIFIED if missing else CERTIFIED,
            missing=missing,
            network=self._network(point.w, point.a),
            multipliers=point.multipliers,
            margins=q,
            residuals=vars(found).copy(),
            region=region.side.copy(),
            kinks=kinks,
            optimality=self._optimality(point) if self.optimality and not missing else None,
            comparison=self._compare(point),
            settings=self._settings(more),
        )

    def _end_limit(self, weights: Any, missing: tuple[str, ...], distance: float) -> Limit:
        walk = self.walk
        f = walk.outputs_of(weights)
        r = walk.pull(f)
        gradient, slopes = subgradient(weights, walk.region, r, self.both)
        misfit = float(np.abs(f - walk.pull.y).max() / max(np.abs(walk.pull.y).max(), 1e-300))
        kind = "interpolates" if misfit <= self.tol else "least squares: the loss does not go to zero"
        kinks = tuple(
            (int(j), int(i), float(slopes[j, i])) for j, i in zip(*np.nonzero(walk.region.held), strict=True)
        )
        return Limit(
            verdict=NOT_CERTIFIED if missing else CERTIFIED,
            missing=missing,
            network=self._network(weights.w, weights.a, weights.c, still=True),
            multipliers=np.zeros(len(f)),
            margins=f,
            residuals={"gradient": gradient if misfit > self.tol else 0.0, "misfit": misfit},
            region=walk.region.side.copy(),
            kinks=kinks,
            optimality=None,
            comparison=None,
            settings=self._settings(
                {"end": kind, "loss_at_end": float(np.exp(walk.pull.log_loss(f))), "distance": distance}
            ),
        )

    def _not_separated(self) -> Limit:
        """The loss does not go to zero; for a linear network with the reason."""
        walk = self.walk
        q = self._margins()
        wrong = int((q <= 0).sum())
        missing = (f"zero training error not reached: {wrong} of {len(q)} samples are on the wrong side",)
        more: dict[str, Any] = {"loss_at_end": float(np.exp(walk.pull.log_loss(walk.outputs)))}
        verdict = NO_MARGIN if self.rests or self.walk.at_rest() else NOT_CERTIFIED
        if verdict == NOT_CERTIFIED:
            missing = (f"{wrong} of {len(q)} samples are on the wrong side so far",)
        if walk.region.slope == 1:
            vanishing = combination_that_vanishes(Data(walk.region.x, walk.pull.y))
            if vanishing is not None:
                missing = (
                    "the data are not linearly separable: a combination of "
                    f"{int((vanishing > 0).sum())} of the y_i x_i with positive weights vanishes",
                )
                more["combination"] = vanishing.tolist()
                verdict = NO_MARGIN
        r = walk.pull(walk.outputs)
        gradient, _ = subgradient(walk.weights, walk.region, r, self.both)
        return Limit(
            verdict=verdict,
            missing=missing + self._spent(),
            network=self._network(walk.weights.w, walk.weights.a, still=True),
            multipliers=np.zeros(len(q)),
            margins=q,
            residuals={"gradient": gradient},
            region=walk.region.side.copy(),
            kinks=(),
            optimality=None,
            comparison=None,
            settings=self._settings(more),
        )

    def _open(self, missing: tuple[str, ...]) -> Limit:
        """Nothing was found, but the data are separated: the last state, scaled to the margin 1."""
        walk = self.walk
        multipliers = np.abs(walk.pull(walk.outputs))
        point = Point(walk.weights.w, walk.weights.a, multipliers, walk.region.slopes)
        point = point.scaled(float(self._margins().min()) ** -0.5, self.both)
        norm2 = (point.w**2).sum() + (point.a**2).sum()
        point = replace(point, multipliers=multipliers / multipliers.sum() * norm2 / 2)
        return self._margin_limit(point, (*missing, *self._spent()), {})

    def _network(self, w: np.ndarray, a: np.ndarray, c: Any = None, still: bool = False) -> Network:
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
        return with_origin(made, f"limit of ({network.origin})")

    def _optimality(self, point: Point) -> Optimality:
        region, y = self.walk.region, self.walk.pull.y
        judge = optimality_of_both if self.both else optimality_of_fixed
        found = judge(point.w, point.a, region.x, y, region.slope, point.multipliers)
        if found.better is None or not self.reduction.spans:
            return found
        inside = self.reduction.spans[0].inside
        better, k = found.better, inside.shape[1]
        return replace(found, better=np.concatenate([better[..., :k] @ inside.T, better[..., k:]], axis=-1))

    def _compare(self, point: Point) -> Any:
        region = self.walk.region
        found = compare(point.w, point.a, region.slope, region.x, self.walk.pull.y)
        if not self.reduction.spans:
            return found
        inside = self.reduction.spans[0].inside
        k = inside.shape[1]

        def lift(v: np.ndarray) -> np.ndarray:
            return np.concatenate([inside @ v[:k], v[k:]])

        return replace(found, z=lift(found.z), svm=None if found.svm is None else lift(found.svm))

    def _settings(self, more: dict[str, Any]) -> dict[str, Any]:
        walk = self.walk
        return {
            "way": "exact flow, region by region",
            "loss": str(self.loss),
            "data": self.data.name,
            "tolerance": self.tol,
            "steps": walk.steps,
            "evaluations": round(walk.evaluations),
            "events": len(walk.events),
            "log_time": walk.log_time,
            **more,
            "versions": versions(),
        }
