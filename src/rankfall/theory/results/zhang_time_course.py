r"""The time course of a two-layer bias-free (leaky) ReLU network on white, symmetric data, in closed form.

From weights of rank one, $W_1 = W_2^T r^T$, the network computes $w(t)^T x$ with the $w(t)$ of eq. (38) of
Zhang, Saxe and Latham 2024 (Corollary 14), with $u_0$ the norm of the scaled weights: docs/errata.md. Small
random weights follow the course of their growing part: $r = \bar\beta$ and $u_0 = \sqrt{c}\,\|r_1\|$.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import logistic, square
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import integration
from rankfall.theory.mathematics.white_course import direction_of, effective_start, half_time, time_course
from rankfall.theory.results import zhang_equivalence
from rankfall.theory.results.zhang_equivalence import HALVES, HYPERPLANE, RANK_ONE
from rankfall.trajectory import Trajectory

WHITE = Condition("white", "white inputs: |<x x'> - I|")
EQUAL_NORMS = Condition("equal-norms", "layers of equal norm: | |W1|/|W2| - 1 |")
CORRELATED = Condition("correlated", "inputs and targets correlate: |<y x>|")
SMALL = Condition("small-start", "small initial weights: residual / |w|")
GROWING = Condition("growing", "growing part: |r1| / |W(0)|")
GROWING_HALVES = Condition("equal-growing-halves", "equal halves: | |r1+|^2/|r1|^2 - 1/2 |")

NEAR_WHITE = 0.2  # up to which white inputs are worth a comparison: our choice


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Those of Theorem 8, layers of equal norm, the square loss, and white inputs."""
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    for asked in equivalence(s):
        # Small weights that are not of rank one have a course of their own: `time_course_small`.
        yield replace(asked, near=False) if asked.condition is RANK_ONE else asked
    if _not_asked(s) or not s.w.any():
        return
    yield EQUAL_NORMS.at_most(_imbalance(s), 1e-10)
    yield WHITE.at_most(_off_white(s), 1e-10, reach=NEAR_WHITE)
    yield _correlated(s)


def equivalence(s: Situation) -> Iterator[Hypothesis]:
    """The hypotheses under which the network is a linear one (Theorem 8), but for the loss."""
    if s.both_trained and not s.w.any():
        yield RANK_ONE.fact(False, "W1 = 0", "weights that are not zero")
        return
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield from zhang_equivalence.data_and_start(s)


def _not_asked(s: Situation) -> bool:
    """Is something of the structure missing, without which the other numbers make no sense?"""
    structure = s.both_trained and not s.network.has_bias and s.loss.name == "square"
    return not structure or s.asymmetry > conditions.NEAR_SYMMETRY


def spectrum(s: Situation) -> np.ndarray:
    """The eigenvalues of <x x^T>, ascending; those that are zero for want of samples are left out."""
    n, d = s.x.shape
    return np.asarray(np.linalg.eigvalsh(s.gram / n if n < d else s.covariance))


def _off_white(s: Situation) -> float:
    off = float(np.abs(spectrum(s) - 1).max())
    return max(1.0, off) if len(s.x) < s.x.shape[1] else off


def _imbalance(s: Situation) -> float:
    norm = float(np.linalg.norm(s.a))
    return abs(float(np.linalg.norm(s.w)) / norm - 1) if norm > 0 else np.inf


def _correlated(s: Situation) -> Hypothesis:
    size = float(np.linalg.norm(s.beta))
    scale = float(np.sqrt((s.x**2).sum(axis=1).mean() * (s.y**2).mean())) or 1.0
    return CORRELATED.at_least(size / scale, 1e-10)


def predictions(s: Situation) -> Iterator[Prediction]:
    """Eq. (38), from the start alone."""
    r = zhang_equivalence.direction(s)
    u0 = float(np.sqrt(s.network.mean_slope) * np.linalg.norm(s.w))
    yield from _course(s, r, u0, integration)


