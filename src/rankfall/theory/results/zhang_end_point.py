r"""Where a two-layer bias-free network ends on symmetric data: at the linear network's end.

With the square loss at the least-squares solution $w^* = \Sigma^+\beta$, which is the global minimum. With
separable labels and the logistic or exponential loss at the hard-margin SVM. The weights are known too: the
direction d of $W_2$ never changes, so $W_2 = v\,d$ and $W_1 = d^T z^T$ with $c\,v\,z = w^*$ on the span of
the data, and $v^2 - |z|^2$ stays what it was.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import logistic, square
from rankfall.measure import loss as loss_measure
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result, Subject
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import LATE, at_the_end, scaled
from rankfall.theory.results import zhang_equivalence
from rankfall.theory.results.zhang_equivalence import HALVES, HYPERPLANE, RANK_ONE
from rankfall.theory.results.zhang_time_course import equivalence, mirror_pairs

SMALLER = Condition("first-not-larger", "first layer not larger than the second: |W1|/|W2|")
OPPOSITE = Condition("not-opposite", "start not opposite to <y x>: cosine")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Corollary 10 for the square loss: those of Theorem 8."""
    yield conditions.square_loss(s)
    if s.loss.name == "square":
        yield from _shared(s)


def svm_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Corollary 10 for labels: those of Theorem 8, and separable data."""
    yield conditions.margin_loss(s)
    if s.loss.name not in ("logistic", "exponential"):
        return
    yield from _shared(s)
    if s.signs and s.asymmetry <= conditions.NEAR_SYMMETRY:
        yield conditions.separable(s)


def _shared(s: Situation) -> Iterator[Hypothesis]:
    yield conditions.gradient_flow(s)
    yield from equivalence(s)
    if not s.both_trained or s.network.has_bias or not s.w.any():
        return
    norm = float(np.linalg.norm(s.a))
    yield SMALLER.at_most(float(np.linalg.norm(s.w)) / norm if norm > 0 else np.inf, 1 + 1e-10, reach=2.0)
    yield OPPOSITE.at_least(_cosine(s), -0.999)


def _cosine(s: Situation) -> float:
    """Of the start with <y x>; -1 where there is no correlation. Only there the flow may end at zero."""
    lengths = np.linalg.norm(s.x, axis=1) * np.abs(s.y)
    size = float(np.linalg.norm(s.beta))
    if not size > 1e-12 * lengths.mean():
        return -1.0
    return float(zhang_equivalence.direction(s) @ s.beta / size)


def weights_of(s: Situation, target: np.ndarray, conserved: float, across: np.ndarray) -> np.ndarray:
    """The weights, one after the other, that compute `target` and have |W2|^2 - |z|^2 = `conserved`.

    `across` is the part of z outside of the span of the data, which stays.
    """
    c, d = float(s.network.mean_slope), s.a / np.linalg.norm(s.a)
    # v^2 - |w*|^2/(c v)^2 - |across|^2 = conserved is a quadratic equation for v^2.
    half = (conserved + across @ across) / 2
    v = float(np.sqrt(half + np.sqrt(half**2 + target @ target / c**2)))
    return np.concatenate([np.outer(d, target / (c * v) + across).ravel(), v * d])


# The square loss


def predictions(s: Situation) -> Iterator[Prediction]:
    """The least-squares solution, the weights that compute it, and its loss."""
    z = s.w.T @ s.a / np.linalg.norm(s.a)
    best, within = _in_span(s, s.y, s.x @ z)
    yield Prediction(
        "least squares",
        f"f(x) = w.x on the data, with the least-squares solution of norm {np.linalg.norm(best):.4g}",
        s.x @ best,
        lambda e: np.asarray(e.network(s.x)),
        _arrived,
    )
    final = weights_of(s, best, float(s.a @ s.a - z @ z), z - within)
    yield Prediction(
        "weights",
        f"both layers end as W2 = v d, W1 = d' z', with d the direction of W2 and v = {_last(s, final):.4g}",
        final,
        _flat,
        _arrived,
    )
    count = len(s.y) / s.parts
    least = count * float(((s.y - s.x @ best) ** 2).mean()) / 2
    yield Prediction(
        "global minimum",
        f"the loss ends at {least:.4g}, the least of all two-layer networks without biases",
        least,
        lambda e: float(loss_measure(e.network, s.data, s.loss)),
        _arrived,
        scale=count * float((s.y**2).mean()) / 2,
    )


def _in_span(s: Situation, *targets: np.ndarray) -> Iterator[np.ndarray]:
    """The shortest least-squares solution for each of the targets."""
    n, d = s.x.shape
    # For many features much cheaper in an orthonormal basis of a space that holds the inputs.
    basis = np.linalg.qr(s.x.T)[0] if n < d else np.eye(d)
    yield from (basis @ np.linalg.lstsq(s.x @ basis, np.column_stack(targets), rcond=None)[0]).T


def _last(s: Situation, weights: np.ndarray) -> float:
    return float(np.linalg.norm(weights[-len(s.a) :]))


def _flat(e: Evidence) -> np.ndarray:
    return np.concatenate([np.ravel(w) for w in e.network.weights])


def _arrived(e: Evidence) -> Interval:
    """An end point is as good as its gradient; a run as what it still moves in its second half."""
    if isinstance(e.source, Limit):
        gradient = e.limit.residuals.get("gradient", np.inf)
        if not gradient < LATE:
            raise Unmeasurable(f"needs an end of the flow: here the gradient is {gradient:.2g}")
        return at_most(max(1e-8, 100 * gradient), "the gradient at the limit, no less than 1e-8")
    x = e.situation.x
    f, before = e.network(x), e.at(int(np.searchsorted(e.times, e.times[-1] / 2)))(x)
    moved = float(np.linalg.norm(f - before)) / (float(np.linalg.norm(f)) or 1.0)
    if moved > LATE:
        raise Unmeasurable(
            f"needs a later state: the outputs moved by {moved:.2g} in the second half of the run, and "
            f"{LATE:g} is the most; run longer, or verify rankfall.limit(network, data, 'square')"
        )
    return at_most(moved + 1e-6, "not at its end: as much as the second half of the run moved, and 1e-6")


# Labels


def svm_predictions(s: Situation) -> Iterator[Prediction]:
    """The hard-margin SVM, as the network has it."""
    svm = s.svm
    if svm is None or svm.w is None:
        return
    w = svm.w
    yield Prediction(
        "hard-margin SVM",
        f"at the margin 1 the network's linear part is the hard-margin SVM, of norm {svm.norm2**0.5:.4g}",
        w,
        lambda e: _map(e) / _margin(e),
        at_the_end,
    )
    final = weights_of(s, w, 0.0, np.zeros(len(w)))
    worse = float(np.linalg.norm(s.x, 2) * np.linalg.norm(w) / np.linalg.norm(svm.margins))
    yield Prediction(
        "weights",
        f"both layers are of rank one and of norm {_last(s, final):.4g} at the margin 1",
        final,
        lambda e: _flat(e) / np.sqrt(_margin(e)),
        at_the_end,
    )
    yield Prediction(
        "margins",
        f"the margins are those of the SVM: {int(svm.support.sum())} samples support it, the largest margin "
        f"is {svm.margins.max():.4g} times the least",
        svm.margins,
        lambda e: e.margins / _margin(e),
        lambda e: scaled(at_the_end(e), worse),
    )


def _map(e: Evidence) -> np.ndarray:
    return float(e.start.mean_slope) * np.asarray(e.last.a @ e.last.w)


def _margin(e: Evidence) -> float:
    """The least margin; NaN, which fails, if some sample is not classified."""
    least = float(e.margins.min())
    return least if least > 0 else np.nan


def example() -> Example:
    """ReLU on the symmetric sine data, not white, from weights of rank one in a direction of their own."""
    data = mirror_pairs(sets.symmetric_sine(pairs=12, dim=3, seed=0))
    return Example(Situation(Network.rank_one((3, 6, 1), 0.0, scale=0.3, seed=1), data, square), ending.ends)


def svm_example() -> Example:
    """ReLU on nine separable points of the space and their mirror images."""
    x = np.random.default_rng(0).normal(size=(9, 3))
    y = np.where(x @ [1.0, 0.3, 0.0] > 0, 1.0, -1.0)
    data = mirror_pairs(sets.symmetrise(Data(x, y, "nine points")))
    return Example(
        Situation(Network.rank_one((3, 6, 1), 0.0, scale=0.3, seed=1), data, logistic), ending.ends
    )


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        **_violations(s),
        conditions.square_loss: replace(s, data=svm_example().situation.data, loss=logistic),
    }


def svm_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = svm_example().situation
    x = s.data.x
    mixed = sets.symmetrise(Data(np.vstack([x, x[:2]]), np.append(s.y, -s.y[:2])))
    return {
        **_violations(s),
        conditions.margin_loss: replace(s, loss=square),
        conditions.separable: replace(s, data=mixed),
    }


def _violations(s: Situation) -> dict[Condition, Situation]:
    n, x, y = s.network, s.data.x, s.data.y
    first, second = n.weights
    rng = np.random.default_rng(0)
    one_sign = Network([np.outer(np.abs(second[0]), zhang_equivalence.direction(s)), np.abs(second)])
    against = Network.rank_one((3, 6, 1), 0.0, scale=0.3, seed=1, direction=-s.beta)
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(6), None])),
        conditions.gradient_flow: replace(s, step=100.0),
        conditions.symmetric: replace(s, data=Data(np.vstack([x, x + 3]), np.append(y, -y))),
        RANK_ONE: replace(s, network=Network([0.1 * rng.normal(size=first.shape), second])),
        HALVES: replace(s, network=one_sign),
        HYPERPLANE: replace(s, data=Data(np.vstack([x, np.zeros((2, 3))]), np.append(y, [1.0, -1.0]))),
        SMALLER: replace(s, network=Network([9 * first, second])),
        OPPOSITE: replace(s, network=against),
    }


def svm_advice(s: Situation) -> str:
    """What it means."""
    return (
        "Your data are symmetric and linearly separable: a two-layer network without biases ends as the "
        f"hard-margin SVM (margin {1 / np.sqrt(s.svm.norm2) if s.svm else 0:.3g}). Train that, or add biases."
    )


RESULTS = (
    Result(
        "end_point_square",
        "Symmetric data, square loss: the network ends at the least-squares solution",
        ZHANG.at("Corollary 10 (Corollary 6 of the workshop version)"),
        "From weights of rank one on symmetric data the flow of the square loss ends at the least-squares "
        "linear map, which is the global minimum of all two-layer networks without biases.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "end_point_logistic",
        "Symmetric, separable data: the network ends as the hard-margin SVM",
        ZHANG.at("Corollary 10 (Corollary 6 of the workshop version)"),
        "From weights of rank one on symmetric, linearly separable data the network converges in direction "
        "to the hard-margin SVM.",
        svm_hypotheses,
        svm_predictions,
        svm_example,
        svm_broken,
        advice=svm_advice,
        subject=Subject.THE_END_OF_TRAINING,
        kind=Kind.DERIVED,
    ),
)
