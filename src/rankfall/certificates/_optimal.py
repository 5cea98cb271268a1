"""The claim "optimal": no first layer with margins of at least 1 is shorter (second layer fixed)."""

from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from rankfall.certificates import check
from rankfall.certificates._problem import Missing, Point, Problem, claimed, hexes, seen

LARGEST = 12  # every further support vector doubles the work


def optimal(problem: Problem, point: Point, *, largest: int = LARGEST) -> dict[str, Any] | Missing:
    """The claim that the point is a global optimum, or what is `Missing`.

    All corners are looked at, so there must be at most `largest` support vectors of each class.
    """
    known = seen(problem, point)
    if isinstance(known, Missing):
        return known
    if not point.exact or problem.second is None:
        return Missing("optimality is shown for exact points with a fixed second layer only.")
    claim: dict[str, Any] = {"+": [], "-": []}
    mu, lam = point.mu(problem.slope), point.lam()
    for sign, name in ((1, "+"), (-1, "-")):
        groups = np.flatnonzero(point.signs == sign)
        own, others = (np.flatnonzero((lam > 0) & (problem.y * each > 0)) for each in (sign, -sign))
        if not len(groups) or problem.slope == 1:
            continue
        if len(own) > min(largest, check.CORNERS):
            return Missing(f"{len(own)} support vectors of one class are too many to look at all corners.")
        length = float(np.linalg.norm((mu[groups[0]] * problem.y) @ problem.inputs))
        rows = lam[:, None] * problem.inputs
        patterns = {tuple(point.patterns[g, own].tolist()) for g in groups}
        for number in range(2 ** len(own)):
            up = (number >> np.arange(len(own)) & 1) == 1
            if tuple(np.where(up, 1, -1).tolist()) in patterns:
                claim[name].append(None)
                continue
            corner = np.where(up, 1.0, problem.slope) @ rows[own]
            slopes, distance = _nearest(rows[others], corner, problem.slope)
            if distance > length:
                return Missing(
                    f"a shorter network is possible: a peak of {distance:.9g} is above {length:.9g}."
                )
            claim[name].append(hexes(slopes))
    return claimed("optimal", check.optimal, known, claim)


def _nearest(rows: np.ndarray, corner: np.ndarray, slope: float) -> tuple[np.ndarray, float]:
    """Slopes in [slope, 1] for which their combination of rows is nearest to a corner, and how near."""
    if not len(rows):
        return np.empty(0), float(np.linalg.norm(corner))
    slopes = np.clip(lsq_linear(rows.T, corner, bounds=(slope, 1.0), method="bvls").x, slope, 1.0)
    return slopes, float(np.linalg.norm(corner - slopes @ rows))
