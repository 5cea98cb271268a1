"""The flow comes to rest in part: some margins stay finite, and others grow without bound."""

from copy import deepcopy

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize_scalar

import rankfall as rf
from rankfall.data import Data
from rankfall.dynamics import Reduction
from rankfall.dynamics.exact import walk_of
from rankfall.limits import Verdict
from rankfall.limits._dead import dark, with_walls
from rankfall.limits._fixed import FixedSecondLayer
from rankfall.limits._partly import Partly, Turning, partly
from rankfall.loss import named

SAYS = "grow without bound, and this is the limit of the direction"


def on_an_axis():
    """Three samples on the first axis that no direction separates, and two that the second axis separates."""
    x = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.5, 1.0], [-0.3, -2.0]])
    return Data(x, [1.0, -1.0, 1.0, 1.0, -1.0], "three on an axis")


@pytest.mark.parametrize("loss", ["exponential", "logistic.sum"])
def test_a_linear_network_divides_the_samples_as_ji_and_telgarsky_do(loss):
    data = on_an_axis()
    network = rf.Network.fixed_second_layer((2, 4, 1), slope=1.0, sigma=0.1, seed=0)
    walk = walk_of(Reduction([network], data, named(loss)), 1e-10)
    walk.forward(600)
    end = partly(walk)
    np.testing.assert_array_equal(end.rests, [True, True, True, False, False])
    whole = network.weights[1] @ end.w
    np.testing.assert_allclose(whole, [[0.0, 1.0]], atol=1e-9)  # orthogonal to the axis
    assert end.distance < 0.1

    def on_the_axis(v):  # what the three lose, at the least
        q = v * data.x[:3, 0] * data.y[:3]
        each = np.exp(-q) if loss == "exponential" else np.logaddexp(0, -q)
        return each.sum()

    least = minimize_scalar(on_the_axis, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10}).fun
    assert end.loss == pytest.approx(least, rel=1e-9)


def noisy(seed, n=14, d=3):
    """Labels by a plane, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Data(x, np.where(x @ rng.normal(size=d) + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0), "noisy")


def by_scipy(network, data, log_times):
    """The first layers at these log t, by SciPy's integrator in log t, with kinks rounded off."""
    w, a, alpha = network.weights[0], network.weights[1][0], float(network.slope)

    def flow(log_time, v):
        z = v.reshape(w.shape) @ data.x.T
        size = np.sqrt(z**2 + 1e-8)
        pulls = data.y * np.exp(-data.y * (a @ (alpha * z + (1 - alpha) * (z + size) / 2))) / len(data.y)
        slopes = alpha + (1 - alpha) * (1 + z / size) / 2
        return np.exp(log_time) * ((a[:, None] * slopes * pulls) @ data.x).ravel()

    first = flow(-9.0, w.ravel()).reshape(w.shape) + w  # to t = e^-9 the flow is straight
    run = solve_ivp(flow, (-9.0, log_times[-1]), first.ravel(), "LSODA", log_times, rtol=1e-8, atol=1e-8)
    assert run.success
    return [row.reshape(w.shape) for row in run.y.T]


@pytest.mark.parametrize(("seed", "slope"), [(6, 0.0), (7, 0.0), (12, 0.0)])
def test_the_direction_is_that_in_which_scipy_sees_the_flow_go(seed, slope):
    data = noisy(seed)
    network = rf.Network.fixed_second_layer((3, 4, 1), slope=slope, sigma=0.3, seed=seed)
    end = rf.limit(network, data, seconds=30, show=False)
    assert end.verdict is Verdict.FOLLOWED
    assert SAYS in end.missing[0], end.missing
    before, after = by_scipy(network, data, [10.0, 13.0])
    gone, direction = (after - before).ravel(), np.ravel(end.network.weights[0])
    assert gone @ direction / np.linalg.norm(gone) / np.linalg.norm(direction) > 0.99
    z = after @ data.x.T
    q = data.y * (end.network.weights[1][0] @ np.where(z > 0, z, slope * z))
    rests = end.margins == 0
    assert (q[~rests] > q[rests].max()).all()
    assert end.settings["loss_at_end"] == pytest.approx(np.exp(-q[rests]).sum() / len(q), rel=1e-2)
    np.testing.assert_array_equal(q <= 0, rests)  # no neuron is active on these
    assert end.missing[0].startswith(f"{int(rests.sum())} of {len(q)} samples are never classified")


