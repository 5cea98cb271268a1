"""Problems whose KKT points are found without the library: cells of a random start, by a QP of SciPy's."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize, root

from rankfall.certificates import Point, Problem, propose, rest


@dataclass(frozen=True)
class Solved:
    """A problem, the sides of its friendly pairs, and the solution of that cell in floats."""

    problem: Problem
    side: np.ndarray
    multipliers: np.ndarray
    slopes: np.ndarray
    weights: np.ndarray
    inside: bool  # is the solution on the sides of the cell, and are all margins 1 at least?

    def propose(self, **settings):
        return propose(self.problem, self.side, self.multipliers, self.slopes, **settings)


def cell_solution(x, y, a, alpha, sides):
    """lambda (n) and mu (m, n) of the cell with these sides of friendly pairs: the dual problem by SLSQP.

    They minimise |sum_i y_i mu_ji a_j x_i|^2/2 - sum lambda; mu is fixed by the side for friendly pairs, and
    between alpha lambda and lambda for all others.
    """
    n, gram, friendly = len(y), x @ x.T, a[:, None] * y > 0
    others = np.argwhere(~friendly)
    fixed = np.where(friendly, np.where(sides > 0, 1.0, alpha), 0.0)

    def both(z):
        mu = fixed * z[:n]
        mu[others[:, 0], others[:, 1]] = z[n:]
        return z[:n], mu

    def value(z):
        lam, mu = both(z)
        pull = (mu * y) @ gram
        gradient = (a**2)[:, None] * pull * y
        energy = ((a**2) * (mu * y * pull).sum(axis=1)).sum() / 2
        return energy - lam.sum(), np.append(
            (gradient * fixed).sum(axis=0) - 1, gradient[others[:, 0], others[:, 1]]
        )

    rows = np.zeros((2 * len(others), n + len(others)))
    for e, (_, i) in enumerate(others):
        rows[2 * e, [n + e, i]] = 1.0, -alpha
        rows[2 * e + 1, [n + e, i]] = -1.0, 1.0
    bounds = [(0, None)] * n + [(None, None)] * len(others)
    within = [{"type": "ineq", "fun": lambda z: rows @ z, "jac": lambda z: rows}] if len(others) else []
    options = {"maxiter": 2000, "ftol": 1e-15}
    with np.errstate(all="ignore"):
        start = np.full(n + len(others), 0.5 / n)
        found = minimize(
            value, start, jac=True, method="SLSQP", bounds=bounds, constraints=within, options=options
        )
        return both(found.x)


def solve(problem, sides):
    """The cell of these sides of friendly pairs; None if it has no solution."""
    x, y, a, alpha = problem.inputs, problem.y, problem.second, problem.slope
    lam, mu = cell_solution(x, y, a, alpha, sides)
    if not np.isfinite(mu).all() or not 1e-9 < lam.max() < 1e6:
        return None
    weights = a[:, None] * ((mu * y) @ x)
    z = weights @ x.T
    near, friendly = 1e-5 * np.abs(z).max(), a[:, None] * y > 0
    side = np.where(friendly, sides, np.where(z > near, 1, np.where(z < -near, -1, 0)))
    margins = y * (a @ np.where(z > 0, z, alpha * z))
    right = (sides * z)[friendly & (np.linalg.norm(weights, axis=1) > 1e-6)[:, None]]
    inside = bool((alpha == 1 or (right > near).all()) and margins.min() > 1 - 1e-4)
    with np.errstate(all="ignore"):
        slopes = mu / lam
    return Solved(problem, side, np.where(lam > 1e-6 * lam.max(), lam, 0.0), slopes, weights, inside)


def random_problem(seed, n=5, d=8, m=4, slope=0.1, bias=False, loss="exponential"):
    """Labels in turn, neurons of both signs, samples in general position."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    a = np.where(np.arange(m) % 2, 1.0, -1.0) * rng.choice([0.5, 1.0, 1.5], size=m)
    return Problem(rng.normal(size=(n, d)), y, slope, a, bias=bias, loss=loss)


@cache
def solved(seed, slope=0.1, **settings):
    """The first problem from this seed on whose cell has its solution inside."""
    for trial in range(seed, seed + 50):
        problem = random_problem(trial, slope=slope, **settings)
        sides = np.where(np.random.default_rng(trial).random((problem.width, len(problem.y))) < 0.9, 1, -1)
        found = solve(problem, sides)
        if found is not None and found.inside:
            return found
    raise AssertionError("no such problem was found")


def line_start(problem, point, level):
    """B = V0 + level U with <h_i, B> = level - log(lambda_i / sum lambda) on the support, at its kinks."""
    lam, mu, u = point.lam(), point.mu(problem.slope), point.weights(problem)
    s = np.flatnonzero(lam)
    with np.errstate(all="ignore"):
        slopes = np.where(point.patterns > 0, 1.0, np.where(point.patterns < 0, problem.slope, mu / lam))
    h, bent = (np.zeros((len(s), *u.shape)) for _ in range(2))
    for g, group in enumerate(point.groups):
        kinks = problem.inputs[s[point.patterns[g, s] == 0]]
        away = np.eye(u.shape[1]) - np.linalg.pinv(kinks) @ kinks if len(kinks) else np.eye(u.shape[1])
        for e, i in enumerate(s):
            rows = problem.second[group][:, None] * problem.y[i] * slopes[g, i] * problem.inputs[i]
            h[e, group], bent[e, group] = rows, rows @ away
    h, bent = h.reshape(len(s), -1), bent.reshape(len(s), -1)
    wanted = -np.log(lam[s] / lam.sum())
    return (np.linalg.lstsq(h @ bent.T, wanted, rcond=1e-13)[0] @ bent).reshape(u.shape) + level * u


