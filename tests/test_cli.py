import importlib
import json
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest

import rankfall as rf
from rankfall.cli import main
from rankfall.limits._shown import CONDITIONS
from rankfall.outcome import Outcome

X = np.random.default_rng(0).normal(size=(6, 3))
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
SMALL = ("--width", 4, "--records", 3)


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def rankfall(monkeypatch, capsys, tmp_path):
    """`rankfall ...` in an empty folder, in this process: starting another one costs seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # or rich breaks lines at 80

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["rankfall", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return Answer(end.value.code, *capsys.readouterr())

    yield call
    plt.close("all")


def python(code, *argv):
    return subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)


# How it answers


HELP = """
import sys
from rankfall.cli import main
sys.argv = ["rankfall", "--help"]
try:
    main()
except SystemExit as end:
    print(end.code, [m for m in ("jax", "numpy", "matplotlib", "xarray", "scipy") if m in sys.modules])
"""


def test_help_answers_without_waiting_for_anything_heavy():
    answer = python(HELP).stdout
    assert "reproduce" in answer
    assert "limit" in answer
    assert answer.splitlines()[-1] == "0 []"


LATER = """
import sys
from rankfall import limits, theory  # what `rankfall limit` and `rankfall assess` import before they begin
import rankfall as rf
data = rf.data.gaussian_mixture(n=6, dim=8, seed=0)
end = limits.limit(rf.Network.fixed_second_layer((8, 4, 1), slope=0.1, sigma=1e-4, seed=0), data)
later = ("diffrax", "optax", "matplotlib", "pooch", "requests", "rich")
print(end.verdict, [m for m in later if m in sys.modules])
"""


def test_a_limit_is_found_without_what_only_runs_and_pictures_need():
    assert python(LATER).stdout.splitlines() == ["certified []"]


@pytest.mark.parametrize(
    "words",
    [(*command, "--help") for command in ((), ("run",), ("limit",), ("assess",), ("data",), ("reproduce",))],
)
def test_every_command_has_a_help_page(rankfall, words):
    answer = rankfall(*words)
    assert answer.code == 0
    assert "Usage:" in answer.out
    assert words[0] in answer.out


def test_the_help_of_limit_names_its_options(rankfall):
    said = rankfall("limit", "--help").out
    names = ("label", "data-option", "prepare", "width", "slope", "init", "scale", "bias", "no-bias", "seed")
    for name in (*names, "loss", "tolerance", "budget", "seconds", "no-optimality", "out"):
        assert f"--{name}" in said
    for init in ("fixed_second_layer", "balanced", "gaussian"):
        assert init in said


def test_the_help_tells_the_exit_codes(rankfall):
    said = " ".join(rankfall("--help").out.split())
    assert "Exit codes: 0 finished; 1 a claim or a run failed; 2 bad input; 3 no answer yet" in said


def test_the_version_is_that_of_the_package(rankfall):
    assert rankfall("--version").out == f"rankfall {importlib.metadata.version('rankfall')}\n"


@pytest.mark.slow
def test_a_mistake_is_one_sentence_and_exit_code_2_from_the_shell_too(tmp_path):
    words = [sys.executable, "-m", "rankfall", "reproduce", "zang"]
    answer = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("rankfall: unknown paper 'zang'. Did you mean 'zhang'? Known: zhang,")
    assert answer.stderr.count("\n") == 1


IMPORT = """
import sys
import rankfall
assert "jax" not in sys.modules
import jax
before = dict(jax.config.values)
for name in rankfall.__all__:
    getattr(rankfall, name)
