"""What the papers foresee: one file a result, and `assess` to ask them all."""

from rankfall.theory.assessment import (
    Assessed,
    Assessment,
    Stopped,
    Verdict,
    Verification,
    assess,
    assessed,
    checked,
)
from rankfall.theory.decomposition import path_activity, path_coefficients, sign_tree, sum_over_paths
from rankfall.theory.deep_form import blocks, low_rank, sorted_by_blocks
from rankfall.theory.least_norm import interpolation_bound, margin_bound, rank_one_interpolator
from rankfall.theory.result import Hypothesis, Prediction, Result
from rankfall.theory.results import FAMILIES, RESULTS
from rankfall.theory.situation import Situation
from rankfall.theory.stable_activation import stably_activated
from rankfall.theory.white_course import effective_start, time_course

__all__ = [
    "FAMILIES",
    "RESULTS",
    "Assessed",
    "Assessment",
    "Hypothesis",
    "Prediction",
    "Result",
    "Situation",
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
