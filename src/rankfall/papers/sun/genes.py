"""Sun and Tran on gene expression: two classes, full batches, ReLU and leaky ReLU, in both readings."""

from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from rankfall.data import Data, pair, split
from rankfall.dynamics import descent
from rankfall.papers.lab import finished
from rankfall.papers.sun.readings import (
    MEASURES,
    Curves,
    Reading,
    Training,
    as_printed,
    as_run,
    by_epoch,
    first_gradient,
    in_float32,
)


@dataclass(frozen=True, kw_only=True)
class Genes(Training, Curves):
    """What both experiments on gene expression set."""

    test: float = 0.2  # the share of the samples that are held out; the authors' program

    def parts(self, data: Data) -> Data:
        """The data in two parts, by the same split in all draws, as in the authors' program."""
        return in_float32(split(data, test=self.test, seed=self.first_seed))


def run_genes(setting: Genes, data: Data, seed: int, place: Path | None = None) -> xr.Dataset:
    """Stable rank and test accuracy of a network for each value and slope, in both readings.

    Where a `place` is given there are checkpoints in it.
    """
    runs = [_trained(setting, data, reading, seed, place) for reading in Reading]
    kept = xr.concat(runs, dim=xr.Variable("reading", list(Reading)))
    return kept.assign(first_gradient=first_gradient(setting, setting.values[0], data))


def _trained(setting: Genes, data: Data, reading: Reading, seed: int, place: Path | None) -> xr.Dataset:
    """All networks of a reading together.

    As run they have two outputs and the cross-entropy, as printed one output and the logistic loss.
    """
    run, values = reading is Reading.RUN, setting.values
    made, outputs = (as_run, 2) if run else (as_printed, 1)
    widths = (data.dim, setting.width_of(reading), outputs)
    trained = descent(
        [
            made(widths, slope, value, setting.first_seed + seed)
            for slope in setting.slopes.values()
            for value in values
        ],
        data if run else pair(data, 1, 0),
        "cross_entropy" if run else "logistic",
        setting.step,
        epochs=setting.epochs,
        measures=MEASURES,
        checkpoint=None if place is None else place / f"{reading}.nc",
    )
    kept = by_epoch(finished(trained))
    parts = [
        kept.isel(network=slice(i * len(values), (i + 1) * len(values))).rename(network="value")
        for i in range(len(setting.slopes))
    ]
    named = [part.assign_coords(value=list(values)) for part in parts]
    return xr.concat(named, dim=xr.Variable("activation", list(setting.slopes)))
