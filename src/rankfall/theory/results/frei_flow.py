r"""Gradient flow of a leaky ReLU network with a fixed second layer on nearly orthogonal data.

Every KKT point of the margin problem is the same: all neurons of one sign are one vector, v or u, the
solution of a convex problem in two vectors; the rank is two at most and the decision boundary is linear.

$\min \frac{m_1}2|v|^2 + \frac{m_2}2|u|^2$ with $c\,(m_1 v - \gamma m_2 u)\cdot x_i \ge 1$ for $y_i = 1$ and
$c\,(m_2 u - \gamma m_1 v)\cdot x_i \ge 1$ for $y_i = -1$, where c is the modulus of the output weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data, HardMargin, hard_margin_of_gram
from rankfall.judge import at_most
from rankfall.limits import Limit, Optimal, limit
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Prediction, Relation, Result, Subject
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import FREI
from rankfall.theory.core.tolerances import at_the_end
from rankfall.trajectory import Trajectory

NEAR_ORTHOGONAL = Condition("near-orthogonal", "p(X), near-orthogonality")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 3.2: p(X) >= 3 slope^-3, from any start and for any width."""
    yield from conditions.fixed_second_margins(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.leaky(s)
    yield conditions.both_signs(s)
    yield conditions.gradient_flow(s)
    nearly = NEAR_ORTHOGONAL.at_least(s.p, 3 * s.slope**-3 if s.slope else np.inf)
    yield replace(nearly, near=s.cosine <= conditions.NEAR_ORTHOGONAL)


@dataclass(frozen=True)
class TwoVectors:
    """The solution (v, u) of the convex problem with its multipliers, and what follows from it."""

    v: np.ndarray
    u: np.ndarray
    multipliers: np.ndarray
    w: np.ndarray
    z: np.ndarray


def two_vectors(x: np.ndarray, y: np.ndarray, a: np.ndarray, slope: float) -> TwoVectors | None:
    """Solve the convex problem in v and u (Frei et al., Corollary 3.5); None if nothing is feasible."""
    c, plus, minus = np.abs(a).max(), (a > 0).sum(), (a < 0).sum()
    # In (sqrt(m1) v, sqrt(m2) u) it is a hard-margin problem; these are the coefficients of its features.
    on_v = c * np.sqrt(plus) * np.where(y > 0, 1.0, -slope)
    on_u = c * np.sqrt(minus) * np.where(y > 0, -slope, 1.0)
    solved = hard_margin_of_gram((np.outer(on_v, on_v) + np.outer(on_u, on_u)) * (x @ x.T))
    if solved is None:
        return None
    v = (solved.multipliers * on_v) @ x / np.sqrt(plus)
    u = (solved.multipliers * on_u) @ x / np.sqrt(minus)
    return TwoVectors(v, u, solved.multipliers, np.where(a[:, None] > 0, v, u), c * (plus * v - minus * u))


def predictions(s: Situation) -> Iterator[Prediction]:
    """The whole limit, from one convex problem."""
    solution = two_vectors(s.x, s.y, s.a, s.slope)
    if solution is None:
        return
    yield ending.equal_margins(s)
    yield ending.first_layer(solution.w, "the neurons of one sign are one vector, v or u")
    yield Prediction(
        "multipliers",
        f"the multipliers lie between {solution.multipliers.min():.4g} and {solution.multipliers.max():.4g}",
        solution.multipliers,
        lambda e: e.limit.multipliers,
        at_the_end,
    )
    yield ending.rank_of(solution.w)
    yield Prediction(
        "rank two", "the rank is at most 2: the third singular value vanishes", 0.0, _third, at_the_end
    )
    yield ending.labels_pattern(s)
    yield ending.linear_boundary()
    yield from _multiplier_bounds(s)
    if s.svm is not None:
        yield _near_svm(s, s.svm)
    yield Prediction(
        "global optimum",
        "the limit is a global optimum of the margin problem",
        1.0,
        _optimal,
        ending.CERTIFICATE,
    )
    yield ending.arrives(", from any start")


def _multiplier_bounds(s: Situation) -> Iterator[Prediction]:
    """Bounds that need no solution: Lemmas 16 to 18 and Proposition 4 of Frei et al. 2023 (COLT)."""
    unit = len(s.a) * np.abs(s.a).max() ** 2  # 1 for output weights +-1/sqrt(m)
    small, large = s.norms.min() ** 2 * unit, s.norms.max() ** 2 * unit
    low, high = 1 / (2 * large), 1.5 / (s.slope**2 * small)
    r2, equal = large / small, 2 * (s.a > 0).sum() == len(s.a)
    pr2 = s.p * r2
    if equal and s.slope * pr2 > 2:  # the sharper bounds are stated for as many + as - neurons
        low = (1 - 1 / (s.slope * pr2 - 1)) / large
        high = 1 / (small * s.slope * (s.slope - 1 / pr2))
    allowed = at_most(1e-9, "inequalities: nothing but rounding")
    yield Prediction(
        "multipliers from below",
        f"every multiplier is at least {low:.3g}",
        low,
        lambda e: e.limit.multipliers,
        allowed,
        Relation.AT_LEAST,
    )
    yield Prediction(
        "multipliers from above",
        f"every multiplier is at most {high:.3g}",
        high,
        lambda e: e.limit.multipliers,
        allowed,
        Relation.AT_MOST,
    )
    if equal and s.slope * pr2 > 2:
        tau = r2 / s.slope**2 * (1 + 2 / (s.slope * pr2 - 2))
        yield Prediction(
            "uniform",
            f"no sample weighs more than {tau:.3g} times as much in z as another",
            tau,
            lambda e: float(e.limit.multipliers.max() / e.limit.multipliers.min()),
            allowed,
            Relation.AT_MOST,
        )


def _near_svm(s: Situation, svm: HardMargin) -> Prediction:
    """Sharper than 2/(kappa + slope) as printed: put multiples of the SVM for v and -u into the problem."""
    plus, minus = (s.a > 0).sum(), (s.a < 0).sum()
    kappa = np.sqrt(min(plus / minus, minus / plus))
    bound = float(np.sqrt(2 * (1 + kappa**2)) / (kappa + s.slope))
    return Prediction(
        "near the SVM",
        f"the linear predictor z is at most {bound:.3g} times as long as the hard-margin SVM",
        bound,
        lambda e: float(np.linalg.norm(s.a @ (e.last.w / e.margins.min())) / np.sqrt(svm.norm2)),
        at_the_end,
        Relation.AT_MOST,
    )


# What is measured: of a run its last state, scaled to the margin 1


def _third(e: Evidence) -> float:
    return float(Spectrum.of(e.last.w).share(3))


def _optimal(e: Evidence) -> float:
    found = e.limit.optimality
    if found is None:
        raise Unmeasurable("needs the search for a better network: rankfall.limit(..., optimality=True)")
    return float(found.verdict == Optimal.GLOBALLY)


def _ends(s: Situation) -> Trajectory | Limit:
    return limit(s.network, s.data, s.loss, show=False)


def _network(slope: float = 0.5, positive: int | None = None, **rest: bool) -> Network:
    return Network.fixed_second_layer((12, 10, 1), slope=slope, sigma=1e-2, seed=0, positive=positive, **rest)


def example() -> Example:
    """Eight samples with p(X) = 30, where 24 is needed at the slope 1/2; five neurons of each sign."""
    return Example(
        Situation(_network(), sets.nearly_orthogonal(n=8, dim=12, p=30.0, seed=0), exponential), _ends
    )


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        conditions.second_layer_fixed: replace(s, network=Network(s.network.weights, slope=0.5)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(
            s, network=Network(s.network.weights, [None, [0.0]], 0.5, (True, False))
        ),
        conditions.leaky: replace(s, network=_network(slope=0.0)),
        conditions.both_signs: replace(s, network=_network(positive=10)),
        conditions.gradient_flow: replace(s, step=10.0),
        NEAR_ORTHOGONAL: replace(s, data=Data(s.data.x + 50 * s.data.x.mean(axis=0), s.data.y, "correlated")),
    }


def advice(s: Situation) -> str:
    """What it means."""
    return (
        "Your inputs are nearly orthogonal: whatever the width, the network ends with two kinds of neurons "
        "and a linear decision boundary. A linear classifier says as much."
    )


RESULTS = (
    Result(
        "frei_flow",
        "Leaky ReLU, fixed second layer, nearly orthogonal data: where the flow ends",
        FREI.at("Theorem 3.2, Corollary 3.5"),
        "If p(X) >= 3 slope^-3, gradient flow converges in direction to the one network with two distinct "
        "neurons that solves a convex problem; its boundary is linear.",
        hypotheses,
        predictions,
        example,
        broken,
        advice=advice,
        subject=Subject.THE_END_OF_TRAINING,
    ),
)
