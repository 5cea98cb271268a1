"""Gradient descent and SGD, for one network or many at once."""

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from rankfall.data import Data
from rankfall.dynamics.problem import Problem, Reduction
from rankfall.dynamics.recording import choose
from rankfall.dynamics.schedule import Record, linear, record_steps
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network, unstack
from rankfall.precision import float64, to_numpy
from rankfall.progress import PAUSE, progress
from rankfall.trajectory import Trajectory, to_dataset, versions

ARRIVED = "made the steps asked for"
DIVERGED = "diverged between step {at:,} and {later:,}, and was stopped before: take a smaller `step`"
INTERRUPTED = "interrupted: what was reached by then is kept, and `resume` takes it up"
SPARSE = 10  # steps between two records from which on measures are computed anew instead of followed
CHUNK = 256  # records made by one call of the compiled loop, at most


class DescentWarning(UserWarning):
    """The weights overflowed: the step size is too large."""


Optimiser = Callable[[Any], optax.GradientTransformation]


def descent(
    network: Network | Sequence[Network],
    data: Data,
    loss: Loss | str,
    step: float | Sequence[float],
    steps: int,
    *,
    batch: int | None = None,
    seed: int = 0,
    optimiser: Optimiser = optax.sgd,
    measures: Iterable[str | Measure] | None = None,
    record: Record | None = None,
    along: Mapping[str, Sequence[Any]] | None = None,
    span: bool = True,
    show: bool = True,
    resume: Trajectory | None = None,
) -> Trajectory:
    """Train by gradient descent, and record measures on the way.

    **Arguments:**

    - `network`: where to start. Several networks of one shape (a list) run together in one compiled call, and
        the result has one more dimension; `along={"scale": [1e-5, 1e-4]}` names it.
    - `data`, `loss`: what is fitted, and how: "square", "logistic", "exponential" or "cross_entropy", their
        mean over the samples ("square.sum" for the sum).
    - `step`: the step size; with several networks one number for all, or one each.
    - `steps`: how many steps.
    - `batch`: the batch size of SGD, None for full batches. The samples are shuffled anew in every epoch, by
        `seed`; the last batch of an epoch may be smaller. Networks that run together see the same batches.
    - `optimiser`: a function from the step size to an optax optimiser: `optax.sgd`, `optax.adam`, ...
    - `measures`: what to record: names or `Measure`s. Loss and stable rank if not said.
    - `record`: when: `every(10)`, `linear(200)`, `logarithmic(200)`, or the steps themselves. The start and
        the end are always recorded.
    - `span`: where n < d, run in the span of the data. Exact; nothing but the time shows it.
    - `show`: show progress after two seconds.
    - `resume`: a trajectory of the same call with fewer `steps`, to be taken up where it ended.

    **Returns:** a `Trajectory` over `step`. Ctrl-C ends the run early and returns what was reached. A run
    that diverges ends with the last weights that are finite, and a `DescentWarning`.
    """
    loss = named(loss)
    many = not isinstance(network, Network)
    networks = [network] if isinstance(network, Network) else list(network)
    _check(networks, step, steps, batch, seed)
    name, labels = _axis_of_networks(along, len(networks))
    chosen = choose(measures, networks[0], data, loss)
    reduction = Reduction(networks, data, loss, span and all(m.invariant for m in chosen))
    sizes = np.asarray(step, dtype=networks[0].dtype)
    run = _Descent(
        problem=reduction.many if many else reduction.one,
        size=np.broadcast_to(sizes, len(networks)) if many else sizes,
        key=np.uint32(seed),
        axes=reduction.axes if many else None,
        optimiser=optimiser,
        batch=None if batch is None or batch >= data.n else batch,
        measures=chosen,
    )
    settings = {
        "method": "gradient descent" if run.batch is None else f"SGD, batches of {run.batch}",
        "optimiser": _spelled(optimiser),
        "loss": str(loss),
        "data": data.name,
        "step": sizes.tolist(),
        "seed": int(seed),
        "span": bool(reduction.spans),
        "measures": [measure.name for measure in chosen],
        "fingerprint": _fingerprint(networks, data),
    }
    with float64():
        wanted = record_steps(linear(200) if record is None else record, steps)
        settings["followed"] = len(wanted) * SPARSE > steps if resume is None else resume.settings["followed"]
        carry, begin, before = _begin(run, resume, settings, steps)
        wanted = wanted if before is None else wanted[wanted > begin]
        carry, records, reached, at, outcome = _march(run, carry, begin, wanted, steps, show)
        state = to_numpy(carry)
    parameters = state.parameters if many else jax.tree.map(lambda leaf: leaf[None], state.parameters)
    settings |= {"steps": at, "outcome": outcome, "versions": versions()}
    axis = xr.DataArray(reached, dims="step", name="step", attrs={"long_name": "step"})
    dataset = to_dataset(records, chosen, axis, networks[0], (name, labels) if many else None)
    if run.batch is not None:
        attrs = {"long_name": "epoch"}
        dataset = dataset.assign_coords(epoch=("step", reached * run.batch / run.padded, attrs))
    if before is not None:
        dataset = xr.concat([before, dataset], dim="step")
    return Trajectory(dataset, reduction.lift(parameters), settings, state)


