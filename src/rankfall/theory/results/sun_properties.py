r"""Sun and Tran's two target properties of the limit of ReLU networks on nearly orthogonal data.

The first, equal margins, is true. Let
$\xi = (n - 1) \max_{k \ne l} |\langle x_k, x_l\rangle| / \min_i |x_i|^2$. If $\xi \le 1/3$, then
$y_i f(x_i) = 1$ for all i at every KKT point of the margin problem. With the numbers
$A_i = \sum_j P_{ji}$ of neurons active on each sample

$\frac{1 - 3\xi}{1 - 2\xi} \le \lambda_i c^2 A_i |x_i|^2 \le \frac1{1 - 2\xi}, \qquad
\frac{|W|_F^2}{|W|_2^2} \le \frac m{\min_i A_i} \frac{1 - 2\xi}{(1 - \xi)(1 - 3\xi)}.$

The second, a stable rank of 2 at most, is false, even on orthogonal inputs. It is true where inner products
are positive within a class and not between the classes: there every row is one of two vectors, or zero.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rankfall.data import Data, hard_margin_of_gram
from rankfall.judge import at_most
from rankfall.loss import logistic, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import SUN
from rankfall.theory.core.tolerances import at_the_end
from rankfall.theory.results.kou_orthogonal import final_slopes

NEARLY = Condition("near-orthogonal", "near-orthogonality: min |x_i|^2 / ((n - 1) max |<x_i, x_k>|)")
LEARNS = Condition("learns", "loss below its threshold l(0)/n: neurons that can learn each sample, fewest")
WITHIN = Condition("cosine-within", "least cosine within a class")
BETWEEN = Condition("cosine-between", "largest cosine between the classes")
ACTIVE = Condition("active-neurons", "neurons active on a sample of their sign: fewest of a class")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Sections 3 and 4, with the constant 3 where the paper says that it is large and absolute."""
    yield from conditions.fixed_second_margins(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.relu(s)
    yield conditions.gradient_flow(s)
    nearly = NEARLY.at_least(1 / overlap(s) if overlap(s) > 0 else np.inf, 3.0)
    yield replace(nearly, near=s.cosine <= conditions.NEAR_ORTHOGONAL)
    fewest = float((final_slopes(s) != 0).sum(axis=0).min())
    separated = bool((s.y * np.asarray(s.network(s.data.x)) > 0).all())
    yield LEARNS.at_least(np.inf if separated else fewest, 1)


def overlap(s: Situation) -> float:
    """The xi of the statement: 0 for orthogonal inputs, infinite if an input is zero."""
    products = np.abs(s.gram)
    np.fill_diagonal(products, 0.0)
    shortest = float(s.norms.min()) ** 2
    if s.cosine == 0:
        return 0.0
    return float((len(s.y) - 1) * products.max() / shortest) if shortest > 0 else np.inf


def separable_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Orthogonally separable data instead of nearly orthogonal ones, and a neuron for each class."""
    yield from conditions.fixed_second_margins(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.relu(s)
    yield conditions.gradient_flow(s)
    cosines = s.gram / np.outer(s.norms, s.norms) if s.norms.min() > 0 else -np.eye(len(s.y))
    same = np.outer(s.y, s.y) > 0
    yield WITHIN.at_least(float(cosines[same].min()), 1e-10)
    yield BETWEEN.at_most(float(cosines[~same].max()), 1e-12)
    alive = (np.outer(s.a, s.y) > 0) & (s.w @ s.x.T > 0)
    fewest = min(float(alive[:, s.y == sign].any(axis=1).sum()) for sign in (1, -1))
    yield ACTIVE.at_least(fewest, 1)


def predictions(s: Situation) -> Iterator[Prediction]:
    """What every KKT point satisfies: property 1, and what is true instead of property 2."""
    yield Prediction(
        "equal margins",
        "every sample is a support vector: all margins are equal in the limit",
        np.ones(len(s.y)),
        lambda e: _end(e).margins / e.margins.min(),
        at_the_end,
    )
    yield Prediction(
        "arrives",
        "the flow converges in direction",
        1.0,
        lambda e: float(_end(e).limit.reached),
        at_most(0.0, "a certificate is there or not"),
    )
    xi = overlap(s)
    if not xi < 1 / 3:
        return
    low, high = (1 - 3 * xi) / (1 - 2 * xi), 1 / (1 - 2 * xi)
    yield Prediction(
        "multipliers above",
        f"with A_i neurons active on x_i, lambda_i c^2 A_i |x_i|^2 is at least {low:.4g}",
        low,
        _normalised_multipliers,
        at_the_end,
        Relation.AT_LEAST,
    )
    yield Prediction(
        "multipliers below",
        f"with A_i neurons active on x_i, lambda_i c^2 A_i |x_i|^2 is at most {high:.4g}",
        high,
        _normalised_multipliers,
        at_the_end,
        Relation.AT_MOST,
    )
    factor = 1 / (1 - xi) / low
    yield Prediction(
        "stable rank",
        f"the stable rank ends at {factor:.4g} m / min A_i at most",
        lambda e: factor * len(s.a) / active(e).min(),
        lambda e: _end(e).last.stable_rank,
        at_the_end,
        Relation.AT_MOST,
    )


def conjecture(s: Situation) -> Iterator[Prediction]:
    """Property 2, as it stands."""
    yield Prediction(
        "stable rank at most 2",
        "the stable rank of the first layer, its bias left out, ends at 2 at most",
        2.0,
        lambda e: Spectrum.of(np.asarray(_end(e).network.weights[0])).stable_rank,
        at_the_end,
        Relation.AT_MOST,
    )


def separable_predictions(s: Situation) -> Iterator[Prediction]:
    """Where property 2 is true: each sign is one vector, that of the greatest margin of its class."""
    yield from conjecture(s)
    vectors = np.stack([_class_vector(s, sign) for sign in (1, -1)])
    yield Prediction(
        "class vectors",
        "the neurons of a sign add up to the shortest h with <h, x_i> >= 1 on their class: of the norms "
        f"{np.linalg.norm(vectors[0]):.4g} and {np.linalg.norm(vectors[1]):.4g}",
        vectors,
        lambda e: np.stack([np.abs(s.a) * (s.a * y > 0) @ _end(e).last.w for y in (1, -1)]) / e.margins.min(),
        at_the_end,
    )
    yield Prediction(
        "one vector for each sign",
        "the stable rank of the neurons of each sign is 1: all that are not zero are equal",
        np.ones(2),
        lambda e: [Spectrum.of(_end(e).last.w[s.a * y > 0]).stable_rank for y in (1, -1)],
        at_the_end,
    )


def _class_vector(s: Situation, sign: int) -> np.ndarray:
    x = s.x[s.y == sign]
    solved = hard_margin_of_gram(x @ x.T)
    assert solved is not None  # the sum of the class has a positive margin
    return np.asarray(solved.multipliers @ x)


# What is measured


def _end(e: Evidence) -> Evidence:
    """The evidence, if the loss falls below the threshold at which Theorem 4.1 begins."""
    if e.is_limit and not e.limit.margins.min() > 0:
        raise Unmeasurable("needs a loss that falls below l(0)/n: this flow has not separated the classes")
    return e


def active(e: Evidence) -> np.ndarray:
    """The sum of the slopes over the neurons, for each sample: how many are active, kinks in parts."""
    if _end(e).limit.region is None:
        raise Unmeasurable("needs a limit with its activation region: that of a two-layer network")
    count = np.count_nonzero(e.limit.region == 1, axis=0).astype(float)
    for _, sample, slope in e.limit.kinks:
        count[sample] += slope
    return count


def _normalised_multipliers(e: Evidence) -> np.ndarray:
    s = e.situation
    return np.asarray(e.limit.multipliers * active(e) * s.a[0] ** 2 * s.norms**2)


def _data() -> Data:
    """Six samples, three of each class: nearly orthogonal with the constant 20, orthogonally separable."""
    rng = np.random.default_rng(0)
    y = np.array([1.0, -1, -1, 1, -1, 1])
    cosines = np.triu(rng.uniform(0.002, 0.01, (6, 6)), 1)
    gram = np.eye(6) + np.outer(y, y) * (cosines + cosines.T)
    q, r = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 6)))
    frame = (q * np.sign(np.diag(r))).T
    return Data(np.linalg.cholesky(gram) @ frame, y, "nearly orthogonal")


def example() -> Example:
    """A random start; inner products are small, positive within a class and negative between them."""
    network = Network.fixed_second_layer((10, 16, 1), slope=0.0, sigma=0.05, seed=11)
    return Example(Situation(network, _data(), logistic), ending.ends)


def _broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated: what all three results ask for."""
    s = example().situation
    weights = s.network.weights
    return {
        conditions.second_layer_fixed: replace(s, network=Network(weights)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(s, network=_network(*weights, biases=[None, [0.0]])),
        conditions.relu: replace(s, network=_network(*weights, slope=0.5)),
        conditions.gradient_flow: replace(s, step=10.0),
    }


def _network(first: np.ndarray, second: np.ndarray, **rest: Any) -> Network:
    return Network([first, second], trained=(True, False), **rest)


def _away(s: Situation, x: np.ndarray) -> Situation:
    """The situation with positive neurons that are not active on any of these inputs."""
    first = s.w.copy()
    for each in x:
        first[s.a > 0] -= np.outer(first[s.a > 0] @ each + 1, each) / (each @ each)
    return replace(s, network=_network(first, s.network.weights[1]))


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    far = replace(s, data=Data(s.x + 5 * s.x.mean(axis=0), s.y, "correlated"))
    return _broken() | {NEARLY: far, LEARNS: _away(s, s.x[:1])}


def separable_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated; a negative sample is turned round, or two are made equal."""
    s = example().situation
    turned, equal = s.x.copy(), s.x.copy()
    turned[1] *= -1
    equal[1] = equal[0]
    return _broken() | {
        WITHIN: replace(s, data=Data(turned, s.y)),
        BETWEEN: replace(s, data=Data(equal, s.y)),
        ACTIVE: _away(s, s.x[s.y > 0]),
    }


RESULTS = (
    Result(
        "sun_equal_margins",
        "ReLU, fixed second layer, nearly orthogonal data: equal margins in the limit",
        SUN.at("Section 4, property 1; proved here with the constant 3"),
        "If |x_i|^2 >= 3 (n - 1) |<x_k, x_l>| for all i and k != l, every sample is a support vector, and "
        "the stable rank is at most about m / min A_i with the number A_i of neurons active on x_i.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "sun_stable_rank",
        "ReLU, fixed second layer, nearly orthogonal data: a stable rank of 2 at most (refuted)",
        SUN.at("Section 4, property 2; refuted, see the errata"),
        "The stable rank of the first layer ends at 2 at most: a conjecture that is false in general.",
        hypotheses,
        conjecture,
        example,
        broken,
        kind=Kind.CONJECTURE,
    ),
    Result(
        "sun_orthogonally_separable",
        "ReLU, fixed second layer, orthogonally separable data: a stable rank of 2 at most",
        SUN.at("Section 4, property 2; proved here for orthogonally separable data"),
        "If inner products are positive within a class and not between the classes, every row of the limit "
        "is one of two vectors or zero, so that the stable rank is 2 at most.",
        separable_hypotheses,
        separable_predictions,
        example,
        separable_broken,
        kind=Kind.DERIVED,
    ),
)
