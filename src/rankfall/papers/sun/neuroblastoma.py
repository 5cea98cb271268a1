"""Sun and Tran, Fig. 2 and 3: the stable rank on gene expression with far more genes than patients.

The neuroblastoma table (ArrayExpress, E-TABM-38) has no download whose content could be verified: its
experiment runs for those who import it. The same is asked of the lung-cancer data of Gordon et al., which are
alike in size.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, gordon, neuroblastoma, split, standardise
from rankfall.papers.claim import Claim, Expected, Measure, Verdict, at_least, at_most
from rankfall.papers.experiment import Experiment
from rankfall.papers.sun.readings import (
    FAST,
    NO_GRADIENT,
    READINGS,
    SEED,
    TWO_CLASSES,
    draw_readings,
    duration,
    ends,
    first_gradient,
    in_float32,
    two_classes,
)

WIDTH, STEP, EPOCHS = 1000, 0.22, 500
PRINTED = 50  # the number of epochs in the text; the figures show 500
LARGEST, SECOND = 4, 3  # the places of 1e-3 and 5e-4 among the values


def _neuroblastoma() -> Data:
    return _prepared(neuroblastoma())


def _gordon() -> Data:
    return _prepared(gordon())


def _prepared(data: Data) -> Data:
    """Standardised by all samples, and then split, as in the authors' program."""
    return in_float32(split(standardise(data), test=0.2, seed=SEED))


