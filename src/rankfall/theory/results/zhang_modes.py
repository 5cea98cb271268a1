r"""A two-layer ReLU network on a few points splits into linear networks, one for each point.

Let the points of each label lie on a line through 0, at most one on each side, and let the two lines be
orthogonal (or one): two orthogonal points, or XOR. From small weights every neuron ends with one point, and
for the summed loss

$|f(x_k)| = |y_k| / (1 + (|y_k| / (u_k^2 |x_k|) - 1)\,e^{-2 |y_k| |x_k| t})$,

as in a linear network with one sample. $u_k^2 = \sum_j p_{jk}^2$ adds up the growing parts of its neurons. A
neuron that only sees $x_k$ has $p_{jk} = (\pm a_j + w_j\cdot\bar x_k)/2$ at the start; another point that it
sees at first changes that, until the neuron lets go of it (`modes`).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.loss import exponential, square
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import integration
from rankfall.trajectory import Trajectory

FEW_POINTS = Condition("few-points", "four points at most, and none is 0")
ON_LINES = Condition("on-lines", "each label on a line, orthogonal to the other: |cosine|")
SMALL = Condition("small-start", "small start: |weights|^2 |x| / |y|")
LEARNED = Condition("learned", "neurons that will learn a point: the fewest")

EVENTS = 20  # how often a neuron may gain or lose a point before it settles: more than it ever does


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Where the points decouple, and none is left without a neuron."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.relu(s)
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    if not s.both_trained or s.network.has_bias:
        return
    few = len(s.x) <= 4 and bool((s.norms > 0).all()) and bool(s.y.all())
    found = f"{len(s.x)} points" + ("" if s.norms.all() and s.y.all() else ", some x or y are 0")
    yield FEW_POINTS.fact(few, found, "1 to 4 points, x and y not 0")
    if not few:
        return
    yield ON_LINES.at_most(_off(s), 1e-10, reach=0.05)
    size = s.start_norm**2 * float((s.norms / np.abs(s.y.reshape(-1))).max())
    yield SMALL.at_most(size, 1e-2, reach=0.5)
    learners = (modes(s) > 0).sum(axis=0)
    yield LEARNED.at_least(int(learners.min()), 1)


def _off(s: Situation) -> float:
    """How far the cosines are from -1 within a label, and from 0 or -1 between the labels."""
    cosines = s.gram / np.outer(s.norms, s.norms)
    opposite, label = np.abs(cosines + 1), np.sign(s.y.reshape(-1))
    off = np.where(np.equal.outer(label, label), opposite, np.minimum(opposite, np.abs(cosines)))
    np.fill_diagonal(off, 0.0)
    return float(off.max())


def modes(s: Situation) -> np.ndarray:
    """The growing part p of each neuron in the point it ends with (m, n), traced back to the start.

    While the weights are small, each neuron moves by itself as if f were 0: a' = sum_k y_k w.x_k and
    w' = a sum_k y_k x_k over the points it sees. That is solved here in closed form from event to event.
    """
    y = s.y.reshape(-1)
    unit = s.x / s.norms[:, None]
    axes = [unit[0]]
    axes += [u for u in unit[1:] if abs(u @ axes[0]) < 0.5][:1]
    pulls, points = np.zeros((2, len(axes))), np.full((2, len(axes)), -1)
    for k, u in enumerate(unit):
        along = [float(u @ e) for e in axes]
        axis = int(np.argmax(np.abs(along)))
        side = int(along[axis] > 0)
        pulls[side, axis], points[side, axis] = np.sign(along[axis]) * y[k] * s.norms[k], k
    found = np.zeros((len(s.a), len(y)))
    for j, (a, z) in enumerate(zip(s.a, s.w @ np.transpose(axes), strict=True)):
        axis, side, p = settled(float(a), z, pulls)
        if p > 0:
            found[j, points[side, axis]] = p
    return found


def settled(a: float, z: np.ndarray, pulls: np.ndarray) -> tuple[int, int, float]:
    """The axis and the side (1 is positive) that a neuron ends on, and its growing part at time 0.

    `z` is w along the axes. `pulls` (side, axis) are the +- y |x| of the points there, 0 for none: what the
    neuron sees has a' = c.z and z' = a c with their c. The growing part is 0 if it ends with no point.
    """
    z, side, held, time = z.copy(), (z > 0).astype(int), z == 0, 0.0
    axes = np.arange(len(z))
    for _ in range(EVENTS):
        c = np.where(held, 0.0, pulls[side, axes])
        rate = float(np.linalg.norm(c))
        if rate == 0:
            return 0, 0, 0.0
        b = float(c @ z) / rate
        ends = [_reaches_zero(a, b, z[i], c[i] / rate) if c[i] else np.inf for i in axes]
        first = int(np.argmin(ends))
        growth = ends[first]
        if growth == np.inf:
            break
        sinh, cosh = (growth - 1 / growth) / 2, (growth + 1 / growth) / 2
        a, z = a * cosh + b * sinh, z + c / rate * (a * sinh + b * (cosh - 1))
        time += np.log(growth) / rate
        z[first], side[first] = 0.0, 1 - side[first]
        # On the other side there is no point, or one that pushes back: then it stays at the kink.
        held[first] = not a * pulls[side[first], first] * (2 * side[first] - 1) > 0
    axis = int(np.argmax(np.abs(c)))
    alone = np.count_nonzero(c) == 1
    return axis, int(side[axis]), (abs(a + b) / 2 * float(np.exp(-rate * time))) if alone else 0.0


def _reaches_zero(a: float, b: float, z: float, c: float) -> float:
    """The least E = e^(rate t) > 1 with z + c (a sinh + b (cosh - 1)) = 0: a quadratic equation in E."""
    roots = np.roots([c * (a + b) / 2, z - c * b, c * (b - a) / 2])
    later = [float(r.real) for r in roots if abs(r.imag) < 1e-12 and r.real > 1 + 1e-12]
    return min(later, default=np.inf)


def course(times: np.ndarray, y: np.ndarray, norms: np.ndarray, u2: np.ndarray) -> np.ndarray:
    """The outputs (t, n) of linear networks with one sample each, from u_k^2, on the summed square loss."""
    size = np.abs(y)
    late = np.exp(-2 * np.multiply.outer(times, size * norms))
    return np.asarray(y / (1 + (size / (u2 * norms) - 1) * late))


def predictions(s: Situation) -> Iterator[Prediction]:
    """The outputs and the loss along the run, and the weights at its end."""
    y, p = s.y.reshape(-1), modes(s)
    u2 = (p**2).sum(axis=0)
    speed = 1 / s.parts
    half = np.log(np.maximum(np.abs(y) / (u2 * s.norms) - 1, 1.0)) / (2 * speed * np.abs(y) * s.norms)

    def outputs(e: Evidence) -> np.ndarray:
        return course(speed * e.times, y, s.norms, u2)

    yield Prediction(
        "outputs",
        f"each point is learned by itself; half of it at the times {', '.join(f'{t:.4g}' for t in half)}",
        outputs,
        lambda e: e.series("outputs"),
        _allowed,
    )
    yield Prediction(
        "loss",
        "the loss is the sum of those of linear networks, each with one point (or their mean)",
        lambda e: speed * ((y - outputs(e)) ** 2).sum(axis=1) / 2,
        lambda e: e.series("loss"),
        _allowed,
    )
    shares = p / np.sqrt(u2) * np.sqrt(np.abs(y) / s.norms)
    yield Prediction(
        "first layer",
        f"every neuron ends along its point; the squared norms for each are "
        f"{', '.join(f'{v:.4g}' for v in np.abs(y) / s.norms)}",
        shares @ (s.x / s.norms[:, None]),
        lambda e: e.network.weights[0],
        _at_the_end,
    )


def _allowed(e: Evidence) -> Interval:
    s = e.situation
    size = s.start_norm**2 * float((s.norms / np.abs(s.y.reshape(-1))).max())
    why = "five times |weights|^2 |x| / |y| at the start, where f is not yet 0, and the errors of the steps"
    return at_most(5 * size + integration(e).high, why)


def _at_the_end(e: Evidence) -> Interval:
    s = e.situation
    zero = float(s.loss(np.zeros(len(s.y)), s.y))
    left = float(np.sqrt(e.series("loss")[-1] / zero))
    if left > 0.05:
        raise Unmeasurable(f"needs a later state: {left:.0%} of the labels is not learned; run longer")
    size = s.start_norm / float(np.sqrt((np.abs(s.y) / s.norms).sum()))
    return at_most(size + left, "the initial weights that do not grow, and what is left to learn")


def _runs(s: Situation) -> Trajectory:
    times = list(np.linspace(0, 14, 57))
    kept = ["weights", "loss"]
    return flow(
        s.network, s.data, s.loss, 14.0, rtol=1e-7, record=times, measures=kept, budget=5000, show=False
    )


def example() -> Example:
    """Two orthogonal points of different labels and norms."""
    network = Network.gaussian((2, 20, 1), slope=0.0, scale=1e-3, seed=0)
    return Example(Situation(network, sets.orthogonal_pair(), square.sum), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    n, x, y = s.network, s.data.x, s.data.y
    first, second = n.weights
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(20), None])),
        conditions.relu: replace(s, network=Network(n.weights, slope=0.5)),
        conditions.square_loss: replace(s, loss=exponential),
        conditions.gradient_flow: replace(s, step=10.0),
        FEW_POINTS: replace(s, data=Data(np.vstack([x, 0 * x]), np.tile(y, 2))),
        ON_LINES: replace(s, data=Data(x, np.ones(2))),
        SMALL: replace(s, network=Network([1e3 * first, 1e3 * second])),
        LEARNED: replace(s, network=Network([first, 1e-3 + np.abs(second)])),
    }


RESULTS = (
    Result(
        "independent_modes",
        "Two orthogonal points, or XOR: a ReLU network is several linear networks",
        ZHANG.at("Figure 4"),
        "From small weights, each of a few decoupled points is learned like the only sample of a linear "
        "network, and every neuron ends along one point.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
