"""What README and documentation say of the claims is what is declared, with the verdict on record."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from rankfall.papers import PAPERS, paper
from rankfall.papers.lab import Row
from rankfall.report._markdown import counts_table

ROOT = Path(__file__).parents[2]


FULL = ROOT / "docs" / "full" / "claims.json"


def full_rows():
    """The claims of the full run whose results are in the documentation."""
    told = json.loads(FULL.read_text(encoding="utf-8"))["claims"]
    return {row.id: row for row in map(Row.of_json, told)}


def declared():
    """Every claim, as "paper/id", with its paper and the verdict on record.

    On real data that is the verdict of the full run.
    """
    ran = full_rows()
    for found in map(paper, PAPERS):
        for experiment in found.experiments:
            for claim in experiment.claims:
                name = f"{found.name}/{claim.id}"
                on_data = ran[name].verdict if name in ran else "needs data"
                yield name, found.name, on_data if experiment.needs else claim.recorded


def test_the_full_run_in_the_documentation_found_the_verdicts_on_record():
    claims = {
        f"{found.name}/{claim.id}": claim
        for found in map(paper, PAPERS)
        for experiment in found.experiments
        for claim in experiment.claims
    }
    rows = full_rows()
    figures = {row.figure for row in rows.values() if row.paper == "sun"}
    assert figures >= {"2-3-gordon", "4-5", "6-7", "8", "9"}
    for name, row in rows.items():
        assert (claims[name].recorded, claims[name].sentence) == (row.verdict, row.sentence)


def test_the_readme_counts_the_verdicts_on_record():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?s)<!-- counts -->\n(.*?)\n<!-- end of counts -->", readme)
    assert shown == counts_table([Verdict("", name, verdict) for _, name, verdict in declared()])


class Verdict(NamedTuple):
    """What of a row is counted."""

    setting: str
    paper: str
    verdict: str


def test_the_documentation_lists_every_claim_with_its_verdict():
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    lines = {
        found[0]: line for line in page.splitlines() if (found := re.findall(r"^\| (\w+/[a-z0-9-]+) ", line))
    }
    claims = {name: verdict for name, _, verdict in declared()}
    assert lines.keys() == claims.keys()
    for name, verdict in claims.items():
        assert f" {verdict} " in lines[name], name


def test_every_figure_that_a_page_shows_is_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
