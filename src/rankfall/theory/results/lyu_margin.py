r"""Gradient flow of any homogeneous network raises its smoothed margin, once it has separated the data.

With the sum $\mathcal L$ of the losses, $\rho = |\theta|$ and the order of homogeneity $L$, the smoothed
margin is $\tilde\gamma = \ell^{-1}(\mathcal L)/\rho^L$. From when on it is positive, $\mathcal L < \ell(0)$,

$\frac{d \log\tilde\gamma}{d \log\rho} \ge L\,|d\hat\theta / d\log\rho|^2 = L\,(\beta^{-2} - 1)$,

where $\hat\theta = \theta/\rho$ and $\beta$ is the cosine of the angle between $\theta$ and its velocity. The
loss goes to zero: $\mathcal L\, T\, L^2 \gamma^{2/L} \log(1/\mathcal L)^{2 - 2/L} \to 1$, with the margin
$\gamma$ of the limit and the time T of the flow of the summed loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import Loss, exponential, square
from rankfall.measure import compiled, log_loss
from rankfall.network import Network, moving
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LYU_LI
from rankfall.theory.core.tolerances import integration
from rankfall.theory.results.lyu_kkt import CONSISTENT, HOMOGENEOUS, hypotheses
from rankfall.trajectory import Trajectory

SHARP = 0.5  # the largest error of a logarithm with which a rate is still compared: our choice


def predictions(s: Situation) -> Iterator[Prediction]:
    """Theorems 4.1 and 4.3 and Lemma 5.1, from the first record on at which the sum of the losses is below
    l(0)."""
    order, threshold = int(s.network.homogeneity or 0), "1" if s.loss.name == "exponential" else "log 2"
    yield Prediction(
        "smoothed margin",
        f"from a sum of losses below {threshold} on, the smoothed margin never decreases: it drops by 0",
        0.0,
        lambda e: _course(e).drop,
        integration,
        Relation.AT_MOST,
    )
    yield Prediction(
        "price of turning",
        f"between two times log(smoothed margin) grows by {order} |change of direction|^2 / change of "
        "log(norm), or more",
        lambda e: _course(e).price,
        lambda e: np.diff(_course(e).log_margin),
        integration,
        Relation.AT_LEAST,
        scale=1.0,
    )
    yield Prediction(
        "KKT on the way",
        "some state of the run is a KKT point up to a relative residual of (log(growth of the smoothed "
        f"margin) / {order} / log(growth of the norm))^(1/2)",
        lambda e: _course(e).promised,
        lambda e: _course(e).residuals.min(),
        integration,
        Relation.AT_MOST,
    )
    yield Prediction(
        "loss rate",
        f"log(1/loss) = log T + {2 - 2 / order:.3g} log log(1/loss) + log({order**2} margin^(2/{order}))",
        lambda e: _course(e).log_rate,
        lambda e: _course(e).exponent,
        lambda e: _rate_allowed(e, 0.0, 1.0),
        scale=1.0,
    )
    yield Prediction(
        "norm rate",
        f"margin * norm^{order} = log T + {2 - 2 / order:.3g} log log T + log({order**2} margin^(2/{order}))",
        lambda e: _course(e).norm,
        lambda e: _course(e).rho[-1],
        lambda e: _rate_allowed(e, np.log(len(s.y)), order * _course(e).exponent),
    )


@dataclass(frozen=True)
class Course:
    """A run from its threshold on, one entry a record: norms, directions, smoothed margins, cosines."""

    order: int
    rho: np.ndarray
    direction: np.ndarray
    smoothed: np.ndarray
    cosine: np.ndarray
    exponent: float  # log(1/loss) at the end, of the sum
    log_time: float  # at the end, of the flow of the sum
    margin: float  # the normalised margin at the end

    @property
    def drop(self) -> float:
        """How far the smoothed margin ever is below what it was before, relative to that."""
        highest = np.maximum.accumulate(self.smoothed)
        return float(((highest - self.smoothed) / highest).max())

    @property
    def log_margin(self) -> np.ndarray:
        """The logarithm of the smoothed margin."""
        return np.log(np.maximum(self.smoothed, 1e-300))

    @property
    def price(self) -> np.ndarray:
        """Lemma 5.1 between two records: the chord is no longer than the way (Cauchy and Schwarz)."""
        chord2 = (np.diff(self.direction, axis=0) ** 2).sum(axis=1)
        return np.asarray(self.order * chord2 / np.maximum(np.diff(np.log(self.rho)), 1e-12))

    @property
    def residuals(self) -> np.ndarray:
        """|theta - sum_i lambda_i h_i| / |theta| with multipliers along the pulls of the samples."""
        return np.sqrt(2 * (1 - self.cosine))

    @property
    def promised(self) -> float:
        """The mean of L (1/cosine^2 - 1) over log(norm) is at most the slope of log(smoothed margin)."""
        grown = np.log(self.rho[-1] / self.rho[0])
        slope = (self.log_margin[-1] - self.log_margin[0]) / grown if grown > 0 else 0.0
        return float(np.sqrt(np.maximum(slope, 0.0) / self.order))

    def _after(self, log_log: float, margin: float) -> float:
        power = 2 / self.order
        return float(self.log_time + (2 - power) * log_log + np.log(self.order**2 * margin**power))

    @property
    def log_rate(self) -> float:
        """What log(1/loss) tends to."""
        return self._after(np.log(self.exponent), max(float(self.smoothed[-1]), 1e-300))

    @property
    def norm(self) -> float:
        """What the norm tends to."""
        margin = max(self.margin, 1e-300)
        late = np.log(max(self.log_time, 1.0))
        return float((max(self._after(late, margin), 0.0) / margin) ** (1 / self.order))


def _course(e: Evidence) -> Course:
    course: Course = e.once("course after the threshold", lambda: _measure_course(e))
    return course


def _measure_course(e: Evidence) -> Course:
    s, smoothed = e.situation, e.series("smoothed_margin")
    reached = np.flatnonzero(smoothed > 0)
    if not len(reached) or reached[0] > len(smoothed) - 3:
        raise Unmeasurable(
            "needs three records after the sum of the losses is below its threshold: run longer"
        )
    networks = jax.tree.map(lambda leaf: leaf[reached[0] :], e.networks)
    theta, velocity = _motion(networks, s)
    rho, speed = np.linalg.norm(theta, axis=1), np.linalg.norm(velocity, axis=1)
    summed = np.log(s.parts)
    late = float(e.run["log_time"].values[-1]) if e.in_loss_clock else float(np.log(e.times[-1]))
    exponent = -float(e.series("log_loss")[-1]) - summed
    if not exponent > 1:
        raise Unmeasurable("needs a smaller loss: run longer, best in the loss clock")
    order = int(s.network.homogeneity or 0)
    return Course(
        order,
        rho,
        theta / rho[:, None],
        smoothed[reached[0] :],
        (theta * velocity).sum(axis=1) / rho / speed,
        exponent,
        late - summed,
        float(e.margins.min()) / rho[-1] ** order,
    )


def _motion(networks: Network, s: Situation) -> tuple[np.ndarray, np.ndarray]:
    """What is trained, one row a record, and its velocity in the loss clock."""
    theta, velocity = _motions(networks, s.data, s.loss)
    return np.asarray(theta), np.asarray(velocity)


@compiled
def _motions(networks: Network, data: Data, loss: Loss) -> tuple[Any, Any]:
    def at(network: Network) -> tuple[Any, Any]:
        trained, fixed = eqx.partition(network, moving(network))
        gradient = jax.grad(lambda part: log_loss.function(eqx.combine(part, fixed), data, loss))(trained)
        rows = [
            jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(part)]) for part in (trained, gradient)
        ]
        return rows[0], -rows[1]

    found: tuple[Any, Any] = jax.vmap(at)(networks)
    return found


def _rate_allowed(e: Evidence, more: float, scale: float) -> Interval:
    """First order in 1/log(1/loss): the entropy of the pulls, the logarithms, and the angle that is left."""
    course = _course(e)
    rest = (2 - 2 / course.order + 2 * np.log(len(e.situation.y))) / course.exponent
    turning = course.cosine[-1] ** -2 - 1
    if not rest + turning <= SHARP:
        raise Unmeasurable(
            f"needs a later state: the logarithm of the rate would be known to {rest + turning:.3g} only"
        )
    return at_most(
        2 * float(rest + turning + more) / scale,
        "twice (2 - 2/L + 2 log n) / log(1/loss), and what the direction still turns",
    )


def _runs(s: Situation) -> Trajectory | Limit:
    return flow(
        s.network,
        s.data,
        s.loss,
        1e80,
        measures=["weights", "loss"],
        record=list(np.geomspace(1.0, 1e80, 80)),
        budget=4000,
        show=False,
    )


def example() -> Example:
    """Three layers with the slope 1/2, to the time 1e80."""
    data = sets.orthogonally_separable(n=6, dim=4, seed=0)
    network = Network.gaussian((4, 5, 4, 1), slope=0.5, scale=1.5, seed=0)
    return Example(Situation(network, data, exponential), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    x, y = s.data.x, s.data.y
    return {
        conditions.margin_loss: replace(s, loss=square),
        HOMOGENEOUS: replace(s, network=Network(s.network.weights, [None, np.ones(4), None], slope=0.5)),
        conditions.gradient_flow: replace(s, step=10.0),
        CONSISTENT: replace(s, data=Data(np.vstack([x, 2 * x[:1]]), np.append(y, -y[0]))),
    }


RESULTS = (
    Result(
        "margin_maximisation",
        "Once a homogeneous network has separated the data, its smoothed margin only grows",
        LYU_LI.at("Theorems 4.1 and 4.3, Lemma 5.1"),
        "From a sum of losses below l(0) on, gradient flow never lowers the smoothed margin; every turn of "
        "the weights raises it; the loss falls like 1/(t log(t)^(2-2/L)), the norm grows like log(t)^(1/L).",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
