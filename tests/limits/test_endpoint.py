import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from rankfall import Data, Network, limit
from rankfall import data as rd
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import Region, Weights, walk_of
from rankfall.limits._endpoint import end_of_region, subgradient
from rankfall.loss import named

RNG = np.random.default_rng


def ended(network, data, loss="square", **options):
    found = limit(network, data, loss, show=False, **options)
    assert found.reached, f"{found.verdict}: {found.missing}"
    return found


def flow_by_scipy(network, data, time):
    """The first layer at a time, by SciPy's integrator; the second layer is fixed, the loss a mean."""
    a, slope, shape = network.weights[1][0], float(network.slope), network.weights[0].shape

    def direction(t, theta):
        z = data.x @ theta.reshape(shape).T
        slopes = np.where(z > 0, 1.0, slope)
        residual = (data.y - (slopes * z) @ a) / data.n
        return ((slopes * residual[:, None] * a).T @ data.x).ravel()

    solution = solve_ivp(
        direction, (0.0, time), network.weights[0].ravel(), "DOP853", rtol=1e-11, atol=1e-13, max_step=1.0
    )
    assert solution.success
    return solution.y[:, -1].reshape(shape)


# Fixed second layer


@pytest.mark.parametrize("slope", [1.0, 0.5])
def test_with_more_features_than_samples_the_flow_interpolates_where_scipy_arrives(slope):
    data = Data(RNG(0).normal(size=(4, 6)), RNG(1).normal(size=4))
    network = Network.fixed_second_layer((6, 10, 1), slope, 0.5, 3)
    found = ended(network, data)
    assert found.settings["end"] == "interpolates"
    np.testing.assert_allclose(found.network(data.x), data.y, atol=1e-10)
    np.testing.assert_allclose(found.margins, data.y, atol=1e-10)
    assert not found.kinks  # else an explicit integrator crawls
    np.testing.assert_allclose(found.W, flow_by_scipy(network, data, 400.0), atol=1e-7)


def test_what_is_outside_of_the_span_of_the_data_stays_where_it_was():
    data = Data(RNG(0).normal(size=(3, 8)), RNG(1).normal(size=3))
    network = Network.fixed_second_layer((8, 4, 1), 0.3, 0.5, 3)
    moved = ended(network, data).W - network.weights[0]
    _, _, basis = np.linalg.svd(data.x)
    assert np.abs(moved @ basis[:3].T).max() > 0.1
    np.testing.assert_allclose(moved @ basis[3:].T, 0.0, atol=1e-14)


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_a_linear_network_with_more_samples_than_features_ends_at_least_squares(both):
    data = Data(RNG(2).normal(size=(20, 3)), RNG(3).normal(size=20))
    network = (
        Network.gaussian((3, 4, 1), 1.0, 0.5, 4)
        if both
        else Network.fixed_second_layer((3, 4, 1), 1.0, 0.5, 4)
    )
    found = ended(network, data)
    best, floor, *_ = np.linalg.lstsq(data.x, data.y, rcond=None)
    np.testing.assert_allclose(found.network.weights[1][0] @ found.W, best, atol=1e-8)
    residual = data.y - found.network(data.x)
    np.testing.assert_allclose(residual @ data.x, 0.0, atol=1e-8)
    assert found.residuals["gradient"] < 1e-10
    assert found.settings["end"].startswith("least squares")
    assert found.settings["loss_at_end"] == pytest.approx(floor[0] / 40, rel=1e-8)
    assert found.settings["loss_at_end"] == pytest.approx(rd.least_squares_floor(data), rel=1e-8)


