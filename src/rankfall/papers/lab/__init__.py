"""What all experiments share: settings, claims, checks, and the parts of figures."""

from rankfall.papers.lab.checks import all_certified, all_reached, orthogonal_enough, power_law
from rankfall.papers.lab.claim import (
    VERDICTS,
    Check,
    Claim,
    Expected,
    Judged,
    Measure,
    Measured,
    Verdict,
    at_least,
    at_most,
    between,
    near,
)
from rankfall.papers.lab.code import code_of_all, code_of_runs
from rankfall.papers.lab.drawing import guide, seed_lines
from rankfall.papers.lab.experiment import Experiment, Paper, finished
from rankfall.papers.lab.outcome import (
    CheckRow,
    Outcome,
    Row,
    certificates_of,
    counts,
    differs,
    judged_rows,
)
from rankfall.papers.lab.proofs import CERTIFICATES, packed, refuting, unpacked, with_certificates
from rankfall.papers.lab.setting import changed, differences, parsed, text_of, values

__all__ = [
    "CERTIFICATES",
    "VERDICTS",
    "Check",
    "CheckRow",
    "Claim",
    "Expected",
    "Experiment",
    "Judged",
    "Measure",
    "Measured",
    "Outcome",
    "Paper",
    "Row",
    "Verdict",
    "all_certified",
    "all_reached",
    "at_least",
    "at_most",
    "between",
    "certificates_of",
    "changed",
    "code_of_all",
    "code_of_runs",
    "counts",
    "differences",
    "differs",
    "finished",
    "guide",
    "judged_rows",
    "near",
    "orthogonal_enough",
    "packed",
    "parsed",
    "power_law",
    "refuting",
    "seed_lines",
    "text_of",
    "unpacked",
    "values",
    "with_certificates",
]
