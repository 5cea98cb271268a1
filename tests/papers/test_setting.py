"""Settings are changed by name, from Python and from the command line; experiments run at any of them."""

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from rankfall._identity import stable_name
from rankfall.data import Data
from rankfall.data import mnist as digits
from rankfall.papers.lab import (
    Claim,
    Experiment,
    at_most,
    changed,
    differences,
    parsed,
    text_of,
    values,
)


def ones(n):
    return np.ones(n)


def halves(n):
    return np.full(n, 0.5)


@dataclass(frozen=True)
class Setting:
    n: int = 8
    step: float = 0.1
    loss: str = "logistic"
    exact: bool = True
    slopes: tuple[float, ...] = (0.5, 0.3)
    widths: tuple[int, ...] = (4, 6)
    kinds: tuple[str, ...] = ("free", "diagonal")
    flags: tuple[bool, ...] = (True, False)
    sizes: tuple[tuple[int, ...], ...] = ((2, 3), (4, 5))
    starts: Mapping[str, float] = field(default_factory=lambda: {"small": 0.01, "large": 1.0})
    load: Callable[[int], np.ndarray] = ones
    end: float | None = None
    process: int = 2  # ends in s, and is no plural

    @property
    def dim(self):
        return 2 * self.n


SETTING = Setting()


def set_by(*assignments):
    """The setting after --set of each."""
    return changed(SETTING, parsed(SETTING, assignments))


# --- from Python ------------------------------------------------------------------------------------------


def test_a_change_makes_a_new_setting_and_leaves_the_old_one():
    new = changed(SETTING, {"n": 20, "loss": "exponential"})
    assert (new.n, new.loss, new.step) == (20, "exponential", 0.1)
    assert Setting() == SETTING
    with pytest.raises(FrozenInstanceError):
        new.n = 3


def test_no_change_is_the_same_setting():
    assert changed(SETTING, {}) == SETTING


def test_derived_numbers_follow():
    assert changed(SETTING, {"n": 20}).dim == 40


def test_the_singular_of_a_field_is_one_of_its_numbers():
    new = changed(SETTING, {"slope": 0.2, "width": 9, "kind": "identity"})
    assert (new.slopes, new.widths, new.kinds) == ((0.2,), (9,), ("identity",))


def test_only_tuples_have_a_singular():
    for name in ("start", "proces"):
        with pytest.raises(ValueError, match=f"unknown setting '{name}'. Did you mean '{name}s'"):
            changed(SETTING, {name: 1})


def test_a_whole_number_is_a_number():
    new = changed(SETTING, {"step": 2, "slopes": (1, 0.5)})
    assert (new.step, new.slopes) == (2.0, (1.0, 0.5))
    assert {type(number) for number in (new.step, *new.slopes)} == {float}
    assert type(changed(SETTING, {"slope": 1}).slopes[0]) is float


def test_a_list_becomes_a_tuple_at_any_depth():
    assert changed(SETTING, {"widths": [3, 4, 5]}).widths == (3, 4, 5)
    assert changed(SETTING, {"sizes": [[1, 2]]}).sizes == ((1, 2),)
    assert changed(SETTING, {"size": [1, 2]}).sizes == ((1, 2),)


def test_a_tuple_may_become_longer_shorter_or_empty():
    for slopes in ((0.1, 0.2, 0.3), (0.1,), ()):
        assert changed(SETTING, {"slopes": slopes}).slopes == slopes


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("n", 2.5, "n must be a whole number, such as 8; 2.5 is not."),
        ("n", "20", "n must be a whole number, such as 8; '20' is not."),
        ("n", True, "n must be a whole number, such as 8; True is not."),
        ("n", None, "n must be a whole number, such as 8; None is not."),
        ("step", "0.1", "step must be a number, such as 0.1; '0.1' is not."),
        ("step", False, "step must be a number, such as 0.1; False is not."),
        ("loss", 1, "loss must be a word, such as 'logistic'; 1 is not."),
        ("exact", 1, "exact must be true or false, such as True; 1 is not."),
        ("exact", "true", "exact must be true or false, such as True; 'true' is not."),
        ("slopes", 0.3, "slopes must be a tuple, such as (0.5, 0.3); 0.3 is not."),
        ("slopes", (0.3, "x"), "slopes must be a number, such as 0.5; 'x' is not."),
        ("slope", "x", "slope must be a number, such as 0.5; 'x' is not."),
        ("widths", (4, 0.5), "widths must be a whole number, such as 4; 0.5 is not."),
        ("kinds", "free", "kinds must be a tuple, such as ('free', 'diagonal'); 'free' is not."),
        ("starts", 0.1, "starts must be a dict, such as {'small': 0.01, 'large': 1.0}; 0.1 is not."),
    ],
)
def test_a_value_of_another_kind_is_refused(name, value, told):
    with pytest.raises(ValueError, match="must be") as caught:
        changed(SETTING, {name: value})
    assert str(caught.value) == told