assert dict(jax.config.values) == before
print(jax.config.jax_enable_x64)
"""


def test_importing_rankfall_leaves_the_configuration_of_jax_untouched():
    assert python(IMPORT).stdout == "False\n"


def test_the_public_names_are_listed_and_there():
    assert dir(rf) == sorted(rf.__all__)
    for name in ("Data", "Network", "Trajectory", "Until", "descent", "flow", "data", "papers", "plot"):
        assert name in dir(rf)
    assert all(getattr(rf, name) is not None for name in rf.__all__)


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rankfall' has no attribute 'desent'"):
        _ = rf.desent


# rankfall run


def csv_file(path):
    rows = "\n".join(",".join(map(repr, map(float, row))) for row in np.column_stack([X, SIGNS]))
    path.write_text(f"a,b,c,outcome\n{rows}\n", encoding="utf-8")


def npz_file(path):
    np.savez(path, x=X, y=SIGNS, x_test=-X, y_test=-SIGNS)


SINE = ("symmetric_sine", "-d", "pairs=8", "-d", "dim=3", "-d", "white=True")
RUNS = {
    "descent on a constructed set": ("xor", "--steps", 7, "--step", 0.1, "--log"),
    "SGD with biases on a csv": (
        *("mine.csv", "--label", "outcome", "--steps", 9, "--batch", 4, "--bias"),
        *("--loss", "logistic.sum", "-m", "loss", "-m", "norms"),
    ),
    "a fixed second layer on an npz": (
        *("mine.npz", "--steps", 5, "--init", "fixed_second_layer", "-m", "test_loss"),
    ),
    "flow on a constructed set": (*SINE, "--until", 0.5, "--init", "rank_one", "--scale", 0.5),
}


@pytest.mark.parametrize("words", RUNS.values(), ids=RUNS)
def test_a_run_is_summarised_saved_and_drawn(rankfall, tmp_path, words):
    csv_file(tmp_path / "mine.csv")
    npz_file(tmp_path / "mine.npz")
    answer = rankfall("run", *words, *SMALL, "--seed", 5, "--out", "kept")
    assert answer.code == 0
    (saved,) = (tmp_path / "kept").glob("*.nc")
    (drawn,) = (tmp_path / "kept").glob("*.png")
    assert len(list((tmp_path / "kept").iterdir())) == 2
    run = rf.Trajectory.load(saved)
    assert run.network.widths[1:] == (4, 1)
    assert np.isfinite(run.network.weights[0]).all()
    assert plt.imread(drawn).ndim == 3
    said = answer.out.splitlines()
    assert said[0] == repr(run.network)
    assert f"saved: kept/{saved.name}" in said
    assert f"figure: kept/{drawn.name}" in said
    assert f"outcome: {run.settings['outcome']}" in said
    for name, values in run.data_vars.items():
        (row,) = [line for line in said if f"│ {name} " in line]
        assert f"{values.values.flat[0]:.6g}" in row
        assert f"{values.values.flat[-1]:.6g}" in row


def test_a_run_from_the_command_line_is_the_run_from_python(rankfall, tmp_path):
    rankfall("run", "xor", *SMALL, "--steps", 7, "--step", 0.1, "--slope", 0.2, "--seed", 3)
    run = rf.Trajectory.load(tmp_path / "runs" / "xor_slope0.2_seed3.nc")
    network = rf.Network.gaussian((2, 4, 1), slope=0.2, scale=1e-3, seed=3)
    same = rf.descent(network, rf.data.xor(), "square", 0.1, 7, seed=3, record=rf.linear(3))
    np.testing.assert_array_equal(run.network.weights[0], same.network.weights[0])
    assert run.dataset.identical(same.dataset)


@pytest.fixture
def asked(monkeypatch):
    """What the command line asks of the dynamics, which then refuse."""
    calls = []

    def refuse(*args, **options):
        calls.append((*args, options))
        raise ValueError("enough.")

    for name in ("descent", "flow", "exact_flow"):
        monkeypatch.setattr(f"rankfall.dynamics.{name}", refuse)
    return calls


def test_data_options_reach_the_constructed_set(rankfall, asked):
    options = ("-d", "n=4", "-d", "dim=5", "-d", "norm=2.5", "-d", "balanced=False", "-d", "seed=3")
    rankfall("run", "orthogonal", *options, "--steps", 1)
    ((network, data, *_),) = asked
    same = rf.data.orthogonal(n=4, dim=5, norm=2.5, balanced=False, seed=3)
    np.testing.assert_array_equal(data.x, same.x)
    assert network.widths == (5, 100, 1)


def test_data_are_prepared_in_the_order_asked_for(rankfall, asked):
    words = ("-p", "pair=-1,1", "-p", "subset=6,3", "-p", "standardise", "-p", "with_bias")
    rankfall("run", "orthogonal", "-d", "n=8", "-d", "dim=9", *words, "--steps", 1)
    ((network, data, *_),) = asked
    six = rf.data.subset(rf.data.pair(rf.data.orthogonal(n=8, dim=9), -1, 1), 6, 3)
    same = rf.data.with_bias(rf.data.standardise(six))
    np.testing.assert_array_equal(data.x, same.x)
    np.testing.assert_array_equal(data.y, same.y)
    assert network.widths == (10, 100, 1)


def test_prepared_data_give_files_of_a_plain_name(rankfall, tmp_path):
    rankfall("run", "xor", "-p", "pair=1,-1", "-p", "split=2,0", "--steps", 3, "--out", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"xor-1--1-split-2-2_slope0_seed0.nc", "xor-1--1-split-2-2_slope0_seed0.png"} <= names


def test_loss_below_is_a_flow_without_an_end_in_time(rankfall, asked):
    rankfall(
        "run",
        "xor",
        "--loss-below",
        0.1,
        "--clock",
        "loss",
        "--rtol",
        1e-5,
        "-m",
        "loss",
        "--loss",
        "logistic",
    )
    ((_, _, loss, until, options),) = asked
    assert (loss, until) == ("logistic", rf.Until(loss=0.1))
    assert options == {"clock": "loss", "rtol": 1e-5, "measures": ["loss"]}


def test_each_flow_has_its_own_tolerance_and_budget_unless_told(rankfall, asked):
    for words in ((), ("--rtol", 1e-6), ("--budget", 50)):
        rankfall("run", "xor", "--until", 1, "--exact", *words)
    assert [{"rtol", "budget"} & set(options) for *_, options in asked] == [set(), {"rtol"}, {"budget"}]
    assert (asked[1][-1]["rtol"], asked[2][-1]["budget"]) == (1e-6, 50)


def test_an_exact_run_from_the_command_line_is_the_run_from_python(rankfall, tmp_path):
    words = ("--until", 2, "--loss", "exponential", "--scale", 0.1, "--exact", "--log", "-m", "loss")
    answer = rankfall("run", "xor", *SMALL, *words)
    assert answer.code == 0
    assert "method: exact gradient flow" in answer.out
    run = rf.Trajectory.load(tmp_path / "runs" / "xor_slope0_seed0.nc")
    network = rf.Network.gaussian((2, 4, 1), slope=0.0, scale=0.1, seed=0)
    same = rf.exact_flow(
        network, rf.data.xor(), "exponential", 2.0, measures=["loss"], record=rf.logarithmic(3), show=False
    )
    assert {"loss", "kinks", "regions"} == set(run.data_vars)
    np.testing.assert_array_equal(run.network.weights[0], same.network.weights[0])
    assert run.dataset.identical(same.dataset)
    assert run.events.identical(same.events)
    assert plt.imread(tmp_path / "runs" / "xor_slope0_seed0.png").ndim == 3


@pytest.mark.parametrize(
    "init", ["gaussian", "balanced", "rank_one", "glorot_uniform", "constant_second_layer"]
)
def test_every_initialisation_takes_the_scale_and_the_seed(rankfall, asked, init):
    rankfall("run", "xor", "--steps", 1, "--init", init, "--scale", 0.25, "--seed", 7, "--width", 6)
    ((network, *_),) = asked
    assert network.origin.startswith(init)
    assert "=0.25, seed=7)" in network.origin


def test_the_classes_of_the_cross_entropy_are_counted(rankfall, asked, tmp_path):
    np.savez(tmp_path / "three.npz", x=X, y=[0, 1, 2, 0, 1, 2])
    rankfall("run", "three.npz", "--loss", "cross_entropy", "--steps", 1, "--width", "6,5")
    ((network, *_),) = asked
    assert network.widths == (3, 6, 5, 3)


def test_runs_on_two_files_do_not_overwrite_each_other(rankfall, tmp_path):
    for name in ("cells.train.csv", "cells.small.csv"):
        csv_file(tmp_path / name)
        rankfall("run", name, "--label", "outcome", *SMALL, "--steps", 2)
    assert len(list((tmp_path / "runs").glob("*.nc"))) == 2


def test_the_paths_are_printed_in_one_piece(rankfall, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / ("a-long-name-" * 6) / "runs[1]"
    answer = rankfall("run", "xor", *SMALL, "--steps", 2, "--out", folder)
    for ending in ("nc", "png"):
        (path,) = folder.glob(f"*.{ending}")
        assert str(path) in answer.out


def test_a_run_that_recorded_nothing_to_draw_is_saved_and_summarised_nevertheless(rankfall, tmp_path):
    answer = rankfall("run", "xor", *SMALL, "--steps", 2, "-m", "weights")
    assert [p.suffix for p in (tmp_path / "runs").iterdir()] == [".nc"]
    assert answer.code == 0
    assert "saved: " in answer.out


# Bad input


# Which theorems speak


def test_assess_ends_with_a_sentence_to_act_on(rankfall, tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 2))
    y = np.sign(x[:, 0]) * np.where(np.abs(x[:, 0]) > 1, 1.0, -1.0)
    table = np.column_stack([np.vstack([x, -x]), np.append(y, -y)])
    np.savetxt(tmp_path / "odd.csv", table, delimiter=",", header="a,b,y", comments="")
    answer = rankfall("assess", "odd.csv", "--label", "y", "--slope", 0, "--loss", "logistic")
    assert answer.code == 0
    assert "expressivity" in answer.out
    last = answer.out.strip().splitlines()[-1]
    assert "Add biases or a layer" in last
    assert "%" in last


def test_assess_lists_what_does_not_apply_only_when_asked(rankfall):
    few = rankfall("assess", "xor", "--loss", "square").out
    everything = rankfall("assess", "xor", "--loss", "square", "--all").out
    assert "does not apply:" not in few
    assert "--all lists them" in few
    assert everything.count("does not apply:") > 5
    assert "frei_flow" in everything


def go_on(answer):
    """The words of the command that an answer says goes on."""
    (line,) = [line for line in answer.out.splitlines() if line.startswith("go on: rankfall ")]
    return shlex.split(line.removeprefix("go on: rankfall "))


def test_assess_says_beforehand_what_the_size_means(rankfall):
    words = ("--seconds", 1e-6)
    small = rankfall("assess", "xor", *words).out.splitlines()[0]
    assert small == "4 samples x 2 features: seconds. It stops after 1e-06 s (--seconds)."
    large = rankfall("assess", "gaussian_mixture", "-d", "n=1200", "-d", "dim=1200", *words).out
    assert large.startswith("1,200 samples x 1,200 features: a minute or so.")


def test_assess_that_runs_out_of_time_lists_what_it_did_not_examine_with_exit_code_3(rankfall):
    answer = rankfall("assess", "xor", "--loss", "square", "--all", "--seconds", 1e-6)
    assert answer.code == 3
    count = len(rf.theory.RESULTS)
    listed = ", ".join(rf.theory.RESULTS)
    assert f"{count} of {count} results were not examined (the time was spent): {listed}." in answer.out
    assert "frei_flow" in answer.out.split("predicts")[1]  # and in the table
    assert answer.err == ""
    assert go_on(answer) == ["assess", "xor", "--loss", "square", "--all", "--seconds", "1e-05"]
    again = rankfall(*go_on(answer)[:-1], 60)
    assert again.code == 0
    assert "not examined" not in again.out
    assert "go on:" not in again.out


def test_assess_interrupted_says_what_is_known_with_exit_code_3(rankfall, ctrl_c):
    looks = iter(["go on"] * 30)

    def press(*_):
        if next(looks, None) is None:
            raise KeyboardInterrupt

    ctrl_c.setattr("rankfall._progress.Progress.update", press)
    answer = rankfall("assess", *SINE, "--loss", "square")
    assert answer.code == 3
    assert "results were not examined (interrupted): " in answer.out
    assert f"{list(rf.theory.RESULTS)[-1]}." in answer.out  # the last of them
    assert "expressivity" in answer.out.split("predicts")[1]  # the first is examined
    assert "So far: " in answer.out
    assert go_on(answer) == [*map(str, ("assess", *SINE, "--loss", "square")), "--seconds", "60"]


def test_assess_knows_descent_and_fixed_second_layers(rankfall):
    words = ("nearly_orthogonal", "-d", "p=30.0", "-d", "n=8", "-d", "dim=12", "--init", "fixed_second_layer")
    answer = rankfall("assess", *words, "--slope", 0.5, "--loss", "exponential", "--width", 10)
    assert "frei_flow" in answer.out
    assert "linear decision boundary" in answer.out
    stepped = rankfall(
        "assess", *words, "--slope", 0.5, "--loss", "exponential", "--width", 10, "--step", 0.1
    )
    assert "descent with steps of 0.1" in stepped.out


@pytest.fixture
def files(tmp_path):
    """Files with one fault each."""

    def npz(name, x=X, y=SIGNS):
        np.savez(tmp_path / name, x=x, y=y)

    npz("good.npz")
    npz("nan.npz", x=np.where(X > 1, np.nan, X))
    npz("infinite.npz", y=np.where(SIGNS > 0, np.inf, SIGNS))
    npz("rows.npz", y=SIGNS[:4])
    npz("cube.npz", x=X[None])
    npz("words.npz", y=np.array(["good", "bad"] * 3))
    npz("zero_one.npz", y=(SIGNS + 1) / 2)
    npz("one_class.npz", y=np.ones(6))
    npz("minus_one.npz", y=-np.ones(6))
    npz("three.npz", y=np.array([0, 1, 2, 0, 1, 2]))
    npz("two_targets.npz", y=np.column_stack([SIGNS, SIGNS]))
    csv_file(tmp_path / "good.csv")
    (tmp_path / "nan.csv").write_text("a,b,y\n1,2,1\n1,nan,-1\n", encoding="utf-8")
    (tmp_path / "text.npz").write_text("this is no archive", encoding="utf-8")
    (tmp_path / "image.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\xff")
    (tmp_path / "good.xls").write_bytes(b"x")
    rf.exact_flow(network(), GOOD, "exponential", 0.1, measures=[], show=False).to_netcdf(tmp_path / "run.nc")
    np.save(tmp_path / "pickled.npy", np.array([{}, 1], dtype=object), allow_pickle=True)


STEPS = ("--steps", 3)
BAD_DATA = [
    (("nan.npz", *STEPS), "x of 'nan' has 1 entries that are NaN or infinite, the first at [2, 0]"),
    (("infinite.npz", *STEPS), "y of 'infinite' has 3 entries that are NaN or infinite"),
    (("nan.csv", *STEPS), "column 'b' of nan.csv, line 3, is nan"),
    (("rows.npz", *STEPS), "one target for each of the 6 rows of x, but has shape (4,)"),
    (("cube.npz", *STEPS), "x of 'cube' must be n x d"),
    (("words.npz", *STEPS), "y of 'words' must be real numbers"),
    (("zero_one.npz", *STEPS, "--loss", "logistic"), "needs labels -1 and +1, but the targets are 0, 1."),
    (("three.npz", *STEPS, "--loss", "exponential"), "needs labels -1 and +1, but the targets are 0, 1, 2"),
    (("two_targets.npz", *STEPS, "--loss", "logistic"), "for one output; for 2 use 'cross_entropy'"),
    (("two_targets.npz", *STEPS, "--loss", "cross_entropy"), "class numbers"),
    (("one_class.npz", *STEPS, "--loss", "logistic"), "all 6 labels are 1"),
    (("one_class.npz", *STEPS, "--loss", "cross_entropy"), "two classes"),
    (("minus_one.npz", *STEPS, "--loss", "cross_entropy"), "class"),
    (("text.npz", *STEPS), "text.npz is not a valid .npz archive"),
    (("image.csv", *STEPS), "image.csv is not a text file in UTF-8"),
    (("pickled.npy", *STEPS), "pickled.npy cannot be read"),
    (("good.xls", *STEPS), "unknown file ending of good.xls: '.xls'"),
    ((".", *STEPS), ". is a directory"),
    (("goood.npz", *STEPS), "there is no file goood.npz. Did you mean 'good.npz'?"),
    (("nowhere/good.npz", *STEPS), "There is no directory nowhere either"),
    (("good.csv", *STEPS), "which column of good.csv holds the targets?"),
    (("good.csv", *STEPS, "--label", "outcom"), "no column 'outcom'. Did you mean 'outcome'?"),
    (("symetric_sine", *STEPS), "unknown file or data set 'symetric_sine'. Did you mean 'symmetric_sine'?"),
    (("xor", *STEPS, "-d", "pairs=3"), "xor does not take these options"),
    (("symmetric_sine", *STEPS, "-d", "pairs"), "a data option is key=value, not 'pairs'"),
    (("symmetric_sine", *STEPS, "-d", "pairs=ten"), "pairs must be a positive whole number, not 'ten'"),
    (("symmetric_sine", *STEPS, "-d", "pairs=0"), "pairs must be a positive whole number"),
    (("xor", *STEPS, "-p", "par=1,0"), "unknown preparation 'par'. Did you mean 'pair'?"),
    (
        ("xor", *STEPS, "-p", "pair"),
        "--prepare pair does not give pair what it takes: positive, negative.",
    ),
    (("xor", *STEPS, "-p", "subset=9"), "has 4 samples, fewer than the 9 asked for"),
    (("xor", *STEPS, "-p", "subset=2,0,no"), "balanced must be True or False, not 'no'"),
    (("xor", *STEPS, "-p", "split=;"), "the value of 'split' must be a number, a word, True or False"),
]
BAD_RUN = [
    (("--slope", 1.5, *STEPS), "the slope must lie in [0, 1] (0 is ReLU, 1 is linear), but is 1.5"),
    (("--slope", -0.1, *STEPS), "the slope must lie in [0, 1]"),
    (("--slope", "nan", *STEPS), "the slope must lie in [0, 1]"),
    (("--width", 0, *STEPS), "at least 1, not (3, 0, 1)"),
    (("--width", "4,0", *STEPS), "at least 1, not (3, 4, 0, 1)"),
    (("--width", "ten", *STEPS), "--width takes whole numbers like 100 or 100,100, not 'ten'"),
    (("--scale", "nan", *STEPS), "NaN or infinite"),
    (("--scale", -1, *STEPS), "scale"),
    (("--init", "gausian", *STEPS), "unknown initialisation 'gausian'. Did you mean 'gaussian'?"),
    (("--init", "balanced", "--bias", *STEPS), "balanced is for networks without biases"),
    (("--init", "rank_one", "--width", "4,4", *STEPS), "rank_one is for two layers"),
    (("--loss", "sqare", *STEPS), "unknown loss 'sqare'. Did you mean 'square'?"),
    (("--loss", "square.men", *STEPS), "unknown reduction 'men'. Did you mean 'mean'?"),
    (("-m", "stable_rnk", *STEPS), "unknown measure 'stable_rnk'. Did you mean 'stable_rank'?"),
    (("-m", "test_loss", *STEPS), "needs a test part"),
    (("-m", "distance_to_twin", *STEPS), "a run cannot record 'distance_to_twin'"),
    (("-m", "block_stable_rank", "--width", "4,4", *STEPS), "belong to a two-layer network with one output"),
    (
        (),
        "say how long: --until TIME or --loss-below LOSS for gradient flow, "
        "--steps N or --epochs N for descent",
    ),
    (("--until", 1, *STEPS), "say how long"),
    (("--loss-below", 0.1, *STEPS), "say how long"),
    (("--steps", 0), "the number of steps must be a whole number of at least 1, not 0"),
    (("--step", 0, *STEPS), "the step size must be positive"),
    (("--step", "nan", *STEPS), "the step size must be positive"),
    (("--batch", 0, *STEPS), "the batch size must be a whole number of at least 1"),
    (("--records", 1, *STEPS), "at least two records"),
    (("--until", -1), "a positive time"),
    (("--until", "inf"), "a flow must end"),
    (("--until", 1, "--rtol", 0), "rtol must lie in (0, 1)"),
    (("--until", 1, "--clock", "los"), "unknown clock 'los'. Did you mean 'loss'?"),
    (("--loss-below", 0), "must be positive"),
    (("--out", "good.npz/runs", *STEPS), "good.npz/runs"),
    (("--exact", *STEPS), "--exact is for gradient flow: it goes with --until or --loss-below"),
    (("--until", 1, "--exact", "--width", "4,4"), "the exact flow is for two layers and one output"),
    (("--until", 1, "--exact", "--rtol", 0), "rtol must lie between"),
]
BAD_LIMIT = [
    (("missing.npz",), "there is no file missing.npz"),
    (("nan.npz",), "x of 'nan' has 1 entries that are NaN or infinite, the first at [2, 0]"),
    (("infinite.npz",), "y of 'infinite' has 3 entries that are NaN or infinite"),
    (("zero_one.npz",), "needs labels -1 and +1, but the targets are 0, 1."),
    (("one_class.npz",), "all 6 labels are 1"),
    (("two_targets.npz",), "fixed_second_layer is for two layers: widths (d, m, 1)"),
    (
        ("two_targets.npz", "--loss", "square", "--init", "balanced"),
        "a limit is for networks with one output",
    ),
    (("good.csv",), "which column of good.csv holds the targets?"),
    (("good.npz", "--init", "fixed_second_lair"), "Did you mean 'fixed_second_layer'?"),
    (("good.npz", "--slope", 2), "the slope must lie in [0, 1] (0 is ReLU, 1 is linear), but is 2"),
    (("good.npz", "--width", 0), "at least 1, not (3, 0, 1)"),
    (("good.npz", "--width", 3), "half of 3 neurons cannot be positive: take an even width"),
    (("good.npz", "--width", "4,4"), "fixed_second_layer is for two layers"),
    (("good.npz", "--init", "balanced", "--bias"), "balanced is for networks without biases"),
    (("good.npz", "--scale", "nan"), "NaN or infinite"),
    (("good.npz", "--tolerance", 0), "the tolerance and the seconds must be positive"),
    (("good.npz", "--budget", 0), "the budget at least one step"),
    (("good.npz", "--seconds", 0), "the tolerance and the seconds must be positive"),
    (("good.npz", "--continue", "nowhere.nc"), "there is no file 'nowhere.nc'"),
    (("good.npz", "--continue", "good.csv"), "'good.csv' is not a netCDF file"),
    (("good.npz", "--continue", "run.nc", "--slope", 0.1), "that of the file: leave out --slope."),
    (("good.npz", "--continue", "run.nc", "--bias"), "that of the file: leave out --bias."),
    (("xor", "--continue", "run.nc"), "features"),
    (("good.npz", "--loss", "exponentail"), "unknown loss 'exponentail'. Did you mean 'exponential'?"),
    (("three.npz", "--loss", "cross_entropy"), "a limit is for one output: --loss exponential, logistic or"),
    (("good.npz", "--width", "4,4", "--init", "gaussian", "--loss", "square"), "is for two-layer networks"),
    (("xorr",), "Did you mean 'xor'?"),
]
BAD_ASSESS = [
    (("good.csv",), "which column of good.csv holds the targets?"),
    (("zero_one.npz",), "Take two classes by `rf.data.pair(data, 1, 0)`, or --prepare pair=1,0."),
    (("one_class.npz",), "needs two classes at least"),
    (("good.npz", "--step", 0), "the step size must be positive and finite, not 0"),
    (("good.npz", "--penalty", -1), "the penalty must be finite and not negative"),
    (("good.npz", "--slope", 2), "the slope must lie in [0, 1]"),
    (("good.npz", "--loss", "logstic"), "Did you mean 'logistic'?"),
    (("good.npz", "--seconds", 0), "the seconds must be positive, not 0"),
    (("nan.npz",), "NaN or infinite"),
]
BAD_PAPER = [
    (("zang",), "unknown paper 'zang'. Did you mean 'zhang'? Known: zhang, frei, le,"),
    (("zhang", "--figure", 33), "unknown figure of zhang '33'. Did you mean '3'?"),
    (("sun", "--figure", "x"), "unknown figure of sun 'x'. Known: 1,"),
    (("--figure", 3), "belongs to a paper: say which"),
    (("frei", "--claim", "rank-tow"), "Did you mean 'rank-two'?"),
    (("sun", "--figure", "1", "--seeds", 0), "--seeds must be 1 or more"),
    (("sun", "--figure", "1", "--workers", -1), "--workers must be 1 or more"),
]
BAD = [
    *((("run", *words, *SMALL), said) for words, said in BAD_DATA),
    *((("run", "good.npz", *SMALL, *words), said) for words, said in BAD_RUN),
    *((("limit", *words), said) for words, said in BAD_LIMIT),
    *((("assess", *words), said) for words, said in BAD_ASSESS),
    *((("reproduce", *words), said) for words, said in BAD_PAPER),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "said"), BAD, ids=[" ".join(map(str, words)) for words, _ in BAD])
def test_bad_input_is_one_sentence_on_stderr_and_exit_code_2(rankfall, tmp_path, words, said):
    before = set(tmp_path.rglob("*"))
    answer = rankfall(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("rankfall: ")
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert set(tmp_path.rglob("*")) == before  # nothing is half-written


@pytest.mark.parametrize("seed", [2**32, -1])
def test_any_seed_is_taken_or_refused_in_words(rankfall, seed):
    answer = rankfall("run", "xor", *SMALL, "--steps", 2, "--seed", seed)
    assert answer.code == 0 or (answer.code == 2 and "seed" in answer.err)


@pytest.mark.parametrize(
    "words", [("rnu",), ("run",), ("run", "xor", "--step", "ten"), ("run", "--nonsense")]
)
def test_a_mistyped_command_is_exit_code_2_and_says_where_the_help_is(rankfall, words):
    answer = rankfall(*words)
    assert answer.code == 2
    assert "--help" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.filterwarnings("default")
def test_steps_that_are_too_large_do_not_end_in_a_silent_nan(rankfall, tmp_path):
    """The weights overflow within a few steps: that is no success, and what is kept can be read again."""
    answer = rankfall("run", "xor", *SMALL, "--scale", 1, "--steps", 100, "--step", 1e6)
    assert answer.code == 3
    assert "made the steps asked for" not in answer.out
    assert answer.out.splitlines()[-1].startswith(
        "The run did not reach its end: diverged, and was stopped before"
    )
    (saved,) = (tmp_path / "runs").glob("*.nc")
    assert np.isfinite(rf.Trajectory.load(saved).network.weights[0]).all()


UNFINISHED = {
    "the flow spent its budget": (("--until", 5, "--budget", 10), Outcome.SPENT),
    "the exact flow spent its budget": (
        ("--until", 1e5, "--exact", "--budget", 3),
        Outcome.SPENT,
    ),
    "the flow is at rest": (("--loss-below", 0.1, "--exact", "--slope", 1), Outcome.RESTS),
}


@pytest.mark.filterwarnings("default:At .* the flow spent")
@pytest.mark.parametrize(("words", "said"), UNFINISHED.values(), ids=UNFINISHED)
def test_a_run_that_does_not_reach_its_end_is_saved_and_has_exit_code_3(rankfall, tmp_path, words, said):
    answer = rankfall("run", "xor", "--width", 4, "-m", "loss", *words)
    assert answer.code == 3
    (saved,) = (tmp_path / "runs").glob("*.nc")
    run = rf.Trajectory.load(saved)
    assert run.outcome is said
    assert answer.out.splitlines()[-1] == f"The run did not reach its end: {run.outcome}."


@pytest.mark.parametrize("way", [(), ("--exact",)], ids=["flow", "exact flow"])
@pytest.mark.parametrize(
    "end", [("--until", 0.5), ("--loss-below", 0.4), ("--loss-below", 0.4, "--until", 90)]
)
def test_a_run_that_reaches_its_end_has_exit_code_0(rankfall, way, end):
    words = ("--slope", 1, "--width", 4, "--scale", 0.5, "-m", "loss")
    answer = rankfall("run", "orthogonal_pair", *words, *way, *end)
    assert answer.code == 0
    assert "did not reach" not in answer.out


def network(widths=(3, 4, 1), slope=0.0, scale=1.0):
    return rf.Network.gaussian(widths, slope, scale, 0)


GOOD = rf.Data(X, SIGNS)
LIBRARY = {
    "nan": (lambda: rf.Data(np.where(X > 1, np.nan, X), SIGNS), "NaN or infinite"),
    "infinite": (lambda: rf.Data(X, SIGNS / 0.0), "NaN or infinite"),
    "rows": (lambda: rf.Data(X, SIGNS[:4]), "one target for each of the 6 rows"),
    "features": (
        lambda: rf.descent(network((5, 4, 1)), GOOD, "square", 0.1, 1),
        "the network takes 5 features",
    ),
    "features, flow": (
        lambda: rf.flow(network((5, 4, 1)), GOOD, "square", 1.0),
        "the network takes 5 features",
    ),
    "outputs": (lambda: rf.descent(network((3, 4, 2)), GOOD, "square", 0.1, 1), "the network has 2 outputs"),
    "outputs, flow": (lambda: rf.flow(network((3, 4, 2)), GOOD, "square", 1.0), "the network has 2 outputs"),
    "layers": (lambda: rf.Network([np.ones((4, 3)), np.ones((1, 5))]), "W_2 takes 5 inputs"),
    "labels": (lambda: rf.flow(network(), rf.Data(X, SIGNS + 1), "logistic", 1.0), "needs labels -1 and +1"),
    "one class": (lambda: rf.flow(network(), rf.Data(X, SIGNS**2), "logistic", 1.0), "all 6 labels are 1"),
    "slope": (lambda: network(slope=1.5), "the slope must lie in [0, 1]"),
    "width": (lambda: network((3, 0, 1)), "at least 1"),
    "loss": (lambda: rf.descent(network(), GOOD, "logistc", 0.1, 1), "Did you mean 'logistic'"),
    "measure": (
        lambda: rf.flow(network(), GOOD, "square", 1.0, measures=["losss"]),
        "Did you mean 'loss'",
    ),
    "paper": (lambda: rf.papers.paper("sum"), "Did you mean 'sun'"),
    "missing file": (lambda: rf.data.load("nowhere.npz"), "there is no file nowhere.npz"),
    "missing run": (lambda: rf.Trajectory.load("nowhere.nc"), "there is no file 'nowhere.nc'"),
    "seed": (lambda: rf.descent(network(), GOOD, "square", 0.1, 1, seed=-1), "seed"),
    "steps": (lambda: rf.descent(network(), GOOD, "square", 0.1, 2.5), "must be a whole number"),
    "end": (lambda: rf.Until(), "a flow must end"),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("mistake", "said"), LIBRARY.values(), ids=LIBRARY)
def test_bad_input_is_a_value_error_in_the_library(mistake, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        mistake()


def test_a_file_that_is_no_run_is_told_from_one(tmp_path):
    (tmp_path / "text.nc").write_text("hello", encoding="utf-8")
    with pytest.raises(ValueError, match=r"text\.nc' is not a netCDF file"):
        rf.Trajectory.load(tmp_path / "text.nc")


# Ctrl-C

SYMMETRIC = rf.data.symmetric_linear(pairs=8, dim=3)  # of the same shape as SINE: JAX compiles one flow only


@pytest.fixture
def ctrl_c(monkeypatch):
    """A person who presses Ctrl-C when the first piece of a run is done."""

    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rankfall._progress.Progress.update", press)
        yield patch


def test_a_descent_interrupted_again_and_again_and_resumed_has_the_same_bits(ctrl_c, tmp_path):
    def descend(resume):
        return rf.descent(network(), GOOD, "square", 0.01, 6, record=rf.every(4), resume=resume)

    run, reached = None, []
    while not reached or reached[-1] < 6:
        run = descend(run)
        reached.append(run.statistics.steps)
        run = rf.Trajectory.load(run.to_netcdf(tmp_path / f"{len(reached)}.nc"))
        if len(reached) == 1:
            assert run.outcome is Outcome.INTERRUPTED
            assert run.step.values.tolist() == [0]
        assert run.step.dtype.kind == "i"
    assert len(reached) >= 3
    assert run.outcome is Outcome.MADE
    ctrl_c.undo()
    whole = descend(None)
    np.testing.assert_array_equal(run.network.weights[0], whole.network.weights[0])
    assert run.dataset.identical(whole.dataset)


def test_an_interrupted_flow_returns_what_it_reached_and_says_so(ctrl_c):
    start = rf.Network.rank_one((3, 4, 1), slope=0.0, scale=0.5, seed=0)
    run = rf.flow(start, SYMMETRIC, "square", 1e3, record=[500.0])
    assert run.outcome is Outcome.INTERRUPTED
    reached = float(run.time[-1])
    assert 0 < reached < 500
    assert float(run.loss[-1]) < float(run.loss[0])
    ctrl_c.undo()
    again = rf.flow(start, SYMMETRIC, "square", reached, record=[])
    np.testing.assert_allclose(run.network.weights[0], again.network.weights[0], rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("ctrl_c")
def test_a_run_interrupted_on_the_command_line_is_kept(rankfall, tmp_path):
    answer = rankfall("run", "xor", *SMALL, "--steps", 5000)
    assert answer.code == 3
    run = rf.Trajectory.load(tmp_path / "runs" / "xor_slope0_seed0.nc")
    assert 0 < run.statistics.steps < 5000
    assert run.outcome is Outcome.INTERRUPTED
    assert f"outcome: {run.settings['outcome']}" in answer.out
    assert (tmp_path / "runs" / "xor_slope0_seed0.png").exists()


def test_an_interrupted_descent_goes_on_by_the_command_that_it_names(rankfall, tmp_path, ctrl_c):
    answer = rankfall("run", "xor", *SMALL, "--steps", 50)
    file = "runs/xor_slope0_seed0.nc"
    assert go_on(answer) == [*map(str, ("run", "xor", *SMALL, "--steps", 50)), "--checkpoint", file]
    ctrl_c.undo()
    rankfall("run", "xor", *SMALL, "--steps", 50, "--out", "whole")
    again = rankfall(*go_on(answer))
    assert again.code == 0
    found, whole = (rf.Trajectory.load(tmp_path / name / "xor_slope0_seed0.nc") for name in ("runs", "whole"))
    np.testing.assert_array_equal(found.network.weights[0], whole.network.weights[0])


def test_a_run_interrupted_before_it_began_ends_without_a_traceback(rankfall, tmp_path, monkeypatch):
    def press(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankfall.dynamics.descent", press)
    answer = rankfall("run", "xor", *SMALL, "--steps", 5000)
    assert answer.code == 3
    assert answer.err == "rankfall: interrupted.\n"
    assert list(tmp_path.iterdir()) == []


LONG = {  # commands that take minutes, and what they say when they have been interrupted
    "run": (("run", "xor", "--steps", 2_000_000_000), "outcome: interrupted: what was reached"),
    "limit": (
        ("limit", "gaussian_mixture", "-d", "n=90", "-d", "dim=9", "--width", 90, "--seconds", 600),
        "interrupted.",
    ),
    "assess": (
        ("assess", "gaussian_mixture", "-d", "n=1500", "-d", "dim=1600", "--width", 4, "--seconds", 600),
        "results were not examined (interrupted)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said"), LONG.values(), ids=LONG)
def test_a_signal_from_the_keyboard_ends_a_command_with_what_is_known(tmp_path, words, said):
    words = [sys.executable, "-m", "rankfall", *map(str, words)]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    shown = command.stderr.readline()  # its progress: it has worked for two seconds
    command.send_signal(signal.SIGINT)
    out, err = command.communicate()
    assert "%" in shown
    assert command.returncode == 3
    assert said in out
    assert "Traceback" not in err
    assert bool(list(tmp_path.rglob("*.nc"))) == (words[3] != "assess")


# rankfall limit


def kept(answer, folder):
    """The limit that a command kept, and said that it kept, with a picture that is not blank."""
    (saved,), (drawn,) = folder.glob("*.nc"), folder.glob("*.png")
    certificates = list(folder.glob("*.json"))
    assert len(list(folder.iterdir())) == 2 + len(certificates)
    said = answer.out.splitlines()
    for certificate in certificates:
        assert f"check it: rankfall check {folder.name}/{certificate.name}" in said
    assert f"saved: {folder.name}/{saved.name}" in said
    assert f"figure: {folder.name}/{drawn.name}" in said
    picture = plt.imread(drawn)[..., :3]
    assert picture.shape[1] > 1000
    assert 0.01 < (picture < 0.9).any(axis=2).mean() < 0.5
    return rf.Limit.load(saved)


def row(answer, name):
    """What a table of the answer says about a name."""
    (line,) = [line for line in answer.out.splitlines() if line.startswith(f"│ {name} ")]
    return " ".join(line.replace("│", " ").split()).removeprefix(name).strip()


MIXTURE = rf.data.gaussian_mixture(n=6, dim=30, seed=0)
SEPARABLE = ("orthogonally_separable", "-d", "n=6", "-d", "dim=3")


def test_the_limit_on_a_users_file_is_told_certified_saved_and_drawn(rankfall, tmp_path):
    np.savez(tmp_path / "data.npz", x=MIXTURE.x, y=MIXTURE.y)
    answer = rankfall("limit", "data.npz", "--slope", 0.1, "--width", 100, "--scale", 1e-4)
    assert answer.code == 0
    found = kept(answer, tmp_path / "limits")
    assert found.certified
    said = answer.out.splitlines()
    assert said[0].startswith("100 neurons x 6 samples = 600 pairs")
    assert said[1] == "data: data, 6 samples of 30 features"
    assert said[2].startswith("network: 30-100-1, slope 0.1, layer 2 fixed; fixed_second_layer(sigma=0.0001")
    assert said[3] == "certified."
    assert any(line.strip().startswith("proved ") and "KKT point" in line for line in said)
    assert any(line.strip().startswith("followed ") for line in said)
    (certificate,) = (tmp_path / "limits").glob("*.json")
    assert rankfall("check", certificate).code == 0
    assert set(found.residuals) == set(CONDITIONS) - {"gradient", "misfit", "rest", "epsilon", "delta"}
    for name, value in found.residuals.items():
        assert row(answer, name) == f"{f'{value:.1e}' if value else 0} {CONDITIONS[name]}"
    blocks = found.block_stable_ranks
    ranks = f"(+ block {blocks['+']:.6g}, - block {blocks['-']:.6g})"
    assert row(answer, "stable rank") == f"{found.stable_rank:.10g} {ranks}"
    assert row(answer, "rank").startswith(f"{found.rank} (+ block {found.block_ranks['+']}")
    listed = ", ".join(map(str, found.support))
    assert row(answer, "support vectors") == f"{len(found.support)} of 6 samples: {listed}"
    assert row(answer, "normalised margin") == f"{found.normalised_margin:.10g}"
    assert row(answer, "kinks") == f"{len(found.kinks)} of 600 pairs of neuron and sample"
    assert row(answer, "global optimum").startswith(f"{found.optimality.verdict}. ")
    assert row(answer, "decision boundary").startswith(f"{found.comparison.boundary}: ")
    assert f"at an angle of {found.comparison.angle:.6g} degrees" in row(answer, "linear SVM")
    assert row(answer, "steps") == f"{found.settings['steps']:,}"
    assert row(answer, "log t reached") == f"{found.settings['log_time']:.4g}"


def test_the_limit_from_the_command_line_is_the_limit_from_python(rankfall, tmp_path):
    csv_file(tmp_path / "mine.csv")
    words = ("--label", "outcome", "--width", 6, "--slope", 0.3, "--seed", 4, "--scale", 0.01)
    answer = rankfall("limit", "mine.csv", *words, "--loss", "logistic", "--no-optimality", "--out", "kept")
    found = kept(answer, tmp_path / "kept")
    network = rf.Network.fixed_second_layer((3, 6, 1), slope=0.3, sigma=0.01, seed=4)
    same = rf.limit(network, rf.Data(X, SIGNS), "logistic", optimality=False, show=False)
    assert (found.verdict, found.residuals) == (same.verdict, same.residuals)
    np.testing.assert_array_equal(found.W, same.W)
    np.testing.assert_array_equal(found.multipliers, same.multipliers)
    assert found.optimality is None
    assert "global optimum" not in answer.out


LIMITS = {
    "a bias": ("--bias",),
    "a bias, both layers": ("--bias", "--init", "gaussian", "--scale", 0.1),
    "a bias, as Sun and Tran ran it": ("--bias", "--init", "constant_second_layer"),
    "no bias, as Sun and Tran ran it": ("--init", "constant_second_layer"),
    "a bias, uniform": ("--bias", "--init", "glorot_uniform", "--scale", 0.1),
    "both layers": ("--init", "balanced", "--scale", 0.1),
    "rank one": ("--init", "rank_one", "--scale", 1e-2),
}


@pytest.mark.parametrize("words", LIMITS.values(), ids=LIMITS)
def test_every_start_has_a_limit_that_is_certified(rankfall, tmp_path, words):
    answer = rankfall("limit", *SEPARABLE, "--width", 6, "--slope", 0.1, *words)
    assert answer.code == 0
    found = kept(answer, tmp_path / "limits")
    assert found.certified == (not found.network.trained[1])
    assert found.reached
    assert [b is not None for b in found.network.biases] == ["--bias" in words, False]
    assert found.network.trained == (True, "--init" in words)
    data = rf.data.orthogonally_separable(n=6, dim=3)
    np.testing.assert_allclose((data.y * found.network(data.x)).min(), 1.0, rtol=1e-9)


def test_the_end_of_the_square_loss_is_told_with_its_outputs(rankfall, tmp_path):
    words = ("--loss", "square", "--init", "balanced", "--scale", 0.1, "--width", 20)
    answer = rankfall("limit", "orthogonal_pair", *words)
    assert answer.code == 0
    found = kept(answer, tmp_path / "limits")
    assert found.verdict == "followed"
    np.testing.assert_allclose(found.margins, rf.data.orthogonal_pair().y, atol=1e-9)
    assert row(answer, "outputs") == "-1 to 1"
    assert "support vectors" not in answer.out
    assert row(answer, "gradient").endswith("the loss is stationary")


def test_that_no_network_separates_the_data_is_an_answer_with_its_certificate(rankfall, tmp_path):
    answer = rankfall("limit", "xor", "--slope", 1, "--width", 4)
    assert answer.code == 0
    assert kept(answer, tmp_path / "limits").verdict == "not separated"
    said = answer.out.splitlines()[3]
    assert said.startswith("not separated: the data are not linearly separable: a combination of 2")
    assert "no margin and no limit" in answer.out
    assert answer.err == ""
    (certificate,) = (tmp_path / "limits").glob("*.json")
    assert rankfall("check", certificate).code == 0


def test_a_late_state_of_a_deeper_network_is_told_from_a_limit(rankfall, tmp_path):
    words = ("--init", "gaussian", "--scale", 1, "--width", "4,3", "--budget", 300)
    answer = rankfall("limit", *SEPARABLE, *words)
    assert answer.code == 3  # it is not near a KKT point
    assert go_on(answer)[-1] == "3000"
    found = kept(answer, tmp_path / "limits")
    assert answer.out.splitlines()[3].startswith("not decided: a late state, not the limit itself")
    assert "block" not in row(answer, "stable rank")
    assert row(answer, "epsilon").startswith(f"{found.residuals['epsilon']:.1e} the weights are")


def test_a_late_state_that_is_near_a_kkt_point_is_an_answer(rankfall, tmp_path):
    words = ("--init", "gaussian", "--scale", 0.01, "--width", "3,3", "--slope", 1, "--budget", 500)
    answer = rankfall("limit", "orthogonal_pair", *words)
    assert answer.code == 0
    assert kept(answer, tmp_path / "limits").residuals["epsilon"] < 1e-3


def test_a_limit_without_an_answer_says_how_near_a_kkt_point_its_late_state_is(rankfall, tmp_path):
    words = ("gaussian_mixture", "-d", "n=10", "-d", "dim=50", "--width", 20, "--budget", 120)
    answer = rankfall("limit", *words)
    assert answer.code == 3
    found = kept(answer, tmp_path / "limits")
    data = rf.data.gaussian_mixture(n=10, dim=50)
    epsilon, delta, _ = rf.limits.kkt_distance(found.state, data)
    assert row(answer, "epsilon of the last state") == f"{epsilon:.4g}"
    assert row(answer, "delta of the last state") == f"{delta:.4g}"
    assert found.settings["epsilon"] == epsilon
    assert go_on(answer)[:6] == ["limit", *map(str, words[:5])]
    assert go_on(answer)[6:] == f"--continue {saved_at(answer)} --seconds 60 --budget 1200".split()


def test_a_late_state_on_the_wrong_side_is_near_no_kkt_point(rankfall):
    answer = rankfall("limit", "gaussian_mixture", "-d", "n=10", "-d", "dim=50", "--width", 20, "--budget", 5)
    assert answer.code == 3
    assert "samples are on the wrong side so far" in answer.out
    assert "epsilon" not in answer.out


def saved_at(answer):
    (line,) = [line for line in answer.out.splitlines() if line.startswith("saved: ")]
    return line.removeprefix("saved: ")


def test_a_limit_goes_on_from_a_run_with_its_network_and_its_loss(rankfall, tmp_path):
    words = ("--width", 6, "--slope", 0.1, "--init", "fixed_second_layer", "--scale", 0.01)
    run = rankfall("run", *SEPARABLE, *words, "--loss", "logistic", "--exact", "--until", 2, "-m", "loss")
    answer = rankfall("limit", *SEPARABLE, "--continue", saved_at(run))
    assert answer.code == 0
    found = kept(answer, tmp_path / "limits")
    assert found.certified
    assert found.settings["loss"] == "logistic.mean"
    network = rf.Network.fixed_second_layer((3, 6, 1), slope=0.1, sigma=0.01, seed=0)
    whole = rf.limit(network, rf.data.orthogonally_separable(n=6, dim=3), "logistic", show=False)
    np.testing.assert_allclose(found.W, whole.W, atol=1e-8)


def test_a_branch_that_was_not_followed_to_its_end_is_no_answer_yet(rankfall, tmp_path):
    """The network and data of tests/limits/test_unique.py: two solutions leave the origin."""
    w = [[-0.018, 0.009], [-0.033, 0.008], [0.026, -0.001], [0.008, -0.002]]
    network = rf.Network([w, [[1.0, -1.0, 1.0, -1.0]]], slope=0.1, trained=(True, False))
    data = rf.Data([[1.9, 1.3], [0.4, 1.1], [0.6, -1.4], [-1.3, -0.1]], [1.0, -1.0, 1.0, -1.0])
    np.savez(tmp_path / "data.npz", x=data.x, y=data.y)
    rf.limit(network, data, budget=1, show=False).to_netcdf(tmp_path / "begun.nc")
    short = rankfall("limit", "data.npz", "--continue", "begun.nc", "--budget", 20)
    whole = rankfall("limit", "data.npz", "--continue", "begun.nc")
    assert (short.code, whole.code) == (3, 0)
    for answer in (short, whole):
        assert answer.out.splitlines()[3].startswith("not unique: ")


SIZES = {
    "few pairs": (
        ("-d", "n=10", "--width", 20),
        "200 pairs, and about as many events, at which a neuron comes to a sample's kink: usually seconds.",
    ),
    "many pairs": (
        ("-d", "n=100", "--width", 100),
        "10,000 pairs, and about as many events, at which a neuron comes to a sample's kink: usually less",
    ),
    "more work": (("-d", "n=100", "--width", 400), "usually minutes"),
    "too many": (("-d", "n=300", "--width", 400), "minutes, by an approximate route"),
    "both": (("-d", "n=300", "--width", 400, "--init", "balanced"), "hours perhaps"),
    "layers": (
        ("-d", "n=10", "--width", "4,4", "--init", "gaussian"),
        "3 layers: the flow is followed until",
    ),
}


@pytest.mark.parametrize(("words", "said"), SIZES.values(), ids=SIZES)
def test_limit_says_beforehand_what_the_size_means(rankfall, words, said):
    answer = rankfall("limit", "gaussian_mixture", "-d", "dim=50", *words, "--seconds", 0.01)
    assert said in answer.out.splitlines()[0]
    assert answer.out.splitlines()[0].endswith("The search stops after 0.01 s (--seconds).")


def test_what_is_missing_to_a_certificate_is_said(rankfall, tmp_path):
    answer = rankfall("limit", *SEPARABLE, "--init", "balanced", "--scale", 0.1, "--width", 6, "--budget", 60)
    found = kept(answer, tmp_path / "limits")
    assert found.verdict == "not decided"
    assert answer.code == 3
    assert answer.out.splitlines()[3] == f"not decided: {'; '.join(found.missing)}."
    assert "the budget of 60 steps is spent" in answer.out
    (saved,) = (tmp_path / "limits").glob("*.nc")
    assert f"--continue {saved.relative_to(tmp_path)}" in answer.out
    again = rankfall("limit", *SEPARABLE, "--continue", saved)
    assert again.code == 0
    assert kept(again, tmp_path / "limits").verdict == "followed"


def test_a_search_that_runs_out_of_time_says_so_with_exit_code_3(rankfall, tmp_path):
    words = ("gaussian_mixture", "-d", "n=30", "-d", "dim=10", "--width", 60, "--seconds", 0.2)
    answer = rankfall("limit", *words)
    assert answer.code == 3
    assert "the 0.2 seconds are spent" in " ".join(kept(answer, tmp_path / "limits").missing)
    assert "The search stops after 0.2 s" in answer.out


def test_every_verdict_and_every_residual_has_its_words():
    assert all(verdict.meaning.endswith(".") for verdict in rf.limits.Verdict)
    assert set(rf.limits.Residuals.__dataclass_fields__) <= set(CONDITIONS)


@pytest.mark.usefixtures("ctrl_c")
def test_a_search_interrupted_on_the_command_line_is_kept(rankfall, tmp_path):
    answer = rankfall("limit", *SEPARABLE, "--width", 6)
    found = kept(answer, tmp_path / "limits")
    assert answer.code == 3
    assert "interrupted" in found.missing
    assert not found.certified
    assert "Traceback" not in answer.err


# rankfall reproduce


@pytest.mark.slow
def test_reproduce_runs_a_figure_in_other_processes_and_writes_the_page(rankfall, tmp_path):
    answer = rankfall("reproduce", "zhang", "--figure", 2)
    assert answer.code == 0
    assert "[1 of 1] zhang 2: " in answer.out
    assert "(run: new)" in answer.out
    assert "Every verdict is the one on record." in answer.out
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "claims.json",
        "claims.md",
        "index.html",
        "runs",
    }
    claims = json.loads((tmp_path / "report" / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert {claim["figure"] for claim in claims} == {"2"}
    assert "(from the cache)" in rankfall("reproduce", "--claim", claims[0]["id"]).out


@pytest.mark.slow
def test_reproduce_interrupted_has_exit_code_3_and_loses_nothing_that_was_finished(
    rankfall, tmp_path, ctrl_c
):
    words = ("reproduce", "zhang", "--figure", "identities", "--seeds", 2, "--workers", 1)

    def press(self, *_):
        if list((tmp_path / "report").rglob("*.nc")):
            raise KeyboardInterrupt

    ctrl_c.setattr("rankfall._progress.Progress.update", press)
    answer = rankfall(*words)
    assert answer.code == 3
    assert "Stopped: 0 of 1 experiments are finished" in answer.out
    (first,) = (tmp_path / "report").rglob("*.nc")
    made = first.stat().st_mtime_ns
    ctrl_c.undo()
    again = rankfall(*words)
    assert "(run: begun before, now finished)" in again.out
    assert first.stat().st_mtime_ns == made


def test_reproduce_says_what_is_missing_where_data_are_needed(rankfall):
    answer = rankfall("reproduce", "sun", "--figure", "9", "--out", "elsewhere")
    assert answer.code == 0
    assert "needs data" in answer.out
    assert "The page is elsewhere/index.html" in answer.out


MINE = """
import dataclasses
from rankfall.papers import Paper, zhang
from rankfall.theory.core import Source

