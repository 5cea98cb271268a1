"""Runs are kept, and run again only if something that they rest on has changed."""

import json
import shutil
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import pytest
import xarray as xr

from rankfall import definitions
from rankfall.papers import PAPERS, paper, reproduction
from rankfall.papers.claim import at_most
from rankfall.papers.experiment import Paper
from rankfall.papers.reproduction import Kept, choose, kept, reproduce
from rankfall.papers.sun import synthetic
from rankfall.report.files import write


@pytest.fixture
def figure(monkeypatch):
    """Sun's Fig. 1, at five epochs."""
    monkeypatch.setattr(synthetic, "EPOCHS", 5)
    return choose("sun", "1")


@pytest.fixture
def ran(monkeypatch):
    """The seeds that were run."""
    seeds = []
    run = reproduction._run

    def noted(task):
        seeds.append(task[2])
        return run(task)

    monkeypatch.setattr(reproduction, "_run", noted)
    return seeds


def one(chosen, folder, seeds=2, executor=None):
    with ThreadPoolExecutor(1) as threads:
        (outcome,) = reproduce(chosen, folder, seeds, executor or threads, show=False)
    return outcome


def test_what_was_found_is_not_run_again(figure, ran, tmp_path):
    first = one(figure, tmp_path)
    assert (first.news, sorted(ran)) == ("run: new", [0, 1])
    second = one(figure, tmp_path)
    assert (second.news, len(ran)) == ("from the cache", 2)
    assert (second.rows, second.figure, second.seconds) == (first.rows, first.figure, first.seconds)


def test_more_seeds_run_only_the_new_ones(figure, ran, tmp_path):
    one(figure, tmp_path)
    outcome = one(figure, tmp_path, seeds=3)
    assert ran == [0, 1, 2]
    assert outcome.news == "run: seeds (2 to 3) changed"
    assert {row["seeds"] for row in outcome.rows} == {3}


def test_a_damaged_run_is_not_believed(figure, ran, tmp_path):
    before = one(figure, tmp_path)
    place = tmp_path / "runs" / "sun-1"
    (place / "1.nc").write_bytes((place / "1.nc").read_bytes()[:1000])
    (place / "outcome.json").write_text('{"rests_on": {', encoding="utf-8")
    outcome = one(figure, tmp_path)
    assert ran == [0, 1, 1]
    assert outcome.rows == before.rows


def test_another_tolerance_is_judged_and_not_run(figure, ran, tmp_path, monkeypatch):
    one(figure, tmp_path)
    (found, experiment), *_ = figure
    strict = replace(experiment.claims[0], expected=at_most(1e-9, "stricter"))
    other = replace(experiment, claims=(strict, *experiment.claims[1:]))
    told = Kept.verdicts_rest_on.func
    rests_on = property(lambda self: told(self) | {"rankfall.papers.sun.synthetic.FIGURE_1": "other"})
    monkeypatch.setattr(synthetic, "FIGURE_1", other)
    monkeypatch.setattr(Kept, "verdicts_rest_on", rests_on)
    outcome = one([(replace(found, experiments=(other,)), other)], tmp_path)
    assert len(ran) == 2
    assert outcome.news == "judged again: papers.sun.synthetic.FIGURE_1 changed"
    assert outcome.rows[0]["verdict"] == "not reproduced"


class Interrupted(Executor):
    """One task is done; at the next somebody presses Ctrl-C."""

    def __init__(self):
        self.done = 0

    def submit(self, function, /, *args):
        future = Future()
        if self.done:
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(function(*args))
        self.done += 1
        return future


