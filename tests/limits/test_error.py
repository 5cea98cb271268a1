"""The error of a run by a second one, beside the first or after it."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from rankfall import Data, Network
from rankfall._progress import progress
from rankfall.dynamics import Reduction
from rankfall.dynamics.exact import OneThread, walk_of
from rankfall.limits._error import Error
from rankfall.loss import named


def runs(rtol):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 5))
    network = Network.fixed_second_layer((5, 10, 1), slope=0.1, sigma=1e-2, seed=0)
    reduction = Reduction([network], Data(x, np.sign(x @ rng.normal(size=5))), named("exponential"))
    return walk_of(reduction, 1e-10), walk_of(reduction, rtol)


def error(beside, rtol=1e-8):
    walk, twin = runs(rtol)
    second = Error(twin, long=100, apart=60)
    for _ in range(8):
        walk.forward(50)
        if beside:
            second.beside(walk)
    try:
        with progress("limit", enabled=False) as shown:
            return second.at(walk, np.inf, shown), second.walk.clock.log_time, walk.clock.log_time
    finally:
        second.end()


def test_the_error_is_about_the_same_beside_the_run_and_after_it():  # steps end at other places
    (one, there, goal), (other, *_) = error(True), error(False)
    assert 0 < one < 1e-5
    assert 1 / 4 < one / other < 4
    np.testing.assert_allclose(there, goal, rtol=1e-12)


def test_it_is_the_same_each_time():
    assert error(True) == error(True)


def test_a_better_second_run_gives_a_smaller_error():
    assert error(True, 1e-9)[0] < error(True, 1e-7)[0]


def test_a_second_run_that_is_ended_stops():
    walk, twin = runs(1e-8)
    second = Error(twin, long=100, apart=60)
    for _ in range(8):
        walk.forward(50)
        second.beside(walk)
    second.end()
    steps = twin.steps
    assert second._thread is not None
    assert not second._thread.is_alive()
    assert twin.steps == steps


def test_one_blas_thread_ends_with_the_last_of_several():
    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        with OneThread():
            with OneThread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
