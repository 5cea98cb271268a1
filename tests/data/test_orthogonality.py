from itertools import combinations

import numpy as np
import pytest

from rankfall import data as rd
from rankfall.data import Data
from rankfall.data._orthogonality import _tiles

RNG = np.random.default_rng


# Orthogonal separability


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


@pytest.mark.parametrize("seed", range(4))
def test_the_angles_are_those_of_all_pairs(seed):
    data = [rd.gaussian_mixture, rd.orthogonally_separable][seed % 2](13, 4, seed=seed, balanced=False)
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    pairs = list(combinations(range(13), 2))
    within = [cosine(data.x[i], data.x[j]) for i, j in pairs if data.y[i] == data.y[j]]
    across = [cosine(data.x[i], data.x[j]) for i, j in pairs if data.y[i] != data.y[j]]
    found = rd.angles(data)
    assert found.within == pytest.approx((min(within), max(within)))
    assert found.across == pytest.approx((min(across), max(across)))
    assert found.wrong_within == pytest.approx(np.mean(np.array(within) <= 0))
    assert found.wrong_across == pytest.approx(np.mean(np.array(across) > 0))
    wrong = (np.array(within) <= 0).sum() + (np.array(across) > 0).sum()
    assert found.wrong == pytest.approx(wrong / len(pairs))
    assert (found.wrong == 0) == rd.is_orthogonally_separable(data)
    products = [data.x[i] @ data.x[j] for i, j in pairs]
    assert found.products == pytest.approx((min(products), max(products)))
    assert found.mu == pytest.approx(rd.orthogonal_margin(data))
    for bias in (False, True):
        assert found.p(bias) == pytest.approx(rd.p_orthogonality(data, bias))


def test_the_angles_of_extreme_sets():
    pair = rd.angles(rd.orthogonal_pair())
    assert (pair.within, pair.wrong, pair.p()) == ((1.0, 1.0), 0.0, np.inf)
    assert pair.p(bias=True) == pytest.approx(rd.p_orthogonality(rd.orthogonal_pair(), bias=True))
    many = rd.angles(rd.orthogonal(10, 100))
    assert many.p() == np.inf
    assert (many.wrong_within, many.wrong_across) == (1.0, 0.0)
    zero = rd.angles(Data([[0, 0], [1, 1], [1, 1]], [1, 1, -1]))
    assert zero.p() == 0
    assert zero.within == (0.0, 0.0)
    assert zero.wrong_within == 1


def test_single_precision_inputs_are_multiplied_in_double_precision():
    x = RNG(0).normal(size=(40, 300)).astype(np.float32)
    y = np.where(np.arange(40) % 3, 1.0, -1.0)
    single, double = Data(x, y), Data(x.astype(float), y)
    assert rd.angles(single) == rd.angles(double)
    assert rd.p_orthogonality(single) == rd.p_orthogonality(double)


# Near-orthogonality


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


@pytest.mark.parametrize("tile", [1, 4, 9])
@pytest.mark.parametrize("bias", [False, True])
def test_tiles_of_the_gram_matrix_hold_every_pair_once_whatever_their_size(tile, bias):
    data = rd.gaussian_mixture(31, 20, seed=1)
    x = np.column_stack([data.x, np.ones(31)]) if bias else data.x
    sizes = rd.norms(data, bias, tile=tile)
    np.testing.assert_allclose(sizes, np.linalg.norm(x, axis=1), rtol=1e-15)
    classes = [np.flatnonzero(data.y == sign) for sign in (1, -1)]
    found = {True: [], False: []}
    for same, inner, lengths in _tiles(data, sizes, 2.0, classes, bias, tile):
        found[same] += zip(inner.ravel(), lengths.ravel(), strict=True)
    for same in (True, False):
        pairs = [(i, j) for i, j in combinations(range(31), 2) if (data.y[i] == data.y[j]) == same]
        expected = [(x[i] @ x[j] / 4, sizes[i] * sizes[j]) for i, j in pairs]
        np.testing.assert_allclose(sorted(found[same]), sorted(expected), rtol=1e-12, atol=1e-12)


def test_orthogonal_inputs_have_an_infinite_p_number_unless_there_is_a_bias():
    assert rd.p_orthogonality(rd.orthogonal(10, 100)) == np.inf
    assert rd.p_orthogonality(rd.orthogonal_pair()) == np.inf
    assert rd.p_orthogonality(Data([[1.0, 2.0]], [1])) == np.inf
    assert rd.p_orthogonality(rd.orthogonal(10, 100, norm=3.0), bias=True) == pytest.approx(10 / 10)


def test_the_p_number_does_not_depend_on_units_and_is_zero_with_an_input_zero():
    data = rd.nearly_orthogonal(6, 9, p=7.0)
    assert rd.p_orthogonality(Data(1e-100 * data.x, data.y)) == pytest.approx(7)
    assert rd.p_orthogonality(Data([[0, 0], [1, 1]], [1, -1])) == 0


@pytest.mark.parametrize("shape", [(4, 30), (30, 4), (12, 12)])
def test_centred_inputs_have_a_p_number_below_one(shape):
    # |x_i|^2 = -sum_{j != i} <x_i, x_j> <= (n - 1) zeta
    for seed in range(5):
        x = RNG(seed).normal(size=shape)
        data = rd.centre(Data(x, np.where(np.arange(len(x)) % 2, 1.0, -1.0)))
        assert rd.p_orthogonality(data) <= 1 - 1 / data.n + 1e-12
    corners = rd.centre(Data(np.eye(6), np.arange(6)))  # of a simplex: the best there is
    assert rd.p_orthogonality(corners) == pytest.approx(1 - 1 / 6)


@pytest.mark.parametrize(("n", "dim"), [(5, 4), (30, 4), (200, 7)])
def test_more_inputs_than_features_have_a_p_number_below_the_bound_of_welch(n, dim):
    bound = np.sqrt(dim * (n - 1) / (n - dim)) / n
    for seed in range(5):
        x = RNG(seed).normal(size=(n, dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        assert rd.p_orthogonality(Data(x, np.ones(n))) <= bound
