"""Deep networks without biases: TMLR Fig. 5, which is the workshop's Fig. 3, and `deeper` ones."""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import symmetric_linear
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, Measure, at_least, at_most, near, scientific, seed_lines
from rankfall.papers.zhang import deeper
from rankfall.papers.zhang.low_rank import NETWORKS, PairSetting, draw_weights, pair, spread

COLOURS = dict(zip(NETWORKS, plot.PALETTE, strict=False))


@dataclass(frozen=True)
class Setting(PairSetting):
    """The numbers of Fig. 5; where the source is not named they are ours."""

    width: int = 100  # workshop, Appendix G, and so the next two
    scale: float = 1e-2  # the norm of a layer
    pairs: int = 1000  # points, before their mirror images, for the first seed, which is drawn
    fewer: int = 100  # and for the others
    end: float = 1200.0  # of the loss curves
    records: int = 151

    @property
    def times(self) -> np.ndarray:
        """Of the loss curves."""
        return np.linspace(0.0, self.end, self.records)


def run_figure_5(setting: Setting, seed: int) -> xr.Dataset:
    """Three layers, linear and ReLU, from the same weights."""
    data = symmetric_linear(setting.pairs if seed == 0 else setting.fewer, setting.dim, seed)
    widths = (setting.dim, setting.width, setting.width, 1)
    start = Network.gaussian(widths, 0.0, setting.scale, seed)
    return pair(setting, data, start, setting.times, layers=3)


# --- the figure ---------------------------------------------------------------------------------------------


def draw_figure_5(_: Setting, runs: xr.Dataset) -> Figure:
    """The weights of the first seed, and of all seeds the singular values of W₂ and the loss."""
    with plot.style():
        figure = plt.figure(figsize=(2.4 * plot.PANEL[0], 2.0 * plot.PANEL[1]))
        grid = figure.add_gridspec(2, 4, width_ratios=(0.2, 0.62, 0.05, 0.9))
        shown: list[Axes] = []
        for row, name in enumerate(NETWORKS):
            axes = [figure.add_subplot(grid[row, column]) for column in range(3)]
            image = draw_weights(axes, runs.isel(seed=0).sel(network=name))
            axes[0].set_ylabel(f"({'ab'[row]}) {name} network\nneuron, sorted")
            shown += axes
        label = "entry / largest entry"
        figure.colorbar(
            image, ax=shown, location="bottom", fraction=0.03, aspect=50, label=label, ticks=[-1, 0, 1]
        )
        _draw_singular_values(figure.add_subplot(grid[0, 3]), runs)
        _draw_losses(figure.add_subplot(grid[1, 3]), runs)
    return figure


def _draw_singular_values(ax: Axes, runs: xr.Dataset) -> None:
    index = np.arange(1, runs.sizes["value"] + 1)
    for name, shift in (("linear", -0.12), ("ReLU", 0.12)):
        values = runs.singular_value.sel(network=name).isel(middle=0).transpose("value", "seed")
        for column in range(runs.sizes["seed"]):
            label = name if column == 0 else None
            plot.simulation(ax, index + shift, values[:, column], label, color=COLOURS[name], markersize=2.4)
    for i, shift, height in ((i, s, i <= rank) for rank, s in ((1, -0.12), (2, 0.12)) for i in index):
        label = "theory" if (i == 1 and shift > 0) else None
        plot.theory(ax, [i + shift - 0.1, i + shift + 0.1], [height, height], label)
    ax.set(xlabel=r"index $i$", ylabel=r"$\sigma_i(W_2)\, /\, \|w\|^{1/3}$", ylim=(-0.05, 1.15))
    ax.set_title("(c) singular values, all seeds")
    ax.legend(loc="center right")


