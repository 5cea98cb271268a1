r"""A two-layer bias-free network on symmetric data is its linear twin in rescaled time.

$W(t) = c^{-1/2}\, W^{lin}(c t)$ with $c = (1+\alpha)/2$, from weights of rank one. It is exact for descent
too: a step $\eta$ here is a step $c\eta$ there, and an L2 penalty $\lambda$ here is $\lambda/c$ there.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import flow, linear
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import exponential, logistic, square
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import integration
from rankfall.trajectory import Trajectory

if TYPE_CHECKING:
    from rankfall.dynamics import Optimiser

RANK_ONE = Condition("rank-one", "start of rank one, W1 = k W2' r'")
HALVES = Condition("equal-halves", "equal halves: | |W2+|^2/|W2|^2 - 1/2 |")
HYPERPLANE = Condition("off-hyperplane", "no sample on the hyperplane r.x = 0: least |cosine|")
SHORT_STEPS = Condition("short-steps", "flow, or short steps: step max |x|^2")
GROWS = Condition("some-grow", "correlated, and some weights grow")
SMALL = Condition("small-start", "small initial weights")


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Assumptions 3 and 7: symmetric data, and a start of rank one with equal halves."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.square_or_logistic_loss(s)
    yield from data_and_start(s)


def data_and_start(s: Situation) -> Iterator[Hypothesis]:
    """Those of the assumptions that are not about the network and the loss."""
    yield conditions.symmetric(s)
    if not s.both_trained or s.network.has_bias:
        return
    r = direction(s)
    # Small random weights come near to rank one while they are small: Theorem 13.
    small = s.start_norm <= 1e-2
    yield replace(RANK_ONE.at_most(_off_rank_one(s, r), 1e-10), near=small)
    share = float((s.a[s.a > 0] ** 2).sum() / (s.a**2).sum()) if s.a.any() else 0.0
    halves = HALVES.at_most(abs(share - 0.5), 1e-10, reach=0.1)
    yield replace(halves, near=halves.near or small)
    distance = np.abs(s.x @ r) / np.where(s.norms > 0, s.norms, 1.0)
    yield HYPERPLANE.at_least(float(distance.min()), 1e-14)


def _off_rank_one(s: Situation, r: np.ndarray) -> float:
    """How far W1 is from k W2' r': what is not along r, or how much k differs between neurons; relative."""
    if not (s.w.any() and s.a.all()):
        return 1.0
    ratio = s.w @ r / s.a
    off = np.linalg.norm(s.w - np.outer(s.w @ r, r)) / np.linalg.norm(s.w)
    return float(max(off, np.ptp(ratio) / np.abs(ratio).max()))


def direction(s: Situation) -> np.ndarray:
    """The unit vector r of W1 = k W2' r'; of other weights the leading right singular vector, likewise."""
    along = s.a @ s.w
    if not np.linalg.norm(along) > 1e-300:
        along = np.linalg.svd(s.w, full_matrices=False)[2][0]
    return np.asarray(along / np.linalg.norm(along))


def predictions(s: Situation) -> Iterator[Prediction]:
    """The twin's course, from the start alone."""
    c = float(s.network.mean_slope)
    yield Prediction(
        "weights",
        f"W(t) = {c**-0.5:.4g} W_lin({c:.4g} t) for both layers, at all times",
        lambda e: c**-0.5 * _twin(e).series("weights"),
        lambda e: e.series("weights"),
        _allowed,
    )
    yield Prediction(
        "loss",
        f"the loss is that of the linear network at the time {c:.4g} t",
        lambda e: _twin(e).series("loss"),
        lambda e: e.series("loss"),
        _allowed,
    )
    yield Prediction(
        "output weights",
        "the direction of W2 never changes",
        lambda e: np.broadcast_to(s.a / np.linalg.norm(s.a), (len(e.times), len(s.a))),
        _output_directions,
        _allowed,
    )


def _allowed(e: Evidence) -> Interval:
    s = e.situation
    if s.asymmetry > 1e-12:
        perturbed = perturbation(s)
        because = "ten times the part of the velocity at the start that symmetrised data would not have"
        return at_most(10 * perturbed, because)
    if e.descends:
        return at_most(1e-9, "exact for descent: rounding, accumulated over the steps")
    return integration(e)


