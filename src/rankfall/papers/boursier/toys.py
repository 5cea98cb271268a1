"""Two sets of inputs that are not orthogonal: the theorem says nothing about them."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.dynamics import descent, every
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    all_reached,
    at_least,
    at_most,
    finished,
    near,
    seed_lines,
)

TOYS = {"five points": 5, "three points": 3}  # the sets, and their sizes


@dataclass(frozen=True)
class Setting:
    """The data are those of the first author's notebooks: a number, beside a bias, and its target."""

    five_x: tuple[float, ...] = (-1.5, -1.0, 0.0, 0.25, 2.0)
    five_y: tuple[float, ...] = (0.7, -0.3, -0.3, 0.4, 0.2)
    three_x: tuple[float, ...] = (-0.75, -0.5, 0.125)
    three_y: tuple[float, ...] = (1.1, 0.1, 0.8)
    width: int = 60  # that of the notebook training_dynamics
    starts: int = 20  # ours
    scale: float = 1e-3  # of the start: the notebooks'
    step: float = 0.05  # ours; 1e-3 in the notebooks
    steps: int = 20_000  # ours

    def __post_init__(self) -> None:
        """Refuse sets of another size."""
        for (name, size), (x, y) in zip(TOYS.items(), self.sets, strict=True):
            if (len(x), len(y)) != (size, size):
                told = f"the {name} must be {size} numbers with {size} targets"
                raise ValueError(f"{told}: there are {len(x)} and {len(y)}.")

    @property
    def sets(self) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        """The inputs and targets of each set."""
        return (self.five_x, self.five_y), (self.three_x, self.three_y)

    @property
    def time(self) -> float:
        """The last time."""
        return self.step * self.steps


def run_toys(setting: Setting, seed: int) -> xr.Dataset:
    """Many starts on each set: the loss over time; and one limit."""
    runs = [_toy(setting, *pair) for pair in setting.sets]
    return xr.concat(runs, dim=xr.Variable("toy", list(TOYS)))


def _toy(setting: Setting, x: tuple[float, ...], y: tuple[float, ...]) -> xr.Dataset:
    data = Data(np.column_stack([x, np.ones(len(x))]), y)
    widths, scale, starts = (2, setting.width, 1), np.sqrt(2) * setting.scale, range(setting.starts)
    networks = [Network.balanced(widths, slope=0.0, scale=scale, seed=i) for i in starts]
    run = descent(
        networks,
        data,
        "square",
        setting.step,
        setting.steps,
        measures=["loss", "stable_rank"],
        record=every(max(1, setting.steps // 50)),
        along={"start": starts},
        show=False,
    )
    end = limit(networks[0], data, "square", optimality=False, show=False)
    lengths = np.linalg.norm(data.x, axis=1)
    cosines = np.abs(data.x @ data.x.T / np.outer(lengths, lengths) - np.eye(len(x)))
    return xr.Dataset(
        {
            "loss": (("step", "start"), finished(run)["loss"].transpose("step", "start").values),
            "stable_rank": ("start", run["stable_rank"].isel(step=-1).values),
            "limit_loss": ((end.margins - data.y) ** 2).mean() / 2,
            "certified": float(end.reached),
            "cosine": cosines.max(),
            "alike": float(np.ptp(np.sign(y)) == 0),
        },
        {"step": run.dataset["step"].values},
    )


def draw_toys(setting: Setting, runs: xr.Dataset) -> Figure:
    """The losses on both sets."""
    with plot.style():
        figure, axes = plot.panels(2)
        for ax, toy, letter in zip(axes[0], TOYS, "ab", strict=True):
            lines = runs.loss.isel(seed=0).sel(toy=toy).transpose("step", "start")
            seed_lines(ax, setting.step * lines.step, lines, plot.PALETTE[0], f"{setting.starts} starts")
            end = float(runs.limit_loss.isel(seed=0).sel(toy=toy))
            plot.theory(ax, [0, setting.time], [end] * 2, "limit", linestyle="--")
            ax.set(xlabel="time $t$", ylabel="loss", title=f"({letter}) {toy} and a bias")
            ax.set_ylim(bottom=-0.01 * float(lines.max()))
            ax.legend()
    return figure


def _at_right_angles(toy: str) -> Check:
    return Check(
        "largest |cosine| of two inputs",
        lambda runs: runs.cosine.sel(toy=toy),
        at_most(1e-10, "orthogonal inputs"),
    )


def _resting(runs: xr.Dataset) -> xr.DataArray:
    return runs.loss.isel(step=-1) / runs.limit_loss


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1 outside its hypotheses, and a loss that stays."""
    return (
        Claim(
            id="five-points-zero-loss",
            sentence="The loss goes to zero: five points.",
            source="Theorem 1",
            metric=f"loss at the end, {setting.starts} starts",
            measure=lambda runs: runs.loss.sel(toy="five points").isel(step=-1),
            expected=at_most(1e-6, f"time {setting.time:g}"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_at_right_angles("five points"),),
        ),
        Claim(
            id="three-points-zero-loss",
            sentence="The loss goes to zero: three points.",
            source="Theorem 1",
            metric=f"loss at the end, {setting.starts} starts",
            measure=lambda runs: runs.loss.sel(toy="three points").isel(step=-1),
            expected=at_most(1e-6, f"time {setting.time:g}"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_at_right_angles("three points"),),
        ),
        Claim(
            id="three-points-unfitted",
            sentence="All neurons end as one, and three points that are not orthogonal are not fitted.",
            source="rankfall, on the data of eboursier/early_alignment",
            metric="loss at the end of all starts / that of the limit, three points",
            measure=lambda runs: _resting(runs.sel(toy="three points")),
            expected=near(1.0, 1e-4, "what finite steps leave"),
            form="{:.6f}",
            hypotheses=(
                all_reached(lambda runs: runs.certified.sel(toy="three points")),
                Check(
                    "loss of the limit",
                    lambda runs: runs.limit_loss.sel(toy="three points"),
                    at_least(1e-3, "not zero"),
                ),
                Check(
                    "stable rank at the end",
                    lambda runs: runs.stable_rank.sel(toy="three points"),
                    at_most(1.001, "one direction"),
                ),
            ),
        ),
    )


TOY_SETS = Experiment(
    name="toys",
    title="Inputs that are not orthogonal: zero loss, or not",
    setting=Setting(),
    simulation=run_toys,
    picture=draw_toys,
    statements=claims,
    cost=5.0,
    about=(
        "Sets of the first author's notebooks, a number and a bias: x = -1.5, -1, 0, 0.25, 2 with y = 0.7, "
        "-0.3, -0.3, 0.4, 0.2; and x = -0.75, -0.5, 0.125 with y = 1.1, 0.1, 0.8, from a later work on early "
        "alignment (Boursier and Flammarion; repository eboursier/early_alignment). 60 neurons, twenty "
        "balanced starts of size 1e-3, 20,000 steps of 0.05; and the limit from the first start."
    ),
)
