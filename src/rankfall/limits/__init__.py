"""Where the flow ends: the limit and its certificate."""

from rankfall.limits.approximate import kkt_distance
from rankfall.limits.compare import Comparison, compare
from rankfall.limits.kkt import Point, Residuals, margins, residuals
from rankfall.limits.optimality import Optimality, Peak, optimality_of_both, optimality_of_fixed, peak
from rankfall.limits.result import Branch, Limit
from rankfall.limits.search import checked, limit
from rankfall.limits.verdict import Verdict

__all__ = [
    "Branch",
    "Comparison",
    "Limit",
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
