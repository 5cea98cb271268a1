"""Lyu and Li: Gradient descent maximizes the margin of homogeneous neural networks (ICLR 2020, arXiv
1906.05890); and Lyu, Li, Wang and Arora: Gradient descent on two-layer nets: margin maximization and
simplicity bias (NeurIPS 2021, arXiv 2110.13905)."""

from rankfall.papers.lab import Paper
from rankfall.papers.lyu.margins import MARGINS
from rankfall.papers.lyu.mnist import MNIST
from rankfall.papers.lyu.schedule import SCHEDULE
from rankfall.papers.lyu.symmetric import SYMMETRIC
from rankfall.theory.core import LYU_LI

PAPER = Paper(
    "lyu",
    "Gradient descent maximizes the margin of homogeneous neural networks",
    LYU_LI,
    (MNIST, MARGINS, SCHEDULE, SYMMETRIC),
)
