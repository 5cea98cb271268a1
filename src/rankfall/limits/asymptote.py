r"""Where a flow with fixed second layer goes if it stays in its cell, and a proof that it does stay.

In a cell (`cell.py`) the loss is convex in W, and the flow is that of its shortest subgradient. Its direction
converges to the solution $W_\infty = \sum_i \lambda_i h_i$ of the convex margin problem of the cell. More is
true:

1. In the region of $W_\infty$ margins are linear, with gradients $h_i$. The half-line $W_0 + T W_\infty$ on
   which they are $q_i = T - \log \pi_i$, $\pi = \lambda/\sum\lambda$, is itself a solution for the
   exponential loss (its pulls are $\pi$ for ever), up to what the samples that are not support vectors still
   pull, which is integrable.
2. The subgradient of a convex function is monotone, so that two solutions never move apart.

So the flow stays within its present distance D of an explicit half-line, whatever kinks it still meets, as
long as no friendly pair crosses its kink: and none does if no point that near to the half-line is outside of
the cell. This is a finite check. For the logistic loss the line is a solution up to $e^{-T}$, which is added
to D.
"""

from dataclasses import dataclass

import numpy as np

from rankfall.data import hard_margin_of_gram
from rankfall.dynamics.affine import AffineWalk
from rankfall.dynamics.regions import Region
from rankfall.dynamics.walk import Walk
from rankfall.limits.cell import CellLimit, solve_cell
from rankfall.limits.kkt import Point

_TIGHT = 1e-9  # a margin this close to 1 is 1
_NEWTON = 100


@dataclass(frozen=True)
class Asymptote:
    """The end of the flow if it stays in its cell."""

    point: Point
    region: Region
    stays: bool
    why: str  # what is missing, where it is not known to stay
    distance: float  # to the half-line, relative to the length of the weights
    line: "_HalfLine | None" = None


def leap(walk: AffineWalk, end: Asymptote) -> bool:
    """Take a walk along the half-line to which it tends, to twice its T, or to the next friendly kink.

    The flow is within D of the half-line, so that this is right up to D/T, which goes to zero. Friendly pairs
    that cross their kinks on the way are beyond them afterwards. False if there is no half-line.
    """
    line, region, point = end.line, end.region, end.point
    if line is None:
        return False
    z, speed = line.origin @ region.x.T, point.w @ region.x.T
    friendly = walk.second[:, None] * walk.pull.y > 0
    turns = friendly & (region.side * speed < -1e-12 * walk.lengths * np.linalg.norm(point.w, axis=1).max())
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(turns, -z / speed, np.inf)
    first = float(times.min())
    then = max(2 * line.nearest, first * (1 + 1e-9) if np.isfinite(first) else 0.0)
    beyond = times <= then
    if region.lines is not None:  # inputs on one line cross together
        beyond = beyond @ (region.lines != 0)
    region.side[beyond] *= -1
    region.slopes[beyond] = np.where(region.side[beyond] > 0, 1.0, region.slope)
    walk.jump(line.origin + then * point.w, region)
    total = float(point.multipliers.sum())
    walk.clock += (then - line.nearest) * total
    walk.log_time = float(np.log(total) - walk.log_loss(walk.outputs))
    walk.steps += 1
    return True


def asymptote(walk: Walk, kinks: np.ndarray | None = None) -> Asymptote | None:
    """The asymptote of a walk with fixed second layer; None if its cell has no margin.

    `kinks` (m, n) guesses which pairs are held in the end, where the walk itself does not know.
    """
    cell = solve_cell(walk.region, walk.weights.a, walk.pull.y, walk.present_pulls(), kinks)
    ends = (_end(walk, found) for found in (cell, _of_region(walk)) if found is not None)
    first = next(ends, None)
    return first if first is None or first.stays else next((end for end in ends if end.stays), first)


def _end(walk: Walk, found: CellLimit) -> Asymptote:
    y, a, region = walk.pull.y, walk.weights.a, found.region
    kernel = y[:, None] * region.kernel(a) * y
    tight = found.margins < 1 + _TIGHT
    share = _share(kernel, tight, found.multipliers, y * walk.outputs)
    if share is None:
        point = _point(found, found.multipliers, a, y)
        return Asymptote(point, region, False, "a support vector has the multiplier zero", np.inf)
    point = _point(found, share * found.multipliers.sum(), a, y)
    line = _half_line(walk, region, kernel, point, found.margins, tight)
    why = "" if region.slope == 1 else _leaves(walk, region, point, line)
    size = float(np.linalg.norm(walk.weights.w))
    return Asymptote(point, region, not why, why, line.distance / size, line)


def _of_region(walk: Walk) -> CellLimit | None:
    """The solution in the present region, kinks held: that of the cell, if it is in this region."""
    y = walk.pull.y
    solution = hard_margin_of_gram(y[:, None] * walk.region.kernel(walk.weights.a) * y)
    return None if solution is None else CellLimit(walk.region, solution.multipliers, solution.margins)


def _point(found: CellLimit, multipliers: np.ndarray, a: np.ndarray, y: np.ndarray) -> Point:
    """The solution of the cell as a KKT point."""
    region = found.region
    pulls = region.pulls(y * multipliers)
    slopes = region.slopes.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes[region.held] = (pulls / (y * multipliers))[region.held]
    return Point(a[:, None] * (pulls @ region.x), a, multipliers, slopes)


