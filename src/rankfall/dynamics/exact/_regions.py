r"""An activation region of a two-layer network, the kinks held in it, and how weights move inside it.

In a region the slope $P_{ji}$ of neuron j on sample i is constant, but for the pairs that slide along their
kink, whose pulls $u_{ji} = P_{ji} r_i$ follow from the others' (`kinks.response`). The flow there is smooth:

    w_j' = a_j \sum_i u_{ji} x_i,    a_j' = \sum_i r_i P_{ji} z_{ji},    z = W x,    f = \sum_j a_j P_j z_j.

If the second layer is fixed it is even n-dimensional: $f' = K r(f)$ with a constant kernel K, and all weights
and pre-activations are affine in $R = \int r$. Theory: docs/theory/ends.md.
"""

from dataclasses import dataclass

import numpy as np

from rankfall.dynamics.exact._kinks import independent, response

TOUCH = 1e-13  # relative to |x_i| |w_j|: a pre-activation this close to zero is at its kink


@dataclass(frozen=True)
class Weights:
    """What moves: first layer w (m, k), second layer a (m), output bias c ()."""

    w: np.ndarray
    a: np.ndarray
    c: np.ndarray


class Region:
    """Which side of its kink every pair of neuron and sample is on, and which pairs are held at it.

    `side` (m, n) is 1 above, -1 below and 0 at the kink; `slopes` are 1, `slope`, and 0 for a pair held. The
    kinks held are stored neuron by neuron, padded to equal length: `_samples` (m, h) with n for none, and
    `_response` (m, h, n), the matrices T of `kinks.response`.
    """

    def __init__(self, x: np.ndarray, slope: float, side: np.ndarray, lines: np.ndarray | None):
        self.x, self.slope, self.gram = x, slope, x @ x.T
        self.lengths = np.linalg.norm(x, axis=1)
        self.side = side.astype(np.int8)
        self.slopes = np.where(self.side > 0, 1.0, slope)
        self.lines = lines  # `kinks.lines_of` the inputs as they were given: a rotation would round them
        self.held = np.zeros(side.shape, dtype=bool)
        self._samples = np.full((len(side), 2), len(x))
        self._response = np.zeros((len(side), 2, len(x)))
        self._reach = np.ones(side.shape)
        self._stale: set[int] = set()  # neurons whose kinks are known, and their responses not yet

    @classmethod
    def around(cls, w: np.ndarray, x: np.ndarray, slope: float, lines: np.ndarray | None) -> "Region":
        """The region of a first layer w, with pairs on neither side where they are at their kinks."""
        if slope == 1:  # there are no kinks
            return cls(x, slope, np.ones((len(w), len(x))), lines)
        z, sizes, lengths = w @ x.T, np.linalg.norm(w, axis=1), np.linalg.norm(x, axis=1)
        side = np.where(np.abs(z) <= TOUCH * sizes[:, None] * lengths, 0, np.sign(z))
        return cls(x, slope, side, lines)

    def _make_room(self, kinks: int) -> None:
        """Room for this many kinks of one neuron."""
        more = ((0, 0), (0, kinks - self._samples.shape[1]))
        self._samples = np.pad(self._samples, more, constant_values=len(self.x))
        self._response = np.pad(self._response, (*more, (0, 0)))

    def copy(self) -> "Region":
        """A region of its own with the same kinks."""
        region = Region(self.x, self.slope, self.side, self.lines)
        region.copy_kinks(self)
        return region

    def copy_kinks(self, other: "Region") -> None:
        """Hold the same kinks as another region."""
        other._respond()
        self._stale.clear()
        self.side, self.slopes, self.held = other.side.copy(), other.slopes.copy(), other.held.copy()
        self._samples, self._response = other._samples.copy(), other._response.copy()
        self._reach = other._reach.copy()

    def put(self, neuron: int, side: np.ndarray, slopes: np.ndarray, held: np.ndarray) -> None:
        """Give a neuron these sides and slopes, zero for the samples `held`, which are independent."""
        self.side[neuron], self.slopes[neuron] = side, slopes
        self.held[neuron] = False
        self.held[neuron, held] = True
        self._stale.add(neuron)

    def _respond(self) -> None:
        """Find the responses of neurons that have none yet."""
        while self._stale:
            neuron = self._stale.pop()
            self._hold(neuron, np.flatnonzero(self.held[neuron]))

    def _hold(self, neuron: int, kept: np.ndarray) -> None:
        if len(kept) > self._samples.shape[1]:
            self._make_room(2 * len(kept))
        self._samples[neuron] = len(self.x)
        self._response[neuron] = 0.0
        if len(kept):
            self._samples[neuron, : len(kept)] = kept
            self._response[neuron, : len(kept)] = response(kept, self.x)
            reach = np.abs(self._response[neuron, : len(kept)]) @ self.slopes[neuron]
            self._reach[neuron, kept] = np.maximum(reach, np.finfo(float).tiny)

    def place(self, neuron: int, samples: np.ndarray, slopes: np.ndarray) -> None:
        """Give a neuron these slopes on all samples; of the `samples` hold those with a slope inside."""
        inside = samples[(slopes[samples] > self.slope) & (slopes[samples] < 1)]
        free = np.setdiff1d(samples, inside)
        self.side[neuron, inside] = 0
        self.side[neuron, free] = np.where(slopes[free] == 1, 1, -1)
        kept = independent(inside, self.x)
        self.slopes[neuron] = slopes
        self.slopes[neuron, kept] = 0.0
        self.held[neuron] = False
        self.held[neuron, kept] = True
        self._stale.discard(neuron)
        self._hold(neuron, kept)

    def pulls(self, r: np.ndarray, neurons: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The pulls u (..., m, n) of all pairs (or of some neurons), from those of the samples (..., n)."""
        return self.pulls_each(r[..., None, :], neurons)

    def pulls_each(self, r: np.ndarray, neurons: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The same where every neuron has its own pulls of the samples (..., m, n)."""
        self._respond()
        u = r * self.slopes[neurons]
        samples = self._samples[neurons]
        rows, places = np.nonzero(samples < len(self.x))
        if len(rows):
            several = u if u.ndim == 3 else u[None]
            held = self._response[neurons] @ several.transpose(1, 2, 0)  # (m, h, ...)
            several[:, rows, samples[rows, places]] = -held[rows, places].T
        return np.asarray(u)

    def mates(self, sample: int) -> list[tuple[int, int]]:
        """The samples on the line of this one, itself included, and 1 or -1: on its side or opposite."""
        if self.lines is None:
            return [(sample, 1)]
        line = self.lines[sample]
        return [(int(i), int(np.sign(line[i]))) for i in np.flatnonzero(line)]

    def by_line(self, u: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Pulls u (..., m, n), taken together along every line, as $P\rho$; that $\rho$ (..., n); its size.

        If x and c x share the slope P, or for c < 0 the one has P and the other 1 + alpha - P, their common
        pull is $P |C| r + (1 + \alpha) C_- r$ (`kinks.lines_of`). Here the last term is taken away.
        """
        if self.lines is None:
            return u, r, np.abs(r)
        rho, opposite = r @ np.abs(self.lines).T, r @ np.minimum(self.lines, 0.0).T
        together = u @ self.lines.T - (1 + self.slope) * opposite[..., None, :]
        return together, rho, np.abs(r) @ np.abs(self.lines).T

    def loosest(self, r: np.ndarray, neurons: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """How much these pairs, which are held, may change their slopes and stay inside.

        If all pulls r change by no more than the factor 1 + d, the pair stays as long as 2 d / (1 - d) max
        |r| is less than what is returned.
        """
        self._respond()
        some, place = np.unique(neurons, return_inverse=True)
        u, r, _ = self.by_line(self.pulls(r, some), r)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = u[place, samples] / r[samples]
        slack = np.minimum(slopes - self.slope, 1 - slopes)
        return np.asarray(slack * np.abs(r[samples]) / self._reach[neurons, samples])

    def kernel(self, a: np.ndarray) -> np.ndarray:
        r"""K (n, n), such that $f' = K r$ if the first layer alone moves."""
        self._respond()
        n = len(self.x)
        kernel = self.gram * ((self.slopes * (a**2)[:, None]).T @ self.slopes)
        rows = np.vstack([self.gram, np.zeros(n)])
        holding = np.flatnonzero(self.held.any(axis=1))
        for some in np.array_split(holding, 1 + len(holding) // 64):  # a part at a time fits into the cache
            most = int(self.held[some].sum(axis=1).max(initial=0))
            p = self.slopes[some][:, None, :]
            shadow = (rows[self._samples[some, :most]] * p).reshape(-1, n)
            weighted = self._response[some, :most] * (p * (a[some] ** 2)[:, None, None])
            kernel -= shadow.T @ weighted.reshape(-1, n)
        return np.asarray((kernel + kernel.T) / 2)

    def features(self, a: np.ndarray) -> np.ndarray:
        """Rows (n, ...) with the kernel as their Gram matrix: what each sample pulls on, off the kinks held.

        Neurons with equal slopes and kinks are one block of columns, with the root of the sum of their a^2.
        """
        self._respond()
        keys = np.hstack([self.slopes, self.held.astype(float)])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        squares = np.bincount(group.ravel(), a**2)
        blocks = []
        for neuron, square in zip(first, squares, strict=True):
            rows = self.x
            held = self._samples[neuron][self._samples[neuron] < len(self.x)]
            if len(held):
                rows = rows - self._response[neuron, : len(held)].T @ self.x[held]
                rows[held] = 0.0
            blocks.append(np.sqrt(square) * self.slopes[neuron][:, None] * rows)
        return np.hstack(blocks)

    @property
    def live(self) -> np.ndarray:
        """The samples (n) that pull on some neuron, other than by being held."""
        return np.asarray(self.slopes.any(axis=0))

    @property
    def patterns(self) -> int:
        """How many different patterns of slopes and kinks the neurons have."""
        return len(np.unique(np.hstack([self.slopes, self.held.astype(float)]), axis=0))

    def tangent_kernel(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        r"""The same if both layers move."""
        hidden = self.slopes * (w @ self.x.T)
        return np.asarray(self.kernel(a) + hidden.T @ hidden)

    def kernel_of(self, neuron: int, a: float) -> np.ndarray:
        """What one neuron adds to `kernel`."""
        self._respond()
        p = self.slopes[neuron]
        kernel = p[:, None] * self.gram * p
        held = self._samples[neuron][self._samples[neuron] < len(self.x)]
        if len(held):
            kernel -= (self.gram[held] * p).T @ (self._response[neuron, : len(held)] * p)
        return np.asarray(a**2 * kernel)
