"""The page of claims: one HTML file with everything in it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from rankfall.papers.lab import VERDICTS, Experiment, Outcome, Paper, Row, differs
from rankfall.report._article import article
from rankfall.report._figure import dark_palette, inline
from rankfall.report._matrix import matrix
from rankfall.report._proofs import digests, every, scripts
from rankfall.report._words import SYMBOLS, WRITTEN_FOR_THE_PAPER, badge, duration, plural, said


def page(outcomes: Sequence[Outcome], environment: Mapping[str, str], made: str = "") -> str:
    """The whole page, in the order of the outcomes; `made` says when it was made, and in what time."""
    papers = list({outcome.paper.name: outcome.paper for outcome in outcomes}.values())
    rows = [row for outcome in outcomes for row in outcome.rows]
    counted = [row for row in rows if not row.setting]
    script = _part("page.js")
    certificates = {name: held for outcome in outcomes for name, held in outcome.certificates.items()}
    return Template(_part("page.html")).substitute(
        style=_style(outcomes),
        script=script,
        allowed=digests(certificates, script),
        every=every(certificates),
        proofs=scripts(certificates),
        made=escape(made),
        told=_told(counted, papers),
        record=_record(rows),
        matrix=matrix(papers, rows),
        legend="".join(f"<span>{SYMBOLS[verdict]} {verdict}</span>" for verdict in VERDICTS),
        verdicts="".join(f"<option>{verdict}</option>" for verdict in VERDICTS),
        papers="".join(f"<option>{escape(paper.name)}</option>" for paper in papers),
        total=len(rows),
        sections="".join(_paper(p, [o for o in outcomes if o.paper.name == p.name]) for p in papers),
        words="".join(f"<div><dt>{badge(v)}</dt><dd>{escape(v.meaning)}</dd></div>" for v in VERDICTS),
        ran=_ran(outcomes),
        runs="".join(_run(outcome) for outcome in outcomes),
        environment="".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(told)}</td></tr>'
            for name, told in environment.items()
        ),
    )


def _part(name: str) -> str:
    return files("rankfall.report").joinpath(name).read_text(encoding="utf-8")


def _style(outcomes: Sequence[Outcome]) -> str:
    """The style sheet. Its dark colours stand there twice: for the device's wish, and the reader's."""
    dark = _part("dark.css") + dark_palette(outcome.figure for outcome in outcomes)
    return Template(_part("page.css")).substitute(dark=dark)


def _told(rows: Sequence[Row], papers: Sequence[Paper]) -> str:
    """The counts as a sentence."""
    found = Counter(row.verdict for row in rows)
    parts = [f"{found[verdict]}&nbsp;{verdict}" for verdict in VERDICTS if found[verdict]]
    claims, of = plural(len(rows), "claim"), plural(len(papers), "paper")
    counted = ", ".join(parts) or "nothing was run at the paper's setting"
    return f"<b>{claims}</b> of {of}: {counted}."


def _record(rows: Sequence[Row]) -> str:
    differ = sum(map(differs, rows))
    if not differ:
        return "<p>Every verdict is the one on record.</p>"
    verb = "differs" if differ == 1 else "differ"
    return f'<p><strong class="differs">≠ {plural(differ, "verdict")} {verb} from the record.</strong></p>'


def _paper(paper: Paper, outcomes: Sequence[Outcome]) -> str:
    experiments = "".join(_experiment(outcome) for outcome in outcomes)
    return (
        f'<section class="paper" id="{escape(paper.name)}"><header><h2>{escape(paper.title)}</h2>'
        f'<p class="source">{escape(str(paper.source))}</p></header>{experiments}</section>'
    )


def _experiment(outcome: Outcome) -> str:
    experiment, anchor = outcome.experiment, _anchor(outcome)
    return (
        f'<section class="experiment" id="{anchor}"><header><p class="label">{_label(experiment)}</p>'
        f"<h3>{escape(experiment.title)}</h3></header>{_setting(experiment)}{_about(experiment)}"
        f"{_figure(outcome, anchor)}"
        f'<p class="news">{_news(outcome)}</p>{_articles(outcome)}</section>'
    )


def _anchor(outcome: Outcome) -> str:
    name = f"{outcome.experiment.name} {outcome.experiment.differs}".strip()
    return f"{outcome.paper.name}-figure-{re.sub(r'[^a-zA-Z0-9]+', '-', name).strip('-')}"


def _label(experiment: Experiment[Any]) -> str:
    return f"Figure {escape(experiment.name)}" if experiment.name[:1].isdigit() else escape(experiment.name)


def _setting(experiment: Experiment[Any]) -> str:
    """At another setting than the paper's the reader is told so, first of all."""
    if not experiment.differs:
        return ""
    told = "The setting is not the paper's, and the verdicts are not counted"
    return (
        f'<p class="setting"><strong>{told}:</strong> {said(experiment.differs)}. '
        f"{escape(WRITTEN_FOR_THE_PAPER)}</p>"
    )


def _about(experiment: Experiment[Any]) -> str:
    parts = [said(part) for part in experiment.about.split("\n\n") if part]
    if parts and experiment.differs:
        parts[0] = f"<b>At the paper's setting:</b> {parts[0]}"
    return "".join(f'<p class="about">{part}</p>' for part in parts)


def _figure(outcome: Outcome, anchor: str) -> str:
    if not outcome.figure:
        return ""
    label = f"Figure: {outcome.experiment.title}"
    return f"<figure>{inline(outcome.figure, f'{anchor}-', label)}</figure>"


def _news(outcome: Outcome) -> str:
    """How much was run for the experiment, how long it took, and what was done now."""
    parts = [plural(outcome.seeds, "seed")] if outcome.seeds else []
    if outcome.seconds > 0:
        parts.append(duration(outcome.seconds) + (" added over the seeds" if outcome.seeds > 1 else ""))
    return " · ".join([*parts, *([escape(outcome.news)] if outcome.news else [])])


def _articles(outcome: Outcome) -> str:
    claims = outcome.experiment.claims
    return "".join(
        article(row, claim.expected, outcome.seconds) for row, claim in zip(outcome.rows, claims, strict=True)
    )


def _ran(outcomes: Sequence[Outcome]) -> str:
    """What was done now, counted: run, from the cache, judged again."""
    done = Counter(outcome.news.split(":")[0].strip() or "not said" for outcome in outcomes)
    seconds = duration(sum(outcome.seconds for outcome in outcomes))
    counted = ", ".join(f"{count} {escape(what)}" for what, count in done.items())
    together = f"All runs together took {seconds}, added over the seeds."
    return f"{plural(len(outcomes), 'experiment')}: {counted}. {together}"


def _run(outcome: Outcome) -> str:
    time = duration(outcome.seconds) if outcome.seconds > 0 else "–"
    where = (
        f'<a href="#{_anchor(outcome)}">{escape(outcome.paper.name)} {escape(outcome.experiment.name)}</a>'
    )
    return (
        f'<tr><th scope="row">{where}</th><td>{outcome.seeds or "–"}</td><td>{time}</td>'
        f"<td>{escape(outcome.news)}</td></tr>"
    )
