r"""Orthogonal inputs and a fixed second layer: every sample runs alone, and the start decides the end.

$\langle w_j, x_i\rangle$ moves at the rate $a_j y_i |x_i|^2 g_i P_{ji}$, with the pull $g_i$ of sample i and
the slope $P_{ji}$: nothing mixes the samples. An active neuron of the sign of the label stays active; an
inactive one ReLU leaves alone, while a leaky slope brings it up. Neurons of the other sign are pushed to
their kinks, and ReLU stops them there. With the slopes at the end (for ReLU 1 if $a_j y_i > 0$ and
$\langle w_j(0), x_i\rangle > 0$, which is the set $A_i$ of neurons, and else 0)

$\lambda_i^{-1} = |x_i|^2 \sum_j P_{ji}^2 a_j^2, \qquad w_j = a_j \sum_i \lambda_i y_i P_{ji} x_i.$

The times at which neurons reach their kinks have a closed form too, and with them the whole course.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import wrightomega

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import exact_flow
from rankfall.judge import at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, logistic, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import KOU
from rankfall.theory.core.tolerances import at_the_end, integration
from rankfall.trajectory import Trajectory

SECOND_FIXED = Condition("second-fixed", "two layers, second fixed")
LEARNED = Condition("learned", "neurons that learn each sample: fewest")


def course_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Orthogonal inputs, a fixed second layer with any weights, any slope."""
    trained = f"{s.network.depth} layers, {s.network.outputs} outputs, trained {s.network.trained}"
    yield SECOND_FIXED.fact(s.fixed_second, trained, "2 layers, 1 output, the first trained")
    yield conditions.margin_loss(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.bias_in_first_layer_only(s)
    yield conditions.gradient_flow(s)
    yield conditions.orthogonal(s)


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """The same, and every sample is learned: else its margin ends at 0 and the data are not separated."""
    yield from course_hypotheses(s)
    if s.fixed_second and s.signs:
        fewest = float(((final_slopes(s) != 0) & (s.a != 0)[:, None]).sum(axis=0).min())
        yield LEARNED.at_least(fewest, 1)


def final_slopes(s: Situation) -> np.ndarray:
    """The slope (m, n) that every neuron has in the end on every sample; for ReLU the indicator of A_i."""
    friendly = np.outer(s.a, s.y) > 0
    if s.slope == 0:
        return (friendly & (s.w @ s.x.T > 0)).astype(float)
    return np.where(friendly, 1.0, s.slope)


def limit_of(s: Situation) -> tuple[np.ndarray, np.ndarray]:
    """The first layer that the flow tends to, scaled to the margin 1, and the multipliers."""
    slopes = final_slopes(s)
    multipliers = 1 / (s.norms**2 * (s.a**2 @ slopes**2))
    return s.a[:, None] * ((slopes * multipliers * s.y) @ s.x), multipliers


def predictions(s: Situation) -> Iterator[Prediction]:
    """The whole limit, from the signs of <w_j(0), x_i>."""
    w, multipliers = limit_of(s)
    blocks = [Spectrum.of(w[s.a > 0]).stable_rank, Spectrum.of(w[s.a < 0]).stable_rank]
    yield ending.equal_margins(s)
    yield ending.first_layer(w, "the limit follows from the start")
    yield Prediction(
        "multipliers",
        "the multipliers are 1 / (|x_i|^2 sum of P_ji^2 a_j^2): "
        f"{multipliers.min():.4g} to {multipliers.max():.4g}",
        multipliers,
        lambda e: e.limit.multipliers,
        at_the_end,
    )
    yield ending.rank_of(w)
    yield Prediction(
        "stable rank of each sign",
        f"the stable ranks of the positive and the negative neurons tend to {blocks[0]:.4g}, {blocks[1]:.4g}",
        np.array(blocks),
        lambda e: [Spectrum.of(e.last.w[s.a > 0]).stable_rank, Spectrum.of(e.last.w[s.a < 0]).stable_rank],
        at_the_end,
    )
    yield ending.arrives()


def course_predictions(s: Situation) -> Iterator[Prediction]:
    """The first layer, the margins and the loss at all times, in closed form."""
    yield Prediction(
        "course of the weights",
        "the first layer at all times, in closed form",
        lambda e: _course(e)[0],
        lambda e: e.networks.weights[0],
        integration,
    )
    yield Prediction(
        "course of the margins",
        "between two kinks exp(q_i) grows linearly (logistic: q_i + exp(q_i))",
        lambda e: _course(e)[1],
        lambda e: e.series("margins"),
        integration,
    )
    yield Prediction(
        "course of the loss",
        "the loss at all times, in closed form",
        lambda e: _loss(s, _course(e)[1]),
        lambda e: e.series("loss"),
        integration,
    )
    lost = final_slopes(s).T ** 2 @ s.a**2 == 0
    if lost.any():
        yield Prediction(
            "samples never learned",
            f"{lost.sum()} of {len(lost)} margins never exceed 0: no neuron of their sign is active on them",
            0.0,
            lambda e: e.series("margins")[:, lost],
            at_most(1e-6, "the flow's tolerance"),
            Relation.AT_MOST,
        )


def _course(e: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """The first layer (times, m, d) and the margins (times, n) at the recorded times."""
    if not np.isfinite(e.times).all():
        raise Unmeasurable("needs times that are numbers: a run in plain time, or a shorter one")
    return e.once("course on orthogonal inputs", lambda: course(e.situation, e.times))


def course(s: Situation, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first layer (times, m, d) and the margins (times, n), each sample alone."""
    z = s.w @ s.x.T
    friendly = np.outer(s.a, s.y) > 0
    speed = np.outer(np.abs(s.a), s.norms**2)  # that of z, for the pull 1 and the slope 1
    first, last = np.where(z > 0, 1.0, s.slope), final_slopes(s)
    # Neurons whose slope changes reach their kink when the integral of the pull is this.
    turns = (first != last) & (speed > 0)
    kinks = np.where(turns, np.abs(z) / np.where(turns, first * speed, 1.0), np.inf)
    runs = [_alone(s, i, first[:, i], last[:, i], kinks[:, i], times) for i in range(len(s.y))]
    impulse, margins = np.stack(runs, axis=2)  # each (times, n)
    way = first * np.minimum(impulse[:, None], kinks) + last * np.maximum(impulse[:, None] - kinks, 0)
    moved = np.where(friendly, speed, -speed) * way
    return s.w + moved @ (s.x / s.norms[:, None] ** 2), margins


def _alone(
    s: Situation, i: int, first: np.ndarray, last: np.ndarray, kinks: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The integral of the pull of sample i, and its margin: q' = growth pull(q) from kink to kink."""
    order = np.argsort(kinks)[: np.isfinite(kinks).sum()]
    impulse = np.append(0.0, kinks[order])
    # Summed up from the end, so that a growth that ends at 0 is 0 and no rounding error.
    less = (s.a**2 * (last**2 - first**2))[order]
    growth = s.norms[i] ** 2 * (s.a**2 @ last**2 - np.append(np.cumsum(less[::-1])[::-1], 0.0))
    share = 1 / s.parts
    q = np.cumsum(np.append(s.y[i] * (s.a @ (first * (s.w @ s.x[i]))), growth[:-1] * np.diff(impulse)))
    begin = np.cumsum(np.append(0.0, np.diff(_clock(s, q)) / (share * growth[:-1])))
    piece = np.searchsorted(begin, times, side="right") - 1
    since = share * growth[piece] * (times - begin[piece])
    margin = np.where(since > 0, _margin(s, _clock(s, q)[piece] + since), q[piece])
    gained = (margin - q[piece]) / np.where(growth[piece] > 0, growth[piece], 1.0)
    return impulse[piece] + gained, margin


def _clock(s: Situation, q: np.ndarray) -> np.ndarray:
    """The integral of 1 / pull(q): what grows linearly in time."""
    return np.exp(q) + (q if s.loss.name == "logistic" else 0)


def _margin(s: Situation, clock: np.ndarray) -> np.ndarray:
    """The inverse of `_clock`."""
    return np.log(wrightomega(clock) if s.loss.name == "logistic" else clock)


def _loss(s: Situation, margins: np.ndarray) -> np.ndarray:
    return np.asarray(s.loss.of_margin.value(margins).sum(axis=1) / s.parts)


def _runs(s: Situation) -> Trajectory | Limit:
    record, measures = list(np.linspace(0, 200, 81)), ["weights", "loss"]
    return exact_flow(
        s.network, s.data, s.loss, 200.0, record=record, measures=measures, budget=20_000, show=False
    )


def _data(n: int) -> Data:
    frame = sets.orthogonal(n=n, dim=12, seed=0)
    norms = np.round(64 * np.linspace(0.5, 1.5, n)) / 64  # few bits: the products are exact
    return Data(frame.x * norms[:, None], frame.y, "orthogonal")


def example() -> Example:
    """Eight orthogonal samples of different norms; ReLU, sixteen neurons, six of them positive."""
    network = Network.fixed_second_layer((12, 16, 1), slope=0.0, sigma=0.1, seed=1, positive=6)
    return Example(Situation(network, _data(8), logistic), ending.ends)


def course_example() -> Example:
    """Output weights of any size, and a sample that no neuron learns."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(5, 12)), rng.normal(size=(1, 5))
    return Example(Situation(Network([first, second], trained=(True, False)), _data(4), exponential), _runs)


def _broken(s: Situation) -> dict[Condition, Situation]:
    weights = s.network.weights
    return {
        SECOND_FIXED: replace(s, network=Network(weights)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(
            s, network=Network(weights, [None, [0.0]], trained=(True, False))
        ),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.orthogonal: replace(s, data=Data(s.data.x + s.data.x.mean(0), s.data.y)),
    }


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated; no positive neuron is active on the first positive sample."""
    s = example().situation
    first, x = s.w.copy(), s.x[np.argmax(s.y > 0)]
    first[s.a > 0] -= np.outer(np.maximum(first[s.a > 0] @ x, 0) + 1, x) / (x @ x)
    away = Network([first, s.network.weights[1]], trained=(True, False))
    return _broken(s) | {LEARNED: replace(s, network=away)}


def course_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    return _broken(course_example().situation)


RESULTS = (
    Result(
        "relu_orthogonal",
        "Orthogonal inputs, fixed second layer: the start decides where the flow ends",
        KOU.at("the setting; derived for exactly orthogonal inputs"),
        "The limit is w_j = a_j sum_i lambda_i y_i P_ji x_i with 1/lambda_i = |x_i|^2 sum_j P_ji^2 a_j^2; "
        "for ReLU, P_ji = 1 if neuron j has the sign of y_i and is active on x_i at the start, else 0.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "relu_orthogonal_course",
        "Orthogonal inputs, fixed second layer: the course of learning in closed form",
        KOU.at("the setting; derived for exactly orthogonal inputs"),
        "Each sample runs alone: between two kinks exp(q_i), or q_i + exp(q_i) for the logistic loss, grows "
        "linearly in time.",
        course_hypotheses,
        course_predictions,
        course_example,
        course_broken,
        kind=Kind.DERIVED,
    ),
)
