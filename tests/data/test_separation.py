import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from rankfall import data as rd
from rankfall.data import Data

RNG = np.random.default_rng


def lp_separable(data):
    """Some w has y_i w.x_i >= 1, by HiGHS."""
    z = data.y[:, None] * data.x
    return linprog(np.zeros(data.dim), A_ub=-z, b_ub=-np.ones(data.n), bounds=(None, None)).status == 0


def drawn(n, dim, seed):
    """Gaussian inputs, labels at random: most are separable for n < 2 dim, and not beyond (Cover)."""
    rng = RNG(seed)
    return Data(rng.normal(size=(n, dim)) + 0.2, np.where(rng.permutation(n) % 2, 1.0, -1.0), "coins")


@pytest.mark.parametrize("seed", range(30))
def test_the_bounds_decide_separability_as_linear_programming_does_and_hold_the_margin(seed):
    data = drawn(50 + 4 * seed, 50, seed)
    lower, upper = rd.margin_bounds(data)
    margin = rd.margin(data)
    assert (lower > 0) == lp_separable(data) == (upper > 0) == (margin > 0)
    assert lower <= margin * (1 + 1e-9)
    assert margin <= upper * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 6).flatmap(lambda n: arrays(float, (n, 3), elements=st.integers(-2, 2).map(float))))
def test_the_bounds_hold_the_margin_of_small_sets_with_dependent_and_zero_inputs(x):
    data = Data(x, np.where(np.arange(len(x)) % 2, 1.0, -1.0))
    for bias in (False, True):
        lower, upper = rd.margin_bounds(data, bias)
        margin = rd.margin(data, bias)
        assert lower <= margin + 1e-12
        assert margin <= upper + 1e-12
        assert (lower > 0) == rd.is_separable(data, bias)


def test_the_bounds_scale_with_the_data():
    data = drawn(60, 50, 1)
    lower, upper = rd.margin_bounds(data)
    assert rd.margin_bounds(Data(1e6 * data.x, data.y)) == pytest.approx((1e6 * lower, 1e6 * upper))


def test_a_large_set_is_decided_as_a_small_one():
    cases = [drawn(n, 20, seed) for seed in range(5) for n in (30, 60)]
    separable, margins = [rd.is_separable(d) for d in cases], [rd.margin(d) for d in cases]
    assert {True, False} == set(separable)
    assert [rd.is_separable(d, large=0) for d in cases] == separable
    assert [rd.margin(d, large=0) for d in cases] == pytest.approx(margins)


def test_a_margin_too_small_for_the_bounds_is_left_to_the_exact_method():
    for gap in (1e-3, 1e-9, 1e-11):
        z = np.array([[1.0, gap], [-1.0, gap], [-0.5, 1.0]])
        y = np.array([1.0, -1.0, 1.0])
        lower, upper = rd.margin_bounds(Data(y[:, None] * z, y))
        assert lower <= gap * (1 + 1e-9)
        assert upper >= gap * (1 - 1e-9)
        assert rd.is_separable(Data(y[:, None] * z, y), large=0)
        assert rd.margin(Data(y[:, None] * z, y), large=0) == pytest.approx(gap, rel=1e-4)
