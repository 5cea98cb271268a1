"""Sun and Tran, Fig. 6 and 7: the stable rank on MNIST, ReLU and leaky ReLU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, mnist
from rankfall.papers.lab import Claim, Experiment, at_least, at_most, near
from rankfall.papers.sun.readings import (
    FILES,
    READINGS,
    TEN_CLASSES,
    VALUES,
    Curves,
    draw_readings,
    ends,
    first_gradient,
    no_gradient,
    ten_classes,
)

CURVE = "how well a printed curve can be read"


def _data() -> Data:
    return mnist(0.1307, 0.3081)


@dataclass(frozen=True)
class Setting(Curves):
    """Section 5, on MNIST: the same in the text and in the program; and what is read off Fig. 6."""

    width: int = 1000
    step: float = 0.1
    batch: int = 64
    epochs: int = 10
    gradient_samples: int = 1000  # ours: on so many the gradient at the start is taken
    start: int = 222  # Fig. 6: where the stable ranks start
    read_off: Mapping[float, int] = field(  # Fig. 6: where they end, for each value
        default_factory=lambda: dict(zip(VALUES, (15, 20, 26, 68, 110), strict=True))
    )
    accuracy: float = 0.98  # Fig. 6: where all test accuracies end
    load: Callable[[], Data] = _data


def run_figure_6(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy after every epoch, for each value and slope, in both readings."""
    data, some = setting.load(), setting.gradient_samples
    readings = []
    for reading in READINGS:
        activations = [
            xr.concat(
                [
                    _network(setting, data, reading, activation, value, seed, place)
                    for value in setting.values
                ],
                dim=xr.Variable("value", list(setting.values)),
            )
            for activation in setting.slopes
        ]
        readings.append(xr.concat(activations, dim=xr.Variable("activation", list(setting.slopes))))
    kept = xr.concat(readings, dim=xr.Variable("reading", list(READINGS)))
    gradient = first_gradient(setting.width, setting.values[0], Data(data.x[:some], data.y[:some]))
    return kept.assign(first_gradient=gradient)


def _network(
    setting: Setting, data: Data, reading: str, activation: str, value: float, seed: int, place: Path
) -> xr.Dataset:
    widths, slope = (data.dim, setting.width, 10), setting.slopes[activation]
    file = f"{FILES[reading]}-{'leaky' if slope else 'relu'}-{value:g}.nc"
    options = {"step": setting.step, "batch": setting.batch, "epochs": setting.epochs}
    return ten_classes(data, reading, widths, slope, value, seed, place / file, **options)


def _to_figure(setting: Setting, runs: xr.Dataset, reading: str) -> xr.DataArray:
    """The stable ranks at the end with ReLU, as parts of those read off the figure."""
    known = [value for value in setting.values if value in setting.read_off]
    printed = np.array([setting.read_off[value] for value in known])
    return ends(runs, reading, "ReLU").mean("seed").sel(value=known) / printed


