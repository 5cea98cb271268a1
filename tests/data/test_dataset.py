import numpy as np
import pytest

from rankfall import Data


def test_data_are_a_copy_unless_nobody_can_write_to_what_is_given():
    x, y = np.ones((3, 2)), np.arange(3.0)
    assert not np.shares_memory(Data(x, y).x, x)
    view = x[:]
    view.setflags(write=False)
    assert not np.shares_memory(Data(view, y).x, x)  # its base can still be changed
    x.setflags(write=False)
    assert np.shares_memory(Data(x, y).x, x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad):
    x = np.ones((3, 2), np.float32)
    x[1, 0] = bad
    with pytest.raises(ValueError, match=r"1 entries that are NaN or infinite, the first at \[1, 0\]"):
        Data(x, np.zeros(3))
    large = np.full((3, 2), 3e38, np.float32)  # whose sum overflows
    assert Data(large, np.zeros(3)).n == 3


def test_complex_numbers_are_refused_rather_than_halved():
    with pytest.raises(ValueError, match=r"x of .* must be real numbers, but holds complex128 entries"):
        Data(np.ones((3, 2)) + 1j, np.zeros(3))
