from itertools import combinations
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from rankfall import data as rd


def multiset(x, y):
    return sorted(map(tuple, np.column_stack([x, y]).tolist()))


def mirrored(x, y):
    return sorted(map(tuple, (0.0 - np.column_stack([x, y])).tolist()))


def p_number(x):
    """R_min^2 / (R^2 n zeta), by loops."""
    norms = [sqrt(sum(a * a for a in row)) for row in x]
    zeta = max(abs(float(np.dot(x[i], x[j]))) for i, j in combinations(range(len(x)), 2))
    return min(norms) ** 2 / ((max(norms) / min(norms)) ** 2 * len(x) * zeta)


def linearly_separable(x, y):
    found = linprog(np.zeros(x.shape[1]), A_ub=-y[:, None] * x, b_ub=-np.ones(len(x)), bounds=(None, None))
    return found.status == 0


RANDOM = [
    (rd.symmetric_sine, {"pairs": 6, "dim": 3}),
    (rd.symmetric_linear, {"pairs": 6, "dim": 3}),
    (rd.linear_teacher, {"n": 6, "dim": 3, "noise": 0.1}),
    (rd.orthogonal, {"n": 6, "dim": 9}),
    (rd.nearly_orthogonal, {"n": 6, "dim": 9, "p": 4.0}),
    (rd.orthogonally_separable, {"n": 6, "dim": 4}),
    (rd.gaussian_mixture, {"n": 6, "dim": 4, "label_noise": 0.2, "test": 3}),
]


@pytest.mark.parametrize(("make", "options"), RANDOM)
def test_the_same_seed_gives_the_same_bits_and_another_seed_gives_others(make, options):
    first, again, other = make(**options, seed=5), make(**options, seed=5), make(**options, seed=6)
    assert first.x.tobytes() == again.x.tobytes()
    assert first.y.tobytes() == again.y.tobytes()
    assert first.x.tobytes() != other.x.tobytes()
    assert first.name == make.__name__


def test_the_sine_set_is_odd_with_the_teacher_of_the_linear_set():
    sine, linear = rd.symmetric_sine(50, 4, seed=3), rd.symmetric_linear(50, 4, seed=3)
    w = np.linalg.lstsq(linear.x, linear.y, rcond=None)[0]
    assert np.abs(w).max() <= 0.5
    np.testing.assert_array_equal(sine.x, linear.x)
    np.testing.assert_allclose(linear.y, linear.x @ w, atol=1e-13)
    np.testing.assert_allclose(sine.y, sine.x @ w + np.sin(4 * sine.x @ w), atol=1e-12)
    for data in (sine, linear):
        assert data.n == 100
        assert multiset(data.x, data.y) == mirrored(data.x, data.y)


def test_the_sine_set_has_the_sizes_of_the_figure():
    data = rd.symmetric_sine()
    assert data.x.shape == (2000, 20)


def test_white_inputs_have_the_identity_as_covariance_and_stay_symmetric():
    data = rd.symmetric_sine(40, 6, seed=1, white=True)
    sigma = sum(np.outer(x, x) for x in data.x) / 80
    np.testing.assert_allclose(sigma, np.eye(6), atol=1e-14)
    assert multiset(data.x, data.y) == mirrored(data.x, data.y)
    linear = rd.symmetric_linear(40, 6, seed=1)
    w = np.linalg.lstsq(linear.x, linear.y, rcond=None)[0]
    np.testing.assert_allclose(data.y, data.x @ w + np.sin(4 * data.x @ w), atol=1e-12)


def test_whitening_moves_the_inputs_as_little_as_it_can():
    plain, white = rd.symmetric_sine(60, 3, seed=2), rd.symmetric_sine(60, 3, seed=2, white=True)
    sigma = plain.x.T @ plain.x / 120
    values, vectors = np.linalg.eigh(sigma)
    np.testing.assert_allclose(white.x, plain.x @ (vectors / np.sqrt(values)) @ vectors.T, atol=1e-12)


