"""Sun and Tran on images: ten classes, SGD, in both readings; and what MNIST and CIFAR-10 are both asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from rankfall.data import Data
from rankfall.dynamics import descent
from rankfall.papers.lab import Claim, at_least, at_most, finished, number_word
from rankfall.papers.sun.readings import (
    MEASURES,
    Reading,
    Training,
    as_printed,
    as_run,
    by_epoch,
    ends,
)

CURVE = "how well a printed curve can be read"
CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Images(Training):
    """What every experiment on images sets."""

    batch: int


def run_images(
    setting: Images, data: Data, values: Sequence[float], slopes: Mapping[str, float], seed: int, place: Path
) -> xr.Dataset:
    """Stable rank and test accuracy after every epoch, for each value and activation, in both readings."""
    readings = []
    for reading in Reading:
        activations = []
        for activation, slope in slopes.items():
            files = [place / f"{reading} {activation} {value:g}.nc" for value in values]
            runs = [
                _trained(setting, data, reading, slope, value, seed, file)
                for value, file in zip(values, files, strict=True)
            ]
            activations.append(xr.concat(runs, dim=xr.Variable("value", list(values))))
        readings.append(xr.concat(activations, dim=xr.Variable("activation", list(slopes))))
    return xr.concat(readings, dim=xr.Variable("reading", list(Reading)))


def _trained(
    setting: Images, data: Data, reading: Reading, slope: float, value: float, seed: int, checkpoint: Path
) -> xr.Dataset:
    made = as_run if reading is Reading.RUN else as_printed
    drawn = setting.first_seed + seed
    run = descent(
        made((data.dim, setting.width_of(reading), CLASSES), slope, value, drawn),
        data,
        "cross_entropy",
        setting.step,
        epochs=setting.epochs,
        batch=setting.batch,
        seed=drawn,
        measures=MEASURES,
        checkpoint=checkpoint,
    )
    return by_epoch(finished(run), -(-data.n // setting.batch))


def epochs_of(setting: Images) -> str:
    """How long the runs are, in a sentence."""
    return f"{number_word(setting.epochs)} epoch{'s' if setting.epochs != 1 else ''}"


def smaller_lower(name: str, setting: Images, source: str, because: str) -> Claim:
    """That smaller initial weights end lower: the claim of this name."""
    return Claim(
        id=name,
        sentence=f"The smaller the initial weights, the lower the stable rank after {epochs_of(setting)}.",
        source=source,
        metric="step of the stable rank from one value to the next larger one, mean of the draws, as run",
        measure=lambda runs: ends(runs, Reading.RUN, "ReLU").mean("seed").diff("value"),
        expected=at_least(0.0, because),
        form="{:.1f}",
    )


def no_trace(name: str, setting: Images, sentence: str) -> Claim:
    """That the initial scale leaves no trace as printed: the claim of this name."""
    return Claim(
        id=name,
        sentence=sentence,
        source="rankfall",
        metric=f"largest / smallest stable rank after {epochs_of(setting)} over the values, as printed",
        measure=_apart,
        expected=at_most(1.05, "5 % is what an eye sees in a figure"),
        form="{:.3f}",
    )


def _apart(runs: xr.Dataset) -> np.ndarray:
    """How far apart the values end as printed, for each activation and draw."""
    last = [ends(runs, Reading.PRINTED, activation) for activation in runs.activation.values]
    return np.array([ranks.max("value") / ranks.min("value") for ranks in last])
