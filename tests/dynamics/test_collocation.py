import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from rankfall.dynamics.exact._collocation import GRID, INTEGRAL, NODES, STAGES, TAIL, at, first_exit

POWERS = np.arange(2 * STAGES)


# The quadrature


def test_the_nodes_are_the_right_radau_points():
    # Radau's quadrature with s nodes, the last at 1, is exact up to degree 2s - 2, and no further.
    assert NODES[-1] == 1
    assert (np.diff(GRID) > 0).all()
    errors = np.abs(INTEGRAL[-1] @ NODES[:, None] ** POWERS - 1 / (POWERS + 1))
    assert (errors[: 2 * STAGES - 1] < 1e-15).all()
    assert errors[2 * STAGES - 1] > 1e-9


def test_polynomials_of_degree_below_the_number_of_stages_are_integrated_exactly_to_every_node():
    for k in range(STAGES):
        np.testing.assert_allclose(INTEGRAL @ NODES**k, NODES ** (k + 1) / (k + 1), rtol=1e-13, atol=1e-15)


def test_a_path_is_the_polynomial_through_its_values_on_the_grid():
    theta = np.linspace(0.0, 1.0, 101)
    for k in range(STAGES + 1):
        np.testing.assert_allclose(at(theta) @ GRID**k, theta**k, atol=1e-13)
    np.testing.assert_allclose(at(GRID), np.eye(STAGES + 1), atol=1e-13)
    np.testing.assert_array_equal(at(0.3), at(np.array([0.3]))[0])


def test_the_tail_tells_the_two_highest_legendre_coefficients_of_the_velocity():
    coefficients = np.arange(1.0, STAGES + 1)
    values = np.polynomial.legendre.legval(2 * NODES - 1, coefficients)
    np.testing.assert_allclose(TAIL @ values, coefficients[-2:], rtol=1e-12)


# The order


def collocated(rate, end, steps):
    """The end of y' = rate y, y(0) = 1, by collocation: in each step Y = y + h rate A Y at the nodes."""
    y, h = 1.0, end / steps
    for _ in range(steps):
        y = np.linalg.solve(np.eye(STAGES) - h * rate * INTEGRAL, np.full(STAGES, y + 0j))[-1]
    return y


@pytest.mark.parametrize("rate", [-1.0, 1j], ids=["decay", "rotation"])
def test_the_end_of_a_step_is_of_order_thirteen(rate):
    errors = [abs(collocated(rate, 8.0, steps) - np.exp(8.0 * rate)) for steps in (2, 4)]
    assert 12.4 < np.log2(errors[0] / errors[1]) < 13.6


def test_a_nonlinear_problem_shows_the_same_order():
    # y' = y (1 - y) from 1/2 is the logistic function.
    def logistic(steps, end=6.0):
        y, h = 0.5, end / steps
        for _ in range(steps):
            stages = np.full(STAGES, y)
            for _ in range(50):  # Newton
                wrong = stages - y - h * INTEGRAL @ (stages * (1 - stages))
                stages = stages - np.linalg.solve(np.eye(STAGES) - h * INTEGRAL * (1 - 2 * stages), wrong)
            y = stages[-1]
        return abs(y - 1 / (1 + np.exp(-end)))

    assert 12 < np.log2(logistic(2) / logistic(4)) < 15


def test_the_method_is_stiffly_stable():
    for rate in (-1e3, -1e8, -1e3 + 1e3j, 1e6j):
        assert abs(collocated(rate, 1.0, 1)) < 1e-2


# Where a polynomial first becomes negative


def rows(*polynomials):
    return np.array([p(GRID) for p in polynomials])


def none(count):
    return np.zeros(count)


def falls_at(p):
    """Where a polynomial first falls below zero in [0, 1], by its roots; None if it does not."""
    if p(0.0) < 0:
        return 0.0
    real = [r.real for r in p.roots() if abs(r.imag) < 1e-9 and 0 < r.real < 1 and p.deriv()(r.real) < 0]
    return min(real, default=None)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, STAGES))
def test_the_first_exit_is_the_first_falling_root(seed, degree):
    # Polynomials with given real roots, so that none of them is nearly double.
    rng = np.random.default_rng(seed)
    roots = rng.choice(np.linspace(-0.5, 1.5, 61), degree, replace=False) + rng.uniform(-0.01, 0.01)
    p = rng.choice([-1.0, 1.0]) * Polynomial.fromroots(roots)
    expected, found = falls_at(p), first_exit(rows(p), none(1))
    if expected is None:
        assert found is None
    else:
        assert found[0] == pytest.approx(expected, abs=1e-9)
        np.testing.assert_array_equal(found[1], [0])


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.integers(0, 2**32 - 1))
def test_among_many_paths_the_first_one_is_found(seed):
    rng = np.random.default_rng(seed)
    paths = [Polynomial(rng.normal(size=STAGES + 1)) for _ in range(6)]
    paths = [p if p(0.0) > 0 else -p for p in paths]
    places = [falls_at(p) for p in paths]
    known = [place for place in places if place is not None]
    found = first_exit(rows(*paths), none(6))
    if not known:
        assert found is None
    else:
        assert found[0] == pytest.approx(min(known), abs=1e-9)
        assert places[found[1][0]] == min(known)


@pytest.mark.parametrize(("out", "back"), [(0.45, 0.47), (0.30, 0.32), (0.70, 0.705), (0.952, 0.958)])
def test_a_crossing_to_and_fro_between_two_nodes_is_not_overlooked(out, back):
    p = Polynomial.fromroots([out, back])
    assert p(GRID).min() > 0  # at the nodes nothing is to be seen
    place, which = first_exit(rows(Polynomial([1.0]), p), none(2))
    assert place == pytest.approx(out, abs=1e-10)
    np.testing.assert_array_equal(which, [1])


def test_rows_that_fall_at_the_same_place_are_all_named():
    steep, flat, late = Polynomial([0.4, -1.0]), Polynomial([0.08, -0.2]), Polynomial([0.41, -1.0])
    square = Polynomial.fromroots([0.4, 2.0])
    place, which = first_exit(rows(late, steep, flat, square), none(4))
    assert place == pytest.approx(0.4, abs=1e-14)
    np.testing.assert_array_equal(which, [1, 2, 3])


def test_paths_that_stay_positive_have_no_exit():
    touching = Polynomial.fromroots([0.5, 0.5]) + 1e-6
    assert first_exit(rows(touching, Polynomial([0.0, 1.0]), Polynomial([1.0, -1.0])), none(3)) is None
    assert first_exit(np.empty((0, STAGES + 1)), none(0)) is None


def test_a_path_may_go_below_zero_by_its_tolerance():
    dip = Polynomial.fromroots([0.4, 0.6])  # as far as -0.01
    assert first_exit(rows(dip), np.array([0.0101])) is None
    place, _ = first_exit(rows(dip), np.array([0.0099]))
    assert place == pytest.approx(falls_at(dip + 0.0099), abs=1e-9)


def test_a_path_that_starts_below_its_tolerance_exits_at_once():
    place, which = first_exit(rows(Polynomial([-0.1, 1.0]), Polynomial([1.0])), none(2))
    assert place == 0
    np.testing.assert_array_equal(which, [0])
