import importlib
import json
import os

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from rankfall import Network, Trajectory, descent
from rankfall.data import gaussian_mixture, least_squares_floor, orthogonal, symmetric_sine, xor
from rankfall.papers import (
    PAPERS,
    Claim,
    Experiment,
    Reproduction,
    below,
    experiments,
    sun,
    write_claims,
    zhang,
)
from rankfall.papers.claim import finished
from rankfall.papers.sun import CAPTION, PRINTED, READ_OFF, VALUES
from rankfall.papers.zhang import Course
from rankfall.theory import time_course

ALL = list(experiments())


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# The experiments of all papers


@pytest.mark.parametrize("experiment", ALL, ids=lambda e: f"{e.paper}-{e.figure}")
def test_every_experiment_cites_its_figure_and_its_paper(experiment):
    assert f"Fig. {experiment.figure}" in experiment.run.__doc__
    module = importlib.import_module(f"rankfall.papers.{experiment.paper}")
    assert experiment.paper.capitalize() in module.__doc__.splitlines()[0]
    assert module.EXPERIMENTS[experiment.figure] is experiment
    assert experiment.title


def test_experiments_of_all_papers_of_one_or_of_one_figure():
    assert [e.paper for e in ALL] == list(PAPERS)
    assert [e.paper for e in experiments("sun")] == ["sun"]
    assert [(e.paper, e.figure) for e in experiments("zhang", "3")] == [("zhang", "3")]


def test_an_unknown_paper_or_figure_is_answered_with_the_closest():
    with pytest.raises(
        ValueError, match=r"unknown paper 'Zhangg'\. Did you mean 'zhang'\? Known: zhang, sun\."
    ):
        list(experiments("Zhangg"))
    with pytest.raises(ValueError, match=r"unknown figure of sun '11'\. Did you mean '1'\? Known: 1\."):
        list(experiments("sun", "11"))
    with pytest.raises(ValueError, match="a figure belongs to a paper"):
        list(experiments(figure="3"))


# Claims


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.9, "holds"), (1.0, "fails"), (1.1, "fails"), (np.nan, "fails")]
)
def test_below_holds_for_smaller_numbers_only(value, verdict):
    claim = below("It is small.", value, 1.0, "a note", "{:.1%}")
    assert claim.verdict == verdict
    assert (claim.expected, claim.note) == ("< 100.0%", "a note")
    assert claim.measured == f"{value:.1%}"


HOLDS = Claim("α is small.", "< 1", "0.5", "holds")
RESULTS = [(Experiment("sun", "1", "A title", lambda full: Reproduction([])), Reproduction([HOLDS, HOLDS]))]


def test_claims_are_written_as_json_with_their_place(tmp_path):
    path = write_claims(RESULTS, tmp_path / "new" / "claims.json")
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert (
        rows
        == [
            {
                "paper": "sun",
                "figure": "1",
                "sentence": "α is small.",
                "expected": "< 1",
                "measured": "0.5",
                "verdict": "holds",
                "note": "",
            }
        ]
        * 2
    )
    assert [p.name for p in path.parent.iterdir()] == ["claims.json"]


def test_no_claims_are_an_empty_list(tmp_path):
    assert json.loads(write_claims([], tmp_path / "claims.json").read_text(encoding="utf-8")) == []


