"""What a run records, and when: every so often, evenly, or evenly on a logarithmic axis."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from rankfall.data import Data
from rankfall.dynamics._problem import check_fit
from rankfall.loss import Loss
from rankfall.measure import Measure, matrix_layers, select
from rankfall.network import Network

Schedule = Callable[[float, float], np.ndarray]  # of the end, and of the least time worth a record
Record = Schedule | Sequence[float] | np.ndarray
PER_DECADE = 20  # records for each factor of ten in time, where the end is not known


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
        raise ValueError(f"a schedule needs at least two records, not {count}.")


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


def record_targets(record: Record | None, end: float) -> Iterator[float]:
    """The times to record at after the start, up to `end`; if that is infinite, for as long as it takes."""
    if np.isfinite(end):
        return iter(record_times(linear(200) if record is None else record, end)[1:])
    if callable(record):
        raise ValueError("a schedule needs an end: say Until(time=...), or give the times themselves.")
    if record is not None:
        return iter([*record_times(record, np.finfo(float).max)[1:-1], np.inf])
    decades = range(-6 * PER_DECADE, 300 * PER_DECADE)
    return iter([*(10.0 ** (k / PER_DECADE) for k in decades), np.inf])


def choose(
    measures: Iterable[str | Measure] | None, network: Network, data: Data, loss: Loss
) -> tuple[Measure, ...]:
    """The measures asked for, checked; or the usual ones: loss, stable rank, and accuracy for labels."""
    check_fit(network, data, loss)
    if measures is None:
        measures = ["loss", *(["stable_rank"] if matrix_layers(network) else [])]
        measures += ["accuracy"] if loss.targets != "numbers" else []
    chosen = select(measures)
    for measure in chosen:
        measure.check(network, data, loss)
    return chosen
