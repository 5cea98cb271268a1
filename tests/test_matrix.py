"""The spectrum of a matrix against SciPy, at any scale and shape."""

import numpy as np
import pytest
from scipy.linalg import svdvals

from rankfall import Network
from rankfall.measure import Spectrum, rank, stable_rank, stable_rank_of_gram


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 50), (40, 7)])
@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e150])
def test_the_spectrum_is_that_of_scipy_whatever_the_scale(shape, scale):
    w = np.random.default_rng(0).normal(size=shape)
    found, values = Spectrum.of(scale * w), svdvals(w)
    np.testing.assert_allclose(found.values / scale, values, rtol=1e-12)
    assert found.stable_rank == pytest.approx((np.linalg.norm(w) / np.linalg.norm(w, 2)) ** 2, rel=1e-12)
    assert found.rank == min(shape)


@pytest.mark.parametrize("rows", [0, 3])
def test_nothing_and_zero_have_rank_zero(rows):
    found = Spectrum.of(np.zeros((rows, 4)))
    assert (found.stable_rank, found.rank) == (0.0, 0)


def test_a_matrix_has_the_rank_of_its_factors_up_to_rounding():
    rng = np.random.default_rng(1)
    w = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20))
    assert Spectrum.of(w).rank == 2
    assert Spectrum.of(w + 1e-9 * rng.normal(size=w.shape)).rank == 2
    assert Spectrum.of(w + 1e-3 * rng.normal(size=w.shape)).rank == 20


def test_a_stack_has_the_numbers_of_its_matrices():
    rng = np.random.default_rng(2)
    stack = rng.normal(size=(2, 3, 5, 4))
    stack[0, 1] = 0
    stack[1, 2] = np.outer(rng.normal(size=5), rng.normal(size=4))
    stack[1, 0, 0, 0] = np.nan
    found = Spectrum.of(stack)
    for at in np.ndindex(2, 3):
        alone = Spectrum.of(stack[at])
        np.testing.assert_array_equal(found.values[at], alone.values)
        numbers = [alone.stable_rank, alone.rank, alone.excess, alone.share(2), alone.share(5)]
        of_stack = [found.stable_rank, found.rank, found.excess, found.share(2), found.share(5)]
        np.testing.assert_array_equal([each[at] for each in of_stack], numbers)
    assert np.isnan(found.stable_rank[1, 0])
    assert found.stable_rank[1, 2] == pytest.approx(1)
    assert (found.stable_rank[0, 1], found.share(1)[0, 1]) == (0, 0)


def test_the_excess_is_what_the_largest_singular_value_leaves():
    w = np.random.default_rng(3).normal(size=(6, 4))
    frobenius, spectral = np.linalg.norm(w) ** 2, np.linalg.norm(w, 2) ** 2
    assert Spectrum.of(w).excess == pytest.approx(frobenius - spectral, rel=1e-12)


def test_the_stable_rank_of_a_gram_matrix_is_that_of_the_matrix():
    w = np.random.default_rng(4).normal(size=(30, 8))
    found = stable_rank_of_gram(w @ w.T, near=w[:, 0])
    assert found == pytest.approx(Spectrum.of(w).stable_rank, rel=1e-10)


def test_measures_of_a_network_agree_with_it():
    network = Network.gaussian((8, 6, 1), slope=0.1, scale=0.3, seed=0)
    found = Spectrum.of(network.weights[0])
    assert float(stable_rank(network)[0]) == pytest.approx(found.stable_rank, rel=1e-10)
    assert int(rank(network)[0]) == found.rank == 6
