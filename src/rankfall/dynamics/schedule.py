"""When a run records: every so often, evenly, or evenly on a logarithmic axis."""

from collections.abc import Callable, Sequence

import numpy as np

Schedule = Callable[[float, float], np.ndarray]  # of the end, and of the least time worth a record
Record = Schedule | Sequence[float] | np.ndarray


def every(gap: float) -> Schedule:
    """A record every `gap` steps (or units of time)."""
    if not gap > 0:
        raise ValueError(f"the gap between two records must be positive, not {gap}.")
    return lambda end, _: np.arange(0.0, end, gap)


def linear(count: int) -> Schedule:
    """`count` records, evenly spread."""
    _check(count)
    return lambda end, _: np.linspace(0.0, end, count)


def logarithmic(count: int, first: float | None = None) -> Schedule:
    """`count` records, evenly spread in log time from `first` (step 1, or a millionth of the end time) on."""
    _check(count)
    if first is not None and not first > 0:
        raise ValueError(f"the first record on a logarithmic axis must be at a positive time, not {first}.")

    def points(end: float, least: float) -> np.ndarray:
        return np.concatenate([[0.0], np.geomspace(min(first or least, end), end, count - 1)])

    return points


def _check(count: int) -> None:
    if count < 2:
        raise ValueError(f"a schedule needs two records at least, not {count}.")


def record_times(record: Record, end: float, least: float | None = None) -> np.ndarray:
    """The times of the records in [0, end], both among them."""
    least = end * 1e-6 if least is None else least
    times = np.asarray(record(end, least) if callable(record) else record, dtype=float)
    if times.ndim != 1 or not np.isfinite(times).all() or (times < 0).any() or (times > end).any():
        raise ValueError(f"records must be times between 0 and {end:g}.")
    return np.unique([0.0, *times, end])


def record_steps(record: Record, steps: int) -> np.ndarray:
    """The same in whole steps."""
    return np.unique(np.round(record_times(record, steps, least=1.0)).astype(int))
