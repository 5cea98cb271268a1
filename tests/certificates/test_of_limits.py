"""Limits that the library's flow finds, in exact arithmetic."""

import numpy as np
import pytest

import rankfall as rf
from rankfall.certificates import Certificate, Point, Problem, propose, rank, stable_rank


@pytest.mark.parametrize(
    ("slope", "bias"), [(0.0, False), (0.0, True), (0.01, False), (0.1, False), (0.5, True)]
)
def test_a_limit_of_ten_samples_in_784_dimensions_has_residual_zero(slope, bias):
    data = rf.data.gaussian_mixture(n=10, dim=784, seed=1)
    network = rf.Network.fixed_second_layer((784, 12, 1), slope, 1e-3, 1, bias=bias)
    end = rf.limit(network, data, show=False, optimality=False)
    a = np.asarray(end.network.weights[1][0])
    problem = Problem(data.x, data.y, slope, a, bias=bias, name=data.name)
    slopes = np.full(end.region.shape, np.nan)
    for neuron, sample, at_kink in end.kinks:
        slopes[neuron, sample] = at_kink
    point = propose(problem, end.region, end.multipliers, slopes)
    assert isinstance(point, Point), point
    assert point.exact
    weights = end.W if not bias else np.column_stack([end.W, end.network.biases[0]])
    np.testing.assert_allclose(point.weights(problem), weights, atol=1e-9 * np.abs(weights).max())
    claims = [rank(problem, point), stable_rank(problem, point)]
    report = Certificate.of(problem, point, claims).check((data.x.tolist(), data.y.tolist()))
    assert report.accepted, str(report)
    assert claims[0]["rank"] == end.rank
    assert float.fromhex(claims[1]["lower"]) <= end.stable_rank <= float.fromhex(claims[1]["upper"])
