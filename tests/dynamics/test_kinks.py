from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankfall.dynamics.exact._kinks import decide, independent, response

SLOPES = (0.0, 0.01, 0.1, 0.5)
SEEDS = st.integers(0, 2**32 - 1)


class Neuron:
    """A neuron at some of its kinks: inputs, pulls, slopes elsewhere, and the sign of its output weight."""

    def __init__(self, x, r, at_kink, slopes, sign, slope):
        self.x, self.r, self.at_kink = np.asarray(x, float), np.asarray(r, float), np.asarray(at_kink)
        self.slopes, self.sign, self.slope = np.asarray(slopes, float), sign, slope

    def decided(self):
        return decide(self.at_kink, self.slopes, self.x, self.r, self.sign, self.slope).slopes

    def pull(self, slopes):
        """g."""
        return (slopes * self.r) @ self.x

    def velocities(self, slopes):
        return self.sign * (self.x @ self.pull(slopes))

    @property
    def rounding(self):
        sizes = np.linalg.norm(self.x, axis=1)
        return 1e-11 * sizes * (np.abs(self.r) @ sizes)


def random_neuron(seed, slope, dim=None, size=12):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, size + 1)), dim or int(rng.integers(1, 9))
    at_kink = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
    slopes = np.where(rng.random(n) < 0.5, 1.0, slope)
    r = rng.normal(size=n) * rng.choice([1.0, 1.0, 1e-3], n)
    return Neuron(rng.normal(size=(n, d)), r, at_kink, slopes, rng.choice([-1.0, 1.0]), slope)


def assert_filippov(neuron, slopes):
    """P = 1 and v >= 0, or P = alpha and v <= 0, or v = 0: at every kink."""
    v, rounding = neuron.velocities(slopes), neuron.rounding
    for i in neuron.at_kink:
        up = slopes[i] == 1 and v[i] >= -rounding[i]
        down = slopes[i] == neuron.slope and v[i] <= rounding[i]
        stuck = neuron.slope <= slopes[i] <= 1 and abs(v[i]) <= rounding[i]
        assert up or down or stuck, f"sample {i}: slope {slopes[i]}, velocity {v[i]}"


# Several kinks at once


@settings(deadline=None, max_examples=400, derandomize=True)
@given(SEEDS, st.sampled_from(SLOPES))
def test_the_slopes_satisfy_filippovs_conditions_at_every_kink(seed, slope):
    neuron = random_neuron(seed, slope)
    slopes = neuron.decided()
    assert_filippov(neuron, slopes)
    elsewhere = np.setdiff1d(np.arange(len(slopes)), neuron.at_kink)
    np.testing.assert_array_equal(slopes[elsewhere], neuron.slopes[elsewhere])


def test_on_a_line_where_all_kinks_meet_the_conditions_hold_too():
    # One dimension: the attracting kinks can take the pull to zero, up to rounding.
    for seed in range(300):
        neuron = random_neuron(seed, 0.01, dim=1)
        assert_filippov(neuron, neuron.decided())


@settings(deadline=None, max_examples=200, derandomize=True)
@given(
    st.tuples(st.integers(2, 7), st.integers(1, 3)).flatmap(
        lambda shape: arrays(float, shape, elements=st.integers(-1, 1).map(float))
    ),
    st.data(),
)
def test_duplicated_opposite_and_vanishing_pulls_satisfy_the_conditions(x, data):
    x = np.vstack([x, np.ones(x.shape[1])])
    x = x[(x != 0).any(axis=1)]
    r = data.draw(arrays(float, len(x), elements=st.integers(-2, 2).map(float)))
    slopes = np.where(data.draw(arrays(bool, len(x))), 1.0, 0.1)
    neuron = Neuron(x, r, np.arange(len(x)), slopes, data.draw(st.sampled_from([-1.0, 1.0])), 0.1)
    assert_filippov(neuron, neuron.decided())


