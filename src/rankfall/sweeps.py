"""Many independent runs on any executor of concurrent.futures: by default on processes of this machine.

Nothing heavy is imported here, so that a worker process is set up before NumPy and JAX are loaded.
"""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ProcessPoolExecutor, wait
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeVar

from rankfall import _progress as progress_module
from rankfall._cores import THREADS, cores
from rankfall._progress import PAUSE, progress

Task = TypeVar("Task")
Result = TypeVar("Result")

DEATHS = 3  # how many times dead workers are replaced
SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    THREADS: "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class SweepWarning(UserWarning):
    """A worker died and its work is done again."""


@contextmanager
def processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """An executor of `count` processes (by default one per core), each with one thread for linear algebra.

    What one of them compiles the others need not. When the block is left by an error or by Ctrl-C, they are
    stopped at once; when this process dies, they end too.
    """
    if count is not None and count < 1:
        raise ValueError(f"the number of processes must be 1 or more, not {count}.")
    others, count = set(multiprocessing.active_children()), count or cores()
    spawn = multiprocessing.get_context("spawn")
    with _environment():
        executor = ProcessPoolExecutor(count, spawn, _start_worker)
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        finally:
            executor.shutdown()


@contextmanager
def _environment() -> Iterator[None]:
    """The settings for the processes that are started meanwhile; what the user has set stays."""
    with TemporaryDirectory(prefix="rankfall-", ignore_cleanup_errors=True) as compiled:
        settings = SETTINGS | {"JAX_COMPILATION_CACHE_DIR": compiled}
        del settings[THREADS]  # a worker sets it: here it would tell how many cores this process has
        added = {name: value for name, value in settings.items() if name not in os.environ}
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)


def _start_worker() -> None:
    os.environ.setdefault(THREADS, SETTINGS[THREADS])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops its workers
    Thread(target=_end_with_the_parent, daemon=True).start()
    progress_module.SILENT = True
    # One process may read what another is still writing: then it compiles for itself.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def sweep(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    executor: Executor | int | None = None,
    costs: Sequence[float] | None = None,
    name: str = "sweep",
    show: bool = True,
) -> Iterator[tuple[Task, Result]]:
    """Call a function on every task, and yield each task with its result as soon as it is there.

    What was yielded stays done: an error, a dead worker or Ctrl-C loses only what was still running.

    **Arguments:**

    - `function`, `tasks`: both go to other processes, so the function has a name of its own in a module
        (no lambda), and the tasks are small.
    - `executor`: any executor of `concurrent.futures`, such as a thread pool, or that of a cluster
        (`dask.distributed.Client.get_executor()`). By default, or for a number, so many processes of this
        machine (one for each core), with one thread each for linear algebra; those that die are replaced and
        their tasks begun again, at most three times.
    - `costs`: how long each task takes, in any unit: longer ones begin first, and the time left is told
        by them.
    - `name`, `show`: the progress that is shown when it takes over two seconds.
    """
    waiting = list(tasks)
    weights = list(costs) if costs is not None else [1.0] * len(waiting)
    if len(weights) != len(waiting):
        raise ValueError(f"there are {len(waiting)} tasks, and {len(weights)} costs.")
    order = sorted(range(len(waiting)), key=lambda i: -weights[i])
    with progress(name, enabled=show) as shown:
        done, spent = 0, 0.0
        for finished in _finished(function, waiting, order, executor):
            if finished is not None:
                index, result = finished
                shown.hide()
                yield waiting[index], result
                done, spent = done + 1, spent + weights[index]
            shown.update(spent / (sum(weights) or 1.0), f"{done} of {len(waiting)}")


def _finished(
    function: Callable[[Task], Result], tasks: list[Task], order: list[int], executor: Executor | int | None
) -> Iterator[tuple[int, Result] | None]:
    """The results with the indices of their tasks, and None now and then while nothing is finished."""
    if isinstance(executor, Executor):
        yield from _on(executor, function, tasks, order)
        return
    left = list(order)
    for death in range(DEATHS + 1):
        try:
            with processes(executor or min(cores(), max(len(left), 1))) as own:
                for finished in _on(own, function, tasks, left):
                    if finished is not None:
                        left = [i for i in left if i != finished[0]]
                    yield finished
            return
        except BrokenExecutor:
            if death == DEATHS:
                raise RuntimeError(
                    f"a worker process died {DEATHS + 1} times (killed, or out of memory?), with {len(left)} "
                    f"of {len(tasks)} tasks not done. Free some memory, or use fewer processes."
                ) from None
            warnings.warn(
                f"a worker process died (killed, or out of memory?); {len(left)} tasks begin again.",
                SweepWarning,
                stacklevel=4,
            )


def _on(
    executor: Executor, function: Callable[[Task], Result], tasks: list[Task], order: list[int]
) -> Iterator[tuple[int, Result] | None]:
    """Submit all tasks; when workers die, what was finished comes before the error."""
    pending = {executor.submit(function, tasks[i]): i for i in order}
    try:
        while pending:
            done, _ = wait(pending, timeout=PAUSE, return_when=FIRST_COMPLETED)
            if not done:
                yield None
            for future in sorted(done, key=lambda f: f.exception() is not None):
                yield pending.pop(future), future.result()
    finally:
        for future in pending:
            future.cancel()