def perturbation(s: Situation) -> float:
    """How much the velocity at the start changes, relatively, when the data are symmetrised."""

    def velocity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        h = x @ s.w.T
        f = np.where(h > 0, h, s.slope * h) @ s.a
        pull = s.loss.pulls(f, y) / len(y)
        slopes = np.where(h > 0, 1.0, s.slope)
        return np.concatenate([((slopes * s.a).T * pull @ x).ravel(), pull @ (slopes * h)])

    here = velocity(s.x, s.y)
    there = velocity(np.concatenate([s.x, -s.x]), np.concatenate([s.y, -s.y]))
    size = float(np.linalg.norm(there))
    return float(np.linalg.norm(here - there)) / size if size > 0 else np.inf


def _output_directions(e: Evidence) -> np.ndarray:
    second = e.networks.weights[1][:, 0, :]
    return np.asarray(second / np.linalg.norm(second, axis=1, keepdims=True))


def _twin(e: Evidence) -> Evidence:
    """The run of the linear twin that belongs to this run, recorded at the rescaled times."""
    return e.once("linear twin", lambda: _run_twin(e))


def _run_twin(e: Evidence) -> Evidence:
    from rankfall.dynamics import descent

    s, c = e.situation, float(e.start.mean_slope)
    twin = s.network.linear_twin()
    if e.in_loss_clock:
        raise Unmeasurable("needs a run in plain time, not in the loss clock")
    if e.descends:
        if e.batch is not None:
            raise Unmeasurable("needs full batches: those of SGD are not symmetric")
        steps = e.run["step"].values.astype(int)
        run = descent(
            twin,
            s.data,
            s.loss,
            c * e.step_size,
            int(steps[-1]),
            record=list(steps),
            optimiser=_penalised(s.penalty / c),
            measures=["weights", "loss"],
            show=False,
        )
    else:
        run = flow(
            twin,
            s.data,
            s.loss,
            c * e.times[-1],
            record=list(c * e.times),
            measures=["weights", "loss"],
            show=False,
        )
    return Evidence(replace(s, network=twin), run)


def _penalised(penalty: float) -> "Optimiser":
    import optax

    if not penalty:
        return optax.sgd
    return lambda size: optax.chain(optax.add_decayed_weights(penalty), optax.sgd(size))


def _runs(s: Situation) -> Trajectory | Limit:
    from rankfall.dynamics import descent

    measures = ["weights", "loss"]
    if s.step is None:
        return flow(
            s.network,
            s.data,
            s.loss,
            12.0,
            measures=measures,
            record=linear(40),
            budget=2000,
            show=False,
        )
    return descent(
        s.network, s.data, s.loss, s.step, 300, measures=measures, optimiser=_penalised(s.penalty), show=False
    )


def example() -> Example:
    """ReLU on the symmetric sine data, from a rank-one start in a direction of its own."""
    data = sets.symmetric_sine(pairs=40, dim=4, seed=0)
    network = Network.rank_one((4, 10, 1), slope=0.0, scale=0.1, seed=1)
    return Example(Situation(network, data, square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    n = s.network
    first, second = n.weights
    x = s.data.x.copy()
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(10), None])),
        conditions.square_or_logistic_loss: replace(s, loss=exponential),
        conditions.symmetric: replace(s, data=Data(x[:40], s.data.y[:40])),
        RANK_ONE: replace(s, network=Network([np.random.default_rng(0).normal(size=first.shape), second])),
        HALVES: replace(s, network=Network([np.outer(np.abs(second[0]), direction(s)), np.abs(second)])),
        HYPERPLANE: replace(s, data=Data(np.vstack([x, np.zeros((2, 4))]), np.append(s.data.y, [1.0, -1.0]))),
    }


# Small random starts


