from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog, minimize

from rankfall import data as rd
from rankfall.data import Data, geometry

RNG = np.random.default_rng


def small_sets(values, features=2):
    """Data sets of 1 to 5 points whose coordinates and targets are among a few numbers."""
    return st.integers(1, 5).flatmap(
        lambda n: arrays(float, (n, features + 1), elements=st.sampled_from(values)).map(
            lambda z: Data(z[:, :-1], z[:, -1])
        )
    )


def labelled(x, seed=0):
    y = np.where(np.arange(len(x)) % 2, 1.0, -1.0)
    return Data(x, RNG(seed).permutation(y))


def rms(values):
    return np.sqrt((values**2).sum() / len(values)) or 1.0


def asymmetry_by_permutations(data):
    z = np.column_stack([data.x / rms(data.x), data.y / rms(data.y)])
    costs = [sum(np.linalg.norm(z[i] + z[j]) for i, j in enumerate(pi)) for pi in permutations(range(len(z)))]
    return min(costs) / (2 * np.linalg.norm(z, axis=1).sum() or 1.0)


def distance_of_hull_from_origin(z):
    """The least norm in the convex hull of the rows, over all faces: the margin, by duality."""
    best = np.inf
    for size in range(1, len(z) + 1):
        for face in combinations(range(len(z)), size):
            points = z[list(face)]
            # Least norm of sum_i c_i p_i with sum_i c_i = 1: the affine hull's nearest point to 0.
            system = np.block(
                [[points @ points.T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]]
            )
            c = np.linalg.lstsq(system, np.r_[np.zeros(size), 1.0], rcond=None)[0][:size]
            if (c >= -1e-9).all() and abs(c.sum() - 1) < 1e-9:
                best = min(best, np.linalg.norm(c @ points))
    return best


def lp_separable(z):
    """Some w has z w >= 1, by HiGHS."""
    return linprog(np.zeros(z.shape[1]), A_ub=-z, b_ub=-np.ones(len(z)), bounds=(None, None)).status == 0


# Symmetry


@settings(deadline=None, max_examples=150)
@given(small_sets([-1.0, 0.0, -0.0, 1.0], features=1))
def test_asymmetry_is_zero_exactly_if_the_multiset_equals_its_mirror_image(data):
    z = np.column_stack([data.x, data.y])
    symmetric = sorted((z + 0.0).tolist()) == sorted((0.0 - z).tolist())
    assert (rd.asymmetry(data) == 0) == symmetric
    assert rd.is_symmetric(data) == rd.is_symmetric(data, tol=0) == symmetric


@settings(deadline=None, max_examples=60)
@given(small_sets([-2.0, -1.0, -0.3, 0.0, 0.5, 1.0]))
def test_asymmetry_is_the_cost_of_the_best_matching_of_all(data):
    assert rd.asymmetry(data) == pytest.approx(asymmetry_by_permutations(data), abs=1e-14)


def test_how_often_a_point_occurs_matters():
    assert rd.is_symmetric(Data([[1], [1], [-1], [-1]], [2, 2, -2, -2]))
    assert not rd.is_symmetric(Data([[1], [1], [-1]], [2, 2, -2]))


def test_the_papers_symmetric_sets_are_symmetric_and_the_perturbed_one_is_not():
    for data in (rd.fan(), rd.symmetric_sine(30, 4), rd.symmetric_sine(30, 4, white=True)):
        assert rd.asymmetry(data) == 0
    assert 0 < rd.asymmetry(rd.six_points(0.01)) < rd.asymmetry(rd.six_points(0.15)) < 0.05
    assert not rd.is_symmetric(rd.circle())


def test_a_difference_in_the_last_bit_or_far_below_it_is_noticed():
    for x in (np.nextafter(1.0, 2.0), 1.0):
        data = Data([[x, 1e-300], [-1.0, 0.0]], [1, -1])
        assert rd.asymmetry(data) > 0
        assert rd.is_symmetric(data)
        assert not rd.is_symmetric(data, tol=0)


