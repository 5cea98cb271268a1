"""Sun and Tran, Fig. 2 and 3: the stable rank on gene expression with far more genes than patients.

The neuroblastoma table (ArrayExpress, E-TABM-38) has no download whose content could be verified: its
experiment runs for those who import it. The same is asked of the lung-cancer data of Gordon et al., which are
alike in size.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, gordon, neuroblastoma, standardise
from rankfall.papers.lab import Claim, Experiment, Verdict, at_least, at_most, number_word, scientific
from rankfall.papers.sun.genes import Genes, run_genes
from rankfall.papers.sun.readings import (
    FAST,
    TWO_CLASSES,
    Reading,
    draw_readings,
    duration,
    ends,
    listed,
    no_gradient,
    smallest,
)

SMALLEST, SECOND, LARGEST = 0, -2, -1  # places among the values
HIGH = 100  # a high stable rank


@dataclass(frozen=True)
class Setting(Genes):
    """Section 5, on the neuroblastoma data."""

    width: int = 1000
    printed_width: int = 1000
    step: float = 0.22
    epochs: int = 500  # Fig. 2 and 3, and the program
    printed_epochs: int = 50  # the text, where the figures show 500
    load: Callable[[], Data] = neuroblastoma

    def epochs_of(self, reading: Reading) -> int:
        """The epoch at which the order of the curves is taken."""
        return self.epochs if reading is Reading.RUN else self.printed_epochs


def run_figure_2(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy of a network for each value and slope, in both readings."""
    data = setting.parts(standardise(setting.load()))  # by all samples, as in the authors' program
    return run_genes(setting, data, seed)  # no checkpoints: they hold half a gigabyte, half a minute is lost


def _above_lowest(
    setting: Setting, runs: xr.Dataset, activation: str, which: int, reading: Reading
) -> xr.DataArray:
    """The stable rank at the end with one value minus the lowest with another one."""
    last = ends(runs, reading, activation, setting.epochs_of(reading))
    chosen = last.isel(value=which)
    return chosen - last.where(last.value != float(chosen.value)).min("value")


def _leaky_minus_plain(runs: xr.Dataset) -> xr.DataArray:
    lowest = [ends(runs, Reading.RUN, name).min("value") for name in ("ReLU", "leaky ReLU")]
    return lowest[1] - lowest[0]


