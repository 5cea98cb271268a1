r"""Gradient flow does not always look for the lowest rank: two ReLU neurons fit two samples with rank two.

Unit inputs $x_1, x_2$ in the plane at an angle $\varphi$ in $(\pi/2, \pi)$, unit targets $y_1, y_2$ in the
plane, and $x \mapsto V\sigma(Wx)$ with two neurons. Weights of rank one can fit them (see `least_norm`), but
from small weights the flow ends, if it fits them, with rank two. Where each neuron sees one sample only,
$|v_i|^2 - |w_i|^2 = D_i$ never changes and $|v_i|\,(w_i\cdot x_i) = 1$, so that $|w_i| \ge \omega_i$ with
$\omega_i^2 = (\sqrt{D_i^2 + 4} - D_i)/2$; and on the side away from the other input, the part of $w_i$ across
$x_i$ is that of the start. With $V(0) = 0$ the whole course has a closed form.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rankfall.data import Data
from rankfall.dynamics import Until, every, flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import TIMOR
from rankfall.theory.core.tolerances import integration
from rankfall.trajectory import Trajectory

TWO_NEURONS = Condition("two-neurons", "2-2-2 network, all trained")
TWO_SAMPLES = Condition("two-samples", "two samples")
UNIT = Condition("unit-lengths", "unit inputs and targets: largest deviation")
ANGLE = Condition("angle", "angle between the inputs, in degrees")
INDEPENDENT = Condition("independent-targets", "independent targets: |determinant|")
SMALL_FIRST = Condition("small-first-layer", "first layer at the start: longest row")
SMALL_SECOND = Condition("small-second-layer", "second layer at the start: longest column")
ZERO_SECOND = Condition("zero-second-layer", "second layer at the start: its norm")
OWN_SAMPLE = Condition("own-sample", "each neuron sees one sample, its own")

FITTED = 1e-4  # the loss from which on a run has fitted the samples, as in the paper's experiment


def _setting(s: Situation) -> Iterator[Hypothesis]:
    small = s.network.widths == (2, 2, 2) and all(s.network.trained) and not s.network.has_skips
    found = f"{'-'.join(map(str, s.network.widths))}, trained {s.network.trained}"
    yield TWO_NEURONS.fact(small, found, "2 inputs, 2 neurons, 2 outputs, all trained")
    yield conditions.no_bias(s)
    yield conditions.relu(s)
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    yield TWO_SAMPLES.fact(len(s.x) == 2, f"{len(s.x)} samples", "2 samples")


def _checkable(s: Situation) -> bool:
    return s.network.widths == (2, 2, 2) and not s.bias and s.loss.name == "square" and len(s.x) == 2


def _lengths_and_angle(s: Situation) -> Iterator[Hypothesis]:
    off = np.abs(np.linalg.norm(np.concatenate([s.x, s.y]), axis=1) - 1).max()
    yield UNIT.at_most(off, 1e-10)
    degrees = float(np.degrees(_angle(*s.x)))
    within = 90 + 1e-9 < degrees < 180 - 1e-9
    yield Hypothesis(ANGLE, degrees, "between 90 and 180", within)


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 2, for two neurons."""
    yield from _setting(s)
    if not _checkable(s):
        return
    yield from _lengths_and_angle(s)
    yield INDEPENDENT.at_least(abs(np.linalg.det(s.y)), 1e-10)
    first, second = (np.linalg.norm(rows, axis=1).max() for rows in _rows(s.network))
    small = min(0.5, np.sqrt(0.75) * np.cos(_angle(*s.x) / 2))
    yield SMALL_FIRST.at_most(first, small)
    yield SMALL_SECOND.at_most(second, 0.5)


def predictions(s: Situation) -> Iterator[Prediction]:
    """Rank two in numbers, where each neuron ends with a sample of its own."""
    lengths = ", ".join(f"{length:.3f}" for length in _least_lengths(s))
    yield Prediction(
        "lengths of the neurons",
        f"if the samples are fitted, with a neuron for each, the rows of W are at least {lengths} long",
        _least_lengths(s),
        lambda e: np.linalg.norm(_fitted_apart(e).weights[0], axis=1),
        _residual,
        Relation.AT_LEAST,
    )
    least = _least_stable_rank(s)
    yield Prediction(
        "stable rank",
        f"if each neuron fits its own sample, W has rank 2, and a stable rank of {least:.3f} at least",
        least,
        lambda e: Spectrum.of(_fitted_apart(e).weights[0]).stable_rank,
        _residual,
        Relation.AT_LEAST,
    )


