"""Kou, Chen and Gu: Implicit bias of gradient descent for two-layer ReLU and leaky ReLU networks on
nearly-orthogonal data.

NeurIPS 2023, arXiv 2310.18935. The constants of its theorems are those with which
docs/theory/kou_descent.md proves them.
"""

from rankfall.papers.kou.leaky import LEAKY
from rankfall.papers.kou.mnist import MNIST
from rankfall.papers.kou.relu import RELU
from rankfall.papers.kou.synthetic import SYNTHETIC
from rankfall.papers.lab import Paper
from rankfall.theory.core import KOU

PAPER = Paper(
    "kou",
    "Implicit bias of gradient descent for two-layer ReLU and leaky ReLU networks on nearly-orthogonal data",
    KOU,
    (LEAKY, RELU, SYNTHETIC, MNIST),
)
