from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize, nnls

from rankfall.limits import _optimality as optimality
from rankfall.limits._optimality import _Search, optimality_of_both, optimality_of_fixed, peak

RNG = np.random.default_rng
SEEDS = st.integers(0, 2**32 - 1)
SLOPES = st.sampled_from([0.0, 0.01, 0.3, 0.9, 1.0])


def phi(z, slope):
    return np.where(z > 0, z, slope * z)


def outputs(w, a, x, slope):
    return phi(x @ w.T, slope) @ a


def heights(u, x, c, slope):
    """F at each row of u."""
    return phi(u @ x.T, slope) @ c


def random_sum(rng, n, dim):
    """Inputs and coefficients of both signs, of different sizes."""
    return rng.normal(size=(n, dim)), rng.normal(size=n) * 10 ** rng.uniform(-1, 1, size=n)


def peak_over_all_cells(x, c, slope):
    """In the cone s_i u.x_i >= 0, F is linear, and its peak there is the norm of a projection (Moreau)."""
    best = 0.0
    for s in product((-1.0, 1.0), repeat=len(x)):
        gradient = (c * np.where(np.array(s) > 0, 1.0, slope)) @ x
        _, distance = nnls(np.array(s) * x.T, -gradient)
        best = max(best, distance)
    return best


def assert_attained(found, x, c, slope):
    assert np.linalg.norm(found.direction) == pytest.approx(1, abs=1e-12)
    reached = heights(found.direction, x, c, slope)
    assert reached == pytest.approx(found.value, abs=1e-12 * np.abs(c) @ np.linalg.norm(x, axis=1))


# Peaks


@settings(deadline=None, max_examples=30)
@given(SEEDS, SLOPES)
def test_peak_in_the_plane_is_the_maximum_over_the_circle(seed, slope):
    x, c = random_sum(RNG(seed), 12, 2)
    angles = np.linspace(0, 2 * np.pi, 20_001)
    values = heights(np.column_stack([np.cos(angles), np.sin(angles)]), x, c, slope)
    lipschitz = np.abs(c) @ np.linalg.norm(x, axis=1)
    found = peak(x, c, slope)
    assert found.exact
    assert max(0, values.max()) <= found.value + 1e-12 * lipschitz
    assert found.value <= max(0, values.max()) + lipschitz * angles[1] / 2


@settings(deadline=None, max_examples=40)
@given(SEEDS, SLOPES, st.integers(1, 6), st.integers(1, 8))
def test_peak_is_the_largest_over_all_cells_of_the_arrangement(seed, slope, n, dim):
    x, c = random_sum(RNG(seed), n, dim)
    found = peak(x, c, slope)
    assert found.exact
    assert found.upper == found.value
    assert found.value == pytest.approx(peak_over_all_cells(x, c, slope), abs=1e-11 * np.abs(c).sum())
    if found.value:
        assert_attained(found, x, c, slope)


@settings(deadline=None, max_examples=40)
@given(SEEDS, SLOPES, st.floats(1e-4, 1e-1))
def test_peak_of_almost_parallel_inputs_is_bracketed(seed, slope, apart):
    rng = RNG(seed)
    x, c = rng.normal(size=3) + apart * rng.normal(size=(6, 3)), rng.normal(size=6)
    found, true, rounding = peak(x, c, slope), peak_over_all_cells(x, c, slope), 1e-11 * np.abs(c).sum()
    assert found.value - rounding <= true <= found.upper + rounding
    assert found.upper - found.value < 1e-9 * np.abs(c).sum()


@settings(deadline=None, max_examples=60)
@given(SEEDS, SLOPES, st.integers(0, 3), st.integers(0, 4), st.sampled_from([3, 200]))
def test_bound_of_a_node_is_at_least_the_distance_of_each_of_its_corners(seed, slope, n, level, dim):
    # In 200 dimensions the vectors are almost orthogonal, and the bound is almost attained.
    rng = RNG(seed)
    search = _Search(rng.normal(size=(4, dim)), rng.normal(size=(n, dim)), slope)
    signs = np.where(np.arange(4) < level, rng.choice([-1.0, 1.0], size=4), 0.0)
    bound, _ = search.bounds(signs[None], np.array([level]), np.ones((1, n)))
    corners = [c for c in product((-1.0, 1.0), repeat=4) if (np.array(c) == signs)[:level].all()]
    for corner in corners:
        v = np.where(np.array(corner) > 0, 1.0, slope) @ search.up
        distance = np.linalg.norm(v - search.down.sum(axis=0))
        if n and slope < 1:
            fit = lsq_linear(search.down.T, v, (slope, 1), method="trf", tol=1e-12)
            distance = np.linalg.norm(v - fit.x @ search.down)
        assert distance <= bound[0] * (1 + 1e-6)