def test_mappings_functions_and_what_is_left_open_are_set_from_python():
    new = changed(SETTING, {"starts": {"tiny": 1e-6}, "load": halves, "end": 3.0})
    assert (new.starts, new.load, new.end) == ({"tiny": 1e-6}, halves, 3.0)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("slops", "slopes"), ("steps", "step"), ("N", "n"), ("Loss", "loss"), ("wdth", "widths")],
)
def test_an_unknown_name_brings_a_suggestion(name, meant):
    for refused in (lambda: changed(SETTING, {name: 1}), lambda: parsed(SETTING, [f"{name}=1"])):
        with pytest.raises(ValueError, match=f"unknown setting '{name}'. Did you mean '{meant}'"):
            refused()


def test_a_name_like_no_other_brings_the_list_of_all():
    with pytest.raises(ValueError, match="unknown setting 'zzz'") as caught:
        changed(SETTING, {"zzz": 1})
    assert "Did you mean" not in str(caught.value)
    for each in fields(Setting):
        assert each.name in str(caught.value)


def test_what_is_derived_cannot_be_set():
    with pytest.raises(ValueError, match="unknown setting 'dim'"):
        changed(SETTING, {"dim": 3})


# --- from the command line --------------------------------------------------------------------------------


def test_numbers_and_words_are_read_as_what_the_field_holds():
    assert parsed(SETTING, ["n=20", "step=1e-3", "loss=exponential"]) == {
        "n": 20,
        "step": 1e-3,
        "loss": "exponential",
    }
    assert type(parsed(SETTING, ["step=2"])["step"]) is float
    assert parsed(SETTING, ["loss=20"]) == {"loss": "20"}


def test_commas_separate_the_numbers_of_a_tuple():
    assert set_by("slopes=0.1,0.3,1", "widths=3,4", "kinds=free,identity") == changed(
        SETTING, {"slopes": (0.1, 0.3, 1.0), "widths": (3, 4), "kinds": ("free", "identity")}
    )


def test_one_number_is_enough_for_a_tuple_under_either_name():
    assert set_by("slopes=0.1") == set_by("slope=0.1") == changed(SETTING, {"slopes": (0.1,)})


def test_spaces_do_not_count():
    assert set_by(" n = 20 ", "kinds = free , identity") == changed(
        SETTING, {"n": 20, "kinds": ("free", "identity")}
    )


def test_only_the_first_equals_sign_separates():
    assert parsed(SETTING, ["loss=a=b"]) == {"loss": "a=b"}


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("FALSE", False), ("false", False)]
)
def test_true_and_false_are_read_in_any_case(text, value):
    assert set_by(f"exact={text}").exact is value
    assert set_by(f"flags={text},{text}").flags == (value, value)
    assert set_by(f"flag={text}").flags == (value,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n=2.5", "n must be a whole number, such as 8; '2.5' is not."),
        ("n=", "n must be a whole number, such as 8; '' is not."),
        ("n=many", "n must be a whole number, such as 8; 'many' is not."),
        ("step=small", "step must be a number, such as 0.1; 'small' is not."),
        ("exact=1", "exact must be true or false, such as True; '1' is not."),
        ("exact=yes", "exact must be true or false, such as True; 'yes' is not."),
        ("slopes=0.1,x", "slopes must be a number, such as 0.5; 'x' is not."),
        ("slopes=0.1,", "slopes must be a number, such as 0.5; '' is not."),
        ("slope=0.1,0.3", "slope must be a number, such as 0.5; '0.1,0.3' is not."),
        ("widths=3,0.5", "widths must be a whole number, such as 4; '0.5' is not."),
    ],
)
def test_a_text_of_another_kind_is_refused(text, told):
    with pytest.raises(ValueError, match="must be") as caught:
        parsed(SETTING, [text])
    assert str(caught.value) == told


