"""The page of claims in a browser: what a reader sees, clicks and prints."""

import json
import re
import shutil
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from rankfall.certificates import check
from rankfall.papers.lab import packed, unpacked

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"there is no browser: none of {', '.join(PROGRAMS)} was found")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=program, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def address(html, tmp_path):
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    return (tmp_path / "index.html").as_uri()


@pytest.fixture
def opened(browser, address, tmp_path):
    """Open the page; at the end nothing was complained of, and nothing but the file was asked for."""
    contexts, complaints, requests = [], [], []

    def open_page(hash_="", text="", before="", **options):
        if text:
            (tmp_path / "index.html").write_text(text, encoding="utf-8")
        context = browser.new_context(**({"viewport": DESKTOP} | options))
        contexts.append(context)
        view = context.new_page()
        if before:
            view.add_init_script(before)
        view.set_default_timeout(20_000)
        view.on("console", lambda message: complaints.append(message.text))
        view.on("pageerror", lambda error: complaints.append(str(error)))
        view.on("request", lambda request: requests.append(request.url))
        view.goto(address + hash_)
        return view

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    # Pixels that stand in the page itself, and what it hands to its own worker, are no requests.
    assert {url.split("#")[0] for url in requests if not url.startswith(("data:", "blob:"))} == {address}


def shown(view):
    return view.locator(".claim:visible").count()


def filters(view):
    return {name: values[0] for name, values in parse_qs(urlsplit(view.url).fragment).items()}


def wait_until(view, expression):
    """Wait for an expression to hold; asked from outside, for the page itself allows no evaluation."""
    end = time.monotonic() + 30
    while not view.evaluate(expression):
        assert time.monotonic() < end, expression
        view.wait_for_timeout(20)


def background(view):
    return view.evaluate("getComputedStyle(document.body).backgroundColor")


def test_every_claim_is_shown_at_first_and_the_count_says_so(opened, outcomes):
    view = opened()
    total = sum(len(outcome.rows) for outcome in outcomes)
    assert shown(view) == total
    assert view.locator("output").inner_text() == f"all {total} claims"
    assert view.title() == "rankfall: the papers, claim by claim"


def test_a_verdict_and_a_paper_are_filters_and_stand_in_the_address(opened, outcomes):
    view = opened()
    view.select_option("[name=verdict]", "reproduced")
    view.select_option("[name=paper]", "made-up")
    fitting = [
        row for outcome in outcomes for row in outcome.rows
        if (row.paper, row.verdict) == ("made-up", "reproduced")
    ]  # fmt: skip
    assert shown(view) == len(fitting) > 0
    assert view.locator("output").inner_text().startswith(f"{len(fitting)} of ")
    assert filters(view) == {"verdict": "reproduced", "paper": "made-up"}
    assert view.locator(".paper:visible").count() == 1
    assert view.locator("[data-choice][aria-current]").inner_text() == str(len(fitting))


def test_the_address_restores_the_filters(opened):
    view = opened("#verdict=refuted&q=local+optimum")
    assert shown(view) == 1
    assert view.input_value("[name=q]") == "local optimum"
    assert opened("#verdict=nonsense").locator(".claim[hidden]").count() == 0


def test_search_finds_all_words_in_any_order_and_says_when_nothing_fits(opened):
    view = opened()
    view.fill("[name=q]", "OPTIMUM local")
    assert shown(view) == 1
    assert filters(view) == {"q": "OPTIMUM local"}
    view.fill("[name=q]", "no claim says this")
    assert shown(view) == 0
    assert view.locator(".none").is_visible()
    view.click("[type=reset]")
    wait_until(view, "!document.querySelector('.claim[hidden]')")
    assert filters(view) == {}


def test_only_what_differs_from_the_record(opened, outcomes):
    view = opened()
    view.check("[name=differs]")
    assert shown(view) == sum(row.verdict != row.recorded for o in outcomes for row in o.rows) > 0
    assert view.locator(".claim:visible .differs:visible").count() == shown(view)


def test_a_cell_of_the_matrix_filters_from_the_keyboard(opened):
    view = opened()
    cell = view.locator("[data-choice='paper=made-up&verdict=refuted']")
    cell.focus()
    view.keyboard.press("Enter")
    wait_until(view, "document.querySelector('.claim[hidden]')")
    assert shown(view) == 1
    assert filters(view) == {"paper": "made-up", "verdict": "refuted"}
    view.go_back()
    wait_until(view, "!document.querySelector('.claim[hidden]')")


