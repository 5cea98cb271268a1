r"""Orthogonal inputs, square loss: one sign is learned after the other, and the end has the least norm.

From a start of size $\lambda \to 0$ the positive samples are fitted near the time $\ln(1/\lambda)/|D_+|$ and
the negative ones near $\ln(1/\lambda)/|D_-|$, with $D_\pm = \frac1n \sum_{\pm y_k > 0} |y_k| x_k$; between
the two the loss rests at a saddle. The end is $f(x) = \sigma(w_+ x) - \sigma(w_- x)$ with
$w_\pm = \sum_{\pm y_k > 0} \frac{|y_k|}{|x_k|^2} x_k$, the interpolator with the least norm.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from rankfall.data import Data
from rankfall.dynamics import exact_flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, square
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import BOURSIER
from rankfall.theory.core.tolerances import integration
from rankfall.theory.mathematics.early_flow import EarlyFlow, followable, outputs_bound
from rankfall.trajectory import Trajectory

SIGNED_TARGETS = Condition("signed-targets", "targets of both signs, none zero")
SEES_ITS_CLASS = Condition("sees-its-class", "a neuron of either sign active on all samples of its sign")
DIFFERENT_RATES = Condition("different-rates", "|D+| is not |D-|: relative difference")
SMALL = Condition("small-start", "small start: largest sum_j |a_j| |w_j| |x_i| / min |y|")
FEW_PARTIAL = Condition("few-partial", "small start: share of neurons that see a part of their class")

START = 1e-6  # the part of its final strength from which on a group is followed as one neuron

ARRIVED = 1e-10  # the part of the initial loss from which on a run is compared with the end


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Orthogonal inputs, and a small balanced start in which each sign has a neuron that sees its class."""
    yield conditions.both_layers_trained(s)
    yield conditions.square_loss(s)
    if not s.both_trained or s.loss.name != "square":
        return
    yield conditions.no_bias(s)
    yield conditions.relu(s)
    yield conditions.gradient_flow(s)
    yield conditions.orthogonal(s)
    y = s.y.reshape(-1)
    signs = f"{(y > 0).sum()} +, {(y < 0).sum()} -, {(y == 0).sum()} zero"
    proper = bool(y.min() < 0 < y.max() and y.all())
    yield SIGNED_TARGETS.fact(proper, signs, "both, none zero")
    balanced = conditions.balanced_start(s)
    yield balanced
    yield followable(s)
    if not (proper and balanced.holds and followable(s).holds) or s.cosine > 0.1 or s.network.has_bias:
        return
    groups = both(s)
    sees = [int(group.full.sum()) for group in groups]
    yield SEES_ITS_CLASS.fact(min(sees) > 0, f"{sees[0]} +, {sees[1]} -", "1 of each")
    rates = [group.rate for group in groups]
    yield DIFFERENT_RATES.at_least(abs(rates[0] - rates[1]) / max(rates), 0.01)
    size = outputs_bound(s) / np.abs(y).min()
    yield SMALL.at_most(size, 1e-3, reach=0.1)
    if min(sees):
        partial = max(group.partial for group in groups)
        yield FEW_PARTIAL.at_most(partial, 0.05, reach=0.5)


