r"""A KKT point with fixed second layer in exact rational numbers, from floats that are nearly right."""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from flint import fmpz_mat, nmod_mat
from scipy.optimize import linprog

from rankfall.certificates import check
from rankfall.certificates._cell import ROUNDING, Cell, Values
from rankfall.certificates._enclosure import enclose
from rankfall.certificates._problem import Missing, Point, Problem

LARGE = 300  # unknowns up to which they are rational numbers; beyond, they are enclosed
MOST = 1200  # unknowns up to which rational numbers are tried where an enclosure fails
SMALL = 60  # unknowns up to which exact numbers are tried where floats find no solution
MISFIT = 1e-6  # of the margins of support vectors in floats; beyond, rounding has spoiled them
PIVOTS = 60


def propose(
    problem: Problem,
    side: np.ndarray,
    multipliers: np.ndarray,
    slopes: np.ndarray | None = None,
    *,
    large: int = LARGE,
    pivots: int = PIVOTS,
) -> Point | Missing:
    """The KKT point next to a limit in floats: in rational numbers, or in an enclosure if it is large.

    **Arguments:**

    - `problem`: with fixed second layer.
    - `side` (m, n): 1, -1, and 0 for a pair at its kink; `multipliers` (n).
    - `slopes` (m, n): a guess of the slopes at the kinks, which matters only where they are not unique.
    - `large`: the number of unknowns from which on they are enclosed.
    - `pivots`: how often pairs and support vectors may be exchanged. Friendly pairs, those with
      $a_j y_i > 0$, never are.

    **Returns:** the point, or what is `Missing`.
    """
    if problem.second is None:
        raise ValueError("propose is for a fixed second layer; use propose_both where both are trained.")
    cell = Cell(problem, np.asarray(side), np.asarray(multipliers, dtype=float), slopes)
    if not cell.support.any() or not len(cell.groups):
        return Missing("no sample has a positive multiplier, or no neuron an output weight.")
    return _pivot(cell, large, pivots)


def _pivot(cell: Cell, large: int, pivots: int) -> Point | Missing:
    """The point of a cell, after exchanging what is wrong: in floats while they can tell, then exactly."""
    problem = cell.problem
    chosen = False  # more support vectors than there can be: choose them once
    for turn in range(pivots):
        key = cell.key + bytes(cell.size > large)
        if key in problem.points:  # a search asks for the same point again and again
            return problem.points[key]
        values = cell.solve()
        lost = isinstance(values, Missing) or values.misfit > MISFIT
        if lost and not chosen and cell.choose_support():
            chosen = True
            continue
        if isinstance(values, Missing):
            return values
        changed = _exchange(cell, values)
        if isinstance(changed, Missing):
            return changed
        if changed:
            continue
        if cell.size > large:
            found = enclose(cell, values)
            if isinstance(found, Point):
                problem.points[key] = found
                return found
            if cell.size > MOST:
                return found
        exact = _exact(cell, values, by_program=turn > 0)
        if isinstance(exact, Missing):
            return exact
        changed = cell.exchange(exact.values)
        if isinstance(changed, Missing):
            return changed
        if not changed:
            if exact.unique:
                problem.points[key] = exact.point
            return exact.point
        if not cell.support.any():
            break
    return Missing(f"the kinks and support vectors still change after {pivots} exchanges.")


def _exchange(cell: Cell, values: Values) -> Missing | bool:
    """Exchange what is wrong in floats, as far as they can tell. True if something was."""
    if not values.misfit > MISFIT:
        return cell.exchange(values, ROUNDING)
    if cell.size > SMALL:
        missed = f"one misses by {values.misfit:.1e}"
        return Missing(f"no multipliers give every support vector the margin 1; {missed}.")
    return False  # exact numbers tell


@dataclass
class _Exact:
    point: Point
    values: Values
    unique: bool  # are there no other multipliers and slopes of the same point?


def _exact(cell: Cell, values: Values, by_program: bool) -> _Exact | Missing:
    """The solution in rational numbers; by a linear program if it is not found without."""
    found = _rational(cell, values, by_program)
    return _rational(cell, values, True) if isinstance(found, Missing) and not by_program else found


def _rational(cell: Cell, values: Values, by_program: bool) -> _Exact | Missing:
    """The solution in rational numbers; what is not unique comes from the floats, or a linear program."""
    lam, slopes = (_inside(cell) if by_program else None) or (values.lam, _slopes(cell, values))
    system = _System(cell, lam, slopes)
    try:
        den, lam_n, mu_n = system.solve()
    except ZeroDivisionError:
        return Missing("the equations of the margins are singular.")
    found = _judge(cell, den, lam_n, mu_n)
    if isinstance(found, Missing):
        return found
    return _Exact(*found, unique=not system.given and len(system.kinks) == len(mu_n))


def _slopes(cell: Cell, values: Values) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.clip(values.mu / values.lam, cell.problem.slope, 1.0)
    return np.where(cell.held & np.isfinite(slopes), slopes, cell.slopes)


