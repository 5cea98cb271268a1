"""What the figures of many experiments share: pale lines of all seeds, and lines that guide the eye."""

from typing import Any

from matplotlib.axes import Axes

from rankfall import plot


def seed_lines(ax: Axes, x: Any, lines: Any, colour: Any, label: str | None = None, **style: Any) -> None:
    """One pale line per seed, the seeds last in `lines`; one of full colour in the legend for all of them."""
    shown: dict[str, Any] = {"color": colour, "alpha": 0.4, "linewidth": 0.7} | style
    ax.plot(x, lines, **shown)
    if label is not None:
        ax.plot([], [], color=colour, label=label)


def guide(
    ax: Axes, *, y: float | None = None, x: float | None = None, label: str | None = None, **style: Any
) -> None:
    """A thin dashed line at a height, or at a place: it only guides the eye."""
    shown: dict[str, Any] = {"color": plot.GUIDE, "linewidth": 0.8, "linestyle": "--", "label": label} | style
    if y is not None:
        ax.axhline(y, **shown)
    if x is not None:
        ax.axvline(x, **shown)
