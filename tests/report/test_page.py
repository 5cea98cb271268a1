"""The page of claims as text: it says everything, takes no text for markup, and asks for nothing."""

import base64
import hashlib
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import matplotlib.colors
import matplotlib.pyplot as plt
import pytest

from rankfall import plot
from rankfall.certificates import Certificate
from rankfall.papers.lab import VERDICTS, at_least, at_most, between, near, unpacked
from rankfall.report._figure import INK, PAPER, contrast, on_dark
from rankfall.report._page import page
from rankfall.report._strip import MARGIN, WIDTH, strip
from rankfall.report._words import duration, plural


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its text without scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.words, self.silent = [], [], False
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent = False

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)

    def values(self, name):
        return [attrs[name] for _, attrs in self.elements if name in attrs]


@pytest.fixture(scope="module")
def parsed(html):
    return Parsed(html)


def rows(outcomes):
    return [row for outcome in outcomes for row in outcome.rows]


def squeezed(text):
    return re.sub(r"\s", "", text)


def test_the_outcomes_have_every_verdict_and_some_differ_from_the_record(outcomes):
    assert {row.verdict for row in rows(outcomes)} == set(VERDICTS)
    assert any(row.verdict != row.recorded for row in rows(outcomes))
    assert any(row.certificate for row in rows(outcomes))


def test_every_word_of_every_row_is_on_the_page(outcomes, parsed):
    text = squeezed(parsed.text)
    for row in rows(outcomes):
        for key in ("sentence", "source", "metric", "expected", "because", "measured", "note", "command"):
            assert squeezed(getattr(row, key)) in text, f"{key} of {row.id}"
        for check in [*row.hypotheses, *filter(None, [row.certificate])]:
            for key in ("metric", "expected", "because", "measured"):
                assert squeezed(getattr(check, key)) in text
    for outcome in outcomes:
        for told in (outcome.news, outcome.experiment.title, outcome.experiment.about, outcome.paper.title):
            assert squeezed(told) in text


def test_each_claim_is_an_article_with_its_verdict_and_its_record(outcomes, html):
    for row in rows(outcomes):
        name = row.anchor
        article = re.search(rf'<article class="claim" id="{name}".*?</article>', html, flags=re.DOTALL)[0]
        assert f'data-verdict="{row.verdict}"' in article
        assert f'data-is="{row.verdict}"' in article
        differs = row.verdict != row.recorded
        assert ("data-differs" in article) is differs
        assert ("differs from the record" in article) is differs


def test_text_is_never_taken_for_markup(html, parsed):
    assert "<script>document.title" not in html
    assert "<script>document.title = 'taken'</script> & stays below 2." in parsed.text
    assert [tag for tag, _ in parsed.elements if tag in ("em", "nothing")] == []
    running = [attrs for tag, attrs in parsed.elements if tag == "script" and "type" not in attrs]
    assert len(running) == 3  # the page's own, the checker of certificates, and what drives it


def test_the_page_asks_for_nothing_from_outside(html, parsed):
    for name in ("src", "srcset", "action", "data", "poster", "xlink:href"):
        assert parsed.values(name) == []
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in parsed.values("href"))
    assert [tag for tag, _ in parsed.elements if tag in ("link", "iframe", "object", "embed", "base")] == []
    code = re.findall(r"<style>.*?</style>|<script[^>]*>.*?</script>|<svg.*?</svg>", html, flags=re.DOTALL)
    assert not re.search(r"https?://|@import|url\((?!#)", " ".join(code))


def test_the_policy_allows_the_scripts_of_the_page_and_no_other(html):
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    scripts = re.findall(r"<script(?: id=\"checker\")?>(.*?)</script>", html, flags=re.DOTALL)
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert rules["script-src"].split(" ") == [f"'sha256-{each}'" for each in sums]
    assert rules["worker-src"] == "blob:"


def test_every_certificate_that_a_claim_names_is_on_the_page_once(outcomes, html, parsed):
    named = {name for row in rows(outcomes) for name in row.certificates}
    held = re.findall(r'<script type="application/gzip" data-certificate="([^"]+)">([^<]+)</script>', html)
    assert {name for name, _ in held} == named
    assert len(held) == len(named) > 0
    for _, text in held:
        assert Certificate(unpacked(text)).check().accepted
    for name in named:
        assert name in parsed.text


def test_a_page_without_certificates_does_not_carry_the_checker(outcomes):
    plain = page(outcomes[:1], {})
    assert "checkCertificate" not in plain
    assert "check all" not in plain


