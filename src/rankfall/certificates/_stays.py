r"""How far from a state the flow may start and still, provably, end at a KKT point (second layer fixed).

The theorem is stated in `check.stays`. With the line $V = B + T U$, for every friendly pair of neuron j and
sample i on the side s of its kink, the largest radius R is

    (a)  s B_j.x_i / |x_i| - I - |x_i| kappa / (2 v),   v = s U_j.x_i - |x_i| delta > 0,
    (b, c)  s B_j.x_i / |x_i|,   if all that pulls on the neuron moves it off the kink, or back to B_j.

The radius claimed is the smallest over all pairs. It is computed in floats, and then proved by the checker.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankfall.certificates import check
from rankfall.certificates._problem import Missing, Point, Problem, claimed, hexes, seen

_SHARES = (1e-12, 1e-9, 1e-6, 1e-3)  # by which the radius is made smaller until it is proved


@dataclass(frozen=True, eq=False)
class Stays:
    """The claim, and the ball from which every flow ends at the point: its centre B and its radius R.

    `start` is what the claim holds: the state given, but for rounding errors at kinks (`_clear`).
    """

    claim: dict[str, Any]
    radius: float
    start: np.ndarray


def stays(
    problem: Problem,
    point: Point,
    start: np.ndarray,
    coordinates: Literal["samples", "features"] = "samples",
    *,
    level: float | None = None,
) -> Stays | Missing:
    r"""The claim that every flow from next to a state B ends at the point, with the largest provable radius.

    **Arguments:**

    - `start`: B, a row for each neuron. In the coordinates "samples" (m, n) its rows are coefficients of the
      samples, $B_j = \sum_i C_{ji} x_i$; in "features" (m, d + bias) they are the weights, the bias last.
    - `level`: T0, such that the pulls $\sum\lambda\, e^{T_0 - c_i}$ of the support, where $c_i$ is the margin
      at B, add up to U; by default the one with the least error.

    **Returns:** the claim with its radius, or what is `Missing`: which pair forbids it, and by how much.
    """
    basis = problem.inputs if coordinates == "features" else problem.gram
    start, shape = np.array(start, dtype=np.float64), (problem.width, basis.shape[1])
    if problem.second is None or start.shape != shape or not np.isfinite(start).all():
        raise ValueError(
            f"start must be {shape[0]} rows of {shape[1]} finite numbers, the second layer fixed."
        )
    _clear(problem, point, start, basis)
    line = _Line(problem, point, start @ basis.T, level)
    radius = line.radius() if line.missing is None else line.missing
    if isinstance(radius, Missing):
        return radius
    known = seen(problem, point)
    if isinstance(known, Missing):
        return known
    claim = {"coordinates": coordinates, "start": [hexes(row) for row in start], "level": line.level.hex()}
    failed = Missing("")
    for share in _SHARES:
        smaller = radius * (1 - share)
        found = claimed("stays", check.stays, known, claim | {"radius": smaller.hex()})
        if not isinstance(found, Missing):
            return Stays(found, smaller, start)
        failed = found
    return failed


def _clear(problem: Problem, point: Point, start: np.ndarray, basis: np.ndarray) -> None:
    """Put leaving neurons (slope 0, no friendly sample pulls) just below the kinks at which they slide.

    There B_j.x_k <= 0 must hold exactly, and floats miss it by rounding errors.
    """
    if problem.slope > 0:
        return
    friendly = np.asarray(problem.second)[:, None] * problem.y > 0
    for group, pattern in zip(point.groups, point.patterns, strict=True):
        others = basis[~friendly[group[0]] & (problem.lengths > 0)]
        if (pattern[friendly[group[0]]] != -1).any() or not len(others):
            continue
        for j in group[start[group].any(axis=1)]:
            z, rounding = others @ start[j], 1e-13 * (np.abs(others) @ np.abs(start[j]))
            near = z > -rounding
            if near.any() and (z < 1e5 * rounding).all():
                start[j] += np.linalg.lstsq(others[near], (-2 * rounding - z)[near], rcond=1e-12)[0]


class _Line:
    """The numbers of the theorem, in floats; `missing` says if a sample forbids it."""

    def __init__(self, problem: Problem, point: Point, z: np.ndarray, level: float | None):
        self.problem, self.point, self.z = problem, point, z
        self.missing: Missing | None = None
        a, y, alpha = np.asarray(problem.second), problem.y, problem.slope
        lam, mu = point.lam(), point.mu(alpha)
        total, slopes, s = float(lam.sum()), _slopes(point, mu, lam, alpha), lam > 0
        c2 = np.array([(a[group] ** 2).sum() for group in point.groups])
        t = (mu * y) @ problem.gram
        over = y * (c2 @ (np.where(point.patterns == 0, 0.0, slopes) * t)) - 1
        margin, excess, self.speed = np.zeros(len(y)), np.zeros(len(y)), np.zeros_like(z)
        for g, group in enumerate(point.groups):
            signed, here = a[group][:, None] * y, z[group]
            margin += (signed * slopes[g] * here).sum(axis=0)
            excess -= (np.minimum(signed, 0.0) * (np.where(here > 0, 1.0, alpha) - slopes[g]) * here).sum(
                axis=0
            )
            self.speed[group] = a[group][:, None] * t[g]
        self.level = (
            self._level(margin, lam, mu * s * y, slopes * s * y, c2) if level is None else float(level)
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            pulls, reach = total * np.exp(self.level - margin), np.sqrt(c2.sum()) * problem.lengths
            self.kappa = float((pulls * np.expm1(np.maximum(excess, 0.0))).sum())
            self.rest = float((reach[~s] * pulls[~s] / over[~s]).sum())
            if problem.loss == "logistic":
                self.rest += float((reach * total * np.exp(self.level - 2 * margin)).sum())
            off = ((pulls * slopes - mu) * s * y) @ problem.inputs
            self.delta = float(np.sqrt(c2 @ (off**2).sum(axis=1)))
        if (over[~s] <= 0).any():
            k = int(np.flatnonzero(~s)[np.argmin(over[~s])])
            self.missing = Missing(f"sample {k} has no multiplier, but its margin is not above 1.")
        elif not np.isfinite([self.kappa, self.rest, self.delta]).all():
            self.missing = Missing("the samples do not pull at the start as they do on a line to the point.")

    def _level(
        self, margin: np.ndarray, lam: np.ndarray, mu: np.ndarray, slopes: np.ndarray, c2: np.ndarray
    ) -> float:
        """The T0 with the least delta. Dependent support vectors need not pull as their multipliers say."""
        total, s = float(lam.sum()), lam > 0
        first = float((margin[s] + np.log(lam[s] / total)).mean())
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            pulled = (total * np.exp(first - margin) * slopes) @ self.problem.inputs
            ratio = (c2 @ (pulled * (mu @ self.problem.inputs)).sum(axis=1)) / (c2 @ (pulled**2).sum(axis=1))
            better = first + float(np.log(ratio))
        return better if np.isfinite(better) else first

    def radius(self) -> float | Missing:
        """The smallest over all friendly pairs of the radius that the pair allows."""
        lengths = self.problem.lengths
        if self.problem.slope == 1:
            return float(np.finfo(float).max) / 2
        side, friendly = self._sides()
        if (friendly & (side == 0)).any():
            j, i = (int(each) for each in np.argwhere(friendly & (side == 0))[0])
            return Missing(f"neuron {j} is at the kink of sample {i}, whose margin it raises.", (j, i))
        here, speed = side * self.z / lengths, side * self.speed / lengths - self.delta
        with np.errstate(divide="ignore", invalid="ignore"):
            room = here - self.rest - self.kappa / (2 * speed) * (1 + 1e-9)
        allowed = np.where(speed > 0, room, -np.inf)
        allowed = np.maximum(allowed, np.where(self._helped(side, friendly), here, -np.inf))
        allowed = np.where(friendly, allowed, np.inf)
        j, i = (int(each) for each in np.unravel_index(int(np.argmin(allowed)), allowed.shape))
        if allowed[j, i] > 0:
            return float(allowed[j, i])
        pace = "does not move off it" if speed[j, i] <= 0 else f"moves off it only at {speed[j, i]:.1e}"
        many = int((allowed <= 0).sum())
        return Missing(
            f"neuron {j} may cross the kink of sample {i}, whose margin it raises: it is {here[j, i]:.1e} "
            f"away and {pace} (I = {self.rest:.1e}, delta = {self.delta:.1e}, kappa = {self.kappa:.1e}); "
            f"{many} of {int(friendly.sum())} pairs may.",
            (j, i),
            float(allowed[j, i]),
        )

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        side = np.zeros(self.z.shape)
        for group, row in zip(self.point.groups, self.point.patterns, strict=True):
            side[group] = row
        return side, np.asarray(self.problem.second)[:, None] * self.problem.y > 0

    def _helped(self, side: np.ndarray, friendly: np.ndarray) -> np.ndarray:
        """(b) and (c): all that pulls on the neuron moves the pair off its kink, or the neuron back to B."""
        pulls = ~friendly | (side > 0) | (self.problem.slope > 0)
        alone = np.asarray(np.where(friendly, ~pulls, self.z <= 0).all(axis=1))
        towards, gram = np.where(friendly, 1.0, -1.0) * pulls, self.problem.gram
        signs = np.where(
            np.abs(gram) > 1e-12 * np.outer(self.problem.lengths, self.problem.lengths), gram, 0.0
        )
        up, down = np.maximum(signs, 0.0), np.maximum(-signs, 0.0)
        more, less = np.maximum(towards, 0.0), np.maximum(-towards, 0.0)
        against = np.where(side > 0, more @ down + less @ up, more @ up + less @ down)
        return np.asarray((against == 0) | alone[:, None])


def _slopes(point: Point, mu: np.ndarray, lam: np.ndarray, alpha: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.where(lam > 0, np.clip(mu / lam, alpha, 1.0), alpha)
    return np.where(point.patterns > 0, 1.0, np.where(point.patterns < 0, alpha, kinks))
