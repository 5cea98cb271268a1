"""What all experiments share: settings, claims, checks, and the parts of figures."""

from rankfall.judge import (
    Check,
    Interval,
    Measure,
    Measured,
    Verdict,
    at_least,
    at_most,
    between,
    near,
)
from rankfall.papers.lab._checks import (
    all_certified,
    all_reached,
    number_word,
    orthogonal_enough,
    power_law,
    scientific,
    small_residuals,
    superscript,
)
from rankfall.papers.lab._claim import VERDICTS, Claim, Judged
from rankfall.papers.lab._code import code_of_all, code_of_runs, digest, module_of
from rankfall.papers.lab._drawing import guide, seed_lines
from rankfall.papers.lab._experiment import Experiment, Paper, finished
from rankfall.papers.lab._mistake import in_words, told
from rankfall.papers.lab._outcome import (
    CheckRow,
    Outcome,
    Row,
    certificates_of,
    counts,
    differs,
    judged_rows,
)
from rankfall.papers.lab._proofs import CERTIFICATES, packed, refuting, unpacked, with_certificates
from rankfall.papers.lab._setting import changed, differences, parsed, text_of, values

__all__ = [
    "CERTIFICATES",
    "VERDICTS",
    "Check",
    "CheckRow",
    "Claim",
    "Experiment",
    "Interval",
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
    "digest",
    "finished",
    "guide",
    "in_words",
    "judged_rows",
    "module_of",
    "near",
    "number_word",
    "orthogonal_enough",
    "packed",
    "parsed",
    "power_law",
    "refuting",
    "scientific",
    "seed_lines",
    "small_residuals",
    "superscript",
    "text_of",
    "told",
    "unpacked",
    "values",
    "with_certificates",
]
