"""Sun and Tran, Fig. 6 and 7: the stable rank on MNIST, ReLU and leaky ReLU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, mnist
from rankfall.papers.lab import Claim, Experiment, Verdict, at_least, at_most, near, number_word, scientific
from rankfall.papers.sun.images import CURVE, Images, epochs_of, no_trace, run_images, smaller_lower
from rankfall.papers.sun.readings import (
    TEN_CLASSES,
    Curves,
    Reading,
    as_published,
    draw_readings,
    ends,
    first_gradient,
    no_gradient,
)

# Read off Fig. 6.
START = 222  # where the stable ranks start
ENDS = {1e-5: 15, 5e-5: 20, 1e-4: 26, 5e-4: 68, 1e-3: 110}  # where they end, for each value
ACCURACY = 0.98  # where all test accuracies end


def _data() -> Data:
    return mnist(0.1307, 0.3081)


@dataclass(frozen=True)
class Setting(Images, Curves):
    """Section 5, on MNIST: the same in the text and in the program."""

    width: int = 1000
    printed_width: int = 1000
    step: float = 0.1
    batch: int = 64
    epochs: int = 10
    gradient_samples: int = 1000  # ours: on so many the gradient at the start is taken
    load: Callable[[], Data] = _data

    @property
    def known(self) -> list[float]:
        """The values whose ends can be compared with the figure's: none, where the runs are others."""
        same = as_published(self, "width", "printed_width", "step", "batch", "epochs", "load")
        return [value for value in self.values if same and value in ENDS]


