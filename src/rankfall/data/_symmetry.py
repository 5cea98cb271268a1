"""Symmetry: is every sample (x, y) in the data as often as its mirror image (-x, -y), or how far from it?"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from ._dataset import Data
from ._facts import once
from ._svm import inputs

MATCHED = 2000  # points without a mirror image, of which the optimal matching takes about a second
BLOCK = 2**22  # numbers of a part of the data in float64


@once
def asymmetry(data: Data, bias: bool = False, *, matched: int = MATCHED, block: int = BLOCK) -> float:
    """How far the points (x, y) are from their mirror images (-x, -y), between 0 and 1.

    Zero exactly if the two are the same multiset (Zhang et al. 2024, Condition 3); 1 for a single point.
    In between, with x and y each divided by its root mean square and z = (x, y),

        min over permutations pi of  sum_i |z_i + z_pi(i)|  /  (2 sum_i |z_i|),

    the earth mover's distance between the data and its mirror image, relative to its largest value.
    Beyond `matched` points without an exact mirror image, the matching is replaced by the distance to the
    nearest mirror image, averaged over `matched` of those points, evenly spaced in the order of the data:
    an estimate of a lower bound, cheap, and still zero only for symmetric data. With `bias` the inputs have
    the coordinate 1 too, and the number is never 0.
    """
    if bias:
        data = Data(inputs(data, bias), data.y)
    lonely = _without_mirror_image(data)
    if not len(lonely):
        return 0.0
    points = _Points(data, block)
    whole = sum(float(np.linalg.norm(z, axis=1).sum()) for _, z in points.blocks(np.arange(data.n)))
    # The optimal cost is a metric's: points that have an exact mirror image may be left out.
    few = len(lonely) <= matched
    total = _matched_distance(points, lonely) if few else _nearest_distance(points, lonely, matched)
    return float(max(total / (2 * whole), np.finfo(float).smallest_subnormal))


def is_symmetric(data: Data, tol: float = 1e-12) -> bool:
    """Is (x, y) in the data exactly as often as (-x, -y)? Up to `tol`, an `asymmetry`; 0 is exact."""
    return asymmetry(data) <= tol


class _Points:
    """The points z = (x, y) in float64, x and y each divided by its root mean square; a few at a time."""

    def __init__(self, data: Data, block: int):
        self.x, self.y, self.block = data.x, data.y.reshape(data.n, -1), block
        self.scales = [_scale(self.x, block), _scale(self.y, block)]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        parts = zip((self.x[rows], self.y[rows]), self.scales, strict=True)
        return np.concatenate([part.astype(float) / largest / rms for part, (largest, rms) in parts], axis=1)

    def blocks(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The given rows a few at a time, and their points."""
        step = max(1, self.block // self.x.shape[1])
        for start in range(0, len(rows), step):
            yield rows[start : start + step], self[rows[start : start + step]]


def _scale(values: np.ndarray, block: int) -> tuple[float, float]:
    """The largest modulus, and relative to it the root mean square of the rows' norms: no overflow."""
    largest = max(float(values.max()), -float(values.min()))
    if largest == 0:
        return 1.0, 1.0
    step = max(1, block // values.shape[1])
    parts = (values[start : start + step].astype(float) / largest for start in range(0, len(values), step))
    return largest, float(np.sqrt(sum((part**2).sum() for part in parts) / len(values)))


def _without_mirror_image(data: Data) -> np.ndarray:
    """The numbers of the points left over when points and their mirror images are paired off."""
    # Adding 0.0 turns -0.0 into 0.0; then points are equal exactly if their bytes are.
    images = Counter(_digest(0.0 - x, 0.0 - y) for x, y in zip(data.x, data.y, strict=True))
    left = []
    for i, (x, y) in enumerate(zip(data.x, data.y, strict=True)):
        key = _digest(x + 0.0, y + 0.0)
        if images[key] > 0:
            images[key] -= 1
        else:
            left.append(i)
    return np.array(left, dtype=int)


def _digest(x: np.ndarray, y: np.ndarray) -> bytes:
    return blake2b(x.tobytes() + y.tobytes(), digest_size=16).digest()


def _matched_distance(points: _Points, rows: np.ndarray) -> float:
    """The least sum of distances |z_i + z_pi(i)| over all permutations pi."""
    z = points[rows]
    distances = cdist(z, -z)
    return float(distances[linear_sum_assignment(distances)].sum())


def _nearest_distance(points: _Points, rows: np.ndarray, count: int) -> float:
    """The sum over the points of the distance to the nearest mirror image, from `count` of the points."""
    sample = points[rows[np.linspace(0, len(rows) - 1, count).astype(int)]]
    nearest, best = np.zeros(count, dtype=int), np.full(count, np.inf)
    for block, z in points.blocks(rows):
        # |a + b|^2 = |a|^2 + |b|^2 + 2ab finds the nearest; its own distance is taken without cancellation.
        found = (z**2).sum(axis=1) + 2 * sample @ z.T
        closest = found.argmin(axis=1)
        least = found[np.arange(count), closest]
        nearest = np.where(least < best, block[closest], nearest)
        best = np.minimum(least, best)
    total = float(np.linalg.norm(sample + points[nearest], axis=1).sum())
    return total * len(rows) / count
