r"""Where a flow with fixed second layer goes if it comes to rest in part: some margins grow without bound.

In a region the outputs are linear in the first layer, $f_i = \langle h_i, W \rangle$. The samples fall into
two parts (Ji and Telgarsky 2019, for logistic regression). Of those that *rest* a positive combination of the
$y_i h_i$ vanishes, so that no direction helps one of them and harms none; their part of the loss has a
minimum, and its pulls are that combination. The others *grow*: some U that is orthogonal to the $h_i$ of
those that rest has $y_i \langle h_i, U \rangle \ge 1$ on them. The loss tends to the minimum of the first
part, and the direction of W to that of the shortest U.

Both parts are verified: the minimum by Newton's method, and U by its KKT conditions. That the flow stays in
its region is judged by distances, as in `_asymptote`, and not proved.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from rankfall.data import hard_margin_of_rows
from rankfall.dynamics.exact import Walk
from rankfall.limits._asymptote import shares_on_line
from rankfall.limits._rest import LARGEST, Cell, Group, Place, derivatives, least

GROWN = 10.0  # a margin from which on a sample may be one whose margin grows
FAINT = 1e-5  # the share of all pulls that the samples that grow may have left
TURNS, STILL, ROUNDED = 60, 1e-27, 1e-16  # of Newton's method, and what its last step gains
BALANCED = 5e-15  # the sum of the pulls of samples at rest, relative to its terms,
NEAR = 1e-3  # and how far they may be from rest, relative to the weights: else they may yet be separated
EXACT = 1e-8  # relative errors of what has to vanish
NULL = 1e-10  # singular values below this share of the largest are zero


@dataclass(frozen=True, eq=False)
class Partly:
    """The end: the samples that rest, with outputs and pulls there, and U for the others.

    `w` is U, with margins of at least 1 on the samples that grow, and `multipliers` (n) are zero on others.
    `distance` is that of the state to the line along U, and `room` how far it may be.
    """

    rests: np.ndarray
    outputs: np.ndarray
    w: np.ndarray
    multipliers: np.ndarray
    side: np.ndarray
    slopes: np.ndarray
    loss: float
    residuals: dict[str, float]
    distance: float
    room: float


@dataclass(frozen=True)
class Turning:
    """Some samples rest and others grow, but `pairs` of neuron and sample still cross their kinks."""

    rests: np.ndarray
    pairs: int


@dataclass(frozen=True, eq=False)
class _Direction:
    """A direction U: the sides and kinks along it, and the pulls of all samples that add up to it."""

    place: Place
    groups: list[Group]
    features: np.ndarray
    basis: np.ndarray  # of the features of the samples that rest
    u: np.ndarray
    pulls: np.ndarray
    slopes: np.ndarray
    over: np.ndarray  # how far the slopes of the pairs held are out of bounds


def partly(walk: Walk) -> Partly | Turning | None:
    """The end of the present region if the flow comes to rest in part, and is near enough to it; or None."""
    with np.errstate(all="ignore"):  # numbers that overflow are no end
        return _partly(walk)


def _partly(walk: Walk) -> Partly | Turning | None:
    q = walk.pull.y * walk.outputs
    if walk.weights.w.size * len(q) > LARGEST or q.max() < GROWN or q.min() > 0:
        return None
    cell = Cell(walk, None)
    groups = cell.groups(cell.start)
    rests = _resting(cell.pull.y[:, None] * cell.features(groups))
    pulls = np.abs(derivatives(cell.pull, walk.outputs)[0])
    if rests.all() or not rests.any() or not pulls[~rests].sum() <= FAINT * pulls.sum():
        return None
    place = _minimum(cell, cell.on_kinks(cell.start, groups), groups, rests)
    return None if place is None else _along(cell, place, rests)


def _resting(rows: np.ndarray) -> np.ndarray:
    """The samples that no direction helps without harming another: y_i <h_i, U> = 0 whenever all are >= 0."""
    n, p = rows.shape
    sizes = np.linalg.norm(rows, axis=1)
    unit = rows / np.where(sizes > 0, sizes, 1.0)[:, None]
    if p > n:
        unit = np.asarray(np.linalg.qr(unit.T, mode="r")).T
    goal = np.concatenate([np.zeros(unit.shape[1]), -np.ones(n)])
    bounds = [(None, None)] * unit.shape[1] + [(0.0, 1.0)] * n
    found = linprog(goal, np.hstack([-unit, np.eye(n)]), np.zeros(n), bounds=bounds, method="highs")
    return np.ones(n, dtype=bool) if found.x is None else np.asarray(found.x[-n:] < 0.5)


def _minimum(cell: Cell, place: Place, groups: list[Group], rests: np.ndarray) -> Place | None:
    """The minimum of the loss of the samples that rest, by Newton's method within the region."""
    features, gains, w = cell.features(groups)[rests], np.inf, place.w
    for _ in range(TURNS):
        place, last = Place(w, place.side, place.held), gains
        pulls, bends, loss = derivatives(cell.pull, cell.outputs(place))
        step = least(features, pulls[rests], bends[rests])
        gains = float(pulls[rests] @ (features @ step)) / max(loss, 1e-300)
        if not np.isfinite(step).all():
            return None
        terms = np.abs(pulls[rests]) @ np.linalg.norm(features, axis=1)
        balanced = np.linalg.norm(pulls[rests] @ features) <= BALANCED * terms
        if balanced and (gains <= STILL or last / 4 < gains <= ROUNDED):
            near = np.linalg.norm(w - cell.start.w) <= NEAR * np.linalg.norm(w)
            return place if near and (cell.ahead(place) > 0).all() else None
        w = place.w + cell.weights(groups, step)
    return None


