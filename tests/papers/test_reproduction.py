"""Runs are kept, and run again only if something that they rest on has changed."""

import json
import shutil
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import xarray as xr
from matplotlib.figure import Figure

import rankfall
from rankfall.papers import PAPERS, paper
from rankfall.papers.lab import Paper, at_most, code_of_runs, differs
from rankfall.papers.reproduction import Kept, choose, kept, reproduce
from rankfall.papers.reproduction import _folder as folder
from rankfall.papers.reproduction import _provenance as provenance
from rankfall.papers.reproduction import _running as running
from rankfall.papers.reproduction import _task as task
from rankfall.report import write

pytestmark = pytest.mark.slow


@pytest.fixture
def figure():
    """The identities of Zhang et al., which take no time."""
    return choose("zhang", "identities")


@pytest.fixture
def ran(monkeypatch):
    """The seeds that were run."""
    seeds = []
    run = task.run

    def noted(asked):
        seeds.append(asked.seed)
        return run(asked)

    monkeypatch.setattr(running, "run", noted)
    return seeds


def one(chosen, place, seeds=2, executor=None):
    with ThreadPoolExecutor(1) as threads:
        (outcome,) = reproduce(chosen, place, seeds, executor or threads, show=False)
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
    assert {row.seeds for row in outcome.rows} == {3}


def test_a_damaged_run_is_not_believed(figure, ran, tmp_path):
    before = one(figure, tmp_path)
    place = tmp_path / "runs" / "zhang-identities"
    whole = (place / "1.nc").read_bytes()
    for broken in (whole[:1000], whole[:2000] + b"?" + whole[2001:]):
        (place / "1.nc").write_bytes(broken)
        (place / "outcome.json").write_text('{"rests_on": {', encoding="utf-8")
        assert one(figure, tmp_path).rows == before.rows
    assert ran == [0, 1, 1, 1]
    (place / "figure.svg").write_text("", encoding="utf-8")
    assert one(figure, tmp_path).news == "judged again: a file was missing or damaged"
    assert (place / "figure.svg").read_text(encoding="utf-8") == before.figure


def test_another_tolerance_is_judged_and_not_run(figure, ran, tmp_path, monkeypatch):
    one(figure, tmp_path)
    (found, experiment), *_ = figure
    strict = replace(experiment.claims[0], expected=at_most(-1.0, "stricter"))
    others = experiment.claims[1:]
    other = replace(experiment, statements=lambda setting: (strict, *others))
    told = Kept.rests_on.func
    module = "rankfall.papers.zhang.identities"
    monkeypatch.setattr(Kept, "rests_on", property(lambda self: told(self) | {module: "other"}))
    outcome = one([(found, other)], tmp_path)
    assert len(ran) == 2
    assert outcome.news == "judged again: papers.zhang.identities changed"
    assert outcome.rows[0].verdict == "not reproduced"


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
    def fails(setting, seed: int) -> xr.Dataset:
        return whole(setting, seed) if seed else 1 / 0

    (found, experiment), *_ = figure
    whole = experiment.simulation
    fails.__module__ = whole.__module__
    broken = replace(experiment, simulation=fails)
    changed = replace(found, experiments=(broken,))
    monkeypatch.setattr(task, "paper", lambda name: changed)
    with pytest.raises(
        RuntimeError, match=r"(?s)1 of 2 runs failed.*zhang identities, seed 0.*ZeroDivisionError"
    ):
        one([(changed, broken)], tmp_path)
    assert {file.name for file in (tmp_path / "runs" / "zhang-identities").iterdir()} == {"1.nc", "1.json"}


def test_a_run_of_other_code_than_the_one_that_was_read_is_not_believed(figure, tmp_path, monkeypatch):
    run = task.run
    monkeypatch.setattr(running, "run", lambda asked: replace(run(asked), code="edited"))
    with pytest.raises(RuntimeError, match="the code was changed meanwhile"):
        one(figure, tmp_path)
    assert list((tmp_path / "runs").rglob("*.nc")) == []


