r"""Gradient flow of any homogeneous network that separates the data ends at a KKT point.

The margin problem is $\min \frac12|\theta|^2$ with $y_i f(x_i; \theta) \ge 1$. At a KKT point there are
$\lambda_i \ge 0$ with $\theta = \sum_i \lambda_i h_i$ and $\lambda_i (y_i f(x_i) - 1) = 0$, where $h_i$ is in
Clarke's subdifferential of $y_i f(x_i; \theta)$. In the features $h_i$ the network is its own support vector
machine: $\theta / L$ is the hard-margin solution, with the order of homogeneity L.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rankfall._precision import float64
from rankfall.data import Data, hard_margin
from rankfall.limits import Limit, kkt_distance, limit
from rankfall.loss import exponential, square
from rankfall.network import Network, moving
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LYU_LI
from rankfall.theory.core.tolerances import at_the_end
from rankfall.trajectory import Trajectory

HOMOGENEOUS = Condition("homogeneous", "homogeneous network")
CONSISTENT = Condition("consistent-samples", "no samples that contradict each other")

LIVE = 1e-6  # neurons smaller than this, relative to the largest, have vanished


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """(A1) to (A3) of Lyu and Li; (A4), that the loss falls below its threshold, is a fact about the run."""
    yield conditions.margin_loss(s)
    order = s.network.homogeneity
    yield HOMOGENEOUS.fact(bool(order), f"order {order}", "a bias in the first trained layer only")
    yield conditions.gradient_flow(s)
    if order and s.signs:
        told_apart = not _contradictions(s)
        found = "none" if told_apart else "equal up to a factor, with other labels; or zero"
        yield CONSISTENT.fact(told_apart, found, "none")


def _contradictions(s: Situation) -> bool:
    """Are there samples that no network of this shape has right: zero, or on one ray with other labels?

    Without biases f(c x) = c f(x) for c > 0. A bias of the first layer is a coordinate 1 of s.x; with biases
    further up only equal inputs contradict each other.
    """
    upper = any(b is not None for b in s.network.biases[1:])
    x = np.column_stack([s.x, np.ones(len(s.x))]) if upper else s.x
    size = np.linalg.norm(x, axis=1)
    if not size.min() > 0:
        return True
    rays = np.round(x / size[:, None], 12) + 0.0
    _, of = np.unique(rays, axis=0, return_inverse=True)
    of = of.ravel()
    return bool((np.abs(np.bincount(of, s.y)) < np.bincount(of)).any())


def predictions(s: Situation) -> Iterator[Prediction]:
    """Theorem 4.4 and Corollary 4.5, at the margin 1."""
    order = int(s.network.homogeneity or 0)
    yield Prediction(
        "stationarity",
        "the weights are a combination of gradients of margins with multipliers >= 0: they differ by 0",
        lambda e: _end(e).theta,
        lambda e: _end(e).multipliers @ _end(e).features,
        at_the_end,
    )
    yield Prediction(
        "support vectors",
        "the multipliers of samples with a margin above 1 are 0",
        0.0,
        lambda e: np.abs(_end(e).multipliers * (_end(e).margins - 1)).max() / _end(e).multipliers.sum(),
        at_the_end,
    )
    yield Prediction(
        "Euler",
        f"the multipliers add up to |theta|^2 / {order}",
        lambda e: (_end(e).theta ** 2).sum() / order,
        lambda e: _end(e).multipliers.sum(),
        at_the_end,
    )
    yield Prediction(
        "its own SVM",
        f"theta / {order} is the hard-margin SVM in the network's own features, the gradients of the margins",
        lambda e: order * _svm(_end(e).features),
        lambda e: _end(e).theta,
        at_the_end,
    )
    if s.both_trained:
        yield Prediction(
            "balanced neurons",
            "every neuron has |a_j| = |w_j|: the largest difference, relative to the largest |a_j|, is 0",
            0.0,
            _unbalanced,
            at_the_end,
        )
        yield Prediction(
            "unit pulls",
            "|sum_i lambda_i y_i s_ji x_i| = 1 for every neuron that is not zero, with its slopes s_ji",
            lambda e: np.ones(len(_pulls(e))),
            _pulls,
            at_the_end,
        )


# What is measured


@dataclass(frozen=True)
class End:
    """A limit, or the last state of a run, scaled to the margin 1."""

    theta: np.ndarray
    features: np.ndarray  # one row a sample
    multipliers: np.ndarray
    margins: np.ndarray


def _end(e: Evidence) -> End:
    end: End = e.once("end at the margin 1", lambda: _measure_end(e))
    return end


def _measure_end(e: Evidence) -> End:
    s, least = e.situation, float(e.margins.min())
    if not least > 0:
        raise Unmeasurable("needs a network that separates the data")
    trained, fixed = eqx.partition(e.network, moving(e.network))
    factor = 1.0 if e.is_limit else least ** (-1 / int(s.network.homogeneity or 1))
    network = eqx.combine(jax.tree.map(lambda leaf: leaf * factor, trained), fixed)
    multipliers = e.limit.multipliers if e.is_limit else kkt_distance(network, s.data)[2]
    if s.two_layers:
        theta, features = _two_layer_features(replace(s, network=network), _slopes(e))
    else:
        theta, features = _features(network, s)
    return End(theta, features, multipliers, e.margins / (1.0 if e.is_limit else least))


def _slopes(e: Evidence) -> np.ndarray:
    """The slope of every neuron on every sample; at the kinks of a limit, those it was certified with."""
    # Signs of zeros are rounding: a limit knows on which side it is.
    side = e.last.w @ e.last.x.T if not e.is_limit or e.limit.region is None else e.limit.region
    slopes = np.where(side > 0, 1.0, e.situation.slope)
    for neuron, sample, slope in e.limit.kinks if e.is_limit else ():
        slopes[neuron, sample] = slope
    return slopes


def _two_layer_features(s: Situation, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """theta = (w, a), as far as trained, and the subgradients of the margins in it."""
    first = np.einsum("j,ji,i,ik->ijk", s.a, slopes, s.y, s.x).reshape(len(s.y), -1)
    second = (s.y[:, None] * (s.x @ s.w.T)) * slopes.T
    parts = [(s.w.ravel(), first), (s.a, second)]
    kept = [part for part, trained in zip(parts, s.network.trained, strict=True) if trained]
    return np.concatenate([theta for theta, _ in kept]), np.hstack([rows for _, rows in kept])


def _features(network: Network, s: Situation) -> tuple[np.ndarray, np.ndarray]:
    """The same for a network of any shape, by differentiation."""
    trained, fixed = eqx.partition(network, moving(network))
    with float64():
        rows = jax.jacrev(lambda part: s.y * eqx.combine(part, fixed)(jnp.asarray(s.data.x)))(
            jax.tree.map(jnp.asarray, trained)
        )
        leaves = [np.asarray(leaf).reshape(len(s.y), -1) for leaf in jax.tree.leaves(rows)]
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trained)]), np.hstack(leaves)


def _svm(features: np.ndarray) -> np.ndarray:
    """The shortest vector with an inner product of 1 at least with every row."""
    signs = np.resize([1.0, -1.0], len(features))  # labels of two classes, for inputs of these signs
    solved = hard_margin(Data(signs[:, None] * features, signs))
    if solved is None or solved.w is None:
        raise Unmeasurable("needs features that can be separated")
    return solved.w


def _unbalanced(e: Evidence) -> float:
    w, a = np.linalg.norm(e.last.w, axis=1), np.abs(e.last.a)
    return float(np.abs(w - a).max() / max(w.max(), a.max()))


def _pulls(e: Evidence) -> np.ndarray:
    """The pull of the samples on every neuron that has not vanished."""
    s, end = e.situation, _end(e)
    pulls = np.linalg.norm((_slopes(e) * (end.multipliers * s.y)) @ s.x, axis=1)
    size = np.abs(e.last.a)
    return pulls[size > LIVE * size.max()]


def _ends(s: Situation) -> Trajectory | Limit:
    return limit(s.network, s.data, s.loss, optimality=False, budget=2000, show=False)


def example() -> Example:
    """Two layers, both trained, on Gaussian inputs with alternating labels; its limit has kinks."""
    x = np.random.default_rng(0).normal(size=(6, 4))
    data = Data(x, np.resize([1.0, -1.0], 6), "alternating labels")
    network = Network.gaussian((4, 4, 1), slope=0.1, scale=0.3, seed=0)
    return Example(Situation(network, data, exponential), _ends)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        conditions.margin_loss: replace(s, loss=square),
        HOMOGENEOUS: replace(s, network=Network(s.network.weights, [None, [1.0]], slope=0.1)),
        conditions.gradient_flow: replace(s, step=10.0),
        CONSISTENT: replace(s, data=Data(np.vstack([s.data.x, np.zeros((1, 4))]), np.append(s.data.y, 1.0))),
    }


RESULTS = (
    Result(
        "margin_kkt",
        "Where the flow of a homogeneous network ends: a KKT point, the SVM of its own features",
        LYU_LI.at("Theorem 4.4, Corollary 4.5; the direction converges: Ji and Telgarsky 2020, Theorem 3.1"),
        "If gradient flow separates the data, its direction converges to a KKT point of the margin problem, "
        "which is the hard-margin SVM in the network's own gradients.",
        hypotheses,
        predictions,
        example,
        broken,
    ),
)
