"""rankfall: where gradient flow takes a (leaky) ReLU network, how fast, and why it ends so simple.

The names are imported when they are first used, so that `rankfall --help` need not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankfall import data, limits, loss, measure, papers, plot, theory
    from rankfall.data import Data
    from rankfall.dynamics import (
        CheckpointWarning,
        DescentWarning,
        FlowWarning,
        LossBased,
        Until,
        descent,
        every,
        exact_flow,
        flow,
        linear,
        logarithmic,
    )
    from rankfall.limits import Limit, limit
    from rankfall.network import Network
    from rankfall.sweeps import sweep
    from rankfall.trajectory import Trajectory

__all__ = [
    "CheckpointWarning",
    "Data",
    "DescentWarning",
    "FlowWarning",
    "Limit",
    "LossBased",
    "Network",
    "Trajectory",
    "Until",
    "data",
    "descent",
    "every",
    "exact_flow",
    "flow",
    "limit",
    "limits",
    "linear",
    "logarithmic",
    "loss",
    "measure",
    "papers",
    "plot",
    "sweep",
    "theory",
]

_HOMES = {
    "Data": "data",
    "Limit": "limits",
    "Network": "network",
    "limit": "limits",
    "sweep": "sweeps",
    "Trajectory": "trajectory",
    **dict.fromkeys(
        [
            "CheckpointWarning",
            "DescentWarning",
            "FlowWarning",
            "LossBased",
            "Until",
            "descent",
            "every",
            "exact_flow",
            "flow",
            "linear",
            "logarithmic",
        ],
        "dynamics",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rankfall' has no attribute {name!r}")
    module = import_module(f"rankfall.{_HOMES.get(name, name)}")
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return __all__
