"""Lyu, Li, Wang and Arora 2021: symmetric data give the largest margin, and hints spoil it."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, hard_margin, margin, symmetrise
from rankfall.limits import Limit, limit
from rankfall.loss import exponential
from rankfall.network import Network
from rankfall.papers.claim import Check, Claim, at_least, at_most, near, with_certificates
from rankfall.papers.experiment import Experiment
from rankfall.theory.lyu_2021_hints import faster, hinted, one_neuron
from rankfall.theory.situation import Situation

SLOPE, PAIRS, WIDTHS, START = 0.3, 3, (2, 8), 1e-4
HINT_SLOPE, HINT_WIDTH, ANGLES = 0.2, 8, 181
FEW, MANY, HINTS = "few neurons", "many neurons", "hints"  # the certificates


def run_symmetric(seed: int) -> xr.Dataset:
    """Limits on symmetric data for two widths, and on the data with hints."""
    rng = np.random.default_rng(seed)
    x, teacher = rng.normal(size=(PAIRS, 2)), rng.normal(size=2)
    data = symmetrise(Data(x, np.where(x @ teacher > 0, 1.0, -1.0), "linear labels"))
    best = (1 + SLOPE) / 4 * margin(data)
    networks = [Network.gaussian((2, width, 1), slope=SLOPE, scale=START, seed=seed) for width in WIDTHS]
    ends = [limit(net, data, "exponential", optimality=False, show=False) for net in networks]
    growing = [Situation(net, data, exponential).growing for net in networks]
    pulls = [(1 + SLOPE) / 2 * np.linalg.norm((end.multipliers * data.y) @ data.x) for end in ends]
    hints, hinted_end = _with_hints(seed)
    proofs = dict(zip((FEW, MANY, HINTS), (*ends, hinted_end), strict=True))
    found = xr.Dataset(
        {
            "margin": ("width", [end.normalised_margin / best for end in ends]),
            "stable_rank": ("width", [end.stable_rank for end in ends]),
            "both_signs": ("width", [float(g.min() < 0 < g.max()) for g in growing]),
            "pull": ("width", pulls),
            "certified": ("width", [float(end.reached) for end in ends]),
        },
        {"width": list(WIDTHS)},
    ).assign(hints)
    return with_certificates(found, seed, proofs)


def _with_hints(seed: int) -> tuple[dict[str, Any], Limit]:
    """Where a network ends on two pairs and three hints, and how strongly each direction is pulled there."""
    data = hinted()
    pairs = Data(data.x[:4], data.y[:4])
    net = Network.balanced((2, HINT_WIDTH, 1), slope=HINT_SLOPE, scale=START, seed=seed)
    situation = Situation(net, data, exponential)
    single, solved = one_neuron(situation), hard_margin(pairs)
    assert single is not None  # both sets are separable
    assert solved is not None
    end = limit(net, data, "exponential", optimality=False, show=False)
    # Equal on mirror images; and the neurons of the symmetric limit are pulled with the strength 1.
    even = (solved.multipliers + np.roll(solved.multipliers, 2)) / (1 + HINT_SLOPE)
    even /= np.linalg.norm((solved.multipliers * pairs.y) @ pairs.x)
    found = {
        "hint_margin": end.normalised_margin,
        "hint_foreseen": 1 / (2 * np.linalg.norm(single.z)),
        "hint_stable_rank": end.stable_rank,
        "hint_neurons": float((situation.a * faster(situation)[0] > 0).sum()),
        "hint_certified": float(end.reached),
        "hint_boundary": 0.0 if end.comparison is None else float(end.comparison.boundary == "linear"),
        "hint_pulls": ("angle", _pulls(data, end.multipliers)),
        "pair_pulls": ("angle", _pulls(pairs, even)),
    }
    return found, end


def _pulls(data: Data, multipliers: np.ndarray) -> np.ndarray:
    """|Σ λᵢ yᵢ σ(⟨u, xᵢ⟩)| for unit vectors u all around: above 1 the limit is no global optimum."""
    angles = np.linspace(0, 2 * np.pi, ANGLES)
    h = np.column_stack([np.cos(angles), np.sin(angles)]) @ data.x.T
    return np.abs(np.where(h > 0, h, HINT_SLOPE * h) @ (multipliers * data.y))


def _lost() -> float:
    """What is left of the margin if only one sign grows: 2α/(1 + α)."""
    return 2 * SLOPE / (1 + SLOPE)


def draw_symmetric(runs: xr.Dataset) -> Figure:
    """The margins for both widths, and the pulls without and with hints."""
    with plot.style():
        figure, axes = plot.panels(3)
        ax = axes[0, 0]
        for width, colour, size in zip(WIDTHS, plot.PALETTE, (5.5, 2.5), strict=False):
            values = runs.margin.sel(width=width)
            plot.simulation(ax, np.arange(len(values)), values, f"{width} neurons", color=colour, markevery=1,
                            markersize=size)  # fmt: skip
        levels = ((1.0, "largest margin", "-"), (_lost(), r"$2\alpha/(1+\alpha)$ of it", "--"))
        for level, label, style in levels:
            plot.theory(ax, [-1, runs.sizes["seed"]], [level, level], label, linewidth=0.7, linestyle=style)
        ax.set(xlabel="seed", ylabel=r"margin / $\frac{1+\alpha}{4}\gamma_{\mathrm{lin}}$", ylim=(0.3, 1.5))
        ax.set_title("(a) symmetric data")
        ax.legend(ncols=2)
        _draw_pulls(axes[0, 1], runs.pair_pulls, "(b) two symmetric pairs")
        _draw_pulls(axes[0, 2], runs.hint_pulls, "(c) with three hints")
    return figure


def _draw_pulls(ax: Axes, pulls: xr.DataArray, title: str) -> None:
    angles = np.linspace(0, 360, ANGLES)
    ax.plot(angles, pulls.transpose("angle", "seed"), color=plot.PALETTE[0], linewidth=1.0)
    ax.axhline(1, color=plot.GUIDE, linestyle="--", linewidth=0.8)
    ax.set(xlabel="direction $u$ (degrees)", ylabel=r"$|\sum_i \lambda_i y_i \sigma(u \cdot x_i)|$")
    ax.set(title=title, ylim=(0, 1.85), xticks=[0, 90, 180, 270, 360])


SIGNS = Check(
    "neurons that grow have both signs (1: yes), 8 neurons",
    lambda runs: runs.both_signs.isel(width=-1),
    at_least(1.0, "else the theorem says nothing; it has the probability 2⁻⁷ not to be so"),
)
CERTIFIED = Check(
    "share of the limits that were reached",
    lambda runs: runs.certified,
    at_least(1.0, "the flow was followed to its end"),
)
HINTED = Check(
    "neurons of the sign that grows faster",
    lambda runs: runs.hint_neurons,
    at_least(1.0, "one at least"),
)
ROUNDED = "up to the tolerance of the certificate"

SYMMETRIC = Experiment(
    name="symmetric",
    title="Symmetric data give the largest margin; three hints spoil it (Lyu, Li, Wang and Arora 2021)",
    run=run_symmetric,
    draw=draw_symmetric,
    seeds=20,
    cost=1.2,
    about=(
        "(a) Three Gaussian inputs in the plane with linear labels and their mirror images; both layers "
        "trained, slope α = 0.3, from a start of norm 1e-4 a layer, exponential loss: the limits. "
        "(b, c) Two pairs, without and with three more samples: the pull on a neuron in direction u at the "
        "limit, slope 0.2, 8 neurons. The data with hints are ours: those of the paper were not at hand."
    ),
    claims=(
        Claim(
            sentence="On symmetric separable data the margin ends as (1+α)/4 times that of the linear SVM.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric="normalised margin of the limit / ((1+α)/4 γ_lin), 8 neurons",
            measure=lambda runs: runs.margin.isel(width=-1),
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(SIGNS, CERTIFIED),
            proofs=(MANY,),
        ),
        Claim(
            sentence="On symmetric separable data no such network has a larger margin than the limit.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric="(1+α)/2 |Σ λᵢ yᵢ xᵢ|: the strongest pull on any neuron by λ averaged over mirror images",
            measure=lambda runs: runs.pull.isel(width=-1),
            expected=at_most(1 + 1e-8, "at most 1 proves it, by duality"),
            hypotheses=(SIGNS, CERTIFIED),
            proofs=(MANY,),
            form="{:.6f}",
        ),
        Claim(
            sentence="On symmetric separable data the end is a linear function: neurons on one line.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric="stable rank of the first layer in the limit, 8 neurons",
            measure=lambda runs: runs.stable_rank.isel(width=-1),
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(SIGNS, CERTIFIED),
            proofs=(MANY,),
        ),
        Claim(
            sentence="Where only one sign grows, as the theorem excepts, 2α/(1+α) of the margin is left.",
            source="rankfall, on the exception in the theorem on symmetric data",
            metric="margin / ((1+α)/4 γ_lin), minus 1, or minus 2α/(1+α) where one sign grows; 2 neurons",
            measure=lambda runs: np.abs(runs.margin - xr.where(runs.both_signs > 0, 1.0, _lost())).isel(
                width=0
            ),
            expected=at_most(1e-8, "the start decides, and both ends are known in closed form"),
            hypotheses=(CERTIFIED,),
            proofs=(FEW,),
            form="{:.1e}",
            note="The exception has the probability 2^(1−m): half of the starts of m = 2 neurons.",
        ),
        Claim(
            sentence="With three hints the end is a linear classifier whose margin is not the largest.",
            source="NeurIPS 2021, section on data that are not symmetric",
            metric="strongest pull on a neuron in any direction in the limit",
            measure=lambda runs: runs.hint_pulls.max("angle") * runs.hint_boundary,
            expected=at_least(1 + 1e-6, "above 1 a neuron in that direction would raise the margin"),
            hypotheses=(
                HINTED,
                Check(
                    "share of the limits that were reached",
                    lambda runs: runs.hint_certified,
                    at_least(1.0, "the flow was followed to its end"),
                ),
            ),
            proofs=(HINTS,),
        ),
        Claim(
            sentence="With three hints the end is one neuron, whose margin a hard-margin problem foretells.",
            source="rankfall, docs/theory/lyu_2021_hints.md",
            metric="normalised margin of the limit × 2 |z|",
            measure=lambda runs: runs.hint_margin / runs.hint_foreseen,
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(HINTED,),
            proofs=(HINTS,),
        ),
    ),
)
