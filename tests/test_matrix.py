"""The spectrum of a matrix against SciPy, at any scale and shape."""

import numpy as np
import pytest
from scipy.linalg import svdvals

from rankfall import Network
from rankfall.measure import Spectrum, rank, stable_rank


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


def test_measures_of_a_network_agree_with_it():
    network = Network.gaussian((8, 6, 1), slope=0.1, scale=0.3, seed=0)
    found = Spectrum.of(network.weights[0])
    assert float(stable_rank(network)[0]) == pytest.approx(found.stable_rank, rel=1e-10)
    assert int(rank(network)[0]) == found.rank == 6
