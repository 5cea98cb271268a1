r"""The convex program of a cell by an interior-point method, where it has many kinks.

In a cell the margins are $q_i(W) = \sum_j c_{ji} z_{ji}$ over the friendly pairs minus $\sum_j |a_j| t_{ji}$
over the others, with $z_{ji} = w_j \cdot x_i$ and $t \ge z$, $t \ge \alpha z$. The barrier $\tau$ is on
$\lambda_i (q_i - 1)$, $\beta (t - z)$ and $\gamma (t - \alpha z)$, and t, beta and gamma are eliminated pair
by pair, the weights neuron by neuron: what is left is one linear system for the multipliers of the samples.
Each iteration costs m n^2 k; only samples near the margin take part, and others join if they are violated.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

ITERATIONS = 80
TARGET = 1e-13  # of the complementarity, relative to |W|^2 per sample
TO_BOUNDARY = 0.995  # of the way to the boundary that a step may take
NEARLY = 1.5  # times the smallest margin: samples below take part from the beginning
ROUNDS = 12  # in which samples join
DIVERGED = 1e12  # multipliers so large, relative to the start, belong to no margin


@dataclass(frozen=True)
class Interior:
    """A solution: weights (m, k), multipliers (n), and (m, n) the slopes and whether a kink is held."""

    w: np.ndarray
    multipliers: np.ndarray
    slopes: np.ndarray
    held: np.ndarray


def interior(
    x: np.ndarray, a: np.ndarray, slope: float, side: np.ndarray, friendly: np.ndarray, w: np.ndarray
) -> Interior | None:
    """Minimise |W|^2/2 with margins of at least 1 in the cell where friendly pairs have these sides.

    `w` is a guess that separates the data. None if there is no solution that floats can find.
    """
    friendly = friendly | (np.linalg.norm(x, axis=1) == 0)
    q = _margins(x, a, slope, side, friendly, w)
    if not q.min() > 0:
        return None
    w = w / q.min()
    some = q <= NEARLY * q.min()
    if some.sum() < x.shape[1]:
        some = q <= np.sort(q)[min(len(q), 2 * x.shape[1]) - 1]
    for _ in range(ROUNDS):
        with np.errstate(all="ignore"):  # where it diverges there is no solution
            found = _solve(x[some], a, slope, side[:, some], friendly[:, some], w)
        if found is None:
            return None
        q = _margins(x, a, slope, side, friendly, found.w)
        missed = (q < 1 - 1e-9) & ~some
        if not missed.any():
            return _whole(found, x, slope, side, friendly, some)
        some |= q < 1.05
    return None


def _margins(
    x: np.ndarray, a: np.ndarray, slope: float, side: np.ndarray, friendly: np.ndarray, w: np.ndarray
) -> np.ndarray:
    z = w @ x.T
    above = np.where(friendly, side > 0, z > 0)
    return np.asarray(np.abs(a) @ (np.where(friendly, 1.0, -1.0) * np.where(above, 1.0, slope) * z))


def _whole(
    found: Interior, x: np.ndarray, slope: float, side: np.ndarray, friendly: np.ndarray, some: np.ndarray
) -> Interior:
    """The solution for all samples: those that took no part have no multiplier."""
    multipliers, held = np.zeros(len(x)), np.zeros(side.shape, dtype=bool)
    slopes = np.where(np.where(friendly, side > 0, found.w @ x.T > 0), 1.0, slope)
    multipliers[some], held[:, some], slopes[:, some] = found.multipliers, found.held, found.slopes
    return Interior(found.w, multipliers, slopes, held)


def _solve(
    x: np.ndarray, a: np.ndarray, slope: float, side: np.ndarray, friendly: np.ndarray, w: np.ndarray
) -> Interior | None:
    n, size = len(x), np.abs(a)[:, None]
    fixed = np.where(friendly, size * np.where(side > 0, 1.0, slope), 0.0)  # c of the friendly pairs
    other = (~friendly & (size > 0)).astype(float)
    w, z = w.copy(), w @ x.T
    scale = np.abs(z).mean() + 1e-300
    t = np.maximum(z, slope * z) + 0.1 * scale
    tau = max(float((w**2).sum()), 1e-300) / n
    gap = np.maximum(_gap(fixed, size, other, z, t), 0.1)
    lam = tau / gap
    beta, gamma = tau / (t - z), tau / np.where(other > 0, t - slope * z, 1.0)
    target, first = TARGET * tau, lam.max()
    for _ in range(ITERATIONS):
        u, v = t - z, t - slope * z
        big, small = beta / u * other, gamma / v * other  # B, C of the elimination
        total = np.where(other > 0, big + small, 1.0)
        pairs = float(((beta * u + gamma * v) * other).sum() + lam @ gap)
        residual = _gap(fixed, size, other, z, t) - gap
        mean = pairs / (n + 2 * other.sum())
        if mean <= target and np.abs(residual).max() <= 1e-10:
            break
        tau = 0.15 * mean
        mixed = (big + slope * small) / total
        h = (fixed - mixed * size) * np.where(other > 0, 1.0, friendly)
        bend = big * small * (1 - slope) ** 2 / total
        push = (tau / u + slope * tau / v - mixed * (tau / u + tau / v)) * other
        try:
            step = _multipliers(x, w, h, bend, push, lam, gap, residual, tau, size, total, other, u, v)
        except (LinAlgError, ValueError):
            return None
        new, dw = step
        dz = dw @ x.T
        dt = ((tau / u + tau / v - size * new + (big + slope * small) * dz) / total) * other
        dbeta = tau / u - beta - beta / u * (dt - dz)
        dgamma = tau / v - gamma - gamma / v * (dt - slope * dz)
        dlam = new - lam
        dgap = tau / lam - gap - gap / lam * dlam
        ahead = min(
            _room(lam, dlam),
            _room(gap, dgap),
            _room(u, dt - dz, other),
            _room(v, dt - slope * dz, other),
            _room(beta, dbeta, other),
            _room(gamma, dgamma, other),
        )
        part = min(1.0, TO_BOUNDARY * ahead)
        w, z = w + part * dw, z + part * dz
        t = np.where(other > 0, t + part * dt, np.maximum(z, slope * z) + scale)
        beta, gamma = beta + part * dbeta * other, gamma + part * dgamma * other
        lam, gap = lam + part * dlam, gap + part * dgap
        if not np.isfinite(lam).all() or lam.max() > DIVERGED * first:
            return None
    else:
        if mean > 1e4 * target:
            return None
    u, v = t - z, t - slope * z
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(other > 0, (beta + slope * gamma) / (beta + gamma), 0.0)
    above = gamma * u < beta * v
    held = (other > 0) & (lam > 1e-9 * lam.max()) & (_inner(beta, u, gamma, v))
    slopes = np.where(friendly, np.where(side > 0, 1.0, slope), np.where(above, 1.0, slope))
    return Interior(w, np.where(lam > gap * lam.max(), lam, 0.0), np.where(held, inside, slopes), held)


def _inner(beta: np.ndarray, u: np.ndarray, gamma: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Are both bounds of t tight?"""
    top = max(float(np.abs(v).max()), float(np.abs(u).max()), 1e-300)
    weight = max(float(beta.max()), float(gamma.max()), 1e-300)
    return np.asarray((beta / weight > u / top) & (gamma / weight > v / top))


