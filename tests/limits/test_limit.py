from itertools import combinations

import numpy as np
import pytest
from sklearn.svm import SVC

from rankfall import Data, Network, Until, exact_flow, limit
from rankfall import data as rd
from rankfall.dynamics.exact import Walk
from tests.adversarial.battery import network_and_data
from tests.adversarial.problems import problem

RNG = np.random.default_rng


# Oracles


def hard_margin_by_enumeration(z):
    """The shortest w with z w >= 1 and its multipliers: the one support that solves the KKT conditions."""
    for size in range(1, len(z) + 1):
        for support in combinations(range(len(z)), size):
            rows = z[list(support)]
            multipliers, *_ = np.linalg.lstsq(rows @ rows.T, np.ones(size), rcond=1e-12)
            w = multipliers @ rows
            if (multipliers > 0).all() and (z @ w >= 1 - 1e-12).all():
                return w, support, multipliers
    raise AssertionError("the data are not separable")


def svm_without_intercept(data):
    """The unit normal vector of scikit-learn's machine; with the mirror image its intercept is zero."""
    x, y = np.concatenate([data.x, -data.x]), np.concatenate([data.y, -data.y])
    return unit(SVC(kernel="linear", C=1e10, tol=1e-8).fit(x, y).coef_[0])


def frei_qp(data, slope, m1, m2):
    """(v, u, lambda) of the QP of Frei et al. with every constraint active, which its multipliers confirm.

    min m1/2 |v|^2 + m2/2 |u|^2, such that a positive sample has m1 v.x - slope m2 u.x = sqrt(m) and a
    negative one has m2 u.x - slope m1 v.x = sqrt(m).
    """
    own, other = np.where(data.y > 0, 1.0, -slope), np.where(data.y > 0, -slope, 1.0)
    root = np.sqrt(m1 + m2)
    on_v, on_u = own[:, None] * data.x / root, other[:, None] * data.x / root
    multipliers = np.linalg.solve(m1 * on_v @ on_v.T + m2 * on_u @ on_u.T, np.ones(data.n))
    assert (multipliers > 0).all()
    return multipliers @ on_v, multipliers @ on_u, multipliers


def kkt_residual(found, data):
    """|theta - sum_i lambda_i h_i| / |theta| in the user's coordinates, with the slopes that are told."""
    w, a, x = found.W, found.network.weights[1][0], data.x
    if found.network.has_bias:
        w, x = np.column_stack([w, found.network.biases[0]]), np.column_stack([x, np.ones(len(x))])
    slope = float(found.network.slope)
    slopes = np.where(found.region > 0, 1.0, slope)
    for neuron, sample, at_kink in found.kinks:
        assert slope <= at_kink <= 1
        slopes[neuron, sample] = at_kink
    z = w @ x.T
    assert (found.region * z >= -1e-10 * np.abs(z).max()).all()
    assert np.abs(z[found.region == 0]).max(initial=0.0) < 1e-10 * np.abs(z).max()
    pulls = slopes * found.multipliers * data.y
    rest, theta = [w - a[:, None] * (pulls @ x)], [w]
    if found.network.trained[1]:
        rest, theta = [*rest, a - (pulls * z).sum(axis=1)], [*theta, a]
    return np.sqrt(sum((r**2).sum() for r in rest) / sum((t**2).sum() for t in theta))


def unit(v):
    return v / np.linalg.norm(v)


def separable(n, d, seed, gap=0.3):
    """Data with labels in turn, linearly separable through the origin."""
    x = RNG(seed).normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x[:, 0] = y * (np.abs(x[:, 0]) + gap)
    return Data(x @ np.linalg.qr(RNG(seed + 1).normal(size=(d, d)))[0], y)


def as_printed(found):
    """The verdict and what is missing, for messages of failed tests."""
    return f"{found.verdict}: {found.missing}"


# Frei, Vardi, Bartlett, Srebro and Hu 2023: nearly orthogonal data


FREI = [(slope, m1) for slope in (0.5, 0.3, 0.1) for m1 in (10, 4)]


def frei(slope, m1, seed=3):
    """A limit under the hypothesis of Theorem 3.2, p(X) >= 3 slope^-3: 20 neurons, m1 of them positive."""
    data = rd.nearly_orthogonal(10, 30, p=3.01 * slope**-3, seed=seed)
    network = Network.fixed_second_layer((30, 20, 1), slope, 1e-2, seed, positive=m1)
    return data, limit(network, data, show=False)


