from itertools import combinations

import numpy as np
import pytest
from sklearn.svm import SVC

from rankfall import Data, Network, limit
from rankfall import data as rd
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import walk_of
from rankfall.limits._slow import slow_walk
from rankfall.loss import named
from tests.adversarial.battery import network_and_data
from tests.adversarial.problems import problem

RNG = np.random.default_rng


# Oracles


def hard_margin_by_enumeration(z):
    """The shortest w with z w >= 1: the one support that solves the KKT conditions."""
    for size in range(1, len(z) + 1):
        for support in combinations(range(len(z)), size):
            rows = z[list(support)]
            multipliers, *_ = np.linalg.lstsq(rows @ rows.T, np.ones(size), rcond=1e-12)
            w = multipliers @ rows
            if (multipliers > 0).all() and (z @ w >= 1 - 1e-12).all():
                return w
    raise AssertionError("the data are not separable")


def direction_and_margin(z):
    """The unit vector of the largest margin, and that margin."""
    w = hard_margin_by_enumeration(z)
    return w / np.linalg.norm(w), 1 / np.linalg.norm(w)


def separable(n, d, seed, gap=0.3):
    """Data with labels in turn, linearly separable through the origin."""
    x = RNG(seed).normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x[:, 0] = y * (np.abs(x[:, 0]) + gap)
    return Data(x @ np.linalg.qr(RNG(seed + 1).normal(size=(d, d)))[0], y)


def certified(network, data, loss="exponential", **options):
    found = limit(network, data, loss, show=False, **options)
    assert found.reached, f"{found.verdict}: {found.missing}"
    return found


def layers(found):
    """The first layer, with its bias as a last column, and the second one."""
    bias = found.network.biases[0]
    return (found.W if bias is None else np.column_stack([found.W, bias])), found.network.weights[1][0]


# Linear networks: the support vector machine


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("start", ["large", "small", "two linear layers at the end"])
def test_a_linear_network_becomes_the_support_vector_machine(seed, start):
    data = separable(8, 3, seed)
    network = {
        "large": Network.gaussian((3, 6, 1), 1.0, 1.0, seed),
        "small": Network.balanced((3, 6, 1), 1.0, 1e-3, seed),
        "two linear layers at the end": Network.gaussian((3, 6, 1), 0.0, 1.0, seed, linear_tail=2),
    }[start]
    found = certified(network, data)
    w, a = layers(found)
    best, margin = direction_and_margin(data.y[:, None] * data.x)
    np.testing.assert_allclose(a @ w * margin, best, atol=1e-7)
    mirrored = (
        np.concatenate([data.x, -data.x]),
        np.concatenate([data.y, -data.y]),
    )  # then there is no intercept
    machine = SVC(kernel="linear", C=1e10, tol=1e-8).fit(*mirrored).coef_[0]
    np.testing.assert_allclose(best, machine / np.linalg.norm(machine), atol=1e-4)
    assert found.rank == 1
    assert found.normalised_margin == pytest.approx(margin / 2, rel=1e-8)  # |theta|^2 = 2 |w|
    assert found.optimality.verdict == "globally optimal"


# Symmetric data: Lyu, Li, Wang and Arora 2021


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("slope", [0.1, 0.5])
def test_on_symmetric_separable_data_a_leaky_network_has_the_largest_margin_of_all(slope, seed):
    data = rd.symmetrise(separable(5, 3, seed))
    found = certified(Network.balanced((3, 10, 1), slope, 1e-3, seed), data)
    best, margin = direction_and_margin(data.y[:, None] * data.x)
    assert found.normalised_margin == pytest.approx((1 + slope) / 4 * margin, rel=1e-8)
    w, a = layers(found)
    np.testing.assert_allclose(w, np.outer(a, best), atol=1e-8)
    assert (a[a > 0] ** 2).sum() == pytest.approx((a[a < 0] ** 2).sum(), rel=1e-8)
    assert (a[a > 0] ** 2).sum() == pytest.approx(found.norm**2 / 4, rel=1e-8)
    assert found.optimality.verdict == "globally optimal"
    assert found.comparison.boundary == "linear"
    assert found.comparison.angle < 1e-5


