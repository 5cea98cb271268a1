"""Leaky ReLU on nearly orthogonal data: each sign block tends to one direction."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, p_orthogonality
from rankfall.dynamics import exact_flow
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.kou.network import (
    CERTIFIED,
    END,
    NearlyOrthogonal,
    curves,
    descends,
    equal_margins,
    nearly,
    spread,
    with_end,
)
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    at_least,
    at_most,
    between,
    finished,
    guide,
    near,
    power_law,
    seed_lines,
)
from rankfall.theory.results import frei_flow


@dataclass(frozen=True)
class Setting(NearlyOrthogonal):
    """The theorem asks for p(X) slope^4 above a constant. The flow has as many records as descent."""

    n: int = 8
    p: float = 1000.0
    slope: float = 0.5
    late: float = 680.0  # log(1/loss) at the end of the flow: t is about 1e298

    @property
    def last(self) -> int:
        """The records of the flow over which powers of log t are fitted: its last factor of ten."""
        return max(2, round((self.records - 1) / np.log10(self.late)))


def run_leaky(setting: Setting, seed: int) -> xr.Dataset:
    """Descent for some thousand steps, the flow from the same start far beyond, and its certified end."""
    slope = setting.slope
    data, net = setting.data(seed), setting.network(slope, seed)
    solution = frei_flow.two_vectors(data.x, data.y, net.weights[1][0], slope)
    assert solution is not None  # nearly orthogonal inputs can always be separated
    early, end = descends(setting, net, data)
    # In the loss clock log(1/loss) grows at the rate 1/|W|^2 of the limit at the margin 1.
    late = _flows(setting, net, data, (solution.w**2).sum())
    now = np.log(float(early.step_size) * setting.steps)
    found = {f"late_{name}": values for name, values in late.items()} | {
        "apart": float(early.log_loss[-1] - np.interp(now, late.log_time, late.log_loss)),
        "predicted_stable_rank": Spectrum.of(solution.w).stable_rank,
        "predicted_norm": float(np.linalg.norm(solution.w)),
        "orthogonality": p_orthogonality(data) * slope**4,
    }
    return with_end(early, seed, end, found)


def _flows(setting: Setting, net: Network, data: Data, unit: float) -> xr.Dataset:
    """The flow of the same network in the loss clock, to times that no descent reaches."""
    clock = unit * np.geomspace(1.0, setting.late, setting.records)
    run = exact_flow(
        net, data, "logistic", clock[-1], clock="loss", measures=["weights"], record=list(clock), show=False
    )
    kept = curves(finished(run).weights, net, data).assign(log_time=("s", run.log_time.values))
    return kept.isel(s=slice(1, None)).rename(s="record").drop_vars("record")


def _exponent(setting: Setting, runs: xr.Dataset, name: str) -> np.ndarray:
    """The power of log t with which an array grows over the last records, seed by seed."""
    last = runs.transpose("seed", "record", ...).isel(record=slice(-setting.last, None))
    return power_law(last.late_log_time, last[name], axis=1)


def _excess(setting: Setting, runs: xr.Dataset) -> np.ndarray:
    larger = runs.assign(excess=runs.late_block_stable_rank.max("sign") - 1)
    return _exponent(setting, larger, "excess")


def _loss_power(runs: xr.Dataset) -> np.ndarray:
    """The power of t with which the loss falls between the last two records."""
    last = runs.isel(record=slice(-2, None)).transpose("seed", "record", ...)
    loss, time = last.late_log_loss.diff("record"), last.late_log_time.diff("record")
    return np.asarray(loss / time).ravel()


def draw_leaky(setting: Setting, runs: xr.Dataset) -> Figure:
    """Stable ranks, norm and loss against log t: descent, and the flow far beyond."""
    with plot.style():
        figure, axes = plot.panels(3)
        late, colour = runs.late_log_time.transpose("record", "seed"), plot.PALETTE
        early = np.log(runs.step.values[1:, None] * runs.step_size.values)
        excess = (runs.late_block_stable_rank.max("sign") - 1).transpose("record", "seed")
        ax = axes[0, 0]
        seed_lines(ax, late, excess, colour[0], f"flow, {runs.sizes['seed']} seeds")
        steps = (runs.block_stable_rank.max("sign") - 1).transpose("step", "seed")[1:]
        plot.simulation(ax, early[:, 0], steps[:, 0], "descent", color=colour[1], markevery=2)
        t = np.array([20.0, 700.0])
        for power, style in ((1, ":"), (2, "-")):
            y = 1e-3 * (t / t[0]) ** -power
            plot.theory(ax, t, y, rf"$\propto \log^{{-{power}}} t$", linestyle=style)
        ax.set(title="(a) sign blocks", ylabel=r"larger stable rank of a block $-\,1$", yscale="log")
        ax.set_xlim(1, 900)
        ax.legend()
        _relative(axes[0, 1], runs, early, late)
        ax = axes[0, 2]
        seed_lines(ax, late, spread(runs.late_margins).transpose("record", "seed"), colour[0])
        seed_lines(ax, early, spread(runs.margins).transpose("step", "seed")[1:], colour[1])
        ax.set(title="(c) all margins become equal", yscale="log", xlim=(1, 900))
        ax.set_ylabel(r"$(\max_i q_i - \min_i q_i)\,/\,\min_i q_i$")
        for ax in axes[0]:
            ax.set(xscale="log", xlabel=r"$\log t$")
    return figure


def _relative(ax: Axes, runs: xr.Dataset, early: np.ndarray, late: xr.DataArray) -> None:
    """The stable rank of the whole first layer, and its norm over log t, relative to what they tend to."""
    whole = runs.late_stable_rank.transpose("record", "seed")
    seed_lines(ax, late, whole, plot.PALETTE[0])
    plot.simulation(ax, early[:, 0], runs.stable_rank.transpose("step", "seed")[1:, 0],
                    color=plot.PALETTE[1], markevery=2)  # fmt: skip
    end = float(runs.predicted_stable_rank.median())
    plot.theory(ax, [1, 900], [end, end], f"its limit, {end:.3f}", linestyle="--")
    guide(ax, y=1, linestyle="-")
    ax.set(title="(b) the whole first layer", ylabel=r"stable rank of $W$", xlim=(1, 900), ylim=(0.98, 1.5))
    ax.legend()


# --- the claims -------------------------------------------------------------------------------------------

NEARLY = nearly("p(X) γ⁴ with p(X) = R_min² / (R² n max |⟨xᵢ, xₖ⟩|)")


def _together(setting: Setting) -> Check:
    """Descent ends where the flow is at that time."""
    because = f"from then on the steps, η times the loss, change margins by about 1/{setting.steps} each"
    return Check(
        "log loss of descent − that of the flow, at the last step",
        lambda runs: runs.apart,
        between(-0.1, 0.1, because),
    )


def _decade(setting: Setting) -> str:
    """Why powers of log t are near those of the theorem, and not nearer."""
    return f"the margin is log t − c with c ≈ 6, and the decade begins at log t ≈ {setting.late / 10:g}"


def claims(setting: Setting) -> tuple[Claim, ...]:
    """The theorem on leaky ReLU, and what comes out beside it."""
    return (*_on_blocks(setting), *_on_directions(setting), *_on_growth(setting))


def _on_blocks(setting: Setting) -> tuple[Claim, ...]:
    """The stable rank of the sign blocks."""
    late = (NEARLY, _together(setting))
    return (
        Claim(
            id="rank-one-rate",
            sentence="The stable rank of each sign block tends to 1, at least as fast as 1/log t.",
            source="NeurIPS, theorem on leaky ReLU",
            metric="power of log t of (larger stable rank of a block − 1), last decade of log t",
            measure=lambda runs: _excess(setting, runs),
            expected=at_most(-1.0, "the rate in the theorem, O(1/log t)"),
            hypotheses=late,
        ),
        Claim(
            id="rank-one-faster",
            sentence="The stable rank of a block comes to 1 faster than 1/log t: like 1/log² t.",
            source="rankfall, docs/theory/kou_descent.md",
            metric="power of log t of (larger stable rank of a block − 1), last decade of log t",
            measure=lambda runs: _excess(setting, runs),
            expected=near(-2.0, 0.2, _decade(setting)),
            hypotheses=late,
        ),
        Claim(
            id="rank-one-blocks",
            sentence="The blocks end with stable rank 1.",
            source="NeurIPS, abstract and theorem on leaky ReLU",
            metric="largest stable rank of a block in the certified limit, − 1",
            measure=lambda runs: runs.end_blocks.max("sign") - 1,
            expected=at_most(1e-9, "1, up to the tolerance of the certificate"),
            hypotheses=(NEARLY, CERTIFIED),
            proofs=(END,),
            form="{:.1e}",
        ),
    )


def _on_directions(setting: Setting) -> tuple[Claim, ...]:
    """The stable rank of the whole layer."""
    orthogonal = 1 + ((1 - setting.slope) / (1 + setting.slope)) ** 2
    return (
        Claim(
            id="two-directions",
            sentence="The whole first layer keeps two directions, those of a convex problem.",
            source="rankfall",
            metric="stable rank of W in the certified limit − that of the convex problem's solution",
            measure=lambda runs: runs.end_stable_rank - runs.predicted_stable_rank,
            expected=between(-1e-8, 1e-8, "two independent computations of one limit"),
            hypotheses=(
                NEARLY,
                CERTIFIED,
                Check(
                    "stable rank of W in the certified limit",
                    lambda runs: runs.end_stable_rank,
                    at_least(1.05, "two directions, not one"),
                    form="{:.4f}",
                ),
            ),
            proofs=(END,),
            form="{:.1e}",
            note=(
                "The theorem speaks of each sign block, whose stable rank is 1. On orthogonal data of "
                f"equal norms that of the whole layer is 1 + ((1 − γ)/(1 + γ))² = {orthogonal:.3f}."
            ),
        ),
    )


def _on_growth(setting: Setting) -> tuple[Claim, ...]:
    """Norm, loss and margins."""
    late = (NEARLY, _together(setting))
    return (
        Claim(
            id="norm-log",
            sentence="The norm of the first layer grows like log t.",
            source="NeurIPS, theorem on leaky ReLU",
            metric="power of log t with which ‖W‖ grows, last decade of log t",
            measure=lambda runs: _exponent(setting, runs, "late_norm"),
            expected=near(1.0, 0.1, _decade(setting)),
            hypotheses=late,
        ),
        Claim(
            id="loss-inverse",
            sentence="The loss falls like 1/t.",
            source="NeurIPS, theorem on leaky ReLU",
            metric="power of t with which the loss falls, at the end of the flow",
            measure=_loss_power,
            expected=near(
                -1.0,
                1e-3,
                "corrections vanish like the margins' spread, as 1/log² t: "
                f"at log t ≈ {setting.late:g} it is {setting.late**-2:.0e}",
            ),
            hypotheses=late,
            form="{:.6f}",
        ),
        equal_margins(
            "leaky-equal-margins", "NeurIPS, abstract and theorem on leaky ReLU", (NEARLY, CERTIFIED)
        ),
    )


LEAKY = Experiment(
    name="leaky",
    title="Leaky ReLU on nearly orthogonal data: one direction for each sign",
    setting=Setting(),
    simulation=run_leaky,
    picture=draw_leaky,
    statements=claims,
    seeds=20,
    cost=0.5,
    about=(
        "8 inputs of one norm with p(X) = 1000 in 20 dimensions, 4 of each label; 8 neurons of each sign, "
        "second layer ±1/8 fixed, W(0) ~ N(0, 0.1²), slope 1/2, mean logistic loss, descent with the "
        "longest step of the hypotheses. What happens at late times is read off the exact gradient flow from "
        "the same start, followed to t = 10²⁹⁸, and off the certified limit from the last step."
    ),
)
