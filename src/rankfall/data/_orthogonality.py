"""The angles between the inputs: are they nearly orthogonal, are their classes orthogonally separable?

All pairs of inputs are looked at, a tile of the Gram matrix at a time and each pair once: 60,000 images need
no more memory than a few of them. Inner products are taken in float64, whatever the precision of the data.
With `bias=True` the coordinate 1 is appended to each input first: a network with biases sees (x, 1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ._dataset import Data
from ._facts import once
from ._svm import inputs, labels

TILE = 1024  # rows of the Gram matrix at a time: enough for a fast product, and 8 MB


@dataclass(frozen=True)
class Angles:
    """What the pairs i < j of n inputs of two classes say about orthogonality.

    - `within`, `across`: the least and the largest cosine of two inputs of one class, and of two classes.
    - `wrong_within`: the share of the pairs of one class with an inner product <= 0, and `wrong_across`: that
      of the pairs of two classes with one > 0. Both are 0 for orthogonally separable data.
    - `wrong`: the share of all pairs that are one or the other.
    - `products`: the least and the largest inner product; `norms`: the least and the largest norm.
    """

    n: int
    within: tuple[float, float]
    across: tuple[float, float]
    wrong_within: float
    wrong_across: float
    wrong: float
    products: tuple[float, float]
    norms: tuple[float, float]

    @property
    def mu(self) -> float:
        """The number `orthogonal_margin`."""
        return min(self.within[0], -self.across[1])

    def p(self, bias: bool = False) -> float:
        """The number `p_orthogonality`; with `bias` that of the same inputs with the coordinate 1."""
        one = 1.0 if bias else 0.0
        shortest, longest = (norm**2 + one for norm in self.norms)
        largest = max(abs(product + one) for product in self.products)
        if shortest == 0:
            return 0.0
        return shortest**2 / (longest * self.n * largest) if largest > 0 else float("inf")


@once
def angles(data: Data) -> Angles:
    """The extreme angles within and across the classes, and how many pairs are on the wrong side.

    Phuong and Lampert (2021) ask for <x_i, x_j> > 0 within a class and <= 0 across; Frei et al. (2023) for
    inner products that are small beside the norms. What is zero up to rounding counts as zero, and an input 0
    has the cosine 0 with all. If both classes have one sample only, `within` is (1, 1). For inputs with the
    coordinate 1 take `angles(with_bias(data))`.
    """
    y, sizes = labels(data), norms(data)
    zero, scale = _rounding(data), float(sizes.max()) or 1.0
    extremes = {True: [1.0, -1.0], False: [1.0, -1.0]}
    wrong, pairs = {True: 0, False: 0}, {True: 0, False: 0}
    products = [np.inf, -np.inf]
    for same, inner, lengths in _tiles(data, sizes / scale, scale, _of_each_class(y)):
        products = [min(products[0], float(inner.min())), max(products[1], float(inner.max()))]
        cosines = _cosines(inner, lengths)
        least, largest = float(cosines.min()), float(cosines.max())
        extremes[same] = [min(extremes[same][0], least), max(extremes[same][1], largest)]
        wrong[same] += int((cosines <= zero if same else cosines > zero).sum())
        pairs[same] += cosines.size
    if not pairs[True]:
        extremes[True] = [1.0, 1.0]
    return Angles(
        data.n,
        (extremes[True][0], extremes[True][1]),
        (extremes[False][0], extremes[False][1]),
        wrong[True] / max(pairs[True], 1),
        wrong[False] / pairs[False],
        (wrong[True] + wrong[False]) / (pairs[True] + pairs[False]),
        (scale**2 * _beyond(zero, products[0]), scale**2 * _beyond(zero, products[1])),
        (float(sizes.min()), float(sizes.max())),
    )


@once
def is_orthogonally_separable(data: Data, bias: bool = False) -> bool:
    """Is <x_i, x_j> > 0 for all i, j of one class and <= 0 for i, j of two? (Phuong and Lampert 2021.)

    Cosines that are zero up to rounding, d times the machine epsilon, count as zero.
    """
    y, sizes, zero = labels(data), norms(data, bias), _rounding(data)
    if not sizes.min() > 0:
        return False
    for same, inner, lengths in _tiles(data, sizes, 1.0, _of_each_class(y), bias):
        cosines = _cosines(inner, lengths)
        if (cosines <= zero).any() if same else (cosines > zero).any():
            return False
    return True


@once
def orthogonal_margin(data: Data, bias: bool = False) -> float:
    """The number mu = min_{i, j} y_i y_j cos(x_i, x_j) of Min, Mallada and Vidal, ICLR 2024.

    Positive: orthogonally separable with room to spare. Negative: not. Zero: `is_orthogonally_separable`
    decides, since two classes may be orthogonal, but two points of one class may not. An input 0 has
    cosine 0.
    """
    y, sizes = labels(data), norms(data, bias)
    mu = 1.0
    for same, inner, lengths in _tiles(data, sizes, 1.0, _of_each_class(y), bias):
        cosines = _cosines(inner, lengths)
        mu = min(mu, float(cosines.min() if same else -cosines.max()))
    return mu


@once
def largest_cosine(data: Data, bias: bool = False) -> float:
    """The largest modulus of the cosine of the angle between two inputs; an input 0 counts as 1.

    What is zero up to rounding, d times the machine epsilon, is zero.
    """
    x, sizes = inputs(data, bias), norms(data, bias)
    if not sizes.min() > 0:
        return 1.0
    unit = x / sizes[:, None]
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, 0.0)
    largest = float(np.abs(cosines).max())
    return 0.0 if largest <= x.shape[1] * np.finfo(float).eps else largest


@once
def p_orthogonality(data: Data, bias: bool = False) -> float:
    """The largest p for which the inputs are p-orthogonal (Frei et al. 2023, COLT, Definition 1):

        p = R_min^2 / (R^2 n zeta),   zeta = max_{i != j} |<x_i, x_j>|,   R = R_max / R_min,

    with R_min and R_max the extreme norms of the inputs. Infinite if they are orthogonal up to rounding,
    that is zeta <= d eps R_max^2, and 0 if an input is zero.
    """
    sizes = norms(data, bias)
    smallest, largest = float(sizes.min()), float(sizes.max())
    if smallest == 0:
        return 0.0
    tiles = _tiles(data, sizes / largest, largest, [np.arange(data.n)], bias)
    zeta = max((float(np.abs(inner).max()) for _, inner, _ in tiles), default=0.0)
    if zeta <= _rounding(data):
        return float("inf")
    return (smallest / largest) ** 4 / (data.n * zeta)


def _tiles(
    data: Data,
    sizes: np.ndarray,
    scale: float,
    groups: list[np.ndarray],
    bias: bool = False,
    tile: int = TILE,
) -> Iterator[tuple[bool, np.ndarray, np.ndarray]]:
    """Every pair of inputs once: are both of one group, their products / scale^2, those of their `sizes`."""
    parts = [(k, rows[i : i + tile]) for k, rows in enumerate(groups) for i in range(0, len(rows), tile)]
    for first, (k, rows) in enumerate(parts):
        left = _inputs(data, rows, bias) / scale
        if len(rows) > 1:
            above = np.triu_indices(len(rows), 1)
            yield True, (left @ left.T)[above], np.outer(sizes[rows], sizes[rows])[above]
        for other, columns in parts[first + 1 :]:
            right = _inputs(data, columns, bias) / scale
            yield k == other, left @ right.T, np.outer(sizes[rows], sizes[columns])


def _of_each_class(y: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(y == sign) for sign in (1, -1)]


def _beyond(zero: float, value: float) -> float:
    return value if abs(value) > zero else 0.0


def _cosines(inner: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)


def _inputs(data: Data, rows: np.ndarray, bias: bool) -> np.ndarray:
    """Some of the inputs in float64."""
    x = data.x[rows].astype(float)
    return np.concatenate([x, np.ones((len(x), 1))], axis=1) if bias else x


@once
def norms(data: Data, bias: bool = False, *, tile: int = TILE) -> np.ndarray:
    """The norms of the inputs, taken a `tile` of rows at a time."""
    parts = [np.arange(start, min(start + tile, data.n)) for start in range(0, data.n, tile)]
    return np.concatenate([np.linalg.norm(_inputs(data, rows, bias), axis=1) for rows in parts])


def _rounding(data: Data) -> float:
    """The largest cosine that rounding of the inputs can make of orthogonal vectors."""
    return float(data.dim * np.finfo(data.x.dtype).eps)
