"""Defects that the battery found, each with an oracle of its own."""

import numpy as np
import pytest

from rankfall import Data, Network, exact_flow, limit
from tests.adversarial import battery, opinion, printed, separation, table
from tests.adversarial.problems import Problem


def given(x, y, w, b, a, slope, loss="exponential", both=False):
    arrays = (np.array(part, dtype=float) if part is not None else None for part in (x, y, w, b, a))
    return Problem(0, 0, "given", *arrays, slope, loss, both)


def limit_of(problem):
    network, data = battery.network_and_data(problem)
    return limit(network, data, problem.loss, seconds=5, show=False)


# A neuron comes so close to zero that all its kinks meet, and the wrong side is taken


NEAR_ZERO = given(
    x=[[0.39], [-0.09], [1.0], [-0.72]],
    y=[1, -1, -1, -1],
    w=[[0.0004], [0.0008], [-0.0007], [-0.001], [0.0003], [-0.0018]],
    b=[0.0021, -0.0014, 0.0026, -0.0013, 0.0001, -0.004],
    a=[1, 1, 1, -1, -1, -1],
    slope=0.01,
)


@pytest.mark.slow
def test_the_limit_of_a_neuron_that_nearly_vanishes_is_where_the_flow_leads():
    found = opinion.opinion(limit_of(NEAR_ZERO), NEAR_ZERO, steps=4000)
    assert found.word != opinion.CONTRADICTS, f"{found.why}: 1 - cos = {found.distance:.2g}"


# Samples that nearly coincide


def small_steps(x, y, w, slope, until, steps=4000):
    """One neuron with output weight 1 in the loss clock, by Euler's method."""
    for _ in range(steps):
        z = x @ w
        p = np.where(z > 0, 1.0, slope)
        q = y * p * z
        pulls = np.exp(q.min() - q)
        w = w + until / steps * (pulls / pulls.sum() * y * p) @ x
    return w


def end_at_gap(gap, of):
    """The neuron after s = 1.2 on two samples that are `gap` apart, and one of the other class."""
    x, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, gap]]), np.array([1.0, -1.0, 1.0])
    return of(x, y, np.array([-0.05, 1.0]), slope=0.1, until=1.2)


def exactly(x, y, w, slope, until):
    network = Network([[w], [[1.0]]], slope=slope, trained=[True, False])
    run = exact_flow(network, Data(x, y), "exponential", until, clock="loss", show=False)
    return run.network.weights[0][0]


def test_the_flow_is_continuous_in_the_gap_between_two_samples():
    wrong = []
    together = end_at_gap(0.0, small_steps)
    for gap in (digit * 10.0**exponent for exponent in range(-16, 0) for digit in (1, 2, 4)):
        # the end moves by less than 4 gap: below 1e-5 that is far less than Euler's error
        expected = end_at_gap(gap, small_steps) if gap > 1e-5 else together
        if np.abs(end_at_gap(gap, exactly) - expected).max() > 5e-4:
            wrong.append(gap)
    assert not wrong


# Small inputs next to a bias


