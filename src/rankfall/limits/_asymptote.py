r"""Where a flow with fixed second layer goes if it stays in its cell, and the half-line that shows it.

In a cell (`cell.py`) the loss is convex in W. Its flow tends in direction to the solution
$U = \sum_i \lambda_i h_i$ of the convex margin problem of the cell. Take any half-line $V(T) = B + T U$ on
which the samples' pulls add up to a multiple of U: it is a solution, and two solutions of a convex flow never
move apart. So a flow that is within R of B stays within R of the half-line, and in the cell, if no point that
near to the half-line is outside of it. docs/theory/ends.md has the theorem with all its terms; here it is
evaluated in floating point, as a proposal. The certificate proves it in exact arithmetic, or refuses it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from rankfall.dynamics.exact import Region, Walk
from rankfall.limits._cell import LARGE, CellLimit, solve_cell, solve_region
from rankfall.limits._kkt import Point

_TIGHT = 1e-9  # a margin this close to 1 is 1
_NEWTON = 100
_DEPENDENT = 1e-11  # singular values of the features below this share of the largest are zero
_SPEED = 1e-12  # relative to weights and inputs: a pre-activation that moves no faster does not move


@dataclass(frozen=True)
class Line:
    """The half-line `start` + T U, T >= 0: every flow within `reach` of its start ends along U."""

    start: np.ndarray  # (m, k)
    slopes: np.ndarray  # (m, n) of the h_i
    distance: float  # of the present state to the start
    reach: float


@dataclass(frozen=True)
class Asymptote:
    """The end of the flow if it stays in its cell; `why` it may not, or nothing."""

    point: Point
    region: Region
    why: str
    line: Line | None = None
    origin: np.ndarray | None = None  # of the line along which the flow goes while it is in its cell

    @property
    def stays(self) -> bool:
        """Does the flow stay, as far as floating point can tell?"""
        return not self.why


def asymptote(walk: Walk, kinks: np.ndarray | None = None) -> Asymptote | None:
    """The asymptote of a walk with fixed second layer; None if its cell has no margin.

    `kinks` (m, n) guesses which pairs are held in the end, where the walk itself does not know.
    """
    weights = walk.weights
    cell = solve_cell(walk.region, weights.a, walk.pull.y, walk.present_pulls(), weights.w, kinks)
    ends = (_end(walk, found) for found in (cell, _of_region(walk)) if found is not None)
    first = next(ends, None)
    return first if first is None or first.stays else next((end for end in ends if end.stays), first)


def _of_region(walk: Walk) -> CellLimit | None:
    """The solution in the present region, kinks held: that of the cell, if it is in this region."""
    solution = solve_region(walk.region, walk.weights.a, walk.pull.y)
    return None if solution is None else CellLimit(walk.region, solution.multipliers, solution.margins)


def _end(walk: Walk, found: CellLimit) -> Asymptote:
    y, a, region = walk.pull.y, walk.weights.a, found.region
    tight, total = found.margins < 1 + _TIGHT, float(found.multipliers.sum())
    point = point_of(region, found.multipliers, a, y)
    held = point.slopes[region.held]
    if not ((held >= region.slope - _TIGHT) & (held <= 1 + _TIGHT)).all():
        return Asymptote(point, region, "a kink has a slope outside of its bounds")
    origin = _onto_kinks(region, walk.weights.w)
    q = y * (a @ (region.slopes * (origin @ region.x.T))) - np.log(walk.pull.often)
    offset = _offset(_basis(region, a, y, tight), found.multipliers[tight] / total, q[tight])
    if offset is None:
        return Asymptote(point, region, "a support vector has the multiplier zero")
    share, gap = np.zeros(len(y)), np.zeros(len(y))
    share[tight], gap[tight] = offset
    origin = origin + a[:, None] * (region.pulls(y * gap) @ region.x)
    point = point_of(region, share * total, a, y)  # the same weights, by the multipliers that the flow takes
    if region.slope == 1:  # there are no kinks, and so one cell
        return Asymptote(point, region, "")
    line, why = _line(walk, region, point, found.margins, tight, origin)
    return Asymptote(point, region, why, line, origin)


def point_of(region: Region, multipliers: np.ndarray, a: np.ndarray, y: np.ndarray) -> Point:
    """The weights that multipliers give in a region, with the slopes at its kinks."""
    r = y * multipliers
    pulls = region.pulls(r)
    slopes = region.slopes.copy()
    together, rho, _ = region.by_line(pulls, r)
    for j, s in zip(*np.nonzero(region.held), strict=True):
        p = float(together[j, s] / rho[s]) if rho[s] else region.slope
        for mate, sign in region.mates(int(s)):  # inputs on one line share one slope, or opposite ones
            slopes[j, mate] = p if sign > 0 else 1 + region.slope - p
    return Point(a[:, None] * (pulls @ region.x), a, multipliers, slopes)


def _basis(region: Region, a: np.ndarray, y: np.ndarray, tight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal columns (t, r) and singular values (r) of the features of the tight samples."""
    if len(y) * region.x.shape[1] * region.patterns <= LARGE:
        rows = (y[:, None] * region.features(a))[tight]
        u, s, _ = np.linalg.svd(np.asarray(np.linalg.qr(rows.T, mode="r")).T, full_matrices=False)
    else:
        values, u = np.linalg.eigh((y[:, None] * region.kernel(a) * y)[np.ix_(tight, tight)])
        s, u = np.sqrt(np.maximum(values[::-1], 0.0)), u[:, ::-1]
    kept = s > _DEPENDENT * s[0]
    return u[:, kept], s[kept]


