r"""A KKT point with both layers trained, enclosed: from floats that are nearly right, by Newton's method.

Live neurons of one sign and one pattern form a group with one direction v, $w_j = a_j v$, and one amplitude
$c = \sum_j a_j^2$. The unknowns are the multipliers, $\mu$ at the kinks and the amplitudes; the equations are
that the margins of the support and all |v| are 1, and that pre-activations at kinks are 0.
"""

import numpy as np

from rankfall.certificates import check
from rankfall.certificates._enclosure import BITS, whole
from rankfall.certificates._problem import Missing, Point, Problem, seen

_TURNS = 60


def propose_both(
    problem: Problem,
    side: np.ndarray,
    second: np.ndarray,
    multipliers: np.ndarray,
    slopes: np.ndarray | None = None,
) -> Point | Missing:
    """The KKT point next to a limit in floats, with both layers trained, enclosed and checked.

    **Arguments:**

    - `problem`: with `second=None` and its `width`.
    - `side` (m, n): 1, -1, and 0 for a pair at its kink; `second` (m): the output weights, 0 for neurons that
      vanish; `multipliers` (n); `slopes` (m, n): those at the kinks.

    **Returns:** the point, or what is `Missing`.
    """
    if problem.second is not None:
        raise ValueError("propose_both is for both layers trained: give the problem no second layer.")
    clusters = _Clusters(problem, np.asarray(side), np.asarray(second, dtype=float), multipliers, slopes)
    if not clusters.groups or not clusters.support.any():
        return Missing("no neuron is alive in the limit, or no sample has a positive multiplier.")
    jacobian = clusters.jacobian(clusters.start)
    if not np.isfinite(jacobian).all():
        return Missing("the limit is not finite.")
    point = clusters.refine(jacobian)
    if isinstance(point, Missing):
        return point
    known = seen(problem, point)
    return known if isinstance(known, Missing) else point


