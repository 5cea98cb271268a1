"""Look after a long computation while it runs, to show how far it is or to end it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

EVERY = 0.1  # seconds between two looks


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` again and again while the block runs; what it raises ends the block.

    This takes the timer of Unix, which only the main thread has. Elsewhere, or where the timer is in use,
    `look` is not called.
    """
    if not _is_free():
        yield
        return

    def tick(*_: object) -> None:
        try:
            look()
        except BaseException:
            signal.setitimer(signal.ITIMER_REAL, 0)  # it ends the block once, not also its clean-up
            raise

    before = signal.signal(signal.SIGALRM, tick)
    signal.siginterrupt(signal.SIGALRM, False)  # system calls in compiled code go on
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_free() -> bool:
    there = hasattr(signal, "setitimer") and current_thread() is main_thread()
    return there and not any(signal.getitimer(signal.ITIMER_REAL))
