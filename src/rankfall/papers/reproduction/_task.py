"""One seed of one experiment: what a worker is given, and what it gives back."""

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from rankfall.data import NotHere
from rankfall.papers import paper
from rankfall.papers.lab import told
from rankfall.papers.reproduction._provenance import code_of


class Task(NamedTuple):
    """One seed of one experiment, and the folder for its checkpoints where it is long."""

    name: str
    figure: str
    changes: dict[str, Any]
    seed: int
    checkpoints: str

    @property
    def of(self) -> tuple[str, str]:
        """The paper and the figure."""
        return self.name, self.figure


@dataclass(frozen=True)
class Ran:
    """What comes back from a worker: the run or the error, its seconds, and the digest of its code."""

    run: xr.Dataset | None
    seconds: float = 0.0
    code: str = ""
    error: str = ""


def run(task: Task) -> Ran:
    """One seed of one experiment."""
    of = paper(task.name)
    experiment = next(e for e in of.experiments if e.name == task.figure).at(**task.changes)
    code, start = code_of(experiment), time.perf_counter()
    try:
        made = experiment.run(task.seed, Path(task.checkpoints) if task.checkpoints else None)
        return Ran(made, time.perf_counter() - start, code)
    except NotHere as error:
        return Ran(None, error=str(error))
    except Exception as error:
        if not of.file:  # our own mistake
            return Ran(None, error=traceback.format_exc())
        failed = f"the simulation of {task.figure} does not run with seed {task.seed}"
        return Ran(None, error=told(error, of.file, failed))
