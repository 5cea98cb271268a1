"""Bring the README and the documentation up to date with a report: `make record` runs it.

The figures that a page shows go from `report/runs` to docs/assets/papers, the claims to docs/claims.md, and
the table of counts to the README, between its two marks. What was run on real data, if the report has it,
goes to docs/full: the runs, the claims and their page; what is there already stands in for what the report
lacks.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from rankfall import plot
from rankfall.papers.lab import Outcome, Row, differs
from rankfall.papers.reproduction import choose, found_before
from rankfall.report import counts_table, table, write

ROOT = Path(__file__).parents[1]
FULL = ROOT / "docs" / "full"
MARKED = re.compile(r"(?s)(<!-- counts -->\n).*?(<!-- end of counts -->)")
INTRODUCTION = """\
# Every claim

All claims of the papers with what came out of them, as `rankfall reproduce --full` finds them. The page
that it writes has the same with figures, hypotheses and certificates; see [Reproducing the
papers](guide/reproduce.md).
"""


def main(report: Path) -> None:
    """Write them."""
    keep_full(report)
    claims = claims_of(report)
    declared = [f"{paper.name}/{claim.id}" for paper, e in choose() for claim in e.claims]
    if [row.id for row in claims] != declared:
        sys.exit(f"{report} does not hold all claims: run `rankfall reproduce` first.")
    if differing := [row.id for row in claims if differs(row)]:
        sys.exit(f"not the verdicts on record: {', '.join(differing)}.")
    page = f"{INTRODUCTION}\n{counts_table(claims)}\n\n{table(claims)}\n"
    (ROOT / "docs" / "claims.md").write_text(page, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    filled = MARKED.sub(lambda found: f"{found[1]}{counts_table(claims)}\n{found[2]}", readme)
    (ROOT / "README.md").write_text(filled, encoding="utf-8")
    folder = ROOT / "docs" / "assets" / "papers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = [readme, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))]
    for name in set(re.findall(r"assets/papers/([\w.-]+)\.svg", "\n".join(pages))):
        (source,) = [f for r in (report, FULL) if (f := r / "runs" / name / "figure.svg").is_file()][:1]
        (folder / f"{name}.svg").write_text(_on_paper(source.read_text(encoding="utf-8")), encoding="utf-8")


def keep_full(report: Path) -> None:
    """Copy what the report has on real data to docs/full, and write its page there."""
    outcomes: list[Outcome] = []
    for paper, experiment in choose():
        found = found_before(paper, experiment, report) if experiment.needs else None
        if found is None:
            continue
        outcomes.append(found)
        place = Path("runs") / f"{paper.name}-{experiment.name}"
        shutil.rmtree(FULL / place, ignore_errors=True)
        shutil.copytree(report / place, FULL / place, ignore=shutil.ignore_patterns("checkpoints", ".*"))
    if outcomes:
        write(outcomes, FULL, sum(outcome.seconds for outcome in outcomes))


def claims_of(report: Path) -> list[Row]:
    """The claims of the report; those on real data from the last full run that was kept."""
    full = {row.id: row for row in _read(FULL, stale=True)}
    return [full.get(row.id, row) if row.needs else row for row in _read(report)]


def _read(folder: Path, stale: bool = False) -> list[Row]:
    """The claims at the papers' settings, if the present code found them; `stale`: whatever found them."""
    file = folder / "claims.json"
    told = json.loads(file.read_text(encoding="utf-8"))["claims"] if file.is_file() else []
    rows = [Row.of_json(each) for each in told if stale or each["current"] or each["needs"]]
    return [row for row in rows if not row.setting]


def _on_paper(svg: str) -> str:
    """The figure for a page that is not ours: in ink on white, whatever the theme."""
    white = '<rect width="100%" height="100%" fill="white"/>'
    return re.sub(r"(<svg\b[^>]*>)", rf"\1{white}", svg.replace("currentColor", plot.INK), count=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "report")