@pytest.mark.parametrize(("slope", "m1"), FREI)
def test_on_nearly_orthogonal_data_the_limit_is_the_solution_of_freis_quadratic_program(slope, m1):
    data, found = frei(slope, m1)
    v, u, multipliers = frei_qp(data, slope, m1, 20 - m1)
    assert found.certified, as_printed(found)
    np.testing.assert_allclose(found.blocks["+"], np.tile(v, (m1, 1)), rtol=0, atol=1e-8 * np.abs(v).max())
    np.testing.assert_allclose(
        found.blocks["-"], np.tile(u, (20 - m1, 1)), rtol=0, atol=1e-8 * np.abs(u).max()
    )
    np.testing.assert_allclose(found.multipliers, multipliers, rtol=1e-8)
    np.testing.assert_allclose(data.y * found.network(data.x), 1.0, rtol=1e-10)  # F1
    assert found.rank == 2
    assert found.block_ranks == {"+": 1, "-": 1}
    assert kkt_residual(found, data) < 1e-10
    assert found.optimality.verdict == "globally optimal"


@pytest.mark.parametrize(("slope", "m1"), FREI)
def test_freis_bounds_and_signs_hold(slope, m1):
    data, found = frei(slope, m1)
    m2, p = 20 - m1, rd.p_orthogonality(data)
    v, u = found.blocks["+"][0], found.blocks["-"][0]
    multipliers = found.multipliers  # F2, with R_min = R_max = 1
    assert (multipliers > 1 / 2).all()
    assert (multipliers < 3 / (2 * slope**2)).all()
    if m1 == m2:
        assert (multipliers >= 1 - 1 / (slope * p - 1)).all()
        assert (multipliers <= 1 / (slope * (slope - 1 / p))).all()
    assert (data.y * (data.x @ v) > 0).all()  # F4
    assert (data.y * (data.x @ u) < 0).all()
    z = (m1 * v - m2 * u) / np.sqrt(20)
    best = np.linalg.solve(data.x @ data.x.T, data.y) @ data.x  # all are support vectors, Prop. 3
    kappa = np.sqrt(min(m1 / m2, m2 / m1))
    assert (data.y * (data.x @ z) >= 1 - 1e-12).all()  # F7, and its sharper form
    ratio = np.linalg.norm(z) / np.linalg.norm(best)
    assert 1 <= ratio <= min(2, np.sqrt(2 * (1 + kappa**2))) / (kappa + slope)
    np.testing.assert_allclose(found.comparison.z, z, atol=1e-12)
    probes = RNG(0).normal(size=(1000, 30))  # F6
    np.testing.assert_array_equal(np.sign(found.network(probes)), np.sign(probes @ z))


@pytest.mark.parametrize("slope", [0.5, 0.3, 0.1])
@pytest.mark.parametrize("norm", [1.0, 3.0])
def test_on_orthogonal_balanced_data_the_stable_rank_has_a_closed_form(slope, norm):
    data = rd.orthogonal(8, 12, seed=4, norm=norm)
    found = limit(Network.fixed_second_layer((12, 10, 1), slope, 1e-2, 2), data, "logistic", show=False)
    assert found.certified, as_printed(found)
    assert found.stable_rank == pytest.approx(1 + ((1 - slope) / (1 + slope)) ** 2, rel=1e-10)
    np.testing.assert_allclose(found.multipliers, 2 / ((1 + slope**2) * norm**2), rtol=1e-10)
    best = data.y @ data.x / norm**2
    z = found.network.weights[1][0] @ found.W
    np.testing.assert_allclose(z, (1 + slope) / (1 + slope**2) * best, atol=1e-10)
    assert found.optimality.verdict == "globally optimal"


# ReLU on orthogonal data: Kou, Chen and Gu 2023


def relu_on_orthogonal_data(seed):
    """Orthogonal inputs of different norms, a start, and the closed form (W, lambda) of its limit.

    Every pair of neuron and sample is on its own. Of the neurons with the sign of y_i those that see x_i at
    the start go on to see it; those of the other sign are pushed down to their kink, and stay there.
    """
    data = rd.orthogonal(8, 12, seed=seed)
    data = Data(data.x * RNG(seed).integers(32, 128, (8, 1)) / 64, data.y)
    network = Network.fixed_second_layer((12, 16, 1), 0.0, 1e-2, seed)
    w, a = network.weights[0], network.weights[1][0]
    active = (w @ data.x.T > 0) & (a[:, None] * data.y > 0)
    multipliers = 16 / (active.sum(axis=0) * (data.x**2).sum(axis=1))
    return data, network, a[:, None] * ((active * multipliers * data.y) @ data.x), multipliers


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_relu_on_orthogonal_data_keeps_the_first_pattern_of_the_right_sign(seed):
    data, network, w, multipliers = relu_on_orthogonal_data(seed)
    found = limit(network, data, budget=400, optimality=False, show=False)
    np.testing.assert_allclose(found.W, w, atol=1e-10)
    np.testing.assert_allclose(found.multipliers, multipliers, rtol=1e-10)
    np.testing.assert_allclose(data.y * found.network(data.x), 1.0, rtol=1e-10)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_relu_on_orthogonal_data_is_certified(seed):
    data, network, _, _ = relu_on_orthogonal_data(seed)
    found = limit(network, data, budget=400, optimality=False, show=False)
    assert found.certified, as_printed(found)


