"""The losses: square, logistic, exponential and cross-entropy, each as a mean or a sum over the samples.

Every loss also knows its own logarithm, computed without ever forming the loss: at margins of 10,000 the
loss underflows, its logarithm and the gradient of that do not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from rankfall.naming import unknown
from rankfall.precision import Array, in_float64

Outputs = Float[Array, "n *outputs"]
Targets = Float[Array, "n *outputs"]


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
    pointwise: Callable[[Outputs, Targets], Float[Array, " n"]]
    log_pointwise: Callable[[Outputs, Targets], Float[Array, " n"]] | None = None
    reduction: Literal["mean", "sum"] = "mean"

    @property
    def mean(self) -> "Loss":
        """The mean over the samples."""
        return replace(self, reduction="mean")

    @property
    def sum(self) -> "Loss":
        """The sum over the samples."""
        return replace(self, reduction="sum")

    @in_float64
    def __call__(self, f: Outputs, y: Targets, weight: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        """The loss of the outputs `f` on the targets `y`; `weight` (0 or 1) leaves samples out."""
        each = self.pointwise(f, _like(y, f))
        if weight is None:
            return each.mean() if self.reduction == "mean" else each.sum()
        total = (weight * each).sum()
        return total / weight.sum() if self.reduction == "mean" else total

    @in_float64
    def log(self, f: Outputs, y: Targets) -> Float[Array, ""]:
        """The logarithm of the loss."""
        if self.log_pointwise is None:
            return jnp.log(self(f, y))
        total = logsumexp(self.log_pointwise(f, _like(y, f)))
        return total - np.log(len(y)) if self.reduction == "mean" else total

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
            "the cross_entropy loss needs one output a class, so two at least; for one use 'logistic'."
        )
    if y.ndim != 1 or (y != np.round(y)).any() or y.min() < 0 or y.max() >= outputs:
        raise ValueError(
            f"the cross_entropy loss on {outputs} outputs needs class numbers 0 to {outputs - 1}, "
            f"but the targets reach from {y.min():g} to {y.max():g}."
        )


def _like(y: Targets, f: Outputs) -> Targets:
    """Targets in the shape of the outputs, where there are as many: a column is a vector of numbers."""
    return y.reshape(f.shape) if y.size == f.size else y


def _square(f: Outputs, y: Targets) -> Float[Array, " n"]:
    each = (f - y) ** 2 / 2
    return each.sum(axis=-1) if each.ndim == 2 else each


def _exponential(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return jnp.exp(-y * f)


def _log_exponential(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return -y * f


def _logistic(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return jax.nn.softplus(-y * f)


def _log_logistic(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return _log_softplus(-y * f)


def soft_margin(f: Outputs, y: Targets) -> Float[Array, " n"]:
    r"""$f_y - \log\sum_{k \ne y} e^{f_k}$: the number whose logistic loss is the cross-entropy."""
    others = jnp.arange(f.shape[-1]) != y[..., None].astype(int)
    right = jnp.where(others, 0.0, f).sum(axis=-1)
    return right - logsumexp(jnp.where(others, f, -jnp.inf), axis=-1)


def _cross_entropy(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return jax.nn.softplus(-soft_margin(f, y))


def _log_cross_entropy(f: Outputs, y: Targets) -> Float[Array, " n"]:
    return _log_softplus(-soft_margin(f, y))


def _log_softplus(z: Float[Array, " n"]) -> Float[Array, " n"]:
    """log(log(1 + e^z)); below -30 its series z - e^z/2, which is exact to rounding there."""
    low = z < -30.0
    return jnp.where(
        low, z - jnp.exp(jnp.where(low, z, -30.0)) / 2, jnp.log(jax.nn.softplus(jnp.where(low, 0.0, z)))
    )


square = Loss("square", "(f - y)^2 / 2", "numbers", _square)
logistic = Loss("logistic", "log(1 + exp(-y f))", "signs", _logistic, _log_logistic)
exponential = Loss("exponential", "exp(-y f)", "signs", _exponential, _log_exponential)
cross_entropy = Loss("cross_entropy", "-log softmax(f)_y", "classes", _cross_entropy, _log_cross_entropy)

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
