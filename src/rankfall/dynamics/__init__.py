"""How weights move: gradient descent, and gradient flow."""

from rankfall.dynamics._descent import CheckpointWarning, DescentWarning, LossBased, Optimiser, descent
from rankfall.dynamics._flow import FlowWarning, flow
from rankfall.dynamics._problem import Reduction, check_fit
from rankfall.dynamics._record import every, linear, logarithmic
from rankfall.dynamics._until import Until
from rankfall.dynamics.exact import exact_flow, visited

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
