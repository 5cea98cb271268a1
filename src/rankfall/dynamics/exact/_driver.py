"""Gradient flow of two-layer networks, region by region: exact at the kinks, at any time however late."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from rankfall._naming import unknown
from rankfall._precision import float64, to_numpy
from rankfall._progress import progress
from rankfall.data import Data
from rankfall.dynamics._problem import Problem, Reduction
from rankfall.dynamics._record import Record, choose, record_targets
from rankfall.dynamics._until import Until
from rankfall.dynamics.exact._affine import Affine
from rankfall.dynamics.exact._bilinear import Bilinear
from rankfall.dynamics.exact._clock import LossClock, TimeClock
from rankfall.dynamics.exact._events import Stalled
from rankfall.dynamics.exact._kinks import lines_of
from rankfall.dynamics.exact._pull import Pull
from rankfall.dynamics.exact._regions import Region, Weights
from rankfall.dynamics.exact._step import Piece
from rankfall.dynamics.exact._walk import Walk
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network
from rankfall.outcome import Outcome, Statistics
from rankfall.trajectory import Trajectory, to_dataset, versions

if TYPE_CHECKING:
    import xarray as xr

LOSSES = ("exponential", "logistic", "square")
TOGETHER = 200  # steps of one call, at the most
STILL = 3  # steps after which a flow that does not move has come to rest


def exact_flow(
    network: Network,
    data: Data,
    loss: Loss | str,
    until: float | Until,
    *,
    clock: Literal["time", "loss"] = "time",
    rtol: float = 1e-10,
    measures: Iterable[str | Measure] | None = None,
    record: Record | None = None,
    budget: int = 1_000_000,
    span: bool = True,
    show: bool = True,
) -> Trajectory:
    r"""Follow the gradient flow of a two-layer network from activation region to activation region.

    Inside a region the flow is smooth and is followed by collocation of order 13. It ends where a
    pre-activation reaches its kink, which is found as a root of the solution's polynomial. There a neuron
    crosses the kink, or sticks to it and slides (Filippov's solution, with a slope in [alpha, 1]) until it is
    released; the page "Where it is not unique" has the rule where several kinks meet.

    **Arguments:**

    - `network`: two layers, one output; the first layer is trained, the second may be; biases as you like.
    - `loss`: exponential, logistic or square; a mean over the samples unless it says ".sum".
    - `until`: a time, or `Until(time=..., loss=..., gradient=..., log_time=...)`, whichever comes first.
    - `clock`: "time", or "loss" for $ds = L\,dt$; the dataset then tells `log_time`, which does not overflow:
        `Until(log_time=2302.6)` is t = 10^1000.
    - `rtol`: what the polynomials may leave unresolved, relative to the motion.
    - `measures`, `record`, `span`, `show`: as for `flow`.
    - `budget`: how many steps to take at most. Each ends at an event, or is as long as `rtol` allows.

    **Returns:** a `Trajectory` over `time` (or `s`). Beside the measures it has `kinks`, the number of pairs
    of neuron and sample that are held at their kink, and `regions`, the number of activation regions visited
    so far. `run.events` tells what happened at which time to which pair; `visited` turns it into the regions.
    Ctrl-C ends the run early and returns what was reached.
    """
    import xarray as xr

    loss = named(loss)
    until = until if isinstance(until, Until) else Until(time=float(until))
    if clock not in ("time", "loss"):
        raise unknown("clock", clock, ("time", "loss"))
    if not 1e-14 < rtol < 1:
        raise ValueError(f"rtol must lie between 1e-14 and 1, but is {rtol:g}.")
    network = network.astype(np.float64)
    check_two_layers(network, loss)
    chosen = choose(measures, network, data, loss)
    reduction = Reduction([network], data, loss, span and all(m.invariant for m in chosen))
    problem = reduction.one
    walk = walk_of(reduction, rtol)
    first = walk.region.side.copy()
    journey = _Journey(walk, until, clock, record)
    outcome = journey.run(budget, show)
    records, networks = _records(problem, chosen, journey.weights)
    name, long_name = ("time", "time $t$") if clock == "time" else ("s", "loss clock $s$")
    axis = xr.DataArray(np.array(journey.times), dims=name, name=name, attrs={"long_name": long_name})
    dataset = to_dataset(records, chosen, axis, network)
    dataset["kinks"] = (name, np.array(journey.kinks), {"long_name": "kinks held"})
    dataset["regions"] = (name, np.array(journey.regions), {"long_name": "regions visited"})
    if clock == "loss":
        dataset = dataset.assign_coords(log_time=(name, journey.log_times, {"long_name": r"$\log t$"}))
    settings = {
        "method": "exact gradient flow",
        "loss": str(loss),
        "data": data.name,
        "clock": clock,
        "rtol": rtol,
        "span": bool(reduction.spans),
        "outcome": outcome,
        **({"condition": until.condition} if outcome is Outcome.MET else {}),
        **({"stalled": journey.stalled} if journey.stalled else {}),
        "versions": versions(),
    }
    final = reduction.lift(jax.tree.map(lambda leaf: leaf[-1:], networks))
    log = _event_log(walk, first)
    return Trajectory(dataset, final, settings, events=log, statistics=journey.statistics)


def compile_steps() -> None:
    """Load the compiled steps, or compile them, and wait for that: a walk does so in the background."""
    from rankfall.dynamics.exact._forward import Forward  # loads numba

    network, data = (
        Network.fixed_second_layer((1, 2, 1), 0.0, 1.0, seed=0),
        Data([[1.0], [-1.0]], [1.0, -1.0]),
    )
    twin = Forward(walk_of(Reduction([network], data, named("exponential")), 1e-10))
    while not twin.ready():
        time.sleep(0.1)


def visited(run: Trajectory) -> Iterator[np.ndarray]:
    """The activation regions of an exact flow in their order: (neuron, sample), 1 above, -1 below, 0 at the
    kink.

    Events at one and the same time lead to one region.
    """
    if run.events is None:
        raise ValueError("this run has no events: only an exact flow tells the regions that it visited.")
    log = run.events
    side = log["first_region"].values.copy()
    yield side.copy()
    times = log["clock"].values
    for i, (neuron, sample, now) in enumerate(
        zip(log.neuron.values, log["sample"].values, log.side.values, strict=True)
    ):
        side[neuron, sample] = now
        if i + 1 == len(times) or times[i + 1] != times[i]:
            yield side.copy()


def check_two_layers(network: Network, loss: Loss) -> None:
    """Raise a ValueError where the exact flow is not defined."""
    if loss.name not in LOSSES:
        raise unknown("loss of an exact flow", loss.name, LOSSES)
    if network.depth != 2 or network.outputs != 1:
        raise ValueError(
            f"the exact flow is for two layers and one output; this is {network!r}. `flow` takes any network."
        )
    if network.has_skips:
        raise ValueError(f"the exact flow is for networks without skips; this is {network!r}. Use `flow`.")
    if not network.trained[0]:
        raise ValueError("the first layer of this network is fixed, so that its flow is smooth: use `flow`.")


def walk_of(
    reduction: Reduction, rtol: float, counts: np.ndarray | None = None, choices: tuple[int, ...] = ()
) -> Walk:
    """The walk that follows the flow of a network on data from its start.

    `counts` tells how often each sample occurs, `choices` which solution to follow where several leave.
    """
    problem, given = reduction.one, reduction.data.x.astype(float)
    start = problem.start
    x, w = np.asarray(problem.x), np.array(start.weights[0][:, : problem.k])
    if start.biases[0] is not None:  # the bias is the weight of a coordinate 1
        x, w = np.column_stack([x, np.ones(len(x))]), np.column_stack([w, start.biases[0]])
        given = np.column_stack([given, np.ones(len(x))])
    c = np.zeros(()) if start.biases[1] is None else np.array(start.biases[1][0])
    weights = Weights(w, np.array(start.weights[1][0]), c)
    slope = 1.0 if start.linear_tail == start.depth else float(start.slope)
    region = Region.around(w, x, slope, lines_of(given))
    pull = Pull(problem.loss, np.asarray(problem.y), counts)
    both, bias = start.trained[1], start.biases[1] is not None
    motion = Bilinear(region, weights, bias) if both else Affine(region, weights)
    clock = LossClock(pull) if pull.normalised else TimeClock(pull)
    return Walk(motion, clock, rtol, choices).begin()


def parameters_of(problem: Problem, weights: Weights) -> Network:
    """The trained arrays of a problem with these weights."""
    network = problem.parameters()
    has_bias = problem.start.biases[0] is not None
    w, b = (weights.w[..., :-1], weights.w[..., -1]) if has_bias else (weights.w, None)
    network = eqx.tree_at(lambda n: n.weights[0], network, w)
    if has_bias:
        network = eqx.tree_at(lambda n: n.biases[0], network, b)
    if problem.start.trained[1]:
        network = eqx.tree_at(lambda n: n.weights[1], network, weights.a[..., None, :])
        if problem.start.biases[1] is not None:
            network = eqx.tree_at(lambda n: n.biases[1], network, weights.c[..., None])
    return network


class _Journey:
    """A walk from its start to where `until` says, with what was recorded on the way."""

    def __init__(self, walk: Walk, until: Until, clock: str, record: Record | None):
        self.walk, self.until, self.clock = walk, until, clock
        self.natural = (clock == "loss") == walk.pull.normalised
        self.times: list[float] = []
        self.log_times: list[float] = []
        self.weights: list[Weights] = []
        self.kinks: list[int] = []
        self.regions: list[int] = []
        self.region_count = 1
        self._still = 0
        self.stalled = ""
        self._targets = record_targets(record, until.time)
        self._keep(0.0, -np.inf, walk.weights)

    @property
    def statistics(self) -> Statistics:
        """What was counted on the way."""
        return Statistics(
            steps=self.walk.steps,
            evaluations=round(self.walk.evaluations),
            events=len(self.walk.events),
            regions=self.region_count,
            kinks=int(self.walk.region.held.sum()),
            forks=len(self.walk.forks),
            log_time=float(self.walk.clock.log_time),
        )

    def _keep(self, time: float, log_time: float, weights: Weights) -> None:
        self.times.append(time)
        self.log_times.append(log_time)
        self.weights.append(Weights(weights.w.copy(), weights.a.copy(), weights.c.copy()))
        self.kinks.append(int(self.walk.region.held.sum()))
        self.regions.append(self.region_count)

    def run(self, budget: int, show: bool) -> Outcome:
        """To the end, or as far as the budget goes; returns how it ended."""
        walk = self.walk
        outcome: Outcome | None = None
        target = next(self._targets)
        with progress("exact flow", show) as shown:
            try:
                while outcome is None and walk.steps < budget:
                    if self._forward(target, budget):
                        now = self._now()
                        while np.isfinite(target) and target <= now:
                            self._keep(target, walk.clock.log_time, walk.weights)
                            target = next(self._targets, np.inf)
                        outcome = Outcome.ARRIVED if now >= self.until.time else self._at_rest(walk.outputs)
                        self._show(shown, budget)
                        continue
                    piece = walk.step(self._most())
                    stop, outcome = self._stop(piece)
                    arrived = outcome is Outcome.ARRIVED
                    reached = self.until.time if arrived else self._clock(piece, stop)
                    while np.isfinite(target) and target <= reached:
                        self._record(piece, self._place(piece, target, stop), target)
                        target = next(self._targets, np.inf)
                    outcome = outcome or self._at_rest(piece.outputs[0])
                    last = walk.events[-1].clock if walk.events else -1.0
                    walk.take(piece, None if stop == piece.cut else stop)
                    self.region_count += int(bool(walk.events) and walk.events[-1].clock != last)
                    self._show(shown, budget)
            except KeyboardInterrupt:
                outcome = Outcome.INTERRUPTED
            except Stalled as stalled:
                outcome, self.stalled = Outcome.STALLED, str(stalled)
        now = self._now()
        if outcome is not Outcome.ARRIVED and now > self.times[-1] * (1 + 1e-12):
            self._keep(now, walk.clock.log_time, walk.weights)
        return outcome or Outcome.SPENT

    def _forward(self, target: float, budget: int) -> bool:
        """Take many steps at once, up to the next record or just before the end; False if there are none."""
        walk, until = self.walk, self.until
        if not self.natural or until.gradient is not None:
            return False
        steps, events = walk.steps, len(walk.events)
        log_loss = -np.inf if until.loss is None else float(np.log(until.loss))
        log_time = np.inf if until.log_time is None else until.log_time
        walk.forward(min(TOGETHER, budget - steps), min(target, until.time), log_loss, log_time)
        self.region_count += len({event.clock for event in walk.events[events:]})
        return walk.steps > steps

    def _at_rest(self, outputs: np.ndarray) -> Outcome | None:
        """The outcome, if there is no time to arrive at and the flow does not move any more."""
        if np.isfinite(self.until.time):
            return None
        r = self.walk.present_pulls()
        fitted = np.abs(r).max() <= 10 * self.walk.pull.rounding(outputs)
        self._still = self._still + 1 if fitted or self.walk.at_rest() else 0
        return Outcome.RESTS if self._still >= STILL else None

    def _most(self) -> float:
        """How far the next step may go, in the walk's clock."""
        if self.natural and np.isfinite(self.until.time):
            return self.until.time - self.walk.clock.now
        return np.inf

    def _clock(self, piece: Piece, theta: float) -> float:
        """The user's clock within a step."""
        return piece.time(theta) if self.natural else self.walk.clock.other_at(piece, theta)

    def _now(self) -> float:
        return self.walk.clock.now if self.natural else self.walk.clock.other

    def _place(self, piece: Piece, time: float, most: float) -> float:
        """Where in a step the user's clock shows a time."""
        if self.natural:
            return min((time - piece.clock) / piece.step, most)
        return _root(lambda theta: self._clock(piece, theta) - time, most)

    def _record(self, piece: Piece, theta: float, time: float) -> None:
        self._keep(time, self.walk.clock.log_time_at(piece, theta), piece.weights(theta))

    def _stop(self, piece: Piece) -> tuple[float, Outcome | None]:
        """Where in a step the run ends, and why; its cut and nothing, if it goes on."""
        until, walk, log_time_at = self.until, self.walk, self.walk.clock.log_time_at
        ends: list[tuple[float, Outcome]] = []
        if self._clock(piece, piece.cut) >= until.time * (1 - 1e-15):
            ends.append((self._place(piece, until.time, piece.cut), Outcome.ARRIVED))
        if until.loss is not None and piece.log_loss_at(piece.cut) <= np.log(until.loss):
            bound = np.log(until.loss)
            ends.append((_root(lambda t: bound - piece.log_loss_at(t), piece.cut), Outcome.MET))
        if until.log_time is not None and log_time_at(piece, piece.cut) >= until.log_time:
            ends.append((_root(lambda t: log_time_at(piece, t) - until.log_time, piece.cut), Outcome.MET))
        if until.gradient is not None:
            bound = np.log(until.gradient)
            if walk.log_gradient(piece, piece.cut) <= bound:
                ends.append((_root(lambda t: bound - walk.log_gradient(piece, t), piece.cut), Outcome.MET))
        if not ends:
            return piece.cut, None
        return min(ends)

    def _show(self, shown: Any, budget: int) -> None:
        walk, until = self.walk, self.until
        done = self._now() / until.time if np.isfinite(until.time) else walk.steps / budget
        kinks, log_time = walk.region.held.sum(), walk.clock.log_time
        shown.update(done, f"{len(walk.events):,} events, {kinks} kinks, log t = {log_time:.4g}")


def _root(function: Any, most: float) -> float:
    """Where an increasing function first is zero in [0, most], if it is not negative at the end."""
    if function(0.0) >= 0:
        return 0.0
    if function(most) <= 0:
        return most
    return float(brentq(function, 0.0, most, xtol=1e-15))


def _records(
    problem: Problem, measures: tuple[Measure, ...], weights: list[Weights]
) -> tuple[dict[str, np.ndarray], Network]:
    """The measures of all records, and the parameters of all records, stacked."""
    stacked = Weights(
        np.stack([w.w for w in weights]), np.stack([w.a for w in weights]), np.stack([w.c for w in weights])
    )
    parameters = parameters_of(problem, stacked)
    with float64():
        values = _measured(problem, measures, jax.tree.map(jnp.asarray, parameters))
    return to_numpy(values), parameters


@eqx.filter_jit
def _measured(problem: Problem, measures: tuple[Measure, ...], parameters: Network) -> dict[str, Any]:
    context = problem.context()

    def one(part: Network) -> dict[str, Any]:
        whole = problem.whole(part)
        return {m.name: m.record(whole, context, None)[0] for m in measures}

    values: dict[str, Any] = jax.lax.map(one, parameters)
    return values


def _event_log(walk: Walk, first: np.ndarray) -> "xr.Dataset":
    """The events of a walk as a dataset."""
    import xarray as xr

    events = walk.events
    columns: dict[str, Any] = {
        "clock": np.array([e.clock for e in events], dtype=float),
        "log_time": np.array([e.log_time for e in events], dtype=float),
        "neuron": np.array([e.neuron for e in events], dtype=int),
        "sample": np.array([e.sample for e in events], dtype=int),
        "side": np.array([e.side for e in events], dtype=np.int8),
        "kind": np.array([e.kind for e in events], dtype="<U7"),
    }
    log = xr.Dataset({name: ("event", values) for name, values in columns.items()})
    log["clock"].attrs["long_name"] = "loss clock $s$" if walk.pull.normalised else "time $t$"
    log["first_region"] = (("neurons", "samples"), first)
    return log
