"""`rankfall reproduce`: the papers, claim by claim."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankfall.cli.output import NO_ANSWER, say

if TYPE_CHECKING:
    from rankfall.papers import Outcome


Paper = Annotated[
    str | None, typer.Argument(help="zhang, frei, le, ..., or a file of your own, mine.py (default: all).")
]
Figure = Annotated[str | None, typer.Option(help="One figure of the paper; --list names them.")]
ClaimName = Annotated[
    str | None, typer.Option(help="One claim, such as frei/rank-two; --list has all of them.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change the setting of one figure: --set n=20 --set slope=0.3."),
]
Seeds = Annotated[int | None, typer.Option(help="The number of seeds where something is drawn.")]
Workers = Annotated[int | None, typer.Option(help="The number of processes (default: one per core).")]
Again = Annotated[bool, typer.Option("--again", help="Run also what was run before.")]
Full = Annotated[
    bool, typer.Option("--full", help="Run also what takes long, on real data (rankfall data get).")
]
Listed = Annotated[bool, typer.Option("--list", help="List the figures and claims; run nothing.")]
Out = Annotated[Path, typer.Option(help="The folder for the page, and for what is kept.")]


def reproduce(
    paper: Paper = None,
    figure: Figure = None,
    claim: ClaimName = None,
    changes: Changes = None,
    seeds: Seeds = None,
    workers: Workers = None,
    again: Again = False,
    full: Full = False,
    listed: Listed = False,
    out: Out = Path("report"),
) -> None:
    """Re-run the papers claim by claim, and write a page of what holds.

    Exit code 0: every verdict is the one on record; 1: one is not, or a run failed; 2: the input is wrong; 3:
    interrupted, and everything that was finished is kept.
    """
    from rich.console import Console

    from rankfall.papers.lab import Row, differs
    from rankfall.papers.reproduction import choose, kept
    from rankfall.papers.reproduction import reproduce as run
    from rankfall.report import listing, outcome_table, summary, write

    console = Console()
    chosen = choose(paper, figure, claim, changes or ())
    wanted = None if claim is None else f"{chosen[0][0].name}/{claim.rpartition('/')[2]}"
    if listed:
        console.print(listing(list(kept(chosen, out, seeds)), claim))
        return
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be 1 or more, not {workers}.")
    start = time.monotonic()
    outcomes: list[Outcome] = []
    rows: list[Row] = []
    try:
        for outcome in run(chosen, out, seeds, workers, again, full):
            outcomes.append(outcome)
            rows += (asked := [row for row in outcome.rows if wanted in (None, row.id)])
            say(console, f"\n[{len(outcomes)} of {len(chosen)}] {_headline(outcome)}")
            console.print(outcome_table(asked))
    except KeyboardInterrupt:
        done = f"{len(outcomes)} of {len(chosen)} experiments are finished"
        say(console, f"\nStopped: {done}, and all runs that ended are kept in {out}. Run it again to go on.")
        raise typer.Exit(NO_ANSWER) from None
    except RuntimeError as error:
        print(f"rankfall: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        if outcomes:
            page = write(outcomes, out, time.monotonic() - start)
    say(console, "")
    console.print(summary(rows))
    say(console, f"The page is {page}; the claims are also in claims.json and claims.md in that folder.")
    if any(map(differs, rows)):
        raise typer.Exit(1)


def _headline(outcome: "Outcome") -> str:
    """Which experiment this is, and whether its setting is the paper's."""
    experiment = outcome.experiment
    name = f"{outcome.paper.name} {experiment.name}: {experiment.title} ({outcome.news})"
    return name + (f"\nThe setting is not the paper's: {experiment.differs}." if experiment.differs else "")
