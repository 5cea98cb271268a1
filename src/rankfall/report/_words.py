"""The small things that the page says in many places."""

import re
from html import escape

from rankfall.papers.lab import Verdict

SYMBOLS: dict[Verdict, str] = {
    Verdict.REPRODUCED: "✓",
    Verdict.NOT_REPRODUCED: "✗",
    Verdict.REFUTED: "⊥",
    Verdict.OUTSIDE: "∉",
    Verdict.NEEDS_DATA: "↓",
}
WRITTEN_FOR_THE_PAPER = (
    "The descriptions were written for the paper's setting: numbers that they name may differ here."
)


def badge(verdict: Verdict) -> str:
    """The verdict as symbol, word and colour: any two may fail a reader."""
    return f'<span class="badge" data-is="{verdict}">{symbol(verdict)} {verdict}</span>'


def symbol(verdict: Verdict) -> str:
    """The sign of the verdict, beside its word: not read aloud."""
    return f'<span class="symbol" aria-hidden="true">{SYMBOLS[verdict]}</span>'


def said(text: str) -> str:
    """The text for HTML; what belongs together, as in ≤ 1e-10, stays on one line."""
    numbers = re.sub(r"[-−]?\d[\d.]*e[-+]?\d+", r"<span class=num>\g<0></span>", escape(text))
    return re.sub(r"([≤≥±]) ", r"\1&nbsp;", numbers)


def duration(seconds: float) -> str:
    """A time as a person says it: 0.3 s, 48 s, 6 min 12 s, 1 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def plural(count: int, noun: str) -> str:
    """1 claim, 2 claims."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
