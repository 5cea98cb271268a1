"""Sun and Tran, Fig. 1: the stable rank on synthetic data for five initial scales, in both readings."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, gaussian_mixture, p_orthogonality
from rankfall.dynamics import descent, every
from rankfall.network import Network
from rankfall.papers.claim import Claim, at_least, at_most, between
from rankfall.papers.experiment import Experiment, finished

VALUES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)
READ_OFF = (1.82, 1.84, 1.86, 2.26, 3.06)  # the stable ranks at epoch 5000, read off the printed figure
SMALL = 3  # "small weight variances": the three smallest values
N, DIM, WIDTH, STEP, EPOCHS = 10, 784, 100, 1e-4, 5000
READINGS = {"standard deviation": 1.0, "variance": 0.5}  # of what the values are: the power that gives sigma


def run_figure_1(seed: int) -> xr.Dataset:
    """Stable rank and loss of five networks at every tenth epoch, in both readings of the values."""
    data = _data(seed)
    runs = [_networks(data, power, seed) for power in READINGS.values()]
    kept = xr.concat(runs, dim=xr.Variable("reading", list(READINGS)))
    return kept.assign(p=p_orthogonality(data, bias=True))


def _data(seed: int) -> Data:
    return gaussian_mixture(n=N, dim=DIM, mean_scale=0.01, noise=1.0, seed=seed)


def _networks(data: Data, power: float, seed: int) -> xr.Dataset:
    networks = [
        Network.fixed_second_layer((DIM, WIDTH, 1), 0.0, value**power, seed, bias=True) for value in VALUES
    ]
    run = descent(
        networks,
        data,
        "logistic",
        STEP,
        EPOCHS,
        measures=["stable_rank", "loss"],
        record=every(10),
        along={"value": VALUES},
    )
    return finished(run).dataset[["stable_rank", "loss"]]


def _ends(runs: xr.Dataset, reading: str = "standard deviation") -> xr.DataArray:
    """The stable ranks at the last epoch: a row for each seed, a column for each value."""
    return runs.stable_rank.sel(reading=reading).isel(step=-1).transpose("seed", "value")


def _above_threshold(runs: xr.Dataset) -> xr.DataArray:
    losses = runs.loss.sel(reading="standard deviation").isel(step=-1)
    return (losses > np.log(2) / N).mean()


def _fall(runs: xr.Dataset) -> xr.DataArray:
    return _ends(runs) / runs.stable_rank.sel(reading="standard deviation").isel(step=0)


def _place(runs: xr.Dataset, reading: str) -> np.ndarray:
    """Where the printed number lies in the range over the seeds: 0 at its low end, 1 at its high end."""
    low, high = _ends(runs, reading).min("seed").values, _ends(runs, reading).max("seed").values
    with np.errstate(divide="ignore", invalid="ignore"):  # a range of no length holds nothing
        return np.asarray((np.array(READ_OFF) - low) / (high - low))


def draw_figure_1(runs: xr.Dataset) -> Figure:
    """A row for each reading: the whole run, and its last fifth; the first seed strong, the others pale."""
    with plot.style():
        figure, axes = plot.panels(2, 2)
        for row, reading in zip(axes, READINGS, strict=True):
            for ax, last in zip(row, (EPOCHS, EPOCHS // 5), strict=True):
                late = runs.stable_rank.sel(reading=reading, step=slice(EPOCHS - last, None))
                for value, colour in zip(VALUES, plot.colours(len(VALUES)), strict=True):
                    lines = late.sel(value=value).transpose("step", "seed")
                    ax.plot(late.step, lines[:, 1:], color=colour, alpha=0.25, linewidth=0.6)
                    ax.plot(late.step, lines[:, 0], color=colour, label=f"{value:g}")
                ax.set(xlabel="epoch", ylabel=r"stable rank of $W_1$")
            row[0].set_title(f"values read as {reading}")
            row[1].set_title("the last fifth")
            row[0].set_yscale("log")
            row[0].set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
            row[0].minorticks_off()
            row[1].axhline(2, color="grey", linewidth=0.8, linestyle="--")
        axes[0, 0].legend(title="value", ncols=2)
    return figure


FIGURE_1 = Experiment(
    name="1",
    title="Stable rank of two-layer ReLU networks on synthetic data, five initial scales",
    run=run_figure_1,
    draw=draw_figure_1,
    seeds=20,
    cost=0.8,
    about=(
        "10 samples of a Gaussian mixture in 784 dimensions, 100 ReLU neurons with biases, second layer "
        "fixed at ±1/√100, mean logistic loss, 5000 steps of size 1e-4. The text calls the five values "
        "standard deviations, the caption variances: both readings are run. The paper shows one draw of "
        "data and weights."
    ),
    claims=(
        Claim(
            sentence="The stable rank falls to a small value.",
            source="section 5, Fig. 1",
            metric="stable rank of W₁ at the end / at the start",
            measure=_fall,
            expected=at_most(0.1, "falls by an order of magnitude, our reading of the figure"),
        ),
        Claim(
            sentence="The smaller the initial weights, the lower the stable rank.",
            source="Fig. 1",
            metric="smallest step of the stable rank from one value to the next larger one",
            measure=lambda runs: _ends(runs).diff("value").min("value"),
            expected=at_least(0.0, "the order of the curves, in every draw"),
        ),
        Claim(
            sentence="With small initial weights the stable ranks stay below 2.",
            source="section 5",
            metric="largest stable rank at the end among the three smallest values",
            measure=lambda runs: _ends(runs)[:, :SMALL].max("value"),
            expected=at_most(2.0, "the number in the text"),
            recorded="not reproduced",
            form="{:.2f}",
            note="It depends on the draw of labels and data: the paper shows one.",
        ),
        Claim(
            sentence="The five values are standard deviations: so read, the runs end where the figure does.",
            source="section 5, Fig. 1 as drawn",
            metric="place of the printed stable rank in the range over the seeds (0 to 1), for each value",
            measure=lambda runs: _place(runs, "standard deviation"),
            expected=between(-0.1, 1.1, "the range of the draws, a tenth wider: a curve is read off to that"),
            form="{:.2f}",
        ),
        Claim(
            sentence="The five values are variances: so read, the runs end where the figure does.",
            source="rankfall: the other reading, after the word in the caption of Fig. 1",
            metric="place of the printed stable rank in the range over the seeds (0 to 1), for each value",
            measure=lambda runs: _place(runs, "variance"),
            expected=between(-0.1, 1.1, "the range of the draws, a tenth wider: a curve is read off to that"),
            recorded="not reproduced",
            form="{:.2f}",
            note="As variances the two largest leave the stable rank where it started: what the caption "
            "calls variances are standard deviations, as the text says.",
        ),
        Claim(
            sentence="Most runs of Fig. 1 stop before the loss from which Theorem 4.1 speaks.",
            source="rankfall",
            metric="share of the runs, over seeds and values, whose mean loss at the end is above log 2 / n",
            measure=_above_threshold,
            expected=at_least(0.5, "most"),
            form="{:.2f}",
            note="The figure shows a transient: nothing in it is yet the limit.",
        ),
        Claim(
            sentence="The data of Fig. 1 are less orthogonal than any known theorem of this kind asks for.",
            source="rankfall",
            metric="p(X) = min |x|⁴ / (max |x|² n max |⟨xᵢ, xⱼ⟩|), the bias counted as a feature",
            measure=lambda runs: runs.p,
            expected=at_most(3.0, "Theorem 3.2 of Frei et al. asks for 3 at slope 1, and for more below"),
            form="{:.2f}",
        ),
    ),
)