def test_a_linear_teacher_without_noise_is_fitted_exactly():
    data = rd.linear_teacher(30, 4, seed=0)
    _, residual, rank, _ = np.linalg.lstsq(data.x, data.y, rcond=None)
    assert rank == 4
    assert residual[0] < 1e-25
    assert multiset(data.x, data.y) != mirrored(data.x, data.y)


def test_the_noise_of_a_linear_teacher_has_its_standard_deviation():
    clean, noisy = (rd.linear_teacher(20_000, 2, seed=0, noise=noise) for noise in (0.0, 0.3))
    np.testing.assert_array_equal(clean.x, noisy.x)
    assert np.std(noisy.y - clean.y) == pytest.approx(0.3, rel=0.02)


def test_a_classifying_linear_teacher_gives_the_signs_and_both_of_them():
    for seed in range(40):
        data = rd.linear_teacher(2, 3, seed=seed, classification=True)
        assert sorted(data.y) == [-1, 1]
        assert linearly_separable(data.x, data.y)
    values = rd.linear_teacher(50, 3, seed=1)
    np.testing.assert_array_equal(np.sign(values.y), rd.linear_teacher(50, 3, seed=1, classification=True).y)


def test_the_fan_is_symmetric_alternates_around_the_origin_and_has_no_linear_classifier():
    data = rd.fan()
    assert multiset(data.x, data.y) == mirrored(data.x, data.y)
    around = data.y[np.argsort(np.arctan2(data.x[:, 1], data.x[:, 0]))]
    assert (around[1:] == -around[:-1]).all()
    assert not linearly_separable(data.x, data.y)


def test_six_points_are_those_of_the_paper_and_the_fan_without_asymmetry():
    data = rd.six_points()
    printed = [(1, 1), (-1, -1), (1, -1), (-1, 1), (-1, 0), (1, 0.15)]
    assert [tuple(x) for x in data.x] == printed
    assert dict(zip(printed, data.y, strict=True))[(1, 0.15)] == -1
    np.testing.assert_array_equal(rd.six_points(0).x, rd.fan().x)
    np.testing.assert_array_equal(rd.six_points(0).y, rd.fan().y)
    assert (rd.six_points(0.4).x != rd.fan().x).sum() == 1


def test_on_the_circle_each_ray_carries_both_labels_at_different_radii():
    data = rd.circle(12, radii=(0.5, 1.5))
    radius = np.hypot(*data.x.T)
    np.testing.assert_allclose(radius[data.y > 0], 0.5)
    np.testing.assert_allclose(radius[data.y < 0], 1.5)
    np.testing.assert_allclose(3 * data.x[data.y > 0], data.x[data.y < 0])
    assert len({tuple(x) for x in data.x.round(12).tolist()}) == 12


def test_no_two_points_of_xor_have_a_positive_inner_product_and_no_line_separates_them():
    data = rd.xor()
    assert all(np.dot(a, b) <= 0 for a, b in combinations(data.x, 2))
    assert not linearly_separable(np.column_stack([data.x, np.ones(4)]), data.y)


def test_the_pair_of_boursier_is_orthogonal():
    data = rd.orthogonal_pair()
    assert data.x[0] @ data.x[1] == 0
    assert multiset(data.x, data.y) == [(-0.5, 1, -1), (2, 1, 1)]


@pytest.mark.parametrize(("n", "dim"), [(2, 2), (8, 8), (6, 40)])
def test_orthogonal_inputs_have_a_multiple_of_the_identity_as_gram_matrix(n, dim):
    data = rd.orthogonal(n, dim, seed=1, norm=3.0)
    np.testing.assert_allclose(data.x @ data.x.T, 9 * np.eye(n), atol=1e-13)
    assert data.y.sum() == 0
    assert set(data.y) == {-1, 1}


@settings(deadline=None, max_examples=40)
@given(
    half=st.integers(1, 8),
    room=st.integers(0, 5),
    excess=st.floats(0.05, 1e4),
    norm=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32),
)
def test_nearly_orthogonal_data_has_exactly_the_wanted_p_number(half, room, excess, norm, seed):
    n = 2 * half
    p = 1 / n + excess
    data = rd.nearly_orthogonal(n, n + room, p=p, seed=seed, norm=norm)
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), norm, rtol=1e-12)
    # An inner product of unit vectors is rounded to about 1e-16, and its largest is 1/(n p).
    assert p_number(data.x) == pytest.approx(p, rel=1e-13 + 1e-14 * n * p)
    assert np.linalg.matrix_rank(data.x) == n