class _Clusters:
    """Groups of live neurons, and the equations of the KKT point in floats."""

    def __init__(
        self,
        problem: Problem,
        side: np.ndarray,
        second: np.ndarray,
        multipliers: np.ndarray,
        slopes: np.ndarray | None,
    ):
        self.problem = problem
        side = np.ones_like(side) if problem.slope == 1 else np.sign(side).astype(np.int8)
        members: dict[tuple[bool, bytes], list[int]] = {}
        for j in np.flatnonzero(second):
            sign = bool(second[j] > 0) or problem.slope == 1  # a linear network has one direction
            members.setdefault((sign, side[j].tobytes()), []).append(int(j))
        self.groups = [np.array(group) for group in members.values()]
        first = np.array([group[0] for group in self.groups], dtype=int)
        self.signs, self.patterns = np.sign(second[first]).astype(int), side[first].astype(np.int8)
        lam = np.maximum(multipliers, 0.0).astype(float)
        self.support = lam > 1e-12 * lam.max(initial=0.0)
        self.p = np.where(self.patterns > 0, 1.0, np.where(self.patterns < 0, problem.slope, 0.0))
        self.held = (self.patterns == 0) & self.support
        amplitudes = [float((second[group] ** 2).sum()) for group in self.groups]
        middle = (1 + problem.slope) / 2
        at = np.full(side.shape, middle) if slopes is None else np.where(np.isfinite(slopes), slopes, middle)
        self.start = np.concatenate([lam[self.support], (at[first] * lam)[self.held], amplitudes])

    def jacobian(self, u: np.ndarray) -> np.ndarray:
        """Of the margins of the support, of |v|^2 and of the kinks, by the multipliers, mu and amplitudes."""
        problem, p, y = self.problem, self.p, self.problem.y
        s, (kg, ki) = np.flatnonzero(self.support), np.nonzero(self.held)
        lam, c, mu = np.zeros(len(y)), u[len(s) + len(kg) :], p.copy()
        lam[s] = u[: len(s)]
        mu = mu * lam
        mu[kg, ki] = u[len(s) : len(s) + len(kg)]
        t, gram = (mu * y) @ problem.gram, y[:, None] * problem.gram * y
        weighted, groups = p * c[:, None], np.arange(len(c))[:, None]
        margins = [
            gram[np.ix_(s, s)] * (weighted[:, s].T @ p[:, s]),
            gram[np.ix_(s, ki)] * weighted[kg][:, s].T,
            (y * p * t)[:, s].T,
        ]
        squares = [
            2 * (y * p * t)[:, s],
            np.where(groups == kg, 2 * (y * t)[kg, ki], 0.0),
            np.zeros((len(c), len(c))),
        ]
        kinks = [
            y[ki, None] * gram[np.ix_(ki, s)] * p[kg][:, s],
            np.where(kg[:, None] == kg, y[ki, None] * gram[np.ix_(ki, ki)], 0.0),
            np.zeros((len(kg), len(c))),
        ]
        return np.block([margins, squares, kinks])

    def refine(self, jacobian: np.ndarray) -> Point | Missing:
        """Newton's method with exact residuals and an inverse in floats."""
        bits = BITS - int(np.frexp(np.abs(self.start).min())[1])
        now = [whole(float(value), bits) for value in self.start]
        sizes = 2.0 ** (np.frexp(np.abs(self._sizes()))[1] - 1.0)
        scaled = jacobian * sizes
        rows = 2.0 ** np.frexp(np.abs(scaled).max(axis=1))[1].astype(float)
        scaled = scaled / rows[:, None]
        if not np.linalg.svd(scaled, compute_uv=False)[-1] > 1e-7:
            return Missing("the equations are too nearly singular: groups or support vectors are dependent.")
        inverse, last = np.linalg.inv(scaled), np.inf
        frame = self._point(now, bits, 0.5)
        try:
            inside = check.Point(self.problem.checked, check.read(frame.document(), check.FORM["point"], ""))
        except check.Malformed as error:
            return Missing(f"the point cannot be checked: {error}")
        for _ in range(_TURNS):
            residual, below = self._residual(inside, now)
            size = max(map(abs, residual))
            if not size or size >= last:
                break
            last, shift = size, size.bit_length() - 900  # within the range of floats
            small = np.array([float(value >> shift if shift > 0 else value << -shift) for value in residual])
            step = sizes * (inverse @ (small / rows))
            now = [u - whole(float(d), shift + bits - below) for u, d in zip(now, step, strict=True)]
        tau = float(np.linalg.svd(scaled, compute_uv=False)[-1]) ** 2 / 8
        return self._point(now, bits, min(tau, 0.5))

    def _sizes(self) -> np.ndarray:
        s, (_, ki) = int(self.support.sum()), np.nonzero(self.held)
        lam = np.zeros(len(self.support))
        lam[self.support] = self.start[:s]
        return np.concatenate([self.start[:s], lam[ki], self.start[s + len(ki) :]])

    def _residual(self, inside: check.Point, now: list[int]) -> tuple[list[int], int]:
        """The equations as numerators over 2^below, exactly, with the evaluation that the checker uses."""
        p, s, k = self.problem.checked, len(inside.support), len(inside.kinks)
        lam, kinks = (
            dict(zip(inside.support, now, strict=False)),
            dict(zip(inside.kinks, now[s:], strict=False)),
        )
        t, q, squares = inside.evaluate(p, p.G, p.y, lam, kinks, now[s + k :])
        found = [*(q[i] - inside.below_q for i in inside.support), *(v - inside.below_q for v in squares)]
        found += [t[g][i] * inside.below_mu for g, i in inside.kinks]
        return found, inside.below_q.bit_length() - 1

    def _point(self, now: list[int], bits: int, tau: float) -> Point:
        s, k = int(self.support.sum()), int(self.held.sum())
        return Point(
            groups=self.groups,
            signs=self.signs,
            patterns=self.patterns,
            support=np.flatnonzero(self.support),
            denominator=1 << bits,
            multipliers=now[:s],
            kinks=now[s : s + k],
            tau=tau,
            amplitudes=now[s + k :],
        )
