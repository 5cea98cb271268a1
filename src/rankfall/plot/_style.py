"""The one figure style: colours, panels, lines, and how a figure is written."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall._atomic import atomically

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
    """A figure with this many panels, each of the standard size."""
    figure, axes = plt.subplots(rows, columns, figsize=(PANEL[0] * columns, PANEL[1] * rows), squeeze=False)
    return figure, axes


def colours(count: int) -> np.ndarray:
    """This many colours, in an order that the eye follows, in print too."""
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


def label(entry: Any) -> str:
    """A coordinate as a legend shows it."""
    return f"{entry:g}" if isinstance(entry, (float, np.floating)) else str(entry)


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
