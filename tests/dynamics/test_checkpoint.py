import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

from rankfall import Network, Trajectory, every
from rankfall.data import symmetric_sine
from rankfall.dynamics._descent import checkpoint, loop
from tests.dynamics.paced import SHORT, paced

DATA = symmetric_sine(pairs=10, dim=3, seed=0)
START = Network.gaussian((3, 6, 1), 0.3, 1.5, 2)
CALL = {"batch": 6, "seed": 4, "measures": ["loss", "stable_rank"], "record": every(7), "show": False}


EAGER = replace(SHORT, checkpoint=0.0, seconds=0.0)  # one step at a time, and a checkpoint after each


def run(steps, pace=SHORT, **change):
    given = {"network": START, "data": DATA, "loss": "square", "step": 0.01, "steps": steps}
    return paced(pace)(**given | CALL | change)


def assert_same_bits(found, expected):
    assert found.dataset.identical(expected.dataset)
    for a, b in zip(jax.tree.leaves(found.networks), jax.tree.leaves(expected.networks), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_call_with_a_checkpoint_goes_on_from_it_and_a_finished_one_is_only_read(tmp_path, monkeypatch):
    whole = run(50)
    path = tmp_path / "new folder" / "run.nc"
    run(21, checkpoint=path)
    assert_same_bits(resumed := run(50, checkpoint=path), whole)
    assert resumed.settings == whole.settings
    monkeypatch.setattr(loop.Stepper, "advance", None)  # nothing is computed any more
    assert_same_bits(run(50, checkpoint=path), whole)
    with pytest.raises(ValueError, match="has 50 steps already: ask for more"):
        run(40, checkpoint=path)


def test_checkpoints_are_written_on_the_way_between_records_too(tmp_path, monkeypatch):
    path, seen = tmp_path / "run.nc", []
    written = Trajectory.to_netcdf
    monkeypatch.setattr(
        Trajectory, "to_netcdf", lambda self, to: seen.append(self.statistics.steps) or written(self, to)
    )
    run(10, EAGER, checkpoint=path)
    assert seen == [0, *range(1, 11), 10] or seen == [*range(1, 11), 10]


def test_a_run_that_dies_after_its_last_step_is_not_taken_for_an_interrupted_one(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, "keep_now_and_then", killed_at_the_end)
        with pytest.raises(ValueError, match="killed"):
            run(14, checkpoint=path)
    assert run(14, checkpoint=path).settings == run(14).settings


def killed_at_the_end(self, made):
    self.keep(made())
    if Trajectory.load(self.path).statistics.steps == 14:
        raise ValueError("killed")


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.dynamics.test_checkpoint import EAGER, run
run(100_000, EAGER, checkpoint={path!r}, measures=["loss"], record=[5])
"""


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "run.nc"
    script = SCRIPT.format(root=str(Path(__file__).parents[2]), path=str(path))
    child = subprocess.Popen([sys.executable, "-c", script])
    end = time.monotonic() + 60
    while (not path.exists() or Trajectory.load(path).statistics.steps < 3) and time.monotonic() < end:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    reached = Trajectory.load(path).statistics.steps
    assert 3 <= reached < 100_000
    call = {"steps": reached + 20, "measures": ["loss"], "record": [5, reached + 10]}
    assert_same_bits(run(checkpoint=path, **call), run(**call))


def momentum(decay):
    return lambda step: optax.sgd(step, momentum=decay)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 0.02},
        {"seed": 5},
        {"batch": 5},
        {"optimiser": momentum(0.5)},
        {"network": Network(START.weights, START.biases, 0.3, trained=(True, False))},
        {"network": Network(START.weights, START.biases, 0.3, linear_tail=2)},
    ],
    ids=["step", "seed", "batch", "optimiser", "trained", "linear tail"],
)
def test_the_checkpoint_of_another_call_is_refused(tmp_path, change):
    path = tmp_path / "run.nc"
    run(14, checkpoint=path, optimiser=momentum(0.9))
    with pytest.raises(ValueError, match=r"run.nc cannot be resumed by this call: its .* differs?\."):
        run(28, **{"checkpoint": path, "optimiser": momentum(0.9)} | change)


def test_other_names_of_the_networks_and_other_records_are_refused(tmp_path):
    path, two = tmp_path / "run.nc", [START, START]
    run(14, network=two, checkpoint=path, along={"a": [1, 2]})
    for along in ({"a": [1, 3]}, {"b": [1, 2]}):
        with pytest.raises(ValueError, match="its along differs"):
            run(14, network=two, checkpoint=path, along=along)
    for steps in (14, 21):  # the whole run, or a part of it
        with pytest.raises(ValueError, match="not hold all the records up to step 14 that are asked for"):
            run(steps, network=two, checkpoint=path, along={"a": [1, 2]}, record=every(1))


def test_what_is_no_checkpoint_is_refused_with_a_sentence(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        run(7, checkpoint=tmp_path)
    path = tmp_path / "run.nc"
    path.write_bytes(b"no run")
    with pytest.raises(ValueError, match="is not a netCDF file"):
        run(7, checkpoint=path)
    path.unlink()
    part = run(7, checkpoint=path)
    with pytest.raises(ValueError, match="two runs to take up"):
        run(14, checkpoint=path, resume=part)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "cores", lambda: 99)
        with pytest.raises(ValueError, match=r"other versions or cores \(cores \d+, here 99\)"):
            run(14, checkpoint=path)
    monkeypatch.setattr(checkpoint, "versions", lambda: {"jax": "0.0.1"})
    with pytest.raises(ValueError, match=r"written with other versions .*jax .*, here 0\.0\.1"):
        run(14, checkpoint=path)


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_a_full_disk_stops_no_run(tmp_path, monkeypatch, kind):
    def fail(self, path):
        raise kind("No space left on device")

    monkeypatch.setattr(Trajectory, "to_netcdf", fail)
    with pytest.warns(checkpoint.CheckpointWarning, match="No space left on device. The run goes on"):
        assert run(7, checkpoint=tmp_path / "run.nc").statistics.steps == 7
