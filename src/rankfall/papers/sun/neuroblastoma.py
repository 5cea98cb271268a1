"""Sun and Tran, Fig. 2 and 3: the stable rank on gene expression with far more genes than patients.

The neuroblastoma table (ArrayExpress, E-TABM-38) has no download whose content could be verified: its
experiment runs for those who import it. The same is asked of the lung-cancer data of Gordon et al., which are
alike in size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, gordon, neuroblastoma, split, standardise
from rankfall.papers.lab import Claim, Experiment, at_least, at_most
from rankfall.papers.sun.readings import (
    FAST,
    READINGS,
    SEED,
    TWO_CLASSES,
    Curves,
    draw_readings,
    duration,
    ends,
    first_gradient,
    in_float32,
    no_gradient,
    two_classes,
)

SMALLEST, SECOND, LARGEST = 0, -2, -1  # the places of 1e-5, 5e-4 and 1e-3 among the values


def _neuroblastoma() -> Data:
    return _prepared(neuroblastoma())


def _gordon() -> Data:
    return _prepared(gordon())


def _prepared(data: Data) -> Data:
    """Standardised by all samples, and then split, as in the authors' program."""
    return in_float32(split(standardise(data), test=0.2, seed=SEED))


@dataclass(frozen=True)
class Setting(Curves):
    """Section 5, on the neuroblastoma data."""

    width: int = 1000
    step: float = 0.22
    epochs: int = 500  # Fig. 2 and 3, and the program
    load: Callable[[], Data] = _neuroblastoma

    @property
    def printed_epochs(self) -> int:
        """The number of epochs in the text: 50, where the figures show 500."""
        return self.epochs // 10


