"""Motion: where the weights are, and how they move within a step."""

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from rankfall.dynamics.exact._regions import TOUCH, Region, Weights

FAR = 1e4  # how far, in units of TOUCH, a neuron is moved to be at its kinks exactly
ROUNDING = 1e-15  # of a sum, relative to its terms
DEPENDENT = 1e-12  # singular values of unit inputs below this share of the largest are zero


class Path(Protocol):
    """How outputs and weights move within one step: `AffinePath` or `BilinearPath`."""

    step: float
    region: Region
    change: float  # of the weights in the last sweep, relative to their size

    @property
    def kernel(self) -> np.ndarray:
        """The response of the outputs to the pulls."""

    @property
    def sweep_cost(self) -> float:
        """What a sweep costs, in gradients."""

    def guess(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes if velocities were constant."""

    def respond(self, r: np.ndarray) -> np.ndarray:
        """The outputs at the nodes for pulls r at the nodes."""

    def unresolved(self, r: np.ndarray, least: float) -> float:
        """What the polynomials fail to resolve."""

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""

    def preactivations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs (neurons, samples) that may reach their kinks, and their paths."""

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer may become."""

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights, if they move."""

    def land(self, theta: float) -> None:
        """Take the motion itself to a place in the step."""


class Motion(ABC):
    """Weights in a region, and how they move there: `Affine` or `Bilinear`.

    `sizes` (m) are the lengths of the rows of the first layer, or of the terms that cancelled in them;
    `evaluations` counts the work, in gradients of all samples and neurons: two products of the size of W X.
    """

    trains_second: bool
    trains_bias: bool  # of the output

    def __init__(self, region: Region, start: Weights):
        self.region, self._weights = region, start
        self._z: np.ndarray | None = None
        self.sizes = np.linalg.norm(start.w, axis=1)
        self.evaluations = 0.0

    @property
    def weights(self) -> Weights:
        """The weights now."""
        return self._weights

    def go_to(self, weights: Weights) -> None:
        """Be at these weights."""
        self._weights, self._z = weights, None

    @property
    def second(self) -> np.ndarray:
        """The second layer (m)."""
        return self._weights.a

    @property
    def z(self) -> np.ndarray:
        """The pre-activations (m, n); those at the kink are zero."""
        z = self._z
        if z is None:
            z = self.weights.w @ self.region.x.T
            z[self.region.side == 0] = 0.0
            self._z = z
        return z

    @property
    def outputs(self) -> np.ndarray:
        """f on the samples."""
        return np.asarray(self.second @ (self.region.slopes * self.z) + self._weights.c)

    @property
    @abstractmethod
    def kernel(self) -> np.ndarray:
        """The response of the outputs to the pulls: f' = K r."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The length of the longest row of the first layer, or a little less."""

    @abstractmethod
    def moved(self, u: np.ndarray) -> np.ndarray:
        """The velocities of the pre-activations with pulls u (m, n) of all pairs, by the first layer."""

    @abstractmethod
    def path(self, f: np.ndarray, r: np.ndarray, velocities: np.ndarray, step: float) -> Path:
        """The next step, from outputs f, pulls r and `velocities` of the pre-activations."""

    # At the kinks

    def touch(self) -> np.ndarray:
        """How small a pre-activation (m, n) is that is at its kink."""
        return np.asarray(TOUCH * self.sizes[:, None] * self.region.lengths)

    def place(self, neuron: int, samples: np.ndarray, slopes: np.ndarray) -> None:
        """Give a neuron these slopes; of the `samples` hold those with a slope inside."""
        self.region.place(neuron, samples, slopes)

    def to_kinks(self, neuron: int, samples: np.ndarray) -> None:
        """Take a neuron to the kinks of these samples; it was there up to rounding."""
        step = self.step_to_kinks(neuron, samples)
        self.weights.w[neuron] -= step @ self.region.x[samples]
        self.z[neuron] = self.region.x @ self.weights.w[neuron]
        self.z[neuron, samples] = 0.0

    def step_to_kinks(self, neuron: int, samples: np.ndarray) -> np.ndarray:
        """How much of each input takes the neuron's pre-activations of these samples to zero.

        What rounding left of them is no larger than `TOUCH`. Nearly parallel inputs would make a large step
        of that, and opposite ones steps that cancel but for rounding: such a part is left out.
        """
        lengths = self.region.lengths[samples]
        unit = self.region.x[samples] / lengths[:, None]
        u, s, _ = np.linalg.svd(unit, full_matrices=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (u.T @ (self.z[neuron, samples] / lengths)) / s
        small = np.abs(parts) <= FAR * TOUCH * max(self.sizes[neuron], np.finfo(float).tiny)
        small &= s > DEPENDENT * s.max()
        step = np.where(small, parts, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            back = np.where(small & (s > 0), step / s, 0.0)  # step = v^T parts = unit^T (u parts / s)
        return np.asarray((u @ back) / lengths)
