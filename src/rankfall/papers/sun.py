"""Sun and Tran: Implicit bias of gradient flow for two-layer ReLU networks trained on nearly-orthogonal data.

Department of Statistics, University of California, Davis.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, gaussian_mixture, p_orthogonality
from rankfall.dynamics import descent, every
from rankfall.network import Network
from rankfall.papers.claim import Claim, Experiment, Reproduction, Verdict, finished
from rankfall.trajectory import Trajectory

VALUES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)
READ_OFF = (1.82, 1.84, 1.86, 2.26, 3.06)  # the stable ranks at epoch 5000, read off the printed figure
SMALL = 3  # "small weight variances": the three smallest values
N, DIM, WIDTH, STEP, EPOCHS = 10, 784, 100, 1e-4, 5000


@dataclass(frozen=True)
class Reading:
    """What the five values mean: standard deviations (the text) or variances (the captions)."""

    name: str
    power: float

    def sigma(self, value: float) -> float:
        """The standard deviation of the initial weights."""
        return float(value**self.power)


PRINTED = Reading("standard deviation", 1.0)
CAPTION = Reading("variance", 0.5)


def figure_1(full: bool) -> Reproduction:
    r"""Fig. 1: the stable rank of the first layer for five initial scales, in both readings of the scale.

    10 samples of a Gaussian mixture in 784 dimensions, 100 ReLU neurons with biases, second layer fixed at
    $\pm 1/\sqrt{100}$, 5000 steps of size 1e-4. The paper shows one run; here are several draws of data and
    weights.
    """
    seeds = range(20 if full else 5)
    runs = {reading: [_run(reading, seed) for seed in seeds] for reading in (PRINTED, CAPTION)}
    printed, caption = (_at(-1, runs[reading]) for reading in (PRINTED, CAPTION))
    data = [_data(seed) for seed in seeds]
    claims = [
        _falls(_at(0, runs[PRINTED]), printed),
        _ordered(printed),
        _below_two(printed),
        _like_the_figure(printed, PRINTED),
        _like_the_figure(caption, CAPTION),
        _threshold(runs[PRINTED]),
        _hypothesis(data),
    ]
    return Reproduction(claims, {"sun_figure_1": _figure(runs)})


def _data(seed: int) -> Data:
    return gaussian_mixture(n=N, dim=DIM, mean_scale=0.01, noise=1.0, seed=seed)


def _run(reading: Reading, seed: int) -> Trajectory:
    """The five networks of the figure at once, the stable rank at every epoch."""
    networks = [
        Network.fixed_second_layer((DIM, WIDTH, 1), 0.0, reading.sigma(value), seed, bias=True)
        for value in VALUES
    ]
    run = descent(
        networks,
        _data(seed),
        "logistic",
        STEP,
        EPOCHS,
        measures=["stable_rank", "loss"],
        record=every(1),
        along={"value": VALUES},
    )
    return finished(run)


def _at(record: int, runs: list[Trajectory]) -> np.ndarray:
    """The stable ranks at a record: a row for each seed, a column for each value."""
    return np.array([run.stable_rank[record].values for run in runs])


def _falls(starts: np.ndarray, ends: np.ndarray) -> Claim:
    return Claim(
        "The stable rank falls to a small value (section 5).",
        "to below a tenth of its start, for every value and seed",
        f"from {starts.min():.1f}-{starts.max():.1f} to {ends.min():.2f}-{ends.max():.2f}",
        "holds" if (ends < starts / 10).all() else "fails",
    )


def _ordered(ends: np.ndarray) -> Claim:
    ordered = int((np.diff(ends, axis=1) > 0).all(axis=1).sum())
    return Claim(
        "The smaller the initial weights, the lower the stable rank (Fig. 1).",
        f"in order for {len(ends)} of {len(ends)} seeds",
        f"{ordered} of {len(ends)}",
        "holds" if ordered == len(ends) else "fails",
    )


def _below_two(ends: np.ndarray) -> Claim:
    small = ends[:, :SMALL]
    stay = int((small.max(axis=1) < 2).sum())
    verdict: Verdict = "holds" if stay == len(ends) else "fails"
    return Claim(
        "With small initial weights the stable ranks stay below 2 (section 5).",
        f"values up to {VALUES[SMALL - 1]:g}: below 2 for {len(ends)} of {len(ends)} seeds",
        f"{stay} of {len(ends)} seeds; {small.min():.2f} to {small.max():.2f}",
        verdict,
        "It depends on the draw of the labels and the data: the paper shows one.",
    )


def _like_the_figure(ends: np.ndarray, reading: Reading) -> Claim:
    low, high = ends.min(axis=0), ends.max(axis=0)
    inside = (0.9 * low < np.array(READ_OFF)) & (np.array(READ_OFF) < 1.1 * high)
    shown = ", ".join(f"{a:.2f}-{b:.2f}" for a, b in zip(low, high, strict=True))
    return Claim(
        f"Fig. 1 as drawn, the five values read as the {reading.name} of the initial weights.",
        "end at " + ", ".join(f"{value:.2f}" for value in READ_OFF),
        shown,
        "holds" if inside.all() else "fails",
        "The range over the seeds, widened by a tenth. The text says standard deviation, the caption "
        "variance.",
    )


def _threshold(runs: list[Trajectory]) -> Claim:
    bound = np.log(2) / N
    losses = np.array([run.loss[-1].values for run in runs])
    reached = int((losses < bound).sum())
    return Claim(
        "The runs reach the loss from which Theorem 4.1 speaks.",
        f"mean loss < log(2)/{N} = {bound:.4f}",
        f"{reached} of {losses.size} runs; {losses.min():.3f} to {losses.max():.3f}",
        "holds" if reached == losses.size else "outside its hypotheses",
        "The figure shows a transient: nothing in it is yet the limit.",
    )


def _hypothesis(data: list[Data]) -> Claim:
    p = [p_orthogonality(d, bias=True) for d in data]
    return Claim(
        "The data are nearly orthogonal: |x|^2 >= C n max |<x_i, x_j>| with a large C (section 1).",
        "C of 3 at least (Frei et al., slope 1), far more for ReLU",
        f"C = {min(p):.2f} to {max(p):.2f}",
        "holds" if min(p) >= 3 else "outside its hypotheses",
        "The number p(X) of Frei et al., with the bias counted as a feature.",
    )


def _figure(runs: dict[Reading, list[Trajectory]]) -> Figure:
    with plot.style():
        figure, axes = plot.panels(2, 2)
        for row, (reading, of_seeds) in zip(axes, runs.items(), strict=True):
            for ax, last in zip(row, (EPOCHS, 1000), strict=True):
                for value, colour in zip(VALUES, plot.colours(len(VALUES)), strict=True):
                    lines = np.stack([run.stable_rank.sel(value=value).values for run in of_seeds])
                    epochs = of_seeds[0].step.values
                    shown = epochs >= EPOCHS - last
                    for line in lines[1:]:
                        ax.plot(epochs[shown], line[shown], color=colour, alpha=0.25, linewidth=0.6)
                    ax.plot(epochs[shown], lines[0][shown], color=colour, label=f"{value:g}")
                ax.set(xlabel="epoch", ylabel="stable rank of $W_1$")
            row[0].set_title(f"values read as {reading.name}")
            row[1].set_title("the last 1000 epochs")
            row[0].set_yscale("log")
            row[0].set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
            row[0].minorticks_off()
            row[1].axhline(2, color="grey", linewidth=0.8, linestyle="--")
        axes[0, 0].legend(title="value", ncols=2)
    return figure


EXPERIMENTS = {
    "1": Experiment("sun", "1", "Stable rank of two-layer ReLU networks on synthetic data", figure_1)
}
