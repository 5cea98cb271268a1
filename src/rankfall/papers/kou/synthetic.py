"""The synthetic data of the experiments: a Gaussian mixture."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import gaussian_mixture, p_orthogonality
from rankfall.dynamics import descent
from rankfall.papers.claim import Check, Claim, at_least, at_most
from rankfall.papers.experiment import Experiment, finished
from rankfall.papers.kou.setting import CERTIFIED, blocks, ends, network
from rankfall.theory.kou import ORTHOGONALITY

VALUES = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)
N, DIM, WIDTH, STEP, STEPS, RECORDS = 10, 784, 50, 0.1, 1000, 20
SLOPES = (0.0, 0.01, 0.1, 0.3)
FEW = 6  # neurons of each sign of the networks whose limits are computed


def run_synthetic(seed: int) -> xr.Dataset:
    """Five initial scales, ReLU and leaky ReLU; and certified limits for more slopes."""
    data = gaussian_mixture(n=N, dim=DIM, mean_scale=0.01, noise=1.0, seed=seed)
    pairs = [(slope, value) for slope in (0.0, 0.01) for value in VALUES]
    networks = [network(DIM, WIDTH, slope, value, seed) for slope, value in pairs]
    record = sorted({round(t) for t in np.geomspace(1, STEPS, RECORDS)} | {0})
    kept = ["stable_rank", "loss"]
    run = descent(networks, data, "logistic", STEP, STEPS, measures=kept, record=record, show=False,
                  along={"pair": range(len(pairs))})  # fmt: skip
    index = xr.Coordinates({"slope": [0.0, 0.01], "value": list(VALUES)})
    shaped = finished(run).dataset[kept].transpose("pair", ...)
    arrays = {
        name: (("slope", "value", *array.dims[1:]), array.values.reshape(2, len(VALUES), *array.shape[1:]))
        for name, array in shaped.items()
    }
    limits = [ends(network(DIM, FEW, slope, 1e-3, seed), data) for slope in SLOPES]
    return xr.Dataset(
        arrays
        | {
            "end_blocks": (("end_slope", "sign"), [blocks(end) for end in limits]),
            "end_spread": ("end_slope", [np.ptp(end.margins) / end.margins.min() for end in limits]),
            "certified": ("end_slope", [end.certified for end in limits]),
            "orthogonality": ("end_slope", p_orthogonality(data) * np.array(SLOPES) ** 4 / ORTHOGONALITY),
        },
        index,
    ).assign_coords(step=shaped.step, end_slope=list(SLOPES))


def _last(runs: xr.Dataset) -> xr.DataArray:
    return runs.stable_rank.isel(step=-1).transpose("seed", "slope", "value")


def draw_synthetic(runs: xr.Dataset) -> Figure:
    """The five scales for both activations, and the sign blocks in the limit."""
    with plot.style():
        figure, axes = plot.panels(3)
        titles = {0.0: "(a) ReLU", 0.01: "(b) leaky ReLU, slope 0.01"}
        for ax, (slope, title) in zip(axes[0], titles.items(), strict=False):
            for value, colour in zip(VALUES, plot.colours(len(VALUES)), strict=True):
                lines = runs.stable_rank.sel(slope=slope, value=value).transpose("step", "seed")[1:]
                ax.plot(lines.step, lines[:, 1:], color=colour, alpha=0.25, linewidth=0.5)
                ax.plot(lines.step, lines[:, 0], color=colour, label=f"{value:g}")
            ax.axhline(2, color=plot.GUIDE, linewidth=0.8, linestyle="--")
            ax.set(xscale="log", yscale="log", xlabel="step", ylabel=r"stable rank of $W$", title=title)
            ax.set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
            ax.minorticks_off()
        axes[0, 0].legend(title=r"$\sigma_0$", ncols=2)
        ax = axes[0, 2]
        values = runs.end_blocks.max("sign").transpose("seed", "end_slope").values
        jitter = np.linspace(-0.25, 0.25, len(values))
        for place, colour in zip(range(len(SLOPES)), plot.colours(len(SLOPES)), strict=True):
            plot.simulation(ax, place + jitter, values[:, place], color=colour, markevery=1)
        ax.axhline(1, color=plot.GUIDE, linewidth=0.8, linestyle="--")
        ax.set_xticks(range(len(SLOPES)), labels=[f"{slope:g}" for slope in SLOPES])
        ax.set(xlabel=r"slope $\gamma$", ylabel="larger stable rank of a block", title="(c) certified limits")
    return figure


NEARLY = Check(
    "p(X) γ⁴ / 60 at γ = 0.01, with p(X) = R_min² / (R² n max |⟨xᵢ, xₖ⟩|)",
    lambda runs: runs.orthogonality.sel(end_slope=0.01),
    at_least(1.0, "near-orthogonality, with the constant of our proof"),
    form="{:.1e}",
)

SYNTHETIC = Experiment(
    name="synthetic",
    title="Gaussian mixture of 10 samples in 784 dimensions: five initial scales, ReLU and leaky ReLU",
    run=run_synthetic,
    draw=draw_synthetic,
    seeds=20,
    cost=1.1,
    about=(
        "x = yμ + z, μ ~ N(0, 0.01² I), z ~ N(0, I); 50 neurons of each sign, second layer ±1/50 fixed, "
        "mean logistic loss, W(0) ~ N(0, σ₀²). Data and σ₀ are as Sun and Tran have them, after this "
        "paper; the step 0.1 and 1000 steps are our choice. (c) The limits are those of 6 neurons of "
        "each sign from σ₀ = 1e-3."
    ),
    claims=(
        Claim(
            sentence="The smaller the initial weights, the lower the stable rank.",
            source="NeurIPS, experiments on synthetic data",
            metric="smallest step of the stable rank from one σ₀ to the next larger one, both activations",
            measure=lambda runs: _last(runs).diff("value").min(("value", "slope")),
            expected=at_least(0.0, "the order of the curves, in every draw"),
        ),
        Claim(
            sentence="From small initial weights the stable rank falls at once.",
            source="NeurIPS, experiments on synthetic data",
            metric="stable rank of W after the first step / at the start, σ₀ = 1e-5, both activations",
            measure=lambda runs: (
                runs.stable_rank.isel(value=0, step=1) / runs.stable_rank.isel(value=0, step=0)
            ).max("slope"),
            expected=at_most(0.1, "falls by an order of magnitude, our reading of it"),
        ),
        Claim(
            sentence="With the slope 0.01 the stable rank of each sign block tends to 1.",
            source="NeurIPS, theorem on leaky ReLU, on the data of its experiments",
            metric="largest stable rank of a block in the certified limit, γ = 0.01",
            measure=lambda runs: runs.end_blocks.sel(end_slope=0.01).max("sign"),
            expected=at_most(1 + 1e-9, "1, up to the tolerance of the certificate"),
            recorded="outside its hypotheses",
            hypotheses=(NEARLY,),
            note="The data are far from nearly orthogonal enough, and the conclusion is false on them.",
        ),
        Claim(
            sentence=(
                "With the slope 0.3 each sign block ends with stable rank 1, though p(X) γ⁴ is 10⁴ times too "
                "small."
            ),
            source="rankfall",
            metric="largest stable rank of a block in the certified limit, γ = 0.3",
            measure=lambda runs: runs.end_blocks.sel(end_slope=0.3).max("sign"),
            expected=at_most(1 + 1e-9, "1, up to the tolerance of the certificate"),
            form="{:.3f}",
            note="The condition is sufficient, not sharp. At the slope 0.1 half of the draws end with 1.",
        ),
        Claim(
            sentence="All margins end equal on these data too, for every slope.",
            source="rankfall",
            metric="(max − min)/min of the margins in the certified limits, four slopes",
            measure=lambda runs: runs.end_spread,
            expected=at_most(1e-8, "0, up to the tolerance of the certificate"),
            hypotheses=(CERTIFIED,),
            form="{:.1e}",
        ),
    ),
)
