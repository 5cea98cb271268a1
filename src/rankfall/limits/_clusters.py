r"""The KKT point next to a late state of a flow with both layers trained, by Newton's method.

At a KKT point $w_j = a_j v_j$ with $v_j = \sum_i \lambda_i y_i P_{ji} x_i$, and $|v_j| = 1$ for every neuron
that is not zero. Neurons of one sign and one pattern have one v: a cluster c with $A_c = \sum_j a_j^2$. Then
the unknowns $\lambda$ (on the support), A and the pulls u of the kinks solve as many equations:

    y_i \sum_c A_c P_{ci} v_c.x_i = 1,     |v_c| = 1,     v_c.x_s = 0  for every kink (c, s).
"""

from dataclasses import dataclass

import numpy as np

from rankfall.dynamics.exact import Region, Weights
from rankfall.limits._kkt import Point

_NEWTON = 40
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


def polish(weights: Weights, region: Region, r: np.ndarray, y: np.ndarray, smallest: float) -> Point | None:
    """The KKT point next to a late state with pulls r and the smallest margin `smallest`; None if there is
    none.

    It is a zero of the equations; whether signs, slopes and multipliers are right is for the certificate to
    say.
    """
    guess = r / np.abs(r).sum() * ((weights.w**2).sum() + (weights.a**2).sum()) / (2 * smallest)
    v = region.pulls(guess) @ region.x
    clusters = _clusters(weights, region, v)
    grow = np.array([(_growing(weights, j, v[j[0]]) ** 2).sum() for j in clusters.members])
    clusters = _some(clusters, np.flatnonzero(grow > 0))
    if not clusters.members:
        return None
    multipliers = y * guess
    support = multipliers > 1e-6 * multipliers.max()
    amplitudes = grow[grow > 0] / smallest
    pulls = np.array([region.pulls(guess)[j[0]] for j in clusters.members]) * clusters.held
    start = Unknowns(np.where(support, multipliers, 0.0), amplitudes, pulls)
    for _ in range(_EXCHANGES):
        if not len(clusters.members) or not support.any():
            return None
        found = _newton(start, clusters, support, region, y)
        if found is None:
            return None
        small = support & (found.multipliers < 0)
        margins = y * _outputs(found, clusters, region, y)
        lacking = ~support & (margins < 1 - 1e-9)
        if small.any():
            support = support & (found.multipliers > found.multipliers.min())
        elif (found.amplitudes < 0).any():
            keep = np.flatnonzero(found.amplitudes > found.amplitudes.min())
            clusters = _some(clusters, keep)
            start = Unknowns(start.multipliers, start.amplitudes[keep], start.pulls[keep])
        elif lacking.any():
            support = support | lacking
        else:
            return _point(found, clusters, weights, region, y)
        start = Unknowns(np.where(support, start.multipliers, 0.0), start.amplitudes, start.pulls)
    return None


def _clusters(weights: Weights, region: Region, v: np.ndarray) -> Clusters:
    lengths = np.linalg.norm(v, axis=1)
    groups: dict[bytes, list[int]] = {}
    for j in np.flatnonzero((np.abs(lengths - 1) < _LIVE) & (weights.a != 0)):
        key = region.slopes[j].tobytes() + region.held[j].tobytes()
        if region.slope < 1:
            key += np.sign(weights.a[j]).tobytes()
        groups.setdefault(key, []).append(int(j))
    total = (weights.a**2).sum()
    members = [
        np.array(group)
        for group in groups.values()
        if (weights.a[group] ** 2).sum() > _SHARE * total or abs(lengths[group[0]] - 1) < _STEADY
    ]
    first = np.array([group[0] for group in members], dtype=int)
    return Clusters(members, region.slopes[first], region.held[first])


def _some(clusters: Clusters, keep: np.ndarray) -> Clusters:
    return Clusters([clusters.members[c] for c in keep], clusters.slopes[keep], clusters.held[keep])


def _growing(weights: Weights, members: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What decides the shares of a cluster: with one v from now on a + v.w grows, and a - v.w decays."""
    return np.asarray((weights.a[members] + weights.w[members] @ v / np.linalg.norm(v)) / 2)


def _directions(unknowns: Unknowns, clusters: Clusters, region: Region, y: np.ndarray) -> np.ndarray:
    return (clusters.slopes * (unknowns.multipliers * y) + unknowns.pulls) @ region.x


def _outputs(unknowns: Unknowns, clusters: Clusters, region: Region, y: np.ndarray) -> np.ndarray:
    z = _directions(unknowns, clusters, region, y) @ region.x.T
    return unknowns.amplitudes @ (clusters.slopes * z)


def _newton(
    start: Unknowns, clusters: Clusters, support: np.ndarray, region: Region, y: np.ndarray
) -> Unknowns | None:
    """Newton's method, with the shortest step where the equations are dependent."""
    gram, p = region.gram, clusters.slopes
    s, (kc, ks) = np.flatnonzero(support), np.nonzero(clusters.held)
    now = start
    last = np.inf
    for _ in range(_NEWTON):
        v = _directions(now, clusters, region, y)
        z = v @ region.x.T
        equations = np.concatenate(
            [(y * (now.amplitudes @ (p * z)) - 1)[s], ((v**2).sum(axis=1) - 1) / 2, z[kc, ks]]
        )
        size = float(np.abs(equations).max())
        if not np.isfinite(size) or size > 1e6:
            return None
        if size < 1e-15 or (size < 1e-11 and size > 0.5 * last):
            return now
        last = size
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
            signed[kc][:, s] * gram[np.ix_(ks, s)],
            np.zeros((len(kc), len(p))),
            np.where(kc[:, None] == kc, gram[np.ix_(ks, ks)], 0.0),
        ]
        step = np.linalg.lstsq(np.block([top, middle, bottom]), -equations, rcond=1e-12)[0]
        multipliers, pulls = now.multipliers.copy(), now.pulls.copy()
        multipliers[s] += step[: len(s)]
        pulls[kc, ks] += step[len(s) + len(p) :]
        now = Unknowns(multipliers, now.amplitudes + step[len(s) : len(s) + len(p)], pulls)
    return now if last < 1e-11 else None


def _point(
    found: Unknowns, clusters: Clusters, weights: Weights, region: Region, y: np.ndarray
) -> Point | None:
    """Amplitudes back to neurons, in the proportions to which the late state leads; all others are zero.

    None if a cluster has nothing that grows.
    """
    w, a, slopes = np.zeros_like(weights.w), np.zeros_like(weights.a), region.slopes.copy()
    v = _directions(found, clusters, region, y)
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