def run_figure_6(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy after every epoch, for each value and slope, in both readings."""
    data, some = setting.load(), setting.gradient_samples
    kept = run_images(setting, data, setting.values, setting.slopes, seed, place)
    gradient = first_gradient(setting, setting.values[0], Data(data.x[:some], data.y[:some]))
    return kept.assign(first_gradient=gradient)


def _to_figure(setting: Setting, runs: xr.Dataset, reading: Reading) -> xr.DataArray:
    """The stable ranks at the end with ReLU, as parts of those read off the figure."""
    printed = np.array([ENDS[value] for value in setting.known])
    return ends(runs, reading, "ReLU").mean("seed").sel(value=setting.known) / printed


def _accuracy(runs: xr.Dataset) -> xr.DataArray:
    """The test accuracies at the end with ReLU, as parts of that in the figure."""
    last = runs.test_accuracy.sel(reading=Reading.RUN, activation="ReLU").isel(epoch=-1)
    return last.mean("seed") / ACCURACY


def _smallest(runs: xr.Dataset) -> xr.DataArray:
    """The stable rank as run over the epochs from the smallest initial weights."""
    return runs.stable_rank.sel(reading=Reading.RUN).isel(value=0)


def draw_figure_6(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, yscale="log")


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What Fig. 6 and 7 show, in both readings."""
    return (
        *_on_the_start(setting),
        *_on_the_ends(setting),
        *_on_the_order(setting),
        *_on_more(setting),
        *_as_printed(setting),
    )


def _on_the_start(setting: Setting) -> Iterator[Claim]:
    """Where the curves of the figure start, in the reading of the program."""
    if as_published(setting, "width", "load"):
        yield Claim(
            id="mnist-start",
            sentence=f"The stable rank starts at {START}.",
            source="section 5, Fig. 6, read off",
            metric=f"stable rank of W₁ at the start / {START}, as run",
            measure=lambda runs: _smallest(runs).sel(activation="ReLU").isel(epoch=0) / START,
            expected=near(1.0, 0.05, f"{CURVE} near its top"),
            form="{:.3f}",
        )


def _on_the_ends(setting: Setting) -> Iterator[Claim]:
    """Where they end."""
    if not setting.known:
        return
    *others, last = [ENDS[value] for value in setting.known]
    at = f"stable ranks of {', '.join(map(str, others))} and {last}" if others else f"a stable rank of {last}"
    yield Claim(
        id="mnist-ends",
        sentence=f"With ReLU the {number_word(len(setting.known))} runs end at {at}.",
        source="section 5, Fig. 6, read off",
        metric=(
            f"stable rank of W₁ after {epochs_of(setting)} / that of the figure, mean of the draws, as run"
        ),
        measure=lambda runs: _to_figure(setting, runs, Reading.RUN),
        expected=near(1.0, 0.1, "a tenth: two lines' widths at the lowest curve; our reading"),
        form="{:.3f}",
    )


def _on_the_order(setting: Setting) -> Iterator[Claim]:
    """What else the figure shows, in the same reading."""
    if len(setting.values) > 1:
        yield smaller_lower(
            "mnist-smaller-starts-lower",
            setting,
            "section 5, Fig. 6",
            "the order of the curves as they are drawn",
        )
    yield Claim(
        id="mnist-fast-fall",
        sentence="From small initial weights the stable rank falls fast, far below its start.",
        source="section 5, Fig. 6 and 7",
        metric=(
            f"stable rank of W₁ after one epoch / at the start, value {scientific(setting.values[0])}, as run"
        ),
        measure=lambda runs: _smallest(runs).isel(epoch=1) / _smallest(runs).isel(epoch=0),
        expected=at_most(0.1, "markedly lower: an order of magnitude, our reading"),
        form="{:.3f}",
    )
    if setting.known:
        yield Claim(
            id="mnist-accuracy",
            sentence=f"The test accuracy is about {100 * ACCURACY:.0f} % after {epochs_of(setting)}.",
            source="section 5, Fig. 6, read off",
            metric=(
                f"test accuracy after {epochs_of(setting)} / {ACCURACY:g}, mean of the draws, ReLU, as run"
            ),
            measure=_accuracy,
            expected=near(1.0, 0.01, "one point: the accuracy is read to a point"),
            form="{:.4f}",
        )


def _on_more(setting: Setting) -> Iterator[Claim]:
    """What the figures do not say of that reading."""
    yield Claim(
        id="mnist-leaky-same-ends",
        sentence="Leaky ReLU ends where ReLU does, at every initial scale.",
        source="rankfall",
        metric=(
            f"stable rank after {epochs_of(setting)} with leaky ReLU / with ReLU, mean of the draws, as run"
        ),
        measure=lambda runs: (
            ends(runs, Reading.RUN, "leaky ReLU").mean("seed") / ends(runs, Reading.RUN, "ReLU").mean("seed")
        ),
        expected=near(1.0, 0.05, "5 % is what an eye sees between two figures"),
        form="{:.3f}",
    )
    if setting.epochs > 1:
        yield Claim(
            id="mnist-rises-again",
            sentence="From the smallest initial weights the stable rank rises again from the first epoch on.",
            source="rankfall",
            metric=(
                f"stable rank after {epochs_of(setting)} / after the first, "
                f"value {scientific(setting.values[0])}, as run"
            ),
            measure=lambda runs: _smallest(runs).isel(epoch=-1) / _smallest(runs).isel(epoch=1),
            expected=at_least(1.2, "a rise that an eye sees in the figure"),
            form="{:.2f}",
        )


def _as_printed(setting: Setting) -> Iterator[Claim]:
    """The reading of the text."""
    count = number_word(len(setting.values))
    if setting.known:
        yield Claim(
            id="mnist-printed-ends",
            sentence=(
                f"As printed, too, the {number_word(len(setting.known))} runs end where the figure does."
            ),
            source="rankfall: Fig. 6 in the reading of the text",
            metric=(
                f"stable rank of W₁ after {epochs_of(setting)} / that of the figure, mean of the draws, "
                "as printed"
            ),
            measure=lambda runs: _to_figure(setting, runs, Reading.PRINTED),
            expected=near(1.0, 0.1, "as for the other reading"),
            recorded=Verdict.NOT_REPRODUCED,
            form="{:.3f}",
        )
    if len(setting.values) > 1:
        yield no_trace(
            "mnist-printed-no-trace",
            setting,
            f"As printed the initial scale leaves no trace: all {count} runs end at one stable rank.",
        )
    yield no_gradient("mnist-no-first-gradient")


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
