"""Lemmas 8 to 12 and equations (7) to (45) of the workshop version: which hold to rounding, which do not.

`equations` measures them; where docs/errata.md corrects a formula, the printed and the corrected one are
measured on the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.papers.lab import Check, Claim, Experiment, Interval, Verdict, at_most, guide
from rankfall.papers.zhang.equations import Sizes, any_weights, bounds, deep, rank_one

PRINTED = ": printed"  # the ending of the names of formulas as they are printed
FLOOR = 1e-17  # where the figure shows an error of exactly zero, which its axis cannot


@dataclass(frozen=True)
class Setting(Sizes):
    """Sizes, and of several draws a seed the slope and the depth; ours: the identities hold for any."""

    slopes: tuple[float, ...] = (0.0, 0.3, 0.7)  # of two layers
    depths: tuple[int, ...] = (3, 4, 5)  # of deep ReLU networks

    def __post_init__(self) -> None:
        """Refuse networks without halves, or without middle layers."""
        if self.width < 2 or self.width % 2:
            raise ValueError(f"width must be even, one half for each sign; {self.width} is not.")
        if not self.slopes or min(self.depths, default=0) < 3:
            raise ValueError("slopes and depths must not be empty, and depths at least 3.")

    @property
    def draws(self) -> list[tuple[float, int]]:
        """Slope and depth of each draw; the shorter row starts again."""
        count = max(len(self.slopes), len(self.depths))
        return [(self.slopes[i % len(self.slopes)], self.depths[i % len(self.depths)]) for i in range(count)]


def run(setting: Setting, seed: int) -> xr.Dataset:
    """The relative error of every identity in each draw, and the two sides of the bounds."""
    errors, ratios = [], []
    for draw, (slope, depth) in enumerate(setting.draws):
        rng = np.random.default_rng([seed, draw])
        two_layers = [*any_weights(rng, slope, setting), *rank_one(rng, slope, setting)]
        errors.append(dict([*two_layers, *deep(rng, depth, setting)]))
        ratios.append(dict(bounds(rng, slope, setting)))
    return xr.Dataset(
        {
            "error": (("identity", "draw"), np.array([list(e.values()) for e in errors]).T),
            "ratio": (("bound", "draw"), np.array([list(e.values()) for e in ratios]).T),
        },
        coords={"identity": list(errors[0]), "bound": list(ratios[0])},
    )


# --- the figure ---------------------------------------------------------------------------------------------


def draw(_: Setting, runs: xr.Dataset) -> Figure:
    """Every identity a row with a dot for each seed; what is printed wrong in another colour."""
    identities, limits = runs.error.max("draw"), runs.ratio.max("draw")
    with plot.style():
        figure, axes = plt.subplots(
            2, 1, figsize=(1.9 * plot.PANEL[0], 2.5 * plot.PANEL[1]), height_ratios=(10, 1)
        )
        _dots(axes[0], identities.transpose("identity", "seed"), bound=1e-12)
        axes[0].set(xlabel="relative error, the worst draw", title="(a) equations and displays")
        _dots(axes[1], limits.transpose("bound", "seed"), bound=1.0)
        axes[1].set(xlabel="left side / right side", title="(b) bounds")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].legend(handles, labels, loc="upper center", ncols=2, bbox_to_anchor=(0.62, 1.0))
    return figure


def _dots(ax: Axes, values: xr.DataArray, bound: float) -> None:
    names = [str(name) for name in values[values.dims[0]].values]
    rows = list(dict.fromkeys(name.removesuffix(PRINTED) for name in names))  # both forms on one row
    for name, numbers in zip(names, values.values, strict=True):
        wrong = name.endswith(PRINTED)
        height = rows.index(name.removesuffix(PRINTED)) + np.linspace(-0.22, 0.22, len(numbers))
        colour, label = (plot.PALETTE[1], "as printed") if wrong else (plot.PALETTE[0], "right or corrected")
        seen = ax.get_legend_handles_labels()[1]
        plot.simulation(
            ax,
            np.maximum(numbers, FLOOR),
            height,
            None if label in seen else label,
            markersize=2.2,
            color=colour,
            alpha=0.7,
        )
    guide(ax, x=bound)
    ax.set_xscale("log")
    ax.set_yticks(range(len(rows)), labels=rows)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


# --- the claims ---------------------------------------------------------------------------------------------


def _rounding(setting: Setting) -> Interval:
    sums = f"sums of {2 * setting.pairs} samples and products of {max(setting.depths)} layers"
    return at_most(1e-12, f"an identity: rounding, in {sums}")


def _largest(*names: str) -> Callable[[xr.Dataset], xr.DataArray]:
    """The largest error of these identities, for each seed and draw."""
    return lambda runs: runs.error.sel(identity=list(names)).max("identity").transpose("seed", "draw")


def _holds(
    setting: Setting, name: str, sentence: str, source: str, *identities: str, note: str = ""
) -> Claim:
    metric = "largest relative error of " + " and ".join(identities) + ", for each seed and draw"
    return Claim(
        name, sentence, source, metric, _largest(*identities), _rounding(setting), form="{:.1e}", note=note
    )


def _refuted(
    setting: Setting,
    name: str,
    sentence: str,
    source: str,
    printed: str,
    corrected: str,
    says: str,
    note: str,
) -> Claim:
    rounding = _rounding(setting)
    return Claim(
        name,
        sentence,
        source,
        "relative error of what is printed, for each seed and draw",
        _largest(printed),
        rounding,
        recorded=Verdict.REFUTED,
        certificate=Check(
            f"relative error of the corrected form: {says}", _largest(corrected), rounding, "{:.1e}"
        ),
        form="{:.2g}",
        note=note,
    )


def _ratio(name: str) -> Callable[[xr.Dataset], xr.DataArray]:
    return lambda runs: runs.ratio.sel(bound=name).transpose("seed", "draw")


BOUND = at_most(1.0, "an inequality: the left side is at most the right one")


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Every lemma and equation, as it is printed."""
    return (
        *_on_bounds(setting),
        *_on_symmetric_data(setting),
        *_on_the_early_phase(setting),
        *_on_losses(setting),
        *_on_rank_one(setting),
        *_on_the_reduced_flow(setting),
        *_on_white_inputs(setting),
        *_on_depth(setting),
    )


