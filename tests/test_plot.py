from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure

import rankfall as rf
from rankfall import Data, Limit, Network, Trajectory, Until, descent, exact_flow, linear, logarithmic, plot
from rankfall.data import orthogonally_separable, xor

TIME = np.linspace(0.0, 3.0, 7)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def trajectory(**measures):
    """A trajectory with these measures: (dims, values, long_name)."""
    time = xr.DataArray(TIME, dims="time", name="time", attrs={"long_name": "time $t$"})
    variables = {
        name: (dims, values, {"long_name": long_name}) for name, (dims, values, long_name) in measures.items()
    }
    return Trajectory(xr.Dataset(variables, coords={"time": time}), [Network([[[1.0]]])], {})


def line(values=TIME + 1, long_name="the measure"):
    return (("time",), values, long_name)


def shown(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


# The style


def test_the_style_holds_in_its_block_and_the_users_settings_come_back():
    before = plt.rcParams["font.family"]
    with plot.style():
        assert plt.rcParams["font.family"] == ["serif"]
    assert plt.rcParams["font.family"] == before
    with pytest.raises(ZeroDivisionError), plot.style():
        raise ZeroDivisionError
    assert plt.rcParams["font.family"] == before


def test_drawing_a_run_leaves_the_users_settings_alone():
    before = dict(plt.rcParams)
    plot.run_figure(trajectory(loss=line()))
    assert dict(plt.rcParams) == before


def test_panels_are_a_grid_of_axes_of_one_size():
    figure, axes = plot.panels(3, 2)
    assert axes.shape == (2, 3)
    np.testing.assert_allclose(figure.get_size_inches(), (3 * plot.PANEL[0], 2 * plot.PANEL[1]))


@pytest.mark.parametrize("count", [1, 2, 10])
def test_colours_are_distinct_and_darken_to_no_white(count):
    colours = plot.colours(count)
    assert len(np.unique(colours, axis=0)) == count
    assert colours[:, :3].mean(axis=1).max() < 0.8


# The picture of a run


def test_every_measure_gets_a_panel_with_its_names_on_the_axes():
    figure = plot.run_figure(trajectory(loss=line(long_name="the loss"), rank=line(long_name="the rank")))
    assert [ax.get_ylabel() for ax in shown(figure)] == ["the loss", "the rank"]
    assert {ax.get_xlabel() for ax in shown(figure)} == {"time $t$"}


def test_the_line_of_a_panel_is_the_measure():
    figure = plot.run_figure(trajectory(loss=line(TIME**2)))
    ((drawn,),) = (ax.lines for ax in figure.axes)
    np.testing.assert_array_equal(drawn.get_xydata(), np.stack([TIME, TIME**2], axis=1))


def test_panels_come_three_in_a_row_and_what_is_left_over_is_hidden():
    figure = plot.run_figure(trajectory(**{f"m{i}": line() for i in range(5)}))
    assert len(figure.axes) == 6
    assert len(shown(figure)) == 5


def test_records_that_are_even_in_log_time_are_drawn_so():
    network = Network.gaussian((2, 4, 1), 0.0, 0.1, seed=0)
    for record, scale in ((logarithmic(20), "symlog"), (linear(20), "linear")):
        run = descent(network, xor(), "square", 0.1, 1000, measures=["loss"], record=record)
        assert plot.run_figure(run).axes[0].get_xscale() == scale


def test_a_second_dimension_is_a_line_each_named_in_the_legend():
    run = trajectory(rank=(("time", "scale"), np.outer(TIME, [1, 2]), "the rank"))
    run.dataset = run.dataset.assign_coords(scale=[1e-5, 0.5])
    (ax,) = plot.run_figure(run).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1e-05", "0.5"]
    assert ax.get_legend().get_title().get_text() == "scale"
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), 2 * TIME)


def test_what_is_too_wide_for_lines_is_left_out():
    wide, deep = np.ones((7, 11)), np.ones((7, 2, 2))
    run = trajectory(
        weights=(("time", "entry"), wide, "w"), singular=(("time", "a", "b"), deep, "s"), loss=line()
    )
    assert [ax.get_ylabel() for ax in plot.run_figure(run).axes] == ["the measure"]


