r"""An activation region of a two-layer network, the kinks held in it, and how weights move inside it.

In a region the slope $P_{ji}$ of neuron j on sample i is constant, but for the pairs that slide along their
kink, whose pulls $u_{ji} = P_{ji} r_i$ follow from the others' (`kinks.response`). The flow there is smooth:

    w_j' = a_j \sum_i u_{ji} x_i,    a_j' = \sum_i r_i P_{ji} z_{ji},    z = W x,    f = \sum_j a_j P_j z_j.

If the second layer is fixed it is even n-dimensional: $f' = K r(f)$ with a constant kernel K, and all weights
and pre-activations are affine in $R = \int r$. Theory: docs/theory/exact-flow.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankfall.dynamics.collocation import GRID, INTEGRAL, NODES, TAIL, at
from rankfall.dynamics.kinks import independent, response


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

    def __init__(self, x: np.ndarray, slope: float, side: np.ndarray):
        self.x, self.slope, self.gram = x, slope, x @ x.T
        self.side = side.astype(np.int8)
        self.slopes = np.where(self.side > 0, 1.0, slope)
        self.held = np.zeros(side.shape, dtype=bool)
        self._samples = np.full((len(side), 2), len(x))
        self._response = np.zeros((len(side), 2, len(x)))
        self._reach = np.ones(side.shape)

    def _make_room(self, kinks: int) -> None:
        """Room for so many kinks of one neuron."""
        more = ((0, 0), (0, kinks - self._samples.shape[1]))
        self._samples = np.pad(self._samples, more, constant_values=len(self.x))
        self._response = np.pad(self._response, (*more, (0, 0)))

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
        if len(kept) > self._samples.shape[1]:
            self._make_room(2 * len(kept))
        self._samples[neuron] = len(self.x)
        self._response[neuron] = 0.0
        if len(kept):
            self._samples[neuron, : len(kept)] = kept
            self._response[neuron, : len(kept)] = response(kept, self.gram)
            reach = np.abs(self._response[neuron, : len(kept)]) @ self.slopes[neuron]
            self._reach[neuron, kept] = np.maximum(reach, np.finfo(float).tiny)

    def pulls(self, r: np.ndarray, neurons: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The pulls u (..., m, n) of all pairs (or of some neurons), from those of the samples (..., n)."""
        several = np.atleast_2d(r)
        u = several[:, None, :] * self.slopes[neurons]
        samples = self._samples[neurons]
        rows, places = np.nonzero(samples < len(self.x))
        if len(rows):
            held = self._response[neurons] @ u.transpose(1, 2, 0)  # (m, h, ...)
            u[:, rows, samples[rows, places]] = -held[rows, places].T
        return u if r.ndim == 2 else u[0]

    def loosest(self, r: np.ndarray, u: np.ndarray) -> np.ndarray:
        """How much every held pair (as `np.nonzero(held)` lists them) may change its slope and stay inside.

        `r` are the pulls of the samples and `u` those of all pairs; a change of r by the factor 1 + d changes
        no slope by more than 2 d / (1 - d) times what is returned needs: slack |r_s| / sum_i |T_si| P_i, to
        be compared with max |r|.
        """
        neurons, samples = np.nonzero(self.held)
        slopes = u[neurons, samples] / r[samples]
        slack = np.minimum(slopes - self.slope, 1 - slopes)
        return np.asarray(slack * np.abs(r[samples]) / self._reach[neurons, samples])

    def amplification(self, sizes: np.ndarray) -> np.ndarray:
        """How large the pulls of pairs held (m, n) can be, if those of the samples have these `sizes`."""
        n = len(self.x)
        bounds = np.zeros((len(self.side), n + 1))
        rows = np.arange(len(self.side))[:, None]
        terms = np.abs(self._response) * (self.slopes * sizes)[:, None, :]
        bounds[rows, self._samples] = terms.sum(axis=2)
        return bounds[:, :-1]

    def kernel(self, a: np.ndarray) -> np.ndarray:
        r"""K (n, n), such that $f' = K r$ if the first layer alone moves."""
        n = len(self.x)
        kernel = self.gram * ((self.slopes * (a**2)[:, None]).T @ self.slopes)
        holding = np.flatnonzero(self.held.any(axis=1))
        if len(holding):
            p = self.slopes[holding][:, None, :]
            rows = np.vstack([self.gram, np.zeros(n)])[self._samples[holding]] * p  # (some, h, n)
            weighted = self._response[holding] * p * (a[holding] ** 2)[:, None, None]
            kernel -= rows.reshape(-1, n).T @ weighted.reshape(-1, n)
        return np.asarray((kernel + kernel.T) / 2)

    def tangent_kernel(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        r"""The same if both layers move."""
        hidden = self.slopes * (w @ self.x.T)
        return np.asarray(self.kernel(a) + hidden.T @ hidden)

    def kernel_of(self, neuron: int, a: float) -> np.ndarray:
        """What one neuron adds to `kernel`."""
        p = self.slopes[neuron]
        kernel = p[:, None] * self.gram * p
        held = self._samples[neuron][self._samples[neuron] < len(self.x)]
        if len(held):
            kernel -= (self.gram[held] * p).T @ (self._response[neuron, : len(held)] * p)
        return np.asarray(a**2 * kernel)


class AffineMotion:
    """A step in a region with the second layer fixed: everything follows from $R = \\int r$ at the nodes."""

    def __init__(self, region: Region, start: Weights, kernel: np.ndarray, outputs: np.ndarray, step: float):
        self.region, self.start, self.step = region, start, step
        self.kernel, self.outputs = kernel, outputs
        self.gathered = np.zeros((len(NODES), len(outputs)))
        self.change = 0.0

    @property
    def sweep_cost(self) -> float:
        """What a sweep costs, in gradients: n x n products instead of m x n x k."""
        m, k = self.start.w.shape
        return len(NODES) * len(self.outputs) / (2 * m * k)

    def guess(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes if the pulls were constant."""
        return self.outputs + (self.step * NODES)[:, None] * (self.kernel @ r)

    def respond(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes, for pulls r (nodes, n)."""
        self.gathered = self.step * (INTEGRAL @ r)
        return self.outputs + self.gathered @ self.kernel

    def unresolved(self, r: np.ndarray, least: float) -> float:
        """What the polynomial cannot resolve, relative to the pulls, or to the `least` that they can be."""
        return float(np.abs(TAIL @ r).max() / max(np.abs(r).max(), least))

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        gathered = at(theta)[1:] @ self.gathered
        moved = self.start.a[:, None] * (self.region.pulls(gathered) @ self.region.x)
        return Weights(self.start.w + moved, self.start.a, self.start.c)

    def preactivations(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs (neurons, samples) whose pre-activation may reach zero, and their paths on `GRID`."""
        region, a = self.region, self.start.a
        reach = 1.5 * np.abs(region.gram) @ np.abs(self.gathered).max(axis=0)
        near = (np.abs(z) <= np.abs(a)[:, None] * reach) & (region.side != 0)
        neurons = np.flatnonzero(near.any(axis=1))
        u = region.pulls(self.gathered, neurons)
        moved = a[neurons][:, None] * (u @ region.gram)  # (nodes, some, n)
        rows, samples = np.nonzero(near[neurons])
        paths = np.empty((len(rows), len(GRID)))
        paths[:, 0] = z[neurons[rows], samples]
        paths[:, 1:] = paths[:, :1] + moved[:, rows, samples].T
        return neurons[rows], samples, paths

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer may become within the step."""
        reach = np.abs(self.gathered).max(axis=0) @ np.sqrt(np.diag(self.region.gram))
        return np.linalg.norm(self.start.w, axis=1) + np.abs(self.start.a) * reach

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights that may change their sign; None if they do not move."""
        return None


class BilinearMotion:
    """A step in a region with both layers trained: all weights at the nodes, improved sweep by sweep.

    With `decay` all weights are also pulled to zero at this rate.
    """

    def __init__(
        self, region: Region, start: Weights, outputs: np.ndarray, step: float, bias: bool, decay: float = 0.0
    ):
        self.region, self.start, self.step, self.bias, self.decay = region, start, step, bias, decay
        self.outputs = outputs
        self.change = np.inf

    sweep_cost = float(len(NODES))  # a gradient at every node

    @cached_property
    def kernel(self) -> np.ndarray:
        """The tangent kernel at the start of the step."""
        return self.region.tangent_kernel(self.start.w, self.start.a) + float(self.bias)

    def guess(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes if the velocities were constant."""
        start = self.start
        dw, da, dc = self._velocity(start.w, start.a, r)
        steps = self.step * NODES
        self.w = start.w + steps[:, None, None] * dw
        self.a = start.a + steps[:, None] * da
        self.c = start.c + steps * dc
        return self._outputs()

    def respond(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes, for pulls r (nodes, n); the weights there are improved on the way."""
        self.velocity = self._velocity(self.w, self.a, r)
        before = self.w, self.a
        self.w, self.a, self.c = (
            start + self.step * np.tensordot(INTEGRAL, v, axes=1)
            for start, v in zip((self.start.w, self.start.a, self.start.c), self.velocity, strict=True)
        )
        moved = ((self.w - before[0]) ** 2).sum(axis=2) + (self.a - before[1]) ** 2
        self.change = float(np.sqrt((moved / self._squares).max()))
        return self._outputs()

    @cached_property
    def _squares(self) -> np.ndarray:
        squares = (self.start.w**2).sum(axis=1) + self.start.a**2
        return np.where(squares > 0, squares, 1.0)

    def _velocity(self, w: np.ndarray, a: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, ...]:
        region = self.region
        g = region.pulls(r) @ region.x
        # a' = sum_i r_i P_i z_i; held pairs have z = 0, so the full g serves as well
        dw, da = a[..., None] * g, (w * g).sum(axis=-1)
        if self.decay:
            dw, da = dw - self.decay * w, da - self.decay * a
        return dw, da, r.sum(axis=-1) * float(self.bias)

    def _outputs(self) -> np.ndarray:
        self.z = self.w @ self.region.x.T
        return np.einsum("tm,tmn->tn", self.a, self.z * self.region.slopes) + self.c[:, None]

    def unresolved(self, r: np.ndarray, least: float) -> float:
        """What the polynomials cannot resolve, relative to the pulls or to the weights of the neuron."""
        pulls = float(np.abs(TAIL @ r).max() / max(np.abs(r).max(), least))
        dw, da, _ = self.velocity
        rough = (np.tensordot(TAIL, dw, axes=1) ** 2).sum(axis=2) + (TAIL @ da) ** 2
        return max(pulls, self.step * float(np.sqrt((rough / self._squares).max())))

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        first, later = at(theta)[0], at(theta)[1:]
        return Weights(
            first * self.start.w + np.tensordot(later, self.w, axes=1),
            first * self.start.a + later @ self.a,
            first * self.start.c + later @ self.c,
        )

    def preactivations(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs (neurons, samples) whose pre-activation may reach zero, and their paths on `GRID`."""
        reach = 4.0 * np.abs(self.z - z).max(axis=0)  # a polynomial of this degree goes no further
        neurons, samples = np.nonzero((np.abs(z) <= reach) & (self.region.side != 0))
        paths = np.concatenate([z[None, neurons, samples], self.z[:, neurons, samples]]).T
        return neurons, samples, paths

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer become within the step."""
        return np.linalg.norm(self.start.w, axis=1) + np.linalg.norm(self.w - self.start.w, axis=2).max(
            axis=0
        )

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights (m, GRID)."""
        return np.concatenate([self.start.a[None], self.a]).T
