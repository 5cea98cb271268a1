from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog, minimize

from rankfall import data as rd
from rankfall.data import Data

RNG = np.random.default_rng


def labelled(x, seed=0):
    y = np.where(np.arange(len(x)) % 2, 1.0, -1.0)
    return Data(x, RNG(seed).permutation(y))


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
