r"""Where a flow with fixed second layer comes to rest: a minimum of the loss of its cell, by Newton's method.

Friendly pairs ($a_j r_i > 0$ with the pull $r_i$) keep their sides, and then the loss is convex. In the
other pairs it has kinks, and its minimum may be at some: there $w_j \cdot x_i = 0$, and slopes $P_{ji}$ in
$[\alpha, 1]$ balance the pulls. Which these are is found as in a quadratic program: a pair that comes to its
kink is held, and let go to the side where its slope leaves $[\alpha, 1]$.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr

from rankfall.dynamics.exact import Pull, Walk

NEAR = 0.1  # the most that Newton's first step may gain, relative to the loss: the flow is near then
LARGEST = 20_000_000  # numbers in the gradients of all outputs, up to which they are formed
TURNS = 60  # steps of Newton's method, at most
STILL, ROUNDED = 1e-27, 1e-18  # what the last step gains, relative to the loss; or if that does not get less
NULL = 1e-12  # eigenvalues of the features below this share of the largest are zero
REGULAR = 1e-6  # the least pivot of a Cholesky factor of unit features that counts as regular
INSIDE = 1e-9  # by which a slope may be outside of its bounds
FITTED = 1e-7  # the share of the largest residual at which a sample counts as fitted
FREE = 1e-12  # the share of a kink's direction that is left when those of others are taken away


@dataclass(frozen=True, eq=False)
class RestPoint:
    """A minimum of the loss: the weights, and the sides and slopes of all pairs there, side 0 at a kink.

    `signs` are those of the pulls, 0 if the sample is fitted. `distance` is that of the state, and `room` how
    far friendly pairs are from their kinks, at the least.
    """

    w: np.ndarray
    side: np.ndarray
    slopes: np.ndarray
    outputs: np.ndarray
    pulls: np.ndarray
    signs: np.ndarray
    distance: float
    room: float


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons with equal slopes and kinks: off these (`free`, orthonormal columns) they move as one."""

    neurons: np.ndarray
    slopes: np.ndarray  # 0 at the kinks
    kinks: np.ndarray
    free: np.ndarray
    weight: float  # the sum of their squared output weights


@dataclass(frozen=True, eq=False)
class Place:
    """Weights and the sides (m, n) on which they count as being; those held are at their kinks."""

    w: np.ndarray
    side: np.ndarray
    held: np.ndarray