def test_claims_that_cannot_be_written_leave_the_old_ones_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "claims.json"
    path.write_text("the old ones", encoding="utf-8")

    def refuse(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk is full"):
        write_claims(RESULTS, path)
    assert path.read_text(encoding="utf-8") == "the old ones"
    assert [p.name for p in tmp_path.iterdir()] == ["claims.json"]


# Sun and Tran, Figure 1

FIVE = np.array(READ_OFF)
SEEDS = np.stack([0.99 * FIVE, FIVE, 1.01 * FIVE])  # three seeds, each like the printed figure


def replaced(seed, value, by):
    ends = SEEDS.copy()
    ends[seed, value] = by
    return ends


@pytest.mark.parametrize(
    ("ends", "verdict"), [(SEEDS, "holds"), (replaced(1, 4, 5.7), "fails"), (replaced(1, 4, np.nan), "fails")]
)
def test_sun_the_stable_rank_falls_if_it_ends_below_a_tenth_for_every_value_and_seed(ends, verdict):
    starts = np.full(ends.shape, 56.0)
    assert sun._falls(starts, ends).verdict == verdict
    assert sun._falls(ends, ends).verdict == "fails"


@pytest.mark.parametrize(
    ("ends", "verdict", "measured"),
    [
        (SEEDS, "holds", "3 of 3"),
        (replaced(2, 0, 1.9), "fails", "2 of 3"),
        (SEEDS[:, ::-1], "fails", "0 of 3"),
    ],
)
def test_sun_the_values_are_in_order_if_they_are_for_every_seed(ends, verdict, measured):
    claim = sun._ordered(ends)
    assert (claim.verdict, claim.measured) == (verdict, measured)


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [(SEEDS, "holds"), (replaced(0, 2, 2.0), "fails"), (replaced(0, 0, np.nan), "fails")],
)
def test_sun_below_two_speaks_of_the_small_values_of_every_seed(ends, verdict):
    assert SEEDS[:, 3:].min() > 2  # the others may be larger
    assert sun._below_two(ends).verdict == verdict


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        (SEEDS, "holds"),
        (1.08 * SEEDS, "holds"),
        (1.15 * SEEDS, "fails"),
        (0.85 * SEEDS, "fails"),
        (np.nan * SEEDS, "fails"),
    ],
)
@pytest.mark.parametrize("reading", [PRINTED, CAPTION])
def test_sun_the_figure_is_as_drawn_if_the_seeds_bracket_it_to_a_tenth(ends, verdict, reading):
    claim = sun._like_the_figure(ends, reading)
    assert claim.verdict == verdict
    assert reading.name in claim.sentence


def test_sun_the_five_values_are_standard_deviations_in_the_text_and_variances_in_the_captions():
    assert [PRINTED.sigma(value) for value in VALUES] == list(VALUES)
    assert [CAPTION.sigma(value) for value in VALUES] == pytest.approx(np.sqrt(VALUES))


def with_last_loss(last):
    loss = xr.DataArray([[0.7, 0.7], last], dims=("step", "value"))
    return Trajectory(xr.Dataset({"loss": loss}), [Network([[[1.0]]])], {})


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ([0.068, 0.069], "holds"),
        ([0.069, 0.0694], "outside its hypotheses"),
        ([0.06, np.nan], "outside its hypotheses"),
    ],
)
def test_sun_the_theorem_speaks_only_of_runs_that_all_reach_log_2_over_n(last, verdict):
    claim = sun._threshold([with_last_loss([0.01, 0.01]), with_last_loss(last)])
    assert claim.verdict == verdict
    assert "0.0693" in claim.expected


def test_sun_near_orthogonality_is_a_hypothesis_of_every_draw():
    orthogonal_enough = [orthogonal(n=4, dim=20, seed=seed, norm=10.0) for seed in (0, 1)]
    assert sun._hypothesis(orthogonal_enough).verdict == "holds"
    mixture = gaussian_mixture(n=4, dim=20, seed=0)
    assert sun._hypothesis([*orthogonal_enough, mixture]).verdict == "outside its hypotheses"


@pytest.fixture
def small_sun(monkeypatch):
    for name, value in {"N": 4, "DIM": 12, "WIDTH": 6, "EPOCHS": 20}.items():
        monkeypatch.setattr(sun, name, value)


