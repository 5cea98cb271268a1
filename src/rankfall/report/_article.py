"""One claim as an article of the page."""

from collections.abc import Iterable
from html import escape

from rankfall.papers.lab import CheckRow, Interval, Row, Verdict, differs
from rankfall.report._proofs import proofs
from rankfall.report._strip import strip
from rankfall.report._words import SYMBOLS, badge, duration, plural, said


def article(row: Row, expected: Interval, seconds: float = 0.0) -> str:
    """The claim, the numbers behind its verdict, and how to run it again; `seconds`: what its runs took."""
    anchor = row.anchor
    other = differs(row)
    facts = "".join(
        f"<div><dt>{term}</dt><dd>{told}</dd></div>" for term, told in _facts(row, expected, seconds)
    )
    return (
        f'<article class="claim" id="{anchor}" data-paper="{escape(row.paper)}" '
        f'data-verdict="{row.verdict}"{" data-differs" if other else ""} '
        f'aria-labelledby="{anchor}-says">'
        f'<header><a class="number" href="#{anchor}">{escape(row.id)}</a>{badge(row.verdict)}'
        f"{_record(row) if other else ''}</header>"
        f'<div class="told"><h4 id="{anchor}-says">{escape(row.sentence)}</h4>'
        f'<p class="source">{escape(row.source)}</p><dl>{facts}</dl></div></article>'
    )


def _record(row: Row) -> str:
    recorded = f"{SYMBOLS[row.recorded]}&nbsp;{row.recorded}"
    return f'<strong class="differs">≠ differs from the record<span>recorded: {recorded}</span></strong>'


def _facts(row: Row, expected: Interval, seconds: float) -> Iterable[tuple[str, str]]:
    """The terms of the claim's list and what is said to each, as HTML."""
    yield "Quantity", said(row.metric)
    yield "Expected", f"<b>{said(row.expected)}</b> {_why(row.because)}"
    yield "Measured", _measured(row, expected)
    if row.hypotheses:
        yield "Hypotheses", _checks(row.hypotheses)
    if row.certificate:
        yield "Certificate", _checks([row.certificate])
    if row.certificates:
        yield "Proof", proofs(row.certificates, row.anchor)
    if row.note:
        whose = _why("Written for the paper's setting: ") if row.setting else ""
        yield "Note", whose + said(row.note)
    yield "Run again", _command(row, seconds)


def _why(because: str) -> str:
    return f'<span class="why">{said(because)}</span>'


def _measured(row: Row, expected: Interval) -> str:
    if not row.measured:
        missing = f"the runs need {escape(row.needs)} and --full"
        record = "" if row.recorded is Verdict.NEEDS_DATA else f"; the verdict on record is: {row.recorded}"
        return f'<span class="why">nothing yet: {missing}{record}</span>'
    seeds = f'<span class="why">{plural(row.seeds, "seed")}</span>'
    return f"<b>{said(row.measured)}</b> {seeds}{strip(row.values, expected)}"


def _checks(checks: Iterable[CheckRow]) -> str:
    """What had to hold beside the claim: needed, measured, and whether it does."""
    lines = "".join(
        f'<tr><th scope="row">{said(check.metric)} {_why(check.because)}</th>'
        f'<td data-head="needed">{said(check.expected)}</td>'
        f'<td data-head="measured">{said(check.measured)}</td>'
        f'<td data-head="holds">{_holds(check.holds)}</td></tr>'
        for check in checks
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("needed", "measured", "holds"))
    return f'<table class="checks"><thead><tr><td></td>{heads}</tr></thead><tbody>{lines}</tbody></table>'


def _holds(holds: bool) -> str:
    return '<span class="yes">✓&nbsp;yes</span>' if holds else '<span class="no">✗&nbsp;no</span>'


def _command(row: Row, seconds: float) -> str:
    took = f' <span class="why">its runs took {duration(seconds)}</span>' if seconds > 0 else ""
    command = escape(row.command)
    return (
        f'<code>{command}</code> <button type="button" class="copy script" data-copy="{command}" '
        f'aria-label="Copy the command {command}">copy</button>{took}'
    )
