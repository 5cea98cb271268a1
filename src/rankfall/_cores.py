"""The cores that this process may use."""

import os

THREADS = "NPROC"  # what XLA asks for the size of its thread pool; a sweep tells its workers by it


def cores() -> int:
    """How many cores this process may use."""
    told = os.environ.get(THREADS, "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
