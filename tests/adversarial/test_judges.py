"""The judges before judges: what they must accept, and what they must not let pass."""

import time
from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest
from sklearn.svm import SVC

from rankfall import Data, Network, limit
from tests.adversarial import battery, opinion, printed, separation
from tests.adversarial.descent import descend
from tests.adversarial.problems import KINDS, Problem, problem
from tests.adversarial.rounded import follow

STEPS = 2000


def given(x, y, w, a, slope, loss="exponential", b=None, both=False):
    arrays = (None if part is None else np.array(part, dtype=float) for part in (x, y, w, b, a))
    return Problem(0, 0, "given", *arrays, slope, loss, both)


def separable(slope, loss="exponential", both=False):
    """Six samples in the plane and four neurons, with kinks in the limit if the slope is 0."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6, 2))
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    return given(
        x + 0.5 * y[:, None] * [1, 0],
        y,
        rng.normal(size=(4, 2)),
        [0.5, -0.5, 0.5, -0.5],
        slope,
        loss,
        None,
        both,
    )


def limit_of(p):
    network, data = battery.network_and_data(p)
    return limit(network, data, p.loss, seconds=20, show=False)


def turned(found, angle):
    """The same limit with its first layer turned a little."""
    c, s = np.cos(angle), np.sin(angle)
    w = found.network.weights[0] @ np.array([[c, -s], [s, c]])
    return replace(found, network=eqx.tree_at(lambda n: n.weights[0], found.network, w))


def test_problems_are_drawn_again_from_their_numbers():
    for index in range(2 * len(KINDS)):
        one, two = problem(5, index), problem(5, index)
        assert one.as_python() == two.as_python()
        assert 1 <= len(one.y) <= 12
        assert one.x.shape[1] <= 30
        assert 1 <= len(one.a) <= 20
        assert one.kind == list(KINDS)[index % len(KINDS)]


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_both_oracles_find_the_maximal_margin_of_a_linear_network(loss):
    p = separable(1.0, loss)
    x, y = np.concatenate([p.x, -p.x]), np.concatenate([p.y, -p.y])
    svm = SVC(kernel="linear", C=1e10, tol=1e-10).fit(x, y).coef_[0]  # the mirror image: no intercept

    def done(path):
        return opinion.settled_direction(path) is not None

    for path in (follow(p, 1e-6, 10_000, done), descend(p, 1, 40_000, done)):
        direction = opinion.settled_direction(path)
        assert opinion.one_minus_cos(p.a @ direction, svm) < 1e-7


def test_the_oracles_agree_on_the_way_before_they_agree_on_its_end():
    p = separable(0.1)
    states = []
    for path in (follow(p, 1e-6, 500), descend(p, 64, 20_000)):
        clocks = [mark.clock for mark in path.marks]
        rows = np.array([mark.w.ravel() for mark in path.marks])
        states.append([np.interp(0.3, clocks, column) for column in rows.T])
    np.testing.assert_allclose(*states, atol=0.05)  # between marks they are interpolated


def test_the_square_loss_ends_at_the_least_squares_solution_next_to_the_start():
    p = separable(1.0, "square")
    path = follow(p, 1e-6, 10_000, lambda path: opinion.end_point(path) is not None)
    start = p.a @ p.w
    kernel = p.x.T @ p.x * (p.a @ p.a)
    gain = np.linalg.lstsq(kernel, p.x.T @ (p.y - p.x @ start), rcond=None)[0]
    expected = p.w + np.outer(p.a, gain)  # W moves along a g^T only
    np.testing.assert_allclose(path.marks[-1].w, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_a_certified_limit_is_accepted_and_a_turned_one_is_not(slope):
    p = separable(slope)
    found = limit_of(p)
    assert found.certified
    assert not printed.faults_of_kkt(found, p)
    assert printed.is_kkt_point(found, p)
    assert opinion.opinion(found, p, STEPS).word == opinion.AGREES
    wrong = turned(found, 0.05)
    assert printed.faults_of_kkt(wrong, p)
    assert not printed.is_kkt_point(wrong, p)
    assert opinion.opinion(wrong, p, STEPS).word == opinion.CONTRADICTS


@pytest.mark.slow
def test_both_layers_and_the_square_loss_are_judged_too():
    six = separable(0.1, "square")
    for p in (separable(0.1, both=True), replace(six, x=six.x[:2], y=six.y[:2])):
        found = limit_of(p)
        assert opinion.opinion(found, p, STEPS).word == opinion.AGREES
        assert opinion.opinion(turned(found, 0.05), p, STEPS).word == opinion.CONTRADICTS
    assert not printed.faults_of_end(found, p)
    assert printed.faults_of_end(turned(found, 0.05), p)


def test_numbers_that_do_not_rebuild_the_weights_are_told_from_a_wrong_point():
    p = separable(0.1)
    found = limit_of(p)
    wrong = replace(found, multipliers=found.multipliers * 1.01)
    assert printed.faults_of_kkt(wrong, p)
    assert printed.is_kkt_point(wrong, p)


def test_a_separating_direction_is_found_where_there_is_one_and_only_there():
    x = np.array([[1e-6, 2e-6], [3e-6, -1e-6], [-2e-6, 0.5e-6]])
    p = given(x, [1, 1, -1], [[1, 1]], [1], 1.0, b=[0])
    v = separation.separating_direction(p)
    assert (p.y * (p.inputs @ v) > 0).all()
    xor = given([[1, 1], [-1, -1], [1, -1], [-1, 1]], [1, 1, -1, -1], [[1, 1]], [1], 1.0)
    assert separation.separating_direction(xor) is None


def test_a_flow_that_separates_is_told_from_one_that_rests_at_a_saddle():
    assert separation.flow_separates(separable(0.1), STEPS)
    # A linear neuron that is wrong shrinks to zero and rests there, unless it is nudged out of balance.
    x, y = [[1.0], [-1.0]], [1, -1]
    saddle = given(x, y, [[-1.0], [0.0]], [1.0, 0.0], 1.0, both=True)
    assert not separation.flow_separates(saddle, STEPS)


def test_messages_with_the_words_of_numpy_are_noticed():
    assert printed.speaks_of_internals("the matrix is not positive semidefinite") == "semidefinite"
    assert printed.speaks_of_internals("a residual of nan") == "nan"
    assert printed.speaks_of_internals("zero training error not reached; financial data") is None


def test_a_call_that_does_not_listen_is_ended():
    with pytest.raises(KeyboardInterrupt), battery.alarms(0.05, 10):
        time.sleep(5)
    with pytest.raises(battery.HardStop), battery.alarms(None, 0.05):
        time.sleep(5)


def test_a_problem_is_stated_as_python_that_runs():
    p = separable(0.1)
    names = {"Network": Network, "Data": Data, "limit": limit}
    exec(p.as_python(), names)
    assert names["end"].certified


@pytest.mark.slow
def test_rounded_kinks_that_hold_a_neuron_at_zero_accuse_nobody_if_descent_frees_it():
    p = problem(600, 70)  # neuron 3 slides along two kinks to zero, and goes on
    found = limit_of(p)
    assert found.verdict == "certified"
    said = opinion.opinion(found, p, 8000)
    assert said.word == opinion.UNDECIDED  # why, rounding decides: the oracles differ, or have not settled