@pytest.mark.usefixtures("small_sun")
def test_sun_figure_1_states_seven_claims_and_draws_both_readings():
    reproduction = sun.figure_1(False)
    assert len(reproduction.claims) == 7
    assert {claim.verdict for claim in reproduction.claims} <= {"holds", "fails", "outside its hypotheses"}
    figure = reproduction.figures["sun_figure_1"]
    assert isinstance(figure, Figure)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[::2] == ["values read as standard deviation", "values read as variance"]
    assert all(len(ax.lines) >= 5 * len(VALUES) for ax in figure.axes)  # five seeds of five values
    figure.canvas.draw()


@pytest.mark.usefixtures("small_sun")
def test_sun_a_run_is_the_five_networks_of_the_figure_with_every_epoch_recorded():
    run = sun._run(CAPTION, seed=3)
    assert run.stable_rank.dims == ("step", "value")
    assert run.step.values.tolist() == list(range(21))
    assert run["value"].values.tolist() == list(VALUES)
    for network, value in zip(run.networks, VALUES, strict=True):
        assert network.widths == (12, 6, 1)
        assert (network.has_bias, network.trained) == (True, (True, False))
        assert f"sigma={np.sqrt(value):g}," in network.origin
        np.testing.assert_allclose(np.abs(network.weights[1]), 1 / np.sqrt(6))


# Zhang, Saxe and Latham, Figure 3

DATA = symmetric_sine(pairs=40, dim=4, seed=0)


@pytest.fixture
def small_zhang(monkeypatch):
    """The experiment with 10 neurons in 4 dimensions; its two runs on other data are stood in for."""
    times = np.linspace(0.0, 8.0, 17)
    sizes = {"WIDTH": 10, "DIM": 4, "SCALE": 1e-3, "END": 8.0, "TIMES": times, "SLOPES": (0.0, 0.5, 1.0)}
    for name, value in sizes.items():
        monkeypatch.setattr(zhang, name, value)
    monkeypatch.setattr(zhang, "symmetric_sine", lambda pairs, **rest: symmetric_sine(pairs=40, **rest))
    monkeypatch.setattr(zhang, "_white_error", lambda slope, rtol: 1e-9)
    monkeypatch.setattr(zhang, "_rank_one_error", lambda: 1e-15)


def fall(end=None):
    """A loss that falls to the floor of DATA, or to `end`."""
    floor = least_squares_floor(DATA) if end is None else end
    return floor + 0.5 * np.exp(-(zhang.TIMES**2))


def course(slope=0.0, loss=None, second=None, larger=1.0):
    """A course whose weights grow, with second layer in the end `second`: half positive, if not said."""
    last = np.concatenate([np.ones(40), np.repeat([1.0, -1.0], 5) if second is None else second])
    scaled = larger * np.linspace(0.1, 1.0, len(zhang.TIMES))[:, None] * last
    return Course(slope, zhang._start(slope, seed=0), fall() if loss is None else loss, scaled)


def verdicts(claims):
    return [claim.verdict for claim in claims]


def theory_verdicts(shift=0.0, broken=None):
    courses = []
    for slope in zhang.SLOPES:
        network = zhang._start(slope, seed=0)
        predicted = zhang._predicted_loss(DATA, network, zhang.TIMES / float(network.mean_slope))
        courses.append(
            course(slope, predicted + shift * np.sin(zhang.TIMES) + (np.nan if slope == broken else 0))
        )
    return verdicts(zhang._theory_claims(DATA, courses, 1e-7))


@pytest.mark.usefixtures("small_zhang")
def test_zhang_eq_38_holds_for_its_own_curves_and_fails_for_others():
    assert theory_verdicts() == ["holds", "holds"]
    assert theory_verdicts(shift=0.3) == ["fails", "holds"]


@pytest.mark.usefixtures("small_zhang")
def test_zhang_eq_38_on_white_data_fails_if_one_slope_misses_it(monkeypatch):
    monkeypatch.setattr(zhang, "_white_error", lambda slope, rtol: 1e-5 if slope == 0.5 else 1e-9)
    assert theory_verdicts() == ["holds", "fails"]


