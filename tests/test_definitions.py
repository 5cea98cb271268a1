"""What a function rests on, read from its source: nothing that is called is missed, and little else there."""

import shutil
import sys
from pathlib import Path

import pytest

import rankfall as rf
from rankfall import definitions
from rankfall.data import orthogonal_pair
from rankfall.definitions import definition_of, digests, variable_of
from rankfall.dynamics import descent, flow
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.theory.white_course import time_course

CACHES = (definitions._module, definitions._used_by, definitions._file, definitions._measures)


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Read the definitions from a copy of the package, in which a line of a file is another one."""
    copy = tmp_path / "rankfall"
    shutil.copytree(definitions.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(file: str, old: str, new: str) -> None:
        text = (copy / file).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (copy / file).write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.setattr(definitions, "FOLDER", copy)
        for cache in CACHES:
            cache.cache_clear()

    yield edit
    for cache in CACHES:
        cache.cache_clear()


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def called(function) -> set[str]:
    """The top-level definitions of the package that run while a function does."""
    places = set()

    def note(frame, event, arg):
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        name = code.co_qualname.partition(".")[0]
        if module.partition(".")[0] == "rankfall" and name[0] != "<" and name != "__create_fn__":
            places.add(f"{module}.{name}")  # what dataclasses make by themselves is left out

    before = sys.gettrace()
    sys.settrace(note)
    try:
        function()
    finally:
        sys.settrace(before)
    return places


def trained() -> None:
    data = orthogonal_pair()
    network = Network.balanced((2, 3, 1), 0.1, 0.1, seed=0)
    descent(network, data, "logistic", 0.1, 3, measures=["stable_rank", "margins"])
    flow(network, data, "square", 0.5, measures=["loss", "balance"])
    limit(network, data, "exponential", show=False)


def test_all_that_is_called_is_among_what_a_function_rests_on():
    rests_on = digests(
        *(definition_of(thing) for thing in (orthogonal_pair, Network, descent, flow, limit)),
        *(("rankfall.measure", name) for name in ("stable_rank", "margins", "balance", "loss")),
    )
    seen = called(trained)
    assert len(seen) > 100
    assert seen - rests_on.keys() == set()


def test_a_closed_form_rests_on_nothing_but_its_own_file():
    assert set(digests(definition_of(time_course))) == {
        "rankfall.theory.white_course",
        "rankfall.theory.white_course.direction_of",
        "rankfall.theory.white_course.time_course",
    }


def test_gradient_descent_rests_on_no_theorem_no_limit_and_no_figure():
    modules = {name.split(".")[1] for name in digests(definition_of(descent))}
    assert {"dynamics", "measure", "network", "loss"} <= modules
    assert not modules & {"theory", "limits", "plot", "papers", "cli"}


def test_a_measure_asked_for_by_name_is_followed():
    assert "rankfall.measure.spectrum.stable_rank" in digests(("rankfall.papers.sun", "PAPER"))


def test_a_changed_formula_changes_one_digest(edited):
    root = ("rankfall.theory.time_course", "RESULTS")
    before = digests(root)
    edited("theory/white_course.py", "q1, q2 = 1 - along, 1 + along", "q1, q2 = 1 + along, 1 - along")
    assert changed(before, digests(root)) == {"rankfall.theory.white_course.time_course"}


def test_comments_and_docstrings_change_nothing(edited):
    before = digests(definition_of(flow))
    edited("dynamics/flow.py", '"""Gradient flow to a tolerance', '"""Gradient flow, to a tolerance')
    edited("loss.py", "LOSSES = {", "# A comment.\nLOSSES = {")
    assert changed(before, digests(definition_of(flow))) == set()


def test_a_constant_changes_those_who_use_it(edited):
    names = ("flow", "descent")
    before = {name: digests(("rankfall.dynamics", name)) for name in names}
    edited("dynamics/march.py", "CHUNK = ", "CHUNK = 2 * ")
    after = {name: digests(("rankfall.dynamics", name)) for name in names}
    assert changed(before["descent"], after["descent"]) == {"rankfall.dynamics.march.CHUNK"}
    assert changed(before["flow"], after["flow"]) == set()


def test_what_is_looked_up_at_run_time_is_refused():
    with pytest.raises(ValueError, match="import it by name"):
        digests(("rankfall.theory", "assess"))


def test_a_name_that_is_nowhere_defined_is_refused(edited):
    edited("loss.py", "LOSSES = {", "import rankfall.network as here\nLOSSES = here.Nowhere and {")
    with pytest.raises(ValueError, match=r"rankfall\.network\.Nowhere"):
        digests(("rankfall.loss", "named"))


def test_a_variable_is_found_by_what_it_holds():
    assert variable_of(rf.loss.LOSSES, "rankfall.loss") == ("rankfall.loss", "LOSSES")
    with pytest.raises(ValueError, match="give it one"):
        variable_of(object(), "rankfall.loss")


def test_the_package_that_is_read_is_the_one_that_runs():
    assert Path(rf.__file__).parent == definitions.FOLDER
