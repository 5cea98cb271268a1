"""The compiled part of a descent: the step, the record, and the loop over both, for one network or many."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rankfall.dynamics._descent.loss_based import Epoch, LossBased
from rankfall.dynamics._descent.shuffle import permutation
from rankfall.dynamics._problem import Problem
from rankfall.measure import Measure
from rankfall.network import Network, unstack

BATCH_LOSS = "batch_loss"
Optimiser = Callable[[Any], optax.GradientTransformation]


class Carry(eqx.Module):
    """What changes from step to step, the parameters as `Stepper.turned` keeps them.

    The order of the samples is that of the current epoch. Of the batches since the last record the sum of
    their losses and their number are kept. Loss-based steps have their `epoch`, others None.
    """

    parameters: Network
    optimiser: Any
    followed: Any
    order: Any
    batches: Any
    epoch: Epoch | None

    @property
    def standing(self) -> Network:
        """The parameters that will not be taken back."""
        return self.parameters if self.epoch is None else self.epoch.parameters


class Stepper(eqx.Module):
    """One compiled descent: the step, the record, and their loop."""

    problem: Problem
    size: Any
    key: Any
    axes: Problem | None = eqx.field(static=True)
    optimiser: Optimiser = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)
    measures: tuple[Measure, ...] = eqx.field(static=True)
    tall: float = eqx.field(static=True)

    def begin(self, follow: bool, rule: LossBased | None) -> Carry:
        """The state before the first step, with what it takes to `follow` measures from record to record."""
        parameters = self.turned(self._each(lambda problem: problem.parameters())(self.problem))
        state = self._each(lambda problem, size, p: self.optimiser(size).init(p))(
            self.problem, self.size, parameters
        )
        followed: Any = (None,) * len(self.measures)
        if follow:
            followed = self._follow(self.problem.start) if self.axes is None else self._follow_each()
        epoch = None if rule is None else self._first_epoch(rule, parameters, state)
        if self.batch is None:
            return Carry(parameters, state, followed, None, None, epoch)
        batches = np.zeros(np.shape(self.size), self.problem.x.dtype), np.zeros((), np.int32)
        return Carry(parameters, state, followed, np.zeros(self.padded, dtype=np.int32), batches, epoch)

    def _first_epoch(self, rule: LossBased, parameters: Network, state: Any) -> Epoch:
        def one(problem: Problem, parameters: Network, state: Any) -> Epoch:
            return Epoch.begin(rule, parameters, state, problem.log_value(self.turned(parameters)))

        epoch: Epoch = self._each(one)(self.problem, parameters, state)
        if not (np.asarray(epoch.size, dtype=self.size.dtype) > 0).all():
            raise ValueError(
                f"the loss at the start is e^{np.min(epoch.log_first):.4g}, too small to measure loss-based "
                "steps by it: say by which loss, as in LossBased(loss=1.0)."
            )
        return epoch

    def turned(self, parameters: Network) -> Network:
        """The parameters with tall matrices on their side, as the loop keeps them; and back again.

        Products of a tall and narrow matrix are twice as fast where its long side is contiguous.
        """
        shapes = [w.shape[-2:] for w in self.problem.start.weights]
        shapes[0] = (shapes[0][0], self.problem.k)
        tall = [rows > self.tall * columns for rows, columns in shapes]
        weights = [
            w if w is None or not turn else w.swapaxes(-1, -2)
            for w, turn in zip(parameters.weights, tall, strict=True)
        ]
        return eqx.tree_at(lambda n: n.weights, parameters, tuple(weights), is_leaf=lambda w: w is None)

    def _follow(self, start: Network) -> tuple[Any, ...]:
        return tuple(m.warm.start(start) if m.warm else None for m in self.measures)

    def _follow_each(self) -> tuple[Any, ...]:
        starts = unstack(self.problem.start, [""] * len(self.size))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._follow, starts))

    @eqx.filter_jit
    def advance(self, carry: Carry, first: Any, gaps: Any, wanted: Any) -> tuple[Carry, Any]:
        """For each gap that many steps, and then (if it is wanted) a record.

        The last values are those of `extras`.
        """

        def stretch(state: tuple[Carry, Any], gap_and_wish: Any) -> Any:
            (carry, at), (gap, wish) = state, gap_and_wish
            carry = jax.lax.fori_loop(at, at + gap, lambda i, c: self._step(i, c), carry)
            values, followed = jax.lax.cond(wish, lambda c: self._record(c), lambda c: self._skip(c), carry)
            carry = eqx.tree_at(lambda c: c.followed, carry, followed, is_leaf=lambda leaf: leaf is None)
            if self.batch is not None:
                total, count = carry.batches
                values = (*values, total / count)
                fresh = jax.tree.map(lambda leaf: jnp.where(wish, 0, leaf), carry.batches)
                carry = eqx.tree_at(lambda c: c.batches, carry, fresh)
            if carry.epoch is not None:
                values = (*values, carry.epoch.rate, carry.epoch.kept)
            return (carry, at + gap), values

        (carry, _), values = jax.lax.scan(stretch, (carry, first), (gaps, wanted))
        return carry, values

    def extras(self, carry: Carry) -> dict[str, str]:
        """What is recorded apart from the measures, with the names that axes give it.

        SGD: the mean loss of the batches since the record before. Loss-based steps: their rate, and how many
        epochs were kept so far.
        """
        batch = {} if self.batch is None else {BATCH_LOSS: "mean batch loss"}
        return batch if carry.epoch is None else {**batch, "rate": "rate", "epochs_kept": "epochs kept"}

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of (problem, ...), for every network where there are several."""
        if self.axes is None:
            return function
        return lambda problem, *rest: jax.vmap(function, in_axes=(self.axes, *[0] * len(rest)))(
            problem, *rest
        )

    def _step(self, at: Any, carry: Carry) -> Carry:
        x, y, weight, order = self._batch(at, carry.order)

        def one(
            problem: Problem, size: Any, parameters: Network, state: Any, epoch: Epoch | None
        ) -> tuple[Any, Any, Any]:
            def loss(turned: Network) -> Any:
                return problem.value(self.turned(turned), x, y, weight)

            def log_loss(turned: Network) -> Any:
                return problem.log_value(self.turned(turned), x, y, weight)

            if epoch is None:
                value, gradient = jax.value_and_grad(loss)(parameters)
            else:
                value, gradient = epoch.value_and_grad(log_loss, parameters)
                size, value = epoch.size.astype(size.dtype), value.astype(size.dtype)
            updates, state = self.optimiser(size).update(gradient, state, parameters)
            return optax.apply_updates(parameters, updates), state, value

        parameters, state, value = self._each(one)(
            self.problem, self.size, carry.parameters, carry.optimiser, carry.epoch
        )
        batches = None if self.batch is None else (carry.batches[0] + value, carry.batches[1] + 1)
        later = Carry(parameters, state, carry.followed, order, batches, carry.epoch)
        if carry.epoch is None:
            return later
        return jax.lax.cond((at + 1) % self.per_epoch == 0, lambda c: self._judge(c), lambda c: c, later)

    def _judge(self, carry: Carry) -> Carry:
        """At the end of an epoch of loss-based steps: keep it, or take it back."""

        def one(problem: Problem, parameters: Network, state: Any, epoch: Epoch) -> Epoch:
            return epoch.judged(parameters, state, problem.log_value(self.turned(parameters)))

        epoch = self._each(one)(self.problem, carry.parameters, carry.optimiser, carry.epoch)
        return Carry(epoch.parameters, epoch.optimiser, carry.followed, carry.order, carry.batches, epoch)

    @property
    def per_epoch(self) -> int:
        """The steps of an epoch."""
        return 1 if self.batch is None else self.padded // self.batch

    @property
    def padded(self) -> int:
        """The number of samples, rounded up to whole batches."""
        batch = self.batch or 1
        return -(-len(self.problem.y) // batch) * batch

    def _batch(self, at: Any, order: Any) -> tuple[Any, Any, Any, Any]:
        """The samples of step `at`; weight 0 marks those that fill up the last batch of an epoch."""
        if self.batch is None:
            return self.problem.x, self.problem.y, None, None
        n, padded = len(self.problem.y), self.padded
        epoch, position = at // self.per_epoch, at % self.per_epoch

        def shuffle(_: Any) -> Any:
            drawn = permutation(jax.random.fold_in(jax.random.key(self.key), epoch), n)
            return jnp.concatenate([drawn, drawn[: padded - n]])

        order = jax.lax.cond(position == 0, shuffle, lambda order: order, order)
        chosen = jax.lax.dynamic_slice(order, (position * self.batch,), (self.batch,))
        weight = None
        if padded != n:
            weight = (position * self.batch + jnp.arange(self.batch) < n).astype(self.problem.x.dtype)
        return self.problem.x[chosen], self.problem.y[chosen], weight, order

    def _record(self, carry: Carry) -> tuple[Any, Any]:
        def one(problem: Problem, parameters: Network, followed: Any) -> Any:
            whole, context = problem.whole(self.turned(parameters)), problem.context()
            made = [m.record(whole, context, f) for m, f in zip(self.measures, followed, strict=True)]
            return tuple(value for value, _ in made), tuple(state for _, state in made)

        # One network after the other: a measure that iterates would wait for the slowest of them.
        return self._each(jax.custom_batching.sequential_vmap(one))(
            self.problem, carry.standing, carry.followed
        )

    def _skip(self, carry: Carry) -> tuple[Any, Any]:
        shape = eqx.filter_eval_shape(self._record, carry)[0]
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape), carry.followed
