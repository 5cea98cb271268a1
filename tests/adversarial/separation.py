"""The judge of "not separated": linear programs for linear networks, and the oracles for others."""

from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from tests.adversarial.opinion import WIDER, WIDTHS
from tests.adversarial.problems import Problem
from tests.adversarial.rounded import follow


def separating_direction(problem: Problem) -> np.ndarray | None:
    """A v with y_i x_i . v > 0 for all i: proposed by a linear program, shown in exact arithmetic."""
    rows = problem.y[:, None] * problem.inputs
    columns = np.abs(rows).max(axis=0)
    columns = np.where(columns > 0, columns, 1.0)
    rows = rows / columns
    sizes = np.abs(rows).max(axis=1)
    if not sizes.all():
        return None
    rows = rows / sizes[:, None]
    found = linprog(  # the largest t with rows v >= t and |v_k| <= 1
        np.append(np.zeros(rows.shape[1]), -1.0),
        A_ub=np.column_stack([-rows, np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        bounds=[(-1.0, 1.0)] * rows.shape[1] + [(None, 1.0)],
    )
    if found.status != 0:
        return None
    v = found.x[:-1] / columns
    return v if separates_exactly(problem, v) else None


def separates_exactly(problem: Problem, v: np.ndarray) -> bool:
    """Is y_i x_i . v > 0 for all i, as a statement on rational numbers?"""
    exact = [Fraction(float(c)) for c in v]
    return all(
        Fraction(float(label)) * sum(Fraction(float(c)) * e for c, e in zip(row, exact, strict=True)) > 0
        for row, label in zip(problem.inputs, problem.y, strict=True)
    )


def flow_separates(problem: Problem, steps: int) -> bool:
    """Does the flow with rounded kinks separate the data, at all widths and from nudged starts, equally soon?

    A flow that runs exactly into a saddle rests there, but its numerical twin leaves it, at a time that
    depends on the size of the nudge.
    """

    def done(path) -> bool:
        return bool(path.margins.min() > 1)

    tries = [(width, 0.0) for width in (WIDER, *WIDTHS)] + [(WIDTHS[-1], 1e-9), (WIDTHS[-1], -1e-6)]
    clocks = []
    for width, nudge in tries:
        path = follow(problem, width, steps, done, nudge)
        if not done(path):
            return False
        clocks.append(path.separated)
    return max(clocks) < 1.02 * min(clocks)
