"""Theorem 3.2 and Corollary 3.5: where gradient flow ends on nearly orthogonal data, as certified limits."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, nearly_orthogonal, orthogonal, p_orthogonality
from rankfall.limits import Limit, limit
from rankfall.loss import exponential
from rankfall.network import Network, with_origin
from rankfall.papers.claim import Check, Claim, at_least, at_most, with_certificates
from rankfall.papers.experiment import Experiment
from rankfall.theory.assessment import assessed
from rankfall.theory.frei_flow import RESULTS, two_vectors
from rankfall.theory.situation import Situation, stable_rank

SLOPES = (0.5, 0.3, 0.1)
N, DIM, WIDTH = 8, 16, 10
EXCESS = 1.01  # p(X) is that many times the 3 / slope^3 of the theorem
# How many neurons are positive, and the standard deviation of the initial weights
SETTINGS = {"1:1": (5, 0.01), "1:4": (2, 0.01), "1:4, large start": (2, 1.0)}


def run_limits(seed: int) -> xr.Dataset:
    """The limits for every slope and setting, and what the theorem says about each, in numbers."""
    rows: list[xr.Dataset] = []
    proofs: dict[str, Limit] = {}
    for slope in SLOPES:
        data = nearly_orthogonal(n=N, dim=DIM, p=EXCESS * 3 / slope**3, seed=seed)
        starts = [_start(slope, sigma, seed, positive) for positive, sigma in SETTINGS.values()]
        ends = [limit(start, data, exponential, show=False) for start in starts]
        found = [_numbers(start, data, end) for start, end in zip(starts, ends, strict=True)]
        zeros = [_zeros(start, data, end) for start, end in zip(starts, ends, strict=True)]
        closed, orthogonal_end = _closed_forms(slope, seed)
        proofs |= {_named(slope, setting): end for setting, end in zip(SETTINGS, ends, strict=True)}
        proofs[_named(slope, ORTHOGONAL)] = orthogonal_end
        rows.append(
            xr.Dataset(
                {name: ("setting", [numbers[name] for numbers in found]) for name in found[0]}
                | {
                    "p": p_orthogonality(data) * slope**3 / 3,
                    "between_starts": np.linalg.norm(ends[2].W - ends[1].W) / np.linalg.norm(ends[1].W),
                    "off": (("setting", "property"), [list(numbers.values()) for numbers in zeros]),
                    "closed_form": ("quantity", closed),
                },
                coords={
                    "setting": list(SETTINGS),
                    "property": list(zeros[0]),
                    "quantity": ["λ", "stable rank", "‖z‖/‖z*‖"],
                },
            )
        )
    return with_certificates(xr.concat(rows, dim=xr.Variable("slope", list(SLOPES))), seed, proofs)


def _named(slope: float, setting: str) -> str:
    return f"slope {slope:g}, {setting}"


ORTHOGONAL = "orthogonal inputs"
PROOFS = tuple(_named(slope, setting) for slope in SLOPES for setting in SETTINGS)
CLOSED = tuple(_named(slope, ORTHOGONAL) for slope in SLOPES)


def _start(slope: float, sigma: float, seed: int, positive: int | None = None) -> Network:
    """Random weights; their origin is left out, for JAX would compile the network for each one anew."""
    network = Network.fixed_second_layer((DIM, WIDTH, 1), slope, sigma, seed, positive=positive)
    return with_origin(network, "")


def _zeros(start: Network, data: Data, end: Limit) -> dict[str, float]:
    """What is zero in a limit, by the theorem."""
    beside = assessed(RESULTS[0], Situation(start, data, exponential)).verify(end)
    assert end.optimality is not None
    singular, blocks = end.singular_values, end.blocks.values()
    return {
        "margins": float(np.abs(end.margins - 1).max()),
        "third singular value": float(singular[2] / singular[0]),
        "rows": float(max(np.ptp(rows, axis=0).max() / np.abs(rows).max() for rows in blocks)),
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
        "start_loss": float(np.exp(-s.y * start(data.x)).mean()),
        "least_multiplier": float(end.multipliers.min() * s.norms.max() ** 2),
        "largest_multiplier": float(end.multipliers.max() * s.norms.min() ** 2),
        "own_cosine": float(own.min()),
        "z_length": float(np.linalg.norm(linear.z) / np.sqrt(s.svm.norm2)),
        "z_margin": float((s.y * (s.x @ linear.z)).min()),
        "z_best": linear.margin / linear.svm_margin,
        "stable_rank": end.stable_rank,
    }


def _closed_forms(slope: float, seed: int) -> tuple[list[float], Limit]:
    """Relative errors of three closed forms on exactly orthogonal data with equal classes and signs."""
    data = orthogonal(n=N, dim=DIM, seed=seed)
    start = _start(slope, 0.01, seed)
    end = limit(start, data, exponential, optimality=False, show=False)
    z = np.linalg.norm(start.weights[1][0] @ end.W)
    errors = [
        float(np.abs(end.multipliers * (1 + slope**2) / 2 - 1).max()),
        abs(end.stable_rank / (1 + ((1 - slope) / (1 + slope)) ** 2) - 1),
        float(abs(z / np.sqrt(N) * (1 + slope**2) / (1 + slope) - 1)),  # |z*| is sqrt(n) for unit inputs
    ]
    return errors, end


def kappa(setting: str) -> float:
    """The root of the ratio of the smaller to the larger number of neurons of a sign."""
    positive = SETTINGS[setting][0]
    return float(np.sqrt(min(positive / (WIDTH - positive), (WIDTH - positive) / positive)))


def longest(slope: float | np.ndarray, setting: str) -> np.ndarray:
    """The bound 2 / (kappa + slope) on |z| / |z*|."""
    return np.asarray(2 / (kappa(setting) + slope))


def _relative_length(runs: xr.Dataset) -> xr.DataArray:
    bound = np.array([longest(runs.slope.values, setting) for setting in SETTINGS])
    return runs.z_length / xr.DataArray(bound, dims=("setting", "slope"))


def _uniformity(runs: xr.Dataset) -> xr.DataArray:
    """The ratio of the largest to the smallest multiplier over its bound, for equal norms and signs.

    tau = slope^-2 (1 + 2 / (slope p - 2)) in Proposition 4 of Frei et al. 2023 (COLT).
    """
    p = runs.p * 3 / runs.slope**3
    tau = (1 + 2 / (runs.slope * p - 2)) / runs.slope**2
    return (runs.largest_multiplier / runs.least_multiplier).sel(setting="1:1") / tau


def _of_bounds(runs: xr.Dataset) -> xr.DataArray:
    """How near the multipliers come to their bounds 1/2 and 3 / (2 slope^2), in units of 1/|x|^2."""
    return np.maximum(0.5 / runs.least_multiplier, runs.largest_multiplier * 2 * runs.slope**2 / 3)


# --- the figure -------------------------------------------------------------------------------------------


def draw_limits(runs: xr.Dataset) -> Figure:
    """Stable rank, multipliers and the length of z against the slope; the lines are for orthogonal inputs."""
    fine = np.linspace(0.05, 0.6, 56)
    with plot.style():
        figure, (axes,) = plot.panels(3)
        for setting, colour, dash in (("1:1", plot.PALETTE[0], "-"), ("1:4", plot.PALETTE[1], "--")):
            forms = np.array([_orthogonal(slope, SETTINGS[setting][0]) for slope in fine])
            limits = runs.sel(setting=setting)
            plot.theory(axes[0], fine, forms[:, 0], f"{setting}, orthogonal inputs", linestyle=dash)
            plot.theory(axes[2], fine, forms[:, 1], linestyle=dash)
            _dots(axes[0], limits.stable_rank, colour, f"{setting}, limits")
            _dots(axes[1], limits.least_multiplier, colour)
            _dots(axes[1], limits.largest_multiplier, colour)
            _dots(axes[2], limits.z_length, colour)
            axes[2].plot(fine, longest(fine, setting), color=plot.GUIDE, linestyle=dash, linewidth=0.9)
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


def _orthogonal(slope: float, positive: int) -> tuple[float, float]:
    """Stable rank and |z| / |z*| for orthogonal inputs of one norm, from the convex problem."""
    a = np.where(np.arange(WIDTH) < positive, 1.0, -1.0) / np.sqrt(WIDTH)
    end = two_vectors(np.eye(N), np.where(np.arange(N) < N // 2, 1.0, -1.0), a, slope)
    assert end is not None
    return stable_rank(end.w), float(np.linalg.norm(end.z) / np.sqrt(N))


# --- the claims -------------------------------------------------------------------------------------------

NEARLY_ORTHOGONAL = Check(
    "p(X) as a multiple of 3 γ⁻³",
    lambda runs: runs.p,
    at_least(1.0, "the hypothesis of Theorem 3.2"),
)
CERTIFIED = Check("certified limits", lambda runs: runs.certified, at_least(1, "each limit is certified"))
ROUNDING = "exact in the limit; a hundred times the residual 1e-10 that a certified limit may have"


def _exact(sentence: str, metric: str, properties: tuple[str, ...], source: str, note: str = "") -> Claim:
    """A claim that these properties of the limits are zero."""
    return Claim(
        sentence=sentence,
        source=source,
        metric=metric,
        measure=lambda runs: abs(runs.off.sel(property=list(properties))).max("property"),
        expected=at_most(1e-8, ROUNDING),
        hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
        proofs=PROOFS,
        form="{:.1e}",
        note=note,
    )


LIMITS = Experiment(
    name="limits",
    title="Where gradient flow ends on nearly orthogonal data",
    run=run_limits,
    draw=draw_limits,
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
    claims=(
        _exact(
            "In the limit every training point is a support vector: all margins are equal.",
            "largest |yᵢ f(xᵢ) − 1| at the least margin 1",
            ("margins",),
            "Theorem 3.2",
        ),
        Claim(
            sentence="Every multiplier lies between 1/(2‖x‖²) and 3/(2γ²‖x‖²), so all of them are positive.",
            source="Theorem 3.2; COLT 2023, Lemma 16",
            metric="the larger of (lower bound)/λᵢ and λᵢ/(upper bound)",
            measure=_of_bounds,
            expected=at_most(1.0, "the bounds themselves"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=PROOFS,
        ),
        _exact(
            "The first layer has rank two at most.",
            "third singular value of W / the first",
            ("third singular value",),
            "Theorem 3.2",
        ),
        _exact(
            "All neurons whose output weights have the same sign are the same vector.",
            "largest difference of an entry within a sign / largest entry",
            ("rows",),
            "Corollary 3.5",
            "A limit is computed from the activation patterns with which the flow ends: what is tested is "
            "that all neurons of a sign end with the same one.",
        ),
        Claim(
            sentence="Every neuron is active on the samples of its sign, and on no others.",
            source="Corollary 3.5",
            metric="least sign(aⱼ) yᵢ cos(wⱼ, xᵢ)",
            measure=lambda runs: runs.own_cosine,
            expected=at_least(1e-8, "positive, beyond the residuals of the limits"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=PROOFS,
        ),
        _exact(
            "The limit is the global optimum of the margin problem, and solves a convex problem.",
            "the larger of distance to the convex problem's solution / ‖W‖ and duality gap / ½‖W‖²",
            ("distance", "duality gap"),
            "Theorem 3.2, Corollary 3.5",
        ),
        _exact(
            "The decision boundary is linear: sign f(x) = sign⟨z, x⟩ with z = Σ aⱼ wⱼ.",
            "share of 4096 random directions on which the two signs differ",
            ("boundary",),
            "Theorem 3.2",
        ),
        Claim(
            sentence="The linear predictor z has margins of 1 at least.",
            source="Theorem 3.2",
            metric="least yᵢ⟨z, xᵢ⟩",
            measure=lambda runs: runs.z_margin,
            expected=at_least(1.0, "the theorem"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=PROOFS,
        ),
        Claim(
            sentence="The linear predictor z is at most 2/(κ + γ) times as long as the hard-margin SVM.",
            source="Theorem 3.2",
            metric="‖z‖/‖z*‖ / (2/(κ + γ)), κ² the ratio of the numbers of neurons of the two signs",
            measure=_relative_length,
            expected=at_most(1.0, "the theorem"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=PROOFS,
        ),
        Claim(
            sentence="The linear predictor z need not be the one of the largest margin.",
            source="section 1",
            metric="margin of z/‖z‖ / largest margin, with 1:4 neurons",
            measure=lambda runs: runs.z_best.sel(setting="1:4"),
            expected=at_most(0.9, "clearly below 1: with 1:4 neurons one class weighs more"),
            proofs=tuple(_named(slope, "1:4") for slope in SLOPES),
        ),
        Claim(
            sentence="No sample contributes much more to z than another: at most τ times as much.",
            source="COLT 2023, Proposition 4",
            metric="(largest/least multiplier) / τ, with as many positive as negative neurons",
            measure=_uniformity,
            expected=at_most(1.0, "τ = γ⁻² (1 + 2/(γ p − 2)) for inputs of one norm"),
            hypotheses=(NEARLY_ORTHOGONAL, CERTIFIED),
            proofs=tuple(_named(slope, "1:1") for slope in SLOPES),
        ),
        Claim(
            sentence="The flow ends at the same network from any start, small or large.",
            source="Theorem 3.2",
            metric="distance of the limits from the large and from the small start / ‖W‖",
            measure=lambda runs: runs.between_starts,
            expected=at_most(1e-8, ROUNDING),
            hypotheses=(
                NEARLY_ORTHOGONAL,
                Check(
                    "n × loss at the large start",
                    lambda runs: N * runs.start_loss.sel(setting="1:4, large start"),
                    at_least(1, "above the threshold 1/n below which the limit would be known to exist"),
                ),
                CERTIFIED,
            ),
            proofs=tuple(
                _named(slope, setting) for slope in SLOPES for setting in ("1:4", "1:4, large start")
            ),
            form="{:.1e}",
        ),
        Claim(
            sentence=(
                "On orthogonal inputs of norm r, with equal classes and signs, λ = 2/((1+γ²) r²), the stable "
                "rank is 1 + ((1−γ)/(1+γ))², and ‖z‖/‖z*‖ = (1+γ)/(1+γ²)."
            ),
            source="rankfall",
            metric="relative error of each of the three",
            measure=lambda runs: runs.closed_form,
            expected=at_most(1e-8, ROUNDING),
            proofs=CLOSED,
            form="{:.1e}",
        ),
    ),
)