(found,) = (e for e in zhang.PAPER.experiments if e.name == "identities")
claims = (dataclasses.replace(found.claims[0], recorded="not reproduced"), *found.claims[1:])
other = dataclasses.replace(found, statements=lambda setting: claims)
PAPER = Paper("mine", "Identities", Source("Me", 2026, "unpublished"), (other,))
"""


@pytest.mark.slow
def test_a_verdict_that_is_not_on_record_is_told_and_the_exit_code_is_1(rankfall, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    answer = rankfall("reproduce", "mine.py", "--seeds", 1, "--workers", 1)
    assert answer.code == 1
    assert "on record: not" in answer.out
    assert re.search(r"Not the verdict on record: mine/[a-z-]+\.", answer.out)


def test_reproduce_lists_what_can_be_run_and_runs_nothing(rankfall, tmp_path):
    answer = rankfall("reproduce", "sun", "--list")
    assert answer.code == 0
    for word in ("6-7", "needs", "mnist", "to do: new", "refuted", "sun/small-starts-keep-accuracy"):
        assert word in answer.out
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_found_where_the_last_line_says(rankfall, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / ("a-long-name-" * 6) / "report[x]"
    answer = rankfall("reproduce", "sun", "--figure", "9", "--out", folder)
    assert f"{folder / 'index.html'}" in answer.out
