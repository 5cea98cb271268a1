r"""The equations of a KKT point with fixed second layer, in floats, and which of its inequalities fail.

Unknowns are the multipliers $\lambda$ of the support and the numbers $\mu_{gi}$ at the kinks of support
vectors. The margins of the support must be 1 and the pre-activations at the kinks 0: a linear system with the
Gram matrix of $(a_j y_i x_i)_{j \in g}$ for kinks and $(a_j P_{ji} y_i x_i)_j$ for support vectors.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from rankfall.certificates._equations import Equations
from rankfall.certificates._problem import Missing, Problem

ROUNDING = 1e-9  # violations below this share are left to exact arithmetic
_BLOCKS = 8  # rounds in which all that is wrong is exchanged, before it is one pair at a time


@dataclass
class Values:
    """Multipliers (n), mu (g, n), what the inequalities leave, and by how much a margin misses 1."""

    lam: np.ndarray
    mu: np.ndarray
    slack: "Slack"
    misfit: float = 0.0


@dataclass
class Slack:
    """What must not be negative; NaN where nothing is asked."""

    lam: np.ndarray  # (n): lambda on the support
    low: np.ndarray  # (g, n): mu - alpha lambda at kinks
    high: np.ndarray  # (g, n): lambda - mu at kinks
    side: np.ndarray  # (g, n): sign(a) side t off the kinks
    margin: np.ndarray  # (n): q - 1 off the support


class Cell:
    """Groups of neurons with their patterns, the support, and a guess of multipliers and slopes."""

    def __init__(
        self, problem: Problem, side: np.ndarray, multipliers: np.ndarray, slopes: np.ndarray | None = None
    ):
        assert problem.second is not None
        self.problem, a = problem, problem.second
        side = np.ones_like(side) if problem.slope == 1 else np.sign(side).astype(np.int8)
        members: dict[tuple[bool, bytes], list[int]] = {}
        for j in np.flatnonzero(a):
            members.setdefault((bool(a[j] > 0), side[j].tobytes()), []).append(int(j))
        self.groups = [np.array(group) for group in members.values()]
        first = np.array([group[0] for group in self.groups], dtype=int)
        self.signs = np.sign(a[first]).astype(int)
        self.patterns = side[first].astype(np.int8)
        self.c = np.array([(a[group] ** 2).sum() for group in self.groups])
        self.friendly = self.signs[:, None] * problem.y > 0
        self.guess = np.maximum(multipliers, 0.0).astype(float)
        self.support = self.guess > 1e-12 * self.guess.max(initial=0.0)
        middle = (1 + problem.slope) / 2
        self.slopes = np.full(self.patterns.shape, middle) if slopes is None else slopes[first].astype(float)
        self.slopes = np.clip(np.where(np.isfinite(self.slopes), self.slopes, middle), problem.slope, 1.0)
        self.rounds = 0
        self.drop_still()

    def drop_still(self) -> None:
        """With slope 0, a neuron on which no friendly support vector pulls is zero: it needs no kinks."""
        if self.problem.slope == 0:
            still = ~(self.friendly & self.support & (self.patterns >= 0)).any(axis=1)
            self.patterns[still[:, None] & ~self.friendly] = -1

    @property
    def held(self) -> np.ndarray:
        """The kinks (g, n) of support vectors."""
        return np.asarray((self.patterns == 0) & self.support)

    @property
    def fixed_slopes(self) -> np.ndarray:
        """P (g, n): 1, the slope, and 0 at kinks."""
        return np.where(self.patterns > 0, 1.0, np.where(self.patterns < 0, self.problem.slope, 0.0))

    @property
    def key(self) -> bytes:
        """What determines the equations: neurons, patterns and the support."""
        members = np.concatenate([np.append(group, -1) for group in self.groups])
        return members.tobytes() + self.patterns.tobytes() + self.support.tobytes()

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return int(self.held.sum() + self.support.sum())

    @property
    def equations(self) -> Equations:
        """The equations: kinks first, row by row, then the support."""
        y, s = self.problem.y, np.flatnonzero(self.support)
        return Equations.of(y[:, None] * self.problem.gram * y, self.c, self.held, self.fixed_slopes, s)

    def choose_support(self) -> bool:
        """The support of the hard-margin problem with these patterns, by NNLS; False if it is what it was."""
        everywhere, before = np.ones_like(self.support), self.support
        self.support = everywhere
        kernel = self.equations.kernel()
        values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        rows = np.vstack([np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, np.full(len(kernel), 1.0)])
        share = nnls(rows, np.append(np.zeros(len(kernel)), 1.0))[0]
        self.support, length = share > 1e-9 * share.max(), float(share @ kernel @ share)
        if length > 0 and self.support.any():
            self.guess = np.where(self.support, share / length * share.sum(), 0.0)
        return bool((self.support != before).any() and self.support.any())

    def solve(self) -> Values | Missing:
        """The solution next to the guess, in floats."""
        equations, (kg, ki), s = self.equations, np.nonzero(self.held), np.flatnonzero(self.support)
        guess = np.concatenate([self.slopes[kg, ki] * self.guess[ki], self.guess[s]])
        wanted = np.concatenate([np.zeros(len(kg)), np.ones(len(s))])
        scale = equations.scale
        step = equations.nearest(scale * wanted - equations.times(guess / scale))
        if step is None:
            return Missing("the equations of the margins are singular, and too many to be solved.")
        found = guess + scale * step
        if not np.isfinite(found).all():
            return Missing("the equations of the margins have no finite solution.")
        lam, mu = np.zeros(len(self.guess)), np.zeros(self.patterns.shape)
        mu[kg, ki], lam[s] = found[: len(kg)], found[len(kg) :]
        mu = np.where(self.held, mu, self.fixed_slopes * lam)
        t = (mu * self.problem.y) @ self.problem.gram
        q = self.problem.y * (self.c @ (self.fixed_slopes * t))
        misfit = float(np.abs(q[s] - 1).max(initial=0.0))
        return Values(lam, mu, self.slack(lam, mu, t, q - 1), misfit)

    def slack(self, lam: np.ndarray, mu: np.ndarray, t: np.ndarray, over: np.ndarray) -> Slack:
        """The inequalities, from floats, or from numbers rounded to floats after the subtraction."""
        alpha, none = self.problem.slope, np.nan
        side = self.signs[:, None] * self.patterns * t
        asked = (self.patterns != 0) & (alpha < 1) & (mu != 0).any(axis=1)[:, None]
        return Slack(
            lam=np.where(self.support, lam, none),
            low=np.where(self.held, mu - alpha * lam, none),
            high=np.where(self.held, lam - mu, none),
            side=np.where(asked, side, none),
            margin=np.where(self.support, none, over),
        )

    def exchange(self, values: Values, rounding: float = 0.0) -> Missing | bool:
        """Exchange what is wrong. True if something was; `Missing` if only friendly pairs are."""
        slack, top = values.slack, float(values.lam.max())
        sizes = np.linalg.norm((values.mu * self.problem.y) @ self.problem.inputs, axis=1).max(initial=0.0)
        wrong = {  # by which share each is wrong
            "lam": _wrong(slack.lam, top, rounding, strict=True),
            "low": _wrong(slack.low, top, rounding),
            "high": _wrong(slack.high, top, rounding),
            "side": _wrong(slack.side, sizes * self.problem.lengths, rounding),
            "margin": _wrong(slack.margin, 1.0, rounding),
        }
        blocked = np.where(self.friendly, wrong["side"], 0.0)
        wrong["side"] = np.where(self.friendly, 0.0, wrong["side"])
        worst = max(float(each.max(initial=0.0)) for each in wrong.values())
        if worst == 0:
            return self._blocked(blocked, slack.side) if blocked.any() else False
        self.rounds += 1
        if self.rounds > _BLOCKS:
            wrong = {key: np.where(each == worst, each, 0.0) for key, each in wrong.items()}
        self._change({key: each > 0 for key, each in wrong.items()}, values)
        return True

    def _change(self, wrong: dict[str, np.ndarray], values: Values) -> None:
        self.patterns[wrong["low"]] = -1
        self.patterns[wrong["high"]] = 1
        turned = wrong["side"]
        self.patterns[turned & self.support] = 0
        self.patterns[turned & ~self.support] *= -1
        left = wrong["lam"]
        t = (values.mu * self.problem.y) @ self.problem.gram
        sides = np.where(self.signs[:, None] * t > 0, 1, -1)
        self.patterns = np.where((self.patterns == 0) & left, sides, self.patterns).astype(np.int8)
        self.support = (self.support & ~left) | wrong["margin"]
        self.guess = np.where(self.support, np.maximum(values.lam, 0.0), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.clip(values.mu / values.lam, self.problem.slope, 1.0)
        self.slopes = np.where(self.held & np.isfinite(slopes), slopes, self.slopes)
        self.drop_still()

    def _blocked(self, blocked: np.ndarray, side: np.ndarray) -> Missing:
        g, i = np.unravel_index(int(np.argmax(blocked)), blocked.shape)
        many = int((blocked > 0).sum())
        return Missing(
            f"in the solution of this cell neuron {self.groups[g][0]} is on the other side of sample {i}, "
            f"whose margin it raises, by {-side[g, i]:.1e} per output weight; {many} pairs are."
        )


def _wrong(slack: np.ndarray, scale: float | np.ndarray, rounding: float, strict: bool = False) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        share = -slack / np.where(np.asarray(scale) > 0, scale, 1.0)
        # A multiplier that is exactly zero is not positive either.
        found = np.where(strict & (slack == 0) & (rounding == 0), np.finfo(float).tiny, share)
        return np.where(np.isnan(found) | (found <= rounding), 0.0, found)