def _gap(fixed: np.ndarray, size: np.ndarray, other: np.ndarray, z: np.ndarray, t: np.ndarray) -> np.ndarray:
    """By how much the margins are above 1."""
    return np.asarray((fixed * z - size * t * other).sum(axis=0) - 1)


def _room(values: np.ndarray, change: np.ndarray, where: np.ndarray | None = None) -> float:
    """How far, in units of the change, values stay positive."""
    falls = change < 0 if where is None else (change < 0) & (where > 0)
    return float((-values[falls] / change[falls]).min(initial=np.inf))


def _multipliers(
    x: np.ndarray,
    w: np.ndarray,
    h: np.ndarray,
    bend: np.ndarray,
    push: np.ndarray,
    lam: np.ndarray,
    gap: np.ndarray,
    residual: np.ndarray,
    tau: float,
    size: np.ndarray,
    total: np.ndarray,
    other: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The next multipliers, and the change of the weights."""
    (m, k), n = w.shape, len(x)
    blocks = np.einsum("ji,ia,ib->jab", bend, x, x, optimize=True) + np.eye(k)
    roots = np.linalg.cholesky(blocks)
    pulled = -w - push @ x
    rows = np.linalg.solve(roots, np.broadcast_to(x.T, (m, k, n)) * h[:, None, :])  # L^-1 h_ji x_i
    rows = rows.reshape(m * k, n)
    own = np.linalg.solve(roots, pulled[..., None]).reshape(m * k)
    system = rows.T @ rows
    system[np.diag_indices(n)] += gap / lam + (size**2 / total * other).sum(axis=0)
    wanted = tau / lam - residual - rows.T @ own + (size * (tau / u + tau / v) / total * other).sum(axis=0)
    new = cho_solve(cho_factor(system), wanted)
    inner = (own + rows @ new).reshape(m, k, 1)
    return new, np.linalg.solve(roots.transpose(0, 2, 1), inner)[..., 0]
