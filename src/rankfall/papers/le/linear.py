"""Deep linear networks: every layer falls to rank one."""

from dataclasses import dataclass
from itertools import cycle

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_least, at_most, between, near, seed_lines
from rankfall.papers.le.late import (
    Late,
    arrived,
    last,
    late_flow,
    log_time_axis,
    samples,
    spectra,
    stable_rank,
    within_bound,
)


@dataclass(frozen=True)
class Setting(Late):
    """Networks of several depths, with hidden layers of the same widths as far as they go."""

    depths: tuple[int, ...] = (3, 4)
    hidden: tuple[int, ...] = (12, 6, 5)  # neurons of the hidden layers of the deepest network
    losses: tuple[str, ...] = ("exponential", "logistic")  # of the networks, in turn

    def __post_init__(self) -> None:
        """Refuse depths that no late flow, or no network of these widths has."""
        super().__post_init__()
        widths = len(self.hidden)
        if widths < 2:
            raise ValueError(f"hidden must have at least two widths, such as 12,6: it has {widths}.")
        if not (self.depths and self.losses):
            raise ValueError("depths and losses must not be empty: there is no network to run.")
        for depth in self.depths:
            if depth < 3:
                raise ValueError(f"depths must be at least 3; {depth} is not.")
            if depth > widths + 1:
                needs = (
                    f"a network of {depth} layers needs {depth - 1} hidden widths, and `hidden` has {widths}"
                )
                raise ValueError(f"{needs}: add widths, or set depths to at most {widths + 1}.")

    @property
    def deepest(self) -> int:
        """The largest number of layers: its weights grow least."""
        return max(self.depths)

    def grown_over(self, usual: float) -> str:
        """The least squared norm of a layer at the end, from that of the usual networks, as text."""
        return f"{self.grown(usual, self.deepest):.2g}"

    @property
    def networks(self) -> tuple[tuple[int, tuple[int, ...], str], ...]:
        """The depth, the widths and the loss of each network."""
        return tuple(
            (depth, (self.dim, *self.hidden[: depth - 1], 1), loss)
            for depth, loss in zip(self.depths, cycle(self.losses), strict=False)
        )


def run_linear(setting: Setting, seed: int) -> xr.Dataset:
    """The spectra of all layers but the last, a row, along the late flow of two linear networks."""
    data = samples(setting, seed)
    parts = []
    for depth, widths, loss in setting.networks:
        # Slope 1 makes it linear. The tail is that of the ReLU networks elsewhere, to compile the flow once.
        start = Network.gaussian(widths, 1.0, setting.scale, seed, linear_tail=depth - 1)
        names = [f"W{k}, depth {depth}" for k in range(1, depth)]
        found = spectra(late_flow(setting, start, data, loss), start, 1, names)
        parts.append(found.assign_coords(depth=("matrix", np.full(depth - 1, depth))))
    return xr.concat(parts, dim="matrix")


def norm_ratio(runs: xr.Dataset) -> xr.DataArray:
    """The largest over the smallest Frobenius norm of the layers of a network, at the end."""
    squares = last(runs.square).groupby("depth")
    ratios: xr.DataArray = squares.max() / squares.min()
    return ratios.max("depth") ** 0.5


def draw_linear(_: Setting, runs: xr.Dataset) -> Figure:
    """One run with its bounds; stable ranks and alignment of all runs over the growth of the weights."""
    with plot.style():
        figure, axes = plot.panels(3)
        depth = int(runs.depth.max())
        draw_excess(axes[0, 0], runs.isel(seed=0, matrix=runs.depth.values == depth), 1)
        axes[0, 0].set_title(f"(a) excess over rank one, depth {depth}, one run")
        lines = {
            "(b) stable rank": (stable_rank(runs) - 1, r"$\|W_k\|_F^2/\|W_k\|_2^2 - 1$", -1, 1.2),
            "(c) alignment of neighbours": (
                1 - runs.aligned,
                r"$1 - \langle v_{k+1}, u_k\rangle^2$",
                -2,
                0.8,
            ),
        }
        for ax, (title, (values, label, power, height)) in zip(axes[0, 1:], lines.items(), strict=True):
            for colour, depth in zip(plot.PALETTE, np.unique(runs.depth), strict=False):
                draw_against_growth(ax, runs, values, runs.depth.values == depth, colour, f"depth {depth}")
            x = np.array([4.0, 100.0])
            ax.plot(x, height * x**power, color=plot.GUIDE, linestyle="--", label=rf"slope $-{-power}$")
            ax.set(xlabel=r"$\|W_k\|_F^2$", ylabel=label, title=title, xscale="log", yscale="log")
            ax.legend()
    return figure


def draw_excess(ax: Axes, run: xr.Dataset, first: int) -> None:
    """The excess of each matrix of one run, from W_first on, as markers; its bound and where it settles."""
    late = run.isel(record=slice(1, None))
    for place, colour in zip(range(run.sizes["matrix"]), plot.PALETTE, strict=False):
        one = late.isel(matrix=place)
        plot.simulation(ax, one.log10_time, one.excess, rf"$W_{first + place}$", color=colour)
        ax.axhline(float(one.bound), color=colour, linewidth=0.9)
        plot.theory(ax, one.log10_time[-12:], one.settled[-12:], linestyle="--")
    plot.theory(ax, [], [], "bound $D_k$")
    plot.theory(ax, [], [], "where it settles", linestyle="--")
    log_time_axis(ax)
    ax.set(ylabel=r"$\|W_k\|_F^2 - \|W_k\|_2^2$")
    ax.set_ylim(bottom=0)
    ax.legend(loc="lower right", ncols=2)