# Orthogonally separable data: Phuong and Lampert 2021


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_orthogonally_separable_data_the_neurons_of_a_sign_are_their_classs_machine(seed):
    data = rd.orthogonally_separable(8, 4, seed)
    assert rd.is_orthogonally_separable(data)
    found = certified(Network.balanced((4, 12, 1), 0.0, 1e-3, seed), data)
    w, a = layers(found)
    sums, directions = [], []
    for sign in (1, -1):
        best, margin = direction_and_margin(data.x[data.y == sign])
        live = (sign * a > 0) & (np.linalg.norm(w, axis=1) > 0)
        assert live.any()
        np.testing.assert_allclose(w[live], np.outer(np.abs(a[live]), best), atol=1e-8)
        assert (a[live] ** 2).sum() == pytest.approx(1 / margin, rel=1e-8)
        sums.append((a[live] ** 2).sum())
        directions.append(best)
    dead = a == 0
    assert not w[dead].any()
    both, cosine = sum(sums), directions[0] @ directions[1]
    root = np.sqrt((sums[0] - sums[1]) ** 2 + 4 * sums[0] * sums[1] * cosine**2)
    assert found.stable_rank == pytest.approx(2 * both / (both + root), rel=1e-8)
    assert found.rank == 2
    assert found.optimality.verdict == "globally optimal"


# A KKT point that is no optimum: Vardi, Shamir and Srebro 2021


def test_a_kkt_point_that_is_not_globally_optimal_is_told_so():
    # x_1 and x_2 could have a neuron each, but the only one alive lies between them; x_3 is there for the
    # second class. So w_1 = 2 e_2, a_1 = 2, lambda_1 = lambda_2 = 2; w_3 = e_3, a_3 = -1, lambda_3 = 1.
    data = Data([[1.0, 0.25, 0.0], [-1.0, 0.25, 0.0], [0.0, 0.0, 1.0]], [1.0, 1.0, -1.0])
    start = Network([[[0.0, 1.0, 0.0], [0.0, -0.5, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.5, -1.0]]], slope=0.0)
    found = certified(start, data)
    w, a = layers(found)
    np.testing.assert_allclose(w, [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]], atol=1e-10)
    np.testing.assert_allclose(a, [2.0, 0.0, -1.0], atol=1e-10)
    np.testing.assert_allclose(found.multipliers, [2.0, 2.0, 1.0], rtol=1e-10)
    length = np.sqrt(1 + 1 / 16)
    judged = found.optimality
    assert judged.verdict == "not globally optimal"
    assert judged.gap == pytest.approx(2 * length - 1, rel=1e-8)  # max |F| = 2 |x_1|
    along = judged.better @ data.x[:2].T / length
    assert max(along) == pytest.approx(1, abs=1e-8)
    # One neuron for each of x_1 and x_2 costs 2/|x_i|, and that is |theta|^2 = 2 + 4/|x_1| instead of 10.
    assert judged.gain == pytest.approx((2 + 4 / length) / 10, rel=1e-6)


# Identities at every KKT point


def several(seed):
    """Random limits of networks that are neither small nor linear; some have kinks, some dead neurons."""
    slope, bias = (0.0, 0.1, 0.5)[seed % 3], bool(seed % 2)
    data = Data(RNG(seed).normal(size=(6, 4)), [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    network = Network.gaussian((4, 8, 1), slope, 1.0, seed + 100, bias=(bias, False))
    return data, network, certified(network, data, ("exponential", "logistic")[seed % 2], optimality=False)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 8])