def _along(cell: Cell, place: Place, rests: np.ndarray) -> Partly | Turning | None:
    """The end, from the place where the samples that rest are at the minimum; None if it is not the end."""
    found = _direction(cell, place, rests)
    if not isinstance(found, _Direction):
        return Turning(rests, found) if found else None
    y = cell.pull.y
    multipliers = np.where(rests, 0.0, y * found.pulls)
    signed = y[:, None] * found.features
    margins, size = signed @ found.u, np.linalg.norm(found.u)
    residuals = {
        "stationarity": float(np.linalg.norm(found.pulls @ found.features - found.u) / size),
        "feasibility": max(0.0, 1 - float(margins[~rests].min())),
        "rest": float(np.abs(margins[rests]).max()),
        "complementarity": float(multipliers @ np.abs(margins - 1) / multipliers.sum()),
    }
    gap = _gap(cell, place, found, multipliers)
    if gap is None:
        return None
    w, outputs = cell.weights(found.groups, found.u), cell.outputs(place)
    return Partly(
        rests=rests,
        outputs=outputs,
        w=w,
        multipliers=multipliers,
        side=np.where(found.place.held, 0, found.place.side),
        slopes=np.clip(found.slopes, cell.slope, 1.0),
        loss=derivatives(cell.pull, np.where(rests, outputs, np.inf * y))[2],
        residuals=residuals,
        distance=float(np.linalg.norm(place.w - cell.start.w)) + gap,
        room=_room(cell, place, w),
    )


def _direction(cell: Cell, place: Place, rests: np.ndarray) -> _Direction | int:
    """U with its kinks: unfriendly pairs are held, and let go, as in `_rest`.

    Where friendly pairs cross their kinks on the way: how many. 0 if there is no U for another reason.
    """
    pulls = np.where(rests, derivatives(cell.pull, cell.outputs(place))[0], 0.0)
    unfriendly = cell.a[:, None] * cell.pull.y < 0
    for turn in range(TURNS):
        found = _shortest(cell, place, rests, pulls)
        if found is None:
            return 0
        speeds = _speeds(cell, place, cell.weights(found.groups, found.u))
        wrong = np.where(place.held, found.over, -speeds if cell.slope < 1 else 0.0)
        if not (wrong > EXACT).any():
            return found
        if (wrong > EXACT)[~unfriendly].any():
            return int((wrong > EXACT)[~unfriendly].sum())
        chosen = wrong == wrong.max() if turn > TURNS // 2 else wrong > EXACT
        side = np.where(chosen & place.held, np.where(found.slopes >= 1, 1, -1), place.side)
        place = Place(place.w, side, place.held ^ chosen)
    return 0


