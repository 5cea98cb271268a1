"""Where the flow ends: the limit and its certificate."""

from rankfall.limits._approximate import kkt_distance
from rankfall.limits._compare import Boundary, Comparison, compare
from rankfall.limits._fixed import LARGE
from rankfall.limits._kkt import Point, Residuals, margins, residuals
from rankfall.limits._optimality import (
    Optimal,
    Optimality,
    Peak,
    optimality_of_both,
    optimality_of_fixed,
    peak,
)
from rankfall.limits._result import Branch, Limit
from rankfall.limits._search import checked, limit
from rankfall.limits._verdict import Verdict

__all__ = [
    "LARGE",
    "Boundary",
    "Branch",
    "Comparison",
    "Limit",
    "Optimal",
    "Optimality",
    "Peak",
    "Point",
    "Residuals",
    "Verdict",
    "checked",
    "compare",
    "kkt_distance",
    "limit",
    "margins",
    "optimality_of_both",
    "optimality_of_fixed",
    "peak",
    "residuals",
]
