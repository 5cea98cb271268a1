"""ReLU networks whose last layers are linear: these fall to rank one, the ReLU layer below does not."""

from dataclasses import dataclass
from math import log, prod

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.measure import Spectrum, with_weights
from rankfall.network import Network
from rankfall.papers.lab import Check, Claim, Experiment, at_least, at_most, guide, near, seed_lines
from rankfall.papers.le.late import (
    arrived,
    last,
    late_flow,
    log_time_axis,
    samples,
    spectra,
    stable_rank,
    within_bound,
)
from rankfall.papers.le.linear import ABOUT, draw_excess
from rankfall.papers.le.linear import Setting as Layers
from rankfall.theory.mathematics import sign_tree, sum_over_paths
from rankfall.theory.results import phuong_separable
from rankfall.trajectory import Trajectory


@dataclass(frozen=True)
class Setting(Layers):
    """The linear networks, but with ReLU after the first layer."""

    late_loss: float = 1e-30  # from which on the signs of the weights are watched

    def __post_init__(self) -> None:
        """Refuse signs that are watched from the end on."""
        super().__post_init__()
        if not self.last_loss < self.late_loss < 0.5:
            told = f"late_loss must be between last_loss, {self.last_loss:g}, and 0.5"
            raise ValueError(f"{told}; {self.late_loss:g} is not.")


def run_tail(setting: Setting, seed: int) -> xr.Dataset:
    """The spectra of the linear layers and of the ReLU layer below, and the two forms of the network."""
    data = samples(setting, seed)
    parts, bodies = [], []
    for depth, widths, loss in setting.networks:
        tail = depth - 1  # linear layers
        start = Network.gaussian(widths, 0.0, setting.scale, seed, linear_tail=tail)
        run = late_flow(setting, start, data, loss)
        names = [f"W{k}, {tail} linear layers" for k in range(2, tail + 1)]
        parts.append(spectra(run, start, 2, names).assign_coords(linear=("matrix", np.full(tail - 1, tail))))
        bodies.append(_body(setting, run, start, data))
    predicted = phuong_separable.class_margins(data.x, data.y)
    tails = xr.Variable("network", [depth - 1 for depth in setting.depths])
    kept = xr.concat(parts, dim="matrix").merge(xr.concat(bodies, dim=tails))
    return kept.assign(predicted=np.nan if predicted is None else predicted.stable_rank)


