"""Theorem 1: orthogonally separable data end as one neuron a class."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import orthogonally_separable
from rankfall.dynamics import Until, exact_flow
from rankfall.limits import Limit, limit
from rankfall.loss import logistic
from rankfall.measure import RANK
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    all_reached,
    at_least,
    at_most,
    finished,
    guide,
    near,
    seed_lines,
    with_certificates,
)
from rankfall.theory import Situation, Status, assessed
from rankfall.theory.mathematics import EarlyFlow
from rankfall.theory.results import phuong_separable
from rankfall.trajectory import Trajectory

SIGNS = (1, -1)
VANISHED = 1e-8  # a neuron shorter than this part of the longest is none
WINDOW = 1.0  # degrees
END = "limit"  # its certificate


@dataclass(frozen=True)
class Setting:
    """The theorem has no numbers of its own: all of these are ours."""

    n: int = 12
    dim: int = 6
    width: int = 20
    scale: float = 1e-4  # the norm of a layer at the start
    late: float = 40.0  # ln t up to which the flow is followed
    records: int = 53

    @property
    def log_times(self) -> np.ndarray:
        """The ln t of the records."""
        return np.linspace(1.0, self.late, self.records)


def run_limits(setting: Setting, seed: int) -> xr.Dataset:
    """The directions of both signs over time, and the limit."""
    data = orthogonally_separable(n=setting.n, dim=setting.dim, seed=seed)
    widths = (setting.dim, setting.width, 1)
    s = Situation(Network.balanced(widths, slope=0.0, scale=setting.scale, seed=seed), data, logistic)
    ends = phuong_separable.class_margins(s.x, s.y)
    assert ends is not None  # orthogonally separable
    until = Until(log_time=setting.late)
    run = finished(exact_flow(s.network, data, s.loss, until, clock="loss", measures=["weights"], show=False))
    end = limit(run, data, s.loss, optimality=False, show=False)
    found = xr.merge([_directions(setting, run, s, ends), _at_the_end(end, s, ends)])
    return with_certificates(found, seed, {END: end})


def degrees_to(vectors: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Angles with a unit vector; by the distance, since a cosine does not tell small angles."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.degrees(2 * np.arcsin(np.minimum(np.linalg.norm(units - unit, axis=-1) / 2, 1))))


def _directions(
    setting: Setting, run: Trajectory, s: Situation, ends: phuong_separable.ClassMargins
) -> xr.Dataset:
    """Angles of sum |a_j| w_j of each sign with the sum of its class, and with its max-margin vector."""
    theta = run["weights"].values
    w = theta[:, : s.w.size].reshape(-1, *s.w.shape)
    times, early = run.dataset["log_time"].values, np.log(EarlyFlow(s).end)
    angles, sorted_out, apart = [], [], []
    for sign, margin in zip(SIGNS, (ends.plus, ends.minus), strict=True):
        strengths = np.abs(theta[:, s.w.size :]) * (sign * s.a > 0)
        total = s.x[s.y == sign].sum(axis=0)
        total /= np.linalg.norm(total)
        sums = np.einsum("tj,tjd->td", strengths, w)
        to = [degrees_to(sums, unit) for unit in (total, margin)]
        angles.append([np.interp(setting.log_times, times, angle) for angle in to])
        sorted_out.append([np.interp(early, times, angle) for angle in to])
        apart.append(degrees_to(total, margin))
    return xr.Dataset(
        {
            "angle": (("sign", "of", "log_time"), np.array(angles)),
            "early_angle": (("sign", "of"), np.array(sorted_out)),
            "apart": ("sign", np.array(apart)),
            "early": early,
        },
        {"sign": list(SIGNS), "of": ["class sum", "max-margin vector"], "log_time": setting.log_times},
    )


def _at_the_end(end: Limit, s: Situation, ends: phuong_separable.ClassMargins) -> xr.Dataset:
    lengths, a = np.linalg.norm(end.W, axis=1), np.asarray(end.network.weights[1])[0]
    lives = lengths > VANISHED * lengths.max()
    toward = np.where(s.a[:, None] > 0, ends.plus, ends.minus)
    strengths = [(a[sign * a > 0] ** 2).sum() for sign in SIGNS]
    sees = (s.w @ s.x.T > 0).any(axis=1)
    return xr.Dataset(
        {
            "applies": float(assessed(phuong_separable.RESULTS[0], s).status is Status.APPLIES),
            "certified": float(end.reached),
            "residual": max(end.residuals.values()),
            "off": degrees_to(end.W[lives], toward[lives]).max(),
            "second": ("sign", np.array([end.block_spectra[sign].share(2) for sign in "+-"])),
            "strength": ("sign", np.array(strengths)),
            "predicted_strength": ("sign", np.array([ends.a, ends.b])),
            "stable_rank": end.stable_rank,
            "predicted_stable_rank": ends.stable_rank,
            "norm": end.norm**2,
            "living": lives.sum(),
            "recruited": (lives & ~phuong_separable.learning(s)).sum(),
            "unseen": (lives & ~sees).sum(),
        }
    )


def draw_limits(setting: Setting, runs: xr.Dataset) -> Figure:
    """Angles over time, strengths and stable ranks against their predictions."""
    since = setting.log_times / np.log(10)
    with plot.style():
        figure, axes = plot.panels(3)
        left, middle, right = axes[0]
        for i, of in enumerate(runs.of.values):
            lines = runs.angle.sel(of=of, sign=1).transpose("log_time", "seed")
            seed_lines(left, since, lines, plot.PALETTE[i])
            left.plot(since, lines.median("seed"), color=plot.PALETTE[i], label=f"with the {of}")
        guide(left, x=float(runs.early.mean()) / np.log(10))
        left.set(xlabel=r"time $t$ (power of ten)", ylabel="angle of the positive neurons (degrees)")
        left.set(ylim=(0, 32), title="(a) first the mean, then the margin")
        left.legend()
        for i, sign in enumerate(SIGNS):
            of_sign = runs.sel(sign=sign)
            name = f"$a_j {'>' if sign > 0 else '<'} 0$"
            plot.simulation(middle, of_sign.predicted_strength, of_sign.strength, name, color=plot.PALETTE[i])
        plot.simulation(right, runs.predicted_stable_rank, runs.stable_rank, color=plot.PALETTE[2])
        for ax in (middle, right):
            ends = np.array(ax.get_xlim())
            plot.theory(ax, ends, ends, "equal")
        middle.set(xlabel=r"predicted $1/\gamma_\pm$", ylabel="$A$, $B$ at margin 1")
        middle.set_title("(b) strengths of the limits")
        middle.legend()
        right.set(
            xlabel="predicted stable rank", ylabel=r"stable rank of $W$", title="(c) rank of the limits"
        )
    return figure


_SURE = (
    Check(
        "the hypotheses of the theorem hold: 1 yes, 0 no",
        lambda runs: runs.applies,
        at_least(1.0, "all of them"),
    ),
    all_reached(),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1, the strengths that follow, and the way there."""
    return (*_on_directions(), *_on_strengths(), *_on_the_way())


