r"""A few more samples spoil the margin: neurons of one sign win, and the network ends as a single neuron.

Let $K_{ik} = y_i y_k \langle x_i, x_k\rangle$. A sample with a large K with all others pulls all neurons of
one sign to one side: they align. Those of the sign $\tau$ with the larger $|\mu_\tau|$ grow first, where
$\mu_\tau = \frac1n\sum_i s_i y_i x_i$ with $s_i = 1$ if $y_i = \tau$, else $\alpha$. They fit all samples
before the others have grown. The limit is the single neuron
$f(x; \theta/|\theta|) = \frac\tau2 \sigma(\tau \langle z, x\rangle / |z|)$ with the hard-margin classifier z
of the inputs $s_i x_i$. Its boundary is linear, and its margin $1/(2|z|)$ can be far from the largest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rankfall.data import Data, hard_margin
from rankfall.loss import exponential, square
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import LYU_2021
from rankfall.theory.core.tolerances import at_the_end
from rankfall.theory.results.lyu_symmetric import norm2

PULLED_RIGHT = Condition("pulled-right", "every neuron is pulled to the right side of each sample")
HEAD_START = Condition("head-start", "size of the slower sign when the faster has grown")
SIGNS_KEPT = Condition("signs-kept", "|a_j| >= |w_j|, so that no a_j changes its sign")
FASTER_NEURON = Condition("faster-neuron", "a neuron of the faster sign")
NONE_GIVEN_UP = Condition("none-given-up", "no sample is given up: its own pull against the others'")
LATE_PULL = Condition("late-pull", "late pull on the slower sign")

PROBES = 256
STRICT = 1e-6  # what makes an inequality strict
SLOWER, NO_START = 0.02, 0.5  # the size of the slower sign when the faster one has grown: our choice


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """What makes the neurons of one sign win, and what keeps them ahead."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.leaky(s)
    yield conditions.margin_loss(s)
    yield conditions.gradient_flow(s)
    if not (s.both_trained and s.signs and 0 < s.slope < 1) or s.network.has_bias:
        return
    k = np.outer(s.y, s.y) * s.gram
    size = np.maximum(np.abs(k).sum(axis=1), 1e-300)
    agreement = (s.slope * np.maximum(k, 0) - np.maximum(-k, 0)).sum(axis=1) / size
    yield PULLED_RIGHT.at_least(agreement.min(), STRICT)
    if not agreement.min() > 0:
        return
    sign, ratio = faster(s)
    squares = max(float((s.a**2).sum() * s.norms.max()), 1e-300)
    slower = min(squares, 1.0) ** (1 - ratio)
    yield HEAD_START.at_most(slower, SLOWER, reach=NO_START)
    lengths = np.linalg.norm(s.w, axis=1)
    yield SIGNS_KEPT.at_least(_least_ratio(s.a, lengths), 1 - 1e-9)
    count = int((s.a * sign > 0).sum())
    yield FASTER_NEURON.fact(count > 0, f"{count} of sign {sign:+d}", "1")
    # A sample at margin 0 pulls most: it gets away from 0, whatever the others do.
    own = slopes(s, sign)
    against = np.maximum(-k, 0) @ own
    kept = (own * np.diag(k) - against) / np.maximum(own * np.diag(k), 1e-300)
    yield NONE_GIVEN_UP.at_least(kept.min(), STRICT)
    solved = one_neuron(s)
    yield LATE_PULL.at_most(np.inf if solved is None else solved.other, 1 - STRICT)


def _least_ratio(a: np.ndarray, lengths: np.ndarray) -> float:
    alive = lengths > 0
    return float((np.abs(a[alive]) / lengths[alive]).min()) if alive.any() else 1.0


def slopes(s: Situation, sign: int) -> np.ndarray:
    """The slope that a neuron of this sign has on each sample, if it is on the right side of all."""
    return np.where(s.y == sign, 1.0, s.slope)


def faster(s: Situation) -> tuple[int, float]:
    """The sign whose neurons grow faster at first, and the other's rate relative to its."""
    plus, minus = (float(np.linalg.norm((s.y * slopes(s, sign)) @ s.x)) for sign in (1, -1))
    return (1 if plus >= minus else -1), min(plus, minus) / max(plus, minus, 1e-300)


@dataclass(frozen=True)
class OneNeuron:
    """The best single neuron, and how strongly the samples then pull in other directions (1: as on it)."""

    sign: int
    z: np.ndarray
    multipliers: np.ndarray  # of the margin problem of both layers
    other: float  # on neurons of the other sign that are on the right side of all samples
    most: float  # the most along any sample