def test_runs_that_vanish_before_they_are_judged_are_missed(figure, tmp_path):
    one(figure, tmp_path)
    (place,) = kept(figure, tmp_path, 2)
    (place.place / "0.nc").unlink()
    with pytest.raises(RuntimeError, match="changed meanwhile"):
        place.judge("judged again")


def test_what_is_asked_for_again_is_run_again(figure, ran, tmp_path):
    one(figure, tmp_path)
    with ThreadPoolExecutor(1) as threads:
        (outcome,) = reproduce(figure, tmp_path, 2, threads, again=True, show=False)
    assert outcome.news == "run: asked for"
    assert ran == [0, 1, 0, 1]


def test_two_runs_give_the_same_claims_timings_aside(figure, tmp_path):
    said = []
    for name in "ab":
        outcome = one(figure, tmp_path / name)
        write([outcome], tmp_path / name, 1.0)
        claims = json.loads((tmp_path / name / "claims.json").read_text(encoding="utf-8"))
        assert all(row.pop("seconds") > 0 for row in claims["claims"])
        said.append(claims)
    assert said[0] == said[1]
    assert said[0]["environment"]["jax"]


def test_the_page_keeps_what_the_folder_holds_of_other_figures(figure, tmp_path):
    write([one(figure, tmp_path)], tmp_path, 1.0)
    needing = choose("sun", "9")
    write([one(needing, tmp_path, seeds=3)], tmp_path, 1.0)  # the other keeps its two seeds
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {row["figure"] for row in claims} == {"identities", "9"}


def test_what_other_code_found_stays_on_the_page_and_is_marked(figure, tmp_path, monkeypatch):
    write([one(figure, tmp_path)], tmp_path, 1.0)
    told = Kept.rests_on.func
    monkeypatch.setattr(Kept, "rests_on", property(lambda self: told(self) | {"rankfall.loss": "other"}))
    needing = choose("sun", "9")
    write([one(needing, tmp_path)], tmp_path, 1.0)
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {(row["figure"], row["current"]) for row in claims} == {("identities", False), ("9", True)}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "kept from before: the code has changed since" in page


# Other settings


def test_another_setting_is_run_kept_and_shown_beside_the_papers(tmp_path, ran):
    usual, other = choose("frei", "limits"), choose("frei", "limits", changes=["n=4", "slope=0.5"])
    ((_, experiment),) = other
    assert experiment.setting.n == 4
    assert experiment.setting.slopes == (0.5,)
    outcome = one(other, tmp_path)
    assert {row.setting for row in outcome.rows} == {
        "n = 4 (paper: 8), slopes = (0.5) (paper: (0.5, 0.3, 0.1))"
    }
    assert outcome.rows[0].command.endswith("--set n=4 --set slopes=0.5 --again")
    assert not any(map(differs, outcome.rows))
    write([outcome], tmp_path, 1.0)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "The setting is not the paper's" in page
    assert len(ran) == 2
    assert one(other, tmp_path).news == "from the cache"
    assert next(iter(kept(usual, tmp_path, 2))).missing() == [0, 1]
    write([], tmp_path, 1.0)  # what is kept at another setting is shown, whatever else was run
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {row["setting"] for row in claims} == {row.setting for row in outcome.rows}