def test_what_was_finished_before_ctrl_c_is_kept(figure, ran, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        one(figure, tmp_path, executor=Interrupted())
    assert ran == [0]
    outcome = one(figure, tmp_path)
    assert ran == [0, 1]
    assert outcome.news == "run: begun before, now finished"


def test_a_run_that_fails_is_told_at_the_end_and_the_others_are_kept(figure, tmp_path, monkeypatch):
    def fails(seed: int) -> xr.Dataset:
        return whole(seed) if seed else 1 / 0

    (found, experiment), *_ = figure
    whole = experiment.run
    fails.__module__, fails.__qualname__ = whole.__module__, whole.__qualname__
    broken = replace(experiment, run=fails)
    monkeypatch.setattr(synthetic, "FIGURE_1", broken)
    monkeypatch.setattr("rankfall.papers.sun.PAPER", replace(found, experiments=(broken,)))
    with pytest.raises(RuntimeError, match=r"(?s)1 of 2 runs failed.*sun 1, seed 0.*ZeroDivisionError"):
        one(choose("sun", "1"), tmp_path)
    assert [file.name for file in (tmp_path / "runs" / "sun-1").iterdir()] == ["1.nc"]


def test_two_runs_give_the_same_claims_timings_aside(figure, tmp_path):
    said = []
    for name in "ab":
        outcome = one(figure, tmp_path / name)
        write([outcome], tmp_path / name, 2, 1.0)
        claims = json.loads((tmp_path / name / "claims.json").read_text(encoding="utf-8"))
        assert all(row.pop("seconds") > 0 for row in claims["claims"])
        said.append(claims)
    assert said[0] == said[1]
    assert said[0]["environment"]["jax"]


def test_the_page_keeps_what_the_folder_holds_of_other_figures(figure, tmp_path):
    write([one(figure, tmp_path)], tmp_path, 2, 1.0)
    needing = choose("sun", "8-9")
    write([one(needing, tmp_path)], tmp_path, 2, 1.0)
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {row["figure"] for row in claims} == {"1", "8-9"}


# What a change makes stale


@pytest.fixture
def stale(monkeypatch, tmp_path):
    """The experiments whose runs would be run again if a line of a file were another one."""
    copy = tmp_path / "rankfall"
    shutil.copytree(definitions.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    caches = (definitions._module, definitions._used_by, definitions._file, definitions._measures)

    def rests_on():
        for cache in caches:
            cache.cache_clear()
        places = kept(choose(), tmp_path)
        return {(p.paper.name, p.experiment.name): p.runs_rest_on for p in places if p.experiment.run}

    def changed(file, old, new):
        before = rests_on()
        text = (copy / file).read_text(encoding="utf-8")
        assert old in text
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.setattr(definitions, "FOLDER", copy)
        after = rests_on()
        return {name for name in before if before[name] != after[name]}

    yield changed
    for cache in caches:
        cache.cache_clear()


def test_a_changed_formula_makes_its_claims_stale_and_no_others(stale):
    found = stale("theory/white_course.py", "q1, q2 = 1 - along, 1 + along", "q1, q2 = 1 + along, 1 - along")
    assert ("zhang", "3") in found
    assert {name for name, _ in found} == {"zhang"}


def test_a_change_of_the_limits_leaves_the_runs_of_gradient_descent(stale):
    found = stale("limits/search.py", "def limit(", "def limit(*unused, ")
    assert {("sun", "map"), ("sun", "properties")} <= found
    assert not {("sun", "1"), ("zhang", "3")} & found


# What can be asked for


def test_every_claim_of_every_paper_has_a_number_and_belongs_to_one_experiment():
    for name in PAPERS:
        total = sum(len(e.claims) for e in paper(name).experiments)
        found = [choose(name, claim=number)[0][1].name for number in range(1, total + 1)]
        assert found == [e.name for e in paper(name).experiments for _ in e.claims]


def test_figures_have_names_of_their_own():
    for name in PAPERS:
        names = [e.name for e in paper(name).experiments]
        assert len(set(names)) == len(names)
        assert isinstance(paper(name), Paper)
        assert paper(name).title


def test_there_are_more_than_sixty_claims():
    claims = [claim for name in PAPERS for e in paper(name).experiments for claim in e.claims]
    assert len([claim for claim in claims if claim.recorded != "needs data"]) >= 60


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("zang",), "Did you mean 'zhang'"),
        (("sun", "17"), "unknown figure of sun '17'"),
        ((None, "3"), "belongs to a paper"),
        (("sun", None, 1000), "no claim 1000"),
        (("sun", None, 0), "no claim 0"),
    ],
)
def test_what_is_not_there_is_refused_in_words(asked, said):
    with pytest.raises(ValueError, match=said):
        choose(*asked)


def test_no_seed_at_all_is_refused(figure, tmp_path):
    with pytest.raises(ValueError, match="1 or more"):
        list(reproduce(figure, tmp_path, seeds=0))