@pytest.mark.parametrize(("n", "dim"), [(20, 5), (24, 40)])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_local_search_from_many_directions_reaches_the_peak_and_nothing_above(n, dim, slope):
    rng = RNG(n)
    x, c = random_sum(rng, n, dim)

    def down(v):
        u = v / np.linalg.norm(v)
        gradient = (c * np.where(x @ u > 0, 1.0, slope)) @ x
        return -heights(u, x, c, slope), -(gradient - (gradient @ u) * u) / np.linalg.norm(v)

    best = max(-minimize(down, rng.normal(size=dim), jac=True, method="L-BFGS-B").fun for _ in range(10))
    found = peak(x, c, slope)
    assert found.exact
    assert_attained(found, x, c, slope)
    assert best <= found.value * (1 + 1e-12)
    assert best > found.value * 0.98


def test_peak_of_a_linear_activation_is_a_norm():
    x, c = random_sum(RNG(0), 40, 7)
    found = peak(x, c, 1.0)
    assert found.exact
    assert found.value == pytest.approx(np.linalg.norm(c @ x), rel=1e-12)
    np.testing.assert_allclose(found.direction, c @ x / np.linalg.norm(c @ x), atol=1e-12)


def test_a_sum_that_is_nowhere_positive_has_its_peak_at_the_origin():
    found = peak(RNG(0).normal(size=(5, 3)), -np.ones(5), 0.0)
    assert (found.value, found.upper, found.exact) == (0, 0, True)
    assert not found.direction.any()
    assert peak(np.ones((3, 2)), np.zeros(3), 0.5).value == 0


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_a_search_cut_short_brackets_the_peak(seed):
    x, c = random_sum(RNG(seed), 30, 6)
    short, long = peak(x, c, 0.1, budget=1), peak(x, c, 0.1)
    assert long.exact
    assert short.value <= long.value * (1 + 1e-11)
    assert long.value <= short.upper * (1 + 1e-11)
    assert short.exact == (short.upper == short.value)


def test_a_peak_moves_with_the_coordinates_and_scales_with_the_coefficients():
    rng = RNG(3)
    x, c = random_sum(rng, 10, 4)
    frame = np.linalg.qr(rng.normal(size=(30, 4)))[0]
    small, large = peak(x, c, 0.1), peak(1e6 * x @ frame.T, 1e-9 * c, 0.1)
    assert large.value == pytest.approx(1e-3 * small.value, rel=1e-11)
    np.testing.assert_allclose(large.direction, frame @ small.direction, atol=1e-10)


def test_a_direction_that_is_known_is_where_the_search_starts():
    x, c = random_sum(RNG(16), 100, 6)
    alone, long = peak(x, c, 0.0, budget=1), peak(x, c, 0.0, budget=2e8)
    assert alone.value < 0.995 * long.value
    known = peak(x, c, 0.0, starts=[alone.direction, 5 * long.direction], budget=1)
    assert known.value >= long.value * (1 - 1e-12)


# Limits with closed forms


def orthogonal(rng, n, dim, size=1.0):
    return size * np.linalg.qr(rng.normal(size=(dim, n)))[0].T


