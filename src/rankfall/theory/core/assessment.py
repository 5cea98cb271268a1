"""Assessment: which results speak about a situation, what they predict, and why the others are silent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from rankfall._naming import unknown
from rankfall.judge import Verdict
from rankfall.limits import Limit
from rankfall.theory.core.advice import advise
from rankfall.theory.core.conditions import no_penalty
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.hypothesis import Hypothesis
from rankfall.theory.core.result import Advice, Prediction, Result
from rankfall.theory.core.shown import Shown
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.verification import Judged, Verification, judged
from rankfall.trajectory import Trajectory

if TYPE_CHECKING:
    from rich.table import Table


class Status(StrEnum):
    """Does a result speak about a situation?"""

    APPLIES = "applies"
    UP_TO_A_VIOLATION = "applies up to a violation"
    DOES_NOT_APPLY = "does not apply"
    NOT_EXAMINED = "not examined"


COLOURS = {
    Status.APPLIES: "green",
    Status.UP_TO_A_VIOLATION: "yellow",
    Status.DOES_NOT_APPLY: "dim",
    Status.NOT_EXAMINED: "magenta",
}


class Stopped(StrEnum):
    """Why an assessment ended early."""

    TIME = "the time was spent"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Assessed:
    """A result in a situation: `status`, the measured `hypotheses`, and the `predictions`.

    `stopped` says why it was not examined; None if it was.
    """

    result: Result
    situation: Situation
    hypotheses: tuple[Hypothesis, ...]
    stopped: Stopped | None = None

    @property
    def name(self) -> str:
        """The name of the result."""
        return self.result.name

    def hypothesis(self, id: str) -> Hypothesis:
        """The hypothesis with this id: `answer["frei_flow"].hypothesis("near-orthogonal")`."""
        known = {hypothesis.id: hypothesis for hypothesis in self.hypotheses}
        if id not in known:
            raise unknown("hypothesis", id, known)
        return known[id]

    @property
    def violated(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that do not hold."""
        return tuple(h for h in self.hypotheses if not h.holds)

    @property
    def status(self) -> Status:
        """Does the result speak about the situation?"""
        if self.stopped is not None:
            return Status.NOT_EXAMINED
        if not self.violated:
            return Status.APPLIES
        return Status.UP_TO_A_VIOLATION if all(h.near for h in self.violated) else Status.DOES_NOT_APPLY

    @property
    def why(self) -> str:
        """Why it was not examined, or the violated hypotheses: the decisive ones if it does not apply."""
        if self.stopped is not None:
            return str(self.stopped)
        decisive = [h for h in self.violated if self.status is Status.UP_TO_A_VIOLATION or not h.near]
        return "; ".join(map(str, decisive))

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """What the result predicts; nothing unless it applies, or does so up to a violation."""
        return tuple(self.result.predictions(self.situation)) if self.speaks else ()

    @property
    def speaks(self) -> bool:
        """Does it apply, perhaps up to a violation?"""
        return self.status in (Status.APPLIES, Status.UP_TO_A_VIOLATION)

    @cached_property
    def advice(self) -> Advice | None:
        """What a practitioner should know; None for nothing."""
        if not self.speaks or self.result.advice is None:
            return None
        text = self.result.advice(self.situation)
        return None if text is None else Advice(self.result.subject, text, self.why)

    def verify(self, evidence: Trajectory | Limit) -> Verification:
        """Compare every prediction with a run or a limit that started here."""
        known = Evidence(self.situation, evidence)
        return Verification(known, self.verdicts(known))

    def verdicts(self, evidence: Evidence) -> Iterator[Judged]:
        """The verdicts, as far as the run was trained in a way that the result speaks about."""
        name, kind = self.name, self.result.kind
        there = self if evidence.conducted is self.situation else assessed(self.result, evidence.conducted)
        refusal = evidence.refusal(self.result.stochastic)
        if there.status is Status.DOES_NOT_APPLY:
            refusal = refusal or f"does not apply to this run: {there.why}"
        for prediction in self.predictions:
            if refusal:
                yield Judged(name, kind, prediction, Verdict.NOT_MEASURED, note=refusal)
                continue
            found = judged(name, kind, prediction, evidence)
            yield found.outside if Status.UP_TO_A_VIOLATION in (self.status, there.status) else found


