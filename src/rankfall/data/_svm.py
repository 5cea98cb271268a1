"""The hard-margin problem: the shortest w with y_i <w, x_i> >= 1, its multipliers, and what forbids it.

With the rows z_i = y_i x_i and their Gram matrix K the problem and its dual are

    min |w|^2 / 2  with  z_i . w >= 1,        min lambda^T K lambda / 2 - sum_i lambda_i  with  lambda >= 0,

and w = sum_i lambda_i z_i. In the features of a network's first layer this is the problem that the limit of
gradient flow solves (Lyu and Li 2020; Frei et al. 2023): there only K is known. By Gordan's theorem there
is a w exactly if no nonnegative combination of the rows vanishes.

Nonnegative least squares finds the support. The multipliers on it then come from a linear system, with
its residuals in extended precision where the machine has it, and a support that rounding got wrong is
exchanged. Rows are scaled by powers of two only: that rounds nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.optimize import nnls

from ._dataset import Data
from ._facts import once

_EPS = float(np.finfo(float).eps)
# Each round of iterative refinement gains about as many digits as the first solution has right.
_REFINEMENTS = 5
# A Gram matrix may be off by this much, relative to its diagonal: about single precision.
_NOT_A_GRAM_MATRIX = 1e-6


@dataclass(frozen=True)
class HardMargin:
    """The solution of a hard-margin problem, with its residuals.

    `multipliers` are the lambda_i >= 0, `margins` the numbers z_i . w, or K lambda, that were attained, and
    `w` is the vector itself (with `bias` its last coordinate is the constant's), or None if only a Gram
    matrix was given.
    """

    multipliers: np.ndarray
    margins: np.ndarray
    w: np.ndarray | None = None

    @property
    def support(self) -> np.ndarray:
        """Which multipliers are positive: n booleans."""
        return np.asarray(self.multipliers > 0)

    @property
    def norm2(self) -> float:
        """The number |w|^2 = sum_i lambda_i: the largest margin is one over its root."""
        return float(self.multipliers.sum())

    @property
    def feasibility(self) -> float:
        """How much the smallest margin lacks to 1."""
        return max(0.0, 1 - float(self.margins.min()))

    @property
    def complementarity(self) -> float:
        """The largest |lambda_i (z_i . w - 1)|, relative to the sum of all lambda_i."""
        return float((self.multipliers / self.norm2 * np.abs(self.margins - 1)).max())


@once
def hard_margin(data: Data, bias: bool = False) -> HardMargin | None:
    """The shortest w with y_i <w, x_i> >= 1 for all i; None if the data is not separable.

    With `bias` the constant 1 is one more coordinate of the inputs, its weight a part of the norm. Separable
    is what `is_separable` finds separable. Multipliers below rounding count as zero: without such a point
    its margin would still be 1 up to rounding.
    """
    return hard_margin_of_rows(signed(data, bias))


def hard_margin_of_rows(z: np.ndarray) -> HardMargin | None:
    """The shortest w with z_i . w >= 1 for all rows z_i; None if there is none."""
    if not z.any(axis=1).all():
        return None
    u, exponents = _scaled_rows(z)
    rows = in_span(u)
    start = _start(rows, exponents)
    if start is None:
        return None
    face = _settled(_Rows(rows, start.b), start.multipliers)
    if face is None:
        return None
    if rows is not u:
        face = _in_all_coordinates(face, u, start.b)
    with np.errstate(over="ignore", invalid="ignore"):
        w = np.ldexp(face.w, -start.exponent)
        return _checked(HardMargin(_multipliers(face, exponents, start), z @ w, w))


def hard_margin_of_gram(gram: Any) -> HardMargin | None:
    """The hard-margin problem for features of which only the Gram matrix K, n x n, is known.

    The solution minimises lambda^T K lambda / 2 - sum_i lambda_i over lambda >= 0, so that K lambda >= 1. It
    is None if there is none, that is if a nonnegative combination of the features vanishes. A Gram matrix
    knows squares of lengths: features that miss this by a relative length of less than about
    sqrt(n) 1e-8 are beyond double precision.
    """
    k = _gram_matrix(gram)
    exponents = np.frexp(np.diag(k))[1] // 2
    c = np.ldexp(k, -(exponents[:, None] + exponents))
    rows = _features(c)
    if not rows.any(axis=1).all():
        return None
    start = _start(rows, exponents, closest=np.sqrt(4 * len(c) * _EPS))
    if start is None:
        return None
    face = _settled(_Gram(c, start.b, rows.shape[1]), start.multipliers)
    if face is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        multipliers = _multipliers(face, exponents, start)
        return _checked(HardMargin(multipliers, k @ multipliers))


@once
def combination_that_vanishes(data: Data, bias: bool = False) -> np.ndarray | None:
    """Gordan's certificate that data is not separable; None if it is separable.

    Numbers c_i >= 0 with sum 1 and sum_i c_i y_i x_i = 0 up to rounding, at most d + 1 of them positive: with
    them y_i <w, x_i> > 0 for all i would add up to 0 > 0.
    """
    u, exponents = _scaled_rows(signed(data, bias))
    unit = unit_rows(u)
    w, c = shortest(in_span(unit), np.ones(data.n))
    if w is not None:
        return None
    support = np.flatnonzero(c > _rounding(unit) * c.max())
    norms = np.linalg.norm(u[support], axis=1)
    exact = _vanishing(u[support], c[support] / np.where(norms == 0, 1, norms))
    combination = np.zeros(data.n)
    combination[support] = np.ldexp(exact, exponents[support].min() - exponents[support])
    return combination / combination.sum()


# The rows of a classification problem


def inputs(data: Data, bias: bool = False) -> np.ndarray:
    """The inputs in float64, with `bias` the constant 1 appended as one more coordinate."""
    x = np.asarray(data.x, dtype=float)
    return np.concatenate([x, np.ones((data.n, 1))], axis=1) if bias else x


def labels(data: Data) -> np.ndarray:
    """The labels as n numbers -1 and +1, both present, or a sentence that says what they are instead."""
    y = data.y.reshape(-1).astype(float)
    if len(y) != data.n or not np.isin(y, (-1, 1)).all():
        some = ", ".join(f"{value:g}" for value in np.unique(y)[:5])
        advice = " Labels 0 and 1 become -1 and +1 by 2 * y - 1." if np.isin(y, (0, 1)).all() else ""
        raise ValueError(
            f"the labels of {data.name!r} must be one -1 or +1 for each sample, but y has shape "
            f"{data.y.shape} and values like {some}.{advice}"
        )
    if (y == y[0]).all():
        raise ValueError(
            f"all {data.n} labels of {data.name!r} are {y[0]:+g}: separability needs samples of both classes."
        )
    return y


def signed(data: Data, bias: bool = False) -> np.ndarray:
    """The rows z_i = y_i x_i."""
    return np.asarray(labels(data)[:, None] * inputs(data, bias))


def in_span(z: np.ndarray) -> np.ndarray:
    """The rows z in coordinates of their span if there are fewer rows than columns, else z itself."""
    # z = R^T Q^T with orthonormal Q: the rows of R^T have the same inner products.
    return np.asarray(np.linalg.qr(z.T, mode="r")).T if z.shape[0] < z.shape[1] else z


def unit_rows(x: np.ndarray) -> np.ndarray:
    """The rows of x divided by their norms; a row zero stays zero."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(norms == 0, 1, norms))


def _rounding(u: np.ndarray) -> float:
    """What rounding may leave of a zero in a linear system with rows of norm about 1."""
    return 4 * max(u.shape) * _EPS


def _scaled_rows(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows u_i of norm between 1/2 and 1, and integers e_i, with z_i = 2^e_i u_i exactly."""
    # The largest entry first: squares of the entries could overflow.
    first = np.frexp(np.abs(z).max(axis=1))[1]
    u = np.ldexp(z, -first[:, None])
    second = np.frexp(np.linalg.norm(u, axis=1))[1]
    return np.ldexp(u, -second[:, None]), first + second


# Gram matrices


def _gram_matrix(values: Any) -> np.ndarray:
    """`values` as a finite symmetric matrix, or a sentence that says what is wrong with it."""
    k = np.array(values, dtype=float)
    if k.ndim != 2 or k.shape[0] != k.shape[1] or not k.size:
        raise ValueError(f"a Gram matrix is square, n x n with n >= 1, but this one has shape {k.shape}.")
    if not np.isfinite(k).all():
        i, j = np.argwhere(~np.isfinite(k))[0]
        raise ValueError(f"the Gram matrix is NaN or infinite at [{i}, {j}]: rescale or drop those features.")
    scale = np.sqrt(np.abs(np.diag(k)))
    off = np.abs(k - k.T) > _NOT_A_GRAM_MATRIX * scale[:, None] * scale
    if off.any():
        i, j = np.argwhere(off)[0]
        raise ValueError(
            f"the Gram matrix is not symmetric: {k[i, j]:g} at [{i}, {j}], but {k[j, i]:g} at [{j}, {i}]. "
            "Pass features @ features.T."
        )
    return np.asarray(k / 2 + k.T / 2)


def _features(c: np.ndarray) -> np.ndarray:
    """Rows with the Gram matrix c, up to rounding."""
    r, order, rank = _cholesky(c)
    rows = np.zeros((len(c), rank))
    rows[order] = r[:rank].T
    worst = float(np.abs(rows @ rows.T - c).max())
    if worst > _NOT_A_GRAM_MATRIX:
        raise ValueError(
            f"the matrix is not positive semidefinite: it is off by {worst:.1g} relative to its diagonal. "
            "Pass features @ features.T."
        )
    return rows


def _cholesky(c: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The upper triangular r and the order with c[order][:, order] = r^T r, and the rank of c."""
    factor, order, rank, _ = dpstrf(c, tol=4 * len(c) * _EPS)
    return np.triu(factor), order - 1, int(rank)


# The support


def shortest(u: np.ndarray, b: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The shortest w with u w >= b, and its multipliers, for unit rows of u and positive b.

    If no w has u w > 0 then w is None, and instead of the multipliers come the coefficients of a combination
    of the rows that vanishes. The problem is solved on a part of the rows, to which the worst violated ones
    are added until none is left: exact, and fast if there are many more rows than columns.
    """
    part = 4 * u.shape[1]
    active = np.argsort(u @ u.mean(axis=0), kind="stable")[:part]
    multipliers = np.zeros(len(u))
    while True:
        w, c = _least_distance(u[active], b[active])
        multipliers[active] = c
        if w is None or (u[active] @ w < b[active] / 2).any():
            return None, multipliers
        values = u @ w / b
        worst = np.argsort(values, kind="stable")[:part]
        fresh = np.setdiff1d(worst[values[worst] < 1 - 1e-10], active)
        if not len(fresh):
            return w, multipliers
        active = np.concatenate([active, fresh])


def _least_distance(u: np.ndarray, b: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The shortest w with u w >= b: Lawson and Hanson, "Solving Least Squares Problems", Section 23.4.

    The residual r of the nonnegative least squares problem [u^T; b^T] c = (0, ..., 0, 1) is zero if a
    positive combination of the rows vanishes, so that no w has u w > 0. If not, |r| = (1 + |w|^2)^(-1/2),
    and w is the least-norm solution of u w = b on the support c > 0; its multipliers are c / |r|^2. Should
    |w| be large, then b is scaled down to make it about 1 first: the support is found more safely.
    """
    rounding = _rounding(u)
    target = np.zeros(u.shape[1] + 1)
    target[-1] = 1
    scale = 1.0
    while True:
        c, residual = nnls(np.concatenate([u.T, scale * b[None]]), target, maxiter=30 * len(u) + 100)
        if scale * residual <= rounding:
            return None, c
        if residual > 0.1:
            w = np.asarray(np.linalg.lstsq(u[c > 0], b[c > 0], rcond=rounding)[0])
            return w, c / (scale * residual**2)
        scale *= residual


@dataclass(frozen=True)
class _Start:
    """The problem scaled to |w| of about 1, u w >= b with b_i = 2^(exponent - e_i), and first multipliers."""

    b: np.ndarray
    multipliers: np.ndarray
    exponent: int


def _start(u: np.ndarray, exponents: np.ndarray, closest: float = 0.0) -> _Start | None:
    """A start for the rows 2^e_i u_i; None if none has a margin above `closest`, in unit rows."""
    w, multipliers = shortest(unit_rows(u), np.ones(len(u)))
    if w is None or closest * np.linalg.norm(w) >= 1:
        return None
    # A w that separates has a margin; asking for that one keeps the problem well scaled.
    reached = np.log2(u @ w / np.linalg.norm(w)) + exponents
    exponent = int(np.floor(reached.min()))
    if np.ptp(exponents) > 500:
        raise ValueError(
            "the norms of the inputs differ by more than a factor of 1e150, too much for double precision: "
            "remove the shortest or the longest ones."
        )
    b = np.ldexp(1.0, exponent - exponents)
    # The margin b asked of a row very much longer than others drowns in rounding:
    # to begin with, a larger one serves.
    best, better = shortest(u, np.maximum(b, 1e-10 * b.max()))
    return _Start(b, multipliers if best is None else better, exponent)


# The multipliers


@dataclass(frozen=True)
class _Face:
    """Multipliers that make u w = b on a support, in its order, or a dependence between its rows.

    Without a point i of the support its margin would be lower by lambda_i / inverse_i, where inverse_i is
    the diagonal of the inverse of the support's Gram matrix.
    """

    support: np.ndarray
    multipliers: np.ndarray
    inverse: np.ndarray
    w: np.ndarray
    dependence: np.ndarray | None = None


class _Rows:
    """The problem u w >= b for rows u."""

    def __init__(self, u: np.ndarray, b: np.ndarray):
        self.u, self.b, self.rank = u, b, min(u.shape)

    def face(self, support: np.ndarray) -> _Face:
        """The face of the support."""
        q, r, order = qr(self.u[support].T, mode="economic", pivoting=True)
        support = support[order]
        diagonal = np.abs(np.diag(r))
        rank = int((diagonal > _rounding(self.u[support]) * diagonal[0]).sum())
        if rank < len(support):
            return _dependent(support, r, rank)
        w, multipliers = _refined(q, r, self.u[support], self.b[support])
        return _Face(support, multipliers, _inverse_diagonal(r), w)

    def surplus(self, face: _Face) -> tuple[np.ndarray, np.ndarray]:
        """How much u w exceeds b, and how much of that may be rounding."""
        rounding = 4 * np.sqrt(len(face.w)) * _EPS * (np.abs(self.u) @ np.abs(face.w))
        return self.u @ face.w - self.b, rounding


class _Gram:
    """The problem c lambda >= b for a Gram matrix c."""

    def __init__(self, c: np.ndarray, b: np.ndarray, rank: int):
        self.c, self.b, self.rank = c, b, rank

    def face(self, support: np.ndarray) -> _Face:
        """The face of the support."""
        r, order, rank = _cholesky(self.c[np.ix_(support, support)])
        support = support[order]
        if rank < len(support):
            return _dependent(support, r, rank)
        c, b = self.c[np.ix_(support, support)], self.b[support]
        multipliers = np.zeros(len(b), np.longdouble)
        for _ in range(_REFINEMENTS):
            residual = (b - _product(c, multipliers)).astype(float)
            multipliers += solve_triangular(r, solve_triangular(r, residual, trans="T"))
        return _Face(support, multipliers.astype(float), _inverse_diagonal(r), np.empty(0))

    def surplus(self, face: _Face) -> tuple[np.ndarray, np.ndarray]:
        """How much c lambda exceeds b, and how much of that may be rounding."""
        columns = self.c[:, face.support]
        rounding = 4 * np.sqrt(len(face.support)) * _EPS * (np.abs(columns) @ face.multipliers)
        return columns @ face.multipliers - self.b, rounding


def _settled(problem: _Rows | _Gram, multipliers: np.ndarray) -> _Face | None:
    """The face on which the optimality conditions hold, from any multipliers; None if there is no solution.

    An active set method: every step lowers the dual objective, so that it ends. From a good start it takes
    one step.
    """
    multipliers, inside = multipliers.copy(), multipliers > 0
    for _ in range(4 * len(multipliers) + 100):
        face = problem.face(np.flatnonzero(inside))
        support, before = face.support, multipliers[face.support]
        if face.dependence is not None:
            # Along it the objective is linear: downhill, to where a multiplier is zero, or without end.
            v = face.dependence if problem.b[support] @ face.dependence > 0 else -face.dependence
            if not (v < 0).any():
                return None
            multipliers[support], inside[support] = _until_zero(before, v)
            continue
        if (face.multipliers < 0).any():
            multipliers[support], inside[support] = _until_zero(before, face.multipliers - before)
            continue
        multipliers[support] = face.multipliers
        surplus, rounding = problem.surplus(face)
        lost = face.multipliers / face.inverse / rounding[support]
        if lost.min() <= 1:
            # Only one: without two points both may lose more.
            idle = support[np.argmin(lost)]
            multipliers[idle], inside[idle] = 0, False
        else:
            # Twice the rounding for which a point is let go: it does not come back at once.
            violated = np.flatnonzero(~inside & (surplus < -2 * rounding))
            if not len(violated):
                return face
            room = max(1, problem.rank - len(support))
            inside[violated[np.argsort(surplus[violated], kind="stable")[:room]]] = True
    raise ValueError(
        "rounding decides which points support the largest margin: remove points that are nearly equal, or "
        "nearly opposite to one of the other class."
    )


def _until_zero(multipliers: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The multipliers moved along v until the first of them is zero, and which are not among the first."""
    steps = np.full(len(v), np.inf)
    steps[v < 0] = multipliers[v < 0] / -v[v < 0]
    stays = steps > steps.min()
    return np.where(stays, np.maximum(multipliers + steps.min() * v, 0), 0), stays


def _dependent(support: np.ndarray, r: np.ndarray, rank: int) -> _Face:
    """The face with a combination of its rows that vanishes, where u u^T = r^T r has the given rank."""
    v = np.zeros(len(support))
    v[:rank] = -solve_triangular(r[:rank, :rank], r[:rank, rank])
    v[rank] = 1
    v[np.abs(v) <= _rounding(r) * np.abs(v).max()] = 0
    return _Face(support, np.empty(0), np.empty(0), np.empty(0), v)


def _inverse_diagonal(r: np.ndarray) -> np.ndarray:
    """The diagonal of (r^T r)^(-1)."""
    return np.asarray((solve_triangular(r, np.eye(len(r))) ** 2).sum(axis=1))


def _refined(q: np.ndarray, r: np.ndarray, u: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shortest w with u w = b and lambda with w = u^T lambda, for u^T = q r of full rank.

    Iterative refinement of both equations together (Björck 1967) keeps w as accurate as b, while lambda
    grows with the square of the condition of u.
    """
    w, multipliers = np.zeros(u.shape[1], np.longdouble), np.zeros(len(u), np.longdouble)
    for _ in range(_REFINEMENTS):
        f = (_product(u.T, multipliers) - w).astype(float)
        h = (b - _product(u, w)).astype(float)
        t = solve_triangular(r, h, trans="T") - q.T @ f
        multipliers += solve_triangular(r, t)
        w += f + q @ t
    return w.astype(float), multipliers.astype(float)


def _product(a: np.ndarray, x: np.ndarray, block: int = 2**22) -> np.ndarray:
    """The product a x in extended precision, in which a part of a holds at most `block` numbers."""
    step = max(1, block // a.shape[1])
    parts = [a[start : start + step].astype(np.longdouble) @ x for start in range(0, len(a), step)]
    return np.concatenate(parts)


def _in_all_coordinates(face: _Face, u: np.ndarray, b: np.ndarray) -> _Face:
    """The same face from the rows themselves instead of their coordinates in their span."""
    q, r = np.linalg.qr(u[face.support].T)
    w, multipliers = _refined(q, r, u[face.support], b[face.support])
    return _Face(face.support, np.maximum(multipliers, 0), face.inverse, w)


def _multipliers(face: _Face, exponents: np.ndarray, start: _Start) -> np.ndarray:
    """The multipliers lambda_i of the rows 2^e_i u_i, with margins 1 instead of b."""
    multipliers = np.zeros(len(exponents))
    multipliers[face.support] = np.ldexp(face.multipliers, -exponents[face.support] - start.exponent)
    return multipliers


def _checked(solution: HardMargin) -> HardMargin:
    """The solution, or a sentence if its numbers are too large or too small for double precision."""
    if not (0 < solution.norm2 < np.inf) or not np.isfinite(solution.margins).all():
        raise ValueError(
            "the multipliers are too large or too small for double precision: divide the inputs by their "
            "typical size first."
        )
    return solution


def _vanishing(u: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The combination of the rows that vanishes and has sum 1, near c; c itself if that is not positive."""
    system = np.concatenate([u.T, np.ones((1, len(c)))])
    target = np.zeros(len(system))
    target[-1] = 1
    exact = np.zeros(len(c), np.longdouble)
    for _ in range(_REFINEMENTS):
        residual = (target - _product(system, exact)).astype(float)
        exact += np.linalg.lstsq(system, residual, rcond=None)[0]
    return exact.astype(float) if (exact > 0).all() else c