def test_the_end_of_a_region_is_where_its_linear_flow_goes():
    # In one region f' = K (y - f)/n: the weights move by the features of K^-1 (y - f), however long it takes.
    data = Data(RNG(4).normal(size=(3, 5)), RNG(5).normal(size=3))
    network = Network.fixed_second_layer((5, 4, 1), 1.0, 0.7, 6)
    walk = walk_of(Reduction([network], data, named("square")), rtol=1e-10)
    walk.advance()
    end = end_of_region(walk)
    np.testing.assert_allclose(walk.outputs_of(end.weights), data.y, atol=1e-12)
    spans = Reduction([network], data, named("square")).spans[0].inside
    reached = flow_by_scipy(network, data, 300.0) @ spans
    np.testing.assert_allclose(end.weights.w, reached, atol=1e-8)
    distance = np.linalg.norm(end.weights.w - walk.weights.w) / np.linalg.norm(walk.weights.w)
    assert end.distance == pytest.approx(distance, rel=1e-10)


@pytest.mark.parametrize(("slope", "seed"), [(1.0, 1), (0.5, 8)])
def test_samples_that_occur_several_times_pull_as_often(slope, seed):
    # Four samples in two dimensions cannot all be fitted: those that occur more often come closer.
    x, y = RNG(8).normal(size=(4, 2)), RNG(9).normal(size=4)
    data = Data(np.repeat(x, [1, 4, 2, 1], axis=0), np.repeat(y, [1, 4, 2, 1]))
    network = Network.fixed_second_layer((2, 2, 1), slope, 0.7, seed)
    found = ended(network, data)
    assert not found.kinks
    assert np.abs(found.network(x) - y).min() > 1e-3
    pulls = (data.y - found.network(data.x))[:, None] * np.where(data.x @ found.W.T > 0, 1.0, slope)
    np.testing.assert_allclose(pulls.T @ data.x, 0.0, atol=1e-12)
    if slope == 1:
        np.testing.assert_allclose(found.W, flow_by_scipy(network, data, 500.0), atol=1e-7)


def test_a_flow_at_rest_is_at_its_end():
    # Its last pulls are lost to rounding before it is within the tolerance of the end of its region.
    x, y = RNG(8).normal(size=(4, 2)), RNG(9).normal(size=4)
    data = Data(np.repeat(x, [1, 4, 2, 1], axis=0), np.repeat(y, [1, 4, 2, 1]))
    found = ended(Network.fixed_second_layer((2, 2, 1), 0.5, 0.7, 4), data)
    assert found.residuals["gradient"] < 1e-10


def test_the_flow_ends_on_a_kink_where_two_samples_hold_it():
    # One ReLU neuron with a = 1. It is active on x_1 = (1, 0), where -1 is wanted, until it sticks to the
    # kink: w_1 = 0. On x_2 = (1/2, 1) the value 2 is wanted, and w_2 = 2 gives it. So x_2 is fitted, and x_1
    # is not: its pull -1 is held by the slope 0, the pull of x_2 being 0.
    network = Network([[[0.3, 0.1]], [[1.0]]], slope=0.0, trained=(True, False))
    found = ended(network, Data([[1.0, 0.0], [0.5, 1.0]], [-1.0, 2.0]))
    np.testing.assert_allclose(found.W, [[0.0, 2.0]], atol=1e-9)
    np.testing.assert_allclose(found.margins, [0.0, 2.0], atol=1e-9)
    assert found.settings["loss_at_end"] == pytest.approx(1 / 4, rel=1e-9)


# The shortest element of Clarke's subdifferential


def test_a_subgradient_is_zero_exactly_if_slopes_between_alpha_and_one_balance_the_pulls():
    # At w = e_2 the sample e_1 is at its kink: g = P r_1 e_1 + x_2 = (P r_1 - 1/2, 1) is shortest for
    # P = 1/(2 r_1), if that lies in [0.1, 1].
    x = np.array([[1.0, 0.0], [-0.5, 1.0]])
    weights = Weights(np.array([[0.0, 1.0]]), np.array([1.0]), np.zeros(()))
    region = Region(x, 0.1, np.array([[0, 1]]), None)
    for r1, slope, left in ((2.0, 0.25, 0.0), (0.2, 1.0, 0.3), (10.0, 0.1, 0.5)):
        size, slopes = subgradient(weights, region, np.array([r1, 1.0]), both=False)
        assert slopes[0, 0] == pytest.approx(slope, abs=1e-12)
        first = slope * r1 - 0.5
        assert abs(first) == pytest.approx(left, abs=1e-12)
        scale = r1 + np.linalg.norm(x[1])
        assert size == pytest.approx(np.hypot(first, 1.0) / scale, rel=1e-10)


