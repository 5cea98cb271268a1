"""The hidden neurons: what flow conserves at each, where they point, on which samples they are active."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from rankfall._precision import Array
from rankfall.data import Data
from rankfall.measure._core import compiled, measured
from rankfall.network import Identity, Network


@compiled
def balance_matrices(network: Network) -> list[Float[Array, "hidden hidden"]]:
    r"""$C_l = W_{l+1}^T W_{l+1} - W_l W_l^T - b_l b_l^T$ for each hidden layer.

    Where both layers are trained, flow conserves $C_l$ if they are linear, and its diagonal always. A skip
    that starts from the layer counts like a part of $W_{l+1}$, one that ends in it like a part of $W_l$. An
    identity is no weight, and ties the layers between which it leads: see `conserved`.
    """
    return [_taking(network, layer) - _making(network, layer) for layer in range(1, network.depth)]


def _taking(network: Network, layer: int) -> Any:
    """The Gram matrix of the columns of all weights that take the outputs of a layer."""
    after = network.weights[layer]
    skip = network.skips[layer + 1] if layer + 1 < network.depth else None
    return after.T @ after + _gram(skip, transposed=True)


def _making(network: Network, layer: int) -> Any:
    """The Gram matrix of the rows of all weights, with the bias, that make the outputs of a layer."""
    w, b = network.weights[layer - 1], network.biases[layer - 1]
    bias = 0.0 if b is None else jnp.outer(b, b)
    return w @ w.T + bias + _gram(network.skips[layer - 1], transposed=False)


def _gram(skip: Any, transposed: bool) -> Any:
    if skip is None or isinstance(skip, Identity):
        return 0.0
    if skip.ndim == 1:
        return jnp.diag(skip**2)
    return skip.T @ skip if transposed else skip @ skip.T


def conserved_layers(network: Network) -> list[tuple[tuple[int, ...], bool]]:
    """The sets of hidden layers whose sum of balance matrices flow conserves: wholly, or its diagonal alone.

    A set is one layer, or those that identity skips tie together. All that makes or takes their outputs must
    be trained. Wholly it is conserved if none of them is activated and no diagonal skip is among them: f is
    then the same in any other basis of the layers. Otherwise f is the same if neurons are rescaled.
    """
    depth, kinds = network.depth, network.skip_kinds
    found: list[list[int]] = []
    for layer in range(depth + 1):  # 0 is x
        tied = layer >= 2 and kinds[layer - 1] == "identity"
        owner = next(group for group in found if layer - 2 in group) if tied else None
        if owner is None:
            found.append([layer])
        else:
            owner.append(layer)
    conserved = []
    for group in found:
        touching = {number for layer in group for number in (layer, layer + 1)}
        touching |= {
            layer + 2 for layer in group if layer + 2 <= depth and eqx.is_array_like(network.skips[layer + 1])
        }
        if 0 in group or depth in group or not all(network.trained[number - 1] for number in touching):
            continue
        skips = {kinds[number - 1] for layer in group for number in (layer, layer + 2) if number <= depth}
        wholly = "diagonal" not in skips and not set(group) & set(network.activated)
        conserved.append((tuple(group), wholly))
    return conserved


@measured("what flow conserves", dims=("invariant",), invariant=True)
def conserved(network: Network) -> Float[Array, " invariant"]:
    r"""All numbers that gradient flow conserves, whatever data and loss: entries of sums of balance matrices.

    For each of the `conserved_layers` the whole matrix, row by row, or its diagonal.
    """
    balances = balance_matrices(network)
    kept = []
    for layers, wholly in conserved_layers(network):
        total = sum(balances[layer - 1] for layer in layers)
        kept.append(total.ravel() if wholly else jnp.diag(total))
    if not kept:
        raise ValueError(
            f"flow conserves nothing here: {network!r} has no hidden layer with trained layers around it."
        )
    return jnp.concatenate(kept)


@measured("imbalance of neighbouring layers", dims=("hidden",), invariant=True)
def balance(network: Network) -> Float[Array, " hidden"]:
    """The Frobenius norm of each balance matrix $C_l$."""
    return jnp.stack([jnp.linalg.norm(c) for c in balance_matrices(network)])


@measured("drift of the balance", dims=("hidden",), invariant=True)
def balance_drift(network: Network, start: Network) -> Float[Array, " hidden"]:
    r"""$\|C_l - C_l(0)\|_F$: zero under flow between linear layers; descent drifts with the step size."""
    both = zip(balance_matrices(network), balance_matrices(start), strict=True)
    return jnp.stack([jnp.linalg.norm(now - then) for now, then in both])


@measured("balance of a neuron", dims=("neuron",), invariant=True)
def neuron_balance(network: Network) -> Float[Array, " neuron"]:
    r"""$\|w_{out}\|^2 - \|w_{in}\|^2$ of each hidden neuron, biases counted in: conserved by flow.

    Where an identity skip ties two layers, it is the sum over both that is conserved.
    """
    return jnp.concatenate([jnp.diag(c) for c in balance_matrices(network)])


@measured("largest drift of a neuron's balance", invariant=True)
def neuron_balance_drift(network: Network, start: Network) -> Float[Array, ""]:
    """The largest change of any neuron's balance since the start of the run."""
    return jnp.abs(neuron_balance.function(network) - neuron_balance.function(start)).max()


@measured("active", dims=("sample", "neuron"), invariant=True)
def activation_patterns(network: Network, data: Data) -> Bool[Array, "sample neuron"]:
    """Which neuron of the nonlinear layers is active ($h > 0$) on which sample."""
    if not network.activated:
        raise ValueError(f"no layer of {network!r} has an activation.")
    hidden = network.preactivations(data.x)
    return jnp.concatenate([hidden[layer - 1] > 0 for layer in network.activated], axis=-1)


@measured("neurons active on no sample", invariant=True)
def dead_neurons(network: Network, data: Data) -> Int[Array, ""]:
    """How many neurons of the nonlinear layers are active on no sample at all."""
    return (~activation_patterns.function(network, data).any(axis=0)).sum()


@measured("distinct neuron directions", invariant=True)
def distinct_directions(network: Network, tol: float = 1e-3, small: float = 1e-6) -> Int[Array, ""]:
    """How many directions the rows of $W_1$ point in, up to an angle of `tol` (1e-7 at least).

    A row counts if no row before it is within the angle. Rows shorter than `small` times the longest
    are left out: they have no direction worth counting.
    """
    first = network.weights[0].astype(float)
    first = first / jnp.maximum(jnp.abs(first).max(), jnp.finfo(float).tiny)
    length = jnp.linalg.norm(first, axis=1)
    counted = length > small * length.max()
    unit = first / jnp.where(counted, length, 1.0)[:, None]
    near = unit @ unit.T >= jnp.cos(tol)
    earlier = jnp.tril(near & counted[None, :], k=-1).any(axis=1)
    return (counted & ~earlier).sum()
