"""Gradient descent and SGD, for one network or many at once."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rankfall._cores import cores
from rankfall._precision import float64
from rankfall.data import Data
from rankfall.dynamics._descent.checkpoint import Checkpoint
from rankfall.dynamics._descent.loop import Course, run_lanes
from rankfall.dynamics._descent.loss_based import LossBased
from rankfall.dynamics._descent.pace import Pace
from rankfall.dynamics._descent.plan import Plan, plan
from rankfall.dynamics._descent.recorder import Recorder
from rankfall.dynamics._descent.stepper import Optimiser, Stepper
from rankfall.dynamics._record import Record
from rankfall.loss import Loss
from rankfall.measure import Measure
from rankfall.network import Network
from rankfall.outcome import Outcome
from rankfall.trajectory import Trajectory


class DescentWarning(UserWarning):
    """The weights overflowed: the step size is too large."""


def descent(
    network: Network | Sequence[Network],
    data: Data,
    loss: Loss | str,
    step: float | Sequence[float] | LossBased,
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
    - `step`: the step size; with several networks one number for all, or one each. Or a rule, `LossBased()`:
        steps that grow as the loss falls, each network with a rate of its own. The steps of epochs that it
        takes back count too. Records are those of the last epoch kept; `rate` and `epochs_kept` are recorded.
    - `steps` or `epochs`: how many steps, or how many times through the data.
    - `batch`: the batch size of SGD, None for full batches. The samples are shuffled anew in every epoch, by
        `seed`; the last batch of an epoch may be smaller. Networks that run together see the same batches.
        The mean loss of the batches since the last record is recorded too, as `batch_loss`.
    - `optimiser`: a function from the step size to an optax optimiser: `optax.sgd`, `optax.adam`, ...
    - `measures`: what to record: names or `Measure`s (default: loss and stable rank).
    - `record`: when, in steps: `every(10)`, `linear(200)`, `logarithmic(200)`, or the steps themselves; after
        every epoch, if `epochs` are asked for. The start and the end are always recorded.
    - `span`: where n < d, run in the span of the data. Exact; nothing but the time shows it.
    - `show`: show progress after two seconds.
    - `resume`: a trajectory of the same call with fewer `steps`, which goes on from where it ended.
    - `checkpoint`: a file that holds the run as far as it has come, written anew every half minute. If it is
        there already, the same call goes on from it, bit for bit: after Ctrl-C, and after a crash.

    **Returns:** a `Trajectory` over `step`. Ctrl-C ends the run early and returns what was reached. A run
    that diverges ends with the last weights that are finite, and a `DescentWarning`.
    """
    asked = plan(
        network,
        data,
        loss,
        step,
        steps,
        epochs,
        batch,
        seed,
        optimiser,
        measures,
        record,
        along,
        span,
    )
    return run(asked, Pace(), resume, checkpoint, show)


def run(
    plan: Plan,
    pace: Pace,
    resume: Trajectory | None,
    checkpoint: str | os.PathLike[str] | None,
    show: bool,
) -> Trajectory:
    """Run a plan from its start, or from where the run that it takes up has ended."""
    kept = None if checkpoint is None else Checkpoint(checkpoint, pace.checkpoint)
    found = None if kept is None else kept.found()
    if found is not None and resume is not None:
        raise ValueError(
            f"there are two runs to take up, `resume` and the checkpoint {checkpoint}: give one."
        )
    resume = resume or found
    with float64():
        lanes = _lanes(plan, pace)
        followed = len(plan.wanted) * pace.sparse > plan.steps
        settings = {
            **plan.settings,
            "followed": followed if resume is None else resume.settings.get("followed"),
        }
        course = _begin(lanes, plan, resume, settings, "this trajectory" if kept is None else str(kept.path))
        if found is not None and plan.chosen and course.at <= plan.steps:
            _check_records(found, plan.wanted[plan.wanted <= course.at], checkpoint)
        if found is not None and course.at == plan.steps:
            return found
        if course.at >= plan.steps:
            raise ValueError(f"the trajectory has {course.at} steps already: ask for more.")
        before = None if resume is None else resume.dataset
        recorder = Recorder(lanes, plan.reduction, plan.along, settings, before)

        def keep(course: Course) -> None:
            if kept is not None and (course.reached or resume is not None):
                outcome = Outcome.INTERRUPTED if course.at < plan.steps else Outcome.MADE
                kept.keep_now_and_then(lambda: recorder.trajectory(course, outcome))

        wanted = plan.wanted if resume is None else plan.wanted[plan.wanted > course.at]
        threads = cores() if plan.multiplications < pace.busy else 1
        course, outcome = run_lanes(lanes, course, wanted, plan.steps, show, keep, pace, threads)
        if not course.reached and resume is None:
            raise ValueError(f"the descent {outcome}: it has no finite step.")
        made = recorder.trajectory(course, outcome)
    if kept is not None:
        kept.keep(made)
    if outcome is Outcome.DIVERGED:
        warnings.warn(f"After step {course.at:,} the descent {outcome}.", DescentWarning, stacklevel=3)
    return made


def _lanes(plan: Plan, pace: Pace) -> list[Stepper]:
    """The networks, together in one compiled loop or each in its own."""
    reduction = plan.reduction
    shared = (plan.optimiser, plan.batch, plan.measures, pace.tall)
    key, spread = np.uint32(plan.seed), np.broadcast_to(plan.sizes, len(reduction.networks))
    if plan.along is None:
        lanes = [Stepper(reduction.one, plan.sizes, key, None, *shared)]
    elif plan.multiplications < pace.tiny:
        lanes = [Stepper(reduction.many, spread, key, reduction.axes, *shared)]
    else:
        each = zip(reduction.each, spread, strict=True)
        lanes = [Stepper(problem, size, key, None, *shared) for problem, size in each]
    leaves = {id(leaf): leaf for leaf in jax.tree.leaves(lanes)}
    placed = {key: jax.device_put(leaf) for key, leaf in leaves.items()}  # once, also where lanes share it
    return jax.tree.map(lambda leaf: placed[id(leaf)], lanes)


def _begin(
    lanes: Sequence[Stepper], plan: Plan, resume: Trajectory | None, settings: dict[str, Any], what: str
) -> Course:
    """Where the run starts, or where the one that it takes up has ended."""
    carries = tuple(lane.begin(settings["followed"], plan.rule) for lane in lanes)
    if resume is None:
        return Course(carries, 0)
    changed = [key for key, value in settings.items() if resume.settings.get(key) != value]
    if resume.state is None or changed:
        verb = "differ" if len(changed) > 1 else "differs"
        raise ValueError(
            f"{what} cannot be resumed by this call: its {', '.join(changed) or 'state'} {verb}. Resume "
            "with the network, data and settings that the run was started with, or start anew."
        )
    leaves = [jnp.asarray(leaf) for leaf in resume.state]
    return Course(jax.tree.unflatten(jax.tree.structure(carries), leaves), resume.statistics.steps)


def _check_records(found: Trajectory, wanted: np.ndarray, path: Any) -> None:
    if not np.isin(wanted, found.dataset.step).all():
        raise ValueError(
            f"{path} does not hold all the records up to step {found.statistics.steps:,} that are asked for "
            "now: ask for those that it has, or name another file."
        )
