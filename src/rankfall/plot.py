"""The one figure style, and the standard pictures of runs, limits and verdicts."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from rankfall.atomic import atomically
from rankfall.data import Data
from rankfall.limits import Limit
from rankfall.plot_limit import draw_plane, draw_samples, draw_singular_values
from rankfall.plot_theory import draw_entries, draw_errors, draw_series, is_series
from rankfall.theory import Verification
from rankfall.trajectory import Trajectory

INK, GUIDE = "#111111", "#808080"  # text, axes and theory; lines that only guide the eye
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito: kinds, not sizes
STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "font.family": "serif",
    "mathtext.fontset": "cm",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.direction": "in",
    "ytick.direction": "in",
}
PANEL = (3.1, 2.4)  # inches: two panels fill the text width of a page


@contextmanager
def style() -> Iterator[None]:
    """The style, for the time of a `with` block: the user's own settings come back after it."""
    with plt.rc_context(STYLE):
        yield


def panels(columns: int, rows: int = 1) -> tuple[Figure, np.ndarray]:
    """A figure of so many panels, each of the standard size."""
    figure, axes = plt.subplots(rows, columns, figsize=(PANEL[0] * columns, PANEL[1] * rows), squeeze=False)
    return figure, axes


def colours(count: int) -> np.ndarray:
    """So many colours in an order that the eye follows, in print too."""
    return plt.get_cmap("viridis")(np.linspace(0.12, 0.88, count))


def theory(ax: Axes, x: Any, y: Any, label: str | None = None, **style: Any) -> None:
    """What is predicted: a thin line in the colour of the text."""
    shown: dict[str, Any] = {"color": INK, "linewidth": 0.9, "label": label, "zorder": 3}
    ax.plot(x, y, **shown | style)


def simulation(ax: Axes, x: Any, y: Any, label: str | None = None, **style: Any) -> None:
    """What was measured, beside a theory: markers, some forty of a long run."""
    every = max(1, len(np.atleast_1d(x)) // 40)
    shown: dict[str, Any] = {"marker": "o", "markersize": 3.2, "linestyle": "none", "markevery": every}
    shown["label"] = label
    ax.plot(x, y, **shown | style)


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write the figure under a temporary name, rename it, and close it."""
    path = Path(path)
    if not path.suffix:
        raise ValueError(f"say the format of the figure by an ending: {path}.png, .pdf or .svg.")
    try:
        with atomically(path) as draft, style():
            figure.savefig(draft)
    finally:
        plt.close(figure)
    return path


def svg(figure: Figure) -> str:
    """The figure as SVG for a page, and close it: equal figures give equal text.

    Nothing is behind it, and its ink is `currentColor`: it follows the colours of the page around it.
    """
    text = StringIO()
    try:
        with style(), plt.rc_context({"svg.hashsalt": "rankfall", "svg.fonttype": "path"}):
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    finally:
        plt.close(figure)
    drawn = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text.getvalue(), flags=re.DOTALL)
    drawn = re.sub(r"\s*\n\s*", "\n", drawn)
    drawn = re.sub(rf"{INK}|#000000", "currentColor", drawn)
    drawn = drawn.replace("<svg ", '<svg fill="currentColor" ', 1)  # what is black says no colour at all
    return re.sub(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)', _shorter, drawn)


def _shorter(numbers: re.Match[str]) -> str:
    """Two decimals of a point are finer than any screen, and half the text."""
    return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", numbers[0])


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


def label(entry: Any) -> str:
    """A coordinate as a legend shows it."""
    return f"{entry:g}" if isinstance(entry, (float, np.floating)) else str(entry)


def _lines(values: xr.DataArray) -> str | None:
    """The dimension of the lines, "" for a single one, None for what cannot be drawn as a few lines."""
    if values.ndim == 1:
        return ""
    few = values.ndim == 2 and values.shape[1] <= 10
    return str(values.dims[1]) if few else None


def _falls_far(values: xr.DataArray) -> bool:
    numbers = values.values[np.isfinite(values.values)]
    return bool(numbers.size and (numbers > 0).all() and numbers.max() > 1e3 * numbers.min())


def limit_figure(limit: Limit, data: Data) -> Figure:
    """A limit in three panels: data and neurons in a plane, the singular values, and the multipliers.

    The plane is that of the two leading singular vectors of the first layer; two-dimensional data are shown
    as they are. Where there are no multipliers, the outputs and their targets are shown (square loss), or
    the margins (data that were not separated).
    """
    if limit.W.shape[1] != data.dim or len(limit.margins) != data.n:
        raise ValueError(
            f"this is the limit of another data set: it has {len(limit.margins)} samples of "
            f"{limit.W.shape[1]} features, and {data!r} has not."
        )
    with style():
        figure, axes = plt.subplot_mosaic(
            [["plane", "values"], ["plane", "samples"]],
            figsize=(2.35 * PANEL[0], 1.9 * PANEL[1]),
            width_ratios=(1.2, 1.0),
        )
        draw_plane(axes["plane"], limit, data)
        draw_singular_values(axes["values"], limit)
        draw_samples(axes["samples"], limit, data)
    return figure


def verdict_figure(verification: Verification, most: int = 5) -> Figure:
    """Predictions beside measurements, `most` of them a panel each, and the errors of all.

    Curves over time come first, then arrays, entry against entry. In a run the predicted curves are dashed.
    """
    judged = [v for v in verification if v.measured is not None and v.result != "evidence"]
    if not judged:
        raise ValueError("nothing was measured: this evidence cannot be compared with any prediction.")
    series = [v for v in judged if is_series(v, verification)]
    arrays = [
        v for v in judged if not is_series(v, verification) and v.measured is not None and v.measured.size > 1
    ]
    shown = [*series, *arrays][:most]
    with style():
        columns = 2 if len(shown) in (1, 3) else min(len(shown) + 1, 3)
        figure, axes = panels(columns, -(-(len(shown) + 1) // columns))
        for ax, verdict in zip(axes.flat, shown, strict=False):
            if is_series(verdict, verification):
                draw_series(ax, verdict, verification)
            else:
                draw_entries(ax, verdict)
        draw_errors(axes.flat[len(shown)], verification)
        for ax in axes.flat[len(shown) + 1 :]:
            ax.set_visible(False)
    return figure
