"""Lyu, Li, Wang and Arora 2021: symmetric data give the largest margin, and hints spoil it."""

from dataclasses import dataclass
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
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    all_reached,
    at_least,
    at_most,
    guide,
    near,
    with_certificates,
)
from rankfall.theory import Situation
from rankfall.theory.results import lyu_hints

FEW, MANY, HINTS = "few neurons", "many neurons", "hints"  # the certificates


@dataclass(frozen=True)
class Setting:
    """The paper proves, and prints no such run: all of these are ours."""

    pairs: int = 3  # inputs with linear labels, each with its mirror image
    widths: tuple[int, ...] = (2, 8)  # the fewest first, the most last
    slope: float = 0.3
    scale: float = 1e-4  # the norm of a layer at the start
    hint_width: int = 8
    hint_slope: float = 0.2
    angles: int = 181  # directions all around in which the pull is shown

    @property
    def lost(self) -> float:
        """What is left of the margin if only one sign grows: 2α/(1 + α)."""
        return 2 * self.slope / (1 + self.slope)


def run_symmetric(setting: Setting, seed: int) -> xr.Dataset:
    """Limits on symmetric data for two widths, and on the data with hints."""
    rng, slope, widths = np.random.default_rng(seed), setting.slope, setting.widths
    x, teacher = rng.normal(size=(setting.pairs, 2)), rng.normal(size=2)
    data = symmetrise(Data(x, np.where(x @ teacher > 0, 1.0, -1.0), "linear labels"))
    best = (1 + slope) / 4 * margin(data)
    networks = [Network.gaussian((2, m, 1), slope=slope, scale=setting.scale, seed=seed) for m in widths]
    ends = [limit(net, data, "exponential", optimality=False, show=False) for net in networks]
    growing = [Situation(net, data, exponential).growing for net in networks]
    pulls = [(1 + slope) / 2 * np.linalg.norm((end.multipliers * data.y) @ data.x) for end in ends]
    hints, hinted_end = _with_hints(setting, seed)
    proofs = {FEW: ends[0], MANY: ends[-1], HINTS: hinted_end}
    found = xr.Dataset(
        {
            "margin": ("width", [end.normalised_margin / best for end in ends]),
            "stable_rank": ("width", [end.stable_rank for end in ends]),
            "both_signs": ("width", [float(g.min() < 0 < g.max()) for g in growing]),
            "pull": ("width", pulls),
            "certified": ("width", [float(end.reached) for end in ends]),
        },
        {"width": list(widths)},
    ).assign(hints)
    return with_certificates(found, seed, proofs)


def _with_hints(setting: Setting, seed: int) -> tuple[dict[str, Any], Limit]:
    """Where a network ends on two pairs and three hints, and how strongly each direction is pulled there."""
    data = lyu_hints.hinted()
    pairs = Data(data.x[:4], data.y[:4])
    slope = setting.hint_slope
    net = Network.balanced((2, setting.hint_width, 1), slope=slope, scale=setting.scale, seed=seed)
    situation = Situation(net, data, exponential)
    single, solved = lyu_hints.one_neuron(situation), hard_margin(pairs)
    assert single is not None  # both sets are separable
    assert solved is not None
    end = limit(net, data, "exponential", optimality=False, show=False)
    # Equal on mirror images; and the neurons of the symmetric limit are pulled with the strength 1.
    even = (solved.multipliers + np.roll(solved.multipliers, 2)) / (1 + slope)
    even /= np.linalg.norm((solved.multipliers * pairs.y) @ pairs.x)
    found = {
        "hint_margin": end.normalised_margin,
        "hint_foreseen": 1 / (2 * np.linalg.norm(single.z)),
        "hint_stable_rank": end.stable_rank,
        "hint_neurons": float((situation.a * lyu_hints.faster(situation)[0] > 0).sum()),
        "hint_certified": float(end.reached),
        "hint_boundary": 0.0 if end.comparison is None else float(end.comparison.boundary == "linear"),
        "hint_pulls": ("angle", _pulls(setting, data, end.multipliers)),
        "pair_pulls": ("angle", _pulls(setting, pairs, even)),
    }
    return found, end


