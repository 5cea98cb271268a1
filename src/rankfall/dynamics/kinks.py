r"""What a neuron does at a kink: cross it, stick to it, or leave it.

Neuron j pulls with $g = \sum_i u_i x_i$, $u_i = r_i P_i$, and its pre-activations move with the velocities
$v_i = a \langle x_i, g\rangle$ (times a positive number). A slope is P = 1 above the kink and P = alpha below
it. At the kink Filippov's solution takes P in [alpha, 1] such that

    P = 1 and v >= 0  (it goes up),   P = alpha and v <= 0  (it goes down),   or v = 0  (it sticks).

Where $a r_i < 0$ a larger P means a smaller v: the kink attracts, and the conditions are those of the convex
problem $\min |g|^2$ over the box. Where $a r_i > 0$ it repels: the neuron crosses, and the slope is an end
of [alpha, 1]. The rule for several kinks at once: repelling ones keep the side they come to (alpha for a
pre-activation that starts at zero, as $\sigma'(0) = \alpha$), attracting ones take the least |g|; a repelling
one whose velocity then contradicts its side changes it, the worst first. Each change makes the least |g|
larger, so this ends.

Inputs x and c x have one kink. Their slopes are one P, or for c < 0 the one has P and the other 1 + alpha -
P.
"""

import numpy as np
from scipy.linalg import qr
from scipy.optimize import lsq_linear

_INSIDE = 1e-12  # a slope this close to an end of [alpha, 1] is at it
_PARALLEL = 1e-13  # 1 - |cos| of inputs that are on one line
_RANK = 1e-10  # directions closer than this to a span are in it,
_RANK_OF_GRAM = 1e-6  # and closer than this cannot be told from squares of lengths alone


def response(samples: np.ndarray, gram: np.ndarray) -> np.ndarray:
    r"""The matrix T (h, n) with which a neuron slides along the kinks of some samples S.

    Their pulls are $u_S = -T u$, so that $\langle x_s, g\rangle = 0$ for all s in S. Its columns S are zero.
    """
    matrix = np.linalg.solve(gram[np.ix_(samples, samples)], gram[samples])
    matrix[:, samples] = 0.0
    return matrix


def lines_of(gram: np.ndarray) -> np.ndarray | None:
    """C (n, n) with x_i = C_si x_s for inputs on one line, which have one kink; None if no two are."""
    lengths = np.sqrt(np.diag(gram))
    products = np.outer(lengths, lengths)
    parallel = (np.abs(gram) >= (1 - _PARALLEL) * products) & (products > 0)
    if parallel.sum() <= len(gram):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(parallel, gram / np.diag(gram)[:, None], 0.0)


def decide_lines(
    at_kink: np.ndarray,
    slopes: np.ndarray,
    x: np.ndarray,
    r: np.ndarray,
    sign: float,
    slope: float,
    lines: np.ndarray | None,
) -> np.ndarray:
    """`decide`, where the inputs on one line have one kink and so one slope P, or P and 1 + alpha - P."""
    if lines is None or not len(at_kink):
        return decide(at_kink, slopes, x, r, sign, slope)
    first = at_kink[[not lines[s, at_kink[at_kink < s]].any() for s in at_kink]]
    joint = r.copy()
    joint[at_kink] = 0.0
    joint[first] = np.abs(lines[first]) @ r
    base = ((1 + slope) * (np.minimum(lines[first], 0.0) @ r)) @ x[first]
    found = decide(first, slopes, x, joint, sign, slope, base)
    other_end = {slope: 1.0, 1.0: slope}
    for s in first:
        same, opposite = (at_kink[at * lines[s, at_kink] > 0] for at in (1, -1))
        found[opposite] = other_end.get(float(found[s]), 1 + slope - found[s])
        found[same] = found[s]
    return found


def decide(
    at_kink: np.ndarray,
    slopes: np.ndarray,
    x: np.ndarray,
    r: np.ndarray,
    sign: float,
    slope: float,
    base: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The slopes of a neuron at its kinks `at_kink` (sample numbers), when all pulls are `r`.

    `slopes` (n) holds the slopes of the other samples, and for those at the kink the side they come to;
    `sign` is that of the neuron's output weight, `base` a pull beside those of the samples. Slopes strictly
    inside of (slope, 1) are those that stick.
    """
    slopes = slopes.copy()
    attracts = sign * r[at_kink] < 0
    sticky, crossing = at_kink[attracts], at_kink[~attracts]
    lengths = np.linalg.norm(x, axis=1)
    rounding = 1e-13 * lengths[crossing] * (np.abs(r) @ lengths)
    for _ in range(4 * len(crossing) + 1):
        others = slopes * r
        others[sticky] = 0.0
        slopes[sticky] = _least_pull(x[sticky], others @ x + base, r[sticky], slope)
        velocity = sign * (x[crossing] @ ((slopes * r) @ x + base))
        wrong = np.where(slopes[crossing] == 1, -velocity, velocity) - rounding
        if not (wrong > 0).any():
            break
        worst = crossing[int(np.argmax(wrong))]
        slopes[worst] = slope if slopes[worst] == 1 else 1.0
    return slopes


def _least_pull(x: np.ndarray, others: np.ndarray, r: np.ndarray, slope: float) -> np.ndarray:
    """The slopes P in [slope, 1] for which |others + sum_s P_s r_s x_s| is least."""
    if not len(x):
        return np.empty(0)
    low, high = np.minimum(slope * r, r), np.maximum(slope * r, r)
    if len(x) == 1:  # by far the most frequent case
        u = np.clip(-(x @ others) / (x[0] @ x[0]), low, high)
    else:
        u, _, rank, _ = np.linalg.lstsq(x.T, -others, rcond=_RANK)
        if rank < len(x) or (u < low).any() or (u > high).any():
            u = lsq_linear(x.T, -others, bounds=(low, high), method="bvls", tol=1e-15).x
    found = u / r
    return np.where(found < slope + _INSIDE, slope, np.where(found > 1 - _INSIDE, 1.0, found))


def independent(samples: np.ndarray, x: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """As many of the samples as have linearly independent inputs."""
    if len(samples) < 2:
        return samples
    block = gram[np.ix_(samples, samples)]
    try:  # the diagonal of the factor is the distance of each input from the span of those before
        heights = np.diag(np.linalg.cholesky(block))
        if (heights > _RANK_OF_GRAM * np.sqrt(np.diag(block))).all():
            return samples
    except np.linalg.LinAlgError:
        pass
    r, order = qr(x[samples].T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    return np.sort(samples[order[: int((diagonal > _RANK * diagonal[0]).sum())]])