@dataclass(frozen=True)
class Resting:
    """A minimum of the loss: the first layer, sides (0 at a kink), slopes, signs of residuals, the loss."""

    problem: Problem
    weights: np.ndarray
    side: np.ndarray
    slopes: np.ndarray
    signs: np.ndarray | None
    loss: float


def losses(name, y, f):
    """The loss of each sample and its pull -dl/df."""
    if name == "square":
        return (y - f) ** 2 / 2, y - f
    if name == "logistic":
        return np.logaddexp(0, -y * f), y / (1 + np.exp(y * f))
    return np.exp(-y * f), y * np.exp(-y * f)


def smooth_minimum(problem, w, width):
    """Where BFGS ends with kinks rounded off over a width."""
    x, y, a, alpha = problem.inputs, problem.y, problem.second, problem.slope

    def value(v):
        z = v.reshape(w.shape) @ x.T
        root_ = np.sqrt(z**2 + width**2)
        each, pulls = losses(problem.loss, y, a @ (alpha * z + (1 - alpha) * (z + root_) / 2))
        slopes = alpha + (1 - alpha) * (1 + z / root_) / 2
        return each.sum(), -((a[:, None] * slopes * pulls) @ x).ravel()

    with np.errstate(all="ignore"):
        found = minimize(value, w.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500})
    return found.x.reshape(w.shape)


def resting(problem, seed):
    """A minimum that is found by BFGS with kinks rounded off less and less, and then by SciPy's `root`.

    None if the flow goes to infinity, or BFGS does not end next to one.
    """
    x, y, a, alpha = problem.inputs, problem.y, problem.second, problem.slope
    w = np.random.default_rng(seed).normal(size=(len(a), x.shape[1])) / 2
    for width in 10.0 ** -np.arange(1, 8):
        w = smooth_minimum(problem, w, width)
    z = w @ x.T
    if not np.isfinite(w).all() or np.abs(w).max() > 50:
        return None
    held = (np.abs(z) < 1e-4) & (np.abs(w).max(axis=1) > 1e-3)[:, None]
    side = np.where(held, 0, np.where(z > 0, 1, -1))
    steep = np.where(z > 0, 1.0, alpha)

    def both(v):
        slopes = steep.copy()
        slopes[held] = v[w.size :]
        return v[: w.size].reshape(w.shape), slopes

    def equations(v):
        u, slopes = both(v)
        moved = u @ x.T
        pulls = losses(problem.loss, y, a @ np.where(held, 0.0, slopes * moved))[1]
        return np.append(((slopes * pulls) @ x).ravel(), moved[held])

    start = np.append(w.ravel(), np.full(int(held.sum()), (1 + alpha) / 2))
    with np.errstate(all="ignore"):
        found = root(equations, start, tol=1e-15)
    if np.abs(found.fun).max() > 1e-12 or np.abs(found.x[: w.size] - w.ravel()).max() > 1e-2:
        return None
    w, slopes = both(found.x)
    f = a @ np.where(held, 0.0, slopes * (w @ x.T))
    each, pulls = losses(problem.loss, y, f)
    if (a[:, None] * pulls > 0)[held].any() or ((slopes < alpha) | (slopes > 1)).any():
        return None
    return Resting(problem, w, side, slopes, np.sign(pulls) if problem.loss == "square" else None, each.sum())


def noisy_problem(seed, n=16, d=2, m=2, slope=0.1, bias=False, loss="exponential"):
    """Labels of a half-space, a quarter of them wrong; targets of all sizes for the square loss."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = np.where(x[:, 0] > 0, 1.0, -1.0) * np.where(rng.random(n) < 0.25, -1, 1)
    y = y + rng.normal(size=n) if loss == "square" else y
    a = np.where(np.arange(m) % 2, 1.0, -1.0) * rng.choice([0.5, 1.0, 1.5], size=m)
    return Problem(x, y, slope, a, bias=bias, loss=loss)


@cache
def rested(seed, kinks=0, **settings):
    """The first problem from this seed on with a minimum at so many kinks at least that is proved."""
    for trial in range(seed, seed + 300):
        found = resting(noisy_problem(trial, **settings), trial)
        if found is not None and (found.side == 0).sum() >= kinks:
            claim = rest(found.problem, found.weights, found.side, found.slopes, found.signs)
            if claim:
                return found, claim
    raise AssertionError("no such problem was found")


@pytest.fixture(scope="session")
def cells():
    """The functions above, for all tests of this folder."""

    class Cells:
        pass

    for function in (
        solve,
        solved,
        random_problem,
        line_start,
        cell_solution,
        rested,
        resting,
        noisy_problem,
        losses,
    ):
        setattr(Cells, function.__name__, staticmethod(function))
    return Cells


@pytest.fixture(scope="session")
def kinked(cells):
    """An exact point with kinks, which no test changes."""
    for seed in range(0, 400, 10):
        found = cells.solved(seed, slope=0.0)
        point = found.propose()
        if isinstance(point, Point) and point.kinks and (point.mu(0.0) != 0).any(axis=1).all():
            return found, point
    raise AssertionError("no point with kinks was found")
