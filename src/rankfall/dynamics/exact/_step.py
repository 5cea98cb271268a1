"""One step of the exact flow: the collocation equations, and the stretch of the flow that solves them."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

from rankfall.dynamics.exact._collocation import INTEGRAL, STAGES, at
from rankfall.dynamics.exact._events import Hit
from rankfall.dynamics.exact._motion import Path
from rankfall.dynamics.exact._pull import Pull
from rankfall.dynamics.exact._regions import Weights

Solved = tuple[np.ndarray, np.ndarray]  # the outputs and the pulls at the nodes (nodes, n)

SWEEPS = 25  # of the iteration for one step
STIFF = 1.0  # steps longer than this, in units of the outputs' own time, take Newton's method
MOST_PARTS = 2000  # of a step, where the other clock is gathered: beyond, only the last e-folds count
_GAUSS = np.polynomial.legendre.leggauss(6)


@dataclass(frozen=True)
class Piece:
    """A step as far as it is kept: from `clock` on, theta in [0, cut]."""

    clock: float
    step: float
    cut: float
    hits: tuple[Hit, ...]  # the events at its end
    path: Path
    outputs: np.ndarray  # on GRID
    pull: Pull

    def time(self, theta: float) -> float:
        """The walk's clock within the step."""
        return self.clock + theta * self.step

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        return self.path.weights(theta)

    @cached_property
    def log_loss(self) -> np.ndarray:
        """The logarithm of the loss on `GRID`."""
        return self.pull.log_loss(self.outputs)

    def log_loss_at(self, theta: float) -> float:
        """The logarithm of the loss within the step."""
        return float(at(theta) @ self.log_loss)

    def log_integral(self, theta: float, power: int) -> float:
        """The logarithm of the integral of a power of the loss over the walk's clock, from 0 to theta."""
        log_rate = power * self.log_loss
        if theta <= 0 or not np.isfinite(log_rate).all():  # no time passes, or the loss is exactly zero
            return -np.inf
        parts = 1 + min(int(np.ptp(log_rate)), MOST_PARTS)
        nodes, weights = _GAUSS
        edges = np.linspace(0.0, theta, parts + 1)
        places = (edges[:-1, None] + (nodes + 1) / 2 * (theta / parts)).ravel()
        exponents = at(places) @ log_rate + np.log(np.tile(weights, parts))
        return float(np.log(theta / parts / 2 * self.step) + np.logaddexp.reduce(exponents))


def collocate(path: Path, pull: Pull, f0: np.ndarray, r0: np.ndarray) -> tuple[Solved | None, float]:
    """The outputs and pulls at the nodes that solve the collocation equations, and the cost in gradients.

    None if the step is too long for them. Every sweep moves the weights by the pulls, and compares the
    outputs with those that the pulls were for. Short steps converge by that alone. Else Newton's method takes
    over, with the kernel for the response of the outputs: exact for a fixed second layer, and nearly so
    if both layers are trained, because the kernel changes little within a step.
    """
    f, last = path.guess(r0), np.inf
    reach = reach_of(path, r0)
    if not np.isfinite(reach):
        return None, 0.0
    factors = _factors(path, pull, f) if reach > STIFF else None
    rounding = 1e-15 * (1 + np.abs(f0).max()) + 1e-17 * reach
    for sweep in range(1, SWEEPS + 1):
        change = path.respond(pull(f)) - f
        size = float(np.abs(change).max())
        if not np.isfinite(size):
            return None, sweep * path.sweep_cost
        done = size <= 100 * rounding and path.change < 1e-13
        if size > 0.5 * last and sweep > 2 and not done:
            done = size <= 1e4 * rounding and path.change < 1e-11  # no further, by rounding
            if not done and factors is not None and size > 0.9 * last:
                return None, sweep * path.sweep_cost
            factors = _factors(path, pull, f)
        if done:
            return (f + change, pull(f + change)), sweep * path.sweep_cost
        last = size
        f = f + (change if factors is None else lu_solve(factors, change.ravel()).reshape(f.shape))
    return None, SWEEPS * path.sweep_cost


def reach_of(path: Path, r: np.ndarray) -> float:
    """How far the outputs would go with pulls r if these did not cancel; and so, how large is rounding."""
    return path.step * float((np.abs(path.kernel) @ np.abs(r)).max())


def _factors(path: Path, pull: Pull, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of Newton's method for the outputs: I - h A (x) K dr/df."""
    n = f.shape[1]
    response = path.kernel @ pull.jacobian(f)  # (nodes, n, n)
    response = np.where(np.isfinite(response), response, 0.0)  # else the step is too long, and is shortened
    matrix = -path.step * np.einsum("kl,lij->kilj", INTEGRAL, response).reshape(STAGES * n, STAGES * n)
    matrix[np.diag_indices(STAGES * n)] += 1.0
    with warnings.catch_warnings():  # a matrix that is singular gives no step, and the step is shortened
        warnings.simplefilter("ignore", LinAlgWarning)
        return lu_factor(matrix)
