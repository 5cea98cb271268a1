"""What became of an experiment: a row per claim, its figure, and certificates of its limits."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import xarray as xr

from rankfall.judge import Measured, Verdict
from rankfall.papers.lab._claim import Claim, Judged
from rankfall.papers.lab._experiment import Experiment, Paper
from rankfall.papers.lab._mistake import in_words
from rankfall.papers.lab._proofs import CERTIFICATES, packed, unpacked


@dataclass(frozen=True)
class CheckRow:
    """A hypothesis or a certificate of a claim: what is needed, what was measured, and whether it holds."""

    metric: str
    expected: str
    because: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Row:
    """A claim and its verdict, as plain values: what JSON, the page and the tables show.

    - `id`: "frei/rank-two"; `setting`: what is not the paper's, empty if nothing is.
    - `values`: the spread of the numbers, as "low", "median", "high", "within" and "of".
    - `certificates`: the files of the certificates on which the claim rests.
    """

    id: str
    paper: str
    figure: str
    sentence: str
    source: str
    metric: str
    expected: str
    because: str
    seeds: int
    measured: str
    values: dict[str, float]
    verdict: Verdict
    recorded: Verdict
    hypotheses: tuple[CheckRow, ...]
    certificate: CheckRow | None
    needs: str
    note: str
    command: str
    setting: str = ""
    certificates: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def anchor(self) -> str:
        """The row's place on a page."""
        return re.sub(r"[^a-zA-Z0-9]+", "-", f"{self.id} {self.setting}").strip("-")

    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Row":
        """What `as_json` gave; keys of other versions are left out."""
        known = {each.name for each in fields(cls)}
        kept = {key: value for key, value in told.items() if key in known}
        kept["verdict"], kept["recorded"] = Verdict(told["verdict"]), Verdict(told["recorded"])
        kept["hypotheses"] = tuple(CheckRow(**each) for each in told["hypotheses"])
        kept["certificate"] = None if told["certificate"] is None else CheckRow(**told["certificate"])
        kept["certificates"] = tuple(told.get("certificates", ()))
        return cls(**kept)


@dataclass(frozen=True)
class Outcome:
    """An experiment with its verdicts.

    - `paper`, `experiment`: what was run; `seeds`: the number of seeds.
    - `rows`: one for each claim.
    - `figure`: the figure as SVG; empty where there is none.
    - `seconds`: what the runs took, added over all seeds.
    - `news`: what was done now, and why: "run: new", "from the cache", "judged again: ...".
    - `certificates`: by their files, as "certificates/....json", each `packed`; rows refer to them.
    - `current`: is it what the present code finds? Else it was kept from before a change.
    """

    paper: Paper
    experiment: Experiment[Any]
    seeds: int
    rows: tuple[Row, ...]
    figure: str = ""
    seconds: float = 0.0
    news: str = ""
    certificates: dict[str, str] = field(default_factory=dict)
    current: bool = True


def judged_rows(paper: Paper, experiment: Experiment[Any], runs: xr.Dataset | None) -> tuple[Row, ...]:
    """Judge every claim of the experiment."""
    proofs = _proofs(paper, experiment, runs)
    runs = None if runs is None else runs.drop_vars(CERTIFICATES, errors="ignore")
    found = []
    for claim in experiment.claims:
        supposing = " or of one of its hypotheses" if claim.hypotheses else ""
        with in_words(paper.file, f"the measure of the claim {claim.id}{supposing} does not run"):
            judged = claim.judge(runs)
        own = {file: document for file, (name, document) in proofs.items() if name in claim.proofs}
        files = _refuting(own) if judged.verdict is Verdict.REFUTED else list(own)
        found.append(_row(paper, experiment, claim, judged, runs, tuple(files)))
    return tuple(found)


def _refuting(own: Mapping[str, Any]) -> list[str]:
    """Those of the certificates that claim to refute something; all, if none does."""
    found = [file for file, told in own.items() if any(each["claim"] == "refutes" for each in told["claims"])]
    return found or list(own)


