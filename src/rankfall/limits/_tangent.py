"""The tangent kernels of many states in one region, and the pulls with which margins grow at one rate."""

import numpy as np

from rankfall.dynamics.exact import Region

_REGULAR = 1e-5  # the least pivot, relative to the largest, of a kernel that is solved by Cholesky's factors
_DEPENDENT = 1e-12  # singular values below this share of the largest are zero


class Tangent:
    """The tangent kernel on the support, as a sum over patterns: for one region, and any weights in it.

    Neurons with equal slopes and kinks add up, so that a state costs a few small products.
    """

    def __init__(self, region: Region, support: np.ndarray, y: np.ndarray):
        self.support, self.signs = np.flatnonzero(support), y[support]
        self.slopes = region.slopes[:, self.support]
        keys = np.hstack([region.slopes, region.held.astype(float)])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        self.member = np.zeros((len(first), len(keys)))
        self.member[group.ravel(), np.arange(len(keys))] = 1.0
        # a pull of 1 on one sample moves a neuron of the pattern by these rows, in units of a_j
        one = np.zeros((len(self.support), len(y)))
        one[np.arange(len(one)), self.support] = 1.0
        rows = region.pulls(one, first) @ region.x  # (s, patterns, k)
        rows = np.ascontiguousarray(rows.transpose(1, 0, 2))
        seen = rows @ region.x[self.support].T * region.slopes[first][:, None, self.support]
        self.kernels = ((seen + seen.transpose(0, 2, 1)) / 2).reshape(len(first), -1)

    def pulls(self, z: np.ndarray, a: np.ndarray) -> np.ndarray:
        """y lambda (states, n) with K lambda = 1 on the support, for pre-activations z (states, m, n)."""
        s = len(self.support)
        hidden = self.slopes * z[..., self.support]
        kernels = ((a**2 @ self.member.T) @ self.kernels).reshape(-1, s, s)
        kernels = (kernels + hidden.transpose(0, 2, 1) @ hidden) * self.signs[:, None] * self.signs
        found = np.zeros((len(z), z.shape[2]))
        found[:, self.support] = self.signs * _multipliers(kernels)
        return found


def _multipliers(kernels: np.ndarray) -> np.ndarray:
    """lambda with K lambda = 1; the shortest, where support vectors are dependent."""
    ones = np.ones(kernels.shape[1])
    each = np.broadcast_to(ones[:, None], (*kernels.shape[:2], 1))
    try:
        pivots = np.linalg.cholesky(kernels).diagonal(axis1=1, axis2=2)
        if (pivots.min(axis=1) > _REGULAR * pivots.max(axis=1)).all():
            return np.asarray(np.linalg.solve(kernels, each)[..., 0])
    except np.linalg.LinAlgError:  # not positive definite, or not finite
        pass
    if not np.isfinite(kernels).all():
        return np.full(kernels.shape[:2], np.nan)
    return np.array([np.linalg.lstsq(kernel, ones, rcond=_DEPENDENT)[0] for kernel in kernels])
