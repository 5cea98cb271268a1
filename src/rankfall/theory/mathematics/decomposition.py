r"""A (leaky) ReLU network as a multilinear function of its weights and a network that knows only their signs.

Over all paths P from an input to the output, $f(x; w) = \sum_P x_{in(P)} \prod_{e\in P} w_e \prod_{v\in P}
\sigma'_v(x)$: multilinear in the weights, as long as no neuron changes its mind. The $\sigma'_v$ still depend
on the moduli of the weights. Unrolled into a tree, in which every path has a leaf of its own, they do not: by
positive homogeneity every $|w_e|$ can be pulled through the activations down to the leaves, and $f(x; w)$ is
$T(\pi)$ with $\pi_P = x_{in(P)} \prod_{e\in P} |w_e|$ and a tree T whose weights are the signs of the $w_e$.
(Le and Jegelka 2022.) On the network itself, where paths share neurons, this would be false.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rankfall.network import Network

MOST = 10_000_000  # paths times samples


def path_coefficients(network: Network) -> Float[np.ndarray, "d *hidden k"]:
    r"""The products $\prod_{e\in P} w_e$ of all paths: one axis each for input, hidden layers, output."""
    _check(network, 1)
    return _along_paths([np.asarray(w, dtype=float) for w in network.weights])


def path_activity(network: Network, x: ArrayLike) -> Float[np.ndarray, "n d *hidden"]:
    r"""What reaches the end of each path with all weights 1: $x_{in(P)} \prod_{v\in P} \sigma'_v(x)$."""
    x = np.atleast_2d(np.asarray(x, dtype=float))
    _check(network, len(x))
    active, hidden = x, network.preactivations(x)[:-1]
    for layer, h in enumerate(hidden, start=1):
        slopes = (
            np.where(h > 0, 1.0, float(network.slope)) if layer in network.activated else np.ones(h.shape)
        )
        active = active[..., None] * slopes.reshape(len(x), *[1] * layer, -1)
    return active


def sum_over_paths(network: Network, x: ArrayLike) -> Float[np.ndarray, "n k"]:
    """The outputs, as the sum over all paths of their activity times their coefficients."""
    activity, coefficients = path_activity(network, x), path_coefficients(network)
    return activity.reshape(len(activity), -1) @ coefficients.reshape(-1, network.outputs)


def sign_tree(network: Network, x: ArrayLike) -> Float[np.ndarray, "n k"]:
    r"""The outputs, by the tree of the signs: moduli enter at its leaves only, as $x_{in(P)}\prod|w_e|$."""
    x = np.atleast_2d(np.asarray(x, dtype=float))
    _check(network, len(x))
    moduli = _along_paths([np.abs(np.asarray(w, dtype=float)) for w in network.weights])
    signal = x.reshape(*x.shape, *[1] * (moduli.ndim - 1)) * moduli  # (n, d, m_1, ..., k): the leaves
    for layer, w in enumerate(network.weights, start=1):
        # A copy of a neuron for each way from it to the output: (in, out, above...) -> (out, above...).
        signs = np.sign(w).T.reshape(1, *w.T.shape, *[1] * (signal.ndim - 3))
        signal = (signs * signal).sum(axis=1)
        if layer in network.activated:
            signal = np.where(signal > 0, signal, float(network.slope) * signal)
    return signal


def _along_paths(weights: list[np.ndarray]) -> np.ndarray:
    """The products of the entries along every path, (d, m_1, ..., k)."""
    products = weights[0].T
    for w in weights[1:]:
        products = products[..., None] * w.T
    return products


def _check(network: Network, samples: int) -> None:
    if network.has_bias or network.has_skips:
        raise ValueError(f"the sum over paths is for networks without biases and skips; this is {network!r}.")
    count = int(np.prod(network.widths, dtype=object)) * samples
    if count > MOST:
        raise ValueError(
            f"{network!r} has {count // samples:,} paths, on {samples} samples more than {MOST:,} numbers: "
            "take fewer neurons or layers."
        )
