r"""If one step of descent activates every neuron on the samples of its sign, and on no others, it stays so.

Each sign block then moves along one vector only, descent is that of a linear classifier in twice as many
dimensions, and its direction is the one solution of the convex problem of `frei_flow`, on data that need not
be nearly orthogonal: $y_i y_k \langle x_i, x_k\rangle \ge 0$ will do. All is known after one step.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.judge import at_most
from rankfall.limits import Limit, limit
from rankfall.loss import exponential, square
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import HASHIMOTO
from rankfall.theory.core.tolerances import at_the_end
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results.frei_flow import two_vectors
from rankfall.theory.results.kou_descent import ORTHOGONALITY
from rankfall.trajectory import Trajectory

ALIGNED = Condition("aligned", "aligned or nearly orthogonal data")
SHORT_STEPS = Condition("short-steps", "short steps: step |a|^2 R_max^2 (times n for a sum)")
ACTIVATED = Condition("activated", "activated after one step: least sign(a_j) y_i cos(w_j, x_i)")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """What the first step does, and data on which it cannot be undone."""
    yield from conditions.fixed_second_margins(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.leaky(s)
    yield conditions.both_signs(s)
    yield conditions.gradient_descent(s)
    aligned = _aligned(s)
    yield aligned
    if s.step is None or not aligned.holds:
        return
    # Where all is active, the loss is smooth with this constant (times its value, if it is exponential).
    share = s.step * float(s.a @ s.a) * s.norms.max() ** 2 * len(s.y) / s.parts
    yield SHORT_STEPS.at_most(float(share), 1.0)
    w = first_step(s)
    lengths = np.outer(np.linalg.norm(w, axis=1), s.norms)
    cosine = s.own(w) / np.where(lengths > 0, lengths, 1.0)
    least = float(cosine.min())
    yield ACTIVATED.at_least(least, 1e-12)


def _aligned(s: Situation) -> Hypothesis:
    """Every sample pulls its neurons to the others' right side, or hardly at all."""
    near = s.p * s.slope**4 if s.norms.min() > 0 and s.slope > 0 else 0.0
    nearly = near >= ORTHOGONALITY and fixed_second.start_output(s) <= fixed_second.START
    return ALIGNED.fact(
        s.mu >= 0 or nearly,
        f"least y_i y_k cos(x_i, x_k) {s.mu:.3g}, p(X) slope^4 {near:.3g}",
        f"≥ 0, or ≥ {ORTHOGONALITY:g} from a small start",
    )


def first_step(s: Situation) -> np.ndarray:
    """The first layer after one step, in closed form."""
    return np.asarray(s.w - (s.step or 0.0) * fixed_second.gradient(s))


def rest(s: Situation, w: np.ndarray) -> np.ndarray:
    """What of the sign blocks is not along one vector: each row less the mean of its block (a_j = +-c)."""
    plus = (s.a > 0)[:, None]
    means = [np.where(side, w, 0.0).sum(axis=-2, keepdims=True) / side.sum() for side in (plus, ~plus)]
    return np.asarray(w - np.where(plus, *means))


def predictions(s: Situation) -> Iterator[Prediction]:
    """The pattern, what stays of the first step, and the end."""
    yield Prediction(
        "pattern",
        "after one step every neuron is active on the samples of its sign, and only on these, for ever",
        np.sign(np.outer(s.a, s.y)),
        _patterns,
        at_most(0.0, "signs"),
        scale=1.0,
    )
    left = rest(s, first_step(s))
    yield Prediction(
        "rest",
        f"what each neuron has beside the mean of its sign stays what one step left, of norm "
        f"{np.linalg.norm(left):.3g}",
        lambda e: np.zeros_like(left) if e.is_limit else left,
        lambda e: rest(s, e.last.w) if e.is_limit else rest(s, fixed_second.first_layers(e)[-1]),
        lambda e: at_the_end(e) if e.is_limit else at_most(1e-9, "exact: rounding over the steps"),
    )
    solution = two_vectors(s.x, s.y, s.a, s.slope)
    if solution is None:
        return
    yield ending.first_layer(solution.w, "the direction is that of the convex problem in two vectors")
    yield ending.rank_of(solution.w)


# What is measured


def _patterns(e: Evidence) -> np.ndarray:
    """Signs of the pre-activations: of the limit, or at all records after the first step."""
    s = e.situation
    if e.is_limit or s.network.has_bias:
        return np.sign(e.last.w @ s.x.T)
    w = fixed_second.first_layers(e)
    return np.sign((w[e.run["step"].values >= 1] if e.descends else w[1:]) @ s.x.T)


def _ends(s: Situation) -> Trajectory | Limit:
    """Where the flow ends that starts after the first step."""
    after = Network([first_step(s), s.network.weights[1]], slope=s.slope, trained=(True, False))
    return limit(after, s.data, s.loss, optimality=False, budget=2000, show=False)


def _network(slope: float = 0.3, positive: int = 4, sigma: float = 1e-5) -> Network:
    return Network.fixed_second_layer((5, 10, 1), slope=slope, sigma=sigma, seed=0, positive=positive)


def example() -> Example:
    """Two cones of samples more than a right angle apart: aligned, and far from orthogonal."""
    data = sets.orthogonally_separable(n=8, dim=5, seed=0)
    return Example(Situation(_network(), data, exponential, 0.4), _ends)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    rng = np.random.default_rng(0)
    return {
        conditions.second_layer_fixed: replace(s, network=Network(s.network.weights, slope=0.3)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(
            s, network=Network(s.network.weights, [None, [0.0]], 0.3, (True, False))
        ),
        conditions.leaky: replace(s, network=_network(slope=0.0)),
        conditions.both_signs: replace(s, network=_network(positive=10)),
        conditions.gradient_descent: replace(s, step=None),
        ALIGNED: replace(s, data=Data(rng.normal(size=(8, 5)), s.data.y)),
        SHORT_STEPS: replace(s, step=40.0),
        ACTIVATED: replace(s, network=_network(sigma=1.0)),
    }


def advice(s: Situation) -> str:
    """What it means."""
    return (
        "One step puts every neuron on the side where it stays: from there on training is that of a linear "
        "classifier, and two neurons, one of each sign, are enough."
    )


RESULTS = (
    Result(
        "hashimoto",
        "If one step activates every neuron on its samples, descent is linear from then on",
        HASHIMOTO.at("the all-activated condition, as others report it"),
        "If after one step every neuron is active on the samples of its sign only, and the data are aligned "
        "or nearly orthogonal, it stays so, and descent tends to the solution of one convex problem.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
        advice=advice,
    ),
)
