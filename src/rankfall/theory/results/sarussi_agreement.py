r"""Neural agreement (Sarussi, Brutzkus and Globerson): all neurons of one sign agree on every sample.

While they agree, they move by the same vector, so that their differences stay what they are and vanish in
direction. If they agree from some time on, the limit is one vector for each sign, v and u, the solution of a
convex problem with the slopes $P^\pm_i$ of the agreement: $\min \frac{m_1}2|v|^2 + \frac{m_2}2|u|^2$ with
$c\, y_i (m_1 P^+_i v - m_2 P^-_i u) \cdot x_i \ge 1$, and $v \cdot x_i = 0$ (or $u \cdot x_i = 0$) where
they are held at the kink of $x_i$. The boundary is linear. Agreement can be lost again. It cannot if
$y_i y_k \langle x_i, x_k\rangle \ge 0$ for all pairs: then $a_j y_i \langle w_j, x_i\rangle$ never falls, and
a leaky network comes to agree with the labels from any start.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rankfall import data as sets
from rankfall.data import Data, hard_margin_of_gram
from rankfall.dynamics import exact_flow
from rankfall.judge import at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, square
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import SARUSSI
from rankfall.theory.core.tolerances import at_the_end, integration
from rankfall.theory.results.frei_flow import two_vectors
from rankfall.trajectory import Trajectory

ALIGNED = Condition("aligned", "aligned data: least y_i y_k cos(x_i, x_k)")


def _network_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    yield from conditions.fixed_second_margins(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.gradient_flow(s)
    yield conditions.both_signs(s)


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """What can be asked at the start; whether the neurons come to agree is for the limit to show."""
    yield from _network_hypotheses(s)
    if s.fixed_second and s.signs:
        yield conditions.leaky(s)
        yield conditions.separable(s)  # agreement and a linear boundary need it


def course_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Aligned data, any slope."""
    yield from _network_hypotheses(s)
    if s.fixed_second and s.signs:
        yield ALIGNED.at_least(s.mu if s.norms.min() > 0 else -1.0, -1e-12)


