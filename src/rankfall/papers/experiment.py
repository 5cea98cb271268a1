"""Experiments: the runs behind a figure of a paper, the figure, and the claims about it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import xarray as xr
from matplotlib.figure import Figure

from rankfall.papers.claim import Claim
from rankfall.theory.result import Source
from rankfall.trajectory import Trajectory


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper, or a statement of it, as something that can be run again.

    - `name`: its name on the command line, as in `rankfall reproduce zhang --figure 3`: the figure's number
        where there is one.
    - `title`: one line for a reader.
    - `claims`: the sentences that it tests.
    - `run(seed)`: all runs or limits for one seed, as a dataset of named arrays whose shapes do not depend
        on the seed. Where real data are needed it is `run(seed, place)`, with a folder for checkpoints.
    - `draw(runs)`: the figure, from the datasets of all seeds along the dimension "seed".
    - `seeds`: how many seeds are run; 1 where nothing is drawn at random, 20 or more for a statistical claim.
    - `cost`: roughly the seconds that one seed takes, for the order of the work and the time left.
    - `about`: the setting, and every choice that the paper leaves open, for the page.
    - `needs`: the real data that it runs on, by their name in `rankfall data list`, such as "mnist". Such
        experiments are long: they run when asked for in full, and once the data are there.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    run: Callable[..., xr.Dataset]
    draw: Callable[[xr.Dataset], Figure]
    seeds: int = 1
    cost: float = 1.0
    about: str = ""
    needs: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper: its name on the command line, where it was published, and its experiments."""

    name: str
    title: str
    source: Source
    experiments: tuple[Experiment, ...] = field(repr=False)


def finished(run: Trajectory) -> Trajectory:
    """The run, if it went to its end: half of one proves nothing, so Ctrl-C in it ends the experiment."""
    if run.settings["outcome"].startswith("interrupted"):
        raise KeyboardInterrupt
    return run
