"""Fig. 4: a bias-free ReLU network that evolves like several independent linear networks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall._naming import unknown
from rankfall.data import Data, orthogonal_pair, xor
from rankfall.dynamics import exact_flow
from rankfall.loss import square
from rankfall.network import Network
from rankfall.papers.lab import (
    Claim,
    Experiment,
    at_least,
    at_most,
    finished,
    guide,
    near,
    scientific,
    seed_lines,
)
from rankfall.theory import Situation
from rankfall.theory.results import zhang_modes

SEEN = 0.02  # of the height of a printed panel: about the width of its lines
SETS = {"pair": orthogonal_pair, "xor": xor}  # the points of either panel


@dataclass(frozen=True)
class Setting:
    """Fig. 4 shows pictures only: all of these numbers are ours."""

    sets: tuple[str, ...] = ("pair", "xor")  # of `SETS`
    width: int = 40
    scale: float = 1e-3  # the norm of either layer
    records: int = 61
    ends: tuple[float, ...] = (12.0, 9.0)  # the last point is half learned at about 6.5 and 5
    together: float = 12.0  # the end for two points of one label

    def __post_init__(self) -> None:
        """Refuse sets that there are not, or that have no end."""
        for name in self.sets:
            if name not in SETS:
                raise unknown("set", name, SETS)
        if not self.sets or len(self.sets) != len(self.ends):
            told = f"{len(self.sets)} sets and {len(self.ends)} ends"
            raise ValueError(f"sets and ends must be as many, and one at least: these are {told}.")

    def times(self, name: str) -> np.ndarray:
        """The times of the records on one of the sets."""
        return np.linspace(0.0, dict(zip(self.sets, self.ends, strict=True))[name], self.records)


def run_modes(setting: Setting, seed: int) -> xr.Dataset:
    """The ReLU network on both sets, its linear networks, and two points of one label."""
    network = Network.gaussian((2, setting.width, 1), slope=0.0, scale=setting.scale, seed=seed)
    kept = [_modes(SETS[name](), setting.times(name), network) for name in setting.sets]
    along = np.concatenate([row.pop("along") for row in kept])
    dims = {"loss": ("record",), "apart": ("reading",), "weights": ("neuron", "axis")}
    dims |= {"linear": ("reading", "record"), "naive": (), "off": ()}
    merged = {name: (("set", *of), np.array([row[name] for row in kept])) for name, of in dims.items()}
    return xr.Dataset(
        {**merged, "along": (("point",), along), "both": _one_label(network, setting.together)},
        {"set": list(setting.sets), "reading": ["own neurons", "all neurons"]},
    )


def _modes(data: Data, times: np.ndarray, network: Network) -> dict[str, Any]:
    s = Situation(network, data, square.sum)
    run = exact_flow(
        network, data, "square.sum", times[-1], record=times, measures=["loss", "outputs"], show=False
    )
    loss, outputs = finished(run).loss.values, run["outputs"].values
    starts = ((zhang_modes.modes(s) ** 2).sum(axis=0), _all_weights(s))
    linear = [
        ((data.y - zhang_modes.course(times, data.y, s.norms, u2)) ** 2).sum(axis=1) / 2 for u2 in starts
    ]
    first = run.network.weights[0]
    lengths = np.linalg.norm(first, axis=1)
    cosines = first @ (s.x / s.norms[:, None]).T / lengths[:, None]
    own = cosines.argmax(axis=1)
    sines = np.sqrt(1 - np.minimum(cosines.max(axis=1), 1) ** 2)
    squares = np.array([(lengths[own == k] ** 2).sum() for k in range(data.n)])
    return {
        "loss": loss,
        "linear": linear,
        "apart": [np.abs(loss - total).max() / loss[0] for total in linear],
        "naive": np.abs(outputs - zhang_modes.course(times, data.y, s.norms, _first_sight(s))).max(),
        "off": np.linalg.norm(lengths * sines) / np.linalg.norm(first),
        "along": squares * s.norms / np.abs(data.y),
        "weights": first,
    }


def _first_sight(s: Situation) -> np.ndarray:
    """The u_k^2 if each point were learned by the neurons that see it at the start and have its sign."""
    z = s.x @ s.w.T / s.norms[:, None]
    chosen = (z > 0) & (np.sign(s.y)[:, None] * s.a > 0)
    return np.asarray((chosen * (np.abs(s.a) + z) ** 2).sum(axis=1) / 4)


def _all_weights(s: Situation) -> np.ndarray:
    """The u_k^2 of linear networks that start from all weights: what of every neuron grows on the point."""
    z = s.x @ s.w.T / s.norms[:, None]
    return np.asarray(((np.sign(s.y)[:, None] * s.a + z) ** 2).sum(axis=1) / 4)


def _one_label(network: Network, end: float) -> float:
    """Two orthogonal points of one label: the part of the first layer in neurons that see both at the end."""
    data = Data(np.eye(2), [1.0, 1.0], "one label")
    run = exact_flow(network, data, "square.sum", end, record=[end], measures=["loss"], show=False)
    first = finished(run).network.weights[0]
    both = (first @ data.x.T > 0).all(axis=1)
    return float((first[both] ** 2).sum() / (first**2).sum())


def draw_modes(setting: Setting, runs: xr.Dataset) -> Figure:
    """Fig. 4: the points with the first layer at the end, and the losses; the first seed strong."""
    with plot.style():
        figure, axes = plot.panels(2, len(setting.sets))
        for row, name, letters in zip(axes, setting.sets, ("ab", "cd"), strict=False):
            _draw_points(row[0], SETS[name](), runs.weights.sel(set=name).isel(seed=0).values)
            row[0].set_title(f"({letters[0]}) {('two orthogonal points', 'XOR')[name == 'xor']}")
            _draw_losses(row[1], setting.times(name), runs.sel(set=name))
            row[1].set_title(f"({letters[1]}) the loss, summed over the points")
        axes[0, 0].legend(loc="lower left")
        axes[-1, 1].legend(loc="lower left")
    return figure


def _draw_points(ax: Axes, data: Data, weights: np.ndarray) -> None:
    size = 1.8 * np.abs(data.x).max()
    longest = np.linalg.norm(weights, axis=1).max()
    for x, y in weights[np.linalg.norm(weights, axis=1) > 0.05 * longest] * np.abs(data.x).max() / longest:
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": plot.INK, "linewidth": 0.8})
    for label, colour, marker in ((1, plot.PALETTE[1], "P"), (-1, plot.PALETTE[0], "o")):
        chosen = data.x[data.y == label]
        ax.plot(*chosen.T, marker, color=colour, markersize=8, label=f"$y = {label:+d}$")
    guide(ax, x=0, y=0, linewidth=0.4)
    ax.set(xlim=(-size, size), ylim=(-size, size), xlabel="$x_1$", ylabel="$x_2$", aspect="equal")


def _draw_losses(ax: Axes, times: np.ndarray, runs: xr.Dataset) -> None:
    loss, linear = runs.loss.transpose("record", "seed"), runs.linear.isel(seed=0)
    seed_lines(ax, times, loss[:, 1:], plot.PALETTE[0], alpha=0.25)
    plot.simulation(ax, times, loss[:, 0], "ReLU network", color=plot.PALETTE[0])
    plot.theory(ax, times, linear.sel(reading="own neurons"), "linear, own neurons")
    dashed = {"color": plot.PALETTE[1], "linestyle": "--"}
    plot.theory(ax, times, linear.sel(reading="all neurons"), "linear, all neurons", **dashed)
    ax.set(xlabel=r"time $t/\tau$", ylabel="loss")


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Every point has a linear network, and neurons, of its own; and what does not follow."""
    return (*_on_losses(setting), *_on_neurons(setting), *_on_limits(setting))


