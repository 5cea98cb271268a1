import numpy as np
import pytest

from rankfall.dynamics._record import every, linear, logarithmic, record_steps, record_times


def test_every_is_an_arithmetic_progression_that_ends_at_the_end():
    np.testing.assert_array_equal(record_times(every(0.25), 1.0), [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(record_steps(every(4), 10), [0, 4, 8, 10])
    np.testing.assert_array_equal(record_steps(every(100), 10), [0, 10])


@pytest.mark.parametrize("gap", [0.1, 0.3, 1 / 3, 0.7])
def test_every_never_passes_the_end_whatever_the_rounding(gap):
    for count in range(1, 60):
        times = record_times(every(gap), count * gap)
        assert times[0] == 0.0
        assert times[-1] == count * gap
        np.testing.assert_allclose(np.unique(times.round(9)), gap * np.arange(count + 1), atol=1e-9)


def test_linear_is_evenly_spread():
    np.testing.assert_allclose(record_times(linear(5), 2.0), [0.0, 0.5, 1.0, 1.5, 2.0], rtol=1e-15)
    np.testing.assert_array_equal(record_steps(linear(5), 8), [0, 2, 4, 6, 8])


def test_more_records_than_steps_are_one_record_a_step():
    np.testing.assert_array_equal(record_steps(linear(200), 7), np.arange(8))
    np.testing.assert_array_equal(record_steps(logarithmic(200), 7), np.arange(8))


def test_logarithmic_is_a_geometric_progression_from_the_first_on():
    np.testing.assert_allclose(record_times(logarithmic(5, first=0.01), 10.0), [0, 0.01, 0.1, 1.0, 10.0])
    np.testing.assert_array_equal(record_steps(logarithmic(5), 1000), [0, 1, 10, 100, 1000])
    for end in (2.5, 30.0):  # from a millionth of the end on, also where that is a whole number
        times = record_times(logarithmic(8), end)
        np.testing.assert_allclose(times[1:], end * 10.0 ** np.arange(-6, 1), rtol=1e-12)
        assert times[0] == 0.0


def test_a_first_record_beyond_the_end_is_the_end():
    np.testing.assert_array_equal(record_times(logarithmic(5, first=20.0), 10.0), [0.0, 10.0])


def test_explicit_times_are_sorted_and_completed_by_the_start_and_the_end():
    np.testing.assert_array_equal(record_times([3.0, 1.0, 3.0], 4.0), [0.0, 1.0, 3.0, 4.0])
    np.testing.assert_array_equal(record_times(np.array([]), 4.0), [0.0, 4.0])
    np.testing.assert_array_equal(record_steps([5, 2], 9), [0, 2, 5, 9])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: every(0), "gap between two records must be positive, not 0"),
        (lambda: every(-1.0), "gap between two records must be positive"),
        (lambda: every(np.nan), "gap between two records must be positive"),
        (lambda: linear(1), "at least two records, not 1"),
        (lambda: logarithmic(0), "at least two records, not 0"),
        (lambda: record_times([1.0, 5.0], 4.0), "times between 0 and 4"),
        (lambda: record_times([-1.0], 4.0), "times between 0 and 4"),
        (lambda: record_times([np.nan], 4.0), "times between 0 and 4"),
        (lambda: record_times([[1.0]], 4.0), "times between 0 and 4"),
        (lambda: record_times(logarithmic(5, first=-1.0), 4.0), "first"),
        (lambda: record_times(logarithmic(5, first=0.0), 4.0), "first"),
    ],
)
def test_bad_schedules_are_answered_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
