"""The spectrum of a matrix: its singular values, its stable rank and its rank, each defined here only."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh

RANK = 1e-6  # singular values below this share of the largest count as zero; float32 resolves no less


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a matrix, the largest first; or those of each matrix of a stack.

    What is derived from them is a number for a matrix, and an array of numbers for a stack.
    """

    values: np.ndarray

    @classmethod
    def of(cls, w: np.ndarray) -> "Spectrum":
        """By the triangular factor: of a long matrix it has the same singular values, and is small."""
        w = np.asarray(w, dtype=float)
        rows, columns = w.shape[-2:]
        if not w.size:
            return cls(np.zeros((*w.shape[:-2], min(rows, columns))))
        known = np.isfinite(w).all(axis=(-1, -2))[..., None]  # else there are no singular values
        tall = np.where(known[..., None], np.swapaxes(w, -1, -2) if rows < columns else w, 0.0)
        return cls(np.where(known, np.linalg.svd(np.linalg.qr(tall, mode="r"), compute_uv=False), np.nan))

    @cached_property
    def shares(self) -> np.ndarray:
        """The singular values over the largest; 0 for the matrix 0."""
        top = self.values[..., :1]
        return np.divide(self.values, top, out=np.zeros_like(self.values), where=top != 0)

    @property
    def stable_rank(self) -> Any:
        r"""$\|W\|_F^2 / \|W\|_2^2$; 0 for the matrix 0."""
        return _plain((self.shares**2).sum(axis=-1))

    @property
    def rank(self) -> Any:
        """The number of singular values above `RANK` times the largest."""
        return _plain((self.shares > RANK).sum(axis=-1))

    @property
    def excess(self) -> Any:
        r"""$\|W\|_F^2 - \|W\|_2^2$: the sum of all squares but the largest."""
        return _plain((self.values[..., 1:] ** 2).sum(axis=-1))

    def share(self, k: int) -> Any:
        """The singular value number k (1 for the largest) over the largest; 0 where there is none."""
        if k > self.values.shape[-1]:
            return _plain(np.zeros(self.values.shape[:-1]))
        return _plain(self.shares[..., k - 1])


def stable_rank_of_gram(gram: np.ndarray, near: np.ndarray | None = None) -> float:
    """The stable rank of a matrix, from its Gram matrix; `near` is a guess of the leading eigenvector."""
    top = eigsh(gram, k=1, which="LA", v0=near, tol=1e-8, return_eigenvectors=False)
    return float(np.trace(gram) / top[0])


def _plain(numbers: np.ndarray) -> Any:
    return numbers.item() if np.ndim(numbers) == 0 else numbers
