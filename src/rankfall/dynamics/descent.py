"""Gradient descent and SGD, for one network or many at once."""

import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rankfall.cores import cores
from rankfall.data import Data
from rankfall.dynamics.account import Account
from rankfall.dynamics.checkpoint import Checkpoint
from rankfall.dynamics.march import Course, march
from rankfall.dynamics.problem import Reduction
from rankfall.dynamics.recording import choose
from rankfall.dynamics.schedule import Record, every, linear, record_steps
from rankfall.dynamics.spelling import spelled
from rankfall.dynamics.stepper import Optimiser, Stepper
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network
from rankfall.outcome import Outcome
from rankfall.precision import float64
from rankfall.trajectory import Trajectory

SPARSE = 10  # steps between two records from which on measures are computed anew instead of followed
TINY = 1e4  # multiplications a step below which networks share one loop
BUSY = 2e7  # ... and from which on one network keeps all cores busy: then they take turns


class DescentWarning(UserWarning):
    """The weights overflowed: the step size is too large."""


def descent(
    network: Network | Sequence[Network],
    data: Data,
    loss: Loss | str,
    step: float | Sequence[float],
    steps: int | None = None,
    *,
    epochs: int | None = None,
    batch: int | None = None,
    seed: int = 0,
    optimiser: Optimiser = optax.sgd,
    measures: Iterable[str | Measure] | None = None,
    record: Record | None = None,
    along: Mapping[str, Sequence[Any]] | None = None,
    span: bool = True,
    show: bool = True,
    resume: Trajectory | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Trajectory:
    """Train by gradient descent, and record measures on the way.

    **Arguments:**

    - `network`: where to start. Several networks of one shape (a list) run in one call, compiled once: tiny
        ones together, larger ones at once on all cores or in turn. The result has one more dimension;
        `along={"scale": [1e-5, 1e-4]}` names it.
    - `data`, `loss`: what is fitted, and how: "square", "logistic", "exponential" or "cross_entropy", their
        mean over the samples ("square.sum" for the sum).
    - `step`: the step size; with several networks one number for all, or one each.
    - `steps` or `epochs`: how many steps, or how many times through the data.
    - `batch`: the batch size of SGD, None for full batches. The samples are shuffled anew in every epoch, by
        `seed`; the last batch of an epoch may be smaller. Networks that run together see the same batches.
        The mean loss of the batches since the last record is recorded too, as `batch_loss`.
    - `optimiser`: a function from the step size to an optax optimiser: `optax.sgd`, `optax.adam`, ...
    - `measures`: what to record: names or `Measure`s. Loss and stable rank if not said.
    - `record`: when, in steps: `every(10)`, `linear(200)`, `logarithmic(200)`, or the steps themselves; after
        every epoch, if `epochs` are asked for. The start and the end are always recorded.
    - `span`: where n < d, run in the span of the data. Exact; nothing but the time shows it.
    - `show`: show progress after two seconds.
    - `resume`: a trajectory of the same call with fewer `steps`, to be taken up where it ended.
    - `checkpoint`: a file that holds the run as far as it has come, written anew every half minute. If it is
        there already, the same call goes on from it, bit for bit: after Ctrl-C, and after a crash.

    **Returns:** a `Trajectory` over `step`. Ctrl-C ends the run early and returns what was reached. A run
    that diverges ends with the last weights that are finite, and a `DescentWarning`.
    """
    loss = named(loss)
    many = not isinstance(network, Network)
    networks = [network] if isinstance(network, Network) else list(network)
    _check(networks, step, batch, seed, optimiser)
    batch = None if batch is None or batch >= data.n else batch
    chosen_records = record is not None or epochs is not None
    steps, record = _length(steps, epochs, record, 1 if batch is None else -(-data.n // batch))
    name, labels = _axis_of_networks(along, len(networks))
    chosen = choose(measures, networks[0], data, loss)
    reduction = Reduction(networks, data, loss, span and all(m.invariant for m in chosen))
    sizes = np.asarray(step, dtype=networks[0].dtype)
    options = {"key": np.uint32(seed), "optimiser": optimiser, "batch": batch, "measures": chosen}
    settings = {
        "method": "gradient descent" if batch is None else f"SGD, batches of {batch}",
        "optimiser": spelled(optimiser),
        "loss": str(loss),
        "data": data.name,
        "step": sizes.tolist(),
        "seed": int(seed),
        "span": bool(reduction.spans),
        "measures": [measure.name for measure in chosen],
        "along": [name, *map(str, labels)] if many else [],
        "fingerprint": _fingerprint(networks, data),
    }
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    found = None if kept is None else kept.found()
    if found is not None and resume is not None:
        raise ValueError(
            f"there are two runs to take up, `resume` and the checkpoint {checkpoint}: give one."
        )
    resume = resume or found
    with float64():
        work = _multiplications(reduction, batch)
        lanes = _lanes(reduction, sizes, many, work < TINY, **options)
        wanted = record_steps(record, steps)
        followed = len(wanted) * SPARSE > steps
        settings["followed"] = followed if resume is None else resume.settings.get("followed")
        course = _begin(lanes, resume, settings, "this trajectory" if kept is None else str(kept.path))
        if found is not None and chosen_records and course.at <= steps:
            _check_records(found, wanted[wanted <= course.at], checkpoint)
        if found is not None and course.at == steps:
            return found
        if course.at >= steps:
            raise ValueError(f"the trajectory has {course.at} steps already: ask for more.")
        before = None if resume is None else resume.dataset
        account = Account(lanes, reduction, (name, labels) if many else None, settings, before)

        def keep(course: Course) -> None:
            if kept is not None and (course.reached or resume is not None):
                outcome = Outcome.INTERRUPTED if course.at < steps else Outcome.MADE
                kept.keep_now_and_then(lambda: account.of(course, outcome))

        wanted = wanted if resume is None else wanted[wanted > course.at]
        threads = cores() if work < BUSY else 1
        course, outcome = march(lanes, course, wanted, steps, show, keep, threads)
        if not course.reached and resume is None:
            raise ValueError(f"the descent {outcome}: it has no finite step.")
        run = account.of(course, outcome)
    if kept is not None:
        kept.keep(run)
    if outcome is Outcome.DIVERGED:
        warnings.warn(f"After step {course.at:,} the descent {outcome}.", DescentWarning, stacklevel=2)
    return run


def _check(networks: list[Network], step: Any, batch: int | None, seed: int, optimiser: Any) -> None:
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
    if batch is not None and (int(batch) != batch or batch < 1):
        raise ValueError(f"the batch size must be a whole number of at least 1, not {batch}.")


def _check_records(found: Trajectory, wanted: np.ndarray, path: Any) -> None:
    if not np.isin(wanted, found.dataset.step).all():
        raise ValueError(
            f"{path} does not hold all the records up to step {found.settings['steps']:,} that are asked for "
            "now: ask for those that it has, or name another file."
        )


def _fingerprint(networks: list[Network], data: Data) -> str:
    """A short hash of all numbers a run starts from: a run is only resumed from its own start."""
    digest = hashlib.sha256()  # processors have instructions for it
    for network in networks:
        digest.update(repr((network.trained, network.linear_tail, network.skip_kinds)).encode())
    for leaf in map(np.ascontiguousarray, jax.tree.leaves((networks, data))):
        digest.update(f"{leaf.dtype} {leaf.shape}".encode())
        digest.update(leaf.data)
    return digest.hexdigest()[:16]


def _axis_of_networks(along: Mapping[str, Sequence[Any]] | None, count: int) -> tuple[str, Sequence[Any]]:
    if along is None:
        return "network", range(count)
    (name, labels), *more = along.items()
    if more or len(labels) != count:
        raise ValueError(f"`along` names one axis with a label for each of the {count} networks.")
    return name, labels


def _length(steps: int | None, epochs: int | None, record: Record | None, epoch: int) -> tuple[int, Record]:
    """The number of steps, and when to record; an `epoch` has so many steps."""
    if (steps is None) == (epochs is None):
        raise ValueError("say how long to run: the number of `steps`, or of `epochs`.")
    for what, number in (("steps", steps), ("epochs", epochs)):
        if number is not None and (int(number) != number or number < 1):
            raise ValueError(f"the number of {what} must be a whole number of at least 1, not {number}.")
    if epochs is None:
        assert steps is not None
        return int(steps), linear(200) if record is None else record
    return int(epochs) * epoch, every(epoch) if record is None else record


def _lanes(reduction: Reduction, sizes: np.ndarray, many: bool, together: bool, **rest: Any) -> list[Stepper]:
    """The networks, together in one compiled loop or each in its own."""
    count = len(reduction.networks)
    spread = np.broadcast_to(sizes, count)
    if not many:
        lanes = [Stepper(reduction.one, sizes, axes=None, **rest)]
    elif together:
        lanes = [Stepper(reduction.many, spread, axes=reduction.axes, **rest)]
    else:
        lanes = [Stepper(p, s, axes=None, **rest) for p, s in zip(reduction.each, spread, strict=True)]
    leaves = {id(leaf): leaf for leaf in jax.tree.leaves(lanes)}
    placed = {key: jax.device_put(leaf) for key, leaf in leaves.items()}  # once, also where lanes share it
    return jax.tree.map(lambda leaf: placed[id(leaf)], lanes)


def _multiplications(reduction: Reduction, batch: int | None) -> int:
    """Those of the products with trained matrices in one network's forward pass on a batch."""
    moving = sum(leaf.size for leaf in jax.tree.leaves(reduction.one.parameters()))
    return int((batch or len(reduction.one.y)) * moving)


def _begin(
    lanes: Sequence[Stepper], resume: Trajectory | None, settings: dict[str, Any], what: str
) -> Course:
    """Where the run starts, or where the one that it takes up has ended."""
    carries = tuple(lane.begin(settings["followed"]) for lane in lanes)
    if resume is None:
        return Course(carries, 0)
    changed = [key for key, value in settings.items() if resume.settings.get(key) != value]
    if resume.state is None or changed:
        raise ValueError(
            f"{what} cannot be resumed by this call: its {', '.join(changed) or 'state'} differs. Resume "
            "with the network, data and settings that the run was started with, or start anew."
        )
    leaves = [jnp.asarray(leaf) for leaf in resume.state]
    return Course(jax.tree.unflatten(jax.tree.structure(carries), leaves), resume.settings["steps"])
