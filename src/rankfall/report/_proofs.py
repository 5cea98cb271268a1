"""Certificates on the page: it holds them, compressed, together with the program that checks them."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from rankfall.report._words import plural


def proofs(names: Sequence[str], anchor: str) -> str:
    """The certificates of a claim; the page's script checks them when the reader comes to it."""
    lines = "".join(
        f'<li data-proof="{escape(name)}"><a href="#{anchor}" class="script">{_file(name)}</a>'
        f'<code class="unscripted">{escape(name)}</code> <span class="outcome"></span><ul></ul></li>'
        for name in names
    )
    count = plural(len(names), "certificate")
    return (
        f'<div class="proofs"><p class="state"><span class="script" role="status">{count}, to be checked in '
        f'your browser</span><span class="unscripted">{count} in exact arithmetic</span></p>'
        f"<details><summary>what {'it proves' if len(names) == 1 else 'they prove'}</summary>"
        f"<ul>{lines}</ul></details></div>"
    )


def _file(name: str) -> str:
    return escape(name.rsplit("/", 1)[-1])


def every(certificates: Mapping[str, str]) -> str:
    """What is said of all certificates on top of the page, with the button that checks them."""
    if not certificates:
        return ""
    verb = "is" if len(certificates) == 1 else "are"
    return (
        f'<p class="every"><b>{plural(len(certificates), "certificate")}</b> in exact arithmetic {verb} on '
        "this page, with a program that shares no code with the one that made them. Each is checked in your "
        "browser when its claim comes into view, and <code>rankfall check</code> takes its file as well.</p>"
        '<p class="every script"><button type="button" id="every">check all certificates</button> '
        '<span id="checked" role="status"></span></p>'
    )


def scripts(certificates: Mapping[str, str]) -> str:
    """The checker, what drives it, and the certificates, as elements of the page."""
    if not certificates:
        return ""
    held = "".join(
        f'<script type="application/gzip" data-certificate="{escape(name)}">{packed}</script>\n'
        for name, packed in certificates.items()
    )
    checker, driver = _sources()
    return f'{held}<script id="checker">{checker}</script>\n<script>{driver}</script>'


def digests(certificates: Mapping[str, str], *more: str) -> str:
    """The scripts that the page may run, for its policy."""
    allowed = [*more, *(_sources() if certificates else ())]
    sums = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in allowed)
    return " ".join(f"'sha256-{each}'" for each in sums)


def _sources() -> tuple[str, str]:
    places = (("rankfall.certificates", "check.js"), ("rankfall.report", "proofs.js"))
    checker, driver = (files(package).joinpath(name).read_text(encoding="utf-8") for package, name in places)
    return checker, driver
