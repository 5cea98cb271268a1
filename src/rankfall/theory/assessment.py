"""assess: which results speak about a network, data and a loss, what they foresee, and whether it holds."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rankfall.data import Data
from rankfall.dynamics.problem import check
from rankfall.limits import Limit
from rankfall.loss import Loss, named
from rankfall.measure import loss as loss_measure
from rankfall.measure import weights
from rankfall.naming import unknown
from rankfall.network import Network
from rankfall.progress import progress
from rankfall.theory.advice import advise
from rankfall.theory.evidence import Evidence, Unmeasurable
from rankfall.theory.result import (
    APPLIES,
    DOES_NOT,
    NOT_EXAMINED,
    UP_TO,
    Advice,
    Hypothesis,
    Prediction,
    Result,
    Tolerance,
    at_most,
)
from rankfall.theory.shown import Shown
from rankfall.theory.situation import Situation
from rankfall.theory.watch import watched
from rankfall.trajectory import Trajectory

if TYPE_CHECKING:
    from rich.table import Table

HOLDS = "holds"
FAILS = "fails"
OUTSIDE = "outside its hypotheses"
NOT_MEASURED = "not measured"
SINGLE = 1e-3  # what a run in single precision is allowed at the least
COLOURS = {
    APPLIES: "green", UP_TO: "yellow", DOES_NOT: "dim", NOT_EXAMINED: "magenta",
    HOLDS: "green", FAILS: "red", OUTSIDE: "yellow", NOT_MEASURED: "dim",
}  # fmt: skip


class Stopped(StrEnum):
    """Why an assessment ended early."""

    TIME = "the time was spent"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Verdict:
    """A prediction beside what was measured.

    - `verdict`: "holds", "fails", "outside its hypotheses" or "not measured".
    - `error`: what the tolerance bounds, see `Prediction`; `note`: why it was not measured; `kind`: that of
        the result.
    """

    result: str
    prediction: Prediction
    verdict: str
    predicted: np.ndarray | None = None
    measured: np.ndarray | None = None
    error: float = float("nan")
    tolerance: Tolerance | None = None
    note: str = ""
    kind: str = "theorem"

    @property
    def agrees(self) -> bool:
        """Is the error within the tolerance, whether or not the hypotheses hold?"""
        return self.tolerance is not None and self.error <= self.tolerance.value


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

    @property
    def violated(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that do not hold."""
        return tuple(h for h in self.hypotheses if not h.holds)

    @property
    def status(self) -> str:
        """ "applies", "applies up to a violation", "does not apply" or "not examined"."""
        if self.stopped is not None:
            return NOT_EXAMINED
        if not self.violated:
            return APPLIES
        return UP_TO if all(h.near for h in self.violated) else DOES_NOT

    @property
    def why(self) -> str:
        """Why it was not examined, or the violated hypotheses: the decisive ones if it does not apply."""
        if self.stopped is not None:
            return str(self.stopped)
        decisive = [h for h in self.violated if self.status == UP_TO or not h.near]
        return "; ".join(map(str, decisive))

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """What the result foresees; nothing unless it applies, or does so up to a violation."""
        return tuple(self.result.predictions(self.situation)) if self.speaks else ()

    @property
    def speaks(self) -> bool:
        """Does it apply, perhaps up to a violation?"""
        return self.status in (APPLIES, UP_TO)

    @cached_property
    def advice(self) -> Advice | None:
        """What a practitioner should know; None for nothing."""
        if not self.speaks or self.result.advice is None:
            return None
        text = self.result.advice(self.situation)
        return None if text is None else Advice(self.name, text, self.why)

    def verify(self, evidence: Trajectory | Limit) -> "Verification":
        """Compare every prediction with a run or a limit that started here."""
        known = Evidence(self.situation, evidence)
        return _verification(known, [self])

    def _verdicts(self, evidence: Evidence) -> Iterator[Verdict]:
        """The verdicts, as far as the run was trained in a way that the result speaks about."""
        there = self if evidence.conducted is self.situation else assessed(self.result, evidence.conducted)
        refusal = evidence.refusal(self.result.stochastic)
        if there.status == DOES_NOT:
            refusal = refusal or f"does not apply to this run: {there.why}"
        for prediction in self.predictions:
            if refusal:
                yield Verdict(self.name, prediction, NOT_MEASURED, note=refusal, kind=self.result.kind)
                continue
            verdict = replace(_judge(self.name, prediction, evidence), kind=self.result.kind)
            outside = UP_TO in (self.status, there.status) and verdict.verdict in (HOLDS, FAILS)
            yield replace(verdict, verdict=OUTSIDE) if outside else verdict


