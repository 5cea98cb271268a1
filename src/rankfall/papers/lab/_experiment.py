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
from rankfall.papers.lab._mistake import Mistake, need, need_tuple, twice
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

    def __post_init__(self) -> None:
        _check_setting(self.setting, self.name)
        for part in ("simulation", "picture", "statements"):
            function = getattr(self, part)
            need(callable(function), f"the {part} of {self.name}", "a function", function)

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
        made = self.statements(self.setting)
        need_tuple(made, f"the claims of {self.name}", Claim)
        if same := twice(claim.id for claim in made):
            raise Mistake(f"two claims of {self.name} are called {same!r}: ids are unique within a paper.")
        return made

    def run(self, seed: int = 0, folder: Path | None = None, **changes: Any) -> xr.Dataset:
        """Run one seed: `LIMITS.run(n=20)`. `folder` is for the checkpoints of long runs on real data."""
        setting = changed(self.setting, changes)
        if self.needs and folder is None:
            raise ValueError(
                f"{self.name} runs on {self.needs} and takes long: pass `folder=` for its checkpoints."
            )
        made = self.simulation(setting, seed, folder) if self.needs else self.simulation(setting, seed)
        is_dataset = isinstance(made, xr.Dataset)
        need(is_dataset, f"what the simulation of {self.name} returns", "an xarray.Dataset", made)
        return made

    def draw(self, runs: xr.Dataset) -> Figure:
        """The figure, from the runs of all seeds along the dimension "seed"."""
        made = self.picture(self.setting, runs)
        is_figure = isinstance(made, Figure)
        need(is_figure, f"what the picture of {self.name} returns", "a matplotlib Figure", made)
        return made


def _check_setting(setting: Any, name: str) -> None:
    """A setting is never changed, only replaced: it is an instance of a frozen dataclass."""
    what = f"the setting of {name}"
    if isinstance(setting, type):
        raise Mistake(f"{what} must be an instance: write {setting.__name__}(), with brackets.")
    parameters = getattr(setting, "__dataclass_params__", None)
    frozen = parameters is not None and parameters.frozen
    need(frozen, what, "an instance of a frozen dataclass, @dataclass(frozen=True)", setting)


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

    def __post_init__(self) -> None:
        need_tuple(self.experiments, f"the experiments of {self.name}", Experiment)
        if same := twice(each.name for each in self.experiments):
            raise Mistake(
                f"two experiments of {self.name} are called {same!r}, or one is listed twice: names are "
                "unique within a paper."
            )
        need(isinstance(self.source, Source), f"the source of {self.name}", "a Source", self.source)

    @property
    def address(self) -> str:
        """What `rankfall reproduce` finds it by."""
        return self.file or self.name


def finished(run: Trajectory) -> Trajectory:
    """The run, if it went to its end: half of one proves nothing, so Ctrl-C in it ends the experiment."""
    if run.outcome is Outcome.INTERRUPTED:
        raise KeyboardInterrupt
    return run