# Sun and Tran's data


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(
    ("seed", "slope"), [*((seed, slope) for seed in range(5) for slope in (0.0, 0.01)), (0, 0.1)]
)
def test_the_limits_on_suns_data_are_certified_and_all_margins_are_equal(seed, slope, bias):
    data = rd.gaussian_mixture(n=10, dim=784, balanced=True, seed=seed)
    network = Network.fixed_second_layer((784, 100, 1), slope, 1e-4, seed, bias=bias)
    found = limit(network, data, optimality=False, show=False)
    assert found.certified, as_printed(found)
    assert max(found.residuals.values()) < 1e-10
    assert kkt_residual(found, data) < 1e-10
    np.testing.assert_allclose(data.y * found.network(data.x), 1.0, rtol=1e-10)
    if slope == 0:  # their target property 2, a stable rank of at most 2, is refuted: errata E21
        least, most = (2.385, 2.720) if bias else (2.419, 2.771)
        assert least < found.stable_rank < most


# Linear networks


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_a_linear_network_with_fixed_second_layer_becomes_the_support_vector_machine(seed, loss):
    data = separable(8, 3, seed)
    found = limit(Network.fixed_second_layer((3, 6, 1), 1.0, 0.1, seed), data, loss, show=False)
    assert found.certified, as_printed(found)
    z = found.network.weights[1][0] @ found.W
    w, support, multipliers = hard_margin_by_enumeration(data.y[:, None] * data.x)
    np.testing.assert_allclose(z, w, atol=1e-7)
    np.testing.assert_allclose(unit(z), svm_without_intercept(data), atol=1e-4)
    np.testing.assert_array_equal(found.support, support)
    np.testing.assert_allclose(found.multipliers[list(support)], multipliers, rtol=1e-7)  # sum_j a_j^2 = 1
    assert found.optimality.verdict == "globally optimal"


def test_two_linear_layers_at_the_end_are_a_linear_network_whatever_the_slope():
    data = separable(8, 3, 1)
    linear = Network.fixed_second_layer((3, 6, 1), 1.0, 0.1, 1)
    tail = Network(linear.weights, slope=0.2, trained=(True, False), linear_tail=2)
    first, second = (limit(network, data, show=False) for network in (linear, tail))
    assert second.certified, as_printed(second)
    np.testing.assert_allclose(second.W, first.W, atol=1e-12)


def test_a_bias_is_the_weight_of_a_feature_that_is_always_one():
    data = separable(7, 3, 5)
    moved = Data(data.x + np.array([1.0, -0.5, 0.3]), data.y)
    lifted = Data(np.column_stack([moved.x, np.ones(7)]), data.y)
    start = Network.fixed_second_layer((4, 8, 1), 0.1, 0.1, 3)
    with_bias = Network(
        [start.weights[0][:, :3], start.weights[1]],
        [start.weights[0][:, 3], None],
        slope=0.1,
        trained=(True, False),
    )
    found, expected = limit(with_bias, moved, show=False), limit(start, lifted, show=False)
    assert found.certified, as_printed(found)
    np.testing.assert_allclose(
        np.column_stack([found.W, found.network.biases[0]]), expected.W, atol=1e-10 * np.abs(expected.W).max()
    )
    assert found.norm == pytest.approx(expected.norm, rel=1e-12)


# Many features


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_the_number_of_features_does_not_matter_only_their_span(slope):
    data = rd.gaussian_mixture(n=6, dim=5000, balanced=True, seed=2)
    network = Network.fixed_second_layer((5000, 12, 1), slope, 1e-3, 5)
    _, _, span = np.linalg.svd(data.x, full_matrices=False)
    inside = Network([network.weights[0] @ span.T, network.weights[1]], slope=slope, trained=(True, False))
    found = limit(network, data, optimality=False, show=False)
    expected = limit(inside, Data(data.x @ span.T, data.y), optimality=False, show=False)
    assert found.certified, as_printed(found)
    np.testing.assert_allclose(found.W, expected.W @ span, atol=1e-10 * np.abs(expected.W).max())
    np.testing.assert_allclose(found.multipliers, expected.multipliers, rtol=1e-9)
    assert found.stable_rank == pytest.approx(expected.stable_rank, rel=1e-10)


