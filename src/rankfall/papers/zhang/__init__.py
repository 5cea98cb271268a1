"""Zhang, Saxe and Latham: When are bias-free ReLU networks effectively linear networks?

TMLR 2025 (arXiv 2406.12615), and its workshop version of 2024, to which the equation numbers belong. A file
for each figure or subject.
"""

from rankfall.papers.lab import Paper
from rankfall.papers.zhang import deep, expressivity, identities, modes, six_points, time_course, training
from rankfall.theory.core import ZHANG

PAPER = Paper(
    "zhang",
    "When are bias-free ReLU networks effectively linear networks?",
    ZHANG,
    (
        *expressivity.EXPERIMENTS,
        *time_course.EXPERIMENTS,
        *modes.EXPERIMENTS,
        *deep.EXPERIMENTS,
        *six_points.EXPERIMENTS,
        *training.EXPERIMENTS,
        *identities.EXPERIMENTS,
    ),
)
