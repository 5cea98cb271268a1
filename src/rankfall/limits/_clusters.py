r"""The KKT point next to a late state of a flow with both layers trained, by Newton's method.

At a KKT point $w_j = a_j v_j$ with $v_j = \sum_i \lambda_i y_i P_{ji} x_i$, and $|v_j| = 1$ for every neuron
that is not zero. Neurons of one sign and one pattern have one v: a cluster c with $A_c = \sum_j a_j^2$. Then
the unknowns $\lambda$ (on the support), A and the pulls u of the kinks solve as many equations:

    y_i \sum_c A_c P_{ci} v_c.x_i = 1,     |v_c| = 1,     v_c.x_s = 0  for every kink (c, s).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from rankfall.dynamics.exact import Region, Weights
from rankfall.limits._kkt import Point

_NEWTON = 40
_DIVERGED = 1e6  # equations that are so far from zero
_SMALL = 1e-3  # of the largest unknown of its kind: smaller ones count as this large
_EXCHANGES = 30
_LIVE, _SHARE = (
    0.1,
    1e-3,
)  # a cluster is alive if its |v| is so near to 1 and its share of the weights so large,
_STEADY = 1e-3  # or if its |v| is so near to 1 that its share, however small, may stay


@dataclass(frozen=True)
class Clusters:
    """Live neurons, put together by sign and pattern: those of one cluster have one v."""

    members: list[np.ndarray]
    slopes: np.ndarray  # (c, n), zero where a kink is held
    held: np.ndarray  # (c, n)


@dataclass(frozen=True)
class Unknowns:
    """Multipliers (n), amplitudes (c) and the pulls of the kinks (c, n)."""

    multipliers: np.ndarray
    amplitudes: np.ndarray
    pulls: np.ndarray


def polish(
    weights: Weights, region: Region, r: np.ndarray, y: np.ndarray, smallest: float, dead: np.ndarray
) -> Point | None:
    """The KKT point next to a late state with pulls r and the smallest margin `smallest`; None if there is
    none.

    It is a zero of the equations; whether signs, slopes and multipliers are right is for the certificate to
    say. `dead` samples have no margin, and hold neurons at their kinks all the same.
    """
    guess = r / np.abs(r[~dead]).sum() * ((weights.w**2).sum() + (weights.a**2).sum()) / (2 * smallest)
    v = region.pulls(guess) @ region.x
    clusters = _clusters(weights, region, v)
    grow = np.array([(_growing(weights, j, v[j[0]]) ** 2).sum() for j in clusters.members])
    clusters = _some(clusters, np.flatnonzero(grow > 0))
    if not clusters.members:
        return None
    multipliers = y * guess
    support = ~dead & (multipliers > 1e-6 * multipliers[~dead].max())
    amplitudes = grow[grow > 0] / smallest
    pulls = np.array([region.pulls(guess)[j[0]] for j in clusters.members]) * clusters.held
    start = Unknowns(np.where(support | dead, multipliers, 0.0), amplitudes, pulls)
    for _ in range(_EXCHANGES):
        if not len(clusters.members) or not support.any():
            return None
        found = _newton(start, clusters, support, region, y)
        if found is None:
            return None
        small = support & (found.multipliers < 0)
        margins = y * _outputs(found, clusters, region, y)
        lacking = ~support & ~dead & (margins < 1 - 1e-9)
        if small.any():
            support = support & (found.multipliers > found.multipliers[support].min())
        elif (found.amplitudes < 0).any():
            keep = np.flatnonzero(found.amplitudes > found.amplitudes.min())
            clusters = _some(clusters, keep)
            start = Unknowns(start.multipliers, start.amplitudes[keep], start.pulls[keep])
        elif lacking.any():
            support = support | lacking
        else:
            return _point(found, clusters, weights, region, y, dead)
        start = Unknowns(np.where(support | dead, start.multipliers, 0.0), start.amplitudes, start.pulls)
    return None


def _clusters(weights: Weights, region: Region, v: np.ndarray) -> Clusters:
    lengths = np.linalg.norm(v, axis=1)
    near = grouped(weights, region, np.flatnonzero((np.abs(lengths - 1) < _LIVE) & (weights.a != 0)))
    total = (weights.a**2).sum()
    return _some(
        near,
        np.array(
            [
                c
                for c, group in enumerate(near.members)
                if (weights.a[group] ** 2).sum() > _SHARE * total or abs(lengths[group[0]] - 1) < _STEADY
            ],
            dtype=int,
        ),
    )


def grouped(weights: Weights, region: Region, neurons: np.ndarray) -> Clusters:
    """These neurons by sign and pattern; in a linear network by pattern alone."""
    groups: dict[bytes, list[int]] = {}
    for j in neurons:
        key = region.slopes[j].tobytes() + region.held[j].tobytes()
        if region.slope < 1:
            key += np.sign(weights.a[j]).tobytes()
        groups.setdefault(key, []).append(int(j))
    members = [np.array(group) for group in groups.values()]
    first = np.array([group[0] for group in members], dtype=int)
    return Clusters(members, region.slopes[first], region.held[first])


def _some(clusters: Clusters, keep: np.ndarray) -> Clusters:
    return Clusters([clusters.members[c] for c in keep], clusters.slopes[keep], clusters.held[keep])


def _growing(weights: Weights, members: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What decides the shares of a cluster: with one v from now on a + v.w grows, and a - v.w decays."""
    return np.asarray((weights.a[members] + weights.w[members] @ v / np.linalg.norm(v)) / 2)


def directions_of(unknowns: Unknowns, clusters: Clusters, region: Region, y: np.ndarray) -> np.ndarray:
    """v (c, k)."""
    return (clusters.slopes * (unknowns.multipliers * y) + unknowns.pulls) @ region.x


