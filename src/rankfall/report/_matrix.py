"""The table on top of the page: how many claims of each paper have each verdict."""

from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from rankfall.papers.lab import VERDICTS, Paper, Row, counts
from rankfall.report._words import symbol


def matrix(papers: Sequence[Paper], rows: Sequence[Row]) -> str:
    """Papers down, verdicts across. A cell leads to its paper; the page's script makes it a filter."""
    table = counts(rows)
    lines = "".join(_line(paper, table.get(paper.name, {})) for paper in papers)
    heads = "".join(
        f'<th scope="col" data-is="{verdict}">{symbol(verdict)}<span class="word">{verdict}</span></th>'
        for verdict in VERDICTS
    )
    total = [sum(of.get(verdict, 0) for of in table.values()) for verdict in VERDICTS]
    sums = "".join(
        _cell(count, "claims", {"verdict": verdict}, f"of all papers {verdict}")
        for verdict, count in zip(VERDICTS, total, strict=True)
    )
    return (
        f'<table class="matrix"><caption>Claims by paper and verdict</caption>'
        f'<thead><tr><th scope="col">paper</th>{heads}<th scope="col">all</th></tr></thead>'
        f'<tbody>{lines}</tbody><tfoot><tr><th scope="row">all</th>{sums}'
        f"{_cell(sum(total), 'claims', {}, 'in all')}</tr></tfoot></table>"
    )


def _line(paper: Paper, of_paper: Mapping[str, int]) -> str:
    name = escape(paper.name)
    cells = "".join(
        _cell(
            of_paper.get(verdict, 0),
            name,
            {"paper": paper.name, "verdict": verdict},
            f"of {paper.name} {verdict}",
        )
        for verdict in VERDICTS
    )
    total = _cell(sum(of_paper.values()), name, {"paper": paper.name}, f"of {paper.name} in all")
    who = f'<span class="who">{escape(paper.source.authors)} {paper.source.year}</span>'
    return f'<tr><th scope="row"><a href="#{name}">{name}</a> {who}</th>{cells}{total}</tr>'


def _cell(count: int, anchor: str, choice: Mapping[str, str], told: str) -> str:
    if not count:
        return '<td class="zero">0</td>'
    is_verdict = f' data-is="{choice["verdict"]}"' if "verdict" in choice else ""
    return (
        f'<td{is_verdict}><a href="#{anchor}" data-choice="{escape(urlencode(choice))}" '
        f'aria-label="{count} {escape(told)}">{count}</a></td>'
    )
