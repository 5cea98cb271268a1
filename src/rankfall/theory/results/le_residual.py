r"""What gradient flow conserves in networks with residual blocks $h = S u + U \sigma(V u)$.

Let A make u and W take h. Inside a block $U^T U - V V^T$ is conserved, as between any two layers: wholly if
$\sigma$ is the identity, else its diagonal. The sum h is not activated, and so, whatever $\sigma$ is:
free skip Z: $W^T W - U U^T - Z Z^T$ is conserved, and $V^T V + Z^T Z - A A^T$ (its diagonal, if A is followed
by an activation);
diagonal skip D: the diagonals of the same;
identity: only the sum of both, $W^T W - U U^T + V^T V - A A^T$, for it ties h to the basis of u.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import logistic
from rankfall.measure import balance_matrices, conserved, conserved_layers
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LE
from rankfall.theory.results.le_stable_activation import drift_allowed, relative
from rankfall.trajectory import Trajectory

BLOCKS = Condition("residual-blocks", "residual blocks")
TRAINED_AROUND = Condition("trained-around", "trained layers around what is conserved")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Some residual block, and something around it that is trained; any data and loss."""
    kinds = [kind for kind in s.network.skip_kinds if kind]
    yield BLOCKS.fact(bool(kinds), ", ".join(kinds) or "none", "1 at least")
    count = len(conserved_layers(s.network))
    yield TRAINED_AROUND.fact(count > 0, f"{count} such places", "1 at least")
    yield conditions.gradient_flow(s)


def _touches_skip(network: Network, layers: tuple[int, ...]) -> bool:
    """Does a skip start from one of these layers, or end in one?"""
    ends = {number for layer in layers for number in (layer, layer + 2) if number <= network.depth}
    return any(network.skips[number - 1] is not None for number in ends)


def predictions(s: Situation) -> Iterator[Prediction]:
    """Inside the blocks, and where they begin and end."""
    kept = conserved_layers(s.network)
    places: dict[str, tuple[Callable[[tuple[int, ...]], bool], str]] = {
        "inside": (lambda layers: not _touches_skip(s.network, layers), "U'U - VV' inside a block"),
        "between": (lambda layers: _touches_skip(s.network, layers), "what skips begin and end in"),
    }
    for name, (belongs, what) in places.items():
        groups = [layers for layers, _ in kept if belongs(layers)]
        if groups:
            told = ", ".join("+".join(map(str, layers)) for layers in groups)
            yield Prediction(
                name,
                f"the balance of {what} (layers {told}) drifts by 0 of |W|^2",
                lambda e: np.zeros(len(e.times)),
                partial(_drift, belongs=belongs),
                drift_allowed,
                Relation.AT_MOST,
            )
    last = s.network.depth - 1
    if s.network.outputs == 1 and ((last,), True) in kept and s.network.skip_kinds[last - 1] == "free":
        bound = _bound(s.network)
        yield Prediction(
            "concatenation",
            f"[U Z] before the output becomes of rank one: |[U Z]|_F^2 - |[U Z]|_2^2 <= {bound:.4g}",
            bound,
            lambda e: e.series("rank_excess")[:, last - 1],
            _excess_allowed,
            Relation.AT_MOST,
        )


def _bound(network: Network) -> float:
    """$D = \\lambda_{max}(C) - tr C$ of $C = W^T W - U U^T - Z Z^T$, with a row W."""
    balance = balance_matrices(network)[-1]
    return float(np.linalg.eigvalsh(balance)[-1] - np.trace(balance))


def _drift(e: Evidence, belongs: Callable[[tuple[int, ...]], bool]) -> np.ndarray:
    chosen: list[bool] = []
    for layers, wholly in conserved_layers(e.start):
        width = e.start.widths[layers[0]]
        chosen += [belongs(layers)] * (width**2 if wholly else width)
    changes = e.series(conserved).reshape(len(e.times), -1) - conserved(e.start)
    return relative(e, np.abs(changes[:, np.array(chosen)]).max(axis=1))


def _excess_allowed(e: Evidence) -> Interval:
    largest = float((e.series("norms") ** 2).sum(axis=1).max())
    allowed = drift_allowed(e)
    return at_most(allowed.high * largest / (abs(_bound(e.start)) or 1.0), allowed.because)


def _runs(s: Situation) -> Trajectory | Limit:
    measures = ["conserved", "norms", "rank_excess", "loss"]
    record = list(np.linspace(0, 3, 30))
    return flow(s.network, s.data, s.loss, 3.0, measures=measures, record=record, budget=3000, show=False)


def _network(skips: tuple[Any, ...] | None = None, **rest: Any) -> Network:
    rng = np.random.default_rng(3)
    blocks = (None, None, "identity", None, rng.normal(size=4), None, rng.normal(size=(4, 4)) / 2, None)
    given: dict[str, Any] = {"linear_tail": 4, "skips": blocks if skips is None else skips, **rest}
    return Network.gaussian((5, 4, 6, 4, 5, 4, 3, 4, 1), 0.1, 1.5, 0, **given)


def example() -> Example:
    """An identity, a diagonal and a free block, one after the other; the last of them is linear."""
    y = np.tile([1.0, -1.0], 6)
    noise = 0.3 * np.random.default_rng(0).normal(size=(12, 5))
    data = Data(np.outer(y, [2.0, 1.0, 0.0, 0.0, 0.0]) + noise, y, "two clusters")
    return Example(Situation(_network(), data, logistic), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    return {
        BLOCKS: replace(s, network=_network((None,) * 8)),
        TRAINED_AROUND: replace(s, network=_network(trained=(True, False) * 4)),
        conditions.gradient_flow: replace(s, step=10.0),
    }


RESULTS = (
    Result(
        "skip_blocks",
        "What gradient flow conserves in residual blocks",
        LE.at("ResNetIdentity, ResNetDiagonal and ResNetFree; the invariants are derived here"),
        "Flow conserves W'W - UU' - ZZ' behind a free skip, its diagonal behind a diagonal one, and behind "
        "an identity only the sum with the same of the layer where the skip begins.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