def _draw_losses(ax: Axes, runs: xr.Dataset) -> None:
    for name, colour in COLOURS.items():
        curves = runs.loss.sel(network=name).transpose("time", "seed")
        seed_lines(ax, runs.time, curves[:, 1:], colour, alpha=0.3, linewidth=0.6)
        ax.plot(runs.time, curves[:, 0], color=colour, label=name)
    late = float(runs.time.where(runs.loss > 0.01).max() * 1.3)
    ax.set(xlabel=r"time $t$", ylabel="loss / initial loss", xlim=(0, late), title="(d) loss, all seeds")
    ax.legend()


# --- the claims ---------------------------------------------------------------------------------------------


def _of(name: str, network: str = "ReLU", **where: Any) -> Measure:
    """An array of one network, some of its entries, the seeds first."""
    return lambda runs: runs[name].sel(network=network).isel(where).transpose("seed", ...)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Fig. 5, and eqs. (40) and (41) at three layers."""
    return (*_on_ranks(setting), *_on_norms(setting), *_on_likeness(setting), *_on_function(setting))


def _on_ranks(setting: Setting) -> tuple[Claim, ...]:
    """The ranks and singular values of the layers."""
    return (
        Claim(
            id="linear-rank-one",
            sentence="In the linear network every layer has rank one.",
            source="workshop, Appendix F.1, Fig. 3a",
            metric="stable ranks of W₁ and W₂",
            measure=lambda runs: np.stack(
                [_of("first_rank", "linear")(runs), _of("middle_rank", "linear", middle=0)(runs)]
            ),
            expected=near(
                1.0,
                10 * setting.scale**2,
                f"the initial weights: ({setting.scale:g})² of the squared norm, ten times",
            ),
            form="{:.4f}",
        ),
        Claim(
            id="first-layer-rank-one",
            sentence="In the ReLU network the first layer has rank one (the last is a single row).",
            source="TMLR Fig. 5; workshop, eq. (40a)",
            metric="stable rank of W₁",
            measure=_of("first_rank"),
            expected=near(1.0, 0.01, "our reading of approximately: one per cent of the squared norm"),
            form="{:.4f}",
        ),
        Claim(
            id="middle-rank-two",
            sentence="The ReLU network's middle layer has rank two: no third singular value grows.",
            source="TMLR Fig. 5; workshop, eq. (40b)",
            metric="σ₃(W₂) at the end / ‖W₂(0)‖₂",
            measure=lambda runs: _of("singular_value", middle=0, value=2)(runs) / runs.initial.isel(middle=0),
            expected=at_most(1.0, "Weyl's inequality: a change of rank two raises σ₃ to ‖W₂(0)‖₂ at most"),
        ),
        Claim(
            id="equal-singular-values",
            sentence="The two singular values of the ReLU network's middle layer are equal, ‖w‖^(1/3).",
            source="workshop, eqs. (40) and (41)",
            metric="σ₁(W₂) and σ₂(W₂), in units of ‖w‖^(1/3)",
            measure=_of("singular_value", middle=0, value=[0, 1]),
            expected=near(1.0, setting.scale, f"the initial norm, {setting.scale:g}"),
            form="{:.4f}",
            note="What parts them are the blocks off the diagonal: they keep about the initial norm.",
        ),
        Claim(
            id="middle-stable-rank",
            sentence="The stable rank of the ReLU network's middle layer is two.",
            source="workshop, eq. (40b)",
            metric="stable rank of W₂",
            measure=_of("middle_rank", middle=0),
            expected=near(
                2.0,
                4 * setting.scale,
                f"1 + (σ₂/σ₁)², where the two are equal to {100 * setting.scale:g} per cent",
            ),
            form="{:.3f}",
        ),
    )


def _on_norms(setting: Setting) -> tuple[Claim, ...]:
    """The norms of the layers."""
    return (
        Claim(
            id="equal-layer-norms",
            sentence="All layers of a network have the same norm.",
            source="workshop, Appendix F.1",
            metric="(largest - smallest) / mean norm of a network's layers",
            measure=spread,
            expected=at_most(
                5 * (setting.scale**2 + setting.rtol),
                f"differences of squared norms are conserved, at {scientific(setting.scale**2)}; "
                f"the flow's {scientific(setting.rtol)} a step",
            ),
        ),
        Claim(
            id="layer-norms",
            sentence="In the ReLU network the norm of every layer is √2 ‖w‖^(1/3).",
            source="workshop, eqs. (40) and (41)",
            metric="‖W₁‖, ‖W₂‖, ‖W₃‖, in units of ‖w‖^(1/3)",
            measure=_of("norm"),
            expected=near(
                np.sqrt(2),
                2 * setting.unlearned,
                f"{setting.unlearned:.2g} of the target is left to learn, twice",
                relative=True,
            ),
            form="{:.4f}",
        ),
    )


def _on_likeness(setting: Setting) -> tuple[Claim, ...]:
    """How alike the two networks are."""
    return (
        Claim(
            id="alike-layers",
            sentence="W₁, W₃ and the positive entries of W₂ are alike in the two networks.",
            source="TMLR Fig. 5",
            metric="cosines of the two networks' W₁, W₂ (where the linear one is positive), W₃",
            measure=lambda runs: runs.alike.transpose("seed", "layer"),
            expected=at_least(0.9, "our reading of approximately the same structure"),
            form="{:.3f}",
        ),
        Claim(
            id="negative-turns-zero",
            sentence="Entries of W₂ that are negative in the linear network are zero in the ReLU network.",
            source="TMLR Fig. 5",
            metric="their share of the squared norm of the ReLU network's W₂",
            measure=lambda runs: runs.where_negative,
            expected=at_most(0.01, "our reading of approximately zero"),
        ),
        Claim(
            id="two-blocks",
            sentence="In the ReLU network W₂ is not negative, and zero off two blocks on the diagonal.",
            source="workshop, section 4.2 and eq. (40b)",
            metric="share of the squared norm of W₂ in all other entries",
            measure=lambda runs: runs.outside,
            expected=at_most(
                10 * setting.scale**2,
                f"the initial weights: ({setting.scale:g})² of the squared norm, ten times",
            ),
        ),
    )


def _on_function(setting: Setting) -> tuple[Claim, ...]:
    """What the network computes, and how long it takes."""
    return (
        Claim(
            id="linear-off-sample",
            sentence="The ReLU network computes the linear target off the sample too.",
            source="workshop, eq. (41)",
            metric=f"relative error of f(x) = w·x for {setting.probes} Gaussian x",
            measure=_of("off_sample"),
            expected=at_most(
                10 * setting.unlearned,
                f"ten times what is left to learn on the sample, {setting.unlearned:.2g}",
            ),
        ),
        Claim(
            id="low-rank-delay",
            sentence="The ReLU network takes 2^(3/2) times as long as the linear one, or longer.",
            source="rankfall",
            metric="ratio of the mean times at which loss is lost, ∫ L dt / L(0), over 2^(3/2)",
            measure=lambda runs: runs.late,
            expected=at_least(1.0, "exact for weights in the low-rank form with equal chains"),
            form="{:.2f}",
            note="From random weights the two chains escape one after the other, and the later one counts.",
        ),
    )


FIGURE_5 = Experiment(
    name="5",
    title="Low-rank weights in a three-layer linear and a three-layer ReLU network",
    setting=Setting(),
    simulation=run_figure_5,
    picture=draw_figure_5,
    statements=claims,
    seeds=20,
    cost=1.6,
    about=(
        "20 inputs, 100 neurons a layer, target w·x, inputs with their mirror images, all layers Gaussian "
        "with norm 0.01 (workshop, Appendix G). The first seed, which is drawn, has the paper's 2000 "
        "samples, the others 200. The flow is followed to a tolerance until a millionth of the loss is left, "
        "where the paper takes 20,000 steps of size 0.1. Neurons are sorted by the linear network's chains, "
        "in both pictures alike. Norms and singular values are in units of ‖w‖^(1/3)."
    ),
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (FIGURE_5, deeper.DEEPER)
