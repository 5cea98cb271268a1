r"""The low-rank form that the weights of deep bias-free networks fall to on symmetric data.

With unit vectors r and $g_1, \dots, g_{L-1}$ whose positive and negative entries weigh the same,

$W_1 = u_1\,g_1 r^T$, $W_l = u_l\,(\mu_l\,g_l g_{l-1}^T + \nu_l\,|g_l||g_{l-1}|^T)$, $W_L = u_L\,g_{L-1}^T$,

with $\mu_l^2 + \nu_l^2 = 1$: then $u_l$ is the norm of the layer and $f(x) = G u_1 \cdots u_L\,r\cdot x$. The
ratio $\nu_l : \mu_l$ is the one with the largest G: 1 for ReLU (eq. 40 of Zhang et al.), 0 for linear.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankfall.loss import Loss
from rankfall.network import Network


def gain(depth: int, slope: float) -> tuple[float, np.ndarray]:
    r"""The largest G of layers of norm one, and the $(\mu_l, \nu_l)$ of the middle layers that reach it.

    Between the parts along $g_l$ and $|g_l|$ an activation is the matrix ((c, b), (b, c)) with
    $c, b = (1 \pm \alpha)/2$: G is the entry of the product of all along $g$. ReLU has $2^{-L/2}$.
    """
    c, b = (1 + slope) / 2, (1 - slope) / 2
    activation = np.array([[c, b], [b, c]])
    middle = np.tile([1.0, 1.0] / np.sqrt(2), (depth - 2, 1))
    value, before = c, np.zeros_like(middle)
    while np.abs(middle - before).max(initial=0.0) > 1e-14:  # every layer is made the best for the others
        before = middle.copy()
        for layer in range(depth - 2):
            forward, backward = activation[0], activation[0]
            for m in middle[:layer]:
                forward = activation @ (m * forward)
            for m in middle[:layer:-1]:
                backward = activation @ (m * backward)
            value = float(np.linalg.norm(forward * backward))
            middle[layer] = forward * backward / value
    return value, middle


def blocks(network: Network) -> tuple[np.ndarray, ...]:
    """Which hidden neurons belong to the positive chain: True or False, one array for each hidden layer.

    They are those with a positive entry in the product of the layers above.
    """
    above, found = np.asarray(network.weights[-1][0], dtype=float), []
    for w in network.weights[-2::-1]:
        found.append(above > 0)
        above = above @ w / (np.linalg.norm(above @ w) or 1.0)
    return tuple(found[::-1])


def sorted_by_blocks(network: Network) -> Network:
    """The same function with its hidden neurons permuted: the positive chain first, then the other."""
    weights = [np.asarray(w) for w in network.weights]
    for layer, positive in enumerate(blocks(network)):
        order = np.argsort(~positive, kind="stable")
        weights[layer], weights[layer + 1] = weights[layer][order], weights[layer + 1][:, order]
    return Network(weights, None, float(network.slope), network.trained, network.linear_tail)


def chains(network: Network) -> np.ndarray:
    """The norms (2, L) of the blocks that the positive and the other chain have in each layer."""
    own = (np.ones(network.widths[0], bool), *blocks(network), np.ones(1, bool))
    norms = np.zeros((2, network.depth))
    for layer, w in enumerate(network.weights):
        for which in (0, 1):
            ins = own[layer] != bool(which and layer > 0)
            outs = own[layer + 1] != bool(which and layer + 1 < network.depth)
            norms[which, layer] = np.linalg.norm(w[np.ix_(outs, ins)])
    return norms


def outside(network: Network) -> np.ndarray:
    """The share of each middle layer's squared norm outside the two blocks, or negative within them."""
    shares, own = [], blocks(network)
    for w, ins, outs in zip(network.weights[1:-1], own[:-1], own[1:], strict=True):
        within = np.equal.outer(outs, ins) & (w > 0)
        shares.append(1 - (w[within] ** 2).sum() / ((w**2).sum() or 1.0))
    return np.array(shares)


@dataclass(frozen=True)
class Form:
    """Weights of the form above: the norm of each layer, the vectors g and r, and the slope."""

    norms: np.ndarray
    g: tuple[np.ndarray, ...]
    r: np.ndarray
    slope: float

    def layers(self) -> list[np.ndarray]:
        """The weights, each of norm one."""
        g = self.g
        pairs = zip(gain(len(g) + 1, self.slope)[1], g[1:], g[:-1], strict=True)
        middle = [
            mu * np.outer(out, into) + nu * np.outer(abs(out), abs(into)) for (mu, nu), out, into in pairs
        ]
        return [np.outer(g[0], self.r), *middle, g[-1][None, :]]


def _halves(size: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """The unit vector with these sizes up to a factor for each sign, and equal norms of the two signs."""
    norms = np.where(positive, np.linalg.norm(size[positive]), np.linalg.norm(size[~positive]))
    return np.asarray(np.where(positive, size, -size) / np.where(norms > 0, norms, 1.0) / np.sqrt(2))


def form(network: Network) -> tuple[Form, float]:
    """The form next to the weights of a network, and how far they are from it, relative to their norms."""
    weights = [np.asarray(w, dtype=float) for w in network.weights]
    layers = zip(weights[1:], blocks(network), strict=True)
    g = [_halves(np.linalg.norm(above, axis=0), positive) for above, positive in layers]
    r = g[0] @ weights[0]
    norms = np.array([np.linalg.norm(w) for w in weights])
    slope = 1.0 if network.linear_tail == network.depth else float(network.slope)
    found = Form(norms, tuple(g), r / (np.linalg.norm(r) or 1.0), slope)
    off = [np.linalg.norm(w - u * f) for w, u, f in zip(weights, norms, found.layers(), strict=True)]
    return found, float(np.max(np.where(norms > 0, off / np.where(norms > 0, norms, 1.0), 1.0)))


def low_rank(widths: tuple[int, ...], slope: float, scale: float, r: np.ndarray, seed: int) -> Network:
    """A network of exactly this form: every layer has the norm `scale`, and the g are random."""
    if len(widths) < 4 or widths[-1] != 1 or min(widths[1:-1]) < 2:
        raise ValueError(
            f"this form is that of three layers or more with two neurons or more in each and one output, "
            f"not of widths {widths}."
        )
    rng = np.random.default_rng(seed)
    g = [_halves(np.abs(rng.normal(size=m)), np.arange(m) < m // 2) for m in widths[1:-1]]
    made = Form(np.full(len(g) + 1, scale), tuple(g), np.asarray(r) / np.linalg.norm(r), slope)
    return Network([scale * w for w in made.layers()], slope=slope, origin=f"low_rank(seed={seed})")


def chain_velocity(x: np.ndarray, y: np.ndarray, loss: Loss) -> Callable[[np.ndarray], np.ndarray]:
    """The gradient flow of a linear network of width one, with weights (v, u_2, ..., u_L), as a function."""
    each = 1.0 if loss.reduction == "sum" else 1 / len(y)

    def velocity(state: np.ndarray) -> np.ndarray:
        v, u = np.split(state, [x.shape[1]])
        f = x @ v * np.prod(u)
        pull = each * x.T @ loss.pulls(f, y)
        others = np.array([np.prod(np.delete(u, layer)) for layer in range(len(u))])
        return np.concatenate([np.prod(u) * pull, others * (v @ pull)])

    return velocity