def assessed(result: Result, situation: Situation) -> Assessed:
    """One result in a situation."""
    hypotheses = tuple(result.hypotheses(situation))
    if situation.penalty and not result.penalised:
        hypotheses += (no_penalty(situation),)
    return Assessed(result, situation, hypotheses)


class Assessment(Shown):
    """Every result in one situation; `assessment["frei_flow"]` is one of them.

    `stopped` says why it ended early; None if everything was examined.
    """

    def __init__(self, situation: Situation, assessed: Sequence[Assessed], stopped: Stopped | None = None):
        self.situation = situation
        self.assessed = tuple(assessed)
        self.stopped = stopped

    def __iter__(self) -> Iterator[Assessed]:
        return iter(self.assessed)

    def __len__(self) -> int:
        return len(self.assessed)

    def __getitem__(self, name: str) -> Assessed:
        known = {a.name: a for a in self}
        if name not in known:
            raise unknown("result", name, known)
        return known[name]

    @property
    def advice(self) -> str:
        """A plain sentence or two that a practitioner can act on."""
        found = [a.advice for a in self.speaking if a.advice is not None]
        return self.missing if self.stopped and not found else advise(self.situation, found)

    @property
    def missing(self) -> str:
        """What was not examined, why, and how to go on; empty if everything was examined."""
        if self.stopped is None:
            return ""
        again = "Give `assess` more `seconds`" if self.stopped is Stopped.TIME else "Call `assess` again"
        if not self.unexamined:
            return f"The advice is missing: {self.stopped}. {again}."
        return (
            f"{len(self.unexamined)} of {len(self)} results were not examined: {self.stopped}. {again}, or "
            "examine one of them: "
            f"`theory.assessed(theory.RESULTS[{self.unexamined[0].name!r}], answer.situation)`."
        )

    def _having(self, *statuses: Status) -> tuple[Assessed, ...]:
        """Those with the first of these statuses, then those with the next, and so on."""
        return tuple(a for status in statuses for a in self if a.status is status)

    @property
    def speaking(self) -> tuple[Assessed, ...]:
        """Those that apply, then those that apply up to a violation."""
        return self._having(Status.APPLIES, Status.UP_TO_A_VIOLATION)

    @property
    def silent(self) -> tuple[Assessed, ...]:
        """Those that do not apply."""
        return self._having(Status.DOES_NOT_APPLY)

    @property
    def unexamined(self) -> tuple[Assessed, ...]:
        """Those that were not examined."""
        return self._having(Status.NOT_EXAMINED)

    def verify(self, evidence: Trajectory | Limit) -> Verification:
        """Compare the predictions of all results that speak with a run or a limit that started here.

        Results that were not examined are left out.
        """
        known = Evidence(self.situation, evidence)
        return Verification(known, (verdict for a in self.speaking for verdict in a.verdicts(known)))

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("result", "about", "status", "predicts")]
        for a in self._having(*Status):
            status = a.status + (f": {a.why}" if a.why else "")
            predicts = "\n".join(f"- {p.says}" for p in a.predictions)
            rows.append((f"{a.name}\n{a.result.source}", a.result.title, status, predicts))
        return rows

    def __rich__(self) -> "Table":
        from rich.text import Text

        s = self.situation
        how = "gradient flow" if s.step is None else f"descent with steps of {s.step:g}"
        colours = [COLOURS[a.status] for a in self._having(*Status)]
        table = self._table(f"{s.network!r}\non {s.data!r}, {s.loss}, {how}", (4, 4, 5, 7), 2, colours)
        table.caption, table.caption_justify = Text(self.missing) if self.missing else None, "left"
        return table
