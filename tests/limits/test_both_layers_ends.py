"""Ends of both layers at which samples stay on the wrong side, and the parts of the way to a late limit."""

import numpy as np
import pytest

from rankfall import Data, Network, limit
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import walk_of
from rankfall.limits._shares import leap
from rankfall.limits._slow import slow_walk
from rankfall.limits._tangent import Tangent
from rankfall.loss import named

RNG = np.random.default_rng


def late_walk(margin, seed=5):
    """An exact flow in which shares still move at large margins."""
    data = Data(RNG(seed).normal(size=(6, 3)), [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    network = Network.gaussian((3, 10, 1), 0.1, 1.0, seed)
    walk = walk_of(Reduction([network], data, named("exponential")), rtol=1e-10)
    while (walk.pull.y * walk.outputs).min() < margin:
        walk.advance()
    return walk


def slow_until(tau):
    walk = slow_walk(late_walk(1e3))
    while walk.clock.now < tau * (1 - 1e-12):
        walk.advance(tau - walk.clock.now)
    return walk


def state(walk):
    return np.concatenate([walk.weights.w.ravel(), walk.weights.a])


# Dead samples and rest points


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_limit_beside_a_dead_sample_is_that_of_the_others_with_a_wall(loss):
    # The neuron with a < 0 turns to x_2, and slides along the kink of x_3 when it comes there, for y_3 > 0.
    # So v_2 is the projection: A = sqrt(2), and the neuron of x_1 has A = 1/|x_1|. No neuron ever sees x_3.
    data = Data([[1.0, -2.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -1.0, 1.0])
    start = Network([[[0.3, -0.5], [-2.0, 1.0]], [[0.6, -2.0]]], slope=0.0)
    found = limit(start, data, loss, show=False)
    assert found.verdict == "followed", found.missing
    assert found.settings["end"].startswith("1 of 3 samples are never classified")
    amplitudes = np.array([1 / np.sqrt(5), np.sqrt(2)])
    np.testing.assert_allclose(np.asarray(found.network.weights[1])[0] ** 2, amplitudes, rtol=1e-8)
    directions = np.array([[1.0, -2.0], [-1.0, 1.0]]) / np.sqrt([[5.0], [2.0]])
    np.testing.assert_allclose(found.W, np.sqrt(amplitudes)[:, None] * directions, atol=1e-8)
    np.testing.assert_allclose(found.margins, [1.0, 1.0, 0.0], atol=1e-10)
    np.testing.assert_allclose(found.multipliers, [1 / np.sqrt(5), np.sqrt(2), 1 / np.sqrt(2)], rtol=1e-8)


def test_a_flow_that_cannot_separate_rests_where_its_samples_balance():
    # One neuron with a > 0: L = 2 exp(-p_1) + 2 exp(-p_2) + exp(p_1 + p_2), least at p_1 = p_2 = log(2)/3.
    x = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    data = Data(x, [1.0, 1.0, 1.0, 1.0, -1.0])
    start = Network([[[1.0, 1.2]], [[1.0]]], slope=0.0)
    found = limit(start, data, show=False)
    assert found.verdict == "followed", found.missing
    assert found.settings["end"] == "rest point: 1 of 5 samples are misclassified"
    w, a = found.W[0], float(found.network.weights[1][0, 0])
    np.testing.assert_allclose(a * w, np.log(2) / 3, rtol=1e-7)
    assert w @ w - a**2 == pytest.approx(1.44, rel=1e-8)  # what the flow conserves


def test_a_network_whose_neurons_all_die_is_at_rest():
    start = Network([[[0.5, -1.0]], [[1.0]]], slope=0.0)  # x_1 pushes it down to its kink, x_2 is below
    found = limit(start, Data([[1.0, 0.0], [0.0, 1.0]], [-1.0, 1.0]), show=False)
    assert found.verdict == "followed", found.missing
    assert found.settings["end"] == "rest point: 2 of 2 samples are misclassified"
    np.testing.assert_allclose(found.W, [[0.0, -1.0]], atol=1e-10)


# The slow flow


def test_the_kernels_of_a_region_give_the_pulls_of_least_squares():
    walk = late_walk(100.0)
    support = np.array([True, True, False, True, True, False])
    tangent = Tangent(walk.region, support, walk.pull.y)
    w, a = (RNG(1).normal(size=(4, *shape)) for shape in (walk.weights.w.shape, walk.weights.a.shape))
    found = tangent.pulls(w @ walk.region.x.T, a)
    for k in range(4):
        kernel = walk.region.tangent_kernel(w[k], a[k])[np.ix_(support, support)]
        expected = np.linalg.lstsq(kernel, walk.pull.y[support], rcond=None)[0]
        np.testing.assert_allclose(found[k, support], expected, rtol=1e-9)
    assert not found[:, ~support].any()


def test_leaps_come_where_the_slow_flow_comes_to_first_order():
    """Both are compared after some steps of the slow flow, in which the state comes back to it."""
    target = state(slow_until(46.0))
    errors = []
    for count in (2, 4, 8):
        walk = slow_until(30.0)
        before = state(walk)
        for _ in range(count):
            assert leap(walk, walk.clock, 8.0 / count)
        while walk.clock.now < 46.0 * (1 - 1e-12):
            walk.advance(46.0 - walk.clock.now)
        errors.append(np.linalg.norm(state(walk) - target))
    assert errors[0] < 0.1 * np.linalg.norm(target - before)
    assert 1.6 < errors[0] / errors[1] < 2.6
    assert 1.6 < errors[1] / errors[2] < 2.6


# Answers at a middle size


def labels(kind, x, rng):
    if kind == "linear":
        return np.sign(x @ rng.normal(size=x.shape[1]))
    if kind == "random":
        return rng.choice((-1.0, 1.0), len(x))
    heights = np.maximum(x @ rng.normal(size=(x.shape[1], 3)), 0) @ [1.0, -1.0, 1.0]
    return np.where(heights > np.median(heights), 1.0, -1.0)


def kkt_residual(found, data, slope):
    """Stationarity, margins and signs, from the printed numbers alone."""
    w, a = found.W, np.asarray(found.network.weights[1])[0]
    z = w @ data.x.T
    p = np.where(found.region > 0, 1.0, slope)
    for neuron, sample, at_kink in found.kinks:
        p[neuron, sample] = at_kink
    assert p.min() >= slope - 1e-9
    assert p.max() <= 1 + 1e-9
    assert found.multipliers.min() >= 0
    pulls = p * found.multipliers * data.y
    counts = (found.region > 0).any(axis=0) if "end" in found.settings else np.ones(len(data.y), dtype=bool)
    q = data.y * (a @ np.where(z > 0, z, slope * z))
    assert q[counts].min() > 1 - 1e-9
    assert np.abs(q[~counts]).max(initial=0.0) < 1e-9
    off = np.abs(w - a[:, None] * (pulls @ data.x)).max() + np.abs(a - (pulls * z).sum(axis=1)).max()
    return off + (found.multipliers * (q - 1))[counts].max()


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["linear", "teacher", "random"])
def test_twenty_samples_have_an_answer_and_it_is_a_kkt_point(kind, slope):
    rng = RNG([3, len(kind)])
    x = rng.normal(size=(20, 10))
    data = Data(x, labels(kind, x, rng))
    found = limit(
        Network.balanced((10, 20, 1), slope, 1e-4, 1), data, optimality=False, show=False, seconds=300
    )
    assert found.verdict == "followed", found.missing
    assert found.multipliers.any()
    assert kkt_residual(found, data, slope) < 1e-8