def shares_on_line(rows: np.ndarray, share: np.ndarray, q: np.ndarray) -> np.ndarray | None:
    """The combination of rows that takes margins q to those on the line to which the flow tends, or None."""
    u, size, _ = np.linalg.svd(rows, full_matrices=False)
    kept = size > _DEPENDENT * size[0]
    found = _offset((u[:, kept], size[kept]), share, q)
    return None if found is None else found[1]


def _offset(
    basis: tuple[np.ndarray, np.ndarray], share: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""Shares $\pi$ of the pulls with $\sum_i \pi_i h_i$ as the `share` gives it, and the combination of the
    $h_i$ that takes the margins q to $T - \log\pi$; None if some sample has no share. A sample that occurs k
    times counts as one whose margin is less by log k.

    The flow takes these shares: they minimise $\log\sum_i e^{-q_i - \langle h_i, v\rangle}$, plus what is
    linear in v, over the combinations v of the $h_i$. If the $h_i$ are independent they are the `share`.
    """
    u, s = basis
    b = u * s
    if len(s) == len(q) and share.min() >= 1e-14:  # of independent h_i the shares are known
        levels = -np.log(share) - q
        return share, u @ (u.T @ (levels - levels.mean()) / s**2)
    drift, rho = b.T @ share, np.zeros(len(s))

    def shares(rho: np.ndarray) -> tuple[np.ndarray, float]:
        logs = -(q + b @ rho)
        top = logs.max()
        total = np.exp(logs - top).sum()
        return np.exp(logs - top) / total, float(top + np.log(total) + drift @ rho)

    pi, value = shares(rho)
    for _ in range(_NEWTON):
        gradient = drift - b.T @ pi
        if np.abs(gradient).max() <= 1e-15 * np.abs(b).max():
            break
        centred = b - pi @ b
        step = -np.linalg.lstsq(centred.T @ (pi[:, None] * centred), gradient, rcond=1e-14)[0]
        if not np.abs(step).max() < 1e300 / np.abs(b).sum():  # all pulls but one have vanished
            break
        size = 1.0
        while size > 1e-10:
            trial, lower = shares(rho + size * step)
            if lower <= value + 1e-4 * size * (gradient @ step) + 1e-15 * abs(value):
                break
            size /= 2
        else:
            break
        rho, pi, value = rho + size * step, trial, lower
    return None if pi.min() < 1e-14 else (pi, u @ (rho / s))


def _line(
    walk: Walk, region: Region, point: Point, margins: np.ndarray, tight: np.ndarray, origin: np.ndarray
) -> tuple[Line | None, str]:
    """The half-line from its first point in the region of the limit that is not behind the present state."""
    a, y, x, now = walk.weights.a, walk.pull.y, region.x, walk.weights.w
    friendly = (a[:, None] * y > 0) & (region.lengths > 0)
    leaving = (region.slope == 0) & (a != 0) & ~(friendly & (region.side > 0)).any(axis=1)
    direction = point.w.copy()
    for neuron in np.flatnonzero(leaving):
        direction[neuron] = 0.0
        origin[neuron] = _below(x[a[neuron] * y < 0], now[neuron])
    nearest = float(((now - origin) * direction).sum() / (direction**2).sum())
    start = max(nearest, _first_inside(region, origin, direction, ~leaving & (a != 0)))
    if not np.isfinite(start):
        turns = _leaving_pairs(region, direction, friendly & ~leaving[:, None])
        if turns:
            return None, f"{turns} pairs cross their kinks on the way to the limit of this cell"
        return None, "some pair is at its kink in the limit, but not held there"
    begin = origin + start * direction
    side = region.side.astype(float)
    lengths = np.where(region.lengths > 0, region.lengths, 1.0)
    first, speed = side * (begin @ x.T) / lengths, side * (direction @ x.T) / lengths
    moving = speed > _SPEED * np.linalg.norm(direction, axis=1).max()
    watched = friendly & (a != 0)[:, None]
    alone = watched & ~moving & ~leaving[:, None]
    if alone.any():
        alone &= ~_pushed_away(region, friendly)
        if alone.any():
            return None, f"{int(alone.sum())} pairs do not move away from their kinks in the limit"
    extra = _others(walk, point, margins, tight, begin)
    room = np.where(watched, first - np.where(moving & ~leaving[:, None], extra, 0.0), np.inf)
    distance, reach = float(np.linalg.norm(now - begin)), float(room.min(initial=np.inf))
    line = Line(begin, point.slopes, distance, reach)
    near = int((room <= distance).sum())
    return line, f"{near} pairs are near enough to their kinks that they may cross them" if near else ""


def _others(walk: Walk, point: Point, margins: np.ndarray, tight: np.ndarray, begin: np.ndarray) -> float:
    """What the half-line lacks to be a solution: samples that are no support vectors pull too, less and less,
    and the pulls of the logistic loss are exponential only in the end.
    """
    y, a, share = walk.pull.y, walk.weights.a, point.multipliers / point.multipliers.sum()
    total = float(point.multipliers.sum())
    c = y * (a @ (point.slopes * (begin @ walk.region.x.T))) - np.log(walk.pull.often)
    reach = np.linalg.norm(a) * walk.region.lengths
    level = float((c[tight] + np.log(share[tight])).mean())
    pulls = np.exp(np.minimum(level - c, 700.0))
    with np.errstate(over="ignore", invalid="ignore"):  # that is too much in any case
        extra = float((reach * pulls * total)[~tight] @ (1 / (margins[~tight] - 1)))
        if walk.pull.loss.name == "logistic":
            extra += float(total * (reach * pulls) @ np.exp(np.minimum(-c - np.log(walk.pull.often), 700.0)))
    return np.inf if np.isnan(extra) else extra


def _onto_kinks(region: Region, w: np.ndarray) -> np.ndarray:
    """The nearest weights at which all pairs held are at their kinks."""
    w = w.copy()
    for neuron in np.flatnonzero(region.held.any(axis=1)):
        basis = np.linalg.qr(region.x[region.held[neuron]].T)[0]
        w[neuron] -= basis @ (basis.T @ w[neuron])
    return w


def _below(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The nearest weights to w below the kinks of all these inputs, or a little further."""
    lengths = np.linalg.norm(x, axis=1)
    unit = x[lengths > 0] / lengths[lengths > 0, None]
    if not len(unit) or (unit @ w < 0).all():
        return w
    least, below = 1e-12 * float(np.linalg.norm(w)), w
    if (unit @ w).max() > least:
        # w - sum_k c_k x_k with c >= 0 is nearest: the multipliers c of the projection onto the cone
        system = np.vstack([unit.T, np.full(len(unit), 1e-9)])
        c, _ = nnls(system, np.append(w, 0.0), maxiter=100 * len(unit) + 100)
        below = w - c @ unit
    for _ in range(len(unit)):  # a little further, against rounding
        z = unit @ below
        near = z > -least
        if (z <= -least / 2).all():
            break
        below = below + np.linalg.lstsq(unit[near], -2 * least - z[near], rcond=1e-10)[0]
    return np.asarray(below)


def _first_inside(region: Region, origin: np.ndarray, direction: np.ndarray, rows: np.ndarray) -> float:
    """The T from which on origin + T direction is in the region; infinity if it never is for good."""
    side = region.side.astype(float) * rows[:, None]
    first, speed = side * (origin @ region.x.T), side * (direction @ region.x.T)
    scale = region.lengths * np.linalg.norm(direction, axis=1).max()
    still = np.abs(speed) <= _SPEED * scale
    if ((speed < 0) & ~still).any() or ((first < -1e-12 * np.abs(first).max()) & still).any():
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(still, -np.inf, -first / speed)
    return float(times[side != 0].max(initial=-np.inf))


def _leaving_pairs(region: Region, direction: np.ndarray, watched: np.ndarray) -> int:
    """How many friendly pairs are on the other side of their kinks in the limit."""
    scale = region.lengths * np.linalg.norm(direction, axis=1).max()
    return int((watched & (region.side * (direction @ region.x.T) < -_SPEED * scale)).sum())


def _pushed_away(region: Region, friendly: np.ndarray) -> np.ndarray:
    """The pairs (m, n) that every sample moves away from their kinks, whatever the pulls."""
    lengths = region.lengths
    gram = np.where(np.abs(region.gram) > 1e-14 * np.outer(lengths, lengths), region.gram, 0.0)
    pulls = friendly & ((region.side > 0) | (region.slope > 0))
    hostile = ~friendly & (lengths > 0)
    up, down = (gram > 0).astype(float), (gram < 0).astype(float)
    against_up, against_down = pulls @ down + hostile @ up, pulls @ up + hostile @ down
    return np.where(region.side > 0, against_up, against_down) == 0
