"""Sun and Tran on real data: the networks as the text has them and as the authors' program made them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import softmax

from rankfall import plot
from rankfall.data import Data
from rankfall.network import Network
from rankfall.papers.lab import Claim, at_most, number_word, scientific
from rankfall.trajectory import Trajectory

VALUES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)  # section 5, of all figures
SMALL = 1e-4  # initial scales up to this one are small: of the five, three
MEASURES = ("stable_rank", "test_accuracy")


class Reading(StrEnum):
    """Which of the two the networks are: the authors' program, or the text."""

    RUN = "as run"
    PRINTED = "as printed"


_ABOUT = (
    "As run, by the authors' public program (Edward-Jing/STA-250): the five values are variances, the second "
    "layer starts at 1/m everywhere and is trained, both layers have biases, and the loss is the "
    "cross-entropy with an output for each class, in float32. As printed: the values are standard "
    "deviations, the second layer is the ±1/√m of section 3, fixed, the biases are those of the hidden "
    "neurons, trained, and {}. Not in the text, and so ours or the program's: float32, that biases are "
    "trained, how the inputs are scaled, the loss where the text allows several; and the five values scale "
    "one draw of the first layer, where the program draws anew for each."
)
TWO_CLASSES = _ABOUT.format("there is one output with the logistic loss, half of the signs positive")
TEN_CLASSES = _ABOUT.format(
    "each of the ten outputs has signs of its own, drawn at random, with the cross-entropy here too"
)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What every experiment on real data sets."""

    width: int  # as run: the program's
    printed_width: int  # as printed: the text's
    step: float
    epochs: int
    load: Callable[[], Data]
    first_seed: int = 42  # the authors'; the further draws take the numbers after it

    def width_of(self, reading: Reading) -> int:
        """The number of hidden neurons in a reading."""
        return self.width if reading is Reading.RUN else self.printed_width

    @property
    def titles(self) -> list[str]:
        """Each reading with its width."""
        return [f"{reading}, m = {self.width_of(reading)}" for reading in Reading]


@dataclass(frozen=True)
class Scales:
    """A curve for each initial scale."""

    values: tuple[float, ...] = VALUES  # the initial scales, in rising order

    @property
    def small(self) -> tuple[float, ...]:
        """Those of the initial scales that are small."""
        return tuple(value for value in self.values if value <= SMALL)


@dataclass(frozen=True)
class Curves(Scales):
    """A curve for each initial scale with ReLU, and one with leaky ReLU."""

    slope: float = 0.01  # of the leaky ReLU; the authors' program

    @property
    def slopes(self) -> dict[str, float]:
        """The slopes of the two activations."""
        return {"ReLU": 0.0, "leaky ReLU": self.slope}


def as_published(setting: Any, *names: str) -> bool:
    """Are these fields those of the paper? Else its figures say nothing to compare with."""
    usual = type(setting)()
    return all(getattr(setting, name) == getattr(usual, name) for name in names)


def smallest(setting: Scales, called: str = "initial scale") -> str:
    """The small initial scales in a sentence: "three smallest initial scales"."""
    count = len(setting.small)
    return f"smallest {called}" if count == 1 else f"{number_word(count)} smallest {called}s"


def listed(values: Sequence[float]) -> str:
    """Initial scales as text: "values 1e-5 and 5e-5"."""
    *others, last = map(scientific, values)
    return f"values {', '.join(others)} and {last}" if others else f"value {last}"


def as_run(widths: Sequence[int], slope: float, value: float, seed: int) -> Network:
    """The network of the authors' program: the value is a variance, the second layer 1/m, all trained."""
    return Network.constant_second_layer(widths, slope, value, seed).astype(np.float32)


def as_printed(widths: Sequence[int], slope: float, value: float, seed: int) -> Network:
    """The network of the text: the value is a standard deviation, the second layer ±1/√m and fixed.

    The text has one output. For ten classes each output takes signs of its own, drawn at random.
    """
    dim, width, outputs = widths
    if outputs == 1:
        network = Network.fixed_second_layer(widths, slope, value, seed, bias=True)
        return network.astype(np.float32)
    rng = np.random.default_rng(seed)
    first = rng.normal(0.0, value, (width, dim))
    second = rng.choice([-1.0, 1.0], (outputs, width)) / np.sqrt(width)
    network = Network(
        [first, second],
        [np.zeros(width), None],
        slope,
        trained=(True, False),
        origin=f"as printed by Sun and Tran, sigma={value:g}, seed={seed}",
    )
    return network.astype(np.float32)


def in_float32(data: Data) -> Data:
    """The data as PyTorch has them by default."""
    test = None if data.test is None else Data(data.test.x.astype(np.float32), data.test.y, data.test.name)
    return Data(data.x.astype(np.float32), data.y, data.name, test)


