from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import rankfall as rf
from rankfall.loss import square
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.situation import Situation
from rankfall.theory.mathematics.least_norm import interpolation_bound, margin_bound, rank_one_interpolator
from rankfall.theory.results.timor_rank import two_neurons_from_zero

TWO, ZERO = RESULTS["timor_rank_two"], RESULTS["timor_angles"]


def unit(angle):
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def points(rng, least=95.0, most=175.0):
    """Two unit inputs at an angle between `least` and `most` degrees, and unit targets."""
    angle, turn = np.radians(rng.uniform(least, most)), rng.uniform(0, 2 * np.pi)
    return rf.Data(unit(np.array([turn, turn + angle])), unit(rng.uniform(0, 2 * np.pi, 2))), angle


def velocity(w, v, x, y):
    """Minus the gradient of the summed square loss, for any number of networks; the kink has the slope 0."""
    h = np.einsum("...ij,...kj->...ki", w, x)
    active = np.maximum(h, 0)
    e = y - np.einsum("...oi,...ki->...ko", v, active)
    first = np.einsum("...ko,...oi,...ki,...kj->...ij", e, v, h > 0, x)
    return np.stack([first, np.einsum("...ko,...ki->...oi", e, active)])


def flows(network, data, end):
    """W and V at the end of the flow, by SciPy."""

    def moves(_, theta):
        return velocity(*theta.reshape(2, 2, 2), data.x, data.y).ravel()

    start = np.concatenate([w.ravel() for w in network.weights])
    return solve_ivp(moves, (0, end), start, rtol=1e-9, atol=1e-12).y[:, -1].reshape(2, 2, 2)


def flow_together(networks, sets, end, step=0.01):
    """The same for many networks at once, by fixed steps of Runge and Kutta: kinks may attract."""
    theta = np.stack([[n.weights[i] for n in networks] for i in (0, 1)])
    x, y = np.stack([d.x for d in sets]), np.stack([d.y for d in sets])
    for _ in range(round(end / step)):
        one = velocity(*theta, x, y)
        two = velocity(*(theta + step / 2 * one), x, y)
        three = velocity(*(theta + step / 2 * two), x, y)
        four = velocity(*(theta + step * three), x, y)
        theta = theta + step / 6 * (one + 2 * two + 2 * three + four)
    return theta.swapaxes(0, 1)


def loss(w, v, data):
    return ((np.maximum(data.x @ w.T, 0) @ v.T - data.y) ** 2).sum() / 2


def stable_rank(w):
    singular = np.linalg.svd(w, compute_uv=False)
    return (singular**2).sum() / singular[0] ** 2


def between(a, b):
    return np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))


# Theorem 1


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_rank_one_fit_any_two_samples(seed):
    rng = np.random.default_rng(seed)
    data = rf.Data(rng.normal(size=(2, 4)), rng.normal(size=(2, 3)))
    network = rank_one_interpolator(data)
    assert np.abs(network(data.x) - data.y).max() < 1e-12
    assert np.linalg.matrix_rank(network.weights[0]) == 1


@pytest.mark.parametrize("degrees", [1e-3, 90.0, 180.0])
def test_weights_of_rank_one_fit_two_samples_at_any_angle_but_zero(degrees):
    x = 2 * unit(np.radians([0.0, degrees]))
    assert np.abs(rank_one_interpolator(rf.Data(x, [1.0, -2.0]))(x) - [1.0, -2.0]).max() < 1e-9
    with pytest.raises(ValueError, match="the same way"):
        rank_one_interpolator(rf.Data(np.stack([x[0], 3 * x[0]]), [1.0, -2.0]))
    with pytest.raises(ValueError, match="there are 4"):
        rank_one_interpolator(rf.Data(np.concatenate([x, x]), np.ones(4)))


# Theorem 3


def own_starts(rng, data, angle, size=None):
    """W whose rows see one sample each, shorter than Theorem 3 asks for."""
    bound = np.sqrt(0.75) * min(np.sin((np.pi - angle) / 4), np.sin(angle - np.pi / 2))
    while True:
        w = unit(rng.uniform(0, 2 * np.pi, 2)) * (size or bound * rng.uniform(0.1, 1.0))
        sees = w @ data.x.T > 0
        if (sees.sum(axis=0) == 1).all() and (sees.sum(axis=1) == 1).all():
            return w


@pytest.mark.parametrize("seed", range(4))
def test_the_closed_form_is_the_flow(seed):
    rng = np.random.default_rng(seed)
    data, angle = points(rng)
    network = rf.Network([own_starts(rng, data, angle, size=0.2), np.zeros((2, 2))])
    for time in (0.5, 2.0, 5.0, 30.0):
        w, v = two_neurons_from_zero(network, data, time)
        expected = flows(network, data, time)
        assert np.abs(w - expected[0]).max() < 1e-7
        assert np.abs(v - expected[1]).max() < 1e-7


