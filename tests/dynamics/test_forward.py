"""The compiled steps of the exact flow against the walk in NumPy, event by event."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

from rankfall import Data, Network, Until, exact_flow
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import AtRest, Stalled, Walk, walk_of
from rankfall.loss import named
from rankfall.outcome import Outcome
from rankfall.papers.zhang.six_points import six_points

TIES = 1e-7  # relative: events that are so near each other in time may change their order
LOSSES = ("exponential", "logistic", "square", "exponential.sum", "logistic.sum", "square.sum")


def problem(seed):
    """A random network on random data, some with whole numbers, or opposite or parallel rows."""
    rng = np.random.default_rng(seed)
    n, d, m = int(rng.integers(4, 25)), int(rng.integers(2, 12)), 2 * int(rng.integers(1, 8))
    x = rng.standard_normal((n, d))
    kind = rng.integers(5)
    if kind == 1:
        x = np.round(2 * x) + rng.integers(2, size=(n, 1)) / 2
    if kind == 2:
        x[n // 2 :] = -x[: n - n // 2]
    if kind == 3:
        x[-1] = 3 * x[0]
    x[np.linalg.norm(x, axis=1) == 0] = 1.0
    y = np.sign(x @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n))
    y[y == 0] = 1.0
    y[:2] = 1, -1
    slope, scale = float(rng.choice([0.0, 0.01, 0.1, 0.5])), float(rng.choice([1e-4, 0.1, 1.0]))
    if rng.integers(2):
        network = Network.gaussian((d, m, 1), slope=slope, scale=scale, seed=seed)
    else:
        bias = bool(rng.integers(2))
        network = Network.fixed_second_layer((d, m, 1), slope=slope, sigma=scale, seed=seed, bias=bias)
    return network, Data(x, y), named(str(rng.choice(LOSSES)))


def walks(network, data, loss, rtol=1e-10):
    reduction = Reduction([network], data, loss)
    return walk_of(reduction, rtol), walk_of(reduction, rtol)


def naive(walk, steps):
    """The walk after so many steps in NumPy."""
    try:
        while walk.steps < steps:
            walk.advance()
    except Stalled:
        pass
    return walk


def compiled(walk, most):
    """The walk at the same place, by compiled steps from the first one on."""
    try:
        while walk.clock.now < most and walk.steps < 20_000:
            walk.forward(1000, most)
    except AtRest:
        pass
    return walk


def in_order(walk, still=np.inf):
    """(neuron, sample, side) of all events, those at one time sorted."""
    events, found = [e for e in walk.events if e.clock < still], []
    while events:
        together = [e for e in events if e.clock <= events[0].clock * (1 + TIES)]
        found += sorted((e.neuron, e.sample, e.side) for e in together)
        events = events[len(together) :]
    return found


def compare(seed, steps=250):
    return agree(*problem(seed), steps)


def agree(network, data, loss, steps):
    """Compare the two walks after so many steps; False if the flow is at rest by then."""
    there, here = walks(network, data, loss)
    naive(there, steps)
    if there.at_rest() or there.clock.now == 0:  # what happens at rest is rounding
        return False
    compiled(here, there.clock.now)
    assert here.clock.now == there.clock.now
    cut = there.clock.now * (1 - 1e-6)
    assert in_order(here, cut) == in_order(there, cut)
    times = [np.sort([e.clock for e in walk.events if e.clock < cut]) for walk in (here, there)]
    np.testing.assert_allclose(*times, rtol=1e-6)
    size = np.linalg.norm(there.weights.w)
    assert np.linalg.norm(here.weights.w - there.weights.w) <= 1e-7 * size
    np.testing.assert_allclose(here.weights.a, there.weights.a, atol=1e-7 * np.abs(there.weights.a).max())
    np.testing.assert_allclose(here.clock.log_time, there.clock.log_time, rtol=1e-5, atol=1e-6)
    return True


@pytest.mark.parametrize("part", range(3))
def test_compiled_steps_agree_with_the_walk_event_by_event(part):
    assert sum(compare(seed) for seed in range(12 * part, 12 * part + 12)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_compiled_steps_agree_with_the_walk_on_five_hundred_problems(part):
    assert sum(compare(seed, 150) for seed in range(100 + 50 * part, 150 + 50 * part)) >= 35


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_compiled_steps_agree_with_the_walk_where_most_samples_pull_no_more(loss, both):
    rng = np.random.default_rng(11)
    x, loss = rng.standard_normal((60, 4)), named(loss)
    network = (
        Network.gaussian((4, 10, 1), slope=0.1, scale=25.0, seed=3)
        if both
        else Network.fixed_second_layer((4, 10, 1), slope=0.1, sigma=200.0, seed=3)
    )
    f = walks(network, Data(x, np.where(x[:, 0] > 0, 1.0, -1.0)), loss)[0].outputs
    data = Data(x, np.where((f > 0) ^ (np.abs(f) < 2), 1.0, -1.0))
    there, _ = walks(network, data, loss)
    pulls = np.abs(naive(there, 120).present_pulls())
    assert (pulls > 1e-30 * pulls.sum()).mean() < 0.6
    assert agree(network, data, loss, 120)


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_compiled_steps_alone_keep_what_the_flow_conserves(slope, both):
    """The second layer's balance; and a loss in the clock s that falls as its gradient says."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 5))
    y = np.sign(x @ rng.standard_normal(5))
    network = (
        Network.gaussian((5, 12, 1), slope=slope, scale=0.1, seed=2)
        if both
        else Network.fixed_second_layer((5, 12, 1), slope=slope, sigma=0.1, seed=2)
    )
    walk = walk_of(Reduction([network], Data(x, y), named("exponential")), 1e-10)
    start = walk.weights
    balance = (start.w**2).sum(axis=1) - start.a**2
    losses = []
    while walk.steps < 400:
        walk.forward(20)
        losses.append(logsumexp(-y * walk.outputs))
        if both:
            w = walk.weights
            np.testing.assert_allclose((w.w**2).sum(axis=1) - w.a**2, balance, rtol=1e-7, atol=1e-9)
    assert len(walk.events) > 100
    assert (np.diff(losses) < 0).all()
    np.testing.assert_allclose(walk.outputs, walk.outputs_of(walk.weights), rtol=1e-8, atol=1e-9)


