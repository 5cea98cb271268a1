"""The spectrum of a matrix: its singular values, its stable rank and its rank, each defined here only."""

from dataclasses import dataclass

import numpy as np

RANK = 1e-6  # singular values below this share of the largest count as zero; float32 resolves no less


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a matrix, the largest first."""

    values: np.ndarray

    @classmethod
    def of(cls, w: np.ndarray) -> "Spectrum":
        """By the triangular factor: of a long matrix it has the same singular values, and is small."""
        w = np.asarray(w, dtype=float)
        if not w.size or not np.abs(w).max() > 0:
            return cls(np.zeros(min(w.shape)))
        tall = w.T if w.shape[0] < w.shape[1] else w
        return cls(np.asarray(np.linalg.svd(np.linalg.qr(tall, mode="r"), compute_uv=False)))

    @property
    def stable_rank(self) -> float:
        r"""$\|W\|_F^2 / \|W\|_2^2$; 0 of the matrix 0."""
        if not len(self.values) or not self.values[0] > 0:
            return 0.0
        return float(((self.values / self.values[0]) ** 2).sum())

    @property
    def rank(self) -> int:
        """The number of singular values above `RANK` times the largest."""
        return int((self.values > RANK * self.values[0]).sum()) if len(self.values) else 0