def _check(networks: list[Network], step: Any, steps: int, batch: int | None, seed: int) -> None:
    if not networks:
        raise ValueError("there is no network to run.")
    sizes = np.asarray(step, dtype=float)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise ValueError(f"the step size must be positive, not {step}.")
    if sizes.ndim and sizes.shape != (len(networks),):
        raise ValueError(f"there are {len(networks)} networks, but {sizes.size} step sizes.")
    if int(seed) != seed or not 0 <= seed < 2**32:
        raise ValueError(f"the seed must be a whole number from 0 to 2^32 - 1, not {seed}.")
    for what, number in (("number of steps", steps), ("batch size", batch)):
        if number is not None and (int(number) != number or number < 1):
            raise ValueError(f"the {what} must be a whole number of at least 1, not {number}.")


def _spelled(optimiser: Optimiser) -> str:
    """The optimiser as one would write it: the same in every process."""
    if isinstance(optimiser, partial):
        options = ", ".join([*map(str, optimiser.args), *(f"{k}={v}" for k, v in optimiser.keywords.items())])
        return f"{_spelled(optimiser.func)}({options})"
    return str(getattr(optimiser, "__name__", type(optimiser).__name__))


def _fingerprint(networks: list[Network], data: Data) -> str:
    """A short hash of all numbers a run starts from: a run is only resumed from its own start."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in jax.tree.leaves((networks, data.x, data.y)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _axis_of_networks(along: Mapping[str, Sequence[Any]] | None, count: int) -> tuple[str, Sequence[Any]]:
    if along is None:
        return "network", range(count)
    (name, labels), *more = along.items()
    if more or len(labels) != count:
        raise ValueError(f"`along` names one axis with a label for each of the {count} networks.")
    return name, labels


class _Carry(eqx.Module):
    """What changes from step to step. The order of the samples is that of the current epoch."""

    parameters: Network
    optimiser: Any
    followed: Any
    order: Any


class _Descent(eqx.Module):
    """One compiled descent: the step, the record, and their loop."""

    problem: Problem
    size: Any
    key: Any
    axes: Problem | None = eqx.field(static=True)
    optimiser: Optimiser = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)
    measures: tuple[Measure, ...] = eqx.field(static=True)

    def begin(self, follow: bool) -> _Carry:
        """The state before the first step, with what it takes to `follow` measures from record to record."""
        parameters = self._each(lambda problem: problem.parameters())(self.problem)
        state = self._each(lambda problem, size, p: self.optimiser(size).init(p))(
            self.problem, self.size, parameters
        )
        followed: Any = (None,) * len(self.measures)
        if follow:
            followed = self._follow(self.problem.start) if self.axes is None else self._follow_each()
        order = None if self.batch is None else np.zeros(self.padded, dtype=np.int32)
        return _Carry(parameters, state, followed, order)

    def _follow(self, start: Network) -> tuple[Any, ...]:
        return tuple(m.warm.start(start) if m.warm else None for m in self.measures)

    def _follow_each(self) -> tuple[Any, ...]:
        starts = unstack(self.problem.start, [""] * len(self.size))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._follow, starts))

    @eqx.filter_jit
    def march(self, carry: _Carry, first: Any, gaps: Any, wanted: Any) -> tuple[_Carry, Any]:
        """For each gap that many steps, and then (if it is wanted) a record."""

        def stretch(state: tuple[_Carry, Any], gap_and_wish: Any) -> Any:
            (carry, at), (gap, wish) = state, gap_and_wish
            carry = jax.lax.fori_loop(at, at + gap, lambda i, c: self._step(i, c), carry)
            values, followed = jax.lax.cond(wish, lambda c: self._record(c), lambda c: self._skip(c), carry)
            carry = eqx.tree_at(lambda c: c.followed, carry, followed, is_leaf=lambda leaf: leaf is None)
            return (carry, at + gap), values

        (carry, _), values = jax.lax.scan(stretch, (carry, first), (gaps, wanted))
        return carry, values

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of (problem, ...), for every network where there are several."""
        if self.axes is None:
            return function
        return lambda problem, *rest: jax.vmap(function, in_axes=(self.axes, *[0] * len(rest)))(
            problem, *rest
        )

    def _step(self, at: Any, carry: _Carry) -> _Carry:
        x, y, weight, order = self._batch(at, carry.order)

        def one(problem: Problem, size: Any, parameters: Network, state: Any) -> tuple[Any, Any]:
            gradient = jax.grad(problem.value)(parameters, x, y, weight)
            updates, state = self.optimiser(size).update(gradient, state, parameters)
            return optax.apply_updates(parameters, updates), state

        parameters, state = self._each(one)(self.problem, self.size, carry.parameters, carry.optimiser)
        return _Carry(parameters, state, carry.followed, order)

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
        epoch, position = at // (padded // self.batch), at % (padded // self.batch)

        def shuffle(_: Any) -> Any:
            drawn = jax.random.permutation(jax.random.fold_in(jax.random.key(self.key), epoch), n)
            return jnp.concatenate([drawn, drawn[: padded - n]]).astype(jnp.int32)

        order = jax.lax.cond(position == 0, shuffle, lambda order: order, order)
        chosen = jax.lax.dynamic_slice(order, (position * self.batch,), (self.batch,))
        weight = None
        if padded != n:
            weight = (position * self.batch + jnp.arange(self.batch) < n).astype(self.problem.x.dtype)
        return self.problem.x[chosen], self.problem.y[chosen], weight, order

    def _record(self, carry: _Carry) -> tuple[Any, Any]:
        def one(problem: Problem, parameters: Network, followed: Any) -> Any:
            whole, context = problem.whole(parameters), problem.context()
            made = [m.record(whole, context, f) for m, f in zip(self.measures, followed, strict=True)]
            return tuple(value for value, _ in made), tuple(state for _, state in made)

        return self._each(one)(self.problem, carry.parameters, carry.followed)

    def _skip(self, carry: _Carry) -> tuple[Any, Any]:
        shape = eqx.filter_eval_shape(self._record, carry)[0]
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape), carry.followed


