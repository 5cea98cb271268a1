"""The hidden neurons: what flow conserves at each, where they point, on which samples they are active."""

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from rankfall.data import Data
from rankfall.measure.core import measured
from rankfall.network import Network
from rankfall.precision import Array, in_float64


@in_float64
def balance_matrices(network: Network) -> list[Float[Array, "hidden hidden"]]:
    """$C_l = W_{l+1}^T W_{l+1} - W_l W_l^T - b_l b_l^T$ for each hidden layer.

    Where both layers are trained, flow conserves $C_l$ if they are linear, and its diagonal always.
    """
    inner = zip(network.weights[:-1], network.biases[:-1], network.weights[1:], strict=True)
    return [after.T @ after - w @ w.T - (0.0 if b is None else jnp.outer(b, b)) for w, b, after in inner]


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
    r"""$\|w_{out}\|^2 - \|w_{in}\|^2$ of each hidden neuron, biases counted in: conserved by flow."""
    return jnp.concatenate([jnp.diag(c) for c in balance_matrices(network)])


@measured("largest drift of a neuron's balance", invariant=True)
def neuron_balance_drift(network: Network, start: Network) -> Float[Array, ""]:
    """The largest change of any neuron's balance since the start of the run."""
    return jnp.abs(neuron_balance.function(network) - neuron_balance.function(start)).max()


@measured("active", dims=("sample", "neuron"), invariant=True)
def activation_patterns(network: Network, data: Data) -> Bool[Array, "sample neuron"]:
    """Which neuron of the nonlinear layers is active ($h > 0$) on which sample."""
    if network.linear_tail == network.depth:
        raise ValueError(f"no layer of {network!r} has an activation.")
    hidden = network.preactivations(data.x)[: network.depth - network.linear_tail]
    return jnp.concatenate([h > 0 for h in hidden], axis=-1)


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
