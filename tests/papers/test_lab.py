"""What experiments share: exponents of power laws."""

import numpy as np
import pytest

from rankfall.papers.lab import power_law


def test_a_power_law_has_its_exponent_whatever_the_constant():
    x = np.geomspace(0.1, 50, 7)
    assert power_law(x, 3 * x**-1.7) == pytest.approx(-1.7, abs=1e-13)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_exponents_along_an_axis_are_those_of_a_line_through_the_logarithms(axis):
    rng = np.random.default_rng(0)
    x, y = rng.lognormal(size=(2, 5, 6))
    pairs = zip(np.moveaxis(x, axis, 0).T, np.moveaxis(y, axis, 0).T, strict=True)
    one_by_one = [np.polyfit(np.log(u), np.log(v), 1)[0] for u, v in pairs]
    np.testing.assert_allclose(power_law(x, y, axis), one_by_one, rtol=1e-12)


def test_one_x_serves_for_many_y():
    x = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(power_law(x[:, None], x[:, None] ** [1, 2, 0.5]), [1, 2, 0.5])


def test_there_is_no_exponent_of_what_is_not_positive_or_of_one_point():
    assert not np.isfinite(power_law([1, 2, 3], [1, 0, 2]))
    assert not np.isfinite(power_law([1, 2, 3], [1, -1, 2]))
    assert not np.isfinite(power_law([2.0], [3.0]))
