"""Look after a long computation while it runs, to show how far it is or to end it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

EVERY = 0.1  # seconds between two looks
AGAIN = 2.0  # seconds after which an exception that something in the block has caught is raised again


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` again and again while the block runs; what it raises ends the block, and so does Ctrl-C.

    Compiled code that calls back into Python may swallow an exception: then it is raised again. This takes
    the timer of Unix, which only the main thread has. Elsewhere, or where the timer is in use, `look` is not
    called.
    """
    if not _is_free():
        yield
        return
    pressed = False

    def interrupt(*_: object) -> None:
        nonlocal pressed
        pressed = True
        tick()

    def tick(*_: object) -> None:
        try:
            if pressed:
                raise KeyboardInterrupt
            look()
        except BaseException:
            signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)  # its clean-up is given some time
            raise

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    before = signal.signal(signal.SIGALRM, tick)
    if usual:
        signal.signal(signal.SIGINT, interrupt)
    signal.siginterrupt(signal.SIGALRM, False)  # system calls in compiled code go on
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        _stop_the_timer()
        signal.signal(signal.SIGALRM, before)
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop_the_timer() -> None:
    """Stop it, even if it rings once more at this very moment."""
    for _ in range(2):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return
        except BaseException:  # the block is ended already
            continue


def _is_free() -> bool:
    there = hasattr(signal, "setitimer") and current_thread() is main_thread()
    return there and not any(signal.getitimer(signal.ITIMER_REAL))
