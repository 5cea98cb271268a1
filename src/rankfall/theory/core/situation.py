"""Situation: a network on data with a loss, and everything about it that theorems ask for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankfall import data as geometry
from rankfall.data import Data, HardMargin
from rankfall.loss import Loss
from rankfall.measure import Spectrum, parameter_norm
from rankfall.network import Network


@dataclass(frozen=True)
class Situation:
    """What a theorem speaks about.

    - `network`: where training starts.
    - `data`, `loss`: what is fitted, and how.
    - `step`: the step size of gradient descent; None is gradient flow.
    - `penalty`: the coefficient of an L2 penalty, half the squared norm of what is trained, in the loss.

    A bias of the first layer is the weight of a coordinate 1: `x` has it, and so have all numbers below.
    """

    network: Network
    data: Data
    loss: Loss
    step: float | None = None
    penalty: float = 0.0

    # The network

    @property
    def slope(self) -> float:
        """The leaky slope; 1 where all layers are linear."""
        return 1.0 if self.network.linear_tail == self.network.depth else float(self.network.slope)

    @property
    def two_layers(self) -> bool:
        """Two layers with one output, and no skip."""
        return self.network.depth == 2 and self.network.outputs == 1 and not self.network.has_skips

    @property
    def fixed_second(self) -> bool:
        """Two layers with one output, of which only the first is trained."""
        return self.two_layers and self.network.trained == (True, False)

    @property
    def both_trained(self) -> bool:
        """Two layers with one output, both trained."""
        return self.two_layers and self.network.trained == (True, True)

    @property
    def bias(self) -> bool:
        """Does the first layer have a bias?"""
        return self.network.biases[0] is not None

    @property
    def w(self) -> np.ndarray:
        """The first layer (m, d), with its bias as the last column."""
        first, b = np.asarray(self.network.weights[0], dtype=float), self.network.biases[0]
        return first if b is None else np.column_stack([first, b])

    @property
    def a(self) -> np.ndarray:
        """The output weights of a two-layer network (m)."""
        return np.asarray(self.network.weights[1][0], dtype=float)

    @property
    def stable_rank(self) -> float:
        """The stable rank of the first layer, its bias included."""
        return Spectrum.of(self.w).stable_rank

    @property
    def start_norm(self) -> float:
        """The norm of everything that is trained."""
        return float(parameter_norm(self.network))

    @property
    def growing(self) -> np.ndarray:
        r"""What of each neuron grows first on symmetric data: $r_1 = (W_1 \bar\beta + W_2^T) / 2$.

        Zhang et al., Theorem 13; zero if inputs and targets are uncorrelated. Of two-layer networks.
        """
        size = float(np.linalg.norm(self.beta))
        if not size > 1e-12 * self.norms.max() * np.abs(self.y).max():
            return np.zeros(len(self.a))
        return np.asarray((self.w @ self.beta / size + self.a) / 2)

    def own(self, w: np.ndarray) -> np.ndarray:
        """sign(a_j) y_i <w_j, x_i> for weights (..., m, d): positive where a neuron is right."""
        return np.asarray(np.sign(np.outer(self.a, self.y)) * (w @ self.x.T))

    # The data

    @property
    def parts(self) -> int:
        """By how much the loss divides the sum over the samples: n for a mean."""
        return len(self.y) if self.loss.reduction == "mean" else 1

    @cached_property
    def x(self) -> np.ndarray:
        """The inputs (n, d) as the first layer sees them."""
        x = np.asarray(self.data.x, dtype=float)
        return np.column_stack([x, np.ones(len(x))]) if self.bias else x

    @cached_property
    def y(self) -> np.ndarray:
        """The targets."""
        return np.asarray(self.data.y, dtype=float)

    @cached_property
    def signs(self) -> bool:
        """Are the targets labels -1 and +1, both present?"""
        return self.y.ndim == 1 and set(np.unique(self.y)) == {-1.0, 1.0}

    @cached_property
    def norms(self) -> np.ndarray:
        """The norms of the inputs."""
        return geometry.norms(self.data, self.bias)

    @cached_property
    def gram(self) -> np.ndarray:
        """The inner products of the inputs (n, n)."""
        return geometry.gram(self.data, self.bias)

    @cached_property
    def p(self) -> float:
        """p(X) of Frei et al.: how nearly orthogonal the inputs are. Infinite for orthogonal ones."""
        return geometry.p_orthogonality(self.data, self.bias)

    @cached_property
    def cosine(self) -> float:
        """The largest modulus of the cosine of the angle between two inputs; an input 0 counts as 1."""
        return geometry.largest_cosine(self.data, self.bias)

    @cached_property
    def asymmetry(self) -> float:
        """How far (x, y) is from (-x, -y): 0 symmetric, at most 1. With a bias never 0."""
        return geometry.asymmetry(self.data, self.bias)

    @cached_property
    def coordinates(self) -> np.ndarray:
        """The inputs in an orthonormal basis of their span, if there are more features than samples."""
        return geometry.coordinates(self.data, self.bias)

    @cached_property
    def svm(self) -> HardMargin | None:
        """The hard-margin linear classifier; None if there is none, or no labels of two classes."""
        return geometry.hard_margin(self.data, self.bias) if self.signs else None

    @cached_property
    def mu(self) -> float:
        """The least y_i y_j cos(x_i, x_j) of Min et al.; -1 if the targets are not labels."""
        return geometry.orthogonal_margin(self.data, self.bias) if self.signs else -1.0

    @cached_property
    def covariance(self) -> np.ndarray:
        """The matrix <x x^T>."""
        return geometry.covariance(self.data, self.bias)

    @cached_property
    def beta(self) -> np.ndarray:
        """The vector <y x>."""
        return geometry.beta(self.data, self.bias)
