r"""The KKT conditions of the margin problem, checked from scratch at a point.

$\min \frac12|\theta|^2$ with $y_i f(x_i; \theta) \ge 1$: there are $\lambda_i \ge 0$ with $\theta = \sum_i
\lambda_i h_i$ and $\lambda_i (y_i f(x_i) - 1) = 0$, where $h_i$ is in Clarke's subdifferential of $y_i f(x_i;
\cdot)$: every slope is that of its side of the kink, and at the kink any number in [alpha, 1] (Lyu and Li
2020).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Point:
    """A network of two layers with multipliers and slopes; a bias is the weight of a coordinate 1."""

    w: np.ndarray  # (m, k)
    a: np.ndarray  # (m)
    multipliers: np.ndarray  # (n)
    slopes: np.ndarray  # (m, n): those of Clarke's subdifferential, also at the kinks

    def scaled(self, factor: float, both: bool) -> "Point":
        """The point times a factor; its slopes stay, and where f is 2-homogeneous the multipliers too."""
        a = self.a * factor if both else self.a
        multipliers = self.multipliers if both else self.multipliers * factor
        return Point(self.w * factor, a, multipliers, self.slopes)


@dataclass(frozen=True)
class Residuals:
    """What is missing to each condition; all are relative, and zero at a KKT point.

    - `stationarity`: $|\\theta - \\sum_i \\lambda_i h_i| / |\\theta|$
    - `feasibility`: $1 - \\min_i y_i f(x_i)$, if positive
    - `complementarity`: $\\max_i \\lambda_i |y_i f(x_i) - 1| / \\sum_i \\lambda_i$
    - `slopes`: how far slopes are outside of [alpha, 1]
    - `signs`: the largest $|w_j \\cdot x_i| / (|x_i| \\max_j |w_j|)$ of a pair whose slope is not that of its
        side
    - `multipliers`: how negative multipliers are, relative to the largest
    """

    stationarity: float
    feasibility: float
    complementarity: float
    slopes: float
    signs: float
    multipliers: float

    @property
    def largest(self) -> float:
        """The largest of them."""
        return max(vars(self).values())


def margins(point: Point, x: np.ndarray, y: np.ndarray, slope: float) -> np.ndarray:
    """y_i f(x_i), by the forward pass alone."""
    z = point.w @ x.T
    return y * (point.a @ np.where(z > 0, z, slope * z))


def residuals(
    point: Point, x: np.ndarray, y: np.ndarray, slope: float, both: bool, dead: np.ndarray | None = None
) -> Residuals:
    """The residuals of the KKT conditions; `both`: the second layer is trained too.

    Of `dead` samples no margin is asked: all outputs on them are to be zero instead.
    """
    w, a, multipliers, slopes = point.w, point.a, point.multipliers, point.slopes
    z = w @ x.T
    pulls = slopes * (multipliers * y)
    rest = ((w - a[:, None] * (pulls @ x)) ** 2).sum()
    size = (w**2).sum()
    if both:
        rest += ((a - (pulls * z).sum(axis=1)) ** 2).sum()
        size += (a**2).sum()
    q = margins(point, x, y, slope)
    if dead is not None:
        q = np.where(dead, 1 + q, q)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(w, axis=1).max()
    lengths = np.where(lengths > 0, lengths, 1.0)
    wrong = np.where(z > 0, slopes != 1, slopes != slope) & (z != 0)
    outside = np.maximum(slope - slopes, slopes - 1)
    return Residuals(
        stationarity=float(np.sqrt(rest / size)),
        feasibility=max(0.0, 1 - float(q.min())),
        complementarity=float((np.abs(multipliers) * np.abs(q - 1)).max() / np.abs(multipliers).sum()),
        slopes=max(0.0, float(outside.max())),
        signs=float(np.where(wrong, np.abs(z) / lengths, 0.0).max()),
        multipliers=max(0.0, -float(multipliers.min() / np.abs(multipliers).max())),
    )
