"""Timor, Vardi and Shamir: Implicit regularization towards rank minimization in ReLU networks. ALT 2023."""

from rankfall.papers.lab import Paper
from rankfall.papers.timor.depth import DEPTH
from rankfall.papers.timor.ranks import ANGLES_FROM_ZERO, RANKS
from rankfall.theory.core import TIMOR

PAPER = Paper(
    "timor",
    "Implicit regularization towards rank minimization in ReLU networks",
    TIMOR,
    (RANKS, ANGLES_FROM_ZERO, DEPTH),
)
