import json
import os

import h5py
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from rankfall import Data, Network, Trajectory, descent
from rankfall.outcome import Statistics

RNG = np.random.default_rng(0)
DATA = Data(RNG.normal(size=(6, 3)), np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]))
NETWORK = Network.gaussian((3, 4, 1), 0.3, 1.0, 0, bias=True)


@pytest.fixture(scope="module")
def run():
    measures = ["loss", "stable_rank", "block_stable_rank", "activation_patterns"]
    return descent(
        [NETWORK, NETWORK],
        DATA,
        "logistic",
        [0.1, 0.2],
        5,
        measures=measures,
        along={"step size": [0.1, 0.2]},
    )


@pytest.fixture
def made():
    """A trajectory made by hand: networks of every kind, no run."""
    networks = [
        Network(
            [RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))],
            [None, RNG.normal(size=2)],
            1 / 3,
            (False, True),
        ),
        Network(
            [RNG.normal(size=(1, 3)).astype(np.float32)], slope=1.0, origin="drawn for a test: W ~ N(0, 1)"
        ),
        Network([1e-200 * RNG.normal(size=(2, 3)), np.eye(2), np.eye(2)], linear_tail=2),
        Network(
            [np.eye(3), RNG.normal(size=(3, 3)), np.eye(3), np.eye(3)],
            skips=[None, "identity", None, np.ones(3)],
        ),
        Network([RNG.normal(size=(4, 3)), np.ones((1, 4))], skips=[None, RNG.normal(size=(1, 3))], slope=0.1),
    ]
    time = xr.DataArray([0.0, 0.1], dims="time", attrs={"long_name": "time $t$", "units": "1"})
    dataset = xr.Dataset(
        {"loss": ("time", np.array([1.0, np.nan]))},
        {"time": time, "log_time": ("time", [-np.inf, np.log(0.1)])},
    )
    state = (np.arange(6, dtype=np.int32), np.float32(0.1), RNG.normal(size=(2, 3)), np.zeros((2, 1, 4)))
    settings, counts = {"loss": "square.mean", "step": 0.1, "seed": 3}, Statistics(7, error_estimate=1e-9)
    return Trajectory(dataset, networks, settings, state, statistics=counts)


def assert_same(found, expected):
    xr.testing.assert_identical(found.dataset, expected.dataset)
    assert found.settings == expected.settings
    assert found.statistics == expected.statistics
    assert len(found.networks) == len(expected.networks)
    for a, b in zip(found.networks, expected.networks, strict=True):
        for mine, other in ((a.weights, b.weights), (a.biases, b.biases), ([a.slope], [b.slope])):
            for v, w in zip(mine, other, strict=True):
                assert (v is None) == (w is None)
                if v is not None:
                    assert v.dtype == w.dtype
                    assert v.tobytes() == w.tobytes()
        assert (a.trained, a.linear_tail, a.origin) == (b.trained, b.linear_tail, b.origin)
        assert a.skip_kinds == b.skip_kinds
        for v, w in zip(jax.tree.leaves(a.skips), jax.tree.leaves(b.skips), strict=True):
            assert v.dtype == w.dtype
            assert v.tobytes() == w.tobytes()
    for v, w in zip(found.state, expected.state, strict=True):
        assert np.asarray(v).dtype == w.dtype
        assert np.asarray(v).tobytes() == w.tobytes()


def test_what_is_written_is_read_back_bit_for_bit(made, run, tmp_path):
    for trajectory in (made, run):
        path = trajectory.to_netcdf(tmp_path / "new" / "run.nc")
        assert_same(Trajectory.load(path), trajectory)
        assert_same(Trajectory.load(str(path)), trajectory)
        assert os.listdir(path.parent) == ["run.nc"]