@pytest.mark.usefixtures("small_zhang")
def test_zhang_the_loss_converges_only_if_every_slope_reaches_the_floor():
    floor = least_squares_floor(DATA)
    good = [course(0.0), course(0.5), course(1.0)]
    assert verdicts(zhang._floor_and_collapse_claims(DATA, good)) == ["holds", "holds"]
    above = [course(0.0), course(0.5, fall(1.002 * floor)), course(1.0)]
    assert verdicts(zhang._floor_and_collapse_claims(DATA, above)) == ["fails", "holds"]


@pytest.mark.usefixtures("small_zhang")
def test_zhang_the_curves_collapse_only_if_no_slope_lags_behind():
    late = np.interp(zhang.TIMES - 0.5, zhang.TIMES, fall())
    courses = [course(0.0), course(0.5, late), course(1.0)]
    assert verdicts(zhang._floor_and_collapse_claims(DATA, courses)) == ["holds", "fails"]


def weight_claims(second, error=0.002, others=((0.002, 0.002),)):
    courses = [course(0.0, second=second, larger=1 + error), course(1.0, second=second)]
    errors = [zhang._weight_error(c, courses[-1]) for c in courses]
    return zhang._weight_claims(courses, errors, list(others))


def unbalanced(imbalance):
    """A second layer with the share 1/2 + imbalance of its square positive."""
    share = 0.5 + imbalance
    return np.repeat([np.sqrt(share), -np.sqrt(1 - share)], 5)


@pytest.mark.usefixtures("small_zhang")
@pytest.mark.parametrize(
    ("error", "expected"), [(0.002, "holds holds"), (0.005, "fails holds"), (0.02, "fails fails")]
)
def test_zhang_the_weight_error_is_held_to_the_bound_of_each_version(error, expected):
    claims = weight_claims(unbalanced(error), error, [(0.002, 0.002)])
    assert verdicts(claims) == [*expected.split(), "holds", "holds"]
    assert claims[0].measured == f"{error:.2%}"


@pytest.mark.usefixtures("small_zhang")
def test_zhang_our_finding_fails_if_one_seed_has_an_error_that_is_not_its_imbalance():
    assert verdicts(weight_claims(unbalanced(0.002)))[2] == "holds"
    assert verdicts(weight_claims(unbalanced(0.003)))[2] == "fails"
    assert verdicts(weight_claims(unbalanced(0.002), others=[(0.002, 0.002), (0.004, 0.002)]))[2] == "fails"


@pytest.mark.usefixtures("small_zhang")
def test_zhang_theorem_5_fails_if_weights_of_rank_one_leave_their_twin(monkeypatch):
    monkeypatch.setattr(zhang, "_rank_one_error", lambda: 1e-3)
    assert verdicts(weight_claims(unbalanced(0.002)))[3] == "fails"


@pytest.mark.usefixtures("small_zhang")
def test_zhang_no_claim_about_the_loss_holds_of_a_run_that_is_not_a_number():
    broken = [course(0.0), course(0.5, np.nan * fall()), course(1.0)]
    assert "holds" not in verdicts(zhang._floor_and_collapse_claims(DATA, broken))
    assert theory_verdicts(broken=0.5)[0] == "fails"


@pytest.mark.usefixtures("small_zhang")
def test_zhang_no_claim_about_white_data_holds_of_a_run_that_is_not_a_number(monkeypatch):
    monkeypatch.setattr(zhang, "_white_error", lambda slope, rtol: np.nan if slope == 0.5 else 1e-9)
    assert theory_verdicts()[1] == "fails"


@pytest.mark.usefixtures("small_zhang")
def test_zhang_no_claim_about_the_weights_holds_of_a_seed_that_is_not_a_number():
    assert verdicts(weight_claims(unbalanced(0.002), others=[(0.002, 0.002), (np.nan, 0.002)]))[2] == "fails"
    kinds = ((0.0, 1.002), (0.5, np.nan), (1.0, 1.0))
    courses = [course(slope, second=unbalanced(0.002), larger=larger) for slope, larger in kinds]
    errors = [zhang._weight_error(c, courses[-1]) for c in courses]
    assert verdicts(zhang._weight_claims(courses, errors, [(0.002, 0.002)]))[:2] == ["fails", "fails"]


