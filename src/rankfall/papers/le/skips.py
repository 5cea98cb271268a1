"""Residual blocks with the three kinds of skips, under two linear layers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall._naming import unknown
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_least, at_most, seed_lines
from rankfall.papers.le.late import (
    Late,
    arrived,
    constant,
    drift,
    last,
    late_flow,
    log_time_axis,
    samples,
    spectra,
    stable_rank,
    within_bound,
)

BLOCK = {"identity": "U", "diagonal": "[U D]", "free": "[U Z]"}  # what makes the output of the block


@dataclass(frozen=True)
class Setting(Late):
    """A layer, a residual block, and two linear layers."""

    kinds: tuple[str, ...] = ("identity", "diagonal", "free")  # of the skip
    features: int = 4  # that enter the block, and as many leave it
    width: int = 6  # neurons within the block
    behind: int = 5  # neurons between the two linear layers
    slope: float = 0.7

    def __post_init__(self) -> None:
        """Refuse kinds that there are not."""
        super().__post_init__()
        if not self.kinds:
            raise ValueError(f"kinds must be one or more of {', '.join(BLOCK)}: there is none.")
        for kind in self.kinds:
            if kind not in BLOCK:
                raise unknown("kind of skip", kind, BLOCK)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of all layers."""
        return (self.dim, self.features, self.width, self.features, self.behind, 1)


def run_skips(setting: Setting, seed: int) -> xr.Dataset:
    """The spectra of the block's last layer and of the linear layer behind, for each kind of skip."""
    data = samples(setting, seed)
    parts = []
    for kind in setting.kinds:
        skips = (None, None, _skip(setting, kind, seed), None, None)
        start = Network.gaussian(
            setting.widths, setting.slope, setting.scale, seed, linear_tail=2, skips=skips
        )
        run = late_flow(setting, start, data, "logistic")
        found = spectra(run, start, 3, [f"{BLOCK[kind]}, {kind}", f"W, {kind}"])
        conserved = ("matrix", np.full(2, drift(run).max()))
        parts.append(found.assign(conserved=conserved).assign_coords(behind=("matrix", [False, True])))
    return xr.concat(parts, dim="matrix")


def _skip(setting: Setting, kind: str, seed: int) -> Any:
    """An identity, or a Gaussian vector or matrix with a norm of about `scale`."""
    width, rng = setting.features, np.random.default_rng([seed, 1])
    if kind == "identity":
        return kind
    shape = (width,) if kind == "diagonal" else (width, width)
    return rng.normal(0.0, setting.scale / np.sqrt(np.prod(shape)), shape)


def _behind(runs: xr.Dataset) -> xr.Dataset:
    """The linear layers behind the blocks."""
    return runs.isel(matrix=runs.behind.values.astype(bool).reshape(-1, runs.sizes["matrix"])[0])


def _block(runs: xr.Dataset, kind: str) -> xr.Dataset:
    return runs.sel(matrix=f"{BLOCK[kind]}, {kind}")


