"""The formulas that several results use."""

from rankfall.theory.mathematics.decomposition import (
    path_activity,
    path_coefficients,
    sign_tree,
    sum_over_paths,
)
from rankfall.theory.mathematics.deep_form import blocks, low_rank, outside, sorted_by_blocks
from rankfall.theory.mathematics.early_flow import EARLY, EarlyFlow
from rankfall.theory.mathematics.least_norm import interpolation_bound, margin_bound, rank_one_interpolator
from rankfall.theory.mathematics.white_course import effective_start, time_course

__all__ = [
    "EARLY",
    "EarlyFlow",
    "blocks",
    "effective_start",
    "interpolation_bound",
    "low_rank",
    "margin_bound",
    "outside",
    "path_activity",
    "path_coefficients",
    "rank_one_interpolator",
    "sign_tree",
    "sorted_by_blocks",
    "sum_over_paths",
    "time_course",
]
