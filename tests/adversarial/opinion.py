"""The judge of limits: where two oracles that know nothing of regions take the same network.

The flow with rounded kinks is run at several widths, gradient descent with several step sizes. Where a run
has settled, its end is known; where runs that differ in width or step have one end, it is that of the flow.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from rankfall import Limit
from tests.adversarial import printed
from tests.adversarial.descent import descend
from tests.adversarial.path import Path
from tests.adversarial.problems import Problem
from tests.adversarial.rounded import follow

AGREES, CONTRADICTS, UNDECIDED = "agrees", "contradicts", "undecided"
WIDTHS = (1e-5, 1e-6)
WIDER = 1e-4  # to confirm an accusation
FINENESS = (1, 2, 4)
FINER = (8, 16)  # to confirm an accusation too
LONGER = 20  # times as many steps, where those do not settle
SETTLED = 1e-7  # 1 - cos of two increments in succession that have one direction
HEADING = 1e-4  # a pre-activation of the increment with a sign, relative to the largest possible one
NEAR, FAR = 1e-6, 1e-5  # 1 - cos of ends that agree, and of ends that do not
NEAR_END, FAR_END = 1e-4, 1e-3  # the same for end points of the square loss, as shares of the way there
STAYS = 8  # doublings of the margin during which a direction that has arrived stays near the limit
COMES = 5e-3  # 1 - cos below which a direction that comes nearer all the time is believed to arrive


@dataclass(frozen=True)
class Opinion:
    """What the oracles say, why, and how far the limit is from where they go."""

    word: str
    why: str
    distance: float = float("nan")
    paths: tuple[Path, ...] = ()


def one_minus_cos(u: np.ndarray, v: np.ndarray) -> float:
    """Half the squared distance of the unit vectors, in which nothing cancels."""
    u, v = u.ravel(), v.ravel()
    if not np.linalg.norm(u) > 0 or not np.linalg.norm(v) > 0:
        return 1.0
    gap = u / np.linalg.norm(u) - v / np.linalg.norm(v)
    return float(gap @ gap / 2)


def distance_by_way(first: np.ndarray, u: np.ndarray, v: np.ndarray) -> float:
    """The distance of two ends, relative to the way from the start."""
    way = max(np.linalg.norm(u - first), np.linalg.norm(v - first), 1e-8 * np.linalg.norm(first), 1e-300)
    return float(np.linalg.norm(u - v) / way)


# Where a run has settled


def settled_direction(path: Path) -> np.ndarray | None:
    r"""The direction in which a network with fixed second layer goes for ever; None if it may still turn.

    With $W(s) \approx W_0 + s\,U$ the increment over a doubling of the clock is $U$ without the offset $W_0$,
    because of which the direction of $W$ itself converges only like $1/q$. It is believed if it did not
    change over two doublings, no pre-activation goes towards its kink, and no margin grows more slowly than
    those that pull: then nothing is left that could turn it.
    """
    if len(path.marks) < 4 or path.margins.min() < 5:
        return None
    older, before, now = path.marks[-3:]
    step = now.w - before.w
    if one_minus_cos(step, before.w - older.w) > SETTLED:
        return None
    x, y = path.problem.inputs, path.problem.y
    sizes = np.linalg.norm(x, axis=1) * np.linalg.norm(step, axis=1).max()
    heading, z = step @ x.T, now.w @ x.T
    if path.problem.slope < 1 and (heading * z < 0)[np.abs(heading) > HEADING * sizes].any():
        return None
    grown = y * (now.outputs - before.outputs)
    pulls = np.exp(path.margins.min() - path.margins)
    if (grown < (1 - 1e-3) * (pulls @ grown) / pulls.sum()).any():
        return None
    return step[path.problem.a != 0]


def resting_direction(path: Path) -> np.ndarray | None:
    """Both layers trained: the direction, if it rests: if the increment is parallel to the state."""
    if len(path.marks) < 4 or path.margins.min() < 1e3:
        return None
    before, now = path.marks[-2].theta, path.marks[-1].theta
    return now if one_minus_cos(now - before, now) < 1e-11 else None


def end_point(path: Path, lapse: float = 1e30) -> np.ndarray | None:
    """Square loss: the state, if nothing moves while the clock grows by `lapse`, or by 10 if all is fitted.

    A flow can wait for long at a saddle, and two samples that are 1e-14 apart are told apart only after 1e28
    times as long as the others: so `lapse` is large where time costs nothing.
    """
    first, now = path.marks[0].theta, path.marks[-1]
    sizes = np.linalg.svd(path.problem.inputs, compute_uv=False)
    fitted = 1e-8 * min(1.0, 10 * float(sizes[-1] / sizes[0]))  # the rest may move weights
    if np.abs(now.outputs - path.problem.y).max() < fitted * np.abs(path.problem.y).max():
        lapse = min(lapse, 10.0)
    before = sum(mark.clock < now.clock / lapse for mark in path.marks)
    if before < 2:
        return None
    moved = max(float(np.linalg.norm(mark.theta - now.theta)) for mark in path.marks[before - 1 :])
    way, size = np.linalg.norm(now.theta - first), np.linalg.norm(now.theta)
    return now.theta if moved <= min(1e-4 * way, 1e-6 * size) or now.clock > 1e100 else None


def comes_nearer(path: Path, target: np.ndarray) -> bool:
    r"""Both layers trained: does the direction come nearer to the limit at each of the last five doublings?

    Neurons that are not part of the limit lose their share like $q^{|v_j| - 1}$, so that a direction may be
    on its way at margins of $10^{10}$.
    """
    if len(path.marks) < 7 or path.margins.min() < 100:
        return False
    last = [one_minus_cos(mark.theta, target) for mark in path.marks[-6:]]
    return last[-1] < COMES and all(b < 0.999 * a or b < 1e-9 for a, b in pairwise(last))


# The opinion


@dataclass(frozen=True)
class _Question:
    """The limit of one problem, and how ends are compared with it."""

    problem: Problem
    target: np.ndarray
    end: Callable[[Path], np.ndarray | None]
    distance: Callable[[np.ndarray, np.ndarray], float]
    near: float
    far: float
    steps: int

    def has_ended(self, path: Path) -> bool:
        return self.end_of(path) is not None

    def end_of(self, path: Path) -> np.ndarray | None:
        """Where it has settled; with both layers trained also a state that stays near the limit for long."""
        found = self.end(path)
        if found is None and self.problem.both and not self.problem.square and len(path.marks) > STAYS:
            recent = [mark.theta for mark in path.marks[-STAYS:]]
            if all(one_minus_cos(theta, self.target) < self.near / 10 for theta in recent):
                return recent[-1]
        return found

    def last(self, run: tuple[Path, np.ndarray | None]) -> np.ndarray:
        """Where a run of descent is, or goes, whether it has settled or not."""
        path, found = run
        if found is not None:
            return found
        moves = self.problem.both or self.problem.square
        return path.marks[-1].theta if moves else path.last_step[self.problem.a != 0]

    def rounded(self, width: float, **options: float) -> Path:
        return follow(self.problem, width, self.steps, self.has_ended, **options)

    def descent(self, fineness: int, longer: int = 1) -> tuple[Path, np.ndarray | None]:
        """Its path and end; at rest its steps stay as small as they are, so it need not rest for long."""
        short = replace(self, end=partial(end_point, lapse=3.0)) if self.problem.square else self
        path = descend(self.problem, fineness, 2 * fineness * longer * self.steps, short.has_ended)
        return path, short.end_of(path)


def question(limit: Limit, problem: Problem, steps: int) -> _Question:
    w, a = printed.weights(limit, problem)
    theta = np.concatenate([w.ravel(), a])
    if problem.square:
        first = np.concatenate([problem.weights.ravel(), problem.a])
        by_way = partial(distance_by_way, first)
        return _Question(problem, theta, end_point, by_way, NEAR_END, FAR_END, steps)
    if problem.both:
        return _Question(problem, theta, resting_direction, one_minus_cos, NEAR, FAR, steps)
    return _Question(problem, w[problem.a != 0], settled_direction, one_minus_cos, NEAR, FAR, steps)


def settles(problem: Problem, steps: int) -> bool:
    """Does the flow with rounded kinks settle, wherever it leads?"""
    end = end_point if problem.square else resting_direction if problem.both else settled_direction
    path = follow(problem, WIDTHS[1], steps, lambda path: end(path) is not None)
    return end(path) is not None


def opinion(limit: Limit, problem: Problem, steps: int) -> Opinion:
    """What the flow with rounded kinks says of a certified limit, and descent where that does not settle."""
    asked = question(limit, problem, steps)
    paths = tuple(asked.rounded(width) for width in WIDTHS)
    ends = [asked.end_of(path) for path in paths]
    say = partial(Opinion, paths=paths)
    if any(end is None for end in ends):
        if problem.both and not problem.square and all(comes_nearer(p, asked.target) for p in paths):
            far = one_minus_cos(paths[-1].marks[-1].theta, asked.target)
            return say(AGREES, "comes nearer at every doubling of the margin", far)
        return opinion_of_descent(asked, paths)
    distance = asked.distance(ends[-1], asked.target)
    spread = asked.distance(ends[-1], ends[-2])
    if distance <= asked.near and spread <= 10 * asked.near:
        return say(AGREES, "leads there", distance)
    if spread > max(distance / 10, asked.near):
        return opinion_of_descent(asked, paths)
    if distance <= asked.far:
        return say(UNDECIDED, "leads near it, not there", distance)
    return accusation(asked, paths, ends[-1], distance)


def opinion_of_descent(asked: _Question, rounded: tuple[Path, ...]) -> Opinion:
    """What gradient descent says, at three step sizes; it accuses nobody alone."""
    paths = list(rounded)
    distances = []
    for fineness in FINENESS:
        path, end = asked.descent(fineness)
        paths.append(path)
        if end is None:
            why = "has not separated the data" if not asked.problem.square and path.margins.min() <= 0 else ""
            return Opinion(UNDECIDED, why or "has not settled", paths=tuple(paths))
        distances.append(asked.distance(end, asked.target))
    halved = distances[2] < 0.02 and distances[2] < 0.7 * distances[1] < 0.49 * distances[0]
    if distances[2] <= 10 * asked.near or (asked.problem.square and halved):
        return Opinion(AGREES, "descent leads there", distances[2], tuple(paths))
    return Opinion(UNDECIDED, "only descent has settled, and elsewhere", distances[2], tuple(paths))


def accusation(asked: _Question, paths: tuple[Path, ...], end: np.ndarray, distance: float) -> Opinion:
    """The flow ends elsewhere: is that so for wider kinks, finer steps, nudged starts, and for descent?"""
    say = partial(Opinion, distance=distance, paths=paths)
    reasons: dict[str, list[dict[str, float]]] = {
        "width of the kinks": [{"width": WIDER}],
        "tolerance of the solver": [{"rtol": 1e-10}],
        "last digits of the start": [{"nudge": 1e-7}, {"nudge": -1e-7}],
    }
    for why, changes in reasons.items():
        for change in changes:
            again = asked.end_of(asked.rounded(**({"width": WIDTHS[-1]} | change)))
            if again is None or asked.distance(again, end) > distance / 10:
                return say(UNDECIDED, f"the end depends on the {why}")
    runs = [asked.descent(fineness) for fineness in FINER]
    if any(found is None for _, found in runs):  # at zero, rounded kinks can hold a neuron that descent frees
        runs = [asked.descent(fineness, LONGER) for fineness in FINENESS[:2]]
    states = [asked.last(run) for run in runs]
    if any(asked.distance(state, end) > 3 * asked.distance(state, asked.target) for state in states):
        return say(UNDECIDED, "the two oracles differ")
    if any(found is None for _, found in runs):
        return say(CONTRADICTS, "the flow with rounded kinks ends elsewhere; descent takes too long to tell")
    if any(asked.distance(found, end) > distance / 3 for _, found in runs):
        return say(UNDECIDED, "the two oracles differ")
    return say(CONTRADICTS, "the flow with rounded kinks and descent end elsewhere")
