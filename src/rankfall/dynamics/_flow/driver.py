"""Gradient flow to a tolerance: any depth, any loss, in plain time or in the loss clock."""

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from rankfall._naming import unknown
from rankfall._precision import float64, to_numpy
from rankfall._progress import PAUSE, progress
from rankfall.data import Data
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics._record import Record, choose, record_targets
from rankfall.dynamics._until import Until
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network
from rankfall.outcome import Outcome, Statistics
from rankfall.trajectory import Trajectory, to_dataset, versions

if TYPE_CHECKING:  # every limit imports this file, and few follow a flow
    import diffrax
    import xarray as xr

    from rankfall.dynamics._flow.integrator import Integrator, State

CHATTER = 2  # times the halvings it takes to cross a kink to the tolerance: more is chattering

CONTROL: dict[str, Any] = {
    "pcoeff": 0.2,
    "icoeff": 0.4,
    "safety": 0.95,
}  # a PI controller: smoother where stability limits
TINY = 1e-300  # so that weights which are exactly zero can leave it


class FlowWarning(UserWarning):
    """The flow did not go as a user would wish: it chattered on kinks, or its budget was spent."""


def flow(
    network: Network,
    data: Data,
    loss: Loss | str,
    until: float | Until,
    *,
    clock: Literal["time", "loss"] = "time",
    rtol: float = 1e-8,
    atol: float = 0.0,
    measures: Iterable[str | Measure] | None = None,
    record: Record | None = None,
    solver: "diffrax.AbstractERK | None" = None,
    budget: int = 100_000,
    seconds: float = np.inf,
    span: bool = True,
    show: bool = True,
) -> Trajectory:
    r"""Follow the gradient flow $\dot\theta = -\nabla L(\theta)$ to a tolerance, and record measures.

    **Arguments:**

    - `network`, `data`, `loss`: what flows, in float64. The loss is a mean over the samples, unless it says
        ".sum".
    - `until`: a time, or `Until(time=..., loss=..., gradient=...)`: whichever comes first.
    - `clock`: "time", or "loss" for the clock $ds = L\,dt$, where the flow is $d\theta/ds = -\nabla\log L$.
        There s goes like log t (one layer trained) or log log t (two), and nothing underflows however small
        the loss is. `until` and `record` are then in s, and the dataset tells `log_time`.
    - `rtol`, `atol`: the error of a step may be `atol` + `rtol` times the norm of the weights.
    - `measures`: what to record: names or `Measure`s (default: loss and stable rank).
    - `record`: when: `linear(200)`, `logarithmic(200)`, `every(0.1)`, or the times themselves. The start and
        the end are always recorded. Records between two steps use the solver's interpolation.
    - `solver`: an explicit Runge-Kutta method of diffrax; `diffrax.Tsit5()` by default, because its records
        are as good as its steps. For a linear network `diffrax.Dopri8()` takes half the evaluations to the
        same end, but its records between two steps are less accurate.
    - `budget`: how many steps to try at most.
    - `span`: where n < d, run in the span of the data. Exact; nothing but the time shows it.
    - `show`: show progress after two seconds.

    **Returns:** a `Trajectory` over `time` (or `s`). Its `statistics` count the steps, the rejected steps and
    the gradient evaluations, sum up the steps' errors relative to the weights, and say what kinks cost.
    Ctrl-C ends the run early and returns what was reached.
    """
    loss = named(loss)
    until = until if isinstance(until, Until) else Until(time=float(until))
    if until.log_time is not None:
        raise ValueError("`log_time` is for exact_flow; here say a time, or a loss to stop at.")
    if clock not in ("time", "loss"):
        raise unknown("clock", clock, ("time", "loss"))
    if not 0 < rtol < 1 or not atol >= 0:
        raise ValueError(
            f"rtol must lie in (0, 1) and atol must not be negative; they are {rtol} and {atol}."
        )
    network = network.astype(np.float64)
    chosen = choose(measures, network, data, loss)
    reduction = Reduction([network], data, loss, span and all(m.invariant for m in chosen))
    with float64():
        integrator = _integrator(reduction, until, clock, rtol, atol, solver, chosen)
        state, outcome, records, times = _integrate(integrator, until, record, budget, seconds, show)
        parameters = to_numpy(jax.tree.map(lambda leaf: leaf[None], integrator.parameters(state.y)))
        statistics = _statistics(integrator, state)
    _warn(outcome, float(state.t), statistics)
    settings = {
        "method": f"gradient flow, {type(integrator.solver).__name__}",
        "loss": str(loss),
        "data": data.name,
        "clock": clock,
        "rtol": rtol,
        "atol": atol,
        "span": bool(reduction.spans),
        "outcome": outcome,
        **({"condition": until.condition} if outcome is Outcome.MET else {}),
        "versions": versions(),
    }
    dataset = _dataset(records, times, clock, chosen, network)
    return Trajectory(dataset, reduction.lift(parameters), settings, statistics=statistics)


def _integrator(
    reduction: Reduction,
    until: Until,
    clock: str,
    rtol: float,
    atol: float,
    solver: "diffrax.AbstractERK | None",
    measures: tuple[Measure, ...],
) -> "Integrator":
    """The compiled flow. Numbers are arrays in it, so that another tolerance does not compile it again."""
    import diffrax

    from rankfall.dynamics._flow.integrator import Integrator

    bounds = (until.loss, until.gradient)
    return Integrator(
        problem=jax.device_put(reduction.one),
        end=jnp.asarray(until.time),
        bounds=tuple(None if bound is None else jnp.asarray(bound) for bound in bounds),
        pid=diffrax.PIDController(jnp.asarray(rtol), jnp.asarray(max(atol, TINY)), norm=_largest, **CONTROL),
        solver=solver or diffrax.Tsit5(),
        clock=clock,
        measures=measures,
    )