def test_nearly_orthogonal_data_of_large_p_has_random_inner_products_of_both_signs():
    x = rd.nearly_orthogonal(10, 30, p=5.0, seed=0).x
    products = np.array([a @ b for a, b in combinations(x, 2)])
    assert len(np.unique(products)) == 45
    assert 10 < (products > 0).sum() < 35
    assert np.abs(products).max() == pytest.approx(1 / 50)
    assert np.mean(np.abs(products)) == pytest.approx(1 / 100, rel=0.3)


@pytest.mark.parametrize("angle", [pi / 2, 0.6 * pi, 0.75 * pi, pi])
@pytest.mark.parametrize("dim", [2, 7])
def test_orthogonally_separable_data_is_positive_within_and_nonpositive_between_classes(angle, dim):
    for seed in range(5):
        data = rd.orthogonally_separable(20, dim, seed=seed, angle=angle, spread=0.99)
        for i, j in combinations(range(20), 2):
            product = data.x[i] @ data.x[j]
            assert product > 1e-3 if data.y[i] == data.y[j] else product <= 1e-15


def test_without_spread_the_classes_are_two_rays_at_the_given_angle():
    data = rd.orthogonally_separable(6, 5, angle=2.0, spread=0.0)
    u = data.x / np.linalg.norm(data.x, axis=1, keepdims=True)
    cosines = u @ u.T
    same = np.equal.outer(data.y, data.y)
    np.testing.assert_allclose(cosines, np.where(same, 1, np.cos(2.0)), atol=1e-14)


def test_the_default_mixture_has_the_sizes_of_the_paper():
    data = rd.gaussian_mixture()
    assert data.x.shape == (10, 784)
    assert set(data.y) == {-1, 1}
    assert data.test is None


def test_the_class_means_of_the_mixture_are_plus_and_minus_a_vector_of_the_given_norm():
    data = rd.gaussian_mixture(20_000, 5, mean_norm=5**0.26, noise=0.1, seed=2)
    plus, minus = data.x[data.y > 0].mean(0), data.x[data.y < 0].mean(0)
    np.testing.assert_allclose(plus, -minus, atol=0.006)
    assert np.linalg.norm(plus) == pytest.approx(5**0.26, rel=0.005)
    assert (data.x - data.y[:, None] * plus).std() == pytest.approx(0.1, rel=0.02)
    assert data.y.mean() == pytest.approx(0, abs=0.03)


def test_the_mean_of_the_mixture_has_the_given_scale():
    data = rd.gaussian_mixture(2, 10_000, mean_scale=0.5, noise=0.0)
    assert np.std(data.x[0]) == pytest.approx(0.5, rel=0.03)
    np.testing.assert_array_equal(data.x[0] * data.y[0], data.x[1] * data.y[1])


def test_noisy_labels_differ_from_the_class_with_the_given_probability():
    data = rd.gaussian_mixture(20_000, 3, mean_norm=10.0, noise=0.1, label_noise=0.15, seed=1, test=500)
    mu = (data.x * data.y[:, None]).mean(0)
    wrong = np.sign(data.x @ mu) != data.y
    assert wrong.mean() == pytest.approx(0.15, abs=0.01)
    assert (np.sign(data.test.x @ mu) == data.test.y).all()


def test_asking_for_test_samples_leaves_the_training_part_as_it_is():
    without, with_test = (rd.gaussian_mixture(seed=4, test=test) for test in (0, 30))
    np.testing.assert_array_equal(without.x, with_test.x)
    np.testing.assert_array_equal(without.y, with_test.y)
    assert with_test.test.x.shape == (30, 784)


