"""Figures inside the page: SVG whose ids are its own, and whose colours suit a light and a dark page."""

import re
from collections.abc import Iterable
from html import escape

PAPER, INK = "#16181c", "#e6e3dc"  # the dark page: --paper and --ink of page.css
_COLOUR = re.compile(r"(fill|stroke|stop-color): ?(#[0-9a-fA-F]{6})\b")
_NAMED = re.compile(r'\b(id|href)="(#?)([^"]+)"|url\(#([^)]+)\)')


def inline(svg: str, prefix: str, label: str) -> str:
    """The figure as an element of the page; `prefix` makes its ids unique, `label` is read aloud."""
    opening, drawing = re.findall(r"(<svg[^>]*>)(.*)</svg>", svg, flags=re.DOTALL)[0]
    box = re.findall(r'viewBox="([^"]+)"', opening)[0]
    width = float(box.split()[2])
    drawing = re.sub(r"<style.*?</style>", "", drawing, flags=re.DOTALL)  # it would rule the whole page
    drawing = drawing.replace("xlink:href", "href")
    drawing = _NAMED.sub(lambda name: _renamed(name, prefix), drawing)
    drawing = _COLOUR.sub(lambda found: f"{found[1]}:var({_variable(found[2])},{found[2].lower()})", drawing)
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}" fill="currentColor" '
        f'style="--width:{width:.0f}px">{drawing}</svg>'
    )


def _renamed(name: re.Match[str], prefix: str) -> str:
    kind, hash_sign, plain, within = name.groups()
    if within:
        return f"url(#{prefix}{within})"
    if kind == "href" and not hash_sign:  # an image carries its pixels with it
        return name[0]
    return f'{kind}="{hash_sign}{prefix}{plain}"'


def dark_palette(svgs: Iterable[str]) -> str:
    """CSS: for each colour of the figures its twin on the dark page."""
    colours = sorted({found[2].lower() for svg in svgs for found in _COLOUR.finditer(svg)})
    return "".join(f"{_variable(colour)}:{on_dark(colour)};" for colour in colours)


def _variable(colour: str) -> str:
    return f"--c-{colour[1:].lower()}"


def on_dark(colour: str) -> str:
    """The colour for the dark page: mixed with white, the darker the more, so that bright stays brighter.

    Greys keep their place between the paper and the ink.
    """
    channels = _channels(colour)
    if len(set(channels)) == 1:
        return _mixed(_channels(INK), _channels(PAPER), channels[0])
    return _mixed(channels, (1.0, 1.0, 1.0), 0.5 * (1 - luminance(colour)) ** 6)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of an sRGB colour (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _mixed(one: tuple[float, ...], other: tuple[float, ...], part: float) -> str:
    mixed = (a + part * (b - a) for a, b in zip(one, other, strict=True))
    return "#" + "".join(f"{round(255 * c):02x}" for c in mixed)
