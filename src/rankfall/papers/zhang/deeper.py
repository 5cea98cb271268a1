"""Deep networks without biases, four and five layers: the companions of TMLR Fig. 5."""

from dataclasses import dataclass
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import symmetric_linear
from rankfall.network import Network
from rankfall.papers.lab import Check, Claim, Experiment, Measure, Verdict, at_least, at_most, guide
from rankfall.papers.zhang.low_rank import NETWORKS, PairSetting, draw_weights, pair, spread, worst


@dataclass(frozen=True)
class Setting(PairSetting):
    """Numbers of our own, but the dimension: the paper's are not in the text that we have."""

    width: int = 50
    pairs: int = 80  # points, before their mirror images
    depths: tuple[int, ...] = (4, 5)
    scales: tuple[float, ...] = (0.15, 0.3)  # the initial norm of a layer at each of the depths
    left: float = 1e-4  # the part of the loss at which a run ends
    rtol: float = 3e-4  # the tolerance of the flow
    first: float = 10.0  # the first and the last time of the loss curves
    end: float = 2e4
    records: int = 150

    def __post_init__(self) -> None:
        """Refuse depths without a scale, or without a middle layer."""
        super().__post_init__()
        if not self.depths or len(self.depths) != len(self.scales):
            told = f"{len(self.depths)} depths and {len(self.scales)} scales"
            raise ValueError(f"depths and scales must be as many, and one at least: these are {told}.")
        if min(self.depths) < 3:
            raise ValueError(f"depths must be at least 3; {min(self.depths)} is not.")

    @property
    def times(self) -> np.ndarray:
        """Of the loss curves."""
        return np.geomspace(self.first, self.end, self.records)

    @property
    def deepest(self) -> int:
        """The largest number of layers."""
        return max(self.depths)

    @property
    def largest(self) -> tuple[float, int]:
        """The largest scale, and its depth."""
        return max(zip(self.scales, self.depths, strict=True))

    @property
    def start(self) -> float:
        """The largest share of the start in the squared norm of a layer, over that at our usual scales."""
        return (self.largest[0] / max(Setting.scales)) ** 2


def run_deeper(setting: Setting, seed: int) -> xr.Dataset:
    """Every depth, linear and ReLU, from the same weights."""
    data, found = symmetric_linear(setting.pairs, setting.dim, seed), []
    for depth, scale in zip(setting.depths, setting.scales, strict=True):
        widths = (setting.dim, *[setting.width] * (depth - 1), 1)
        start = Network.gaussian(widths, 0.0, scale, seed)
        found.append(pair(setting, data, start, setting.times, layers=setting.deepest))
    return xr.concat(found, dim=xr.Variable("depth", list(setting.depths)))


# --- the figure ---------------------------------------------------------------------------------------------


def draw_deeper(setting: Setting, runs: xr.Dataset) -> Figure:
    """The weights of the first seed, and of all seeds the singular values, the likeness and the delay."""
    with plot.style():
        figure = plt.figure(figsize=(2.4 * plot.PANEL[0], 3.7 * plot.PANEL[1]))
        above, below = cast(np.ndarray, figure.subfigures(2, 1, height_ratios=(2.5, 1.0)))
        first, deepest = runs.isel(seed=0), setting.deepest
        grid = above.add_gridspec(
            2 * len(setting.depths), deepest, width_ratios=(0.4, *[1.0] * (deepest - 2), 0.08)
        )
        shown: list[Axes] = []
        for row, (depth, name) in enumerate((d, n) for d in setting.depths for n in NETWORKS):
            columns = [*range(depth - 1), deepest - 1]
            axes = [above.add_subplot(grid[row, column]) for column in columns]
            image = draw_weights(axes, first.sel(depth=depth, network=name))
            axes[0].set_ylabel(f"{name},\n{depth} layers")
            shown += axes
        above.suptitle("(a) weights, neurons sorted alike in both networks", x=0.01, ha="left", fontsize=9)
        above.colorbar(
            image, ax=shown, location="bottom", fraction=0.02, aspect=60, label="entry / largest entry"
        )
        panels = below.subplots(1, 3)
        _draw_singular_values(setting, panels[0], runs)
        _draw_likeness(setting, panels[1], runs)
        _draw_delay(setting, panels[2], runs)
    return figure


