"""Whole ReLU layers: limits of rank two, where linear networks have rank one."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, orthogonally_separable
from rankfall.limits import Limit, limit
from rankfall.measure import RANK
from rankfall.network import Network
from rankfall.papers.lab import (
    Claim,
    Experiment,
    all_reached,
    guide,
    near,
    scientific,
    small_residuals,
    with_certificates,
)
from rankfall.theory.results import phuong_separable

SETS = ("right angle", "two cones")
NETWORKS = ("ReLU", "linear")
RELU, LINEAR = (tuple(f"{network}, {name}" for name in SETS) for network in NETWORKS)  # the certificates


@dataclass(frozen=True)
class Setting:
    """Two-layer networks on two data sets. Ours: the paper's own counterexample is not known to us."""

    width: int = 20  # with 10 some starts have no neuron of the right sign on a sample
    scale: float = 0.1  # the norm of the first layer at the start
    dim: int = 2  # the figure shows the first two coordinates
    n: int = 8  # samples in the two cones
    angle: float = 0.6 * np.pi  # between the axes of the cones
    lengths: tuple[float, ...] = (0.5, 1.5)  # between which those of the two samples at a right angle lie

    def __post_init__(self) -> None:
        """Refuse what is no plane, or no range of lengths."""
        if self.dim < 2:
            raise ValueError(f"dim must be at least 2, for a right angle; {self.dim} is not.")
        if len(self.lengths) != 2:
            raise ValueError(f"lengths must be two, such as 0.5,1.5: there are {len(self.lengths)}.")


def run_counterexample(setting: Setting, seed: int) -> xr.Dataset:
    """The limits of a ReLU network and of the linear network with the same start, on two data sets."""
    lengths = np.random.default_rng(seed).uniform(setting.lengths[0], setting.lengths[1], 2)
    sets = (
        Data(lengths[:, None] * np.eye(2, setting.dim), [1.0, -1.0], "two samples at a right angle"),
        orthogonally_separable(setting.n, setting.dim, seed, setting.angle),
    )
    found: list[xr.Dataset] = []
    proofs: dict[str, Limit] = {}
    for name, data in zip(SETS, sets, strict=True):
        start = Network.balanced((setting.dim, setting.width, 1), 0.0, setting.scale, seed)
        linear = Network(start.weights, slope=1.0)
        ends = [limit(network, data, optimality=False, show=False) for network in (start, linear)]
        kept = xr.concat([_kept(end) for end in ends], dim=xr.Variable("network", list(NETWORKS)))
        predicted = phuong_separable.class_margins(data.x, data.y)
        kept["predicted"] = np.nan if predicted is None else predicted.stable_rank
        found.append(kept)
        proofs |= {f"{network}, {name}": end for network, end in zip(NETWORKS, ends, strict=True)}
    return with_certificates(xr.concat(found, dim=xr.Variable("data", list(SETS))), seed, proofs)


def _kept(end: Limit) -> xr.Dataset:
    return xr.Dataset(
        {
            "rank": float(end.rank),
            "stable_rank": end.stable_rank,
            "certified": int(end.reached),
            "residual": max(end.residuals.values()),
            "neurons": (("neuron", "coordinate"), end.W),
        }
    )


def _of(runs: xr.Dataset, network: str) -> xr.Dataset:
    return runs.sel(network=network)


def _in_order(values: xr.DataArray) -> xr.DataArray:
    return values.transpose("seed", "data", ...)


def draw_counterexample(_: Setting, runs: xr.Dataset) -> Figure:
    """The neurons of two limits in the plane of the data, and the stable ranks of all."""
    with plot.style():
        figure, axes = plot.panels(3)
        for ax, network, letter in zip(axes[0], ("ReLU", "linear"), "ab", strict=False):
            _draw_neurons(ax, _of(runs, network).isel(seed=0).neurons.sel(data=SETS[0]).values)
            ax.set_title(f"({letter}) neurons of the {network} limit")
        ax = axes[0, 2]
        shapes = zip(SETS, plot.PALETTE, strict=False)
        for name, colour in shapes:
            one = runs.sel(data=name)
            measured = _of(one, "ReLU").stable_rank
            plot.simulation(ax, one.predicted, measured, f"ReLU, {name}", color=colour, markevery=1)
            flat = _of(one, "linear").stable_rank
            plot.simulation(
                ax, one.predicted, flat, f"linear, {name}", color=colour, markevery=1, markerfacecolor="none"
            )
        line = np.array([1.3, 2.0])
        plot.theory(ax, line, line, "closed form")
        ax.set(xlabel="closed form for the classes", ylabel=r"$\|W_1\|_F^2 / \|W_1\|_2^2$", ylim=(0.95, 2.75))
        ax.set_title("(c) stable rank of the limits")
        ax.legend(loc="upper left", ncols=1, fontsize=7)
    return figure


