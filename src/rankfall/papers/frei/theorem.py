"""Theorem 4.2 where its hypotheses hold: gradient descent on constructed, very nearly orthogonal data."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import nearly_orthogonal
from rankfall.loss import logistic
from rankfall.papers.claim import Check, Claim, at_least, at_most, between, near
from rankfall.papers.experiment import Experiment
from rankfall.papers.frei.in_span import descend, start
from rankfall.theory import frei_descent
from rankfall.theory.fixed_second import START, rates, start_output
from rankfall.theory.situation import Situation

SLOPE = 0.1
N, DIM, WIDTH, STEPS = 20, 200, 64, 1000
RECORDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
C_R = frei_descent.RATIO * (SLOPE**-2 + 1)  # C_R for inputs of one norm
P = 1.01 * frei_descent.ORTHOGONALITY * C_R / SLOPE**2  # what the theorem asks for, and one per cent
# Steps as short as the theorem asks for, and the longest of docs/theory/frei_descent.md; inputs have norm 1
RULES = ("short", "long")
FAILURE = 0.05  # the probability with which the theorem may fail


def run_theorem(seed: int) -> xr.Dataset:
    """Descent with the step and the start of the theorem, and with a step some 10^8 times as long."""
    data = nearly_orthogonal(n=N, dim=DIM, p=P, seed=seed)
    begun, steps = start(data, WIDTH, seed), (SLOPE**2 / (5 * N * C_R), float(N))
    sigmas = [largest_start(step) for step in steps]
    kept = descend(begun, sigmas, SLOPE, steps, STEPS, RECORDS).rename(run="rule")
    s = Situation(begun.network(sigmas[1], SLOPE), begun.data, logistic, steps[1])
    late = kept.loss.isel(rule=-1).sel(step=[STEPS // 10, STEPS]).values
    return kept.assign(
        decay=np.log10(late[1] / late[0]),  # over the last factor 10 of the steps
        size=("rule", list(steps)),
        orthogonality=frei_descent.orthogonality(s),
        start_output=start_output(s),
        constant=1 / rates(s).slow,
    ).assign_coords(rule=list(RULES))


def largest_start(step: float) -> float:
    """The standard deviation that the theorem allows, for inputs of norm 1 (recalled)."""
    spread = np.sqrt(WIDTH * DIM * np.log(4 * WIDTH / FAILURE))
    return float(step * SLOPE**2 / (72 * C_R * N * spread))


def _later(runs: xr.Dataset) -> xr.Dataset:
    return runs.isel(step=slice(1, None))


def _times_loss(runs: xr.Dataset) -> xr.DataArray:
    """t times the loss, with t in steps times their size."""
    later = _later(runs).sel(rule="long")
    return later.loss * later.step * later["size"]


BOUND = 1.01 * (1 + SLOPE) ** 2 / (4 * SLOPE)  # one per cent for the condition number of the cosines
SETTLED = 2 * (1 + SLOPE**2) / (1 + SLOPE) ** 2  # the stable rank of the limit for orthogonal inputs


def draw_theorem(runs: xr.Dataset) -> Figure:
    """The stable rank beside its bound; the loss beside C/t."""
    later = _later(runs)
    with plot.style():
        figure, (axes,) = plot.panels(2)
        for rule, colour in zip(RULES, plot.PALETTE, strict=False):
            lines = runs.stable_rank.sel(rule=rule).transpose("step", "seed")
            axes[0].plot(runs.step, lines, color=colour, alpha=0.4, linewidth=0.8)
            axes[0].plot([], [], color=colour, label=f"{rule} steps")
        for value, dash, label in ((BOUND, "--", "bound"), (SETTLED, ":", "limit")):
            level = np.full(later.sizes["step"], value)
            plot.theory(axes[0], later.step, level, f"{label} {value:.2f}", linestyle=dash)
        axes[0].set_xscale("symlog", linthresh=1)
        axes[0].set(yscale="log", ylim=(1, 60), ylabel="stable rank of $W_t$", title="(a) falls in one step")
        axes[0].set(xlim=(0, None))
        loss, size = later.loss.sel(rule="long").transpose("step", "seed"), float(later["size"].max())
        axes[1].plot(later.step, loss, color=plot.PALETTE[1], alpha=0.4, linewidth=0.8)
        most = float(runs.constant.max()) / (size * later.step)
        plot.theory(axes[1], later.step, most, "bound $C/t$", linestyle="--")
        axes[1].set(xscale="log", yscale="log", ylabel="mean loss", title="(b) the loss, long steps")
        for ax in axes:
            ax.set_xlabel("step $t$")
            ax.legend()
    return figure


NEARLY_ORTHOGONAL = Check(
    "R²_min γ² / (5 C_R n ζ), with ζ the largest |⟨xᵢ, xⱼ⟩|",
    lambda runs: runs.orthogonality,
    at_least(1.0, "the hypothesis of Theorem 4.2 (recalled)"),
)

DESCENT = Experiment(
    name="descent",
    title="Gradient descent where the hypotheses of Theorem 4.2 hold",
    run=run_theorem,
    draw=draw_theorem,
    seeds=20,
    cost=0.1,
    about=(
        "20 unit inputs in 200 dimensions, made so nearly orthogonal that R² γ² = 5.05 C_R n ζ with "
        "C_R = 10 γ⁻² + 10; slope γ = 0.1, 64 neurons, second layer ±1/8, mean logistic loss, 1000 steps. "
        "Short steps: the size γ²/(5 n C_R) = 1e-7 of the theorem; long ones: n = 20, the longest for which "
        "rankfall's proof holds. The start is the largest that the theorem allows for that step. Its "
        "constants are quoted from memory. The activation is the leaky ReLU itself, not the smoothed one of "
        "the theorem."
    ),
    claims=(
        Claim(
            sentence="One step takes the stable rank from the order of min(m, d) to a constant.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="stable rank of W₁, which was a quarter of min(m, d) at least",
            measure=lambda runs: _later(runs).stable_rank.isel(step=0),
            expected=at_most(BOUND, "(1+γ)²/(4γ), and 1 % for the condition number of the cosines"),
            hypotheses=(
                NEARLY_ORTHOGONAL,
                Check(
                    "stable rank of W₀ / min(m, d)",
                    lambda runs: runs.stable_rank.isel(step=0) / min(WIDTH, DIM),
                    between(0.25, 1.0, "m d/(√m + √d)² of a random matrix is a quarter at least"),
                ),
            ),
        ),
        Claim(
            sentence="After the first step the stable rank stays below a constant.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="largest stable rank of W_t for t ≥ 1",
            measure=lambda runs: _later(runs).stable_rank.max("step"),
            expected=at_most(BOUND, "(1+γ)²/(4γ), and 1 % for the condition number of the cosines"),
            hypotheses=(NEARLY_ORTHOGONAL,),
        ),
        Claim(
            sentence="The loss is at most C/t.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="largest t L(t) / C, with t the steps times their size",
            measure=lambda runs: _times_loss(runs) / runs.constant,
            expected=at_most(1.0, "C = 5 n (1 + e^q₀)/(4 γ² R²), from rankfall's proof: 5000"),
            hypotheses=(
                NEARLY_ORTHOGONAL,
                Check(
                    "largest |f(xᵢ)| at the start",
                    lambda runs: runs.start_output,
                    at_most(START, "the proof takes no more"),
                ),
            ),
        ),
        Claim(
            sentence="The loss falls like 1/t, no slower and no faster.",
            source="rankfall",
            metric="power of t with which the loss falls over the last factor 10 of the long steps",
            measure=lambda runs: runs.decay,
            expected=between(-1.1, -0.9, "−1, up to the constant beside t in 1/(t + const)"),
            hypotheses=(NEARLY_ORTHOGONAL,),
        ),
        Claim(
            sentence="The stable rank ends near 2(1+γ²)/(1+γ)² = 1.67, that of the limit.",
            source="rankfall",
            metric="stable rank of W_t at the last step",
            measure=lambda runs: runs.stable_rank.isel(step=-1),
            expected=near(SETTLED, 0.05, "the first steps' share dies out like 1/log t", relative=True),
            hypotheses=(NEARLY_ORTHOGONAL,),
            form="{:.3f}",
        ),
    ),
)