@pytest.mark.usefixtures("small_zhang")
def test_zhang_the_imbalance_is_the_distance_of_the_positive_share_from_a_half():
    assert zhang._imbalance(course(1.0)) == pytest.approx(0.0, abs=1e-15)
    assert zhang._imbalance(course(1.0, second=unbalanced(-0.1))) == pytest.approx(0.1)
    assert zhang._imbalance(course(1.0, second=np.ones(10))) == pytest.approx(0.5)


@pytest.mark.usefixtures("small_zhang")
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_zhang_all_slopes_start_from_one_linear_network(slope):
    start, linear = zhang._start(slope, seed=4), zhang._start(1.0, seed=4)
    for w, v in zip(start.linear_twin().weights, linear.weights, strict=True):
        np.testing.assert_allclose(w, v, rtol=1e-15)


def test_zhang_the_loss_of_a_linear_map_is_that_of_its_outputs():
    w = np.random.default_rng(0).normal(size=(3, 4))
    expected = [np.mean((DATA.x @ row - DATA.y) ** 2) / 2 for row in w]
    np.testing.assert_allclose(zhang._linear_loss(DATA, w), expected, rtol=1e-12)


@pytest.mark.usefixtures("small_zhang")
def test_zhang_figure_3_states_eight_claims_and_draws_three_panels():
    reproduction = zhang.figure_3(False)
    assert len(reproduction.claims) == 8
    assert "4 seeds" in reproduction.claims[4].note
    figure = reproduction.figures["zhang_figure_3"]
    assert [ax.get_title(loc="left")[:3] for ax in figure.axes] == ["(a)", "(b)", "(c)"]
    loss, collapsed, error = figure.axes
    assert len(loss.lines) == 2 * 3 + 1  # run and theory for each slope, and the legend's entry
    assert len(collapsed.lines) == 3
    assert len(error.lines) == 2 + 1  # every slope but the linear one, and the bound
    figure.canvas.draw()


@pytest.fixture
def small_white_zhang(monkeypatch):
    """For the two runs that start from weights of rank one: 40 samples in 4 dimensions."""
    monkeypatch.setattr(zhang, "DIM", 4)
    monkeypatch.setattr(zhang, "symmetric_sine", lambda pairs, **rest: symmetric_sine(pairs=20, **rest))


@pytest.mark.usefixtures("small_white_zhang")
def test_zhang_the_white_error_vanishes_with_the_scaled_u0_and_not_with_the_printed_one(monkeypatch):
    assert zhang._white_error(0.0, 1e-7) < 1e-6

    def printed(times, beta, r, u0, slope):
        return time_course(times, beta, r, u0 * np.sqrt(2 / (1 + slope)), slope)

    monkeypatch.setattr(zhang, "time_course", printed)
    assert zhang._white_error(0.0, 1e-7) > 0.01


@pytest.mark.usefixtures("small_white_zhang")
def test_zhang_the_rank_one_error_vanishes_and_that_of_other_weights_does_not(monkeypatch):
    assert zhang._rank_one_error() < 1e-6
    monkeypatch.setattr(Network, "rank_one", Network.gaussian)
    assert zhang._rank_one_error() > 0.01


def test_an_interrupted_run_ends_the_experiment_and_is_never_judged():
    run = descent(Network.gaussian((2, 4, 1), 0.0, 0.1, seed=0), xor(), "square", 0.1, 3)
    assert finished(run) is run
    run.settings["outcome"] = "interrupted: what was reached by then is kept"
    with pytest.raises(KeyboardInterrupt):
        finished(run)