def small_start_hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """As above, but from small weights of any kind: what grows of them is of rank one (Theorem 13)."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.square_loss(s)
    steps = (s.step or 0.0) * float(s.norms.max()) ** 2
    yield SHORT_STEPS.at_most(steps, 1.0)
    yield conditions.symmetric(s)
    yield SMALL.at_most(s.start_norm, 1e-3, reach=0.1)
    if s.both_trained and not s.network.has_bias:
        grows = s.growing
        yield GROWS.fact(bool(grows.any()), f"{grows.any()}", "True")


def weight_error(share: float) -> float:
    r"""The relative distance of both networks at the end, from the share p of the positive weights.

    Its square is $(\sqrt p - \sqrt{1/2})^2 + (\sqrt{1-p} - \sqrt{1/2})^2$. The linear network keeps the
    share of the positive entries in $|W_2|^2$. The other ends with one half: only then its even part
    vanishes.
    """
    return float(np.hypot(np.sqrt(share) - np.sqrt(0.5), np.sqrt(1 - share) - np.sqrt(0.5)))


def small_start_predictions(s: Situation) -> Iterator[Prediction]:
    """How far the two networks are from each other in the end, known at the start."""
    grows = s.growing
    share = float((grows[grows > 0] ** 2).sum() / (grows**2).sum())
    error = weight_error(share)
    yield Prediction(
        "distance to the twin",
        f"in the end the weights differ from those of the linear network by {error:.2%}: "
        f"{share:.1%} of what grows is positive, and must become one half",
        error,
        _distance_at_the_end,
        _small,
        scale=1.0,
    )
    c = float(s.network.mean_slope)
    yield Prediction(
        "loss",
        f"the loss is that of the linear network at the time {c:.4g} t",
        lambda e: _twin(e).series("loss"),
        lambda e: e.series("loss"),
        lambda e: at_most(
            error**2 + _small(e).high, f"the square of the distance to the twin; {_small(e).because}"
        ),
    )


def _distance_at_the_end(e: Evidence) -> float:
    c = float(e.start.mean_slope)
    excess = float(e.series("loss")[-1]) - sets.least_squares_floor(e.situation.data)
    if excess > 1e-4 * float(e.series("loss")[0]):
        raise Unmeasurable("needs a run to the end: its loss is still above the least-squares floor")
    ours, twin = e.series("weights")[-1], c**-0.5 * _twin(e).series("weights")[-1]
    return float(np.linalg.norm(ours - twin) / np.linalg.norm(twin))


def _small(e: Evidence) -> Interval:
    # Theorem 13 leaves weights of the order of the start beside those that grow; both ends know of it.
    return at_most(
        5e-4 + 2 * e.situation.start_norm ** (2 / 3), "the start is not zero, but of norm w: 2 w^(2/3)"
    )


def _descends(s: Situation) -> Trajectory | Limit:
    from rankfall.dynamics import descent

    measures = ["weights", "loss"]
    return descent(s.network, s.data, s.loss, 0.02, 3000, measures=measures, record=linear(60), show=False)


def small_start_example() -> Example:
    """ReLU on the symmetric sine data, from Gaussian weights of norm 1e-4; small steps of descent."""
    data = sets.symmetric_sine(pairs=12, dim=2, seed=3)
    network = Network.gaussian((2, 30, 1), slope=0.0, scale=1e-4, seed=1)
    return Example(Situation(network, data, square), _descends)


def small_start_broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = small_start_example().situation
    n = s.network
    apart = Data(np.eye(2), [1.0, 1])
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(30), None])),
        conditions.square_loss: replace(s, loss=logistic),
        SHORT_STEPS: replace(s, step=10.0),
        conditions.symmetric: replace(s, data=apart),
        SMALL: replace(s, network=Network.gaussian((2, 30, 1), 0.0, 1.0, seed=1)),
        GROWS: replace(s, data=Data(np.vstack([np.eye(2), -np.eye(2)]), np.zeros(4))),
    }


RESULTS = (
    Result(
        "linear_equivalence",
        "On symmetric data a two-layer bias-free network learns like a linear one",
        ZHANG.at("Theorem 8 (Theorem 5 of the workshop version)"),
        "From weights of rank one on symmetric data, W(t) is the linear network's at the time "
        "(1 + slope)/2 t, scaled by ((1 + slope)/2)^(-1/2).",
        hypotheses,
        predictions,
        example,
        broken,
        penalised=True,
    ),
    Result(
        "linear_equivalence_small",
        "The same from small random weights: how far from the linear network it ends",
        ZHANG.at("Figure 3, with the limit of its weight error derived"),
        "From small random weights the loss follows the linear network's, and the weights end at a distance "
        "that the signs of the initial weights decide.",
        small_start_hypotheses,
        small_start_predictions,
        small_start_example,
        small_start_broken,
        kind=Kind.DERIVED,
    ),
)
