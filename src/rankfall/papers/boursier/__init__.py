"""Boursier, Pillaud-Vivien and Flammarion: Gradient flow dynamics of shallow ReLU networks for square loss
and orthogonal inputs. NeurIPS 2022; the authors' notebooks are in the repository eboursier/GFdynamics.
"""

from rankfall.papers.boursier.high import HIGH
from rankfall.papers.boursier.pair import PAIR
from rankfall.papers.boursier.toys import TOY_SETS
from rankfall.papers.lab import Paper
from rankfall.theory.core import BOURSIER

PAPER = Paper(
    "boursier",
    "Gradient flow dynamics of shallow ReLU networks for square loss and orthogonal inputs",
    BOURSIER,
    (PAIR, HIGH, TOY_SETS),
)
