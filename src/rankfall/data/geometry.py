"""What a theorem asks of its data: symmetry, separability, orthogonality, second moments.

Every function is pure and takes `Data`. With `bias=True` the coordinate 1 is appended to each input
first: a network with biases sees the inputs (x, 1), and it is to them that a hypothesis applies.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from .dataset import Data
from .hard_margin import in_span, inputs, labels, shortest, signed, unit_rows

# Up to this many points without a mirror image the optimal matching takes about a second.
_MATCHED = 2000
# A part of a Gram matrix holds at most this many numbers.
_BLOCK = 2**24


def asymmetry(data: Data) -> float:
    """How far the points (x, y) are from their mirror images (-x, -y), between 0 and 1.

    Zero exactly if the two are the same multiset (Zhang et al. 2024, Condition 3); 1 for a single point.
    In between, with x and y each divided by its root mean square and z = (x, y),

        min over permutations pi of  sum_i |z_i + z_pi(i)|  /  (2 sum_i |z_i|),

    the earth mover's distance between the data and its mirror image, relative to its largest value.
    Beyond 2000 points without an exact mirror image, the matching is replaced by the distance to the
    nearest mirror image, averaged over 2000 of those points, evenly spaced in the order of the data:
    an estimate of a lower bound, cheap, and still zero only for symmetric data.
    """
    x, y = data.x.astype(float), data.y.reshape(data.n, -1).astype(float)
    lonely = _without_mirror_image(np.concatenate([x, y], axis=1))
    if not len(lonely):
        return 0.0
    z = np.concatenate([_relative(x), _relative(y)], axis=1)
    distance_to_image = _matched_distance if len(lonely) <= _MATCHED else _nearest_distance
    # The optimal cost is a metric's: points that have an exact mirror image may be left out.
    distance = distance_to_image(z[lonely]) / (2 * np.linalg.norm(z, axis=1).sum())
    return float(max(distance, np.finfo(float).smallest_subnormal))


def is_symmetric(data: Data, tol: float = 1e-12) -> bool:
    """Is (x, y) in the data exactly as often as (-x, -y)? Up to `tol`, an `asymmetry`; 0 is exact."""
    return asymmetry(data) <= tol


def is_separable(data: Data, bias: bool = False) -> bool:
    """Is there a w with y_i <w, x_i> > 0 for all i: a hyperplane through the origin between the classes?

    The answer yes comes from such a w, checked on every point. Data that misses separability, or
    reaches it, by an angle of less than about 1e-11 is beyond double precision.
    """
    return shortest(unit_rows(_signed(data, bias)), np.ones(data.n))[0] is not None


def margin(data: Data, bias: bool = False) -> float:
    """The largest margin max_{|w| = 1} min_i y_i <w, x_i>; 0 if the data is not separable.

    With `bias` the constant is a coordinate of w like the others, and part of its norm.
    """
    z = _signed(data, bias)
    norms, u = np.linalg.norm(z, axis=1), unit_rows(z)
    w, _ = shortest(u, np.ones(data.n))
    if w is None:
        return 0.0
    # A w that separates has a margin; asking for that one keeps the problem well scaled.
    reached = _reached(z, w)
    best, _ = shortest(u, reached / norms)
    return reached if best is None else max(reached, _reached(z, best))


def is_orthogonally_separable(data: Data, bias: bool = False) -> bool:
    """Is <x_i, x_j> > 0 for all i, j of one class and <= 0 for i, j of two? (Phuong and Lampert 2021.)

    Cosines that are zero up to rounding, d times the machine epsilon, count as zero.
    """
    y, u = labels(data), unit_rows(inputs(data, bias))
    zero = _rounding(data)
    for rows, cosines in _gram_rows(u):
        same = y[rows, None] == y
        if (cosines[same] <= zero).any() or (cosines[~same] > zero).any():
            return False
    return True


def orthogonal_margin(data: Data, bias: bool = False) -> float:
    """The number mu = min_{i, j} y_i y_j cos(x_i, x_j) of Min, Mallada and Vidal, ICLR 2024.

    Positive: orthogonally separable with room to spare. Negative: not. Zero: `is_orthogonally_separable`
    decides, since two classes may be orthogonal, but two points of one class may not. An input 0 has
    cosine 0.
    """
    v = unit_rows(_signed(data, bias))
    return float(min(cosines.min() for _, cosines in _gram_rows(v)))


def p_orthogonality(data: Data, bias: bool = False) -> float:
    """The largest p for which the inputs are p-orthogonal (Frei et al. 2023, COLT, Definition 1):

        p = R_min^2 / (R^2 n zeta),   zeta = max_{i != j} |<x_i, x_j>|,   R = R_max / R_min,

    with R_min and R_max the extreme norms of the inputs. Infinite if they are orthogonal up to rounding,
    that is zeta <= d eps R_max^2, and 0 if an input is zero.
    """
    x = inputs(data, bias)
    norms = np.linalg.norm(x, axis=1)
    smallest, largest = float(norms.min()), float(norms.max())
    if smallest == 0:
        return 0.0
    x = x / largest
    zeta = 0.0
    for rows, products in _gram_rows(x):
        products[np.arange(len(products)), np.arange(data.n)[rows]] = 0
        zeta = max(zeta, float(np.abs(products).max()))
    if zeta <= _rounding(data):
        return float("inf")
    return (smallest / largest) ** 4 / (data.n * zeta)


def covariance(data: Data) -> np.ndarray:
    """The matrix Sigma = <x x^T>, d x d: the mean over the data, not centred."""
    x = inputs(data)
    return np.asarray(x.T @ x / data.n)


def beta(data: Data) -> np.ndarray:
    """The vector beta = <y x>, the correlation of input and target: d numbers, or d x k for targets n x k."""
    return np.asarray(inputs(data).T @ data.y.astype(float) / data.n)


def whiteness(data: Data) -> float:
    """The spectral norm |Sigma - I|: 0 for exactly white inputs, at least 1 if they span less than R^d."""
    spectrum = np.linalg.svd(inputs(data), compute_uv=False) ** 2 / data.n
    off = float(np.abs(spectrum - 1).max())
    return max(off, 1.0) if data.n < data.dim else off


def least_squares_floor(data: Data) -> float:
    """The least square loss <|y - w x|^2> / 2 of a linear map: (<|y|^2> - beta^T Sigma^+ beta) / 2.

    On symmetric data it also is the least loss of any two-layer bias-free (leaky) ReLU network
    (Zhang et al. 2024, Corollary 6).
    """
    x, y = inputs(data), data.y.reshape(data.n, -1).astype(float)
    # The residual itself: the formula's difference would lose all digits when the floor is near zero.
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float((residual**2).sum() / (2 * data.n))


def _signed(data: Data, bias: bool) -> np.ndarray:
    """The rows y_i x_i, in coordinates of their span if there are fewer samples than features."""
    return in_span(signed(data, bias))


def _rounding(data: Data) -> float:
    """The largest cosine that rounding of the inputs can make of orthogonal vectors."""
    return float(data.dim * np.finfo(data.x.dtype).eps)


def _gram_rows(x: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The matrix x x^T a few rows at a time: whole, it would fill the memory for 60,000 images."""
    step = max(1, _BLOCK // len(x))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        yield rows, x[rows] @ x.T


def _relative(values: np.ndarray) -> np.ndarray:
    """`values` (n x k) divided by the root mean square of its rows' norms, computed without overflow."""
    largest = float(np.abs(values).max())
    if largest == 0:
        return values
    values = values / largest
    return values / np.sqrt((values**2).sum() / len(values))


def _without_mirror_image(z: np.ndarray) -> np.ndarray:
    """The numbers of the rows of z left over when equal rows of z and of -z are paired off."""
    # Adding 0.0 turns -0.0 into 0.0; then rows are equal exactly if their bytes are.
    images = Counter(row.tobytes() for row in 0.0 - z)
    left = []
    for i, row in enumerate(z + 0.0):
        key = row.tobytes()
        if images[key] > 0:
            images[key] -= 1
        else:
            left.append(i)
    return np.array(left, dtype=int)


def _matched_distance(z: np.ndarray) -> float:
    """The least sum of distances |z_i + z_pi(i)| over all permutations pi."""
    distances = cdist(z, -z)
    return float(distances[linear_sum_assignment(distances)].sum())


def _nearest_distance(z: np.ndarray) -> float:
    """The sum over the rows of z of the distance to the nearest row of -z, from a part of the rows."""
    sample = z[np.linspace(0, len(z) - 1, _MATCHED).astype(int)]
    squares = (z**2).sum(axis=1)
    total = 0.0
    for part in np.array_split(sample, 16):
        # |a + b|^2 = |a|^2 + |b|^2 + 2ab finds the nearest; its own distance is taken without cancellation.
        nearest = z[np.argmin(squares + 2 * part @ z.T, axis=1)]
        total += float(np.linalg.norm(part + nearest, axis=1).sum())
    return total * len(z) / _MATCHED


def _reached(z: np.ndarray, w: np.ndarray) -> float:
    return float((z @ w).min() / np.linalg.norm(w))
