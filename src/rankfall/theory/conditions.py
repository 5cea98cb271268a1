"""Hypotheses that many results share, each with the name and the number it is reported by."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall.theory.result import Hypothesis, at_least, at_most, fact
from rankfall.theory.situation import Situation

NEAR_SYMMETRY = 0.2  # an asymmetry up to which symmetric data are worth a comparison: our choice
NEAR_ORTHOGONAL = 0.5  # the largest |cosine| up to which nearly orthogonal inputs are: our choice


def _layers(s: Situation) -> str:
    trained = "all trained" if all(s.network.trained) else f"trained {s.network.trained}"
    outputs = "1 output" if s.network.outputs == 1 else f"{s.network.outputs} outputs"
    return f"{s.network.depth} layers, {outputs}, {trained}"


def two_layers(s: Situation) -> Hypothesis:
    """Two layers, one output."""
    return fact("two layers, one output", s.two_layers, _layers(s), "2 layers, 1 output")


def second_layer_fixed(s: Situation) -> Hypothesis:
    """Two layers, one output; the output weights all of one modulus and fixed."""
    equal = s.fixed_second and bool(s.a.all()) and np.ptp(np.abs(s.a)) <= 1e-12 * np.abs(s.a).max()
    return fact("second layer +-c, fixed", bool(equal), _layers(s), "two layers, a_j = +-c not trained")


def both_signs(s: Situation) -> Hypothesis:
    """Output weights of both signs; ask only for two-layer networks."""
    plus, minus = int((s.a > 0).sum()), int((s.a < 0).sum())
    return fact("output weights of both signs", min(plus, minus) > 0, f"{plus} +, {minus} -", "1 of each")


def fixed_second_margins(s: Situation) -> Iterator[Hypothesis]:
    """Margins of a two-layer network with a fixed second layer +-c: the setting of many results."""
    yield second_layer_fixed(s)
    yield loss_is(s, "exponential", "logistic")
    if s.fixed_second and s.signs:
        yield bias_in_first_layer_only(s)


def both_layers_trained(s: Situation) -> Hypothesis:
    """Two layers, one output, both trained."""
    return fact("two layers, both trained", s.both_trained, _layers(s), "2 layers, 1 output, both trained")


def no_bias(s: Situation) -> Hypothesis:
    """No layer has a bias."""
    found = "biases" if s.network.has_bias else "none"
    return fact("no biases", not s.network.has_bias, found, "none")


def bias_in_first_layer_only(s: Situation) -> Hypothesis:
    """At most the first layer has a bias: then it is the weight of a coordinate 1."""
    upper = any(b is not None for b in s.network.biases[1:])
    return fact("no biases above the first layer", not upper, "biases" if upper else "none", "none")


def slope_is(s: Situation, low: float, high: float, name: str) -> Hypothesis:
    """The slope lies in [low, high]; `name` says what that is called, like "ReLU"."""
    needed = f"{low:g}" if low == high else f"in [{low:g}, {high:g}]"
    return fact(name, low <= s.slope <= high, f"slope {s.slope:g}", f"slope {needed}")


def leaky(s: Situation) -> Hypothesis:
    """A slope strictly between 0 and 1."""
    return fact("leaky ReLU", 0 < s.slope < 1, f"slope {s.slope:g}", "slope in (0, 1)")


def relu(s: Situation) -> Hypothesis:
    """The slope 0."""
    return slope_is(s, 0.0, 0.0, "ReLU")


def loss_is(s: Situation, *names: str) -> Hypothesis:
    """One of these losses, as a mean or a sum."""
    return fact(f"{' or '.join(names)} loss", s.loss.name in names, str(s.loss), " or ".join(names))


def gradient_flow(s: Situation) -> Hypothesis:
    """Gradient flow; descent with a step size below 1 / max |x|^2 is near it."""
    measured = "gradient flow" if s.step is None else f"descent with steps of {s.step:g}"
    near = s.step is not None and s.step * s.norms.max() ** 2 <= 1
    return Hypothesis("gradient flow", measured, "gradient flow", s.step is None, near)


def gradient_descent(s: Situation) -> Hypothesis:
    """Gradient descent with a step size."""
    measured = "gradient flow" if s.step is None else f"steps of {s.step:g}"
    return fact("gradient descent", s.step is not None, measured, "a step size: assess(..., step=...)")


def labels(s: Situation) -> Hypothesis:
    """Targets -1 and +1, both present."""
    return fact("labels -1 and +1", s.signs, "yes" if s.signs else "other targets", "-1 and +1, both present")


def symmetric(s: Situation) -> Hypothesis:
    """(x, y) is in the data as often as (-x, -y)."""
    return at_most("symmetric data", s.asymmetry, 1e-12, reach=NEAR_SYMMETRY)


def separable(s: Situation) -> Hypothesis:
    """Some linear classifier is right on all samples."""
    yes = s.svm is not None
    return fact("linearly separable", yes, "yes" if yes else "no", "yes")


def nearly_orthogonal(s: Situation, needed: float) -> Hypothesis:
    """p(X) is at least `needed`."""
    asked = at_least("p(X), near-orthogonality", s.p, needed)
    return replace(asked, near=s.cosine <= NEAR_ORTHOGONAL)


def orthogonal(s: Situation) -> Hypothesis:
    """All inputs are orthogonal to each other, and none is zero."""
    return at_most("orthogonal inputs: largest |cosine|", s.cosine, 1e-10, reach=0.1)


def balanced_start(s: Situation, reach: float | None = None) -> Hypothesis:
    """|a_j| = |w_j| for all neurons of a two-layer network."""
    lengths = np.linalg.norm(s.w, axis=1)
    unbalanced = float(np.abs(np.abs(s.a) - lengths).max() / max(lengths.max(), 1e-300))
    return at_most("balanced start: largest | |a_j| - |w_j| | / max |w|", unbalanced, 1e-8, reach)


def small_start(s: Situation, bound: float, reach: float) -> Hypothesis:
    """The norm of the trained weights at the start."""
    return at_most("small initial weights", s.start_norm, bound, reach=reach)