def test_a_run_with_nothing_to_draw_is_told_so():
    with pytest.raises(ValueError, match="nothing that can be drawn"):
        plot.run_figure(trajectory(weights=(("time", "entry"), np.ones((7, 11)), "w")))


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (np.geomspace(1.0, 1e-4, 7), "log"),
        (np.geomspace(1.0, 1e-2, 7), "linear"),
        (np.linspace(-1.0, 1e4, 7), "linear"),  # no logarithm of a negative number
        (np.array([1.0, np.nan, 1e-4, 1, 1, 1, 1]), "log"),
        (np.full(7, np.nan), "linear"),
        (np.zeros(7), "linear"),
    ],
    ids=["far", "near", "negative", "gap", "nan", "zero"],
)
def test_the_axis_is_logarithmic_where_a_positive_measure_falls_far(values, scale, tmp_path):
    figure = plot.run_figure(trajectory(loss=line(values)))
    assert figure.axes[0].get_yscale() == scale
    plot.save(figure, tmp_path / "drawn.png")


@pytest.mark.parametrize(
    ("entry", "text"), [(1e-5, "1e-05"), (np.float32(0.5), "0.5"), (3, "3"), (np.int64(3), "3"), ("+", "+")]
)
def test_a_legend_shows_numbers_short_and_names_as_they_are(entry, text):
    assert plot.label(entry) == text


# Saving


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_figure_is_saved_in_a_new_folder_and_closed(tmp_path, ending):
    figure = plot.run_figure(trajectory(loss=line()))
    path = plot.save(figure, tmp_path / "new" / "folder" / f"run.v1.{ending}")
    assert path == tmp_path / "new" / "folder" / f"run.v1.{ending}"
    assert path.stat().st_size > 1000
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert not plt.fignum_exists(figure.number)


def test_a_saved_figure_can_be_read_again(tmp_path):
    path = plot.save(plot.run_figure(trajectory(loss=line())), str(tmp_path / "run.png"))
    assert plt.imread(path).ndim == 3


def test_a_figure_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "run.png"
    path.write_bytes(b"the old one")

    def half_written(self, path, **_):
        path.write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(Figure, "savefig", half_written)
    figure = plot.run_figure(trajectory(loss=line()))
    with pytest.raises(OSError, match="disk is full"):
        plot.save(figure, path)
    assert path.read_bytes() == b"the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["run.png"]
    assert not plt.fignum_exists(figure.number)


def test_an_unknown_kind_of_figure_is_a_value_error_that_names_it(tmp_path):
    with pytest.raises(ValueError, match="'xyz' is not supported"):
        plot.save(plot.run_figure(trajectory(loss=line())), tmp_path / "run.xyz")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_without_an_ending_is_a_value_error_that_names_it(tmp_path):
    with pytest.raises(ValueError, match="run"):
        plot.save(plot.run_figure(trajectory(loss=line())), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# Runs of the exact flow


def test_the_run_of_an_exact_flow_is_drawn_with_its_kinks_and_regions():
    network = Network.fixed_second_layer((2, 6, 1), 0.1, 1e-3, seed=0)
    data, end = orthogonally_separable(n=4, dim=2), Until(loss=1e-6)
    run = exact_flow(network, data, "exponential", end, clock="loss", measures=["loss"], show=False)
    figure = plot.run_figure(run)
    assert [ax.get_ylabel() for ax in shown(figure)] == ["loss", "kinks held", "regions visited"]
    assert {ax.get_xlabel() for ax in shown(figure)} == {"loss clock $s$"}
    for ax in shown(figure):
        assert ax.get_xscale() == "symlog"
        assert ax.get_xlim()[0] == 0
        assert 3 <= len(ax.get_xticks()) <= 7


def test_what_counts_is_drawn_in_steps_with_whole_numbers_at_its_axis():
    run = trajectory(
        kinks=line(np.array([0, 0, 1, 3, 3, 2, 2])), loss=line(), none=line(np.zeros(7, dtype=int))
    )
    kinks, loss, none = plot.run_figure(run).axes
    assert [ax.lines[0].get_drawstyle() for ax in (kinks, loss, none)] == [
        "steps-post",
        "default",
        "steps-post",
    ]
    for ax in (kinks, none):
        ticks = ax.get_yticks()
        assert np.array_equal(ticks, np.round(ticks))


# The picture of a limit


def made(w, a, x, y, b=None, slope=0.1, verdict="certified", multipliers=None, loss="exponential.mean"):
    """A limit with these weights, and its data."""
    data = Data(x, y, "made")
    network = Network([w, [a]], None if b is None else [b, None], slope=slope)
    f = network(data.x)
    limit = Limit(
        verdict=verdict,
        missing=(),
        network=network,
        multipliers=np.ones(data.n) if multipliers is None else np.asarray(multipliers, dtype=float),
        margins=f if loss.startswith("square") else data.y * f,
        residuals={},
        region=None,
        kinks=(),
        optimality=None,
        comparison=None,
        settings={"loss": loss},
    )
    return limit, data


RNG = np.random.default_rng(0)
PLANAR = {"w": [[2.0, 1.0], [-2.0, -1.0]], "a": [1.0, -1.0], "x": [[2, 1], [1, 2], [-1, -1]], "y": [1, 1, -1]}


def drawn_points(ax):
    """All points of a panel that are drawn as markers."""
    return np.concatenate([c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)])


