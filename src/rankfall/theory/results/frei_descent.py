r"""Descent of a network with a fixed second layer on nearly orthogonal data: a low stable rank at all times.

Every weight change is $a_j \sum_i y_i C_{ji} x_i$ with $\gamma S_i \le C_{ji} \le S_i$: the pulls of a sample
keep their sign. From this alone, for any step sizes, batches and times,
$sr(W_t - W_0) \le \frac{(1+\gamma)^2}{4\gamma}\,\kappa$, with $\kappa$ the condition number of the matrix of
cosines of the inputs; $W_t$ itself is of low stable rank where the first step outweighs $W_0$; and if the
inputs are nearly orthogonal and $W_0$ is small, the loss is of order $1/t$ and the margins stay together.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.judge import at_most
from rankfall.limits import Limit
from rankfall.loss import logistic, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import FREI
from rankfall.theory.mathematics import fixed_second
from rankfall.trajectory import Trajectory

POSITIVE_SLOPE = Condition("positive-slope", "slope above 0")
INDEPENDENT = Condition("independent-inputs", "independent inputs: least eigenvalue of their cosines")
FIRST_STEP = Condition("first-step-outweighs", "the first step outweighs the start: step |gradient| / |W_0|")
NEAR_ORTHOGONAL = Condition("near-orthogonal", "near-orthogonality: R_min^2 slope^2 / (5 C_R n zeta)")

# Theorem 4.2 asks for R_min^2 >= 5 slope^-2 C_R n zeta with C_R = 10 R^2 slope^-2 + 10, as we recall it.
ORTHOGONALITY, RATIO = 5.0, 10.0
ROUNDED = at_most(1e-9, "rounding: changes are small beside the weights")


def bound_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Positive slopes and independent inputs; nothing about the start, the steps or the batches."""
    yield fixed_second.second_fixed(s)
    yield conditions.margin_loss(s)
    if not (s.fixed_second and s.signs):
        return
    yield POSITIVE_SLOPE.fact(s.slope > 0, f"slope {s.slope:g}", "slope in (0, 1]")
    least, _ = fixed_second.cosines(s)
    yield INDEPENDENT.at_least(least, 1e-10)


def collapse_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """The same, and a first step of full descent that outweighs the initial weights."""
    yield from bound_hypotheses(s)
    yield conditions.gradient_descent(s)
    if s.step is None or not (s.fixed_second and s.signs and s.slope > 0 and s.norms.min() > 0):
        return
    ratio = s.step * np.linalg.norm(fixed_second.gradient(s)) / max(float(np.linalg.norm(s.w)), 1e-300)
    yield FIRST_STEP.at_least(float(ratio), 1.0)