def run_neuroblastoma(seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy of five networks of each slope, in both readings."""
    return _run(_neuroblastoma(), seed)


def run_gordon(seed: int, place: Path) -> xr.Dataset:
    """The same on the lung-cancer data."""
    return _run(_gordon(), seed)


def _run(data: Data, seed: int) -> xr.Dataset:
    # Without checkpoints: the weights are half a gigabyte, and the descents take half a minute.
    runs = [two_classes(data, reading, WIDTH, STEP, EPOCHS, seed) for reading in READINGS]
    kept = xr.concat(runs, dim=xr.Variable("reading", list(READINGS)))
    return kept.assign(first_gradient=first_gradient(WIDTH, data))


def _above_lowest(runs: xr.Dataset, activation: str, which: int, reading: str = "as run") -> xr.DataArray:
    """The stable rank at the end with one value minus the lowest with another one."""
    last = ends(runs, reading, activation, EPOCHS if reading == "as run" else PRINTED * EPOCHS // 500)
    return last.isel(value=which) - last.drop_isel(value=which).min("value")


def _leaky_minus_plain(runs: xr.Dataset) -> xr.DataArray:
    lowest = [ends(runs, "as run", name).min("value") for name in ("ReLU", "leaky ReLU")]
    return lowest[1] - lowest[0]


def _still_moving(runs: xr.Dataset) -> xr.DataArray:
    """By how much the stable rank changes over the last tenth of the run."""
    ranks = runs.stable_rank.sel(reading="as run")
    return np.abs(ranks.sel(epoch=EPOCHS * 9 // 10) / ranks.isel(epoch=-1) - 1)


def draw_figure_2(runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, xscale="symlog", yscale="log")


QUESTIONS: tuple[tuple[str, str, str, Measure, Expected], ...] = (
    (
        "With ReLU the largest of the five initial scales ends at the lowest stable rank.",
        "Fig. 2",
        "stable rank at 1e-3 minus the lowest of the other four, after 500 epochs, as run",
        lambda runs: _above_lowest(runs, "ReLU", LARGEST),
        at_most(0.0, "the order of the curves, as the text tells it"),
    ),
    (
        "With leaky ReLU the second largest initial scale ends at the lowest stable rank.",
        "Fig. 3",
        "stable rank at 5e-4 minus the lowest of the other four, after 500 epochs, as run",
        lambda runs: _above_lowest(runs, "leaky ReLU", SECOND),
        at_most(0.0, "the order of the curves, as the text tells it"),
    ),
    (
        "The lowest stable rank is lower with ReLU than with leaky ReLU.",
        "Fig. 2 and 3",
        "lowest stable rank with leaky ReLU minus that with ReLU, after 500 epochs, as run",
        _leaky_minus_plain,
        at_least(0.0, "the order of the curves, as the text tells it"),
    ),
    (
        "Once the stable rank begins to fall, it converges fast.",
        "Fig. 2 and 3",
        "part of the run between a tenth and nine tenths of the fall of each curve, as run",
        duration,
        FAST,
    ),
    (
        "All five initial scales reach convergence.",
        "Fig. 2",
        "change of the stable rank of each curve over the last tenth of the run, as a part of it, as run",
        _still_moving,
        at_most(0.01, "one per cent of what it is: our reading of converged"),
    ),
    (
        "As printed, too, with ReLU the largest of the five initial scales ends at the lowest stable rank.",
        "Fig. 2, in the reading of the text",
        "stable rank at 1e-3 minus the lowest of the other four, after 50 epochs, as printed",
        lambda runs: _above_lowest(runs, "ReLU", LARGEST, "as printed"),
        at_most(0.0, "the order of the curves, as the text tells it"),
    ),
    (
        "As printed, too, with leaky ReLU the second largest initial scale ends at the lowest stable rank.",
        "Fig. 3, in the reading of the text",
        "stable rank at 5e-4 minus the lowest of the other four, after 50 epochs, as printed",
        lambda runs: _above_lowest(runs, "leaky ReLU", SECOND, "as printed"),
        at_most(0.0, "the order of the curves, as the text tells it"),
    ),
)
UNKNOWN: tuple[Verdict, ...] = tuple("needs data" for _ in QUESTIONS)


def _questions(source: str, recorded: Sequence[Verdict]) -> tuple[Claim, ...]:
    """The sentences of the text on Fig. 2 and 3, asked of a data set."""
    return tuple(
        Claim(sentence, source.format(place), metric, measure, expected, verdict)
        for (sentence, place, metric, measure, expected), verdict in zip(QUESTIONS, recorded, strict=True)
    )


SETTING = (
    "Every gene standardised by all samples, then 80 % of them for training; 1000 hidden neurons, full "
    "batches, step size 0.22, 500 epochs as in the figures (the text says 50: as printed the order is taken "
    f"there). One split, as in the authors' program; five draws of the weights. {TWO_CLASSES}"
)

NEUROBLASTOMA = Experiment(
    name="2-3",
    title="Stable rank on the neuroblastoma data, ReLU and leaky ReLU, five initial scales",
    run=run_neuroblastoma,
    draw=draw_figure_2,
    seeds=5,
    cost=90,
    needs="neuroblastoma",
    about=f"200 training and 51 test samples of 10,707 genes. {SETTING}",
    claims=_questions("section 5, {}", UNKNOWN),
)

GORDON = Experiment(
    name="2-3-gordon",
    title="Fig. 2 and 3 on other data: lung cancer instead of neuroblastoma",
    run=run_gordon,
    draw=draw_figure_2,
    seeds=5,
    cost=90,
    needs="gordon",
    about=(
        "The paper's neuroblastoma data could not be had. These are 144 training and 37 test samples "
        f"of 12,533 genes, raw intensities: nothing here is a verdict on the paper. {SETTING}"
    ),
    claims=(
        *_questions(
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
            sentence="Here the smallest initial scale ends at the lowest stable rank, in both readings.",
            source="rankfall",
            metric="stable rank at 1e-5 minus the lowest of the other four, after 500 epochs (as printed 50)",
            measure=lambda runs: [
                _above_lowest(runs, activation, 0, reading)
                for activation in runs.activation.values
                for reading in READINGS
            ],
            expected=at_most(0.0, "the sign is the claim"),
        ),
        Claim(
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
            sentence="As run the stable rank stays above 100.",
            source="rankfall",
            metric="lowest stable rank of W₁ in 500 steps, as run",
            measure=lambda runs: runs.stable_rank.sel(reading="as run").min("epoch"),
            expected=at_least(100.0, "our reading: far above where any scale ends as printed"),
            form="{:.0f}",
        ),
        NO_GRADIENT,
    ),
)
