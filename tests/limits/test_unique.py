"""Where several solutions leave one point: docs/theory/uniqueness.md."""

import numpy as np
import pytest

from rankfall import Data, Network, exact_flow, limit

# A neuron slides into the origin, where a repelling kink and others that attract are reached at once.
HIDDEN = (
    Network(
        [
            [
                [-0.019, 0.005],
                [-0.033, -0.054],
                [0.035, -0.034],
                [-0.03, -0.011],
                [0.016, 0.029],
                [0.004, -0.032],
            ],
            [[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]],
        ],
        slope=0.05,
        trained=(True, False),
    ),
    Data(
        [[0.0, 1.5], [-0.9, -0.3], [-1.5, 0.6], [-0.7, 0.8], [0.2, 1.2]],
        [1.0, -1.0, -1.0, -1.0, -1.0],
    ),
    {22.3802, 18.6766},
)
PLAIN = (
    Network(
        [[[-0.018, 0.009], [-0.033, 0.008], [0.026, -0.001], [0.008, -0.002]], [[1.0, -1.0, 1.0, -1.0]]],
        slope=0.1,
        trained=(True, False),
    ),
    Data([[1.9, 1.3], [0.4, 1.1], [0.6, -1.4], [-1.3, -0.1]], [1.0, -1.0, 1.0, -1.0]),
    {1.442887, 1.156001},
)
# The neuron that comes to the origin leaves it in one way: no other choice of sides agrees with its velocity.
TRIAL = (
    Network(
        [
            [[0.0004], [0.0008], [-0.0007], [-0.001], [0.0003], [-0.0018]],
            [[1.0, 1.0, 1.0, -1.0, -1.0, -1.0]],
        ],
        [[0.0021, -0.0014, 0.0026, -0.0013, 0.0001, -0.004], None],
        slope=0.01,
        trained=(True, False),
    ),
    Data([[0.39], [-0.09], [1.0], [-0.72]], [1.0, -1.0, -1.0, -1.0]),
)


@pytest.mark.parametrize(("network", "data", "norms"), [HIDDEN, PLAIN], ids=["hidden", "plain"])
def test_where_two_solutions_leave_the_origin_the_limit_is_not_unique_and_both_ends_are_told(
    network, data, norms
):
    found = limit(network, data, optimality=False, show=False)
    assert found.verdict == "not unique"
    assert found.document is None
    assert "solutions leave" in found.missing[0]
    ends = {round(end, 4) for end in (found.norm, *(branch.norm for branch in found.branches))}
    assert {round(norm, 4) for norm in norms} == ends
    assert all(branch.verdict == "certified" for branch in found.branches)


def descent(network, data, step, steps):
    """Gradient descent of log L, with the derivative `slope` at zero; the weights with their biases."""
    bias = network.biases[0]
    x = data.x if bias is None else np.column_stack([data.x, np.ones(data.n)])
    w = network.weights[0] if bias is None else np.column_stack([network.weights[0], bias])
    a, slope = network.weights[1][0], float(network.slope)
    for _ in range(steps):
        z = w @ x.T
        q = data.y * (a @ np.where(z > 0, z, slope * z))
        pulls = np.exp(q.min() - q)
        r = data.y * pulls / pulls.sum()
        w = w + step * a[:, None] * ((np.where(z > 0, 1.0, slope) * r) @ x)
    return w


def test_a_neuron_that_leaves_the_origin_in_one_way_does_so_and_the_limit_is_where_descent_goes():
    network, data = TRIAL
    found = limit(network, data, optimality=False, show=False)
    assert found.certified, found.missing
    assert found.norm == pytest.approx(4.736181649580561, rel=1e-12)
    end = np.column_stack([found.W, found.network.biases[0]])
    state = descent(network, data, 1e-3, 100_000)
    cosine = (state * end).sum() / np.linalg.norm(state) / np.linalg.norm(end)
    assert cosine > 1 - 2e-3  # the solution that stays in the origin has 0.993


@pytest.mark.parametrize("gap", [0.0, *(10.0**-k for k in range(16, 0, -1)), 4e-7, 4e-9, 3e-11])
def test_nearly_parallel_inputs_change_the_flow_by_no_more_than_their_gap(gap):
    network = Network([[[-0.05, 1.0]], [[1.0]]], slope=0.1, trained=(True, False))
    data = Data([[1.0, 0.0], [0.0, 1.0], [1.0, gap]], [1.0, -1.0, 1.0])
    run = exact_flow(network, data, "exponential", 1.2, clock="loss", measures=[], record=[1.2], show=False)
    expected = np.array([0.10039178, 0.40039178])  # at the gap 0, where both are one input
    assert np.abs(run.network.weights[0][0] - expected).max() <= 5 * gap + 1e-7


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_samples_and_columns_of_any_scale_are_on_one_line_exactly_if_they_are(scale):
    from rankfall.dynamics.exact._kinks import lines_of

    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3))
    x[1], x[2] = -3.0 * x[0], x[0] * (1 + 1e-9 * np.arange(3))
    columns = np.array([scale, 1.0, 1 / scale])
    lines = lines_of(x * columns * np.array([[1.0], [scale], [1.0], [1 / scale]]))
    np.testing.assert_array_equal(lines != 0, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_where_one_solution_stays_at_zero_its_branches_are_told_without_a_cosine():
    data = Data(np.eye(2), [1.0, 1.0])
    network = Network([np.zeros((1, 2)), [[1.0]]], slope=0.0, trained=(True, False))
    found = limit(network, data, "square", show=False)
    assert found.verdict == "not unique"
    assert "nan" not in str(found)
