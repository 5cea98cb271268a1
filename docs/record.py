"""Bring the README and the documentation up to date with a report: `make record` runs it.

The figures that a page shows go from `report/runs` to docs/assets/papers, the claims to docs/claims.md, and
the table of counts to the README, between its two marks.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from rankfall import plot
from rankfall.papers.reproduction import choose
from rankfall.report.markdown import counts_table, table

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"(?s)(<!-- counts -->\n).*?(<!-- end of counts -->)")
INTRODUCTION = """\
# Every claim

All claims of the papers with what came out of them, as `rankfall reproduce` finds them. The page that it
writes has the same with figures, hypotheses and certificates; see [Reproducing the
papers](guide/reproduce.md).
"""


def main(report: Path) -> None:
    """Write them."""
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))["claims"]
    if len(claims) != sum(len(experiment.claims) for _, experiment in choose()):
        sys.exit(f"{report} does not hold all claims: run `rankfall reproduce` first.")
    differing = [f"{c['paper']} {c['number']}" for c in claims if c["verdict"] != c["recorded"]]
    if differing:
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
        svg = _on_paper((report / "runs" / name / "figure.svg").read_text(encoding="utf-8"))
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")


def _on_paper(svg: str) -> str:
    """The figure for a page that is not ours: in ink on white, whatever the theme."""
    white = '<rect width="100%" height="100%" fill="white"/>'
    return re.sub(r"(<svg\b[^>]*>)", rf"\1{white}", svg.replace("currentColor", plot.INK), count=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "report")
