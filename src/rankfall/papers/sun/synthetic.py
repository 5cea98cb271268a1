"""Sun and Tran, Fig. 1: the stable rank on synthetic data for five initial scales, in both readings."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, gaussian_mixture, p_orthogonality
from rankfall.dynamics import descent, every
from rankfall.network import Network
from rankfall.papers.lab import (
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    between,
    finished,
    guide,
    number_word,
    seed_lines,
)
from rankfall.papers.sun.readings import Scales, as_published, listed

# The stable ranks at epoch 5000 for each value, read off the printed figure.
READ_OFF = {1e-5: 1.82, 5e-5: 1.84, 1e-4: 1.86, 5e-4: 2.26, 1e-3: 3.06}
READINGS = {"standard deviation": 1.0, "variance": 0.5}  # of what the values are: the power that gives sigma


@dataclass(frozen=True)
class Setting(Scales):
    """The numbers of section 5 for the synthetic data."""

    n: int = 10
    dim: int = 784
    mean_scale: float = 0.01  # the standard deviation of the entries of the classes' mean
    noise: float = 1.0  # that of the samples around it
    width: int = 100
    slope: float = 0.0  # ReLU
    step: float = 1e-4
    epochs: int = 5000
    every: int = 10  # ours: so many epochs from one record to the next

    @property
    def known(self) -> list[float]:
        """The values whose ends can be compared with the figure's: none, where the runs are others."""
        same = as_published(self, "n", "dim", "mean_scale", "noise", "width", "slope", "step", "epochs")
        return [value for value in self.values if same and value in READ_OFF]


def run_figure_1(setting: Setting, seed: int) -> xr.Dataset:
    """Stable rank and loss of a network for each value on the way, in both readings of the values."""
    data = _data(setting, seed)
    runs = [_networks(setting, data, power, seed) for power in READINGS.values()]
    kept = xr.concat(runs, dim=xr.Variable("reading", list(READINGS)))
    return kept.assign(p=p_orthogonality(data, bias=True))


def _data(setting: Setting, seed: int) -> Data:
    return gaussian_mixture(
        n=setting.n, dim=setting.dim, mean_scale=setting.mean_scale, noise=setting.noise, seed=seed
    )


def _networks(setting: Setting, data: Data, power: float, seed: int) -> xr.Dataset:
    widths = (setting.dim, setting.width, 1)
    networks = [
        Network.fixed_second_layer(widths, setting.slope, value**power, seed, bias=True)
        for value in setting.values
    ]
    run = descent(
        networks,
        data,
        "logistic",
        setting.step,
        setting.epochs,
        measures=["stable_rank", "loss"],
        record=every(setting.every),
        along={"value": setting.values},
    )
    return finished(run).dataset[["stable_rank", "loss"]]


def _ends(runs: xr.Dataset, reading: str = "standard deviation") -> xr.DataArray:
    """The stable ranks at the last epoch: a row for each seed, a column for each value."""
    return runs.stable_rank.sel(reading=reading).isel(step=-1).transpose("seed", "value")


