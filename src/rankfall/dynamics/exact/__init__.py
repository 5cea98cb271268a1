"""The exact flow of two layers: a walk from region to region, kinks included."""

from rankfall.dynamics.exact._bilinear import Bilinear, BilinearPath
from rankfall.dynamics.exact._clock import Clock
from rankfall.dynamics.exact._collocation import NODES
from rankfall.dynamics.exact._driver import LOSSES, compile_steps, exact_flow, visited, walk_of
from rankfall.dynamics.exact._events import AtRest, Fork, Hit, Stalled, Watched, What
from rankfall.dynamics.exact._motion import Motion, Path
from rankfall.dynamics.exact._pull import Pull, Walled
from rankfall.dynamics.exact._regions import TOUCH, Region, Weights
from rankfall.dynamics.exact._step import SWEEPS, Piece, Solved
from rankfall.dynamics.exact._threads import OneThread
from rankfall.dynamics.exact._walk import Walk

__all__ = [
    "LOSSES",
    "NODES",
    "SWEEPS",
    "TOUCH",
    "AtRest",
    "Bilinear",
    "BilinearPath",
    "Clock",
    "Fork",
    "Hit",
    "Motion",
    "OneThread",
    "Path",
    "Piece",
    "Pull",
    "Region",
    "Solved",
    "Stalled",
    "Walk",
    "Walled",
    "Watched",
    "Weights",
    "What",
    "compile_steps",
    "exact_flow",
    "visited",
    "walk_of",
]
