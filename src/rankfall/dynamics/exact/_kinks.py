r"""What a neuron does at a kink: cross it, stick to it, or leave it.

Neuron j pulls with $g = \sum_i u_i x_i$, $u_i = r_i P_i$, and its pre-activations move with the velocities
$v_i = a \langle x_i, g\rangle$ (times a positive number). A slope is P = 1 above the kink and P = alpha below
it. At the kink Filippov's solution takes P in [alpha, 1] such that

    P = 1 and v >= 0  (it goes up),   P = alpha and v <= 0  (it goes down),   or v = 0  (it sticks).

Where $a r_i < 0$ a larger P means a smaller v: the kink attracts, and the conditions are those of the convex
problem $\min |g|^2$ over the box, whose solution is unique. Where $a r_i > 0$ it repels: the neuron leaves it
on one side or the other, with P an end of [alpha, 1]; to stay on it is a solution too, but one that the
smallest perturbation ends. Gradient descent with steps going to zero takes solutions that leave.

So where repelling kinks meet, every choice of their sides is tried, with the least |g| of the attracting
ones: those whose velocities agree with their sides are the solutions; and for a ReLU neuron that nothing
else pulls, to be below all these kinks is one more. A repelling kink that is reached alone, perhaps while
others are held, is crossed, and that is unique: $\langle d, g(t)\rangle$ of the shortest g in a convex set
C + t d never decreases with t. Where several are reached at once there may be several solutions
(docs/theory/uniqueness.md).

Inputs x and c x have one kink. Their slopes are one P, or for c < 0 the one has P and the other 1 + alpha -
P.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import linprog, lsq_linear

_INSIDE = 1e-12  # a slope this close to an end of [alpha, 1] is at it,
_EPS = 4 * np.finfo(float).eps  # and so is one that is there up to rounding
_SAME = (
    4 * np.finfo(float).eps
)  # how far rounding may take a multiple of an input from its line, entry by entry
_RANK = 1e-10  # directions closer than this to a span are in it
_ROUNDING = 1e-13  # of velocities, relative to the terms that cancel in them
MOST = 10  # repelling kinks at one point whose sides are all tried


@dataclass(frozen=True)
class Decision:
    """The slopes of a neuron on all samples, and those of the other solutions that leave the same point.

    `complete`: all solutions were looked for. `moves`: repelling kinks are left; else the neuron rests at
    them.
    """

    slopes: np.ndarray
    others: tuple[np.ndarray, ...] = ()
    complete: bool = True
    moves: bool = True

    @property
    def unique(self) -> bool:
        """Is this the only stable solution?"""
        return self.complete and not self.others


def response(samples: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""The matrix T (h, n) with which a neuron slides along the kinks of some samples S.

    Their pulls are $u_S = -T u$, so that $\langle x_s, g\rangle = 0$ for all s in S. Its columns S are zero.
    By the factors of the inputs themselves: their Gram matrix would square how nearly dependent they are.
    """
    q, r = np.linalg.qr(x[samples].T)
    matrix = solve_triangular(r, q.T @ x.T)
    matrix[:, samples] = 0.0
    return np.asarray(matrix)


def lines_of(x: np.ndarray) -> np.ndarray | None:
    """C (n, n) with x_i = C_si x_s for inputs on one line, which have one kink; None if no two are.

    Inputs are on one line if their entries are in one proportion, up to the rounding of the entries: that
    does not change when samples or columns are scaled.
    """
    lengths = np.linalg.norm(x, axis=1)
    unit = x / np.where(lengths > 0, lengths, 1.0)[:, None]
    cosines = unit @ unit.T
    close = np.triu(np.abs(cosines) > 1 - 1e-12, 1)
    pairs = [(i, s) for i, s in np.argwhere(close) if _on_one_line(x[i], x[s])]
    if not pairs:
        return None
    lines = np.diag((lengths > 0).astype(float))
    for i, s in pairs:
        ratio = np.sign(cosines[i, s]) * lengths[s] / lengths[i]
        lines[i, s], lines[s, i] = ratio, 1 / ratio
    return lines


def _on_one_line(x: np.ndarray, other: np.ndarray) -> bool:
    """Is one input a multiple of the other?"""
    with np.errstate(all="ignore"):
        x, other = x / np.abs(x).max(), other / np.abs(other).max()
    place = int(np.argmax(np.abs(x)))
    left, right = x * other[place], x[place] * other
    return bool((np.abs(left - right) <= _SAME * (np.abs(left) + np.abs(right))).all())


