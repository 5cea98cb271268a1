"""What the experiments on Zhang et al. derive beyond the theory pages, against oracles of their own."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rankfall.data import beta, covariance, symmetric_sine
from rankfall.network import Network
from rankfall.papers.zhang.closed_form import same_moments, share_of
from rankfall.papers.zhang.time_course import drift
from rankfall.papers.zhang.training import largest_step


@pytest.mark.parametrize("slope", [0.0, 0.5, 0.75])
def test_the_halves_become_equal_as_their_closed_form_says(slope):
    data = symmetric_sine(pairs=40, dim=3, seed=0, white=True)
    linear = Network.gaussian((3, 400, 1), slope=1.0, scale=1e-4, seed=1)
    s, c, kappa = np.linalg.norm(beta(data)), (1 + slope) / 2, ((1 - slope) / 2) ** 2
    first, second = linear.weights
    grows = (first @ beta(data) / s + second[0]) / 2
    halves = np.array([(grows[grows > 0] ** 2).sum(), (grows[grows < 0] ** 2).sum()]) / c

    def moves(_, halves):  # docs/theory/zhang_time_course.md, in the network's own time
        learn = c * (s - c * halves.sum())
        return 2 * halves * (learn + kappa * np.array([-1, 1]) * (halves[0] - halves[1]))

    times = np.linspace(0, 14 / s, 15)
    course = solve_ivp(moves, (0, times[-1] / c), halves, "DOP853", times / c, rtol=1e-11, atol=1e-20).y
    shares = course[0] / course.sum(axis=0)
    assert np.isclose(shares[0], share_of(data, linear))
    expected = np.abs(shares - shares[0])
    found = drift(times, data, linear, slope)
    assert np.abs(found - expected).max() < 0.02 * abs(shares[0] - 0.5)


def test_a_linear_network_cannot_tell_data_of_the_same_moments():
    data = symmetric_sine(pairs=30, dim=4, seed=0)
    few = same_moments(data)
    assert few.n == 4
    assert np.allclose(covariance(few), covariance(data), rtol=1e-12)
    assert np.allclose(beta(few), beta(data), rtol=1e-12)


def test_the_largest_step_is_where_steps_along_the_steepest_direction_begin_to_grow():
    data = symmetric_sine(pairs=30, dim=4, seed=0)
    sigma, b = covariance(data), beta(data)
    best = np.linalg.solve(sigma, b)
    v = np.sqrt(np.linalg.norm(best))
    rest = np.append(v, best / v)

    def gradient(w):
        pull = b - w[0] * sigma @ w[1:]
        return -np.append(w[1:] @ pull, w[0] * pull)

    for factor, grows in ((0.99, False), (1.01, True)):
        w = rest + 1e-9 * np.ones(5)
        for _ in range(300):
            w = w - factor * largest_step(data) * gradient(w)
        assert (np.linalg.norm(w - rest) > 3e-9) == grows