def _above_threshold(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    losses = runs.loss.sel(reading="standard deviation").isel(step=-1)
    return (losses > np.log(2) / setting.n).mean()


def _fall(runs: xr.Dataset) -> xr.DataArray:
    return _ends(runs) / runs.stable_rank.sel(reading="standard deviation").isel(step=0)


def _place(setting: Setting, runs: xr.Dataset, reading: str) -> np.ndarray:
    """Where the printed number lies in the range over the seeds: 0 at its low end, 1 at its high end."""
    ends = _ends(runs, reading).sel(value=setting.known)
    low, high = ends.min("seed").values, ends.max("seed").values
    with np.errstate(divide="ignore", invalid="ignore"):  # a range of no length holds nothing
        return np.asarray((np.array([READ_OFF[value] for value in setting.known]) - low) / (high - low))


def draw_figure_1(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: the whole run, and its last fifth; the first seed strong, the others pale."""
    epochs, values = setting.epochs, setting.values
    with plot.style():
        figure, axes = plot.panels(2, 2)
        for row, reading in zip(axes, READINGS, strict=True):
            for ax, last in zip(row, (epochs, epochs // 5), strict=True):
                late = runs.stable_rank.sel(reading=reading, step=slice(epochs - last, None))
                for value, colour in zip(values, plot.colours(len(values)), strict=True):
                    lines = late.sel(value=value).transpose("step", "seed")
                    seed_lines(ax, late.step, lines[:, 1:], colour)
                    ax.plot(late.step, lines[:, 0], color=colour, label=f"{value:g}")
                ax.set(xlabel="epoch", ylabel=r"stable rank of $W_1$")
            row[0].set_title(f"values read as {reading}")
            row[1].set_title("the last fifth")
            row[0].set_yscale("log")
            row[0].set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
            row[0].minorticks_off()
            guide(row[1], y=2)
        axes[0, 0].legend(title="value", ncols=2)
    return figure


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What section 5 says about Fig. 1, in both readings, and what the figure shows."""
    return (*_on_ranks(setting), *_on_readings(setting), *_on_hypotheses(setting))


def _on_ranks(setting: Setting) -> Iterator[Claim]:
    """What the text says of the stable ranks."""
    yield Claim(
        id="stable-rank-falls",
        sentence="The stable rank falls to a small value.",
        source="section 5, Fig. 1",
        metric="stable rank of W₁ at the end / at the start",
        measure=_fall,
        expected=at_most(0.1, "falls by an order of magnitude, our reading of the figure"),
    )
    if len(setting.values) > 1:
        yield Claim(
            id="smaller-starts-lower",
            sentence="The smaller the initial weights, the lower the stable rank.",
            source="Fig. 1",
            metric="smallest step of the stable rank from one value to the next larger one",
            measure=lambda runs: _ends(runs).diff("value").min("value"),
            expected=at_least(0.0, "the order of the curves, in every draw"),
        )
    if setting.small:
        yield Claim(
            id="small-starts-below-two",
            sentence="With small initial weights the stable ranks stay below 2.",
            source="section 5",
            metric=f"largest stable rank at the end, {listed(setting.small)}",
            measure=lambda runs: _ends(runs).sel(value=list(setting.small)).max("value"),
            expected=at_most(2.0, "the number in the text"),
            recorded=Verdict.NOT_REPRODUCED,
            form="{:.2f}",
            note="It depends on the draw of labels and data: the paper shows one.",
        )


def _on_readings(setting: Setting) -> tuple[Claim, ...]:
    """Whether the values are deviations or variances, as far as there are printed numbers."""
    if not setting.known:
        return ()
    range_of_draws = between(-0.1, 1.1, "the range of the draws, a tenth wider: a curve is read off to that")
    count = number_word(len(setting.known))
    metric = "place of the printed stable rank in the range over the seeds (0 to 1), for each value"
    return (
        Claim(
            id="values-are-deviations",
            sentence=(
                f"The {count} values are standard deviations: so read, the runs end where the figure does."
            ),
            source="section 5, Fig. 1 as drawn",
            metric=metric,
            measure=lambda runs: _place(setting, runs, "standard deviation"),
            expected=range_of_draws,
            form="{:.2f}",
        ),
        Claim(
            id="values-are-variances",
            sentence=f"The {count} values are variances: so read, the runs end where the figure does.",
            source="rankfall: the other reading, after the word in the caption of Fig. 1",
            metric=metric,
            measure=lambda runs: _place(setting, runs, "variance"),
            expected=range_of_draws,
            recorded=Verdict.NOT_REPRODUCED,
            form="{:.2f}",
            note="As variances the two largest leave the stable rank where it started: what the caption "
            "calls variances are standard deviations, as the text says.",
        ),
    )


def _on_hypotheses(setting: Setting) -> tuple[Claim, ...]:
    """How far Fig. 1 is from the theorems."""
    return (
        Claim(
            id="stops-before-threshold",
            sentence="Most runs stop before the loss from which Theorem 4.1 speaks.",
            source="rankfall",
            metric="share of the runs, over seeds and values, whose mean loss at the end is above log 2 / n",
            measure=lambda runs: _above_threshold(setting, runs),
            expected=at_least(0.5, "most"),
            form="{:.2f}",
            note="The figure shows a transient: nothing in it is yet the limit.",
        ),
        Claim(
            id="too-little-orthogonal",
            sentence="The data are less orthogonal than any known theorem of this kind asks for.",
            source="rankfall",
            metric="p(X) = min |x|⁴ / (max |x|² n max |⟨xᵢ, xⱼ⟩|), the bias counted as a feature",
            measure=lambda runs: runs.p,
            expected=at_most(3.0, "Theorem 3.2 of Frei et al. asks for 3 at slope 1, and for more below"),
            form="{:.2f}",
        ),
    )


FIGURE_1 = Experiment(
    name="1",
    title="Stable rank of two-layer ReLU networks on synthetic data, five initial scales",
    setting=Setting(),
    simulation=run_figure_1,
    picture=draw_figure_1,
    statements=claims,
    seeds=20,
    cost=0.8,
    about=(
        "10 samples of a Gaussian mixture in 784 dimensions, 100 ReLU neurons with biases, second layer "
        "fixed at ±1/√100, mean logistic loss, 5000 steps of size 1e-4. The text calls the five values "
        "standard deviations, the caption variances: both readings are run. The paper shows one draw of "
        "data and weights."
    ),
)
