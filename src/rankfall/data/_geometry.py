"""What a theorem asks of its data: separability, margin and second moments.

Every function is pure and takes `Data`. With `bias=True` the coordinate 1 is appended to each input
first: a network with biases sees the inputs (x, 1), and it is to them that a hypothesis applies.
"""

import numpy as np

from ._dataset import Data
from ._facts import once
from ._separation import margin_bounds
from ._svm import in_span, inputs, shortest, signed, unit_rows

LARGE = 2**21  # from this many numbers on, Newton's method decides sooner whether data is separable


@once
def is_separable(data: Data, bias: bool = False, *, large: int = LARGE) -> bool:
    """Is there a w with y_i <w, x_i> > 0 for all i: a hyperplane through the origin between the classes?

    The answer yes comes from such a w, checked on every point. Data that misses separability, or
    reaches it, by an angle of less than about 1e-11 is beyond double precision. Inputs of more than `large`
    numbers are given to `margin_bounds` first.
    """
    lower, upper = _large_set_bounds(data, bias, large)
    if lower > 0 or upper == 0:
        return lower > 0
    return shortest(unit_rows(_signed(data, bias)), np.ones(data.n))[0] is not None


@once
def margin(data: Data, bias: bool = False, *, large: int = LARGE) -> float:
    """The largest margin max_{|w| = 1} min_i y_i <w, x_i>; 0 if the data is not separable.

    With `bias` the constant is a coordinate of w like the others, and part of its norm. The time grows with
    the number of samples that the margin rests on: where it is thousands, use `margin_bounds`. That one
    is asked first about inputs of more than `large` numbers: it may prove that there is no margin.
    """
    if _large_set_bounds(data, bias, large)[1] == 0:
        return 0.0
    z = _signed(data, bias)
    norms, u = np.linalg.norm(z, axis=1), unit_rows(z)
    w, _ = shortest(u, np.ones(data.n))
    if w is None:
        return 0.0
    # A w that separates has a margin; asking for that one keeps the problem well scaled.
    reached = _reached(z, w)
    best, _ = shortest(u, reached / norms)
    return reached if best is None else max(reached, _reached(z, best))


@once
def gram(data: Data, bias: bool = False) -> np.ndarray:
    """The inner products of the inputs, n x n."""
    x = inputs(data, bias)
    return np.asarray(x @ x.T)


@once
def coordinates(data: Data, bias: bool = False) -> np.ndarray:
    """The inputs in an orthonormal basis of their span, if there are more features than samples."""
    return in_span(inputs(data, bias))


@once
def covariance(data: Data, bias: bool = False) -> np.ndarray:
    """The matrix Sigma = <x x^T>, d x d: the mean over the data, not centred."""
    x = inputs(data, bias)
    return np.asarray(x.T @ x / data.n)


@once
def beta(data: Data, bias: bool = False) -> np.ndarray:
    """The vector beta = <y x>, the correlation of input and target: d numbers, or d x k for targets n x k."""
    return np.asarray(inputs(data, bias).T @ data.y.astype(float) / data.n)


@once
def whiteness(data: Data) -> float:
    """The spectral norm |Sigma - I|: 0 for exactly white inputs, at least 1 if they span less than R^d."""
    spectrum = np.linalg.svd(inputs(data), compute_uv=False) ** 2 / data.n
    off = float(np.abs(spectrum - 1).max())
    return max(off, 1.0) if data.n < data.dim else off


@once
def least_squares_floor(data: Data) -> float:
    """The least square loss <|y - w x|^2> / 2 of a linear map: (<|y|^2> - beta^T Sigma^+ beta) / 2.

    On symmetric data it also is the least loss of any two-layer bias-free (leaky) ReLU network
    (Zhang et al. 2024, Corollary 6).
    """
    x, y = inputs(data), data.y.reshape(data.n, -1).astype(float)
    # The residual itself: the formula's difference would lose all digits when the floor is near zero.
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float((residual**2).sum() / (2 * data.n))


def _large_set_bounds(data: Data, bias: bool, large: int) -> tuple[float, float]:
    """`margin_bounds` of a large set; of a small one, which the exact method decides sooner, nothing."""
    return margin_bounds(data, bias) if data.n > data.dim and data.x.size > large else (0.0, np.inf)


def _signed(data: Data, bias: bool) -> np.ndarray:
    """The rows y_i x_i, in coordinates of their span if there are fewer samples than features."""
    return in_span(signed(data, bias))


def _reached(z: np.ndarray, w: np.ndarray) -> float:
    return float((z @ w).min() / np.linalg.norm(w))
