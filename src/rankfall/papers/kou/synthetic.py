"""The synthetic data of the experiments: a Gaussian mixture."""

from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import gaussian_mixture, p_orthogonality
from rankfall.dynamics import descent
from rankfall.papers.kou.network import CERTIFIED, blocks, ends, network, of_all, recorded
from rankfall.papers.lab import (
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    finished,
    guide,
    orthogonal_enough,
    seed_lines,
)
from rankfall.theory.results import kou_descent


@dataclass(frozen=True)
class Setting:
    """Data and initial scales as Sun and Tran have them, after this paper."""

    n: int = 10
    dim: int = 784
    mean_scale: float = 0.01  # standard deviation of the mean's entries
    noise: float = 1.0
    width: int = 50  # neurons of each sign
    sigmas: tuple[float, ...] = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)  # initial scales, ascending
    slopes: tuple[float, ...] = (0.0, 0.01)  # of the networks that are trained
    step: float = 0.1  # ours: the paper does not say
    steps: int = 1000  # ours
    records: int = 20
    end_slopes: tuple[float, ...] = (0.0, 0.01, 0.1, 0.3)  # ours: of the networks whose limits are computed
    few: int = 6  # ours: their neurons of each sign
    end_sigma: float = 1e-3  # ours: their initial scale


def run_synthetic(setting: Setting, seed: int) -> xr.Dataset:
    """Five initial scales, ReLU and leaky ReLU; and certified limits for more slopes."""
    n, dim, slopes, sigmas = setting.n, setting.dim, setting.slopes, setting.sigmas
    data = gaussian_mixture(n=n, dim=dim, mean_scale=setting.mean_scale, noise=setting.noise, seed=seed)
    pairs = [(slope, value) for slope in slopes for value in sigmas]
    networks = [network(dim, setting.width, slope, value, seed) for slope, value in pairs]
    kept = ["stable_rank", "loss"]
    run = descent(
        networks,
        data,
        "logistic",
        setting.step,
        setting.steps,
        measures=kept,
        record=recorded(setting.steps, setting.records),
        show=False,
        along={"pair": range(len(pairs))},
    )
    index = xr.Coordinates({"slope": list(slopes), "value": list(sigmas)})
    shaped = finished(run).dataset[kept].transpose("pair", ...)
    arrays = {
        name: (
            ("slope", "value", *array.dims[1:]),
            array.values.reshape(len(slopes), len(sigmas), *array.shape[1:]),
        )
        for name, array in shaped.items()
    }
    starts = [network(dim, setting.few, slope, setting.end_sigma, seed) for slope in setting.end_slopes]
    limits = [ends(start, data) for start in starts]
    room = p_orthogonality(data) * np.array(setting.end_slopes) ** 4 / kou_descent.ORTHOGONALITY
    return xr.Dataset(
        arrays
        | {
            "end_blocks": (("end_slope", "sign"), [blocks(end) for end in limits]),
            "end_spread": ("end_slope", [np.ptp(end.margins) / end.margins.min() for end in limits]),
            "certified": ("end_slope", [end.certified for end in limits]),
            "orthogonality": ("end_slope", room),
        },
        index,
    ).assign_coords(step=shaped.step, end_slope=list(setting.end_slopes))


def _last(runs: xr.Dataset) -> xr.DataArray:
    return runs.stable_rank.isel(step=-1).transpose("seed", "slope", "value")


def draw_synthetic(setting: Setting, runs: xr.Dataset) -> Figure:
    """The initial scales for each activation, and the sign blocks in the limit."""
    slopes, end_slopes, sigmas = setting.slopes, setting.end_slopes, setting.sigmas
    with plot.style():
        figure, axes = plot.panels(len(slopes) + 1)
        for ax, letter, slope in zip(axes[0], ascii_lowercase, slopes, strict=False):
            title = f"({letter}) {f'leaky ReLU, slope {slope:g}' if slope else 'ReLU'}"
            for value, colour in zip(sigmas, plot.colours(len(sigmas)), strict=True):
                lines = runs.stable_rank.sel(slope=slope, value=value).transpose("step", "seed")[1:]
                seed_lines(ax, lines.step, lines[:, 1:], colour, alpha=0.25, linewidth=0.5)
                ax.plot(lines.step, lines[:, 0], color=colour, label=f"{value:g}")
            guide(ax, y=2)
            ax.set(xscale="log", yscale="log", xlabel="step", ylabel=r"stable rank of $W$", title=title)
            ax.set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
            ax.minorticks_off()
        axes[0, 0].legend(title=r"$\sigma_0$", ncols=2)
        ax = axes[0, -1]
        values = runs.end_blocks.max("sign").transpose("seed", "end_slope").values
        jitter = np.linspace(-0.25, 0.25, len(values))
        for place, colour in enumerate(plot.colours(len(end_slopes))):
            plot.simulation(ax, place + jitter, values[:, place], color=colour, markevery=1)
        guide(ax, y=1)
        ax.set_xticks(range(len(end_slopes)), labels=[f"{slope:g}" for slope in end_slopes])
        ax.set(
            xlabel=r"slope $\gamma$",
            ylabel="larger stable rank of a block",
            title=f"({ascii_lowercase[len(slopes)]}) certified limits",
        )
    return figure