def _judge(name: str, prediction: Prediction, evidence: Evidence) -> Verdict:
    try:
        measured = np.asarray(prediction.measure(evidence), dtype=float)
        predicted = prediction.predicted(evidence)
        allowed = prediction.tolerance
        tolerance = allowed if isinstance(allowed, Tolerance) else allowed(evidence)
    except Unmeasurable as reason:
        return Verdict(name, prediction, NOT_MEASURED, note=str(reason))
    if evidence.network.dtype == np.float32 and tolerance.value < SINGLE:
        tolerance = Tolerance(SINGLE, f"single precision; otherwise: {tolerance.because}")
    if measured.size == predicted.size:  # datasets drop dimensions of length one
        measured = measured.reshape(predicted.shape)
    error = prediction.error(predicted, measured)
    verdict = HOLDS if error <= tolerance.value else FAILS  # a NaN fails
    return Verdict(name, prediction, verdict, predicted, measured, error, tolerance)


def _belongs(evidence: Evidence) -> list[Verdict]:
    """Is the evidence of this situation? Its record must be that of its last weights, and of the start."""
    s = evidence.situation
    own = [
        Prediction(
            "belongs here",
            "what was recorded is what the last weights give on these data",
            _recorded,
            _computed,
            Tolerance(1e-6, "both are computed in double precision"),
            scale=_loss_scale(evidence),
        )
    ]
    if not evidence.is_limit and "weights" in evidence.run.dataset and not s.network.has_bias:
        start = np.asarray(weights(s.network))
        own.append(
            Prediction(
                "starts here",
                "the first recorded weights are those of the start",
                start,
                lambda e: e.run["weights"].values[0],
                Tolerance(1e-9, "the same numbers"),
            )
        )
    return [_judge("evidence", prediction, evidence) for prediction in own]


def _loss_scale(e: Evidence) -> float | None:
    """What the last loss is compared with: itself, unless it is a square and may be nothing but rounding."""
    if e.is_limit:
        return 1.0  # margins
    try:
        losses = e.series("loss")
    except Unmeasurable:
        return None
    return max(float(losses[-1]), 1e-10 * float(losses[0])) if e.situation.loss.name == "square" else None


def _recorded(e: Evidence) -> float:
    return float(e.limit.margins.min()) if e.is_limit else float(e.series("loss")[-1])


def _computed(e: Evidence) -> float:
    s = e.situation
    if not e.is_limit:
        return float(loss_measure(e.network, s.data, s.loss))
    f = np.asarray(e.network(s.data.x))
    return float((f if s.loss.name == "square" else s.y * f).min())


def _verification(evidence: Evidence, results: Sequence[Assessed]) -> "Verification":
    verdicts = [*_belongs(evidence), *(v for a in results for v in a._verdicts(evidence))]
    if evidence.is_limit:
        return Verification(verdicts)
    times = np.asarray(evidence.run.dataset[evidence.axis].values, dtype=float)
    return Verification(verdicts, evidence.axis, times)