@pytest.mark.parametrize(
    ("asked", "changes", "said"),
    [
        (("frei", "limits"), ["m=20"], "unknown setting 'm'"),
        (("frei", "limits"), ["n"], "NAME=VALUE"),
        (("frei", "limits"), ["n=many"], "a whole number"),
        (("frei", "limits"), ["starts=1"], "cannot be set from the command line"),
        (("frei",), ["n=20"], "one figure"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_words(asked, changes, said):
    with pytest.raises(ValueError, match=said):
        choose(*asked, changes=changes)


# What a change makes stale


@pytest.fixture
def stale(tmp_path):
    """The experiments whose runs would be run again if a line of a file were another one."""

    def rests_on(*folder):
        return {(p.name, e.name): code_of_runs(e.simulation.__module__, *folder) for p, e in choose()}

    def changed(file, old, new):
        copy = tmp_path / f"copy {len(list(tmp_path.iterdir()))}"
        shutil.copytree(Path(rankfall.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / file).read_text(encoding="utf-8")
        assert old in text
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
        before, after = rests_on(), rests_on(copy)
        return {name for name in before if before[name] != after[name]}

    return changed


def test_a_changed_formula_makes_its_claims_stale_and_no_others(stale):
    file = "theory/mathematics/white_course.py"
    found = stale(file, "q1, q2 = 1 - along, 1 + along", "q1, q2 = 1 + along, 1 - along")
    assert ("zhang", "3") in found
    assert not {("sun", "1"), ("frei", "step")} & found


def test_a_formula_from_a_package_makes_stale_what_takes_it_and_not_what_takes_another(stale):
    found = stale("theory/mathematics/least_norm.py", "def margin_bound(", "def margin_bound(*, ")
    assert ("timor", "depth") in found  # from rankfall.theory.mathematics import margin_bound
    assert not {("zhang", "3"), ("min", "time"), ("le", "tail")} & found  # they take others from there


def test_what_else_a_package_exports_makes_nothing_stale(stale):
    assert not stale("theory/mathematics/__init__.py", '"outside",', '"outside", "another",')
    assert not stale("theory/core/__init__.py", '"ZHANG",', '"ZHANG", "ANOTHER",')


def test_the_function_that_a_setting_names_counts_though_nothing_else_calls_it(stale):
    assert ("kou", "mnist") in stale("papers/kou/mnist.py", "def _data()", "def _data(*_)")


def test_a_change_of_the_limits_leaves_the_runs_of_gradient_descent(stale):
    found = stale("limits/_base.py", "    def run(self) -> Limit:", "    def run(self, other=0) -> Limit:")
    assert {("sun", "map"), ("sun", "properties")} <= found
    assert not {("sun", "1")} & found


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("network.py", "a network needs at least one", "a network needs one"),  # a message
        ("dynamics/_span.py", "Exact reduction of the input", "A reduction of the input"),  # a docstring
        ("papers/frei/limits.py", "The first layer has rank two at most.", "Rank two at most."),  # a sentence
        ("papers/frei/limits.py", 'title="(a) rank two at most"', 'title="(a)"'),  # a figure
        ("papers/frei/limits.py", "def _uniformity(", "def _uniformity(*, "),  # what only claims measure
        ("papers/lab/_drawing.py", "0.4", "0.5"),
        ("plot/_style.py", "0.9", "0.8"),
    ],
)
def test_text_claims_and_figures_make_no_run_stale(stale, file, old, new):
    assert not stale(file, old, new)


# What can be asked for


def test_every_claim_has_an_id_of_its_own_and_belongs_to_one_experiment():
    for name in PAPERS:
        ids = [(claim.id, e.name) for e in paper(name).experiments for claim in e.claims]
        assert len({each for each, _ in ids}) == len(ids)
        for each, figure in ids:
            assert [e.name for _, e in choose(name, claim=each)] == [figure]
            assert [e.name for _, e in choose(claim=f"{name}/{each}")] == [figure]


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
        (("frei", None, "rank-tow"), "Did you mean 'rank-two'"),
        (("sun", None, "frei/rank-two"), "no claim of sun"),
    ],
)
def test_what_is_not_there_is_refused_in_words(asked, said):
    with pytest.raises(ValueError, match=said):
        choose(*asked)


def test_no_seed_at_all_is_refused(figure, tmp_path):
    with pytest.raises(ValueError, match="1 or more"):
        list(reproduce(figure, tmp_path, seeds=0))


# Real data


def on_digits(monkeypatch, run):
    """An experiment on real data, in the place of Min et al.'s on MNIST."""
    (found, experiment), *_ = choose("min", "mnist")
    claim = replace(
        experiment.claims[0], measure=lambda runs: runs.steps, expected=at_most(7, "so"), hypotheses=()
    )
    other = replace(
        experiment, simulation=run, statements=lambda setting: (claim,), picture=lambda *_: Figure()
    )
    others = tuple(other if e is experiment else e for e in found.experiments)
    changed = replace(found, experiments=others)
    monkeypatch.setattr(task, "paper", lambda name: changed)
    monkeypatch.setattr(Kept, "rests_on", {"code": "the same"})
    for module in (folder, task):
        monkeypatch.setattr(module, "code_of", lambda *_: "the same")
    monkeypatch.setattr(folder, "code_below", lambda *_: "the same")
    return [(changed, other)]