# --- the claims -------------------------------------------------------------------------------------------

SMALL, LARGE = 0.01, 0.3  # the slopes of which claims speak: that of the experiments, and one of ours
NEARLY = orthogonal_enough(
    lambda runs: runs.orthogonality.sel(end_slope=SMALL),
    "near-orthogonality, with the constant of our proof",
    metric=(
        f"p(X) γ⁴ / {kou_descent.ORTHOGONALITY:g} at γ = {SMALL:g}, "
        "with p(X) = R_min² / (R² n max |⟨xᵢ, xₖ⟩|)"
    ),
    form="{:.2g}",
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What the experiments show, and the limits; of slopes and scales that are not run nothing is claimed."""
    shown = {
        "scale-order": len(setting.sigmas) > 1,
        "small-slope-rank-one": SMALL in setting.end_slopes,
        "large-slope-rank-one": LARGE in setting.end_slopes,
    }
    claimed = (*_on_the_runs(setting), *_on_the_limits())
    return tuple(claim for claim in claimed if shown.get(claim.id, True))


def _on_the_runs(setting: Setting) -> tuple[Claim, ...]:
    """The stable rank along descent."""
    networks = of_all(setting.slopes)
    return (
        Claim(
            id="scale-order",
            sentence="The smaller the initial weights, the lower the stable rank.",
            source="NeurIPS, experiments on synthetic data",
            metric=f"smallest step of the stable rank from one σ₀ to the next larger one, {networks}",
            measure=lambda runs: _last(runs).diff("value").min(("value", "slope")),
            expected=at_least(0.0, "the order of the curves, in every draw"),
        ),
        Claim(
            id="falls-at-once",
            sentence="From small initial weights the stable rank falls at once.",
            source="NeurIPS, experiments on synthetic data",
            metric=f"stable rank of W after the first step / at the start, smallest σ₀, {networks}",
            measure=lambda runs: (
                runs.stable_rank.isel(value=0, step=1) / runs.stable_rank.isel(value=0, step=0)
            ).max("slope"),
            expected=at_most(0.1, "falls by an order of magnitude, our reading of it"),
        ),
    )


def _on_the_limits() -> tuple[Claim, ...]:
    """The sign blocks and the margins of the certified limits."""
    return (
        Claim(
            id="small-slope-rank-one",
            sentence=f"With the slope {SMALL:g} the stable rank of each sign block tends to 1.",
            source="NeurIPS, theorem on leaky ReLU, on the data of its experiments",
            metric=f"largest stable rank of a block in the certified limit, γ = {SMALL:g}",
            measure=lambda runs: runs.end_blocks.sel(end_slope=SMALL).max("sign"),
            expected=at_most(1 + 1e-9, "1, up to the tolerance of the certificate"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(NEARLY,),
            note="The data are far from nearly orthogonal enough, and the conclusion is false on them.",
        ),
        Claim(
            id="large-slope-rank-one",
            sentence=(
                f"With the slope {LARGE:g} each sign block ends with stable rank 1, though p(X) γ⁴ is far "
                "too small."
            ),
            source="rankfall",
            metric=f"largest stable rank of a block in the certified limit, γ = {LARGE:g}",
            measure=lambda runs: runs.end_blocks.sel(end_slope=LARGE).max("sign"),
            expected=at_most(1 + 1e-9, "1, up to the tolerance of the certificate"),
            form="{:.3f}",
            note="The condition is sufficient, not sharp. At the slope 0.1 half of the draws end with 1.",
        ),
        Claim(
            id="mixture-equal-margins",
            sentence="All margins end equal on these data too, for every slope.",
            source="rankfall",
            metric="(max − min)/min of the margins in the certified limits, all slopes",
            measure=lambda runs: runs.end_spread,
            expected=at_most(1e-8, "0, up to the tolerance of the certificate"),
            hypotheses=(CERTIFIED,),
            form="{:.1e}",
        ),
    )


SYNTHETIC = Experiment(
    name="synthetic",
    title="Gaussian mixture of 10 samples in 784 dimensions: five initial scales, ReLU and leaky ReLU",
    setting=Setting(),
    simulation=run_synthetic,
    picture=draw_synthetic,
    statements=claims,
    seeds=20,
    cost=1.1,
    about=(
        "x = yμ + z, μ ~ N(0, 0.01² I), z ~ N(0, I); 50 neurons of each sign, second layer ±1/50 fixed, "
        "mean logistic loss, W(0) ~ N(0, σ₀²). Data and σ₀ are as Sun and Tran have them, after this "
        "paper; the step 0.1 and 1000 steps are our choice. (c) The limits are those of 6 neurons of "
        "each sign from σ₀ = 1e-3."
    ),
)
