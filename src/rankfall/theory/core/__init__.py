"""The form of a result: what it asks for and predicts, the evidence for it, and how that is judged."""

from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis, condition
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result, Source
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import BOURSIER, FREI, KOU, LE, LYU_LI, MIN, PHUONG, SUN, TIMOR, ZHANG
from rankfall.theory.core.tolerances import ROUNDING, at_the_end, integration

__all__ = [
    "BOURSIER",
    "FREI",
    "KOU",
    "LE",
    "LYU_LI",
    "MIN",
    "PHUONG",
    "ROUNDING",
    "SUN",
    "TIMOR",
    "ZHANG",
    "Condition",
    "Evidence",
    "Example",
    "Hypothesis",
    "Kind",
    "Prediction",
    "Relation",
    "Result",
    "Situation",
    "Source",
    "Unmeasurable",
    "at_the_end",
    "condition",
    "integration",
]
