r"""Deep bias-free networks on symmetric data: the weights fall to rank one in a linear network, and in a ReLU
network to rank one in the first and last layer and to rank two in between.

From small random weights a ReLU network ends as two chains of neurons, one for each half-space of w: every
layer has the norm $u = \sqrt2\,|w|^{1/L}$, every middle one two singular values $|w|^{1/L}$. From weights of
exactly this form (`deep_form`) it is a linear network all along, in rescaled time: norms are $G^{-1/L}$ times
as large, and the speed is $G^{2/L}$: $\sqrt2$ and 1/2 for ReLU, at every depth.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import Until, flow
from rankfall.judge import Interval, at_most
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import integration, scaled
from rankfall.theory.mathematics.deep_form import chain_velocity, chains, form, gain, low_rank, outside
from rankfall.theory.results.zhang_equivalence import HYPERPLANE
from rankfall.trajectory import Trajectory

DEEP = Condition("deep", "three layers or more")
ACTIVATED = Condition("layers-activated", "an activation after every hidden layer")
RELU_OR_LINEAR = Condition("relu-or-linear", "ReLU or linear")
LINEAR_TARGET = Condition("linear-target", "linear target: the share that is not")
WIDE = Condition("wide", "neurons in each hidden layer")
RANDOM = Condition("random-start", "random start: least share of a sign in a layer")
SMALL = Condition("small-start", "small start: the largest |W_l(0)| / u")
LOW_RANK = Condition("low-rank-start", "weights of rank one and two with equal halves: distance")

PROBES = 256


# From small random weights: where it ends


def _is_deep(s: Situation) -> bool:
    n = s.network
    return n.depth > 2 and n.outputs == 1 and all(n.trained) and not n.has_skips


def _deep(s: Situation) -> Iterator[Hypothesis]:
    n = s.network
    needed = "3 layers or more, 1 output, all trained, no skips"
    yield DEEP.fact(_is_deep(s), f"{n!r}", needed)
    yield conditions.no_bias(s)
    tail = f"{n.linear_tail} linear layers at the end"
    yield ACTIVATED.fact(s.slope == 1 or n.linear_tail == 1, tail, "1, or all")
    yield conditions.symmetric(s)


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Appendix F.1: even inputs, a linear target, small random weights."""
    yield from _deep(s)
    yield conditions.square_loss(s)
    if not _is_deep(s) or s.network.has_bias:
        return
    yield RELU_OR_LINEAR.fact(s.slope in (0, 1), f"slope {s.slope:g}", "slope 0 or 1")
    yield conditions.gradient_flow(s)
    w = target(s)
    rest = np.linalg.norm(s.y.reshape(-1) - s.x @ w) / np.linalg.norm(s.y) if w.any() else 1.0
    yield LINEAR_TARGET.at_most(float(rest), 1e-8, reach=0.1)
    yield WIDE.at_least(min(s.network.widths[1:-1]), 10, reach=5)
    signs = [(float((layer > 0).mean()), float((layer < 0).mean())) for layer in s.network.weights]
    yield RANDOM.at_least(min(map(min, signs)), 0.1)
    u = (np.linalg.norm(w) / gain(s.network.depth, s.slope)[0]) ** (1 / s.network.depth)
    small = max(map(np.linalg.norm, s.network.weights)) / u if u else np.inf
    yield SMALL.at_most(float(small), 0.2, reach=0.5)


def target(s: Situation) -> np.ndarray:
    """The shortest least-squares solution w."""
    if len(s.x) < s.x.shape[1]:  # the smaller problem of the two
        return np.asarray(s.x.T @ (np.linalg.pinv(s.gram, rcond=1e-13, hermitian=True) @ s.y.reshape(-1)))
    return np.asarray(np.linalg.lstsq(s.x, s.y.reshape(-1), rcond=None)[0])