class Verification(Shown):
    """The verdicts on a run or a limit, one for each prediction; print it, or go through it.

    Those on a run also know its recorded `times`, and what they are times of: its `axis`.
    """

    def __init__(self, verdicts: Sequence[Verdict], axis: str = "", times: np.ndarray | None = None):
        self.verdicts = tuple(verdicts)
        self.axis, self.times = axis, times

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, name: str) -> Verdict:
        """The verdict on the prediction of that name; "result: prediction" where several share it."""
        full = {f"{v.result}: {v.prediction.name}": v for v in self}
        if name in full:
            return full[name]
        found = [key for key, v in full.items() if v.prediction.name == name]
        if len(found) > 1:
            raise ValueError(f"several results foresee {name!r}: say which, of {', '.join(found)}.")
        if not found:
            raise unknown("prediction", name, full)
        return full[found[0]]

    @property
    def verdict(self) -> str:
        """ "fails" if something fails, "holds" if something holds and nothing fails, else what is left.

        Conjectures may fail: they count only where nothing but conjectures was asked about.
        """
        judged = [v for v in self if v.result != "evidence" or v.verdict == FAILS]
        proved = [v for v in judged if v.kind != "conjecture"]
        conjectures = all(v.kind == "conjecture" for v in self if v.result != "evidence")
        found = {v.verdict for v in (judged if conjectures else proved)}
        return next((v for v in (FAILS, HOLDS, OUTSIDE) if v in found), NOT_MEASURED)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("result", "prediction", "predicted", "measured", "error", "tolerance", "verdict")
        ]
        for v in self:
            error = "" if v.tolerance is None else f"{v.error:.2g}"
            allowed = "" if v.tolerance is None else f"{v.tolerance.value:.2g}: {v.tolerance.because}"
            verdict = v.verdict + ({True: ": agrees", False: ": differs"}[v.agrees] * (v.verdict == OUTSIDE))
            rows.append(
                (
                    v.result,
                    v.prediction.says,
                    _told(v.predicted, v.prediction.relation),
                    _told(v.measured),
                    error,
                    allowed,
                    f"{verdict}: {v.note}" if v.note else verdict,
                )
            )
        return rows

    def __rich__(self) -> "Table":
        return self._table(f"Verdict: {self.verdict}", (2, 5, 2, 2, 1, 4, 3), 6, COLOURS)


def _told(value: np.ndarray | None, relation: str = "equals") -> str:
    """A number, or the range of an array."""
    if value is None:
        return ""
    sign = {"at most": "<= ", "at least": ">= "}.get(relation, "")
    if value.size == 1:
        return f"{sign}{float(value.ravel()[0]):.6g}"
    return f"{sign}{value.min():.4g} to {value.max():.4g} ({'x'.join(map(str, value.shape))})"