def _on_bounds(setting: Setting) -> tuple[Claim, ...]:
    """Bounds on the moments of the activations."""
    return (
        Claim(
            "second-moment-bound",
            "The second moment of the hidden layer is at most ‖W₁‖² Tr Σ.",
            "workshop, Lemma 8",
            "‖⟨σ(W₁x) σ(W₁x)ᵀ⟩‖ / (‖W₁‖² Tr Σ), for each seed and draw",
            _ratio("Lemma 8"),
            BOUND,
        ),
        Claim(
            "activation-slope-bound",
            "The mean product of activation and slope is at most ‖W₁‖ Tr Σ.",
            "workshop, Lemma 9",
            f"‖⟨σ(W₁x) σ'(W₁x)⟩‖ / (‖W₁‖ Tr Σ) for inputs of length {setting.short:g}, the product taken "
            "entry by entry",
            _ratio("Lemma 9: printed"),
            BOUND,
            recorded=Verdict.REFUTED,
            certificate=Check(
                "with the factors that are missing: ‖⟨σ'(W₁x) ⊙ W₂ᵀ W₂ σ(W₁x) xᵀ⟩‖ / (‖W₂‖² ‖W₁‖ Tr Σ)",
                _ratio("Lemma 9"),
                BOUND,
            ),
            note="Errata E5, a misprint: with the missing factors the lemma holds. As printed one side grows "
            "like ‖x‖, the other like ‖x‖², which is false for short inputs.",
        ),
    )