def _draw_singular_values(setting: Setting, ax: Axes, runs: xr.Dataset) -> None:
    index = np.arange(1, runs.sizes["value"] + 1)
    shifts = np.linspace(-0.12, 0.12, len(setting.depths))
    for depth, colour, shift in zip(setting.depths, plot.PALETTE, shifts, strict=False):
        values = runs.singular_value.sel(network="ReLU", depth=depth).transpose("value", "seed", "middle")
        lines = values.values.reshape(len(index), -1)
        for column in range(lines.shape[1]):
            label = f"{depth} layers" if column == 0 else None
            plot.simulation(ax, index + shift, lines[:, column], label, color=colour, markersize=1.6)
        guide(ax, y=float(runs.initial.sel(depth=depth).mean()), linewidth=0.6, linestyle=":")
    for i in index:
        height = float(i <= 2)
        plot.theory(ax, [i - 0.3, i + 0.3], [height, height], "theory" if i == 1 else None)
    ax.set(xlabel=r"index $i$", ylabel=r"$\sigma_i(W_l)\, /\, \|w\|^{1/L}$", ylim=(-0.05, 1.15), xticks=index)
    ax.set_title("(b) ReLU, middle layers")
    ax.legend(loc="center right")


def _draw_likeness(setting: Setting, ax: Axes, runs: xr.Dataset) -> None:
    layers = np.arange(1, runs.sizes["layer"] + 1)
    shifts = np.linspace(-0.1, 0.1, len(setting.depths))
    for depth, colour, shift in zip(setting.depths, plot.PALETTE, shifts, strict=False):
        values = runs.alike.sel(depth=depth).transpose("layer", "seed")
        for column in range(runs.sizes["seed"]):
            plot.simulation(ax, layers + shift, values[:, column], color=colour, markersize=2.0)
    guide(ax, y=0.9)
    ax.set(xlabel=r"layer $l$", ylabel="cosine, ReLU and linear", ylim=(0, 1.03), xticks=layers)
    ax.set_title("(c) likeness of the two")


def _draw_delay(setting: Setting, ax: Axes, runs: xr.Dataset) -> None:
    depths = np.array(list(setting.depths))
    for depth, colour, values in zip(
        depths, plot.PALETTE, runs.delay.transpose("depth", "seed"), strict=False
    ):
        spread = np.linspace(-0.1, 0.1, len(values))
        plot.simulation(ax, depth + spread, values, color=colour, markersize=2.4)
    line = np.linspace(depths[0] - 0.4, depths[-1] + 0.4, 20)
    plot.theory(ax, line, 2 ** (line / 2), r"$2^{L/2}$")
    ax.set(xlabel=r"depth $L$", ylabel="ReLU's time / linear's", xticks=depths, ylim=(0, None))
    ax.set_title("(d) delay")
    ax.legend(loc="upper left")


# --- the claims ---------------------------------------------------------------------------------------------


def _rows(values: xr.DataArray) -> xr.DataArray:
    return values.transpose("seed", "depth", ...)


def _worst(name: str, target: float, **where: Any) -> Measure:
    """The largest relative distance from the target in the ReLU network, for each seed and depth."""
    return lambda runs: _rows(worst(runs[name].sel(network="ReLU").isel(where), target))


