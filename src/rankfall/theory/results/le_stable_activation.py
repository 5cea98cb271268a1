r"""Neurons that are active on all samples from some time on behave like linear ones.

Two neurons j, k of a layer with the same slopes on every sample conserve $(C_l)_{jk}$ of $C_l = W_{l+1}^T
W_{l+1} - W_l W_l^T$, as long as they have them. So for the set S of neurons that are active on all samples
from $t_N$ on, all of $(C_l)_{SS}$ is conserved from then on. It is not so for the whole matrix.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import numpy as np

from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import square
from rankfall.measure import balance_matrices, conserved_layers, with_weights
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LE
from rankfall.theory.core.tolerances import integration
from rankfall.trajectory import Trajectory

ACTIVATED = Condition("activated-layer", "an activated layer between trained layers")

KINK = 1e-9  # a pre-activation this small, relative to the largest of its layer, is at its kink


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """A (leaky) ReLU layer between two trained layers; any data and any loss."""
    yield conditions.no_skips(s)
    yield conditions.no_bias(s)
    between = _layers(s.network)
    told = ", ".join(map(str, between)) or "none"
    yield ACTIVATED.fact(bool(between), f"layers: {told}", "1 at least")
    yield conditions.gradient_flow(s)


def _layers(network: Network) -> list[int]:
    """The activated layers between trained ones."""
    return [group[0] for group, _ in conserved_layers(network) if group[0] in network.activated]


def stably_activated(run: Trajectory, data: Data) -> dict[int, np.ndarray]:
    """Since when each neuron has been active on all samples of `data`, up to the end of a run.

    **Arguments:**

    - `run`: a run of one network without biases that recorded the measure "weights".
    - `data`: its data.

    **Returns:** for the number of each activated layer the times (steps, or s) of its neurons: that of the
    first record from which on the neuron is active on all samples; infinite for those that are not at the
    end. What happens between two records is not seen.
    """
    network = run.network
    if network.has_bias or "weights" not in run.dataset:
        raise ValueError(
            "this needs the weights along the run: record 'weights', of a network without biases."
        )
    at = run[str(run["weights"].dims[0])].values.astype(float)
    patterns = _patterns(with_weights(network, run["weights"].values), data)
    return {
        layer: np.append(at, np.inf)[_since(np.asarray((side > 0).all(axis=1)))]
        for layer, side in patterns.items()
    }


def _patterns(networks: Network, data: Data) -> dict[int, np.ndarray]:
    """For each layer (times, samples, neurons): 1 where a neuron is active, -1 where not, 0 at its kink."""
    count = len(networks.weights[0])
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], networks) for i in range(count)]
    hidden = [network.preactivations(data.x) for network in each]
    sides = {}
    for layer in networks.activated:
        h = np.stack([seen[layer - 1] for seen in hidden])
        sides[layer] = np.where(np.abs(h) > KINK * np.abs(h).max(), np.sign(h), 0.0)
    return sides


def _since(holds: np.ndarray) -> np.ndarray:
    """The first record from which on something holds to the end, (times, neurons) -> (neurons)."""
    lasting = np.logical_and.accumulate(holds[::-1], axis=0)[::-1]
    return len(holds) - lasting.sum(axis=0)


def predictions(s: Situation) -> Iterator[Prediction]:
    """I3 and I4, over the last half of a run."""
    yield Prediction(
        "stably activated",
        "between neurons of a layer that are active on all samples, W_(l+1)'W_(l+1) - W_l W_l' drifts by 0 "
        "of |W|^2 (over the last half of the run)",
        0.0,
        lambda e: _drift(e, _active),
        drift_allowed,
        Relation.AT_MOST,
    )
    yield Prediction(
        "equal patterns",
        "it drifts by 0 as well between neurons that are active on the same samples, whichever these are",
        0.0,
        lambda e: _drift(e, _equal),
        drift_allowed,
        Relation.AT_MOST,
    )


def _active(side: np.ndarray) -> np.ndarray:
    """Which pairs of neurons are active throughout (times, samples, neurons)."""
    stable = (side > 0).all(axis=(0, 1))
    return np.outer(stable, stable)


def _equal(side: np.ndarray) -> np.ndarray:
    """Which pairs of neurons have the same pattern throughout, and are nowhere at a kink."""
    _, which = np.unique(side.reshape(-1, side.shape[-1]), axis=1, return_inverse=True)
    clear = (side != 0).all(axis=(0, 1))
    return np.equal.outer(which, which) & np.outer(clear, clear)


def _late(e: Evidence) -> tuple[dict[int, np.ndarray], list[list[np.ndarray]]]:
    """The patterns and the balance matrices over the last half of a run."""

    def make() -> tuple[dict[int, np.ndarray], list[list[np.ndarray]]]:
        networks = jax.tree.map(lambda leaf: leaf[len(e.times) // 2 :], e.networks)
        count = len(networks.weights[0])
        each = [jax.tree.map(lambda leaf, i=i: leaf[i], networks) for i in range(count)]
        return _patterns(networks, e.situation.data), [balance_matrices(n) for n in each]

    return e.once("the last half", make)


def _drift(e: Evidence, pairs: Callable[[np.ndarray], np.ndarray]) -> float:
    """The largest drift of an entry of the balance matrices, for these pairs of different neurons."""
    patterns, balances = _late(e)
    largest = []
    for layer in _layers(e.start):
        chosen = pairs(patterns[layer])
        np.fill_diagonal(chosen, False)
        if chosen.any():
            entries = np.stack([c[layer - 1][chosen] for c in balances])
            changes = np.abs(entries - entries[0]).max(axis=1)
            largest.append(relative(e, changes, begin=len(e.times) // 2).max())
    if not largest:
        raise Unmeasurable("needs two neurons of a layer with one pattern over the last half of the run")
    return float(max(largest))


def relative(e: Evidence, changes: np.ndarray, begin: int = 0) -> np.ndarray:
    """Changes of squares of weights along a run, relative to the squared norm of all weights.

    In a flow to that of the time, in descent to the largest of the run: its drift adds up from the start.
    """
    squares = (e.series("norms") ** 2).sum(axis=1)
    squares = np.full(len(squares), squares.max()) if e.descends else squares
    return np.asarray(changes / np.maximum(squares[begin:], 1e-300))


def drift_allowed(e: Evidence) -> Interval:
    r"""A flow is followed to a tolerance. A step of descent adds $\eta^2$ times squares of gradients to C: no
    more than $2\eta L(0)$ in all, where the loss falls at every step by half of what the gradient promises.
    """
    if not e.descends:
        return integration(e)
    largest = (e.series("norms") ** 2).sum(axis=1).max()
    drift = 2 * e.step_size * float(e.series("loss")[0]) / max(float(largest), 1e-300)
    return at_most(max(1e-12, drift), "descent: twice the step size times the first loss, over |W|^2")


def _runs(s: Situation) -> Trajectory | Limit:
    measures, record = ["weights", "loss"], list(np.linspace(0, 20, 40))
    return flow(s.network, s.data, s.loss, 20.0, measures=measures, record=record, budget=3000, show=False)


def example() -> Example:
    """Leaky ReLU on inputs in a cone: some neurons become active on all samples, some on none."""
    x = np.array([2.0, 0.0, 0.0, 0.0]) + 0.5 * np.random.default_rng(0).normal(size=(10, 4))
    data = Data(x, x @ np.array([0.5, 0.25, -0.25, 0.0]), "cone")
    return Example(Situation(Network.gaussian((4, 12, 1), 0.2, 0.03, 1), data, square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    w = s.network.weights
    return {
        conditions.no_skips: replace(s, network=Network(w, slope=0.2, skips=(None, np.ones((1, 4))))),
        conditions.no_bias: replace(s, network=Network(w, [np.zeros(12), None], 0.2)),
        ACTIVATED: replace(s, network=Network(w, slope=0.2, linear_tail=2)),
        conditions.gradient_flow: replace(s, step=10.0),
    }


RESULTS = (
    Result(
        "stably_activated",
        "Neurons that stay active on all samples are balanced like linear ones",
        LE.at("training invariances of stably activated neurons"),
        "From the time on when a set S of neurons of a layer is active on all samples, flow conserves the "
        "submatrix of W_(l+1)'W_(l+1) - W_l W_l' that belongs to S.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
