"""The singular values of the layers: stable rank, rank, effective rank, alignment.

A layer with a single row or column has rank one by its shape; the ranks here are of the other layers.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from rankfall.measure.core import Warm, measured
from rankfall.network import Network
from rankfall.precision import Array, in_float64


def matrix_layers(network: Network) -> list[int]:
    """The numbers (from 1) of the layers with more than one row and more than one column."""
    return [layer for layer, w in enumerate(network.weights, 1) if min(w.shape[-2:]) > 1]


def _matrices(network: Network) -> list[Any]:
    if not matrix_layers(network):
        raise ValueError(
            f"every layer of {network!r} is a single row or column: its rank is one by its shape."
        )
    return [network.weights[layer - 1] for layer in matrix_layers(network)]


@in_float64
def sign_blocks(network: Network) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    """The rows of $W_1$ with a positive output weight, and those with a negative one; other rows are zero."""
    if network.depth != 2 or network.outputs != 1:
        raise ValueError(f"sign blocks belong to a two-layer network with one output; this is {network!r}.")
    first, signs = network.weights[0], network.weights[1][0][:, None]
    return jnp.where(signs > 0, first, 0.0), jnp.where(signs < 0, first, 0.0)


# The leading singular value, followed from record to record.
#
# Two vectors are kept, so that the two leading singular values may cross; they are guessed by a straight line
# through the last two records. One sweep is a step of subspace iteration, with a Rayleigh-Ritz step in closed
# form. A residual r in the vector is an error of order r^2 in the value, so 3e-5 leaves about 1e-9.
#
# What is left of the squared Frobenius norm outside of the two vectors bounds all other squared singular
# values. Where that does not rule out a larger one, the second vector is drawn anew and sent to look for it.
# It may stop short of it only where many leading values are nearly equal, and by no more than they differ.

_SMALL = 32  # up to this size all eigenvalues of the Gram matrix cost less than to follow one of them
_RESIDUAL = 3e-5
_LOOSE = 1e-2
_SWEEPS = 1000


def _scale(w: Any) -> Any:
    """One over the largest entry of w (1 if it is zero): with it squares neither vanish nor overflow."""
    largest = jnp.abs(w).max()
    return 1 / jnp.where(largest > 0, largest, 1.0)


def _start_pairs(w: np.ndarray) -> np.ndarray | None:
    """The two leading left singular vectors of w, as at two records before; None if w is small."""
    if min(w.shape) <= _SMALL:
        return None
    dtype = w.dtype
    w = _narrow(np.asarray(w, dtype=np.float64))
    pair = np.linalg.eigh(w @ w.T)[1].T[:-3:-1]
    return np.stack([pair, pair]).astype(dtype)


def _orthonormal(a: Any, b: Any) -> Any:
    tiny = jnp.finfo(a.dtype).tiny
    a = a / jnp.sqrt(jnp.maximum(a @ a, tiny))
    b = b / jnp.sqrt(jnp.maximum(b @ b, tiny))
    b = b - (a @ b) * a
    b = b - (a @ b) * a
    return jnp.stack([a, b / jnp.sqrt(jnp.maximum(b @ b, tiny))])


class _Sweep(NamedTuple):
    image: Any  # of the two vectors
    values: Any  # their squared singular values
    residuals: Any
    looked: Any  # has the second vector been sent to look for a larger value?
    count: Any


def _follow_stable_rank(w: Any, pairs: Any) -> tuple[Any, Any]:
    """The stable rank of w, and the two leading left singular vectors at the last two records."""
    if pairs is None:
        return _stable_rank(w), None
    scale = _scale(w)
    square = ((scale * w) ** 2).sum()
    generic = jnp.asarray(np.random.default_rng(0).normal(size=w.shape[0]), dtype=w.dtype)

    def found(now: _Sweep) -> Any:
        return now.residuals[0] <= _RESIDUAL * now.values[0]

    def doubtful(now: _Sweep) -> Any:
        return square - now.values[0] - now.values[1] > now.values[0]

    def sweep(now: _Sweep) -> _Sweep:
        look = found(now) & doubtful(now) & ~now.looked
        pair = _orthonormal(now.image[0], jnp.where(look, generic, now.image[1]))
        image = scale * ((scale * (pair @ w)) @ w.T)
        small = pair @ image.T  # the 2 x 2 Rayleigh quotient: one rotation makes it diagonal
        angle = jnp.arctan2(2 * small[0, 1], small[0, 0] - small[1, 1]) / 2
        c, s = jnp.cos(angle), jnp.sin(angle)
        turn = jnp.array([[c, s], [-s, c]])
        pair, image = turn @ pair, turn @ image
        values = (pair * image).sum(axis=1)
        rest = image - values[:, None] * pair
        return _Sweep(image, values, jnp.sqrt((rest**2).sum(axis=1)), now.looked | look, now.count + 1)

    def unfinished(now: _Sweep) -> Any:
        sure = now.looked & (now.residuals[1] <= _LOOSE * now.values[0])
        return (~found(now) | (doubtful(now) & ~sure)) & (now.count < _SWEEPS)

    zeros = jnp.zeros(2, w.dtype)
    last = jax.lax.while_loop(
        unfinished, sweep, _Sweep(2 * pairs[1] - pairs[0], zeros, zeros + 1, jnp.asarray(False), 0)
    )
    top = last.values[0]
    pair = jnp.where(top > 0, _orthonormal(*last.image), pairs[1])
    return jnp.where(top > 0, square / jnp.where(top > 0, top, 1.0), 0.0), jnp.stack([pairs[1], pair])


def _follow_all(matrices: list[Any], pairs: Any) -> tuple[Any, Any]:
    values, pairs = zip(*map(_follow_stable_rank, matrices, pairs), strict=True)
    return jnp.stack(values), pairs


def _narrow(w: Any) -> Any:
    """w or its transpose, whichever has fewer rows: the singular values are the same."""
    return w if w.shape[0] <= w.shape[1] else w.T


def _stable_rank(w: Any) -> Any:
    w = _narrow(w)
    w = _scale(w) * w
    top = jnp.linalg.eigvalsh(w @ w.T)[-1]
    return jnp.where(top > 0, (w**2).sum() / jnp.where(top > 0, top, 1.0), 0.0)


_WARM = Warm(
    start=lambda network: tuple(map(_start_pairs, _matrices(network))),
    follow=lambda network, pairs: _follow_all([_narrow(w) for w in _matrices(network)], pairs),
)
_WARM_BLOCKS = Warm(
    start=lambda network: tuple(map(_start_pairs, sign_blocks(network))),
    follow=lambda network, pairs: _follow_all([_narrow(w) for w in sign_blocks(network)], pairs),
)


@measured("stable rank", dims=("matrix",), invariant=True, warm=_WARM)
def stable_rank(network: Network) -> Float[Array, " matrix"]:
    r"""$\|W\|_F^2 / \|W\|_2^2$ of each layer that is not a single row or column; 0 for a zero matrix."""
    return jnp.stack([_stable_rank(w) for w in _matrices(network)])


@measured("stable rank of the sign block", dims=("sign",), invariant=True, warm=_WARM_BLOCKS)
def block_stable_rank(network: Network) -> Float[Array, " sign"]:
    """The stable rank of the first-layer rows with a positive and with a negative output weight."""
    return jnp.stack([_stable_rank(block) for block in sign_blocks(network)])


@measured("singular value", dims=("matrix", "index"), invariant=True)
def singular_values(network: Network) -> Float[Array, "matrix index"]:
    """The singular values of each matrix, largest first; NaN beyond the smaller of its two sizes."""
    values = [jnp.linalg.svd(w, compute_uv=False) for w in _matrices(network)]
    longest = max(len(v) for v in values)
    return jnp.stack([jnp.pad(v, (0, longest - len(v)), constant_values=jnp.nan) for v in values])


@measured("rank", dims=("matrix",), invariant=True)
def rank(network: Network, tol: float = 1e-6) -> Int[Array, " matrix"]:
    """How many singular values exceed `tol` times the largest, for each matrix."""
    values = singular_values.function(network)
    return (values > tol * values[:, :1]).sum(axis=-1)


@measured("effective rank", dims=("matrix",), invariant=True)
def effective_rank(network: Network) -> Float[Array, " matrix"]:
    """The exponential of the entropy of the normalised singular values (Roy and Vetterli 2007)."""
    values = jnp.nan_to_num(singular_values.function(network))
    total = values.sum(axis=-1, keepdims=True)
    p = values / jnp.where(total > 0, total, 1.0)
    entropy = -jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1.0)), 0.0).sum(axis=-1)
    return jnp.where(total[:, 0] > 0, jnp.exp(entropy), 0.0)


@measured("alignment of neighbouring layers", dims=("hidden",), invariant=True)
def alignment(network: Network) -> Float[Array, " hidden"]:
    r"""$|\langle v_{l+1}, u_l\rangle|$: the leading singular vectors where two layers meet."""
    frames = [jnp.linalg.svd(w, full_matrices=False) for w in network.weights]
    return jnp.stack([jnp.abs(after[2][0] @ before[0][:, 0]) for before, after in pairwise(frames)])