# From where a run stopped


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_a_run_goes_on_to_the_limit_of_the_network_that_it_started_from(both):
    data = separable(6, 4, 7)
    network = (
        Network.balanced((4, 6, 1), 0.5, 0.1, 2)
        if both
        else Network.fixed_second_layer((4, 6, 1), 0.1, 0.1, 2)
    )
    run = exact_flow(network, data, "exponential", 3.0, measures=["loss"], record=[3.0], show=False)
    found, expected = limit(run, data, show=False), limit(network, data, show=False)
    assert found.reached, as_printed(found)
    assert expected.reached, as_printed(expected)
    np.testing.assert_allclose(found.W, expected.W, atol=1e-6 if both else 1e-10)
    np.testing.assert_allclose(found.multipliers, expected.multipliers, atol=1e-8)


# No limit, or not yet


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_xor_is_not_linearly_separable_and_the_limit_says_why(both):
    data = rd.xor()
    network = (
        Network.gaussian((2, 4, 1), 1.0, 0.5, 1)
        if both
        else Network.fixed_second_layer((2, 4, 1), 1.0, 0.1, 1)
    )
    found = limit(network, data, show=False)
    assert found.verdict == "not separated"
    assert "not linearly separable" in found.missing[0]
    (claim,) = found.document["claims"]
    c = [int(number, 16) for number in claim["combination"]]
    assert all(number >= 0 for number in c)
    assert any(c)
    assert all(sum(k * y * x for k, y, x in zip(c, data.y, column, strict=True)) == 0 for column in data.x.T)
    assert found.certificate().check().accepted
    assert found.optimality is None
    assert found.comparison is None


@pytest.mark.slow
def test_a_flow_that_comes_to_rest_with_an_error_is_followed():
    # One neuron a sign separates no more than two half-planes: XOR needs two of each.
    network = Network([[[1.0, 0.2], [0.3, -1.0]], [[1.0, -1.0]]], slope=0.0, trained=(True, False))
    found = limit(network, rd.xor(), show=False)
    assert found.verdict == "followed"
    assert not found.reached
    assert "end" in found.settings
    assert (found.margins <= 0).any()


def test_a_sample_that_is_reached_only_after_a_very_long_time_is_reached():
    # Sample 2 is dead until w has turned: w.x_2 = -3.9 + 0.1 Lambda, and Lambda grows like log t. All neurons
    # keep their signs on the other samples, so at the end both neurons see what they can: margins 1.
    x = np.array([[1.0, 0.0, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]])
    network = Network([[[1.0, -4.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, -1.0]]], slope=0.0, trained=(True, False))
    data = Data(x, [1.0, 1.0, -1.0])
    found = limit(network, data, budget=2000, show=False)
    assert found.verdict != "not separated", "the flow separates the data at log t = 43"
    w, _, _ = hard_margin_by_enumeration(x[:2])
    np.testing.assert_allclose(found.W, [w, [0.0, 0.0, 1.0]], atol=1e-9)


def test_the_budget_is_kept_and_named():
    data = rd.gaussian_mixture(n=10, dim=784, balanced=True, seed=1)
    network = Network.fixed_second_layer((784, 100, 1), 0.1, 1e-4, 1)
    found = limit(network, data, budget=50, show=False)
    assert not found.certified
    assert found.settings["steps"] == 50
    assert "the budget of 50 steps is spent" in found.missing


def interrupt_after(monkeypatch, steps):
    step = Walk.step

    def interrupted(walk, *args):
        if walk.steps >= steps:
            raise KeyboardInterrupt
        return step(walk, *args)

    monkeypatch.setattr(Walk, "step", interrupted)


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("steps", [0, 3, 15])
def test_an_interrupt_returns_what_is_known(monkeypatch, steps, both):
    data = separable(6, 4, 0)
    network = (
        Network.gaussian((4, 6, 1), 0.1, 1.0, 0)
        if both
        else Network.fixed_second_layer((4, 6, 1), 0.1, 1.0, 0)
    )
    interrupt_after(monkeypatch, steps)
    found = limit(network, data, show=False)
    assert found.settings["steps"] == steps
    assert "interrupted" in found.missing
    assert str(found).startswith(f"Limit: {found.verdict}: ")


