"""The one figure style, and the standard pictures of runs, limits and verdicts.

Pictures of limits and verdicts are imported when they are first used: a run needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankfall.plot._runs import draw, drawable, run_figure
from rankfall.plot._style import (
    GUIDE,
    INK,
    PALETTE,
    PANEL,
    STYLE,
    colours,
    label,
    panels,
    save,
    simulation,
    style,
    svg,
    theory,
)

if TYPE_CHECKING:
    from rankfall.plot._limits import HALO, draw_plane, limit_figure
    from rankfall.plot._verdicts import verdict_figure

_LATER = {
    "HALO": "_limits",
    "draw_plane": "_limits",
    "limit_figure": "_limits",
    "verdict_figure": "_verdicts",
}

__all__ = [
    "GUIDE",
    "HALO",
    "INK",
    "PALETTE",
    "PANEL",
    "STYLE",
    "colours",
    "draw",
    "draw_plane",
    "drawable",
    "label",
    "limit_figure",
    "panels",
    "run_figure",
    "save",
    "simulation",
    "style",
    "svg",
    "theory",
    "verdict_figure",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rankfall.plot' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
