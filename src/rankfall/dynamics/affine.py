r"""The exact flow with fixed second layer: all weights are affine in the integral $R = \\int r$ of the pulls.

The first layer is $w_j = w_j(0) + a_j \\sum_i C_{ji} x_i$. A step adds to C, and to the pre-activations, and
costs two products of their size; the weights themselves are formed only if somebody asks for them.
"""

from typing import Any

import numpy as np

from rankfall.dynamics.collocation import INTEGRAL, NODES, STAGES, TAIL, at
from rankfall.dynamics.kinks import Decision
from rankfall.dynamics.regions import Region, Weights
from rankfall.dynamics.step import Motion, Piece
from rankfall.dynamics.walk import ROUNDING, TOUCH, Walk, Watched, first_zero

FRESH = 100  # steps after which pre-activations are computed anew from the weights, against rounding


class AffineMotion:
    """A step in a region with the second layer fixed: everything follows from $R = \\int r$ at the nodes."""

    def __init__(self, walk: "AffineWalk", outputs: np.ndarray, step: float):
        self.walk, self.region, self.a, self.step = walk, walk.region, walk.second, step
        self.kernel, self.outputs = walk.kernel, outputs
        self.gathered = np.zeros((len(NODES), len(outputs)))
        self.change = 0.0

    @property
    def sweep_cost(self) -> float:
        """What a sweep costs, in gradients: n x n products instead of m x n x k."""
        return len(NODES) * len(self.outputs) / (2 * len(self.a) * self.region.x.shape[1])

    def guess(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes if the pulls were constant."""
        return self.outputs + (self.step * NODES)[:, None] * (self.kernel @ r)

    def respond(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes, for pulls r (nodes, n)."""
        self.gathered = self.step * (INTEGRAL @ r)
        return self.outputs + self.gathered @ self.kernel

    def unresolved(self, r: np.ndarray, least: float) -> float:
        """What the polynomial cannot resolve, relative to the pulls, or to the `least` that they can be."""
        return float(np.abs(TAIL @ r).max() / max(np.abs(r).max(), least, 1e-300))

    def pulled(self, theta: float) -> np.ndarray:
        """The integral of the pulls of all pairs (m, n) up to a place in the step."""
        return self.region.pulls(at(theta)[1:] @ self.gathered)

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        start = self.walk.weights
        return Weights(start.w + start.a[:, None] * (self.pulled(theta) @ self.region.x), start.a, start.c)

    def preactivations(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs (neurons, samples) whose pre-activation may reach zero, and their paths on `GRID`.

        They move straight, with the velocities of the start, but for what the pulls change within the step.
        """
        region, walk = self.region, self.walk
        straight = (self.step * NODES)[:, None] * walk.present_pulls()
        bend = 1.5 * np.abs(region.gram) @ np.abs(self.gathered - straight).max(axis=0)
        ahead = np.where(z * walk.velocities < 0, np.abs(walk.velocities) * self.step, 0.0)
        near = (np.abs(z) <= ahead + np.abs(self.a)[:, None] * bend) & (region.side != 0)
        neurons = np.flatnonzero(near.any(axis=1))
        rows, samples = np.nonzero(near[neurons])
        start = z[neurons][..., None]
        u = region.pulls(self.gathered, neurons)
        moved = self.a[neurons][:, None] * (u @ region.gram)  # (nodes, some, n)
        paths = np.concatenate([start, start + moved.transpose(1, 2, 0)], axis=2)
        return neurons[rows], samples, paths[rows, samples]

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer may become within the step."""
        reach = np.abs(self.gathered).max(axis=0) * np.sqrt(np.diag(self.region.gram))
        return self.walk.sizes + np.abs(self.a) * ((self.region.slopes + self.region.held) @ reach)

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights that may change their sign; None if they do not move."""
        return None


class AffineWalk(Walk):
    """A walk with fixed second layer."""

    def __init__(self, *args: Any):
        self.coefficients: np.ndarray | None = None
        super().__init__(*args)
        self.coefficients = np.zeros(self.region.side.shape)
        self.velocities = np.zeros(self.region.side.shape)  # of the pre-activations, at the start of a step
        self._nonzero_lengths = np.where(self.lengths > 0, self.lengths, 1.0)
        self._age = 0
        self._kernel = self.region.kernel(self.second)

    @property
    def weights(self) -> Weights:
        """The weights now."""
        if self.coefficients is not None and self.coefficients.any():
            start = self._weights
            w = start.w + start.a[:, None] * (self.coefficients @ self.region.x)
            w[np.linalg.norm(w, axis=1) <= ROUNDING * self.sizes] = 0.0
            self._weights = Weights(w, start.a, start.c)
            self.coefficients[:] = 0.0
            # where terms have cancelled, what is left is no more exact than they were
            self.sizes = np.maximum(np.linalg.norm(w, axis=1), ROUNDING / TOUCH * self.sizes)
            self.evaluations += 0.5
        return self._weights

    @weights.setter
    def weights(self, weights: Weights) -> None:
        self._weights = weights
        self._z = None

    def jump(self, w: np.ndarray, region: Region) -> None:
        """Go to another place, with the kinks held there."""
        self.weights = Weights(w, self.second, self._weights.c)
        self.coefficients = np.zeros(self.region.side.shape)
        self.sizes = np.linalg.norm(w, axis=1)
        self.region.copy_kinks(region)
        self._kernel = self.region.kernel(self.second)
        self._next, self._calm = np.inf, 0.0

    @property
    def second(self) -> np.ndarray:
        """The second layer (m)."""
        return self._weights.a

    @property
    def kernel(self) -> np.ndarray:
        """The kernel K of the region."""
        return self._kernel

    @property
    def outputs(self) -> np.ndarray:
        """f on the samples."""
        return np.asarray(self.second @ (self.region.slopes * self.z) + self._weights.c)

    def _motion(self, f: np.ndarray, step: float) -> Motion:
        return AffineMotion(self, f, step)

    def _moved(self, pulled: np.ndarray) -> np.ndarray:
        """How far pre-activations move by these pulls."""
        self.evaluations += 0.5
        return np.asarray(self.second[:, None] * (pulled @ self.region.gram))

    @property
    def largest(self) -> float:
        """The length of the longest row of the first layer, or a little less."""
        return float((np.abs(self.z).max(axis=0) / self._nonzero_lengths).max())

    def _guess_step(self, u: np.ndarray, longest: float) -> float:
        if self.region.slope == 1:
            return longest
        self.velocities = self._moved(u)
        return first_zero(self.z, self.velocities, 10 * self._touch(self.sizes))

    def _approaching(self, motion: Motion) -> Watched:
        watched = super()._approaching(motion)
        self.evaluations += STAGES / 2 * len(np.unique(watched.neurons)) / len(self.second)
        return watched

    def _land(self, piece: Piece, theta: float) -> None:
        assert isinstance(piece.motion, AffineMotion)
        assert self.coefficients is not None
        pulled = piece.motion.pulled(theta)
        self.coefficients += pulled
        self.sizes = self.sizes + np.abs(self.second) * (np.abs(pulled) @ self.lengths)
        self._z = self.z + self._moved(pulled)
        self._z[self.region.side == 0] = 0.0
        self._age += 1
        if self._age >= FRESH:
            self._age = 0
            self.weights = self.weights
            self._kernel = self.region.kernel(self.second)
            self.evaluations += 1.0

    def _place(self, neuron: int, at_kink: np.ndarray, decision: Decision, before: np.ndarray) -> None:
        if self.coefficients is None:  # at the start
            super()._place(neuron, at_kink, decision, before)
            return
        a = float(self.second[neuron])
        kernel = self.region.kernel_of(neuron, a)
        super()._place(neuron, at_kink, decision, before)
        self._kernel = self._kernel - kernel + self.region.kernel_of(neuron, a)

    def _to_kinks(self, neuron: int, samples: np.ndarray) -> None:
        a = float(self.second[neuron])
        if self.coefficients is None or a == 0:
            super()._to_kinks(neuron, samples)
            return
        step, z, x = self._step_to_kinks(neuron, samples), self.z[neuron], self.region.x
        self.coefficients[neuron, samples] -= step / a
        z -= x @ (step @ x[samples])
        z[samples] = 0.0