def test_the_side_of_every_pair_is_that_of_its_preactivation():
    network, data, loss = problem(3)
    walk = walk_of(Reduction([network], data, loss), 1e-10)
    for _ in range(20):
        walk.forward(25)
        z, side = walk.weights.w @ walk.region.x.T, walk.region.side
        sizes = walk.motion.sizes[:, None] * walk.region.lengths
        assert (side * z >= -1e-11 * sizes).all()
        assert (np.abs(z) <= 1e-11 * sizes)[side == 0].all()


def test_many_steps_end_where_the_clock_is_to_be():
    network, data, loss = problem(4)
    walk = walk_of(Reduction([network], data, loss), 1e-10)
    for most in (1e-3, 0.1, 0.37, 2.0):
        walk.forward(10_000, most)
        assert walk.clock.now == most


def test_many_steps_end_before_a_loss_or_a_time_is_reached():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 4))
    data = Data(x, np.sign(x[:, 0]))
    network = Network.fixed_second_layer((4, 8, 1), slope=0.1, sigma=1e-3, seed=0)
    for bounds in ({"log_loss": -3.0}, {"log_time": 4.0}):
        walk = walk_of(Reduction([network], data, named("exponential")), 1e-10)
        walk.forward(10_000, **bounds)
        assert walk.pull.log_loss(walk.outputs) > bounds.get("log_loss", -np.inf)
        assert walk.clock.log_time < bounds.get("log_time", np.inf)
        for _ in range(50):  # a few steps later they are
            walk.advance()
        reached = walk.pull.log_loss(walk.outputs) <= bounds.get("log_loss", -np.inf)
        assert reached or walk.clock.log_time >= bounds.get("log_time", np.inf)


def test_records_do_not_change_the_flow():
    network, data, _ = problem(11)
    options = {"measures": ["weights"], "show": False}
    few = exact_flow(network, data, "exponential", Until(time=3.0), clock="loss", record=[], **options)
    many = exact_flow(network, data, "exponential", Until(time=3.0), clock="loss", **options)
    assert few.outcome is many.outcome is Outcome.ARRIVED
    np.testing.assert_allclose(few.weights[-1], many.weights[-1], rtol=1e-7, atol=1e-9)
    assert few.statistics.events == many.statistics.events
    assert few.regions[-1] == many.regions[-1]


def test_the_same_compiled_steps_give_the_same_bits():
    network, data, loss = problem(8)
    one, other = walks(network, data, loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for walk in (one, other):
            walk.forward(300)
    assert (one.weights.w == other.weights.w).all()
    assert [e.clock for e in one.events] == [e.clock for e in other.events]


def test_a_tiny_walk_compiles_nothing():
    network, data, loss = problem(0)
    walk = walk_of(Reduction([network], data, loss), 1e-10)
    assert isinstance(walk, Walk)
    walk.forward(10)
    assert not walk.compiles
    assert walk._twin is None


BESIDE = """
import numpy as np
import rankfall as rf
from rankfall.dynamics import Reduction
from rankfall.dynamics.exact import compile_steps, walk_of

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 5))
network = rf.Network.fixed_second_layer((5, 6, 1), slope=0.1, sigma=0.1, seed=0)
walk = walk_of(Reduction([network], rf.Data(x, np.sign(x[:, 0])), rf.loss.named("exponential")), 1e-10)
walk.forward(60)
assert walk.compiles and walk.steps == 60
compile_steps()
walk.forward(1)
assert not walk.compiles
"""


@pytest.mark.slow
def test_the_first_walk_goes_on_while_its_steps_are_compiled(tmp_path):
    """In a process that finds no compiled code."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", BESIDE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", [1e6, 1e10, 1e16, 1e40])
def test_a_first_step_that_is_far_too_long_is_taken_in_parts(first):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((12, 4))
    data = Data(x, np.sign(x[:, 0] + x[:, 1]))
    network = Network.fixed_second_layer((4, 6, 1), slope=0.1, sigma=0.1, seed=1)
    there, here = walks(network, data, named("square"))
    for walk in (there, here):
        walk.forward(30)
    here._next = first
    here.forward(5)
    there.forward(10_000, here.clock.now)
    assert here.clock.now == there.clock.now
    np.testing.assert_allclose(here.weights.w, there.weights.w, rtol=1e-7, atol=1e-9)
    assert np.isfinite(here.motion.sizes).all()


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_neurons_that_pass_near_zero_go_on(seed):
    """Six points in the plane, both layers trained from small weights: aligned neurons pass near zero."""
    data = six_points(0.15)
    network = Network.gaussian((2, 100, 1), slope=0.0, scale=1e-3, seed=seed)
    there, here = walks(network, data, named("square"), rtol=1e-6)
    while there.clock.now < 10:
        there.advance()
    here.forward(100_000, there.clock.now)
    assert here.clock.now == there.clock.now
    np.testing.assert_allclose(here.outputs, there.outputs, atol=1e-4 * np.abs(there.outputs).max())
