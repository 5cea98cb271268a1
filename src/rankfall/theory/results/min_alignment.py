r"""Early alignment: from a small balanced start, ReLU neurons sort themselves by class before the loss falls.

Let $\mu = \min_{i,j} y_i y_j \cos(x_i, x_j) > 0$. While all outputs are small every sample pulls with the
same strength $c = -\ell'(0)$ and each neuron moves alone: $\frac{d}{dt} \frac{w}{|w|} = c\, \mathrm{sign}(a)
P_w x_a(w)$ with $x_a(w) = \sum_{\langle x_i, w \rangle > 0} y_i x_i$. It ends active on exactly its class,
turning to the class sum $x_\pm$, or dead, and so it stays for ever.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import exact_flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import MIN
from rankfall.theory.core.tolerances import integration
from rankfall.theory.mathematics.early_flow import EARLY, EarlyFlow, followable, largest_output, window
from rankfall.theory.results.phuong_separable import LEARNERS, class_margins, learning
from rankfall.trajectory import Trajectory

MU = Condition("mu", "mu: least y_i y_j cos(x_i, x_j)")
NOT_OPPOSITE = Condition("no-opposite-neuron", "no neuron along the sum of the other class: least 1 - cosine")
SORTED_EARLY = Condition("sorted-early", "small start: time to sort / early phase")

ACTIVE = 1e-7  # a cosine with a sample below this is none: neurons die at a kink


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 1: mu > 0, and a balanced start small enough to align before the loss falls."""
    yield conditions.both_layers_trained(s)
    yield conditions.margin_loss(s)
    if not (s.both_trained and s.signs):
        return
    yield conditions.no_bias(s)
    yield conditions.relu(s)
    yield conditions.gradient_flow(s)
    yield Hypothesis(MU, s.mu, "> 0", s.mu > 0)
    balanced = conditions.balanced_start(s)
    yield balanced
    plus, minus = (int((learning(s) & (sign * s.a > 0)).sum()) for sign in (1, -1))
    yield LEARNERS.fact(min(plus, minus) > 0, f"{plus} +, {minus} -", "1 of each")
    yield followable(s)
    if s.mu <= 0 or not balanced.holds or not followable(s).holds:
        return
    away = 1 - (_unit(s.w) * _class_sums(s, -s.a)).sum(axis=1)
    yield NOT_OPPOSITE.at_least(float(away.min()), 1e-6)
    late = EarlyFlow(s).sorted / max(window(s), 1e-300)
    yield SORTED_EARLY.at_most(late, 1.0, reach=10.0)


def _class_sums(s: Situation, a: np.ndarray) -> np.ndarray:
    """For each output weight the unit vector along the sum of the class of its sign."""
    plus, minus = (_unit(s.x[s.y == sign].sum(axis=0)) for sign in (1, -1))
    return np.where(a[:, None] > 0, plus, minus)


def predictions(s: Situation) -> Iterator[Prediction]:
    """The early phase neuron by neuron, and what it leaves for ever."""
    early = EarlyFlow(s)
    yield from _early_phase(early)
    yield from _afterwards(s, early)


def _early_phase(early: EarlyFlow) -> Iterator[Prediction]:
    """When the outputs take off, and how the neurons turn until then."""
    yield Prediction(
        "takes off",
        f"the outputs reach {EARLY:g} at the time {early.end:.5g}",
        early.end,
        lambda e: _takes_off(e, early),
        _small_outputs,
    )
    yield Prediction(
        "directions",
        "until then each neuron turns alone, d/dt w/|w| = c sign(a) P_w x_a(w)",
        lambda e: np.array([_unit(early.weights(t)[0]) for t in e.times[e.times <= early.end]]),
        lambda e: _unit(_first_layers(e)[e.times <= early.end]),
        _small_outputs,
    )
    yield Prediction(
        "aligned",
        "by then the living neurons are along the sum of their class, the furthest at the angle "
        f"{_largest_angle(early, early.weights(early.end)[0]):.2g}",
        lambda e: _largest_angle(early, early.weights(e.times[e.times <= early.end][-1])[0]),
        lambda e: _largest_angle(early, _first_layers(e)[e.times <= early.end][-1]),
        _small_outputs,
        scale=1.0,
    )


def _afterwards(s: Situation, early: EarlyFlow) -> Iterator[Prediction]:
    """The activation pattern, the ranks and the fall of the loss."""
    yield Prediction(
        "activation pattern",
        f"from then on for ever {early.alive.sum()} neurons are active on exactly their class, "
        f"{(~early.alive).sum()} are dead",
        lambda e: np.broadcast_to(early.pattern, (_after(e, early).sum(), *early.pattern.shape)),
        lambda e: (_unit(_first_layers(e)) @ s.x.T > ACTIVE * s.norms)[_after(e, early)],
        at_most(0.0, "active or not; at the kink counts as not"),
        scale=1.0,
    )
    bounds = np.array([early.unaligned(sign) for sign in (1, -1)])
    yield Prediction(
        "blocks",
        "from then on |W|_F^2 - |W|_2^2 is at most "
        f"{bounds[0]:.3g} of the positive and {bounds[1]:.3g} of the negative neurons",
        1.0,
        lambda e: [_lesser(w, s.a) / np.maximum(bounds, 1e-300) for w in _first_layers(e)[_after(e, early)]],
        lambda e: _of_the_blocks(e, bounds),
        Relation.AT_MOST,
    )
    most = 2 + bounds.sum() / np.linalg.norm(early.weights(early.end)[0], 2) ** 2
    yield Prediction(
        "stable rank",
        f"from then on the stable rank is at most {most:.6g}",
        most,
        lambda e: e.series("stable_rank")[_after(e, early)],
        _small_outputs,
        Relation.AT_MOST,
    )
    yield Prediction(
        "loss",
        "from then on the loss falls at least like 1/t: L(t) <= L / (1 + alpha L (t - t0)) between records",
        lambda e: _loss_bound(e, early),
        lambda e: e.series("loss")[_after(e, early)][1:],
        integration,
        Relation.AT_MOST,
    )


