"""The claims as Markdown tables, for the README and the documentation."""

from collections.abc import Iterable, Sequence
from typing import Any

from rankfall.papers.lab import VERDICTS, Row, counts, differs
from rankfall.report._words import SYMBOLS


def table(rows: Sequence[Row]) -> str:
    """All claims: what was expected, what was measured, and the verdict."""
    heads = ("claim", "sentence", "source", "expected", "measured", "verdict")
    return _table(heads, [_claim(row) for row in rows])


def counts_table(rows: Sequence[Row]) -> str:
    """How many claims of each paper have each verdict."""
    found = counts(rows)
    lines = [(paper, *_counted(of_paper)) for paper, of_paper in found.items()]
    total = {verdict: sum(of_paper.get(verdict, 0) for of_paper in found.values()) for verdict in VERDICTS}
    return _table(("paper", *VERDICTS, "all"), [*lines, ("all", *_counted(total))], right=len(VERDICTS) + 1)


def _claim(row: Row) -> tuple[str, ...]:
    told = f"{SYMBOLS[row.verdict]} {row.verdict}"
    if differs(row):
        told = f"**{told}** (recorded: {row.recorded})"
    measured = row.measured or f"needs {row.needs}"
    name = f"{row.id} at {row.setting}" if row.setting else row.id
    texts = (name, row.sentence, row.source, row.expected, measured)
    return (*(_cell(text) for text in texts), told)


def _counted(of_paper: dict[Any, int]) -> Iterable[str]:
    numbers = [of_paper.get(verdict, 0) for verdict in VERDICTS]
    return [str(number) for number in (*numbers, sum(numbers))]


def _cell(text: str) -> str:
    """Plain text that a Markdown table takes as it is."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\|*_`$":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]], right: int = 0) -> str:
    """The table; its last `right` columns are numbers."""
    rule = ["---"] * (len(heads) - right) + ["--:"] * right
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
