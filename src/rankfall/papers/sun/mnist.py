"""Sun and Tran, Fig. 6 and 7: the stable rank on MNIST, ReLU and leaky ReLU."""

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, mnist
from rankfall.papers.claim import Claim, at_least, at_most, near
from rankfall.papers.experiment import Experiment
from rankfall.papers.sun.readings import (
    FILES,
    NO_GRADIENT,
    READINGS,
    SLOPES,
    TEN_CLASSES,
    VALUES,
    draw_readings,
    ends,
    first_gradient,
    ten_classes,
)

WIDTH, STEP, BATCH, EPOCHS = 1000, 0.1, 64, 10
START, READ_OFF = 222, (15, 20, 26, 68, 110)  # of Fig. 6: the start, and the ends from 1e-5 to 1e-3
ACCURACY = 0.98  # where all test accuracies of Fig. 6 end
CURVE = "how well a printed curve can be read"
SOME = 1000  # samples on which the gradient at the start is taken


def _data() -> Data:
    return mnist(0.1307, 0.3081)


def run_figure_6(seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy after every epoch: five networks of each slope, in both readings."""
    data = _data()
    readings = []
    for reading in READINGS:
        activations = [
            xr.concat(
                [_network(data, reading, activation, value, seed, place) for value in VALUES],
                dim=xr.Variable("value", list(VALUES)),
            )
            for activation in SLOPES
        ]
        readings.append(xr.concat(activations, dim=xr.Variable("activation", list(SLOPES))))
    kept = xr.concat(readings, dim=xr.Variable("reading", list(READINGS)))
    return kept.assign(first_gradient=first_gradient(WIDTH, Data(data.x[:SOME], data.y[:SOME])))


def _network(data: Data, reading: str, activation: str, value: float, seed: int, place: Path) -> xr.Dataset:
    file = f"{FILES[reading]}-{activation.removesuffix('ReLU').strip() or 'relu'}-{value:g}.nc"
    widths, slope = (data.dim, WIDTH, 10), SLOPES[activation]
    options = {"step": STEP, "batch": BATCH, "epochs": EPOCHS}
    return ten_classes(data, reading, widths, slope, value, seed, place / file, **options)


def _to_figure(runs: xr.Dataset, reading: str) -> xr.DataArray:
    """The stable ranks at the end with ReLU, as parts of those read off the figure."""
    return ends(runs, reading, "ReLU").mean("seed") / np.array(READ_OFF)


def _accuracy(runs: xr.Dataset) -> xr.DataArray:
    """The test accuracies at the end with ReLU, as parts of that in the figure."""
    last = runs.test_accuracy.sel(reading="as run", activation="ReLU").isel(epoch=-1)
    return last.mean("seed") / ACCURACY


def _trace(runs: xr.Dataset) -> list[xr.DataArray]:
    """How far apart the five values end as printed, for each activation and draw."""
    last = [ends(runs, "as printed", activation) for activation in SLOPES]
    return [ranks.max("value") / ranks.min("value") for ranks in last]


def _steps(runs: xr.Dataset) -> xr.DataArray:
    """The steps from one value to the next larger one, at the end, with ReLU."""
    return ends(runs, "as run", "ReLU").mean("seed").diff("value")


def _smallest(runs: xr.Dataset, reading: str = "as run") -> xr.DataArray:
    """The stable rank over the epochs from the smallest initial weights."""
    return runs.stable_rank.sel(reading=reading, value=VALUES[0])


def draw_figure_6(runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, yscale="log")


MNIST = Experiment(
    name="6-7",
    title="Stable rank on MNIST, ReLU and leaky ReLU, five initial scales",
    run=run_figure_6,
    draw=draw_figure_6,
    seeds=5,
    cost=400,
    needs="mnist",
    about=(
        "1000 hidden neurons, SGD with batches of 64 and step size 0.1 for 10 epochs, pixels centred and "
        f"scaled by mean 0.1307 and deviation 0.3081; the paper shows the mean of five runs. {TEN_CLASSES}"
    ),
    claims=(
        Claim(
            sentence="The stable rank starts at 222.",
            source="section 5, Fig. 6, read off",
            metric="stable rank of W₁ at the start / 222, as run",
            measure=lambda runs: _smallest(runs).sel(activation="ReLU").isel(epoch=0) / START,
            expected=near(1.0, 0.05, f"{CURVE} near its top"),
            form="{:.3f}",
        ),
        Claim(
            sentence="With ReLU the five runs end at stable ranks of 15, 20, 26, 68 and 110.",
            source="section 5, Fig. 6, read off",
            metric="stable rank of W₁ after ten epochs / that of the figure, mean of the draws, as run",
            measure=lambda runs: _to_figure(runs, "as run"),
            expected=near(1.0, 0.1, "a tenth: two lines' widths at the lowest curve; our reading"),
            form="{:.3f}",
        ),
        Claim(
            sentence="The smaller the initial weights, the lower the stable rank after ten epochs.",
            source="section 5, Fig. 6",
            metric="step of the stable rank from one value to the next larger one, mean of the draws, as run",
            measure=_steps,
            expected=at_least(0.0, "the order of the curves as they are drawn"),
            form="{:.1f}",
        ),
        Claim(
            sentence="From small initial weights the stable rank falls fast, far below its start.",
            source="section 5, Fig. 6 and 7",
            metric="stable rank of W₁ after one epoch / at the start, value 1e-5, as run",
            measure=lambda runs: _smallest(runs).isel(epoch=1) / _smallest(runs).isel(epoch=0),
            expected=at_most(0.1, "markedly lower: an order of magnitude, our reading"),
            form="{:.3f}",
        ),
        Claim(
            sentence="The test accuracy is about 98 % after ten epochs.",
            source="section 5, Fig. 6, read off",
            metric="test accuracy after ten epochs / 0.98, mean of the draws, ReLU, as run",
            measure=_accuracy,
            expected=near(1.0, 0.01, "one point: the accuracy is read to a point"),
            form="{:.4f}",
        ),
        Claim(
            sentence="Leaky ReLU ends where ReLU does, at every initial scale.",
            source="rankfall",
            metric="stable rank after ten epochs with leaky ReLU / with ReLU, mean of the draws, as run",
            measure=lambda runs: (
                ends(runs, "as run", "leaky ReLU").mean("seed") / ends(runs, "as run", "ReLU").mean("seed")
            ),
            expected=near(1.0, 0.05, "5 % is what an eye sees between two figures"),
            form="{:.3f}",
        ),
        Claim(
            sentence="From the smallest initial weights the stable rank rises again from the first epoch on.",
            source="rankfall",
            metric="stable rank after ten epochs / after the first, value 1e-5, as run",
            measure=lambda runs: _smallest(runs).isel(epoch=-1) / _smallest(runs).isel(epoch=1),
            expected=at_least(1.2, "a rise that an eye sees in the figure"),
            form="{:.2f}",
        ),
        Claim(
            sentence="As printed, too, the five runs end where the figure does.",
            source="rankfall: Fig. 6 in the reading of the text",
            metric="stable rank of W₁ after ten epochs / that of the figure, mean of the draws, as printed",
            measure=lambda runs: _to_figure(runs, "as printed"),
            expected=near(1.0, 0.1, "as for the other reading"),
            recorded="not reproduced",
            form="{:.3f}",
        ),
        Claim(
            sentence="As printed the initial scale leaves no trace: all five runs end at one stable rank.",
            source="rankfall",
            metric="largest / smallest stable rank after ten epochs over the values, as printed",
            measure=_trace,
            expected=at_most(1.05, "5 % is what an eye sees in a figure"),
            form="{:.3f}",
        ),
        NO_GRADIENT,
    ),
)
