"""Where a flow stops."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Until:
    """Where a flow stops: at a time (`s` in the loss clock), or earlier at a loss or a gradient norm.

    `log_time` is the natural logarithm of a time, for times beyond float64; only `exact_flow` takes it.
    """

    time: float = np.inf
    loss: float | None = None
    gradient: float | None = None
    log_time: float | None = None

    def __post_init__(self) -> None:
        if not self.time > 0 or (np.isinf(self.time) and not self.condition):
            raise ValueError(
                "a flow must end: say `until` a positive time, or Until(loss=...), Until(gradient=...)."
            )
        if not all(bound is None or bound > 0 for bound in (self.loss, self.gradient)):
            raise ValueError("the loss or gradient to stop at must be positive.")

    @property
    def condition(self) -> str:
        """The conditions in words."""
        bounds = {"loss": self.loss, "gradient": self.gradient}
        said = [f"{name} <= {bound:g}" for name, bound in bounds.items() if bound is not None]
        return " or ".join(said + ([] if self.log_time is None else [f"log t >= {self.log_time:g}"]))