@pytest.mark.parametrize("seed", range(50))
def test_the_ranges_of_theorem_3_follow_from_the_closed_form(seed):
    rng = np.random.default_rng(seed)
    data, angle = points(rng)
    network = rf.Network([own_starts(rng, data, angle), np.zeros((2, 2))])
    w, v = two_neurons_from_zero(network, data, np.inf)
    assert loss(w, v, data) < 1e-25
    assert np.pi - angle - 1e-9 <= between(*w) <= (np.pi + angle) / 2 + 1e-9
    lengths = np.linalg.norm(w, axis=1)
    assert np.sqrt(0.75) < lengths.min()
    assert lengths.max() < np.sqrt(1 / 4 + 4 / (3 * np.sin(angle) ** 2))


@pytest.mark.parametrize("degrees", [100.0, 150.0])
def test_the_probability_of_theorem_3_is_that_each_neuron_sees_its_own_sample(degrees):
    x = unit(np.radians([0.0, degrees]))
    w = unit(np.random.default_rng(0).uniform(0, 2 * np.pi, (200_000, 2)))
    sees = np.einsum("nij,kj->nik", w, x) > 0
    own = (sees.sum(axis=1) == 1).all(axis=1) & (sees.sum(axis=2) == 1).all(axis=1)
    assert abs(own.mean() - 2 * (degrees / 360) ** 2) < 4 * np.sqrt(own.var() / len(own))


def test_the_mean_of_the_loss_runs_at_half_the_speed():
    example = ZERO.example()
    mean = replace(example.situation, loss=square.mean)
    here = assessed(ZERO, mean)
    run = example.run(mean)
    assert here.verify(run)["course"].verdict == "holds"
    half = two_neurons_from_zero(mean.network, mean.data, run.time.values[20] / 2)
    assert np.abs(np.concatenate(half).ravel() - run["weights"].values[20]).max() < 1e-6


# Theorem 2


@cache
def ends():
    """Starts within the hypotheses of Theorem 2, up to their bounds, and where the flow takes them."""
    rng, starts = np.random.default_rng(0), []
    for _ in range(200):
        data, angle = points(rng, 95, 150)
        w = unit(rng.uniform(0, 2 * np.pi, 2)) * min(0.5, np.sqrt(0.75) * np.cos(angle / 2))
        network = rf.Network([0.99 * w, 0.49 * unit(rng.uniform(0, 2 * np.pi, 2)).T])
        starts.append(Situation(network, data, square.sum))
        assert assessed(TWO, starts[-1]).status == "applies", assessed(TWO, starts[-1]).why
    found = flow_together([s.network for s in starts], [s.data for s in starts], 40.0)
    return [(s, w, v) for s, (w, v) in zip(starts, found, strict=True)]


def test_networks_that_fit_end_with_rank_two_and_no_less_than_the_bounds():
    fitted = alone = 0
    for situation, w, v in ends():
        if loss(w, v, situation.data) > 1e-10:
            continue
        fitted += 1
        assert stable_rank(w) > 1 + 1e-3
        sees = w @ situation.data.x.T > 0
        if (sees.sum(axis=0) == 1).all() and (sees.sum(axis=1) == 1).all():
            alone += 1
            lengths, rank = (bound(situation, w, v) for bound in (predicted_lengths, predicted_rank))
            assert (np.linalg.norm(w, axis=1) >= lengths - 1e-4).all()
            assert stable_rank(w) >= rank - 1e-4
            assert rank > 1
    assert fitted >= 20
    assert alone >= 8


@cache
def any_run():
    situation = TWO.example().situation
    return rf.descent(situation.network, situation.data, "square.sum", 0.1, 1, show=False)


def predicted(name, situation, w, v):
    """What is predicted of a run that ends at W and V."""
    ended = rf.Trajectory(any_run().dataset, [rf.Network([w, v])], any_run().settings)
    expected = next(p for p in assessed(TWO, situation).predictions if p.name == name)
    return expected.predicted(Evidence(situation, ended))


def predicted_lengths(*end):
    return predicted("lengths of the neurons", *end)


def predicted_rank(*end):
    return predicted("stable rank", *end)


def test_from_large_weights_the_flow_can_stay_at_rank_one():
    situation = TWO.example().situation
    network = rank_one_interpolator(situation.data)
    w, v = flows(network, situation.data, 10.0)
    assert loss(w, v, situation.data) < 1e-20
    assert stable_rank(w) < 1 + 1e-12
    assert assessed(TWO, replace(situation, network=network)).status == "does not apply"