def _share(
    kernel: np.ndarray, tight: np.ndarray, multipliers: np.ndarray, q: np.ndarray
) -> np.ndarray | None:
    r"""The shares $\pi$ of the multipliers to which the flow leads; None if some tight sample has none.

    They are unique if the features of the tight samples are independent. Else of all $\pi$ with $K\pi$
    constant the flow takes the one for which $-\log\pi - q$ is in the range of K: the minimum of a convex
    function.
    """
    share = multipliers / multipliers.sum()
    k = kernel[np.ix_(tight, tight)]
    values, vectors = np.linalg.eigh(k)
    kept = values > 1e-11 * values[-1]
    if kept.all():
        return share if (share[tight] > 1e-12).all() else None
    basis = vectors[:, kept] * np.sqrt(values[kept])  # K = basis basis^T
    drift = basis.T @ share[tight]
    rho = np.zeros(basis.shape[1])

    def weights(rho: np.ndarray) -> tuple[np.ndarray, float]:
        logs = -(q[tight] + basis @ rho)
        top = logs.max()
        total = np.exp(logs - top).sum()
        return np.exp(logs - top) / total, top + np.log(total) + drift @ rho

    pi, value = weights(rho)
    for _ in range(_NEWTON):
        gradient = drift - basis.T @ pi
        if np.abs(gradient).max() <= 1e-14 * np.abs(basis).max():
            break
        centred = basis - pi @ basis
        hessian = centred.T @ (pi[:, None] * centred)
        step = -np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        size = 1.0
        while size > 1e-10:
            trial, lower = weights(rho + size * step)
            if lower <= value + 1e-4 * size * (gradient @ step) + 1e-15 * abs(value):
                break
            size /= 2
        rho, pi, value = rho + size * step, trial, lower
    if pi.min() < 1e-12:
        return None
    share = np.zeros_like(share)
    share[tight] = pi
    return share


@dataclass(frozen=True)
class _HalfLine:
    """`origin` + T W_infinity for T >= `start`, and how near to it the flow stays."""

    origin: np.ndarray
    nearest: float  # the T next to the present state
    start: float
    distance: float


def _half_line(
    walk: Walk, region: Region, kernel: np.ndarray, point: Point, margins: np.ndarray, tight: np.ndarray
) -> _HalfLine:
    """The half-line to which the flow tends, nearest to its present state."""
    y, a, now = walk.pull.y, walk.weights.a, walk.weights.w
    total = point.multipliers.sum()
    share = point.multipliers / total
    origin = _onto_kinks(region, now)
    q = y * (a @ (region.slopes * (origin @ region.x.T)))
    gap = np.zeros(len(q))
    wanted = -np.log(share[tight]) - q[tight]
    gap[tight] = np.linalg.lstsq(kernel[np.ix_(tight, tight)], wanted, rcond=1e-12)[0]
    origin = origin + a[:, None] * (region.pulls(y * gap) @ region.x)
    nearest = float(((now - origin) * point.w).sum() / (point.w**2).sum())
    start = max(nearest, _first_inside(region, origin, point.w))
    if not np.isfinite(start):
        return _HalfLine(origin, nearest, start, np.inf)
    distance = float(np.linalg.norm(now - origin - start * point.w))
    # What the line lacks to be a solution: samples that are not support vectors pull too, but less and less,
    reach, slack = np.sqrt(np.diag(kernel)), ~tight
    line = q[slack] + kernel[slack] @ (gap + start * point.multipliers)
    others = np.exp(np.minimum(start - line, 700.0))
    distance += float(reach[slack] @ (others * total / (margins[slack] - 1)))
    if walk.pull.loss.name == "logistic":  # and 1/(1 + e^q) is e^-q only up to e^-2q.
        distance += float(reach @ share**2) * total * float(np.exp(min(-start, 700.0)))
    return _HalfLine(origin, nearest, start, distance)


def _onto_kinks(region: Region, w: np.ndarray) -> np.ndarray:
    """The nearest weights at which all pairs held are at their kinks."""
    w = w.copy()
    for neuron in np.flatnonzero(region.held.any(axis=1)):
        rows = region.x[region.held[neuron]]
        w[neuron] -= rows.T @ np.linalg.solve(rows @ rows.T, rows @ w[neuron])
    return w


def _first_inside(region: Region, origin: np.ndarray, direction: np.ndarray) -> float:
    """The T from which on origin + T direction is in the region; infinity if it never is for good."""
    side = region.side.astype(float)
    first, speed = side * (origin @ region.x.T), side * (direction @ region.x.T)
    still = np.abs(speed) <= 1e-13 * np.abs(direction).max() * np.abs(region.x).max()
    if ((speed < 0) & ~still).any() or ((first < -1e-12 * np.abs(first).max()) & still).any():
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(still, -np.inf, -first / speed)
    return float(times[side != 0].max(initial=-np.inf))


def _leaves(walk: Walk, region: Region, point: Point, line: _HalfLine) -> str:
    """Which friendly pairs may cross their kinks on the way; nothing if the flow stays in its cell."""
    lengths, a = walk.lengths, walk.weights.a
    side, friendly = region.side.astype(float), a[:, None] * walk.pull.y > 0
    moves = (walk.region.slopes != 0).any(axis=1) | (region.slopes != 0).any(axis=1)
    watched = friendly & moves[:, None] & (lengths > 0)
    speed = side * (point.w @ region.x.T)
    held = point.slopes[region.held]
    if not ((held >= region.slope) & (held <= 1)).all():
        return "a kink has a slope outside of its bounds"
    leaving = watched & (speed < -1e-12 * lengths * np.linalg.norm(point.w, axis=1).max())
    if leaving.any():
        return f"{int(leaving.sum())} pairs cross their kinks on the way to the limit of this cell"
    if not np.isfinite(line.distance):
        return "some pair is at its kink in the limit, but not held there"
    first = side * ((line.origin + line.start * point.w) @ region.x.T)
    near = int((watched & (first <= lengths * line.distance)).sum())
    return f"{near} pairs are near enough to their kinks that they may cross them" if near else ""
