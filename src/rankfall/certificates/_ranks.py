"""The claims "rank" and "stable rank" of the first layer, without biases."""

from typing import Any

import numpy as np
from scipy.linalg import eigh, qr

from rankfall.certificates import check
from rankfall.certificates._problem import Missing, Point, Problem, claimed, seen

_ROUNDING = 1e-12


def rank(problem: Problem, point: Point) -> dict[str, Any] | Missing:
    """The claim that the first layer has a rank, or what is `Missing` to show it."""
    known = seen(problem, point)
    if isinstance(known, Missing):
        return known
    if point.exact:
        p, inside, _ = known
        biases = [check.dot(p.y, row) * p.bias << 2 * p.sx for row in inside.mu]
        t = [[(v - b) % check.PRIME for v in row] for row, b in zip(inside.t, biases, strict=True)]
        return claimed("rank", check.rank, known, {"rank": check.eliminate(t, check.PRIME)})
    v = _directions(problem, point)
    v = v / np.maximum(np.linalg.norm(v, axis=1), np.finfo(float).tiny)[:, None]
    _, r, order = qr(v.T, mode="economic", pivoting=True)
    found = int((np.abs(np.diag(r)) > 1e-6).sum())
    groups = np.sort(order[:found])
    smallest = float(np.linalg.eigvalsh(v[groups] @ v[groups].T)[0])
    claim = {"rank": found, "groups": groups.tolist(), "tau": (smallest / 8).hex()}
    return claimed("rank", check.rank, known, claim)


def stable_rank(problem: Problem, point: Point) -> dict[str, Any] | Missing:
    """The claim that the stable rank of the first layer is in an interval, of a width of about 1e-11."""
    known = seen(problem, point)
    if isinstance(known, Missing):
        return known
    _, inside, _ = known
    c = np.array([value / inside.below_c for value in inside.c])
    v = np.sqrt(c)[:, None] * _directions(problem, point)
    if not v.any():
        return Missing("without its biases the first layer is zero.")
    products = v @ v.T
    values, vectors = eigh(products)
    vector, largest = np.sqrt(c) * vectors[:, -1], float(values[-1]) * (1 + 16 * _ROUNDING)
    found = float(np.trace(products) / values[-1])
    claim = {
        "lower": (found * (1 - 40 * _ROUNDING)).hex(),
        "upper": (found * (1 + 40 * _ROUNDING)).hex(),
        "largest": largest.hex(),
        "vector": [float(value).hex() for value in vector / np.abs(vector).max() + 0.0],
    }
    return claimed("stable rank", check.stable_rank, known, claim)


def _directions(problem: Problem, point: Point) -> np.ndarray:
    return np.asarray((point.mu(problem.slope) * problem.y) @ problem.x)