def test_balance_unit_pulls_and_euler_hold_at_the_limit(seed):
    data, network, found = several(seed)
    w, a = layers(found)
    x = data.x if network.biases[0] is None else np.column_stack([data.x, np.ones(6)])
    np.testing.assert_allclose(np.abs(a), np.linalg.norm(w, axis=1), atol=1e-9)
    slope = float(network.slope)
    slopes = np.where(found.region > 0, 1.0, slope)
    for neuron, sample, at_kink in found.kinks:
        assert slope <= at_kink <= 1
        slopes[neuron, sample] = at_kink
    pulls = (slopes * found.multipliers * data.y) @ x
    live = a != 0
    assert live.any()
    np.testing.assert_allclose(np.linalg.norm(pulls[live], axis=1), 1.0, rtol=1e-9)  # |v_j| = 1
    np.testing.assert_allclose(w[live], a[live, None] * pulls[live], atol=1e-9)
    lost = ~live & (found.region != 0).all(axis=1)
    assert (np.linalg.norm(pulls[lost], axis=1) < 1).all()  # what is not in the limit has lost
    assert found.multipliers.sum() == pytest.approx(found.norm**2 / 2, rel=1e-9)  # Euler
    assert found.multipliers.sum() == pytest.approx(1 / (2 * found.normalised_margin), rel=1e-9)
    margins = data.y * found.network(data.x)
    assert margins.min() == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(found.multipliers * (margins - 1), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.margins, margins, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_shares_within_a_cluster_are_those_of_the_closed_form(seed):
    """One input: w + a grows by one factor for all neurons and w - a decays, so the limit is w(0) + a(0)."""
    rng = RNG(seed)
    w, a = rng.normal(size=(6, 1)), rng.normal(size=6)
    network = Network([w, a[None]], slope=1.0, trained=(True, True))
    found = limit(network, Data([[1.0], [-2.0]], [1.0, -1.0]), show=False)
    assert found.verdict == "followed", found.missing
    end = w[:, 0] + a
    end = end / np.linalg.norm(end)
    for layer in (found.W[:, 0], np.asarray(found.network.weights[1])[0]):
        np.testing.assert_allclose(layer / np.linalg.norm(layer), end, atol=1e-8)


def test_a_neuron_that_only_decays_has_no_share_and_no_number_is_undefined():
    """A neuron with w = a and one input loses all of itself: its cluster has nothing that grows."""
    case = problem(400, 1013)
    network, data = network_and_data(case)
    found = limit(network, data, case.loss, seconds=3, show=False)
    assert "nan" not in str(found)


# The slow flow


def flow_of_both_layers():
    """An exact flow in which shares still move at margins of a thousand."""
    data = Data(RNG(5).normal(size=(6, 3)), [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    network = Network.gaussian((3, 10, 1), 0.1, 1.0, 5)
    return walk_of(Reduction([network], data, named("exponential")), rtol=1e-10)


def smallest_margin(walk):
    return float((walk.pull.y * walk.outputs).min())


def go_to(walk, margin):
    while smallest_margin(walk) < margin:
        walk.advance()


def direction(walk):
    theta = np.concatenate([walk.weights.w.ravel(), walk.weights.a])
    return theta / np.linalg.norm(theta)


def test_the_slow_flow_is_the_exact_flow_up_to_one_over_the_margin():
    walk = flow_of_both_layers()
    errors, ways = [], []
    for margin in (1e2, 1e3):
        go_to(walk, margin)
        start, before, slow = direction(walk), smallest_margin(walk), slow_walk(walk)
        go_to(walk, 10 * margin)
        end = np.log(smallest_margin(walk) / before)
        while slow.clock.now < end * (1 - 1e-12):
            slow.advance(end - slow.clock.now)
        errors.append(np.linalg.norm(direction(slow) - direction(walk)))
        ways.append(np.linalg.norm(direction(walk) - start))
    assert min(ways) > 100 * errors[1]
    assert errors[1] < 1e-4
    assert 7 < errors[0] / errors[1] < 15
