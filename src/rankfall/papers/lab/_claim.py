"""Claims: sentences of a paper that can be false, the interval that would make each true, and a verdict.

A claim is declared apart from the runs. Judging it takes the runs of its experiment, measures one number
(or several, one for each seed say), and asks whether every one of them lies in the interval. Where a claim
rests on certified limits, the runs bring the certificates with them: files that anybody can check.
"""

import re
from dataclasses import dataclass

import xarray as xr

from rankfall.judge import Check, Interval, Measure, Measured, Verdict
from rankfall.papers.lab._mistake import Mistake, need, need_tuple

VERDICTS = (  # those of claims, as a page shows them
    Verdict.REPRODUCED,
    Verdict.NOT_REPRODUCED,
    Verdict.REFUTED,
    Verdict.OUTSIDE,
    Verdict.NEEDS_DATA,
)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and what would make it true.

    - `id`: its name within the paper, which it keeps for ever: "rank-two".
    - `sentence`: what is claimed, in our words.
    - `source`: version of the paper and place in it: "TMLR, Fig. 3a". "rankfall" for a finding of our own.
    - `metric`: what is measured, in words and symbols, with its unit.
    - `measure`: takes it from the runs of the experiment (a dataset with the dimension "seed"): a number or
        an array, every entry of which has to lie in `expected`.
    - `expected`: the interval, with the reason for its ends: `at_most`, `at_least`, `near`, `between`.
    - `recorded`: the verdict on record, one of `VERDICTS` or its text, such as "refuted"; `rankfall
        reproduce` fails when another one comes out.
    - `hypotheses`: what the claim supposes about the runs; if one does not hold the claim is outside them.
    - `certificate`: a check that, where the claim fails, shows that it is false and not merely missed.
    - `proofs`: the names of the certificates that the claim rests on, see `lab.with_certificates`.
    - `form`: how to write the measured numbers.
    - `note`: what a reader should know to judge the verdict.
    """

    id: str
    sentence: str
    source: str
    metric: str
    measure: Measure
    expected: Interval
    recorded: Verdict = Verdict.REPRODUCED
    hypotheses: tuple[Check, ...] = ()
    certificate: Check | None = None
    proofs: tuple[str, ...] = ()
    form: str = "{:.3g}"
    note: str = ""

    def __post_init__(self) -> None:
        if not (isinstance(self.id, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.id)):
            raise Mistake(
                "the id of a claim is words of small letters and digits with hyphens between them, such as "
                f"rank-two; {self.id!r} is not."
            )
        if self.recorded not in VERDICTS:
            known = ", ".join(repr(str(verdict)) for verdict in VERDICTS)
            raise Mistake(
                f"the verdict on record of {self.id} is {self.recorded!r}: it must be one of {known}."
            )
        object.__setattr__(self, "recorded", Verdict(self.recorded))  # which may be given as text
        need(callable(self.measure), f"the measure of {self.id}", "a function of the runs", self.measure)
        need(
            isinstance(self.expected, Interval),
            f"what is expected of {self.id}",
            "an interval with its reason, such as at_most(2, 'the conjecture')",
            self.expected,
        )
        need_tuple(self.hypotheses, f"the hypotheses of {self.id}", Check)
        need_tuple(self.proofs, f"the proofs of {self.id}", str)
        whole = isinstance(self.certificate, Check | None)
        need(whole, f"the certificate of {self.id}", "a Check", self.certificate)

    def judge(self, runs: xr.Dataset | None) -> "Judged":
        """Measure, compare, and give the verdict; without runs the claim needs data."""
        if runs is None:
            return Judged(Verdict.NEEDS_DATA)
        measured = Check(self.metric, self.measure, self.expected, self.form).on(runs)
        supposed = tuple(check.on(runs) for check in self.hypotheses)
        if not all(check.holds for check in supposed):
            return Judged(Verdict.OUTSIDE, measured, supposed)
        if measured.holds:
            return Judged(Verdict.REPRODUCED, measured, supposed)
        proof = self.certificate.on(runs) if self.certificate is not None else None
        refuted = proof is not None and proof.holds
        verdict = Verdict.REFUTED if refuted else Verdict.NOT_REPRODUCED
        return Judged(verdict, measured, supposed, proof)


@dataclass(frozen=True)
class Judged:
    """What became of a claim: the verdict, and the numbers behind it."""

    verdict: Verdict
    measured: Measured | None = None
    hypotheses: tuple[Measured, ...] = ()
    certificate: Measured | None = None
