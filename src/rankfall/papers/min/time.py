"""How long the neurons take to align: the closed form of the early flow, for many sizes and separations."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import orthogonally_separable
from rankfall.loss import exponential
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_most, power_law
from rankfall.theory import Situation
from rankfall.theory.mathematics import EarlyFlow


@dataclass(frozen=True)
class Setting:
    """The theorem has the order of the time only: all of these are ours."""

    sizes: tuple[int, ...] = (4, 8, 16, 32, 64)  # numbers of samples, ascending
    angles: tuple[float, ...] = (0.55, 0.65, 0.8)  # between the classes, in units of π, ascending
    dim: int = 6
    width: int = 30
    scale: float = 1e-4  # of the balanced start


def run_time(setting: Setting, seed: int) -> xr.Dataset:
    """The time of the last change of a pattern, in closed form, for many sizes and separations."""
    sizes, angles = setting.sizes, setting.angles
    found = np.array([[_sorting(setting, n, angle, seed) for n in sizes] for angle in angles])
    return xr.Dataset(
        {
            "sorted": (("angle", "samples"), found[..., 0]),
            "separation": (("angle", "samples"), found[..., 1]),
        },
        {"angle": list(angles), "samples": list(sizes)},
    )


def _sorting(setting: Setting, n: int, angle: float, seed: int) -> tuple[float, float]:
    data = orthogonally_separable(n=n, dim=setting.dim, seed=seed, angle=angle * np.pi)
    network = Network.balanced((setting.dim, setting.width, 1), 0.0, setting.scale, seed)
    start = Situation(network, data, exponential.sum)
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
    return power_law(runs.samples.values[:, None], middle)


def draw_time(setting: Setting, runs: xr.Dataset) -> Figure:
    """The times beside the bound, and against the number of samples."""
    sizes, angles = setting.sizes, setting.angles
    with plot.style():
        figure, axes = plot.panels(2)
        for angle, colour in zip(angles, plot.colours(len(angles)), strict=True):
            one = runs.sel(angle=angle).transpose("samples", "seed")
            label = rf"{180 * angle:.0f}°"
            shift = 1 + 0.12 * (angles.index(angle) - 1)
            x = np.broadcast_to(one.samples.values[:, None] * shift, one.sorted.shape).ravel()
            ratio = (one.sorted / _bound(one)).values.ravel()
            plot.simulation(axes[0, 0], x, ratio, label, color=colour, markersize=2, markevery=1)
            times = one.sorted.values.ravel()
            plot.simulation(axes[0, 1], x, times, label, color=colour, markersize=2, markevery=1)
        n = np.array([min(sizes), max(sizes)], dtype=float)
        plot.theory(axes[0, 0], n, [1, 1], r"$\log n / \sqrt{\mu}$", linestyle="--")
        plot.theory(axes[0, 1], n, 3 / n, r"$\propto 1/n$")
        axes[0, 0].set(ylabel=r"$t_1 \sqrt{\mu} / \log n$", title="(a) beside the bound")
        axes[0, 1].set(ylabel="time of the last change, $t_1$", title="(b) more samples sort faster")
        for ax in axes[0]:
            ax.set(xscale="log", yscale="log", xlabel="samples $n$")
            ax.set_xticks(sizes, labels=[str(size) for size in sizes])
            ax.minorticks_off()
        axes[0, 1].legend(title="angle of the classes", ncols=2)
        axes[0, 0].legend()
    return figure


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1 on the time of alignment, and how it changes with the size, where there are several."""
    several = len(setting.sizes) > 1
    shown = {
        "sorting-time-order": several or len(setting.angles) > 1,
        "faster-with-samples": several,
    }
    return tuple(claim for claim in _claims(setting) if shown[claim.id])


def _claims(setting: Setting) -> tuple[Claim, ...]:
    first, last = setting.sizes[0], setting.sizes[-1]
    return (
        Claim(
            id="sorting-time-order",
            sentence="The neurons are sorted by a time of the order log n / √μ.",
            source="ICLR, Theorem 1 and abstract",
            metric=(
                f"t₁ √μ / log n (medians): {last} over {first} samples, by angle; "
                "and least over largest angle, by n"
            ),
            measure=_growth,
            expected=at_most(1.0, "a bound of this order: the ratio grows neither with n nor with 1/μ"),
            note="The paper's constant has no number. Here the ratio is at most about 1.",
        ),
        Claim(
            id="faster-with-samples",
            sentence="The time does not grow with n at all: it falls, as the summed pull grows.",
            source="rankfall",
            metric="power of n with which the median of t₁ changes, all angles",
            measure=_size_power,
            expected=at_most(0.0, "no growth, where the bound grows like log n"),
        ),
    )


TIME = Experiment(
    name="time",
    title="How long the neurons take to align",
    setting=Setting(),
    simulation=run_time,
    picture=draw_time,
    statements=claims,
    seeds=20,
    cost=0.2,
    about=(
        "The last change of an activation pattern in the early phase, from the closed form of the early flow "
        "of the summed exponential loss: 4 to 64 orthogonally separable samples in 6 dimensions, three "
        "angles between the classes, 30 neurons."
    ),
)
