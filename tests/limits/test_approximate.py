import numpy as np
import pytest

from rankfall import Data, Network, limit
from rankfall import data as rd
from rankfall.limits import kkt_distance

RNG = np.random.default_rng


def separable(n, d, seed, gap=0.3):
    """Data with labels in turn, linearly separable through the origin."""
    x = RNG(seed).normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x[:, 0] = y * (np.abs(x[:, 0]) + gap)
    return Data(x @ np.linalg.qr(RNG(seed + 1).normal(size=(d, d)))[0], y)


def separating(seed, trained=(True, True), bias=False):
    """A random two-layer network on data that it separates."""
    x, rng = RNG(seed).normal(size=(5, 4)), RNG(seed + 100)
    w, a, b = rng.normal(size=(6, 4)), rng.normal(size=6), rng.normal(size=6) * bias
    network = Network([w, a[None, :]], [b if bias else None, None], slope=0.2, trained=trained)
    return network, Data(x, np.sign(network(x)))


def gradients(network, data):
    """The h_i = y_i grad f(x_i) as rows, and theta, for a two-layer network: W (and b), then a if trained."""
    w, a, x = network.weights[0], network.weights[1][0], data.x
    if network.has_bias:
        w, x = np.column_stack([w, network.biases[0]]), np.column_stack([x, np.ones(len(x))])
    z = x @ w.T
    slopes = np.where(z > 0, 1.0, float(network.slope))
    rows = [np.einsum("i,ij,j,id->ijd", data.y, slopes, a, x).reshape(len(x), -1)]
    theta = [w.ravel()]
    if network.trained[1]:
        rows, theta = [*rows, data.y[:, None] * slopes * z], [*theta, a]
    return np.hstack(rows), np.concatenate(theta)


def scaled(network, data):
    """The network with the smallest margin 1."""
    order = 2 if network.trained[1] else 1
    factor = (data.y * network(data.x)).min() ** (-1 / order)
    biases = [None if b is None else b * factor for b in network.biases]
    weights = [w * factor if t else w for w, t in zip(network.weights, network.trained, strict=True)]
    return Network(weights, biases, slope=float(network.slope), trained=network.trained)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("trained", [(True, True), (True, False)], ids=["both", "fixed"])
@pytest.mark.parametrize("seed", [1, 2])
def test_epsilon_and_delta_are_what_lyu_and_li_define_for_the_multipliers_that_are_told(seed, trained, bias):
    network, data = separating(seed, trained, bias)
    epsilon, delta, multipliers = kkt_distance(network, data)
    rows, theta = gradients(scaled(network, data), data)
    assert (multipliers >= 0).all()
    rest = theta - multipliers @ rows
    assert epsilon == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(theta), rel=1e-8)
    q = data.y * scaled(network, data)(data.x)
    assert delta == pytest.approx((multipliers * (q - 1)).max(), rel=1e-6, abs=1e-12)
    order = 2 if network.trained[1] else 1
    short = 1 - order * (multipliers @ q) / (theta @ theta)  # <theta, h_i> = order q_i: Euler
    assert abs(short) <= epsilon + 1e-12


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_support_vector_machine_is_a_kkt_point_of_the_linear_model(seed):
    # With more samples than features many multipliers give w, but only the machine's vanish off the support.
    data = separable(8, 3, seed)
    best = rd.hard_margin(data)
    epsilon, delta, multipliers = kkt_distance(Network([best.w[None, :]]), data)
    assert epsilon < 1e-8
    assert delta < 1e-8
    np.testing.assert_allclose(multipliers, best.multipliers, atol=1e-6)


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_a_certified_limit_is_a_kkt_point(slope, both):
    data = Data(RNG(8).normal(size=(5, 4)), [1.0, -1.0, 1.0, -1.0, 1.0])
    network = (
        Network.gaussian((4, 8, 1), slope, 1.0, 3)
        if both
        else Network.fixed_second_layer((4, 8, 1), slope, 0.3, 3)
    )
    found = limit(network, data, optimality=False, show=False)
    assert found.reached, found.missing
    assert found.kinks
    epsilon, delta, multipliers = kkt_distance(found.network, data)
    assert epsilon < 1e-6
    assert delta < 1e-6
    np.testing.assert_allclose(multipliers, found.multipliers, rtol=1e-5, atol=1e-7)


def test_at_a_kink_that_is_exactly_met_all_slopes_are_taken():
    # With x_1 = (1, 1), x_2 = e_1 and lambda = (1, 2), w_1 = x_1 - (1/2) 2 x_2 = e_2 and w_2 = 2 x_2 - x_1:
    # the slopes are 1/2 where w_1.x_2 = 0, and 1 where w_2.x_1 = 0.
    network = Network([[[0.0, 1.0], [1.0, -1.0]], [[1.0, -1.0]]], slope=0.0, trained=(True, False))
    epsilon, delta, multipliers = kkt_distance(network, Data([[1.0, 1.0], [1.0, 0.0]], [1.0, -1.0]))
    assert epsilon == pytest.approx(0, abs=1e-9)
    assert delta == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(multipliers, [1.0, 2.0], atol=1e-8)


def test_a_network_that_does_not_separate_the_data_has_no_distance():
    network, data = separating(1)
    with pytest.raises(ValueError, match="separates the data"):
        kkt_distance(network, Data(data.x, -data.y))


# Deeper networks


def test_a_late_state_near_a_kkt_point_is_approximate_and_never_certified():
    found = limit(Network.gaussian((2, 3, 3, 1), 1.0, 0.01, 0), rd.orthogonal_pair(), budget=500, show=False)
    assert found.verdict == "approximate"
    assert found.verdict.finished
    assert not found.reached
    assert found.residuals["epsilon"] <= 1e-3
    assert str(found).startswith("Limit: approximate")


def test_a_late_state_that_is_not_near_yet_is_not_decided_and_says_how_near_it_is():
    data = separable(6, 3, 5)
    found = limit(Network.gaussian((3, 5, 5, 1), 0.2, 1.0, 1), data, budget=3000, show=False)
    assert found.verdict == "not decided"
    assert not found.reached
    assert found.missing[-1] == "the budget of 3,000 steps is spent"
    assert any("late state" in sentence for sentence in found.missing)
    assert 0 <= found.residuals["epsilon"] < 0.3
    assert found.residuals["delta"] >= 0
    assert found.margins.min() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(found.margins, data.y * found.network(data.x), rtol=1e-10)
    epsilon, _, _ = kkt_distance(found.network, data)
    assert epsilon == pytest.approx(found.residuals["epsilon"], rel=1e-6)
    assert 3 * found.multipliers @ found.margins / found.norm**2 == pytest.approx(1, abs=epsilon)  # Euler
    assert found.region is None


def test_a_linear_model_comes_near_to_the_support_vector_machine():
    data = separable(8, 3, 4)
    found = limit(Network([[[0.1, -0.2, 0.3]]]), data, "logistic", show=False)
    assert found.verdict == "approximate"
    best = rd.hard_margin(data).w
    np.testing.assert_allclose(found.W[0] / np.linalg.norm(found.W), best / np.linalg.norm(best), atol=1e-2)


def test_a_deep_network_that_does_not_separate_says_so():
    found = limit(Network.gaussian((2, 2, 2, 1), 1.0, 1.0, 0), rd.xor(), budget=200, show=False)
    assert found.verdict == "not decided"
    assert "on the wrong side so far" in found.missing[0]
