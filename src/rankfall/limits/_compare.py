r"""A limit beside linear classifiers: the hard-margin SVM, and the network's own linear predictor.

If all neurons of one sign point in one direction and the slope is positive, then
$\operatorname{sign} f(x) = \operatorname{sign}\langle z, x\rangle$ with $z = \sum_j a_j w_j$ (Frei et al.
2023, Theorem 3.2).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rankfall.data import Data, hard_margin

_RAY = 1e-8  # the sine of the angle within which directions are one ray
_PROBES = 4096


class Boundary(StrEnum):
    """Is the set f = 0 a hyperplane?"""

    LINEAR = "linear"
    NOT_LINEAR = "not linear"
    LINEAR_ON_PROBES = "linear on all probes"  # tried, and not proved


@dataclass(frozen=True)
class Comparison:
    """A limit beside the hard-margin SVM; margins are those of unit vectors.

    - `boundary`: a `Boundary`, and the `reason`.
    - `angle`: between z and the SVM, in degrees; `margin` and `svm_margin`: the smallest $y_i \\langle z,
        x_i\\rangle/|z|$ and the largest possible; nan where the data are not linearly separable, or z is
        zero.
    """

    boundary: Boundary
    reason: str
    z: np.ndarray
    margin: float
    svm: np.ndarray | None
    svm_margin: float
    angle: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "boundary", Boundary(self.boundary))  # a file has the word alone


def compare(w: np.ndarray, a: np.ndarray, slope: float, x: np.ndarray, y: np.ndarray) -> Comparison:
    """Compare a network (inputs with the coordinate 1, if it has biases) with linear classifiers."""
    z = a @ w
    boundary, reason = _boundary(w, a, slope, z)
    svm = hard_margin(Data(x, y))
    length = float(np.linalg.norm(z))
    margin = float((y * (x @ z)).min() / length) if length > 1e-12 * np.linalg.norm(w) else float("nan")
    if svm is None or svm.w is None:
        return Comparison(boundary, reason, z, margin, None, float("nan"), float("nan"))
    best = svm.w / np.linalg.norm(svm.w)
    angle = float("nan")
    if length > 0:
        unit = z / length
        angle = float(np.degrees(2 * np.arctan2(np.linalg.norm(unit - best), np.linalg.norm(unit + best))))
    return Comparison(boundary, reason, z, margin, best, 1 / np.sqrt(svm.norm2), angle)


def _boundary(w: np.ndarray, a: np.ndarray, slope: float, z: np.ndarray) -> tuple[Boundary, str]:
    """Is the set f = 0 a hyperplane?"""
    if slope == 1:
        return Boundary.LINEAR, "the network is linear"
    spreads = [_spread(w[a > 0]), _spread(w[a < 0])]
    if slope > 0 and max(spreads) <= _RAY:
        return Boundary.LINEAR, f"the neurons of one sign point in one direction (to {max(spreads):.1e})"
    probes = np.random.default_rng(0).normal(size=(_PROBES, w.shape[1]))
    pre = probes @ w.T
    f = np.where(pre > 0, pre, slope * pre) @ a
    linear = probes @ z
    sure = np.abs(f) > 1e-9 * np.abs(a) @ np.abs(pre).max(axis=0)
    wrong = int((sure & (f * linear < 0)).sum())
    if wrong:
        return (
            Boundary.NOT_LINEAR,
            f"f and its linear part differ on {wrong} of {_PROBES} random directions",
        )
    return Boundary.LINEAR_ON_PROBES, f"f and its linear part agree on {_PROBES} random directions; no proof"


def _spread(rows: np.ndarray) -> float:
    """How far rows are from one ray: the largest sine of an angle to the longest, 1 beyond 90 degrees."""
    lengths = np.linalg.norm(rows, axis=1)
    if not len(rows) or not lengths.max() > 0:
        return 0.0
    rows = rows[lengths > 1e-12 * lengths.max()]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    first = units[np.argmax(np.linalg.norm(rows, axis=1))]
    along = units @ first
    across = np.linalg.norm(units - along[:, None] * first, axis=1)
    return float(np.where(along > 0, across, 1.0).max())