def _begin(
    run: _Descent, resume: Trajectory | None, settings: dict[str, Any], steps: int
) -> tuple[_Carry, int, xr.Dataset | None]:
    """The state to start from, its step, and the records before it."""
    carry = run.begin(settings["followed"])
    if resume is None:
        return carry, 0, None
    changed = [key for key, value in settings.items() if resume.settings.get(key) != value]
    if resume.state is None or changed:
        raise ValueError(
            f"this trajectory cannot be resumed by this call: its {', '.join(changed) or 'state'} differs. "
            "Resume with the network, data and settings that the run was started with."
        )
    if resume.settings["steps"] >= steps:
        raise ValueError(f"the trajectory has {resume.settings['steps']} steps already: ask for more.")
    leaves = [jnp.asarray(leaf) for leaf in resume.state]
    return jax.tree.unflatten(jax.tree.structure(carry), leaves), resume.settings["steps"], resume.dataset


def _march(
    run: _Descent, carry: _Carry, begin: int, wanted: np.ndarray, steps: int, show: bool
) -> tuple[_Carry, dict[str, np.ndarray], np.ndarray, int, str]:
    """Run to the end in pieces of about `PAUSE` seconds, so that a person can watch and stop it."""
    at, pieces, outcome = begin, [], ARRIVED
    reached: list[int] = []
    chunk = min(CHUNK, len(wanted))
    speed = 1000.0  # steps a second: a first guess, corrected as the run goes
    with progress("descent", show) as shown:
        try:
            while len(reached) < len(wanted):
                gaps, wishes = _plan(at, wanted[len(reached) :], chunk, max(1, int(PAUSE * speed)))
                started = time.monotonic()
                later, values = run.march(carry, jnp.asarray(at), jnp.asarray(gaps), jnp.asarray(wishes))
                made = [np.asarray(value)[wishes] for value in values]  # waits; Ctrl-C loses this piece only
                if not _is_finite(later):
                    outcome = DIVERGED.format(at=at, later=at + int(gaps.sum()))
                    break
                carry, at = later, at + int(gaps.sum())
                pieces.append(made)
                reached.extend(wanted[len(reached) : len(reached) + int(wishes.sum())])
                speed = max(1.0, gaps.sum() / (time.monotonic() - started))
                shown.update((at - begin) / (steps - begin), f"step {at:,}")
        except KeyboardInterrupt:
            if not pieces:
                raise
            outcome = INTERRUPTED if at < steps else ARRIVED
    if not pieces:
        raise ValueError(f"the descent {outcome}.")
    if outcome.startswith("diverged"):
        warnings.warn(f"The descent {outcome}.", DescentWarning, stacklevel=3)
    names = [measure.name for measure in run.measures]
    records = {name: np.concatenate([piece[i] for piece in pieces]) for i, name in enumerate(names)}
    return carry, records, np.asarray(reached), at, outcome


def _is_finite(carry: _Carry) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(carry.parameters))


def _plan(at: int, wanted: np.ndarray, chunk: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The next `chunk` gaps, of `most` steps in all, and which of them end in a record."""
    gaps, wishes = np.zeros(chunk, dtype=int), np.zeros(chunk, dtype=bool)
    for i, target in enumerate(wanted[:chunk]):
        gaps[i] = min(target - at, most)
        wishes[i] = gaps[i] == target - at
        at, most = at + gaps[i], most - gaps[i]
        if most <= 0:
            break
    return gaps, wishes
