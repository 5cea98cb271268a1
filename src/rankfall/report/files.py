"""What a reproduction leaves in its folder: the page, the claims as JSON and Markdown, and the figures."""

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rankfall.atomic import atomically
from rankfall.papers.outcome import Outcome
from rankfall.papers.reproduction import choose, environment, found_before
from rankfall.report.markdown import counts_table, table
from rankfall.report.page import page
from rankfall.report.words import duration


def write(outcomes: Sequence[Outcome], folder: Path, seconds: float) -> Path:
    """Write the page, claims.json and claims.md; what the folder holds of other experiments is shown too."""
    everything = _with_others(outcomes, folder)
    rows = [row | {"seconds": outcome.seconds} for outcome in everything for row in outcome.rows]
    claims = {"environment": environment(), "claims": rows}
    made = f"{date.today():%d %B %Y}; {duration(seconds)} for what was run now."
    markdown = f"# Claims\n\n{counts_table(rows)}\n\n{table(rows)}\n"
    for name, text in (
        ("claims.json", json.dumps(claims, indent=1, ensure_ascii=False) + "\n"),
        ("claims.md", markdown),
        ("index.html", page(everything, environment(), made)),
    ):
        with atomically(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    return folder / "index.html"


def _with_others(outcomes: Sequence[Outcome], folder: Path) -> list[Outcome]:
    """These outcomes, and those in the folder that are still true, in the order of the papers."""
    now = {(o.paper.name, o.experiment.name): o for o in outcomes}
    everything = (now.get((p.name, e.name)) or found_before(p, e, folder) for p, e in choose())
    return [outcome for outcome in everything if outcome is not None]
