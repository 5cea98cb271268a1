"""All results by name, collected from their families: one module each."""

from importlib import import_module

from rankfall.theory.result import Result

FAMILIES = (
    "expressivity",
    "linear_equivalence",
    "time_course",
    "end_point",
    "early_phase",
    "deep_low_rank",
    "independent_modes",
    "margin_maximisation",
    "margin_kkt",
    "frei_flow",
    "frei_descent",
    "kou",
    "relu_orthogonal",
    "le_jegelka",
    "sun_properties",
    "phuong_lampert",
    "lyu_2021",
    "lyu_2021_hints",
    "boursier",
    "timor",
    "min_alignment",
    "sarussi",
    "hashimoto",
)

RESULTS: dict[str, Result] = {
    result.name: result
    for family in FAMILIES
    for result in import_module(f"rankfall.theory.{family}").RESULTS
}