def predictions(s: Situation) -> Iterator[Prediction]:
    """Eqs. (40) and (41), where the target is learned."""
    depth, w = s.network.depth, target(s)
    one, rank = float(np.linalg.norm(w)) ** (1 / depth), 1 if s.slope == 1 else 2
    u = float(np.sqrt(rank)) * one
    start = max(float(np.linalg.norm(layer)) for layer in s.network.weights)

    def squared(e: Evidence) -> Interval:
        why = "twice the squared norm of the initial weights, and what is left to learn"
        return at_most(2 * (start / u) ** 2 + _left(e), why)

    def weyl(e: Evidence) -> Interval:
        noise = max(float(np.linalg.norm(layer, 2)) for layer in s.network.weights[:-1])
        why = "the spectral norm of the initial weights, and what is left to learn"
        return at_most(noise / one + _left(e), why)

    def layers(e: Evidence) -> list[np.ndarray]:
        return [np.asarray(layer) for layer in e.network.weights]

    says = f"all layers end with the Frobenius norm {u:.4g}"
    norms = np.full(depth, u)
    yield Prediction("norms", says, norms, lambda e: list(map(np.linalg.norm, layers(e))), squared)
    yield Prediction(
        "singular values",
        f"the middle layers end with {rank} singular value{'s' * (rank > 1)} of {one:.4g}",
        np.full((depth - 2, rank), one),
        lambda e: [Spectrum.of(m).values[:rank] for m in layers(e)[1:-1]],
        weyl,
    )
    yield Prediction(
        "stable ranks",
        f"the stable rank of the first layer ends at 1, of the middle ones at {rank}",
        np.array([1.0, *[float(rank)] * (depth - 2)]),
        lambda e: [Spectrum.of(m).stable_rank for m in layers(e)[:-1]],
        lambda e: scaled(weyl(e), 2),
    )
    says = f"f(x) = w.x for every x, with the least-squares solution w of norm {np.linalg.norm(w):.4g}"
    probes = _probes(s)
    yield Prediction("linear map", says, probes @ w, lambda e: e.network(probes), weyl)
    if rank == 2:
        says, equal = f"each of two chains has the norm {one:.4g} in every layer", np.full((2, depth), one)
        yield Prediction("chains", says, equal, lambda e: chains(e.network), squared)
        says = "middle layers are two nonnegative blocks: the share of all else ends at 0"
        yield Prediction("blocks", says, 0.0, lambda e: outside(e.network), squared, Relation.AT_MOST)


def _left(e: Evidence) -> float:
    """The share of the target that the run has not learned at its end."""
    zero = float(e.situation.loss(np.zeros(len(e.situation.y)), e.situation.y))
    left = float(np.sqrt(e.series("loss")[-1] / zero))
    if left > 0.05:
        raise Unmeasurable(f"needs a later state: {left:.0%} of the target is not learned; run longer")
    return left


def _probes(s: Situation) -> np.ndarray:
    """Random combinations of the inputs: what the training sees of the space."""
    mixing = np.random.default_rng(0).normal(size=(PROBES, len(s.x)))
    return np.asarray(mixing @ s.x / np.sqrt(len(s.x)))


def _runs(s: Situation) -> Trajectory:
    until, record = Until(time=1000.0, loss=1e-8), list(np.linspace(0, 1000, 101))
    kept = ["weights", "loss"]
    return flow(
        s.network, s.data, s.loss, until, rtol=1e-5, budget=2000, measures=kept, record=record, show=False
    )


def example() -> Example:
    """Three ReLU layers of 20 neurons, a linear target in four dimensions."""
    network = Network.gaussian((4, 20, 20, 1), slope=0.0, scale=0.05, seed=0)
    return Example(Situation(network, sets.symmetric_linear(pairs=20, dim=4, seed=0), square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    n, x, y = s.network, s.data.x, s.data.y
    positive = Network([abs(w) for w in n.weights])
    return {
        **_broken_structure(s),
        conditions.square_loss: replace(s, loss=exponential, data=Data(x, np.sign(y))),
        RELU_OR_LINEAR: replace(s, network=Network(n.weights, slope=0.5)),
        conditions.gradient_flow: replace(s, step=10.0),
        LINEAR_TARGET: replace(s, data=Data(x, np.sign(x[:, 0]))),
        WIDE: replace(s, network=Network([w[:4, :4] for w in n.weights])),
        RANDOM: replace(s, network=positive),
        SMALL: replace(s, network=Network([100 * w for w in n.weights])),
    }


def _broken_structure(s: Situation) -> dict[Condition, Situation]:
    n, x, y = s.network, s.data.x, s.data.y
    first, last, half = n.weights[0], [None] * (n.depth - 1), len(x) // 2
    return {
        DEEP: replace(s, network=Network([first, first[:, :1].T])),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(len(first)), *last], n.slope)),
        ACTIVATED: replace(s, network=Network(n.weights, linear_tail=2)),
        conditions.symmetric: replace(s, data=Data(x[:half], y[:half])),
    }


# From weights of this form: the whole course