def _on_losses(setting: Setting) -> tuple[Claim, ...]:
    """The losses."""
    left_out = at_most(10 * setting.scale**2, "five times ‖W(0)‖²‖x‖/|y|, which the closed form leaves out")
    pair, xor, early = (
        Claim(
            id="pair-two-linear-networks",
            sentence="Two orthogonal points: the loss is that of two linear networks with one point each.",
            source="TMLR, Fig. 4b",
            metric="largest |loss − sum of the linear losses| / initial loss; each from its own neurons",
            measure=lambda runs: runs["apart"].sel(set="pair", reading="own neurons"),
            expected=left_out,
            form="{:.1e}",
        ),
        Claim(
            id="xor-four-linear-networks",
            sentence="XOR: the loss is that of four linear networks with one point each.",
            source="TMLR, Fig. 4d",
            metric="largest |loss − sum of the linear losses| / initial loss; each from its own neurons",
            measure=lambda runs: runs["apart"].sel(set="xor", reading="own neurons"),
            expected=left_out,
            form="{:.1e}",
        ),
        Claim(
            id="all-weights-too-early",
            sentence="Linear networks that start from all of the weights learn visibly earlier.",
            source="rankfall, on another reading of TMLR, Fig. 4b and 4d",
            metric=f"largest |loss − sum of the linear losses| / initial loss; for {_named(setting)}",
            measure=lambda runs: runs["apart"].sel(reading="all neurons").transpose("seed", "set"),
            expected=at_least(SEEN, "what a reader can see: the width of a printed line"),
            note="A ReLU network has half or a quarter of its neurons for a point, and is late by "
            "ln(U²/u²)/(2|y|‖x‖). The caption must mean linear networks of the matching size.",
        ),
    )
    own = {"pair": pair, "xor": xor}
    return (*(claim for name, claim in own.items() if name in setting.sets), early)


