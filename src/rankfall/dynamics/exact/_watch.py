"""What is watched within a step, and the first event in it."""

from collections.abc import Iterable, Iterator

import numpy as np

from rankfall.dynamics.exact._collocation import first_exit
from rankfall.dynamics.exact._events import Hit, Watched, What
from rankfall.dynamics.exact._motion import Path
from rankfall.dynamics.exact._regions import TOUCH, Region


def first_event(all_watched: Iterable[Watched]) -> tuple[float, list[Hit]]:
    """The part of the step before the first event, and the events there."""
    first = 1.0
    found: list[Hit] = []
    for watched in all_watched:
        hit = first_exit(watched.paths, watched.slack)
        if hit is None or hit[0] > first:
            continue
        events = [Hit(int(watched.neurons[i]), int(watched.samples[i]), watched.what) for i in hit[1]]
        found = events if hit[0] < first - 1e-13 else found + events
        first = min(first, hit[0])
    return first, found


def at_kinks(region: Region, path: Path, r: np.ndarray) -> Iterator[Watched]:
    """What must not become negative within a step with pulls r on `GRID`, for all neurons to stay where they
    are: above, below, or at their kinks.
    """
    if region.slope == 1:
        return
    yield _approaching(region, path)
    neurons, samples = _loose(region, r)
    if len(neurons):
        some, place = np.unique(neurons, return_inverse=True)
        pulls, ups, sizes = region.by_line(region.pulls(r, some), r)
        u, rs, sizes = pulls[:, place, samples], ups[:, samples], sizes[:, samples]
        most = (np.abs(r) * region.live) @ region.lengths / region.lengths[samples, None]
        sign, slack = np.sign(rs[0]), TOUCH * np.minimum(sizes, most.T).max(axis=0)
        yield Watched(((u - region.slope * rs) * sign).T, slack, neurons, samples, What.DOWN)
        yield Watched(((rs - u) * sign).T, slack, neurons, samples, What.UP)
    second = path.second_layer()
    if second is not None:
        sign = np.where(second[:, 0] != 0, np.sign(second[:, 0]), np.sign(second[:, 1]))
        moves = np.flatnonzero(sign)
        slack = TOUCH * np.abs(second[moves]).max(axis=1)
        none = np.full(len(moves), -1)
        yield Watched(second[moves] * sign[moves, None], slack, moves, none, What.SIGN)


def _approaching(region: Region, path: Path) -> Watched:
    """The pre-activations that may reach their kinks within a step."""
    neurons, samples, paths = path.preactivations()
    side = region.side[neurons, samples].astype(float)
    touch = TOUCH * path.sizes()[neurons] * region.lengths[samples]
    return Watched(paths * side[:, None], touch, neurons, samples, What.KINK)


def _loose(region: Region, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs held whose slope may leave [alpha, 1] within a step with pulls r on `GRID`."""
    neurons, samples = np.nonzero(region.held)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.abs(r / r[0] - 1).max()
    if not change < 0.5:
        return neurons, samples
    slack = region.loosest(r[0], neurons, samples)
    loose = ~(slack > 2 * change / (1 - change) * np.abs(r[0]).max())
    if region.lines is not None:  # pulls on one line may cancel
        loose |= ((region.lines != 0).sum(axis=1) > 1)[samples]
    return neurons[loose], samples[loose]
