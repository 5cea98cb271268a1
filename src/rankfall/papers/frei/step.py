"""Section 5, synthetic data: the stable rank after one step of gradient descent, and along training."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, gaussian_mixture
from rankfall.loss import logistic
from rankfall.measure import Spectrum
from rankfall.papers.frei.in_span import Start, descend, settled, start
from rankfall.papers.lab import (
    Claim,
    Experiment,
    at_least,
    at_most,
    between,
    guide,
    power_law,
    scientific,
    seed_lines,
)
from rankfall.theory import Situation
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results import frei_descent

GLOROT = 1.0  # the default scale, in multiples of Glorot's deviation


@dataclass(frozen=True)
class Setting:
    """What both experiments share: the numbers of section 5, quoted from memory."""

    n: int = 100
    width: int = 512
    slope: float = 0.1
    mean_power: float = 0.26  # the norm of the class mean is this power of the dimension
    label_noise: float = 0.15  # the part of the labels that is flipped
    step: float = 0.01
    steps: int = 200
    records: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)  # ours


@dataclass(frozen=True)
class ScaleSetting(Setting):
    """Starts of several scales in one dimension."""

    dim: int = 1000
    scales: tuple[float, ...] = (GLOROT, 0.1, 0.01, 1e-3, 1e-4)  # multiples of Glorot's deviation, falling
    fine: int = 13  # the scales that make one step only, from the first of those to the last; ours

    @property
    def fine_scales(self) -> np.ndarray:
        """The scales that make one step only."""
        return np.geomspace(self.scales[0], self.scales[-1], self.fine)


@dataclass(frozen=True)
class DimensionSetting(Setting):
    """Starts of one small scale in several dimensions."""

    dims: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)  # rising
    scale: float = 1e-4  # in multiples of Glorot's deviation


def mixture(setting: Setting, dim: int, seed: int) -> Data:
    """x = y mu + N(0, I), where |mu| is a power of d, and some of the labels are flipped."""
    norm = dim**setting.mean_power
    return gaussian_mixture(n=setting.n, dim=dim, mean_norm=norm, label_noise=setting.label_noise, seed=seed)


def glorot(width: int, dim: int) -> float:
    """The standard deviation sqrt(2 / (m + d))."""
    return float(np.sqrt(2 / (width + dim)))


def after_one_step(width: int, dim: int, sigma: float, spectral: float, sr: float) -> float:
    """The stable rank of N(0, sigma^2) weights plus a step of spectral norm `spectral` and stable rank `sr`.

    The largest singular value of a large random matrix and a matrix of rank one (Benaych-Georges and
    Nadakuditi 2012): it does not move until the latter exceeds sigma (m d)^(1/4).
    """
    c, theta2 = width / dim, spectral**2 / (sigma**2 * dim)
    top2 = (1 + theta2) * (c + theta2) / theta2 if theta2 > np.sqrt(c) else (1 + np.sqrt(c)) ** 2
    return float((width + theta2 * sr) / top2)


def _later(runs: xr.Dataset) -> xr.Dataset:
    """The runs without their start."""
    return runs.isel(step=slice(1, None))


def first_step(setting: Setting, begun: Start, sigma: float) -> tuple[float, float, float]:
    """The stable rank after one step; the spectral norm of the step, and its own stable rank."""
    s = _situation(setting, begun, sigma)
    move = -setting.step * fixed_second.gradient(s)
    return begun.stable_rank(s.w + move, sigma), float(np.linalg.norm(move, 2)), Spectrum.of(move).stable_rank


def _situation(setting: Setting, begun: Start, sigma: float) -> Situation:
    return Situation(begun.network(sigma, setting.slope), begun.data, logistic, setting.step)


def _bound(s: Situation) -> float:
    """The bound on the stable rank of what is added to W_0; there is none for dependent inputs."""
    return fixed_second.stable_rank_bound(s) if fixed_second.cosines(s)[0] > 0 else np.inf


def _course(setting: Setting, begun: Start, sigmas: list[float]) -> xr.Dataset:
    return descend(begun, sigmas, setting.slope, setting.step, setting.steps, setting.records)


# --- against the scale of the start -----------------------------------------------------------------------


def run_step(setting: ScaleSetting, seed: int) -> xr.Dataset:
    """One start at five scales along training, and at thirteen after the first step."""
    width, dim = setting.width, setting.dim
    begun, unit = start(mixture(setting, dim, seed), width, seed), glorot(width, dim)
    kept = _course(setting, begun, [scale * unit for scale in setting.scales])
    steps = [first_step(setting, begun, scale * unit) for scale in setting.fine_scales]
    predicted = [
        after_one_step(width, dim, scale * unit, spectral, sr)
        for scale, (_, spectral, sr) in zip(setting.fine_scales, steps, strict=True)
    ]
    s = _situation(setting, begun, unit)
    return kept.rename(run="scale").assign(
        after_one=("fine", [after for after, _, _ in steps]),
        predicted=("fine", predicted),
        threshold=("fine", [spectral / (width * dim) ** 0.25 / unit for _, spectral, _ in steps]),
        bound=_bound(s),
    )


def draw_step(setting: ScaleSetting, runs: xr.Dataset) -> Figure:
    """Along training; after one step against the scale, with the prediction; and what is added to W_0."""
    with plot.style():
        figure, (axes,) = plot.panels(3)
        for i, colour in enumerate(plot.colours(len(setting.scales))):
            for ax, name in ((axes[0], "stable_rank"), (axes[2], "change")):
                lines = runs[name].isel(scale=i).transpose("step", "seed")
                lines = lines if name == "stable_rank" else lines[1:]
                seed_lines(ax, lines.step, lines[:, 1:], colour, alpha=0.25)
                ax.plot(lines.step, lines[:, 0], color=colour, label=f"{setting.scales[i]:g}")
        axes[0].set_xscale("symlog", linthresh=1)
        axes[0].set(xlim=(0, None), yscale="log", ylim=(1, None), title="(a) along training")
        seeds = runs.sizes["seed"]
        fine = setting.fine_scales
        at, after = np.tile(fine, seeds), runs.after_one.transpose("seed", "fine").values.ravel()
        plot.theory(axes[1], fine, runs.predicted.median("seed"), "predicted")
        dots = {"color": plot.PALETTE[0], "markersize": 2.2, "markevery": 1, "alpha": 0.7}
        plot.simulation(axes[1], at, after, "measured", **dots)
        guide(axes[1], x=float(runs.threshold.median()), label="onset")
        axes[1].set(xscale="log", yscale="log", ylim=(1, None), title="(b) after one step")
        axes[1].set(xlabel=r"scale $\omega$ of the start / Glorot", ylabel=r"stable rank of $W_1$")
        axes[1].legend(loc="upper left")
        level = np.full(runs.sizes["step"] - 1, float(runs.bound.min()))
        plot.theory(axes[2], runs.step[1:], level, "bound")
        axes[2].legend(title=r"$\omega$ / Glorot", ncols=2, loc="center", bbox_to_anchor=(0.5, 0.52))
        axes[2].set(xscale="log", yscale="log", ylim=(1, 50), title=r"(c) what is added to $W_0$")
        for ax, of in ((axes[0], "$W_t$"), (axes[2], "$W_t - W_0$")):
            ax.set(xlabel="step $t$", ylabel=f"stable rank of {of}")
    return figure


# --- against the dimension --------------------------------------------------------------------------------


def run_dimension(setting: DimensionSetting, seed: int) -> xr.Dataset:
    """A small scale, at five dimensions."""
    found = []
    for dim in setting.dims:
        begun = start(mixture(setting, dim, seed), setting.width, seed)
        s = _situation(setting, begun, 1.0)
        course = _course(setting, begun, [setting.scale * glorot(setting.width, dim)]).isel(run=0)
        bound, asked = _bound(s), frei_descent.orthogonality(s)
        found.append(course.assign(bound=bound, orthogonality=asked))
    courses = xr.concat(found, dim=xr.Variable("dim", list(setting.dims)))
    # The power of d with which the largest stable rank after the start grows; one dimension tells none
    largest = _later(courses).stable_rank.max("step")
    return courses.assign(power=power_law(setting.dims, largest))


def draw_dimension(setting: DimensionSetting, runs: xr.Dataset) -> Figure:
    """Before, after one step and along training, and the change beside its bound, against the dimension."""
    dims = setting.dims
    fine = np.geomspace(dims[0], dims[-1], 60)
    later = _later(runs)
    one, most = later.stable_rank.isel(step=0), later.stable_rank.max("step")
    with plot.style():
        figure, (axes,) = plot.panels(3)
        plot.theory(axes[0], fine, random_stable_rank(setting.width, fine), "random matrices")
        _dots(axes[0], runs.stable_rank.isel(step=0), plot.GUIDE, "at the start")
        _dots(axes[0], one, plot.PALETTE[0], "after one step")
        axes[0].set(yscale="log", ylabel="stable rank of $W_t$", ylim=(0.8, 900), title="(a) one step")
        plot.theory(
            axes[1], fine, np.full(fine.shape, settled(setting.slope)), "orthogonal inputs", linestyle=":"
        )
        _dots(axes[1], one, plot.PALETTE[0], "after one step")
        _dots(axes[1], most, plot.PALETTE[1], "largest on the way")
        axes[1].set(ylabel="stable rank of $W_t$", ylim=(1, 2.4), title="(b) the constant")
        plot.theory(axes[2], dims[1:], runs.bound.median("seed")[1:], "bound (median)")
        _dots(axes[2], later.change.max("step"), plot.PALETTE[1], "largest on the way")
        axes[2].set(yscale="log", ylabel=r"stable rank of $W_t - W_0$", title=r"(c) what is added to $W_0$")
        for ax in axes:
            ax.set(xlabel="dimension $d$", xscale="log")
            ax.legend()
    return figure


def _dots(ax: Axes, values: xr.DataArray, colour: str, label: str) -> None:
    """All seeds at every dimension, beside each other."""
    at = np.outer(values.dim, np.geomspace(0.9, 1.1, values.sizes["seed"])).ravel()
    numbers = values.transpose("dim", "seed").values.ravel()
    plot.simulation(ax, at, numbers, label, color=colour, markersize=2.2, markevery=1, alpha=0.7)


def random_stable_rank(width: int, dim: np.ndarray) -> np.ndarray:
    """m d / (sqrt(m) + sqrt(d))^2, the stable rank of a large Gaussian matrix."""
    return np.asarray(width * dim / (np.sqrt(width) + np.sqrt(dim)) ** 2)


# --- the claims -------------------------------------------------------------------------------------------


ABOUT = (
    "x = y μ + N(0, I) with ‖μ‖ = d^0.26 and 15 % of the labels flipped, 100 samples, 512 leaky ReLU neurons "
    "of slope γ = 0.1, second layer ±1/√512, mean logistic loss, 200 steps of size 0.01. The initial weights "
    "are N(0, ω²), with ω a multiple of Glorot's √(2/(m + d)). These settings are quoted from memory. "
)


def _text(scale: float) -> str:
    """A scale in words."""
    return "Glorot" if scale == GLOROT else f"{scientific(scale)} × Glorot"


def scale_claims(setting: ScaleSetting) -> tuple[Claim, ...]:
    """From which starts the stable rank falls; of the default scale only where it is run."""
    default = GLOROT in setting.scales
    claimed = (*_on_small_starts(setting), *_on_other_starts(setting))
    return tuple(claim for claim in claimed if default or claim.id != "default-start-stays")


def _on_small_starts(setting: ScaleSetting) -> tuple[Claim, ...]:
    """The start, one step, and training, from the smallest scale."""
    last = _text(setting.scales[-1])
    return (
        Claim(
            id="start-rank",
            sentence="At the start the stable rank is of the order of min(m, d).",
            source="section 1",
            metric="stable rank of W₀ / min(m, d)",
            measure=lambda runs: runs.stable_rank.isel(step=0, scale=0) / min(setting.width, setting.dim),
            expected=between(0.25, 1.0, "m d/(√m + √d)² of a random matrix is a quarter of it at least"),
        ),
        Claim(
            id="small-start-falls",
            sentence="From a small start a single step makes the stable rank a small constant.",
            source="section 1, section 5",
            metric=f"stable rank of W₁ for ω = {last}",
            measure=lambda runs: runs.stable_rank.isel(step=1, scale=-1),
            expected=at_most(2.0, "the constant is not printed; 2 is the rank of the limit"),
            form="{:.2f}",
        ),
        Claim(
            id="small-start-stays",
            sentence="From a small start the stable rank stays small along training.",
            source="section 1, section 5",
            metric=f"largest stable rank of W_t, 1 ≤ t ≤ {setting.steps}, for ω = {last}",
            measure=lambda runs: _later(runs).stable_rank.isel(scale=-1).max("step"),
            expected=at_most(2.0, "the constant is not printed; 2 is the rank of the limit"),
            form="{:.2f}",
        ),
    )


def _on_other_starts(setting: ScaleSetting) -> tuple[Claim, ...]:
    """The default scale, and all of them."""
    order = 0.12 * (512 / setting.width) ** (1 / 3)  # m^(-1/3), as it was rounded for the paper's 512 neurons
    return (
        Claim(
            id="default-start-stays",
            sentence="A small start is important: from the default scale the stable rank does not fall.",
            source="abstract, section 5",
            metric=f"least stable rank of W_t / that of W₀, for ω = {_text(GLOROT)}",
            measure=lambda runs: (
                (runs.stable_rank / runs.stable_rank.isel(step=0))
                .isel(scale=setting.scales.index(GLOROT))
                .min("step")
            ),
            expected=at_least(0.9, "no fall to speak of: our reading"),
            note="Up to a loss of about 0.1. As t → ∞ the rank falls from any scale, in logarithmic time.",
        ),
        Claim(
            id="random-matrix-law",
            sentence=(
                "The fall begins where the spectral norm of the step exceeds ω (m d)^¼, and follows the law "
                "of a random matrix plus one of rank one."
            ),
            source="rankfall",
            metric=f"largest relative error of the stable rank of W₁ over {setting.fine} scales",
            measure=lambda runs: abs(runs.after_one / runs.predicted - 1).max("fine"),
            expected=at_most(order, f"corrections of order m^(−1/3) = {order:.2g} where the fall begins"),
        ),
        Claim(
            id="low-rank-change",
            sentence="What training adds to W₀ is of low stable rank at all times, whatever the scale.",
            source="rankfall, behind Theorem 4.2",
            metric="largest stable rank of W_t − W₀ / its bound, over all steps and scales",
            measure=lambda runs: _later(runs).change.max(("step", "scale")) / runs.bound,
            expected=at_most(1.0, "the bound (1+γ)²/(4γ) × condition number of the cosines"),
        ),
    )


STEP_BY_SCALE = Experiment(
    name="step",
    title="The stable rank after one step and along training, against the scale of the start",
    setting=ScaleSetting(),
    simulation=run_step,
    picture=draw_step,
    statements=scale_claims,
    seeds=20,
    cost=1.3,
    about=ABOUT + "Here d = 1000; five scales are trained, thirteen make one step.",
)


def dimension_claims(setting: DimensionSetting) -> tuple[Claim, ...]:
    """The stable rank of small starts in all dimensions, and how it changes where there are several."""
    several = len(setting.dims) > 1
    return tuple(
        claim for claim in _dimension_claims(setting) if several or claim.id != "constant-in-dimension"
    )


def _dimension_claims(setting: DimensionSetting) -> tuple[Claim, ...]:
    least, dims = min(setting.dims), np.array(setting.dims, dtype=float)
    own = power_law(dims, random_stable_rank(setting.width, dims))
    return (
        Claim(
            id="random-start-rank",
            sentence="The stable rank at the start is that of a random matrix, and grows with d.",
            source="section 1",
            metric="relative error of m d/(√m + √d)²",
            measure=lambda runs: abs(
                runs.stable_rank.isel(step=0) / random_stable_rank(setting.width, runs.dim) - 1
            ),
            expected=at_most(
                0.1 * (100 / least) ** (2 / 3),  # 0.1 at d = 100
                f"twice d^(−2/3) = {least ** (-2 / 3):.1g}, the order of the fluctuations at d = {least}",
            ),
        ),
        Claim(
            id="constant-in-dimension",
            sentence="From the first step on the stable rank hardly grows with d.",
            source="section 1, Theorem 4.2",
            metric="power of d with which the largest stable rank for t ≥ 1 grows",
            measure=lambda runs: runs.power,
            expected=between(-0.1, 0.1, f"0 for a constant; the start's own power is {own:.2f}"),
            note=(
                "It rises slowly, towards the 2(1+γ²)/(1+γ)² = "
                f"{settled(setting.slope):.2f} of orthogonal inputs."
            ),
        ),
        Claim(
            id="small-at-every-dimension",
            sentence="From the first step on the stable rank is small at every d.",
            source="section 1, Theorem 4.2",
            metric="largest stable rank of W_t for t ≥ 1",
            measure=lambda runs: _later(runs).stable_rank.max("step"),
            expected=at_most(2.0, "the constant is not printed; 2 is the rank of the limit"),
            form="{:.2f}",
        ),
        Claim(
            id="hypothesis-not-met",
            sentence="No such data come near the hypothesis of Theorem 4.2: the rank falls without it.",
            source="rankfall",
            metric="R²_min γ² / (5 C_R n ζ), where the theorem asks for 1",
            measure=lambda runs: runs.orthogonality,
            expected=at_most(1e-3, "a thousand times too small; the constants are quoted from memory"),
            form="{:.1e}",
        ),
    )


DIMENSION = Experiment(
    name="dimension",
    title="The stable rank after one step and along training, against the dimension",
    setting=DimensionSetting(),
    simulation=run_dimension,
    picture=draw_dimension,
    statements=dimension_claims,
    seeds=20,
    cost=1.4,
    about=ABOUT + "Here ω = 1e-4 × Glorot, and d goes from 100 to 10000.",
)
