"""One step of the exact flow: the collocation equations, and the stretch of the flow that solves them."""

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from rankfall.dynamics.collocation import INTEGRAL, STAGES, at
from rankfall.dynamics.pull import Pull
from rankfall.dynamics.regions import Weights

Hit = tuple[int, int, str]  # neuron, sample, what

SWEEPS = 25  # of the iteration for one step
STIFF = 1.0  # steps longer than this, in units of the outputs' own time, take Newton's method
MOST_PARTS = 2000  # of a step, where the other clock is gathered: beyond, only the last e-folds count
_GAUSS = np.polynomial.legendre.leggauss(6)


class Motion(Protocol):
    """How outputs and weights move within a step: `AffineMotion` or `BilinearMotion`."""

    step: float
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

    def preactivations(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs (neurons, samples) that may reach their kinks, and their paths."""

    def sizes(self) -> np.ndarray:
        """How long the rows of the first layer may become."""

    def second_layer(self) -> np.ndarray | None:
        """The paths of the output weights, if they move."""


@dataclass(frozen=True)
class Piece:
    """A step that was taken, as far as it was kept: from `clock` on, `length` long, theta in [0, cut]."""

    clock: float
    step: float
    cut: float
    hits: tuple[Hit, ...]  # the events at its end: neuron, sample, what
    other: float  # the other clock at its start: log t where the walk's is s, the integral of L where it is t
    motion: Motion
    outputs: np.ndarray  # on GRID
    log_loss: np.ndarray  # on GRID
    normalised: bool

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        return self.motion.weights(theta)

    def log_loss_at(self, theta: float) -> float:
        """The logarithm of the loss within the step."""
        return float(at(theta) @ self.log_loss)

    def other_clock(self, theta: float) -> float:
        """log t where the walk's clock is s; s where it is t."""
        log_rate = -self.log_loss if self.normalised else self.log_loss
        if theta <= 0 or not np.isfinite(log_rate).all():  # no time passes, or the loss is exactly zero
            return self.other
        parts = 1 + min(int(np.ptp(log_rate)), MOST_PARTS)
        nodes, weights = _GAUSS
        edges = np.linspace(0.0, theta, parts + 1)
        places = (edges[:-1, None] + (nodes + 1) / 2 * (theta / parts)).ravel()
        exponents = at(places) @ log_rate + np.log(np.tile(weights, parts))
        log_gain = np.log(theta / parts / 2 * self.step) + np.logaddexp.reduce(exponents)
        return float(np.logaddexp(self.other, log_gain) if self.normalised else self.other + np.exp(log_gain))


def collocate(
    motion: Motion, pull: Pull, f0: np.ndarray, r0: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray] | None, int]:
    """The outputs and pulls at the nodes that solve the collocation equations, and the sweeps it took.

    None if the step is too long for them. Every sweep moves the weights by the pulls, and compares the
    outputs with those that the pulls were for. Short steps converge by that alone. Else Newton's method takes
    over, with the kernel for the response of the outputs: exact for a fixed second layer, and nearly so
    if both layers are trained, because the kernel changes little within a step.
    """
    f, last = motion.guess(r0), np.inf
    reach = reach_of(motion, r0)
    if not np.isfinite(reach):
        return None, 0
    factors = _factors(motion, pull, f) if reach > STIFF else None
    rounding = 1e-15 * (1 + np.abs(f0).max()) + 1e-17 * reach
    for sweep in range(1, SWEEPS + 1):
        change = motion.respond(pull(f)) - f
        size = float(np.abs(change).max())
        if not np.isfinite(size):
            return None, sweep
        done = size <= 100 * rounding and motion.change < 1e-13
        if size > 0.5 * last and sweep > 2 and not done:
            done = size <= 1e4 * rounding and motion.change < 1e-11  # no further, by rounding
            if not done and factors is not None and size > 0.9 * last:
                return None, sweep
            factors = _factors(motion, pull, f)
        if done:
            return (f + change, pull(f + change)), sweep
        last = size
        f = f + (change if factors is None else lu_solve(factors, change.ravel()).reshape(f.shape))
    return None, SWEEPS


def reach_of(motion: Motion, r: np.ndarray) -> float:
    """How far the outputs would go with pulls r if these did not cancel; and so, how large is rounding."""
    return motion.step * float((np.abs(motion.kernel) @ np.abs(r)).max())


def _factors(motion: Motion, pull: Pull, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of Newton's method for the outputs: I - h A (x) K dr/df."""
    n = f.shape[1]
    response = motion.kernel @ pull.jacobian(f)  # (nodes, n, n)
    response = np.where(np.isfinite(response), response, 0.0)  # else the step is too long, and is shortened
    matrix = -motion.step * np.einsum("kl,lij->kilj", INTEGRAL, response).reshape(STAGES * n, STAGES * n)
    matrix[np.diag_indices(STAGES * n)] += 1.0
    with warnings.catch_warnings():  # a matrix that is singular gives no step, and the step is shortened
        warnings.simplefilter("ignore", LinAlgWarning)
        return lu_factor(matrix)
