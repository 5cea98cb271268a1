"""Le and Jegelka: Training invariances and the low-rank phenomenon: beyond linear networks.

Only the abstract of the paper was available to us; what is derived from it here is marked as rankfall's.
"""

from rankfall.papers.lab import Paper
from rankfall.papers.le.active import ACTIVE
from rankfall.papers.le.counterexample import COUNTEREXAMPLE
from rankfall.papers.le.linear import LINEAR
from rankfall.papers.le.skips import SKIPS
from rankfall.papers.le.tail import TAIL
from rankfall.theory.core import LE

PAPER = Paper(
    "le",
    "Training invariances and the low-rank phenomenon: beyond linear networks",
    LE,
    (LINEAR, TAIL, SKIPS, ACTIVE, COUNTEREXAMPLE),
)
