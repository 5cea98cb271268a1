"""Checkpoints: a run on disk, from which the same call goes on after anything that ended it."""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from rankfall._cores import cores
from rankfall.trajectory import Trajectory, versions


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the run goes on, and what was written before is kept."""


class Checkpoint:
    """A file that holds a run as far as it has come, written every few `seconds`, whole or not at all."""

    def __init__(self, path: str | os.PathLike[str], seconds: float):
        self.path, self.seconds = Path(path), seconds
        if self.path.is_dir():
            raise ValueError(f"the checkpoint {self.path} is a folder: name a file in it, such as run.nc.")
        self._last = time.monotonic()

    def found(self) -> Trajectory | None:
        """What was written before; None if there is nothing."""
        if not self.path.exists():
            return None
        run = Trajectory.load(self.path)
        if differences := _differences(run):
            raise ValueError(
                f"the checkpoint {self.path} was written with other versions or cores ({differences}): the "
                "run would not go on bit for bit. Remove it to start anew, or go on from it all the same "
                "with `resume=Trajectory.load(path)`."
            )
        return run

    def keep_now_and_then(self, run: Callable[[], Trajectory]) -> None:
        """Write the run, if the last time is long enough ago."""
        if time.monotonic() - self._last >= self.seconds:
            self.keep(run())

    def keep(self, run: Trajectory) -> None:
        """Write the run."""
        try:
            run.to_netcdf(self.path)
        except (OSError, RuntimeError) as error:  # HDF5 has both for a full disk
            warnings.warn(
                f"The checkpoint {self.path} cannot be written: {error}. The run goes on.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._last = time.monotonic()


def _differences(run: Trajectory) -> str:
    """The versions of the libraries and the number of cores, where they are not those of the run."""
    before = {**run.settings.get("versions", {}), "cores": run.settings.get("cores")}
    now = {**versions(), "cores": cores()}
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return ", ".join(f"{name} {before.get(name)}, here {now.get(name)}" for name in names)
