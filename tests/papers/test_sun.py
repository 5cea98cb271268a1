import numpy as np
import pytest

from rankfall.papers.sun.readings import as_printed, as_run, rise_between


@pytest.mark.parametrize(
    ("curve", "rise"),
    [
        ([3.0, 1.0, 2.5, 0.5], 1.5),  # fall, rise, fall
        ([3.0, 2.0, 1.0], 0.0),  # only falls
        ([1.0, 3.0, 1.0], 0.0),  # rises first
        ([3.0, 1.0, 1.2], 0.0),  # does not fall again
        ([2.0, 3.0, 1.0, 2.0, 0.0, 1.0, 0.5], 1.0),  # the higher of two
        ([1.1, 1.0, 2.0, 0.0], 0.1),  # no higher than the fall before it
    ],
)
def test_the_rise_between_two_falls_is_the_least_of_the_three(curve, rise):
    assert rise_between(np.array(curve)) == pytest.approx(rise)


def test_a_value_is_a_variance_as_run_and_a_deviation_as_printed():
    run, printed = (make((50, 40, 10), 0.0, 1e-4, seed=0) for make in (as_run, as_printed))
    assert run.weights[0].std() == pytest.approx(1e-2, rel=0.1)
    assert printed.weights[0].std() == pytest.approx(1e-4, rel=0.1)
    np.testing.assert_allclose(run.weights[1], 1 / 40, rtol=1e-6)
    np.testing.assert_allclose(np.abs(printed.weights[1]), 1 / np.sqrt(40), rtol=1e-6)
    assert (run.trained, printed.trained) == ((True, True), (True, False))