def test_both_classes_always_occur_and_in_equal_number_if_balanced():
    for seed in range(50):
        assert set(rd.gaussian_mixture(2, 3, label_noise=0.5, seed=seed).y) == {-1, 1}
        assert set(rd.orthogonal(2, 3, balanced=False, seed=seed).y) == {-1, 1}
        assert rd.gaussian_mixture(8, 3, balanced=True, seed=seed).y.sum() == 0


def test_symmetrised_data_is_symmetric_contains_the_data_and_keeps_the_test_part():
    data = rd.gaussian_mixture(5, 3, test=4)
    both = rd.symmetrise(data)
    assert multiset(both.x, both.y) == mirrored(both.x, both.y)
    np.testing.assert_array_equal(both.x[:5], data.x)
    np.testing.assert_array_equal(both.y[:5], data.y)
    assert both.n == 10
    assert both.test is data.test
    vector = rd.symmetrise(rd.Data([[1.0], [2.0]], [[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(vector.y, [[1, 2], [3, 4], [-1, -2], [-3, -4]])


def test_class_numbers_have_no_mirror_image():
    with pytest.raises(ValueError, match="class numbers 0 to 2, which have no mirror image"):
        rd.symmetrise(rd.Data(np.eye(3), [0, 2, 1]))


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (rd.symmetric_sine, {"pairs": 0}, "pairs must be a positive whole number, not 0"),
        (rd.symmetric_sine, {"pairs": 2.5}, "pairs must be a positive whole number, not 2.5"),
        (rd.symmetric_sine, {"pairs": 5, "dim": 6, "white": True}, "need pairs >= 6, not 5"),
        (rd.symmetric_linear, {"dim": -1}, "dim must be a positive whole number"),
        (rd.linear_teacher, {"n": 0}, "n must be a positive whole number"),
        (rd.linear_teacher, {"noise": -1.0}, "noise must be finite and not negative"),
        (rd.linear_teacher, {"n": 1, "classification": True}, "one sample of each class"),
        (rd.circle, {"n": 7}, "even n"),
        (rd.circle, {"radii": (2.0, 1.0)}, "0 < inner < outer"),
        (rd.orthogonal, {"n": 5, "dim": 4}, "do not fit into 4 dimensions.*dim >= 5"),
        (rd.orthogonal, {"n": 5, "dim": 6}, "even n, not 5: change n or pass balanced=False"),
        (rd.orthogonal, {"n": 1, "dim": 6, "balanced": False}, "n >= 2"),
        (rd.orthogonal, {"norm": 0.0}, "norm of the inputs must be positive"),
        (rd.nearly_orthogonal, {"p": 0.0}, "1/n < p < infinity.*p = 0.0"),
        (rd.nearly_orthogonal, {"p": -3.0}, "1/n < p < infinity"),
        (rd.nearly_orthogonal, {"p": np.nan}, "1/n < p < infinity"),
        (rd.nearly_orthogonal, {"p": np.inf}, "use orthogonal"),
        (rd.nearly_orthogonal, {"n": 20, "dim": 10}, "do not fit into 10 dimensions"),
        (rd.orthogonally_separable, {"dim": 1}, "dim >= 2"),
        (rd.orthogonally_separable, {"angle": 1.0}, "from pi/2 to pi"),
        (rd.orthogonally_separable, {"spread": 1.0}, "less than 1"),
        (rd.gaussian_mixture, {"n": 1}, "n >= 2"),
        (rd.gaussian_mixture, {"n": 7, "balanced": True}, "even n, not 7"),
        (rd.gaussian_mixture, {"dim": 0}, "dim must be a positive whole number"),
        (rd.gaussian_mixture, {"label_noise": 0.6}, "from 0 to 1/2, not 0.6"),
        (rd.gaussian_mixture, {"noise": np.nan}, "noise must be finite"),
        (rd.gaussian_mixture, {"mean_norm": -1.0}, "mean_norm must be finite and not negative"),
        (rd.gaussian_mixture, {"test": -1}, "test must be a positive whole number"),
        (rd.six_points, {"asymmetry": np.nan}, "NaN or infinite"),
    ],
)
def test_bad_arguments_are_answered_with_a_sentence(make, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**options)
