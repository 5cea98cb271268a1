r"""The limit inside a cell: one convex program, however many kinks it has.

With fixed second layer, call a pair of neuron and sample *friendly* if $a_j y_i > 0$. The other pairs lower
the margin $q_i = \sum_j a_j y_i \sigma(w_j \cdot x_i)$, and $-|a_j| \sigma$ is concave. So where the sides of
the friendly pairs are fixed, in a cell, all margins are concave in W, the loss is convex, and the problem

    \min |W|^2/2   with   q_i(W) \ge 1

is convex, with one solution. Its multipliers and slopes minimise
$\sum_j a_j^2 |\sum_i \lambda_i y_i P_{ji} x_i|^2/2 - \sum_i \lambda_i$ over $\lambda \ge 0$ and, for the
unfriendly pairs, $P_{ji} \in [\alpha, 1]$. For given multipliers the slopes are a small problem for every
neuron; for given kinks the multipliers are a hard-margin problem. The two take turns until the kinks stay the
same.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from rankfall.data import HardMargin, hard_margin_of_gram, hard_margin_of_rows
from rankfall.dynamics.exact import Region
from rankfall.limits._interior import interior

_TURNS = 40
_PIVOTS = 400
_BLOCKS = 4  # exchanges of whole blocks that may fail to help, before one pair at a time is exchanged
LARGE = 3_000_000  # numbers in the features of a region, up to which they are formed
LARGE_CELL = 4_000  # pairs beyond which the interior-point method has the last word
_AGREE = 1e-3  # of the largest: multipliers of the interior-point method, and those of its region
_FAINT = 1e-12  # the least share of a multiplier for which slopes are chosen


@dataclass(frozen=True)
class CellLimit:
    """The solution in a cell: its region, with kinks held, the multipliers and the margins."""

    region: Region
    multipliers: np.ndarray
    margins: np.ndarray


def solve_cell(
    region: Region,
    a: np.ndarray,
    y: np.ndarray,
    pulls: np.ndarray,
    w: np.ndarray,
    kinks: np.ndarray | None = None,
) -> CellLimit | None:
    """The solution in the cell of a region, from weights w with pulls of the samples; None if there is none.

    `kinks` (m, n) is a guess which pairs are held; by default those of the region.
    """
    friendly = a[:, None] * y > 0
    if region.lines is not None:  # inputs on one line have one kink: fixed for one of them, it is for all
        friendly = friendly @ (region.lines != 0)
    elif kinks is None and len(y) > region.x.shape[1]:  # by turns is slow where inputs are dependent
        found = _from_inside(region, a, y, friendly, w)
        if found is not None or friendly.size > LARGE_CELL:
            return found
    return _by_turns(region, a, y, pulls, friendly, kinks)


def _from_inside(
    region: Region, a: np.ndarray, y: np.ndarray, friendly: np.ndarray, w: np.ndarray
) -> CellLimit | None:
    """The solution with the kinks that the interior-point method finds."""
    inner = interior(region.x, a, region.slope, region.side, friendly, w)
    if inner is None:
        return None
    found = region.copy()
    side = np.where(inner.held, 0, np.where(inner.slopes == 1, 1, -1))
    for neuron in np.flatnonzero((side != region.side).any(axis=1) & (a != 0)):
        samples = np.flatnonzero(~friendly[neuron] & (region.lengths > 0))
        slopes = np.where(region.side[neuron] > 0, 1.0, region.slope)
        slopes[samples] = inner.slopes[neuron, samples]
        found.place(int(neuron), samples, slopes)
    solution = solve_region(found, a, y)
    if solution is None or not np.allclose(
        solution.multipliers, inner.multipliers, rtol=0, atol=_AGREE * inner.multipliers.max()
    ):
        return None
    return CellLimit(found, solution.multipliers, solution.margins)


def _by_turns(
    region: Region,
    a: np.ndarray,
    y: np.ndarray,
    pulls: np.ndarray,
    friendly: np.ndarray,
    kinks: np.ndarray | None,
) -> CellLimit | None:
    """The solution by choosing slopes and multipliers in turn."""
    guess = region.held if kinks is None else kinks
    found = region.copy()
    multipliers = np.abs(pulls) / np.abs(pulls).sum()
    seen: set[bytes] = set()
    for _ in range(_TURNS):
        changed = 0
        for neuron in np.flatnonzero(a):
            changed += _choose_slopes(found, int(neuron), friendly[neuron], guess[neuron], y * multipliers)
        guess = found.held
        solution = solve_region(found, a, y)
        if solution is None:
            return None
        floored = np.maximum(solution.multipliers, _FAINT * solution.multipliers.max())
        if not changed and np.allclose(floored, multipliers, rtol=1e-9, atol=0):
            return CellLimit(found, solution.multipliers, solution.margins)
        multipliers = floored
        now = found.side.tobytes() + found.held.tobytes() + np.round(np.log(floored), 6).tobytes()
        if now in seen:  # it goes round in circles
            return None
        seen.add(now)
    return None


def solve_region(region: Region, a: np.ndarray, y: np.ndarray) -> HardMargin | None:
    """The hard-margin solution of a region, with the kinks held; None if there is none that rounding shows.

    From the features themselves, where they fit: a kernel knows only the squares of lengths.
    """
    try:
        if len(y) * region.x.shape[1] * region.patterns <= LARGE:
            return hard_margin_of_rows(y[:, None] * region.features(a))
        return hard_margin_of_gram(y[:, None] * region.kernel(a) * y)
    except ValueError:  # rounding decides which samples support the margin
        return None


def _choose_slopes(
    region: Region, neuron: int, friendly: np.ndarray, guess: np.ndarray, r: np.ndarray
) -> int:
    """Give a neuron the slopes on unfriendly samples that make its pull shortest; how many have changed."""
    before, held = region.side[neuron].copy(), region.held[neuron].copy()
    samples = np.flatnonzero(~friendly & (np.diag(region.gram) > 0))
    slopes = np.where(before > 0, 1.0, region.slope)
    if not len(samples):
        return 0
    rest = slopes * r
    rest[samples] = 0.0
    pull = r[samples]
    start = np.where(guess[samples], 0, np.where(pull > 0, 1, -1) * np.where(slopes[samples] == 1, 1, -1))
    low, high = np.minimum(region.slope * pull, pull), np.maximum(region.slope * pull, pull)
    gram = region.gram[np.ix_(samples, samples)]
    others = region.gram[samples] @ rest
    with np.errstate(divide="ignore", invalid="ignore"):
        if len(samples) <= region.x.shape[1]:
            u, state = shortest(gram, others, low, high, start)
        else:
            u, state = shortest_of_dependent(gram, others, low, high)
    if (state == start).all() and (guess == held).all():
        return 0
    inside = state == 0
    at_top = np.where(pull > 0, state > 0, state < 0)
    at_end = np.where(at_top, 1.0, region.slope)
    slopes[samples] = np.where(inside, np.clip(u / np.where(pull == 0, 1.0, pull), region.slope, 1.0), at_end)
    region.place(neuron, samples, slopes)
    return int((region.side[neuron] != before).sum() + (region.held[neuron] != held).sum())


def shortest(
    gram: np.ndarray, c: np.ndarray, low: np.ndarray, high: np.ndarray, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The u in the box [low, high] with the least u^T gram u / 2 + c^T u, by block principal pivoting.

    `state` (-1 at low, 0 inside, 1 at high) is where to start, and returned with the solution (Portugal,
    Judice and Vicente 1994).
    """
    fewest, blocks = len(c) + 1, _BLOCKS
    least = 1e-13 * np.abs(gram).max() * np.maximum(np.abs(low), np.abs(high)).sum()
    for _ in range(_PIVOTS):
        inside = np.flatnonzero(state == 0)
        u = np.where(state < 0, low, high)
        u[inside] = 0.0
        if len(inside):
            try:
                u[inside] = np.linalg.solve(gram[np.ix_(inside, inside)], -(c[inside] + gram[inside] @ u))
            except np.linalg.LinAlgError:
                break
        slope = gram @ u + c
        wrong = np.where(state < 0, slope < -least, slope > least)
        wrong[inside] = (u < low)[inside] | (u > high)[inside]
        flip = np.flatnonzero(wrong)
        if not len(flip):
            return u, state
        if len(flip) < fewest:
            fewest, blocks = len(flip), _BLOCKS
        elif blocks:
            blocks -= 1
        else:
            flip = flip[-1:]
        state = state.copy()
        state[flip] = np.where(state[flip] != 0, 0, np.where(u[flip] < low[flip], -1, 1))
    return shortest_of_dependent(gram, c, low, high)


def shortest_of_dependent(
    gram: np.ndarray, c: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same where inputs are dependent, by a root of the Gram matrix."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values[-1]
    root = (vectors[:, kept] * np.sqrt(values[kept])).T
    target = -(vectors[:, kept].T @ c) / np.sqrt(values[kept])
    u = lsq_linear(root, target, bounds=(low, np.maximum(high, np.nextafter(low, np.inf))), method="bvls").x
    width = high - low
    return u, np.where(u <= low + 1e-12 * width, -1, np.where(u >= high - 1e-12 * width, 1, 0))