def _fitted_apart(e: Evidence) -> Network:
    """The last network, if it has fitted the samples with a neuron for each."""
    fitted = _fitted(e)
    if _own_sample(e.last) is None:
        raise Unmeasurable("needs an end in which each neuron has a sample of its own: here one sees both")
    return fitted


def _least_lengths(s: Situation) -> np.ndarray:
    w, v = _rows(s.network)
    kept = (v**2).sum(axis=1) - (w**2).sum(axis=1)
    return np.asarray(np.sqrt((np.sqrt(kept**2 + 4) - kept) / 2))


def _least_stable_rank(s: Situation) -> float:
    """From the largest angle of the neurons, and the largest ratio of their lengths."""
    w, v = _rows(s.network)
    kept = (v**2).sum(axis=1) - (w**2).sum(axis=1)
    shortest = _least_lengths(s)
    away = np.arcsin(np.minimum(np.linalg.norm(w, axis=1) / shortest, 1.0))
    inputs = _angle(*s.x)
    if inputs + away.sum() >= np.pi:
        return 1.0
    # |w|^2 (|w|^2 + D) = 1/cos^2 of the angle to its sample: `away` outside, or inside angle - pi/2 at most.
    cosine = np.minimum(np.cos(away), np.sin(inputs))
    longest = np.sqrt((np.sqrt(kept**2 + 4 / cosine**2) - kept) / 2)
    ratio = max(longest[0] / shortest[1], longest[1] / shortest[0]) ** 2
    thin = 4 * ratio / (1 + ratio) ** 2 * np.sin(inputs + away.sum()) ** 2
    return float(2 / (1 + np.sqrt(1 - thin)))


# Theorem 3: V(0) = 0


