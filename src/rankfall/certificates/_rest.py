r"""A minimum of the loss in which the flow comes to rest, and from how far (second layer fixed).

The theorem is stated in `check.rest`. What it needs is computed in floats here, and proved by the checker.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from scipy.linalg import eigvalsh, qr

from rankfall.certificates import check
from rankfall.certificates._problem import Missing, Problem, hexes

_SAFE = 4.0  # by which eigenvalues are made smaller, and the ball larger, than floats say
_SHARES = (1e-12, 1e-9, 1e-6, 1e-3)  # by which the radius is made smaller until it is proved
_SINGULAR = 1e-11  # the share of the largest eigenvalue below which floats propose no Cholesky factor
_DEPENDENT = 1e-10  # columns with this share of the largest, after the others are taken away, depend on these


@dataclass(frozen=True, eq=False)
class Rests:
    """The claim, the state B around which it speaks, its radius, and how far from B the minimum may be."""

    claim: dict[str, Any]
    start: np.ndarray
    radius: float
    away: float


def rest(
    problem: Problem,
    start: np.ndarray,
    side: np.ndarray,
    slopes: np.ndarray,
    signs: np.ndarray | None = None,
    coordinates: Literal["samples", "features"] = "features",
) -> Rests | Missing:
    """The claim that every flow from next to a state B comes to rest in a minimum of the loss.

    **Arguments:**

    - `start`: B, a row for each neuron: weights, or coefficients of the samples (`coordinates`).
    - `side` (m, n): 1, -1, and 0 for a pair at its kink; `slopes` (m, n): their slopes where `side` is 0.
    - `signs` (n): for the square loss the signs of the residuals $y_i - f(x_i)$, and 0 where they may change.

    **Returns:** the claim with the largest provable radius, or what is `Missing`.
    """
    found = _Proposal(problem, start, side, slopes, signs, coordinates)
    try:
        return found.proved() if found.missing is None else found.missing
    except (check.Refused, check.Malformed) as error:
        return Missing(f"in exact arithmetic {error}")


class _Proposal:
    """The numbers of the claim, in floats; `missing` says what forbids it."""

    def __init__(
        self,
        problem: Problem,
        start: np.ndarray,
        side: np.ndarray,
        slopes: np.ndarray,
        signs: np.ndarray | None,
        coordinates: Literal["samples", "features"],
    ):
        if problem.second is None:
            raise ValueError("a proof that the flow comes to rest needs a fixed second layer.")
        self.problem, self.coordinates = problem, coordinates
        self.start = np.array(start, dtype=np.float64)
        self.basis = problem.inputs if coordinates == "features" else problem.gram
        self.signs = np.sign(problem.y) if signs is None else np.sign(signs)
        self.square = signs is not None
        nothing = 1 if problem.slope == 1 else -1  # of samples that are zero
        self.side = np.where(
            problem.lengths == 0, nothing, np.ones_like(side) if problem.slope == 1 else side
        )
        self.slopes = np.clip(slopes, problem.slope, 1.0)
        self.missing: Missing | None = None
        self.groups = self._groups()
        self._clear()
        self.fits = self.square and not self.signs.any()
        self.features = np.empty(0, dtype=int) if self.fits else self._features()
        self.tau = self.independent = self.stiffness = 1.0
        live = [g for g in self.groups if self._slopes(g).any()]
        if self.fits:
            self._independence()
        elif live:
            self._convexity(live)

    def _slopes(self, group: np.ndarray) -> np.ndarray:
        """The row P of a group."""
        j, alpha = group[0], self.problem.slope
        return np.where(self.side[j] > 0, 1.0, np.where(self.side[j] < 0, alpha, self.slopes[j]))

    def _groups(self) -> list[np.ndarray]:
        """Neurons with equal sides and slopes, and at kinks of one sign."""
        a, held = np.asarray(self.problem.second), self.side == 0
        keys = np.column_stack([self.side, np.where(held, self.slopes, 0.0), np.sign(a) * held.any(axis=1)])
        some = np.flatnonzero(a)
        _, where = np.unique(keys[some], axis=0, return_inverse=True)
        return [some[where.ravel() == g] for g in range(where.max(initial=-1) + 1)]

    def _clear(self) -> None:
        """Put neurons without slopes just below the kinks at which they are: floats miss these."""
        for j in (j for group in self.groups for j in group if not self._slopes(group).any()):
            self.side[j] = -1
            rows = self.basis[self.problem.lengths > 0]
            sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(self.start[j])
            z, rounding = rows @ self.start[j], 1e-13 * sizes
            near = z > -rounding
            if near.any() and (z < 1e5 * rounding).all():
                self.start[j] += np.linalg.lstsq(rows[near], (-2 * rounding - z)[near], rcond=1e-12)[0]

    def _features(self) -> np.ndarray:
        """Columns of the inputs that are independent, and span all of them."""
        scaled = self.problem.inputs / np.maximum(np.abs(self.problem.inputs).max(axis=0), 1e-300)
        r, pivots = qr(scaled, mode="r", pivoting=True)
        size = np.abs(np.diag(r))
        return np.sort(pivots[: len(size)][size > _DEPENDENT * size.max()])

    def _convexity(self, live: list[np.ndarray]) -> None:
        """A lower bound for the eigenvalues of M, and one for those of the kinks of each group."""
        problem, scale = self.problem, np.abs(self.problem.inputs[:, self.features]).max(axis=0)
        x = problem.inputs[:, self.features] / 2.0 ** (np.floor(np.log2(scale)) + 1)
        P, z = np.stack([self._slopes(group) for group in live]), self.start @ self.basis.T
        a, held = np.asarray(problem.second), np.stack([self.side[group[0]] == 0 for group in live])
        f = sum((a[group] @ z[group]) * row for group, row in zip(live, P, strict=True))
        pulls, bends = _derivatives(problem, np.where(self.signs == 0, 1.0, self.signs), np.asarray(f))
        h = (P.T[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        matrix = (h * bends[:, None]).T @ h
        self.stiffness = max(float(np.diag(matrix).max()), 1e-300)
        sharp = np.abs(pulls) * np.minimum(P - problem.slope, 1 - P) * held
        for g, k in enumerate(range(0, len(matrix), x.shape[1])):  # with a ball of 1e-6, if it is not smaller
            weights = np.minimum(
                self.stiffness, 2e6 * sharp[g] / np.maximum(np.linalg.norm(x, axis=1), 1e-300)
            )
            matrix[k : k + x.shape[1], k : k + x.shape[1]] += (x * weights[:, None]).T @ x
        least, most = float(eigvalsh(matrix, subset_by_index=[0, 0])[0]), float(np.trace(matrix))
        if not least > _SINGULAR * most:
            self.missing = Missing(
                f"the loss is not convex enough: the least eigenvalue is {least:.1e} of {most:.1e}."
            )
        self.tau = least / _SAFE
        for row in held:
            kinks = np.unique(problem.inputs[row], axis=0)
            unit = kinks / np.linalg.norm(kinks, axis=1)[:, None]
            if len(kinks):
                self.independent = min(self.independent, float(eigvalsh(unit @ unit.T)[0]) / _SAFE)
        if not self.independent > _SINGULAR:
            self.missing = Missing("the samples at whose kinks a group of neurons is are not independent.")

    def _independence(self) -> None:
        """A lower bound for the eigenvalues of the Gram matrix of the gradients of f at the samples."""
        problem, a = self.problem, np.asarray(self.problem.second)
        P = np.stack([self._slopes(group) for group in self.groups])
        c = np.array([(a[group] ** 2).sum() for group in self.groups])
        matrix = problem.gram * (P.T @ (c[:, None] * P))
        size = 2.0 ** np.floor(np.log2(np.maximum(np.diag(matrix), 1e-300)) / 2)
        least = float(eigvalsh(matrix / np.outer(size, size))[0])
        self.tau = least / _SAFE / 4  # the checker's powers of two may be twice as large
        if not least > _SINGULAR:
            self.missing = Missing("the gradients of the outputs are not independent.")

    def _named(self, numbers: dict[str, float], wrong: int) -> dict[str, Any]:
        """The claim with these numbers."""
        signs = np.array(["-", "0", "+"])
        groups = [
            {
                "neurons": group.tolist(),
                "pattern": "".join(signs[self.side[group[0]].astype(int) + 1]),
                "slopes": hexes(self.slopes[group[0]][self.side[group[0]] == 0]),
            }
            for group in self.groups
        ]
        found: dict[str, Any] = {
            "claim": "rest",
            "coordinates": self.coordinates,
            "start": [hexes(row) for row in self.start],
            "groups": groups,
            "features": self.features.tolist(),
            "tau": self.tau.hex(),
            "independent": self.independent.hex(),
            "stiffness": self.stiffness.hex(),
        }
        if self.square:
            found["signs"] = "".join(signs[self.signs.astype(int) + 1])
        else:
            found["wrong"] = wrong
        return found | {key: float(value).hex() for key, value in numbers.items()}

    def seen(self, numbers: dict[str, float], wrong: int = 0) -> check.Rest:
        """The claim as the checker sees it, up to what each sample pulls."""
        form = {"claim": str} | check.CLAIMS["rest"]
        told = check.read(self._named(numbers, wrong), form, "'rest'")
        near = check.Rest(self.problem.checked, told)
        if near.fits:
            near.fit()
        else:
            near.to_kinks()
            near.samples()
        return near

    def proved(self) -> Rests | Missing:
        """The claim with a ball as small as the gradient allows, and a radius as large as the kinks do."""
        tiny, huge = 2.0**-40, 2.0**900
        numbers = {"delta": tiny, "radius": tiny, "lower": -huge, "upper": huge}
        near = self.seen(numbers)
        if not near.fits:
            numbers["delta"] = max(_SAFE * near.gradient() / check.UNIT / self.tau, 2.0**-300)
            near = self.seen(numbers)
            off = near.gradient() * near.delta // check.UNIT + 1
            numbers["lower"], numbers["upper"] = _double(near.loss[0] - off, -1), _double(near.loss[1], 1)
        else:
            numbers["lower"] = numbers["upper"] = 0.0
        away = float(Fraction(near.away(), check.UNIT)) * (1 + 1e-12)
        room = self._room(near, away)
        if isinstance(room, Missing):
            return room
        wrong, failed = sum(high < 0 for _, high in near.q), Missing("")
        for share in _SHARES:
            numbers["radius"] = room * (1 - share)
            near.claim |= numbers | {"wrong": wrong}
            near.radius = check.up(Fraction(numbers["radius"]) * check.UNIT)
            try:
                near.keeps_sides()
                near.keeps_residuals()
            except check.Refused as error:
                failed = Missing(f"in exact arithmetic {error}")
                continue
            if not near.fits:
                near.minimum()
            return Rests(self._named(numbers, wrong), self.start, numbers["radius"], away)
        return failed

    def _room(self, near: check.Rest, away: float) -> float | Missing:
        """The largest radius that the friendly kinks, and the residuals, allow."""
        problem, lengths = self.problem, np.maximum(self.problem.lengths, 1e-300)
        a, room = np.asarray(problem.second), float(np.finfo(float).max) / 4
        if problem.slope < 1:
            ahead = np.where(self.side > 0, 1.0, -1.0) * (self.start @ self.basis.T) / lengths
            friendly = (a[:, None] * self.signs >= 0) & (a != 0)[:, None] & (problem.lengths > 0)
            ahead = np.where(friendly, ahead, np.inf)
            room = min(room, float(ahead.min(initial=np.inf)) - 2 * away)
            j, i = (int(each) for each in np.unravel_index(int(np.argmin(ahead)), ahead.shape))
            if not room > 0:
                return Missing(f"neuron {j} may cross the kink of its friendly sample {i}.", (j, i), room)
        if self.square and not self.fits:
            left = np.array([float(Fraction(low, check.UNIT)) for low, _ in near.pull])
            reach = np.where(self.signs == 0, np.inf, left / np.linalg.norm(a) / lengths)
            room = min(room, float(reach.min(initial=np.inf)) - 3 * away)
            if not room > 0:
                return Missing(f"the residual of sample {int(np.argmin(reach))} may change its sign.")
        return room


def _derivatives(problem: Problem, signs: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-l' and l'' of each sample, where q = `signs` f."""
    if problem.loss == "square":
        return signs * problem.y - signs * q, np.ones_like(q)
    with np.errstate(over="ignore"):
        pulls = np.exp(-signs * q) if problem.loss == "exponential" else 1 / (1 + np.exp(signs * q))
    return pulls, pulls if problem.loss == "exponential" else pulls * (1 - pulls)


def _double(units: int, away: int) -> float:
    """A double that is not on the other side of a number in units: below it (-1), or above."""
    near = float(Fraction(units, check.UNIT))
    return float(np.nextafter(near, away * np.inf))