def _shortest(cell: Cell, place: Place, rests: np.ndarray, pulls: np.ndarray) -> _Direction | None:
    """The shortest U on these sides and kinks that leaves the samples that rest as they are."""
    groups, y = cell.groups(place), cell.pull.y
    features = cell.features(groups)
    basis = _basis(features[rests])
    rows = (y[:, None] * features)[~rests]
    rows = rows - (rows @ basis) @ basis.T
    try:
        solution = hard_margin_of_rows(rows)
    except ValueError:  # rounding decides which samples support the margin
        return None
    if solution is None:
        return None
    u, combined = rows.T @ solution.multipliers, np.zeros(len(y))
    combined[~rests] = y[~rests] * solution.multipliers
    bends = derivatives(cell.pull, cell.outputs(place))[1][rests]
    combined[rests] = _answers(features[rests], bends, u - combined @ features)
    slopes, over = _slopes(cell, place, groups, rests, pulls, combined, u)
    return _Direction(place, groups, features, basis, u, combined, slopes, over)


def _basis(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the rows."""
    _, size, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(right[size > NULL * size.max(initial=1e-300)].T)


def _answers(features: np.ndarray, bends: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """The pulls with which the samples that rest answer, so that together they pull as is `needed`.

    Their weights move by the delta with F' D F delta = needed, where D are the second derivatives, and so
    their pulls change by D F delta.
    """
    root = np.sqrt(bends)
    return np.asarray(root * np.linalg.lstsq((root[:, None] * features).T, needed, rcond=NULL)[0])


def _slopes(
    cell: Cell,
    place: Place,
    groups: list[Group],
    rests: np.ndarray,
    pulls: np.ndarray,
    combined: np.ndarray,
    u: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The slopes of all pairs, and how far those of the pairs held are out of bounds.

    The slopes of samples that rest cancel their pulls at the minimum; one at a bound may only be moved away
    from it. Those of samples that grow cancel the pulls that add up to U, and need no pull at the minimum.
    """
    slopes, over, whole = cell.slopes(place), np.zeros(place.held.shape), cell.weights(groups, u)
    most = np.abs(pulls).max()
    for group in (each for each in groups if len(each.kinks)):
        kinks, neuron = group.kinks, group.neurons[0]
        at_rest = np.linalg.lstsq(cell.x[kinks].T, -(group.slopes * pulls) @ cell.x, rcond=None)[0]
        way = whole[neuron] / cell.a[neuron]
        along = np.linalg.lstsq(cell.x[kinks].T, way - (group.slopes * combined) @ cell.x, rcond=None)[0]
        own = np.nan_to_num(np.where(rests[kinks], at_rest / pulls[kinks], along / combined[kinks]))
        outside = np.maximum(own - 1, cell.slope - own)
        back = np.where(own >= 1 - EXACT, 1.0, np.where(own <= cell.slope + EXACT, -1.0, 0.0))
        size = max(float(np.linalg.norm(way)), 1e-300)
        pushed = back * along * np.sign(pulls[kinks]) * cell.lengths[kinks] / size
        stray = np.where(np.abs(at_rest) > EXACT * most, np.inf, 0.0)
        here = np.ix_(group.neurons, kinks)
        over[here] = np.where(rests[kinks], np.maximum(outside, pushed), np.maximum(outside, stray))
        slopes[here] = own
    return slopes, over


def _speeds(cell: Cell, place: Place, w: np.ndarray) -> np.ndarray:
    """How fast pairs move away from their kinks along U, relative to the fastest that is possible."""
    scale = np.linalg.norm(w, axis=1).max() * np.where(cell.lengths > 0, cell.lengths, 1.0)
    return np.asarray(place.side * (w @ cell.x.T) / scale)


def _room(cell: Cell, place: Place, w: np.ndarray) -> float:
    """How far the nearest pair is from its kink, of those that are friendly or that U does not move."""
    friendly = cell.a[:, None] * cell.pull.y > 0
    watched = friendly | (_speeds(cell, place, w) <= EXACT)
    ahead = cell.ahead(place) / np.where(cell.lengths > 0, cell.lengths, 1.0)
    return float(np.where(watched, ahead, np.inf).min(initial=np.inf))


def _gap(cell: Cell, place: Place, found: _Direction, multipliers: np.ndarray) -> float | None:
    """How far the state is from the line on which the margins of the support vectors are T - log share."""
    tight, y = multipliers > 0, cell.pull.y
    q = (y * cell.outputs(place))[tight] - np.log(cell.pull.often[tight])
    rows = (y[:, None] * found.features)[tight]
    rows = rows - (rows @ found.basis) @ found.basis.T
    gap = shares_on_line(rows, multipliers[tight] / multipliers.sum(), q)
    if gap is None:
        return None
    shift, along = gap @ rows, found.u
    return float(np.linalg.norm(shift - (shift @ along) / (along @ along) * along))