def _dataset(
    records: dict[str, np.ndarray],
    times: np.ndarray,
    clock: str,
    measures: tuple[Measure, ...],
    network: Network,
) -> "xr.Dataset":
    """The records over the clock of the run; over that of the loss with the logarithm of the time."""
    import xarray as xr

    name, long_name = ("time", "time $t$") if clock == "time" else ("s", "loss clock $s$")
    axis = xr.DataArray(times, dims=name, name=name, attrs={"long_name": long_name})
    dataset = to_dataset(records, measures, axis, network)
    if clock == "time":
        return dataset
    log_time = (name, _log_time(records["log1p_time"]), {"long_name": r"$\log t$"})
    return dataset.assign_coords(log_time=log_time)


def _integrate(
    integrator: "Integrator", until: Until, record: Record | None, budget: int, seconds: float, show: bool
) -> tuple["State", Outcome, dict[str, np.ndarray], np.ndarray]:
    """Run to the end in pieces of about `PAUSE` seconds, so that a person can watch and stop it."""
    targets, deadline = record_targets(record, until.time), time.monotonic() + seconds
    state = integrator.begin()
    pieces, times = [integrator.record(state, state.t)], [0.0]
    outcome: Outcome | None = None
    with progress("flow", show) as shown:

        def look(state: "State") -> None:
            done = float(state.t) / until.time if np.isfinite(until.time) else state.tried / budget
            shown.update(done, f"t = {float(state.t):.4g}, {int(state.steps):,} steps")

        try:
            for target in targets:
                for later in _pieces(integrator, state, target, budget, deadline):
                    state = later
                    look(state)
                if state.met and outcome is None:
                    state, outcome = _cut_at_condition(integrator, state), Outcome.MET
                if state.t < target:
                    break
                pieces.append(integrator.record(state, jnp.asarray(target)))
                times.append(float(target))
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
    if outcome is None:
        stopped = Outcome.SPENT if state.tried >= budget else Outcome.LATE
        outcome = Outcome.ARRIVED if state.t >= until.time else stopped
    if state.t > times[-1]:
        pieces.append(integrator.record(state, state.t))
        times.append(float(state.t))
    pieces = to_numpy(pieces)
    return (
        state,
        outcome,
        {name: np.stack([p[name] for p in pieces]) for name in pieces[0]},
        np.asarray(times),
    )


def _pieces(
    integrator: "Integrator", state: "State", target: float, budget: int, deadline: float
) -> Iterator["State"]:
    """The states on the way to `target`, about `PAUSE` seconds apart, as far as budget and time allow."""
    most = 20
    while state.t < target and not state.met and state.tried < budget and time.monotonic() < deadline:
        started, before = time.monotonic(), state.tried
        most = min(most, budget - before)
        state = jax.block_until_ready(integrator.advance(state, jnp.asarray(target), jnp.asarray(most)))
        most = max(20, int((state.tried - before) * PAUSE / (time.monotonic() - started)))
        yield state


def _cut_at_condition(integrator: "Integrator", state: "State") -> "State":
    """Go back, within the last step, to where the condition was met."""
    start, end = float(state.step_from), float(state.step_to)
    if float(integrator.left_at(state, jnp.asarray(start))) <= 0:
        return state
    met_at = brentq(lambda t: float(integrator.left_at(state, jnp.asarray(t))), start, end, xtol=1e-14)
    return integrator.cut(state, jnp.asarray(met_at))


def _statistics(integrator: "Integrator", state: "State") -> Statistics:
    """What the flow cost, and how far its steps can be trusted."""
    tableau: Any = integrator.solver.tableau
    per_step = tableau.num_stages - 1 if tableau.fsal else tableau.num_stages
    chattering = 0
    if state.flips is not None and float(integrator.problem.start.slope) < 1:
        chattering = int((np.asarray(state.flips) > CHATTER * np.log2(1 / integrator.pid.rtol)).sum())
    return Statistics(
        steps=int(state.steps),
        rejected_steps=int(state.rejected),
        evaluations=2 + state.tried * per_step,  # one more for the first step, one for its size
        error_estimate=float(state.error),
        steps_across_kinks=int(state.at_kinks),
        chattering_pairs=chattering,
    )


def _warn(outcome: Outcome, at: float, statistics: Statistics) -> None:
    if outcome in (Outcome.SPENT, Outcome.LATE):
        warnings.warn(f"At {at:.6g} the flow {outcome}.", FlowWarning, stacklevel=3)
    if pairs := statistics.chattering_pairs:
        warnings.warn(
            f"The flow is chattering on kinks: {pairs} pairs of neuron and sample switch again and again. "
            f"Of {statistics.tried:,} steps {statistics.rejected_steps:,} were rejected, and "
            f"{statistics.steps_across_kinks:,} ended across a kink. An explicit solver can only zigzag "
            "along a kink that the flow sticks to: the result is right to the tolerance, but slow. For two "
            "layers use `exact_flow`; else a looser `rtol` or a larger slope helps.",
            FlowWarning,
            stacklevel=3,
        )


def _largest(errors: Any) -> Any:
    return jnp.stack(jax.tree.leaves(errors)).max()


def _log_time(log1p_time: np.ndarray) -> np.ndarray:
    """log t from log(1 + t): equal where t is large, minus infinity at t = 0."""
    with np.errstate(divide="ignore"):
        return np.where(log1p_time > 40, log1p_time, np.log(np.expm1(np.minimum(log1p_time, 40.0))))
