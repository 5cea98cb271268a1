"""How long something takes: the least of several turns, since other work on the machine only ever adds to it."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple


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


def side_by_side(calls: Sequence[Callable[[], Any]], turns: int = 3) -> list[float]:
    """The least time of each call. They take turns, so that what slows the machine slows all of them."""
    for call in calls:
        call()  # compiles
    times = []
    for turn in range(turns):
        times.append([seconds(call) for call in calls])
        say(f"turn {turn + 1} of {turns}")
    return [min(each) for each in zip(*times, strict=True)]


def step_times(runs: Sequence[Run]) -> list[float]:
    """The time of one step as the difference of two run lengths: what both have in common falls out."""
    short = [partial(each.run, each.short) for each in runs]
    long = [partial(each.run, each.long) for each in runs]
    times = side_by_side([*short, *long])
    pairs = zip(runs, times[: len(runs)], times[len(runs) :], strict=True)
    return [(after - before) / (each.long - each.short) for each, before, after in pairs]
