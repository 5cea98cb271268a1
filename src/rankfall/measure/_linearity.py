"""How close a network is to a linear map, and to its linear twin."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from rankfall._precision import Array
from rankfall.data import Data
from rankfall.measure._core import measured
from rankfall.measure._fit import norm
from rankfall.network import Network


@measured("fraction of the output explained by a linear map", invariant=True)
def linearity(network: Network, data: Data) -> Float[Array, ""]:
    r"""$1 - \min_B \sum_i |f(x_i) - B x_i|^2 / \sum_i |f(x_i)|^2$ on the data.

    With biases the map is affine, and the output is taken about its mean. With no more samples than
    features every output is linear on the data: then ask `fresh_linearity`.
    """
    f = _columns(network(data.x))
    basis = _inputs(network, data.x)
    fit = basis @ jnp.linalg.lstsq(basis, f)[0]
    return _explained(network, f, fit)


@measured("fraction of the output explained by a linear map on fresh inputs", invariant=True)
def fresh_linearity(network: Network, data: Data, seed: int = 0) -> Float[Array, ""]:
    """The same on Gaussian inputs with the data's second moments: fitted on one half, judged on the other."""
    n, d = data.x.shape
    root = (data.x if n <= d else jnp.linalg.qr(data.x, mode="r")) / np.sqrt(n)  # root^T root = <x x^T>
    count = 2 * (4 * min(n, d) + 1000)
    x = jnp.asarray(np.random.default_rng(seed).normal(size=(count, len(root))), dtype=root.dtype) @ root
    f, basis = _columns(network(x)), _inputs(network, x)
    half = count // 2
    fit = basis[half:] @ jnp.linalg.lstsq(basis[:half], f[:half])[0]
    return _explained(network, f[half:], fit)


def _explained(network: Network, f: Any, fit: Any) -> Any:
    largest = jnp.maximum(jnp.abs(f).max(), jnp.finfo(f.dtype).tiny)  # so that no square vanishes
    f, fit = f / largest, fit / largest
    centre = f.mean(axis=0) if network.has_bias else 0.0
    total = ((f - centre) ** 2).sum()
    return 1 - ((f - fit) ** 2).sum() / jnp.where(total > 0, total, 1.0)


def _columns(f: Any) -> Any:
    return f[:, None] if f.ndim == 1 else f


def _inputs(network: Network, x: Any) -> Any:
    return jnp.column_stack([x, jnp.ones(len(x), x.dtype)]) if network.has_bias else x


@measured("relative distance to the linear twin", invariant=True)
def distance_to_twin(network: Network, twin: Network) -> Float[Array, ""]:
    r"""$\|\sqrt{c}\,W - W^{lin}\| / \|W^{lin}\|$ with $c = (1+\alpha)/2$ (Zhang et al., Fig. 3)."""
    root = jnp.sqrt(jnp.asarray(network.mean_slope))
    apart = [root * w - v for w, v in zip(network.weights, twin.weights, strict=True)]
    return norm(apart) / norm(twin.weights)