def hypotheses_from_zero(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 3: its probability 2 (angle/2 pi)^2 is that each neuron sees one sample, its own."""
    yield from _setting(s)
    if not _checkable(s):
        return
    yield from _lengths_and_angle(s)
    second = float(np.linalg.norm(_rows(s.network)[1]))
    yield ZERO_SECOND.at_most(second, 0.0, reach=1e-3)
    seen = " and ".join(str([int(k) + 1 for k in np.flatnonzero(row)]) for row in s.w @ s.x.T > 0)
    alone = _own_sample(s) is not None
    yield OWN_SAMPLE.fact(alone, f"samples {seen}", "[1] and [2]")


def predictions_from_zero(s: Situation) -> Iterator[Prediction]:
    """The closed form; the ranges of Theorem 3 follow from it."""
    w, v = two_neurons_from_zero(s.network, s.data, np.inf)
    angle = float(np.degrees(_angle(*w)))
    yield _at_end("first layer", "each neuron moves along its sample", w, lambda n: n.weights[0])
    yield _at_end("second layer", "the columns of V end along the targets", v, lambda n: n.weights[1])
    says = f"the rows of W end {angle:.2f} degrees apart"
    yield _at_end("angle between the neurons", says, angle, lambda n: np.degrees(_angle(*n.weights[0])))
    rank = Spectrum.of(w).stable_rank
    says = f"W ends with rank 2 and the stable rank {rank:.3f}"
    yield _at_end("stable rank", says, rank, lambda n: Spectrum.of(n.weights[0]).stable_rank)
    yield Prediction(
        "course",
        "both layers follow the closed form at all times",
        lambda e: _course(s, e.times),
        lambda e: e.series("weights"),
        integration,
    )


def _at_end(name: str, says: str, value: Any, of: Callable[[Network], Any]) -> Prediction:
    return Prediction(name, says, value, lambda e: of(_fitted(e)), _residual)


def two_neurons_from_zero(network: Network, data: Data, time: float) -> tuple[np.ndarray, np.ndarray]:
    r"""W and V at a time of the flow of the summed square loss, from V(0) = 0 and neurons with own samples.

    With $w\cdot x = z_0\cosh q$, $v = z_0 \sinh(q)\, y$ the flow is $\dot q = 1 - k\sinh 2q$, $k = z_0^2/2$:
    $E = e^{2q}$ follows a logistic curve between the roots of $k E^2 - 2E - k$.
    """
    x, y = np.asarray(data.x, float), np.asarray(data.y, float)
    own = np.argmax(np.asarray(network.weights[0]) @ x.T, axis=1)
    x, y, w = x[own], y[own], np.asarray(network.weights[0], float)
    z = (w * x).sum(axis=1)
    k = z**2 / 2
    high, low = (1 + np.sqrt(1 + k**2)) / k, -k / (1 + np.sqrt(1 + k**2))
    falls = (high - 1) / (1 - low) * np.exp(-2 * np.sqrt(1 + k**2) * time)
    root = np.sqrt((high + low * falls) / (1 + falls))  # e^q
    along, second = z * (root + 1 / root) / 2, z * (root - 1 / root) / 2
    return w + (along - z)[:, None] * x, (second[:, None] * y).T


def _course(s: Situation, times: np.ndarray) -> np.ndarray:
    share = 1 / s.parts  # the mean over two samples runs at half the speed
    layers = [two_neurons_from_zero(s.network, s.data, share * time) for time in times]
    return np.array([np.append(first, second) for first, second in layers])


# What is measured


def _rows(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The rows w_i of W, and the columns v_i of V."""
    return np.asarray(network.weights[0], float), np.asarray(network.weights[1], float).T


def _angle(a: Any, b: Any) -> float:
    return float(np.arctan2(abs(a[0] * b[1] - a[1] * b[0]), np.dot(a, b)))


def _own_sample(s: Situation) -> np.ndarray | None:
    """Which sample each neuron sees, if each sees one and they differ."""
    sees = s.w @ s.x.T > 0
    return np.argmax(sees, axis=1) if (sees.sum(axis=0) == 1).all() and sees.any(axis=1).all() else None


def _fitted(e: Evidence) -> Network:
    """The last network, if the run has fitted the samples."""
    last = e.series("loss")[-1]
    if not last <= FITTED:
        raise Unmeasurable(f"speaks about runs that fit the samples: the loss is {last:.2g}, not {FITTED:g}")
    return e.network


def _residual(e: Evidence) -> Interval:
    missing = 2 * np.sqrt(e.series("loss")[-1])
    return at_most(missing + integration(e).high, "what the loss lacks to zero, and the flow's steps")


# Examples


def _data(degrees: float = 110.0) -> Data:
    angle = np.radians(degrees)
    return Data([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], [[1.0, 0.0], [0.6, 0.8]], "two points")


def _runs(s: Situation) -> Trajectory | Limit:
    until, seen = Until(time=60.0, loss=1e-14), ["weights", "loss"]
    return flow(s.network, s.data, s.loss, until, measures=seen, record=every(0.2), budget=5000, show=False)


def example() -> Example:
    """Inputs 110 degrees apart; weights of 1e-3, each neuron on the outer side of its own input."""
    network = Network([[[-8e-4, 4e-4], [8e-4, -5e-4]], [[2e-4, 5e-4], [6e-4, -3e-4]]])
    return Example(Situation(network, _data(), square.sum), _runs)


def example_from_zero() -> Example:
    """The same with larger weights of the first layer, and none in the second."""
    network = Network([[[0.2, -0.1], [-0.25, 0.05]], np.zeros((2, 2))])
    return Example(Situation(network, _data(), square.sum), _runs)


def _broken(s: Situation) -> dict[Condition, Situation]:
    w, v = s.network.weights
    x, y = s.data.x, s.data.y
    wide = Network([np.vstack([w, w]), np.hstack([v, v])])
    return {
        TWO_NEURONS: replace(s, network=wide),
        conditions.no_bias: replace(s, network=Network([w, v], [np.zeros(2), None])),
        conditions.relu: replace(s, network=Network([w, v], slope=0.5)),
        conditions.square_loss: replace(s, loss=exponential),
        conditions.gradient_flow: replace(s, step=5.0),
        TWO_SAMPLES: replace(s, data=Data(np.vstack([x, -x]), np.vstack([y, -y]))),
        UNIT: replace(s, data=Data(2 * x, y)),
        ANGLE: replace(s, data=_data(60.0)),
    }


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    w, v = s.network.weights
    return _broken(s) | {
        INDEPENDENT: replace(s, data=Data(s.data.x, np.stack([s.data.y[0]] * 2))),
        SMALL_FIRST: replace(s, network=Network([1e3 * w, v])),
        SMALL_SECOND: replace(s, network=Network([w, 1e3 * v])),
    }


def broken_from_zero() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example_from_zero().situation
    w, _ = s.network.weights
    return _broken(s) | {
        ZERO_SECOND: replace(s, network=Network([w, np.eye(2)])),
        OWN_SAMPLE: replace(s, network=Network([w[[0, 0]], np.zeros((2, 2))])),
    }


RESULTS = (
    Result(
        "timor_rank_two",
        "Two ReLU neurons that fit two samples at an obtuse angle: the rank is two, though one would do",
        TIMOR.at("Theorem 2"),
        "From small weights, gradient flow that fits the two samples ends with a first layer of rank two.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "timor_angles",
        "Two ReLU neurons with a sample each, from a second layer of zeros: the whole course",
        TIMOR.at("Theorem 3"),
        "Each neuron moves along its own input to zero loss, in closed form; W ends with rank two.",
        hypotheses_from_zero,
        predictions_from_zero,
        example_from_zero,
        broken_from_zero,
        kind=Kind.DERIVED,
    ),
)
