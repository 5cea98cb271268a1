from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from rankfall import Data, Network, limit
from rankfall.data import fan, six_points, symmetric_sine, symmetrise
from rankfall.loss import exponential, logistic, square
from rankfall.theory import RESULTS, Situation, assess, assessed
from rankfall.theory.results.zhang_expressivity import floor, split_outputs

SLOPES = (0.0, 0.3, 1.0)
FRESH = np.random.default_rng(5).normal(size=(50, 3))


def leaky(z, slope):
    return np.maximum(z, slope * z)


def random_network(slope, outputs=1):
    rng = np.random.default_rng(1)
    return Network([rng.normal(size=(7, 3)), rng.normal(size=(outputs, 7))], slope=slope)


def noisy_labels(pairs=30, dim=3, seed=0):
    """Symmetric data with labels that no linear map separates."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(pairs, dim))
    return symmetrise(Data(x, np.where(x[:, 0] + rng.normal(size=pairs) > 0, 1.0, -1.0)))


# Theorem 1


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("slope", SLOPES)
def test_two_layers_without_biases_are_a_linear_map_plus_an_even_function(slope, outputs):
    network = random_network(slope, outputs)
    first, second = network.weights

    def f(x):
        return leaky(x @ first.T, slope) @ second.T

    odd, even = (f(FRESH) - f(-FRESH)) / 2, (f(FRESH) + f(-FRESH)) / 2
    np.testing.assert_allclose(odd, (1 + slope) / 2 * FRESH @ (second @ first).T, atol=1e-13)
    np.testing.assert_allclose(even, (1 - slope) / 2 * np.abs(FRESH @ first.T) @ second.T, atol=1e-13)
    np.testing.assert_allclose(split_outputs(network, FRESH).reshape(50, -1), f(FRESH), atol=1e-13)


# The floor


def random_features(data, slope, count=400):
    """The outputs of many random neurons: a network of that width may combine them as it likes."""
    first = np.random.default_rng(2).normal(size=(count, data.dim))
    return leaky(data.x @ first.T, slope)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_on_symmetric_data_the_best_of_400_neurons_is_the_best_linear_map_in_the_square_loss(slope):
    data = symmetric_sine(pairs=40, dim=3, seed=0)
    features = random_features(data, slope)
    residual = data.y - features @ np.linalg.lstsq(features, data.y, rcond=1e-10)[0]
    s = Situation(random_network(slope), data, square)
    assert (residual**2).mean() / 2 == pytest.approx(floor(s), rel=1e-9)
    assert floor(replace(s, loss=square.sum)) == pytest.approx(80 * floor(s), rel=1e-12)


def test_without_the_mirror_images_the_same_400_neurons_fit_everything():
    data = symmetric_sine(pairs=40, dim=3, seed=0)
    data = Data(data.x[:40], data.y[:40])
    features = random_features(data, 0.0)
    residual = data.y - features @ np.linalg.lstsq(features, data.y, rcond=None)[0]
    assert (residual**2).mean() < 1e-20
    assert floor(Situation(random_network(0.0), data, square)) == 0


def minimised(loss, z):
    """The least mean loss of the margins z @ w, by SciPy."""

    def value(w):
        q = z @ w
        each = np.logaddexp(0, -q) if loss is logistic else np.exp(-q)
        pull = np.exp(-np.logaddexp(0, q)) if loss is logistic else each
        return each.mean(), -z.T @ pull / len(z)

    return minimize(value, np.zeros(z.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).fun


@pytest.mark.parametrize("loss", [logistic, exponential], ids=str)
def test_the_floor_of_the_margin_losses_is_the_least_loss_of_linear_maps(loss):
    data = noisy_labels()
    s = Situation(random_network(0.0), data, loss)
    assert floor(s) == pytest.approx(minimised(loss, data.y[:, None] * data.x), rel=1e-8)


def test_on_symmetric_data_many_neurons_do_not_lower_the_logistic_loss_below_the_floor():
    data = noisy_labels()
    left, singular, _ = np.linalg.svd(random_features(data, 0.0), full_matrices=False)
    basis = left[:, singular > 1e-10 * singular[0]]  # 3 dimensions of linear and 30 of even functions
    assert basis.shape[1] == 33
    least = minimised(logistic, data.y[:, None] * basis)
    assert least == pytest.approx(floor(Situation(random_network(0.0), data, logistic)), rel=1e-6)


def test_samples_that_contradict_each_other_pay_log_2_each_though_the_infimum_is_at_infinity():
    """Of three pairs two contradict each other; the third is fitted better and better by growing weights."""
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    data = symmetrise(Data(x, [1.0, -1.0, 1.0]))
    s = Situation(Network.gaussian((2, 4, 1), 0.0, 1.0, seed=0), data, logistic)
    assert floor(s) == pytest.approx(2 / 3 * np.log(2), rel=1e-9)


def test_separable_or_linear_targets_have_no_floor():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 3))
    network = random_network(0.0)
    assert floor(Situation(network, symmetrise(Data(x, np.sign(x[:, 0]))), logistic)) == 0
    assert floor(Situation(network, symmetrise(Data(x, x[:, 0])), square)) == 0


def test_the_end_of_the_flow_of_a_fixed_second_layer_respects_the_floor():
    network = Network.fixed_second_layer((2, 6, 1), slope=0.0, sigma=0.5, seed=0)
    here = assess(network, fan(), "square")["expressivity"]
    verification = here.verify(limit(network, fan(), "square", optimality=False))
    assert {v.verdict for v in verification} == {"holds"}
    assert verification["floor"].predicted == pytest.approx(4 / 9)


# Advice


def test_the_advice_tells_what_a_linear_map_explains():
    """The fan: <y x> = (1/3, 0) and <x1^2> = 1, so one ninth; x1 has the sign of four labels of six."""
    situation = Situation(Network.gaussian((2, 8, 1), 0.0, 0.1, seed=0), fan(), logistic)
    told = RESULTS["expressivity"].advice(situation)
    assert "11 % of the variance" in told
    assert "67 % of the samples" in told
    assert "two-layer ReLU network without biases" in told
    assert told.endswith("Add biases or a layer.")


@pytest.mark.parametrize(
    ("data", "slope"), [(six_points(), 0.0), (fan(), 1.0), (symmetrise(Data([[1.0, 0.0]], [1.0])), 0.0)]
)
def test_there_is_no_advice_for_other_data_linear_networks_and_linear_targets(data, slope):
    network = Network.gaussian((2, 8, 1), slope, 0.1, seed=0)
    assert assess(network, data, "square")["expressivity"].advice is None


# Depth separation


def g(x, slope=0.0):
    """Equation (3), with a leaky slope if asked for."""
    up = leaky(leaky(x[:, 0], slope) - leaky(x[:, 1], slope), slope)
    return up - leaky(leaky(-x[:, 0], slope) - leaky(-x[:, 1], slope), slope)


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.9])
def test_three_layers_compute_g_which_is_odd_and_for_all_slopes_below_1_not_linear(slope):
    network = Network(Network.depth_separation().weights, slope=slope)
    x = np.random.default_rng(0).normal(size=(100, 2))
    np.testing.assert_allclose(network(x), g(x, slope), atol=1e-14)
    np.testing.assert_allclose(g(-x, slope), -g(x, slope), atol=1e-14)
    # On 0 < x2 < x1 it is (1 + slope^2)(x1 - x2), on 0 < x1 < x2 it is 2 slope (x1 - x2).
    up, down = g(np.array([[2.0, 1.0]]), slope)[0], g(np.array([[1.0, 2.0]]), slope)[0]
    assert (up, down) == pytest.approx((1 + slope**2, -2 * slope))
    assert up + down == pytest.approx((1 - slope) ** 2)  # 0 for a linear map


def test_no_two_layers_come_near_g():
    data = RESULTS["depth_separation"].example().situation.data
    np.testing.assert_allclose(data.y, g(data.x), atol=1e-14)
    features = random_features(data, 0.0)
    residual = data.y - features @ np.linalg.lstsq(features, data.y, rcond=1e-10)[0]
    least = floor(Situation(Network.depth_separation(), data, square))
    assert (residual**2).mean() / 2 == pytest.approx(least, rel=1e-9)
    assert least > 0.02


def test_where_three_layers_fit_exactly_their_odd_part_is_as_far_from_linear_as_the_targets():
    s = RESULTS["depth_separation"].example().situation
    here = assessed(RESULTS["depth_separation"], replace(s, network=Network.depth_separation()))
    away = {p.name: p.value for p in here.predictions}["odd and not linear"]
    residual = s.y - s.x @ np.linalg.lstsq(s.x, s.y, rcond=None)[0]
    assert away == pytest.approx(np.sqrt((residual**2).mean()))
