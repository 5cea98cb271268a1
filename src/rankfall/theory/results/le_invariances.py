r"""Training invariances, and the rank-one limit of the linear layers at the end of a network.

Gradient flow conserves $C_l = W_{l+1}^T W_{l+1} - W_l W_l^T$ between two linear layers, and its diagonal at
any (leaky) ReLU layer. With one output it follows for every linear layer k at the end, at all times, that
$|W_k|_F^2 - |W_k|_2^2 \le D_k = \sum_{l=k}^{L-1} (\lambda_{max}(C_l) - tr\,C_l)$, a number known at the
start: as the weights grow, these layers become of rank one, and their singular vectors align.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval
from rankfall.limits import Limit
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum, balance_matrices, conserved, conserved_layers
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LE
from rankfall.theory.core.tolerances import integration, scaled
from rankfall.theory.results.le_stable_activation import drift_allowed, relative
from rankfall.trajectory import Trajectory

HIDDEN = Condition("hidden-layer", "a hidden layer between trained layers")
LINEAR_TAIL = Condition("linear-tail", "linear layers at the end, trained")
ONE_OUTPUT = Condition("one-output", "one output")
NO_TAIL_BIASES = Condition("no-tail-biases", "no biases between the linear layers")
NO_TAIL_SKIPS = Condition("no-tail-skips", "no skips into the linear layers")

# What is conserved


def invariance_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Nothing but training: any data, any loss, any depth."""
    yield conditions.no_skips(s)
    between = len(conserved_layers(s.network))
    yield HIDDEN.fact(between > 0, f"{between} of them", "1 at least")
    yield conditions.gradient_flow(s)


def invariance_predictions(s: Situation) -> Iterator[Prediction]:
    """I1 and I2: neuron by neuron always, as whole matrices where both layers are linear."""
    kept = conserved_layers(s.network)
    count = sum(s.network.widths[layer] for (layer,), _ in kept)
    yield Prediction(
        "neurons",
        f"|w_out|^2 - |w_in|^2 - b^2 of each of {count} hidden neurons stays what it is at the start: "
        "it drifts by 0 of |W|^2",
        lambda e: np.zeros(len(e.times)),
        lambda e: _drift(e, whole=False),
        drift_allowed,
        Relation.AT_MOST,
    )
    linear = [layer for (layer,), wholly in kept if wholly]
    if linear:
        yield Prediction(
            "linear layers",
            f"all entries of W_(l+1)'W_(l+1) - W_l W_l' for l = {', '.join(map(str, linear))} stay what they "
            "are: they drift by 0 of |W|^2",
            lambda e: np.zeros(len(e.times)),
            lambda e: _drift(e, whole=True),
            drift_allowed,
            Relation.AT_MOST,
        )


def _drift(e: Evidence, whole: bool) -> np.ndarray:
    """The largest change of what is conserved since the start: of whole matrices, or of the diagonals."""
    chosen = []
    for (layer,), wholly in conserved_layers(e.start):
        width = e.start.widths[layer]
        diagonal = np.eye(width, dtype=bool).ravel() if wholly else np.ones(width, dtype=bool)
        chosen.append(np.full(len(diagonal), wholly) if whole else diagonal)
    changes = e.series(conserved).reshape(len(e.times), -1) - conserved(e.start)
    return relative(e, np.abs(changes[:, np.concatenate(chosen)]).max(axis=1))


# The linear layers at the end