def descent_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 4.2, with a longer step and a larger start than it asks for; a flow has steps of 0."""
    yield fixed_second.second_fixed(s)
    yield conditions.margin_loss(s)
    if not (s.fixed_second and s.signs):
        return
    yield POSITIVE_SLOPE.fact(s.slope > 0, f"slope {s.slope:g}", "slope in (0, 1]")
    yield NEAR_ORTHOGONAL.at_least(orthogonality(s), 1.0, reach=0.02)
    yield fixed_second.short_steps(s)
    yield fixed_second.small_outputs(s)


def orthogonality(s: Situation) -> float:
    """R_min^2 slope^2 / (5 C_R n zeta) with the constants of Theorem 4.2; s.p is R_min^2 / (R^2 n zeta)."""
    if not (s.norms.min() > 0 and s.slope > 0):
        return 0.0
    r2 = (s.norms.max() / s.norms.min()) ** 2
    return float(s.p * r2 * s.slope**2 / (ORTHOGONALITY * RATIO * (r2 / s.slope**2 + 1)))


def bound_predictions(s: Situation) -> Iterator[Prediction]:
    """The change since the start is of low stable rank, and mostly along the output weights."""
    bound = fixed_second.stable_rank_bound(s)
    yield Prediction(
        "stable rank of the change",
        f"sr(W_t - W_0) <= {bound:.4g} at all times",
        bound,
        lambda e: [Spectrum.of(change).stable_rank for change in _changes(e)],
        ROUNDED,
        Relation.AT_MOST,
    )
    yield Prediction(
        "along the output weights",
        f"at least 1/{bound:.4g} of |W_t - W_0|^2 is in the direction of the output weights",
        1 / bound,
        lambda e: [(s.a @ c @ (s.a @ c)) / (s.a @ s.a) / (c**2).sum() for c in _changes(e)],
        ROUNDED,
        Relation.AT_LEAST,
    )


def collapse_predictions(s: Situation) -> Iterator[Prediction]:
    """The stable rank after one step, and a bound for all times."""
    step = -(s.step or 0.0) * fixed_second.gradient(s)
    after = Spectrum.of(s.w + step).stable_rank
    yield Prediction(
        "after one step",
        f"the stable rank goes from {s.stable_rank:.4g} to {after:.4g} in one step",
        after,
        lambda e: Spectrum.of(_descended(e)[0]).stable_rank,
        ROUNDED,
    )
    frobenius = float(np.linalg.norm(s.w))
    spectral = frobenius / np.sqrt(s.stable_rank) if frobenius else 0.0
    first = fixed_second.least_change(s)
    if first > spectral:
        most = ((np.sqrt(fixed_second.stable_rank_bound(s)) * first + frobenius) / (first - spectral)) ** 2
        yield Prediction(
            "at all times",
            f"sr(W_t) <= {most:.4g} at all times after the first step",
            most,
            lambda e: [Spectrum.of(w).stable_rank for w in _descended(e)],
            ROUNDED,
            Relation.AT_MOST,
        )


def descent_predictions(s: Situation) -> Iterator[Prediction]:
    """The margins from both sides, hence the loss, and how far they are from each other."""
    r = fixed_second.rates(s)
    yield Prediction(
        "margins grow like log t",
        f"every margin is at least log({np.exp(-r.start):.4g} + {r.slow:.4g} t): the mean loss is at most "
        f"{1 / r.slow:.4g} / t",
        lambda e: r.least_margin(e.times),
        lambda e: fixed_second.margins(e).min(axis=1),
        ROUNDED,
        Relation.AT_LEAST,
    )
    yield Prediction(
        "and no faster",
        f"every margin is at most log({np.exp(r.start):.4g} + {r.fast:.4g} t): the loss is of order 1/t",
        lambda e: r.largest_margin(e.times),
        lambda e: fixed_second.margins(e).max(axis=1),
        ROUNDED,
        Relation.AT_MOST,
    )
    yield Prediction(
        "margins stay together",
        f"two margins never differ by more than {np.log(r.ratio):.4g}",
        float(np.log(r.ratio)),
        fixed_second.spread,
        ROUNDED,
        Relation.AT_MOST,
    )


# What is measured


def _changes(e: Evidence) -> np.ndarray:
    """W_t - W_0 at the records after the start; of a limit its direction, for W_0 is nothing to it."""
    if e.is_limit:
        return e.last.w[None]
    w = e.last.w[None] if e.start.has_bias else e.networks.weights[0][1:]
    changes = w - e.situation.w
    return changes[np.abs(changes).max(axis=(1, 2)) > 0]


def _descended(e: Evidence) -> np.ndarray:
    """The first layer after 1, ... steps."""
    if not e.descends or 1 not in e.run["step"].values:
        raise Unmeasurable("needs a run of descent with a record of the step 1")
    return fixed_second.first_layers(e)[e.run["step"].values >= 1]


def _runs(s: Situation) -> Trajectory | Limit:
    from rankfall.dynamics import descent

    records, kept = [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 400], ["weights", "loss"]
    return descent(s.network, s.data, s.loss, s.step or 0.1, 400, record=records, measures=kept, show=False)


def _network(slope: float = 0.5, sigma: float = 0.1) -> Network:
    return Network.fixed_second_layer((30, 20, 1), slope=slope, sigma=sigma, seed=0)


def bound_example() -> Example:
    """Six samples with random labels, and steps far too short to move the stable rank of W_0 itself."""
    data = sets.nearly_orthogonal(n=6, dim=30, p=3.0, seed=0)
    return Example(Situation(_network(), data, logistic, 0.05), _runs)


def collapse_example() -> Example:
    """The same from smaller weights, and with longer steps."""
    s = bound_example().situation
    return Example(replace(s, network=_network(sigma=1e-3), step=2.0), _runs)


def descent_example() -> Example:
    """The same for p(X) = 2000, where 5 slope^-2 C_R = 1000 is needed."""
    data = sets.nearly_orthogonal(n=6, dim=30, p=2000.0, seed=0)
    return Example(Situation(_network(sigma=1e-2), data, logistic, 4.0), _runs)


def bound_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    return _broken(bound_example().situation)


def collapse_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = collapse_example().situation
    return _broken(s) | {
        conditions.gradient_descent: replace(s, step=None),
        FIRST_STEP: replace(s, step=1e-3),
    }


def descent_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = descent_example().situation
    shared = _broken(s)
    crowded = shared.pop(INDEPENDENT)
    return shared | {
        NEAR_ORTHOGONAL: crowded,
        fixed_second.short_steps: replace(s, step=100.0),
        fixed_second.small_outputs: replace(s, network=_network(sigma=30.0)),
    }


def _broken(s: Situation) -> dict[Condition, Situation]:
    n, x, y = s.network, s.data.x, s.data.y
    return {
        fixed_second.second_fixed: replace(s, network=Network(n.weights, slope=0.5)),
        conditions.margin_loss: replace(s, loss=square),
        POSITIVE_SLOPE: replace(s, network=_network(slope=0.0)),
        INDEPENDENT: replace(s, data=Data(np.vstack([x, x]), np.append(y, y), "everything twice")),
    }


def advice(s: Situation) -> str | None:
    """What it means, where the bound is well below what any matrix obeys."""
    bound = fixed_second.stable_rank_bound(s)
    if bound > min(s.w.shape) / 4:
        return None
    return (
        f"Whatever the steps and batches, training adds a matrix of stable rank {bound:.3g} at most to the "
        "first layer: from a small start it ends nearly of low rank, and can be cut to a few directions."
    )


RESULTS = (
    Result(
        "stable_rank_bound",
        "What descent adds to the first layer is of low stable rank, at all times",
        FREI.at("behind Theorem 4.2; derived here"),
        "With a fixed second layer, a positive slope and independent inputs, sr(W_t - W_0) is at most "
        "(1 + slope)^2 / (4 slope) times the condition number of the cosines, for any steps and batches.",
        bound_hypotheses,
        bound_predictions,
        bound_example,
        bound_broken,
        kind=Kind.DERIVED,
        advice=advice,
        stochastic=True,
    ),
    Result(
        "one_step_collapse",
        "If the first step outweighs the initial weights, the stable rank falls at once, and stays low",
        FREI.at("Theorem 4.2 (iii); derived here"),
        "The ratio of the first step to the initial weights decides whether the stable rank collapses in one "
        "step; then it is bounded at all times by a number known at the start.",
        collapse_hypotheses,
        collapse_predictions,
        collapse_example,
        collapse_broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "frei_descent",
        "Descent on nearly orthogonal data: the loss falls like 1/t, and margins stay together",
        FREI.at("Theorem 4.2 (i); derived here without smoothness"),
        "If the inputs are nearly orthogonal, steps are short and the start is small, the loss is of order "
        "1/t and two margins never differ by more than a constant.",
        descent_hypotheses,
        descent_predictions,
        descent_example,
        descent_broken,
        kind=Kind.DERIVED,
    ),
)
