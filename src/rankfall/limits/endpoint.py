r"""Where a flow of the square loss ends: a point at which Clarke's subdifferential of the loss contains zero.

With the second layer fixed the flow in a region is linear, $\dot f = K (y - f)$ up to the factor of a mean,
and its end there is explicit. The loss is convex in the weights there, so that the flow never moves away from
that end: its distance bounds everything that can still happen.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from rankfall.dynamics.regions import Region, Weights
from rankfall.dynamics.walk import Walk

_NULL = 1e-12  # eigenvalues of the kernel below this share of the largest are zero
_TOUCH = 1e-9  # a pre-activation this small, relative to its inputs and weights, is at its kink


@dataclass(frozen=True)
class End:
    """The end of the flow in its region, and how far it is, relative to the weights."""

    weights: Weights
    distance: float


def end_of_region(walk: Walk) -> End:
    """The end of a flow with fixed second layer, if it stays in its region."""
    region, weights = walk.region, walk.weights
    r = walk.pull(walk.outputs)
    values, vectors = np.linalg.eigh(region.kernel(weights.a))
    kept = values > _NULL * values[-1]
    gathered = vectors[:, kept] @ (
        (vectors[:, kept].T @ r) / values[kept]
    )  # the integral of r, where it moves f
    moved = weights.a[:, None] * (region.pulls(gathered) @ region.x) / walk.pull.weight
    size = max(float(np.linalg.norm(weights.w)), np.finfo(float).tiny)
    end = Weights(weights.w + moved, weights.a, weights.c)
    return End(end, float(np.linalg.norm(moved)) / size)


def outside(region: Region, weights: Weights) -> int:
    """How many pairs of neuron and sample these weights have on the other side of their kinks."""
    z = weights.w @ region.x.T
    sizes = np.linalg.norm(weights.w, axis=1)[:, None] * np.linalg.norm(region.x, axis=1)
    return int((region.side * z < -_TOUCH * sizes).sum()) if region.slope < 1 else 0


def subgradient(weights: Weights, region: Region, r: np.ndarray, both: bool) -> tuple[float, np.ndarray]:
    """The shortest element of Clarke's subdifferential, relative to the pulls, and the slopes that give it.

    It is measured neuron by neuron as the pull g of the samples on the neuron, not on a_j g: so a neuron that
    is still small and would grow does not count as settled.
    """
    x, slope = region.x, region.slope
    z = weights.w @ x.T
    lengths = np.linalg.norm(x, axis=1)
    slopes = np.where(z > 0, 1.0, slope)
    touching = np.abs(z) <= _TOUCH * lengths * np.maximum(np.linalg.norm(weights.w, axis=1), 1e-300)[:, None]
    worst, scale = 0.0, float(np.abs(r) @ lengths)
    for j in range(len(z)):
        kinks = np.flatnonzero(touching[j] & (lengths > 0))
        rest = slopes[j] * r
        rest[kinks] = 0.0
        g = rest @ x
        if len(kinks) and slope < 1:
            rows = r[kinks, None] * x[kinks]
            best = lsq_linear(rows.T, -g, bounds=(slope, 1.0), method="bvls").x
            slopes[j, kinks] = best
            g = g + best @ rows
        weight = 1.0 if both else float(np.abs(weights.a[j]) / max(np.abs(weights.a).max(), 1e-300))
        if not both or np.linalg.norm(weights.w[j]) + abs(weights.a[j]) > 0:
            worst = max(worst, weight * float(np.linalg.norm(g)))
    return (worst / scale if scale > 0 else 0.0), slopes
