"""What the papers predict: one file a result, and `assess` to ask them all."""

from rankfall.judge import Verdict
from rankfall.theory.core.assessment import Assessed, Assessment, Status, Stopped, assessed
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.verification import Judged, Verification
from rankfall.theory.examination import assess, checked
from rankfall.theory.mathematics.decomposition import (
    path_activity,
    path_coefficients,
    sign_tree,
    sum_over_paths,
)
from rankfall.theory.mathematics.deep_form import blocks, low_rank, sorted_by_blocks
from rankfall.theory.mathematics.least_norm import interpolation_bound, margin_bound, rank_one_interpolator
from rankfall.theory.mathematics.white_course import effective_start, time_course
from rankfall.theory.results import RESULTS
from rankfall.theory.results.le_stable_activation import stably_activated

__all__ = [
    "RESULTS",
    "Assessed",
    "Assessment",
    "Condition",
    "Hypothesis",
    "Judged",
    "Kind",
    "Prediction",
    "Relation",
    "Result",
    "Situation",
    "Status",
    "Stopped",
    "Verdict",
    "Verification",
    "assess",
    "assessed",
    "blocks",
    "checked",
    "effective_start",
    "interpolation_bound",
    "low_rank",
    "margin_bound",
    "path_activity",
    "path_coefficients",
    "rank_one_interpolator",
    "sign_tree",
    "sorted_by_blocks",
    "stably_activated",
    "sum_over_paths",
    "time_course",
]