def one_neuron(s: Situation) -> OneNeuron | None:
    """Solve the margin problem of one neuron: a hard-margin problem with the inputs s_i x_i."""
    sign, _ = faster(s)
    solved = hard_margin(Data(slopes(s, sign)[:, None] * s.x, s.y))
    if solved is None or solved.w is None:
        return None
    multipliers = solved.multipliers / np.linalg.norm(solved.w)
    other = float(np.linalg.norm((multipliers * s.y * slopes(s, -sign)) @ s.x))
    return OneNeuron(sign, solved.w, multipliers, other, _most(s, multipliers))


def _most(s: Situation, multipliers: np.ndarray) -> float:
    """The largest |sum_i lambda_i y_i sigma(u.x_i)| of unit vectors u along the support vectors."""
    support = multipliers > 1e-12 * multipliers.max(initial=0.0)
    along = s.x[support] / np.maximum(s.norms[support], 1e-300)[:, None]
    h = np.vstack([along, -along]) @ s.x[support].T
    pulls = np.where(h > 0, h, s.slope * h) @ (multipliers * s.y)[support]
    return float(np.abs(pulls).max(initial=0.0))


def predictions(s: Situation) -> Iterator[Prediction]:
    """The limit, from one hard-margin problem."""
    solved = one_neuron(s)
    if solved is None:
        return
    sign, length = solved.sign, float(np.linalg.norm(solved.z))
    probes = np.random.default_rng(0).normal(size=(PROBES, s.x.shape[1]))
    h = sign * probes @ solved.z / length
    yield Prediction(
        "function",
        f"f(x; theta/|theta|) tends to {sign / 2:+g} sigma({sign:+d} <z, x>/|z|), a single neuron",
        sign * np.where(h > 0, h, s.slope * h) / 2,
        lambda e: np.asarray(e.network(probes)) / norm2(e),
        at_the_end,
    )
    yield Prediction(
        "normalised margin",
        f"the normalised margin tends to 1/(2|z|) = {1 / (2 * length):.4g}",
        1 / (2 * length),
        lambda e: e.margins.min() / norm2(e),
        at_the_end,
    )
    yield Prediction(
        "one sign",
        f"the neurons of sign {-sign:+d} vanish relative to the others: their share of |a|^2 is 0",
        0.0,
        lambda e: (e.last.a[e.last.a * sign < 0] ** 2).sum() / (e.last.a**2).sum(),
        at_the_end,
    )
    yield Prediction(
        "rank one",
        "the stable rank of the first layer tends to 1",
        1.0,
        lambda e: e.last.stable_rank,
        at_the_end,
    )
    if solved.most > 1 + STRICT:
        yield Prediction(
            "not the best",
            f"a neuron along a sample would be pulled {solved.most:.4g} times as much as the others: another "
            "network has a larger margin",
            solved.most,
            lambda e: _most(s, e.limit.multipliers),
            at_the_end,
        )
    yield ending.arrives()


def hinted() -> Data:
    """Two pairs of mirror images, and three hints of the label +1: a large one, and two small ones."""
    x = np.array([[0.4, 2.0], [-0.3, 2.5]])
    hints = np.array([[0.0, 8.0], [0.5, 0.125], [-0.5, 0.125]])
    return Data(np.vstack([x, -x, hints]), np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0]), "hinted")


def example() -> Example:
    """Six neurons of both signs with the slope 0.2, from a small balanced start."""
    network = Network.balanced((2, 6, 1), slope=0.2, scale=1e-4, seed=1)
    return Example(Situation(network, hinted(), exponential), ending.ends)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    weights, x, y = s.network.weights, s.data.x, s.data.y
    symmetric = Data(x[:4], y[:4])
    return {
        conditions.both_layers_trained: replace(
            s, network=Network(weights, slope=0.2, trained=(True, False))
        ),
        conditions.no_bias: replace(s, network=Network(weights, [np.zeros(6), None], slope=0.2)),
        conditions.leaky: replace(s, network=Network(weights, slope=0.0)),
        conditions.margin_loss: replace(s, loss=square),
        conditions.gradient_flow: replace(s, step=10.0),
        PULLED_RIGHT: replace(s, data=Data(x, -y * np.resize([1.0, -1.0], 7))),
        HEAD_START: replace(s, data=symmetric),
        SIGNS_KEPT: replace(s, network=Network([weights[0], 1e-3 * weights[1]], slope=0.2)),
        FASTER_NEURON: replace(s, network=Network([weights[0], -np.abs(weights[1])], slope=0.2)),
        NONE_GIVEN_UP: replace(
            s, data=Data(np.vstack([x, [[0.0, 200.0], [-5.0, 1.0]]]), np.append(y, [1.0, 1.0]))
        ),
        LATE_PULL: replace(s, data=symmetric),
    }


RESULTS = (
    Result(
        "lyu_2021_hints",
        "A few more samples spoil the margin of a leaky ReLU network: it ends as a single neuron",
        LYU_2021.at("the section on data that are not symmetric; hypotheses and limit derived here"),
        "If one sample aligns all neurons and those of one sign grow first, the network ends as a single "
        "neuron: a linear boundary, with a margin that need not be the largest.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
