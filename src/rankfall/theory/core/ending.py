"""What several results predict of the end of the flow, in one wording and with one way to measure it."""

from collections.abc import Callable

import numpy as np

from rankfall.judge import at_most
from rankfall.limits import Limit, limit
from rankfall.measure import Spectrum
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.result import Prediction
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.tolerances import at_the_end

PROBES = 4096
CERTIFICATE = at_most(0.0, "a certificate is there or not")
SIGNS = at_most(0.0, "signs")


def ends(s: Situation) -> Limit:
    """Where the flow ends: the evidence of many examples. On other labels the search gives up soon."""
    budget = 600 if s.both_trained else 5000
    return limit(s.network, s.data, s.loss, optimality=False, budget=budget, show=False)


def late(e: Evidence) -> Evidence:
    """The evidence, if it is late enough to be compared with the end."""
    at_the_end(e)
    return e


def arrives(whence: str = "") -> Prediction:
    """The limit exists: it is certified, or followed."""
    says = f"the flow converges in direction{whence}"
    return Prediction("arrives", says, 1.0, lambda e: float(e.limit.reached), CERTIFICATE)


def equal_margins(s: Situation) -> Prediction:
    """Every sample is a support vector."""
    return Prediction(
        "equal margins",
        "every sample is a support vector: all margins are equal in the limit",
        np.ones(len(s.y)),
        lambda e: e.margins / e.margins.min(),
        at_the_end,
    )


def first_layer(w: np.ndarray, says: str) -> Prediction:
    """The first layer at the margin 1, where the second layer is fixed; its norm completes the sentence."""
    return Prediction(
        "weights",
        f"{says}; at the margin 1 the norm of the first layer is {np.linalg.norm(w):.4g}",
        w,
        lambda e: e.last.w / e.margins.min(),
        at_the_end,
    )


def rank_of(w: np.ndarray) -> Prediction:
    """The stable rank of the first layer."""
    value = Spectrum.of(w).stable_rank
    return Prediction(
        "stable rank",
        f"the stable rank of the first layer tends to {value:.4g}",
        value,
        lambda e: e.last.stable_rank,
        at_the_end,
    )


def labels_pattern(s: Situation) -> Prediction:
    """Activation patterns that are the labels."""
    return Prediction(
        "activation pattern",
        "every neuron is active on the samples of its sign, and only on these",
        np.sign(np.outer(s.a, s.y)),
        lambda e: np.sign(late(e).last.w @ s.x.T),
        SIGNS,
        scale=1.0,
    )


def linear_boundary(of: Callable[[Evidence], Evidence] = lambda e: e, where: str = "") -> Prediction:
    """A linear decision boundary; `of` may refuse evidence for which it is not predicted."""
    return Prediction(
        "linear boundary",
        f"{where}sign f(x) = sign <z, x> for every x, with z = sum_j a_j w_j",
        0.0,
        lambda e: disagreement(of(late(e))),
        at_most(0.0, f"{PROBES} random directions; those within 1e-6 of the boundary are left out"),
    )


def disagreement(e: Evidence) -> float:
    """The share of random directions on which f and its linear predictor differ in sign."""
    s = e.situation
    h = np.random.default_rng(0).normal(size=(PROBES, s.x.shape[1])) @ e.last.w.T
    f, linear = np.where(h > 0, h, s.slope * h) @ s.a, h @ s.a
    sure = np.abs(linear) > 1e-6 * np.abs(h) @ np.abs(s.a)
    return float((sure & (f * linear < 0)).mean())
