r"""Exact reduction of the input to the span of the data.

The gradient of the first layer lies in the row span of X. In an orthonormal basis whose first k vectors span
the data, and whose others span what is left of the rows of $W_1$, the inputs are $(\tilde x, 0)$ and only the
first k columns of the weights ever move. Singular values, norms, angles and outputs do not see the basis.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Span:
    """An orthonormal basis: `inside` (d x k) spans the data, `outside` (d x r) the rest of the weights."""

    inside: Float[np.ndarray, "d k"]
    outside: Float[np.ndarray, "d r"]

    @property
    def k(self) -> int:
        """How many coordinates the data have."""
        return int(self.inside.shape[1])

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """The coordinates (... x (k + r)) of vectors of the input space, one a row."""
        return np.hstack([rows @ self.inside, rows @ self.outside])

    def lift(self, start: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """The first layer back in the input space, from its start there and its k moved columns."""
        return start + (moved - start @ self.inside) @ self.inside.T


def inside_basis(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis (d x n) of a space that holds all rows of x (n x d), n < d."""
    return np.linalg.qr(x.T)[0]


def span_of(inside: np.ndarray, first: np.ndarray) -> Span:
    """The span of data with basis `inside`, completed for a first layer `first` (m x d)."""
    dim, k = inside.shape
    if k + len(first) >= dim:  # the weights may fill the whole space: take all that is left of it
        return Span(inside, np.linalg.qr(inside, mode="complete")[0][:, k:])
    rest = first.T
    for _ in range(2):  # twice, for orthogonality to rounding
        rest = rest - inside @ (inside.T @ rest)
    return Span(inside, np.linalg.qr(rest)[0])


def spans_of(inside: np.ndarray, layers: Sequence[np.ndarray]) -> list[Span]:
    """The span for each of these first layers; those that are multiples of each other share one."""
    known: list[tuple[np.ndarray, Span]] = []
    spans = []
    for first in layers:
        shared = (span for other, span in known if _is_multiple(first, other))
        span = next(shared, None) or span_of(inside, first)
        known.append((first, span))
        spans.append(span)
    return spans


def _is_multiple(first: np.ndarray, other: np.ndarray) -> bool:
    """Is a first layer a multiple of another, up to rounding? So it is with one draw at several scales."""
    if first.shape != other.shape:
        return False
    square = np.vdot(other, other)
    scale = np.vdot(first, other) / square if square > 0 else 0.0
    largest = np.abs(first).max()
    return bool(np.abs(first - scale * other).max() <= 4 * np.finfo(first.dtype).eps * largest)
