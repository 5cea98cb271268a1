"""Claims: sentences of a paper that can be false, what was expected, what was measured, and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.figure import Figure

from rankfall.trajectory import Trajectory

Verdict = Literal["holds", "fails", "outside its hypotheses"]


@dataclass(frozen=True)
class Claim:
    """One sentence, and what became of it.

    - `sentence`: what the paper says, in our words, with the place.
    - `expected`: the number or relation that would make it true, with the tolerance.
    - `measured`: the number that came out.
    - `verdict`: "holds", "fails", or "outside its hypotheses".
    - `note`: what a reader should know to judge the verdict.
    """

    sentence: str
    expected: str
    measured: str
    verdict: Verdict
    note: str = ""


def finished(run: Trajectory) -> Trajectory:
    """The run, if it went to its end: half of one proves nothing, so Ctrl-C in it ends the experiment."""
    if run.settings["outcome"].startswith("interrupted"):
        raise KeyboardInterrupt
    return run


def below(sentence: str, value: float, bound: float, note: str = "", form: str = "{:.2g}") -> Claim:
    """The claim that a number is below a bound."""
    verdict: Verdict = "holds" if value < bound else "fails"
    return Claim(sentence, f"< {form.format(bound)}", form.format(value), verdict, note)


@dataclass(frozen=True)
class Reproduction:
    """What re-running a figure leaves: its claims, and the figures that show them."""

    claims: list[Claim]
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper; `run(full)` makes it again, `full` with more seeds and tighter tolerances."""

    paper: str
    figure: str
    title: str
    run: Callable[[bool], Reproduction]
