"""Evidence: a run or a limit, asked in one way. What it cannot tell, it says how to record."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from rankfall.limits import Limit, kkt_distance
from rankfall.measure import MEASURES, Context, Measure, parameter_norm, with_weights
from rankfall.network import Network
from rankfall.theory.core.situation import Situation
from rankfall.trajectory import Trajectory


class Unmeasurable(Exception):
    """This evidence cannot tell; the text says what would."""


class Evidence:
    """A run or a limit that started in `situation`.

    Limits know where the flow ends, runs know the way there. What is asked for and not known raises
    `Unmeasurable`.
    """

    def __init__(self, situation: Situation, source: Trajectory | Limit):
        self.situation = situation
        self.source = source
        if isinstance(source, Trajectory) and len(source.networks) > 1:
            raise ValueError(f"{len(source.networks)} networks ran together: verify them one by one.")
        self._known: dict[str, Any] = {}
        if _form(situation.network) != _form(self.network):
            raise ValueError(f"this evidence is of {self.network!r}, not of {situation.network!r}.")

    @property
    def is_limit(self) -> bool:
        """Is it a limit, and not a run?"""
        return isinstance(self.source, Limit)

    @property
    def limit(self) -> Limit:
        """The limit."""
        if not isinstance(self.source, Limit):
            raise Unmeasurable("needs where the flow ends: verify rankfall.limit(network, data, loss)")
        return self.source

    @property
    def run(self) -> Trajectory:
        """The run."""
        if not isinstance(self.source, Trajectory):
            raise Unmeasurable("needs a run: verify what flow, exact_flow or descent returns")
        return self.source

    @property
    def start(self) -> Network:
        """The network at the start."""
        return self.situation.network

    @property
    def network(self) -> Network:
        """The last network of the run; of a limit, the limit itself (scaled to the margin 1)."""
        return self.source.network

    @cached_property
    def last(self) -> Situation:
        """The situation with the last network: its `w`, `a` and so on are those at the end."""
        return replace(self.situation, network=self.network)

    @cached_property
    def margins(self) -> np.ndarray:
        """The margins y_i f(x_i) of the last network."""
        return np.asarray(self.situation.y * self.network(self.situation.data.x), dtype=float)

    @cached_property
    def conducted(self) -> Situation:
        """The situation with the steps of this run: None for a flow. Of a limit, the situation itself."""
        step = None if self.is_limit or not self.descends else self.step_size
        same = self.is_limit or step == self.situation.step
        return self.situation if same else replace(self.situation, step=step)

    def refusal(self, stochastic: bool) -> str:
        """Why the run is not of the kind that was asked about, whatever its steps; empty if it is."""
        if self.is_limit:
            return ""
        penalty, optimiser = self.situation.penalty, self.run.settings.get("optimiser", "sgd")
        if not self.descends:
            return "needs descent with the penalty: a flow has none" if penalty else ""
        if optimiser != "sgd" and not penalty:
            return f"needs plain descent, not {optimiser}"
        if self.run.settings.get("rule") is not None:
            return "needs steps of one size, not loss-based ones"
        if self.batch is not None and not stochastic:
            return "needs full batches, not SGD"
        return ""

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, made only once: for what several predictions compare with."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    # Along a run

    @property
    def axis(self) -> str:
        """What the run is recorded over: "time", "step", or "s" in the loss clock."""
        return next(str(dim) for dim in ("time", "step", "s") if dim in self.run.dataset.dims)

    @property
    def descends(self) -> bool:
        """Is it a run of descent, and not of a flow?"""
        return self.axis == "step"

    @property
    def in_loss_clock(self) -> bool:
        """Is it a run of a flow in the loss clock?"""
        return self.axis == "s"

    @property
    def batch(self) -> int | None:
        """The batch size of a run of SGD; None for full batches, and for a flow."""
        size = self.run.settings.get("batch")
        return None if size is None else int(size)

    @cached_property
    def times(self) -> np.ndarray:
        """The recorded times of the flow; of descent, steps times the step size."""
        values = np.asarray(self.run.dataset[self.axis].values, dtype=float)
        if self.descends:
            return values * float(np.ravel(self.run.settings["step"])[0])
        if self.in_loss_clock:
            with np.errstate(over="ignore"):
                return np.exp(np.asarray(self.run.dataset["log_time"].values))
        return values

    @property
    def log_time(self) -> float:
        """The logarithm of the last time, also where that overflows."""
        if self.in_loss_clock:
            return float(self.run.dataset["log_time"].values[-1])
        return float(np.log(max(self.times[-1], 1e-300)))

    @property
    def step_size(self) -> float:
        """The step size of a run of descent; 0 for a flow."""
        return float(np.ravel(self.run.settings["step"])[0]) if self.descends else 0.0

    @cached_property
    def networks(self) -> Network:
        """The networks at the recorded times: one network whose arrays have time as their first axis."""
        start = self.start
        if start.has_bias:
            raise Unmeasurable("needs the weights along the run, which are kept for bias-free networks")
        if "weights" not in self.run.dataset:
            raise Unmeasurable("needs the weights along the run: record the measure 'weights'")
        flat = np.asarray(self.run["weights"].values, dtype=float).reshape(len(self.times), -1)
        return with_weights(start, flat)

    def at(self, record: int) -> Network:
        """The network at one record."""
        if record == -1:
            return self.network
        return jax.tree.map(lambda leaf: leaf[record], self.networks)

    def series(self, measure: str | Measure) -> np.ndarray:
        """A measure along the run, one row for each record: as recorded, or from the recorded weights."""
        measure = MEASURES[measure] if isinstance(measure, str) else measure
        if measure.name in self.run.dataset:
            return np.asarray(self.run[measure.name].values, dtype=float)
        try:
            networks = self.networks
        except Unmeasurable as error:
            raise Unmeasurable(f"needs the measure {measure.name!r} along the run: record it") from error
        context = Context(self.situation.data, self.start, self.situation.loss)
        every = [jax.tree.map(lambda leaf, i=i: leaf[i], networks) for i in range(len(self.times))]
        return np.stack([np.squeeze(_value(measure, network, context)) for network in every])

    # How late it is

    @cached_property
    def kkt(self) -> tuple[float, float]:
        """How far the last state is from a KKT point of the margin problem: (epsilon, pulled).

        - epsilon: what is missing to stationarity, relative to the weights. Of a limit it is the largest
            residual, and `pulled` is 0.
        - pulled: how far samples off the margin still pull the weights. Where the margins are concave, the
            distance to the limit W is bounded by |W_t - W|^2 <= sum_i lambda_i (q_i - 1) + |W_t - W| epsilon
            at the least margin 1, with the margins q and multipliers lambda of W_t; pulled is the root of
            twice the sum, relative to the weights.
        """
        if isinstance(self.source, Limit):
            judged = [value for name, value in self.source.residuals.items() if name != "misfit"]
            return float(np.max(judged, initial=0.0)) if judged else np.inf, 0.0
        order, least = self.network.homogeneity, float(self.margins.min())
        if not order or not least > 0:
            return np.inf, np.inf
        epsilon, _, multipliers = kkt_distance(self.network, self.situation.data)
        squares = float(parameter_norm(self.network)) ** 2 * least ** (-2 / order)
        return epsilon, float(np.sqrt(2 * multipliers @ (self.margins / least - 1) / squares))

    @property
    def growth(self) -> float:
        """How many times larger the trained weights are than at the start; infinite for a limit."""
        if self.is_limit:
            return np.inf
        return float(parameter_norm(self.network)) / max(float(parameter_norm(self.start)), 1e-300)


def _form(network: Network) -> tuple[object, ...]:
    """What training does not change."""
    return (
        network.widths,
        network.linear_tail,
        network.trained,
        network.skip_kinds,
        tuple(b is None for b in network.biases),
        float(network.slope),
    )


def _value(measure: Measure, network: Network, context: Context) -> Any:
    given = {"network": network, "data": context.data, "loss": context.loss, "start": context.start}
    return measure(**{name: given[name] for name in measure.parameters})
