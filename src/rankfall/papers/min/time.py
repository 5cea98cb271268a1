"""How long the neurons take to align: the closed form of the early flow, for many sizes and separations."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import orthogonally_separable
from rankfall.loss import exponential
from rankfall.network import Network
from rankfall.papers.claim import Claim, at_most
from rankfall.papers.experiment import Experiment
from rankfall.papers.min.alignment import DIM, fitted
from rankfall.theory.early_flow import EarlyFlow
from rankfall.theory.situation import Situation

SIZES, ANGLES, NEURONS, SCALE = (4, 8, 16, 32, 64), (0.55, 0.65, 0.8), 30, 1e-4


def run_time(seed: int) -> xr.Dataset:
    """The time of the last change of a pattern, in closed form, for many sizes and separations."""
    found = np.array([[_sorting(n, angle, seed) for n in SIZES] for angle in ANGLES])
    return xr.Dataset(
        {
            "sorted": (("angle", "samples"), found[..., 0]),
            "separation": (("angle", "samples"), found[..., 1]),
        },
        {"angle": list(ANGLES), "samples": list(SIZES)},
    )


def _sorting(n: int, angle: float, seed: int) -> tuple[float, float]:
    data = orthogonally_separable(n=n, dim=DIM, seed=seed, angle=angle * np.pi)
    start = Situation(Network.balanced((DIM, NEURONS, 1), 0.0, SCALE, seed), data, exponential.sum)
    return EarlyFlow(start).sorted, start.mu


def _bound(runs: xr.Dataset) -> xr.DataArray:
    return np.log(runs.samples) * runs.separation**-0.5


def _growth(runs: xr.Dataset) -> np.ndarray:
    """By how much the ratio to the bound grows with n, angle by angle, and with 1/μ, size by size."""
    middle = (runs.sorted / _bound(runs)).median("seed")
    by_size = middle.isel(samples=-1) / middle.isel(samples=0)
    by_angle = middle.isel(angle=0) / middle.isel(angle=-1)
    return np.append(by_size.values, by_angle.values)


def _size_power(runs: xr.Dataset) -> np.ndarray:
    """The power of n with which the median time falls, angle by angle."""
    middle = runs.sorted.median("seed").transpose("samples", "angle").values
    return fitted(runs.samples.values[:, None], middle)


def draw_time(runs: xr.Dataset) -> Figure:
    """The times beside the bound, and against the number of samples."""
    with plot.style():
        figure, axes = plot.panels(2)
        for angle, colour in zip(ANGLES, plot.colours(len(ANGLES)), strict=True):
            one = runs.sel(angle=angle).transpose("samples", "seed")
            label = rf"{180 * angle:.0f}°"
            shift = 1 + 0.12 * (ANGLES.index(angle) - 1)
            x = np.broadcast_to(one.samples.values[:, None] * shift, one.sorted.shape).ravel()
            ratio = (one.sorted / _bound(one)).values.ravel()
            plot.simulation(axes[0, 0], x, ratio, label, color=colour, markersize=2, markevery=1)
            plot.simulation(axes[0, 1], x, one.sorted.values.ravel(), label, color=colour, markersize=2,
                            markevery=1)  # fmt: skip
        n = np.array([4.0, 64.0])
        plot.theory(axes[0, 0], n, [1, 1], r"$\log n / \sqrt{\mu}$", linestyle="--")
        plot.theory(axes[0, 1], n, 3 / n, r"$\propto 1/n$")
        axes[0, 0].set(ylabel=r"$t_1 \sqrt{\mu} / \log n$", title="(a) beside the bound")
        axes[0, 1].set(ylabel="time of the last change, $t_1$", title="(b) more samples sort faster")
        for ax in axes[0]:
            ax.set(xscale="log", yscale="log", xlabel="samples $n$")
            ax.set_xticks(SIZES, labels=[str(size) for size in SIZES])
            ax.minorticks_off()
        axes[0, 1].legend(title="angle of the classes", ncols=2)
        axes[0, 0].legend()
    return figure


TIME = Experiment(
    name="time",
    title="How long the neurons take to align",
    run=run_time,
    draw=draw_time,
    seeds=20,
    cost=0.2,
    about=(
        "The last change of an activation pattern in the early phase, from the closed form of the early flow "
        "of the summed exponential loss: 4 to 64 orthogonally separable samples in 6 dimensions, three "
        "angles between the classes, 30 neurons."
    ),
    claims=(
        Claim(
            sentence="The neurons are sorted by a time of the order log n / √μ.",
            source="ICLR, Theorem 1 and abstract",
            metric="t₁ √μ / log n (medians): 64 over 4 samples, by angle; and least over largest angle, by n",
            measure=_growth,
            expected=at_most(1.0, "a bound of this order: the ratio grows neither with n nor with 1/μ"),
            note="The paper's constant has no number. Here the ratio is at most about 1.",
        ),
        Claim(
            sentence="The time does not grow with n at all: it falls, as the summed pull grows.",
            source="rankfall",
            metric="power of n with which the median of t₁ changes, three angles",
            measure=_size_power,
            expected=at_most(0.0, "no growth, where the bound grows like log n"),
        ),
    ),
)