def _outputs(unknowns: Unknowns, clusters: Clusters, region: Region, y: np.ndarray) -> np.ndarray:
    z = directions_of(unknowns, clusters, region, y) @ region.x.T
    return unknowns.amplitudes @ (clusters.slopes * z)


def _newton(
    start: Unknowns, clusters: Clusters, support: np.ndarray, region: Region, y: np.ndarray
) -> Unknowns | None:
    """Newton's method, with the shortest step where the equations are dependent."""
    now, last = start, np.inf
    for _ in range(_NEWTON):
        with np.errstate(all="ignore"):  # it may diverge
            equations, jacobian = equations_at(now, clusters, support, region, y)
        size = float(np.abs(equations).max())
        if not size <= _DIVERGED or not np.isfinite(jacobian).all():
            return None
        if size < 1e-15 or (size < 1e-11 and size > 0.5 * last):
            return now
        last = size
        now = moved(
            now, newton_step(equations, jacobian, sizes_of(now, clusters, support)), clusters, support
        )
    return now if last < 1e-11 else None


def newton_step(equations: np.ndarray, jacobian: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The step for unknowns of these sizes; the shortest, relative to them, where equations are dependent."""
    scaled = jacobian * sizes
    rows = np.maximum(np.linalg.norm(scaled, axis=1), np.finfo(float).tiny)
    found = lstsq(scaled / rows[:, None], -equations / rows, cond=1e-12, lapack_driver="gelsy")
    return np.asarray(sizes * found[0])


def sizes_of(now: Unknowns, clusters: Clusters, support: np.ndarray) -> np.ndarray:
    """How large the unknowns are, each with others of its kind: of badly scaled inputs they differ widely."""
    kinds = np.abs(now.multipliers[support]), np.abs(now.amplitudes), np.abs(now.pulls[clusters.held])
    most = float(max(kind.max(initial=0.0) for kind in kinds[::2]))
    floors = _SMALL * most, _SMALL * kinds[1].max(), _SMALL * most
    return np.concatenate([np.maximum(kind, floor) for kind, floor in zip(kinds, floors, strict=True)])


def equations_at(
    now: Unknowns, clusters: Clusters, support: np.ndarray, region: Region, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The margins of the support less 1, (|v|^2 - 1)/2 of the clusters, v.x_s/|x_s| at kinks; and their
    derivatives by the multipliers of the support, the amplitudes and the pulls of the kinks.
    """
    gram, p = region.gram, clusters.slopes
    s, (kc, ks) = np.flatnonzero(support), np.nonzero(clusters.held)
    v = directions_of(now, clusters, region, y)
    z = v @ region.x.T
    lengths = region.lengths[ks]
    equations = np.concatenate(
        [(y * (now.amplitudes @ (p * z)) - 1)[s], ((v**2).sum(axis=1) - 1) / 2, z[kc, ks] / lengths]
    )
    weighted = p * now.amplitudes[:, None]
    signed = p * y  # dv_c/dlambda_i = signed x_i
    top = [
        y[s, None] * gram[np.ix_(s, s)] * (weighted[:, s].T @ signed[:, s]),
        (y * p * z)[:, s].T,
        y[s, None] * weighted[kc][:, s].T * gram[np.ix_(s, ks)],
    ]
    middle = [
        (signed * z)[:, s],
        np.zeros((len(p), len(p))),
        np.where(np.arange(len(p))[:, None] == kc, z[kc, ks], 0.0),
    ]
    bottom = [
        signed[kc][:, s] * gram[np.ix_(ks, s)] / lengths[:, None],
        np.zeros((len(kc), len(p))),
        np.where(kc[:, None] == kc, gram[np.ix_(ks, ks)], 0.0) / lengths[:, None],
    ]
    return equations, np.block([top, middle, bottom])


def moved(now: Unknowns, step: np.ndarray, clusters: Clusters, support: np.ndarray) -> Unknowns:
    """The unknowns after a step of Newton's method."""
    s, held = int(support.sum()), clusters.held
    amplitudes = now.amplitudes + step[s : s + len(held)]
    multipliers, pulls = now.multipliers.copy(), now.pulls.copy()
    multipliers[support] += step[:s]
    pulls[held] += step[s + len(held) :]
    return Unknowns(multipliers, amplitudes, pulls)


def _point(
    found: Unknowns, clusters: Clusters, weights: Weights, region: Region, y: np.ndarray, dead: np.ndarray
) -> Point | None:
    """Amplitudes back to neurons, in the proportions to which the late state leads; all others are zero.

    None if a cluster has nothing that grows. The multiplier of a dead sample is the most that it has to hold.
    """
    most = np.abs(found.pulls).max(axis=0)
    found = Unknowns(np.where(dead, most, found.multipliers), found.amplitudes, found.pulls)
    w, a, slopes = np.zeros_like(weights.w), np.zeros_like(weights.a), region.slopes.copy()
    v = directions_of(found, clusters, region, y)
    for c, members in enumerate(clusters.members):
        share = _growing(weights, members, v[c])
        if not share.any():
            return None
        a[members] = share * np.sqrt(found.amplitudes[c] / (share**2).sum())
        w[members] = a[members, None] * v[c]
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = clusters.held[c]
            at_kinks = (found.pulls[c] / (y * found.multipliers))[kinks]
        # A sample that is no support vector holds nothing: such a slope is out of bounds, and told so.
        at_kinks = np.nan_to_num(at_kinks, nan=region.slope, posinf=2.0, neginf=-1.0)
        slopes[np.ix_(members, np.flatnonzero(kinks))] = at_kinks
    slopes[region.held & (a == 0)[:, None]] = region.slope  # a neuron that is zero may take any slope
    return Point(w, a, found.multipliers, slopes)
