r"""What a network without biases can express: two layers only a linear function and an even one.

$f(x) = c\, W_2 W_1 x + (1 - c)\, W_2 |W_1 x|$ with $c = (1+\alpha)/2$, for any weights of two layers. So the
odd part is linear; where inputs come with their mirror images and targets are odd, no weights have a smaller
loss than the best linear map. Three layers can be odd and not linear.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data, least_squares_floor
from rankfall.dynamics import flow
from rankfall.judge import at_most
from rankfall.limits import Limit
from rankfall.loss import MarginLoss, logistic, square
from rankfall.measure import loss as loss_measure
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result, Subject
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import ROUNDING
from rankfall.trajectory import Trajectory

TWO_LAYERS = Condition("two-layers", "two layers")
TWO_HIDDEN = Condition("two-hidden-layers", "two hidden (leaky) ReLU layers")
BELOW_FLOOR = Condition("below-floor", "loss at the start, relative to the floor of two layers")

NEWTON = 100  # steps to the least loss of linear maps; five to ten are usual
LINEAR = 1e-6  # the share of the targets' power below which a floor is none


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 1: any weights of two layers without biases."""
    depth, skips = s.network.depth, s.network.has_skips
    found = f"{depth} layers" + (" with skips" if skips else "")
    yield TWO_LAYERS.fact(depth == 2 and not skips, found, "2 layers")
    yield conditions.no_bias(s)


def predictions(s: Situation) -> Iterator[Prediction]:
    """Theorem 1 at all times; and what no run can reach where the data are symmetric."""
    c = float(s.network.mean_slope)
    yield Prediction(
        "linear plus even",
        f"f(x) = {c:.4g} W2 W1 x + {1 - c:.4g} W2 |W1 x|, and the loss is that of this sum at all times",
        _told_by_split,
        _recorded,
        ROUNDING,
    )
    least = floor(s)
    if least > 0:
        yield Prediction(
            "floor",
            f"no weights have a loss below {least:.4g}, that of the best linear map",
            least,
            _losses,
            at_most(1e-9, "a strict bound: nothing but rounding"),
            Relation.AT_LEAST,
        )


def floor(s: Situation) -> float:
    """The least loss that two layers without biases can have on symmetric data; 0 where none is known.

    An even part adds its square to the square loss. It adds to every convex loss of margins too: the margins
    of a mirror pair are m + e and m - e, and their mean loss is no less than that of m.
    """
    if s.asymmetry > 1e-12:
        return 0.0
    count = len(s.y) / s.parts
    if s.loss.name == "square":
        least = least_squares_floor(_in_span(s))
        return count * least if least > LINEAR * _power(s) else 0.0
    if s.loss.name in ("logistic", "exponential") and s.signs and s.svm is None:
        return count * _least_linear(s.y[:, None] * _in_span(s).x, s.loss.of_margin)
    return 0.0


def _in_span(s: Situation) -> Data:
    """The data in as many coordinates as there are samples at the most: for 10,000 features much cheaper."""
    return Data(s.coordinates, s.y)


def _power(s: Situation) -> float:
    """The square loss of the network that is zero."""
    return float((s.y**2).sum() / (2 * len(s.y)))


def _least_linear(rows: np.ndarray, loss: MarginLoss) -> float:
    """The least mean loss of the margins rows @ w, by Newton's method in the span of the rows."""
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    z = left[:, singular > 1e-12 * singular[0]]

    def value(q: np.ndarray) -> float:
        return float(loss.value(q).mean())

    q = np.zeros(len(z))
    for _ in range(NEWTON):
        pull = loss.pull(q)
        curvature = pull * loss.steepness(q)
        gradient, hessian = z.T @ pull, (z.T * curvature) @ z
        # Some directions may separate a part of the data: there the infimum is at infinity.
        step = np.linalg.solve(hessian + 1e-12 * np.trace(hessian) * np.eye(len(hessian)), gradient)
        if not gradient @ step > 1e-13 * len(z) * value(q):
            break
        size = next((k for k in 0.5 ** np.arange(40) if value(q + k * (z @ step)) < value(q)), 0.0)
        if not size:
            break
        q = q + size * (z @ step)
    return value(q)


# What is measured


def split_outputs(network: Network, x: np.ndarray) -> np.ndarray:
    """The outputs of a two-layer bias-free network as linear plus even part (Zhang et al., eq. 2)."""
    first, second = (np.asarray(w, dtype=float) for w in network.weights)
    c = float(network.mean_slope)
    f = c * x @ (second @ first).T + (1 - c) * np.abs(x @ first.T) @ second.T
    return np.asarray(f[:, 0] if network.outputs == 1 else f)


def _told_by_split(e: Evidence) -> np.ndarray:
    s = e.situation
    if e.is_limit:
        f = split_outputs(e.network, s.x)
        return f if s.loss.name == "square" else s.y * f
    every = (split_outputs(e.at(i), s.x) for i in range(len(e.times)))
    return np.array([float(s.loss(f, s.y)) for f in every])


def _recorded(e: Evidence) -> np.ndarray:
    return np.asarray(e.limit.margins if e.is_limit else e.series("loss"), dtype=float)


def _losses(e: Evidence) -> np.ndarray:
    """The losses along a run; of a limit of the square loss, the one at the end."""
    if e.is_limit and e.situation.loss.name == "square":
        return np.asarray(loss_measure(e.network, e.situation.data, e.situation.loss), dtype=float)
    return np.asarray(e.series("loss"), dtype=float)


def _runs(s: Situation) -> Trajectory | Limit:
    times = list(np.linspace(0, 20, 41))
    measures = ["weights", "loss"]
    return flow(
        s.network, s.data, s.loss, 20.0, measures=measures, record=times, budget=3000, rtol=1e-6, show=False
    )


