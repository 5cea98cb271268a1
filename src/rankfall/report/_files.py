"""What a reproduction leaves in its folder: the page, the claims as JSON and Markdown, and certificates."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from rankfall._atomic import atomically
from rankfall.papers.lab import Outcome
from rankfall.papers.reproduction import choose, environment, found_at_other_settings, found_before
from rankfall.report._markdown import counts_table, table
from rankfall.report._page import page
from rankfall.report._words import duration


def write(outcomes: Sequence[Outcome], folder: Path, seconds: float) -> Path:
    """Write the page, claims.json, claims.md and certificates/*.json.

    What the folder holds of other experiments is shown too.
    """
    everything = _with_others(outcomes, folder)
    rows = [row for outcome in everything for row in outcome.rows]
    timed = [
        replace(row, seconds=outcome.seconds).as_json() | {"current": outcome.current}
        for outcome in everything
        for row in outcome.rows
    ]
    claims = {"environment": environment(), "claims": timed}
    made = f"{date.today():%d %B %Y}; {duration(seconds)} for what was run now."
    markdown = f"# Claims\n\n{counts_table(rows)}\n\n{table(rows)}\n"
    for name, text in (
        ("claims.json", json.dumps(claims, indent=1, ensure_ascii=False) + "\n"),
        ("claims.md", markdown),
        ("index.html", page(everything, environment(), made)),
    ):
        with atomically(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")
    _write_certificates({name: held for o in everything for name, held in o.certificates.items()}, folder)
    return folder / "index.html"


def _write_certificates(certificates: Mapping[str, str], folder: Path) -> None:
    """A file for each; those of earlier runs that no claim rests on any more are removed."""
    for name, packed in certificates.items():
        with atomically(folder / name) as draft:
            draft.write_bytes(gzip.decompress(base64.b64decode(packed)))
    papers = {f"{paper.name}-" for paper, _ in choose()}  # of a user's own papers all files stay
    for old in (folder / "certificates").glob("*.json"):
        if f"certificates/{old.name}" not in certificates and old.name.startswith(tuple(papers)):
            old.unlink()


def _with_others(outcomes: Sequence[Outcome], folder: Path) -> list[Outcome]:
    """These outcomes, and what else the folder holds, in the order of the papers; each setting once."""
    everything: list[Outcome] = []
    files = {o.paper.file: None for o in outcomes if o.paper.file}
    for p, e in [*choose(), *(each for file in files for each in choose(file))]:
        own = [o for o in outcomes if (o.paper.name, o.experiment.name) == (p.name, e.name)]
        usual = next((o for o in own if not o.experiment.differs), None) or found_before(p, e, folder)
        others = {o.experiment.differs: o for o in found_at_other_settings(p, e, folder)}
        others |= {o.experiment.differs: o for o in own if o.experiment.differs}
        everything += [usual] if usual is not None else []
        everything += others.values()
    return everything
