"""Min, Mallada and Vidal: Early neuron alignment in two-layer ReLU networks with small initialization.

ICLR 2024, arXiv 2307.12851. A file for each subject.
"""

from rankfall.papers.lab import Paper
from rankfall.papers.min.alignment import ALIGNMENT
from rankfall.papers.min.mnist import MNIST
from rankfall.papers.min.time import TIME
from rankfall.theory.core import MIN

PAPER = Paper(
    "min",
    "Early neuron alignment in two-layer ReLU networks with small initialization",
    MIN,
    (ALIGNMENT, TIME, MNIST),
)
