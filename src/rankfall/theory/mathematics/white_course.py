"""The closed form of the time course of two layers on white, symmetric data.

Zhang, Saxe and Latham 2024, Corollary 14 (eq. 38), with $u_0$ the norm of the scaled weights: docs/errata.md.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from rankfall.network import Network

Course = Callable[[np.ndarray], np.ndarray]


def time_course(
    times: ArrayLike,
    beta: ArrayLike,
    r: ArrayLike,
    u0: float,
    slope: float,
) -> Float[np.ndarray, "t d"]:
    r"""The linear map $w(t)$ that the network computes, one row for each time.

    **Arguments:**

    - `times`: the times t of the flow on the mean square loss.
    - `beta`: $\langle y x\rangle$, with $\langle x x^T\rangle = I$.
    - `r`: the unit vector of $W_1 = W_2^T r^T$ at the start (Assumption 4).
    - `u0`: $\sqrt{c}\,\|W_1(0)\|$, the norm of the *scaled* weights, $c = (1+\alpha)/2$.
    - `slope`: the leaky slope $\alpha$.
    """
    unit, s = direction_of(beta)
    t = (1 + slope) / 2 * np.asarray(times, dtype=float)[:, None]
    r = np.asarray(r)
    along = r @ unit
    q1, q2 = 1 - along, 1 + along
    late = s * t > 350  # there e^2 is next to nothing; kept above zero, so that r = -unit is not 0/0
    e, t = np.exp(-np.where(late, 350.0, s * t)), np.where(late, 0.0, t)
    # Eq. (38) with both brackets multiplied by (q2 u0)^2, so that r = -unit and u0 = 0 are no exceptions.
    top = u0**2 * (q2 + q1 * e**2) * (unit * (q2 - q1 * e**2) + 2 * (r - along * unit) * e)
    rest = (1 - along**2) * t * 4 * e**2 + (q2**2 + q1**2 * e**2) * (1 - e**2) / s
    return np.asarray(top / (4 * e**2 + u0**2 * rest))


def direction_of(beta: ArrayLike) -> tuple[Float[np.ndarray, " d"], float]:
    """beta / |beta|, and |beta|."""
    s = float(np.linalg.norm(beta))
    if not s > 0:
        raise ValueError("inputs and targets are uncorrelated (beta = 0): nothing grows.")
    return np.asarray(beta) / s, s


def effective_start(network: Network, beta: ArrayLike) -> tuple[Float[np.ndarray, " d"], float]:
    r"""The direction r and the norm u0 of the rank-one start that small random weights soon look like.

    Early on only $r_1 = (W_1 \bar\beta + W_2^T)/2$ grows (Theorem 13), so that r is $\bar\beta$ and
    $u_0 = \sqrt{c}\,\|r_1\|$.
    """
    if network.depth != 2 or network.outputs != 1:
        raise ValueError(f"the time course is that of two layers with one output; this is {network!r}.")
    unit, _ = direction_of(beta)
    first, second = network.weights
    grows = (first @ unit + second[0]) / 2
    return unit, float(np.sqrt(network.mean_slope) * np.linalg.norm(grows))


# From weights of rank one


def half_time(course: Course, beta: np.ndarray, u0: float, slope: float, clock: float = 1) -> float | None:
    """The time from which on w(t) along beta is more than half of beta; None if it is from the start."""
    unit, s = direction_of(beta)

    def missing(t: float) -> float:
        return float(course(np.array([t]))[0] @ unit) - s / 2

    # While small, w is about (q2 u0 / 2)^2 e^(2 s c t): the last of these times is late for any q2 > e^-60.
    end = (60 + 4 * max(0.0, -np.log(u0 / np.sqrt(s)))) * 2 / (s * (1 + slope) * clock) if u0 > 0 else 0.0
    times = np.linspace(0, end, 2001)
    below = np.flatnonzero(course(times) @ unit < s / 2)
    if not len(below) or below[-1] == len(times) - 1:
        return None
    return float(brentq(missing, times[below[-1]], times[below[-1] + 1], xtol=1e-14 * end))