def _on_directions() -> tuple[Claim, ...]:
    """Where the neurons end."""
    return (
        Claim(
            id="class-margin-vectors",
            sentence="Every living neuron ends along the max-margin vector of the class of its sign.",
            source="Theorem 1",
            metric="largest angle of a living neuron with u₊ (aⱼ > 0) or u₋ (aⱼ < 0), degrees",
            measure=lambda runs: runs.off,
            expected=at_most(1e-5, "limits and vectors are known to 1e-10, and directions to the root of it"),
            hypotheses=_SURE,
            proofs=(END,),
        ),
        Claim(
            id="rank-one",
            sentence="The neurons of one sign have rank one.",
            source="Theorem 1",
            metric="second singular value of W₊ and of W₋ / the first",
            measure=lambda runs: runs.second,
            expected=at_most(RANK, "a singular value below this share of the largest counts as zero"),
            hypotheses=_SURE,
            proofs=(END,),
        ),
    )


def _on_strengths() -> tuple[Claim, ...]:
    """How strong the two signs end."""
    return (
        Claim(
            id="inverse-margins",
            sentence="The strengths of the two signs are as their inverse margins: A : B = 1/γ₊ : 1/γ₋.",
            source="rankfall, after Theorem 1",
            metric="(A/B) / (γ₋/γ₊), with A, B the sums of aⱼ² over each sign",
            measure=lambda runs: (
                (runs.strength / runs.predicted_strength).prod("sign", skipna=False)
                / (runs.strength / runs.predicted_strength).sel(sign=-1) ** 2
            ),
            expected=near(1.0, 1e-8, "limits are known to 1e-10"),
            form="{:.10f}",
            hypotheses=_SURE,
            proofs=(END,),
        ),
        Claim(
            id="stable-rank-formula",
            sentence="The stable rank is 2(A+B)/((A+B) + √((A-B)² + 4AB cos²(u₊, u₋))).",
            source="rankfall, after Theorem 1",
            metric="stable rank of W at the limit / the formula",
            measure=lambda runs: runs.stable_rank / runs.predicted_stable_rank,
            expected=near(1.0, 1e-8, "limits are known to 1e-10"),
            form="{:.10f}",
            hypotheses=_SURE,
            proofs=(END,),
        ),
    )


def _on_the_way() -> tuple[Claim, ...]:
    """The way there."""
    return (
        Claim(
            id="early-class-sums",
            sentence="When the early phase ends, the neurons point to the sum of their class.",
            source="rankfall, after Min et al. 2024",
            metric="angle of Σ |aⱼ| wⱼ of each sign with the sum of its class, degrees",
            measure=lambda runs: runs.early_angle.sel(of="class sum"),
            expected=at_most(
                WINDOW, "outputs of 0.01 turn the pulls by 0.6 degrees at most; the start is finite"
            ),
            hypotheses=_SURE,
        ),
        Claim(
            id="turns-later",
            sentence="The sum of its class is not a neuron's end: it turns to the max-margin vector later.",
            source="rankfall",
            metric="angle with the max-margin vector / with the class sum, at the end of the early phase",
            measure=lambda runs: (
                runs.early_angle.sel(of="max-margin vector") / runs.early_angle.sel(of="class sum")
            ),
            expected=at_least(2.0, "clearly nearer to the one than to the other"),
            hypotheses=_SURE,
        ),
        Claim(
            id="recruited-neurons",
            sentence="Some neurons that see only samples of the other class at the start end alive.",
            source="rankfall",
            metric="such neurons, all seeds together",
            measure=lambda runs: (runs.recruited - runs.unseen).sum(),
            expected=at_least(1.0, "one is enough"),
            form="{:.0f}",
            hypotheses=_SURE,
            note="The other class pushes them away, and with that to their own.",
        ),
    )


LIMITS = Experiment(
    name="limits",
    title="Orthogonally separable data: one neuron a class in the limit",
    setting=Setting(),
    simulation=run_limits,
    picture=draw_limits,
    statements=claims,
    seeds=20,
    cost=1.0,
    about=(
        "Twelve samples in six dimensions, each class in a cone around its axis, the axes at 135 degrees, "
        "norms from 1/2 to 3/2. Twenty ReLU neurons from a balanced start of norm 1e-4, gradient flow of "
        "the mean logistic loss, followed exactly to t = e^40; then the limit, with its certificate. Data "
        "and sizes are our choice. The early phase ends where an output reaches 0.01."
    ),
)