def test_every_control_is_reached_by_the_tab_key(opened):
    view = opened()
    view.keyboard.press("/")
    reached = []
    for _ in range(5):
        reached.append(view.evaluate("document.activeElement.name"))
        view.keyboard.press("Tab")
    assert reached == ["q", "verdict", "paper", "differs", "short"]


def test_a_link_to_a_hidden_claim_shows_it(opened):
    view = opened("#verdict=refuted")
    view.evaluate("location.hash = '#made-up-claim-1'")
    wait_until(view, "!document.querySelector('#made-up-claim-1').hidden")
    assert view.locator("#made-up-claim-1").is_visible()


def test_sentences_only(opened):
    view = opened("#short=1")
    assert view.locator("h4:visible").count() == shown(view) > 0
    assert view.locator(".claim dl:visible, figure:visible").count() == 0


COMMAND = "rankfall reproduce --claim made-up/claim-3 --again"


def test_the_command_is_copied(opened):
    view = opened(permissions=["clipboard-read", "clipboard-write"])
    button = view.locator("#made-up-claim-3 .copy")
    button.click()
    wait_until(view, "document.querySelector('#made-up-claim-3 .copy').textContent != 'copy'")
    assert button.inner_text() == "copied"
    assert view.evaluate("navigator.clipboard.readText()") == COMMAND


def test_where_the_clipboard_is_closed_the_command_is_selected(opened):
    view = opened()
    view.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    view.locator("#made-up-claim-3 .copy").click()
    wait_until(view, f"getSelection().toString() == '{COMMAND}'")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_figure_is_drawn(opened, outcomes, theme, viewport):
    view = opened(color_scheme=theme, viewport=viewport)
    drawings = view.locator("figure > svg").all()
    assert len(drawings) == sum(bool(outcome.figure) for outcome in outcomes)
    for drawing in drawings:
        box = drawing.bounding_box()
        assert min(box["width"], box["height"]) > 100
        inside = drawing.evaluate("svg => { const b = svg.getBBox(); return [b.width, b.height]; }")
        assert min(inside) > 100
        ink = drawing.evaluate("svg => getComputedStyle(svg).fill")
        assert ink == view.evaluate("getComputedStyle(document.body).color")


def test_the_theme_follows_the_device_and_then_the_reader(opened):
    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    assert background(light) == "rgb(253, 252, 249)"
    assert background(dark) == "rgb(22, 24, 28)"
    for view, other in ((light, dark), (dark, light)):
        before = background(other)
        view.click("#theme")
        assert background(view) == before
        view.reload()
        assert background(view) == before
        view.click("#theme")


@pytest.mark.parametrize("hash_", ["", "#short=1"])
def test_a_phone_does_not_scroll_sideways(opened, hash_):
    view = opened(hash_, viewport=PHONE)
    assert view.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_print_has_every_claim_and_figure_and_no_control(opened, outcomes):
    view = opened(color_scheme="dark")
    view.emulate_media(media="print")
    assert background(view) == "rgb(255, 255, 255)"
    assert view.locator("button:visible, input:visible, select:visible, nav:visible").count() == 0
    assert shown(view) == sum(len(outcome.rows) for outcome in outcomes)
    assert view.locator("figure > svg:visible").count() == sum(bool(outcome.figure) for outcome in outcomes)


def test_without_scripts_everything_is_there_and_no_dead_control(opened, outcomes):
    view = opened(java_script_enabled=False)
    assert shown(view) == sum(len(outcome.rows) for outcome in outcomes)
    assert view.locator("button:visible, input:visible, select:visible").count() == 0
    view.locator("tbody [data-choice]").first.click()
    assert re.search(r"#[a-z-]+$", view.url)


# --- certificates, checked in the browser ------------------------------------------------------------------


def certified(outcomes):
    """How many certificates the page has, and the claims that rest on some."""
    claims = [row for outcome in outcomes for row in outcome.rows if row.certificates]
    return sum(len(outcome.certificates) for outcome in outcomes), claims


def state(view, row):
    return view.locator(f"#{row.anchor} .proofs .state .script")


def test_certificates_are_checked_when_their_claim_comes_into_view(opened, outcomes):
    _, claims = certified(outcomes)
    view = opened(viewport={"width": 1280, "height": 300})
    assert view.locator(".proofs .yes, .proofs .no").count() == 0
    for row in claims:
        told = state(view, row)
        told.scroll_into_view_if_needed()
        view.wait_for_selector(f"#{row.anchor} .proofs .state .yes")
        count = len(row.certificates)
        what = "certificate" if count == 1 else f"{count} certificates"
        assert re.fullmatch(rf"✓ {what} checked in your browser in [\d.]+ m?s", told.inner_text())


