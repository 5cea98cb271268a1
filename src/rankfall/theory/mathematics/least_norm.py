r"""ReLU networks of low rank exist, and networks of least norm that are deep enough must be near low rank.

Timor, Vardi and Shamir 2023. Theorem 1: weights of rank one can fit two samples. Theorems 4 and 5: a network
with k layers of Frobenius norm B that fits can be made deeper without changing what it computes on the data,
and its layers be given one norm. So the layers of the network of least norm for $k' \ge k$ are no larger,
while the product of their spectral norms is 1 at least where an input of norm 1 is mapped to 1. The mean of
the ratios is no smaller than their geometric mean.
"""

import numpy as np

from rankfall.data import Data
from rankfall.network import Network


def rank_one_interpolator(data: Data) -> Network:
    r"""Two neurons whose weights have rank one, with zero loss on two samples (Theorem 1).

    W has the rows u and -u, where $u = x_1/|x_1| - x_2/|x_2|$ is positive on the one input and negative on
    the other. Any dimensions and targets, but the inputs may not point the same way.
    """
    x, y = np.asarray(data.x, float), np.asarray(data.y, float).reshape(len(data.y), -1)
    norms = np.linalg.norm(x, axis=1)
    if len(x) != 2 or not norms.min() > 0:
        found = "an input is zero" if len(x) == 2 else f"there are {len(x)}"
        raise ValueError(f"two samples whose inputs are not zero are needed, but {found}.")
    u = x[0] / norms[0] - x[1] / norms[1]
    if not np.linalg.norm(u) > 1e-14:
        raise ValueError("the two inputs point the same way: no neuron sees only one of them.")
    return Network([np.stack([u, -u]), np.stack([y[0] / (x[0] @ u), -y[1] / (x[1] @ u)], axis=1)])


def interpolation_bound(norm: float, layers: int, depth: int) -> float:
    r"""Theorem 4: the least mean of $|W|_2/|W|_F$ over the layers of a ReLU network of least norm that fits.

    - `norm`: a bound B on the Frobenius norms of the layers of some network with `layers` layers that fits.
    - `depth`: that of the network of least norm, not smaller than `layers`, and no narrower.

    The targets must not be negative, with one of 1 at least at an input of norm 1 at most.
    """
    _check(norm, layers, depth)
    return float(norm ** (-layers / depth))


def margin_bound(norm: float, layers: int, depth: int) -> float:
    r"""Theorem 5: the same for the network of least norm with all margins 1, an input of norm 1 at most.

    With $2^{-1/2k'}$ where the paper has the smaller $\sqrt{k'/(k'+1)}$, k' the `depth`.
    """
    _check(norm, layers, depth)
    return float(2**-0.5 * (2**0.5 / norm) ** (layers / depth) * 2 ** (-0.5 / depth))


def _check(norm: float, layers: int, depth: int) -> None:
    if not (norm > 0 and 1 <= layers <= depth):
        raise ValueError(
            f"a positive norm and 1 <= layers <= depth are needed, not {norm:g}, {layers} and {depth}."
        )
