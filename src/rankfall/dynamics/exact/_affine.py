r"""The exact flow with fixed second layer: all weights are affine in the integral $R = \int r$ of the pulls.

The first layer is $w_j = w_j(0) + a_j \sum_i C_{ji} x_i$. A step adds to C, and to the pre-activations, and
costs two products of their size; the weights themselves are formed only if somebody asks for them.
"""

import numpy as np

from rankfall.dynamics.exact._collocation import INTEGRAL, NODES, STAGES, TAIL, at
from rankfall.dynamics.exact._motion import ROUNDING, Motion
from rankfall.dynamics.exact._regions import TOUCH, Region, Weights

FRESH = 100  # steps after which pre-activations are computed anew from the weights, against rounding


class Affine(Motion):
    """The motion with fixed second layer."""

    trains_second = trains_bias = False

    def __init__(self, region: Region, start: Weights):
        super().__init__(region, start)
        self._coefficients = np.zeros(region.side.shape)  # C, since the weights were formed
        self._kernel: np.ndarray | None = None  # until the first step
        self._nonzero_lengths = np.where(region.lengths > 0, region.lengths, 1.0)
        self._age = 0

    @property
    def weights(self) -> Weights:
        """The weights now."""
        if self._coefficients.any():
            start = self._weights
            w = start.w + start.a[:, None] * (self._coefficients @ self.region.x)
            w[np.linalg.norm(w, axis=1) <= ROUNDING * self.sizes] = 0.0
            self._weights = Weights(w, start.a, start.c)
            self._coefficients[:] = 0.0
            # where terms have cancelled, what is left is no more exact than they were
            self.sizes = np.maximum(np.linalg.norm(w, axis=1), ROUNDING / TOUCH * self.sizes)
            self.evaluations += 0.5
        return self._weights

    def go_to(self, weights: Weights) -> None:
        """Be at these weights."""
        super().go_to(weights)
        self._coefficients[:] = 0.0
        self._kernel = None

    @property
    def kernel(self) -> np.ndarray:
        """The kernel K of the region: f' = K r."""
        if self._kernel is None:
            self._kernel = self.region.kernel(self.second)
        return self._kernel

    @property
    def largest(self) -> float:
        """The length of the longest row of the first layer, or a little less."""
        return float((np.abs(self.z).max(axis=0) / self._nonzero_lengths).max())

    def moved(self, u: np.ndarray) -> np.ndarray:
        """The velocities of the pre-activations with pulls u of all pairs; or how far they go, if u is the
        integral of the pulls.
        """
        self.evaluations += 0.5
        return np.asarray(self.second[:, None] * (u @ self.region.gram))

    def path(self, f: np.ndarray, r: np.ndarray, velocities: np.ndarray, step: float) -> "AffinePath":
        """The next step."""
        return AffinePath(self, f, r, velocities, step)

    def add(self, pulled: np.ndarray) -> None:
        """Go on by the integral of the pulls of all pairs (m, n)."""
        self._coefficients += pulled
        self.sizes = self.sizes + np.abs(self.second) * (np.abs(pulled) @ self.region.lengths)
        self._z = self.z + self.moved(pulled)
        self._z[self.region.side == 0] = 0.0
        self._age += 1
        if self._age >= FRESH:
            self._age = 0
            self.go_to(self.weights)
            self._kernel = self.region.kernel(self.second)
            self.evaluations += 1.0

    def place(self, neuron: int, samples: np.ndarray, slopes: np.ndarray) -> None:
        """Give a neuron these slopes; of the `samples` hold those with a slope inside."""
        if self._kernel is None:
            self.region.place(neuron, samples, slopes)
            return
        a = float(self.second[neuron])
        before = self.region.kernel_of(neuron, a)
        self.region.place(neuron, samples, slopes)
        self._kernel = self._kernel - before + self.region.kernel_of(neuron, a)

    def to_kinks(self, neuron: int, samples: np.ndarray) -> None:
        """Take a neuron to the kinks of these samples; it was there up to rounding."""
        a = float(self.second[neuron])
        if a == 0 or self._kernel is None:  # no coefficient moves it, or no step was taken yet
            super().to_kinks(neuron, samples)
            return
        step, z, x = self.step_to_kinks(neuron, samples), self.z[neuron], self.region.x
        self._coefficients[neuron, samples] -= step / a
        z -= x @ (step @ x[samples])
        z[samples] = 0.0


