"""The loop of a descent from its first step to its last, in pieces that a person can watch and stop.

Tiny networks share one compiled loop; others have each a loop of its own. Such a loop is a lane. Lanes run at
once, on a thread a core, or take turns where one of them keeps all cores busy.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from rankfall._precision import float64
from rankfall._progress import progress
from rankfall.dynamics._descent.pace import Pace
from rankfall.dynamics._descent.stepper import BATCH_LOSS, Carry, Stepper
from rankfall.outcome import Outcome


@dataclass(frozen=True)
class Course:
    """How far a run has come: the state of each lane, the step it is at, and the records on the way."""

    carries: tuple[Carry, ...]
    at: int
    reached: tuple[int, ...] = ()
    pieces: tuple[dict[str, np.ndarray], ...] = ()

    def records(self) -> dict[str, np.ndarray]:
        """The records of all pieces, by name."""
        return {name: np.concatenate([piece[name] for piece in self.pieces]) for name in self.pieces[0]}


def run_lanes(
    lanes: Sequence[Stepper],
    course: Course,
    wanted: np.ndarray,
    steps: int,
    show: bool,
    keep: Callable[[Course], None],
    pace: Pace,
    threads: int,
) -> tuple[Course, Outcome]:
    """Take the course to the last step, recording at the steps that are wanted; also how it ended.

    As many lanes run at once as there are `threads`. After every piece the course is handed to `keep`. Ctrl-C
    loses no more than the piece that is being made.
    """
    begin, chunk = course.at, min(pace.records, len(wanted))
    pause = pace.seconds * min(-(-len(lanes) // threads), pace.rounds)
    speed = 1.0  # steps a second: a first guess, corrected as the run goes
    with progress("descent", show) as shown:
        try:
            while len(course.reached) < len(wanted):
                waiting = wanted[len(course.reached) :]
                gaps, wishes = _plan(course.at, waiting, chunk, max(1, int(pause * speed)))
                started = time.monotonic()
                carries, piece = _advance(lanes, course, gaps, wishes, threads)
                at = course.at + int(gaps.sum())
                if not _is_finite(carries):
                    return course, Outcome.DIVERGED
                reached = (*course.reached, *waiting[: int(wishes.sum())].tolist())
                course = Course(carries, at, reached, (*course.pieces, piece))  # all of it, or nothing
                speed = max(1.0, gaps.sum() / (time.monotonic() - started))
                keep(course)
                shown.update((at - begin) / (steps - begin), _note(lanes[0], course, steps))
        except KeyboardInterrupt:
            if course.at == begin:
                raise
            return course, Outcome.INTERRUPTED if course.at < steps else Outcome.MADE
    return course, Outcome.MADE


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


def _advance(
    lanes: Sequence[Stepper], course: Course, gaps: np.ndarray, wishes: np.ndarray, threads: int
) -> tuple[tuple[Carry, ...], dict[str, np.ndarray]]:
    """One piece of every lane, and its records by name: (record, network, ...)."""

    def advance(lane: Stepper, carry: Carry) -> tuple[Carry, list[np.ndarray]]:
        (device,) = lane.problem.x.devices()
        with float64(), jax.default_device(device):  # a thread has settings of its own
            later, values = lane.advance(carry, np.asarray(course.at), gaps, wishes)
            return later, [np.asarray(value)[wishes] for value in values]  # waits

    carries, made = zip(*_at_once(advance, lanes, course.carries, threads), strict=True)
    names = [*(measure.name for measure in lanes[0].measures), *lanes[0].extras(course.carries[0])]
    apart = lanes[0].axes is None
    columns = [np.stack(each, axis=1) for each in zip(*made, strict=True)] if apart else made[0]
    return carries, dict(zip(names, columns, strict=True))


def _at_once(
    advance: Callable[..., Any], lanes: Sequence[Stepper], carries: Sequence[Carry], threads: int
) -> list[Any]:
    """`advance` of every lane and its carry, in parallel; one at a time in this thread itself."""
    if min(threads, len(lanes)) == 1:
        return list(map(advance, lanes, carries))
    with ThreadPoolExecutor(threads) as pool:
        pieces = [pool.submit(advance, *each) for each in zip(lanes, carries, strict=True)]
        try:
            return [piece.result() for piece in pieces]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _is_finite(carries: Sequence[Carry]) -> bool:
    return all(np.isfinite(leaf).all() for c in carries for leaf in jax.tree.leaves(c.standing))


def _note(lane: Stepper, course: Course, steps: int) -> str:
    """Where the run is, for a person who watches: the epoch or the step, the loss, the stable rank."""
    recorded = (piece for piece in reversed(course.pieces) if all(map(len, piece.values())))
    last: dict[str, np.ndarray] = next(recorded, {})
    if lane.batch is None:
        told, losses = f"step {course.at:,}", last["loss"][-1] if "loss" in last else None
    else:
        told, losses = (
            f"epoch {course.at / lane.per_epoch:.1f} of {steps / lane.per_epoch:.4g}",
            last.get(BATCH_LOSS, [None])[-1],
        )
        if count := int(course.carries[0].batches[1]):  # what is newer than the last record
            losses = np.stack([np.asarray(carry.batches[0]) for carry in course.carries]) / count
    told += "" if losses is None else f", loss {_range(losses)}"
    ranks = last.get("stable_rank")
    return told if ranks is None else f"{told}, stable rank {_range(ranks[-1][..., 0])}"


def _range(values: np.ndarray) -> str:
    low, high = f"{np.min(values):.3g}", f"{np.max(values):.3g}"
    return low if low == high else f"{low} to {high}"