def test_asymmetry_is_one_for_a_point_and_does_not_depend_on_order_or_units():
    assert rd.asymmetry(Data([[3.0, 4.0]], [2.0])) == pytest.approx(1)
    data = rd.linear_teacher(40, 3, seed=1)
    value = rd.asymmetry(data)
    order = RNG(0).permutation(40)
    assert 0 < value < 1
    assert rd.asymmetry(Data(data.x[order], data.y[order])) == pytest.approx(value)
    assert rd.asymmetry(Data(1e200 * data.x, 1e-200 * data.y)) == pytest.approx(value)


@pytest.mark.parametrize("pairs", [20, 1500])
def test_the_asymmetry_of_shifted_data_is_the_shift(pairs):
    # 1500 pairs are too many for a matching: both measures agree here, where each point has one near image.
    x = np.concatenate([(x := RNG(0).uniform(1, 2, (pairs, 8))), -x]) + 1e-6
    y = np.repeat([1.0, -1.0], pairs)
    z = np.column_stack([x / rms(x), y])
    expected = 2 * pairs * 2e-6 * np.sqrt(8) / rms(x) / (2 * np.linalg.norm(z, axis=1).sum())
    assert rd.asymmetry(Data(x, y)) == pytest.approx(expected, rel=1e-6)


def test_points_with_an_exact_mirror_image_do_not_count_towards_the_size_of_the_matching():
    even = rd.symmetric_linear(3000, 3, seed=0)
    data = Data(np.concatenate([even.x, [[1.0, 0, 0]]]), np.concatenate([even.y, [0.0]]))
    z = np.column_stack([data.x / rms(data.x), data.y / rms(data.y)])
    norms = np.linalg.norm(z, axis=1)
    assert rd.asymmetry(data) == pytest.approx(norms[-1] / norms.sum())


# Separability


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 6).flatmap(lambda n: arrays(float, (n, 3), elements=st.integers(-2, 2).map(float))))
def test_separability_and_margin_agree_with_linear_programming_and_with_the_convex_hull(x):
    data = labelled(x)
    for bias in (False, True):
        z = data.y[:, None] * (np.column_stack([x, np.ones(len(x))]) if bias else x)
        assert rd.is_separable(data, bias) == lp_separable(z)
        assert rd.margin(data, bias) == pytest.approx(distance_of_hull_from_origin(z), abs=1e-9)


def test_the_margin_of_many_points_is_that_of_a_general_solver():
    # More points than the working set holds at first.
    teacher = rd.linear_teacher(400, 4, seed=2, classification=True)
    z = teacher.y[:, None] * teacher.x
    start = linprog(np.zeros(4), A_ub=-z, b_ub=-np.ones(400), bounds=(None, None)).x
    constraint = {"type": "ineq", "fun": lambda w: z @ w - 1, "jac": lambda w: z}
    scale = np.linalg.norm(start)
    found = minimize(
        lambda w: w @ w / (2 * scale**2),
        start,
        jac=lambda w: w / scale**2,
        constraints=[constraint],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert rd.margin(teacher) == pytest.approx(1 / np.linalg.norm(found.x), rel=1e-6)


@pytest.mark.parametrize("bias", [False, True])
def test_a_rotation_into_more_dimensions_leaves_the_margin_as_it_is(bias):
    low = rd.gaussian_mixture(6, 8, seed=3)
    frame = np.linalg.qr(RNG(1).normal(size=(500, 8)))[0].T
    high = Data(low.x @ frame, low.y)
    assert rd.margin(low, bias) > 0.1
    assert rd.margin(high, bias) == pytest.approx(rd.margin(low, bias), rel=1e-12)


def test_orthogonal_inputs_have_margin_norm_over_root_n():
    assert rd.margin(rd.orthogonal(8, 30, norm=5.0)) == pytest.approx(5 / np.sqrt(8), rel=1e-13)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-11])
def test_a_tiny_margin_is_found_and_a_tiny_overlap_too(gap):
    frame = np.linalg.qr(RNG(1).normal(size=(5, 2)))[0].T
    y = np.array([1.0, -1.0, 1.0])
    for sign in (1, -1):
        z = np.array([[1.0, sign * gap], [-1.0, sign * gap], [-0.5, 1.0]])
        data = Data(y[:, None] * z @ frame, y)
        assert rd.is_separable(data) == (sign > 0)
        assert rd.margin(data) == pytest.approx(gap if sign > 0 else 0, rel=1e-16 / gap + 1e-5)