def frei_limit(rng, slope, size):
    """Orthogonal inputs of one length, as many neurons and samples of each sign: Frei et al. 2023."""
    n, m = 6, 8
    x, y = orthogonal(rng, n, 9, size), np.repeat([1.0, -1.0], n // 2)
    a = np.repeat([1.0, -1.0], m // 2) / np.sqrt(m)
    multipliers = np.full(n, 2 / ((1 + slope**2) * size**2))
    p = np.where(a[:, None] * y > 0, 1.0, slope)
    return a[:, None] * ((p * multipliers * y) @ x), a, x, y, multipliers


def relu_orthogonal_limit(rng, n=6, m=40):
    """Orthogonal inputs; neurons are active on samples of their sign by chance, at least one on each."""
    x, y = orthogonal(rng, n, n + 2, 2.0), np.where(np.arange(n) % 2, 1.0, -1.0)
    a = np.where(np.arange(m) % 2, 1.0, -1.0) / np.sqrt(m)
    active = (a[:, None] * y > 0) & (rng.normal(size=(m, n)) > 0)
    active[np.arange(n) % 2, np.arange(n)] = True
    multipliers = m / (active.sum(axis=0) * (x**2).sum(axis=1))
    return a[:, None] * ((active * multipliers * y) @ x), a, x, y, multipliers


@pytest.mark.parametrize("slope", [0.05, 0.5, 1.0])
def test_limit_of_frei_et_al_is_globally_optimal(slope):
    w, a, x, y, multipliers = frei_limit(RNG(1), slope, 3.0)
    np.testing.assert_allclose(y * outputs(w, a, x, slope), 1, atol=1e-12)
    found = optimality_of_fixed(w, a, x, y, slope, multipliers)
    assert found.verdict == "globally optimal"
    assert found.exact
    assert found.gap < 1e-12
    assert found.better is None
    assert np.isnan(found.gain)


def test_no_local_search_beats_a_network_that_is_proven_optimal():
    slope = 0.3
    w, a, x, y, multipliers = frei_limit(RNG(2), slope, 1.0)
    assert optimality_of_fixed(w, a, x, y, slope, multipliers).verdict == "globally optimal"
    margins = {"type": "ineq", "fun": lambda v: y * outputs(v.reshape(w.shape), a, x, slope) - 1}
    for seed in range(4):
        start = RNG(seed).normal(size=w.size)
        end = minimize(lambda v: v @ v, start, jac=lambda v: 2 * v, constraints=margins, method="SLSQP")
        assert end.fun > (w**2).sum() * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_relu_limit_with_patterns_of_chance_is_beaten_by_a_network_with_one_pattern_a_sign(seed):
    w, a, x, y, multipliers = relu_orthogonal_limit(RNG(seed))
    np.testing.assert_allclose(y * outputs(w, a, x, 0.0), 1, atol=1e-12)
    found = optimality_of_fixed(w, a, x, y, 0.0, multipliers)
    assert found.verdict == "not globally optimal"
    assert (y * outputs(found.better, a, x, 0.0)).min() > 1 - 1e-12
    assert (found.better**2).sum() == pytest.approx(found.gain * (w**2).sum(), rel=1e-12)
    # With all neurons of a sign active on all its samples, |W|^2 = sum_i m / (m_+- |x_i|^2).
    assert (found.better**2).sum() == pytest.approx(2 * (1 / (x**2).sum(axis=1)).sum(), rel=1e-9)
    assert 1 - found.gap <= found.gain < 0.9


def test_a_relu_limit_with_all_neurons_of_a_sign_on_all_its_samples_is_globally_optimal():
    x, y = orthogonal(RNG(0), 6, 8, 2.0), np.where(np.arange(6) % 2, 1.0, -1.0)
    a = np.where(np.arange(10) % 2, 1.0, -1.0) / np.sqrt(10)
    multipliers = np.full(6, 10 / (5 * 4.0))
    w = a[:, None] * (((a[:, None] * y > 0) * multipliers * y) @ x)
    assert optimality_of_fixed(w, a, x, y, 0.0, multipliers).verdict == "globally optimal"


def test_linear_networks_at_the_hard_margin_solution_are_globally_optimal():
    rng = RNG(4)
    x, y = orthogonal(rng, 5, 7) * rng.uniform(0.5, 2, size=(5, 1)), rng.choice([-1.0, 1.0], size=5)
    shares = 1 / (x**2).sum(axis=1)
    z = (shares * y) @ x
    x, y, shares = np.vstack([x, 3 * z]), np.append(y, 1.0), np.append(shares, 0.0)  # one more, with room
    a = rng.normal(size=6)
    fixed = optimality_of_fixed(np.outer(a, z) / (a @ a), a, x, y, 1.0, shares / (a @ a))
    size = np.linalg.norm(z)
    both = optimality_of_both(z[None] / np.sqrt(size), np.sqrt([size]), x, y, 1.0, shares / size)
    assert fixed.verdict == both.verdict == "globally optimal"
    assert fixed.gap < 1e-12
    assert abs(both.gap) < 1e-12


def test_limit_of_both_layers_on_orthogonal_inputs_is_globally_optimal():
    # Boursier et al. 2022 at targets +-1: one neuron for each sign, |theta|^2 = 2 (|v_+| + |v_-|).
    rng = RNG(7)
    x, y = orthogonal(rng, 6, 6) * rng.uniform(0.5, 2, size=(6, 1)), np.where(np.arange(6) < 2, 1.0, -1.0)
    shares = 1 / (x**2).sum(axis=1)
    v = np.array([shares[y == s] @ x[y == s] for s in (1, -1)])
    sizes = np.linalg.norm(v, axis=1)
    w, a = v / np.sqrt(sizes)[:, None], np.sqrt(sizes) * [1, -1]
    multipliers = shares / np.where(y > 0, *sizes)
    found = optimality_of_both(w, a, x, y, 0.0, multipliers)
    assert found.verdict == "globally optimal"
    assert abs(found.gap) < 1e-12
    assert "any width" in found.reason
    assert optimality_of_both(3 * w, 3 * a, x, y, 0.0, multipliers).verdict == "globally optimal"
    assert optimality_of_both(2 * w, a / 2, x, y, 0.0, multipliers).verdict == "unknown"  # not balanced


def test_a_peak_that_is_only_bounded_proves_no_more_than_its_bound(monkeypatch):
    def vague(x, c, slope, starts=()):
        found = peak(x, c, slope)
        return replace(found, upper=1.1 * found.value, exact=False)

    monkeypatch.setattr(optimality, "peak", vague)
    w, a, x, y, multipliers = frei_limit(RNG(1), 0.5, 3.0)
    found = optimality_of_fixed(w, a, x, y, 0.5, multipliers)
    assert (found.verdict, found.exact) == ("unknown", False)
    assert found.gap == pytest.approx(1 - 1 / 1.1**2, abs=1e-12)
    found = optimality_of_both([[1.0]], [1.0], [[1.0]], [1.0], 0.0, [1.0])
    assert (found.verdict, found.exact) == ("unknown", False)
    assert found.gap == pytest.approx(0.1, abs=1e-12)


# The counterexample of Vardi, Shamir and Srebro 2021: a KKT point that is no local minimum

VARDI_X, VARDI_Y, VARDI_MULTIPLIERS = np.array([[1, 0.25], [-1, 0.25]]), np.ones(2), np.array([2.0, 2.0])
LENGTH = np.hypot(1, 0.25)


def test_kkt_point_of_vardi_et_al_is_not_globally_optimal():
    w, a = np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([2.0, 0.0])
    found = optimality_of_both(w, a, VARDI_X, VARDI_Y, 0.0, VARDI_MULTIPLIERS)
    assert found.verdict == "not globally optimal"
    assert found.exact
    assert found.gap == pytest.approx(2 * LENGTH - 1, abs=1e-12)
    np.testing.assert_allclose(np.abs(VARDI_X @ found.better).max(), LENGTH, atol=1e-12)
    assert "of this width" in found.reason
    assert 1 / (1 + found.gap) <= found.gain < 1 - 1e-3


def test_a_network_and_its_negative_have_one_verdict():
    w, a = np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([2.0, 0.0])
    found = optimality_of_both(w, a, VARDI_X, VARDI_Y, 0.0, VARDI_MULTIPLIERS)
    mirror = optimality_of_both(w, -a, VARDI_X, -VARDI_Y, 0.0, VARDI_MULTIPLIERS)
    assert (mirror.verdict, mirror.gap, mirror.gain) == (found.verdict, found.gap, found.gain)
    one, other = (optimality_of_fixed(w, s * np.ones(2), VARDI_X, s * VARDI_Y, 0.0, [2, 2]) for s in (1, -1))
    assert (one.verdict, one.gap, one.gain) == (other.verdict, other.gap, other.gain)


def test_small_neuron_along_the_better_direction_of_vardi_et_al_lowers_the_norm():
    w, a = np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([2.0, 0.0])
    u = optimality_of_both(w, a, VARDI_X, VARDI_Y, 0.0, VARDI_MULTIPLIERS).better
    side = np.sign(u[0])
    for epsilon in (1e-1, 1e-2, 1e-3):
        # The new neuron sees one sample. The old one shrinks and turns so that both margins stay 1.
        shift = epsilon**2 * LENGTH
        w = np.array([[-side * shift / 4, 2 - shift], epsilon * u])
        a = np.array([2.0, epsilon])
        np.testing.assert_allclose(outputs(w, a, VARDI_X, 0.0), 1, atol=1e-14)
        change = ((w**2).sum() + (a**2).sum() - 8) / epsilon**2
        assert change == pytest.approx(-2 * (2 * LENGTH - 1), abs=2 * epsilon**2)


def test_without_a_free_neuron_only_a_wider_network_is_known_to_be_better():
    one = optimality_of_both([[0, 2]], [2], VARDI_X, VARDI_Y, 0.0, VARDI_MULTIPLIERS)
    assert one.verdict == "not globally optimal"
    assert "one more neuron" in one.reason
    # Two parallel neurons are one, and leave one free.
    half = np.sqrt(2.0)
    two = optimality_of_both([[0, half]] * 2, [half] * 2, VARDI_X, VARDI_Y, 0.0, VARDI_MULTIPLIERS)
    assert "of this width" in two.reason
    assert two.gain == pytest.approx(one.gain, rel=1e-9)


def test_multipliers_that_are_not_unique_prove_an_optimum_or_fail_to():
    # All three samples have margin 1, and both (0, 0, 1) and (1/2, 1/2, 0) make the neuron stationary.
    x, y, w, a = np.array([[1.0, 3], [1, -3], [1, 0]]), np.ones(3), np.array([[1.0, 0]]), np.ones(1)
    for multipliers, verdict in (([0, 0, 1], "globally optimal"), ([0.5, 0.5, 0], "unknown")):
        both = optimality_of_both(w, a, x, y, 0.0, multipliers)
        fixed = optimality_of_fixed(w, a, x, y, 0.0, multipliers)
        assert both.verdict == fixed.verdict == verdict
        assert both.better is None
    assert both.gap == pytest.approx(np.sqrt(10) / 2 - 1, abs=1e-12)


# Properties of any network


def any_network(seed, slope):
    """A network, inputs with room around f = 0, and the labels it gives them."""
    rng = RNG(seed)
    n, m, dim = rng.integers(1, 7), rng.integers(1, 7), rng.integers(1, 5)
    x, w, a = rng.normal(size=(n, dim)), rng.normal(size=(m, dim)), rng.normal(size=m)
    f = outputs(w, a, x, slope)
    assume(np.abs(f).min() > 1e-2)
    return w / np.abs(f).min(), a, x, np.sign(f), rng.exponential(size=n)


@settings(deadline=None, max_examples=60)
@given(SEEDS, SLOPES)
def test_dual_value_never_exceeds_the_norm_of_a_network_with_margin_one(seed, slope):
    w, a, x, y, multipliers = any_network(seed, slope)
    up, down = peak(x, multipliers * y, slope).value, peak(x, -multipliers * y, slope).value
    squares = (a[a > 0] ** 2).sum() * up**2 + (a[a < 0] ** 2).sum() * down**2
    for factor in (0.1, 1.0, multipliers.sum() / max(squares, 1e-300)):
        dual = factor * multipliers.sum() - factor**2 * squares / 2
        assert dual <= (w**2).sum() / 2 * (1 + 1e-9)
    assert multipliers.sum() / max(up, down) <= ((w**2).sum() + (a**2).sum()) / 2 * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(SEEDS, SLOPES)
def test_better_first_layer_fits_the_data_is_shorter_and_respects_duality(seed, slope):
    w, a, x, y, multipliers = any_network(seed, slope)
    found = optimality_of_fixed(w, a, x, y, slope, multipliers)
    assert 0 <= found.gap <= 1
    assert (found.better is None) == (found.verdict != "not globally optimal") == np.isnan(found.gain)
    if found.better is not None:
        assert (y * outputs(found.better, a, x, slope)).min() > 1 - 1e-9
        assert (found.better**2).sum() == pytest.approx(found.gain * (w**2).sum(), rel=1e-9)
        assert 1 - found.gap - 1e-9 <= found.gain < 1


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.sampled_from([0.0, 0.1]))
def test_the_verdict_does_not_depend_on_the_scale_of_inputs_or_on_the_margin(seed, slope):
    w, a, x, y, multipliers = relu_orthogonal_limit(RNG(seed), n=4, m=12)
    one = optimality_of_fixed(w, a, x, y, slope, multipliers)
    other = optimality_of_fixed(7 * w, a, 1e3 * x, y, slope, multipliers / 1e5)
    assert one.verdict == other.verdict
    assert one.gap == pytest.approx(other.gap, abs=1e-9)
    assert one.gain == pytest.approx(other.gain, abs=1e-6, nan_ok=True)


# Bad input


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"x": [[1, np.nan], [0, 1]]}, "finite"),
        ({"x": [1.0, 2.0]}, "samples x features"),
        ({"w": [[0, 2, 1]]}, r"first layer \(m, 2\)"),
        ({"a": 2}, r"second layer \(m,\)"),
        ({"w": [[0, np.nan]]}, "least margin y f\\(x\\) is nan"),
        ({"y": [1, 0]}, "-1 or \\+1"),
        ({"y": [1, -1]}, "does not classify"),
        ({"slope": 1.5}, "slope"),
        ({"multipliers": [1, -1]}, "negative"),
        ({"multipliers": [1, 1, 1]}, "one for each sample"),
    ],
)
@pytest.mark.parametrize("judge", [optimality_of_fixed, optimality_of_both])
def test_bad_input_is_named(judge, change, sentence):
    good = {"w": [[0, 2]], "a": [2], "x": VARDI_X, "y": [1, 1], "slope": 0.0, "multipliers": [2, 2]}
    with pytest.raises(ValueError, match=sentence):
        judge(**{**good, **change})
