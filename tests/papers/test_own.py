"""A paper of a user's own: one file, with a module next to it, run like any other paper."""

import json
import re
from pathlib import Path

import pytest

from rankfall.papers import PAPERS, paper
from rankfall.papers.lab import code_of_all, code_of_runs, module_of
from rankfall.papers.reproduction import choose, reproduce
from rankfall.report._files import write

MINE = '''
"""Is the mean of three draws small?"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import drawn
from rankfall.papers import Claim, Experiment, Paper
from rankfall.papers.lab import at_most
from rankfall.theory.core import Source


@dataclass(frozen=True)
class Setting:
    n: int = 3


def means(setting, seed):
    return xr.Dataset({"mean": np.abs(drawn.numbers(setting.n, seed).mean())})


def picture(setting, runs):
    figure, ax = plt.subplots()
    ax.plot(runs.seed, runs["mean"])
    return figure


def claims(setting):
    return (
        Claim("small", "The mean is small.", "mine", "|mean|", lambda r: r["mean"], at_most(5, "a guess")),
    )


MEANS = Experiment("means", "Means", Setting(), means, picture, statements=claims, seeds=4, about="Draws.")
PAPER = Paper("mine", "Means of draws", Source("Me", 2026, "unpublished"), (MEANS,))
'''
DRAWN = (
    "import numpy as np\n\n\ndef numbers(n, seed):\n    return np.random.default_rng(seed).normal(size=n)\n"
)


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "drawn.py").write_text(DRAWN)
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def reproduced(file, folder, seeds=None, **rest):
    return list(reproduce(choose(str(file), **rest), folder, seeds, executor=0, show=False))


def test_a_file_of_ones_own_is_run_judged_kept_and_shown_like_any_paper(mine, tmp_path):
    (outcome,) = reproduced(mine, tmp_path / "report")
    (row,) = outcome.rows
    assert (row.id, row.verdict, row.seeds) == ("mine/small", "reproduced", 4)
    assert row.command == f"rankfall reproduce {mine} --claim small --again"
    assert "<svg" in outcome.figure
    page = write([outcome], tmp_path / "report", 1.0)
    assert "Means of draws" in page.read_text()
    assert "mine/small" in [c["id"] for c in json.loads((page.parent / "claims.json").read_text())["claims"]]
    (again,) = reproduced(mine, tmp_path / "report")
    assert again.news == "from the cache"


def test_it_runs_at_another_setting_and_by_the_id_of_its_claim(mine, tmp_path):
    (outcome,) = reproduced(mine, tmp_path / "report", claim="mine/small", changes=["n=100"])
    assert outcome.experiment.differs == "n = 100 (paper: 3)"
    with pytest.raises(ValueError, match="frei/rank-two is no claim of"):
        choose(str(mine), claim="frei/rank-two")


@pytest.mark.parametrize(
    ("name", "old", "new", "runs_too"),
    [
        ("mine.py", "at_most(5", "at_most(4", False),  # only what is claimed
        ("mine.py", "n: int = 3", "n: int = 4", True),
        ("drawn.py", "normal", "uniform", True),
    ],
)
def test_its_runs_rest_on_the_file_and_on_those_next_to_it_that_it_imports(
    mine, tmp_path, name, old, new, runs_too
):
    other = tmp_path / "other"
    other.mkdir()
    for file in (mine, mine.with_name("drawn.py")):
        text = file.read_text()
        assert (old in text) == (file.name == name)
        (other / file.name).write_text(text.replace(old, new))
    before, after = str(mine), str(other / "mine.py")
    (experiment,) = paper(before).experiments
    assert module_of(experiment.simulation) == before
    assert {"mine.py", "drawn.py"} <= code_of_runs(before).keys()
    assert (code_of_runs(after)[name] != code_of_runs(before)[name]) == runs_too
    assert code_of_all(after)[name] != code_of_all(before)[name]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", r"mine.py does not run: SyntaxError in line 1: '\(' was never closed."),
        ("\nimport nowhere_to_be_found", "does not run: ModuleNotFoundError in line 2: No module named"),
        ("x = 1", r"mine.py defines no paper: end it with PAPER = Paper\("),
    ],
    ids=["syntax", "import", "no paper"],
)
def test_a_file_that_is_no_paper_is_told_so(mine, text, said):
    mine.write_text(text)
    with pytest.raises(ValueError, match=said):
        paper(str(mine))


def test_a_missing_file_and_a_name_that_is_taken_are_told(mine, tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*nobody\.py"):
        paper(str(tmp_path / "nobody.py"))
    mine.write_text(re.sub('Paper."mine"', f'Paper("{PAPERS[0]}"', mine.read_text()))
    with pytest.raises(ValueError, match="which is taken: give it another name"):
        paper(str(mine))


def test_the_paper_in_the_guide_runs_as_it_stands_there(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "reproduce.md").read_text(encoding="utf-8")
    (text,) = (
        block for block in re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL) if "PAPER =" in block
    )
    file = tmp_path / "mine.py"
    file.write_text(text)
    (outcome,) = reproduced(file, tmp_path / "report", seeds=2)
    assert [row.verdict for row in outcome.rows] == ["reproduced"]
