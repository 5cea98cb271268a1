"""Phuong and Lampert: The inductive bias of ReLU networks on orthogonally separable data.

ICLR 2021. A file for each subject.
"""

from rankfall.papers.lab import Paper
from rankfall.papers.phuong.digits import DIGITS
from rankfall.papers.phuong.separable import LIMITS
from rankfall.papers.phuong.support import SUPPORT
from rankfall.theory.core import PHUONG

PAPER = Paper(
    "phuong",
    "The inductive bias of ReLU networks on orthogonally separable data",
    PHUONG,
    (LIMITS, SUPPORT, DIGITS),
)
