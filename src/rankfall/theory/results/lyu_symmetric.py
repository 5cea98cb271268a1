r"""A leaky ReLU network, both layers trained, on separable and symmetric data ends as the linear SVM.

From a small start the flow converges in direction to the global optimum of the margin problem:
$f(x; \theta/|\theta|) \to \frac{1+\alpha}{4}\langle w^*, x\rangle$ with the unit vector $w^*$ of the linear
hard-margin classifier. Every neuron is $w_k = a_k w^*$, and the squares of the output weights of each sign
add up to $|\theta|^2/4$. The normalised margin is $\frac{1+\alpha}{4}$ times that of the linear classifier.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.loss import logistic, square
from rankfall.measure import parameter_norm
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LYU_2021
from rankfall.theory.core.tolerances import at_the_end

SMALL_START = Condition("small-start", "small start: |theta|^2 max |x|")
BOTH_GROW = Condition("both-grow", "neurons that grow of both signs")

PROBES = 256
SMALL, LARGE = 0.01, 1.0  # |theta|^2 max |x|, a bound on all outputs at the start: our choice


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Separable and symmetric data, a small start; and that neurons of both signs grow."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.leaky(s)
    yield conditions.margin_loss(s)
    yield conditions.gradient_flow(s)
    if not (s.both_trained and s.signs) or s.network.has_bias:
        return
    yield conditions.symmetric(s)
    yield conditions.separable(s)
    size = s.start_norm**2 * float(s.norms.max())
    yield SMALL_START.at_most(size, SMALL, reach=LARGE)
    plus, minus = (int((s.growing * sign > 0).sum()) for sign in (1, -1))
    yield BOTH_GROW.fact(min(plus, minus) > 0, f"{plus} +, {minus} -", "1 of each")


def predictions(s: Situation) -> Iterator[Prediction]:
    """The limit, from the linear hard-margin classifier."""
    if s.svm is None or s.svm.w is None:
        return
    c, margin = (1 + s.slope) / 4, float(s.svm.norm2**-0.5)
    best = s.svm.w * margin
    probes = np.random.default_rng(0).normal(size=(PROBES, s.x.shape[1]))
    yield Prediction(
        "function",
        f"f(x; theta/|theta|) tends to {c:.4g} <w*, x>",
        c * probes @ best,
        lambda e: np.asarray(e.network(probes)) / norm2(e),
        at_the_end,
    )
    yield Prediction(
        "normalised margin",
        f"the normalised margin tends to {c * margin:.4g}, the largest of all networks",
        c * margin,
        lambda e: e.margins.min() / norm2(e),
        at_the_end,
    )
    yield Prediction(
        "halves",
        "the squared output weights of each sign add up to 1/4 of |theta|^2",
        np.array([0.25, 0.25]),
        lambda e: np.array([(e.last.a[e.last.a * sign > 0] ** 2).sum() for sign in (1, -1)]) / norm2(e),
        at_the_end,
    )
    yield Prediction(
        "neurons",
        "every neuron is w_k = a_k w*",
        lambda e: np.outer(e.last.a, best),
        lambda e: e.last.w,
        at_the_end,
    )
    yield Prediction(
        "rank one",
        "the stable rank of the first layer tends to 1",
        1.0,
        lambda e: e.last.stable_rank,
        at_the_end,
    )
    yield Prediction(
        "global optimum",
        "no direction pulls more than those of the network's own neurons: the largest pull is 1",
        1.0,
        lambda e: 2 * c * np.linalg.norm((e.limit.multipliers * s.y) @ s.x),
        at_the_end,
    )
    yield ending.arrives()


def norm2(e: Evidence) -> float:
    """|theta|^2."""
    return float(parameter_norm(e.network)) ** 2


def example() -> Example:
    """Four random samples and their mirror images, six neurons, the slope 0.3."""
    rng = np.random.default_rng(0)
    x, teacher = rng.normal(size=(4, 3)), rng.normal(size=3)
    data = sets.symmetrise(Data(x, np.sign(x @ teacher), "linear labels"))
    network = Network.gaussian((3, 6, 1), slope=0.3, scale=1e-4, seed=0)
    return Example(Situation(network, data, logistic), ending.ends)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    weights = s.network.weights
    shifted = Data(s.data.x + 3 * s.data.x[0], s.data.y)
    crossed = sets.symmetrise(Data([[1.0, 0, 0], [1.0, 0, 0]], [1.0, -1.0]))
    return {
        conditions.both_layers_trained: replace(
            s, network=Network(weights, slope=0.3, trained=(True, False))
        ),
        conditions.no_bias: replace(s, network=Network(weights, [np.zeros(6), None], slope=0.3)),
        conditions.leaky: replace(s, network=Network(weights, slope=0.0)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.symmetric: replace(s, data=shifted),
        conditions.separable: replace(s, data=crossed),
        SMALL_START: replace(s, network=Network([1e5 * w for w in weights], slope=0.3)),
        BOTH_GROW: replace(s, network=Network([0 * weights[0], np.abs(weights[1])], slope=0.3)),
    }


def advice(s: Situation) -> str:
    """What it means."""
    return (
        "Your data are symmetric and linearly separable: whatever its width, the network ends as the linear "
        "support vector machine. Train that instead."
    )


RESULTS = (
    Result(
        "lyu_2021",
        "Separable and symmetric data, leaky ReLU, both layers trained: the end is the linear SVM",
        LYU_2021.at("the main theorem, on symmetric data"),
        "From a small start on separable and symmetric data, gradient flow of a two-layer leaky ReLU network "
        "converges to the linear hard-margin classifier, which has the largest margin of all such networks.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.RECALLED,
        advice=advice,
    ),
)
