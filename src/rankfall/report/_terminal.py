"""Claims on a terminal: a table for each experiment, the counts, and the list of what can be run."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rankfall.papers import PAPERS
from rankfall.papers.lab import VERDICTS, Row, Verdict, counts, differs
from rankfall.papers.reproduction import Kept
from rankfall.report._words import WRITTEN_FOR_THE_PAPER

COLOURS = {
    Verdict.REPRODUCED: "green",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.REFUTED: "bold red",
    Verdict.OUTSIDE: "yellow",
    Verdict.NEEDS_DATA: "dim",
}


def outcome_table(rows: Sequence[Row]) -> Table:
    """Claims of an experiment: what is claimed, expected and measured, and the verdict."""
    caption = WRITTEN_FOR_THE_PAPER if any(row.setting for row in rows) else None
    table = Table(show_lines=True, expand=True, caption=caption, caption_justify="left")
    for name, share in (("claim", 6), ("expected", 3), ("measured", 4)):
        table.add_column(name, ratio=share)
    table.add_column("verdict", min_width=14)
    for row in rows:
        sentence = Text.assemble((f"{row.id}\n", "bold"), row.sentence, (f"  {row.source}", "dim"))
        verdict = Text(row.verdict, style=COLOURS[row.verdict])
        if differs(row):
            verdict.append(f"\non record: {row.recorded}", style="bold magenta")
        table.add_row(sentence, Text(row.expected), Text(row.measured), verdict)
    return table


def summary(rows: Sequence[Row]) -> RenderableType:
    """How many claims of each paper have each verdict, and which verdicts are not those on record."""
    table = Table("paper", *(f"[{COLOURS[v]}]{v}" for v in VERDICTS), "claims")
    by_paper, counted = counts(rows), [row for row in rows if not row.setting]
    if not counted:
        return Text("The setting is not the paper's, so that no verdict counts.")
    for name in sorted(by_paper, key=lambda name: (*PAPERS, name).index(name)):  # papers of a user's own last
        found = by_paper[name]
        table.add_row(name, *(str(found.get(v, "")) for v in VERDICTS), str(sum(found.values())))
    total = [str(sum(found.get(v, 0) for found in by_paper.values())) for v in VERDICTS]
    table.add_section()
    table.add_row("all", *total, str(len(counted)))
    differing = [r.id for r in rows if differs(r)]
    record = (
        Text(f"Not the verdict on record: {', '.join(differing)}.", style="bold magenta")
        if differing
        else Text("Every verdict is the one on record.")
    )
    return Group(table, record)


def listing(places: Sequence[Kept], claim: str | None = None) -> RenderableType:
    """The experiments with the ids of their claims, and whether what was found before is still true.

    With `claim` only that one of the claims is listed.
    """
    lines = []
    for place in places:
        paper, experiment = place.paper.name, place.experiment
        seeds = "1 seed" if place.seeds == 1 else f"{place.seeds} seeds"
        head = f"{paper} --figure {experiment.name}"
        lines.append(Text.assemble((head, "bold"), f": {experiment.title} ({seeds}; {_state(place)})"))
        for each in experiment.claims:
            if claim in (None, each.id, f"{paper}/{each.id}"):
                verdict = (each.recorded, COLOURS[Verdict(each.recorded)])
                lines.append(Text.assemble(f"  {paper}/{each.id:32} ", verdict))
    return Group(*lines)


def _state(place: Kept) -> str:
    if place.outcome() is not None:
        return "up to date"
    if awaited := place.awaits(full=False):
        return f"needs {awaited}"
    return f"to do: {place.why()}"
