"""Neurons that stay active on all samples: their rows of a ReLU layer fall to rank one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, is_separable
from rankfall.dynamics import exact_flow
from rankfall.measure import Spectrum, with_weights
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Interval,
    at_least,
    at_most,
    finished,
    scientific,
    seed_lines,
    superscript,
)
from rankfall.papers.le.late import last, log_time_axis
from rankfall.theory.results import le_stable_activation


@dataclass(frozen=True)
class Setting:
    """A ReLU network on a ring. Ours: the paper's own settings are not known to us."""

    n: int = 8
    noise: float = 0.1  # of the points, beside a radius of 1
    width: int = 24  # with 16 neurons at scale 1 fewer than two stay active in 2 of 20 seeds
    scale: float = 0.5  # the norm of each layer at the start
    log10_end: int = 290  # the flow ends at t = 10^290
    early_records: int = 28  # even in log t, up to t = 1000
    late_records: int = 18  # even in log log t, from there on
    rtol: float = 1e-8

    def __post_init__(self) -> None:
        """Refuse an end that is not late, or no number."""
        if not 3 < self.log10_end <= 308:
            raise ValueError(f"log10_end must be from 4 to 308; {self.log10_end} is not.")

    @property
    def times(self) -> np.ndarray:
        """When the flow is recorded."""
        early = np.linspace(-1, 3, self.early_records)
        return np.unique(10 ** np.concatenate([early, np.geomspace(3, self.log10_end, self.late_records)]))


def run_active(setting: Setting, seed: int) -> xr.Dataset:
    """What is conserved at single neurons, between all, and between those that stay active on all samples."""
    data, record = ring(setting, seed), setting.times
    start = Network.gaussian((3, setting.width, 1), 0.0, setting.scale, seed)
    options: dict[str, Any] = {"rtol": setting.rtol, "measures": ["weights"], "record": record, "show": False}
    run = finished(exact_flow(start, data, "exponential", record[-1], **options))
    first, second = with_weights(start, run["weights"].values).weights
    since = le_stable_activation.stably_activated(run, data)[1]
    stable = np.isfinite(since)
    times = run["time"].values
    begin = int(np.searchsorted(times, since[stable].max(initial=0.0)))
    balance = second.transpose(0, 2, 1) @ second - first @ first.transpose(0, 2, 1)
    total = (run["weights"].values ** 2).sum(axis=1)
    rows = first[:, stable] if stable.any() else np.full_like(first[:, :1], np.nan)  # no rows have no rank
    kept = balance[begin][np.ix_(stable, stable)]
    own = Spectrum.of(rows)
    return xr.Dataset(
        {
            "time": ("record", times),
            "late": ("record", np.arange(len(times)) >= begin),
            "stable": int(stable.sum()),
            "stable_since": times[begin],
            "separable": int(is_separable(data)),
            "neurons": ("record", _change(np.diagonal(balance, axis1=1, axis2=2), 0) / total),
            "pairs": ("record", _change(balance[:, stable][:, :, stable], begin) / total),
            "all_pairs": ("record", _change(balance, begin) / total),
            "excess": ("record", own.excess),
            "bound": float(np.linalg.eigvalsh(kept)[-1] - np.trace(kept)) if stable.any() else np.nan,
            "stable_rank": ("record", own.stable_rank),
            "layer": ("record", Spectrum.of(first).stable_rank),
        }
    )


def ring(setting: Setting, seed: int) -> Data:
    """One class on a ring around the other, at height 1: a cone that no linear function separates."""
    n = setting.n
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    angles = 2 * np.pi * np.arange(n) / n
    plane = np.where(y > 0, 1.0, 0.0)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    plane += setting.noise * np.random.default_rng(seed).normal(size=plane.shape)
    return Data(np.column_stack([np.ones(n), plane]), y, "ring")


def _change(values: np.ndarray, begin: int) -> np.ndarray:
    """The largest change of an entry since a record, at each record."""
    changes = np.abs(values - values[begin]).reshape(len(values), -1)
    return changes.max(axis=1, initial=0.0)


def _late(runs: xr.Dataset, values: xr.DataArray) -> xr.DataArray:
    """The largest value from the time on when all of S are active on all samples."""
    return values.where(runs.late.astype(bool)).max("record")


def draw_active(_: Setting, runs: xr.Dataset) -> Figure:
    """What is conserved; excess and bound; stable ranks of the rows of S and of the layer."""
    with plot.style():
        figure, axes = plot.panels(3)
        times = np.log10(runs.time.isel(seed=0, record=slice(1, None)).values)
        late = runs.isel(record=slice(1, None)).transpose("record", "seed")
        after = late.late.astype(bool)
        ratio = (late.excess / late.bound).where(after)
        curves = [
            (axes[0, 0], late.all_pairs.where(after & (late.all_pairs > 0)), "all pairs", plot.PALETTE[4]),
            (axes[0, 0], late.pairs.where(after & (late.pairs > 0)), "pairs in $S$", plot.PALETTE[0]),
            (axes[0, 0], late.neurons, "single neurons", plot.PALETTE[2]),
            (axes[0, 1], ratio, "rows of $S$", plot.PALETTE[0]),
            (axes[0, 2], late.layer, "all of $W_1$", plot.PALETTE[4]),
            (axes[0, 2], late.stable_rank, "rows of $S$", plot.PALETTE[0]),
        ]
        for ax, values, name, colour in curves:
            seed_lines(ax, times, values, colour, name)
        axes[0, 0].set(yscale="log", ylabel=r"largest change of $C_{jk}$, over $\|W\|^2$", ylim=(1e-19, 1e3))
        axes[0, 0].set_title("(a) what is conserved")
        axes[0, 1].axhline(1, color=plot.INK, linewidth=0.9, label="bound $D_S$, known at $t_N$")
        axes[0, 1].set(ylabel=r"$(\|W_S\|_F^2 - \|W_S\|_2^2)\,/\,D_S$", ylim=(0, 1.35))
        axes[0, 1].set_title("(b) excess over rank one")
        axes[0, 2].set(ylabel=r"$\|W\|_F^2 / \|W\|_2^2$", title="(c) stable ranks")
        for ax in axes[0]:
            log_time_axis(ax)
            ax.legend(loc="center right" if ax is axes[0, 0] else "upper right")
    return figure


