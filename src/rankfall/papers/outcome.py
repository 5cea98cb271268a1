"""What became of an experiment: its claims as plain rows, its figure, and certificates of its limits."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from rankfall.papers.claim import CERTIFICATES, Claim, Judged, Measured, packed, unpacked
from rankfall.papers.experiment import Experiment, Paper


@dataclass(frozen=True)
class Outcome:
    """An experiment with its verdicts.

    - `paper`, `experiment`: what was run; `seeds`: how many seeds.
    - `rows`: a plain dictionary for each claim, see `row`.
    - `figure`: the figure as SVG; empty where there is none.
    - `seconds`: what the runs took, added over all seeds.
    - `news`: what was done now, and why: "run: new", "from the cache", "judged again: ...".
    - `certificates`: by their files, as "certificates/....json", each `packed`; rows refer to them.
    """

    paper: Paper
    experiment: Experiment
    seeds: int
    rows: tuple[dict[str, Any], ...]
    figure: str = ""
    seconds: float = 0.0
    news: str = ""
    certificates: dict[str, str] = field(default_factory=dict)


def judged_rows(paper: Paper, experiment: Experiment, runs: xr.Dataset | None) -> tuple[dict[str, Any], ...]:
    """Judge every claim of the experiment."""
    first, proofs = first_number(paper, experiment), _proofs(paper, experiment, runs)
    runs = None if runs is None else runs.drop_vars(CERTIFICATES, errors="ignore")
    found = []
    for number, claim in enumerate(experiment.claims, first):
        judged = claim.judge(runs)
        own = {file: document for file, (name, document) in proofs.items() if name in claim.proofs}
        files = _refuting(own) if judged.verdict == "refuted" else list(own)
        found.append(row(paper, experiment, number, claim, judged, runs) | {"certificates": files})
    return tuple(found)


def _refuting(own: Mapping[str, Any]) -> list[str]:
    """Those of the certificates that claim to refute something; all, if none does."""
    found = [file for file, told in own.items() if any(each["claim"] == "refutes" for each in told["claims"])]
    return found or list(own)


def certificates_of(paper: Paper, experiment: Experiment, runs: xr.Dataset) -> dict[str, str]:
    """The certificates that the claims of the experiment rest on, by file."""
    wanted = {name for claim in experiment.claims for name in claim.proofs}
    found = _proofs(paper, experiment, runs)
    return {file: packed(document) for file, (name, document) in found.items() if name in wanted}


def _proofs(paper: Paper, experiment: Experiment, runs: xr.Dataset | None) -> dict[str, tuple[str, Any]]:
    """All certificates that the runs bring: by file, the name within the run, and the document."""
    if runs is None or CERTIFICATES not in runs:
        return {}
    found: dict[str, tuple[str, Any]] = {}
    for seed, text in enumerate(np.atleast_1d(runs[CERTIFICATES].values).tolist()):
        for name, document in (unpacked(text) if text else {}).items():
            plain = re.sub(r"[^a-zA-Z0-9.]+", "-", f"{paper.name} {experiment.name} {name} seed {seed}")
            found[f"certificates/{plain}.json"] = (name, document)
    return found


def first_number(paper: Paper, experiment: Experiment) -> int:
    """The number of the experiment's first claim: claims are counted through the paper from 1."""
    names = [e.name for e in paper.experiments]
    before = paper.experiments[: names.index(experiment.name)]
    return 1 + sum(len(e.claims) for e in before)


def row(
    paper: Paper, experiment: Experiment, number: int, claim: Claim, judged: Judged, runs: xr.Dataset | None
) -> dict[str, Any]:
    """A claim and its verdict, as JSON has it."""
    measured = judged.measured
    return {
        "paper": paper.name,
        "number": number,
        "figure": experiment.name,
        "sentence": claim.sentence,
        "source": claim.source,
        "metric": claim.metric,
        "expected": claim.expected.told,
        "because": claim.expected.because,
        "seeds": 0 if runs is None else int(runs.sizes["seed"]),
        "measured": "" if measured is None else str(measured),
        "values": {} if measured is None else _values(measured),
        "verdict": judged.verdict,
        "recorded": claim.recorded,
        "hypotheses": [_check(check) for check in judged.hypotheses],
        "certificate": None if judged.certificate is None else _check(judged.certificate),
        "needs": experiment.needs,
        "note": claim.note,
        "command": f"rankfall reproduce {paper.name} --claim {number} --again"
        + (" --full" if experiment.needs else ""),
    }


def _values(measured: Measured) -> dict[str, Any]:
    """The spread of the numbers; what is not finite is left out, since JSON has no word for it."""
    finite = measured.values[np.isfinite(measured.values)]
    names = ("low", "median", "high")
    numbers = dict(zip(names, np.quantile(finite, (0, 0.5, 1)).tolist(), strict=True)) if finite.size else {}
    return numbers | {"within": int(measured.within.sum()), "of": int(measured.within.size)}


def _check(check: Measured) -> dict[str, Any]:
    return {
        "metric": check.metric,
        "expected": check.expected.told,
        "because": check.expected.because,
        "measured": str(check),
        "holds": check.holds,
    }


def differs(entry: Mapping[str, Any]) -> bool:
    """Is the verdict another one than that on record? Where there is none, there is nothing to differ."""
    return entry["verdict"] != entry["recorded"] and "needs data" not in (entry["verdict"], entry["recorded"])


def counts(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many claims of each paper have each verdict."""
    table: dict[str, dict[str, int]] = {}
    for entry in rows:
        of_paper = table.setdefault(entry["paper"], {})
        of_paper[entry["verdict"]] = of_paper.get(entry["verdict"], 0) + 1
    return table
