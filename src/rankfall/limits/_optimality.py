r"""Is the limit the best network of all? Duality proves it, or a better network refutes it.

The limit of a two-layer network $f(x) = \sum_j a_j \phi(w_j \cdot x)$, $\phi(z) = \max(\gamma z, z)$, meets
the KKT conditions of the problem to minimise $\frac12|\theta|^2$ with $y_i f(x_i) \ge 1$. The problem is not
convex, so it need not be a minimum. Whether it is, and by how much it can be beaten, is told by the peaks
$M_\pm = \max_{|u| \le 1} \pm F(u)$ of one function of the multipliers $\lambda$:

$$F(u) = \sum_i c_i \phi(u \cdot x_i), \qquad c_i = \lambda_i y_i.$$

For any $\lambda \ge 0$ and any network with margins of at least 1,
$\frac12|\theta|^2 \ge \sum_i \lambda_i + \frac12|\theta|^2 - \sum_j a_j F(w_j)$; the least value of the right
side is the dual value. A bias is one more coordinate 1 of x, appended by the caller.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, product

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import lsq_linear, nnls

_BATCH = 1024  # nodes bounded at once
_SWEEPS = 10  # of coordinate descent: what is left makes a bound looser, never wrong
_ROUNDING = 1e-12  # relative to sum_i |c_i x_i|, the scale of F


@dataclass(frozen=True)
class Peak:
    """The largest value of F on the unit ball: `value <= M <= upper`.

    `value` is F at `direction`, a unit vector (zero if no direction has F > 0: then the peak is F(0) = 0).
    If `exact`, the two bounds agree up to rounding, and `upper` is `value`.
    """

    value: float
    upper: float
    direction: np.ndarray
    exact: bool


class Optimal(StrEnum):
    """Is no other network better?"""

    GLOBALLY = "globally optimal"
    NOT = "not globally optimal"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Optimality:
    """A verdict on a limit, the sentence that explains it, and its witness.

    `gap` is what duality leaves open: no better network has a |theta|^2 below (1 - gap) times this one's
    with a fixed second layer, below 1 / (1 + gap) times with both layers trained. `exact` tells if the peaks
    in it are exact or upper bounds. `better` and `gain` belong to "not globally optimal": the shorter first
    layer, or the direction of the neuron to add, and the ratio of |theta|^2 of the better network to this
    one's, both scaled to margin 1; the gain is NaN in the other cases.
    """

    verdict: Optimal
    reason: str
    gap: float
    exact: bool
    better: np.ndarray | None = None
    gain: float = float("nan")

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Optimal(self.verdict))  # a file has the word alone


def peak(x: np.ndarray, c: np.ndarray, slope: float, starts: ArrayLike = (), budget: float = 3e9) -> Peak:
    r"""The largest value on the unit ball of $F(u) = \sum_i c_i \phi(u \cdot x_i)$.

    Since $\phi(z)$ is the largest $p z$ with $p \in [\gamma, 1]$, F is a maximum over the slopes p of the
    samples with $c_i > 0$ of a minimum over those of the others, and with the minimax theorem

    $$M = \max_{v \in Z_+} \min_{z \in Z_-} |v - z|, \qquad
      Z_\pm = \lbrace \sum_{\pm c_i > 0} p_i |c_i| x_i : \gamma \le p_i \le 1\rbrace,$$

    attained by $u = (v - z)/|v - z|$: how far the zonotope $Z_+$ reaches out of $Z_-$. The distance is convex
    in v, so a corner of $Z_+$ is the farthest. Branch and bound finds it; `starts` are directions worth
    trying first. After about `budget` multiplications the search stops, with bounds that are not exact.
    """
    x, c = np.asarray(x, dtype=float), np.asarray(c, dtype=float)
    _check_samples(x, slope, c=c)
    z = c[:, None] * x
    sizes = np.linalg.norm(z, axis=1)
    used = sizes > np.finfo(float).eps * sizes.mean()
    if not used.any():
        return Peak(0.0, 0.0, np.zeros(x.shape[1]), True)
    frame = _frame(z[used])
    scale = float(sizes.sum())
    z = z[used] @ frame / scale
    positive = c[used] > 0
    search = _Search(z[positive], -z[~positive], slope)
    value, upper, u = search.run(np.asarray(starts, dtype=float).reshape(-1, x.shape[1]) @ frame, budget)
    return Peak(scale * value, scale * upper, frame @ u, upper == value)


class _Search:
    """Branch and bound for the corner of Z_+ that is farthest from Z_-.

    `up` spans Z_+, longest vectors first, and `down` spans Z_-. A node fixes the slopes of the first `level`
    vectors of `up`, at 1 (sign +) or gamma (sign -); those of the others are free, and its centre has them
    half-way. With g_i = (1 - gamma)/2 up_i, r = centre - z for any z of Z_-, and b_i = r.g_i, a corner of the
    node is at a distance from Z_- of at most, with sums over the free i,

        |r + sum_i e_i g_i|  <=  (|r|^2 + 2 sum_i |b_i| + max_{e = +-1} |sum_i e_i g_i|^2)^(1/2).
    """

    def __init__(self, up: np.ndarray, down: np.ndarray, slope: float) -> None:
        self.up = up[np.argsort(-np.linalg.norm(up, axis=1), kind="stable")]
        self.down, self.slope = down, slope
        self.squares = (down**2).sum(axis=1)
        self.half = (1 - slope) / 2 * self.up
        self.spread = _spreads(self.half)
        self.value, self.direction = 0.0, np.zeros(up.shape[1])

    def run(self, starts: np.ndarray, budget: float) -> tuple[float, float, np.ndarray]:
        """The best value, an upper bound (the same number if they agree up to rounding), the direction."""
        n = len(self.up)
        self.climb(starts)
        signs, level, p = np.zeros((1, n)), np.zeros(1, dtype=int), np.ones((1, len(self.down)))
        bound, p = self.bounds(signs, level, p)
        solved = 0.0
        # A node costs two rounds of coordinate descent and a few products with all vectors.
        nodes = budget / (4 * (_SWEEPS * len(self.down) + n) * (self.up.shape[1] + 30))
        while (bound > self.value + _ROUNDING).any() and nodes > 0:
            order = np.argsort(-bound, kind="stable")[: np.count_nonzero(bound > self.value + _ROUNDING)]
            signs, level, p, bound = signs[order], level[order], p[order], bound[order]
            corners = level[:_BATCH] == n
            for corner in signs[:_BATCH][corners]:
                solved = max(solved, self.solve(self.centre(corner)))
            children = self.branch(signs[:_BATCH][~corners], level[:_BATCH][~corners], p[:_BATCH][~corners])
            nodes -= min(len(order), _BATCH)
            rest = (signs[_BATCH:], level[_BATCH:], p[_BATCH:], bound[_BATCH:])
            signs, level, p, bound = (np.concatenate(pair) for pair in zip(rest, children, strict=True))
        self.solve(self.centre(np.where(self.up @ self.direction > 0, 1.0, -1.0)))
        upper = max(solved, float(bound.max(initial=0.0)))
        return self.value, self.value if upper <= self.value + _ROUNDING else upper, self.direction

    def branch(self, signs: np.ndarray, level: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, ...]:
        """Both children of each node, with their bounds."""
        signs, level, p = np.repeat(signs, 2, axis=0), np.repeat(level, 2), np.repeat(p, 2, axis=0)
        rows = np.arange(len(signs))
        signs[rows, level] = np.where(rows % 2, -1.0, 1.0)
        bound, p = self.bounds(signs, level + 1, p)
        return signs, level + 1, p, bound

    def bounds(self, signs: np.ndarray, level: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An upper bound for each node, from two points of Z_-; the slopes p of the first one."""
        centre, free = self.centre(signs), np.arange(len(self.up)) >= level[:, None]
        p, r = self.nearest(centre, p)
        b = np.where(free, r @ self.half.T, 0)
        first = (r**2).sum(axis=1) + 2 * np.abs(b).sum(axis=1)
        # The other point of Z_- is the one next to the corner that looks best; that corner is also tried.
        q, out = self.nearest(self.centre(np.where(free, np.where(b < 0, -1.0, 1.0), signs)), p)
        self.offer(out)
        r = centre - q @ self.down
        second = (r**2).sum(axis=1) + 2 * np.abs(np.where(free, r @ self.half.T, 0)).sum(axis=1)
        return np.sqrt(np.minimum(first, second) + self.spread[level]), p

    def centre(self, signs: np.ndarray) -> np.ndarray:
        return np.asarray((1 + self.slope) / 2 * self.up.sum(axis=0) + signs @ self.half)

    def nearest(self, v: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A point of Z_- close to each v: its slopes, by coordinate descent from p, and what is left of v."""
        p = p.copy()
        r = v - p @ self.down
        for _ in range(_SWEEPS):
            before = p.copy()
            for i, d in enumerate(self.down):
                moved = np.clip(p[:, i] + r @ d / self.squares[i], self.slope, 1)
                r -= (moved - p[:, i])[:, None] * d
                p[:, i] = moved
            if np.abs(p - before).max(initial=0.0) < 1e-15:
                break
        return p, r

    def solve(self, v: np.ndarray) -> float:
        """The distance of v from Z_-: bounded least squares, exact up to rounding."""
        r = v - self.down.sum(axis=0)
        if len(self.down) and self.slope < 1:
            size = 100 * len(self.down)
            p = lsq_linear(self.down.T, v, (self.slope, 1), method="bvls", tol=1e-15, max_iter=size).x
            r = v - p @ self.down
        self.offer(r[None])
        return float(np.linalg.norm(r))

    def climb(self, starts: np.ndarray) -> None:
        """Alternate between the slopes of u and the best u for these slopes: F(u) never falls."""
        u = np.concatenate([starts, self.up[:64], (self.up.sum(axis=0) - self.down.sum(axis=0))[None]])
        u = np.concatenate([u, np.random.default_rng(0).normal(size=(8, u.shape[1]))])
        self.offer(u)
        for _ in range(10):
            signs = np.unique(np.where(u @ self.up.T > 0, 1.0, -1.0), axis=0)
            before = self.value
            _, u = self.nearest(self.centre(signs), np.ones((len(signs), len(self.down))))
            self.offer(u)
            if self.value <= before:
                break

    def offer(self, u: np.ndarray) -> None:
        """Keep the best of these directions, if it is better than the best so far."""
        norms = np.linalg.norm(u, axis=1, keepdims=True)
        u = u / np.where(norms > _ROUNDING, norms, np.inf)
        rise, fall = (_leaky(u @ part.T, self.slope).sum(axis=1) for part in (self.up, self.down))
        if (rise - fall > self.value).any():
            best = np.argmax(rise - fall)
            self.value, self.direction = float(rise[best] - fall[best]), u[best]


def _spreads(g: np.ndarray) -> np.ndarray:
    """For each l a bound on max_{e = +-1} |sum_{i >= l} e_i g_i|^2, from the Gram matrix of the rows of g.

    The sum of its absolute values is one; its trace plus n times the largest eigenvalue of the rest another.
    """
    gram = (g @ g.T)[::-1, ::-1]
    own = gram.diagonal()
    top = np.linalg.eigvalsh(gram - np.diag(own))[-1] if len(g) else 0.0
    total = np.abs(gram).cumsum(axis=0).cumsum(axis=1).diagonal()
    return np.append(np.minimum(total, (own + top).cumsum())[::-1], 0.0)


def optimality_of_fixed(
    w: np.ndarray,
    a: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    slope: float,
    multipliers: np.ndarray,
    tol: float = 1e-8,
) -> Optimality:
    r"""Has any first layer with margins of at least 1 a smaller $|W|_F$, the second layer `a` being fixed?

    The dual value of $t\lambda$ is $t\sum_i\lambda_i - \frac{t^2}2 B$ with
    $B = \sum_{a_j > 0} a_j^2 M_+^2 + \sum_{a_j < 0} a_j^2 M_-^2$. At the best t it is
    $(\sum_i\lambda_i)^2 / 2B$, and the gap is what is missing to $\frac12|W|_F^2$, relative to it.

    - "globally optimal": the gap is at most `tol`. That is a proof for whatever multipliers are given.
    - "not globally optimal": a shorter first layer was found. It is `better`, of margin 1, and `gain` is the
      ratio of the $|W|_F^2$.
    - "unknown": there is a gap and no shorter first layer was found. The network may be optimal: for a given
      width the problem need not be free of a gap.
    """
    fit, w, a, multipliers = _checked(w, a, x, y, slope, multipliers)
    peaks = [
        peak(fit.x, s * fit.y * multipliers, slope, starts=w[s * a > 0])
        if (s * a > 0).any()
        else Peak(0.0, 0.0, np.zeros(w.shape[1]), True)
        for s in (1, -1)
    ]
    w = w / fit.margin(w, a)
    primal = (w**2).sum() / 2
    b = sum((a[s * a > 0] ** 2).sum() * top.upper**2 for s, top in zip((1, -1), peaks, strict=True))
    dual = multipliers.sum() ** 2 / (2 * b) if b > 0 else 0.0
    gap, exact = max(0.0, float(1 - dual / primal)), all(top.exact for top in peaks)
    if gap <= tol:
        reason = (
            f"No first layer is shorter: the dual value meets |W|^2/2 = {primal:.6g} up to {gap:.0e} of it."
        )
        return Optimality(Optimal.GLOBALLY, reason, gap, exact)
    bound = f"by duality none has less than {1 - gap:.6g} times" + ("" if exact else " (peaks not exact)")
    better = _shorter(fit, w, a, [top.direction for top in peaks], multipliers)
    gain = float((better**2).sum() / (2 * primal)) if better is not None else np.inf
    if gain < 1 - tol:
        reason = f"A shorter first layer has {gain:.6g} times this |W|^2; {bound}."
        return Optimality(Optimal.NOT, reason, gap, exact, better, gain)
    reason = f"No shorter first layer was found, but duality leaves a gap: {bound} this |W|^2."
    return Optimality(Optimal.UNKNOWN, reason, gap, exact)


def optimality_of_both(
    w: np.ndarray,
    a: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    slope: float,
    multipliers: np.ndarray,
    tol: float = 1e-8,
) -> Optimality:
    r"""Has any network with margins of at least 1 a smaller $|\theta|^2 = |W|_F^2 + |a|^2$, of any width?

    The dual value of $\lambda / M$, $M = \max_{|u| \le 1} |F(u)|$, is $\sum_i\lambda_i / M$; at a KKT point
    $\sum_i\lambda_i = \frac12|\theta|^2$. So the gap is $M - 1$.

    - "globally optimal": that value is $\frac12|\theta|^2$ up to `tol`. No network of any width is better.
    - "not globally optimal": some u has $|F(u)| > 1$, and a better network was found, with one more neuron
      that starts along u with the sign of F(u). `better` is u. Neurons of one sign and one activation pattern
      can be one neuron without a change of outputs or a larger norm, and zero neurons are free: if there are
      such, the better network is as wide as this one, and the reason says so. If it is wider by one, nothing
      is proven about networks of this width.
    - "unknown": neither.

    That $|F(u)| > 1$ is no proof by itself. A new neuron $(\epsilon u, \pm\epsilon)$ changes $|\theta|^2$ by
    $-2\epsilon^2(|F(u)| - 1) + O(\epsilon^4)$ once the others have restored the margins (an example: Vardi,
    Shamir and Srebro 2021), but only if the multipliers and the slopes at kinks are unique. A global optimum
    with several multipliers is proven by some of them and not by others.
    """
    fit, w, a, multipliers = _checked(w, a, x, y, slope, multipliers)
    c = fit.y * multipliers
    peaks = [peak(fit.x, s * c, slope, starts=w[s * a > 0]) for s in (1, -1)]
    sign, top = max(zip((1, -1), peaks, strict=True), key=lambda pair: pair[1].value)
    low, high = top.value, max(top.upper for top in peaks)
    exact = all(top.exact for top in peaks)
    primal = ((w**2).sum() + (a**2).sum()) / 2 / fit.margin(w, a)
    dual = multipliers.sum() / high if high > 0 else 0.0
    found = f"max |F| = {low:.9g}" if exact else f"{low:.9g} <= max |F| <= {high:.9g}"
    if dual >= primal * (1 - tol):
        reason = f"No network of any width is better: {found}, and |theta|^2/2 is the dual value {dual:.6g}."
        return Optimality(Optimal.GLOBALLY, reason, high - 1, exact)
    if low > 1 + tol:
        gain, width = _with_one_more(fit, w, a, sign, top.direction)
        if gain < 1 - tol:
            who = "A network of this width" if width <= len(a) else "A network with one more neuron"
            reason = f"{who} has {gain:.6g} times this |theta|^2: {found} > 1."
            return Optimality(Optimal.NOT, reason, high - 1, exact, top.direction, gain)
    reason = (
        f"No better network was found, but |theta|^2/2 = {primal:.6g} exceeds its dual {dual:.6g}: {found}."
    )
    return Optimality(Optimal.UNKNOWN, reason, high - 1, exact)


# Better networks.
#
# With a fixed second layer, neuron j helps the margin of sample i if y_i a_j > 0, and hurts it if not. phi is
# convex: replacing it by p z in the pairs that help, p the slope at some known first layer, makes the margins
# smaller and concave in W. What is left is a convex problem, and its solution fits the data. Its slopes are
# the next p: the convex-concave procedure. The slopes of pairs that hurt come in as cutting planes.

_CUTS = 20
_ROUNDS = 10
# There are about as many cuts as pairs at a kink, so the work of a step grows like the number of unknowns
# times the squared number of pairs. Beyond this product a step would take more than about a second.
_WORK = 1e9


@dataclass(frozen=True)
class _Fit:
    """The samples a network has to fit, the activation, and the numbers of the samples fitted first."""

    x: np.ndarray
    y: np.ndarray
    slope: float
    support: np.ndarray

    def slopes(self, w: np.ndarray) -> np.ndarray:
        return np.where(self.x @ w.T > 0, 1.0, self.slope)

    def margins(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.asarray(self.y * (_leaky(self.x @ w.T, self.slope) @ a))

    def margin(self, w: np.ndarray, a: np.ndarray) -> float:
        return float(self.margins(w, a).min())


def _shorter(
    fit: _Fit, w: np.ndarray, a: np.ndarray, tops: list[np.ndarray], multipliers: np.ndarray
) -> np.ndarray | None:
    """A first layer of margin 1 that is shorter than w, which has margin 1 too; None if none is found.

    Simple starts come first, with the neurons of a sign in one direction. The first family of starts that
    leads below w is the last one tried.
    """
    frame = _frame(fit.x)
    fit, w, tops = replace(fit, x=fit.x @ frame), w @ frame, [top @ frame for top in tops]
    norms = np.linalg.norm(w, axis=1)
    heights = (fit.y * multipliers) @ _leaky(fit.x @ w.T, fit.slope) / np.where(norms > 0, norms, 1)
    turned = (_turned(w, a, np.sign(a) * heights, tops, share) for share in (1.0, 0.5, 0.25, 0.0))
    least = float((w**2).sum())
    for starts in chain(turned, [_scattered(w, a)]):
        ends = [_descended(fit, start, a, np.sqrt(least)) for start in starts]
        best = min((end for end in ends if end is not None), key=lambda end: (end**2).sum(), default=w)
        if (best**2).sum() < least * (1 - 1e-9):
            return np.asarray(best @ frame.T)
    return None


def _turned(
    w: np.ndarray, a: np.ndarray, heights: np.ndarray, tops: list[np.ndarray], share: float
) -> Iterator[np.ndarray]:
    """First layers with a share of the neurons of a sign, at least one, turned to the peak of that sign.

    Those where F is lowest are the first to turn. One with a small a_j is already worth it: with multipliers
    that are unique, it takes a_j^2 (M^2 - F(w_j/|w_j|)^2) + O(a_j^4) off |W|^2.
    """
    for signs in ((1, -1), (1,), (-1,)):
        start = w.copy()
        for s in signs:
            block = np.flatnonzero(s * a > 0)
            block = block[np.argsort(heights[block], kind="stable")]
            start[block[: max(1, round(share * len(block)))]] = tops[0 if s > 0 else 1]
        yield start


def _scattered(w: np.ndarray, a: np.ndarray) -> Iterator[np.ndarray]:
    """First layers with one row for each sign, a long one of w; then random ones."""
    order = np.argsort(-np.linalg.norm(w, axis=1), kind="stable")
    for i, j in product(order[a[order] > 0][:4], order[a[order] < 0][:4]):
        yield np.where(a[:, None] > 0, w[i], w[j])
    rng = np.random.default_rng(0)
    for _ in range(20):
        yield rng.normal(size=w.shape)


def _descended(fit: _Fit, w: np.ndarray, a: np.ndarray, size: float) -> np.ndarray | None:
    """The convex-concave procedure from the slopes of w: a shorter and shorter first layer of margin 1."""
    live = np.flatnonzero(a)
    # Neurons of one sign and one pattern stay proportional to their output weights: they are one neuron.
    keys = np.column_stack([np.sign(a), fit.slopes(w).T])[live]
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    joint = np.sign(a[live[first]]) * np.sqrt(np.bincount(group, a[live] ** 2))
    v, best = w[live[first]], None
    for _ in range(_ROUNDS):
        step = _convex_step(fit, v, joint, size)
        if step is None or (best is not None and (step**2).sum() > (1 - 1e-6) * (best**2).sum()):
            break
        v = best = step
    if best is None:
        return None
    whole = np.zeros_like(w)
    whole[live] = np.abs(a[live] / joint[group])[:, None] * best[group]
    return whole / fit.margin(whole, a)


def _convex_step(fit: _Fit, w: np.ndarray, a: np.ndarray, size: float) -> np.ndarray | None:
    """The shortest first layer of margin 1 with the slopes of w in the pairs that help."""
    if w.size * (len(a) * len(fit.support)) ** 2 > _WORK:
        return None
    helps, held = fit.y[:, None] * a > 0, fit.slopes(w)
    rows = np.empty((0, w.size))
    short = fit.support if len(fit.support) else np.arange(len(fit.y))
    for _ in range(_CUTS):
        p = np.where(helps, held, fit.slopes(w)) * fit.y[:, None] * a
        rows = np.concatenate([rows, (p[short, :, None] * fit.x[short, None, :]).reshape(len(short), -1)])
        v, rows = _least_norm(rows, size)
        if v is None:
            return None
        w = v.reshape(w.shape)
        margins = fit.margins(w, a)
        short = np.flatnonzero(margins < 1 - 1e-10)
        if not len(short):
            break
    return w / margins.min() if margins.min() > 0 else None


def _least_norm(rows: np.ndarray, size: float) -> tuple[np.ndarray | None, np.ndarray]:
    """The shortest v with rows v >= 1, None if it is ten times longer than `size`; and the rows it rests on.

    Lawson and Hanson, "Solving Least Squares Problems", Section 23.4, in the unit of length `size`.
    """
    system = np.concatenate([size * rows.T, np.ones((1, len(rows)))])
    try:
        c, residual = nnls(system, np.append(np.zeros(rows.shape[1]), 1.0), maxiter=30 * len(rows) + 100)
    except RuntimeError:  # out of iterations: this start leads nowhere
        return None, rows
    return (size**2 * (c @ rows) / (1 - c.sum()) if residual > 0.1 else None), rows[c > 0]


def _with_one_more(fit: _Fit, w: np.ndarray, a: np.ndarray, sign: int, u: np.ndarray) -> tuple[float, int]:
    """The least |theta|^2 found with a neuron along u, relative to this one, and how many neurons it has."""
    this = ((w**2).sum() + (a**2).sum()) / fit.margin(w, a)
    frame = _frame(fit.x)
    fit, u = replace(fit, x=fit.x @ frame), u @ frame
    w, a = _merged(fit, w @ frame, a)
    least = np.inf
    for share in (1.0, 0.1, 0.01, 0.001):
        b = np.append(a, sign * np.sqrt(share * (a**2).mean()))
        v = np.concatenate([w, u[None]])
        for _ in range(_ROUNDS):
            step = _convex_step(fit, v, b, float(np.linalg.norm(w)))
            if step is None:
                break
            v, b = _balanced(np.abs(b)[:, None] * step, b)
            least = min(least, ((v**2).sum() + (b**2).sum()) / fit.margin(v, b))
    return float(least / this), len(a) + 1


def _merged(fit: _Fit, w: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The live neurons, those of one sign and one pattern as one: the same outputs, and no larger norm."""
    t = np.abs(a)[:, None] * w
    sizes = np.linalg.norm(t, axis=1)
    live = sizes > 1e-12 * sizes.max()
    t, s = t[live], np.sign(a[live])
    z = fit.x @ t.T
    kink = np.abs(z) <= 1e-9 * np.linalg.norm(fit.x, axis=1)[:, None] * sizes[live]
    keys = np.column_stack([s, np.where(kink, 0, np.sign(z)).T])
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), t.shape[1]))
    np.add.at(sums, group, t)
    return _balanced(sums, s[first])


