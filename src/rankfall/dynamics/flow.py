"""Gradient flow to a tolerance: any depth, any loss, in plain time or in the loss clock."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.optimize import brentq

from rankfall.data import Data
from rankfall.dynamics.problem import Problem, Reduction
from rankfall.dynamics.recording import choose
from rankfall.dynamics.schedule import Schedule, linear, record_times
from rankfall.loss import Loss, named
from rankfall.measure import Measure, activation_patterns
from rankfall.network import Network
from rankfall.precision import float64, to_numpy
from rankfall.progress import progress
from rankfall.trajectory import Trajectory, to_dataset, versions

PAUSE = 0.5  # seconds of work between two looks at the keyboard and the progress bar
CHATTER = 10  # a neuron that changes its mind about a sample more often than this is chattering
PER_DECADE = 20  # records for each factor of ten in time, where the end is not known


class FlowWarning(UserWarning):
    """The flow did not go as a user would wish: it chattered on kinks, or its budget was spent."""


@dataclass(frozen=True)
class Until:
    """Where a flow stops: at a time (`s` in the loss clock), or before, once the loss or the gradient is small enough."""

    time: float = np.inf
    loss: float | None = None
    gradient: float | None = None

    def __post_init__(self) -> None:
        if not self.time > 0 or (np.isinf(self.time) and self.loss is None and self.gradient is None):
            raise ValueError(
                "a flow must end: say `until` a positive time, or Until(loss=...), Until(gradient=...)."
            )
        if not all(bound is None or bound > 0 for bound in (self.loss, self.gradient)):
            raise ValueError("the loss or gradient to stop at must be positive.")


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
    record: Schedule | Sequence[float] | None = None,
    solver: diffrax.AbstractERK | None = None,
    budget: int = 100_000,
    span: bool = True,
    show: bool = True,
) -> Trajectory:
    """Follow the gradient flow $\\dot\\theta = -\\nabla L(\\theta)$ to a tolerance, and record measures on the way.

    **Arguments:**

    - `network`, `data`, `loss`: what flows. The loss is a mean over the samples unless it says ".sum".
    - `until`: a time, or `Until(time=..., loss=..., gradient=...)`: whichever comes first.
    - `clock`: "time", or "loss" for the clock $ds = L\\,dt$ in which the flow is $d\\theta/ds = -\\nabla \\log L$. There s grows
        like log t, and nothing underflows however small the loss is; `until` and `record` are then in s, and the
        dataset tells `log_time`.
    - `rtol`, `atol`: the error of a step may be `atol` + `rtol` times the norm of the weights.
    - `measures`: what to record: names or `Measure`s. Loss and stable rank if not said.
    - `record`: when: `linear(200)`, `logarithmic(200)`, `every(0.1)`, or the times themselves. The start and the end are
        always recorded. Records between two steps use the solver's interpolation.
    - `solver`: an explicit Runge-Kutta method of diffrax; `diffrax.Tsit5()` if not said.
    - `budget`: how many steps to try at the most.
    - `span`: where n < d, run in the span of the data. Exact; nothing but the time shows it.
    - `show`: show progress after two seconds.

    **Returns:** a `Trajectory` over `time` (or `s`). Its settings tell the outcome, the number of steps, of rejected
    steps and of gradient evaluations, the summed local errors relative to the weights, and what kinks cost.
    Ctrl-C ends the run early and returns what was reached.
    """
    loss = named(loss)
    until = until if isinstance(until, Until) else Until(time=float(until))
    if clock not in ("time", "loss"):
        raise ValueError(f"the clock must be 'time' or 'loss', not {clock!r}.")
    if not 0 < rtol < 1 or not atol >= 0:
        raise ValueError(
            f"rtol must lie between 0 and 1, and atol must not be negative; they are {rtol} and {atol}."
        )
    reduction = Reduction([network], data, loss, span)
    chosen = choose(measures, network, data, loss)
    run = _Flow(
        problem=reduction.one,
        end=np.float64(until.time),
        bounds=(until.loss, until.gradient),
        pid=diffrax.PIDController(rtol=rtol, atol=atol, norm=_largest),
        solver=diffrax.Tsit5() if solver is None else solver,
        clock=clock,
        measures=chosen,
    )
    with float64():
        state, outcome, records, times = _march(run, _targets(record, until), budget, show)
        parameters = to_numpy(run.parameters(state.y))
        statistics = _statistics(run, state)
    _warn(outcome, statistics)
    settings = {
        "method": f"gradient flow, {type(run.solver).__name__}",
        "loss": str(loss),
        "data": data.name,
        "clock": clock,
        "rtol": rtol,
        "atol": atol,
        "span": bool(reduction.spans),
        "outcome": outcome,
        **statistics,
        "versions": versions(),
    }
    name, long_name = ("time", "time $t$") if clock == "time" else ("s", "loss clock $s$")
    axis = xr.DataArray(times, dims=name, name=name, attrs={"long_name": long_name, "units": "1"})
    dataset = to_dataset(records, chosen, axis, network, data)
    if clock == "loss":
        attrs = {"long_name": "$\\log t$", "units": "1"}
        dataset = dataset.assign_coords(log_time=(name, _log_time(records["log1p_time"]), attrs))
    lifted = reduction.lift(jax.tree.map(lambda leaf: leaf[None], parameters))
    return Trajectory(dataset, lifted, settings)


class _State(eqx.Module):
    """Where the flow is, its last step (for interpolation), and the tally."""

    t: Any
    next: Any
    y: Any
    solver: Any
    controller: Any
    before: Any
    dense: Any
    met: Any
    steps: Any
    rejected: Any
    error: Any
    pattern: Any
    flips: Any
    at_kinks: Any


class _Flow(eqx.Module):
    """One compiled flow: the vector field, the step, and the loop over steps."""

    problem: Problem
    end: Any
    bounds: tuple[float | None, float | None]
    pid: diffrax.PIDController
    solver: diffrax.AbstractERK
    clock: str = eqx.field(static=True)
    measures: tuple[Measure, ...] = eqx.field(static=True)

    def parameters(self, y: Any) -> Network:
        """The parameters in the state of the differential equation."""
        return y if self.clock == "time" else y[0]

    def field(self, t: Any, y: Any, args: Any) -> Any:
        """The right-hand side. In the loss clock log(1 + t) is carried along: its rate is 1 / (L (1 + t))."""
        if self.clock == "time":
            return jax.tree.map(
                jnp.negative, jax.grad(lambda p: self.problem.value(p, self.problem.x, self.problem.y))(y)
            )
        parameters, log1p_time = y
        log_loss, slope = jax.value_and_grad(self.problem.log_value)(parameters)
        return jax.tree.map(jnp.negative, slope), jnp.exp(-log_loss - log1p_time)

    @property
    def term(self) -> diffrax.ODETerm:
        """The same for diffrax."""
        return diffrax.ODETerm(lambda t, y, args: self.field(t, y, args))

    @eqx.filter_jit
    def begin(self) -> _State:
        """The state at time zero."""
        parameters = jax.tree.map(jnp.asarray, self.problem.parameters())
        y = parameters if self.clock == "time" else (parameters, jnp.zeros(()))
        zero, count = jnp.zeros(()), jnp.zeros((), dtype=int)
        slope = self.field(zero, y, None)
        # The first step: a thousandth of the time in which the weights would change by their own size.
        size, speed = _sizes(y), _sizes(slope)
        first = 1e-3 * jnp.min(
            jnp.stack([(a + 1e-300) / (b + 1e-300) for a, b in zip(size, speed, strict=True)][:1])
        )
        _, controller = self.pid.init(
            self.term, zero, self.end, size, first, None, self.solver.func, self.solver.order(self.term)
        )
        solver = self.solver.init(self.term, zero, first, y, None)
        dense = eqx.filter_eval_shape(self._attempt, zero, first, y, solver)[2]
        dense = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), dense)
        pattern = self._pattern(y)
        flips = None if pattern is None else jnp.zeros(pattern.shape, dtype=jnp.int32)
        return _State(
            zero,
            first,
            y,
            solver,
            controller,
            zero,
            dense,
            self._margin(y) <= 0,
            count,
            count,
            zero,
            pattern,
            flips,
            count,
        )

    @eqx.filter_jit
    def advance(self, state: _State, target: Any, most: Any) -> _State:
        """Steps until `target` is passed, a condition is met, or `most` steps have been tried."""
        last = state.steps + state.rejected + most

        def unfinished(state: _State) -> Any:
            return (state.t < target) & ~state.met & (state.steps + state.rejected < last)

        return jax.lax.while_loop(unfinished, lambda s: self._step(s), state)

    def _attempt(self, t: Any, t1: Any, y: Any, solver: Any) -> Any:
        return self.solver.step(self.term, t, t1, y, None, solver, made_jump=False)

    def _step(self, state: _State) -> _State:
        t1 = jnp.minimum(state.next, self.end)
        y1, y_error, dense, solver, _ = self._attempt(state.t, t1, state.y, state.solver)
        error, before, after = _sizes(y_error), _sizes(state.y), _sizes(y1)
        error = tuple(jnp.where(jnp.isfinite(e), e, jnp.inf) for e in error)
        keep, t, following, _, controller, _ = self.pid.adapt_step_size(
            state.t, t1, before, after, None, error, self.solver.order(self.term), state.controller
        )
        pattern = self._pattern(y1)
        flipped = None if pattern is None else pattern != state.pattern
        new = _State(
            t=t,
            next=following,
            y=y1,
            solver=solver,
            controller=controller,
            before=state.t,
            dense=dense,
            met=self._margin(y1) <= 0,
            steps=state.steps + 1,
            rejected=state.rejected,
            error=state.error + error[0] / after[0],
            pattern=pattern,
            flips=None if flipped is None else state.flips + flipped,
            at_kinks=state.at_kinks,
        )
        old = eqx.tree_at(
            lambda s: (s.next, s.controller, s.rejected), state, (following, controller, state.rejected + 1)
        )
        chosen = jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)
        crossed = 0 if flipped is None else flipped.any().astype(int)
        return eqx.tree_at(lambda s: s.at_kinks, chosen, state.at_kinks + crossed)

    def _pattern(self, y: Any) -> Any:
        """Which neuron is active on which sample; None for a linear network."""
        network = self.problem.network(self.parameters(y))
        if network.linear_tail == network.depth:
            return None
        return activation_patterns.function(network, Data(self.problem.x, self.problem.y))

    def _margin(self, y: Any) -> Any:
        """Positive until a condition to stop is met; in logarithms, so that nothing underflows."""
        loss, gradient = self.bounds
        left = [jnp.inf * jnp.ones(())]
        if loss is not None:
            left.append(self.problem.log_value(self.parameters(y)) - np.log(loss))
        if gradient is not None:
            log_loss, slope = jax.value_and_grad(self.problem.log_value)(self.parameters(y))
            left.append(log_loss + jnp.log(_sizes(slope)[0]) - np.log(gradient))
        return jnp.stack(left).min()

    def between(self, state: _State, t: Any) -> Any:
        """The solution at a time within the last step."""
        inside = self.solver.interpolation_cls(t0=state.before, t1=state.t, **state.dense).evaluate(t)
        return jax.tree.map(lambda a, b: jnp.where(t >= state.t, a, b), state.y, inside)

    @eqx.filter_jit
    def margin_at(self, state: _State, t: Any) -> Any:
        """How far from stopping the solution is at a time within the last step."""
        return self._margin(self.between(state, t))

    @eqx.filter_jit
    def cut(self, state: _State, t: Any) -> _State:
        """The state at a time within the last step."""
        return eqx.tree_at(lambda s: (s.t, s.y), state, (t, self.between(state, t)))

    @eqx.filter_jit
    def record(self, state: _State, t: Any, followed: Any) -> tuple[Any, Any]:
        """The measures at a time within the last step, and log(1 + t) where that is not the time itself."""
        y = self.between(state, t)
        whole, context = self.problem.whole(self.parameters(y)), self.problem.context()
        made = [m.record(whole, context, f) for m, f in zip(self.measures, followed, strict=True)]
        values = {m.name: value for m, (value, _) in zip(self.measures, made, strict=True)}
        if self.clock == "loss":
            values["log1p_time"] = y[1]
        return values, tuple(state for _, state in made)


def _sizes(y: Any) -> tuple[Any, ...]:
    """The norm of the parameters, and apart from it that of the time carried along."""
    parts = y if isinstance(y, tuple) else (y,)
    return tuple(jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(part))) for part in parts)


def _largest(errors: Any) -> Any:
    return jnp.stack(jax.tree.leaves(errors)).max()


def _targets(record: Schedule | Sequence[float] | None, until: Until) -> Iterator[float]:
    """The times to record at after the start: known beforehand, or without an end."""
    if np.isfinite(until.time):
        yield from record_times(linear(200) if record is None else record, until.time)[1:]
    elif record is None:
        yield from (10.0 ** (k / PER_DECADE) for k in range(-6 * PER_DECADE, 300 * PER_DECADE))
    elif callable(record):
        raise ValueError("a schedule needs an end: say Until(time=...), or give the times themselves.")
    else:
        yield from np.sort(np.asarray(record, dtype=float))
        yield np.inf


def _march(
    run: _Flow, targets: Iterable[float], budget: int, show: bool
) -> tuple[_State, str, dict[str, np.ndarray], np.ndarray]:
    """Run to the end in pieces of about `PAUSE` seconds, so that a person can watch and stop it."""
    state = run.begin()
    followed = tuple(m.warm.start(run.problem.start) if m.warm else None for m in run.measures)
    values, followed = run.record(state, state.t, followed)
    pieces, times, most = [values], [0.0], 100
    outcome = "reached the time asked for"
    with progress("flow", show) as shown:
        try:
            for target in targets:
                while state.t < target and not state.met and state.steps + state.rejected < budget:
                    started = time.monotonic()
                    most = min(most, budget - int(state.steps + state.rejected))
                    before = int(state.steps + state.rejected)
                    state = jax.block_until_ready(run.advance(state, jnp.asarray(target), jnp.asarray(most)))
                    tried = int(state.steps + state.rejected) - before
                    most = max(10, int(tried * PAUSE / (time.monotonic() - started + 1e-9)))
                    shown.update(
                        _fraction(run, state, budget), f"t = {float(state.t):.4g}, {int(state.steps):,} steps"
                    )
                if state.met:
                    state, outcome = _stop_at_condition(run, state)
                if state.met and state.t < target or state.t < target:
                    break
                values, followed = run.record(state, jnp.asarray(target), followed)
                pieces.append(values)
                times.append(float(target))
        except KeyboardInterrupt:
            outcome = "interrupted: what was reached by then is kept"
    if outcome.startswith("reached") and state.t < run.end and not state.met:
        outcome = f"the budget of {budget:,} steps was spent at t = {float(state.t):.6g}: raise `budget` or loosen `rtol`"
    if float(state.t) > times[-1]:
        pieces.append(run.record(state, state.t, followed)[0])
        times.append(float(state.t))
    pieces = to_numpy(pieces)
    return (
        state,
        outcome,
        {name: np.stack([piece[name] for piece in pieces]) for name in pieces[0]},
        np.asarray(times),
    )


def _stop_at_condition(run: _Flow, state: _State) -> tuple[_State, str]:
    """Go back, within the last step, to where the condition was met."""
    wanted = " and ".join(
        f"{name} {bound:g}"
        for name, bound in zip(("loss", "gradient"), run.bounds, strict=True)
        if bound is not None
    )
    outcome = f"reached the condition: {wanted.replace(' and ', ' or ')}"
    if state.t > state.before and float(run.margin_at(state, state.before)) > 0:
        met_at = brentq(
            lambda t: float(run.margin_at(state, jnp.asarray(t))),
            float(state.before),
            float(state.t),
            xtol=1e-14,
        )
        state = run.cut(state, jnp.asarray(met_at))
    return state, outcome


def _fraction(run: _Flow, state: _State, budget: int) -> float:
    done = float(state.t) / float(run.end) if np.isfinite(run.end) else 0.0
    return max(done, int(state.steps + state.rejected) / budget)


def _statistics(run: _Flow, state: _State) -> dict[str, Any]:
    """What the flow cost, and how far its steps can be trusted."""
    attempts = int(state.steps + state.rejected)
    stages = run.solver.tableau.num_stages
    evaluations = 2 + attempts * (stages - 1 if run.solver.tableau.fsal else stages)
    chattering = 0
    if state.flips is not None and float(run.problem.start.slope) < 1:
        chattering = int((np.asarray(state.flips) > CHATTER).sum())
    return {
        "steps": int(state.steps),
        "rejected_steps": int(state.rejected),
        "evaluations": evaluations,
        "local_error_sum": float(state.error),
        "chattering_pairs": chattering,
        "steps_across_kinks": int(state.at_kinks),
    }


def _warn(outcome: str, statistics: dict[str, Any]) -> None:
    if outcome.startswith("the budget"):
        warnings.warn(f"The flow did not arrive: {outcome}.", FlowWarning, stacklevel=3)
    if statistics["chattering_pairs"]:
        attempts = statistics["steps"] + statistics["rejected_steps"]
        warnings.warn(
            f"The flow is chattering on kinks: {statistics['chattering_pairs']} neuron-sample pairs switched more than "
            f"{CHATTER} times, and {statistics['steps_across_kinks']:,} of {attempts:,} steps went across a kink. An explicit "
            "solver can only zigzag along a kink to which the flow sticks: it is right to the tolerance, but slow. "
            "A looser `rtol` or a larger slope helps.",
            FlowWarning,
            stacklevel=3,
        )


def _log_time(log1p_time: np.ndarray) -> np.ndarray:
    """log t from log(1 + t): equal where t is large, minus infinity at t = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(log1p_time > 40, log1p_time, np.log(np.expm1(np.minimum(log1p_time, 40.0))))