def lines_of_zero(ax):
    """The points of the lines f = 0."""
    (lines,) = [c for c in ax.collections if isinstance(c, QuadContourSet) and not c.filled]
    return np.concatenate([path.vertices for path in lines.get_paths()])


def test_the_picture_of_a_limit_has_three_panels_and_tells_the_verdict():
    plane, values, samples = plot.limit_figure(*made(**PLANAR)).axes
    assert plane.get_title(loc="left") == "made, exponential loss: certified"
    assert "stable rank" in values.get_title(loc="left")
    assert "support vectors" in samples.get_title(loc="left")


def test_two_dimensional_data_are_drawn_where_they_are_with_rings_around_the_support_vectors():
    limit, data = made(**PLANAR, multipliers=[0, 2, 1])
    ax = plot.limit_figure(limit, data).axes[0]
    expected = np.concatenate([data.x, data.x[[1, 2]]])
    np.testing.assert_array_equal(drawn_points(ax), expected)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x_1$", "$x_2$")


@pytest.mark.parametrize("bias", [None, [2.0, 0.0]], ids=["through the origin", "with a bias"])
def test_the_line_in_the_plane_is_where_the_network_vanishes(bias):
    limit, data = made(**PLANAR, b=bias)
    points = lines_of_zero(plot.limit_figure(limit, data).axes[0])
    assert len(points) > 50
    assert np.abs(limit.network(points)).max() < 1e-3 * np.abs(limit.network(data.x)).max()
    assert (np.abs(points).sum(axis=1).min() < 0.1) == (bias is None)


def test_the_plane_is_that_of_the_leading_singular_vectors():
    w, x = RNG.normal(size=(7, 5)), RNG.normal(size=(6, 5))
    limit, data = made(w, np.ones(7), x, [1, -1] * 3)
    ax = plot.limit_figure(limit, data).axes[0]
    vectors = np.linalg.svd(w)[2][:2]
    expected = x @ vectors.T
    expected = np.concatenate([expected[::2], expected[1::2], expected])  # a class, the other, the rings
    np.testing.assert_allclose(np.abs(drawn_points(ax)), np.abs(expected), atol=1e-12)
    share = (np.linalg.svd(w)[1][:2] ** 2).sum() / (w**2).sum()
    assert f"projection: the plane holds {100 * share:.3g}% of $|W|^2$" in ax.get_title(loc="left")
    assert "singular vector of $W$" in ax.get_xlabel()


def test_a_network_of_rank_two_depends_on_the_plane_alone_and_the_title_says_so():
    frame = np.linalg.qr(RNG.normal(size=(40, 2)))[0].T
    limit, data = made([[2.0, 1], [-1, 1]] @ frame, [1.0, -1.0], RNG.normal(size=(6, 40)), [1, -1] * 3)
    ax = plot.limit_figure(limit, data).axes[0]
    assert "$f$ depends on nothing else" in ax.get_title(loc="left")
    in_plane = np.asarray(drawn_points(ax)[6:])
    vectors = np.linalg.svd(limit.W)[2][:2]
    signs = np.sign((data.x @ vectors.T)[0] * in_plane[0])
    np.testing.assert_allclose(limit.network(in_plane @ (signs[:, None] * vectors)), limit.network(data.x))


def test_where_the_network_has_rank_one_the_second_direction_is_the_leading_one_of_the_data():
    x, direction = RNG.normal(size=(6, 8)), np.eye(8)[0]
    limit, data = made(np.outer([1.0, -2.0], direction), [1.0, -1.0], x, [1, -1] * 3)
    ax = plot.limit_figure(limit, data).axes[0]
    assert "leading in the data" in ax.get_ylabel()
    second = np.linalg.svd(x[:, 1:])[2][0]  # of what is left at right angles
    expected = np.column_stack([x[:, 0], x[:, 1:] @ second])
    np.testing.assert_allclose(np.abs(drawn_points(ax)[6:]), np.abs(expected), atol=1e-12)