SMALL_START = Check(
    "largest ‖W_l(0)‖₂ / ‖w‖^(1/L) of a middle layer",
    lambda runs: _rows(worst(runs.initial)),
    at_most(0.02, "a small start: ten times that of the three layers of Fig. 5; a smaller one takes hours"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Eqs. (40) and (41) at four and five layers."""
    return (*_on_ranks(setting), *_on_norms(setting), *_on_likeness(setting))


def _on_ranks(setting: Setting) -> tuple[Claim, ...]:
    """The ranks and singular values of the layers."""
    norms = " and ".join(f"{scale:g}" for scale in setting.scales)
    return (
        Claim(
            id="deeper-first-rank-one",
            sentence="The first layer of the ReLU network has rank one.",
            source="workshop, eq. (40a)",
            metric="stable rank of W₁, for each seed and depth",
            measure=lambda runs: _rows(runs.first_rank.sel(network="ReLU")),
            expected=at_most(
                1 + 0.1 * setting.start, f"the initial weights: ({setting.largest[0]:g})² of the squared norm"
            ),
            form="{:.3f}",
        ),
        Claim(
            id="deeper-middle-rank-two",
            sentence="The ReLU network's middle layers have rank two: no third singular value grows.",
            source="workshop, eq. (40b)",
            metric="largest σ₃(W_l) at the end / ‖W_l(0)‖₂, for each seed and depth",
            measure=lambda runs: _rows(
                worst(runs.singular_value.sel(network="ReLU").isel(value=2) / runs.initial)
            ),
            expected=at_most(
                1.05, "Weyl's inequality allows 1 for a change of rank two; 5 % for what is not"
            ),
        ),
        Claim(
            id="deeper-singular-values",
            sentence="The two singular values of the ReLU network's middle layers are equal, ‖w‖^(1/L).",
            source="workshop, eqs. (40) and (41)",
            metric="largest relative distance of σ₁ and σ₂ of a middle layer from ‖w‖^(1/L)",
            measure=_worst("singular_value", 1.0, value=[0, 1]),
            expected=at_most(0.1, f"our reading of approximately; the initial norms are {norms}"),
        ),
        Claim(
            id="deeper-stable-rank",
            sentence="The stable rank of the ReLU network's middle layers is two.",
            source="workshop, eq. (40b)",
            metric="largest distance of a middle layer's stable rank from 2, relative to 2",
            measure=_worst("middle_rank", 2.0),
            expected=at_most(0.1, "1 + (σ₂/σ₁)², where the two are equal to ten per cent"),
        ),
    )


def _on_norms(setting: Setting) -> tuple[Claim, ...]:
    """The norms of the layers."""
    scale, depth = setting.largest
    return (
        Claim(
            id="deeper-equal-norms",
            sentence="All layers of a network have the same norm.",
            source="workshop, Appendix F.1",
            metric="(largest - smallest) / mean norm of a network's layers",
            measure=lambda runs: _rows(spread(runs)),
            expected=at_most(
                max(0.02 * setting.start * np.sqrt(Setting.width / setting.width), 10 * setting.rtol),
                f"differences of squared norms are conserved: √(2/{setting.width}) of {scale:g}², "
                f"at {depth} layers",
            ),
        ),
        Claim(
            id="deeper-norms",
            sentence="In the ReLU network the norm of every layer is √2 ‖w‖^(1/L).",
            source="workshop, eqs. (40) and (41)",
            metric="largest relative distance of a layer's norm from √2 ‖w‖^(1/L)",
            measure=_worst("norm", np.sqrt(2)),
            expected=at_most(
                max(0.04 * setting.start, setting.unlearned),
                f"the initial weights: {scale:g}² of a squared norm of 2",
            ),
        ),
    )


def _on_likeness(setting: Setting) -> tuple[Claim, ...]:
    """How alike the two networks are."""
    scale, depth = setting.largest
    alone = f"initial weights alone are {scale**2 / 2:.1g} at {depth} layers"
    return (
        Claim(
            id="deeper-two-blocks",
            sentence="The ReLU network's middle layers are two blocks that are not negative.",
            source="workshop, eq. (40b)",
            metric="largest share of a middle layer's squared norm in all other entries",
            measure=lambda runs: _rows(worst(runs.outside)),
            expected=at_most(0.1, f"our reading of approximately; {alone}"),
        ),
        Claim(
            id="deeper-alike-layers",
            sentence="W₁, W_L and the positive entries of the layers between are alike in the two networks.",
            source="workshop, Appendix F.1",
            metric="least cosine of the two networks' layers (middle ones: where the linear one is positive)",
            measure=lambda runs: _rows(runs.alike.min("layer")),
            expected=at_least(0.9, "our reading of approximately the same structure, as for three layers"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(SMALL_START,),
            form="{:.2f}",
            note=(
                "Both networks fall to the same form, but not with the same neurons: the likeness fades with "
                "depth, and wider networks do not restore it (0.76 and 0.79 for 200 neurons, four layers)."
            ),
        ),
        Claim(
            id="deeper-negative-zero",
            sentence="Middle entries that are negative in the linear network are zero in the ReLU network.",
            source="workshop, Appendix F.1",
            metric="largest share of a ReLU middle layer's squared norm in these entries",
            measure=lambda runs: _rows(worst(runs.where_negative)),
            expected=at_most(0.05, f"our reading of zero; {alone}"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(SMALL_START,),
            note="Some neurons have joined the other chain than in the linear network.",
        ),
        Claim(
            id="deeper-off-sample",
            sentence="The ReLU network computes the linear target off the sample too.",
            source="workshop, eq. (41)",
            metric=f"relative error of f(x) = w·x for {setting.probes} Gaussian x",
            measure=lambda runs: _rows(runs.off_sample.sel(network="ReLU")),
            expected=at_most(
                5 * setting.unlearned,
                f"five times what is left to learn on the sample, {100 * setting.unlearned:.2g} per cent",
            ),
        ),
    )


DEEPER = Experiment(
    name="deeper",
    title="Low-rank weights in networks of four and five layers",
    setting=Setting(),
    simulation=run_deeper,
    picture=draw_deeper,
    statements=claims,
    seeds=20,
    cost=4.2,
    about=(
        "As Fig. 5, with four and five layers, 50 neurons a layer and 160 samples: the paper's own sizes are "
        "not in the text we have. The initial norms of a layer are 0.15 and 0.3, a tenth and a fifth of the "
        "final ones, because the time to escape grows like their power -2 and -3. A run ends when 1e-4 of "
        "the loss, 1 % of the target, is left. Norms and singular values are in units of ‖w‖^(1/L). Dotted "
        "in the figure: ‖W_l(0)‖₂."
    ),
)