def _course(
    s: Situation, r: np.ndarray, u0: float, allowed: Callable[[Evidence], Interval]
) -> Iterator[Prediction]:
    clock = len(s.y) / s.parts  # the flow of a sum is n times as fast
    slope = 2 * float(s.network.mean_slope) - 1

    def course(times: np.ndarray) -> np.ndarray:
        return time_course(clock * times, s.beta, r, u0, slope)

    def losses(times: np.ndarray) -> np.ndarray:
        residual = s.y - course(times) @ s.x.T
        return np.asarray(clock * (residual**2).mean(axis=1) / 2)

    yield Prediction(
        "linear map",
        f"f(x) = w(t).x with w(t) of eq. (38) from |w(0)| = {u0**2:.3g} to |w| = {_size(s.beta):.4g}",
        lambda e: course(e.times),
        _maps,
        allowed,
    )
    yield Prediction(
        "loss",
        "the loss is that of w(t).x, from {:.4g} to {:.4g}".format(*losses(np.array([0.0, 1e100]))),
        lambda e: losses(e.times),
        lambda e: e.series("loss"),
        allowed,
    )
    half = half_time(course, s.beta, u0, slope, clock)
    if half is not None:
        yield Prediction(
            "half time",
            f"half of the linear map is learnt at the time {half:.4g}",
            half,
            lambda e: _half_time(e, half),
            lambda e: _between_records(e, half, allowed),
        )


def _size(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))


# From small random weights


def small_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Weights so small that only their growing part is seen, which has two halves."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    yield conditions.symmetric(s)
    if _not_asked(s):
        return
    yield WHITE.at_most(_off_white(s), 1e-10, reach=NEAR_WHITE)
    correlated = _correlated(s)
    yield correlated
    if not correlated.holds:
        return
    yield SMALL.at_most(_residual(s), 0.05, reach=0.3)
    grows = s.growing
    yield GROWING.at_least(_size(grows) / (s.start_norm or 1.0), 0.1, reach=0.02)
    yield GROWING_HALVES.at_most(_unequal(s), 0.3)


def _residual(s: Situation) -> float:
    """What of W1(0) does not grow adds c W2 W1 to w, and |W2| is at most sqrt(|beta| / c)."""
    return float(np.sqrt(s.network.mean_slope / _size(s.beta))) * s.start_norm


def _unequal(s: Situation) -> float:
    """How far the halves of r1 are from equal; a linear network does not care."""
    grows = s.growing
    if s.slope == 1 or not grows.any():
        return 0.0
    return abs(float((grows[grows > 0] ** 2).sum() / (grows**2).sum()) - 0.5)


def small_predictions(s: Situation) -> Iterator[Prediction]:
    """Eq. (38) from the growing part of the weights."""
    r, u0 = effective_start(s.network, s.beta)
    if not u0 > 0:
        return
    # Unequal halves p and 1 - p add an even part, which the loss pulls to zero. In the flow of two halves w
    # is off by no more than 1.2 (1 - slope)^2 (p - 1/2)^2 for p up to 0.8, relative to its end.
    off = _residual(s) + 1.2 * ((1 - s.slope) * _unequal(s)) ** 2

    def allowed(e: Evidence) -> Interval:
        because = "the weights that do not grow, the square of the halves' difference, and the flow's steps"
        return at_most(off + integration(e).high, because)

    yield from _course(s, r, u0, allowed)


# What is measured


def _maps(e: Evidence) -> np.ndarray:
    """c W2 W1 along the run."""
    first, second = e.networks.weights
    return float(e.start.mean_slope) * np.einsum("tm,tmd->td", second[:, 0, :], first)


def _half_time(e: Evidence, predicted: float) -> float:
    """When the map along beta is half of beta, between two records by their logits."""
    unit, s = direction_of(e.situation.beta)
    share = _maps(e) @ unit / s
    if e.times[-1] < 1.1 * predicted:
        raise Unmeasurable(f"needs a run to the time {1.1 * predicted:.4g} or later")
    below = np.flatnonzero(share < 0.5)
    if not len(below) or below[-1] == len(share) - 1:
        return np.inf if len(below) else 0.0
    pair = slice(below[-1], below[-1] + 2)
    p = np.clip(share[pair], 1e-300, 1 - 1e-16)
    return float(np.interp(0.0, np.log(p / (1 - p)), e.times[pair]))


def _between_records(e: Evidence, half: float, allowed: Callable[[Evidence], Interval]) -> Interval:
    after = int(np.clip(np.searchsorted(e.times, half), 1, len(e.times) - 1))
    gap = float(e.times[after] - e.times[after - 1]) / half
    given = allowed(e)
    return at_most(given.high + gap / 4, f"a quarter of the time between two records; {given.because}")