def test_neurons_of_one_direction_are_one_arrow_with_their_number():
    w = np.array([[2.0, 1], [1, 0.5], [4, 2], [-1, 1], [1e-9, 0]])
    limit, data = made(w, [1.0, 1, 1, -1, 1], PLANAR["x"], PLANAR["y"])
    ax = plot.limit_figure(limit, data).axes[0]
    arrows = [text for text in ax.texts if text.arrow_patch is not None]
    assert len(arrows) == 2
    assert sorted(text.get_text() for text in ax.texts if text.get_text()) == ["1", "3"]
    longest = max(arrows, key=lambda arrow: np.linalg.norm(arrow.xy))
    assert np.cross([*longest.xy, 0], [2, 1, 0])[2] == pytest.approx(0, abs=1e-12)


def test_many_directions_are_thin_lines():
    limit, data = made(RNG.normal(size=(100, 9)), RNG.normal(size=100), RNG.normal(size=(3, 9)), [1, 1, -1])
    ax = plot.limit_figure(limit, data).axes[0]
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == 100
    assert lines.get_linewidth()[0] < 1


def test_the_singular_values_are_drawn_and_the_title_tells_the_ranks():
    w, a = RNG.normal(size=(9, 4)), np.array([1.0] * 5 + [-1.0] * 4)
    limit, data = made(w, a, RNG.normal(size=(5, 4)), [1, -1, 1, -1, 1])
    ax = plot.limit_figure(limit, data).axes[1]
    for drawn, rows in zip(ax.lines, (w, w[:5], w[5:]), strict=True):
        np.testing.assert_allclose(drawn.get_ydata(), np.linalg.svd(rows)[1], rtol=1e-12)
    assert ax.get_yscale() == "log"
    blocks = limit.block_stable_ranks
    assert ax.get_title(loc="left") == (
        f"stable rank and rank of $W$: {limit.stable_rank:.4g} and 4\n"
        f"($W_+$: {blocks['+']:.4g} and 4, $W_-$: {blocks['-']:.4g} and 4)"
    )


@pytest.mark.parametrize("n", [8, 100])
def test_multipliers_are_drawn_in_the_order_of_the_data_or_of_their_size(n):
    multipliers = RNG.uniform(size=n) * (RNG.uniform(size=n) < 0.9)
    limit, data = made(
        [[1.0, 0.5], [-1, 0]], [1.0, -1], RNG.normal(size=(n, 2)), [1, -1] * (n // 2), None, 0.1
    )
    limit = replace(limit, multipliers=multipliers)
    ax = plot.limit_figure(limit, data).axes[2]
    heights = drawn_points(ax)[:, 1]
    expected = multipliers if n == 8 else np.sort(multipliers)[::-1][: np.count_nonzero(multipliers)]
    np.testing.assert_array_equal(heights, expected)
    assert ax.get_title(loc="left") == f"{np.count_nonzero(multipliers)} of {n} samples are support vectors"


def test_data_that_are_not_separated_show_their_margins():
    limit, data = made(**PLANAR, verdict="not separated", multipliers=[0, 0, 0])
    limit = replace(limit, margins=np.array([1.0, -2.0, 0.0]))
    ax = plot.limit_figure(limit, data).axes[2]
    np.testing.assert_array_equal(drawn_points(ax)[:, 1], limit.margins)
    assert ax.get_title(loc="left") == "2 of 3 samples are on the wrong side"


def test_the_square_loss_shows_outputs_beside_targets():
    y = [0.5, -1.5, 1.0]
    limit, data = made(**{**PLANAR, "y": y}, multipliers=[0, 0, 0], loss="square.mean")
    ax = plot.limit_figure(limit, data).axes[2]
    np.testing.assert_array_equal(drawn_points(ax)[:, 1], limit.margins[[1, 0, 2]])  # sorted by target
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [-1.5, 0.5, 1.0])
    assert "largest misfit" in ax.get_title(loc="left")


@pytest.mark.parametrize(
    ("w", "a"),
    [
        (np.ones((4, 1)), [1.0, 1, -1, -1]),
        (np.outer([1.0, -1, 2], np.arange(1.0, 4)), [1.0, -1, 1]),
        (RNG.normal(size=(3, 2)), [1.0, 1, 1]),
        (np.eye(3, 100_000), [1.0, -1, 1]),
    ],
    ids=["one feature", "rank one", "one sign", "very wide"],
)
def test_special_limits_are_drawn_and_saved(w, a, tmp_path):
    limit, data = made(w, a, RNG.normal(size=(4, w.shape[1])), [1, -1, 1, -1])
    path = plot.save(plot.limit_figure(limit, data), tmp_path / "limit.png")
    assert plt.imread(path).std() > 0.05


