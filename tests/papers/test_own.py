"""A paper of a user's own: one file, with a module next to it, run like any other paper."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
from rankfall.papers import Claim, Experiment, Paper, Source, at_most


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


@pytest.mark.slow
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


def test_its_runs_rest_on_what_the_package_imports_when_it_is_first_used(tmp_path):
    (tmp_path / "mine.py").write_text("from rankfall import descent\n")
    assert "rankfall.dynamics._descent.driver" in code_of_runs(str(tmp_path / "mine.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", r"mine.py: the file does not run: SyntaxError in line 1: '\(' was never closed."),
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


# Mistakes


@pytest.fixture
def with_mistake(mine):
    """The file, with one text in the place of another."""

    def changed(old, new):
        assert old in MINE
        mine.write_text(MINE.replace(old, new))
        return mine

    return changed


def line_of(text):
    """The line of the file in which the text stands."""
    return str(1 + MINE[: MINE.index(text)].count("\n"))


CLAIM = 'Claim("small", "The mean is small.", "mine", "|mean|", lambda r: r["mean"], at_most(5, "a guess")),'
NAMED = 'Source("Me", 2026, "unpublished"), (MEANS,))'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (CLAIM, 2 * CLAIM, "two claims of means are called 'small': ids are unique within a paper."),
        (
            NAMED,
            'Source("Me", 2026, ""), (MEANS, __import__("dataclasses").replace(MEANS, name="others")))',
            r"two claims of mine are called 'small' \(figures means and others\): ids are unique within",
        ),
        (
            "(MEANS,)",
            "(MEANS, MEANS)",
            "two experiments of mine are called 'means', or one is",
        ),
        ("(MEANS,)", "(MEANS)", "the experiments of mine must be a tuple of Experiment: write a comma after"),
        ("(MEANS,)", "[MEANS]", "the experiments of mine must be a tuple of Experiment, not a list"),
        ("(frozen=True)", "", "the setting of means must be an instance of a frozen dataclass"),
        ("Setting(),", "Setting,", r"the setting of means must be an instance: write Setting\(\)"),
        ("n: int = 3", "n: list = [3]", "ValueError in line .*: mutable default .* Settings hold tuples"),
        ('Claim("small"', 'Claim("Small one"', "line LINE: the id of a claim is .* 'Small one' is not"),
        (
            '"a guess")',
            '"a guess"), "true"',
            "the verdict on record of small is .true.: it must be one of",
        ),
        ('at_most(5, "a guess")', "5", r"what is expected of small must be an interval .* not an int"),
        (
            'at_most(5, "a guess")',
            'at_most(5, "a guess"), proofs=("one")',
            "the proofs of small must be a tuple of str: write a comma",
        ),
        (
            CLAIM,
            "1 / 0",
            "the claims of means cannot be made: ZeroDivisionError in line LINE: div",
        ),
        ("means, picture", "lambda s, k: means(s, k), picture", "the simulation of means must be a function"),
    ],
)
def test_a_mistake_in_a_definition_is_told_before_anything_runs(with_mistake, old, new, said):
    with pytest.raises(ValueError, match=rf"(?s)mine\.py.*{said.replace('LINE', line_of(old))}"):
        paper(str(with_mistake(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "setting.n, seed",
            "setting.m, seed",
            "the simulation of means does not run with seed .: Attr.* in line LINE: .* 4 of 4 runs failed",
        ),
        (
            'xr.Dataset({"mean": np.abs(drawn.numbers(setting.n, seed).mean())})',
            "{}",
            "what the simulation of means returns must be an xarray.Dataset, not a dict",
        ),
        (
            'lambda r: r["mean"]',
            "lambda r: r.men",
            "the claim small does not run: Attr.* in line LINE",
        ),
        (
            'lambda r: r["mean"]',
            'lambda r: "low"',
            "the measure of the claim small .* ValueError: could",
        ),
        ('runs["mean"]', 'runs["men"]', "the picture of means does not run: KeyError in line LINE"),
        ("    return figure", "", "what the picture of means returns must be a matplotlib Figure, not None"),
        ("np.abs(", '("x", np.zeros(seed + 1)) or (', "the seeds of means cannot be joined"),
        ("np.abs(", "((), {1: 2}) or (", "the run of means cannot be written"),
    ],
)
def test_an_error_in_a_function_of_the_users_is_a_sentence_with_its_line(
    with_mistake, tmp_path, old, new, said
):
    file = with_mistake(old, new)
    with (
        ThreadPoolExecutor(1) as threads,
        pytest.raises(ValueError, match=rf"(?s)mine\.py: .*{said.replace('LINE', line_of(old))}"),
    ):
        list(reproduce(choose(str(file)), tmp_path / "report", executor=threads, show=False))


@pytest.mark.slow
def test_on_the_command_line_it_is_one_sentence_and_exit_code_2(with_mistake, tmp_path):
    file = with_mistake("setting.n, seed", "setting.m, seed")
    command = ["-m", "rankfall", "reproduce", str(file), "--out", str(tmp_path / "report"), "--workers", "1"]
    ended = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "mine.py: the simulation of means does not run" in ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout


def test_what_is_not_possible_at_another_setting_is_told(with_mistake):
    file = with_mistake("    return (\n", "    1 / (setting.n - 7)\n    return (\n")
    with pytest.raises(ValueError, match=r"means is not possible at this setting: Zero.* in line 3"):
        choose(str(file), changes=["n=7"])
    other = with_mistake('Claim("small"', 'Claim(f"small-{setting.n}"').rename(file.with_name("other.py"))
    with pytest.raises(ValueError, match="unknown claim of means at this setting 'small-3'"):
        choose(str(other), claim="small-3", changes=["n=7"])


@pytest.mark.slow
def test_claims_in_a_file_that_takes_its_simulation_from_another_are_judged_anew(mine, tmp_path):
    mine.with_name("simulated.py").write_text(
        "import xarray as xr\n\n\ndef means(setting, seed):\n    return xr.Dataset({'mean': 0.0})\n"
    )
    text = re.sub(r"def means.*?\n\n\n", "", MINE, flags=re.DOTALL)
    text = text.replace("import drawn", "from simulated import means")
    mine.write_text(text)
    (first,) = reproduced(mine, tmp_path / "report")
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text(text.replace("at_most(5", "at_most(-1"))
    (second,) = reproduced(other / "mine.py", tmp_path / "report")
    assert [o.rows[0].verdict for o in (first, second)] == ["reproduced", "not reproduced"]


@pytest.mark.slow
def test_the_paper_in_the_guide_runs_as_it_stands_there(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "reproduce.md").read_text(encoding="utf-8")
    (text,) = (
        block for block in re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL) if "PAPER =" in block
    )
    file = tmp_path / "mine.py"
    file.write_text(text)
    (outcome,) = reproduced(file, tmp_path / "report", seeds=2)
    assert [row.verdict for row in outcome.rows] == ["reproduced"]