# Boursier, Pillaud-Vivien and Flammarion 2022: orthogonal inputs, both layers, small balanced start


def groups(found):
    """w_+ and w_-: the sums of |a_j| w_j over the neurons of a sign."""
    a = found.network.weights[1][0]
    return np.maximum(a, 0) @ found.W, np.maximum(-a, 0) @ found.W


def test_from_smaller_and_smaller_starts_orthogonal_data_are_fitted_by_the_network_of_least_norm():
    data = rd.orthogonal_pair()
    squares = (data.x**2).sum(axis=1)
    expected = data.x[1] / squares[1], data.x[0] / squares[0]
    least = 2 * (1 / np.sqrt(squares)).sum()
    errors = []
    for scale in (1e-4, 1e-6, 1e-8):
        found = ended(Network.balanced((2, 12, 1), 0.0, scale, 0), data)
        assert found.settings["end"] == "interpolates"
        np.testing.assert_allclose(found.network(data.x), data.y, atol=1e-9)
        errors.append(max(np.abs(g - e).max() for g, e in zip(groups(found), expected, strict=True)))
        assert found.norm**2 == pytest.approx(least, abs=max(scale, 1e-9))
    # Measured: 3.5e-5, 3.5e-7 and 3.5e-9, in proportion to the start.
    assert errors[0] < 1e-4
    assert errors[1] < 0.02 * errors[0]
    assert errors[2] < 0.02 * errors[1]


def test_one_sample_is_fitted_by_the_balanced_neuron_of_its_direction():
    # One linear neuron u e_1 with a = u from u0: f = u^2 |x|, and it ends at f = y with both layers equal.
    network = Network([[[0.1, 0.0]], [[0.1]]], slope=1.0)
    found = ended(network, Data([[3.0, 0.0]], [2.0]))
    u = brentq(lambda u: 3 * u**2 - 2, 0.0, 2.0, xtol=1e-15)
    np.testing.assert_allclose(found.W, [[u, 0.0]], atol=1e-9)
    np.testing.assert_allclose(found.network.weights[1], [[u]], atol=1e-9)


# A square loss has no margins


def test_an_end_point_has_no_multipliers_and_says_so_in_print():
    found = ended(Network.fixed_second_layer((2, 4, 1), 0.5, 0.5, 1), rd.orthogonal_pair())
    assert not found.multipliers.any()
    assert len(found.support) == 0
    assert found.optimality is None
    assert "interpolates" in str(found)
    assert "normalised" not in str(found)


def test_an_output_bias_is_allowed_with_the_square_loss():
    data = Data(RNG(6).normal(size=(12, 2)), RNG(7).normal(size=12))
    found = ended(Network.gaussian((2, 3, 1), 1.0, 0.5, 8, bias=(False, True)), data)
    columns = np.column_stack([data.x, np.ones(12)])
    best = np.linalg.lstsq(columns, data.y, rcond=None)[0]
    np.testing.assert_allclose(found.network.weights[1][0] @ found.W, best[:2], atol=1e-8)
    np.testing.assert_allclose(found.network.biases[1], best[2:], atol=1e-8)


def test_the_square_loss_of_a_deeper_network_is_answered_with_advice():
    network = Network.gaussian((2, 3, 3, 1), 0.1, 1.0, 0)
    with pytest.raises(ValueError, match=r"two-layer networks.*use `flow`"):
        limit(network, rd.orthogonal_pair(), "square", show=False)


def test_a_spent_budget_leaves_the_end_point_open():
    data = Data(RNG(0).normal(size=(4, 6)), RNG(1).normal(size=4))
    found = limit(Network.fixed_second_layer((6, 10, 1), 0.5, 0.5, 3), data, "square", budget=5, show=False)
    assert found.verdict == "not decided"
    assert "the budget of 5 steps is spent" in found.missing
