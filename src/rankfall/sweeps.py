"""Many independent runs on any executor of concurrent.futures: by default on processes of this machine.

Nothing heavy is imported here: a worker process sets its threads before NumPy and JAX are loaded.
"""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TypeVar

from rankfall import progress as progress_module
from rankfall.progress import progress

Task = TypeVar("Task")
Result = TypeVar("Result")

DEATHS = 3  # so many times dead workers are replaced
THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",  # what XLA asks for the size of its thread pool
}
COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class SweepWarning(UserWarning):
    """A worker died and its work is done again."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """An executor of `count` processes (one a core if not said), each with one thread for linear algebra.

    What one of them compiles the others need not. When the block is left by an error or by Ctrl-C, they are
    stopped at once.
    """
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="rankfall-", ignore_cleanup_errors=True) as compiled:
        executor = ProcessPoolExecutor(count or cores(), spawn, _start_worker, (compiled,))
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        finally:
            executor.shutdown()


def _start_worker(compiled: str) -> None:
    settings = THREADS | {"JAX_COMPILATION_CACHE_DIR": compiled} | COMPILED
    os.environ.update({name: os.environ.get(name, value) for name, value in settings.items()})
    # One process may read what another is still writing: then it compiles for itself.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    progress_module.SILENT = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops its workers


def sweep(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    executor: Executor | None = None,
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
        (`dask.distributed.Client.get_executor()`). By default a process for each core, with one thread each
        for linear algebra; processes that die are replaced and their tasks begun again, at most three times.
    - `costs`: how long each task takes, in any unit: longer ones begin first, and the time left is told
        by them.
    - `name`, `show`: the progress that is shown when it takes over two seconds.
    """
    waiting = list(tasks)
    weights = dict(enumerate(costs if costs is not None else [1.0] * len(waiting)))
    order = sorted(range(len(waiting)), key=lambda i: -weights[i])
    with progress(name, enabled=show) as shown:
        done: set[int] = set()
        for index, result in _finished(function, waiting, order, executor):
            shown.hide()
            yield waiting[index], result
            done.add(index)
            share = sum(weights[i] for i in done) / sum(weights.values())
            shown.update(share, f"{len(done)} of {len(waiting)}")


def _finished(
    function: Callable[[Task], Result], tasks: list[Task], order: list[int], executor: Executor | None
) -> Iterator[tuple[int, Result]]:
    """The results with the indices of their tasks; on processes of our own the dead ones are replaced."""
    if executor is not None:
        yield from _on(executor, function, tasks, order)
        return
    left = list(order)
    for death in range(DEATHS + 1):
        try:
            with processes(min(cores(), max(len(left), 1))) as own:
                for index, result in _on(own, function, tasks, left):
                    left = [i for i in left if i != index]
                    yield index, result
            return
        except BrokenExecutor:
            if death == DEATHS:
                raise RuntimeError(
                    f"a worker process died {DEATHS + 1} times (killed, or out of memory?), with {len(left)} "
                    f"of {len(tasks)} tasks not done. Free some memory, or give an executor of fewer."
                ) from None
            warnings.warn(
                f"a worker process died (killed, or out of memory?); {len(left)} tasks begin again.",
                SweepWarning,
                stacklevel=4,
            )


def _on(
    executor: Executor, function: Callable[[Task], Result], tasks: list[Task], order: list[int]
) -> Iterator[tuple[int, Result]]:
    futures: dict[Future[Result], int] = {executor.submit(function, tasks[i]): i for i in order}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