def draw_against_growth(
    ax: Axes, runs: xr.Dataset, values: xr.DataArray, chosen: np.ndarray, colour: str, label: str
) -> None:
    """A measure over the squared norm of the layer: a thin line for each matrix and seed, from the fit on."""
    grown = runs.square > runs.square.isel(record=0).max() * 1.5
    order = ("record", "seed", "matrix")
    x, y = (
        v.where(grown).isel(matrix=chosen).transpose(*order).values.reshape(v.sizes["record"], -1)
        for v in (runs.square, values)
    )
    seed_lines(ax, x, y, colour, label)


ABOUT = (
    "Samples: 8 in 4 dimensions, orthogonally separable (within a class ⟨x, x'⟩ > 0, between classes ≤ 0; "
    "axes at 108°). Gaussian starts of norm 0.5 a layer. 4-12-6-1 with the exponential, 4-12-6-5-1 with the "
    "logistic loss, followed by gradient flow down to a loss of 1e-300 (t of about 10²⁹⁵). The settings of "
    "the paper's own experiments are not known to us: these are our choice. D_k is known at the start; "
    "C_l = W_{l+1}ᵀW_{l+1} − W_l W_lᵀ, and u, v are leading singular vectors."
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What happens to the layers of deep linear networks."""
    return (*_on_rank(setting), *_on_balance(setting))


def _on_rank(setting: Setting) -> tuple[Claim, ...]:
    """How near every layer is to rank one."""
    deepest, start = setting.deepest, setting.started(0.53)
    unsettled = setting.share(setting.started(0.002), deepest)
    return (
        Claim(
            id="linear-rank-one",
            sentence="Trained on separable data, every layer of a deep linear network falls to rank one.",
            source="abstract (of earlier work on linear networks)",
            metric="largest stable rank ‖W‖_F²/‖W‖₂² of a layer at the end",
            measure=lambda runs: last(stable_rank(runs)).max("matrix"),
            expected=at_most(
                1 + setting.share(0.02, deepest),
                f"1 + D_k/‖W_k‖₂², with D_k < {start:.2g} and ‖W_k‖₂² > {setting.grown_over(30)} "
                f"at a loss of {setting.last_loss:g}",
            ),
            hypotheses=(arrived(setting),),
            form="{:.4f}",
        ),
        Claim(
            id="linear-excess-bound",
            sentence="A layer is never further from rank one than a number D_k that its start tells.",
            source="rankfall, from the training invariances of the abstract",
            metric="largest (‖W_k‖_F² − ‖W_k‖₂²)/D_k over layers and times, "
            "D_k = Σ_{l ≥ k} (λ_max(C_l) − tr C_l)",
            measure=lambda runs: (runs.excess / runs.bound).max(["record", "matrix"]),
            expected=within_bound(setting, "a bound at all times"),
        ),
        Claim(
            id="linear-excess-settles",
            sentence="What is left beside rank one settles at a number that u, v and the start tell.",
            source="rankfall",
            metric="(‖W_k‖_F² − ‖W_k‖₂²) / Σ_{l ≥ k} (v_{l+1}ᵀ C_l v_{l+1} − tr C_l) at the end, each layer",
            measure=lambda runs: (last(runs.excess) / last(runs.settled)).transpose("seed", "matrix"),
            expected=between(
                1 - setting.share(0.05, deepest),
                1 + 1000 * setting.rtol,
                "never above it, and short of it by at most Σ (λ_max − λ_min)(C_l)²/(4 gap): below "
                f"{unsettled:.2g} a layer here, beside {setting.started(0.1):.2g} and more",
            ),
            form="{:.4f}",
            note="So the bound D_k is reached only where v is the top eigenvector of C.",
        ),
    )


def _on_balance(setting: Setting) -> tuple[Claim, ...]:
    """How neighbouring layers agree."""
    least, unequal = 1 - setting.share(0.02, setting.deepest), setting.started(0.3)
    return (
        Claim(
            id="neighbours-align",
            sentence="The leading singular vectors of neighbouring layers align.",
            source="abstract (alignment)",
            metric="smallest ⟨v_{k+1}, u_k⟩² at the end",
            measure=lambda runs: last(runs.aligned).min("matrix"),
            expected=at_least(
                least,
                "1 − (λ_max − λ_min)(C_k)/(‖W_k‖₂² − D_k), the least possible, is "
                f"{least:.2g} and more at the end",
            ),
            form="{:.6f}",
            note="The figure shows that 1 − ⟨v, u⟩² falls like ‖W‖⁻⁴: faster than the bound.",
        ),
        Claim(
            id="equal-norms",
            sentence="The norms of the layers equalise.",
            source="rankfall, from the training invariances of the abstract",
            metric="largest/smallest ‖W_k‖_F of a network at the end",
            measure=norm_ratio,
            expected=near(
                1.0,
                setting.share(0.005, setting.deepest),
                f"differences of ‖W_k‖_F² stay what they are, below {unequal:.2g}, "
                f"beside ‖W_k‖_F² > {setting.grown_over(30)}",
            ),
            form="{:.5f}",
        ),
    )


LINEAR = Experiment(
    name="linear",
    title="Deep linear networks: every layer falls to rank one",
    setting=Setting(),
    simulation=run_linear,
    picture=draw_linear,
    statements=claims,
    seeds=20,
    cost=0.9,
    about=ABOUT,
)