class Group:
    """The neurons of one sign on the samples of that sign: how they grow, and what they become."""

    def __init__(self, s: Situation, sign: int, early: EarlyFlow):
        own = sign * s.y.reshape(-1) > 0
        self.x, self.y, self.squares = s.x[own], np.abs(s.y.reshape(-1)[own]), s.norms[own] ** 2
        self.step = 1 / s.parts
        self.rate = float(self.step * np.linalg.norm(self.y @ self.x))  # |D|
        self.end = (self.y / self.squares) @ self.x
        self.strength = float(np.linalg.norm(self.end))
        mine = sign * s.a > 0
        self.full = mine & (s.w @ self.x.T > 0).all(axis=1)
        self.others = [early.stretches[j][-1] for j in np.flatnonzero(mine & ~self.full)]
        self._full = [early.stretches[j][-1] for j in np.flatnonzero(self.full)]

    @cached_property
    def seed(self) -> float:
        """sum_j a_j^2 of the growing parts, carried back to the time 0: it is `seed` e^(2 |D| t) early on."""
        parts = [(p.a + p.w @ p.e) / 2 * np.exp(-p.k * p.time) for p in self._full]
        return float(np.sum(np.square(parts)))

    @property
    def time(self) -> float:
        """When sum_j a_j^2, growing on like early, would reach its final value."""
        return float(np.log(self.strength / max(self.seed, 1e-300)) / (2 * self.rate))

    @property
    def partial(self) -> float:
        """What the neurons that see a part of the class have by then, as a part of the final strength."""
        return float(sum(p.at(max(self.time, p.time))[1] ** 2 for p in self.others) / self.strength)

    @cached_property
    def _course(self) -> tuple[float, float, Callable[[float], np.ndarray]]:
        """v = sum_j a_j w_j = sum_k c_k x_k of aligned neurons: v' = |v| G + <v, G> v / |v|."""

        def velocity(_: float, c: np.ndarray) -> np.ndarray:
            g = self.step * (self.y - c * self.squares)
            length = np.sqrt((c**2 * self.squares).sum())
            return np.asarray(length * g + (c * g * self.squares).sum() / length * c)

        begin = self.time + np.log(START) / (2 * self.rate)
        slowest = self.step * self.strength * self.squares.min()
        end = self.time + 20 / self.rate + 40 / slowest
        start = START * self.strength * self.step * self.y / self.rate
        solved = solve_ivp(velocity, (begin, end), start, "DOP853", dense_output=True, rtol=1e-9, atol=1e-14)
        return begin, end, solved.sol

    def outputs(self, t: float) -> np.ndarray:
        """The moduli of the outputs on the samples at a time t."""
        begin, end, solution = self._course
        early = np.exp(2 * self.rate * min(t - begin, 0.0))
        return np.asarray(solution(np.clip(t, begin, end)) * self.squares * early)

    def loss(self, t: float) -> float:
        """The part of the loss on these samples at a time t."""
        return float(self.step / 2 * ((self.y - self.outputs(t)) ** 2).sum())

    @cached_property
    def half(self) -> float:
        """The time at which sum_k y_k f(x_k) is half of sum_k y_k^2."""
        begin, end, _ = self._course
        return float(brentq(lambda t: self.y @ self.outputs(t) / (self.y @ self.y) - 0.5, begin, end))


def both(s: Situation) -> tuple[Group, Group]:
    """The positive and the negative group."""
    step = 1 / s.parts
    early = EarlyFlow(s, step * s.y.reshape(-1))
    return Group(s, 1, early), Group(s, -1, early)


def predictions(s: Situation) -> Iterator[Prediction]:
    """The two phases, the saddle between them, and the end."""
    groups = both(s)
    yield from _phases(s, groups)
    yield from _end(s, groups)


def _phases(s: Situation, groups: tuple[Group, Group]) -> Iterator[Prediction]:
    """When each sign is fitted, and the loss meanwhile."""
    early, late = sorted(groups, key=lambda g: g.half)

    def loss(t: float) -> float:
        return sum(g.loss(t) for g in groups)

    yield Prediction(
        "phases",
        f"the positive samples are half fitted at {groups[0].half:.4g}, the negative at {groups[1].half:.4g}",
        [g.half for g in groups],
        lambda e: _half_times(e, s.y.reshape(-1)),
        lambda e: _between_records(e, groups),
    )
    yield Prediction(
        "loss",
        "the loss at all times is that of two neurons, one for each sign",
        lambda e: [loss(t) for t in e.times],
        lambda e: e.series("loss"),
        lambda e: _allowed(e, groups),
    )
    saddle, middle = late.step / 2 * float(late.y @ late.y), (early.half + late.half) / 2
    yield Prediction(
        "saddle",
        f"between the phases, near {middle:.4g}, the loss rests at {saddle:.4g}",
        saddle,
        lambda e: _loss_at(e, middle),
        lambda e: _allowed(e, groups, 2 * abs(loss(middle) / saddle - 1)),
    )


def _end(s: Situation, groups: tuple[Group, Group]) -> Iterator[Prediction]:
    """The interpolator with the least norm, as one neuron for each sign."""
    plus, minus = groups
    ends = np.array([plus.end, minus.end])
    yield Prediction(
        "end",
        "at the end sum |a_j| w_j is w+ over the positive and w- over the negative neurons; "
        f"their lengths are {plus.strength:.4g} and {minus.strength:.4g}",
        ends,
        lambda e: _sums(_arrived(e)),
        lambda e: _allowed(e, groups),
    )
    along = np.where(s.a[:, None] > 0, ends[0] / plus.strength, ends[1] / minus.strength)
    yield Prediction(
        "directions",
        "at the end all neurons of one sign are one: along w+ the positive, along w- the negative ones",
        lambda e: np.linalg.norm(e.last.w, axis=1)[:, None] * along,
        lambda e: _arrived(e).last.w,
        lambda e: at_most(2 * _allowed(e, groups).high ** 0.5, "the root of what the strengths are known to"),
    )
    norm = 2 * (plus.strength + minus.strength)
    yield Prediction(
        "norm",
        f"at the end |theta|^2 = {norm:.4g}, the least of all interpolators",
        norm,
        lambda e: _arrived(e).last.start_norm ** 2,
        lambda e: _allowed(e, groups),
    )
    yield Prediction(
        "interpolates",
        "at the end the outputs are the targets",
        s.y.reshape(-1),
        lambda e: np.asarray(_arrived(e).network(s.x)),
        at_most(2e-5, f"runs are judged once their loss is below {ARRIVED:g} of its start"),
    )


