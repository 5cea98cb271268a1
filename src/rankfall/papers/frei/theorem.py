"""Theorem 4.2 where its hypotheses hold: gradient descent on constructed, very nearly orthogonal data."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import nearly_orthogonal
from rankfall.loss import logistic
from rankfall.papers.frei.in_span import descend, settled, start
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    at_most,
    between,
    near,
    orthogonal_enough,
    seed_lines,
)
from rankfall.theory import Situation
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results import frei_descent

RULES = ("short", "long")  # the steps


@dataclass(frozen=True)
class Setting:
    """The theorem leaves these numbers open: all of them are ours. Inputs have norm 1."""

    n: int = 20
    dim: int = 200  # n at least
    width: int = 64
    slope: float = 0.1
    excess: float = 1.01  # the data are this many times as nearly orthogonal as the theorem asks for
    failure: float = 0.05  # the probability with which the theorem may fail
    steps: int = 1000
    records: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500)

    @property
    def c_r(self) -> float:
        """C_R of the theorem, for inputs of one norm."""
        return frei_descent.RATIO * (self.slope**-2 + 1)

    @property
    def p(self) -> float:
        """p(X) of the data."""
        return self.excess * frei_descent.ORTHOGONALITY * self.c_r / self.slope**2

    @property
    def sizes(self) -> tuple[float, float]:
        """Steps as short as the theorem asks for, and the longest of docs/theory/frei_descent.md."""
        return self.slope**2 / (5 * self.n * self.c_r), float(self.n)

    @property
    def bound(self) -> float:
        """The bound on the stable rank, with one per cent for the condition number of the cosines."""
        return 1.01 * (1 + self.slope) ** 2 / (4 * self.slope)


def run_theorem(setting: Setting, seed: int) -> xr.Dataset:
    """Descent with the step and the start of the theorem, and with a step some 10^8 times as long."""
    slope, steps, sizes = setting.slope, setting.steps, setting.sizes
    data = nearly_orthogonal(n=setting.n, dim=setting.dim, p=setting.p, seed=seed)
    begun = start(data, setting.width, seed)
    sigmas = [largest_start(setting, size) for size in sizes]
    ends = [steps // 10, steps]  # the last factor 10 of the steps, for the decay
    kept = descend(begun, sigmas, slope, sizes, steps, [*setting.records, *ends]).rename(run="rule")
    s = Situation(begun.network(sigmas[1], slope), begun.data, logistic, sizes[1])
    late = kept.loss.isel(rule=-1).sel(step=ends).values
    return kept.assign(
        decay=np.log10(late[1] / late[0]),
        size=("rule", list(sizes)),
        orthogonality=frei_descent.orthogonality(s),
        start_output=fixed_second.start_output(s),
        constant=1 / fixed_second.rates(s).slow,
    ).assign_coords(rule=list(RULES))


def largest_start(setting: Setting, size: float) -> float:
    """The standard deviation that the theorem allows for steps of this size, inputs of norm 1 (recalled)."""
    spread = np.sqrt(setting.width * setting.dim * np.log(4 * setting.width / setting.failure))
    return float(size * setting.slope**2 / (72 * setting.c_r * setting.n * spread))


def _later(runs: xr.Dataset) -> xr.Dataset:
    return runs.isel(step=slice(1, None))


def _times_loss(runs: xr.Dataset) -> xr.DataArray:
    """t times the loss, with t in steps times their size."""
    later = _later(runs).sel(rule="long")
    return later.loss * later.step * later["size"]


def draw_theorem(setting: Setting, runs: xr.Dataset) -> Figure:
    """The stable rank beside its bound; the loss beside C/t."""
    later = _later(runs)
    with plot.style():
        figure, (axes,) = plot.panels(2)
        for rule, colour in zip(RULES, plot.PALETTE, strict=False):
            lines = runs.stable_rank.sel(rule=rule).transpose("step", "seed")
            seed_lines(axes[0], runs.step, lines, colour, f"{rule} steps")
        for value, dash, label in ((setting.bound, "--", "bound"), (settled(setting.slope), ":", "limit")):
            level = np.full(later.sizes["step"], value)
            plot.theory(axes[0], later.step, level, f"{label} {value:.2f}", linestyle=dash)
        axes[0].set_xscale("symlog", linthresh=1)
        axes[0].set(yscale="log", ylim=(1, 60), ylabel="stable rank of $W_t$", title="(a) falls in one step")
        axes[0].set(xlim=(0, None))
        loss, size = later.loss.sel(rule="long").transpose("step", "seed"), float(later["size"].max())
        seed_lines(axes[1], later.step, loss, plot.PALETTE[1])
        most = float(runs.constant.max()) / (size * later.step)
        plot.theory(axes[1], later.step, most, "bound $C/t$", linestyle="--")
        axes[1].set(xscale="log", yscale="log", ylabel="mean loss", title="(b) the loss, long steps")
        for ax in axes:
            ax.set_xlabel("step $t$")
            ax.legend()
    return figure


NEARLY_ORTHOGONAL = orthogonal_enough(
    lambda runs: runs.orthogonality,
    "the hypothesis of Theorem 4.2 (recalled)",
    metric="R²_min γ² / (5 C_R n ζ), with ζ the largest |⟨xᵢ, xⱼ⟩|",
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 4.2, and how loss and rank end."""
    return (*_on_rank(setting), *_on_loss(setting), *_on_the_end(setting))