def test_the_counts_of_an_older_file_are_among_its_settings_and_are_found_there(made, tmp_path):
    path = made.to_netcdf(tmp_path / "run.nc")
    with h5py.File(path, "a") as file:
        settings = json.loads(file.attrs["rankfall_settings"]) | json.loads(file.attrs["rankfall_statistics"])
        file.attrs["rankfall_settings"] = json.dumps(settings)
        del file.attrs["rankfall_statistics"]
    assert settings["steps"] == 7
    assert_same(Trajectory.load(path), made)


def test_writing_does_not_change_the_trajectory(made, tmp_path):
    made.to_netcdf(tmp_path / "run.nc")
    assert made.dataset.attrs == {}
    assert_same(Trajectory.load(made.to_netcdf(tmp_path / "run.nc")), made)


@pytest.mark.parametrize("failure", ["settings", "network", "state"])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(made, tmp_path, failure):
    path = made.to_netcdf(tmp_path / "run.nc")
    before = path.read_bytes()
    if failure == "settings":
        made.settings["seed"] = object()
    elif failure == "network":
        made.networks = (*made.networks, object())
    else:
        made.state = (object(),)
    with pytest.raises((TypeError, AttributeError, ValueError)):
        made.to_netcdf(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.nc"]


def test_a_file_that_is_not_a_run_is_answered_with_a_sentence(made, tmp_path):
    text, other, damaged = tmp_path / "text.nc", tmp_path / "other.nc", tmp_path / "damaged.nc"
    text.write_text("step,loss\n0,1\n")
    xr.Dataset({"a": ("b", [1.0])}).to_netcdf(other, engine="h5netcdf")
    damaged.write_bytes(made.to_netcdf(tmp_path / "run.nc").read_bytes()[:3000])
    for path, sentence in (
        (text, "text.nc' is not a netCDF file"),
        (damaged, "damaged.nc' is not a netCDF file"),
        (tmp_path, "is not a netCDF file"),
        (other, "other.nc' is a netCDF file, but not one that a rankfall run wrote"),
        (tmp_path / "nowhere.nc", "there is no file '.*nowhere.nc'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Trajectory.load(path)


def test_the_names_of_the_dataset_are_at_hand(run, made):
    assert run.loss.identical(run.dataset["loss"])
    assert run["loss"].identical(run.dataset["loss"])
    assert run.sel(step=3).loss.sizes == {"step size": 2}
    assert "stable_rank" in dir(run)
    assert made.time.values.tolist() == [0.0, 0.1]
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = run.no_such_name


def test_a_trajectory_says_how_it_was_made(run):
    text = repr(run)
    for part in ("Network(3-4-1", "method: gradient descent", "loss: logistic.mean", "stable_rank"):
        assert part in text


def test_measures_have_labelled_coordinates(run):
    assert run.block_stable_rank.dims == ("step", "step size", "sign")
    assert run.sign.values.tolist() == ["+", "-"]
    assert run.activation_patterns.dims == ("step", "step size", "sample", "neuron")
    assert run.stable_rank.dims == ("step", "step size")  # one matrix: no dimension of length one
    assert run.stable_rank.attrs["long_name"] == "stable rank of $W_1$"


def test_a_plot_has_a_line_and_names_on_its_axes():
    single = descent(NETWORK, DATA, "logistic", 0.1, 5)
    (line,) = single.stable_rank.plot()
    axes = plt.gca()
    np.testing.assert_array_equal(line.get_xdata(), np.arange(6))
    np.testing.assert_allclose(line.get_ydata(), single.stable_rank)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "stable rank of $W_1$")
    plt.close("all")


def test_the_settings_of_a_run_tell_how_to_make_it_again(run):
    assert run.settings["step"] == [0.1, 0.2]
    assert run.settings["loss"] == "logistic.mean"
    assert run.settings["seed"] == 0
    assert run.statistics == Statistics(steps=5)
    assert {"python", "rankfall", "jax", "numpy"} <= set(run.settings["versions"])


def test_several_networks_have_no_single_last_one(run):
    assert len(run.networks) == 2
    with pytest.raises(ValueError, match="2 networks ran together"):
        _ = run.network
