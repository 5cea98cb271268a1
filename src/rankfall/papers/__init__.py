"""The papers: one file each (a folder for one with many figures), its experiments, and their claims."""

from importlib import import_module

from rankfall.naming import unknown
from rankfall.papers.claim import VERDICTS, Claim, Verdict
from rankfall.papers.experiment import Experiment, Paper
from rankfall.papers.outcome import Outcome

PAPERS = ("zhang", "frei", "le", "sun", "kou", "lyu", "boursier", "phuong", "timor", "min")

__all__ = ["PAPERS", "VERDICTS", "Claim", "Experiment", "Outcome", "Paper", "Verdict", "paper"]


def paper(name: str) -> Paper:
    """The paper of this name."""
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    found: Paper = import_module(f"rankfall.papers.{name}").PAPER
    return found
