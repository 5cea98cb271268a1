"""A KKT point with fixed second layer, enclosed: numbers of some 200 bits, and how far they may be off."""

import numpy as np
from flint import fmpz_mat
from scipy.linalg import eigvalsh

from rankfall.certificates._cell import Cell, Values
from rankfall.certificates._equations import DENSE, Equations, Singular
from rankfall.certificates._problem import Missing, Point

BITS = 200  # of the largest multiplier
_TURNS = 60
_REGULAR = 1e-11  # the least eigenvalue that rounding leaves of use


def enclose(cell: Cell, values: Values) -> Point | Missing:
    """The solution of a cell's equations by iterative refinement: exact residuals, corrections in floats."""
    equations = cell.equations
    tau = _least_eigenvalue(cell, equations)
    if tau is None:
        return Missing("the equations are too nearly singular to be enclosed.")
    (kg, ki), s = np.nonzero(cell.held), np.flatnonzero(cell.support)
    bits = BITS - int(np.frexp(values.lam.max())[1])
    now = [whole(float(v), bits) for v in [*values.mu[kg, ki], *values.lam[s]]]
    last = np.inf
    for _ in range(_TURNS):
        residual = _residual(cell, now, bits)
        # Floats hold the residual whatever its size, as a share of the first one.
        size = max(map(abs, residual))
        if not size:
            break
        shift = size.bit_length() - 60
        small = np.array(
            [value / 2.0**60 if shift <= 0 else (value >> shift) / 2.0**60 for value in residual]
        )
        lift = 0 if shift <= 0 else shift
        try:
            step = equations.scale * equations.solve(equations.scale * small)
        except Singular:
            return Missing("the equations are too nearly singular to be enclosed.")
        now = [
            u - whole(float(d), lift + 60 + bits - _below(cell, bits)) for u, d in zip(now, step, strict=True)
        ]
        if size >= last:
            break
        last = size
    k = len(kg)
    return Point(
        groups=cell.groups,
        signs=cell.signs,
        patterns=cell.patterns.copy(),
        support=s,
        denominator=1 << bits,
        multipliers=now[k:],
        kinks=now[:k],
        tau=tau,
    )


def _least_eigenvalue(cell: Cell, equations: Equations) -> float | None:
    """Proposes tau: by the Gram matrix of the support vectors, or by the equations as a whole."""
    s = np.flatnonzero(cell.support)
    gram = cell.problem.gram[np.ix_(s, s)]
    samples = float(eigvalsh(_scaled(gram), subset_by_index=(0, 0))[0])
    if samples > _REGULAR:
        return samples / 16
    if len(equations.scale) > DENSE:
        return None
    scale = 1 / equations.scale
    every = float(eigvalsh(_scaled(scale[:, None] * equations.whole() * scale), subset_by_index=(0, 0))[0])
    return every / 4 if every > _REGULAR else None


def _scaled(matrix: np.ndarray) -> np.ndarray:
    """Scaled by powers of two that bring the diagonal into [1/2, 2)."""
    scale = 2.0 ** -np.array([(np.frexp(value)[1]) // 2 for value in np.diag(matrix)])
    return np.asarray(scale[:, None] * matrix * scale)


def whole(value: float, bits: int) -> int:
    """round(value 2^bits), for any number of bits."""
    above, below = value.as_integer_ratio()
    return (above << bits) // below if bits >= 0 else above // (below << -bits)


def _below(cell: Cell, bits: int) -> int:
    """Residuals are numerators over two to this power."""
    ints = cell.problem.integers
    return bits + 2 * (ints.ss + ints.sx + ints.sa)


def _residual(cell: Cell, now: list[int], bits: int) -> list[int]:
    """c_g y_k t_gk at the kinks and q_k - 1 on the support, as numerators over 2^_below, exactly."""
    ints, y = cell.problem.integers, cell.problem.y.astype(int).tolist()
    pairs, s = np.argwhere(cell.held).tolist(), np.flatnonzero(cell.support).tolist()
    lam = dict(zip(s, now[len(pairs) :], strict=True))
    slope = {1: ints.one, -1: ints.slope, 0: 0}
    steep = [[slope[int(side)] for side in row] for row in cell.patterns]
    mu = [[lam.get(i, 0) * p for i, p in enumerate(row)] for row in steep]
    for (g, i), value in zip(pairs, now, strict=False):
        mu[g][i] = value * ints.one
    signed = fmpz_mat(len(mu), len(y), [sign * v for row in mu for sign, v in zip(y, row, strict=True)])
    t = signed * ints.gram
    a2 = [sum(ints.a[j] ** 2 for j in group) for group in cell.groups]
    one = 1 << _below(cell, bits)
    found = [a2[g] * y[k] * int(t[g, k]) * ints.one for g, k in pairs]
    rows = range(len(mu))
    return found + [y[k] * sum(a2[g] * steep[g][k] * int(t[g, k]) for g in rows) - one for k in s]