class Cell:
    """The loss of a cell, as a function of the first layer."""

    def __init__(self, walk: Walk, near: np.ndarray | None):
        region, weights = walk.region, walk.weights
        self.x, self.slope, self.lengths = region.x, region.slope, region.lengths
        self.a, self.c, self.pull = weights.a, float(weights.c), walk.pull
        z = weights.w @ self.x.T
        side = np.where(z > 0, 1, -1) if self.slope < 1 else np.ones(z.shape, dtype=int)
        held = region.side == 0
        if near is not None:
            held = held | near & (self.a[:, None] * np.sign(derivatives(self.pull, walk.outputs)[0]) < 0)
        held = held & (self.a != 0)[:, None] & (self.slope < 1)
        self.start = Place(weights.w, np.where(region.side == 0, side, region.side).astype(int), held)

    def slopes(self, place: Place) -> np.ndarray:
        """The slope of each pair; 0 if it is held."""
        return np.where(place.held, 0.0, np.where(place.side > 0, 1.0, self.slope))

    def outputs(self, place: Place) -> np.ndarray:
        """f on the samples, with what is held at its kink."""
        return np.asarray(self.a @ (self.slopes(place) * (place.w @ self.x.T)) + self.c)

    def signs(self, place: Place) -> np.ndarray:
        """The signs of the pulls; 0 for a sample that the square loss has fitted."""
        pulls = derivatives(self.pull, self.outputs(place))[0]
        small = 0.0 if self.pull.normalised else FITTED * np.abs(pulls).max()
        return np.where(np.abs(pulls) > small, np.sign(pulls), 0.0)

    def fitted(self, place: Place) -> bool:
        """Has the square loss gone to zero? Then the slopes at kinks are not known."""
        if self.pull.normalised:
            return False
        off = np.abs(self.outputs(place) - self.pull.y).max()
        return bool(off <= FITTED * np.abs(self.pull.y).max())

    def friendly(self, place: Place) -> np.ndarray:
        """The pairs that must not come to their kinks: the loss would not be convex there."""
        return (self.a[:, None] * self.signs(place) >= 0) & (self.a != 0)[:, None]

    def groups(self, place: Place) -> list[Group]:
        """The groups of neurons that move."""
        slopes = self.slopes(place)
        moving = np.flatnonzero((self.a != 0) & (slopes.any(axis=1) | place.held.any(axis=1)))
        keys = np.column_stack([slopes[moving], place.held[moving]])
        _, first, where = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        found = []
        for g, one in enumerate(moving[first]):
            neurons, kinks = moving[where.ravel() == g], np.flatnonzero(place.held[one])
            free = _orthogonal(self.x[kinks]) if len(kinks) else np.eye(self.x.shape[1])
            found.append(Group(neurons, slopes[one], kinks, free, float((self.a[neurons] ** 2).sum())))
        return found

    def on_kinks(self, place: Place, groups: list[Group]) -> Place:
        """The nearest weights at the kinks that are held."""
        w = place.w.copy()
        for group in groups:
            if len(group.kinks):
                w[group.neurons] = w[group.neurons] @ group.free @ group.free.T
        return replace(place, w=w)

    def newton(self, place: Place, groups: list[Group]) -> tuple[np.ndarray, float]:
        """The step of all weights, and what it gains in the quadratic model, relative to the loss."""
        pulls, bends, loss = derivatives(self.pull, self.outputs(place))
        features = self.features(groups)
        step = least(features, pulls, bends)
        return self.weights(groups, step), float(pulls @ (features @ step)) / max(loss, 1e-300)

    def features(self, groups: list[Group]) -> np.ndarray:
        """The gradients (n, p) of the outputs in orthonormal coordinates of the weights that may move."""
        blocks = [np.sqrt(each.weight) * ((each.slopes[:, None] * self.x) @ each.free) for each in groups]
        return np.hstack(blocks) if blocks else np.zeros((len(self.x), 0))

    def weights(self, groups: list[Group], step: np.ndarray) -> np.ndarray:
        """The first layer (m, k) that a vector in these coordinates is."""
        moved, at = np.zeros_like(self.start.w), 0
        for group in groups:
            part, at = step[at : at + group.free.shape[1]], at + group.free.shape[1]
            moved[group.neurons] = np.outer(self.a[group.neurons] / np.sqrt(group.weight), group.free @ part)
        return moved

    def balanced(self, place: Place, groups: list[Group]) -> np.ndarray:
        """The slopes of all pairs, those at kinks such that they cancel what the others pull across them."""
        pulls, slopes = derivatives(self.pull, self.outputs(place))[0], self.slopes(place)
        for group in (each for each in groups if len(each.kinks)):
            kinks = self.x[group.kinks]
            needed = np.linalg.lstsq(kinks.T, -(group.slopes * pulls) @ self.x, rcond=None)[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                slopes[np.ix_(group.neurons, group.kinks)] = needed / pulls[group.kinks]
        return slopes

    def ahead(self, place: Place) -> np.ndarray:
        """How far each pair is on its side of its kink; infinity where there is none, or nothing moves."""
        z = place.side * (place.w @ self.x.T) / np.maximum(self.lengths, 1e-300)
        still = (self.a == 0) | ~(self.slopes(place).any(axis=1) | place.held.any(axis=1))
        none = place.held | still[:, None] | (self.lengths == 0) | (self.slope == 1)
        return np.where(none, np.inf, z)


def rest_point(walk: Walk, near: np.ndarray | None = None) -> RestPoint | None:
    """The minimum of the loss next to the present state; None if the flow is not near one.

    `near` (m, n): pairs that may be at their kinks, where the flow was not followed exactly.
    """
    near_enough = NEAR if walk.pull.normalised else np.inf  # Newton's step is exact for the square loss
    if walk.weights.w.size * len(walk.region.x) > LARGEST or _gain_by_scaling(walk) > near_enough:
        return None
    cell = Cell(walk, near)
    place, gains = cell.start, np.inf
    for turn in range(TURNS):
        last, groups = gains, cell.groups(place)
        place = cell.on_kinks(place, groups)
        with np.errstate(all="ignore"):
            step, gains = cell.newton(place, groups)
        if not gains <= near_enough or not np.isfinite(step).all():
            return None
        place = replace(place, w=place.w + step)
        if cell.fitted(place):
            return None
        ahead, friendly = cell.ahead(place), cell.friendly(place)
        if (friendly & (ahead <= 0)).any() or (friendly & place.held).any():
            return None
        slopes = cell.balanced(place, groups)
        changed = _switched(cell, place, ahead, slopes, turn > TURNS // 2)
        if changed is None:
            if gains <= STILL or last / 4 < gains <= ROUNDED:
                return _found(cell, place, slopes)
        else:
            place, gains = changed, np.inf
    return None


def _gain_by_scaling(walk: Walk) -> float:
    """What Newton's step gains at least, relative to the loss: what it gains along the weights themselves."""
    f = walk.outputs - float(walk.weights.c)
    pulls, bends, loss = derivatives(walk.pull, walk.outputs)
    with np.errstate(all="ignore"):
        gain = np.square(pulls @ f) / (np.asarray(bends @ f**2) * loss)
    return float(gain) if np.isfinite(gain) else 0.0


def _switched(cell: Cell, place: Place, ahead: np.ndarray, slopes: np.ndarray, one: bool) -> Place | None:
    """Hold the pairs that have crossed their kinks, and let those go whose slopes are out of bounds.

    None if there are none; only the worst if `one`, for else it may go round in circles.
    """
    sizes = np.maximum(np.linalg.norm(place.w, axis=1), 1e-300)[:, None]
    crossed = np.where(ahead < -INSIDE * 1e-6 * sizes, -ahead / sizes, 0.0)
    over = np.where(place.held, np.maximum(slopes - 1, cell.slope - slopes), 0.0)
    wrong = np.where(over > INSIDE, over, crossed)
    if not (wrong > 0).any():
        return None
    chosen = wrong == wrong.max() if one else wrong > 0
    side = np.where(chosen & place.held, np.where(slopes > 1, 1, -1), place.side)
    return Place(place.w, side, place.held ^ chosen)


def _found(cell: Cell, place: Place, slopes: np.ndarray) -> RestPoint:
    side = np.where(place.held, 0, place.side)
    ahead = np.where(cell.friendly(place), cell.ahead(place), np.inf)
    outputs = cell.outputs(place)
    return RestPoint(
        w=place.w,
        side=side,
        slopes=np.clip(slopes, cell.slope, 1.0),
        outputs=outputs,
        pulls=derivatives(cell.pull, outputs)[0],
        signs=cell.signs(place),
        distance=float(np.linalg.norm(place.w - cell.start.w)),
        room=float(ahead.min(initial=np.inf)),
    )


def derivatives(pull: Pull, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The pulls -dL/df of the samples, the second derivatives, and the loss L, as a sum over samples."""
    often, y = pull.often, pull.y
    if not pull.normalised:
        return often * (y - f), often * np.ones_like(f), float(often @ (f - y) ** 2) / 2
    q, of = y * f, pull.loss.of_margin
    with np.errstate(over="ignore"):
        size = often * np.exp(of.log_pull(q))
        return y * size, size * of.steepness(q), float(often @ np.exp(of.log(q)))


def least(features: np.ndarray, pulls: np.ndarray, bends: np.ndarray) -> np.ndarray:
    """The shortest u with the least u' F' diag(bends) F u / 2 - pulls' F u, in the smaller of two spaces."""
    root = np.sqrt(np.maximum(bends, np.finfo(float).tiny))
    rows = root[:, None] * features
    if not np.isfinite(rows).all():  # a step that was too long
        return np.full(rows.shape[1], np.nan)
    if rows.shape[1] <= rows.shape[0]:
        squares, right = rows.T @ rows, features.T @ pulls
        try:
            scale = np.sqrt(np.maximum(np.diag(squares), 1e-300))
            scaled = squares / np.outer(scale, scale)
            factor = cho_factor(scaled)
            if np.abs(factor[0].diagonal()).min(initial=1.0) > REGULAR:
                return np.asarray(cho_solve(factor, right / scale) / scale)
        except LinAlgError:
            pass
        values, vectors = np.linalg.eigh(squares)
        kept = values > NULL * values.max(initial=0.0)
        return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept]))
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > NULL * values[-1]
    inner = vectors[:, kept] @ ((vectors[:, kept].T @ (pulls / root)) / values[kept])
    return np.asarray(rows.T @ inner)


def _orthogonal(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what is orthogonal to some rows, in columns."""
    q, r, _ = qr(rows.T, mode="full", pivoting=True)
    size = np.abs(np.diag(r))
    return np.asarray(q[:, int((size > FREE * size.max()).sum()) :])


def fitted_point(walk: Walk, w: np.ndarray) -> RestPoint:
    """A first layer that fits all samples, by the square loss: there no pair may come to its kink."""
    cell = Cell(walk, None)
    side = np.where(w @ cell.x.T > 0, 1, -1) if cell.slope < 1 else cell.start.side
    place = Place(w, side, np.zeros_like(cell.start.held))
    found = _found(cell, place, cell.slopes(place))
    room = float(np.where((cell.a != 0)[:, None], cell.ahead(place), np.inf).min(initial=np.inf))
    return replace(found, signs=np.zeros(len(cell.x)), room=room)