def course_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Appendix F.2, for any odd target and any slope."""
    yield from _deep(s)
    yield conditions.square_or_logistic_loss(s)
    if not _is_deep(s) or s.network.has_bias:
        return
    start, off = form(s.network)
    yield LOW_RANK.at_most(off, 1e-10)
    cosines = np.abs(s.x @ start.r) / np.where(s.norms > 0, s.norms, 1.0)
    yield HYPERPLANE.at_least(float(cosines.min()), 1e-14)


def course_predictions(s: Situation) -> Iterator[Prediction]:
    """Eqs. (43) to (45), solved by a linear chain of single neurons."""
    start, g = form(s.network)[0], gain(s.network.depth, s.slope)[0]
    k = g ** (-1 / s.network.depth)
    begin = np.concatenate([start.norms[0] * start.r, start.norms[1:]]) / k

    def chain(e: Evidence) -> np.ndarray:
        return np.asarray(e.once("chain", lambda: _chain(e, begin, k**-2)))

    def weights(e: Evidence) -> np.ndarray:
        first, rest = np.split(chain(e), [len(start.r)], axis=1)
        later = [np.multiply.outer(u, m.ravel()) for u, m in zip(rest.T, start.layers()[1:], strict=True)]
        return np.asarray(k * np.hstack([*np.multiply.outer(start.g[0], first), *later]))

    def losses(e: Evidence) -> list[float]:
        maps = [state[: len(start.r)] * np.prod(state[len(start.r) :]) for state in chain(e)]
        return [float(s.loss(s.x @ w, s.y.reshape(-1))) for w in maps]

    yield Prediction(
        "weights",
        f"the form stays: the layers are {k:.4g} times those of a linear chain at the time {k**-2:.4g} t",
        weights,
        lambda e: e.series("weights"),
        _allowed,
    )
    says = f"the loss is that of the linear chain at the time {k**-2:.4g} t"
    yield Prediction("loss", says, losses, lambda e: e.series("loss"), _allowed)


def _chain(e: Evidence, start: np.ndarray, rate: float) -> np.ndarray:
    """The weights of the chain at `rate` times the times of the run."""
    s = e.situation
    velocity = chain_velocity(s.x, s.y.reshape(-1), s.loss)
    if e.descends and e.batch is None:
        states, steps = [start], [int(step) for step in e.run["step"].values]
        for _ in range(steps[-1]):
            states.append(states[-1] + rate * e.step_size * velocity(states[-1]))
        return np.array(states)[steps]
    if e.descends or e.in_loss_clock:
        raise Unmeasurable("needs a run in plain time, or of descent with full batches")
    times, move = rate * e.times, lambda t, state: velocity(state)
    return np.asarray(solve_ivp(move, (0, times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-14).y.T)


def _allowed(e: Evidence) -> Interval:
    if e.descends:
        return at_most(1e-9, "exact for descent: rounding, accumulated over the steps")
    return integration(e)


def _runs_course(s: Situation) -> Trajectory:
    times = list(np.linspace(0, 20, 41))
    return flow(s.network, s.data, s.loss, 20.0, measures=["weights", "loss"], record=times, show=False)


def course_example() -> Example:
    """Four layers with slope 0.2, and a target that is not linear."""
    data = sets.symmetric_sine(pairs=20, dim=3, seed=0)
    network = low_rank((3, 6, 5, 7, 1), slope=0.2, scale=0.6, r=np.array([1.0, 2.0, -1.0]), seed=0)
    return Example(Situation(network, data, square), _runs_course)


def course_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = course_example().situation
    x, y, (first, *rest) = s.data.x, s.data.y, s.network.weights
    unequal = Network([first * np.where(first[:, :1] > 0, 2, 1), *rest], slope=0.2)
    return {
        **_broken_structure(s),
        conditions.square_or_logistic_loss: replace(s, loss=exponential, data=Data(x, np.sign(y))),
        LOW_RANK: replace(s, network=unequal),
        HYPERPLANE: replace(s, data=Data(np.vstack([x, np.zeros((2, 3))]), np.append(y, [1.0, -1.0]))),
    }


RESULTS = (
    Result(
        "deep_low_rank",
        "Deep bias-free networks learn a linear target with weights of rank one and two",
        ZHANG.at("Conjecture 11 (eqs. 39 and 40 of the workshop version)"),
        "From small random weights, on even inputs with a linear target w.x, a ReLU network of depth L ends "
        "with |W_l| = sqrt(2) |w|^(1/L) in all layers, and with two nonnegative blocks of rank one in the "
        "middle ones; a linear network with |w|^(1/L) and rank one.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.CONJECTURE,
    ),
    Result(
        "deep_low_rank_course",
        "A deep network of the low-rank form learns like a linear one",
        ZHANG.at("Appendix F.2 of the workshop version, eqs. 41 and 43 to 45"),
        "On symmetric data the low-rank form stays, and its norms follow a deep linear network at G^(2/L) "
        "times the speed: half of it for ReLU.",
        course_hypotheses,
        course_predictions,
        course_example,
        course_broken,
        kind=Kind.DERIVED,
    ),
)
