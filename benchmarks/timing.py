"""How long something takes: the least of several turns, since other work on the machine only adds to it."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nan
from typing import Any, NamedTuple

TURNS = 3
PATIENCE = 45.0  # seconds after which there are no further turns, even where the least two times do not agree
CLEAR, DOUBTFUL = 0.2, 0.5  # parts of a difference by which the times it comes from may be off


class Run(NamedTuple):
    """A function of the number of steps, and the two run lengths to compare."""

    run: Callable[[int], Any]
    short: int
    long: int


def say(text: str) -> None:
    """Tell how far the benchmarks have come."""
    print(f"  {text}", file=sys.stderr, flush=True)


def seconds(call: Callable[[], Any]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def side_by_side(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """The least time of each call. They take turns, so that what slows the machine slows all of them."""
    for call in calls:
        call()  # compiles
    turns = []
    for turn in range(TURNS):
        turns.append([seconds(call) for call in calls])
        say(f"turn {turn + 1} of {TURNS}")
    return [min(times) for times in zip(*turns, strict=True)]


def step_times(runs: Sequence[Run]) -> list[float]:
    """The time of one step as the difference of two run lengths: what both have in common falls out.

    It takes more turns on a noisy machine, and is NaN where the noise is as large as the difference.
    """
    calls = [(partial(each.run, each.short), partial(each.run, each.long)) for each in runs]
    for short, _ in calls:
        short()  # compiles
    turns: list[list[tuple[float, float]]] = []
    doubts, started = [inf], time.monotonic()
    while len(turns) < TURNS or (max(doubts) > CLEAR and time.monotonic() - started < PATIENCE):
        turns.append([(seconds(short), seconds(long)) for short, long in calls])
        found = [_difference(times) for times in zip(*turns, strict=True)]
        doubts = [doubt for _, doubt in found]
        known = "" if len(turns) == 1 else f": known to {', '.join(f'{doubt:.0%}' for doubt in doubts)}"
        say(f"turn {len(turns)}{known}")
    pairs = zip(runs, found, strict=True)
    return [more / (r.long - r.short) if doubt < DOUBTFUL else nan for r, (more, doubt) in pairs]


def _difference(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The least long time minus the least short one, and how far the next least could change it."""
    short, long = (sorted(column) for column in zip(*times, strict=True))
    difference = long[0] - short[0]
    spread = (long[1] - long[0]) + (short[1] - short[0]) if len(times) > 1 else inf
    return difference, spread / difference if difference > 0 else inf
