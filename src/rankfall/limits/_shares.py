r"""Leaps of the slow flow: where neurons have aligned, only their shares still change, and slowly.

Late in the slow flow $w_j = a_j v_j/|v_j|$ up to the rate at which $v_j$ turns, and multipliers and kinks
follow from the shares $A_c = \sum_j a_j^2$ of the clusters at once: their margins stay at 1. What is left is

    d log A_c / d\tau = |v_c| - 1.

A neuron that loses may need $\tau = 10^5$ for that, where a step of the slow flow is no longer than a few
units. The implicit Euler method takes any step. A leap that leaves the region is not taken: there the slow
flow itself goes on, and after a leap it takes some steps of its own, which let the state come back to it.
"""

import numpy as np

from rankfall.dynamics.exact import Region, Walk, Weights
from rankfall.limits._clusters import (
    Clusters,
    Unknowns,
    directions_of,
    equations_at,
    grouped,
    moved,
    newton_step,
    sizes_of,
)
from rankfall.limits._slow import SlowClock

_NEWTON = 20
_ALIGNED = 1e-3  # 1 - cos between a neuron with a share and its pull,
_SHARE = 1e-6  # and the share from which on that counts
_CHANGE = 0.05  # the most by which multipliers may change in a leap, relative to the largest
_BENT, _KEPT = 0.05, 1e-3  # the most that it may bend the shares of clusters, of those with such a share
_ROUNDING = 1e-12
_DIVERGED = 1e6  # equations of Newton's method that are so far from zero


def leap(walk: Walk, clock: SlowClock, step: float) -> bool:
    """Go this far in the slow flow's clock at once, if the flow stays in its region; does it?"""
    weights, region, y = walk.weights, walk.region, walk.pull.y
    r = 2 * walk.present_pulls()
    pulls = region.pulls(r)
    v = pulls @ region.x
    own = _growing(weights, v)
    if not _aligned(weights, v):
        return False
    clusters = grouped(weights, region, np.flatnonzero(own))
    first = np.array([members[0] for members in clusters.members])
    lengths = np.linalg.norm(v[first], axis=1)
    shares = np.array([(own[members] ** 2).sum() for members in clusters.members]) / lengths
    start = Unknowns(y * r, shares, pulls[first] * clusters.held)
    found = _implicit_euler(start, clusters, clock.support, region, y, step)
    if (
        found is None
        or step * _turned(start, found, clusters, region, y) > _BENT
        or not _stays(start, found, clusters, np.sign(own[first]), clock, region)
    ):
        return False
    v = directions_of(found, clusters, region, y)
    w, a = np.zeros_like(weights.w), np.zeros_like(weights.a)
    for c, members in enumerate(clusters.members):
        length = np.linalg.norm(v[c])
        a[members] = own[members] * np.sqrt(found.amplitudes[c] * length / (shares[c] * lengths[c]))
        w[members] = a[members, None] * v[c] / length
    walk.motion.go_to(Weights(w, a, weights.c))
    walk.motion.sizes = np.linalg.norm(w, axis=1)
    clock.leap(walk.motion, step)
    return True


def _growing(weights: Weights, v: np.ndarray) -> np.ndarray:
    """The part of each neuron that grows, with v as it is: that along (v/|v|, 1)."""
    lengths = np.linalg.norm(v, axis=1)
    along = (weights.w * v).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    return np.where(lengths > 0, (weights.a + along) / 2, 0.0)


def _aligned(weights: Weights, v: np.ndarray) -> bool:
    """Are all neurons with a share aligned with their pulls, and as long as their output weights?"""
    cosine = weights.a * (weights.w * v).sum(axis=1)
    sizes = np.abs(weights.a) * np.linalg.norm(weights.w, axis=1) * np.linalg.norm(v, axis=1)
    counts = weights.a**2 > _SHARE * (weights.a**2).sum()
    return bool((cosine >= (1 - _ALIGNED) * sizes)[counts].all())


def _implicit_euler(
    start: Unknowns, clusters: Clusters, support: np.ndarray, region: Region, y: np.ndarray, step: float
) -> Unknowns | None:
    r"""Multipliers, kinks and $B_c = A_c/|v_c|$ after the step, by Newton's method.

    The equations are those of a KKT point, but that $A_c (1/h + 1 - |v_c|)$ is what $A_c/h$ was.
    """
    s, c = int(support.sum()), len(clusters.members)
    middle = slice(s, s + c)
    before, now = start.amplitudes, start
    lengths = np.linalg.norm(directions_of(start, clusters, region, y), axis=1)
    right = lengths / step
    for _ in range(_NEWTON):
        with np.errstate(all="ignore"):  # it may diverge
            equations, jacobian = equations_at(now, clusters, support, region, y)
        if not np.abs(equations).max() <= _DIVERGED or not np.isfinite(jacobian).all():
            return None
        length = np.sqrt(np.maximum(1 + 2 * equations[middle], 1e-300))
        share, rest = now.amplitudes / before, 1 / step + 1 - length
        equations[middle] = share * length * rest - right
        jacobian[middle] *= (share * (rest - length) / length)[:, None]
        jacobian[middle, middle] += np.diag(length * rest / before)
        size, sizes = float(np.abs(equations).max()), sizes_of(now, clusters, support)
        sizes[middle] = before  # so that the smallest shares count too
        now = moved(now, newton_step(equations, jacobian, sizes), clusters, support)
        if size < 1e-12:
            return now
    return None


def _turned(start: Unknowns, found: Unknowns, clusters: Clusters, region: Region, y: np.ndarray) -> float:
    """By how much |v| changes, of the clusters that keep a share: times the step, an error of the shares."""
    keeps = found.amplitudes > _KEPT * found.amplitudes.max()
    before, then = (np.linalg.norm(directions_of(at, clusters, region, y), axis=1) for at in (start, found))
    return float(np.abs(then - before)[keeps].max())


def _stays(
    start: Unknowns, found: Unknowns, clusters: Clusters, signs: np.ndarray, clock: SlowClock, region: Region
) -> bool:
    """Is the state after the leap one of this region and this support, and not too far?"""
    y, support, multipliers = clock.pull.y, clock.support, found.multipliers
    change = np.abs(multipliers - start.multipliers)[support].max()
    if not change <= _CHANGE * multipliers[support].max():
        return False
    if (multipliers[support] <= 0).any() or (found.amplitudes <= 0).any():
        return False
    z = directions_of(found, clusters, region, y) @ region.x.T
    margins = y * (found.amplitudes @ (clusters.slopes * z))
    if (margins[clock.outside] < 1 - _ROUNDING).any():
        return False
    if region.slope == 1:
        return True
    first = [members[0] for members in clusters.members]
    turning = signs[:, None] * region.side[first] * z
    ends = np.sort([region.slope * multipliers * y, multipliers * y], axis=0)
    room = _ROUNDING * multipliers[support].max()
    outside = (found.pulls < ends[0] - room) | (found.pulls > ends[1] + room)
    return bool((turning >= -_ROUNDING * region.lengths).all() and not outside[clusters.held].any())
