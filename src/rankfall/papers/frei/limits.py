"""Theorem 3.2 and Corollary 3.5: where gradient flow ends on nearly orthogonal data, as certified limits."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, nearly_orthogonal, orthogonal, p_orthogonality
from rankfall.limits import Limit, limit
from rankfall.loss import exponential
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.frei.in_span import settled
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    all_certified,
    at_least,
    at_most,
    orthogonal_enough,
    with_certificates,
)
from rankfall.theory import Situation, assessed
from rankfall.theory.results import frei_flow

ORTHOGONAL = "orthogonal inputs"


@dataclass(frozen=True)
class Start:
    """Initial weights: the share of positive neurons, and the standard deviation of the first layer."""

    name: str
    share: float
    sigma: float


@dataclass(frozen=True)
class Setting:
    """The theorem has no numbers of its own but p(X) >= 3 / slope^3: all of these are ours."""

    n: int = 8  # inputs, in twice as many dimensions
    width: int = 10
    slopes: tuple[float, ...] = (0.5, 0.3, 0.1)
    excess: float = 1.01  # p(X) is this many times the 3 / slope^3 of the theorem
    starts: tuple[Start, ...] = (
        Start("1:1", 0.5, 0.01),
        Start("1:4", 0.2, 0.01),
        Start("1:4, large start", 0.2, 1.0),
    )
    orthogonal_sigma: float = 0.01  # of the initial weights on orthogonal inputs

    @property
    def dim(self) -> int:
        """The number of features."""
        return 2 * self.n

    def positive(self, start: Start) -> int:
        """The number of positive neurons: one at least of each sign."""
        return min(max(1, round(start.share * self.width)), self.width - 1)

    @property
    def even(self) -> Start | None:
        """The first start with as many positive as negative neurons."""
        return next((each for each in self.starts if 2 * self.positive(each) == self.width), None)

    @property
    def uneven(self) -> Start | None:
        """The first start with more neurons of the one sign than of the other."""
        return next((each for each in self.starts if 2 * self.positive(each) != self.width), None)

    @property
    def small_and_large(self) -> tuple[Start, Start] | None:
        """The first two starts that differ in their size alone, the smaller first."""
        for one, other in combinations(self.starts, 2):
            if self.positive(one) == self.positive(other) and one.sigma != other.sigma:
                return (one, other) if one.sigma < other.sigma else (other, one)
        return None


def run_limits(setting: Setting, seed: int) -> xr.Dataset:
    """The limits for every slope and start, and what the theorem says about each, in numbers."""
    rows: list[xr.Dataset] = []
    proofs: dict[str, Limit] = {}
    for slope in setting.slopes:
        data = nearly_orthogonal(n=setting.n, dim=setting.dim, p=setting.excess * 3 / slope**3, seed=seed)
        starts = [
            _network(setting, slope, each.sigma, seed, setting.positive(each)) for each in setting.starts
        ]
        limits = [limit(start, data, exponential, show=False) for start in starts]
        found = [_numbers(start, data, end) for start, end in zip(starts, limits, strict=True)]
        zeros = [_zeros(start, data, end) for start, end in zip(starts, limits, strict=True)]
        closed, orthogonal_end = _closed_forms(setting, slope, seed)
        ends = {each.name: end for each, end in zip(setting.starts, limits, strict=True)}
        proofs |= {_named(slope, name): end for name, end in ends.items()}
        proofs[_named(slope, ORTHOGONAL)] = orthogonal_end
        rows.append(
            xr.Dataset(
                {name: ("start", [numbers[name] for numbers in found]) for name in found[0]}
                | {
                    "p": p_orthogonality(data) * slope**3 / 3,
                    "between_starts": _between_starts(setting, ends),
                    "off": (("start", "property"), [list(numbers.values()) for numbers in zeros]),
                    "closed_form": ("quantity", closed),
                },
                coords={
                    "start": list(ends),
                    "property": list(zeros[0]),
                    "quantity": ["λ", "stable rank", "‖z‖/‖z*‖"],
                },
            )
        )
    return with_certificates(xr.concat(rows, dim=xr.Variable("slope", list(setting.slopes))), seed, proofs)


def _named(slope: float, start: str) -> str:
    return f"slope {slope:g}, {start}"


def _network(setting: Setting, slope: float, sigma: float, seed: int, positive: int | None = None) -> Network:
    """Random weights."""
    widths = (setting.dim, setting.width, 1)
    return Network.fixed_second_layer(widths, slope, sigma, seed, positive=positive)


def _between_starts(setting: Setting, ends: dict[str, Limit]) -> float:
    """How far the limits from the small and from the large start are apart; NaN without them."""
    if setting.small_and_large is None:
        return np.nan
    small, large = (ends[start.name].W for start in setting.small_and_large)
    return float(np.linalg.norm(large - small) / np.linalg.norm(small))


def _zeros(start: Network, data: Data, end: Limit) -> dict[str, float]:
    """What is zero in a limit, by the theorem."""
    beside = assessed(frei_flow.RESULTS[0], Situation(start, data, exponential)).verify(end)
    assert end.optimality is not None
    return {
        "margins": float(np.abs(end.margins - 1).max()),
        "third singular value": end.spectrum.share(3),
        "rows": float(max(np.ptp(rows, axis=0).max() / np.abs(rows).max() for rows in end.blocks.values())),
        "distance": beside["weights"].error,
        "duality gap": abs(end.optimality.gap),
        "boundary": beside["linear boundary"].error,
    }


def _numbers(start: Network, data: Data, end: Limit) -> dict[str, float]:
    """What is not; multipliers in units of 1/|x|^2, lengths in those of the SVM."""
    s, linear = Situation(start, data, exponential), end.comparison
    assert linear is not None
    assert s.svm is not None
    own = s.own(end.W) / np.outer(np.linalg.norm(end.W, axis=1), s.norms)
    return {
        "certified": float(end.certified),
        "start_loss": float(exponential(start(data.x), s.y)),
        "least_multiplier": float(end.multipliers.min() * s.norms.max() ** 2),
        "largest_multiplier": float(end.multipliers.max() * s.norms.min() ** 2),
        "own_cosine": float(own.min()),
        "z_length": float(np.linalg.norm(linear.z) / np.sqrt(s.svm.norm2)),
        "z_margin": float((s.y * (s.x @ linear.z)).min()),
        "z_best": linear.margin / linear.svm_margin,
        "stable_rank": end.stable_rank,
    }


def _closed_forms(setting: Setting, slope: float, seed: int) -> tuple[list[float], Limit]:
    """Relative errors of three closed forms on exactly orthogonal data with equal classes and signs."""
    data = orthogonal(n=setting.n, dim=setting.dim, seed=seed)
    start = _network(setting, slope, setting.orthogonal_sigma, seed)
    end = limit(start, data, exponential, optimality=False, show=False)
    z = np.linalg.norm(start.weights[1][0] @ end.W)
    errors = [
        float(np.abs(end.multipliers * (1 + slope**2) / 2 - 1).max()),
        abs(end.stable_rank / settled(slope) - 1),
        float(
            abs(z / np.sqrt(setting.n) * (1 + slope**2) / (1 + slope) - 1)
        ),  # |z*| is sqrt(n) for unit inputs
    ]
    return errors, end


def kappa(setting: Setting, start: Start) -> float:
    """The root of the ratio of the smaller to the larger number of neurons of a sign."""
    positive = setting.positive(start)
    ratio = positive / (setting.width - positive)
    return float(np.sqrt(min(ratio, 1 / ratio)))


def longest(setting: Setting, slope: float | np.ndarray, start: Start) -> np.ndarray:
    """The bound 2 / (kappa + slope) on |z| / |z*|."""
    return np.asarray(2 / (kappa(setting, start) + slope))


def _relative_length(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    bound = np.array([longest(setting, runs.slope.values, start) for start in setting.starts])
    return runs.z_length / xr.DataArray(bound, dims=("start", "slope"))


def _uniformity(runs: xr.Dataset, start: Start) -> xr.DataArray:
    """The ratio of the largest to the smallest multiplier over its bound, for equal norms and signs.

    tau = slope^-2 (1 + 2 / (slope p - 2)) in Proposition 4 of Frei et al. 2023 (COLT).
    """
    p = runs.p * 3 / runs.slope**3
    tau = (1 + 2 / (runs.slope * p - 2)) / runs.slope**2
    return (runs.largest_multiplier / runs.least_multiplier).sel(start=start.name) / tau


def _of_bounds(runs: xr.Dataset) -> xr.DataArray:
    """How near the multipliers come to their bounds 1/2 and 3 / (2 slope^2), in units of 1/|x|^2."""
    return np.maximum(0.5 / runs.least_multiplier, runs.largest_multiplier * 2 * runs.slope**2 / 3)


# --- the figure -------------------------------------------------------------------------------------------


def draw_limits(setting: Setting, runs: xr.Dataset) -> Figure:
    """Stable rank, multipliers and the length of z against the slope; the lines are for orthogonal inputs."""
    fine = np.linspace(0.05, 0.6, 56)
    with plot.style():
        figure, (axes,) = plot.panels(3)
        shown = [start for start in (setting.even, setting.uneven) if start is not None]
        for start, colour, dash in zip(shown, plot.PALETTE, ("-", "--"), strict=False):
            forms = np.array([_orthogonal(setting, slope, setting.positive(start)) for slope in fine])
            limits = runs.sel(start=start.name)
            plot.theory(axes[0], fine, forms[:, 0], f"{start.name}, orthogonal inputs", linestyle=dash)
            plot.theory(axes[2], fine, forms[:, 1], linestyle=dash)
            _dots(axes[0], limits.stable_rank, colour, f"{start.name}, limits")
            _dots(axes[1], limits.least_multiplier, colour)
            _dots(axes[1], limits.largest_multiplier, colour)
            _dots(axes[2], limits.z_length, colour)
            axes[2].plot(fine, longest(setting, fine, start), color=plot.GUIDE, linestyle=dash, linewidth=0.9)
        bounds = {"color": plot.GUIDE, "alpha": 0.15, "linewidth": 0, "label": "between the bounds"}
        axes[1].fill_between(fine, 0.5, 1.5 / fine**2, **bounds)
        axes[1].set(ylabel=r"multipliers $\lambda_i \|x_i\|^2$", yscale="log", title="(b) multipliers")
        axes[0].set(ylabel=r"stable rank of $W$", ylim=(1, 2), title="(a) rank two at most")
        axes[2].set(ylabel=r"$\|z\| / \|z^*\|$", ylim=(1, None), title="(c) near the hard-margin SVM")
        axes[2].plot([], [], color=plot.GUIDE, linewidth=0.9, label=r"bound $2/(\kappa + \gamma)$")
        for ax in axes:
            ax.set(xlabel=r"slope $\gamma$", xlim=(0.05, 0.6))
            ax.legend()
    return figure


def _dots(ax: Axes, values: xr.DataArray, colour: str, label: str | None = None) -> None:
    """All seeds at every slope, beside each other."""
    spread = np.linspace(-0.008, 0.008, values.sizes["seed"])
    at = np.add.outer(values.slope.values, spread).ravel()
    numbers = values.transpose("slope", "seed").values.ravel()
    plot.simulation(ax, at, numbers, label, color=colour, markersize=2.2, markevery=1, alpha=0.7)


def _orthogonal(setting: Setting, slope: float, positive: int) -> tuple[float, float]:
    """Stable rank and |z| / |z*| for orthogonal inputs of one norm, from the convex problem."""
    n, width = setting.n, setting.width
    a = np.where(np.arange(width) < positive, 1.0, -1.0) / np.sqrt(width)
    end = frei_flow.two_vectors(np.eye(n), np.where(np.arange(n) < n // 2, 1.0, -1.0), a, slope)
    assert end is not None
    return Spectrum.of(end.w).stable_rank, float(np.linalg.norm(end.z) / np.sqrt(n))


# --- the claims -------------------------------------------------------------------------------------------

NEARLY_ORTHOGONAL = orthogonal_enough(lambda runs: runs.p, "p(X) ≥ 3/γ³, as Theorem 3.2 asks")
CERTIFIED = all_certified()
ROUNDING = "exact in the limit; a hundred times the residual 1e-10 that a certified limit may have"


def _proofs(setting: Setting, *starts: Start) -> tuple[str, ...]:
    """The names of the certificates of the limits from these starts; from all of them if none is named."""
    used = starts or setting.starts
    return tuple(_named(slope, start.name) for slope in setting.slopes for start in used)


def _exact(
    setting: Setting,
    name: str,
    sentence: str,
    metric: str,
    properties: tuple[str, ...],
    source: str,
    note: str = "",
) -> Claim:
    """A claim that these properties of the limits are zero."""
    return Claim(
        id=name,
        sentence=sentence,
        source=source,
        metric=metric,
        measure=lambda runs: abs(runs.off.sel(property=list(properties))).max("property"),
        expected=at_most(1e-8, ROUNDING),
        hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
        proofs=_proofs(setting),
        form="{:.1e}",
        note=note,
    )


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 3.2, Corollary 3.5 and what follows; of starts that are not run nothing is claimed."""
    return (
        *_on_margins(setting),
        *_on_neurons(setting),
        *_on_linearity(setting),
        *((_not_largest(setting, setting.uneven),) if setting.uneven else ()),
        *((_even_contributions(setting, setting.even),) if setting.even else ()),
        *((_any_start(setting, *setting.small_and_large),) if setting.small_and_large else ()),
        _closed_form(setting),
    )