def _on_symmetric_data(setting: Setting) -> tuple[Claim, ...]:
    """What the symmetry of the data gives."""
    return (
        _holds(
            setting,
            "half-space-moments",
            "On symmetric data the covariance and the correlation over any half-space are those over all "
            "data.",
            "workshop, Lemma 10",
            "(14)",
            "(15)",
        ),
        _refuted(
            setting,
            "half-space-integral",
            "The covariance is the integral of x xᵀ p(x) over one half-space.",
            "workshop, proof of Lemma 10",
            "Lemma 10, proof: printed",
            "Lemma 10, proof",
            "twice that integral",
            "Errata E4. The lemma itself is right.",
        ),
        _holds(
            setting,
            "target-terms-linear",
            "On symmetric data the terms of the flow with the target are a linear network's, times (1+α)/2.",
            "workshop, Lemma 11",
            "(16a)",
            "(16b)",
        ),
    )


def _on_the_early_phase(setting: Setting) -> tuple[Claim, ...]:
    """The early phase."""
    return (
        _holds(
            setting,
            "output-norm-growth",
            "The growth of ‖W₂‖² is a linear network's, less a quartic term.",
            "workshop, proof of Lemma 12",
            "Lemma 12, proof",
        ),
        _holds(
            setting,
            "early-phase-solution",
            "The linear system of the early phase has the solution (23).",
            "workshop, eq. (23)",
            "(23)",
        ),
        _holds(
            setting,
            "cubic-terms",
            "What the early phase leaves out of the flow are two cubic terms.",
            "workshop, eq. (24)",
            "(24a)",
            "(24b)",
            note="(24a) with the factors that Lemma 9 lacks; as printed its shapes do not fit (errata E5).",
        ),
    )


def _on_losses(setting: Setting) -> tuple[Claim, ...]:
    """The losses and their flows."""
    return (
        _holds(
            setting,
            "loss-splits",
            "On symmetric data the square loss is that of the linear part plus that of the even part.",
            "workshop, Appendix E.4",
            "E.4",
        ),
        _refuted(
            setting,
            "logistic-flow-factor",
            "In the flow of the logistic loss the output stands as a factor.",
            "workshop, eq. (7)",
            "(7): printed",
            "(7)",
            "the label in its place",
            "Errata E2. As printed the flow does not know the sign of a label; eq. (10) has the same slip.",
        ),
    )


def _on_rank_one(setting: Setting) -> tuple[Claim, ...]:
    """Weights of rank one."""
    return (
        _holds(
            setting,
            "rank-one-linear",
            "With rank-one weights and equal halves a leaky network is a linear one, times (1+α)/2.",
            "workshop, eqs. (27) and (29)",
            "(27)",
            "(29)",
        ),
        _holds(
            setting,
            "rank-one-averages",
            "With rank-one weights and equal halves two averages in the flow are linear, times (1+α)/2.",
            "workshop, eqs. (31) and (33)",
            "(31)",
            "(33)",
        ),
    )


def _on_the_reduced_flow(setting: Setting) -> tuple[Claim, ...]:
    """The flow that is left of them."""
    return (
        _holds(
            setting,
            "square-flow-factors",
            "The flow of the square loss reduces to a linear network's with factors (1+α)/2.",
            "workshop, eq. (34)",
            "(34a)",
            "(34b)",
        ),
        _holds(
            setting,
            "scaled-weights-flow",
            "Weights scaled by √((1+α)/2) flow like a linear network, at (1+α)/2 times its speed.",
            "workshop, eq. (35)",
            "(35)",
        ),
        _holds(
            setting, "layers-stay-balanced", "The two layers stay balanced.", "workshop, eq. (36)", "(36)"
        ),
        _holds(
            setting,
            "second-layer-along-itself",
            "The second layer moves along itself, so that equal halves stay equal.",
            "rankfall (missing in Part 3 of the proof of Theorem 5, errata E12)",
            "E12",
        ),
        _refuted(
            setting,
            "logistic-reduced-flow",
            "The reduced flow of the logistic loss has the factor ((1+α)/2)² and the output in it.",
            "workshop, after eq. (37)",
            "after (37): printed",
            "after (37)",
            "the factor (1+α)/2, and the label",
            "Errata E2. Theorem 5 survives: the corrected flow scales to a linear network's.",
        ),
        _refuted(
            setting,
            "half-space-slopes",
            "On the half-space r·x > 0 the neurons with negative output weight have the slope 1.",
            "workshop, after eq. (37)",
            "half-space in (37): printed",
            "half-space in (37)",
            "those with positive output weight",
            "Errata E3. The sum over both half-spaces is right all the same.",
        ),
    )


