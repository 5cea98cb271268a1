"""The time course of a two-layer bias-free (leaky) ReLU network on white, symmetric data, in closed form.

Zhang, Saxe and Latham 2024, Corollary 14 (eq. 38), with $u_0$ the norm of the scaled weights: docs/errata.md.
"""

import numpy as np
from jaxtyping import Float

from rankfall.network import Network


def time_course(
    times: Float[np.ndarray, " t"],
    beta: Float[np.ndarray, " d"],
    r: Float[np.ndarray, " d"],
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
    unit, s = _direction(beta)
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


def _direction(beta: Float[np.ndarray, " d"]) -> tuple[Float[np.ndarray, " d"], float]:
    s = float(np.linalg.norm(beta))
    if not s > 0:
        raise ValueError("inputs and targets are uncorrelated (beta = 0): nothing grows.")
    return np.asarray(beta) / s, s


def effective_start(network: Network, beta: Float[np.ndarray, " d"]) -> tuple[Float[np.ndarray, " d"], float]:
    r"""The direction r and the norm u0 of the rank-one start that small random weights soon look like.

    Early on only $r_1 = (W_1 \bar\beta + W_2^T)/2$ grows (Theorem 13), so that r is $\bar\beta$ and
    $u_0 = \sqrt{c}\,\|r_1\|$.
    """
    if network.depth != 2 or network.outputs != 1:
        raise ValueError(f"the time course is that of two layers with one output; this is {network!r}.")
    unit, _ = _direction(beta)
    first, second = network.weights
    grows = (first @ unit + second[0]) / 2
    return unit, float(np.sqrt(network.mean_slope) * np.linalg.norm(grows))