SMALL_INPUTS = [
    given(
        x=[[1.0934e-06, 4.915e-07], [5.403e-07, -1.1602e-06]],
        y=[1, -1],
        w=[[-0.129, -0.0872]],
        b=[0.1163],
        a=[1],
        slope=1.0,
    ),
    given(
        x=[
            [6.85e-08, -1.251e-06, -1.584e-06],
            [6.325e-07, -4.70e-07, 1.187e-06],
            [3.747e-07, -2.142e-06, -4.22e-07],
            [-1.1096e-06, -3.62e-07, 8.94e-08],
            [7.942e-07, -1.527e-06, -1.281e-06],
        ],
        y=[-1, 1, -1, 1, -1],
        w=[[-0.013, 0.0738, 0.0563], [0.0219, -0.0195, -0.0994], [-0.1068, 0.0773, 0.119]],
        b=[-0.1841, 0.2015, -0.0344],
        a=[-0.5774, -0.5774, -0.5774],
        slope=1.0,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("problem", SMALL_INPUTS)
def test_what_a_hyperplane_separates_a_linear_network_is_not_said_to_leave_unseparated(problem):
    assert separation.separating_direction(problem) is not None
    assert limit_of(problem).verdict != "not separated"


# Integers, of which many combinations vanish exactly


INTEGERS = given(
    x=[
        [0, -3, -3, 1],
        [2, -1, -1, -2],
        [-3, 2, 2, -3],
        [-1, 3, -3, 1],
        [2, -1, -1, 1],
        [-3, 2, 0, 0],
        [3, 1, -1, 3],
        [1, -2, 1, -1],
        [2, -3, 0, 1],
    ],
    y=[1, -1, -1, 1, -1, 1, -1, 1, -1],
    w=[[-0.5, -1, 0.5, 0], [0.5, -1, 0.5, 0.5], [0.5, -1, -1, 0.5]],
    b=None,
    a=[1, -1, -1],
    slope=0.1,
)


@pytest.mark.slow
def test_integer_data_are_answered_and_the_answer_is_where_the_flow_leads():
    found = limit_of(INTEGERS)
    if found.certified:
        assert not printed.faults_of_kkt(found, INTEGERS)
        assert opinion.opinion(found, INTEGERS, steps=4000).word != opinion.CONTRADICTS
    if found.verdict == "not separated":
        assert not separation.flow_separates(INTEGERS, steps=4000)


# Samples on one line through the origin have one kink


ON_ONE_LINE = [
    given(
        x=[[2, -1], [1, -2], [-1, 0], [2, 1], [2, -1]],
        y=[-1, -1, -1, 1, -1],
        w=[[-0.0148, -0.2049], [-0.7504, -0.3883], [-0.4989, -0.0451], [-0.0335, 0.2347], [-0.5344, -0.1759]],
        b=None,
        a=[0.4472, -0.4472, -0.4472, -0.4472, 0.4472],
        slope=0.1,
    ),
    given(
        x=[[-2, 0, -2], [-2, 2, 1], [2, 0, 2]],
        y=[-1, 1, -1],
        w=[
            [-0.3796, -0.6324, 0.246],
            [0.3778, 0.1741, 0.0618],
            [0.5165, 0.3165, -0.1847],
            [-0.5196, -0.1997, -0.268],
            [0.13, 0.0945, -0.2346],
        ],
        b=None,
        a=[0.4472, -0.4472, -0.4472, -0.4472, -0.4472],
        slope=0.5,
    ),
]


@pytest.mark.parametrize("problem", ON_ONE_LINE, ids=["equal samples", "opposite samples"])
def test_multipliers_and_kinks_give_back_the_weights_where_samples_lie_on_one_line(problem):
    found = limit_of(problem)
    assert found.multipliers.any()
    assert not printed.faults_of_kkt(found, problem)


# Problems of the battery


ONCE_WRONG = {
    (1, 210): "square loss: the end of the region lies beyond kinks",
    (1, 305): "square loss: the end of the region lies beyond kinks, on integers",
    (0, 80): "two samples that nearly coincide: at rest after one step",
    (1, 148): "two samples that nearly coincide, both layers trained: at rest",
    (1, 199): "two samples that nearly coincide, a linear network: at rest",
    (1, 44): "small inputs with biases, both layers trained: at rest",
    (0, 78): "small inputs with biases: no sample has the smallest margin",
    (100, 368): "badly scaled columns: rounded weights miss the margins that are proved",
    (
        100,
        369,
    ): "square loss, a linear network, two samples that nearly coincide: pulls at a kink that is none",
}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "index"), ONCE_WRONG, ids=ONCE_WRONG.values())
def test_problems_on_which_the_answer_was_wrong_once(seed, index):
    cases = list(battery.run(seed, [index], seconds=2.0, steps=3000))
    assert not any(case.faults for case in cases), table.faults(cases, 2.0)


ONCE_OPEN = {
    (11, 11): "badly scaled columns: the residuals of rounded weights, though the point is proved",
    (11, 29): "two samples that nearly coincide, a linear network: floats find no multipliers",
    (11, 91): "duplicates: a sample that occurs several times pulls as often",
    (11, 60): "square loss, large inputs with a bias: the slow mode is lost where large pulls cancel",
    (11, 80): "square loss, two samples that nearly coincide: a mode that takes for ever",
}


@pytest.mark.parametrize(("seed", "index"), ONCE_OPEN, ids=ONCE_OPEN.values())
def test_problems_that_had_no_answer_once(seed, index):
    case = battery.one(seed, index, seconds=5.0, steps=3000)
    assert case.verdict in (battery.CERTIFIED, battery.FOLLOWED), case.reason
    assert not case.faults, table.faults([case], 5.0)
