"""Large imports at the start of a command."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept() -> Iterator[None]:
    """What is imported in this block stays: no time is spent on looking for garbage in it, now or later.

    Python would otherwise look through it several times while it grows, a tenth of the time to the start.
    """
    if "jax" in sys.modules or not gc.isenabled():  # nothing large is left; or the process has its own way
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