def tail_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Two linear layers at the end or more, trained; whatever is before them, and any data and loss."""
    n = s.network
    trained = all(n.trained[n.depth - n.linear_tail :])
    measured = f"{n.linear_tail}, {'all trained' if trained else 'some fixed'}"
    yield LINEAR_TAIL.fact(n.linear_tail > 1 and trained, measured, "2 at least, all trained")
    yield ONE_OUTPUT.fact(n.outputs == 1, f"{n.outputs}", "1")
    tail = slice(n.depth - n.linear_tail, n.depth)
    biased = any(b is not None for b in n.biases[tail][:-1])
    yield NO_TAIL_BIASES.fact(not biased, "biases" if biased else "none", "none")
    skips = any(skip is not None for skip in n.skips[tail])
    yield NO_TAIL_SKIPS.fact(not skips, "skips" if skips else "none", "none")
    yield conditions.gradient_flow(s)


def tail_layers(network: Network) -> range:
    """The numbers of the linear layers at the end, but for the last."""
    return range(network.depth - network.linear_tail + 1, network.depth)


def excess_bounds(network: Network) -> np.ndarray:
    r"""$D_k = \sum_{l=k}^{L-1} (\lambda_{max}(C_l) - tr\,C_l)$ for each of the `tail_layers`.

    $W_k W_k^T = W_{k+1}^T W_{k+1} - C_k$, so that $|W_k|_F^2 = |W_{k+1}|_F^2 - tr\,C_k$ and, by Weyl's
    inequality, $|W_k|_2^2 \ge |W_{k+1}|_2^2 - \lambda_{max}(C_k)$; and the last layer is a row.
    """
    steps = [
        np.linalg.eigvalsh(c)[-1] - np.trace(c)
        for c in balance_matrices(network)[tail_layers(network).start - 1 :]
    ]
    return np.cumsum(steps[::-1])[::-1]


def tail_predictions(s: Situation) -> Iterator[Prediction]:
    """All of it is known at the start, but for how large the weights are."""
    layers, bounds = tail_layers(s.network), excess_bounds(s.network)
    told = ", ".join(f"{bound:.3g} for k = {layer}" for layer, bound in zip(layers, bounds, strict=True))
    yield Prediction(
        "excess over rank one",
        f"|W_k|_F^2 - |W_k|_2^2 is at most {told}, at all times",
        bounds,
        lambda e: e.series("rank_excess")[:, layers.start - 1 : -1],
        _excess_allowed,
        Relation.AT_MOST,
    )
    yield Prediction(
        "alignment",
        "the leading singular vectors meet: <v_(k+1), u_k>^2 >= 1 - (spread of C_k)/(|W_k|_2^2 - D_k), with "
        f"D_k = {told}",
        _least_alignment,
        lambda e: e.series("alignment").reshape(len(e.times), -1)[:, layers.start - 1 :] ** 2,
        integration,
        Relation.AT_LEAST,
        scale=1.0,
    )
    plain = all(s.network.trained) and not (s.network.has_bias or s.network.has_skips)
    if plain and s.signs and s.loss.name != "square":
        yield Prediction(
            "rank one with the margins",
            "a smallest margin q needs large weights, |W_k|_F^2 >= N_k(q), and so the stable rank is at most "
            f"N_k/(N_k - D_k) with D_k = {told}",
            _most_stable_rank,
            _last_stable_ranks,
            integration,
            Relation.AT_MOST,
        )


def _excess_allowed(e: Evidence) -> Interval:
    largest = (e.series("norms") ** 2).sum(axis=1).max()
    allowed, bound = drift_allowed(e), np.abs(excess_bounds(e.start)).max() or 1.0
    return scaled(allowed, float(largest / bound))


def _squares(e: Evidence) -> np.ndarray:
    """|W_k|_2^2 of the linear layers along the run, (times, layers)."""
    layers = tail_layers(e.start)
    squares = e.series("norms") ** 2 - e.series("rank_excess")
    return squares[:, layers.start - 1 : -1]


def _least_alignment(e: Evidence) -> np.ndarray:
    r"""$\langle v_{k+1}, u_k\rangle^2 \ge 1 - (\lambda_{max} - \lambda_{min})(C_k) / (|W_k|_2^2 - D_k)$.

    With $v = v_{k+1}$, $c = \langle v, u_k\rangle$: $|W_{k+1}|_2^2 - \lambda_{max}(C_k) \le |W_k^T v|^2 \le
    c^2 |W_k|_2^2 + (1 - c^2) D_k$, and $|W_{k+1}|_2^2 \ge |W_k|_2^2 + \lambda_{min}(C_k)$.
    """
    balances = balance_matrices(e.start)[tail_layers(e.start).start - 1 :]
    spread = np.array([np.ptp(np.linalg.eigvalsh(c)) for c in balances])
    room = _squares(e) - excess_bounds(e.start)
    return np.where(room > spread, 1 - spread / np.where(room > 0, room, 1.0), 0.0)


def _last_stable_ranks(e: Evidence) -> np.ndarray:
    return np.array([Spectrum.of(e.network.weights[k - 1]).stable_rank for k in tail_layers(e.start)])


def _most_stable_rank(e: Evidence) -> np.ndarray:
    r"""From $q \le |x| \prod_l |W_l|_F$, in which all $|W_l|_F^2 - |W_k|_F^2$ are sums of traces of C."""
    s, smallest = e.situation, float(e.margins.min())
    if not smallest > 0:
        raise Unmeasurable("needs a run that separates the data")
    traces = [float(np.trace(c)) for c in balance_matrices(s.network)]
    heights = np.concatenate([[0.0], np.cumsum(traces)])  # |W_l|_F^2 - |W_1|_F^2
    wanted = 2 * np.log(smallest / s.norms.max())

    def lacking(first: float) -> float:
        return float(np.log(np.maximum(first + heights, 1e-300)).sum() - wanted)

    low = max(0.0, -float(heights.min()))
    high = low + 1.0 + np.exp(wanted / len(heights))
    first = brentq(lacking, low, high) if lacking(low) < 0 else low
    least, bounds = first + heights[tail_layers(s.network).start - 1 : -1], excess_bounds(s.network)
    if not (least > bounds).all():
        raise Unmeasurable(f"needs larger margins than {smallest:.3g}: run longer, in the loss clock")
    return np.asarray(least / (least - bounds))


def _data() -> Data:
    y = np.tile([1.0, -1.0], 6)
    noise = 0.3 * np.random.default_rng(0).normal(size=(12, 6))
    return Data(np.outer(y, [2.0, 1.0, 0.0, 0.0, 0.0, 0.0]) + noise, y, "two clusters")


def _runs(s: Situation) -> Trajectory | Limit:
    measures, record = ["weights", "loss"], list(np.geomspace(1, 1e4, 30))
    return flow(s.network, s.data, s.loss, 1e4, measures=measures, record=record, budget=3000, show=False)


def _network(widths: tuple[int, ...] = (6, 8, 6, 5, 1), slope: float = 0.0, **rest: Any) -> Network:
    return Network.gaussian(widths, slope=slope, scale=0.5, seed=1, **{"linear_tail": 3, **rest})


def example() -> Example:
    """One ReLU layer under three linear ones, on separable data."""
    return Example(Situation(_network(), _data(), exponential), _runs)


def invariance_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        conditions.no_skips: replace(
            s, network=_network((6, 8, 6, 6, 1), skips=(None, "identity", None, None))
        ),
        HIDDEN: replace(s, network=_network(trained=(True, False, True, False))),
        conditions.gradient_flow: replace(s, step=10.0),
    }


def tail_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        LINEAR_TAIL: replace(s, network=_network(linear_tail=1)),
        ONE_OUTPUT: replace(s, network=_network((6, 8, 6, 5, 2)), loss=square, data=_two_targets()),
        NO_TAIL_BIASES: replace(s, network=_network(bias=True)),
        NO_TAIL_SKIPS: replace(
            s, network=_network((6, 8, 6, 8, 1), skips=(None, None, np.ones((8, 8)), None))
        ),
        conditions.gradient_flow: replace(s, step=10.0),
    }


def _two_targets() -> Data:
    x = _data().x
    return Data(x, x[:, :2])


def tail_advice(s: Situation) -> str:
    """What may be cut."""
    layers, worst = tail_layers(s.network), float(excess_bounds(s.network).max())
    return (
        f"The linear layers {layers.start} to {layers.stop} at the end fall to rank one as their weights "
        f"grow: all but the first singular value of each stay below {np.sqrt(max(worst, 0.0)):.3g}, and may "
        "be cut."
    )


RESULTS = (
    Result(
        "invariances",
        "What gradient flow conserves at every neuron, and between linear layers",
        LE.at("training invariances; Du, Hu and Lee 2018 for neurons"),
        "Gradient flow conserves |w_out|^2 - |w_in|^2 - b^2 of every hidden neuron, and all of "
        "W_(l+1)'W_(l+1) - W_l W_l' between linear layers, on any data with any loss.",
        invariance_hypotheses,
        invariance_predictions,
        example,
        invariance_broken,
        kind=Kind.DERIVED,
    ),
    Result(
        "low_rank_tail",
        "The linear layers at the end of a ReLU network become of rank one",
        LE.at("main theorem"),
        "With one output, |W_k|_F^2 - |W_k|_2^2 of the last linear layers stays below a number known at the "
        "start, and so they fall to rank one and align as the weights grow.",
        tail_hypotheses,
        tail_predictions,
        example,
        tail_broken,
        kind=Kind.DERIVED,
        advice=tail_advice,
    ),
)
