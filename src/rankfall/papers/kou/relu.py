"""ReLU on nearly orthogonal and on orthogonal data: the stable rank stays bounded."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, orthogonal, p_orthogonality
from rankfall.loss import logistic
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.kou.network import (
    CERTIFIED,
    END,
    NearlyOrthogonal,
    descends,
    equal_margins,
    nearly,
    network,
    with_end,
)
from rankfall.papers.lab import Check, Claim, Experiment, at_least, at_most, guide, near, seed_lines
from rankfall.theory import Situation
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results import kou_descent, kou_orthogonal


@dataclass(frozen=True)
class Setting(NearlyOrthogonal):
    """The theorem asks for p(X) above a constant. Wide networks on orthogonal data are of our own."""

    n: int = 6
    p: float = 100.0
    class_sizes: tuple[int, ...] = (2, 4, 8, 16, 32)  # orthogonal samples of a class, for wide networks
    wide: int = 1000  # their neurons of each sign


def run_relu(setting: Setting, seed: int) -> xr.Dataset:
    """Descent and its certified end on nearly orthogonal data; wide networks on orthogonal data."""
    data, net = setting.data(seed), setting.network(0.0, seed)
    start = Situation(net, data, logistic)
    course, end = descends(setting, net, data)
    least, largest = fixed_second.cosines(start)
    bounds = [largest / least / kou_descent.shares(start)[start.y == sign].min() for sign in (1, -1)]
    frame = Data(orthogonal(n=setting.n, dim=setting.dim, seed=seed).x, data.y)
    # The same pattern of activity at the start, on orthogonal inputs: the closed form needs nothing else.
    there, _ = kou_orthogonal.limit_of(Situation(_moved(net, data, frame), frame, logistic))
    found = {
        "bounds": ("sign", bounds),
        "orthogonal_blocks": (
            "sign",
            [Spectrum.of(there[start.a * sign > 0]).stable_rank for sign in (1, -1)],
        ),
        "orthogonal_stable_rank": Spectrum.of(there).stable_rank,
        "orthogonality": p_orthogonality(data),
        "seen": kou_descent.shares(start).min() * setting.width,
        "wide": (("per_class", "part"), [_wide(setting.wide, each, seed) for each in setting.class_sizes]),
    }
    run = with_end(course, seed, end, found)
    return run.assign_coords(per_class=list(setting.class_sizes), part=["+", "-", "whole"])


def _moved(net: Network, data: Data, frame: Data) -> Network:
    """A network that is on the orthonormal inputs what `net` is on its own."""
    first = net.weights[0] @ data.x.T @ frame.x
    return Network([first, net.weights[1]], slope=0.0, trained=(True, False))


def _wide(width: int, count: int, seed: int) -> list[float]:
    """The stable ranks of the blocks and of the whole in the limit of a wide network, in closed form."""
    data = orthogonal(n=2 * count, dim=2 * count, seed=seed)
    w, _ = kou_orthogonal.limit_of(Situation(network(2 * count, width, 0.0, 1.0, seed), data, logistic))
    return [
        Spectrum.of(w[:width]).stable_rank,
        Spectrum.of(w[width:]).stable_rank,
        Spectrum.of(w).stable_rank,
    ]


def _mean_field(runs: xr.Dataset) -> xr.DataArray:
    """2k/(k+1) for a block and 4k/(k+1) for the whole, with k samples of each class."""
    k = runs.per_class
    return xr.concat([2 * k / (k + 1), 2 * k / (k + 1), 4 * k / (k + 1)], dim=runs.part)


def draw_relu(setting: Setting, runs: xr.Dataset) -> Figure:
    """Descent and where it ends; how the limit of wide networks depends on the number of samples."""
    sizes = setting.class_sizes
    with plot.style():
        figure, axes = plot.panels(3)
        ax, colour = axes[0, 0], plot.PALETTE
        lines = runs.block_stable_rank.max("sign").transpose("step", "seed")[1:]
        seed_lines(ax, lines.step, lines, colour[1], "descent")
        last = np.geomspace(2, 20, runs.sizes["seed"]) * float(runs.step[-1])
        plot.simulation(
            ax, last, runs.end_blocks.max("sign"), "certified limits", color=colour[0], markevery=1
        )
        guide(ax, y=2)
        ax.set(xscale="log", yscale="log", xlabel="step", ylabel="larger stable rank of a block")
        ax.set_yticks([1, 2, 4, 8], labels=["1", "2", "4", "8"])
        ax.minorticks_off()
        ax.set_title(f"(a) nearly orthogonal data, $p = {setting.p:g}$")
        ax.legend()
        ax = axes[0, 1]
        plot.simulation(ax, runs.orthogonal_stable_rank, runs.end_stable_rank, color=colour[0], markevery=1)
        plot.theory(ax, [1.9, 3.4], [1.9, 3.4], "no change", linestyle="--")
        ax.set(
            xlabel="stable rank of $W$, orthogonal data", ylabel=f"stable rank of $W$, $p = {setting.p:g}$"
        )
        ax.set_title("(b) the limit is not continuous")
        ax.legend()
        ax = axes[0, 2]
        for part, shift, tone in zip(("+", "-", "whole"), (0.96, 1.04, 1.0), (0, 2, 1), strict=True):
            values = runs.wide.sel(part=part).transpose("per_class", "seed").values
            x = np.broadcast_to(runs.per_class.values[:, None] * shift, values.shape)
            label = "whole layer" if part == "whole" else f"block {part}"
            plot.simulation(
                ax, x.ravel(), values.ravel(), label, color=colour[tone], markersize=2, markevery=1
            )
        k = np.geomspace(min(sizes), max(sizes), 50)
        plot.theory(ax, k, 2 * k / (k + 1), r"$2k/(k+1)$, $4k/(k+1)$")
        plot.theory(ax, k, 4 * k / (k + 1))
        ax.set(xscale="log", xlabel="samples of each class, $k$", ylabel="stable rank in the limit")
        ax.set_xticks(sizes, labels=[str(size) for size in sizes])
        ax.minorticks_off()
        ax.set(title=f"(c) orthogonal data, {2 * setting.wide} neurons", ylim=(1, 5.4))
        ax.legend(ncols=2)
    return figure


# --- the claims -------------------------------------------------------------------------------------------

NEARLY = nearly("p(X) = R_min² / (R² n max |⟨xᵢ, xₖ⟩|)")
SEEN = Check(
    "neurons of its sign that see a sample at the start, fewest",
    lambda runs: runs.seen,
    at_least(1.0, "a sample that no neuron of its sign sees is never learned"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """The theorem on ReLU, and what comes out beside it."""
    return (*_on_rank(setting), *_on_margins(), *_on_continuity(setting))


def _on_rank(setting: Setting) -> tuple[Claim, ...]:
    """The stable rank, of the sign blocks and of the whole layer."""
    p, wide, sizes = setting.p, setting.wide, setting.class_sizes
    return (
        Claim(
            id="bounded-rank",
            sentence="The stable rank of each sign block stays below a constant, however many samples.",
            source="NeurIPS, theorem on ReLU",
            metric=(
                "largest stable rank of a block in the limit: "
                f"orthogonal data, {2 * min(sizes)} to {2 * max(sizes)} samples; p = {p:g}"
            ),
            measure=lambda runs: xr.concat(
                [runs.wide.sel(part=["+", "-"]).max(("part", "per_class")), runs.end_blocks.max("sign")],
                "data",
            ),
            expected=at_most(2.5, "the paper's constant has no number; 2 in the mean, and a quarter for few"),
            form="{:.3f}",
        ),
        Claim(
            id="mean-field-rank",
            sentence="With k samples a class a block ends at 2k/(k+1), the whole layer at 4k/(k+1).",
            source="rankfall, docs/theory/kou_orthogonal.md",
            metric="stable ranks in the limit / 2k/(k+1) or 4k/(k+1)",
            measure=lambda runs: runs.wide / _mean_field(runs),
            expected=near(
                1.0,
                0.1 * np.sqrt(1000 / wide),
                f"the mean over the start; {wide} neurons spread by 1/√{wide}, three times that",
            ),
            form="{:.3f}",
        ),
        Claim(
            id="seen-bound",
            sentence="On nearly orthogonal data the neurons that see a sample bound the stable rank.",
            source="rankfall, docs/theory/kou_descent.md",
            metric="stable rank of a block in the certified limit / its bound κ max 1/αᵢ",
            measure=lambda runs: runs.end_blocks / runs.bounds,
            expected=at_most(1.0, "the bound itself"),
            hypotheses=(NEARLY, SEEN, CERTIFIED),
            proofs=(END,),
        ),
    )


def _on_margins() -> tuple[Claim, ...]:
    """The margins in the limit."""
    return (
        equal_margins(
            "relu-equal-margins", "NeurIPS, abstract and theorem on ReLU", (NEARLY, SEEN, CERTIFIED)
        ),
    )


def _on_continuity(setting: Setting) -> tuple[Claim, ...]:
    """How the limit depends on the data."""
    p = setting.p
    return (
        Claim(
            id="not-continuous",
            sentence="ReLU limits are not continuous at orthogonality: near it they are elsewhere.",
            source="rankfall",
            metric=(
                f"median over the draws of |stable rank of W at p = {p:g} / that on orthogonal data − 1|"
            ),
            measure=lambda runs: np.abs(runs.end_stable_rank / runs.orthogonal_stable_rank - 1).median(
                "seed"
            ),
            expected=at_least(
                5 / p, f"what is continuous changes by the order of 1/p = {100 / p:g} %; five times that"
            ),
            hypotheses=(CERTIFIED,),
            proofs=(END,),
            note=(
                "However small their inner products are, samples of a class switch neurons of their sign on "
                "or off in the course of time, at log t of the order n p |W(0)|: no run of descent sees it."
            ),
        ),
    )


RELU = Experiment(
    name="relu",
    title="ReLU on nearly orthogonal and on orthogonal data: a bounded stable rank",
    setting=Setting(),
    simulation=run_relu,
    picture=draw_relu,
    statements=claims,
    seeds=20,
    cost=0.9,
    about=(
        "(a, b) 6 inputs of one norm with p(X) = 100 in 20 dimensions, 8 ReLU neurons of each sign, second "
        "layer ±1/8 fixed, W(0) ~ N(0, 0.1²), mean logistic loss, 4000 steps of descent, and the certified "
        "limit of the flow from there. (c) 1000 neurons of each sign on exactly orthogonal inputs, where the "
        "limit is known in closed form from the signs of W(0)xᵢ."
    ),
)