def _accuracy(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """The test accuracies at the end with ReLU, as parts of that in the figure."""
    last = runs.test_accuracy.sel(reading="as run", activation="ReLU").isel(epoch=-1)
    return last.mean("seed") / setting.accuracy


def _trace(runs: xr.Dataset) -> list[xr.DataArray]:
    """How far apart the five values end as printed, for each activation and draw."""
    last = [ends(runs, "as printed", activation) for activation in runs.activation.values]
    return [ranks.max("value") / ranks.min("value") for ranks in last]


def _steps(runs: xr.Dataset) -> xr.DataArray:
    """The steps from one value to the next larger one, at the end, with ReLU."""
    return ends(runs, "as run", "ReLU").mean("seed").diff("value")


def _smallest(runs: xr.Dataset, reading: str = "as run") -> xr.DataArray:
    """The stable rank over the epochs from the smallest initial weights."""
    return runs.stable_rank.sel(reading=reading).isel(value=0)


def draw_figure_6(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, yscale="log")


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What Fig. 6 and 7 show, in both readings."""
    return (*_on_the_figure(setting), *_on_more(), *_as_printed(setting))


def _on_the_figure(setting: Setting) -> tuple[Claim, ...]:
    """What the figure shows, in the reading of the program."""
    return (
        Claim(
            id="mnist-start",
            sentence="The stable rank starts at 222.",
            source="section 5, Fig. 6, read off",
            metric="stable rank of W₁ at the start / 222, as run",
            measure=lambda runs: _smallest(runs).sel(activation="ReLU").isel(epoch=0) / setting.start,
            expected=near(1.0, 0.05, f"{CURVE} near its top"),
            form="{:.3f}",
        ),
        Claim(
            id="mnist-ends",
            sentence="With ReLU the five runs end at stable ranks of 15, 20, 26, 68 and 110.",
            source="section 5, Fig. 6, read off",
            metric="stable rank of W₁ after ten epochs / that of the figure, mean of the draws, as run",
            measure=lambda runs: _to_figure(setting, runs, "as run"),
            expected=near(1.0, 0.1, "a tenth: two lines' widths at the lowest curve; our reading"),
            form="{:.3f}",
        ),
        Claim(
            id="mnist-smaller-starts-lower",
            sentence="The smaller the initial weights, the lower the stable rank after ten epochs.",
            source="section 5, Fig. 6",
            metric="step of the stable rank from one value to the next larger one, mean of the draws, as run",
            measure=_steps,
            expected=at_least(0.0, "the order of the curves as they are drawn"),
            form="{:.1f}",
        ),
        Claim(
            id="mnist-fast-fall",
            sentence="From small initial weights the stable rank falls fast, far below its start.",
            source="section 5, Fig. 6 and 7",
            metric="stable rank of W₁ after one epoch / at the start, value 1e-5, as run",
            measure=lambda runs: _smallest(runs).isel(epoch=1) / _smallest(runs).isel(epoch=0),
            expected=at_most(0.1, "markedly lower: an order of magnitude, our reading"),
            form="{:.3f}",
        ),
        Claim(
            id="mnist-accuracy",
            sentence="The test accuracy is about 98 % after ten epochs.",
            source="section 5, Fig. 6, read off",
            metric="test accuracy after ten epochs / 0.98, mean of the draws, ReLU, as run",
            measure=lambda runs: _accuracy(setting, runs),
            expected=near(1.0, 0.01, "one point: the accuracy is read to a point"),
            form="{:.4f}",
        ),
    )


def _on_more() -> tuple[Claim, ...]:
    """What else is seen in that reading."""
    return (
        Claim(
            id="mnist-leaky-same-ends",
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
            id="mnist-rises-again",
            sentence="From the smallest initial weights the stable rank rises again from the first epoch on.",
            source="rankfall",
            metric="stable rank after ten epochs / after the first, value 1e-5, as run",
            measure=lambda runs: _smallest(runs).isel(epoch=-1) / _smallest(runs).isel(epoch=1),
            expected=at_least(1.2, "a rise that an eye sees in the figure"),
            form="{:.2f}",
        ),
    )


def _as_printed(setting: Setting) -> tuple[Claim, ...]:
    """The reading of the text."""
    return (
        Claim(
            id="mnist-printed-ends",
            sentence="As printed, too, the five runs end where the figure does.",
            source="rankfall: Fig. 6 in the reading of the text",
            metric="stable rank of W₁ after ten epochs / that of the figure, mean of the draws, as printed",
            measure=lambda runs: _to_figure(setting, runs, "as printed"),
            expected=near(1.0, 0.1, "as for the other reading"),
            recorded="not reproduced",
            form="{:.3f}",
        ),
        Claim(
            id="mnist-printed-no-trace",
            sentence="As printed the initial scale leaves no trace: all five runs end at one stable rank.",
            source="rankfall",
            metric="largest / smallest stable rank after ten epochs over the values, as printed",
            measure=_trace,
            expected=at_most(1.05, "5 % is what an eye sees in a figure"),
            form="{:.3f}",
        ),
        no_gradient("mnist-no-first-gradient"),
    )


MNIST = Experiment(
    name="6-7",
    title="Stable rank on MNIST, ReLU and leaky ReLU, five initial scales",
    setting=Setting(),
    simulation=run_figure_6,
    picture=draw_figure_6,
    statements=claims,
    seeds=5,
    cost=400,
    needs="mnist",
    about=(
        "1000 hidden neurons, SGD with batches of 64 and step size 0.1 for 10 epochs, pixels centred and "
        f"scaled by mean 0.1307 and deviation 0.3081; the paper shows the mean of five runs. {TEN_CLASSES}"
    ),
)
