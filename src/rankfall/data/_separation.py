"""Is a large set separable, and between which numbers is its margin? By Newton's method, with proofs.

For the rows z_i = y_i x_i the sum of max(0, 1 - z_i . w)^2 is piecewise quadratic, and Newton's method on the
rows with z_i . w < 1 needs a few dozen steps, however many they are (Mangasarian 2002; Keerthi and DeCoste
2005). At the minimum the numbers c_i = max(0, 1 - z_i . w) make sum_i c_i z_i vanish: Gordan's certificate
that no w separates the classes. If some w does, the minimum is 0, and all rows are on the right side before
it is reached. A ridge |w|^2 that is lowered on the way keeps w near the direction of the largest margin.
Every w proves a lower bound of the margin, min_i z_i . w / |w|, and every c >= 0 an upper one,
|sum_i c_i z_i| / sum_i c_i.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ._dataset import Data
from ._facts import once
from ._svm import in_span, signed

# Relative to the longest row; the last one decides.
_RIDGES = (1e-3, 1e-5, 1e-7, 0.0)
_STEPS = 100


@once
def margin_bounds(data: Data, bias: bool = False) -> tuple[float, float]:
    """Two numbers between which `margin` lies, for sets that are too large for it.

    The lower one is positive if a w was found that separates the classes, checked on every sample; both are 0
    if a combination of the samples that vanishes up to rounding proves that there is none; 0 and a positive
    number leave it open. 10,000 samples of 3072 features take about a minute.
    """
    z = in_span(signed(data, bias))
    longest = float(np.linalg.norm(z, axis=1).max())
    if longest == 0:
        return 0.0, 0.0
    lower, upper = _bounds(z / longest)
    return longest * lower, longest * upper


def _bounds(z: np.ndarray) -> tuple[float, float]:
    """The bounds for rows of norm 1 at most."""
    norms = np.linalg.norm(z, axis=1)
    rounding = 4 * max(z.shape) * float(np.finfo(float).eps)
    w, values, upper, ridges = np.zeros(z.shape[1]), np.zeros(len(z)), 1.0, list(_RIDGES)
    for _ in range(_STEPS):
        w, values, length = _step(z, w, values, ridges[0])
        c = np.maximum(0, 1 - values)
        if values.min() > rounding * np.linalg.norm(w):
            lower = float(values.min() / np.linalg.norm(w))
            return lower, max(lower, upper)
        left = float(np.linalg.norm(c @ z))
        if left <= rounding * (c @ norms):
            return 0.0, 0.0
        upper = min(upper, left / float(c.sum()))
        if len(ridges) > 1 and abs(length - 1) < 0.05:  # a full step: near the minimum for this ridge
            ridges.pop(0)
    return 0.0, upper


def _step(
    z: np.ndarray, w: np.ndarray, values: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The next w, its z w, and the length of the step as a part of Newton's."""
    active = values < 1
    rows = z[active]
    hessian = rows.T @ rows
    # Features that are constant or dependent: a little more than rounding on the diagonal.
    hessian[np.diag_indices(len(w))] += max(ridge, 1e-13 * len(z))
    change = cho_solve(
        cho_factor(hessian, overwrite_a=True), rows.T @ (1 - values[active]) - ridge * w, overwrite_b=True
    )
    along = z @ change

    def slope(t: float) -> float:
        """Of the objective at w + t change: it increases with t, from a negative number at 0."""
        pull = np.maximum(0, 1 - values - t * along) @ along
        return float(ridge * (w @ change + t * (change @ change)) - pull)

    low, high = 0.0, 1.0
    while slope(high) < 0 and high < 1e6:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    w = w + high * change
    return w, z @ w, high
