"""Formulas become MathML while the documentation is built, so that its pages need no script to show them.

pymdownx.arithmatex wraps every formula, those of docstrings included, in an element of class "arithmatex";
here its content is converted. A formula that cannot be converted stops the build.
"""

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
HEADING = re.compile(r'<h[1-6][^>]*>.*class="arithmatex".*</h[1-6]>')
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
OPERANDS = dict.fromkeys(["mfrac", "mover", "mroot", "msub", "msup", "munder"], 2)
OPERANDS |= dict.fromkeys(["msubsup", "munderover"], 3)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Convert the formulas of a page, or name the one that fails."""
    if HEADING.search(html):
        raise PluginError(
            f"{page.file.src_uri}: a heading holds a formula; the table of contents cannot show it."
        )

    def to_mathml(found: re.Match[str]) -> str:
        latex = unescape(found["latex"]).strip()
        try:
            return mathml(latex, "block" if found["tag"] == "div" else "inline")
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise PluginError(f"{page.file.src_uri}: the formula {latex} has no MathML: {reason}") from error

    converted = FORMULA.sub(to_mathml, html)
    if 'class="arithmatex"' in converted:
        raise PluginError(f"{page.file.src_uri}: a formula is wrapped in a way that is not known here.")
    return converted


def mathml(latex: str, display: str) -> str:
    """The MathML of a formula; a ValueError where latex2mathml would return something broken in silence."""
    if CONTROL.search(latex):
        raise ValueError(r'it holds a control character: write the docstring as r"""...""", or \\ for \.')
    bare = re.sub(r"\\.", "", latex)
    if bare.count("{") != bare.count("}"):
        raise ValueError("its braces do not match.")
    converted = str(convert(latex, display=display))
    try:
        root = ElementTree.fromstring(converted)
    except ElementTree.ParseError:
        raise ValueError("latex2mathml does not know its environment; align* is known.") from None
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if "\\" in (element.text or ""):
            raise ValueError(f"latex2mathml does not know the command {element.text}.")
        if len(element) != OPERANDS.get(name, len(element)):
            raise ValueError(f"an operand is missing in <{name}>.")
    return converted
