import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from rankfall import Network, Trajectory, descent, linear, logarithmic, plot
from rankfall.data import xor

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
