"""Frei et al.: Implicit bias in leaky ReLU networks trained on high-dimensional data.

Frei, Vardi, Bartlett, Srebro and Hu, ICLR 2023 (arXiv 2210.07082). A file for each subject.
"""

from rankfall.papers.frei.cifar import CIFAR
from rankfall.papers.frei.limits import LIMITS
from rankfall.papers.frei.orthogonality import ORTHOGONALITY
from rankfall.papers.frei.step import DIMENSION, STEP_BY_SCALE
from rankfall.papers.frei.theorem import DESCENT
from rankfall.papers.lab import Paper
from rankfall.theory.core import FREI

PAPER = Paper(
    "frei",
    "Implicit bias in leaky ReLU networks trained on high-dimensional data",
    FREI,
    (LIMITS, ORTHOGONALITY, DESCENT, STEP_BY_SCALE, DIMENSION, CIFAR),
)
