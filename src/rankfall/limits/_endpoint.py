r"""Where a flow of the square loss ends: a point at which Clarke's subdifferential of the loss contains zero.

With the second layer fixed the flow in a region is linear, $\dot f = K (y - f)$ up to the factor of a mean,
and both its end there and the way to it are explicit: a sum of modes that decay exponentially.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from rankfall.dynamics.exact import Region, Walk, Weights

_NULL = 1e-12  # singular values of the features below this share of the largest are zero
_TOUCH = 1e-9  # a pre-activation this small, relative to its inputs and weights, is at its kink
_CORRECTIONS, _KNOWN = 3, 1e-8  # how often the end is corrected, and how much the last time, relative to it
_ROUNDED = 1e-6  # the most that rounding may excuse
_MODES = 10_000_000  # numbers in the modes of all pairs, up to which they are formed


@dataclass(frozen=True)
class End:
    """The end of the flow in its region, how far it is, relative to the weights, and whether it gets there:
    whether no pair comes to its kink on the way, and floats are fine enough to tell where it is.
    """

    weights: Weights
    distance: float
    stays: bool


def end_of_region(walk: Walk) -> End:
    r"""The end of a flow with fixed second layer, if it stays in its region.

    With $\Phi \Phi^T = K$ and samples that occur $n_i$ times, $\dot W = \Phi^T N (y - f)$ up to a factor.
    Along the singular vectors of $N^{1/2} \Phi$ it decays exponentially, mode by mode.
    """
    region, weights = walk.region, walk.weights
    root = np.sqrt(walk.pull.often)
    u, s, _ = np.linalg.svd(root[:, None] * region.features(weights.a), full_matrices=False)
    u, s = u[:, s > _NULL * s[0]], s[s > _NULL * s[0]]

    def modes(r: np.ndarray) -> np.ndarray:
        """The integrals of the pulls, a column for each mode."""
        return np.asarray(u * ((r / root) @ u / s**2))

    def moves(integral: np.ndarray) -> np.ndarray:
        pulls = region.pulls(root * integral)
        return np.asarray(weights.a[:, None] * (pulls @ region.x) / walk.pull.weight)

    integrals = modes(walk.pull(walk.outputs))
    moved = moves(integrals.sum(axis=1))
    for _ in range(_CORRECTIONS):  # of what was lost where large pulls cancel
        there = weights.a @ (region.slopes * ((weights.w + moved) @ region.x.T)) + weights.c
        lost = moves(modes(walk.pull(there)).sum(axis=1))
        moved = moved + lost
    size = max(float(np.linalg.norm(weights.w)), np.finfo(float).tiny)
    end = Weights(weights.w + moved, weights.a, weights.c)
    known = float(np.linalg.norm(lost)) <= _KNOWN * float(np.linalg.norm(end.w))  # the last one
    stays = known and region.slope == 1
    if known and not stays and not region.held.any() and integrals.size * len(weights.a) <= _MODES:
        # side . z(t) = side . z(end) - sum_k side . z_k e^(-t/t_k) is at least this, whatever the t_k
        least = region.side * (end.w @ region.x.T)
        least = least - np.maximum(region.side * (moves(integrals.T) @ region.x.T), 0.0).sum(axis=0)
        watched = (weights.a != 0)[:, None] & (walk.region.lengths > 0)
        sizes = np.linalg.norm(end.w, axis=1)[:, None] * walk.region.lengths
        stays = bool((least > _TOUCH * sizes)[watched].all())
    with np.errstate(over="ignore"):
        return End(end, float(np.linalg.norm(moved)) / size, stays)


def outside(region: Region, weights: Weights) -> int:
    """How many pairs of neuron and sample these weights have on the other side of their kinks."""
    z = weights.w @ region.x.T
    sizes = np.linalg.norm(weights.w, axis=1)[:, None] * region.lengths
    return int((region.side * z < -_TOUCH * sizes).sum()) if region.slope < 1 else 0


def distance_to_end(walk: Walk, weights: Weights, r: np.ndarray) -> float:
    """How far the weights are from where the flow would fit or balance the pulls, if it were linear.

    Relative to the weights. Pulls that nearly cancel, as those of two samples that nearly coincide, are small
    and still move the weights far.
    """
    region, root = walk.region, np.sqrt(walk.pull.often)
    hidden = region.slopes * (weights.w @ region.x.T)
    features = region.features(weights.a)
    if walk.motion.trains_second:
        features = np.hstack([features, hidden.T, np.full((len(r), 1), float(walk.motion.trains_bias))])
    u, s, _ = np.linalg.svd(root[:, None] * features, full_matrices=False)
    kept = s > _NULL * s[0]
    moved = float(np.linalg.norm((r / root) @ u[:, kept] / s[kept])) / walk.pull.weight
    size = np.sqrt((weights.w**2).sum() + (weights.a**2).sum())
    return moved / max(float(size), np.finfo(float).tiny)


def rounding(walk: Walk, weights: Weights, r: np.ndarray) -> float:
    """How large a `subgradient` may be by the rounding of the weights alone."""
    lengths = walk.region.lengths
    sizes = np.abs(weights.a) @ np.linalg.norm(weights.w, axis=1) * lengths
    sizes = sizes * walk.pull.weight * walk.pull.often
    scale = float(np.abs(r) @ lengths)
    return min(float(np.finfo(float).eps * (sizes @ lengths)) / scale, _ROUNDED) if scale > 0 else 0.0


def subgradient(weights: Weights, region: Region, r: np.ndarray, both: bool) -> tuple[float, np.ndarray]:
    """The shortest element of Clarke's subdifferential, relative to the pulls, and the slopes that give it.

    It is measured neuron by neuron as the pull g of the samples on the neuron, not on a_j g: so a neuron that
    is still small and would grow does not count as settled.
    """
    x, slope = region.x, region.slope
    z = weights.w @ x.T
    lengths = region.lengths
    slopes = np.where(z > 0, 1.0, slope)
    sizes = np.maximum(np.linalg.norm(weights.w, axis=1), 1e-300)[:, None] * lengths
    touching = (np.abs(z) <= _TOUCH * sizes) & (slope < 1)
    worst, scale = 0.0, float(np.abs(r) @ lengths)
    for j in range(len(z)):
        kinks = np.flatnonzero(touching[j] & (lengths > 0))
        rest = slopes[j] * r
        rest[kinks] = 0.0
        g = rest @ x
        if len(kinks):
            rows = r[kinks, None] * x[kinks]
            best = lsq_linear(rows.T, -g, bounds=(slope, 1.0), method="bvls").x
            slopes[j, kinks] = best
            g = g + best @ rows
        weight = 1.0 if both else float(np.abs(weights.a[j]) / max(np.abs(weights.a).max(), 1e-300))
        if not both or np.linalg.norm(weights.w[j]) + abs(weights.a[j]) > 0:
            worst = max(worst, weight * float(np.linalg.norm(g)))
    return (worst / scale if scale > 0 else 0.0), slopes
