import numpy as np
import pytest
from sklearn.svm import SVC

from rankfall import Data, Network, limit
from rankfall import data as rd
from rankfall.limits import compare

RNG = np.random.default_rng


def separable(n, d, seed, gap=0.3):
    """Rows and labels in turn, linearly separable through the origin."""
    x = RNG(seed).normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    x[:, 0] = y * (np.abs(x[:, 0]) + gap)
    return x, y


def machine(x, y):
    """The unit normal vector and the margin of scikit-learn's support vector machine through the origin."""
    mirrored = np.concatenate([x, -x]), np.concatenate([y, -y])
    w = SVC(kernel="linear", C=1e10, tol=1e-8).fit(*mirrored).coef_[0]
    w = w / np.linalg.norm(w)
    return w, (y * (x @ w)).min()


@pytest.mark.parametrize("seed", range(3))
def test_the_linear_machine_beside_a_network_is_that_of_scikit_learn(seed):
    x, y = separable(12, 4, seed)
    w, a = RNG(seed + 10).normal(size=(6, 4)), RNG(seed + 20).normal(size=6)
    found = compare(w, a, 0.1, x, y)
    best, margin = machine(x, y)
    np.testing.assert_allclose(found.svm, best, atol=1e-4)
    assert found.svm_margin == pytest.approx(margin, rel=1e-4)
    z = a @ w
    np.testing.assert_allclose(found.z, z, rtol=1e-14)
    assert found.margin == pytest.approx((y * (x @ z)).min() / np.linalg.norm(z), rel=1e-12)
    assert found.angle == pytest.approx(np.degrees(np.arccos(z @ best / np.linalg.norm(z))), abs=0.02)
    assert found.margin <= found.svm_margin


def test_a_tiny_angle_has_all_its_digits():
    x, y = separable(12, 4, 0)
    best = rd.hard_margin(Data(x, y)).w
    across = np.linalg.svd(best[None, :])[2][1]
    tilted = best / np.linalg.norm(best) + 1e-9 * across
    assert compare(tilted[None, :], np.ones(1), 1.0, x, y).angle == pytest.approx(np.degrees(1e-9), rel=1e-5)


@pytest.mark.parametrize(
    ("w", "slope", "boundary"),
    [
        ([[1.0, 2.0], [-3.0, 0.5]], 1.0, "linear"),  # whatever a linear network is
        ([[1.0, 0.0], [0.0, 1.0]], 0.1, "linear"),  # one ray a sign
        ([[2.0, 0.0], [0.0, 0.0]], 0.1, "linear"),  # one of them empty
        ([[1.0, 0.0], [0.0, 1.0]], 0.0, "linear on all probes"),  # f = 0 where both are off
        ([[1.0, 0.0], [-1.0, 0.0]], 0.0, "linear on all probes"),
    ],
)
def test_two_neurons_of_different_signs_have_a_hyperplane_for_a_boundary(w, slope, boundary):
    found = compare(np.array(w), np.array([1.0, -1.0]), slope, np.eye(2), np.array([1.0, -1.0]))
    assert found.boundary == boundary
    assert found.reason


def test_two_rays_of_one_sign_bend_the_boundary():
    # f = s(x_1) + s(-0.8 x_1) - s(x_2) is positive at (-1, 0), and z.x = 0.2 x_1 - x_2 is negative there.
    w = np.array([[1.0, 0.0], [-0.8, 0.0], [0.0, 1.0]])
    found = compare(w, np.array([1.0, 1.0, -1.0]), 0.1, np.eye(2), np.array([1.0, -1.0]))
    assert found.boundary == "not linear"


def test_the_boundary_that_is_called_linear_is_that_of_z():
    w = np.outer([1.0, 0.5, 0.0, 0.0], [1.0, -2.0, 0.3]) + np.outer([0.0, 0.0, 1.0, 2.0], [0.2, 1.0, 1.0])
    a = np.array([1.0, 2.0, -1.0, -0.5])
    found = compare(w, a, 0.05, *separable(6, 3, 1))
    assert found.boundary == "linear"
    probes = RNG(1).normal(size=(2000, 3))
    pre = probes @ w.T
    f = np.where(pre > 0, pre, 0.05 * pre) @ a
    np.testing.assert_array_equal(np.sign(f), np.sign(probes @ found.z))


def test_where_there_is_no_linear_classifier_there_is_nothing_to_compare_with():
    data = rd.xor()
    found = compare(np.eye(2), np.array([1.0, -1.0]), 0.1, data.x, data.y)
    assert found.svm is None
    assert np.isnan(found.svm_margin)
    assert np.isnan(found.angle)


def test_a_network_without_linear_part_has_no_margin():
    found = compare(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0]), 0.1, *separable(6, 2, 1))
    assert np.isnan(found.margin)
    assert np.isnan(found.angle)


def test_a_limit_is_compared_in_the_users_coordinates():
    data = rd.gaussian_mixture(n=6, dim=40, balanced=True, seed=2)
    found = limit(Network.fixed_second_layer((40, 8, 1), 0.5, 1e-2, 1, bias=True), data, show=False)
    assert found.certified, found.missing
    lifted = np.column_stack([data.x, np.ones(6)])
    best, margin = machine(lifted, data.y)
    np.testing.assert_allclose(found.comparison.svm, best, atol=1e-5)
    assert found.comparison.svm_margin == pytest.approx(margin, rel=1e-5)
    a = found.network.weights[1][0]
    z = np.append(a @ found.W, a @ found.network.biases[0])
    np.testing.assert_allclose(found.comparison.z, z, atol=1e-12)
    assert found.comparison.margin == pytest.approx(
        (data.y * (lifted @ z)).min() / np.linalg.norm(z), rel=1e-10
    )