def test_a_relu_network_is_left_white_where_it_vanishes():
    limit, data = made(np.eye(2), [1.0, -1.0], PLANAR["x"], PLANAR["y"], slope=0.0)
    ax = plot.limit_figure(limit, data).axes[0]
    assert any("max" in text.get_text() for text in ax.get_legend().get_texts())
    points = lines_of_zero(ax)
    np.testing.assert_allclose(points[:, 0], points[:, 1], atol=1e-9)  # x_1 = x_2, and not the dead quadrant
    assert points.min() > -0.1


def test_a_deeper_network_is_drawn_without_sign_blocks():
    limit, data = made(**PLANAR)
    deeper = Network([[[2.0, 1.0], [1.0, -1.0]], np.eye(2), [[1.0, -1.0]]], slope=0.1)
    limit = replace(limit, network=deeper)
    plane, values, _ = plot.limit_figure(limit, data).axes
    assert "2 neurons" in [text.get_text() for text in plane.get_legend().get_texts()]
    assert len(values.lines) == 1


def test_a_dollar_in_a_name_begins_no_formula(tmp_path):
    limit, data = made(**PLANAR)
    data = Data(data.x, data.y, "a$_b_$c\\frac$")
    plot.save(plot.limit_figure(limit, data), tmp_path / "limit.png")


def test_the_limit_of_other_data_is_told_so():
    limit, data = made(**PLANAR)
    with pytest.raises(
        ValueError, match="this is the limit of another data set: it has 3 samples of 2 features"
    ):
        plot.limit_figure(limit, Data(data.x[:2], data.y[:2]))


def test_drawing_a_limit_leaves_the_users_settings_alone():
    before = dict(plt.rcParams)
    plot.limit_figure(*made(**PLANAR))
    assert dict(plt.rcParams) == before


@pytest.fixture(scope="module")
def verified():
    """What a result predicts of a run, recorded as often as there are samples."""
    data = rf.data.symmetric_sine(pairs=4, dim=3, seed=0)
    network = rf.Network.rank_one((3, 6, 1), slope=0.0, scale=0.3, seed=0)
    records = [0, 1, 2, 3, 5, 10, 20, 40]
    run = rf.descent(
        network, data, "square", 0.1, 40, measures=["weights", "loss"], record=records, show=False
    )
    return rf.theory.assess(network, data, "square")["linear_equivalence"].verify(run)


def test_a_verdict_figure_draws_predicted_beside_measured_curves(verified):
    figure = plot.verdict_figure(verified)
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes if ax.get_visible()}
    assert set(panels) == {"weights", "loss", "output weights", "every prediction"}
    measured, predicted = panels["loss"].lines
    assert np.allclose(measured.get_ydata(), predicted.get_ydata(), rtol=1e-9)
    assert np.array_equal(measured.get_xdata(), [0, 1, 2, 3, 5, 10, 20, 40])
    assert len(panels["every prediction"].get_yticks()) == 3
    plt.close(figure)


def test_an_array_that_is_known_at_the_start_is_no_curve_however_many_records_there_are():
    data = rf.data.nearly_orthogonal(n=4, dim=6, p=50.0, seed=0)
    network = rf.Network.fixed_second_layer((6, 4, 1), slope=0.5, sigma=1e-3, seed=0)
    here = rf.theory.assess(network, data, "exponential")["frei_flow"]
    run = rf.exact_flow(
        network, data, "exponential", 300.0, clock="loss", record=[100.0, 200.0, 300.0], show=False
    )
    figure = plot.verdict_figure(here.verify(run))
    panel = next(ax for ax in figure.axes if ax.get_title(loc="left") == "equal margins")
    assert panel.get_xlabel() == "entry"  # four samples, and four records with the start
    plt.close(figure)


def test_where_nothing_was_measured_there_is_nothing_to_draw():
    data = rf.data.symmetric_sine(pairs=4, dim=3, seed=0)
    network = rf.Network.rank_one((3, 6, 1), slope=0.0, scale=0.3, seed=0)
    run = rf.descent(network, data, "square", 0.1, 5, measures=["loss"], show=False)
    nothing = rf.theory.assess(network, data, "square", results=[]).verify(run)
    with pytest.raises(ValueError, match="nothing was measured"):
        plot.verdict_figure(nothing)
