"""The losses: square, logistic, exponential and cross-entropy, each as a mean or a sum over the samples.

Every loss also knows its own logarithm, computed without ever forming the loss: at margins of 10,000 the
loss underflows, its logarithm and the gradient of that do not. What is a function of the margin alone is
written once, as a `MarginLoss`, for NumPy and JAX arrays alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from rankfall._naming import unknown
from rankfall._precision import Array, in_float64

Outputs = Float[Array, "n *outputs"]
Targets = Float[Array, "n *targets"]  # a column may stand for a vector; classes are a vector
Margins = Float[Array, "*shape"]


@dataclass(frozen=True)
class MarginLoss:
    r"""A loss $\ell(q)$ of the margin q: functions of arrays of margins, NumPy's or JAX's, of any shape.

    - `value`: $\ell(q)$, which underflows at large margins; `log`: $\log\ell(q)$, which does not.
    - `log_pull`: $\log(-\ell'(q))$; `pull`: $-\ell'(q)$, which underflows.
    - `steepness`: $\ell''(q) / (-\ell'(q))$, how fast the logarithm of the pull falls.
    - `at_log`: the margin at which the logarithm of the loss is the number given.
    """

    value: Callable[[Margins], Margins]
    log: Callable[[Margins], Margins]
    log_pull: Callable[[Margins], Margins]
    steepness: Callable[[Margins], Margins]
    at_log: Callable[[Margins], Margins]

    def pull(self, q: Margins) -> Margins:
        r"""$-\ell'(q)$."""
        return q.__array_namespace__().exp(self.log_pull(q))


@dataclass(frozen=True)
class Loss:
    """A loss of one sample, and how the samples are put together.

    `loss(f, y)` is the mean (or sum) over samples; `loss.log(f, y)` its logarithm, free of underflow.
    `loss.mean` and `loss.sum` are the same loss with the one or the other reduction; as a string:
    "logistic" or "logistic.mean", "logistic.sum".
    """

    name: str
    formula: str
    targets: Literal["numbers", "signs", "classes"]
    margin_loss: MarginLoss | None = None  # none for the square loss
    reduction: Literal["mean", "sum"] = "mean"

    @property
    def mean(self) -> "Loss":
        """The mean over the samples."""
        return replace(self, reduction="mean")

    @property
    def sum(self) -> "Loss":
        """The sum over the samples."""
        return replace(self, reduction="sum")

    @property
    def of_margin(self) -> MarginLoss:
        """The loss of one sample as a function of its margin: y f, or the soft margin of a class."""
        if self.margin_loss is None:
            raise ValueError(
                f"the {self.name} loss is not a function of the margin. Take the logistic or the exponential "
                "loss, or the cross-entropy."
            )
        return self.margin_loss

    def pointwise(self, f: Outputs, y: Targets) -> Float[Array, " n"]:
        """The loss of each sample; NumPy's for NumPy arrays."""
        return _square(f, y) if self.targets == "numbers" else self.of_margin.value(self._margins(f, y))

    def pulls(self, f: Float[Array, "*shape"], y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        r"""$-\partial\ell/\partial f$ of each sample, for one output; NumPy's for NumPy arrays."""
        return y - f if self.targets == "numbers" else y * self.of_margin.pull(y * f)

    def _margins(self, f: Outputs, y: Targets) -> Float[Array, " n"]:
        return soft_margin(f, y) if self.targets == "classes" else y * f

    @in_float64
    def __call__(self, f: Outputs, y: Targets, weight: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        """The loss of the outputs `f` on the targets `y`; `weight` (0 or 1) leaves samples out."""
        each = self.pointwise(f, _like(y, f))
        if weight is None:
            return each.mean() if self.reduction == "mean" else each.sum()
        total = (weight * each).sum()
        return total / weight.sum() if self.reduction == "mean" else total

    @in_float64
    def log(self, f: Outputs, y: Targets, weight: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        """The logarithm of the loss; `weight` (0 or 1) leaves samples out."""
        if self.margin_loss is None:
            return jnp.log(self(f, y, weight))
        total = logsumexp(self.margin_loss.log(self._margins(f, _like(y, f))), b=weight)
        count = np.log(len(y)) if weight is None else jnp.log(weight.sum())
        return total - count if self.reduction == "mean" else total

    def check_targets(self, y: np.ndarray, outputs: int, training: bool = True) -> None:
        """Raise a ValueError where targets `y` do not fit this loss or a network with so many outputs.

        Those for `training` must be of two classes at least, where the loss is for classes.
        """
        if self.targets == "classes":
            _check_classes(y, outputs)
        elif y.reshape(len(y), -1).shape[1] != outputs:
            raise ValueError(f"the network has {outputs} outputs, but the targets have shape {y.shape}.")
        if self.targets == "signs":
            _check_signs(y, outputs, self.name)
        if training and self.targets != "numbers" and len(np.unique(y)) < 2:
            raise ValueError(
                f"all {len(y)} labels are {y[0]:g}: the {self.name} loss needs two classes at least."
            )

    def __str__(self) -> str:
        return f"{self.name}.{self.reduction}"


def _check_signs(y: np.ndarray, outputs: int, name: str) -> None:
    if outputs != 1:
        raise ValueError(f"the {name} loss is for one output; for {outputs} use 'cross_entropy'.")
    values = np.unique(y)
    if not np.isin(values, (-1.0, 1.0)).all():
        shown = ", ".join(f"{v:g}" for v in values[:5]) + (", ..." if len(values) > 5 else "")
        advice = ""
        if len(values) > 1 and (values == np.round(values)).all():
            two = f"{values[1]:g}, {values[0]:g}"
            advice = (
                f" Take two classes by `rf.data.pair(data, {two})`, or --prepare pair={two.replace(' ', '')}."
            )
        raise ValueError(f"the {name} loss needs labels -1 and +1, but the targets are {shown}.{advice}")


def _check_classes(y: np.ndarray, outputs: int) -> None:
    if outputs < 2:
        raise ValueError(
            "the cross_entropy loss needs one output per class, and so at least two; for one use 'logistic'."
        )
    if y.ndim != 1 or (y != np.round(y)).any() or y.min() < 0 or y.max() >= outputs:
        raise ValueError(
            f"the cross_entropy loss on {outputs} outputs needs class numbers 0 to {outputs - 1}, "
            f"but the targets reach from {y.min():g} to {y.max():g}."
        )


def _like(y: Targets, f: Outputs) -> Float[Array, "n ..."]:
    """Targets in the shape of the outputs, where there are as many: a column is a vector of numbers."""
    return y.reshape(f.shape) if y.size == f.size else y


def _square(f: Outputs, y: Targets) -> Float[Array, " n"]:
    each = (f - y) ** 2 / 2
    return each.sum(axis=-1) if each.ndim == 2 else each


def soft_margin(f: Outputs, y: Targets) -> Float[Array, " n"]:
    r"""$f_y - \log\sum_{k \ne y} e^{f_k}$: the number whose logistic loss is the cross-entropy."""
    others = jnp.arange(f.shape[-1]) != y[..., None].astype(int)
    right = jnp.where(others, 0.0, f).sum(axis=-1)
    return right - logsumexp(jnp.where(others, f, -jnp.inf), axis=-1)


def _exponential(q: Margins) -> Margins:
    return q.__array_namespace__().exp(-q)


def _minus(q: Margins) -> Margins:
    return -q


def _one(q: Margins) -> Margins:
    return q.__array_namespace__().ones_like(q)


def _logistic(q: Margins) -> Margins:
    return q.__array_namespace__().logaddexp(0.0, -q)


def _log_logistic(q: Margins) -> Margins:
    """Above 30 its series -q - e^-q/2, which is exact to rounding there."""
    xp, far = q.__array_namespace__(), q > 30.0
    series = -q - xp.exp(-xp.where(far, q, 30.0)) / 2
    return xp.where(far, series, xp.log(_logistic(xp.where(far, 0.0, q))))


def _log_logistic_pull(q: Margins) -> Margins:
    return -q.__array_namespace__().logaddexp(0.0, q)


def _logistic_steepness(q: Margins) -> Margins:
    """1 / (1 + e^-q)."""
    return q.__array_namespace__().exp(-_logistic(q))


def _logistic_at_log(s: Margins) -> Margins:
    """-log(exp(exp(s)) - 1): -s - exp(s)/2 where s is very negative, and -exp(s) where that is large."""
    xp, low, high = s.__array_namespace__(), s < -15.0, s > 4.0
    middle = xp.log(xp.expm1(xp.exp(xp.where(low | high, 0.0, s))))
    tail = s + xp.exp(xp.minimum(s, 0.0)) / 2
    return -xp.where(low, tail, xp.where(high, xp.exp(s), middle))


EXPONENTIAL = MarginLoss(_exponential, log=_minus, log_pull=_minus, steepness=_one, at_log=_minus)
LOGISTIC = MarginLoss(_logistic, _log_logistic, _log_logistic_pull, _logistic_steepness, _logistic_at_log)

square = Loss("square", "(f - y)^2 / 2", "numbers")
logistic = Loss("logistic", "log(1 + exp(-y f))", "signs", LOGISTIC)
exponential = Loss("exponential", "exp(-y f)", "signs", EXPONENTIAL)
cross_entropy = Loss("cross_entropy", "-log softmax(f)_y", "classes", LOGISTIC)

LOSSES = {loss.name: loss for loss in (square, logistic, exponential, cross_entropy)}


def named(loss: str | Loss) -> Loss:
    """The loss of that name: "square", or with its reduction "square.mean" (the default) or "square.sum"."""
    if isinstance(loss, Loss):
        return loss
    name, _, reduction = loss.partition(".")
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    if reduction not in ("", "mean", "sum"):
        raise unknown("reduction", reduction, ("mean", "sum"))
    return replace(LOSSES[name], reduction=reduction or "mean")  # type: ignore[arg-type]