@pytest.mark.parametrize("name", ["starts", "load", "end", "sizes"])
def test_mappings_functions_and_nested_tuples_cannot_be_set_from_the_command_line(name):
    with pytest.raises(ValueError, match=f"{name} cannot be set from the command line; from Python it can"):
        parsed(SETTING, [f"{name}=1"])


@pytest.mark.parametrize("text", ["n", "n:20", ""])
def test_without_an_equals_sign_the_form_is_told(text):
    with pytest.raises(ValueError, match=f"--set takes NAME=VALUE, as in --set n=20; this is '{text}'"):
        parsed(SETTING, [text])


# --- as text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8, "8"),
        (0.1, "0.1"),
        (1e-300, "1e-300"),
        (True, "True"),
        (None, "None"),
        ("logistic", "'logistic'"),
        ((0.5, 0.3), "(0.5, 0.3)"),
        ([0.5, 0.3], "(0.5, 0.3)"),
        (((2, 3), (4,)), "((2, 3), (4))"),
        ({"small": (1, 0.01), "odd": ones}, f"{{'small': (1, 0.01), 'odd': {stable_name(ones)}}}"),
        (halves, f"{stable_name(halves)}"),
    ],
)
def test_values_have_a_text(value, text):
    assert text_of(value) == text


def test_every_field_has_its_value_as_text():
    told = values(SETTING)
    assert list(told) == [each.name for each in fields(Setting)]
    assert (told["n"], told["slopes"], told["load"]) == ("8", "(0.5, 0.3)", f"{stable_name(ones)}")


def test_the_texts_of_two_settings_are_equal_if_the_settings_are():
    assert values(set_by("step=2", "slope=1")) == values(changed(SETTING, {"step": 2.0, "slopes": [1]}))


def test_each_change_of_a_field_changes_its_text_and_no_other():
    changes = {
        "n": 9,
        "step": 0.2,
        "loss": "exponential",
        "exact": False,
        "slopes": (0.3, 0.5),
        "widths": (4,),
        "kinds": ("free",),
        "flags": (True,),
        "sizes": ((2, 3),),
        "starts": {"small": 0.01, "large": 2.0},
        "load": halves,
        "end": 1.0,
        "process": 3,
    }
    assert list(changes) == [each.name for each in fields(Setting)]
    usual = values(SETTING)
    for name, value in changes.items():
        now = values(changed(SETTING, {name: value}))
        assert [each for each in now if now[each] != usual[each]] == [name]


def test_differences_tell_what_is_and_what_the_paper_has():
    new = changed(SETTING, {"slope": 0.2, "n": 20})
    assert differences(new, SETTING) == "n = 20 (paper: 8), slopes = (0.2) (paper: (0.5, 0.3))"
    assert differences(SETTING, Setting()) == ""


# --- experiments ------------------------------------------------------------------------------------------


def run_sums(setting, seed):
    """The sum of what is loaded, times each slope; the seed is added."""
    sums = [slope * setting.load(setting.n).sum() + seed for slope in setting.slopes]
    return xr.Dataset({"sum": ("slope", sums)}, coords={"slope": list(setting.slopes)})


def draw_sums(setting, runs):
    figure = Figure()
    figure.subplots().plot(runs.slope, runs["sum"].mean("seed"), label=f"n = {setting.n}")
    return figure


def claims(setting):
    return (
        Claim(
            id="small-sums",
            sentence="No sum is above n / 2.",
            source="made up",
            metric="the largest sum",
            measure=lambda runs: runs["sum"].max("slope"),
            expected=at_most(setting.n / 2, "the largest slope is 0.5"),
        ),
    )


SUMS = Experiment(
    name="sums",
    title="Sums",
    setting=SETTING,
    simulation=run_sums,
    picture=draw_sums,
    statements=claims,
)


def run_noted(setting, seed, folder):
    """A long run: it writes a checkpoint."""
    (folder / "checkpoint").write_text(str(setting.n))
    return run_sums(setting, seed)


NOTED = Experiment(
    name="noted",
    title="Long sums",
    setting=SETTING,
    simulation=run_noted,
    picture=draw_sums,
    statements=claims,
    needs="mnist",
)


def sums(run):
    return run["sum"].values.tolist()


