"""One BLAS thread, where products are small or another run goes on beside: several wait for each other."""

from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread:
    """A context with one BLAS thread, for the whole process; it ends where the last of several ends."""

    _lock = Lock()
    _inside = 0
    _controller: Any = None
    _limited: Any = None

    def __enter__(self) -> None:
        kind = OneThread
        with kind._lock:
            if not kind._inside:
                kind._controller = kind._controller or ThreadpoolController()  # which takes 10 ms
                kind._limited = kind._controller.limit(limits=1, user_api="blas")
            kind._inside += 1

    def __exit__(self, *_: object) -> None:
        kind = OneThread
        with kind._lock:
            kind._inside -= 1
            if not kind._inside:
                kind._limited.restore_original_limits()