@pytest.mark.parametrize("both", [False, True], ids=["fixed", "both"])
def test_an_interrupted_flow_that_separates_the_data_is_not_called_not_separated(monkeypatch, both):
    data = rd.orthogonal_pair()
    network = Network([np.array([[2.0, 1.0], [-0.5, 1.0]]), [[1.0, -1.0]]], slope=0.1, trained=(True, both))
    assert (data.y * network(data.x) > 0).all()
    interrupt_after(monkeypatch, 0)
    found = limit(network, data, show=False)
    assert found.verdict == "not decided"
    assert not any("not separated" in sentence for sentence in found.missing)


# Bad input

PAIR = rd.orthogonal_pair()
TWO_OUTPUTS = Network.gaussian((2, 3, 2), 0.1, 1.0, 0)
OUTPUT_BIAS = Network.gaussian((2, 3, 1), 0.1, 1.0, 0, bias=True)
GOOD = Network.gaussian((2, 3, 1), 0.1, 1.0, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"network": TWO_OUTPUTS}, "one output"),
        ({"network": TWO_OUTPUTS, "loss": "cross_entropy"}, "one output"),
        ({"loss": "cross_entropy"}, "one output"),
        ({"network": OUTPUT_BIAS}, "not homogeneous.*only the first trained layer may have a bias"),
        ({"tol": -1.0}, "tolerance and the seconds must be positive"),
        ({"tol": np.nan}, "tolerance and the seconds must be positive"),
        ({"budget": 0}, "budget at least one step"),
        ({"loss": "exponentail"}, "Did you mean 'exponential'"),
        ({"data": Data([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])}, "two classes"),
        ({"data": Data([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])}, r"labels -1 and \+1"),
        ({"data": Data([[1.0], [2.0]], [1.0, -1.0])}, "takes 2 features"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(options, sentence):
    given = {"network": GOOD, "data": PAIR, "show": False, **options}
    with pytest.raises(ValueError, match=sentence):
        limit(**given)


def test_several_networks_that_ran_together_have_no_one_limit():
    network = Network.fixed_second_layer((2, 4, 1), 0.1, 0.1, 0)
    run = exact_flow(network, PAIR, "exponential", Until(time=0.1), record=[0.1], show=False)
    run.networks = (run.network, run.network)
    with pytest.raises(ValueError, match=r"take one of `run\.networks`"):
        limit(run, PAIR, show=False)


# Large problems: the transient to a tolerance, then along half-lines


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "d", "slope", "seed"), [(12, 40, 30, 0.01, 3), (8, 30, 20, 0.0, 4)])
def test_with_leaps_the_limit_is_the_same_but_its_route_is_called_approximate(n, m, d, slope, seed):
    data = rd.gaussian_mixture(n=n, dim=d, seed=seed)
    network = Network.fixed_second_layer((d, m, 1), slope=slope, sigma=1e-4, seed=seed)
    exact = limit(network, data, optimality=False, show=False)
    found = limit(network, data, large=0, optimality=False, show=False)
    assert exact.certified
    assert found.verdict == "approximate route", found.missing
    assert found.settings["way"].startswith("adaptive flow")
    assert found.certificate().check().accepted
    np.testing.assert_allclose(found.W, exact.W, atol=1e-10)


def test_leaps_cross_the_friendly_kinks_that_the_flow_crosses():
    # w.x_2 = -7.9 + 0.1 Lambda: sample 2 is dead until margins are 80, so that the leaps begin before.
    x = np.array([[1.0, 0.0, 0.0], [0.1, 1.0, 0.0], [0.1, 0.9, 0.3], [0.0, 0.0, 1.0]])
    first = [[1.0, -8.0, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]]
    network = Network([first, [[1.0, 1.0, -1.0]]], slope=0.0, trained=(True, False))
    data = Data(x, [1.0, 1.0, 1.0, -1.0])
    exact = limit(network, data, show=False)
    found = limit(network, data, large=0, show=False)
    assert exact.certified
    assert found.verdict == "approximate route", found.missing
    assert "leaps" in found.settings["way"]
    np.testing.assert_allclose(found.W, exact.W, atol=1e-9)


@pytest.mark.slow
def test_the_printed_weights_of_a_certified_limit_are_as_exact_as_floats_can_be():
    """A column that is 1000 times the other: sums cancel, and the exact numbers are rounded only once."""
    case = problem(200, 1252)
    network, data = network_and_data(case)
    found = limit(network, data, case.loss, optimality=False, show=False)
    assert found.certified, found.missing
    assert found.settings["radius"] > 0
    assert max(found.residuals.values()) < 1e-11