def decide_lines(
    at_kink: np.ndarray,
    slopes: np.ndarray,
    x: np.ndarray,
    r: np.ndarray,
    sign: float,
    slope: float,
    lines: np.ndarray | None,
    comes: bool = True,
    noise: float = 0.0,
) -> Decision:
    """`decide`, where the inputs on one line have one kink and so one slope P, or P and 1 + alpha - P."""
    if lines is None or not len(at_kink):
        return decide(at_kink, slopes, x, r, sign, slope, comes=comes, noise=noise)
    first = at_kink[[not lines[s, at_kink[at_kink < s]].any() for s in at_kink]]
    joint = r.copy()
    joint[at_kink] = 0.0
    joint[first] = np.abs(lines[first]) @ r
    base = ((1 + slope) * (np.minimum(lines[first], 0.0) @ r)) @ x[first]
    found = decide(first, slopes, x, joint, sign, slope, base, comes, noise)
    other_end = {slope: 1.0, 1.0: slope}

    def spread(chosen: np.ndarray) -> np.ndarray:
        chosen = chosen.copy()
        for s in first:
            same, opposite = (at_kink[at * lines[s, at_kink] > 0] for at in (1, -1))
            chosen[opposite] = other_end.get(float(chosen[s]), 1 + slope - chosen[s])
            chosen[same] = chosen[s]
        return chosen

    others = tuple(spread(other) for other in found.others)
    return Decision(spread(found.slopes), others, found.complete, found.moves)