def certificates_of(paper: Paper, experiment: Experiment[Any], runs: xr.Dataset) -> dict[str, str]:
    """The certificates that the claims of the experiment rest on, by file."""
    wanted = {name for claim in experiment.claims for name in claim.proofs}
    found = _proofs(paper, experiment, runs)
    return {file: packed(document) for file, (name, document) in found.items() if name in wanted}


def _proofs(paper: Paper, experiment: Experiment[Any], runs: xr.Dataset | None) -> dict[str, tuple[str, Any]]:
    """All certificates that the runs bring: by file, the name within the run, and the document."""
    if runs is None or CERTIFICATES not in runs:
        return {}
    found: dict[str, tuple[str, Any]] = {}
    for seed, text in enumerate(np.atleast_1d(runs[CERTIFICATES].values).tolist()):
        for name, document in (unpacked(text) if text else {}).items():
            full = f"{paper.name} {experiment.name} {experiment.differs} {name} seed {seed}"
            plain = re.sub(r"[^a-zA-Z0-9.]+", "-", full)
            found[f"certificates/{plain}.json"] = (name, document)
    return found


def _row(
    paper: Paper,
    experiment: Experiment[Any],
    claim: Claim,
    judged: Judged,
    runs: xr.Dataset | None,
    certificates: tuple[str, ...],
) -> Row:
    measured, name = judged.measured, f"{paper.name}/{claim.id}"
    return Row(
        id=name,
        paper=paper.name,
        figure=experiment.name,
        sentence=claim.sentence,
        source=claim.source,
        metric=claim.metric,
        expected=claim.expected.told,
        because=claim.expected.because,
        seeds=0 if runs is None else int(runs.sizes["seed"]),
        measured="" if measured is None else str(measured),
        values={} if measured is None else _values(measured),
        verdict=judged.verdict,
        recorded=claim.recorded,
        hypotheses=tuple(_check(check) for check in judged.hypotheses),
        certificate=None if judged.certificate is None else _check(judged.certificate),
        needs=experiment.needs,
        note=claim.note,
        command=_command(paper, claim, experiment),
        setting=experiment.differs,
        certificates=certificates,
    )


def _command(paper: Paper, claim: Claim, experiment: Experiment[Any]) -> str:
    """What runs the claim again, as a shell takes it."""
    which = [paper.file, "--claim", claim.id] if paper.file else ["--claim", f"{paper.name}/{claim.id}"]
    plain = {key: _plain(value) for key, value in experiment.changes.items()}
    changes = [part for key, value in plain.items() for part in ("--set", f"{key}={value}")]
    full = ["--full"] if experiment.needs else []
    return shlex.join(["rankfall", "reproduce", *which, *changes, "--again", *full])


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _values(measured: Measured) -> dict[str, float]:
    """The spread of the numbers; what is not finite is left out, since JSON has no word for it."""
    finite = measured.values[np.isfinite(measured.values)]
    names = ("low", "median", "high")
    numbers = dict(zip(names, np.quantile(finite, (0, 0.5, 1)).tolist(), strict=True)) if finite.size else {}
    return numbers | {"within": int(measured.within.sum()), "of": int(measured.within.size)}


def _check(check: Measured) -> CheckRow:
    return CheckRow(check.metric, check.expected.told, check.expected.because, str(check), check.holds)


def differs(row: Row) -> bool:
    """Is the verdict another than that on record? Without data, or at another setting, there is none."""
    recorded = not row.setting and Verdict.NEEDS_DATA not in (row.verdict, row.recorded)
    return recorded and row.verdict != row.recorded


def counts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """How many claims of each paper have each verdict; at another setting than the paper's none counts."""
    table: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.setting:
            continue
        of_paper = table.setdefault(row.paper, {})
        of_paper[row.verdict] = of_paper.get(row.verdict, 0) + 1
    return table
