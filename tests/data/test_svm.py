from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog, minimize
from sklearn.svm import SVC

from rankfall import data as rd
from rankfall.data import Data
from rankfall.data import _svm as svm

RNG = np.random.default_rng
EPS = np.finfo(float).eps


def alternating(n):
    return np.where(np.arange(n) % 2, 1.0, -1.0)


def data_of(z):
    """Data with labels in turn and the rows y_i x_i = z_i."""
    y = alternating(len(z))
    return Data(y[:, None] * z, y)


def separable_rows(n, d, seed, gap=0.1):
    z = RNG(seed).normal(size=(n, d))
    z[:, 0] = np.abs(z[:, 0]) + gap
    return z @ np.linalg.qr(RNG(seed + 1).normal(size=(d, d)))[0]


def solve_exactly(a):
    """The rational solution of a s = (1, ..., 1) by Gauss and Jordan; None if a is singular."""
    rows = [[*row, Fraction(1)] for row in a]
    for i in range(len(rows)):
        pivot = next((k for k in range(i, len(rows)) if rows[k][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def best_of_all_supports(z):
    """The multipliers and w in rational arithmetic, by trying every support; None if none is optimal."""
    z = [[Fraction(float(value)) for value in row] for row in z]
    k = [[sum(a * b for a, b in zip(row, other, strict=True)) for other in z] for row in z]
    for size in range(1, len(z) + 1):
        for support in combinations(range(len(z)), size):
            s = solve_exactly([[k[i][j] for j in support] for i in support])
            if s is None or min(s) <= 0:
                continue
            if all(sum(row[j] * v for j, v in zip(support, s, strict=True)) >= 1 for row in k):
                multipliers = np.zeros(len(z))
                multipliers[list(support)] = [float(v) for v in s]
                columns = zip(*[z[i] for i in support], strict=True)
                w = [float(sum(v * x for v, x in zip(s, column, strict=True))) for column in columns]
                return multipliers, np.array(w)
    return None


def lp_separable(z):
    """Some w has z w >= 1, by HiGHS."""
    return linprog(np.zeros(z.shape[1]), A_ub=-z, b_ub=-np.ones(len(z)), bounds=(None, None)).status == 0


def assert_vanishes(c, z):
    parts = c[:, None] * z
    assert (c >= 0).all()
    assert c.sum() == pytest.approx(1, rel=1e-14)
    assert np.linalg.norm(parts.sum(axis=0)) <= 20 * EPS * np.linalg.norm(parts, axis=1).max()


def assert_kkt(solution, k):
    """K lambda >= 1, lambda >= 0, and one of both is an equality, up to the rounding of K lambda."""
    multipliers = solution.multipliers
    rounding = 10 * np.sqrt(len(k)) * EPS * (np.abs(k) @ multipliers)
    margins = k @ multipliers
    assert (multipliers >= 0).all()
    assert (margins >= 1 - rounding).all()
    assert (np.abs(margins - 1) <= rounding)[solution.support].all()
    np.testing.assert_array_equal(solution.margins, margins)
    # Both sides of the duality: lambda^T K lambda = sum_i lambda_i.
    assert abs(multipliers @ margins - solution.norm2) <= multipliers @ rounding


def integer_rows(points, features):
    shape = st.tuples(st.integers(2, points), st.integers(1, features))
    return shape.flatmap(lambda s: arrays(float, s, elements=st.integers(-2, 2).map(float)))


# Closed forms


@pytest.mark.parametrize("sizes", [np.ones(7), np.arange(1.0, 8.0), 10.0 ** np.arange(-8, 9)])
@pytest.mark.parametrize("dim", [17, 30])
def test_orthogonal_inputs_have_multipliers_one_over_their_squared_norms(sizes, dim):
    z = sizes[:, None] * np.eye(dim)[RNG(0).permutation(dim)[: len(sizes)]]
    solution = rd.hard_margin(data_of(z))
    for found in (solution, rd.hard_margin_of_gram(np.diag(sizes**2))):
        np.testing.assert_allclose(found.multipliers, sizes**-2.0, rtol=1e-14)
        assert found.support.all()
        assert found.norm2 == pytest.approx((sizes**-2.0).sum(), rel=1e-14)
    np.testing.assert_allclose(solution.w, (z / sizes[:, None] ** 2).sum(axis=0), rtol=1e-14)


def test_orthogonal_inputs_in_any_frame_have_w_the_sum_of_their_inverses():
    z = np.arange(1.0, 8.0)[:, None] * np.linalg.qr(RNG(0).normal(size=(30, 7)))[0].T
    expected = (z / (z**2).sum(axis=1, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(rd.hard_margin(data_of(z)).w, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-6, 1e-9])
def test_two_nearly_opposite_rows_have_w_one_over_the_gap(gap):
    solution = rd.hard_margin(data_of(np.array([[1, gap], [-1, gap]])))
    np.testing.assert_allclose(solution.w, [0, 1 / gap], rtol=1e-12, atol=1e-12 / gap)
    np.testing.assert_allclose(solution.multipliers, 1 / (2 * gap**2), rtol=1e-9)
    assert solution.feasibility <= 4 * EPS / gap


def test_one_row_repeated_has_the_margin_of_one():
    z = np.array([[3.0, 4.0]] * 5)
    for solution in (rd.hard_margin(data_of(z)), rd.hard_margin_of_gram(z @ z.T)):
        assert solution.norm2 == pytest.approx(1 / 25, rel=1e-15)
        np.testing.assert_allclose(solution.margins, 1, rtol=1e-15)
    np.testing.assert_allclose(rd.hard_margin(data_of(z)).w, [3 / 25, 4 / 25], rtol=1e-15)


def test_a_gram_matrix_of_one_feature_has_its_inverse():
    solution = rd.hard_margin_of_gram([[4.0]])
    assert (solution.multipliers, solution.margins, solution.w) == (0.25, 1.0, None)
    assert (solution.norm2, solution.feasibility, solution.complementarity) == (0.25, 0.0, 0.0)


# Other solvers


@settings(deadline=None, max_examples=150)
@given(integer_rows(5, 4))
def test_the_solution_is_the_best_of_all_supports(z):
    data, expected = data_of(z), best_of_all_supports(z)
    solution, from_gram = rd.hard_margin(data), rd.hard_margin_of_gram(z @ z.T)
    if expected is None:
        assert solution is None
        assert from_gram is None
        assert not lp_separable(z)
        return
    multipliers, w = expected
    for found in (solution, from_gram):
        assert found.norm2 == pytest.approx(multipliers.sum(), rel=1e-10)
        np.testing.assert_allclose(found.margins, z @ w, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.multipliers @ z, w, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(solution.w, w, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_nearly_dependent_rows_have_the_w_and_the_multipliers_of_rational_arithmetic(seed):
    # Condition numbers of about 1e6 for the rows, and of up to 1e8 for the Gram matrix.
    base = RNG(seed).normal(size=(5, 1)) @ RNG(seed + 100).normal(size=(1, 4))
    for size, of_gram in ((1e-6, False), (1e-4, True)):
        z = base + size * RNG(seed + 200).normal(size=(5, 4))
        expected = best_of_all_supports(z)
        if expected is None:
            assert rd.hard_margin(data_of(z)) is None
            continue
        if of_gram:
            assert rd.hard_margin_of_gram(z @ z.T).norm2 == pytest.approx(expected[0].sum(), rel=1e-6)
        solution = rd.hard_margin(data_of(z))
        np.testing.assert_allclose(solution.w, expected[1], rtol=0, atol=1e-9 * np.linalg.norm(expected[1]))
        np.testing.assert_allclose(solution.multipliers, expected[0], rtol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(40, 5), (30, 30), (10, 200)])
def test_the_support_vector_machine_finds_the_same_hyperplane(n, d):
    z = separable_rows(n, d, seed=n)
    # A set with its mirror image: the machine's own, unpenalised bias is zero.
    machine = SVC(kernel="linear", C=1e10, tol=1e-10).fit(np.concatenate([z, -z]), np.repeat([1, -1], n))
    solution = rd.hard_margin(data_of(z))
    np.testing.assert_allclose(solution.w, machine.coef_[0], atol=1e-5 * np.linalg.norm(solution.w))
    pairs = np.zeros(2 * n)
    pairs[machine.support_] = np.abs(machine.dual_coef_[0])
    np.testing.assert_allclose(solution.multipliers, pairs[:n] + pairs[n:], atol=1e-4 * solution.norm2)


@pytest.mark.parametrize("n", [30, 400])
def test_a_general_solver_of_the_primal_problem_finds_the_same_w(n):
    # More points than the working set holds at first.
    z = separable_rows(n, 4, seed=n)
    start = linprog(np.zeros(4), A_ub=-z, b_ub=-np.ones(n), bounds=(None, None)).x
    constraint = {"type": "ineq", "fun": lambda w: z @ w - 1, "jac": lambda w: z}
    found = minimize(
        lambda w: w @ w / 2,
        start,
        jac=lambda w: w,
        constraints=[constraint],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    solution = rd.hard_margin(data_of(z))
    np.testing.assert_allclose(solution.w, found.x, rtol=1e-5, atol=1e-6)
    assert rd.margin(data_of(z)) == pytest.approx(solution.norm2**-0.5, rel=1e-9)


# Optimality


@settings(deadline=None, max_examples=150)
@given(integer_rows(8, 5), st.data())
def test_the_optimality_conditions_hold_for_repeated_points_of_all_sizes(z, draw):
    n = len(z)
    repeats = draw.draw(st.lists(st.integers(0, n - 1), max_size=5))
    powers = draw.draw(st.lists(st.integers(-8, 8), min_size=n + len(repeats), max_size=n + len(repeats)))
    z = z[[*range(n), *repeats]] * 10.0 ** np.array(powers)[:, None]
    unit = z / np.maximum(np.abs(z).max(axis=1, keepdims=True), 1e-300)
    solution, of_gram = rd.hard_margin(data_of(z)), rd.hard_margin_of_gram(z @ z.T)
    assert (solution is not None) == (of_gram is not None) == lp_separable(unit)
    c = rd.combination_that_vanishes(data_of(z))
    if solution is None:
        assert_vanishes(c, z)
        return
    assert c is None
    assert_kkt(of_gram, z @ z.T)
    rounding = 20 * EPS * np.linalg.norm(z, axis=1) * np.linalg.norm(solution.w)
    assert (solution.margins >= 1 - rounding).all()
    assert (np.abs(solution.margins - 1) <= rounding)[solution.support].all()
    assert np.linalg.norm(solution.multipliers @ z - solution.w) <= 20 * EPS * (
        solution.multipliers @ np.linalg.norm(z, axis=1)
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 4), st.integers(0, 1000))
def test_the_optimality_conditions_hold_for_random_gram_matrices(n, d, decades, seed):
    features = RNG(seed).normal(size=(n, d)) * 10.0 ** -RNG(seed + 1).uniform(0, decades, size=d)
    k = features @ features.T
    solution = rd.hard_margin_of_gram(k)
    assert (solution is not None) == lp_separable(features / np.linalg.norm(features, axis=1)[:, None])
    if solution is not None:
        assert_kkt(solution, k)


@pytest.mark.parametrize(("n", "d"), [(100, 100), (100, 1000), (300, 40), (300, 8)])
def test_well_conditioned_problems_are_solved_to_the_last_digits(n, d):
    z = separable_rows(n, d, seed=1, gap=0.5)
    solution, of_gram = rd.hard_margin(data_of(z)), rd.hard_margin_of_gram(z @ z.T)
    for found in (solution, of_gram):
        assert np.abs(found.margins[found.support] - 1).max() < 1e-13
        assert found.feasibility < 1e-12
        assert found.complementarity < 1e-14
    np.testing.assert_allclose(of_gram.multipliers, solution.multipliers, rtol=1e-9, atol=0)
    np.testing.assert_allclose(solution.multipliers @ z, solution.w, rtol=0, atol=1e-13)
    assert solution.w @ solution.w == pytest.approx(solution.norm2, rel=1e-13)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("of_gram", [False, True])
def test_the_active_set_method_arrives_from_any_start(seed, of_gram):
    # Repeated rows and more of them than dimensions: supports with dependent rows on the way.
    z = separable_rows(20, 6, seed)[RNG(seed).integers(0, 20, size=30)]
    b = np.ones(30)
    problem = svm._Gram(z @ z.T, b, 6) if of_gram else svm._Rows(z, b)
    expected = rd.hard_margin(data_of(z)).norm2
    for share in (0.1, 0.5, 1):
        start = np.where(RNG(seed).random(30) < share, RNG(seed).random(30), 0)
        start[0] = 1
        face = svm._settled(problem, start)
        assert face.multipliers.sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("of_gram", [False, True])
def test_the_active_set_method_notices_that_there_is_no_solution(of_gram):
    z = np.array([[1.0, 0], [-1, 1], [-1, -1], [0, 1]])
    b = np.ones(4)
    problem = svm._Gram(z @ z.T, b, 2) if of_gram else svm._Rows(z, b)
    for start in np.eye(4):
        assert svm._settled(problem, start) is None


# Separability


@settings(deadline=None, max_examples=100)
@given(integer_rows(8, 4), st.booleans())
def test_either_there_is_a_hyperplane_or_a_combination_vanishes(x, bias):
    data = Data(x, alternating(len(x)))
    z = data.y[:, None] * (np.column_stack([x, np.ones(len(x))]) if bias else x)
    solution, c = rd.hard_margin(data, bias), rd.combination_that_vanishes(data, bias)
    assert (solution is not None) == (c is None) == lp_separable(z) == rd.is_separable(data, bias)
    if c is not None:
        assert_vanishes(c, z)
        assert (c > 0).sum() <= z.shape[1] + 1


@pytest.mark.parametrize("shape", [(2000, 30), (80, 25)])
def test_a_combination_of_few_of_many_inputs_vanishes(shape):
    data = Data(RNG(0).normal(size=shape), alternating(shape[0]))
    c = rd.combination_that_vanishes(data)
    assert_vanishes(c, data.y[:, None] * data.x)
    assert 0 < (c > 0).sum() <= shape[1] + 1
    assert rd.hard_margin(data) is None
    z = (data.y[:, None] * data.x)[:500]
    assert rd.hard_margin_of_gram(z @ z.T) is None


def test_a_point_with_both_labels_and_an_input_zero_are_their_own_certificates():
    twice = Data([[1, 2], [3, 1], [1, 2]], [1, 1, -1])
    np.testing.assert_allclose(rd.combination_that_vanishes(twice), [0.5, 0, 0.5], rtol=1e-15)
    zero = Data([[1.0, 1], [0, 0]], [1, -1])
    np.testing.assert_array_equal(rd.combination_that_vanishes(zero), [0, 1])
    assert rd.hard_margin(zero) is None
    assert rd.hard_margin(zero, bias=True) is not None
    assert rd.hard_margin_of_gram([[1, 0], [0, 0]]) is None
    assert rd.hard_margin_of_gram(np.zeros((3, 3))) is None


# Shapes and units


def test_the_bias_is_the_weight_of_a_constant_input():
    data = rd.gaussian_mixture(6, 8, seed=3)
    with_bias = rd.hard_margin(data, bias=True)
    with_ones = rd.hard_margin(Data(np.column_stack([data.x, np.ones(6)]), data.y))
    np.testing.assert_array_equal(with_bias.w, with_ones.w)
    assert with_bias.norm2 < rd.hard_margin(data).norm2


@pytest.mark.parametrize("n", [6, 12])
def test_a_rotation_into_more_dimensions_rotates_w(n):
    low = data_of(separable_rows(n, 8, seed=3))
    frame = np.linalg.qr(RNG(1).normal(size=(500, 8)))[0].T
    high = rd.hard_margin(Data(low.x @ frame, low.y))
    solution = rd.hard_margin(low)
    assert high.w.shape == (500,)
    np.testing.assert_allclose(high.w, solution.w @ frame, atol=1e-13)
    np.testing.assert_allclose(high.multipliers, solution.multipliers, rtol=1e-11)


def test_only_the_support_matters_among_many_points():
    z = separable_rows(20000, 6, seed=0)
    solution = rd.hard_margin(data_of(z))
    assert solution.support.sum() <= 6
    assert solution.feasibility < 1e-13 * np.sqrt(solution.norm2) * np.linalg.norm(z, axis=1).max()
    alone = rd.hard_margin(data_of(z[solution.support]))
    np.testing.assert_allclose(alone.w, solution.w, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 2.0**-20, 2.0**20, 1e150])
def test_w_scales_with_one_over_the_data_and_the_multipliers_with_its_square(scale):
    z = separable_rows(12, 5, seed=2)
    solution, scaled = rd.hard_margin(data_of(z)), rd.hard_margin(data_of(scale * z))
    np.testing.assert_allclose(scale * scaled.w, solution.w, rtol=1e-12)
    np.testing.assert_allclose(scaled.multipliers * scale * scale, solution.multipliers, rtol=1e-12)
    assert scaled.complementarity < 1e-15


def test_the_products_in_extended_precision_may_be_taken_in_parts():
    a, x = separable_rows(9, 20, seed=0), np.linspace(-1, 1, 20).astype(np.longdouble)
    for block in (1, 50, 180):
        np.testing.assert_allclose(svm._product(a, x, block), a.astype(np.longdouble) @ x, rtol=1e-17)


# Bad input


@pytest.mark.parametrize(
    ("gram", "sentence"),
    [
        (np.ones((2, 3)), r"square, n x n with n >= 1, but this one has shape \(2, 3\)"),
        (np.zeros((0, 0)), "square"),
        ([[1, np.nan], [np.nan, 1]], r"NaN or infinite at \[0, 1\]"),
        (
            [[1, 0.5], [0, 1]],
            r"not symmetric: 0.5 at \[0, 1\], but 0 at \[1, 0\]. Pass features",
        ),
        ([[1, 2], [2, 1]], "not positive semidefinite: it is off by 3 relative to its diagonal"),
        ([[-1.0]], "not positive semidefinite"),
        ([[0, 1], [1, 0]], "not positive semidefinite"),
        (1e-320 * np.eye(2), "too large or too small for double precision: divide the inputs"),
    ],
)
def test_what_is_not_a_gram_matrix_is_refused(gram, sentence):
    with pytest.raises(ValueError, match=sentence):
        rd.hard_margin_of_gram(gram)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_multipliers_and_sizes_beyond_double_precision_are_refused(scale):
    with pytest.raises(ValueError, match="divide the inputs by their typical size"):
        rd.hard_margin(data_of(scale * separable_rows(6, 3, seed=0)))
    with pytest.raises(ValueError, match="differ by more than a factor of 1e150"):
        rd.hard_margin(data_of(np.diag([scale, 1.0])))


@pytest.mark.parametrize("function", [rd.hard_margin, rd.combination_that_vanishes])
def test_labels_that_are_not_both_signs_are_refused(function):
    with pytest.raises(ValueError, match=r"must be one -1 or \+1"):
        function(Data(np.eye(3), [0, 1, 1]))
    with pytest.raises(ValueError, match=r"all 3 labels of 'data' are \+1"):
        function(Data(np.eye(3), [1, 1, 1]))