@pytest.mark.parametrize("seed", [0, 21, 39])
def test_neurons_stay_on_their_sides_where_dead_samples_hold_them(seed):
    """A dead sample pulls more and more, relative to the others, on the neurons that it holds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 4))
    y = np.where(x @ rng.normal(size=4) + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)
    network = rf.Network.fixed_second_layer((4, 6, 1), slope=0.0, sigma=1e-2, seed=seed)
    walk = walk_of(Reduction([network], Data(x, y), named("exponential")), 1e-10)
    while walk.steps < 3000 and walk.clock.log_time < 60:
        walk.forward(50)
        z, side = walk.weights.w @ walk.region.x.T, walk.region.side
        size = np.linalg.norm(walk.weights.w)
        assert (side * z >= -1e-10 * size).all()
        assert (np.abs(z[side == 0]) <= 1e-9 * size).all()
    assert (walk.outputs == 0).any()


def at_time(walk, goal):
    """The first layer at a time: `forward` ends just before the step that reaches it."""
    while True:
        walk.forward(50, log_time=goal)
        piece = walk.step()
        ahead = walk.clock.log_time_at(piece, piece.cut) - goal
        if ahead >= 0:

            def late(theta, piece=piece):
                return walk.clock.log_time_at(piece, theta) - goal

            walk.take(piece, brentq(late, 0.0, piece.cut))
            return walk.weights.w
        walk.take(piece)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_with_walls_for_dead_samples_the_flow_is_the_same_in_another_clock(loss):
    network = rf.Network.fixed_second_layer((3, 4, 1), slope=0.0, sigma=0.3, seed=7)
    walk = walk_of(Reduction([network], noisy(7), named(loss)), 1e-10)
    while dark(walk).sum() < 3 or (walk.pull.y * walk.outputs)[~dark(walk)].min() < 10:
        walk.forward(5)
    walled = with_walls(walk, dark(walk))
    walled = walled.continued(deepcopy(walk.motion), walled.clock, walk.rtol, np.inf)
    goal = walk.clock.log_time + 6
    there, here = at_time(walk, goal), at_time(walled, goal)
    np.testing.assert_allclose(here, there, atol=1e-7 * np.abs(there).max())


def test_a_search_goes_on_without_dead_samples_where_their_loss_hides_that_of_the_others():
    """Their margins reach 1e4: next to the loss of a dead sample the others' is then e^-1e4."""
    network = rf.Network.fixed_second_layer((3, 4, 1), slope=0.0, sigma=0.3, seed=7)
    search = FixedSecondLayer(
        network, noisy(7), named("exponential"), tol=1e-10, budget=10**6, seconds=60.0, large=10**5,
        optimality=False, show=False,
    )  # fmt: skip
    for _ in search.stretches():
        if search.smallest() > 1e4:
            break
    assert search.dead.sum() == 3
    assert search.smallest() > 1e4
    z = search.walk.weights.w @ search.data.x.T
    assert (z[:, search.dead] <= 1e-9 * np.abs(z).max()).all()


def test_pairs_that_are_said_to_cross_do_so_before_the_end_is_known():
    network = rf.Network.fixed_second_layer((3, 4, 1), slope=0.0, sigma=0.3, seed=24)
    walk = walk_of(Reduction([network], noisy(24), named("exponential")), 1e-10)
    while not isinstance(turning := partly(walk), Turning):
        walk.forward(25)
    before = len(walk.events)
    while not isinstance(end := partly(walk), Partly):
        walk.forward(25)
    friendly = [walk.weights.a[e.neuron] * walk.pull.y[e.sample] > 0 for e in walk.events[before:]]
    np.testing.assert_array_equal(end.rests, turning.rests)
    assert sum(friendly) == turning.pairs == 1


@pytest.mark.slow
def test_a_search_says_how_many_pairs_still_cross_where_a_flow_rests_in_part():
    network = rf.Network.fixed_second_layer((3, 4, 1), slope=0.1, sigma=0.3, seed=7)
    found = rf.limit(network, noisy(7), seconds=6, optimality=False, show=False)
    assert not found.verdict.finished
    assert "13 of 14 samples come to rest, but 16 pairs of neuron and sample cross" in found.missing[1]