def _on_rank(setting: Setting) -> tuple[Claim, ...]:
    """The stable rank, after one step and later."""
    below = at_most(setting.bound, "(1+γ)²/(4γ), and 1 % for the condition number of the cosines")
    return (
        Claim(
            id="falls-in-one-step",
            sentence="One step takes the stable rank from the order of min(m, d) to a constant.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="stable rank of W₁, which was a quarter of min(m, d) at least",
            measure=lambda runs: _later(runs).stable_rank.isel(step=0),
            expected=below,
            hypotheses=(
                NEARLY_ORTHOGONAL,
                Check(
                    "stable rank of W₀ / min(m, d)",
                    lambda runs: runs.stable_rank.isel(step=0) / min(setting.width, setting.dim),
                    between(0.25, 1.0, "m d/(√m + √d)² of a random matrix is a quarter at least"),
                ),
            ),
        ),
        Claim(
            id="stays-bounded",
            sentence="After the first step the stable rank stays below a constant.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="largest stable rank of W_t for t ≥ 1",
            measure=lambda runs: _later(runs).stable_rank.max("step"),
            expected=below,
            hypotheses=(NEARLY_ORTHOGONAL,),
        ),
    )


def _on_loss(setting: Setting) -> tuple[Claim, ...]:
    """How the loss falls."""
    constant = 2.5 * setting.n / setting.slope**2  # C for tiny starts
    return (
        Claim(
            id="loss-bound",
            sentence="The loss is at most C/t.",
            source="Theorem 4.2, for the leaky ReLU itself",
            metric="largest t L(t) / C, with t the steps times their size",
            measure=lambda runs: _times_loss(runs) / runs.constant,
            expected=at_most(1.0, f"C = 5 n (1 + e^q₀)/(4 γ² R²), from rankfall's proof: {constant:.0f}"),
            hypotheses=(
                NEARLY_ORTHOGONAL,
                Check(
                    "largest |f(xᵢ)| at the start",
                    lambda runs: runs.start_output,
                    at_most(fixed_second.START, "the proof takes no more"),
                ),
            ),
        ),
        Claim(
            id="loss-decay",
            sentence="The loss falls like 1/t, no slower and no faster.",
            source="rankfall",
            metric="power of t with which the loss falls over the last factor 10 of the long steps",
            measure=lambda runs: runs.decay,
            expected=between(-1.1, -0.9, "−1, up to the constant beside t in 1/(t + const)"),
            hypotheses=(NEARLY_ORTHOGONAL,),
        ),
    )


def _on_the_end(setting: Setting) -> tuple[Claim, ...]:
    """Where the stable rank ends."""
    end = settled(setting.slope)
    return (
        Claim(
            id="settled-rank",
            sentence=f"The stable rank ends near 2(1+γ²)/(1+γ)² = {end:.2f}, that of the limit.",
            source="rankfall",
            metric="stable rank of W_t at the last step",
            measure=lambda runs: runs.stable_rank.isel(step=-1),
            expected=near(end, 0.05, "the first steps' share dies out like 1/log t", relative=True),
            hypotheses=(NEARLY_ORTHOGONAL,),
            form="{:.3f}",
        ),
    )


DESCENT = Experiment(
    name="descent",
    title="Gradient descent where the hypotheses of Theorem 4.2 hold",
    setting=Setting(),
    simulation=run_theorem,
    picture=draw_theorem,
    statements=claims,
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
)