def _still_moving(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """By how much the stable rank changes over the last tenth of the run."""
    ranks = runs.stable_rank.sel(reading=Reading.RUN)
    return np.abs(ranks.sel(epoch=setting.epochs * 9 // 10) / ranks.isel(epoch=-1) - 1)


def draw_figure_2(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, xscale="symlog", yscale="log")


ORDER = "the order of the curves, as the text tells it"


def _questions(setting: Setting, data: str, source: str) -> Iterator[Claim]:
    """The sentences of the text on Fig. 2 and 3, asked of a data set; its name begins their ids."""
    if len(setting.values) > 1:
        yield _largest_lowest(setting, f"{data}-relu-largest-lowest", source.format("Fig. 2"), Reading.RUN)
        yield _second_lowest(setting, f"{data}-leaky-second-lowest", source.format("Fig. 3"), Reading.RUN)
    yield from _on_all_curves(setting, data, source)
    if len(setting.values) > 1 and setting.printed_epochs <= setting.epochs:
        told = source.format("{}, in the reading of the text")
        printed = Reading.PRINTED
        yield _largest_lowest(setting, f"{data}-relu-largest-printed", told.format("Fig. 2"), printed)
        yield _second_lowest(setting, f"{data}-leaky-second-printed", told.format("Fig. 3"), printed)


def _largest_lowest(setting: Setting, name: str, source: str, reading: Reading) -> Claim:
    """That with ReLU the largest initial scale ends lowest: the claim of this name."""
    return Claim(
        id=name,
        sentence=(
            f"{_with(reading)} ReLU the largest of the {number_word(len(setting.values))} initial scales "
            "ends at the lowest stable rank."
        ),
        source=source,
        metric=f"{_above(setting, LARGEST)}, after {setting.epochs_of(reading)} epochs, {reading}",
        measure=lambda runs: _above_lowest(setting, runs, "ReLU", LARGEST, reading),
        expected=at_most(0.0, ORDER),
    )


def _second_lowest(setting: Setting, name: str, source: str, reading: Reading) -> Claim:
    """That with leaky ReLU the second largest initial scale ends lowest: the claim of this name."""
    return Claim(
        id=name,
        sentence=(
            f"{_with(reading)} leaky ReLU the second largest initial scale ends at the lowest stable rank."
        ),
        source=source,
        metric=f"{_above(setting, SECOND)}, after {setting.epochs_of(reading)} epochs, {reading}",
        measure=lambda runs: _above_lowest(setting, runs, "leaky ReLU", SECOND, reading),
        expected=at_most(0.0, ORDER),
    )


def _with(reading: Reading) -> str:
    return "With" if reading is Reading.RUN else "As printed, too, with"


def _above(setting: Setting, which: int) -> str:
    others = len(setting.values) - 1
    rest = "the other" if others == 1 else f"the lowest of the other {number_word(others)}"
    return f"stable rank at {scientific(setting.values[which])} minus {rest}"


def _on_all_curves(setting: Setting, data: str, source: str) -> tuple[Claim, ...]:
    """What is said of all curves, in the reading of the authors' program."""
    return (
        Claim(
            id=f"{data}-relu-below-leaky",
            sentence="The lowest stable rank is lower with ReLU than with leaky ReLU.",
            source=source.format("Fig. 2 and 3"),
            metric=(
                f"lowest stable rank with leaky ReLU minus that with ReLU, after {setting.epochs} epochs, "
                "as run"
            ),
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
            sentence=f"All {number_word(len(setting.values))} initial scales reach convergence.",
            source=source.format("Fig. 2"),
            metric=(
                "change of the stable rank of each curve over the last tenth of the run, as a part of it, "
                "as run"
            ),
            measure=lambda runs: _still_moving(setting, runs),
            expected=at_most(0.01, "one per cent of what it is: our reading of converged"),
        ),
    )


ABOUT = (
    "Every gene standardised by all samples, then 80 % of them for training; 1000 hidden neurons, full "
    "batches, step size 0.22, 500 epochs as in the figures (the text says 50: as printed the order is taken "
    f"there). One split, as in the authors' program; five draws of the weights. {TWO_CLASSES}"
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What section 5 says about Fig. 2 and 3: without the data all of it is open."""
    asked = _questions(setting, "neuroblastoma", "section 5, {}")
    return tuple(replace(claim, recorded=Verdict.NEEDS_DATA) for claim in asked)


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
    asked = _questions(setting, "gordon", "rankfall: the sentence on {}, on other data")
    return (
        *(claim if claim.id in HOLD else replace(claim, recorded=Verdict.NOT_REPRODUCED) for claim in asked),
        *_on_gordon(setting),
        no_gradient("gordon-no-first-gradient"),
    )


HOLD = ("gordon-fast-fall", "gordon-all-converge")  # of the sentences on neuroblastoma


def _on_gordon(setting: Setting) -> Iterator[Claim]:
    """What is seen on the lung-cancer data."""
    if len(setting.values) > 1 and setting.printed_epochs <= setting.epochs:
        yield Claim(
            id="gordon-smallest-lowest",
            sentence="Here the smallest initial scale ends at the lowest stable rank, in both readings.",
            source="rankfall",
            metric=(
                f"{_above(setting, SMALLEST)}, after {setting.epochs} epochs "
                f"(as printed {setting.printed_epochs})"
            ),
            measure=lambda runs: [
                _above_lowest(setting, runs, activation, SMALLEST, reading)
                for activation in runs.activation.values
                for reading in Reading
            ],
            expected=at_most(0.0, "the sign is the claim"),
        )
    if setting.small:
        yield Claim(
            id="gordon-printed-collapse",
            sentence=(
                f"As printed the stable rank collapses in one step from the {smallest(setting, 'scale')}."
            ),
            source="rankfall",
            metric=f"stable rank of W₁ after one step, {listed(setting.small)}, as printed",
            measure=lambda runs: [
                ends(runs, Reading.PRINTED, name, 1).sel(value=list(setting.small))
                for name in runs.activation.values
            ],
            expected=at_most(2.0, "our reading of a collapse"),
            form="{:.2f}",
            note="With a thousand neurons it starts at 611. These data are far from orthogonal: no theorem "
            "promises it.",
        )
    if setting.width > HIGH:  # which is as high as it can be
        yield Claim(
            id="gordon-run-stays-high",
            sentence=f"As run the stable rank stays above {HIGH}.",
            source="rankfall",
            metric=f"lowest stable rank of W₁ in {setting.epochs} steps, as run",
            measure=lambda runs: runs.stable_rank.sel(reading=Reading.RUN).min("epoch"),
            expected=at_least(HIGH, "our reading: far above where any scale ends as printed"),
            form="{:.0f}",
        )


GORDON = Experiment(
    name="2-3-gordon",
    title="Fig. 2 and 3 on other data: lung cancer instead of neuroblastoma",
    setting=Setting(load=gordon),
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
