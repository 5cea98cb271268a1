"""How well a network fits its data: loss, accuracy, outputs and margins."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from rankfall._precision import Array
from rankfall.data import Data
from rankfall.loss import Loss, named
from rankfall.measure._core import compiled, measured
from rankfall.network import Network, moving


@measured("loss", invariant=True)
def loss(network: Network, data: Data, loss: Loss | str) -> Float[Array, ""]:
    """The loss on the data."""
    return _fit(network, data, loss)


@measured("log loss", invariant=True)
def log_loss(network: Network, data: Data, loss: Loss | str) -> Float[Array, ""]:
    """The natural logarithm of the loss on the data; it does not underflow."""
    return named(loss).log(network(data.x), data.y)


@measured("test loss", invariant=True)
def test_loss(network: Network, data: Data, loss: Loss | str) -> Float[Array, ""]:
    """The loss on the test part."""
    return _fit(network, _test_part(data), loss)


@measured("gradient norm", invariant=True)
def gradient_norm(network: Network, data: Data, loss: Loss | str) -> Float[Array, ""]:
    """The Euclidean norm of the gradient of the loss in the trained parameters."""
    trained, fixed = eqx.partition(network, moving(network))
    gradient = jax.grad(lambda part: named(loss)(eqx.combine(part, fixed)(data.x), data.y))(trained)
    return norm(gradient)


@measured("training accuracy", invariant=True)
def accuracy(network: Network, data: Data) -> Float[Array, ""]:
    """The fraction of samples with a positive margin."""
    return (margins.function(network, data) > 0).mean(dtype=float)


@measured("test accuracy", invariant=True)
def test_accuracy(network: Network, data: Data) -> Float[Array, ""]:
    """The fraction of test samples with a positive margin."""
    return (margins.function(network, _test_part(data)) > 0).mean(dtype=float)


@measured("output $f(x)$", dims=("sample", "output"), invariant=True)
def outputs(network: Network, data: Data) -> Float[Array, "sample output"]:
    """The outputs on the data, one row a sample."""
    f = network(data.x)
    return f[:, None] if f.ndim == 1 else f


@measured("margin", dims=("sample",), invariant=True)
def margins(network: Network, data: Data) -> Float[Array, " sample"]:
    """$y_i f(x_i)$ for one output; the right output minus the largest other one for several."""
    f = network(data.x)
    if f.ndim == 1:
        return data.y * f
    right = jnp.arange(f.shape[-1]) == data.y[:, None].astype(int)
    return jnp.where(right, f, 0.0).sum(axis=-1) - jnp.where(right, -jnp.inf, f).max(axis=-1)


@measured("normalised margin", invariant=True)
def normalised_margin(network: Network, data: Data) -> Float[Array, ""]:
    r"""$\min_i y_i f(x_i) / \|\theta\|^k$ with the order of homogeneity k (Lyu and Li 2020)."""
    return margins.function(network, data).min() / parameter_norm(network) ** _order(network)


@measured("smoothed margin", invariant=True)
def smoothed_margin(network: Network, data: Data, loss: Loss | str) -> Float[Array, ""]:
    r"""$\ell^{-1}(\mathcal{L}) / \|\theta\|^k$ with the sum $\mathcal{L}$ of the losses (Lyu and Li 2020).

    It is for losses of an exponential tail. Once it is positive the data are separated, and flow never
    lowers it again.
    """
    kind = named(loss)
    inverse = kind.of_margin.at_log(kind.sum.log(network(data.x), data.y))
    return inverse / parameter_norm(network) ** _order(network)


@measured("norm $||W_l||_F$", dims=("layer",), invariant=True)
def norms(network: Network) -> Float[Array, " layer"]:
    """The Frobenius norm of each layer's weights."""
    return jnp.stack([norm(w) for w in network.weights])


@measured("weight", dims=("weight",))
def weights(network: Network) -> Float[Array, " weight"]:
    """All weights one after the other, layer by layer and row by row: for a run that fits into memory.

    The vectors and matrices of skips follow, layer by layer; biases are left out. `with_weights` is the
    inverse.
    """
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves((network.weights, network.skips))])


def with_weights(network: Network, flat: Float[Array, "*times weight"]) -> Network:
    """The network with the recorded `weights`; of many records one network with their axes in front."""
    leaves, structure = jax.tree.flatten((network.weights, network.skips))
    ends = np.cumsum([leaf.size for leaf in leaves])
    if flat.shape[-1] != ends[-1]:
        raise ValueError(f"{network!r} has {ends[-1]} weights, but {flat.shape[-1]} are given.")
    parts = np.split(np.asarray(flat), ends[:-1], axis=-1)
    shaped = [p.reshape(*p.shape[:-1], *leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
    made = eqx.tree_at(
        lambda n: (n.weights, n.skips), network, jax.tree.unflatten(structure, shaped), is_leaf=_is_none
    )
    if flat.ndim == 1:
        return made
    others = (network.biases, network.slope)
    repeated = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (*flat.shape[:-1], *np.shape(leaf))), others)
    return eqx.tree_at(lambda n: (n.biases, n.slope), made, repeated, is_leaf=_is_none)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _fit(network: Network, data: Data, loss: Loss | str) -> Any:
    return named(loss)(network(data.x), data.y)


def _test_part(data: Data) -> Data:
    if data.test is None:
        raise ValueError(f"this measure needs a test part, and {data!r} has none.")
    return data.test


@compiled
def parameter_norm(network: Network) -> Float[Array, ""]:
    r"""The Euclidean norm $\|\theta\|$ of everything trained, biases included."""
    return norm(eqx.filter(network, moving(network)))


def norm(tree: Any) -> Any:
    """The Euclidean norm of all leaves, scaled so that entries like 1e-200 do not vanish when squared."""
    leaves = jax.tree.leaves(tree)
    largest = jnp.stack([jnp.abs(leaf).max() for leaf in leaves]).max()
    unit = jnp.where(largest > 0, largest, 1.0)
    return unit * jnp.sqrt(sum(((leaf / unit) ** 2).sum() for leaf in leaves))


def _order(network: Network) -> int:
    if not network.homogeneity:
        raise ValueError(
            "this network is not homogeneous in its trained parameters, so it has no normalised margin: "
            "only the first trained layer may have a bias, and some layer must be trained."
        )
    return network.homogeneity
