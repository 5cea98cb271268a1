"""Where near-orthogonality begins to matter: certified limits on Gaussian data of falling dimension."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, gaussian_mixture, p_orthogonality
from rankfall.limits import Limit, limit
from rankfall.loss import exponential
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    all_certified,
    at_least,
    at_most,
    between,
    guide,
    with_certificates,
)
from rankfall.theory.results import frei_flow

SAME = 1e-6  # relative distance up to which two limits are the same


@dataclass(frozen=True)
class Setting:
    """All of these are ours: Theorem 3.2 asks for data that are far more nearly orthogonal."""

    n: int = 8
    width: int = 10
    sigma: float = 0.01  # the standard deviation of the initial weights
    slopes: tuple[float, ...] = (0.5, 0.3, 0.1)
    reduced_dims: tuple[float, ...] = (2.5, 5.0, 10.0, 20.0, 40.0)  # in units of 1 / slope^2

    def dim(self, slope: float, reduced: float) -> int:
        """The number of features: n at least, so that the inputs are independent."""
        return max(self.n, round(reduced / slope**2))


def run_orthogonality(setting: Setting, seed: int) -> xr.Dataset:
    """For each slope and dimension: p(X), the rank of the limit, and is it the one of the theorem?"""
    rows: list[xr.Dataset] = []
    proofs: dict[str, Limit] = {}
    slopes, reduced_dims = setting.slopes, setting.reduced_dims
    for slope in slopes:
        found = [_limit(setting, slope, setting.dim(slope, reduced), seed) for reduced in reduced_dims]
        names = found[0][0]
        rows.append(xr.Dataset({name: ("reduced", [each[name] for each, _ in found]) for name in names}))
        proofs |= {_named(slope, each): end for each, (_, end) in zip(reduced_dims, found, strict=True)}
    runs = xr.concat(rows, dim=xr.Variable("slope", list(slopes))).assign_coords(reduced=list(reduced_dims))
    return with_certificates(runs, seed, proofs)


def _named(slope: float, reduced: float) -> str:
    return f"slope {slope:g}, reduced dimension {reduced:g}"


def _limit(setting: Setting, slope: float, dim: int, seed: int) -> tuple[dict[str, float], Limit]:
    n = setting.n
    data = gaussian_mixture(n=n, dim=dim, mean_scale=0.0, noise=dim**-0.5, balanced=True, seed=seed)
    inside = Data(np.linalg.qr(data.x.T)[1].T, data.y, data.name)  # nothing happens outside of their span
    network = Network.fixed_second_layer((n, setting.width, 1), slope, setting.sigma, seed)
    end = limit(network, inside, exponential, optimality=False, show=False)
    predicted = frei_flow.two_vectors(inside.x, inside.y, network.weights[1][0], slope)
    assert predicted is not None
    assert end.comparison is not None
    numbers = {
        "p": p_orthogonality(data),
        "rank": float(end.rank),
        "distance": float(np.linalg.norm(end.W - predicted.w) / np.linalg.norm(predicted.w)),
        "linear": float(end.comparison.boundary == "linear"),
        "certified": float(end.certified),
    }
    return numbers, end


def _predicted(runs: xr.Dataset) -> xr.DataArray:
    """Is the limit that of the theorem?"""
    return runs.distance <= SAME


def _last_failure(runs: xr.Dataset) -> xr.DataArray:
    """The largest p(X) at which some limit is another one; 0 if none is."""
    return runs.p.where(~_predicted(runs), 0.0).max(("seed", "reduced"))


def _mismatch(runs: xr.Dataset) -> xr.DataArray:
    """How many limits of a seed have rank two but no linear boundary, or the other way round."""
    return abs((runs["rank"] <= 2) - runs.linear).sum(("slope", "reduced"))


def _share(runs: xr.Dataset) -> xr.DataArray:
    return _predicted(runs).mean("seed")


# --- the figure -------------------------------------------------------------------------------------------


def draw_orthogonality(setting: Setting, runs: xr.Dataset) -> Figure:
    """How often the limit is that of the theorem, against p(X) and d slope^2; and the ranks."""
    seeds = runs.sizes["seed"]
    with plot.style():
        figure, (axes,) = plot.panels(3)
        for i, (slope, colour) in enumerate(zip(setting.slopes, plot.PALETTE, strict=False)):
            here = runs.sel(slope=slope)
            share = _share(here)
            axes[0].plot(here.p.median("seed"), share, "o-", color=colour, markersize=3.2)
            guide(axes[0], x=3 / slope**3, color=colour)
            error = np.sqrt(share * (1 - share) / seeds)
            beside = 1.05 ** (i - 1)
            bars = {"color": colour, "markersize": 3.2, "linewidth": 0.9, "label": rf"$\gamma$ = {slope:g}"}
            axes[1].errorbar(runs.reduced * beside, share, error, fmt="o-", **bars)
            at = np.outer(runs.reduced * beside, np.geomspace(0.96, 1.04, seeds)).ravel()
            ranks = here["rank"].transpose("reduced", "seed").values.ravel()
            axes[2].plot(at, ranks, "o", color=colour, markersize=2.2, alpha=0.6)
        for ax in axes[:2]:
            ax.set(ylabel="share with the predicted limit", ylim=(0, 1.05))
        axes[0].set(xscale="log", xlabel="$p(X)$, median", title=r"(a) dashed: asked for, $3\gamma^{-3}$")
        axes[1].set(xlabel=r"$d\,\gamma^2$", title=r"(b) $d\,\gamma^2$ decides")
        axes[2].set(xlabel=r"$d\,\gamma^2$", ylabel="rank of the limit", title="(c) rank two, or more")
        guide(axes[2], y=2, zorder=0)
        for ax in axes[1:]:
            ax.set_xscale("log")
            ax.set_xticks(setting.reduced_dims, labels=[f"{each:g}" for each in setting.reduced_dims])
            ax.minorticks_off()
        axes[1].legend(loc="lower right")
    return figure


# --- the claims -------------------------------------------------------------------------------------------

CERTIFIED = all_certified()


def _proofs(setting: Setting, *reduced: float) -> tuple[str, ...]:
    """The names of the certificates of the limits at these d γ²; at all of them if none is named."""
    return tuple(_named(slope, each) for each in reduced or setting.reduced_dims for slope in setting.slopes)


def _at(setting: Setting, reduced: float) -> str:
    """Which dimensions these are, in words: fewer than n there are not."""
    plain = f"{reduced:g} γ⁻²"
    few = any(reduced / slope**2 < setting.n for slope in setting.slopes)
    return f"d = max(n, {plain})" if few else f"d = {plain}"


def claims(setting: Setting) -> tuple[Claim, ...]:
    """How much near-orthogonality the limit of Theorem 3.2 needs; slopes are compared where there are two."""
    several = len(setting.slopes) > 1
    claimed = (*_on_enough(setting), *_on_need(setting), *_on_linearity(setting))
    return tuple(claim for claim in claimed if several or claim.id != "dimension-times-slope-squared")


def _on_enough(setting: Setting) -> tuple[Claim, ...]:
    """How little near-orthogonality is enough."""
    largest = max(setting.reduced_dims)
    return (
        Claim(
            id="far-from-hypothesis",
            sentence="On Gaussian inputs far from the hypothesis of Theorem 3.2 its limit is reached.",
            source="rankfall",
            metric=f"distance to the predicted network / its norm, at {_at(setting, largest)}",
            measure=lambda runs: runs.distance.sel(reduced=largest),
            expected=at_most(SAME, "the same network, up to the residuals of the limits"),
            hypotheses=(
                CERTIFIED,
                Check(
                    f"p(X) as a part of 3 γ⁻³, at {_at(setting, largest)}",
                    lambda runs: (runs.p * runs.slope**3 / 3).sel(reduced=largest),
                    at_most(0.05, "far below what Theorem 3.2 asks for"),
                ),
            ),
            proofs=_proofs(setting, largest),
            form="{:.1e}",
        ),
        Claim(
            id="hundredth-is-enough",
            sentence="Where the limit is another one, p(X) is at most a hundredth of the 3 γ⁻³ asked for.",
            source="rankfall",
            metric="3 γ⁻³ / largest p(X) at which a limit is another one, for each slope",
            measure=lambda runs: 3 / runs.slope**3 / _last_failure(runs),
            expected=between(100, 1e6, "two orders of magnitude; below infinity, as such limits do occur"),
            hypotheses=(CERTIFIED,),
            proofs=_proofs(setting),
        ),
    )


def _on_need(setting: Setting) -> tuple[Claim, ...]:
    """How much is needed."""
    least = min(setting.reduced_dims)
    return (
        Claim(
            id="orthogonality-needed",
            sentence="Some near-orthogonality is needed: on few dimensions most limits are others.",
            source="rankfall",
            metric=f"share of seeds with another limit at {_at(setting, least)}, for each slope",
            measure=lambda runs: 1 - _share(runs).sel(reduced=least),
            expected=at_least(0.5, "most"),
            hypotheses=(CERTIFIED,),
            proofs=_proofs(setting, least),
        ),
        Claim(
            id="dimension-times-slope-squared",
            sentence="What decides is d γ²: near-orthogonality must grow like p ~ γ⁻¹, not like γ⁻³.",
            source="rankfall",
            metric="largest difference between slopes of the share of predicted limits at equal d γ²",
            measure=lambda runs: _share(runs).max("slope") - _share(runs).min("slope"),
            expected=at_most(0.32, "two standard errors of a difference of shares of 20 seeds; 1 for γ⁻³"),
            hypotheses=(CERTIFIED,),
            proofs=_proofs(setting),
            note="p(X) grows like √d for given n, so that p ~ γ⁻³ would mean d ~ γ⁻⁶.",
        ),
    )


def _on_linearity(setting: Setting) -> tuple[Claim, ...]:
    """Where the boundary is linear."""
    return (
        Claim(
            id="linear-at-rank-two",
            sentence="The decision boundary is linear where the rank is two, and in no other limit.",
            source="rankfall",
            metric=f"limits of a seed, of {len(_proofs(setting))}, with the one and not the other",
            measure=_mismatch,
            expected=at_most(0, "none"),
            hypotheses=(CERTIFIED,),
            proofs=_proofs(setting),
            form="{:.0f}",
        ),
    )


ORTHOGONALITY = Experiment(
    name="orthogonality",
    title="Where near-orthogonality begins to matter",
    setting=Setting(),
    simulation=run_orthogonality,
    picture=draw_orthogonality,
    statements=claims,
    seeds=20,
    cost=2.0,
    about=(
        "8 Gaussian inputs N(0, I/d) with 4 labels of each sign, 10 leaky ReLU neurons, second layer ±1/√10, "
        "initial weights N(0, 0.01²), exponential loss. For the slopes γ = 0.5, 0.3 and 0.1 the dimension is "
        "2.5, 5, 10, 20 and 40 times γ⁻². Each certified limit of the flow is compared with the network of "
        "two vectors that Corollary 3.5 predicts where p(X) ≥ 3 γ⁻³."
    ),
)