def test_real_data_are_run_in_full_only_once_they_are_there_and_with_a_folder_for_checkpoints(
    tmp_path, monkeypatch
):
    places = []

    def run(setting, seed, place):
        places.append(place)
        return xr.Dataset({"steps": 7.0})

    chosen = on_digits(monkeypatch, run)
    monkeypatch.setattr(folder, "available", lambda name: False)
    (outcome,) = reproduce(chosen, tmp_path, full=True)
    assert outcome.news == "not run: needs mnist: see `rankfall data list`"
    monkeypatch.setattr(folder, "available", lambda name: True)
    (outcome,) = reproduce(chosen, tmp_path)
    assert outcome.news.startswith("not run: needs --full: it runs on mnist, for about ")
    assert (outcome.rows[0].verdict, places) == ("needs data", [])
    assert not differs(outcome.rows[0])
    (outcome,) = reproduce(chosen, tmp_path, full=True)
    assert (outcome.news, outcome.rows[0].verdict) == ("run: new", "reproduced")
    assert places[0].parents[2] == tmp_path / "runs" / "min-mnist"
    (outcome,) = reproduce(chosen, tmp_path)  # what was found is shown also without --full
    assert (outcome.news, outcome.rows[0].verdict) == ("from the cache", "reproduced")
    (outcome,) = reproduce(chosen, tmp_path, again=True)  # also where it cannot be run again
    assert (outcome.news, outcome.rows[0].verdict) == ("from the cache", "reproduced")


def test_a_run_that_is_made_again_goes_on_from_its_own_checkpoints_only(tmp_path, monkeypatch):
    def run(setting, seed, place):
        place.mkdir(parents=True, exist_ok=True)
        pieces = place / "pieces"
        done = 1 + (int(pieces.read_text()) if pieces.exists() else 0)
        pieces.write_text(str(done))
        if done == 1:
            raise KeyboardInterrupt  # stopped after the first piece
        return xr.Dataset({"steps": float(done)})

    chosen = on_digits(monkeypatch, run)
    monkeypatch.setattr(folder, "available", lambda name: True)
    for again in (False, True, True):
        with pytest.raises(KeyboardInterrupt):
            list(reproduce(chosen, tmp_path, again=again, full=True))
        (outcome,) = reproduce(chosen, tmp_path, again=again, full=True)
        assert outcome.rows[0].measured == "2"
    folders = [path.name for path in (tmp_path / "runs" / "min-mnist" / "checkpoints").glob("*/*")]
    assert folders == ["0"]


def test_the_checkpoints_of_other_code_go_once_a_run_is_kept(tmp_path, monkeypatch):
    def run(setting, seed, place):
        place.mkdir(parents=True)
        return xr.Dataset({"steps": 7.0})

    chosen = on_digits(monkeypatch, run)
    monkeypatch.setattr(folder, "available", lambda name: True)
    old = tmp_path / "runs" / "min-mnist" / "checkpoints" / "another"
    (old / "0").mkdir(parents=True)
    (old / "1").mkdir()  # of a seed that is not run now
    list(reproduce(chosen, tmp_path, full=True))
    assert [path.name for path in old.iterdir()] == ["1"]


def test_checkpoints_rest_on_the_measures_that_a_run_records_and_not_on_the_papers():
    ((_, experiment),) = choose("sun", "9")
    below = code_of_runs(experiment.simulation.__module__)
    assert {
        "rankfall.measure._fit",
        "rankfall.measure._spectrum",
        "rankfall.dynamics._descent.driver",
    } <= below.keys()
    assert provenance.code_below(experiment) == provenance.code_below(experiment.at(width=8))
    assert provenance.code_of(experiment) != provenance.code_of(experiment.at(width=8))
