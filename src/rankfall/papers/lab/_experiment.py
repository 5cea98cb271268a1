"""Experiments: the runs behind a figure of a paper, the figure, and the claims about it, at any setting."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

import xarray as xr
from matplotlib.figure import Figure

from rankfall.outcome import Outcome
from rankfall.papers.lab._claim import Claim
from rankfall.papers.lab._setting import S, changed, differences, values
from rankfall.theory.core import Source
from rankfall.trajectory import Trajectory


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """A figure of a paper, or a statement of it, as something that anybody can run, at any setting.

    - `name`: its name on the command line, as in `rankfall reproduce zhang --figure 3`: the figure's number
        where there is one.
    - `title`: one line for a reader.
    - `setting`: a frozen dataclass with all numbers of the experiment.
    - `simulation(setting, seed)`: all runs or limits for one seed, as a dataset of named arrays whose shapes
        do not depend on the seed. Where real data are needed it is `simulation(setting, seed, folder)`,
        with a folder for checkpoints.
    - `picture(setting, runs)`: the figure, from the datasets of all seeds along the dimension "seed".
    - `statements(setting)`: the claims that it tests.
    - `seeds`: the number of seeds; 1 where nothing is drawn at random, 20 or more for a statistical claim.
    - `cost`: roughly the seconds that one seed takes, for the order of the work and the time left.
    - `about`: what is run at the paper's setting, and every choice that the paper leaves open, for the page.
    - `needs`: the real data that it runs on, by their name in `rankfall data list`, such as "mnist". Such
        experiments are long: they run when asked for in full, and once the data are there.
    - `papers`: the paper's setting, where `setting` is another one; see `at`.
    """

    name: str
    title: str
    setting: S
    simulation: Callable[..., xr.Dataset]
    picture: Callable[[S, xr.Dataset], Figure]
    statements: Callable[[S], tuple[Claim, ...]]
    seeds: int = 1
    cost: float = 1.0
    about: str = ""
    needs: str = ""
    papers: S | None = None

    def at(self, **changes: Any) -> "Experiment[S]":
        """The same experiment at another setting: `LIMITS.at(n=20, slopes=(0.3,))`."""
        usual = self.setting if self.papers is None else self.papers
        return replace(self, setting=changed(self.setting, changes), papers=usual)

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of the setting that are not the paper's, with their values."""
        if self.papers is None:
            return {}
        then = values(self.papers)
        return {
            name: getattr(self.setting, name)
            for name, value in values(self.setting).items()
            if value != then[name]
        }

    @property
    def differs(self) -> str:
        """What of the setting is not the paper's: "n = 20 (paper: 8)"; empty if all of it is."""
        return "" if self.papers is None else differences(self.setting, self.papers)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims, at this setting."""
        return self.statements(self.setting)

    def run(self, seed: int = 0, folder: Path | None = None, **changes: Any) -> xr.Dataset:
        """Run one seed: `LIMITS.run(n=20)`. `folder` is for the checkpoints of long runs on real data."""
        setting = changed(self.setting, changes)
        if not self.needs:
            return self.simulation(setting, seed)
        if folder is None:
            raise ValueError(
                f"{self.name} runs on {self.needs}, for long: say in which `folder` it may write."
            )
        return self.simulation(setting, seed, folder)

    def draw(self, runs: xr.Dataset) -> Figure:
        """The figure, from the runs of all seeds along the dimension "seed"."""
        return self.picture(self.setting, runs)


@dataclass(frozen=True)
class Paper:
    """A paper: its name on the command line, where it was published, and its experiments.

    `file` is that of a paper of your own, which is then run by its file: `rankfall reproduce mine.py`.
    """

    name: str
    title: str
    source: Source
    experiments: tuple[Experiment[Any], ...] = field(repr=False)
    file: str = ""

    @property
    def address(self) -> str:
        """What `rankfall reproduce` finds it by."""
        return self.file or self.name


def finished(run: Trajectory) -> Trajectory:
    """The run, if it went to its end: half of one proves nothing, so Ctrl-C in it ends the experiment."""
    if run.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return run
