import numpy as np
import pytest
import xarray as xr

from rankfall.papers.lab import Verdict
from rankfall.papers.sun.cifar import FIGURE_8
from rankfall.papers.sun.mnist import ENDS, MNIST
from rankfall.papers.sun.readings import Reading, as_printed, as_run, rise_between


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


def as_in_figure_6(factor=1.0):
    """Runs that start and end at a multiple of what is read off Fig. 6."""
    coords = {"reading": list(Reading), "activation": ["ReLU"], "value": list(ENDS)}
    ends = factor * np.array(list(ENDS.values()), dtype=float)
    ranks = np.stack([np.full(5, 222.0 * factor), ends], axis=-1) * np.ones((1, 2, 1, 1, 1))
    dims = ("seed", "reading", "activation", "value", "epoch")
    arrays = {"stable_rank": (dims, ranks), "test_accuracy": (dims, 0.98 * factor * np.ones_like(ranks))}
    return xr.Dataset(arrays, coords)


PRINTED = ("mnist-start", "mnist-ends", "mnist-accuracy", "mnist-printed-ends")


@pytest.mark.parametrize("name", PRINTED)
def test_runs_that_end_as_in_figure_6_reproduce_its_numbers_and_others_do_not(name):
    (claim,) = (claim for claim in MNIST.claims if claim.id == name)
    assert claim.judge(as_in_figure_6()).verdict is Verdict.REPRODUCED
    assert claim.judge(as_in_figure_6(1.2)).verdict is Verdict.NOT_REPRODUCED


def test_figures_say_nothing_about_other_runs():
    mnist = {claim.id for claim in MNIST.at(epochs=3, width=500).claims}
    assert mnist.isdisjoint(PRINTED)
    cifar = {claim.id for claim in FIGURE_8.at(width=100, printed_width=100).claims}
    assert cifar.isdisjoint(
        ("cifar-start", "cifar-first-epoch", "cifar-printed-start", "cifar-printed-first-epoch")
    )
