"""How weights move: gradient descent, and gradient flow.

Descent is imported when it is first used: limits need it no more than the optimisers that it comes with.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankfall.dynamics._flow import FlowWarning, flow
from rankfall.dynamics._problem import Reduction, check_fit
from rankfall.dynamics._record import every, linear, logarithmic
from rankfall.dynamics._until import Until
from rankfall.dynamics.exact import exact_flow, visited

if TYPE_CHECKING:
    from rankfall.dynamics._descent import CheckpointWarning, DescentWarning, LossBased, Optimiser, descent

_LATER = ("CheckpointWarning", "DescentWarning", "LossBased", "Optimiser", "descent")

__all__ = [
    "CheckpointWarning",
    "DescentWarning",
    "FlowWarning",
    "LossBased",
    "Optimiser",
    "Reduction",
    "Until",
    "check_fit",
    "descent",
    "every",
    "exact_flow",
    "flow",
    "linear",
    "logarithmic",
    "visited",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rankfall.dynamics' has no attribute {name!r}")
    return getattr(import_module("rankfall.dynamics._descent"), name)
