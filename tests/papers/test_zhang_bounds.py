"""The bounds and certificates that the experiments of Zhang et al. compute themselves."""

import numpy as np
import pytest
from scipy.optimize import minimize

from rankfall.data import circle, fan, six_points
from rankfall.dynamics import exact_flow
from rankfall.loss import square
from rankfall.network import Network
from rankfall.papers.zhang.expressivity import FLOORS, least_logistic
from rankfall.papers.zhang.six_points import boundary, closest, escape_rate, resting, roomiest


def test_the_floor_of_the_fan_is_the_least_loss_of_linear_maps_by_another_method():
    data = fan()
    found = minimize(lambda w: np.logaddexp(0, -data.y * (data.x @ w)).mean(), np.ones(2), tol=1e-12)
    least, gap = least_logistic(data.x, data.y)
    assert least == pytest.approx(found.fun, abs=1e-10) == FLOORS[0]
    assert abs(gap) < 1e-14


def test_the_floor_of_the_circle_is_that_of_one_ray_on_a_fine_grid():
    f = np.linspace(-2, 2, 400_001)
    assert FLOORS[1] == pytest.approx(((np.logaddexp(0, -f) + np.logaddexp(0, 2 * f)) / 2).min(), abs=1e-10)
    assert circle().n == 16


def test_the_rate_of_escape_is_a_ninth_of_the_asymmetry_to_first_order():
    assert escape_rate(six_points(1e-4), "square") == pytest.approx(1e-4 / 9, rel=1e-3)


def test_no_boundary_of_rays_has_more_room_than_the_roomiest():
    data, rng = six_points(), np.random.default_rng(0)
    angles = np.sort(np.arctan2(data.x[:, 1], data.x[:, 0]))
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    around = np.linspace(0, 2 * np.pi, 721)
    found = []
    for _ in range(2000):
        rays = np.sort((angles + gaps * rng.uniform(size=6)) % (2 * np.pi))
        f = np.prod(np.sign(np.sin((around[:, None] - rays) / 2) + 1e-12), axis=1)
        found.append(closest(f, data))
    # Rays are found to half of 0.5 degrees, and samples are at most √2 away from the origin.
    assert 0.9 * roomiest(data) < max(found) < roomiest(data) + np.sqrt(2) * np.radians(0.25)


def test_the_boundary_of_a_linear_function_is_a_line():
    angles = np.linspace(0, 2 * np.pi, 361)
    assert boundary(np.cos(angles - 0.3)) == pytest.approx([0.3 + np.pi / 2, 0.3 + 3 * np.pi / 2], abs=1e-4)


def test_where_nothing_pulls_no_network_nearby_has_a_smaller_loss():
    data = six_points()
    start = Network.gaussian((2, 20, 1), 0.0, 1e-3, seed=1)
    run = exact_flow(start, data, "square", 1500.0, measures=["loss"], rtol=1e-6, show=False)
    end, rng = run.network, np.random.default_rng(0)
    assert resting(end, data, "square") < 1e-7 < 0.1 < resting(start, data, "square")
    for _ in range(200):
        first, second = (w * (1 + 1e-4 * rng.normal(size=w.shape)) for w in map(np.asarray, end.weights))
        first = first + 1e-6 * rng.normal(size=first.shape)
        f = np.maximum(data.x @ first.T, 0) @ second[0]
        assert square(f, data.y) > float(run.loss[-1]) - 1e-12
