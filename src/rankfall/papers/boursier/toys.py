"""Two sets of inputs that are not orthogonal: the theorem says nothing about them."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.dynamics import descent, every
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.claim import Check, Claim, at_least, at_most, near
from rankfall.papers.experiment import Experiment, finished

TOYS = {
    "five points": ([-1.5, -1.0, 0.0, 0.25, 2.0], [0.7, -0.3, -0.3, 0.4, 0.2]),
    "three points": ([-0.75, -0.5, 0.125], [1.1, 0.1, 0.8]),
}
WIDTH, STARTS, LONG = 60, 20, 20_000


def run_toys(seed: int) -> xr.Dataset:
    """Twenty starts on each set: the loss over time; and one limit."""
    return xr.concat([_toy(*pair) for pair in TOYS.values()], dim=xr.Variable("toy", list(TOYS)))


def _toy(x: list[float], y: list[float]) -> xr.Dataset:
    data = Data(np.column_stack([x, np.ones(len(x))]), y)
    scale = np.sqrt(2) * 1e-3
    networks = [Network.balanced((2, WIDTH, 1), slope=0.0, scale=scale, seed=i) for i in range(STARTS)]
    run = descent(
        networks,
        data,
        "square",
        0.05,
        LONG,
        measures=["loss", "stable_rank"],
        record=every(LONG // 50),
        along={"start": range(STARTS)},
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


def draw_toys(runs: xr.Dataset) -> Figure:
    """The losses on both sets."""
    with plot.style():
        figure, axes = plot.panels(2)
        for ax, toy, letter in zip(axes[0], TOYS, "ab", strict=True):
            lines = runs.loss.isel(seed=0).sel(toy=toy).transpose("step", "start")
            ax.plot(0.05 * lines.step, lines, color=plot.PALETTE[0], linewidth=0.6, alpha=0.5)
            ax.plot([], [], color=plot.PALETTE[0], label=f"{lines.sizes['start']} starts")
            end = float(runs.limit_loss.isel(seed=0).sel(toy=toy))
            plot.theory(ax, [0, 0.05 * float(lines.step[-1])], [end] * 2, "limit", linestyle="--")
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


TOY_SETS = Experiment(
    name="toys",
    title="Inputs that are not orthogonal: zero loss, or not",
    run=run_toys,
    draw=draw_toys,
    cost=5.0,
    about=(
        "Sets of the first author's notebooks, a number and a bias: x = -1.5, -1, 0, 0.25, 2 with y = 0.7, "
        "-0.3, -0.3, 0.4, 0.2; and x = -0.75, -0.5, 0.125 with y = 1.1, 0.1, 0.8, from a later work on early "
        "alignment (Boursier and Flammarion; repository eboursier/early_alignment). 60 neurons, twenty "
        "balanced starts of size 1e-3, 20,000 steps of 0.05; and the limit from the first start."
    ),
    claims=(
        Claim(
            sentence="The loss goes to zero: five points.",
            source="Theorem 1",
            metric="loss at the end, twenty starts",
            measure=lambda runs: runs.loss.sel(toy="five points").isel(step=-1),
            expected=at_most(1e-6, "time 1000"),
            recorded="outside its hypotheses",
            hypotheses=(_at_right_angles("five points"),),
        ),
        Claim(
            sentence="The loss goes to zero: three points.",
            source="Theorem 1",
            metric="loss at the end, twenty starts",
            measure=lambda runs: runs.loss.sel(toy="three points").isel(step=-1),
            expected=at_most(1e-6, "time 1000"),
            recorded="outside its hypotheses",
            hypotheses=(_at_right_angles("three points"),),
        ),
        Claim(
            sentence="Sixty neurons end as one, and three points that are not orthogonal are not fitted.",
            source="rankfall, on the data of eboursier/early_alignment",
            metric="loss at the end of all starts / that of the limit, three points",
            measure=lambda runs: _resting(runs.sel(toy="three points")),
            expected=near(1.0, 1e-4, "the limit's loss is 0.0875; the steps are finite"),
            form="{:.6f}",
            hypotheses=(
                Check(
                    "the limit was reached: 1 yes, 0 no",
                    lambda runs: runs.certified.sel(toy="three points"),
                    at_least(1.0, "yes"),
                ),
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
    ),
)


def _resting(runs: xr.Dataset) -> xr.DataArray:
    return runs.loss.isel(step=-1) / runs.limit_loss