def test_all_certificates_are_checked_at_the_click_of_a_button_in_less_than_ten_seconds(opened, outcomes):
    total, claims = certified(outcomes)
    view = opened()
    began = time.perf_counter()
    view.click("#every")
    view.wait_for_selector("#checked.yes")
    assert time.perf_counter() - began < 10
    assert view.inner_text("#checked").startswith(f"✓ {total} certificates checked in your browser in ")
    assert view.locator(".proofs .state .yes").count() == len(claims)
    assert view.locator(".proofs .no").count() == 0


def test_a_certificate_says_what_it_proves(opened, outcomes):
    _, claims = certified(outcomes)
    row = next(row for row in claims if row.verdict == "refuted")
    view = opened(f"#{row.anchor}")
    proofs = view.locator(f"#{row.anchor} .proofs")
    proofs.locator("summary").click()
    proofs.locator(".outcome.yes").first.wait_for()
    told = proofs.inner_text()
    assert "this is a KKT point of the margin problem for the first layer (with residual 0)." in told
    assert "stable rank > 3 is false here, against made-up/3: The stable rank is above 3." in told


def tampered(html, change):
    """The page with its first certificate changed."""
    block = r'(data-certificate="[^"]+">)([^<]+)(<)'
    return re.sub(block, lambda found: found[1] + change(found[2]) + found[3], html, count=1)


def other_multiplier(text):
    document = unpacked(text)
    document["point"]["multipliers"][0] = hex(int(document["point"]["multipliers"][0], 16) + 1)
    return packed(document)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_multiplier, "the margin of the support vector 0 is not 1."),
        (lambda text: packed(unpacked(text) | {"version": 2}), "'version' must be one of 1."),
        (lambda text: text[:400] + text[404:], "it is damaged"),
        (lambda text: "no base 64 ä", "it is damaged"),
        (lambda text: "", "it is damaged"),
    ],
)
def test_a_tampered_certificate_has_a_cross_and_the_reason(opened, outcomes, html, change, reason):
    total, claims = certified(outcomes)
    view = opened(text=tampered(html, change))
    view.click("#every")
    view.wait_for_selector("#checked.no")
    told = view.inner_text("#checked")
    assert told.startswith(f"✗ 1 of {total} certificates refused: ")
    assert reason in told
    first = next(name for outcome in outcomes for name in outcome.certificates)
    for row in claims:
        sign = "✗" if first in row.certificates else "✓"
        assert state(view, row).inner_text().startswith(sign)


def test_where_there_are_no_workers_the_page_checks_by_itself(opened, outcomes):
    view = opened(before="delete globalThis.Worker;")
    view.click("#every")
    view.wait_for_selector("#checked.yes")


def test_a_certificate_can_be_saved_and_checked_by_the_other_checker(opened, outcomes, tmp_path):
    _, claims = certified(outcomes)
    row = claims[0]
    view = opened(f"#{row.anchor}", accept_downloads=True)
    proofs = view.locator(f"#{row.anchor} .proofs")
    proofs.locator("summary").click()
    with view.expect_download() as download:
        proofs.locator("a").first.click()
    file = tmp_path / "saved.json"
    download.value.save_as(file)
    assert f"certificates/{download.value.suggested_filename}" == row.certificates[0]
    assert check.main([str(file)]) == 0
    held = next(outcome.certificates for outcome in outcomes if outcome.certificates)[row.certificates[0]]
    assert json.loads(file.read_text(encoding="utf-8")) == unpacked(held)


def test_without_scripts_the_files_of_the_certificates_are_named(opened, outcomes):
    _, claims = certified(outcomes)
    view = opened(java_script_enabled=False)
    for row in claims:
        proofs = view.locator(f"#{row.anchor} .proofs")
        proofs.locator("summary").click()
        for name in row.certificates:
            assert name in proofs.inner_text()
    assert "to be checked in your browser" not in view.locator("main").inner_text()


def test_a_phone_with_open_proofs_does_not_scroll_sideways(opened):
    view = opened(viewport=PHONE)
    view.click("#every")
    view.wait_for_selector("#checked.yes")
    view.evaluate(
        "() => { for (const each of document.querySelectorAll('.proofs details')) each.open = true; }"
    )
    assert view.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
