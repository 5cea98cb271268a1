r"""The pull of the samples: $r_i = -\partial L/\partial f_i$ in the clock in which the exact flow runs.

For the exponential and the logistic loss that is the loss clock $ds = L\,dt$, in which the pulls are those of
$\log L$ and never underflow; for the square loss it is time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankfall.loss import Loss


@dataclass(frozen=True)
class Pull:
    """The pulls of samples with targets y under a loss, as functions of the outputs f (..., n)."""

    loss: Loss
    y: np.ndarray
    counts: np.ndarray | None = None  # how often each sample occurs; once, if not given

    @property
    def normalised(self) -> bool:
        """Is the clock the loss clock?"""
        return self.loss.name != "square"

    @property
    def weight(self) -> float:
        """The factor of the loss of one sample: 1/n in a mean, 1 in a sum."""
        total = len(self.y) if self.counts is None else self.counts.sum()
        return 1 / float(total) if self.loss.reduction == "mean" else 1.0

    @cached_property
    def often(self) -> np.ndarray:
        """How often each sample occurs."""
        return np.ones(len(self.y)) if self.counts is None else self.counts

    def __call__(self, f: np.ndarray) -> np.ndarray:
        """The pulls r."""
        if not self.normalised:
            return self.weight * self.often * (self.y - f)
        q = self.y * f
        log_pulls = self.loss.of_margin.log_pull(q)
        return self.y * self.often * np.exp(log_pulls - _log_sum(self._log_losses(q))[..., None])

    def rounding(self, f: np.ndarray) -> float:
        """How large a pull can be by rounding alone."""
        if self.normalised:
            return float(np.finfo(float).tiny)
        return 3e-13 * self.weight * float(np.abs([f, self.y]).max())

    def jacobian(self, f: np.ndarray, some: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The matrices dr/df (..., n, n), or their part for some samples."""
        if not self.normalised:
            often = self.often[some]
            return np.broadcast_to(-self.weight * np.diag(often), (*f.shape[:-1], len(often), len(often)))
        y, r, q = self.y[some], self(f)[..., some], (self.y * f)[..., some]
        both = r[..., :, None] * r[..., None, :]
        both[..., np.arange(len(y)), np.arange(len(y))] -= r * self.loss.of_margin.steepness(q) * y
        return both

    def log_loss(self, f: np.ndarray) -> np.ndarray:
        """The logarithm of the loss."""
        if self.normalised:
            return _log_sum(self._log_losses(self.y * f)) + np.log(self.weight)
        with np.errstate(divide="ignore"):
            return np.log((self.often * (f - self.y) ** 2).sum(axis=-1)) + np.log(self.weight / 2)

    def _log_losses(self, q: np.ndarray) -> np.ndarray:
        """The logarithms of the samples' losses, each as often as it occurs."""
        return np.asarray(self.loss.of_margin.log(q) + np.log(self.often))


@dataclass(frozen=True, kw_only=True)
class Walled(Pull):
    """The pulls where some samples are walls: no neuron is active on them, nor gets past their kinks.

    `walls` (n) are the pulls of these, as strong as it takes, and zero for the others, whose loss it is.
    """

    walls: np.ndarray

    @cached_property
    def dead(self) -> np.ndarray:
        """The samples that are walls."""
        return np.asarray(self.walls != 0)

    def __call__(self, f: np.ndarray) -> np.ndarray:
        """The pulls r."""
        f = np.where(self.dead, f[..., ~self.dead][..., :1] * self.y[~self.dead][0] * self.y, f)
        return np.where(self.dead, self.walls, super().__call__(f))

    def jacobian(self, f: np.ndarray, some: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The matrices dr/df (..., n, n), or their part for some samples."""
        living = ~self.dead[some]
        return np.asarray(super().jacobian(f, some) * (living[:, None] & living))

    def _log_losses(self, q: np.ndarray) -> np.ndarray:
        """The logarithms of the samples' losses, without the walls."""
        return np.where(self.dead, -np.inf, super()._log_losses(q))


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log sum exp over the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(logs - most).sum(axis=-1))