def _pulls(setting: Setting, data: Data, multipliers: np.ndarray) -> np.ndarray:
    """|Σ λᵢ yᵢ σ(⟨u, xᵢ⟩)| for unit vectors u all around: above 1 the limit is no global optimum."""
    angles = np.linspace(0, 2 * np.pi, setting.angles)
    h = np.column_stack([np.cos(angles), np.sin(angles)]) @ data.x.T
    return np.abs(np.where(h > 0, h, setting.hint_slope * h) @ (multipliers * data.y))


def draw_symmetric(setting: Setting, runs: xr.Dataset) -> Figure:
    """The margins for both widths, and the pulls without and with hints."""
    with plot.style():
        figure, axes = plot.panels(3)
        ax = axes[0, 0]
        sizes = np.linspace(5.5, 2.5, len(setting.widths))
        for width, colour, size in zip(setting.widths, plot.PALETTE, sizes, strict=False):
            values = runs.margin.sel(width=width)
            plot.simulation(ax, np.arange(len(values)), values, f"{width} neurons", color=colour, markevery=1,
                            markersize=size)  # fmt: skip
        levels = ((1.0, "largest margin", "-"), (setting.lost, r"$2\alpha/(1+\alpha)$ of it", "--"))
        for level, label, style in levels:
            plot.theory(ax, [-1, runs.sizes["seed"]], [level, level], label, linewidth=0.7, linestyle=style)
        ax.set(xlabel="seed", ylabel=r"margin / $\frac{1+\alpha}{4}\gamma_{\mathrm{lin}}$", ylim=(0.3, 1.5))
        ax.set_title("(a) symmetric data")
        ax.legend(ncols=2)
        _draw_pulls(axes[0, 1], runs.pair_pulls, "(b) two symmetric pairs")
        _draw_pulls(axes[0, 2], runs.hint_pulls, "(c) with three hints")
    return figure


def _draw_pulls(ax: Axes, pulls: xr.DataArray, title: str) -> None:
    angles = np.linspace(0, 360, pulls.sizes["angle"])
    ax.plot(angles, pulls.transpose("angle", "seed"), color=plot.PALETTE[0], linewidth=1.0)
    guide(ax, y=1)
    ax.set(xlabel="direction $u$ (degrees)", ylabel=r"$|\sum_i \lambda_i y_i \sigma(u \cdot x_i)|$")
    ax.set(title=title, ylim=(0, 1.85), xticks=[0, 90, 180, 270, 360])


HINTED = Check(
    "neurons of the sign that grows faster",
    lambda runs: runs.hint_neurons,
    at_least(1.0, "one at least"),
)
REACHED = all_reached()
ROUNDED = "up to the tolerance of the certificate"


def claims(setting: Setting) -> tuple[Claim, ...]:
    """The theorem on symmetric data, its exception, and the hints."""
    return (*_on_symmetric_data(setting), *_on_the_exception(setting), *_on_hints())


