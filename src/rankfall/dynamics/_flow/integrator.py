"""The compiled part of a flow: the vector field, the adaptive step, and the loop over steps.

The steps and their control are diffrax's, taken one by one, so that a run can be watched, stopped, counted.
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from rankfall.data import Data
from rankfall.dynamics._problem import Problem
from rankfall.measure import Measure, activation_patterns
from rankfall.network import Network


class State(eqx.Module):
    """Where the flow is, its last step (for interpolation), and what it cost so far.

    `flips` counts for every neuron and sample the steps, kept or not, across which the neuron changed its
    mind; `at_kinks` those in which any did.
    """

    t: Any
    following: Any
    y: Any
    solver: Any
    controller: Any
    step_from: Any
    step_to: Any
    dense: Any
    met: Any
    steps: Any
    rejected: Any
    error: Any
    pattern: Any
    flips: Any
    at_kinks: Any

    @property
    def tried(self) -> int:
        """How many steps were tried."""
        return int(self.steps) + int(self.rejected)


class Integrator(eqx.Module):
    """A flow, ready to run: to the time `end`, or until the loss or the gradient is below its bound."""

    problem: Problem
    end: Any
    bounds: tuple[Any, ...]
    pid: diffrax.PIDController
    solver: diffrax.AbstractERK
    clock: str = eqx.field(static=True)
    measures: tuple[Measure, ...] = eqx.field(static=True)

    def parameters(self, y: Any) -> Network:
        """The parameters in the state of the differential equation."""
        return y if self.clock == "time" else y[0]

    def field(self, y: Any) -> Any:
        """The right-hand side. In the loss clock log(1 + t) is carried along: its rate is 1 / (L (1 + t))."""
        problem = self.problem
        if self.clock == "time":
            slope = jax.grad(lambda parameters: problem.value(parameters, problem.x, problem.y))(y)
            return jax.tree.map(jnp.negative, slope)
        parameters, log1p_time = y
        log_loss, slope = jax.value_and_grad(problem.log_value)(parameters)
        return jax.tree.map(jnp.negative, slope), jnp.exp(-log_loss - log1p_time)

    @property
    def _term(self) -> diffrax.ODETerm:
        return diffrax.ODETerm(lambda t, y, args: self.field(y))

    @property
    def _order(self) -> int:
        return self.solver.order(self._term) or 1

    @eqx.filter_jit
    def begin(self) -> State:
        """The state at time zero."""
        parameters = jax.tree.map(jnp.asarray, self.problem.parameters())
        y = parameters if self.clock == "time" else (parameters, jnp.zeros(()))
        zero, none = jnp.zeros(()), jnp.zeros((), dtype=int)
        # The first step: the time in which the weights would change by their own size, as far as a method of
        # this order can tell it to the tolerance.
        size, speed = _sizes(y)[0], _sizes(self.field(y))[0]
        whole = jnp.where(size > 0, size / (speed + 1e-300), 1 / (speed + 1))
        first = whole * self.pid.rtol ** (1 / self._order) / 2 + 1e-300
        _, controller = self.pid.init(
            self._term, zero, self.end, _sizes(y), first, None, self.solver.func, self._order
        )
        solver = self.solver.init(self._term, zero, first, y, None)
        dense = eqx.filter_eval_shape(self._attempt, zero, first, y, solver)[2]
        pattern = self._pattern(y)
        state = State(
            t=zero,
            following=first,
            y=y,
            solver=solver,
            controller=controller,
            step_from=zero,
            step_to=zero,
            dense=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), dense),
            met=self._left(y) <= 0,
            steps=none,
            rejected=none,
            error=zero,
            pattern=pattern,
            flips=None if pattern is None else jnp.zeros(pattern.shape, dtype=jnp.int32),
            at_kinks=none,
        )
        return _strong(state)

    @eqx.filter_jit
    def advance(self, state: State, target: Any, most: Any) -> State:
        """Steps until `target` is passed, a condition is met, or `most` steps have been tried."""
        last = state.steps + state.rejected + most

        def unfinished(state: State) -> Any:
            return (state.t < target) & ~state.met & (state.steps + state.rejected < last)

        return _strong(jax.lax.while_loop(unfinished, lambda state: self._step(state), state))

    def _attempt(self, t0: Any, t1: Any, y: Any, solver: Any) -> Any:
        return self.solver.step(self._term, t0, t1, y, None, solver, made_jump=False)

    def _step(self, state: State) -> State:
        t1 = jnp.minimum(state.following, self.end)
        y, y_error, dense, solver, _ = self._attempt(state.t, t1, state.y, state.solver)
        # The controller is given norms only: the error of a step is judged against the size of the weights.
        # (An error that is not finite is as bad as can be told without spoiling the controller's memory.)
        error = tuple(jnp.where(jnp.isfinite(e), e, 1e100) for e in _sizes(y_error))
        size = tuple(jnp.where(jnp.isfinite(e), e, 1.0) for e in _sizes(y))
        keep, t, following, _, controller, _ = self.pid.adapt_step_size(
            state.t, t1, _sizes(state.y), size, None, error, self._order, state.controller
        )
        pattern = self._pattern(y)
        flipped = None if pattern is None else pattern != state.pattern
        if flipped is not None:
            # The error across a kink is of first order in the step: the controller, which expects the fifth,
            # would creep towards it.
            quarter = jnp.minimum(following, state.t + (t1 - state.t) / 4)
            kink = flipped.any() & (self.problem.start.slope < 1)
            following = jnp.where(~keep & kink, quarter, following)
        kept = State(
            t=t,
            following=following,
            y=y,
            solver=solver,
            controller=controller,
            step_from=state.t,
            step_to=t,
            dense=dense,
            met=self._left(y) <= 0,
            steps=state.steps + 1,
            rejected=state.rejected,
            error=state.error + error[0] / _sizes(y)[0],
            pattern=pattern,
            flips=state.flips,
            at_kinks=state.at_kinks,
        )
        undone = eqx.tree_at(
            lambda s: (s.following, s.controller, s.rejected),
            state,
            (following, controller, state.rejected + 1),
        )
        chosen = jax.tree.map(lambda a, b: jnp.where(keep, a, b), kept, undone)
        if flipped is None:
            return chosen
        tally = (state.flips + flipped, state.at_kinks + flipped.any())
        return eqx.tree_at(lambda s: (s.flips, s.at_kinks), chosen, tally)

    def _pattern(self, y: Any) -> Any:
        """Which neuron is active on which sample; None for a linear network."""
        network = self.problem.network(self.parameters(y))
        if network.linear_tail == network.depth:
            return None
        return activation_patterns.function(network, Data(self.problem.x, self.problem.y))

    def _left(self, y: Any) -> Any:
        """Positive until a condition to stop is met; in logarithms, so that nothing underflows."""
        loss, gradient = self.bounds
        left = [jnp.asarray(jnp.inf)]
        if loss is not None:
            left.append(self.problem.log_value(self.parameters(y)) - jnp.log(loss))
        if gradient is not None:
            log_loss, slope = jax.value_and_grad(self.problem.log_value)(self.parameters(y))
            left.append(log_loss + jnp.log(_sizes(slope)[0]) - jnp.log(gradient))
        return jnp.stack(left).min()

    def _between(self, state: State, t: Any) -> Any:
        """The solution at a time within the last step."""
        inside = self.solver.interpolation_cls(t0=state.step_from, t1=state.step_to, **state.dense).evaluate(
            t
        )
        return jax.tree.map(lambda a, b: jnp.where(t >= state.t, a, b), state.y, inside)

    @eqx.filter_jit
    def left_at(self, state: State, t: Any) -> Any:
        """How far from the condition to stop the solution is at a time within the last step."""
        return self._left(self._between(state, t))

    @eqx.filter_jit
    def cut(self, state: State, t: Any) -> State:
        """The state at a time within the last step."""
        return _strong(eqx.tree_at(lambda s: (s.t, s.y), state, (t, self._between(state, t))))

    @eqx.filter_jit
    def record(self, state: State, t: Any) -> dict[str, Any]:
        """The measures at a time within the last step; in the loss clock also log(1 + t)."""
        y = self._between(state, t)
        whole, context = self.problem.whole(self.parameters(y)), self.problem.context()
        values = {m.name: m.record(whole, context, None)[0] for m in self.measures}
        return values | ({"log1p_time": y[1]} if self.clock == "loss" else {})


def _strong(state: State) -> State:
    """The state with plain dtypes: JAX's weak ones would make it compile each function twice."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.result_type(leaf)), state)


def _sizes(y: Any) -> tuple[Any, ...]:
    """The norm of the parameters, and apart from it that of the time carried along."""
    parts = y if isinstance(y, tuple) else (y,)
    return tuple(jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(part))) for part in parts)
