r"""Rest points of a flow at finite weights: there the samples' pulls balance.

With both layers trained, at a rest point that is no saddle the pull $g_j = \sum_i r_i P_{ji} x_i$ of the
samples is zero on every neuron, those without weight included. Then of the Hessian of the loss,
$\sum_i \ell''(q_i) h_i h_i^T$ and the blocks $-g_j$ that couple $w_j$ and $a_j$, only the first part is left,
which has no negative eigenvalue: the rest point is a minimum to second order. Along the scalings that
conserve $f$ the loss is constant, and the flow does not move along them: $|w_j|^2 - a_j^2$ is conserved.
"""

from dataclasses import dataclass

import numpy as np

from rankfall.dynamics.exact import Walk
from rankfall.limits._endpoint import subgradient

_NULL = 1e-9  # singular values of the samples' gradients below this share of the largest are zero


@dataclass(frozen=True)
class Rest:
    """How far a state is from a rest point: `gradient`, the largest pull on a neuron relative to those of the
    samples, and `distance`, the way that Newton's method would go, relative to the weights.
    """

    gradient: float
    distance: float
    slopes: np.ndarray


def rest_of(walk: Walk, both: bool) -> Rest:
    """How far the present state is from rest; `both`: the second layer is trained, too."""
    weights, region, r = walk.weights, walk.region, walk.present_pulls()
    gradient, slopes = subgradient(weights, region, r, both)
    features = region.features(weights.a)
    if both:
        features = np.hstack([features, (region.slopes * walk.z).T])
    steep = walk.pull.loss.of_margin.steepness(walk.pull.y * walk.outputs)
    root = np.sqrt(np.abs(r) * steep)
    u, s, _ = np.linalg.svd(root[:, None] * features, full_matrices=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        pulls = np.where(root > 0, r / root, 0.0)
    kept = s > _NULL * s.max(initial=0.0)
    size = max(float(np.sqrt((weights.w**2).sum() + (weights.a**2).sum())), np.finfo(float).tiny)
    return Rest(gradient, float(np.linalg.norm(pulls @ u[:, kept] / s[kept])) / size, slopes)