def _body(setting: Setting, run: Trajectory, start: Network, data: Data) -> xr.Dataset:
    """The ReLU layer, the error of the decomposition, and what changes its sign late."""
    flat = run["weights"].values
    spectrum = Spectrum.of(with_weights(start, flat).weights[0])
    errors = [_decomposed(with_weights(start, flat[at]), data.x) for at in (0, len(flat) // 2, -1)]
    late = flat[run["log_loss"].values < np.log(setting.late_loss)]
    turned = (np.sign(late[1:]) != np.sign(late[:-1])).any(axis=0)
    sizes = np.abs(flat[-1]) / np.abs(flat[-1]).max()
    return xr.Dataset(
        {
            "body": ("record", spectrum.stable_rank),
            "body_excess": ("record", spectrum.excess),
            "body_log10_time": ("record", run["log_time"].values / np.log(10)),
            "decomposition": ("state", errors),
            "turned": int(turned.sum()),
            "turned_size": sizes[turned].max(initial=0.0),
        }
    )


def _decomposed(network: Network, x: np.ndarray) -> float:
    """The largest error of the sum over paths and of the tree of signs, relative to the largest output."""
    outputs = network(x)
    forms = [form(network, x)[:, 0] for form in (sum_over_paths, sign_tree)]
    return float(max(np.abs(form - outputs).max() for form in forms) / np.abs(outputs).max())


def draw_tail(setting: Setting, runs: xr.Dataset) -> Figure:
    """One run with its bounds; the stable ranks of all runs; those of W1 beside the closed form."""
    with plot.style():
        figure, axes = plot.panels(3)
        tail = int(runs.linear.max())
        one = runs.isel(seed=0, matrix=runs.linear.values == tail)
        draw_excess(axes[0, 0], one, 2)
        body = one.sel(network=tail)
        axes[0, 0].plot(body.body_log10_time, body.body_excess, color=plot.PALETTE[4], label="$W_1$ (ReLU)")
        axes[0, 0].set(title=f"(a) excess, {tail} linear layers, one run", yscale="log", ylim=(0.02, 5000))
        axes[0, 0].legend(loc="upper left", ncols=2)
        _draw_stable_ranks(axes[0, 1], runs)
        ends, predicted = last(runs.body).transpose("seed", "network"), runs.predicted
        ax = axes[0, 2]
        for colour, tail in zip(plot.PALETTE, runs.network.values, strict=False):
            plot.simulation(
                ax, predicted, ends.sel(network=tail), f"{tail} linear layers", color=colour, markevery=1
            )
        ends_of_line = np.array([float(predicted.min()) - 0.03, float(predicted.max()) + 0.03])
        plot.theory(ax, ends_of_line, ends_of_line, "equal")
        ax.set(xlabel="closed form of the limit", ylabel=f"at a loss of $10^{{{setting.log10_last:.0f}}}$")
        ax.set_title("(c) stable rank of $W_1$")
        ax.legend()
    return figure


def _draw_stable_ranks(ax: Axes, runs: xr.Dataset) -> None:
    """All seeds over time: the ReLU layers in one colour, the linear ones in another."""
    kinds = {
        "$W_1$ (ReLU)": (runs.body_log10_time, runs.body, "network", plot.PALETTE[4]),
        "linear layers": (runs.log10_time, stable_rank(runs), "matrix", plot.PALETTE[0]),
    }
    for name, (times, values, along, colour) in kinds.items():
        x, y = (
            v.transpose("record", "seed", along).values.reshape(v.sizes["record"], -1)
            for v in (times, values)
        )
        seed_lines(ax, x[1:], y[1:], colour, name)
    log_time_axis(ax)
    ax.set(ylabel=r"$\|W\|_F^2 / \|W\|_2^2$", title="(b) stable ranks, all runs")
    guide(ax, y=1)
    ax.legend()


RANK_TWO = Check(
    "stable rank of A u₊u₊ᵀ + B u₋u₋ᵀ",
    lambda runs: runs.predicted,
    at_least(1.2, "well above 1, or the ratio says nothing about the rank"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What happens to linear layers at the end, and to the ReLU layer below."""
    return (*_on_rank(setting), *_on_signs(setting))


def _on_rank(setting: Setting) -> tuple[Claim, ...]:
    """The rank of the linear layers, and of the ReLU layer below."""
    norm = setting.grown(6.5**2, setting.deepest) ** 0.5
    return (
        Claim(
            id="tail-rank-one",
            sentence="The last linear layers of a ReLU network fall to rank one.",
            source="abstract",
            metric="largest stable rank of a linear layer at the end",
            measure=lambda runs: last(stable_rank(runs)).max("matrix"),
            expected=at_most(
                1 + setting.share(0.02, setting.deepest),
                f"1 + D_k/‖W_k‖₂², with D_k < {setting.started(0.4):.2g} and "
                f"‖W_k‖₂² > {setting.grown_over(30)} at a loss of {setting.last_loss:g}",
            ),
            hypotheses=(arrived(setting),),
            form="{:.4f}",
        ),
        Claim(
            id="tail-excess-bound",
            sentence="A linear layer at the end is never further from rank one than its start tells.",
            source="rankfall, from the training invariances of the abstract",
            metric="largest (‖W_k‖_F² − ‖W_k‖₂²)/D_k over linear layers and times",
            measure=lambda runs: (runs.excess / runs.bound).max(["record", "matrix"]),
            expected=within_bound(setting, "a bound at all times"),
        ),
        Claim(
            id="relu-below-rank-two",
            sentence="The ReLU layer below linear ones stays of rank two, as in a two-layer network.",
            source="abstract (not true for ReLU layers); the number with Phuong and Lampert 2021",
            metric="stable rank of W₁ at the end / that of A u₊u₊ᵀ + B u₋u₋ᵀ, of the classes' hard margins",
            measure=lambda runs: (last(runs.body) / runs.predicted).transpose("seed", "network"),
            expected=near(
                1.0,
                setting.share(0.08**2, setting.deepest) ** 0.5,
                f"the share of the start, ‖W₁(0)‖/‖W₁‖ = {setting.scale:g}/{norm:.2g}; "
                "a scale, not a theorem",
            ),
            hypotheses=(arrived(setting), RANK_TWO),
            form="{:.3f}",
            note="The tolerance was set on these seeds; twenty others stay within 4 %.",
        ),
    )


def _on_signs(setting: Setting) -> tuple[Claim, ...]:
    """The network of signs."""
    # Margins, -ln(loss), are of the degree of the depth in the weights.
    norm = 6.3 * (log(setting.late_loss) / log(Setting.late_loss)) ** (1 / setting.deepest)
    paths = max(prod(widths) for _, widths, _ in setting.networks)
    return (
        Claim(
            id="paths-and-signs",
            sentence="A ReLU network splits into a multilinear function and a ReLU network of signs.",
            source="abstract (decomposition), in our form",
            metric="error of the sum over paths and of the tree of signs, over max |f|, at three times",
            measure=lambda runs: runs.decomposition.transpose("seed", "network", "state"),
            expected=at_most(1e-12, f"identities: nothing but rounding in sums over up to {paths} paths"),
            note="The signs are those of the network unrolled into a tree: with shared neurons it is false.",
        ),
        Claim(
            id="signs-turn-late",
            sentence=(
                "The network of signs becomes constant late: most are not yet so at a loss of "
                f"{setting.last_loss:g}."
            ),
            source="rankfall, on the decomposition of the abstract",
            metric=(
                "share of the networks in which a weight changes sign between losses of "
                f"{setting.late_loss:g} and {setting.last_loss:g}"
            ),
            measure=lambda runs: (runs.turned > 0).mean("seed"),
            expected=at_least(0.5, "most of them"),
            form="{:.2f}",
            note="That it is constant under convergence in direction is about the limit: no run refutes it.",
        ),
        Claim(
            id="late-turns-small",
            sentence="The weights that still change their sign so late are small ones.",
            source="rankfall",
            metric=(
                "largest |w|/max |w| at the end of a weight that changes its sign after a loss of "
                f"{setting.late_loss:g}"
            ),
            measure=lambda runs: runs.turned_size.transpose("seed", "network"),
            expected=at_most(
                0.08 * setting.scale / Setting.scale * 6.3 / norm,
                f"of the order of ‖W(0)‖/‖W‖ = {setting.scale:g}/{norm:.2g} at a loss of "
                f"{setting.late_loss:g}; a scale, not a theorem",
            ),
        ),
    )


TAIL = Experiment(
    name="tail",
    title="ReLU networks with linear layers at the end: these fall to rank one",
    setting=Setting(),
    simulation=run_tail,
    picture=draw_tail,
    statements=claims,
    seeds=20,
    cost=0.5,
    about=f"As the linear networks, but with ReLU after the first layer; the others are linear. {ABOUT}",
)
