"""The papers: one file each, its experiments, and their claims."""

import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rankfall.atomic import atomically
from rankfall.naming import unknown
from rankfall.papers.claim import Claim, Experiment, Reproduction, Verdict, below

PAPERS = ("zhang", "sun")

__all__ = [
    "PAPERS",
    "Claim",
    "Experiment",
    "Reproduction",
    "Verdict",
    "below",
    "experiments",
    "write_claims",
]


def experiments(paper: str | None = None, figure: str | None = None) -> Iterator[Experiment]:
    """The experiments of one paper or of all, of one figure or of all."""
    if paper is not None and paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    if figure is not None and paper is None:
        raise ValueError(
            "a figure belongs to a paper: say which, as in `rankfall reproduce zhang --figure 3`."
        )
    for name in PAPERS if paper is None else (paper,):
        known: dict[str, Experiment] = importlib.import_module(f"rankfall.papers.{name}").EXPERIMENTS
        if figure is not None and figure not in known:
            raise unknown(f"figure of {name}", figure, known)
        yield from known.values() if figure is None else (known[figure],)


def write_claims(results: list[tuple[Experiment, Reproduction]], path: Path) -> Path:
    """All claims as JSON, written under a temporary name first."""
    rows = [
        {"paper": experiment.paper, "figure": experiment.figure, **asdict(claim)}
        for experiment, reproduction in results
        for claim in reproduction.claims
    ]
    with atomically(path) as draft:
        draft.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return path