def _balanced(t: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The network with products |a_j| w_j = t_j and the signs of a that has the least norm: |a_j| = |w_j|."""
    roots = np.sqrt(np.linalg.norm(t, axis=1))
    return t / np.where(roots > 0, roots, 1)[:, None], np.sign(a) * roots


def _leaky(z: np.ndarray, slope: float) -> np.ndarray:
    return np.maximum(slope * z, z)


def _frame(x: np.ndarray) -> np.ndarray:
    """Orthonormal columns whose span holds the rows of x: fewer than its columns if it has fewer rows."""
    return np.asarray(np.linalg.qr(x.T)[0]) if x.shape[0] < x.shape[1] else np.eye(x.shape[1])


def _checked(
    w: np.ndarray, a: np.ndarray, x: np.ndarray, y: np.ndarray, slope: float, multipliers: np.ndarray
) -> tuple[_Fit, np.ndarray, np.ndarray, np.ndarray]:
    """The arguments as float arrays, or a sentence that says what is wrong with them."""
    w, a, x, y, multipliers = (np.asarray(v, dtype=float) for v in (w, a, x, y, multipliers))
    _check_samples(x, slope, multipliers=multipliers, y=y)
    if a.ndim != 1 or w.shape != (len(a), x.shape[1]):
        raise ValueError(
            f"inputs of shape {x.shape} need a first layer (m, {x.shape[1]}) and a second layer (m,), "
            f"but theirs are {w.shape} and {a.shape}. Append the coordinate 1 to x if w holds biases."
        )
    if not np.isin(y, (-1, 1)).all():
        raise ValueError(f"labels must be -1 or +1, but y has values like {np.unique(y)[:5]}.")
    if (multipliers < 0).any():
        raise ValueError(f"multipliers must not be negative, but the least one is {multipliers.min():g}.")
    fit = _Fit(x, y, slope, np.flatnonzero(multipliers))
    if not fit.margin(w, a) > 0:
        raise ValueError(
            f"the network does not classify all samples: its least margin y f(x) is {fit.margin(w, a):g}. "
            "Only a network that fits its data can be a limit."
        )
    return fit, w, a, multipliers


def _check_samples(x: np.ndarray, slope: float, **each: np.ndarray) -> None:
    """Finite inputs (n, k), a slope between 0 and 1, and finite arrays with one number for each sample."""
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise ValueError(
            f"inputs must be finite numbers, samples x features, not an array of shape {x.shape}."
        )
    if not 0 <= slope <= 1:
        raise ValueError(f"the slope of a leaky ReLU lies in [0, 1], but is {slope}.")
    for name, values in each.items():
        if values.shape != (len(x),) or not np.isfinite(values).all():
            raise ValueError(f"{name} must be {len(x)} finite numbers, one for each sample.")