def _draw_neurons(ax: Axes, rows: np.ndarray) -> None:
    """The rows of W1 as rays, and the two axes on which the samples lie."""
    for row in rows:
        ax.plot([0, row[0]], [0, row[1]], color=plot.PALETTE[0], linewidth=0.8, alpha=0.8)
    ax.plot(rows[:, 0], rows[:, 1], "o", color=plot.PALETTE[0], markersize=3)
    guide(ax, x=0, y=0, linewidth=0.6)
    ax.set(xlabel=r"along $x_1$ ($y = +1$)", ylabel=r"along $x_2$ ($y = -1$)")
    ax.set_aspect("equal", adjustable="datalim")


REACHED = all_reached()
RESIDUALS = small_residuals()
RANK_TEXT = f"rank of W₁ in the limit: singular values above {scientific(RANK)} of the largest"


def claims(_: Setting) -> tuple[Claim, ...]:
    """The ranks of the two limits."""
    return (
        Claim(
            id="relu-limit-rank-two",
            sentence="A whole ReLU layer need not fall to rank one: here its limit has rank two.",
            source="abstract (not true in general for the full matrix)",
            metric=RANK_TEXT,
            measure=lambda runs: _in_order(_of(runs, "ReLU")["rank"]),
            expected=near(2, 0.0, "a ray for each class", "{:.0f}"),
            proofs=RELU,
            hypotheses=(REACHED, RESIDUALS),
            form="{:.0f}",
        ),
        Claim(
            id="linear-limit-rank-one",
            sentence="The linear network from the same start ends with rank one.",
            source="abstract (of earlier work on linear networks)",
            metric=RANK_TEXT,
            measure=lambda runs: _in_order(_of(runs, "linear")["rank"]),
            expected=near(1, 0.0, "the theorem for linear networks", "{:.0f}"),
            proofs=LINEAR,
            hypotheses=(REACHED, RESIDUALS),
            form="{:.0f}",
        ),
        Claim(
            id="rank-from-data",
            sentence="How far the ReLU layer stays from rank one is known from the data alone.",
            source="rankfall, with the limit of Phuong and Lampert 2021",
            metric="stable rank of W₁ / that of A u₊u₊ᵀ + B u₋u₋ᵀ, of the classes' hard margins, − 1",
            measure=lambda runs: _in_order(_of(runs, "ReLU").stable_rank / runs.predicted - 1),
            expected=near(0.0, 1e-8, "a hundred times the residual that a certificate allows", "{:.0f}"),
            proofs=RELU,
            hypotheses=(REACHED,),
            form="{:.1e}",
        ),
    )


COUNTEREXAMPLE = Experiment(
    name="counterexample",
    title="Whole ReLU layers: limits of rank two",
    setting=Setting(),
    simulation=run_counterexample,
    picture=draw_counterexample,
    statements=claims,
    seeds=20,
    cost=1.2,
    about=(
        "Two-layer networks of 20 neurons, both layers trained, exponential loss, balanced Gaussian starts "
        "of norm 0.1. Data in the plane: two samples at a right angle, one of each class, of random lengths; "
        "and 8 samples of two classes in cones, with ⟨x, x'⟩ > 0 within a class and ≤ 0 between them "
        "(orthogonally separable). Both are linearly separable. The limits are followed, and proved to be "
        "KKT points. With 10 neurons some starts have none of the right sign on a sample, and do not "
        "separate the two. The paper's own counterexample is not known to us: this is ours."
    ),
)
