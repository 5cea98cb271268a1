"""The singular values of the layers: stable rank, rank, effective rank, alignment.

A layer with a single row or column has rank one by its shape; the ranks here are of the other layers.
"""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from rankfall._precision import Array
from rankfall.measure._core import Warm, compiled, measured
from rankfall.measure._matrix import RANK
from rankfall.network import Network


def matrix_layers(network: Network) -> list[int]:
    """The numbers (from 1) of the layers with more than one row and more than one column."""
    return [layer for layer, w in enumerate(network.weights, 1) if min(w.shape[-2:]) > 1]


def _matrices(network: Network) -> list[Any]:
    if not matrix_layers(network):
        raise ValueError(
            f"every layer of {network!r} is a single row or column: its rank is one by its shape."
        )
    return [network.weights[layer - 1] for layer in matrix_layers(network)]


@compiled
def sign_blocks(network: Network) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    """The rows of $W_1$ with a positive output weight, and those with a negative one; other rows are zero."""
    if network.depth != 2 or network.outputs != 1:
        raise ValueError(f"sign blocks belong to a two-layer network with one output; this is {network!r}.")
    first, signs = network.weights[0], network.weights[1][0][:, None]
    return jnp.where(signs > 0, first, 0.0), jnp.where(signs < 0, first, 0.0)


# The leading singular value, followed from record to record.
#
# Three vectors are kept, so that singular values may cross; they are guessed by a straight line through the
# last two records. One sweep is a step of subspace iteration with a Rayleigh-Ritz step. A residual r in the
# vector is an error of order r^2 in the value, so 3e-5 leaves about 1e-9. The last vector is shaken at every
# record: what grows in a direction that the three do not see is found by it. Where many leading values are
# nearly equal that may take a few records, in which the value is off by no more than they differ.

_SMALL = 32  # up to this size all eigenvalues of the Gram matrix cost less than to follow one of them
_VECTORS = 3
_SHAKE = 0.1
_RESIDUAL = 3e-5
_SWEEPS = 1000


def _scale(w: Any) -> Any:
    """One over the largest entry of w (1 if it is zero): with it squares neither vanish nor overflow."""
    largest = jnp.abs(w).max()
    return 1 / jnp.where(largest > 0, largest, 1.0)


def _start_vectors(w: np.ndarray) -> np.ndarray | None:
    """The leading left singular vectors of w, as at two records before; None if w is small."""
    if min(w.shape) <= _SMALL:
        return None
    narrow = _narrow(np.asarray(w, dtype=np.float64))
    vectors = np.linalg.eigh(narrow @ narrow.T)[1].T[: -_VECTORS - 1 : -1]
    return np.stack([vectors, vectors]).astype(w.dtype)


def _orthonormal(rows: Any) -> Any:
    """Gram and Schmidt, each row twice; a row that vanishes stays zero."""
    done: list[Any] = []
    for row in rows:
        row = row / jnp.sqrt(jnp.maximum(row @ row, jnp.finfo(row.dtype).tiny))
        for _ in range(2):
            for other in done:
                row = row - (other @ row) * other
        done.append(row / jnp.sqrt(jnp.maximum(row @ row, jnp.finfo(row.dtype).tiny)))
    return jnp.stack(done)


def _follow_stable_rank(w: Any, records: Any) -> tuple[Any, Any]:
    """The stable rank of w, and the leading left singular vectors at the last two records."""
    if records is None:
        return _stable_rank(w), None
    scale = _scale(w)
    shake = _SHAKE * np.random.default_rng(0).normal(size=w.shape[0]) / np.sqrt(w.shape[0])

    def sweep(carry: Any) -> Any:
        rows = _orthonormal(carry[0])
        image = scale * ((scale * (rows @ w)) @ w.T)
        turn = jnp.linalg.eigh(rows @ image.T)[1].T[::-1]
        rows, image = turn @ rows, turn @ image
        value = rows[0] @ image[0]
        rest = image[0] - value * rows[0]
        return image, value, jnp.sqrt(rest @ rest), carry[3] + 1

    def unfinished(carry: Any) -> Any:
        return (carry[2] > _RESIDUAL * carry[1]) & (carry[3] < _SWEEPS)

    zero = jnp.zeros((), w.dtype)
    guess = (2 * records[1] - records[0]).at[-1].add(jnp.asarray(shake, w.dtype))
    image, top, _, _ = jax.lax.while_loop(unfinished, sweep, (guess, zero, zero + 1, 0))
    now = jnp.where(top > 0, _aligned(_orthonormal(image), records[1]), records[1])
    square = ((scale * w) ** 2).sum()
    return jnp.where(top > 0, square / jnp.where(top > 0, top, 1.0), 0.0), jnp.stack([records[1], now])