def _on_white_inputs(setting: Setting) -> tuple[Claim, ...]:
    """The time course for white inputs."""
    return (
        _refuted(
            setting,
            "time-course-start",
            "The time course starts at the map of the network, with u₀ = ‖W₁(0)‖.",
            "workshop, eq. (38)",
            "(38), t = 0: printed",
            "(38), t = 0",
            "u₀² = (1+α)/2 ‖W₁(0)‖²",
            "Errata E7: the slip that corollary-14 follows in time.",
        ),
        _holds(
            setting,
            "time-course-solves",
            "For white inputs the time course solves the flow of the linear network.",
            "workshop, Corollary 14, eq. (38)",
            "(38)",
            note="From any u₀ and r, at a random time: which u₀ belongs to a network is the question of E7.",
        ),
    )


def _on_depth(setting: Setting) -> tuple[Claim, ...]:
    """Deep networks."""
    return (
        _holds(
            setting,
            "deep-half-product",
            "Deep ReLU networks of rank one and two are linear maps: half the product of the layers.",
            "workshop, eq. (41)",
            "(41)",
        ),
        _holds(
            setting,
            "deep-form-kept",
            "Deep ReLU networks of rank one and two keep their form, and all layers grow at the same rate.",
            "workshop, eqs. (43) to (45)",
            "(43)",
            "(44)",
            "(45)",
            "after (45)",
        ),
        _holds(
            setting,
            "deep-twin-half-speed",
            "Deep ReLU networks of rank one and two follow a deep linear one at half the speed: W₁ and W_L "
            "are √2 times its own, the layers between them twice its positive entries.",
            "rankfall",
            "linear twin",
            note="The velocities agree wherever the weights do, so it is exact for descent too.",
        ),
        _holds(
            setting,
            "deep-ends-linear",
            "In deep ReLU networks of rank one and two the flow of the first and the last layer is a linear "
            "network's but for factors.",
            "workshop, eq. (42)",
            "(42), ends",
        ),
        _refuted(
            setting,
            "deep-middle-linear",
            "In deep ReLU networks of rank one and two the middle layers flow like linear ones, but for "
            "factors.",
            "workshop, eq. (42)",
            "(42), middle: printed",
            "(44)",
            "eq. (44), whose blocks off the diagonal are zero",
            "Errata E8. The last product is taken over the layers below: as printed the shapes do not fit.",
        ),
    )


IDENTITIES = Experiment(
    name="identities",
    title="The lemmas and equations of the workshop version, to rounding",
    setting=Setting(),
    simulation=run,
    picture=draw,
    statements=claims,
    seeds=20,
    cost=0.1,
    about=(
        "Random inputs in five dimensions with their mirror images (80 samples, not white), an odd "
        "target that is not linear, eight neurons a layer. Three draws a seed: slopes 0, 0.3 and 0.7 for "
        "two layers, and depths 3, 4 and 5 for deep ReLU networks. Gradients are taken from the loss by "
        "complex steps; τ = 1. Where a formula is printed wrong, the corrected one is measured on the "
        "same numbers, and is the certificate."
    ),
)

EXPERIMENTS = (IDENTITIES,)