def run_figure_2(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy of a network for each value and slope, in both readings."""
    data = setting.load()
    # Without checkpoints: the weights are half a gigabyte, and the descents take half a minute.
    runs = [
        two_classes(setting, data, reading, setting.width, setting.step, setting.epochs, seed)
        for reading in READINGS
    ]
    kept = xr.concat(runs, dim=xr.Variable("reading", list(READINGS)))
    return kept.assign(first_gradient=first_gradient(setting.width, setting.values[0], data))


def _above_lowest(
    setting: Setting, runs: xr.Dataset, activation: str, which: int, reading: str = READINGS[0]
) -> xr.DataArray:
    """The stable rank at the end with one value minus the lowest with another one."""
    epoch = setting.epochs if reading == READINGS[0] else setting.printed_epochs
    last = ends(runs, reading, activation, epoch)
    chosen = last.isel(value=which % last.sizes["value"])
    return chosen - last.where(last.value != float(chosen.value)).min("value")


def _leaky_minus_plain(runs: xr.Dataset) -> xr.DataArray:
    lowest = [ends(runs, "as run", name).min("value") for name in ("ReLU", "leaky ReLU")]
    return lowest[1] - lowest[0]


def _still_moving(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """By how much the stable rank changes over the last tenth of the run."""
    ranks = runs.stable_rank.sel(reading="as run")
    return np.abs(ranks.sel(epoch=setting.epochs * 9 // 10) / ranks.isel(epoch=-1) - 1)


def draw_figure_2(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, xscale="symlog", yscale="log")


ORDER = "the order of the curves, as the text tells it"


def _questions(setting: Setting, data: str, source: str, recorded: Sequence[str]) -> tuple[Claim, ...]:
    """The sentences of the text on Fig. 2 and 3, asked of a data set; its name begins their ids."""
    asked = (*_as_run(setting, data, source), *_as_printed(setting, data, source))
    return tuple(replace(claim, recorded=verdict) for claim, verdict in zip(asked, recorded, strict=True))


def _as_run(setting: Setting, data: str, source: str) -> tuple[Claim, ...]:
    """The reading of the authors' program."""
    return (
        Claim(
            id=f"{data}-relu-largest-lowest",
            sentence="With ReLU the largest of the five initial scales ends at the lowest stable rank.",
            source=source.format("Fig. 2"),
            metric="stable rank at 1e-3 minus the lowest of the other four, after 500 epochs, as run",
            measure=lambda runs: _above_lowest(setting, runs, "ReLU", LARGEST),
            expected=at_most(0.0, ORDER),
        ),
        Claim(
            id=f"{data}-leaky-second-lowest",
            sentence="With leaky ReLU the second largest initial scale ends at the lowest stable rank.",
            source=source.format("Fig. 3"),
            metric="stable rank at 5e-4 minus the lowest of the other four, after 500 epochs, as run",
            measure=lambda runs: _above_lowest(setting, runs, "leaky ReLU", SECOND),
            expected=at_most(0.0, ORDER),
        ),
        Claim(
            id=f"{data}-relu-below-leaky",
            sentence="The lowest stable rank is lower with ReLU than with leaky ReLU.",
            source=source.format("Fig. 2 and 3"),
            metric="lowest stable rank with leaky ReLU minus that with ReLU, after 500 epochs, as run",
            measure=_leaky_minus_plain,
            expected=at_least(0.0, ORDER),
        ),
        Claim(
            id=f"{data}-fast-fall",
            sentence="Once the stable rank begins to fall, it converges fast.",
            source=source.format("Fig. 2 and 3"),
            metric="part of the run between a tenth and nine tenths of the fall of each curve, as run",
            measure=duration,
            expected=FAST,
        ),
        Claim(
            id=f"{data}-all-converge",
            sentence="All five initial scales reach convergence.",
            source=source.format("Fig. 2"),
            metric=(
                "change of the stable rank of each curve over the last tenth of the run, as a part of it, "
                "as run"
            ),
            measure=lambda runs: _still_moving(setting, runs),
            expected=at_most(0.01, "one per cent of what it is: our reading of converged"),
        ),
    )


def _as_printed(setting: Setting, data: str, source: str) -> tuple[Claim, ...]:
    """The reading of the text."""
    return (
        Claim(
            id=f"{data}-relu-largest-printed",
            sentence=(
                "As printed, too, with ReLU the largest of the five initial scales ends at the lowest stable "
                "rank."
            ),
            source=source.format("Fig. 2, in the reading of the text"),
            metric="stable rank at 1e-3 minus the lowest of the other four, after 50 epochs, as printed",
            measure=lambda runs: _above_lowest(setting, runs, "ReLU", LARGEST, "as printed"),
            expected=at_most(0.0, ORDER),
        ),
        Claim(
            id=f"{data}-leaky-second-printed",
            sentence=(
                "As printed, too, with leaky ReLU the second largest initial scale ends at the lowest stable "
                "rank."
            ),
            source=source.format("Fig. 3, in the reading of the text"),
            metric="stable rank at 5e-4 minus the lowest of the other four, after 50 epochs, as printed",
            measure=lambda runs: _above_lowest(setting, runs, "leaky ReLU", SECOND, "as printed"),
            expected=at_most(0.0, ORDER),
        ),
    )


ABOUT = (
    "Every gene standardised by all samples, then 80 % of them for training; 1000 hidden neurons, full "
    "batches, step size 0.22, 500 epochs as in the figures (the text says 50: as printed the order is taken "
    f"there). One split, as in the authors' program; five draws of the weights. {TWO_CLASSES}"
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What section 5 says about Fig. 2 and 3: without the data all of it is open."""
    return _questions(setting, "neuroblastoma", "section 5, {}", ("needs data",) * 7)


NEUROBLASTOMA = Experiment(
    name="2-3",
    title="Stable rank on the neuroblastoma data, ReLU and leaky ReLU, five initial scales",
    setting=Setting(),
    simulation=run_figure_2,
    picture=draw_figure_2,
    statements=claims,
    seeds=5,
    cost=90,
    needs="neuroblastoma",
    about=f"200 training and 51 test samples of 10,707 genes. {ABOUT}",
)


def gordon_claims(setting: Setting) -> tuple[Claim, ...]:
    """The same sentences on the lung-cancer data, and what is seen there."""
    return (
        *_questions(
            setting,
            "gordon",
            "rankfall: the sentence on {}, on other data",
            (
                "not reproduced",
                "not reproduced",
                "not reproduced",
                "reproduced",
                "reproduced",
                "not reproduced",
                "not reproduced",
            ),
        ),
        Claim(
            id="gordon-smallest-lowest",
            sentence="Here the smallest initial scale ends at the lowest stable rank, in both readings.",
            source="rankfall",
            metric="stable rank at 1e-5 minus the lowest of the other four, after 500 epochs (as printed 50)",
            measure=lambda runs: [
                _above_lowest(setting, runs, activation, SMALLEST, reading)
                for activation in runs.activation.values
                for reading in READINGS
            ],
            expected=at_most(0.0, "the sign is the claim"),
        ),
        Claim(
            id="gordon-printed-collapse",
            sentence="As printed the stable rank collapses in one step from the three smallest scales.",
            source="rankfall",
            metric="stable rank of W₁ after one step, values 1e-5, 5e-5 and 1e-4, as printed",
            measure=lambda runs: [
                ends(runs, "as printed", name, 1).isel(value=slice(3)) for name in runs.activation.values
            ],
            expected=at_most(2.0, "our reading of a collapse: it starts at 611"),
            form="{:.2f}",
            note="These data are far from orthogonal: no theorem promises it.",
        ),
        Claim(
            id="gordon-run-stays-high",
            sentence="As run the stable rank stays above 100.",
            source="rankfall",
            metric="lowest stable rank of W₁ in 500 steps, as run",
            measure=lambda runs: runs.stable_rank.sel(reading="as run").min("epoch"),
            expected=at_least(100.0, "our reading: far above where any scale ends as printed"),
            form="{:.0f}",
        ),
        no_gradient("gordon-no-first-gradient"),
    )


GORDON = Experiment(
    name="2-3-gordon",
    title="Fig. 2 and 3 on other data: lung cancer instead of neuroblastoma",
    setting=Setting(load=_gordon),
    simulation=run_figure_2,
    picture=draw_figure_2,
    statements=gordon_claims,
    seeds=5,
    cost=90,
    needs="gordon",
    about=(
        "The paper's neuroblastoma data could not be had. These are 144 training and 37 test samples "
        f"of 12,533 genes, raw intensities: nothing here is a verdict on the paper. {ABOUT}"
    ),
)
