"""The exact flow with both layers trained: each layer is linear in the pulls and in the other layer."""

from functools import cached_property

import numpy as np

from rankfall.dynamics.exact._collocation import INTEGRAL, NODES, TAIL, at
from rankfall.dynamics.exact._motion import FAR, ROUNDING, Motion
from rankfall.dynamics.exact._regions import TOUCH, Region, Weights


class Bilinear(Motion):
    """The motion with both layers trained, and the output bias if `bias`.

    With `decay` all weights are also pulled to zero at this rate.
    """

    trains_second = True

    def __init__(self, region: Region, start: Weights, bias: bool, decay: float = 0.0):
        super().__init__(region, start)
        self.trains_bias, self.decay = bias, decay

    @property
    def kernel(self) -> np.ndarray:
        """The tangent kernel: f' = K r."""
        return self.region.tangent_kernel(self.weights.w, self.second) + float(self.trains_bias)

    @property
    def largest(self) -> float:
        """The length of the longest row of the first layer."""
        return float(np.linalg.norm(self.weights.w, axis=1).max())

    def moved(self, u: np.ndarray) -> np.ndarray:
        """The velocities of the pre-activations with pulls u (m, n) of all pairs, by the first layer."""
        self.evaluations += 1.0
        return np.asarray(self.second[:, None] * ((u @ self.region.x) @ self.region.x.T))

    def path(self, f: np.ndarray, r: np.ndarray, velocities: np.ndarray, step: float) -> "BilinearPath":
        """The next step."""
        return BilinearPath(self, step)


class BilinearPath:
    """A step in a region with both layers trained: all weights at the nodes, improved sweep by sweep."""

    def __init__(self, motion: Bilinear, step: float):
        self.motion, self.region, self.start, self.step = motion, motion.region, motion.weights, step
        self.bias, self.decay = float(motion.trains_bias), motion.decay
        self.change = np.inf

    @property
    def sweep_cost(self) -> float:
        """What a sweep costs, in gradients: one at every node."""
        return float(len(NODES))

    @cached_property
    def kernel(self) -> np.ndarray:
        """The tangent kernel at the start of the step."""
        return self.motion.kernel

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
        return dw, da, r.sum(axis=-1) * self.bias

    def _outputs(self) -> np.ndarray:
        self.z = self.w @ self.region.x.T
        return np.einsum("tm,tmn->tn", self.a, self.z * self.region.slopes) + self.c[:, None]

    def unresolved(self, r: np.ndarray, least: float) -> float:
        """What the polynomials cannot resolve, relative to the pulls or to the weights of the neuron."""
        pulls = float(np.abs(TAIL @ r).max() / max(np.abs(r).max(), least, 1e-300))
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

    def preactivations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those pairs (neurons, samples) whose pre-activation may reach zero, and their paths on `GRID`."""
        z = self.motion.z
        reach = 4.0 * np.abs(self.z - z).max(axis=0)  # a polynomial of this degree goes no further
        neurons, samples = np.nonzero((np.abs(z) <= reach) & (self.region.side != 0))
        paths = np.concatenate([z[None, neurons, samples], self.z[:, neurons, samples]]).T
        return neurons, samples, paths

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer become within the step."""
        moved = np.linalg.norm(self.w - self.start.w, axis=2)
        return np.linalg.norm(self.start.w, axis=1) + moved.max(axis=0)

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights (m, GRID)."""
        return np.concatenate([self.start.a[None], self.a]).T

    def land(self, theta: float) -> None:
        """Take the motion itself to a place in the step."""
        weights, before = self.weights(theta), self.motion.sizes
        terms, own = np.maximum(self.sizes(), before), np.linalg.norm(weights.w, axis=1)
        weights.w[own <= ROUNDING * terms] = 0.0
        still = np.linalg.norm(weights.w - self.start.w, axis=1) <= FAR * TOUCH * before
        self.motion.sizes = np.maximum(own, np.where(still, before, ROUNDING / TOUCH * terms))
        self.motion.go_to(weights)
        self.motion.evaluations += 1.0
