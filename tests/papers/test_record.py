"""What README and documentation say of the claims is what is declared, with the verdict on record."""

import json
import re
from pathlib import Path

from rankfall.papers import PAPERS, paper
from rankfall.papers.outcome import first_number
from rankfall.report.markdown import counts_table

ROOT = Path(__file__).parents[2]


FULL = ROOT / "docs" / "full" / "claims.json"


def declared():
    """Every claim with its paper, its number, and the verdict on record.

    On real data that is the verdict of the full run whose results are in the documentation.
    """
    full = json.loads(FULL.read_text(encoding="utf-8"))["claims"]
    ran = {(row["paper"], row["figure"], row["sentence"]): row["verdict"] for row in full}
    for found in map(paper, PAPERS):
        for experiment in found.experiments:
            for number, claim in enumerate(experiment.claims, first_number(found, experiment)):
                place = (found.name, experiment.name, claim.sentence)
                verdict = ran.get(place, "needs data") if experiment.needs else claim.recorded
                yield found.name, number, claim, verdict


def test_the_full_run_in_the_documentation_found_the_verdicts_on_record():
    recorded = {
        (found.name, experiment.name, claim.sentence): claim.recorded
        for found in map(paper, PAPERS)
        for experiment in found.experiments
        for claim in experiment.claims
    }
    rows = json.loads(FULL.read_text(encoding="utf-8"))["claims"]
    assert {row["figure"] for row in rows if row["paper"] == "sun"} >= {"2-3-gordon", "4-5", "6-7", "8", "9"}
    for row in rows:
        assert recorded[row["paper"], row["figure"], row["sentence"]] == row["verdict"]


def test_the_readme_counts_the_verdicts_on_record():
    rows = [{"paper": name, "verdict": verdict} for name, _, _, verdict in declared()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?s)<!-- counts -->\n(.*?)\n<!-- end of counts -->", readme)
    assert shown == counts_table(rows)


def test_the_documentation_lists_every_claim_with_its_verdict():
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    lines = {
        tuple(found): line for line in page.splitlines() if (found := re.findall(r"^\| (\w+) (\d+) ", line))
    }
    told = {places[0]: line for places, line in lines.items()}
    claims = {(name, str(number)): verdict for name, number, _, verdict in declared()}
    assert told.keys() == claims.keys()
    for place, verdict in claims.items():
        assert f" {verdict} " in told[place], place


def test_every_figure_that_a_page_shows_is_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