def test_a_run_that_does_not_fit_is_no_counterexample():
    situation = TWO.example().situation
    w, v = situation.network.weights
    blind = -1e-3 * situation.data.x.sum(axis=0)  # sees neither sample, and never moves
    dead = replace(situation, network=rf.Network([np.stack([w[0], blind]), v]))
    run = rf.flow(dead.network, dead.data, dead.loss, 30.0, measures=["weights", "loss"], show=False)
    assert run.loss.values[-1] > 0.1
    assert {v.verdict for v in assessed(TWO, dead).verify(run) if v.result == TWO.name} == {"not measured"}


# Theorems 4 and 5


def deeper(weights, depth, signs):
    """The same outputs with more layers, all of one norm: through two neurons; one, if outputs are >= 0."""
    more = depth - len(weights)
    if more and signs:
        last = weights[-1]
        weights = [
            *weights[:-1],
            np.vstack([last, -last]),
            *[np.eye(2)] * (more - 1),
            np.array([[1.0, -1.0]]),
        ]
    elif more:
        weights = [*weights, *[np.eye(1)] * more]
    norms = [np.linalg.norm(w) for w in weights]
    return rf.Network(
        [np.prod(norms) ** (1 / depth) / norm * w for w, norm in zip(weights, norms, strict=True)]
    )


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("depth", [3, 4, 7])
def test_the_bounds_are_the_reciprocal_norm_of_a_network_made_deeper(depth, signs):
    rng = np.random.default_rng(0)
    b = 1.7
    weights = [rng.normal(size=(5, 3)), rng.normal(size=(1, 5))]
    weights = [b * w / np.linalg.norm(w) for w in weights]
    deep = deeper(weights, depth, signs)
    x = rng.normal(size=(20, 3))
    f = rf.Network(weights)(x)
    kept = np.full(20, True) if signs else f >= 0
    assert np.abs(deep(x) - f)[kept].max() < 1e-12
    bound = (margin_bound if signs else interpolation_bound)(b, 2, depth)
    assert np.allclose([np.linalg.norm(w) for w in deep.weights], 1 / bound, rtol=1e-12)
    printed = np.sqrt(0.5) * (np.sqrt(2) / b) ** (2 / depth) * np.sqrt(depth / (depth + 1))
    assert not signs or bound >= printed


@pytest.mark.parametrize("depth", [2, 3])
def test_networks_of_least_norm_keep_the_bound_of_theorem_5(depth):
    x = np.array([[0.9, 0.3], [0.2, 1.1], [-1.0, 0.4]])
    y = np.array([1.0, 1.0, -1.0])
    classifier = rf.data.hard_margin(rf.Data(x, y))
    b = np.sqrt(2 * np.linalg.norm(classifier.w))  # two neurons compute the linear classifier
    shapes = [(2, 2)] * (depth - 1) + [(1, 2)]
    cuts = np.cumsum([4] * (depth - 1))

    def layers(theta):
        return [part.reshape(shape) for part, shape in zip(np.split(theta, cuts), shapes, strict=True)]

    def margins(theta):
        h = x.T
        for w in layers(theta)[:-1]:
            h = np.maximum(w @ h, 0)
        return y * (layers(theta)[-1] @ h)[0] - 1

    one = np.stack([classifier.w, -classifier.w])
    linear = np.concatenate([w.ravel() for w in deeper([one, np.array([[1.0, -1.0]])], depth, True).weights])
    rng = np.random.default_rng(0)
    best = None
    for _ in range(30):
        start = linear + rng.normal(size=linear.shape) * rng.choice([0.1, 0.5])
        found = minimize(
            lambda t: t @ t / 2,
            start,
            jac=lambda t: t,
            constraints={"type": "ineq", "fun": margins},
            tol=1e-10,
        )
        if margins(found.x).min() > -1e-6 and (best is None or found.fun < best.fun):
            best = found
    least = layers(best.x)
    norms = np.array([np.linalg.norm(w) for w in least])
    assert best.fun < linear @ linear / 2
    assert np.ptp(norms) < 0.01
    assert norms.max() <= 1 / margin_bound(b, 2, depth) + 1e-3
    ratios = [np.linalg.norm(w, 2) / np.linalg.norm(w) for w in least]
    assert np.mean(ratios) >= margin_bound(b, 2, depth)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="layers <= depth"):
        margin_bound(2.0, 3, 2)
    with pytest.raises(ValueError, match="positive norm"):
        interpolation_bound(0.0, 2, 3)