def _allowed(e: Evidence, groups: tuple[Group, Group], rest: float = 0.0) -> Interval:
    """What a start that is not infinitely small changes, and `rest`."""
    more = 10 * START + (0.0 if e.is_limit else integration(e).high)
    left = 2 * e.situation.start_norm / min(g.strength for g in groups) ** 0.5
    why = "finite start: four times the share of the neurons that see a part of their class, twice its size"
    return at_most(4 * max(g.partial for g in groups) + left + more + rest, why)


def _between_records(e: Evidence, groups: tuple[Group, Group]) -> Interval:
    allowed, part = _allowed(e, groups), 0.1 * float(np.diff(e.times).max()) / max(g.half for g in groups)
    return at_most(allowed.high + part, f"{allowed.because}; a tenth of the spacing of records")


# What is measured


def _half_times(e: Evidence, y: np.ndarray) -> list[float]:
    first, second = e.networks.weights
    f = np.einsum("tm,tmn->tn", second[:, 0], np.maximum(first @ e.situation.x.T, 0))
    found = []
    for own in (y > 0, y < 0):
        part = np.clip(f[:, own] @ y[own] / (y[own] @ y[own]), 1e-300, 1 - 1e-15)
        if part.max() < 0.5:
            raise Unmeasurable("needs a longer run: a sign is not half fitted yet")
        # It grows like the logistic function of time, so that is what is interpolated.
        found.append(float(np.interp(0.0, np.log(part / (1 - part)), e.times)))
    return found


def _loss_at(e: Evidence, t: float) -> float:
    if e.times[-1] < t:
        raise Unmeasurable(f"needs a longer run: the saddle is near {t:.4g}")
    return float(np.interp(t, e.times, e.series("loss")))


def _arrived(e: Evidence) -> Evidence:
    if not e.is_limit and e.series("loss")[-1] > ARRIVED * e.series("loss")[0]:
        raise Unmeasurable("needs a longer run: the loss still falls; or verify rankfall.limit")
    return e


def _sums(e: Evidence) -> np.ndarray:
    w, a = e.last.w, e.last.a
    return np.array([np.abs(a[sign * a > 0]) @ w[sign * a > 0] for sign in (1, -1)])


def _runs(s: Situation) -> Trajectory | Limit:
    wanted, record = ["weights", "loss"], list(np.linspace(0, 110, 120))
    end = record[-1]
    return exact_flow(s.network, s.data, s.loss, end, measures=wanted, record=record, budget=3000, show=False)


def example() -> Example:
    """Two positive and two negative samples of different norms, and twelve neurons from 1e-8."""
    rng = np.random.default_rng(0)
    frame = np.linalg.qr(rng.normal(size=(6, 4)))[0].T
    data = Data(np.array([1.0, 1.2, 1.0, 0.9])[:, None] * frame, [1.5, 1.2, -0.8, -1.0], "orthogonal")
    network = Network.balanced((6, 12, 1), slope=0.0, scale=1e-8, seed=2)
    return Example(Situation(network, data, square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    first, second = w = s.network.weights
    blind = first - 2 * np.maximum(first @ s.x[:1].T, 0) * s.x[:1] / s.norms[0] ** 2
    large = Network([1e8 * first, 1e8 * second])
    networks = {
        conditions.both_layers_trained: Network(w, trained=(True, False)),
        conditions.no_bias: Network(w, [np.zeros(12), None]),
        conditions.relu: Network(w, slope=0.5),
        conditions.balanced_start: Network([first, 3 * second]),
        SEES_ITS_CLASS: Network([blind, second]),
        followable: Network.balanced((6, 500_000, 1), 0.0, 1e-8, 0),
        SMALL: large,
        FEW_PARTIAL: large,
    }
    return {name: replace(s, network=network) for name, network in networks.items()} | {
        conditions.square_loss: replace(s, loss=exponential, data=Data(s.x, np.sign(s.y))),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.orthogonal: replace(s, data=Data(s.x + s.x[0], s.y)),
        SIGNED_TARGETS: replace(s, data=Data(s.x, np.abs(s.y))),
        DIFFERENT_RATES: replace(s, data=Data(s.x / s.norms[:, None], np.sign(s.y))),
    }


RESULTS = (
    Result(
        "boursier",
        "Orthogonal inputs, square loss: one sign after the other, to the interpolator of least norm",
        BOURSIER.at("Theorem 1"),
        "From a small balanced start on orthogonal inputs the two signs are fitted one after the other, at "
        "ln(1/lambda)/|D+| and ln(1/lambda)/|D-|, and the flow ends at the interpolator of least norm.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.RECALLED,
    ),
)