def _run(s: Situation, end: float) -> Trajectory | Limit:
    times = list(np.linspace(0, end, 61))
    return flow(
        s.network, s.data, s.loss, end, measures=["weights", "loss"], record=times, budget=3000, show=False
    )


def mirror_pairs(data: Data) -> Data:
    """Symmetric data, first all x and then all -x, in the order x1, -x1, x2, -x2 and so on."""
    order = np.arange(data.n).reshape(2, -1).T.ravel()
    return Data(data.x[order], data.y[order], data.name)


def example() -> Example:
    """ReLU on white symmetric data, from weights of rank one in a direction of their own."""
    data = mirror_pairs(sets.symmetric_sine(pairs=30, dim=4, seed=0, white=True))
    network = Network.rank_one((4, 6, 1), slope=0.0, scale=0.1, seed=1)
    return Example(Situation(network, data, square), lambda s: _run(s, 24.0))


def small_example() -> Example:
    """ReLU on white symmetric data, from small Gaussian weights."""
    data = mirror_pairs(sets.symmetric_sine(pairs=30, dim=4, seed=0, white=True))
    network = Network.gaussian((4, 50, 1), slope=0.0, scale=1e-3, seed=2)
    return Example(Situation(network, data, square), lambda s: _run(s, 40.0))


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    n, x = s.network, s.data.x
    first, second = n.weights
    ones = np.outer(np.abs(second[0]), zhang_equivalence.direction(s))
    labelled = Data(np.vstack([x, np.zeros((2, 4))]), np.append(s.data.y, [1.0, -1.0]))
    return {
        **_violations(s),
        RANK_ONE: replace(s, network=Network.gaussian((4, 6, 1), 0.0, 0.1, seed=0)),
        HALVES: replace(s, network=Network([ones, np.abs(second)])),
        HYPERPLANE: replace(s, data=labelled),
        EQUAL_NORMS: replace(s, network=Network([2 * first, second])),
    }


def _violations(s: Situation) -> dict[Condition, Situation]:
    """One situation for each hypothesis that both starts share."""
    n, x, y = s.network, s.data.x, s.data.y
    signs = Data(x, np.where(x[:, 0] > 0, 1.0, -1.0))
    across = (x[:, 0] * x[:, 1] * x[:, 2]) * (1 + x[:, 3] ** 2)
    off = across - x @ np.linalg.lstsq(x, across, rcond=None)[0]
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(n.widths[1]), None])),
        conditions.square_loss: replace(s, data=signs, loss=logistic),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.symmetric: replace(s, data=Data(x[::2], np.abs(y[::2]))),
        WHITE: replace(s, data=Data(x * [3.0, 1, 1, 1], y)),
        CORRELATED: replace(s, data=Data(x, off)),
    }


def small_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = small_example().situation
    first, second = s.network.weights
    unit = s.beta / np.linalg.norm(s.beta)
    positive = np.abs(second)
    return {
        **_violations(s),
        SMALL: replace(s, network=Network([1e3 * first, 1e3 * second])),
        GROWING: replace(s, network=Network([-np.outer(second[0], unit), second])),
        GROWING_HALVES: replace(s, network=Network([np.outer(positive[0], unit), positive])),
    }


RESULTS = (
    Result(
        "time_course",
        "White, symmetric data: the whole course of learning in closed form",
        ZHANG.at("Corollary 9 (Corollary 14 of the workshop version)"),
        "On white symmetric data, from weights of rank one, f(x) = w(t).x with the w(t) of eq. (38), whose "
        "u0^2 is (1 + slope)/2 times |W1(0)|^2.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "time_course_small",
        "White, symmetric data: the course of learning from small random weights",
        ZHANG.at("Theorem 13 and Corollary 14 of the workshop version"),
        "On white symmetric data small random weights follow eq. (38) from their growing part: r along <y x> "
        "and u0 = sqrt((1 + slope)/2) |r1|, up to their size.",
        small_hypotheses,
        small_predictions,
        small_example,
        small_broken,
        kind=Kind.DERIVED,
    ),
)