class AffinePath:
    r"""A step in a region with the second layer fixed: everything follows from $R = \int r$ at the nodes."""

    def __init__(
        self, motion: Affine, outputs: np.ndarray, r: np.ndarray, velocities: np.ndarray, step: float
    ):
        self.motion, self.region, self.a, self.step = motion, motion.region, motion.second, step
        self.kernel, self.outputs, self.r, self.velocities = motion.kernel, outputs, r, velocities
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
        """What the polynomials cannot resolve, relative to the pulls, or to the `least` that they can be.

        Of a sample that pulls less than others, relative to its own pull, or to what would move the weights
        by as much as themselves.
        """
        live = self.region.live
        if not live.any():
            return 0.0
        own, rough = np.abs(r[:, live]).max(axis=0), np.abs(TAIL @ r[:, live]).max(axis=0)
        reach = self.step * np.abs(self.a).max() * self.region.lengths[live]
        enough = np.minimum(own.max(), self.motion.largest / np.maximum(reach, 1e-300))
        return float((rough / np.maximum(np.maximum(own, enough), max(least, 1e-300))).max())

    def pulled(self, theta: float) -> np.ndarray:
        """The integral of the pulls of all pairs (m, n) up to a place in the step."""
        return self.region.pulls(at(theta)[1:] @ self.gathered)

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        start = self.motion.weights
        return Weights(start.w + start.a[:, None] * (self.pulled(theta) @ self.region.x), start.a, start.c)

    def preactivations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs (neurons, samples) whose pre-activation may reach zero, and their paths on `GRID`.

        They move straight, with the velocities of the start, but for what the pulls change within the step.
        """
        region, z, velocities = self.region, self.motion.z, self.velocities
        straight = (self.step * NODES)[:, None] * self.r
        bend = 1.5 * np.abs(region.gram) @ np.abs(self.gathered - straight).max(axis=0)
        ahead = np.where(z * velocities < 0, np.abs(velocities) * self.step, 0.0)
        moving = np.any((region.slopes != 0) | region.held, axis=1, keepdims=True)  # dead neurons do not
        near = moving & (np.abs(z) <= ahead + np.abs(self.a)[:, None] * bend) & (region.side != 0)
        neurons = np.flatnonzero(near.any(axis=1))
        rows, samples = np.nonzero(near[neurons])
        start = z[neurons][..., None]
        u = region.pulls(self.gathered, neurons)
        moved = self.a[neurons][:, None] * (u @ region.gram)  # (nodes, some, n)
        paths = np.concatenate([start, start + moved.transpose(1, 2, 0)], axis=2)
        self.motion.evaluations += STAGES / 2 * len(neurons) / len(self.a)
        return neurons[rows], samples, paths[rows, samples]

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer may become within the step."""
        region = self.region
        ways = region.slopes @ (np.abs(self.gathered).max(axis=0) * region.lengths)
        holding = np.flatnonzero(
            region.held.any(axis=1)
        )  # a sample pulls less where it is held than elsewhere
        ways[holding] = np.abs(region.pulls(self.gathered, holding)).max(axis=0) @ region.lengths
        return self.motion.sizes + np.abs(self.a) * ways

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights that may change their sign; None if they do not move."""
        return None

    def land(self, theta: float) -> None:
        """Take the motion itself to a place in the step."""
        self.motion.add(self.pulled(theta))
