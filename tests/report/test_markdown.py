"""The Markdown tables: a line for each claim, and counts that add up."""

import re

from rankfall.papers.lab import VERDICTS
from rankfall.report._markdown import counts_table, table


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_every_claim_is_one_line_of_six_cells(outcomes):
    rows = [row for outcome in outcomes for row in outcome.rows]
    head, rule, *lines = table(rows).splitlines()
    assert len(lines) == len(rows)
    assert {len(cells(line)) for line in (head, rule, *lines)} == {6}
    for line, row in zip(lines, rows, strict=True):
        assert cells(line)[0] == row.id
        assert row.verdict in cells(line)[5]
        assert ("recorded:" in line) is (row.verdict != row.recorded)


def test_signs_of_markdown_and_html_stay_text(outcomes):
    text = table([row for outcome in outcomes for row in outcome.rows])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert r"Theorem 3 \| Remark 4" in text


def test_counts_add_up(outcomes):
    rows = [row for outcome in outcomes for row in outcome.rows]
    head, _, *lines = counts_table(rows).splitlines()
    assert cells(head) == ["paper", *VERDICTS, "all"]
    numbers = [[int(cell) for cell in cells(line)[1:]] for line in lines]
    assert [cells(line)[0] for line in lines] == [*dict.fromkeys(row.paper for row in rows), "all"]
    assert all(sum(line[:-1]) == line[-1] for line in numbers)
    assert numbers[-1] == [sum(column) for column in zip(*numbers[:-1], strict=True)]
    assert numbers[-1][-1] == len(rows)