def draw_skips(setting: Setting, runs: xr.Dataset) -> Figure:
    """The excess over its bound behind the blocks and at their ends, and the stable ranks at the end."""
    with plot.style():
        figure, axes = plot.panels(3)
        for colour, kind in zip(plot.PALETTE, setting.kinds, strict=False):
            for ax, name in zip(axes[0], (f"W, {kind}", f"{BLOCK[kind]}, {kind}"), strict=False):
                one = runs.sel(matrix=name).transpose("record", "seed").isel(record=slice(1, None))
                seed_lines(ax, one.log10_time, one.excess / one.bound, colour, name)
        titles = ("(a) the linear layer $W$ behind", "(b) the end of the block")
        for ax, title in zip(axes[0], titles, strict=False):
            ax.axhline(1, color=plot.INK, linewidth=0.9, label="bound, were all linear")
            log_time_axis(ax)
            ax.set(ylabel=r"$(\|W\|_F^2 - \|W\|_2^2)\,/\,D$", title=title)
        axes[0, 0].set_ylim(0, 1.05)
        axes[0, 1].set(yscale="log", ylim=(0.15, 80))
        axes[0, 1].legend(loc="upper left")
        ends = last(stable_rank(runs)).transpose("matrix", "seed") - 1
        ax = axes[0, 2]
        for place, name in enumerate(runs.matrix.values):
            colour = plot.PALETTE[setting.kinds.index(str(name).split(", ")[1])]
            ax.plot(
                ends.sel(matrix=name),
                np.full(runs.sizes["seed"], place),
                "o",
                color=colour,
                markersize=3,
                alpha=0.6,
            )
        ax.set_yticks(range(runs.sizes["matrix"]), labels=list(runs.matrix.values))
        ax.set(xscale="log", xlabel=r"$\|W\|_F^2/\|W\|_2^2 - 1$")
        ax.set_title(f"(c) at a loss of $10^{{{setting.log10_last:.0f}}}$")
    return figure


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What happens behind residual blocks, and at their ends; of the kinds of skips that are run."""
    depth = len(setting.widths) - 1
    every = set(setting.kinds) == set(BLOCK)
    kinds = "of all three kinds" if every else f"with skips of the kind {' or '.join(setting.kinds)}"
    behind, free, diagonal, conserved = (
        Claim(
            id="rank-one-behind-blocks",
            sentence=f"Behind residual blocks {kinds} the linear layer falls to rank one.",
            source="abstract (skip connections), for leaky ReLU",
            metric="largest stable rank of the layer behind the block, at the end",
            measure=lambda runs: last(stable_rank(_behind(runs))).max("matrix"),
            expected=at_most(
                1 + setting.share(0.03, depth),
                f"1 + D/‖W‖₂², with D < {setting.started(0.4):.2g} and "
                f"‖W‖₂² > {setting.grown(19, depth):.2g} at a loss of {setting.last_loss:g}",
            ),
            hypotheses=(arrived(setting),),
            form="{:.4f}",
        ),
        Claim(
            id="free-skip-bound",
            sentence="With a free skip Z, [U Z] is never further from rank one than its start tells.",
            source="rankfall",
            metric="largest (‖[U Z]‖_F² − ‖[U Z]‖₂²) / bound over times",
            measure=lambda runs: (_block(runs, "free").excess / _block(runs, "free").bound).max("record"),
            expected=within_bound(setting, "WᵀW − UUᵀ − ZZᵀ is conserved"),
        ),
        Claim(
            id="diagonal-skip-exceeds",
            sentence="With a diagonal skip D, [U D] gets further from rank one than such a bound.",
            source="rankfall",
            metric="largest (‖[U D]‖_F² − ‖[U D]‖₂²) / bound over times, in the seed where it is largest",
            measure=lambda runs: (_block(runs, "diagonal").excess / _block(runs, "diagonal").bound).max(),
            expected=at_least(1.5, "only the diagonal of WᵀW − UUᵀ − D² is conserved; clearly above 1"),
            note="The bound would hold if the whole matrix were conserved. 16 of 20 seeds leave it.",
        ),
        Claim(
            id="skips-conserve",
            sentence="Flow conserves what a kind of skip allows: a matrix, its diagonal, or a sum of two.",
            source="rankfall",
            metric="largest change of a conserved number since the start, over ‖W‖² of all weights",
            measure=lambda runs: runs.conserved.max("matrix"),
            expected=constant(setting),
        ),
    )
    blocks = {"free": free, "diagonal": diagonal}
    return (behind, *(claim for kind, claim in blocks.items() if kind in setting.kinds), conserved)


SKIPS = Experiment(
    name="skips",
    title="Residual blocks with three kinds of skips, under two linear layers",
    setting=Setting(),
    simulation=run_skips,
    picture=draw_skips,
    statements=claims,
    seeds=20,
    cost=1.8,
    about=(
        "4-4-6-4-5-1: a layer A, a block h = S u + U σ(V u) of 6 neurons, and two linear layers; the skip S "
        "is the identity, a trained diagonal D or a trained matrix Z. Gaussian starts of norm 0.5, logistic "
        "loss down to 1e-300, 8 orthogonally separable samples in 4 dimensions. Leaky ReLU of slope 0.7: at "
        "slopes of 0.2 to 0.6 a few of these flows stick to kinks, and are slow to follow. Our choice: "
        "the paper's own settings are not known to us."
    ),
)