def _on_margins(setting: Setting) -> tuple[Claim, ...]:
    """The margins and multipliers of the limit."""
    return (
        _exact(
            setting,
            "equal-margins",
            "In the limit every training point is a support vector: all margins are equal.",
            "largest |yᵢ f(xᵢ) − 1| at the least margin 1",
            ("margins",),
            "Theorem 3.2",
        ),
        Claim(
            id="multiplier-bounds",
            sentence="Every multiplier lies between 1/(2‖x‖²) and 3/(2γ²‖x‖²), so all of them are positive.",
            source="Theorem 3.2; COLT 2023, Lemma 16",
            metric="the larger of (lower bound)/λᵢ and λᵢ/(upper bound)",
            measure=_of_bounds,
            expected=at_most(1.0, "the bounds themselves"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=_proofs(setting),
        ),
    )


def _on_neurons(setting: Setting) -> tuple[Claim, ...]:
    """The neurons of the limit, which is the global optimum."""
    return (
        _exact(
            setting,
            "rank-two",
            "The first layer has rank two at most.",
            "third singular value of W / the first",
            ("third singular value",),
            "Theorem 3.2",
        ),
        _exact(
            setting,
            "equal-neurons",
            "All neurons whose output weights have the same sign are the same vector.",
            "largest difference of an entry within a sign / largest entry",
            ("rows",),
            "Corollary 3.5",
            "A limit is computed from the activation patterns with which the flow ends: what is tested is "
            "that all neurons of a sign end with the same one.",
        ),
        Claim(
            id="own-samples",
            sentence="Every neuron is active on the samples of its sign, and on no others.",
            source="Corollary 3.5",
            metric="least sign(aⱼ) yᵢ cos(wⱼ, xᵢ)",
            measure=lambda runs: runs.own_cosine,
            expected=at_least(1e-8, "positive, beyond the residuals of the limits"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=_proofs(setting),
        ),
        _exact(
            setting,
            "global-optimum",
            "The limit is the global optimum of the margin problem, and solves a convex problem.",
            "the larger of distance to the convex problem's solution / ‖W‖ and duality gap / ½‖W‖²",
            ("distance", "duality gap"),
            "Theorem 3.2, Corollary 3.5",
        ),
    )


def _on_linearity(setting: Setting) -> tuple[Claim, ...]:
    """The linear predictor z."""
    return (
        _exact(
            setting,
            "linear-boundary",
            "The decision boundary is linear: sign f(x) = sign⟨z, x⟩ with z = Σ aⱼ wⱼ.",
            "share of 4096 random directions on which the two signs differ",
            ("boundary",),
            "Theorem 3.2",
        ),
        Claim(
            id="linear-margin",
            sentence="The linear predictor z has margins of 1 at least.",
            source="Theorem 3.2",
            metric="least yᵢ⟨z, xᵢ⟩",
            measure=lambda runs: runs.z_margin,
            expected=at_least(1.0, "the theorem"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=_proofs(setting),
        ),
        Claim(
            id="linear-length",
            sentence="The linear predictor z is at most 2/(κ + γ) times as long as the hard-margin SVM.",
            source="Theorem 3.2",
            metric="‖z‖/‖z*‖ / (2/(κ + γ)), κ² the ratio of the numbers of neurons of the two signs",
            measure=lambda runs: _relative_length(setting, runs),
            expected=at_most(1.0, "the theorem"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=_proofs(setting),
        ),
    )


def _not_largest(setting: Setting, uneven: Start) -> Claim:
    return Claim(
        id="not-largest-margin",
        sentence="The linear predictor z need not be the one of the largest margin.",
        source="section 1",
        metric=f"margin of z/‖z‖ / largest margin, with {uneven.name} neurons",
        measure=lambda runs: runs.z_best.sel(start=uneven.name),
        expected=at_most(0.9, f"clearly below 1: with {uneven.name} neurons one class weighs more"),
        proofs=_proofs(setting, uneven),
    )


def _even_contributions(setting: Setting, even: Start) -> Claim:
    return Claim(
        id="even-contributions",
        sentence="No sample contributes much more to z than another: at most τ times as much.",
        source="COLT 2023, Proposition 4",
        metric="(largest/least multiplier) / τ, with as many positive as negative neurons",
        measure=lambda runs: _uniformity(runs, even),
        expected=at_most(1.0, "τ = γ⁻² (1 + 2/(γ p − 2)) for inputs of one norm"),
        hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
        proofs=_proofs(setting, even),
    )


def _any_start(setting: Setting, small: Start, large: Start) -> Claim:
    """What the limit does not depend on."""
    return Claim(
        id="any-start",
        sentence="The flow ends at the same network from any start, small or large.",
        source="Theorem 3.2",
        metric="distance of the limits from the large and from the small start / ‖W‖",
        measure=lambda runs: runs.between_starts,
        expected=at_most(1e-8, ROUNDING),
        hypotheses=(
            NEARLY_ORTHOGONAL,
            Check(
                "n × loss at the large start",
                lambda runs: setting.n * runs.start_loss.sel(start=large.name),
                at_least(1, "above the threshold 1/n below which the limit would be known to exist"),
            ),
            CERTIFIED,
        ),
        proofs=_proofs(setting, small, large),
        form="{:.1e}",
    )


def _closed_form(setting: Setting) -> Claim:
    return Claim(
        id="orthogonal-closed-form",
        sentence=(
            "On orthogonal inputs of norm r, with equal classes and signs, λ = 2/((1+γ²) r²), the stable "
            "rank is 1 + ((1−γ)/(1+γ))², and ‖z‖/‖z*‖ = (1+γ)/(1+γ²)."
        ),
        source="rankfall",
        metric="relative error of each of the three",
        measure=lambda runs: runs.closed_form,
        expected=at_most(1e-8, ROUNDING),
        proofs=tuple(_named(slope, ORTHOGONAL) for slope in setting.slopes),
        form="{:.1e}",
    )


LIMITS = Experiment(
    name="limits",
    title="Where gradient flow ends on nearly orthogonal data",
    setting=Setting(),
    simulation=run_limits,
    picture=draw_limits,
    statements=claims,
    seeds=20,
    cost=1.6,
    about=(
        "8 unit inputs in 16 dimensions whose inner products are made so small that p(X) is 1.01 times the "
        "3 γ⁻³ that the theorem asks for, 4 labels of each sign, 10 leaky ReLU neurons, second layer ±1/√10, "
        "exponential loss. Slopes γ = 0.5, 0.3 and 0.1; as many positive as negative neurons (1:1), or 2 and "
        "8 (1:4); initial weights with standard deviation 0.01, or 1. Every number is of a certified limit "
        "of the flow. The constants are those of Theorem 3.2 as Frei, Vardi, Bartlett and Srebro (COLT 2023) "
        "restate it, with the bounds of their Lemma 16 and Proposition 4."
    ),
)
