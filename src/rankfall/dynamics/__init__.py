"""How weights move: gradient descent, and gradient flow."""

from rankfall.dynamics.checkpoint import CheckpointWarning
from rankfall.dynamics.descent import DescentWarning, descent
from rankfall.dynamics.exact import exact_flow, visited
from rankfall.dynamics.flow import FlowWarning, Until, flow
from rankfall.dynamics.schedule import every, linear, logarithmic

__all__ = [
    "CheckpointWarning",
    "DescentWarning",
    "FlowWarning",
    "Until",
    "descent",
    "every",
    "exact_flow",
    "flow",
    "linear",
    "logarithmic",
    "visited",
]