TWO = Check(
    "neurons that stay active on all samples, |S|",
    lambda runs: runs.stable,
    at_least(2, "one row alone has rank one by its shape"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What is conserved, and which rows fall to rank one."""
    return (*_on_what_is_kept(setting), *_on_rank(setting))


def _on_what_is_kept(setting: Setting) -> tuple[Claim, ...]:
    """What is conserved, and between which neurons."""
    tolerance = scientific(setting.rtol)
    constant: Interval = at_most(
        setting.rtol, f"a constant of the flow, whose motion is followed to {tolerance}"
    )
    return (
        Claim(
            id="neurons-conserve",
            sentence="Every ReLU neuron keeps |a_j|² − ‖w_j‖².",
            source="abstract (training invariances); Du, Hu and Lee 2018",
            metric="largest change of |a_j|² − ‖w_j‖² since the start, over ‖W‖² of all weights",
            measure=lambda runs: runs.neurons.max("record"),
            expected=constant,
        ),
        Claim(
            id="active-pairs-conserve",
            sentence="From t_N on a_j a_k − ⟨w_j, w_k⟩ is conserved between stably activated neurons.",
            source="abstract (submatrices of stably activated neurons)",
            metric="largest change of an entry of C_SS after t_N, over ‖W‖² of all weights",
            measure=lambda runs: _late(runs, runs.pairs),
            expected=constant,
            hypotheses=(TWO,),
        ),
        Claim(
            id="other-pairs-change",
            sentence="For other pairs of neurons a_j a_k − ⟨w_j, w_k⟩ is not conserved.",
            source="abstract (not true in general for the full matrix)",
            metric="largest change of an entry of C after t_N, over ‖W‖² of all weights",
            measure=lambda runs: _late(runs, runs.all_pairs),
            expected=at_least(1e-3, f"far beyond {tolerance}, which the tolerance of the flow can explain"),
        ),
    )


def _on_rank(setting: Setting) -> tuple[Claim, ...]:
    """Which rows fall to rank one."""
    end = f"t = 10{superscript(setting.log10_end)}"
    # D_S is quadratic in the start; margins, which go like ln t, are quadratic in the weights.
    start, growth = (setting.scale / Setting.scale) ** 2, setting.log10_end / Setting.log10_end
    return (
        Claim(
            id="active-rows-rank-one",
            sentence="The submatrix of the stably activated neurons falls to rank one.",
            source="abstract (submatrices of stably activated neurons)",
            metric=f"stable rank of W_S at {end}",
            measure=lambda runs: last(runs.stable_rank),
            expected=at_most(
                1 + 0.001 * start / growth,
                f"1 + D_S/‖W_S‖₂², with D_S < {0.2 * start:.2g} at t_N and "
                f"‖W_S‖₂² > {600 * growth:.0f} at the end",
            ),
            hypotheses=(TWO,),
            form="{:.5f}",
        ),
        Claim(
            id="layer-not-rank-one",
            sentence="The whole ReLU layer does not fall to rank one.",
            source="abstract (not true in general for the full matrix)",
            metric=f"stable rank of W₁ at {end}",
            measure=lambda runs: last(runs.layer),
            expected=at_least(1.05, "clearly above 1, and above what the rows of S have"),
            note="It cannot: were W₁ = u vᵀ, the sign of v·x would tell the class.",
            hypotheses=(
                Check(
                    "is the data set linearly separable (1) or not (0)",
                    lambda runs: runs.separable,
                    at_most(0, "else a layer of rank one could fit it"),
                ),
            ),
        ),
    )


ACTIVE = Experiment(
    name="active",
    title="Neurons that stay active on all samples, in a ReLU network",
    setting=Setting(),
    simulation=run_active,
    picture=draw_active,
    statements=claims,
    seeds=20,
    cost=0.8,
    about=(
        "A two-layer ReLU network of 24 neurons, both layers trained with the exponential loss, followed "
        "exactly from kink to kink up to t = 10²⁹⁰. S: the neurons that are active on all samples at every "
        "record from t_N on. They are rare: with two classes side by side in a cone, 19 of 20 seeds end "
        "with none, since the neurons turn to one class. They stay where one class surrounds the other, and "
        "so the data are 8 points (1, z): one class with z on a circle of radius 1, the other with z at its "
        "centre, plus noise of 0.1. Gaussian starts of norm 0.5. Width and norm were chosen so that S "
        "has two neurons in every seed: with 16 neurons and norm 1 it had fewer in 2 of 20. The paper's own "
        "settings are not known to us."
    ),
)