def test_the_margin_scales_with_the_data_and_survives_inputs_of_very_different_sizes():
    data = rd.orthogonally_separable(10, 4, seed=0)
    assert rd.margin(Data(1e150 * data.x, data.y)) == pytest.approx(1e150 * rd.margin(data))
    assert rd.margin(Data([[1e6, 0], [0, 1e-6]], [1, -1])) == pytest.approx(1e-6)


def test_an_input_zero_or_a_point_with_both_labels_cannot_be_separated():
    zero, twice = Data([[0, 0], [1, 1]], [1, -1]), Data([[1, 2], [1, 2]], [1, -1])
    assert not rd.is_separable(zero)
    assert rd.is_separable(zero, bias=True)
    assert not rd.is_separable(twice, bias=True)
    assert rd.margin(zero) == rd.margin(twice) == 0


@pytest.mark.parametrize("seed", range(3))
def test_orthogonal_separability_is_that_of_all_pairs(seed):
    cases = [
        rd.orthogonally_separable(8, 3, seed=seed),
        rd.gaussian_mixture(8, 3, seed=seed),
        rd.linear_teacher(8, 1, seed=seed, classification=True),
    ]
    for data in cases:
        x, y = data.x, data.y
        pairs = [(i, j) for i in range(8) for j in range(8)]
        expected = all(x[i] @ x[j] > 0 if y[i] == y[j] else x[i] @ x[j] <= 0 for i, j in pairs)
        mu = min(y[i] * y[j] * (x[i] @ x[j]) / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for i, j in pairs)
        assert rd.is_orthogonally_separable(data) == expected
        assert rd.orthogonal_margin(data) == pytest.approx(mu)


def test_classes_at_a_right_angle_are_orthogonally_separable_but_points_of_one_class_may_not_be():
    between = rd.orthogonally_separable(10, 6, angle=np.pi / 2)
    within = rd.orthogonal(4, 6)
    assert rd.is_orthogonally_separable(between)
    assert not rd.is_orthogonally_separable(within)
    assert rd.orthogonal_margin(between) == pytest.approx(0, abs=1e-14)
    assert rd.orthogonal_margin(within) == pytest.approx(0, abs=1e-14)
    assert not rd.is_orthogonally_separable(Data([[0, 0], [1, 1]], [1, -1]))


def test_the_bias_coordinate_makes_inner_products_larger_by_one():
    data = Data([[2.0, 0], [-0.25, 1]], [1, -1])
    assert rd.is_orthogonally_separable(data)
    assert not rd.is_orthogonally_separable(data, bias=True)


# Orthogonality


def p_number(x):
    norms = np.linalg.norm(x, axis=1)
    zeta = max(abs(a @ b) for a, b in combinations(x, 2))
    return norms.min() ** 2 / ((norms.max() / norms.min()) ** 2 * len(x) * zeta)


def test_the_p_number_is_its_definition_with_and_without_bias():
    for seed in range(5):
        data = rd.gaussian_mixture(7, 50, seed=seed)
        augmented = np.column_stack([data.x, np.ones(7)])
        assert rd.p_orthogonality(data) == pytest.approx(p_number(data.x))
        assert rd.p_orthogonality(data, bias=True) == pytest.approx(p_number(augmented))


@pytest.mark.parametrize("block", [1, 100, 300])
def test_the_gram_matrix_may_be_taken_in_parts(monkeypatch, block):
    cases = [rd.gaussian_mixture(31, 20, seed=1), rd.orthogonally_separable(30, 4, seed=1)]
    measures = (rd.p_orthogonality, rd.orthogonal_margin, rd.is_orthogonally_separable)
    whole = [measure(data) for data in cases for measure in measures]
    monkeypatch.setattr(geometry, "_BLOCK", block)
    assert [measure(data) for data in cases for measure in measures] == pytest.approx(whole)


def test_orthogonal_inputs_have_an_infinite_p_number_unless_there_is_a_bias():
    assert rd.p_orthogonality(rd.orthogonal(10, 100)) == np.inf
    assert rd.p_orthogonality(rd.orthogonal_pair()) == np.inf
    assert rd.p_orthogonality(Data([[1.0, 2.0]], [1])) == np.inf
    assert rd.p_orthogonality(rd.orthogonal(10, 100, norm=3.0), bias=True) == pytest.approx(10 / 10)


