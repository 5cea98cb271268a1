r"""The matrix of a KKT point's equations by its blocks: one for the kinks of each group, and the support.

Kinks of different groups do not meet in one equation. So the matrix is an arrow

    [ K_1           B_1 ]
    [      K_2      B_2 ]
    [           ..   :  ]
    [ B_1' B_2' ..   M  ]

and to solve it takes the small blocks and $M - \sum_g B_g' K_g^{-1} B_g$, of the size of the support, however
many kinks there are.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

DENSE = 4_000  # unknowns up to which a singular matrix is solved as a whole
_REGULAR = 1e-6  # the least diagonal entry of a Cholesky factor


class Singular(Exception):
    """The equations have no unique solution, as far as floats can tell."""


@dataclass(frozen=True)
class Equations:
    """Blocks K_g and B_g, each with the place of its first unknown, and M; the diagonal is 1."""

    blocks: list[tuple[slice, np.ndarray, np.ndarray]]
    rest: np.ndarray
    scale: np.ndarray  # by which unknowns and equations were multiplied

    @classmethod
    def of(
        cls, gram: np.ndarray, c: np.ndarray, held: np.ndarray, p: np.ndarray, s: np.ndarray
    ) -> "Equations":
        """From the Gram matrix of y_i x_i, c (g), kinks and slopes (g, n), and the support."""
        blocks, done = [], 0
        for g in np.flatnonzero(held.any(axis=1)):
            samples = np.flatnonzero(held[g])
            rows = c[g] * gram[samples]
            blocks.append((slice(done, done + len(samples)), rows[:, samples], rows[:, s] * p[g, s]))
            done += len(samples)
        rest = gram[np.ix_(s, s)] * ((p[:, s].T * c) @ p[:, s])
        diagonal = np.concatenate([*(np.diag(block) for _, block, _ in blocks), np.diag(rest)])
        scale = 1 / np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
        own = scale[done:]
        return cls(
            [
                (at, scale[at, None] * block * scale[at], scale[at, None] * border * own)
                for at, block, border in blocks
            ],
            own[:, None] * rest * own,
            scale,
        )

    @property
    def kinks(self) -> int:
        """How many unknowns belong to kinks."""
        return len(self.scale) - len(self.rest)

    def times(self, u: np.ndarray) -> np.ndarray:
        """The product with a vector, all scaled."""
        k = self.kinks
        found = np.concatenate([np.zeros(k), self.rest @ u[k:]])
        for at, block, border in self.blocks:
            found[at] = block @ u[at] + border @ u[k:]
            found[k:] += border.T @ u[at]
        return found

    @cached_property
    def factors(self) -> tuple[list[np.ndarray], list[np.ndarray], tuple[np.ndarray, bool]]:
        """Cholesky factors L_g of the blocks, L_g^-1 B_g, and that of what they leave of M."""
        lower, borders, rest, least = [], [], self.rest.copy(), np.inf
        try:
            for _, block, border in self.blocks:
                lower.append(cholesky(block, lower=True))
                borders.append(solve_triangular(lower[-1], border, lower=True))
                rest -= borders[-1].T @ borders[-1]
                least = min(least, float(np.diag(lower[-1]).min()))
            last = cho_factor(rest, lower=True)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise Singular from error
        if not min(least, float(np.diag(last[0]).min())) > _REGULAR:
            raise Singular
        return lower, borders, last

    def solve(self, wanted: np.ndarray) -> np.ndarray:
        """The solution, all scaled; refined once. Raises `Singular`."""
        step = self._solve(wanted)
        return step + self._solve(wanted - self.times(step))

    def _solve(self, wanted: np.ndarray) -> np.ndarray:
        lower, borders, last = self.factors
        k, found = self.kinks, wanted.copy()
        for (at, _, _), factor, border in zip(self.blocks, lower, borders, strict=True):
            found[at] = solve_triangular(factor, found[at], lower=True)
            found[k:] -= border.T @ found[at]
        found[k:] = cho_solve(last, found[k:])
        for (at, _, _), factor, border in zip(self.blocks, lower, borders, strict=True):
            found[at] = solve_triangular(factor, found[at] - border @ found[k:], lower=True, trans="T")
        return found

    def kernel(self) -> np.ndarray:
        """M less what the kinks take, where they may be dependent; not scaled."""
        rest = self.rest.copy()
        for _, block, border in self.blocks:
            rest -= border.T @ np.linalg.pinv(block, hermitian=True) @ border
        own = self.scale[self.kinks :]
        return np.asarray(rest / own[:, None] / own)

    def whole(self) -> np.ndarray:
        """The matrix itself, scaled."""
        k, size = self.kinks, len(self.scale)
        found = np.zeros((size, size))
        found[k:, k:] = self.rest
        for at, block, border in self.blocks:
            found[at, at], found[at, k:], found[k:, at] = block, border, border.T
        return found

    def nearest(self, wanted: np.ndarray) -> np.ndarray | None:
        """The solution, or the shortest one that fits best; None if that would take too long."""
        try:
            return self.solve(wanted)
        except Singular:
            if len(self.scale) > DENSE:
                return None
            return np.asarray(np.linalg.lstsq(self.whole(), wanted, rcond=1e-13)[0])