def example() -> Example:
    """The fan: six symmetric points in the plane, of which a linear map explains one ninth."""
    return Example(Situation(Network.gaussian((2, 20, 1), 0.0, 0.5, seed=0), sets.fan(), square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with a third layer, and with biases."""
    s = example().situation
    return {
        TWO_LAYERS: replace(s, network=Network.depth_separation()),
        conditions.no_bias: replace(s, network=Network(s.network.weights, [np.zeros(20), None])),
    }


def advice(s: Situation) -> str | None:
    """What two layers miss on symmetric data."""
    if s.slope == 1 or s.asymmetry > 1e-12 or not floor(s) > 0:
        return None
    inside = _in_span(s)
    explained = 100 * (1 - least_squares_floor(inside) / _power(s))
    told = f"explains {explained:.0f} % of the variance"
    if s.signs:
        fit = inside.x @ np.linalg.lstsq(inside.x, s.y, rcond=None)[0]
        told += f"; as a linear classifier it gets {100 * np.mean(s.y * fit > 0):.0f} % of the samples right"
    kind = "ReLU" if s.slope == 0 else "leaky ReLU"
    return (
        f"Your inputs are symmetric and your target is odd: a two-layer {kind} network without biases can "
        f"learn only its linear part on this data ({told}). Add biases or a layer."
    )


# Depth separation


def deep_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Two hidden layers with activations, no biases, and a fit that two layers cannot have."""
    hidden = len(s.network.activated) if s.slope < 1 else 0
    yield TWO_HIDDEN.fact(hidden >= 2, f"{hidden}", "2 at least")
    yield conditions.no_bias(s)
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    if hidden < 2 or s.loss.name != "square" or s.network.has_bias:
        return
    symmetric = replace(conditions.symmetric(s), near=False)
    yield symmetric
    ratio = np.inf
    if symmetric.holds and floor(s) > 0:
        ratio = float(loss_measure(s.network, s.data, s.loss)) / floor(s)
    yield BELOW_FLOOR.at_most(ratio, 0.99)


def deep_predictions(s: Situation) -> Iterator[Prediction]:
    """It stays below the floor, and so its odd part stays away from all linear maps."""
    least, now = floor(s), float(loss_measure(s.network, s.data, s.loss))
    yield Prediction(
        "below the floor",
        f"the loss never exceeds {now:.4g}; two layers without biases have {least:.4g} at the least",
        now,
        lambda e: np.array([float(s.loss(f, s.y)) for f in _outputs(e)]),
        at_most(1e-6, "gradient flow lowers the loss: the tolerance of its steps"),
        Relation.AT_MOST,
    )
    count = len(s.y) / s.parts
    # |f_odd - y| <= |f - y| for odd y, and y is sqrt(2 floor) away from all linear maps: the triangle.
    away = float(np.sqrt(2 * least / count) - np.sqrt(2 * now / count))
    yield Prediction(
        "odd and not linear",
        f"the odd part of f stays {away:.4g} (root mean square) away from every linear map, at the least",
        away,
        _odd_nonlinearity,
        at_most(1e-6, "gradient flow lowers the loss: the tolerance of its steps"),
        Relation.AT_LEAST,
    )


def _outputs(e: Evidence) -> Iterator[np.ndarray]:
    if e.is_limit:
        yield np.asarray(e.network(e.situation.data.x))
        return
    for i in range(len(e.times)):
        yield np.asarray(e.at(i)(e.situation.data.x))


def _odd_nonlinearity(e: Evidence) -> np.ndarray:
    """The distance of the odd part from all linear maps, root mean square over the data."""
    x = e.situation.x
    networks = [e.network] if e.is_limit else [e.at(i) for i in range(len(e.times))]
    odd = [np.asarray(network.odd_part(x)).reshape(len(x), -1) for network in networks]
    off = [f - x @ np.linalg.lstsq(x, f, rcond=None)[0] for f in odd]
    return np.array([np.sqrt((f**2).sum() / len(x)) for f in off])


def deep_example() -> Example:
    """The function g of Zhang et al., eq. (3), learnt by the three layers that express it."""
    g = Network.depth_separation()
    x = np.random.default_rng(0).normal(size=(30, 2))
    data = sets.symmetrise(Data(x, np.asarray(g(x)), "g"))
    smaller = Network([0.97 * w for w in g.weights])
    return Example(Situation(smaller, data, square), _runs)


def deep_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = deep_example().situation
    n, half = s.network, len(s.y) // 2
    return {
        TWO_HIDDEN: replace(s, network=Network(n.weights, linear_tail=2)),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(4), None, None])),
        conditions.square_loss: replace(s, loss=logistic),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.symmetric: replace(s, data=Data(s.data.x[:half], s.data.y[:half])),
        BELOW_FLOOR: replace(s, network=Network([-w for w in n.weights])),
    }


RESULTS = (
    Result(
        "expressivity",
        "Two layers without biases: a linear function plus an even one",
        ZHANG.at("Theorem 1, Corollary 2"),
        "The odd part of two (leaky) ReLU layers without biases is the linear map c W2 W1 x, so that "
        "on symmetric data no such network has a smaller loss than the best linear map.",
        hypotheses,
        predictions,
        example,
        broken,
        advice=advice,
        subject=Subject.WHAT_CAN_BE_LEARNED,
        penalised=True,
    ),
    Result(
        "depth_separation",
        "Three layers without biases can be odd and not linear",
        ZHANG.at("equation (3)"),
        "Networks of three layers without biases express odd functions that are not linear, such as g of eq. "
        "(3), and can have a smaller loss on symmetric data than every network of two layers without biases.",
        deep_hypotheses,
        deep_predictions,
        deep_example,
        deep_broken,
        kind=Kind.DERIVED,
    ),
)
