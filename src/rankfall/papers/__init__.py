"""The papers: a folder each, with experiments at settings that anybody may change, and their claims."""

from importlib import import_module
from types import ModuleType

from rankfall.naming import unknown
from rankfall.papers.lab import VERDICTS, Claim, Experiment, Outcome, Paper, Verdict

PAPERS = ("zhang", "frei", "le", "sun", "kou", "lyu", "boursier", "phuong", "timor", "min")

__all__ = ["PAPERS", "VERDICTS", "Claim", "Experiment", "Outcome", "Paper", "Verdict", "paper"]


def __getattr__(name: str) -> ModuleType:
    """`rankfall.papers.frei` and the others, imported when they are asked for."""
    if name not in PAPERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def paper(name: str) -> Paper:
    """The paper of this name."""
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    found: Paper = import_module(f"rankfall.papers.{name}").PAPER
    return found