def test_the_p_number_does_not_depend_on_units_and_is_zero_with_an_input_zero():
    data = rd.nearly_orthogonal(6, 9, p=7.0)
    assert rd.p_orthogonality(Data(1e-100 * data.x, data.y)) == pytest.approx(7)
    assert rd.p_orthogonality(Data([[0, 0], [1, 1]], [1, -1])) == 0


# Second moments


@pytest.mark.parametrize("shape", [(30, 4), (4, 30)])
def test_the_second_moments_are_the_means_over_the_samples(shape):
    data = rd.linear_teacher(*shape, seed=1, noise=1.0)
    sigma = sum(np.outer(x, x) for x in data.x) / shape[0]
    np.testing.assert_allclose(rd.covariance(data), sigma, atol=1e-14)
    np.testing.assert_allclose(
        rd.beta(data), sum(y * x for x, y in zip(data.x, data.y, strict=True)) / shape[0]
    )
    expected = np.abs(np.linalg.eigvalsh(sigma) - 1).max()
    assert rd.whiteness(data) == pytest.approx(expected)


def test_whitened_inputs_are_white_and_too_few_of_them_cannot_be():
    assert rd.whiteness(rd.symmetric_sine(50, 6, white=True)) < 1e-14
    assert rd.whiteness(Data(np.sqrt(2) * np.eye(2, 3), [1, -1])) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(40, 5), (5, 40), (40, 1)])
@pytest.mark.parametrize("outputs", [None, 3])
def test_the_least_squares_floor_is_its_formula(shape, outputs):
    x = RNG(0).normal(size=shape)
    y = RNG(1).normal(size=shape[0] if outputs is None else (shape[0], outputs))
    data = Data(x, y)
    targets = y.reshape(len(y), -1)
    sigma, beta = x.T @ x / len(x), x.T @ targets / len(x)
    formula = ((targets**2).sum() / len(x) - np.trace(beta.T @ np.linalg.pinv(sigma) @ beta)) / 2
    assert rd.least_squares_floor(data) == pytest.approx(formula, abs=1e-12)
    assert rd.beta(data).shape == (shape[1],) if outputs is None else (shape[1], outputs)


def test_a_linear_target_has_floor_zero_and_the_sine_target_has_not():
    assert rd.least_squares_floor(rd.symmetric_linear(50, 5)) < 1e-28
    assert rd.least_squares_floor(rd.symmetric_sine(50, 5)) > 0.05


# Input


def test_single_precision_data_is_measured_in_double_precision():
    double = rd.gaussian_mixture(6, 20, seed=1)
    single = Data(double.x.astype(np.float32), double.y)
    for measure in (rd.margin, rd.p_orthogonality, rd.whiteness, rd.asymmetry, rd.orthogonal_margin):
        assert measure(single) == pytest.approx(measure(double), rel=1e-5)
    assert rd.covariance(single).dtype == rd.beta(single).dtype == np.float64
    orthogonal = rd.orthogonal(6, 20)
    assert rd.p_orthogonality(Data(orthogonal.x.astype(np.float32), orthogonal.y)) == np.inf


@pytest.mark.parametrize(
    "function", [rd.is_separable, rd.margin, rd.is_orthogonally_separable, rd.orthogonal_margin]
)
@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([0, 1, 1], r"must be one -1 or \+1 .* values like 0, 1. .* by 2 \* y - 1"),
        ([0.5, 1, 2], r"must be one -1 or \+1 .* values like 0.5, 1, 2"),
        ([[1, -1], [1, 1], [-1, 1]], r"shape \(3, 2\)"),
        ([1, 1, 1], r"all 3 labels of 'mine' are \+1: separability needs samples of both classes"),
    ],
)
def test_labels_that_are_not_both_signs_are_refused(function, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        function(Data(np.eye(3), y, "mine"))


def test_labels_may_be_a_column():
    column = Data([[2.0, 0], [0, 1]], [[1], [-1]])
    assert rd.margin(column) == pytest.approx(2 / np.sqrt(5))