def aligned_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Aligned data and a leaky slope, from any start."""
    yield from course_hypotheses(s)
    if s.fixed_second and s.signs:
        yield conditions.leaky(s)


def agreed_limit(s: Situation, region: Any) -> np.ndarray:
    """The rows that solve the convex problem of a `region` (m, n): 1 above, -1 below, 0 at the kink."""
    sides = [region[np.argmax(s.a * sign > 0)] for sign in (1, -1)]
    features = []
    for sign, side in zip((1, -1), sides, strict=True):
        held = s.x[side == 0]
        # The inputs, less what is along those at whose kinks the neurons are held.
        free = s.x - s.x @ np.linalg.pinv(held) @ held if len(held) else s.x
        slopes = np.where(side == 1, 1.0, np.where(side == -1, s.slope, 0.0))
        features.append((sign * s.y * slopes)[:, None] * free)
    c, counts = np.abs(s.a).max(), [(s.a > 0).sum(), (s.a < 0).sum()]
    gram = sum(c**2 * count * f @ f.T for count, f in zip(counts, features, strict=True))
    solved = hard_margin_of_gram(gram)
    if solved is None:
        raise Unmeasurable("needs an agreement in which the classes can be separated")
    v, u = (c * solved.multipliers @ f for f in features)
    return np.where(s.a[:, None] > 0, v, u)


def predictions(s: Situation) -> Iterator[Prediction]:
    """If the neurons of each sign agree in the end: the convex problem, and a linear boundary."""
    yield Prediction(
        "weights",
        "if the neurons of a sign agree in the end, the limit solves the convex problem with their slopes",
        lambda e: agreed_limit(s, _agreed(e).limit.region),
        lambda e: _agreed(e).last.w / e.margins.min(),
        at_the_end,
    )
    yield ending.linear_boundary(_agreed, "if they agree, ")


def aligned_predictions(s: Situation) -> Iterator[Prediction]:
    """The neurons come to agree with the labels: the whole limit, from any start."""
    solution = two_vectors(s.x, s.y, s.a, s.slope)
    if solution is None:
        return
    yield ending.first_layer(solution.w, "from any start the limit solves the convex problem in two vectors")
    yield ending.rank_of(solution.w)
    yield ending.labels_pattern(s)
    yield ending.linear_boundary()
    yield ending.arrives(", from any start")


def course_predictions(s: Situation) -> Iterator[Prediction]:
    """Nothing that agrees with the labels is lost again."""
    yield Prediction(
        "pre-activations never fall",
        "sign(a_j) y_i <w_j, x_i> never falls, for any neuron and sample",
        0.0,
        lambda e: np.diff(_right(e), axis=0) / (np.abs(_right(e)).max() or 1.0),
        integration,
        Relation.AT_LEAST,
    )
    yield Prediction(
        "agreement only grows",
        "a neuron that is on the right side of a sample stays there",
        0.0,
        lambda e: float(((_right(e)[:-1] > 0) & (_right(e)[1:] <= 0)).sum()),
        at_most(0.0, "counts"),
    )


# What is measured


def agree(region: np.ndarray, a: np.ndarray) -> bool:
    """Do the neurons of each sign have the same side of every sample, or the same kink?"""
    return all(bool((region[a * y > 0] == region[np.argmax(a * y > 0)]).all()) for y in (1, -1))


def _agreed(e: Evidence) -> Evidence:
    """The evidence, if its neurons agree."""
    if not e.limit.reached or e.limit.region is None or not agree(e.limit.region, e.situation.a):
        raise Unmeasurable("needs a certified limit in which the neurons of each sign agree on every sample")
    return e


def _right(e: Evidence) -> np.ndarray:
    """sign(a_j) y_i <w_j, x_i> along the run: (times, m, n)."""
    return e.situation.own(e.networks.weights[0])


def _runs(s: Situation) -> Trajectory | Limit:
    record, measures = list(np.linspace(0, 20, 41)), ["weights", "loss"]
    return exact_flow(
        s.network, s.data, s.loss, 20.0, record=record, measures=measures, budget=5000, show=False
    )


def _network(dim: int, sigma: float, **rest: Any) -> Network:
    rest = {"slope": 0.2, "seed": 0, "positive": 3} | rest
    return Network.fixed_second_layer((dim, 8, 1), sigma=sigma, **rest)


def example() -> Example:
    """Six separable samples; the neurons agree, but not with all labels, and some are held at a kink."""
    rng = np.random.default_rng(11)
    x, w = rng.normal(size=(6, 3)) + np.array([1.0, 1.0, 0.0]), rng.normal(size=3)
    y = np.sign(x @ w)
    data = Data(x + 0.5 * np.outer(y, w) / np.linalg.norm(w), y, "separable")
    return Example(Situation(_network(3, 0.05, seed=11), data, exponential), ending.ends)


def aligned_example() -> Example:
    """Eight orthogonally separable samples, from a start that is not small."""
    data = sets.orthogonally_separable(n=8, dim=4, seed=0)
    return Example(Situation(_network(4, 0.5), data, exponential), ending.ends)


def course_example() -> Example:
    """The same, along the way."""
    return Example(aligned_example().situation, _runs)


def _broken(s: Situation) -> dict[Condition, Situation]:
    weights, dim = s.network.weights, s.network.widths[0]
    upper = Network(weights, [None, [0.0]], 0.2, (True, False))
    return {
        conditions.second_layer_fixed: replace(s, network=Network(weights, slope=0.2)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(s, network=upper),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.both_signs: replace(s, network=_network(dim, 0.1, positive=8)),
    }


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated; for separability a sample with both labels."""
    s = example().situation
    twice = Data(np.vstack([s.x, s.x[:1]]), np.append(s.y, -s.y[0]))
    return _broken(s) | {
        conditions.leaky: replace(s, network=_network(3, 0.1, slope=0.0)),
        conditions.separable: replace(s, data=twice),
    }


def course_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = aligned_example().situation
    return _broken(s) | {ALIGNED: replace(s, data=Data(s.x + 2, s.y))}


def aligned_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = aligned_example().situation
    return course_broken() | {conditions.leaky: replace(s, network=_network(4, 0.1, slope=0.0))}


def advice(s: Situation) -> str:
    """What it means."""
    return (
        "No two of your samples pull against each other: whatever the start and the width, the network ends "
        "with two kinds of neurons and a linear decision boundary. A linear classifier says as much."
    )


RESULTS = (
    Result(
        "sarussi",
        "Leaky ReLU, fixed second layer: what follows if the neurons of each sign agree in the end",
        SARUSSI.at("the neural agreement regime"),
        "If from some time on the neurons of each sign agree on every sample, the limit is one vector for "
        "each sign, the solution of a convex problem, and the boundary is linear.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "sarussi_aligned",
        "Leaky ReLU, fixed second layer, aligned data: the neurons come to agree from any start",
        SARUSSI.at("the neural agreement regime; entry derived for aligned data"),
        "If y_i y_k <x_i, x_k> >= 0 for all pairs, every neuron ends on the right side of every sample, and "
        "the limit is the one solution of a convex problem in two vectors.",
        aligned_hypotheses,
        aligned_predictions,
        aligned_example,
        aligned_broken,
        kind=Kind.DERIVED,
        advice=advice,
    ),
    Result(
        "sarussi_course",
        "Fixed second layer, aligned data: agreement with the labels is never lost",
        SARUSSI.at("the neural agreement regime; invariance derived for aligned data"),
        "If y_i y_k <x_i, x_k> >= 0 for all pairs, sign(a_j) y_i <w_j, x_i> never falls along the flow.",
        course_hypotheses,
        course_predictions,
        course_example,
        course_broken,
        kind=Kind.DERIVED,
    ),
)