def _on_symmetric_data(setting: Setting) -> tuple[Claim, ...]:
    """The theorem on symmetric data."""
    many = setting.widths[-1]
    signs = Check(
        f"neurons that grow have both signs (1: yes), {many} neurons",
        lambda runs: runs.both_signs.isel(width=-1),
        at_least(1.0, "else the theorem says nothing; of m neurons it has the probability 2^(1−m)"),
    )
    return (
        Claim(
            id="symmetric-margin",
            sentence="On symmetric separable data the margin ends as (1+α)/4 times that of the linear SVM.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric=f"normalised margin of the limit / ((1+α)/4 γ_lin), {many} neurons",
            measure=lambda runs: runs.margin.isel(width=-1),
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(signs, REACHED),
            proofs=(MANY,),
        ),
        Claim(
            id="symmetric-optimum",
            sentence="On symmetric separable data no such network has a larger margin than the limit.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric="(1+α)/2 |Σ λᵢ yᵢ xᵢ|: the strongest pull on any neuron by λ averaged over mirror images",
            measure=lambda runs: runs.pull.isel(width=-1),
            expected=at_most(1 + 1e-8, "at most 1 proves it, by duality"),
            hypotheses=(signs, REACHED),
            proofs=(MANY,),
            form="{:.6f}",
        ),
        Claim(
            id="symmetric-linear",
            sentence="On symmetric separable data the end is a linear function: neurons on one line.",
            source="NeurIPS 2021, theorem on symmetric data",
            metric=f"stable rank of the first layer in the limit, {many} neurons",
            measure=lambda runs: runs.stable_rank.isel(width=-1),
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(signs, REACHED),
            proofs=(MANY,),
        ),
    )


def _on_the_exception(setting: Setting) -> tuple[Claim, ...]:
    """Its exception."""
    few = setting.widths[0]
    return (
        Claim(
            id="one-sign-grows",
            sentence="Where only one sign grows, as the theorem excepts, 2α/(1+α) of the margin is left.",
            source="rankfall, on the exception in the theorem on symmetric data",
            metric=(
                f"margin / ((1+α)/4 γ_lin), minus 1, or minus 2α/(1+α) where one sign grows; {few} neurons"
            ),
            measure=lambda runs: np.abs(runs.margin - xr.where(runs.both_signs > 0, 1.0, setting.lost)).isel(
                width=0
            ),
            expected=at_most(1e-8, "the start decides, and both ends are known in closed form"),
            hypotheses=(REACHED,),
            proofs=(FEW,),
            form="{:.1e}",
            note=(
                f"The exception has the probability 2^(1−m): {2.0 ** (1 - few):.3g} for m = {few} neurons."
            ),
        ),
    )


def _on_hints() -> tuple[Claim, ...]:
    """Three hints that break the symmetry."""
    return (
        Claim(
            id="hints-not-optimal",
            sentence="With three hints the end is a linear classifier whose margin is not the largest.",
            source="NeurIPS 2021, section on data that are not symmetric",
            metric="strongest pull on a neuron in any direction in the limit",
            measure=lambda runs: runs.hint_pulls.max("angle") * runs.hint_boundary,
            expected=at_least(1 + 1e-6, "above 1 a neuron in that direction would raise the margin"),
            hypotheses=(HINTED, all_reached(lambda runs: runs.hint_certified)),
            proofs=(HINTS,),
        ),
        Claim(
            id="hints-one-neuron",
            sentence="With three hints the end is one neuron, whose margin a hard-margin problem predicts.",
            source="rankfall, docs/theory/lyu_hints.md",
            metric="normalised margin of the limit × 2 |z|",
            measure=lambda runs: runs.hint_margin / runs.hint_foreseen,
            expected=near(1.0, 1e-8, ROUNDED),
            hypotheses=(HINTED,),
            proofs=(HINTS,),
        ),
    )


SYMMETRIC = Experiment(
    name="symmetric",
    title="Symmetric data give the largest margin; three hints spoil it (Lyu, Li, Wang and Arora 2021)",
    setting=Setting(),
    simulation=run_symmetric,
    picture=draw_symmetric,
    statements=claims,
    seeds=20,
    cost=1.2,
    about=(
        "(a) Three Gaussian inputs in the plane with linear labels and their mirror images; both layers "
        "trained, slope α = 0.3, from a start of norm 1e-4 a layer, exponential loss: the limits. "
        "(b, c) Two pairs, without and with three more samples: the pull on a neuron in direction u at the "
        "limit, slope 0.2, 8 neurons. The data with hints are ours: the paper's were not available to us."
    ),
)
