"""Gradient descent and SGD, for one network or many at once."""

import hashlib
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

from rankfall.data import Data
from rankfall.dynamics.problem import Reduction
from rankfall.dynamics.recording import choose
from rankfall.dynamics.schedule import Record, linear, record_steps
from rankfall.dynamics.stepper import Carry, Optimiser, Stepper
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network
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
    _check(networks, step, steps, batch, seed, optimiser)
    name, labels = _axis_of_networks(along, len(networks))
    chosen = choose(measures, networks[0], data, loss)
    reduction = Reduction(networks, data, loss, span and all(m.invariant for m in chosen))
    sizes = np.asarray(step, dtype=networks[0].dtype)
    run = Stepper(
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
        placed = jax.device_put(run)  # once, not at every piece of the run
        carry, records, reached, at, outcome = _march(placed, carry, begin, wanted, steps, show)
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


def _check(
    networks: list[Network], step: Any, steps: int, batch: int | None, seed: int, optimiser: Any
) -> None:
    if not networks:
        raise ValueError("there is no network to run.")
    if not callable(optimiser):
        raise ValueError(
            "the optimiser must be a function of the step size: optax.adam rather than optax.adam(1e-3), or "
            "lambda step: optax.sgd(step, momentum=0.9)."
        )
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
    for leaf in jax.tree.leaves((networks, data)):
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


def _axis_of_networks(along: Mapping[str, Sequence[Any]] | None, count: int) -> tuple[str, Sequence[Any]]:
    if along is None:
        return "network", range(count)
    (name, labels), *more = along.items()
    if more or len(labels) != count:
        raise ValueError(f"`along` names one axis with a label for each of the {count} networks.")
    return name, labels


def _begin(
    run: Stepper, resume: Trajectory | None, settings: dict[str, Any], steps: int
) -> tuple[Carry, int, xr.Dataset | None]:
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
    run: Stepper, carry: Carry, begin: int, wanted: np.ndarray, steps: int, show: bool
) -> tuple[Carry, dict[str, np.ndarray], np.ndarray, int, str]:
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
                later, values = run.march(carry, np.asarray(at), gaps, wishes)
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


def _is_finite(carry: Carry) -> bool:
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