def by_epoch(run: Trajectory, steps: int = 1) -> xr.Dataset:
    """Stable rank of the first layer and test accuracy over the epochs, of so many `steps` each."""
    ranks, accuracy = (run.dataset[name] for name in MEASURES)
    ranks = ranks.isel(matrix=0) if "matrix" in ranks.dims else ranks
    dims = ["epoch", *ranks.dims[1:]]
    arrays = {
        name: (dims, v.values.astype(np.float32)) for name, v in zip(MEASURES, (ranks, accuracy), strict=True)
    }
    return xr.Dataset(arrays, coords={"epoch": run.dataset.step.values // steps})


def first_gradient(setting: Training, value: float, data: Data) -> float:
    """The gradient of the first layer as run at the start, as a part of that of the second, in float64."""
    outputs = int(data.y.max()) + 1
    widths = (data.dim, setting.width, outputs)
    network = Network.constant_second_layer(widths, 0.0, value, setting.first_seed)
    x = np.column_stack([data.x.astype(np.float64), np.ones(data.n)])  # the bias is one more feature
    before = x[:, :-1] @ network.weights[0].T
    hidden = np.column_stack([np.maximum(before, 0.0), np.ones(data.n)])
    residuals = softmax(hidden[:, :-1] @ network.weights[1].T, axis=1) - np.eye(outputs)[data.y.astype(int)]
    first = ((residuals @ network.weights[1]) * (before > 0)).T @ x
    return float(np.linalg.norm(first) / np.linalg.norm(residuals.T @ hidden))


def ends(runs: xr.Dataset, reading: Reading, activation: str, epoch: int | None = None) -> xr.DataArray:
    """The stable ranks at an epoch (the last one): a row for each seed, a column for each value."""
    kept = runs.stable_rank.sel(reading=reading, activation=activation)
    kept = kept.isel(epoch=-1) if epoch is None else kept.sel(epoch=epoch, method="nearest")
    return kept.transpose("seed", "value")


def duration(runs: xr.Dataset) -> xr.DataArray:
    """The part of the run in which the stable rank goes from a tenth to nine tenths of its whole fall."""
    ranks = runs.stable_rank.sel(reading=Reading.RUN)
    first, last = ranks.isel(epoch=0), ranks.isel(epoch=-1)
    done = (first - ranks) / (first - last)
    begun, ended = ((done >= part).argmax("epoch") for part in (0.1, 0.9))
    return ((ended - begun) / (ranks.sizes["epoch"] - 1)).where(np.isfinite(done.isel(epoch=-1)))


FAST = at_most(0.1, "fast: a tenth of the run, our reading")


def rise_between(curve: np.ndarray) -> float:
    """How high a curve rises between two falls: the least of the fall before, the rise, and the fall after.

    It is taken at the point where this least is largest, and 0 where there is no such rise.
    """
    least = np.minimum.accumulate(curve)
    lowest = np.maximum.accumulate(np.where(curve == least, np.arange(len(curve)), 0))  # where that was
    before = np.maximum.accumulate(curve)[lowest] - least
    after = curve - np.minimum.accumulate(curve[::-1])[::-1]
    return float(np.minimum(np.minimum(before, curve - least), after).max())


def draw_readings(
    runs: xr.Dataset, titles: Sequence[str] = tuple(Reading), xscale: str = "linear", yscale: str = "linear"
) -> Figure:
    """A row for each reading: the stable rank for each activation, and the test accuracy of all."""
    activations = list(runs.activation.values)
    with plot.style():
        figure, axes = plot.panels(len(activations) + 1, len(Reading))
        for row, reading, title in zip(axes, Reading, titles, strict=True):
            for ax, activation in zip(row, activations, strict=False):
                chosen = runs.sel(reading=reading, activation=activation)
                curves(ax, chosen.stable_rank)
                tested = chosen.test_accuracy.isel(epoch=slice(1, None))  # at the start all outputs are equal
                curves(row[-1], tested, dashed=activation != "ReLU", band=False)
                ax.set(ylabel=r"stable rank of $W_1$", title=f"{title}, {activation}", yscale=yscale)
                _height(ax, runs.stable_rank)
            row[-1].set(ylabel="test accuracy", title="leaky ReLU dashed" if len(activations) > 1 else "")
            for ax in row:
                ax.set(xlabel="epoch", xscale=xscale)
                if xscale == "symlog":
                    ax.set_xlim(left=0)
                    ax.set_xticks([0, 1, 10, 100], labels=["0", "1", "10", "100"])
        legend(figure, axes[0, 0])
    return figure


def _height(ax: Axes, ranks: xr.DataArray) -> None:
    """The same height for all panels of a figure, and numbers that can be read where it is logarithmic."""
    if ax.get_yscale() == "linear":
        ax.set_ylim(0, 1.05 * float(ranks.max()))
        return
    low, high = float(ranks.min()) / 1.2, 1.2 * float(ranks.max())
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= tick <= high]
    ax.set_ylim(low, high)
    ax.set_yticks(ticks, labels=[str(tick) for tick in ticks])
    ax.minorticks_off()


def curves(ax: Axes, values: xr.DataArray, dashed: bool = False, band: bool = True) -> None:
    """A line for each value: the mean over the draws, within the band of all of them."""
    for value, colour in zip(values.value.values, plot.colours(values.sizes["value"]), strict=True):
        lines = values.sel(value=value)
        style = {"color": colour, "linestyle": "--" if dashed else "-", "linewidth": 1.1}
        ax.plot(values.epoch, lines.mean("seed"), label=f"{value:g}", **style)
        if band and values.sizes["seed"] > 1:
            low, high = lines.min("seed"), lines.max("seed")
            ax.fill_between(values.epoch, low, high, color=colour, alpha=0.2, linewidth=0)


def legend(figure: Figure, ax: Axes) -> None:
    """The values, below all panels, where they cover nothing."""
    lines, labels = ax.get_legend_handles_labels()
    figure.legend(lines, labels, title="value", loc="outside lower center", ncols=len(lines))


def no_gradient(name: str) -> Claim:
    """That the first step does not move the first layer: the claim of this name."""
    return Claim(
        id=name,
        sentence="As run the first layer does not move in the first step: its gradient is zero.",
        source="rankfall",
        metric="norm of the gradient in W₁ and its bias / that in W₂ and its bias, at the start, in float64",
        measure=lambda runs: runs.first_gradient,
        expected=at_most(1e-12, "zero but for rounding in double precision"),
        form="{:.0e}",
        note="A theorem: all outputs are equal, and the residuals of the cross-entropy of a sample add up to "
        "zero. It holds for every start of the first layer; what moves first is the second layer.",
    )
