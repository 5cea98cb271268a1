r"""Where a flow with fixed second layer would go if it stayed in its region, and a proof that it does stay.

In a region with its kinks held, f is linear in the features $h_i = y_i \nabla f(x_i)$, so the flow is that of
a convex loss, and its direction converges to the hard-margin solution $W_\infty = \sum_i \lambda_i h_i$
there. More is true:

1. The line $W(T) = W_\infty T + W_0$ on which the margins are $q_i = T - \log \pi_i$, $\pi =
   \lambda/\sum\lambda$, is itself a solution for the exponential loss (its pulls are $\pi$ for ever), up to
   what the samples that are not support vectors still pull, which is integrable.
2. The gradient of a convex function is monotone, so that two solutions never move apart: |W - W(T)| never
   grows.

So the flow stays within the distance D of an explicit half-line, D measured now. It stays in its region if no
point that near to the half-line is outside. This is a finite check. For the logistic loss the line is a
solution up to $e^{-T}$, which is added to D.
"""

from dataclasses import dataclass

import numpy as np

from rankfall.data import hard_margin_of_gram
from rankfall.dynamics.walk import Walk
from rankfall.limits.kkt import Point

_TIGHT = 1e-9  # a margin this close to 1 is 1
_NEWTON = 100


@dataclass(frozen=True)
class Asymptote:
    """The end of the flow if it stays in its region."""

    point: Point
    margins: np.ndarray  # of the region's linear problem
    stays: bool
    why: str  # what is missing, where it is not known to stay
    distance: float  # to the half-line, relative to the length of the weights


def asymptote(walk: Walk) -> Asymptote | None:
    """The asymptote of a walk with fixed second layer; None if its region has no margin."""
    region, y = walk.region, walk.pull.y
    kernel = y[:, None] * region.kernel(walk.weights.a) * y
    solution = hard_margin_of_gram(kernel)
    if solution is None:
        return None
    tight = solution.margins < 1 + _TIGHT
    share = _share(kernel, tight, solution.multipliers, y * walk.outputs)
    if share is None:
        point = _point(walk, solution.multipliers)
        return Asymptote(point, solution.margins, False, "a support vector has the multiplier zero", np.inf)
    multipliers = share * solution.norm2
    point = _point(walk, multipliers)
    stays, why, distance = _stays(walk, kernel, point, solution.margins, tight)
    return Asymptote(point, solution.margins, stays, why, distance)


def _point(walk: Walk, multipliers: np.ndarray) -> Point:
    """The hard-margin solution of the region."""
    region, y = walk.region, walk.pull.y
    pulls = region.pulls(y * multipliers)
    slopes = region.slopes.copy()
    held = region.held
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes[held] = (pulls / (y * multipliers))[held]
    return Point(walk.weights.a[:, None] * (pulls @ region.x), walk.weights.a, multipliers, slopes)


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
    """W + `offset` + T W_infinity for T >= `start`, and how near the flow stays to it."""

    offset: np.ndarray
    start: float
    distance: float
    change: np.ndarray  # (n): how far margins may be from the line's
    others: (
        np.ndarray
    )  # (n): what samples that are not support vectors pull at the most, relative to the others


def _half_line(
    walk: Walk, kernel: np.ndarray, point: Point, margins: np.ndarray, tight: np.ndarray
) -> _HalfLine:
    """The half-line to which the flow tends if it stays in its region."""
    region, y, a = walk.region, walk.pull.y, walk.weights.a
    q, total = y * walk.outputs, point.multipliers.sum()
    share = point.multipliers / total
    gap = np.zeros(len(q))
    wanted = -np.log(share[tight]) - q[tight]
    gap[tight] = np.linalg.lstsq(kernel[np.ix_(tight, tight)], wanted, rcond=1e-12)[0]
    offset = a[:, None] * (region.pulls(y * gap) @ region.x)
    start = float(-gap.sum() / total)  # where the line is nearest to W
    distance = float(np.linalg.norm(offset + start * point.w))
    # What the line lacks to be a solution: samples that are not support vectors pull too, but less and less,
    reach, others = np.sqrt(np.diag(kernel)), np.zeros(len(q))
    slack = ~tight
    line = q[slack] + kernel[slack] @ (gap + start * point.multipliers)
    others[slack] = np.exp(np.minimum(start - line, 700.0))
    distance += float(reach[slack] @ (others[slack] * total / (margins[slack] - 1)))
    bent = 0.0
    if walk.pull.loss.name == "logistic":  # and 1/(1 + e^q) is e^-q only up to e^-2q.
        bent = float(np.exp(min(-start, 700.0)))
        distance += float(reach @ share**2) * total * bent
    return _HalfLine(offset, start, distance, reach * distance + share * bent, others)


def _stays(
    walk: Walk, kernel: np.ndarray, point: Point, margins: np.ndarray, tight: np.ndarray
) -> tuple[bool, str, float]:
    """Is no point within the distance D of the half-line outside of the region?"""
    line = _half_line(walk, kernel, point, margins, tight)
    wrong = ""
    if walk.region.slope < 1:  # else there are no kinks
        wrong = _leaves(walk, point, line) or _releases(walk, point, line)
    return not wrong, wrong, line.distance / float(np.linalg.norm(walk.weights.w))


def _leaves(walk: Walk, point: Point, line: _HalfLine) -> str:
    """What may cross its kink on the way; nothing if the flow stays."""
    region, lengths = walk.region, walk.lengths
    moves = (region.slopes != 0).any(axis=1) & (walk.weights.a != 0)
    side = region.side.astype(float)
    speed = side * (point.w @ region.x.T)
    first = side * ((walk.weights.w + line.offset + line.start * point.w) @ region.x.T)
    leaving = speed < -1e-12 * lengths * np.linalg.norm(point.w, axis=1).max()
    if leaving.any():
        return f"{int(leaving.sum())} pairs cross their kinks on the way to this region's limit"
    near = (first <= lengths * line.distance) & moves[:, None] & (side != 0) & (lengths > 0)
    if near.any():
        return f"{int(near.sum())} pairs are so near to their kinks that they may still cross them"
    return ""


def _releases(walk: Walk, point: Point, line: _HalfLine) -> str:
    """What may be released from its kink on the way; nothing if the flow stays."""
    region, share = walk.region, point.multipliers / point.multipliers.sum()
    neurons, samples = np.nonzero(region.held)
    if not len(neurons):
        return ""
    slopes = point.slopes[neurons, samples]
    if not np.isfinite(slopes).all():
        return "a kink is held whose sample is no support vector"
    # Margins that differ by d mean pulls that differ by the factor e^d.
    factor = np.exp(np.minimum(line.change.max() + line.change[samples], 50.0))
    support, others = (region.amplification(part)[neurons, samples] for part in (share, line.others))
    spread = (support * (factor - 1) + others * factor) / share[samples]
    loose = (slopes - spread < region.slope) | (slopes + spread > 1)
    return f"{int(loose.sum())} kinks may still be released" if loose.any() else ""