def least_over_all_faces(neuron):
    """The least |g| over the box by brute force: every slope at an end of it, or free."""
    best = np.inf
    for face in product((neuron.slope, 1.0, None), repeat=len(neuron.at_kink)):
        slopes = neuron.slopes.copy()
        free = [i for i, value in zip(neuron.at_kink, face, strict=True) if value is None]
        slopes[neuron.at_kink] = [0.0 if value is None else value for value in face]
        if free:
            rows = neuron.r[free, None] * neuron.x[free]
            found = np.linalg.lstsq(rows.T, -neuron.pull(slopes), rcond=None)[0]
            if (found < neuron.slope).any() or (found > 1).any():
                continue
            slopes[free] = found
        best = min(best, np.linalg.norm(neuron.pull(slopes)))
    return best


@settings(deadline=None, max_examples=150, derandomize=True)
@given(SEEDS, st.sampled_from(SLOPES))
def test_where_all_kinks_attract_the_pull_is_the_least_over_the_box(seed, slope):
    neuron = random_neuron(seed, slope, size=5)
    neuron.r[neuron.at_kink] = -neuron.sign * np.abs(neuron.r[neuron.at_kink])
    slopes = neuron.decided()
    assert np.linalg.norm(neuron.pull(slopes)) == pytest.approx(least_over_all_faces(neuron), abs=1e-9)


# One kink


def at_one_kink(velocity_below, velocity_above, coming, slope=0.1):
    """A neuron at the kink of x_0 = (1, 0), with these velocities on its two sides."""
    r0 = (velocity_above - velocity_below) / (1 - slope)
    rest = velocity_above - r0
    return Neuron([[1.0, 0.0], [1.0, 2.0]], [r0, rest], [0], [coming, 1.0], 1.0, slope)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("coming", [0.1, 1.0])
@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [(1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (-1.0, -2.0, 0.1), (-2.0, -1.0, 0.1), (1.0, -2.0, 0.4)],
    ids=["up", "up, slower", "down", "down, slower", "stick"],
)
def test_one_kink_is_crossed_or_held_as_the_velocities_on_its_sides_say(below, above, expected, coming, sign):
    neuron = at_one_kink(below, above, coming)
    neuron.r, neuron.sign = sign * neuron.r, sign
    below_and_above = [neuron.velocities(np.array([p, 1.0]))[0] for p in (0.1, 1.0)]
    np.testing.assert_allclose(below_and_above, [below, above])
    slopes = neuron.decided()
    assert slopes[0] == pytest.approx(expected, abs=1e-14)  # stuck: (1 - p) (1) + p (-2) = 0 at p = 1/3
    assert (slopes[0] in (0.1, 1.0)) == (expected in (0.1, 1.0))


@pytest.mark.parametrize("coming", [0.1, 1.0])
def test_a_kink_that_repels_to_both_sides_is_left_to_the_side_it_comes_to(coming):
    assert at_one_kink(-1.0, 2.0, coming).decided()[0] == coming


@pytest.mark.parametrize("tiny", [1e-120, 1e-170, 1e-310])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_sample_whose_pull_has_all_but_vanished_neither_holds_nor_warns(tiny, sign):
    # Its side is decided by the others alone: v = sign.
    neuron = Neuron([[1.0, 0.0], [1.0, 2.0]], [-sign * tiny, 1.0], [0], [0.0, 1.0], sign, 0.0)
    assert neuron.decided()[0] == (1.0 if sign > 0 else 0.0)


# Sliding


@settings(deadline=None, max_examples=100, derandomize=True)
@given(SEEDS)
def test_a_sliding_neuron_is_pulled_by_what_is_orthogonal_to_its_kinks(seed):
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=(7, 5)), rng.normal(size=7)
    held = np.sort(rng.choice(7, rng.integers(1, 5), replace=False))
    matrix = response(held, x)
    assert not matrix[:, held].any()
    u[held] = 0.0
    rest = u @ x
    u[held] = -matrix @ u
    basis = np.linalg.qr(x[held].T)[0]
    np.testing.assert_allclose(u @ x, rest - basis @ (basis.T @ rest), atol=1e-9)


def test_of_dependent_kinks_as_many_are_kept_as_are_independent():
    x = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [-2, 0, 0], [0, 0, 3]])
    for samples in ([0], [0, 3], [0, 1, 2], [0, 1, 2, 3], [2, 3, 4], [0, 1, 2, 3, 4]):
        kept = independent(np.array(samples), x)
        assert set(kept) <= set(samples)
        rank = np.linalg.matrix_rank(x[samples])
        assert len(kept) == np.linalg.matrix_rank(x[kept]) == rank
