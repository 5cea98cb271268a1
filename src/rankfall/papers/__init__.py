"""The papers: a folder each, with experiments at settings that anybody may change, and their claims.

A paper of your own is a file of your own: `paper("mine.py")`. All that such a file needs is here; more that
experiments share is in `rankfall.papers.lab`.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from rankfall._naming import unknown
from rankfall.papers._own import paper_in
from rankfall.papers.lab import (
    VERDICTS,
    Check,
    Claim,
    Experiment,
    Outcome,
    Paper,
    Verdict,
    all_certified,
    at_least,
    at_most,
    between,
    guide,
    near,
    seed_lines,
    with_certificates,
)
from rankfall.theory.core import Source

PAPERS = ("zhang", "frei", "le", "sun", "kou", "lyu", "boursier", "phuong", "timor", "min")

__all__ = [
    "PAPERS",
    "VERDICTS",
    "Check",
    "Claim",
    "Experiment",
    "Outcome",
    "Paper",
    "Source",
    "Verdict",
    "all_certified",
    "at_least",
    "at_most",
    "between",
    "guide",
    "near",
    "paper",
    "seed_lines",
    "with_certificates",
]


def __getattr__(name: str) -> ModuleType:
    """`rankfall.papers.frei` and the others, imported when they are asked for."""
    if name not in PAPERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def paper(name: str) -> Paper:
    """The paper of this name, or the one that a file of your own defines, as in `paper("mine.py")`."""
    if name.endswith(".py"):
        found = paper_in(Path(name))
        if found.name in PAPERS:
            raise ValueError(f"{name} calls its paper {found.name}, which is taken: give it another name.")
        return found
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    known: Paper = import_module(f"rankfall.papers.{name}").PAPER
    return known
