r"""Polynomials in time: collocation at Radau's points, and where a polynomial first becomes negative.

On a step of length h the solution of $\dot u = v(u)$ is the polynomial of degree `STAGES` whose derivative is
right at the nodes $c_k$ (Radau IIA, of order 2 STAGES - 1 at the end of the step, L-stable). With
$A_{kl} = \int_0^{c_k} \ell_l$ that is $u(c_k h) = u(0) + h \sum_l A_{kl} v_l$. The polynomial is as good
inside the step as its error estimate says, so an event is a root of it, and a step can be cut there.
"""

import numpy as np
from numpy.polynomial import legendre
from scipy.optimize import brentq
from scipy.special import comb

STAGES = 7


def _radau(stages: int) -> np.ndarray:
    """The right Radau points on [0, 1]: the zeros of P_s - P_{s-1}, of which 1 is the last."""
    difference = np.zeros(stages + 1)
    difference[-2:] = -1.0, 1.0
    nodes = (np.sort(legendre.legroots(difference).real) + 1) / 2
    nodes[-1] = 1.0
    return nodes


def _integrated(theta: np.ndarray, degree: int) -> np.ndarray:
    """The integrals from 0 to theta of the shifted Legendre polynomials up to a degree."""
    values = legendre.legvander(2 * theta - 1, degree + 1)
    integrals = np.empty((len(theta), degree + 1))
    integrals[:, 0] = theta
    for k in range(1, degree + 1):  # (2k+1) P_k = P'_{k+1} - P'_{k-1}, and it vanishes at 0
        integrals[:, k] = (values[:, k + 1] - values[:, k - 1]) / (2 * (2 * k + 1))
    return integrals


def _bernstein(theta: np.ndarray, degree: int) -> np.ndarray:
    """The Bernstein polynomials of a degree at theta, one row a point."""
    k = np.arange(degree + 1)
    t = np.atleast_1d(theta)[:, None]
    return comb(degree, k) * t**k * (1 - t) ** (degree - k)


NODES = _radau(STAGES)
GRID = np.concatenate([[0.0], NODES])  # where a path is known: the start of the step, and the nodes
_TO_LEGENDRE = np.linalg.inv(legendre.legvander(2 * NODES - 1, STAGES - 1))
INTEGRAL = _integrated(NODES, STAGES - 1) @ _TO_LEGENDRE
TAIL = _TO_LEGENDRE[-2:]  # the last two Legendre coefficients: what the polynomial fails to resolve
_TO_BERNSTEIN = np.linalg.inv(_bernstein(GRID, STAGES))
_LEFT = np.array(
    [[comb(i, j) / 2**i if j <= i else 0.0 for j in range(STAGES + 1)] for i in range(STAGES + 1)]
)
_RIGHT = _LEFT[::-1, ::-1]  # de Casteljau's halves


def at(theta: float | np.ndarray) -> np.ndarray:
    """The weights that give a path at theta in [0, 1] from its values on `GRID`; one row for each theta."""
    weights = _bernstein(np.asarray(theta), STAGES) @ _TO_BERNSTEIN
    return weights if np.ndim(theta) else weights[0]


def first_exit(paths: np.ndarray, tolerance: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Where the first of the `paths` (one a row, by its values on `GRID`) falls below minus its tolerance.

    Returns the place in [0, 1] and the numbers of all rows that do so there; None if none does. Bernstein
    coefficients bound a polynomial from below, so that no crossing is overlooked, not even one to and fro.
    """
    if not len(paths):
        return None
    coefficients = (paths + tolerance[:, None]) @ _TO_BERNSTEIN.T
    rows = np.arange(len(paths))
    return _first_exit(coefficients, rows, 0.0, 1.0)


def _first_exit(c: np.ndarray, rows: np.ndarray, low: float, high: float) -> tuple[float, np.ndarray] | None:
    below = c.min(axis=1) < 0
    if not below.any():
        return None
    c, rows = c[below], rows[below]
    if high - low < 1e-4 or (np.diff(c, axis=1) < 0).all():
        return _roots(c, rows, low, high)
    middle = (low + high) / 2
    earlier = _first_exit(c @ _LEFT.T, rows, low, middle)
    return earlier or _first_exit(c @ _RIGHT.T, rows, middle, high)


def _roots(c: np.ndarray, rows: np.ndarray, low: float, high: float) -> tuple[float, np.ndarray] | None:
    """The same where each row falls at most once."""
    roots = np.full(len(c), np.inf)
    for i, row in enumerate(c):
        if row[0] < 0:
            roots[i] = low
        elif row[-1] < 0:
            inside = brentq(
                lambda t, row=row: (_bernstein(np.asarray(t), STAGES) @ row)[0], 0.0, 1.0, xtol=1e-15
            )
            roots[i] = low + inside * (high - low)
    first = roots.min()
    return None if np.isinf(first) else (float(first), rows[roots <= first + 1e-13])
