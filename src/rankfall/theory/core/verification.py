"""Verification: what results predict, compared with a run or a limit, one verdict for each prediction."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rankfall._naming import unknown
from rankfall.judge import Interval, Verdict, at_most
from rankfall.theory.core.belonging import belonging
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.result import Kind, Prediction, Relation
from rankfall.theory.core.shown import Shown

if TYPE_CHECKING:
    from rich.table import Table

SINGLE = 1e-3  # what a run in single precision is allowed at the least
COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.FAILS: "red",
    Verdict.OUTSIDE: "yellow",
    Verdict.NOT_MEASURED: "dim",
}


@dataclass(frozen=True)
class Judged:
    """A prediction and what was measured.

    - `result`, `kind`: who predicts it, and how far to trust that; `kind` is None, and the result
        "evidence", where it is asked whether the run or limit belongs here.
    - `verdict`: `HOLDS`, `FAILS`, `OUTSIDE` or `NOT_MEASURED`.
    - `error`: what the tolerance bounds, see `Prediction`; `note`: why it was not measured.
    """

    result: str
    kind: Kind | None
    prediction: Prediction
    verdict: Verdict
    predicted: np.ndarray | None = None
    measured: np.ndarray | None = None
    error: float = float("nan")
    tolerance: Interval | None = None
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Is the error within the tolerance, whether or not the hypotheses hold?"""
        return self.tolerance is not None and bool(self.tolerance.contains(self.error))

    @property
    def outside(self) -> "Judged":
        """The same where the result does not quite apply: then it neither holds nor fails."""
        return self if self.verdict is Verdict.NOT_MEASURED else replace(self, verdict=Verdict.OUTSIDE)


def judged(result: str, kind: Kind | None, prediction: Prediction, evidence: Evidence) -> Judged:
    """Compare a prediction with the evidence."""
    try:
        measured = np.asarray(prediction.measure(evidence), dtype=float)
        predicted = prediction.predicted(evidence)
        tolerance = prediction.allowed(evidence)
    except Unmeasurable as reason:
        return Judged(result, kind, prediction, Verdict.NOT_MEASURED, note=str(reason))
    if evidence.network.dtype == np.float32 and tolerance.high < SINGLE:
        tolerance = at_most(SINGLE, f"single precision; otherwise: {tolerance.because}")
    if measured.size == predicted.size:  # datasets drop dimensions of length one
        measured = measured.reshape(predicted.shape)
    error = prediction.error(predicted, measured)
    verdict = Verdict.HOLDS if tolerance.contains(error) else Verdict.FAILS
    return Judged(result, kind, prediction, verdict, predicted, measured, error, tolerance)


class Verification(Shown):
    """The verdicts on a run or a limit, one for each prediction; print it, or go through it.

    Those on a run also know its recorded `times`, and what they are times of: its `axis`.
    """

    def __init__(self, evidence: Evidence, verdicts: Iterable[Judged]):
        own = [judged("evidence", None, prediction, evidence) for prediction in belonging(evidence)]
        self.verdicts = (*own, *verdicts)
        self.axis = "" if evidence.is_limit else evidence.axis
        recorded = None if evidence.is_limit else evidence.run.dataset[self.axis].values
        self.times = None if recorded is None else np.asarray(recorded, dtype=float)

    def __iter__(self) -> Iterator[Judged]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, name: str) -> Judged:
        """The verdict on the prediction of that name; "result: prediction" where several share it."""
        full = {f"{v.result}: {v.prediction.name}": v for v in self}
        if name in full:
            return full[name]
        found = [key for key, v in full.items() if v.prediction.name == name]
        if len(found) > 1:
            raise ValueError(f"several results predict {name!r}: say which, of {', '.join(found)}.")
        if not found:
            raise unknown("prediction", name, full)
        return full[found[0]]

    @property
    def verdict(self) -> Verdict:
        """`FAILS` if something fails, `HOLDS` if something holds and nothing fails, else what is left.

        Conjectures may fail: they count only where nothing but conjectures was asked about.
        """
        asked = [v for v in self if v.kind is not None or v.verdict is Verdict.FAILS]
        proved = [v for v in asked if v.kind is not Kind.CONJECTURE]
        conjectures = all(v.kind is Kind.CONJECTURE for v in self if v.kind is not None)
        found = {v.verdict for v in (asked if conjectures else proved)}
        order = (Verdict.FAILS, Verdict.HOLDS, Verdict.OUTSIDE)
        return next((v for v in order if v in found), Verdict.NOT_MEASURED)

    def _rows(self) -> list[tuple[str, ...]]:
        head = ("result", "prediction", "predicted", "measured", "error", "tolerance", "verdict")
        return [head, *(_row(v) for v in self)]

    def __rich__(self) -> "Table":
        colours = [COLOURS[v.verdict] for v in self]
        return self._table(f"Verdict: {self.verdict}", (2, 5, 2, 2, 1, 4, 3), 6, colours)


def _row(v: Judged) -> tuple[str, ...]:
    verdict = str(v.verdict)
    if v.verdict is Verdict.OUTSIDE:
        verdict += ": agrees" if v.agrees else ": differs"
    return (
        v.result,
        v.prediction.says,
        _told(v.predicted, v.prediction.relation),
        _told(v.measured),
        "" if v.tolerance is None else f"{v.error:.2g}",
        "" if v.tolerance is None else f"{v.tolerance.high:.2g}: {v.tolerance.because}",
        f"{verdict}: {v.note}" if v.note else verdict,
    )


def _told(value: np.ndarray | None, relation: Relation = Relation.EQUALS) -> str:
    """A number, or the range of an array."""
    if value is None:
        return ""
    if value.size == 1:
        return f"{relation.sign}{float(value.ravel()[0]):.6g}"
    shape = "x".join(map(str, value.shape))
    return f"{relation.sign}{value.min():.4g} to {value.max():.4g} ({shape})"
