from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankfall import data as rd
from rankfall.data import Data

RNG = np.random.default_rng


def small_sets(values, features=2):
    """Data sets of 1 to 5 points whose coordinates and targets are among a few numbers."""
    return st.integers(1, 5).flatmap(
        lambda n: arrays(float, (n, features + 1), elements=st.sampled_from(values)).map(
            lambda z: Data(z[:, :-1], z[:, -1])
        )
    )


def rms(values):
    return np.sqrt((values**2).sum() / len(values)) or 1.0


def asymmetry_by_permutations(data):
    z = np.column_stack([data.x / rms(data.x), data.y / rms(data.y)])
    costs = [sum(np.linalg.norm(z[i] + z[j]) for i, j in enumerate(pi)) for pi in permutations(range(len(z)))]
    return min(costs) / (2 * np.linalg.norm(z, axis=1).sum() or 1.0)


@settings(deadline=None, max_examples=150)
@given(small_sets([-1.0, 0.0, -0.0, 1.0], features=1))
def test_asymmetry_is_zero_exactly_if_the_multiset_equals_its_mirror_image(data):
    z = np.column_stack([data.x, data.y])
    symmetric = sorted((z + 0.0).tolist()) == sorted((0.0 - z).tolist())
    assert (rd.asymmetry(data) == 0) == symmetric
    assert rd.is_symmetric(data) == rd.is_symmetric(data, tol=0) == symmetric


@settings(deadline=None, max_examples=60)
@given(small_sets([-2.0, -1.0, -0.3, 0.0, 0.5, 1.0]))
def test_asymmetry_is_the_cost_of_the_best_matching_of_all(data):
    assert rd.asymmetry(data) == pytest.approx(asymmetry_by_permutations(data), abs=1e-14)


def test_how_often_a_point_occurs_matters():
    assert rd.is_symmetric(Data([[1], [1], [-1], [-1]], [2, 2, -2, -2]))
    assert not rd.is_symmetric(Data([[1], [1], [-1]], [2, 2, -2]))


def test_the_papers_symmetric_sets_are_symmetric_and_the_perturbed_one_is_not():
    for data in (rd.fan(), rd.symmetric_sine(30, 4), rd.symmetric_sine(30, 4, white=True)):
        assert rd.asymmetry(data) == 0
    assert 0 < rd.asymmetry(rd.six_points(0.01)) < rd.asymmetry(rd.six_points(0.15)) < 0.05
    assert not rd.is_symmetric(rd.circle())


def test_a_difference_in_the_last_bit_or_far_below_it_is_noticed():
    for x in (np.nextafter(1.0, 2.0), 1.0):
        data = Data([[x, 1e-300], [-1.0, 0.0]], [1, -1])
        assert rd.asymmetry(data) > 0
        assert rd.is_symmetric(data)
        assert not rd.is_symmetric(data, tol=0)


def test_asymmetry_is_one_for_a_point_and_does_not_depend_on_order_or_units():
    assert rd.asymmetry(Data([[3.0, 4.0]], [2.0])) == pytest.approx(1)
    data = rd.linear_teacher(40, 3, seed=1)
    value = rd.asymmetry(data)
    order = RNG(0).permutation(40)
    assert 0 < value < 1
    assert rd.asymmetry(Data(data.x[order], data.y[order])) == pytest.approx(value)
    assert rd.asymmetry(Data(1e200 * data.x, 1e-200 * data.y)) == pytest.approx(value)


@pytest.mark.parametrize("pairs", [20, 1500])
def test_the_asymmetry_of_shifted_data_is_the_shift(pairs):
    # 1500 pairs are too many for a matching: both measures agree here, where each point has one near image.
    x = np.concatenate([(x := RNG(0).uniform(1, 2, (pairs, 8))), -x]) + 1e-6
    y = np.repeat([1.0, -1.0], pairs)
    z = np.column_stack([x / rms(x), y])
    expected = 2 * pairs * 2e-6 * np.sqrt(8) / rms(x) / (2 * np.linalg.norm(z, axis=1).sum())
    assert rd.asymmetry(Data(x, y)) == pytest.approx(expected, rel=1e-6)


def test_points_with_an_exact_mirror_image_do_not_count_towards_the_size_of_the_matching():
    even = rd.symmetric_linear(3000, 3, seed=0)
    data = Data(np.concatenate([even.x, [[1.0, 0, 0]]]), np.concatenate([even.y, [0.0]]))
    z = np.column_stack([data.x / rms(data.x), data.y / rms(data.y)])
    norms = np.linalg.norm(z, axis=1)
    assert rd.asymmetry(data) == pytest.approx(norms[-1] / norms.sum())


@pytest.mark.parametrize("block", [1, 40])
@pytest.mark.parametrize("matched", [10, 2000])
def test_asymmetry_may_be_taken_in_parts(block, matched):
    data = rd.gaussian_mixture(60, 7, seed=1)
    whole = rd.asymmetry(data, matched=matched)
    assert rd.asymmetry(data, matched=matched, block=block) == pytest.approx(whole, rel=1e-13)


def test_the_cheap_asymmetry_is_the_distance_to_the_nearest_mirror_image():
    data = rd.gaussian_mixture(51, 4, seed=2)
    z = np.column_stack([data.x / rms(data.x), data.y / rms(data.y)])
    nearest = [min(np.linalg.norm(a + b) for b in z) for a in z]
    sampled = np.array(nearest)[np.linspace(0, 50, 50).astype(int)]
    expected = sampled.mean() * 51 / (2 * np.linalg.norm(z, axis=1).sum())
    assert rd.asymmetry(data, matched=50) == pytest.approx(expected, rel=1e-12)


def test_mirror_images_in_single_precision_are_exact():
    even = rd.symmetrise(Data(RNG(0).normal(size=(40, 5)).astype(np.float32), RNG(1).normal(size=40)))
    assert even.x.dtype == np.float32
    assert rd.asymmetry(even) == 0