def _named(setting: Setting) -> str:
    """The sets that are run, in words."""
    names = {"pair": "the pair", "xor": "XOR"}
    return " and for ".join(names[name] for name in setting.sets)


def _on_neurons(setting: Setting) -> tuple[Claim, ...]:
    """The neurons."""
    return (
        Claim(
            id="neurons-along-points",
            sentence="At convergence every neuron of the first layer lies along one of the points.",
            source="TMLR, Fig. 4a and 4c",
            metric=f"norm of W₁ off the neurons' own points / ‖W₁‖, for {_named(setting)}",
            measure=lambda runs: runs.off.transpose("seed", "set"),
            expected=at_most(
                2 * setting.scale, f"initial weights of norm {setting.scale:g} that do not grow"
            ),
            form="{:.1e}",
        ),
        Claim(
            id="own-neurons-alone",
            sentence="Each point has its neurons, and they learn it alone: two groups, or four.",
            source="TMLR, Fig. 4",
            metric=f"Σ‖w‖² over the neurons along a point / (|y|/‖x‖), for the points of {_named(setting)}",
            measure=lambda runs: runs.along.transpose("seed", "point"),
            expected=near(
                1.0,
                2 * max(setting.scale, 1e-3),
                "the initial weights, and what is left to learn at the end of the run",
            ),
            form="{:.5f}",
        ),
    )


def _on_limits(setting: Setting) -> tuple[Claim, ...]:
    """What does not follow."""
    return (
        Claim(
            id="first-sight-fails",
            sentence="First sight does not decide: neurons that see two points at the start count too.",
            source="rankfall",
            metric="largest error of f if only neurons that see x at the start and have its sign are counted",
            measure=lambda runs: runs.naive.transpose("seed", "set"),
            expected=at_least(
                max(1e-3, 10 * setting.scale**2),
                f"far more than what the course with those neurons leaves, {scientific(setting.scale**2)}",
            ),
            note="Such a neuron lets go of a point, or sticks to its kink: docs/theory/zhang_modes.md.",
        ),
        Claim(
            id="one-label-together",
            sentence="Inner products ≤ 0 do not suffice: orthogonal points of one label learn together.",
            source="rankfall",
            metric="part of ‖W₁‖² in neurons that see both points at the end; x = (1, 0), (0, 1), y = 1",
            measure=lambda runs: runs.both,
            expected=at_least(0.5, "most of the first layer; zero if the points decoupled"),
            form="{:.3f}",
        ),
    )


FIGURE_4 = Experiment(
    name="4",
    title="Two orthogonal points, and XOR: every point has a linear network of its own",
    setting=Setting(),
    simulation=run_modes,
    picture=draw_modes,
    statements=claims,
    seeds=20,
    cost=1.9,
    about=(
        "Orthogonal points of Boursier et al.: −1 at (−0.5, 1), +1 at (2, 1). XOR: +1 at ±(1, 1), −1 at "
        "±(1, −1); the paper's coordinates are not published. 40 ReLU neurons, Gaussian weights of norm "
        "0.001, summed square loss, the flow exact at the kinks. The linear networks have one sample each. "
        "The caption does not say what they start from; two readings are run: the parts of the ReLU "
        "network's neurons that end with the point, or all weights at once. In both the linear course is the "
        "logistic curve |y|/(1 + (|y|/(u²‖x‖) − 1)e^{−2|y|‖x‖t}) (docs/theory/zhang_modes.md)."
    ),
)

EXPERIMENTS = (FIGURE_4,)
