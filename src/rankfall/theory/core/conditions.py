"""Conditions that many results ask for. Each is called on a situation: `leaky(s)`."""

from collections.abc import Iterator

import numpy as np

from rankfall.theory.core.hypothesis import Condition, Hypothesis, condition
from rankfall.theory.core.situation import Situation

NEAR_SYMMETRY = 0.2  # an asymmetry up to which symmetric data are worth a comparison: our choice
NEAR_ORTHOGONAL = 0.5  # the largest |cosine| up to which nearly orthogonal inputs are: our choice


# The network


def _layers(s: Situation) -> str:
    trained = "all trained" if all(s.network.trained) else f"trained {s.network.trained}"
    outputs = "1 output" if s.network.outputs == 1 else f"{s.network.outputs} outputs"
    return f"{s.network.depth} layers, {outputs}, {trained}"


@condition("second-layer-fixed", "second layer +-c, fixed")
def second_layer_fixed(it: Condition, s: Situation) -> Hypothesis:
    """Two layers, one output; the output weights all of one modulus and fixed."""
    equal = s.fixed_second and bool(s.a.all()) and np.ptp(np.abs(s.a)) <= 1e-12 * np.abs(s.a).max()
    return it.fact(bool(equal), _layers(s), "two layers, a_j = +-c not trained")


@condition("both-layers-trained", "two layers, both trained")
def both_layers_trained(it: Condition, s: Situation) -> Hypothesis:
    """Two layers, one output, both trained."""
    return it.fact(s.both_trained, _layers(s), "2 layers, 1 output, both trained")


@condition("both-signs", "output weights of both signs")
def both_signs(it: Condition, s: Situation) -> Hypothesis:
    """Output weights of both signs; ask only for two-layer networks."""
    plus, minus = int((s.a > 0).sum()), int((s.a < 0).sum())
    return it.fact(min(plus, minus) > 0, f"{plus} +, {minus} -", "1 of each")


@condition("no-biases", "no biases")
def no_bias(it: Condition, s: Situation) -> Hypothesis:
    """No layer has a bias."""
    return it.fact(not s.network.has_bias, "biases" if s.network.has_bias else "none", "none")


@condition("no-upper-biases", "no biases above the first layer")
def bias_in_first_layer_only(it: Condition, s: Situation) -> Hypothesis:
    """At most the first layer has a bias: then it is the weight of a coordinate 1."""
    upper = any(b is not None for b in s.network.biases[1:])
    return it.fact(not upper, "biases" if upper else "none", "none")


@condition("no-skips", "no skips")
def no_skips(it: Condition, s: Situation) -> Hypothesis:
    """No layer closes a residual block."""
    return it.fact(not s.network.has_skips, "skips" if s.network.has_skips else "none", "none")


@condition("leaky", "leaky ReLU")
def leaky(it: Condition, s: Situation) -> Hypothesis:
    """A slope strictly between 0 and 1."""
    return it.fact(0 < s.slope < 1, f"slope {s.slope:g}", "slope in (0, 1)")


@condition("relu", "ReLU")
def relu(it: Condition, s: Situation) -> Hypothesis:
    """The slope 0."""
    return it.fact(s.slope == 0, f"slope {s.slope:g}", "slope 0")


# How it is trained


@condition("square-loss", "square loss")
def square_loss(it: Condition, s: Situation) -> Hypothesis:
    """The square loss, as a mean or a sum."""
    return it.fact(s.loss.name == "square", str(s.loss), "square")


@condition("square-or-logistic-loss", "square or logistic loss")
def square_or_logistic_loss(it: Condition, s: Situation) -> Hypothesis:
    """One of these losses, as a mean or a sum."""
    return it.fact(s.loss.name in ("square", "logistic"), str(s.loss), "square or logistic")


@condition("margin-loss", "exponential or logistic loss")
def margin_loss(it: Condition, s: Situation) -> Hypothesis:
    """A loss of margins, as a mean or a sum."""
    return it.fact(s.loss.name in ("exponential", "logistic"), str(s.loss), "exponential or logistic")


@condition("gradient-flow", "gradient flow")
def gradient_flow(it: Condition, s: Situation) -> Hypothesis:
    """Gradient flow; descent with a step size below 1 / max |x|^2 is near it."""
    measured = "gradient flow" if s.step is None else f"descent with steps of {s.step:g}"
    near = s.step is not None and s.step * s.norms.max() ** 2 <= 1
    return Hypothesis(it, measured, "gradient flow", s.step is None, near)


@condition("gradient-descent", "gradient descent")
def gradient_descent(it: Condition, s: Situation) -> Hypothesis:
    """Gradient descent with a step size."""
    measured = "gradient flow" if s.step is None else f"steps of {s.step:g}"
    return it.fact(s.step is not None, measured, "a step size: assess(..., step=...)")


@condition("no-penalty", "no L2 penalty")
def no_penalty(it: Condition, s: Situation) -> Hypothesis:
    """The loss alone is minimised."""
    return it.at_most(s.penalty, 0.0)


def fixed_second_margins(s: Situation) -> Iterator[Hypothesis]:
    """Margins of a two-layer network with a fixed second layer +-c: the setting of many results."""
    yield second_layer_fixed(s)
    yield margin_loss(s)
    if s.fixed_second and s.signs:
        yield bias_in_first_layer_only(s)


# The data


@condition("symmetric", "symmetric data")
def symmetric(it: Condition, s: Situation) -> Hypothesis:
    """(x, y) is in the data as often as (-x, -y)."""
    return it.at_most(s.asymmetry, 1e-12, reach=NEAR_SYMMETRY)


@condition("separable", "linearly separable")
def separable(it: Condition, s: Situation) -> Hypothesis:
    """Some linear classifier is right on all samples."""
    yes = s.svm is not None
    return it.fact(yes, "yes" if yes else "no", "yes")


@condition("orthogonal", "orthogonal inputs: largest |cosine|")
def orthogonal(it: Condition, s: Situation) -> Hypothesis:
    """All inputs are orthogonal to each other, and none is zero."""
    return it.at_most(s.cosine, 1e-10, reach=0.1)


# The start


@condition("balanced", "balanced start: largest | |a_j| - |w_j| | / max |w|")
def balanced_start(it: Condition, s: Situation) -> Hypothesis:
    """|a_j| = |w_j| for all neurons of a two-layer network."""
    return it.at_most(imbalance(s), 1e-8)


def imbalance(s: Situation) -> float:
    """The largest | |a_j| - |w_j| |, relative to the largest |w_j|."""
    lengths = np.linalg.norm(s.w, axis=1)
    return float(np.abs(np.abs(s.a) - lengths).max() / max(lengths.max(), 1e-300))
