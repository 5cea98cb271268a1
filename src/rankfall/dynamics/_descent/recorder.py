"""How far a descent has come, as a trajectory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr

from rankfall._cores import cores
from rankfall._precision import to_numpy
from rankfall.dynamics._descent.loop import Course
from rankfall.dynamics._descent.stepper import Stepper
from rankfall.dynamics._problem import Reduction
from rankfall.outcome import Outcome, Statistics
from rankfall.trajectory import Trajectory, to_dataset, versions


@dataclass(frozen=True)
class Recorder:
    """Makes a `Trajectory` of a `Course`.

    - `along`: the name and the labels of the dimension of the networks, where several run.
    - `before`: the records of the run that this one takes up.
    """

    lanes: Sequence[Stepper]
    reduction: Reduction
    along: tuple[str, Sequence[Any]] | None
    settings: Mapping[str, Any]
    before: xr.Dataset | None

    def trajectory(self, course: Course, outcome: Outcome) -> Trajectory:
        """The run as far as it has come."""
        states = to_numpy(course.carries)
        kept = [lane.turned(state.standing) for lane, state in zip(self.lanes, states, strict=True)]
        parameters = kept[0]
        if self.lanes[0].axes is None:
            parameters = jax.tree.map(lambda *leaves: np.stack(leaves), *kept)
        settings = {**self.settings, "outcome": outcome, "versions": versions(), "cores": cores()}
        return Trajectory(
            self._records(course),
            self.reduction.lift(parameters),
            settings,
            states,
            statistics=Statistics(steps=course.at),
        )

    def _records(self, course: Course) -> xr.Dataset:
        if not course.reached:
            assert self.before is not None  # the start is a record
            return self.before
        lane, records = self.lanes[0], course.records()
        if self.along is None:  # one network, without a dimension of its own
            records = {name: values[:, 0] for name, values in records.items()}
        axis = xr.DataArray(np.asarray(course.reached), dims="step", name="step", attrs={"long_name": "step"})
        made = to_dataset(records, lane.measures, axis, self.reduction.networks[0], self.along)
        dims = ("step", *([self.along[0]] if self.along else []))
        for name, long_name in lane.extras(course.carries[0]).items():
            made = made.assign({name: (dims, records[name], {"long_name": long_name})})
        if lane.batch is not None:
            epochs = np.asarray(course.reached) * lane.batch / lane.padded
            made = made.assign_coords(epoch=("step", epochs, {"long_name": "epoch"}))
        return made if self.before is None else xr.concat([self.before, made], dim="step")