class Assessment(Shown):
    """Every result in one situation; `assessment["frei_flow"]` is one of them.

    `stopped` says why it ended early: "the time was spent" or "interrupted"; None if everything was examined.
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

    @property
    def speaking(self) -> tuple[Assessed, ...]:
        """Those that apply, then those that apply up to a violation."""
        return tuple(a for status in (APPLIES, UP_TO) for a in self if a.status == status)

    def verify(self, evidence: Trajectory | Limit) -> Verification:
        """Compare the predictions of all results that speak with a run or a limit that started here.

        Results that were not examined are left out.
        """
        known = Evidence(self.situation, evidence)
        return _verification(known, self.speaking)

    @property
    def silent(self) -> tuple[Assessed, ...]:
        """Those that do not apply."""
        return tuple(a for a in self if a.status == DOES_NOT)

    @property
    def unexamined(self) -> tuple[Assessed, ...]:
        """Those that were not examined."""
        return tuple(a for a in self if a.status == NOT_EXAMINED)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("result", "about", "status", "predicts")]
        for a in (*self.speaking, *self.silent, *self.unexamined):
            status = a.status + (f": {a.why}" if a.why else "")
            predicts = "\n".join(f"- {p.says}" for p in a.predictions)
            rows.append((f"{a.name}\n{a.result.source}", a.result.title, status, predicts))
        return rows

    def __rich__(self) -> "Table":
        from rich.text import Text

        s = self.situation
        how = "gradient flow" if s.step is None else f"descent with steps of {s.step:g}"
        table = self._table(f"{s.network!r}\non {s.data!r}, {s.loss}, {how}", (4, 4, 5, 7), 2, COLOURS)
        table.caption, table.caption_justify = Text(self.missing) if self.missing else None, "left"
        return table


def assess(
    network: Network,
    data: Data,
    loss: Loss | str = "logistic",
    *,
    step: float | None = None,
    penalty: float = 0.0,
    seconds: float = np.inf,
    show: bool = True,
) -> Assessment:
    """Which results speak about training `network` on `data`, and what do they foresee?

    **Arguments:**

    - `network`: where training starts; `data`, `loss`: what is fitted, and how.
    - `step`: the step size of gradient descent; None for gradient flow.
    - `penalty`: the coefficient $\\lambda$ of an L2 penalty $\\frac\\lambda2|\\theta|^2$ in the loss.
    - `seconds`: how long it may take. Outside of the main thread, and on Windows, a result that was begun in
        time is finished.
    - `show`: show progress after two seconds.

    **Returns:** an `Assessment`: print it, `.verify` a run or a limit with it. When the time is spent, or
    after Ctrl-C, the remaining results have the status "not examined", and `.missing` says how to go on.
    """
    from rankfall.theory.results import RESULTS

    situation = checked(network, data, loss, step=step, penalty=penalty, seconds=seconds)
    return _examine(RESULTS, situation, seconds, show)


def checked(
    network: Network,
    data: Data,
    loss: Loss | str = "logistic",
    *,
    step: float | None = None,
    penalty: float = 0.0,
    seconds: float = np.inf,
) -> Situation:
    """The situation that `assess` examines; a ValueError where it cannot."""
    loss = named(loss)
    check(network, data, loss)
    if not 0 <= penalty < np.inf:
        raise ValueError(f"the penalty must be finite and not negative, but is {penalty}.")
    if step is not None and not 0 < step < np.inf:
        raise ValueError(f"the step size must be positive and finite, not {step}.")
    if not seconds > 0:
        raise ValueError(f"the seconds must be positive, not {seconds}.")
    return Situation(network.astype(np.float64), data, loss, step, penalty)


def _examine(results: Mapping[str, Result], situation: Situation, seconds: float, show: bool) -> Assessment:
    """Examine one result after the other, until the time is spent or somebody presses Ctrl-C."""
    deadline = time.monotonic() + seconds
    tasks = [*results, "advice"]
    known: list[Assessed] = []
    stopped = None
    with progress("assess", show) as shown:

        def look() -> None:
            if time.monotonic() >= deadline:
                raise KeyboardInterrupt  # the time is up: no different from a person who has had enough
            shown.update(len(known) / len(tasks), tasks[len(known)])

        try:
            with watched(look):
                for result in results.values():
                    look()
                    here = assessed(result, situation)
                    _ = here.predictions, here.advice  # computed now, while time and Ctrl-C are heeded
                    known.append(here)
                _ = Assessment(situation, known).advice
        except KeyboardInterrupt:
            stopped = Stopped.TIME if time.monotonic() >= deadline else Stopped.INTERRUPTED
    left = list(results.values())[len(known) :]
    return Assessment(situation, [*known, *(Assessed(r, situation, (), stopped) for r in left)], stopped)


def assessed(result: Result, situation: Situation) -> Assessed:
    """One result in a situation."""
    hypotheses = tuple(result.hypotheses(situation))
    if situation.penalty and not result.penalised:
        hypotheses += (at_most("no L2 penalty", situation.penalty, 0.0),)
    return Assessed(result, situation, hypotheses)