def decide(
    at_kink: np.ndarray,
    slopes: np.ndarray,
    x: np.ndarray,
    r: np.ndarray,
    sign: float,
    slope: float,
    base: np.ndarray | float = 0.0,
    comes: bool = True,
    noise: float = 0.0,
) -> Decision:
    """The slopes of a neuron at its kinks `at_kink` (sample numbers), when all pulls are `r`.

    `slopes` (n) holds the slopes of the other samples, and for those at the kink the side they come to;
    `sign` is that of the neuron's output weight, `base` a pull beside those of the samples. Slopes strictly
    inside of (slope, 1) are those that stick. `comes`: the neuron has come to one new kink, and was held at
    the others; then a repelling one is crossed. Else several are reached at once, or it begins there. A pull
    may be `noise`.
    """
    attracts = sign * r[at_kink] < 0
    sticky, repelling = at_kink[attracts], at_kink[~attracts]
    lengths = np.linalg.norm(x, axis=1)
    rounding = _ROUNDING * lengths[repelling] * (np.abs(r) @ lengths)

    def solution(sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slopes with repelling kinks on these sides, and by how much each velocity agrees with its
        side."""
        chosen = slopes.copy()
        chosen[repelling] = sides
        others = chosen * r
        others[sticky] = 0.0
        most = float(np.abs(others) @ lengths + np.linalg.norm(base)) + noise * float(lengths.sum()) / _INSIDE
        chosen[sticky] = _least_pull(x[sticky], others @ x + base, r[sticky], slope, most)
        velocity = sign * (x[repelling] @ ((chosen * r) @ x + base))
        return chosen, np.where(sides == 1, velocity, -velocity)

    coming = slopes[repelling]
    chosen, agrees = solution(coming)
    if not len(repelling):
        return Decision(chosen, moves=False)
    if comes and len(repelling) == 1 and (agrees > -rounding).all():
        return Decision(chosen)
    best, least = chosen, float((agrees + rounding).min())
    found = [chosen] if (agrees > rounding).all() else []
    for sides in _choices(len(repelling), coming, slope):
        chosen, agrees = solution(sides)
        if (agrees > rounding).all():
            found.append(chosen)
        elif (agrees + rounding).min() > least:
            best, least = chosen, float((agrees + rounding).min())
    complete = len(repelling) <= MOST
    if not found:  # every velocity is zero: it rests
        return Decision(best, complete=complete, moves=False)
    dead = slopes.copy()
    dead[at_kink] = slope
    if slope == 0 and not np.any((dead * r) @ x + base) and _has_a_common_below(x[at_kink]):
        found.append(dead)
    found.sort(key=lambda solution: tuple(-solution[repelling]))  # an order that rounding does not change
    return Decision(found[0], tuple(found[1:]), complete)


def _has_a_common_below(x: np.ndarray) -> bool:
    """Is there a w with w . x < 0 for all of these inputs? There a ReLU neuron is dead: nothing moves it."""
    unit = x / np.linalg.norm(x, axis=1)[:, None]
    k = unit.shape[1]
    most = linprog(
        np.r_[np.zeros(k), -1.0],
        np.c_[unit, np.ones(len(unit))],
        np.zeros(len(unit)),
        bounds=[(-1, 1)] * k + [(0, 1)],
    )
    return bool(most.status == 0 and -most.fun > _RANK)


def _choices(count: int, coming: np.ndarray, slope: float) -> list[np.ndarray]:
    """All choices of sides but the one that comes; of too many kinks, those with some sides changed."""
    if count <= MOST:
        every = (np.array(sides) for sides in product((1.0, slope), repeat=count))
        return [sides for sides in every if (sides != coming).any()]
    other = np.where(coming == 1, slope, 1.0)
    single = [np.where(np.arange(count) == k, other, coming) for k in range(count)]
    return [*single, *(np.where(np.arange(count) == k, coming, other) for k in range(count)), other]


def _least_pull(x: np.ndarray, others: np.ndarray, r: np.ndarray, slope: float, most: float) -> np.ndarray:
    """The slopes P in [slope, 1] for which |others + sum_s P_s r_s x_s| is least.

    Of dependent inputs no more than are independent get a slope inside: the others are at an end. `most` is
    how long the terms are that make up the others: a sample that pulls far more has a slope near an end.
    """
    if not len(x):
        return np.empty(0)
    low, high = np.minimum(slope * r, r), np.maximum(slope * r, r)
    if len(x) == 1:  # by far the most frequent case
        u = np.clip(-(x @ others) / (x[0] @ x[0]), low, high)
    else:
        u, _, rank, _ = np.linalg.lstsq(x.T, -others, rcond=_RANK)
        if rank < len(x) or (u < low).any() or (u > high).any():
            scale = 1 / np.linalg.norm(x, axis=1)  # inputs of one length, so that none is lost beside another
            found = lsq_linear(
                (x * scale[:, None]).T, -others, bounds=(low / scale, high / scale), method="bvls", tol=1e-15
            )
            u = _to_a_corner(np.clip(found.x * scale, low, high), x, low, high)
    least = _INSIDE * np.minimum(np.abs(r), most / np.linalg.norm(x, axis=1))
    inside = np.clip(u / r, np.nextafter(slope, 1.0), np.nextafter(1.0, 0.0))
    at_slope = np.abs(u - slope * r) <= np.maximum(least, _EPS * np.abs(slope * r))
    at_one = np.abs(u - r) <= np.maximum(least, _EPS * np.abs(r))
    return np.where(at_slope, slope, np.where(at_one, 1.0, inside))


def _to_a_corner(u: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The same sum of u_i x_i within the bounds, with independent inputs for those inside of their bounds."""
    u, width = u.copy(), high - low
    for _ in range(len(u)):
        inside = np.flatnonzero((u > low + _INSIDE * width) & (u < high - _INSIDE * width))
        if len(inside) < 2:
            break
        unit = x[inside] / np.linalg.norm(x[inside], axis=1)[:, None]
        left, values, _ = np.linalg.svd(unit, full_matrices=True)
        if len(inside) <= len(values) and values[-1] > _RANK * values[0]:
            break
        along = left[:, -1] / np.linalg.norm(x[inside], axis=1)
        along = np.where(np.abs(along) > _RANK * np.abs(along).max(), along, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(along > 0, high[inside] - u[inside], low[inside] - u[inside]) / along
        room = np.where(along == 0, np.inf, room)
        first = int(np.argmin(room))
        u[inside] += room[first] * along
        u[inside[first]] = high[inside[first]] if along[first] > 0 else low[inside[first]]
    return np.clip(u, low, high)


def independent(samples: np.ndarray, x: np.ndarray) -> np.ndarray:
    """As many of the samples as have linearly independent inputs."""
    samples = samples[(x[samples] != 0).any(axis=1)]
    if len(samples) < 2:
        return samples
    unit = x[samples] / np.linalg.norm(x[samples], axis=1)[:, None]
    r, order = qr(unit.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    return np.sort(samples[order[: int((diagonal > _RANK * diagonal[0]).sum())]])


def in_span(samples: np.ndarray, of: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Those of the samples whose inputs are in the span of the inputs of other samples."""
    of = independent(of, x)
    if not len(of):
        return samples[:0]
    basis = np.linalg.qr(x[of].T)[0]
    rest = x[samples] - (x[samples] @ basis) @ basis.T
    return samples[np.linalg.norm(rest, axis=1) <= _RANK * np.linalg.norm(x[samples], axis=1)]
