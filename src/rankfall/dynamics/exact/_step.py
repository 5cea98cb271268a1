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
FAINT = 1e-9  # pulls below this share of the largest do not matter to Newton's method
MANY = 40  # samples beyond which one Jacobian serves all nodes
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
    factors = _Newton(path, pull, f) if reach > STIFF else None
    rounding = 1e-15 * (1 + np.abs(f0).max()) + 1e-17 * reach
    for sweep in range(1, SWEEPS + 1):
        r = pull(f)
        change = path.respond(r) - f
        size = float(np.abs(change).max())
        if not np.isfinite(size):
            return None, sweep * path.sweep_cost
        done = size <= 100 * rounding and path.change < 1e-13
        if size > 0.5 * last and sweep > 2 and not done:
            done = size <= 1e4 * rounding and path.change < 1e-11  # no further, by rounding
            if not done and factors is not None and size > 0.9 * last:
                return None, sweep * path.sweep_cost
            factors = _Newton(path, pull, f)
        if done:
            return (f + change, r), sweep * path.sweep_cost  # the pulls that have moved the weights
        last = size
        f = f + (change if factors is None else factors.solve(change))
    return None, SWEEPS * path.sweep_cost


def reach_of(path: Path, r: np.ndarray) -> float:
    """How far the outputs would go with pulls r if these did not cancel; and so, how large is rounding."""
    return path.step * float((np.abs(path.kernel) @ np.abs(r)).max())


class _Newton:
    """The linear system of Newton's method for the outputs: I - h A (x) K dr/df, solved in a smaller space.

    Samples that pull on nothing have no part in it: their outputs follow from the others'. If the others are
    many, one Jacobian serves all nodes, and the system falls apart into modes.
    """

    def __init__(self, path: Path, pull: Pull, f: np.ndarray):
        self.step, self.kernel = path.step, path.kernel
        pulls = np.abs(pull(f)).max(axis=0) * path.region.live
        self.some = np.flatnonzero(pulls > FAINT * pulls.max()) if pull.normalised else np.arange(f.shape[1])
        self.jacobian = pull.jacobian(f, self.some)
        self.jacobian = np.where(np.isfinite(self.jacobian), self.jacobian, 0.0)  # a step that is too long
        self.modes = len(self.some) > MANY
        if self.modes:
            self._find_modes()
        else:
            self._factor()

    def solve(self, change: np.ndarray) -> np.ndarray:
        """The solution (nodes, n) for a right side."""
        inner = self._by_modes(change) if self.modes else self._by_factors(change)
        pulled = np.einsum("kij,kj->ki", self.jacobian, inner)
        return np.asarray(change + self.step * (INTEGRAL @ pulled) @ self.kernel[self.some])

    def _factor(self) -> None:
        n, kernel = len(self.some), self.kernel[np.ix_(self.some, self.some)]
        matrix = -self.step * np.einsum("kl,lij->kilj", INTEGRAL, kernel @ self.jacobian)
        matrix = matrix.reshape(STAGES * n, STAGES * n)
        matrix[np.diag_indices(STAGES * n)] += 1.0
        with warnings.catch_warnings():  # a matrix that is singular gives no step, and the step is shortened
            warnings.simplefilter("ignore", LinAlgWarning)
            self._factors = lu_factor(matrix)

    def _by_factors(self, change: np.ndarray) -> np.ndarray:
        part = change[:, self.some]
        return np.asarray(lu_solve(self._factors, part.ravel()).reshape(part.shape))

    def _find_modes(self) -> None:
        """With -J = L L^T at the end of the step: the eigenvectors of L^T K L."""
        self.jacobian = np.broadcast_to(self.jacobian[-1], self.jacobian.shape)
        values, vectors = np.linalg.eigh(-self.jacobian[-1])
        self.root = vectors * np.sqrt(np.maximum(values, 0.0))
        kernel = self.kernel[np.ix_(self.some, self.some)]
        self.rates, self.vectors = np.linalg.eigh(self.root.T @ kernel @ self.root)
        self.outer = kernel @ self.root @ self.vectors

    def _by_modes(self, change: np.ndarray) -> np.ndarray:
        part = change[:, self.some]
        wanted = (part @ self.root @ self.vectors).T[..., None]
        systems = np.eye(STAGES) + self.step * self.rates[:, None, None] * INTEGRAL
        found = np.linalg.solve(systems, wanted)[..., 0].T
        return np.asarray(part - self.step * (INTEGRAL @ found) @ self.outer.T)