class _System:
    """The equations as integers; dependent kinks get a given slope, dependent multipliers a given value."""

    def __init__(self, cell: Cell, lam: np.ndarray, slopes: np.ndarray):
        self.cell, self.ints = cell, cell.problem.integers
        self.support = np.flatnonzero(cell.support)
        self.a2 = [sum(self.ints.a[j] ** 2 for j in group) for group in cell.groups]
        free = self._free(slopes)
        self.kinks = [(int(g), int(i)) for g, i in np.argwhere(free)]
        given = np.where(cell.held & ~free, slopes, 0.0)
        flat, self.shift = check.dyadic([cell.problem.slope, *given.ravel().tolist()])
        self.p = np.array(flat[1:], dtype=object).reshape(given.shape)  # P over 2^shift
        self.p[cell.patterns > 0], self.p[cell.patterns < 0] = 1 << self.shift, flat[0]
        self.matrix = self._matrix()
        self.given = self._dependent(lam)

    def _free(self, slopes: np.ndarray) -> np.ndarray:
        """Kinks with independent inputs in each group, those with slopes deep inside first."""
        free = self.cell.held.copy()
        depth = np.minimum(slopes - self.cell.problem.slope, 1 - slopes)
        d = self.cell.problem.inputs.shape[1]
        parallel = _parallel(self.cell.problem.gram)
        for g in np.flatnonzero(free.sum(axis=1) > 1):
            samples = np.flatnonzero(free[g])
            few = len(samples) < d / 2 and not parallel[np.ix_(samples, samples)].any()
            if few and np.linalg.cond(self.cell.problem.gram[np.ix_(samples, samples)]) < 1e10:
                continue
            order = samples[np.argsort(-depth[g, samples], kind="stable")]
            block = [[int(self.ints.gram[int(i), int(k)]) for k in order] for i in order]
            free[g, order] = False
            free[g, order[_pivots(block)]] = True
        return free

    def _matrix(self) -> list[list[int]]:
        """As in `Cell.equations`, over 4^(sx + sa + shift)."""
        y, G, s = self.cell.problem.y.astype(int).tolist(), self.ints.gram, self.support.tolist()
        one = 1 << self.shift
        ps = fmpz_mat(len(self.a2), len(s), [int(v) for v in self.p[:, s].ravel()])
        weighted = fmpz_mat(
            len(self.a2),
            len(s),
            [c * int(v) for c, row in zip(self.a2, self.p[:, s], strict=True) for v in row],
        )
        overlap = ps.transpose() * weighted
        rows = [
            [y[i] * y[k] * int(G[i, k]) * self.a2[g] * one * one if g == h else 0 for h, k in self.kinks]
            + [y[i] * y[k] * int(G[i, k]) * self.a2[g] * one * int(self.p[g, k]) for k in s]
            for g, i in self.kinks
        ]
        rows += [
            [y[i] * y[k] * int(G[i, k]) * self.a2[g] * one * int(self.p[g, i]) for g, k in self.kinks]
            + [y[i] * y[k] * int(G[i, k]) * int(overlap[e, f]) for f, k in enumerate(s)]
            for e, i in enumerate(s)
        ]
        return rows

    def _dependent(self, lam: np.ndarray) -> dict[int, float]:
        """Multipliers of dependent support vectors, by their place in the support; the largest come last."""
        k, n = len(self.kinks), len(self.support)
        order = [*range(k), *(k + np.argsort(-lam[self.support], kind="stable")).tolist()]
        kept = {order[f] for f in _pivots([[self.matrix[e][f] for f in order] for e in order])}
        return {e - k: float(lam[self.support[e - k]]) for e in range(k, k + n) if e not in kept}

    def solve(self) -> tuple[int, dict[int, int], dict[tuple[int, int], int]]:
        """One denominator, and numerators of the multipliers and of mu at all kinks."""
        k, one = len(self.kinks), 1 << (2 * (self.ints.sx + self.ints.sa + self.shift))
        free = [e for e in range(len(self.matrix)) if e - k not in self.given]
        values, bits = check.dyadic(list(self.given.values()))
        wanted = []
        for e in free:
            total = one << bits if e >= k else 0
            wanted.append(
                total - sum(self.matrix[e][k + f] * v for f, v in zip(self.given, values, strict=True))
            )
        some = fmpz_mat([[self.matrix[e][f] for f in free] for e in free])
        solved: Any = some.solve(fmpz_mat(len(free), 1, wanted))
        above, below = solved.numer_denom()
        solution = {e: int(above[row, 0]) << self.shift for row, e in enumerate(free)}
        below = int(below)
        for f, value in zip(self.given, values, strict=True):
            solution[k + f] = value * below << self.shift
        den = below << (bits + self.shift)
        if den < 0:
            den, solution = -den, {e: -value for e, value in solution.items()}
        lam = {int(i): solution[k + f] for f, i in enumerate(self.support)}
        mu = {pair: solution[e] for e, pair in enumerate(self.kinks)}
        for g, i in np.argwhere(self.cell.held):
            pair = int(g), int(i)
            if pair not in mu:
                mu[pair] = lam[pair[1]] * int(self.p[pair]) >> self.shift
        common = gcd(den, *lam.values(), *mu.values())
        return (
            den // common,
            {i: value // common for i, value in lam.items()},
            {pair: mu[pair] // common for pair in sorted(mu)},
        )


def _parallel(gram: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.diag(gram))
    found = np.abs(gram) >= (1 - 1e-9) * np.outer(lengths, lengths)
    np.fill_diagonal(found, False)
    return np.asarray(found)


def _pivots(rows: list[list[int]]) -> list[int]:
    """Columns of a Gram matrix that span all, the first ones preferred: by elimination modulo a prime."""
    n = len(rows)
    reduced, rank = nmod_mat(n, n, [value % check.PRIME for row in rows for value in row], check.PRIME).rref()
    if rank == n:
        return list(range(n))
    return [next(f for f in range(n) if int(reduced[e, f])) for e in range(rank)]


def _judge(
    cell: Cell, den: int, lam: dict[int, int], mu: dict[tuple[int, int], int]
) -> tuple[Point, Values] | Missing:
    """The point, with its inequalities evaluated exactly; equations of dependent unknowns must hold too."""
    problem, ints = cell.problem, cell.problem.integers
    n, y = len(problem.y), problem.y.astype(int).tolist()
    slope = {1: ints.one, -1: ints.slope, 0: 0}
    full = [[lam.get(i, 0) * slope[int(side)] for i, side in enumerate(row)] for row in cell.patterns]
    for (g, i), value in mu.items():
        full[g][i] = value * ints.one
    signed = fmpz_mat(
        len(full), n, [sign * value for row in full for sign, value in zip(y, row, strict=True)]
    )
    t = (signed * ints.gram).tolist()
    a2 = [sum(ints.a[j] ** 2 for j in group) for group in cell.groups]
    steep = [[slope[int(side)] for side in row] for row in cell.patterns]
    q = [y[k] * sum(c * p[k] * int(row[k]) for c, p, row in zip(a2, steep, t, strict=True)) for k in range(n)]
    below_mu, below_t = den * ints.one, den * ints.one << 2 * ints.sx
    below_q = below_t * ints.one << 2 * ints.sa
    if any(q[k] != below_q for k in lam):
        return Missing("no multipliers give all support vectors the margin 1.")
    if any(t[g][k] for g, k in np.argwhere(cell.patterns == 0).tolist()):
        return Missing("a pair cannot be held at its kink together with the others.")
    lam_f = np.array([lam.get(i, 0) / den for i in range(n)])
    slack = cell.slack(
        lam_f,
        np.array([[value / below_mu for value in row] for row in full]),
        np.array([[int(value) / below_t for value in row] for row in t]),
        np.array([(value - below_q) / below_q for value in q]),
    )
    for (g, i), value in mu.items():  # differences first, then rounding
        slack.low[g, i] = (value * ints.one - lam[i] * ints.slope) / below_mu
        slack.high[g, i] = (lam[i] - value) / den
    support = np.array(sorted(lam), dtype=int)
    point = Point(
        groups=cell.groups,
        signs=cell.signs,
        patterns=cell.patterns.copy(),
        support=support,
        denominator=den,
        multipliers=[lam[int(i)] for i in support],
        kinks=list(mu.values()),
    )
    return point, Values(lam_f, np.array([[value / below_mu for value in row] for row in full]), slack)


def _inside(cell: Cell) -> tuple[np.ndarray, np.ndarray] | None:
    """Multipliers and slopes as far inside of their bounds as can be, where they are not unique."""
    system, (kg, ki), s = cell.equations, np.nonzero(cell.held), np.flatnonzero(cell.support)
    k, n, alpha = len(kg), len(s), cell.problem.slope
    place = {int(i): k + f for f, i in enumerate(s)}
    size = float(cell.guess.max())
    rows = np.zeros((2 * k + n, k + n + 1))  # -slack + room <= 0
    for e, i in enumerate(ki):
        rows[2 * e, [e, place[int(i)], -1]] = -1.0, alpha, 1.0
        rows[2 * e + 1, [e, place[int(i)], -1]] = 1.0, -1.0, 1.0
    for f in range(n):
        rows[2 * k + f, [k + f, -1]] = -1.0, 1.0
    scale = system.scale
    equations = np.column_stack([scale[:, None] * system.whole() / scale * size, np.zeros(k + n)])
    wanted = scale**2 * np.concatenate([np.zeros(k), np.ones(n)])
    aim = np.zeros(k + n + 1)
    aim[-1] = -1.0
    bounds = [(None, None)] * (k + n) + [(None, 1.0)]
    found = linprog(aim, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=equations, b_eq=wanted, bounds=bounds)
    if not found.success:
        return None
    lam, slopes = np.zeros_like(cell.guess), cell.slopes.copy()
    lam[s] = np.maximum(found.x[k : k + n] * size, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.clip(found.x[:k] * size / lam[ki], alpha, 1.0)
    slopes[kg, ki] = np.where(np.isfinite(inside), inside, slopes[kg, ki])
    return lam, slopes
