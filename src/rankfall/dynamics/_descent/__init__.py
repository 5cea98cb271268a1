"""Gradient descent and SGD."""

from rankfall.dynamics._descent.checkpoint import CheckpointWarning
from rankfall.dynamics._descent.driver import DescentWarning, descent
from rankfall.dynamics._descent.loss_based import LossBased
from rankfall.dynamics._descent.stepper import Optimiser

__all__ = ["CheckpointWarning", "DescentWarning", "LossBased", "Optimiser", "descent"]