def _small_outputs(e: Evidence) -> Interval:
    s = e.situation
    shorter = min(np.linalg.norm(s.x[s.y == sign].sum(axis=0)) for sign in (-1, 1))
    value = EARLY * float(s.norms.sum() / shorter) + integration(e).high
    return at_most(value, f"outputs up to {EARLY:g} change the pulls by as much, for about 1 / |x_+-|")


def _of_the_blocks(e: Evidence, bounds: np.ndarray) -> Interval:
    rounding = 1e-14 * float((_first_layers(e)[-1] ** 2).sum()) / max(bounds.min(), 1e-300)
    why = "small outputs, and the rounding of the last weights' squares"
    return at_most(2 * _small_outputs(e).high + rounding, why)


def _loss_bound(e: Evidence, early: EarlyFlow) -> np.ndarray:
    """|grad L|^2 >= alpha_+ R_+^2 + alpha_- R_-^2, R the pulls of a class, at least phi times its loss."""
    s, after = e.situation, _after(e, early)
    w, a, loss = _first_layers(e)[after], e.networks.weights[1][after][:, 0], e.series("loss")[after]
    ends, parts = class_margins(s.x, s.y), []
    assert ends is not None  # mu > 0
    for sign, margin in ((1, 1 / ends.a), (-1, 1 / ends.b)):
        own = early.alive & (sign * s.a > 0)
        least = np.maximum((w[:, own] @ s.x[s.y == sign].T).min(axis=2), 0)
        parts.append(margin**2 * (a[:, own] ** 2).sum(axis=1) + (least**2).sum(axis=1))
    alpha = parts[0] * parts[1] / (parts[0] + parts[1])
    if s.loss.name == "logistic":  # -l' = 1 - e^(-l) >= phi l
        most = loss * s.parts
        alpha = alpha * (-np.expm1(-most) / most) ** 2
    return np.asarray(loss[:-1] / (1 + alpha[:-1] * loss[:-1] * np.diff(e.times[after])))


# What is measured, before and after the end of the early phase


def _after(e: Evidence, early: EarlyFlow) -> np.ndarray:
    after = np.asarray(e.times > early.end)
    if after.sum() < 2:
        raise Unmeasurable(f"needs a longer run: the early phase ends at {early.end:.4g}")
    return after


def _first_layers(e: Evidence) -> np.ndarray:
    return np.asarray(e.networks.weights[0])


def _unit(w: np.ndarray) -> np.ndarray:
    return np.asarray(w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True), 1e-300))


def _takes_off(e: Evidence, early: EarlyFlow) -> float:
    _after(e, early)  # asked for first: the run must be long enough
    first, second = e.networks.weights
    largest = [largest_output(e.situation, w, a[0]) for w, a in zip(first, second, strict=True)]
    # The outputs grow exponentially: their logarithm is interpolated.
    return float(np.interp(np.log(EARLY), np.log(np.maximum(largest, 1e-300)), e.times))


def _largest_angle(early: EarlyFlow, w: np.ndarray) -> float:
    cosines = (_unit(w) * _class_sums(early.s, early.s.a)).sum(axis=1)[early.alive]
    return float(np.arccos(np.clip(cosines, -1, 1)).max())


def _lesser(w: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.array([Spectrum.of(w[sign * a > 0]).excess for sign in (1, -1)])


def _runs(s: Situation) -> Trajectory | Limit:
    end, wanted = 3 * window(s), ["weights", "loss"]
    record = list(np.linspace(0, end, 120))
    return exact_flow(s.network, s.data, s.loss, end, measures=wanted, record=record, budget=3000, show=False)


def example() -> Example:
    """Eight samples in two cones at 110 degrees, ten neurons, and the loss as a sum."""
    data = sets.orthogonally_separable(n=8, dim=5, seed=1, angle=0.61 * np.pi)
    network = Network.balanced((5, 10, 1), slope=0.0, scale=1e-3, seed=3)
    return Example(Situation(network, data, exponential.sum), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    first, second = w = s.network.weights
    along = np.abs(s.a)[:, None] * _class_sums(s, -s.a)
    networks = {
        conditions.both_layers_trained: Network(w, trained=(True, False)),
        conditions.no_bias: Network(w, [np.zeros(10), None]),
        conditions.relu: Network(w, slope=0.5),
        conditions.balanced_start: Network([first, 3 * second]),
        LEARNERS: Network([first, np.abs(second)]),
        NOT_OPPOSITE: Network([along, second]),
        SORTED_EARLY: Network([1e3 * first, 1e3 * second]),
        followable: Network.balanced((5, 200_000, 1), 0.0, 1e-3, 0),
    }
    return {name: replace(s, network=network) for name, network in networks.items()} | {
        conditions.margin_loss: replace(s, loss=square),
        conditions.gradient_flow: replace(s, step=10.0),
        MU: replace(s, data=Data(s.data.x + 5 * s.data.x[0], s.data.y)),
    }


RESULTS = (
    Result(
        "min_alignment",
        "ReLU, both layers trained, small start: neurons align with their class before the loss falls",
        MIN.at("Theorem 1"),
        "If all y_i y_j <x_i, x_j> are positive, then early on every neuron becomes active on exactly its "
        "class or dies, and stays so; the loss then falls like 1/t with a stable rank of at most 2.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
