r"""Descent of (leaky) ReLU networks with a fixed second layer, kinks included, on nearly orthogonal data.

Along a step the secant slopes of the activation lie in $[\gamma, 1]$, so that no smoothness is needed: the
margins of all samples grow like $\log t$ and stay within $\log C$ of each other. A leaky neuron turns to the
samples of its sign and never back; from then on each sign block changes in one direction only, and its stable
rank tends to 1. With ReLU the neurons active at the start stay so, and the stable rank is bounded.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import logistic, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import KOU
from rankfall.theory.core.tolerances import GROWN, at_the_end
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results.frei_flow import two_vectors
from rankfall.trajectory import Trajectory

NEARLY_LEAKY = Condition("near-orthogonal", "near-orthogonality: R_min^2 slope^4 / (R^2 n zeta)")
NEARLY_RELU = Condition("near-orthogonal", "near-orthogonality: R_min^2 / (R^2 n zeta)")
SEEN = Condition("seen", "share of its neurons that see a sample, least")

# R_min^2 >= C R^2 slope^-4 n zeta is recalled as a form only: with this C the proof here goes through.
ORTHOGONALITY = 60.0
SHARE = 0.25  # of the neurons of its sign that must see a sample at the start (ReLU): our choice
ROUNDED = at_most(1e-9, "an inequality, up to rounding")


def leaky_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Nearly orthogonal inputs, short steps (those of a flow are 0), and a small start."""
    yield conditions.second_layer_fixed(s)
    yield conditions.margin_loss(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.leaky(s)
    yield conditions.both_signs(s)
    yield from descends(s, s.slope**4, NEARLY_LEAKY)


def relu_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """The same for the slope 0, and enough neurons that every sample is seen by many."""
    yield conditions.second_layer_fixed(s)
    yield conditions.margin_loss(s)
    if not (s.fixed_second and s.signs):
        return
    yield conditions.relu(s)
    yield conditions.both_signs(s)
    yield from descends(s, 1.0, NEARLY_RELU)
    share = shares(s).min() if (s.a > 0).any() and (s.a < 0).any() else 0.0
    yield SEEN.at_least(float(share), SHARE, reach=0.1)


def descends(s: Situation, factor: float, nearly: Condition) -> Iterator[Hypothesis]:
    """What both ask of the data, the step and the start."""
    found = s.p * factor if s.norms.min() > 0 and factor else 0.0
    yield nearly.at_least(found, ORTHOGONALITY, reach=1.0)
    yield fixed_second.short_steps(s)
    yield fixed_second.small_outputs(s)


def sees(s: Situation) -> np.ndarray:
    """Which neurons are active on which samples of their sign at the start (m, n)."""
    return np.asarray((s.w @ s.x.T > 0) & (np.outer(s.a, s.y) > 0))


def shares(s: Situation) -> np.ndarray:
    """Of each sample the share of the neurons of its sign that see it at the start."""
    return np.asarray(sees(s).sum(axis=0) / (np.outer(s.a, s.y) > 0).sum(axis=0))


def leaky_predictions(s: Situation) -> Iterator[Prediction]:
    """One direction a block, equal margins, and a norm of order log t."""
    r = fixed_second.rates(s)
    yield Prediction(
        "turning",
        "sign(a_j) y_i <w_j, x_i> never falls: neurons turn to the samples of their sign, and never back",
        0.0,
        _turning,
        at_most(1e-12, "rounding, relative to the largest"),
        Relation.AT_LEAST,
        scale=1.0,
    )
    yield Prediction(
        "settled part",
        "once they have turned, each sign block changes along the output weights only: the rest is constant",
        0.0,
        _drift,
        lambda e: at_the_end(e) if e.is_limit else ROUNDED,
    )
    yield Prediction(
        "block stable ranks",
        "the stable rank of each sign block tends to 1",
        np.ones(2),
        block_stable_ranks,
        _late,
    )
    yield Prediction(
        "equal margins",
        f"margins never differ by more than {np.log(r.ratio):.3g}, and grow: they become equal",
        lambda e: 0.0 if e.is_limit else float(np.log(r.ratio)),
        fixed_second.spread,
        lambda e: at_the_end(e) if e.is_limit else ROUNDED,
        Relation.AT_MOST,
    )
    solution = two_vectors(s.x, s.y, s.a, s.slope)
    if solution is None:
        return
    norm = float(np.linalg.norm(solution.w))
    yield Prediction(
        "norm of order log t",
        f"the norm of the first layer tends to {norm:.4g} times the margin, and so grows like log t",
        norm,
        lambda e: np.linalg.norm(e.last.w) / e.margins.min(),
        _late,
    )


def _late(e: Evidence) -> Interval:
    """A limit is exact; a run comes near like 1/log t, once the start is small beside it."""
    if e.is_limit:
        return at_the_end(e)
    if e.growth < GROWN:
        raise Unmeasurable(
            f"needs a later state: the weights are {e.growth:.2g} times those at the start, not {GROWN:g}"
        )
    because = "1/log t at the time t, and twice the share of the initial weights"
    return at_most(1 / max(e.log_time, np.log(2)) + 2 / e.growth, because)


def relu_predictions(s: Situation) -> Iterator[Prediction]:
    """Equal margins, and stable ranks bounded by how many neurons see each sample at the start."""
    active = sees(s).sum(axis=0)
    least, largest = fixed_second.cosines(s)
    yield ending.equal_margins(s)
    yield Prediction(
        "kept",
        "a neuron that sees a sample of its sign at the start sees it at the end",
        np.ones(int(active.sum())),
        lambda e: np.asarray(e.last.w @ s.x.T > 0)[sees(s)],
        at_most(0.0, "signs"),
    )
    if not (least > 1e-10 and active.min() > 0):
        return
    condition = largest / least
    blocks = [condition / shares(s)[s.y == sign].min() for sign in (1.0, -1.0)]

    def held(e: Evidence) -> Interval:
        why = "neurons at kinks of the other class: second order in near-orthogonality; and how late it is"
        return at_most(0.05 + at_the_end(e).high, why)

    yield Prediction(
        "block stable ranks",
        f"the stable ranks of the sign blocks end below {blocks[0]:.4g} and {blocks[1]:.4g}",
        np.array(blocks),
        block_stable_ranks,
        held,
        Relation.AT_MOST,
    )


# What is measured


def block_stable_ranks(e: Evidence) -> np.ndarray:
    """Those of the rows with positive and with negative output weights, at the end."""
    return np.array([Spectrum.of(e.last.w[e.situation.a * sign > 0]).stable_rank for sign in (1, -1)])


def _turning(e: Evidence) -> float:
    own = e.situation.own(e.last.w if e.is_limit else fixed_second.first_layers(e))
    return float((own if e.is_limit else np.diff(own, axis=0)).min() / np.abs(own).max())


def _drift(e: Evidence) -> float:
    """How much the part of the blocks that is not along the output weights has changed."""
    s = e.situation
    w = e.last.w[None] if e.is_limit else fixed_second.first_layers(e)
    settled = np.asarray((e.situation.own(w) > 0).all(axis=(1, 2)))
    if not settled[-1]:
        raise Unmeasurable("needs a later state: not all neurons have turned to their samples")
    w = w[np.nonzero(~settled)[0].max(initial=-1) + 1 :]
    rest = w.copy()
    for sign in (1, -1):
        own = s.a * sign > 0
        a = s.a[own] / np.linalg.norm(s.a[own])
        rest[:, own] -= a[:, None] * (a @ w[:, own])[:, None, :]
    before = 0.0 if e.is_limit else rest[:1]
    return float((np.linalg.norm(rest - before, axis=(1, 2)) / np.linalg.norm(w, axis=(1, 2))).max())


def _descends(s: Situation) -> Trajectory | Limit:
    from rankfall.dynamics import descent

    kept, records = ["weights", "loss"], [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 1500]
    return descent(s.network, s.data, s.loss, s.step or 1.0, 1500, record=records, measures=kept, show=False)


def _network(slope: float, positive: int = 4, sigma: float = 1e-3) -> Network:
    return Network.fixed_second_layer((8, 8, 1), slope=slope, sigma=sigma, seed=0, positive=positive)


def leaky_example() -> Example:
    """Four samples, p(X) = 2000 (960 is needed at the slope 1/2), 1500 steps of descent."""
    data = sets.nearly_orthogonal(n=4, dim=8, p=2000.0, seed=0)
    return Example(Situation(_network(0.5), data, logistic, 2.0), _descends)


def relu_example() -> Example:
    """The same with p(X) = 100 (60 is needed): where the flow ends."""
    data = sets.nearly_orthogonal(n=4, dim=8, p=100.0, seed=0)
    return Example(Situation(_network(0.0), data, logistic), ending.ends)


def _broken(s: Situation) -> dict[Condition, Situation]:
    n, slope = s.network, float(s.network.slope)
    return {
        conditions.second_layer_fixed: replace(s, network=Network(n.weights, slope=slope)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.both_signs: replace(s, network=_network(slope, positive=8)),
        NEARLY_LEAKY if slope else NEARLY_RELU: replace(
            s, data=Data(s.data.x + 50 * s.data.x.mean(axis=0), s.data.y, "correlated")
        ),
        fixed_second.short_steps: replace(s, step=100.0),
        fixed_second.small_outputs: replace(s, network=_network(slope, sigma=30.0)),
    }


def leaky_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = leaky_example().situation
    return _broken(s) | {conditions.leaky: replace(s, network=_network(0.0))}


def relu_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = relu_example().situation
    away = -np.abs(s.w) @ np.abs(s.x).T  # as preactivations: no neuron sees any sample
    blind = Network([away @ np.linalg.pinv(s.x.T), s.a[None]], slope=0.0, trained=(True, False))
    return _broken(s) | {
        conditions.relu: replace(s, network=_network(0.5)),
        SEEN: replace(s, network=blind),
    }


RESULTS = (
    Result(
        "kou_leaky",
        "Descent of leaky ReLU networks on nearly orthogonal data: one direction for each sign",
        KOU.at("the theorem on leaky ReLU"),
        "If R_min^2 >= C R^2 slope^-4 n zeta, steps are short and the start is small, each sign block's "
        "stable rank tends to 1, the margins become equal, and the norm grows like log t.",
        leaky_hypotheses,
        leaky_predictions,
        leaky_example,
        leaky_broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "kou_relu",
        "Descent of ReLU networks on nearly orthogonal data: equal margins and a bounded stable rank",
        KOU.at("the theorem on ReLU"),
        "If R_min^2 >= C R^2 n zeta, steps are short, the start is small and every sample is seen by a "
        "share of the neurons, the margins become equal and the stable ranks stay bounded.",
        relu_hypotheses,
        relu_predictions,
        relu_example,
        relu_broken,
        kind=Kind.CONJECTURE,
    ),
)
