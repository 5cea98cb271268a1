"""Loss-based steps: they grow as the loss falls, and an epoch that does not lower the loss is taken back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rankfall.network import Network


@dataclass(frozen=True)
class LossBased:
    r"""Steps in proportion to $1/\mathcal{L}$, as in the code of Lyu and Li (2020) for their Fig. 1.

    A step is $r \mathcal{L}_0 / \mathcal{L}$ with a rate $r$, the loss $\mathcal{L}_0$ at the start, and the
    loss $\mathcal{L}$ of all samples after the last epoch that was kept. An epoch that lowers the loss is
    kept, and the rate multiplied by `up`; any other is taken back, and the rate divided by `down`. All in the
    log domain: a loss of $10^{-800}$ does not underflow. The defaults are those of Lyu and Li.

    - `first`: the first rate.
    - `up`, `down`: what the rate is multiplied by, or divided by, after an epoch.
    - `loss`: $\mathcal{L}_0$ (default: measured); Lyu and Li take $\log 10$ for ten classes. The first epoch
        is then kept if it ends below this loss.
    """

    first: float = 0.1
    up: float = 2 ** (1 / 5)
    down: float = 2 ** (1 / 10)
    loss: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("first", 0.0), ("up", 1.0), ("down", 1.0), ("loss", 0.0)):
            value = getattr(self, name)
            if value is not None and not least < value < np.inf:
                raise ValueError(f"`{name}` of LossBased must be a number above {least:g}, not {value}.")


class Epoch(eqx.Module):
    """What loss-based steps carry along: the weights after the last epoch that was kept, and the rate."""

    parameters: Network
    optimiser: Any
    log_loss: Any
    log_first: Any
    rate: Any
    kept: Any
    up: Any
    down: Any

    @classmethod
    def begin(cls, rule: LossBased, parameters: Network, optimiser: Any, log_loss: Any) -> "Epoch":
        """Before the first epoch, at weights of this loss."""
        log_first = jnp.asarray(log_loss if rule.loss is None else np.log(rule.loss), dtype=float)
        rate, up, down = (jnp.asarray(number, dtype=float) for number in (rule.first, rule.up, rule.down))
        return cls(parameters, optimiser, log_first, log_first, rate, jnp.zeros((), dtype=int), up, down)

    @property
    def size(self) -> Any:
        """The step on the loss divided by that of the last epoch kept."""
        return self.rate * jnp.exp(self.log_first)

    def value_and_grad(self, log_loss: Callable[[Network], Any], parameters: Network) -> tuple[Any, Network]:
        """The loss, and the gradient of its ratio to that of the last epoch kept.

        The gradient of a loss is that of its logarithm times the loss: so the ratio never underflows.
        """
        value, slope = jax.value_and_grad(log_loss)(parameters)
        ratio = jnp.exp(value - self.log_loss)
        return jnp.exp(value), jax.tree.map(lambda leaf: (ratio * leaf).astype(leaf.dtype), slope)

    def judged(self, parameters: Network, optimiser: Any, log_loss: Any) -> "Epoch":
        """After an epoch that ends with these weights, which are kept if they have a lower loss."""
        lower = log_loss < self.log_loss  # not so if it is NaN
        there = (parameters, optimiser, jnp.asarray(log_loss, dtype=float), self.rate * self.up)
        here = (self.parameters, self.optimiser, self.log_loss, self.rate / self.down)
        chosen = jax.tree.map(lambda new, old: jnp.where(lower, new, old), there, here)
        return eqx.tree_at(
            lambda e: (e.parameters, e.optimiser, e.log_loss, e.rate, e.kept),
            self,
            (*chosen, self.kept + lower),
        )
