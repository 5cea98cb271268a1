"""Many runs on an executor: every task once, whatever dies on the way. The functions are built-in ones,
which any process knows."""

import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from rankfall.sweeps import SETTINGS, THREADS, SweepWarning, cores, processes, sweep

DIE_ONCE = """
(lambda os, path: 7 if os.path.exists(path) else (os.mkdir(path), os._exit(1)))(__import__("os"), {!r})
""".strip()


def test_a_sweep_is_a_map():
    assert sorted(sweep(abs, [-3, 1, -2])) == [(-3, 3), (-2, 2), (1, 1)]


def test_any_executor_of_concurrent_futures_will_do():
    with ThreadPoolExecutor(3) as executor:
        assert sorted(sweep(lambda x: x**2, range(4), executor)) == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_the_longest_tasks_begin_first():
    begun = []
    with ThreadPoolExecutor(1) as executor:
        list(sweep(begun.append, "abc", executor, costs=[1.0, 3.0, 2.0]))
    assert begun == ["b", "c", "a"]


def test_no_task_is_no_work():
    assert list(sweep(abs, [])) == []


def test_a_worker_has_one_thread_for_linear_algebra(monkeypatch):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert dict(sweep(os.getenv, SETTINGS)) == SETTINGS
    assert not any(name in os.environ for name in SETTINGS)


def test_there_are_as_many_workers_as_cores(monkeypatch):
    monkeypatch.delenv(THREADS, raising=False)
    count = cores()
    with processes() as executor:
        assert executor._max_workers == count
        assert cores() == count  # it is the workers that have one thread each


def test_what_the_user_set_is_left_alone(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert dict(sweep(os.getenv, ["OMP_NUM_THREADS"])) == {"OMP_NUM_THREADS": "2"}


def test_an_error_is_raised_after_what_was_done():
    with ThreadPoolExecutor(1) as executor:
        results = sweep((1.0).__truediv__, [2.0, 0.0, 4.0], executor)
        assert next(results) == (2.0, 0.5)
        with pytest.raises(ZeroDivisionError):
            list(results)


def test_a_worker_that_dies_is_replaced_and_its_task_begun_again(tmp_path):
    dying = DIE_ONCE.format(str(tmp_path / "died"))
    with pytest.warns(SweepWarning, match="begin again"):
        results = dict(sweep(eval, [dying, "1 + 1"]))
    assert results == {dying: 7, "1 + 1": 2}


def test_a_task_that_always_kills_its_worker_is_given_up_in_words():
    with (
        pytest.warns(SweepWarning),
        pytest.raises(RuntimeError, match=r"died 4 times.*1 of 1 tasks not done"),
    ):
        list(sweep(os._exit, [1]))


def test_workers_stop_at_once_when_the_work_is_left():
    begun = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), processes(1) as executor:
        executor.submit(time.sleep, 60)
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 20


def test_the_cores_are_those_that_may_be_used():
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_costs_that_do_not_fit_the_tasks_are_refused():
    with pytest.raises(ValueError, match="3 tasks, and 2 costs"):
        list(sweep(abs, [1, 2, 3], costs=[1.0, 2.0]))


def test_tasks_may_cost_nothing():
    with ThreadPoolExecutor(1) as executor:
        assert list(sweep(abs, [-1], executor, costs=[0.0])) == [(-1, 1)]


def test_what_was_finished_comes_before_the_death_of_a_worker():
    class Dying(ThreadPoolExecutor):
        def submit(self, function, /, *args):
            future = super().submit(function, *args)
            future.exception()  # done, one way or the other, before anybody asks
            return future

    def die_at_zero(x):
        if x == 0:
            raise BrokenProcessPool
        return x

    with Dying(1) as executor:
        results = sweep(die_at_zero, [0, 1, 2], executor)
        assert sorted([next(results), next(results)]) == [(1, 1), (2, 2)]
        with pytest.raises(BrokenProcessPool):
            next(results)


PARENT = """
import os, time
from rankfall.sweeps import processes
if __name__ == "__main__":
    with processes(1) as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(100):
        if not alive(worker):
            return
        time.sleep(0.1)
    raise AssertionError("the worker is still there")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