def test_an_experiment_runs_at_its_own_setting():
    assert sums(SUMS.run()) == pytest.approx([4, 2.4])
    assert sums(SUMS.run(3)) == pytest.approx([7, 5.4])


def test_a_run_takes_changes_and_the_experiment_stays_what_it_is():
    assert sums(SUMS.run(n=20, slope=0.1)) == pytest.approx([2])
    assert sums(SUMS.run(seed=1, load=halves)) == pytest.approx([3, 2.2])
    assert SUMS.setting == Setting()


def test_a_run_refuses_what_the_setting_does_not_have():
    with pytest.raises(ValueError, match=r"unknown setting 'slops'\. Did you mean 'slopes'"):
        SUMS.run(slops=(0.1,))
    with pytest.raises(ValueError, match="n must be a whole number"):
        SUMS.at(n=0.5)


def test_at_another_setting_it_is_the_same_experiment_with_other_runs():
    new = SUMS.at(n=20, slope=0.1)
    assert (new.name, new.title, new.simulation) == (SUMS.name, SUMS.title, SUMS.simulation)
    assert sums(new.run()) == sums(SUMS.run(n=20, slope=0.1))
    assert sums(new.run(n=10)) == pytest.approx([1])
    assert sums(SUMS.run()) == pytest.approx([4, 2.4])


def test_claims_follow_the_setting():
    runs = xr.concat([SUMS.run(n=20)], dim="seed")
    (usual,), (new,) = SUMS.claims, SUMS.at(n=20).claims
    assert (usual.expected.high, new.expected.high) == (4, 10)
    assert (usual.judge(runs).verdict, new.judge(runs).verdict) == ("not reproduced", "reproduced")
    assert usual.id == new.id


def test_claims_are_made_once():
    assert SUMS.claims is SUMS.claims


def test_the_figure_follows_the_setting():
    new = SUMS.at(n=20)
    figure = new.draw(xr.concat([new.run(seed) for seed in range(2)], dim="seed"))
    (line,) = figure.axes[0].lines
    assert line.get_label() == "n = 20"
    np.testing.assert_allclose(line.get_ydata(), [10.5, 6.5])


def test_it_tells_what_differs_from_the_paper():
    assert (SUMS.differs, SUMS.changes) == ("", {})
    new = SUMS.at(n=20, slope=0.1)
    assert new.differs == "n = 20 (paper: 8), slopes = (0.1) (paper: (0.5, 0.3))"
    assert new.changes == {"n": 20, "slopes": (0.1,)}


def test_the_paper_is_not_forgotten_after_several_changes():
    new = SUMS.at(n=20).at(step=1).at(n=30)
    assert new.differs == "n = 30 (paper: 8), step = 1.0 (paper: 0.1)"
    assert new.papers == SETTING


def test_back_at_the_papers_setting_nothing_differs():
    for new in (SUMS.at(), SUMS.at(n=8), SUMS.at(n=20).at(n=8), SUMS.at(slopes=[0.5, 0.3])):
        assert (new.differs, new.changes) == ("", {})
        assert new.setting == SUMS.setting


def test_another_function_differs_too():
    assert SUMS.at(load=halves).differs == f"load = {stable_name(halves)} (paper: {stable_name(ones)})"


def test_changes_make_the_same_experiment_again():
    new = SUMS.at(n=20, slope=0.1, load=halves)
    assert SUMS.at(**new.changes).setting == new.setting


def test_a_long_run_asks_for_a_folder_and_writes_there(tmp_path: Path):
    with pytest.raises(ValueError, match="noted runs on mnist and takes long: pass `folder=`"):
        NOTED.run()
    assert sums(NOTED.run(0, tmp_path, n=20)) == pytest.approx([10, 6])
    assert (tmp_path / "checkpoint").read_text() == "20"


def test_functions_without_a_name_of_their_own_are_told_apart_by_what_they_hold():
    texts = [text_of(each) for each in (lambda: 1, lambda: 2, partial(pow, 2), partial(pow, 3), digits)]
    assert len(set(texts)) == 5
    assert text_of(digits) == "rankfall.data._real.mnist"


def test_data_of_one_name_are_told_apart_by_their_numbers():
    first, second = (Data(np.eye(2) * size, [1.0, -1.0], name="mine") for size in (1, 2))
    assert text_of(first) != text_of(second)
    assert text_of(first) == text_of(Data(np.eye(2), [1.0, -1.0], name="mine"))
