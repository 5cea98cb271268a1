"""How long something takes: medians of several turns, so that one interruption does not decide."""

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any


def say(text: str) -> None:
    """Tell how far the benchmarks have come."""
    print(f"  {text}", file=sys.stderr, flush=True)


def seconds(call: Callable[[], Any]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def per_step(run: Callable[[int], Any], short: int, long: int) -> Callable[[], float]:
    """The time of one step as the difference of two run lengths: what both have in common falls out."""
    run(short)  # compiles

    def measure() -> float:
        return (seconds(lambda: run(long)) - seconds(lambda: run(short))) / (long - short)

    return measure


def side_by_side(measures: Sequence[Callable[[], float]], repeats: int = 3) -> list[float]:
    """The median of each measure. They take turns, so that what slows the machine slows all of them."""
    turns = []
    for turn in range(repeats):
        turns.append([measure() for measure in measures])
        say(f"turn {turn + 1} of {repeats}")
    return [median(times) for times in zip(*turns, strict=True)]