def _aligned(rows: Any, before: Any) -> Any:
    """The rows with the signs of those before: eigenvectors have none of their own."""
    return jnp.where((rows * before).sum(axis=1, keepdims=True) < 0, -rows, rows)


def _follow_all(matrices: list[Any], records: Any) -> tuple[Any, Any]:
    values, records = zip(*map(_follow_stable_rank, matrices, records), strict=True)
    return jnp.stack(values), records


def _narrow(w: Any) -> Any:
    """w or its transpose, whichever has fewer rows: the singular values are the same."""
    return w if w.shape[0] <= w.shape[1] else w.T


def _stable_rank(w: Any) -> Any:
    w = _narrow(w)
    w = _scale(w) * w
    top = jnp.linalg.eigvalsh(w @ w.T)[-1]
    return jnp.where(top > 0, (w**2).sum() / jnp.where(top > 0, top, 1.0), 0.0)


_WARM = Warm(
    start=lambda network: tuple(map(_start_vectors, _matrices(network))),
    follow=lambda network, records: _follow_all([_narrow(w) for w in _matrices(network)], records),
)
_WARM_BLOCKS = Warm(
    start=lambda network: tuple(map(_start_vectors, sign_blocks(network))),
    follow=lambda network, records: _follow_all([_narrow(w) for w in sign_blocks(network)], records),
)


@measured("stable rank", dims=("matrix",), invariant=True, warm=_WARM)
def stable_rank(network: Network) -> Float[Array, " matrix"]:
    r"""$\|W\|_F^2 / \|W\|_2^2$ of each layer that is not a single row or column; 0 for a zero matrix."""
    return jnp.stack([_stable_rank(w) for w in _matrices(network)])


@measured("stable rank of the sign block", dims=("sign",), invariant=True, warm=_WARM_BLOCKS)
def block_stable_rank(network: Network) -> Float[Array, " sign"]:
    """The stable rank of the first-layer rows with a positive and with a negative output weight."""
    return jnp.stack([_stable_rank(block) for block in sign_blocks(network)])


@measured("$||W||_F^2 - ||W||_2^2$", dims=("layer",), invariant=True)
def rank_excess(network: Network) -> Float[Array, " layer"]:
    r"""$\|W\|_F^2 - \|W\|_2^2$ of each layer: the sum of the squares of all singular values but the largest.

    It is 0 for a matrix of rank one. A free skip that ends in the layer counts as further columns: [W Z].
    """
    layers: Any = zip(network.weights, network.skip_kinds, network.skips, strict=True)
    whole = [w if kind != "free" else jnp.concatenate([w, skip], axis=1) for w, kind, skip in layers]
    return jnp.stack([(jnp.linalg.svd(w, compute_uv=False)[1:] ** 2).sum() for w in whole])


@measured("singular value", dims=("matrix", "index"), invariant=True)
def singular_values(network: Network) -> Float[Array, "matrix index"]:
    """The singular values of each matrix, largest first; NaN beyond the smaller of its two sizes."""
    values = [jnp.linalg.svd(w, compute_uv=False) for w in _matrices(network)]
    longest = max(len(v) for v in values)
    return jnp.stack([jnp.pad(v, (0, longest - len(v)), constant_values=jnp.nan) for v in values])


@measured("rank", dims=("matrix",), invariant=True)
def rank(network: Network, tol: float = RANK) -> Int[Array, " matrix"]:
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
