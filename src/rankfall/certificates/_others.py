"""The claims "inseparable" and "refutes"."""

from typing import Any, Literal

import numpy as np
from flint import fmpz_mat
from scipy.optimize import linprog

from rankfall.certificates import check
from rankfall.certificates._problem import Missing, Problem


def inseparable(problem: Problem) -> dict[str, Any] | Missing:
    """The claim that no network of this kind separates the data; `Missing` if there is no simple reason."""
    for candidate in _reasons(problem):
        claim = {"claim": "inseparable", **candidate}
        try:
            check.inseparable(
                problem.checked, check.read(claim, {"claim": str} | check.CLAIMS["inseparable"], "")
            )
        except (check.Refused, check.Malformed):
            continue
        return claim
    return Missing(
        "no sample is zero, and no two on one ray have different labels"
        + ("" if problem.slope < 1 else ", and no positive combination vanishes")
        + "."
    )


def _reasons(problem: Problem) -> list[dict[str, Any]]:
    lengths, y = problem.lengths, problem.y
    found: list[dict[str, Any]] = [{"sample": int(i)} for i in np.flatnonzero(lengths == 0)[:1]]
    together = problem.gram >= (1 - 1e-12) * np.outer(lengths, lengths)
    pairs = np.argwhere(np.triu(together & (y[:, None] != y) & (lengths > 0) & (lengths > 0)[:, None]))
    found += [{"samples": [int(i), int(k)]} for i, k in pairs]
    if problem.slope == 1 and (lengths > 0).all():
        found += _combination(problem)
    return found


def _combination(problem: Problem) -> list[dict[str, Any]]:
    """Whole numbers that are a positive combination of some y_i x_i which vanishes, by a linear program."""
    z, n = problem.y[:, None] * problem.inputs, len(problem.y)
    scale = np.linalg.norm(z, axis=1)
    rows = np.vstack([(z / scale[:, None]).T, np.ones(n)])
    wanted = np.append(np.zeros(z.shape[1]), 1.0)
    solution = linprog(np.zeros(n), A_eq=rows, b_eq=wanted, bounds=(0, None), method="highs-ds")
    if not solution.success:
        return []
    some = np.flatnonzero(solution.x > 1e-9)
    ints = problem.integers.x.tolist()
    matrix = fmpz_mat([[int(v) * int(problem.y[i]) for v in ints[i]] for i in some.tolist()]).transpose()
    basis, dimension = matrix.nullspace()
    if dimension != 1:
        return []
    numbers = [int(basis[e, 0]) for e in range(len(some))]
    sign = 1 if sum(numbers) > 0 else -1
    weights = dict(zip(some.tolist(), (sign * value for value in numbers), strict=True))
    return [{"combination": [hex(weights.get(i, 0)) for i in range(n)]}] if min(weights.values()) > 0 else []


def refutes(
    identity: str,
    sentence: str,
    quantity: Literal["rank", "stable rank"],
    relation: Literal["<=", "<", "=", ">", ">="],
    bound: float,
) -> dict[str, Any]:
    """The claim that a sentence is false at the point: that the quantity has this relation to the bound.

    `identity` names the sentence, as in "sun/property-2". The claim about the quantity must come before it.
    """
    return {
        "claim": "refutes",
        "id": identity,
        "sentence": sentence,
        "quantity": quantity,
        "relation": relation,
        "bound": float(bound).hex(),
    }