def test_ids_are_unique_and_every_link_has_its_target(parsed):
    ids = Counter(parsed.values("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    assert {link[1:] for link in parsed.values("href") if link.startswith("#")} <= set(ids)
    assert set(parsed.values("aria-labelledby")) <= set(ids)


def test_every_reference_inside_a_figure_has_its_target(html, parsed):
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(parsed.values("id"))


def test_figures_are_named_and_keep_no_style_of_their_own(html, parsed):
    figures = [attrs for tag, attrs in parsed.elements if tag == "svg" and attrs.get("role") == "img"]
    assert len(figures) == html.count("<figure>") == 2
    assert all(figure["aria-label"] for figure in figures)
    assert html.count("<style") == 1


def test_equal_outcomes_give_equal_pages(outcomes, html):
    environment = dict(re.findall(r'<tr><th scope="row">([\w]+)</th><td>(.*?)</td></tr>', html))
    plain = {name: unescape(told) for name, told in environment.items()}
    assert page(outcomes, plain, "made on 2026-11-16 in 6 min 12 s") == html


def test_a_page_without_claims_is_a_page():
    text = Parsed(page([], {})).text
    assert "0 claims of 0 papers: nothing was run at the paper's setting." in text


def figure_for_svg():
    with plot.style():
        figure, axes = plot.panels(1)
        axes[0, 0].plot([0, 1 / 3, 1], [1, 2 / 3, 0], color=plot.PALETTE[0])
        plot.theory(axes[0, 0], [0, 1], [0, 1], label="$W_1$")
        axes[0, 0].text(0, 0, "black -->", color="black")
    return figure


def test_equal_figures_give_equal_svg_without_date_or_ink():
    first, second = (plot.svg(figure_for_svg()) for _ in range(2))
    assert first == second
    for unwanted in ("<metadata", "<!--", "<text", "dc:date", plot.INK, "#000000"):
        assert unwanted not in first
    assert "currentColor" in first
    assert not re.search(r' d="[^"]*\d\.\d{3}', first)


def test_a_figure_that_became_svg_is_closed():
    figure = figure_for_svg()
    plot.svg(figure)
    assert not plt.fignum_exists(figure.number)


def test_the_colours_of_figures_are_readable_on_the_dark_page_and_keep_their_order():
    scale = [matplotlib.colors.to_hex(colour) for colour in plot.colours(9)]
    for colour in (*scale, *plot.PALETTE, plot.GUIDE):
        assert contrast(on_dark(colour), PAPER) > 3  # WCAG 2.2, 1.4.11: graphics
    bright = [contrast(on_dark(colour), PAPER) for colour in scale]
    assert bright == sorted(bright)
    assert (on_dark("#ffffff"), on_dark("#000000")) == (PAPER, INK)


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_the_words_of_the_page_are_readable_in_both_themes(html):
    style = re.search(r"<style>(.*?)</style>", html, flags=re.DOTALL)[1]
    light, dark = style.split("prefers-color-scheme: dark")[:2]
    names = ("ink", "muted", "link", "reproduced", "not-reproduced", "refuted", "outside", "needs")
    for theme in (light, dark):
        colours = dict(re.findall(r"--([a-z-]+): ?(#[0-9a-f]{6})", theme)[::-1])
        assert all(contrast(colours[name], colours["paper"]) > 4.5 for name in names)
        assert contrast(colours["alarm-ink"], colours["alarm"]) > 4.5
    assert (colours["paper"], colours["ink"]) == (PAPER, INK)


def places(svg):
    band = re.search(r'class="expected" x="([\d.-]+)" width="([\d.]+)"', svg)
    ends = re.search(r'class="range" d="M([\d.-]+) [\d.]+H([\d.-]+)"', svg)
    return float(band[1]), float(band[1]) + float(band[2]), float(ends[1]), float(ends[2])


def test_the_strip_shows_the_numbers_inside_the_interval_when_they_are():
    left, right, low, high = places(strip({"low": 1, "median": 2, "high": 3}, between(0, 4, "")))
    assert left < low < high < right


def test_the_strip_shows_the_numbers_outside_when_they_are():
    left, right, low, high = places(strip({"low": 3e-3, "median": 1, "high": 9}, at_most(1e-9, "")))
    assert left == 0
    assert right < low < high
    left, right, low, high = places(strip({"low": -3, "median": -2, "high": -1}, at_least(0, "")))
    assert low < high < left
    assert right == WIDTH


def test_the_strip_of_one_number_on_its_bound_is_in_the_middle():
    svg = strip({"low": 2, "median": 2, "high": 2}, at_most(2, ""))
    assert places(svg)[2] == WIDTH / 2 > MARGIN


def test_there_is_no_strip_for_an_interval_of_each_entry_or_without_numbers():
    assert strip({"low": 1, "median": 1, "high": 1}, near([1.0, 1.0], 0.1, "")) == ""
    assert strip({"within": 0, "of": 1}, at_most(2, "")) == ""


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.31, "0.31 s"), (48.4, "48 s"), (59.7, "1 min 0 s"), (372, "6 min 12 s"), (3900, "1 h 5 min")],
)
def test_a_duration_is_said_as_a_person_says_it(seconds, told):
    assert duration(seconds) == told


def test_one_claim_and_two_claims():
    assert (plural(1, "claim"), plural(2, "claim")) == ("1 claim", "2 claims")
