"""rankfall: where gradient flow takes a (leaky) ReLU network, how fast, and why it ends so simple."""

from rankfall import data, loss, measure
from rankfall.data import Data
from rankfall.dynamics import FlowWarning, Until, descent, every, flow, linear, logarithmic
from rankfall.network import Network
from rankfall.trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Data",
    "FlowWarning",
    "Network",
    "Trajectory",
    "Until",
    "data",
    "descent",
    "every",
    "flow",
    "linear",
    "logarithmic",
    "loss",
    "measure",
]
