"""Pictures of runs: their measures over time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from rankfall.plot._style import colours, label, panels, style
from rankfall.trajectory import Trajectory


def drawable(run: Trajectory) -> list[xr.DataArray]:
    """The measures of a run that are a line, or a few lines, over time."""
    return [run[name] for name in run.dataset.data_vars if _lines(run[name]) is not None]


def run_figure(run: Trajectory) -> Figure:
    """One panel for each measure of a run that is a line, or a few lines, over time."""
    shown = drawable(run)
    if not shown:
        raise ValueError("this run recorded nothing that can be drawn as lines over time.")
    with style():
        columns = 2 if len(shown) in (2, 4) else min(len(shown), 3)
        figure, axes = panels(columns, -(-len(shown) // columns))
        for ax, values in zip(axes.flat, shown, strict=False):
            draw(ax, values)
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
    return figure


def draw(ax: Axes, values: xr.DataArray) -> None:
    """A measure over time: one line, or one for each entry of its second dimension; steps if it counts."""
    hue = _lines(values)
    counts = values.dtype.kind in "iu"
    axis = values.dims[0]
    series: Sequence[Any] = [None] if not hue else list(values[hue].values)
    for colour, entry in zip(colours(len(series)), series, strict=True):
        line = values if entry is None else values.sel({hue: entry})
        name = None if entry is None else label(entry)
        ax.plot(values[axis], line, color=colour, label=name, drawstyle="steps-post" if counts else None)
    if hue:
        ax.legend(title=hue)
    ax.set_xlabel(values[axis].attrs.get("long_name", str(axis)))
    ax.set_ylabel(values.attrs.get("long_name", str(values.name)))
    if _falls_far(values):
        ax.set_yscale("log")
    elif counts:
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    times = values[axis].values
    if np.median(times) < times.max() / 10:  # recorded evenly in log time: shown so, with the start at zero
        ax.set_xscale("symlog", linthresh=times[times > 0].min())
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(_decades(times))


def _decades(times: np.ndarray) -> FixedLocator:
    """Zero and at most five powers of ten, evenly spread: more of them touch each other."""
    first, last = (int(np.floor(np.log10(t))) for t in (times[times > 0].min(), times.max()))
    powers = np.arange(last, first, -max(1, -(-(last - first) // 5)))
    return FixedLocator([0.0, *10.0 ** powers[::-1]])


def _lines(values: xr.DataArray) -> str | None:
    """The dimension of the lines, "" for a single one, None for what cannot be drawn as a few lines."""
    if values.ndim == 1:
        return ""
    few = values.ndim == 2 and values.shape[1] <= 10
    return str(values.dims[1]) if few else None


def _falls_far(values: xr.DataArray) -> bool:
    numbers = values.values[np.isfinite(values.values)]
    return bool(numbers.size and (numbers > 0).all() and numbers.max() > 1e3 * numbers.min())
