"""Theorems 1 to 3: two neurons fit two samples with rank two, or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.dynamics import descent, every
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    finished,
    guide,
    near,
    scientific,
)
from rankfall.theory.mathematics import rank_one_interpolator
from rankfall.theory.results import timor_rank

NETWORKS = 288  # of the paper
REPORTED = 79 / NETWORKS  # the share of them that fit
REPETITIONS = 20
RIGHT = 0.05  # the cosine up to which an angle is nearly a right one; in the paper it is 0.01


@dataclass(frozen=True)
class Setting:
    """What both experiments share."""

    starts: int = NETWORKS
    step: float = 0.02  # ours: the paper takes 3,000,000 steps of 1e-4
    steps: int = 3000  # the time 60: networks that fit have done so by 30

    @property
    def within(self) -> float:
        """Steps leave the flow by less than this: by half of it where they are 0.02."""
        return 0.05 * self.step


@dataclass(frozen=True)
class RankSetting(Setting):
    """The experiment of the paper."""

    radius: float = 1e-4  # the length of the rows of W and of the columns of V at the start
    height: float = 0.99  # the inputs are (1, height) and (-1, height), scaled to norm 1

    @property
    def inputs(self) -> np.ndarray:
        """The two inputs, as rows."""
        return np.array([[1.0, self.height], [-1.0, self.height]]) / np.hypot(1.0, self.height)

    @property
    def cosine(self) -> float:
        """The cosine of the angle between the inputs."""
        return float(self.inputs[0] @ self.inputs[1])

    @property
    def nearly_right(self) -> bool:
        """Is the angle nearly a right one, as in the paper? How many fit depends on it."""
        return abs(self.cosine) < RIGHT

    @property
    def allowed(self) -> float:
        """99 % of the differences of the paper's share and ours, both of them binomial."""
        variance = REPORTED * (1 - REPORTED) * (1 / NETWORKS + 1 / (REPETITIONS * self.starts))
        return float(2.58 * np.sqrt(variance))

    @property
    def thin(self) -> float:
        """How long weights may be at the start of Theorem 2."""
        return float(min(0.5, np.sqrt(0.75) * np.sqrt((1 + self.cosine) / 2)))

    @property
    def least(self) -> float:
        """The least stable rank from tiny weights if each neuron has a sample: docs/theory/timor_rank.md."""
        sine2 = 1 - self.cosine**2
        ratio = 1 / np.sqrt(sine2)
        return float(2 / (1 + np.sqrt(1 - 4 * ratio * sine2 / (1 + ratio) ** 2)))


@dataclass(frozen=True)
class AngleSetting(Setting):
    """Theorem 3, which is for all obtuse angles."""

    angles: tuple[int, ...] = (100, 110, 120, 140, 160)  # between the inputs, in degrees: ours


def _trained(
    setting: Setting, networks: list[Network], data: Data
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W (start, 2, 2), V (start, 2, 2) and the loss of many networks at the end."""
    run = descent(
        networks,
        data,
        "square.sum",
        setting.step,
        setting.steps,
        measures=["loss", "weights"],
        record=every(setting.steps),
        along={"start": range(len(networks))},
        show=False,
    )
    last = finished(run).dataset.isel(step=-1)
    theta = last["weights"].transpose("start", ...).values.reshape(-1, 2, 2, 2)
    return theta[:, 0], theta[:, 1], last["loss"].values


def _circle(angles: Any) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _alone(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """In which networks does each neuron see one sample, its own?"""
    sees = np.einsum("sij,kj->sik", w, x) > 0
    return np.asarray((sees.sum(axis=1) == 1).all(axis=1) & (sees.sum(axis=2) == 1).all(axis=1))


# --- the experiment: how many fit, and with which rank ----------------------------------------------------


def run_ranks(setting: RankSetting, seed: int) -> xr.Dataset:
    """The paper's 288 networks: loss, stable rank, ratio of the singular values, and who sees what."""
    data, rng = Data(setting.inputs, np.eye(2), "two points"), np.random.default_rng(seed)
    first, second = setting.radius * _circle(rng.uniform(0, 2 * np.pi, (2, setting.starts, 2)))
    w, _, loss = _trained(setting, [Network([a, b.T]) for a, b in zip(first, second, strict=True)], data)
    spectra = Spectrum.of(w)
    other = Data(rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))
    simple = rank_one_interpolator(other)
    return xr.Dataset(
        {
            "loss": ("start", loss),
            "stable_rank": ("start", spectra.stable_rank),
            "ratio": ("start", spectra.share(2)),
            "alone": ("start", _alone(w, setting.inputs)),
            "length": max(np.linalg.norm(rows, axis=-1).max() for rows in (first, second)),
            "rank_one_error": np.abs(np.asarray(simple(other.x)) - other.y).max(),
            "rank_one_ratio": Spectrum.of(simple.weights[0]).share(2),
        }
    )


def _fitted(runs: xr.Dataset, name: str) -> xr.DataArray:
    """A measure of the networks that fit, and NaN for the others."""
    return runs[name].where(runs.loss < timor_rank.FITTED)


def _share(runs: xr.Dataset) -> xr.DataArray:
    """The share of the networks that fit, in each repetition."""
    return (runs.loss < timor_rank.FITTED).mean("start")


def draw_ranks(setting: RankSetting, runs: xr.Dataset) -> Figure:
    """The stable ranks of all that fit, by kind; and how many fit in each repetition."""
    ranks, alone = _fitted(runs, "stable_rank").values.ravel(), runs.alone.values.ravel() > 0
    kinds = [ranks[np.isfinite(ranks) & kind] for kind in (alone, ~alone)]
    with plot.style():
        figure, axes = plot.panels(2)
        left, right = axes[0]
        left.hist(
            kinds,
            bins=np.linspace(1, 2, 26),
            stacked=True,
            color=plot.PALETTE[:2],
            label=["a sample for each neuron", "a neuron with both samples"],
        )
        label = f"least for a sample each: {setting.least:.3f}"
        left.axvline(setting.least, color=plot.INK, linewidth=0.9, label=label)
        left.set(
            xlabel=r"stable rank of $W$", ylabel="networks that fit", title="(a) stable ranks of all that fit"
        )
        left.legend(loc="upper left")
        shares = np.sort(_share(runs).values)
        low, high = REPORTED - setting.allowed, REPORTED + setting.allowed
        right.axhspan(low, high, color=plot.GUIDE, alpha=0.15, linewidth=0)
        plot.theory(right, [1, len(shares)], [REPORTED] * 2, "in the paper (band: 99 %)")
        plot.simulation(right, np.arange(1, len(shares) + 1), shares, "here", color=plot.PALETTE[0])
        guide(right, y=shares.mean(), color=plot.PALETTE[0])
        right.set(xlabel="repetition, sorted", title="(b) how many fit")
        right.set(ylabel=f"share of {setting.starts} networks")
        right.legend(loc="lower right")
    return figure


def rank_claims(setting: RankSetting) -> tuple[Claim, ...]:
    """Theorems 1 and 2, and the experiment of the paper."""
    return (*_on_theorems(setting), *_on_the_experiment(setting), *_on_own_samples(setting))


def _on_theorems(setting: RankSetting) -> tuple[Claim, ...]:
    """Theorems 1 and 2."""
    return (
        Claim(
            id="rank-one-fits",
            sentence="Weights of rank one can fit two samples, whatever their angle and targets.",
            source="Theorem 1",
            metric="larger of the error max |f(x) - y| and the ratio σ₂(W)/σ₁(W), on random samples",
            measure=lambda runs: np.maximum(runs.rank_one_error, runs.rank_one_ratio),
            expected=at_most(1e-9, "rounding, which a small angle enlarges"),
        ),
        Claim(
            id="ends-with-rank-two",
            sentence="Every network that fits the two samples ends with rank two.",
            source="Theorem 2",
            metric="smallest σ₂(W)/σ₁(W) among the networks that fit",
            measure=lambda runs: _fitted(runs, "ratio").min("start"),
            expected=at_least(
                0.01,
                "rank one would be 0, up to the root of what is left of the loss, "
                f"{scientific(timor_rank.FITTED)}",
            ),
            hypotheses=(
                Check(
                    "length of all rows of W and columns of V at the start",
                    lambda runs: runs.length,
                    at_most(setting.thin, "Theorem 2: below ½ and √3/2 · cos(φ/2)"),
                ),
            ),
        ),
    )


def _on_the_experiment(setting: RankSetting) -> Iterator[Claim]:
    """The experiment of the paper; at another angle it says nothing of how many fit."""
    if setting.nearly_right:
        yield Claim(
            id="number-that-fits",
            sentence="Of 288 networks 79 fit.",
            source="experiments",
            metric=f"share of {setting.starts} networks that fits, mean of the repetitions",
            measure=lambda runs: _share(runs).mean(),
            expected=near(
                REPORTED,
                setting.allowed,
                "79/288; 99 % of the differences of binomial shares, one of 288 and one of "
                f"{REPETITIONS} × {setting.starts}",
                "{:.3f}",
            ),
            form="{:.3f}",
        )
    yield Claim(
        id="stable-rank-two",
        sentence="All networks that fit have a stable rank of about 2.",
        source="experiments",
        metric="smallest stable rank of W among the networks that fit",
        measure=lambda runs: _fitted(runs, "stable_rank").min("start"),
        expected=at_least(1.5, "what rounds to 2: the most generous reading"),
        recorded=Verdict.NOT_REPRODUCED,
        form="{:.3f}",
        note=(
            "Half of the networks that fit have a neuron for each sample, and stable ranks of 1.98. In "
            "the others a neuron sees both samples, and the stable rank is anything down to 1.15."
        ),
    )


def _on_own_samples(setting: RankSetting) -> Iterator[Claim]:
    """Networks with a neuron for each sample."""
    yield Claim(
        id="rank-with-own-samples",
        sentence=f"With a neuron for each sample, the stable rank is at least {setting.least:.3f}.",
        source="rankfall, after Theorem 2",
        metric="smallest stable rank of W among the networks that fit with a neuron for each sample",
        measure=lambda runs: _fitted(runs, "stable_rank").where(runs.alone > 0).min("start"),
        expected=at_least(
            setting.least - max(1e-3, 10 * setting.radius),
            f"2/(1 + √(1 - 4ρ sin²φ/(1+ρ)²)), ρ = 1/sin φ; the start is {scientific(setting.radius)}",
        ),
        form="{:.4f}",
    )
    if setting.nearly_right:
        # The probability 2(φ/2π)² changes with the angle by 0.16 for each radian.
        by_chance, by_angle = 3 * np.sqrt(7 / 64 / (REPETITIONS * setting.starts)), 0.2 * abs(setting.cosine)
        yield Claim(
            id="one-in-eight",
            sentence="One network of eight fits with a neuron for each sample.",
            source="rankfall",
            metric="share of such networks, mean of the repetitions",
            measure=lambda runs: ((runs.loss < timor_rank.FITTED) & (runs.alone > 0)).mean(),
            expected=near(
                1 / 8,
                float(by_chance + by_angle),
                f"three standard deviations of {REPETITIONS * setting.starts} starts, and {by_angle:.1g} for "
                "the angle",
            ),
            form="{:.4f}",
            note=(
                "At a right angle the early flow decouples: with p = w·x and q = v·y of a sample, p and q "
                "grow if p > 0 and p + q > 0; otherwise p falls to 0, or was not positive. One neuron of "
                "four is left with the first sample alone, and one of four with the second."
            ),
        )


RANKS = Experiment(
    name="ranks",
    title="Two ReLU neurons and two samples: which rank do the networks have that fit?",
    setting=RankSetting(),
    simulation=run_ranks,
    picture=draw_ranks,
    statements=rank_claims,
    seeds=REPETITIONS,
    cost=0.13,
    about=(
        "The paper's experiment, twenty times: inputs (1, 0.99) and (-1, 0.99) scaled to norm 1, targets e1 "
        "and e2, two neurons, the rows of W and the columns of V uniform on a circle of radius 1e-4, the "
        "summed square loss, 288 starts; a network fits if its loss ends below 1e-4. The paper takes "
        "3,000,000 steps of 1e-4, that is the time 300. Here the steps are 0.02, to the time 60: what fits "
        "has done so by then. With steps of 1e-4 the same starts fit, and their stable ranks change by 0.002 "
        "at most: tried on 288 starts, 71 of which fitted."
    ),
)

# --- Theorem 3: the angle between the neurons -------------------------------------------------------------


def _longest(angle: float) -> float:
    """How long the rows of W may be at the start of Theorem 3."""
    return float(np.sqrt(0.75) * min(np.sin((np.pi - angle) / 4), np.sin(angle - np.pi / 2)))


def run_angles(setting: AngleSetting, seed: int) -> xr.Dataset:
    """Starts with V = 0 at several angles between the inputs: who fits, and with which angle and lengths."""
    found = [_from_zero(setting, np.radians(degrees), seed) for degrees in setting.angles]
    return xr.concat(found, dim=xr.Variable("angle", list(setting.angles)))


def _from_zero(setting: AngleSetting, angle: float, seed: int) -> xr.Dataset:
    data = Data(_circle(np.array([0.0, angle])), np.eye(2), "two points")
    turns = np.random.default_rng(seed).uniform(0, 2 * np.pi, (setting.starts, 2))
    start = _longest(angle) * _circle(turns)
    networks = [Network([w, np.zeros((2, 2))]) for w in start]
    w, v, loss = _trained(setting, networks, data)
    alone, lengths = _alone(start, data.x), np.linalg.norm(w, axis=-1)
    between = np.arccos(np.clip((w[:, 0] * w[:, 1]).sum(axis=1) / lengths.prod(axis=1), -1, 1))
    closed = [timor_rank.two_neurons_from_zero(networks[i], data, np.inf) for i in np.flatnonzero(alone)]
    gaps = np.abs(np.array(closed).reshape(-1, 2, 2, 2) - np.stack([w, v], axis=1)[alone])
    return xr.Dataset(
        {
            "loss": ("start", loss),
            "alone": ("start", alone),
            "between": ("start", between),
            "shortest": ("start", lengths.min(axis=1)),
            "longest": ("start", lengths.max(axis=1)),
            "gap": gaps.max(initial=0.0),
        }
    )


def _ranges(runs: xr.Dataset) -> xr.DataArray:
    """How far angle and lengths are outside the ranges of Theorem 3; what does not fit is infinitely far."""
    angle = np.radians(runs.angle)
    outside = [
        np.pi - angle - runs.between,
        runs.between - (np.pi + angle) / 2,
        np.sqrt(0.75) - runs.shortest,
        runs.longest - np.sqrt(0.25 + 4 / (3 * np.sin(angle) ** 2)),
    ]
    return xr.concat(outside, "range").max("range").where(runs.loss < timor_rank.FITTED, np.inf)


def _counted(angles: Any) -> Any:
    """The probability of Theorem 3."""
    return 2 * (np.asarray(angles) / 360) ** 2


def draw_angles(setting: AngleSetting, runs: xr.Dataset) -> Figure:
    """How many fit, the angle between the neurons, and their lengths, over the angle between the inputs."""
    dense = np.linspace(91, 175, 85)
    phi, alone = np.radians(dense), runs.where(runs.alone > 0)
    with plot.style():
        figure, axes = plot.panels(3)
        left, middle, right = axes[0]
        plot.theory(left, dense, _counted(dense), r"$2(\varphi/2\pi)^2$")
        shares = {
            "fit, within the ranges": _ranges(runs) < setting.within,
            "fit": runs.loss < timor_rank.FITTED,
        }
        for i, (name, kind) in enumerate(shares.items()):
            share = kind.mean("start").transpose("angle", "seed")
            _bars(left, np.array(setting.angles) + 2 * i - 1, share, share, plot.PALETTE[i], name)
        left.set(ylim=(0, 0.8), ylabel="share of the starts", title="(a) how many fit")
        longest = np.sqrt(0.25 + 4 / 3 / np.sin(phi) ** 2)
        for curve, label in ((180 - dense, "range of Theorem 3"), (90 + dense / 2, None)):
            plot.theory(middle, dense, curve, label)
        for curve in (np.full_like(dense, 0.75**0.5), longest):
            plot.theory(right, dense, curve)
        degrees = np.degrees(alone.between)
        _bars(middle, setting.angles, degrees, degrees, plot.PALETTE[0], "all networks")
        _bars(right, setting.angles, alone.shortest, alone.longest, plot.PALETTE[0])
        middle.set(ylabel=r"angle of $w_1$ and $w_2$ (degrees)", title="(b) a sample for each neuron")
        right.set(ylabel=r"$|w_i|$", ylim=(0.8, 2.6), title="(c) lengths of the same neurons")
        middle.set_ylim(0, 260)
        for ax in (left, middle):
            ax.legend(loc="upper left")
        for ax in axes[0]:
            ax.set_xlabel(r"angle $\varphi$ between the inputs (degrees)")
    return figure


def _bars(
    ax: Axes, at: Any, low: xr.DataArray, high: xr.DataArray, colour: str, label: str | None = None
) -> None:
    """From the least to the most at each angle, with the mean of both marked."""
    rest = [dim for dim in low.dims if dim != "angle"]
    middle = (low.mean(rest) + high.mean(rest)).values / 2
    ends = np.abs([low.min(rest).values - middle, high.max(rest).values - middle])
    ax.errorbar(at, middle, ends, fmt="o", markersize=3.2, linewidth=1.2, color=colour, label=label)


def _apart(runs: xr.Dataset) -> xr.DataArray:
    fits = runs.loss < timor_rank.FITTED
    return (fits & (runs.alone > 0)).sum("start") / fits.sum("start")


def angle_claims(setting: AngleSetting) -> tuple[Claim, ...]:
    """Theorem 3, and the networks beside it."""
    least = min(setting.angles)
    return (
        Claim(
            id="probability-of-fitting",
            sentence="With a probability of 2(φ/2π)² or more a network fits, and ends in a certain range.",
            source="Theorem 3",
            metric=(
                "share of all starts that fit with π-φ ≤ angle(w₁, w₂) ≤ (π+φ)/2 and "
                "√3/2 < ‖w‖ < √(1/4 + 4/(3 sin²φ)), divided by 2(φ/2π)², for each angle φ"
            ),
            measure=lambda runs: (
                (_ranges(runs) < setting.within).mean(["seed", "start"]) / _counted(runs.angle)
            ),
            expected=at_least(1.0, "the probability in the theorem"),
        ),
        Claim(
            id="range-of-angles",
            sentence="Networks whose neurons start with a sample each fit, and end in this range.",
            source="Theorem 3, proof",
            metric="most that angle (radians) or length is outside its range; infinite where the loss stays",
            measure=lambda runs: _ranges(runs).where(runs.alone > 0).max(["start", "angle"]),
            expected=at_most(setting.within, f"steps of {setting.step:g} leave the flow by half of this"),
        ),
        Claim(
            id="closed-form-end",
            sentence="Where each neuron starts with a sample of its own, the end has a closed form.",
            source="rankfall, after Theorem 3",
            metric="largest difference of a weight from the closed form, over all such networks",
            measure=lambda runs: runs.gap.max("angle"),
            expected=at_most(setting.step, "the size of a step"),
        ),
        Claim(
            id="most-fit-otherwise",
            sentence=f"At {least} degrees most networks that fit are not those of the theorem.",
            source="rankfall",
            metric=f"share of starts with a sample for each neuron among all that fit, {least} degrees",
            measure=lambda runs: _apart(runs.sel(angle=least)),
            expected=at_most(0.5, "most: more than a half, in every repetition"),
        ),
    )


ANGLES_FROM_ZERO = Experiment(
    name="angles",
    title="From a second layer of zeros: how often do two neurons fit, and at which angle do they end?",
    setting=AngleSetting(),
    simulation=run_angles,
    picture=draw_angles,
    statements=angle_claims,
    seeds=REPETITIONS,
    cost=0.5,
    about=(
        "Theorem 3: unit inputs at an angle φ from 100 to 160 degrees, targets e1 and e2, V(0) = 0, the rows "
        "of W in random directions and as long as the theorem allows, 288 starts at each angle, repeated "
        "twenty times. Steps of 0.02 to the time 60. Angles and targets are our choice."
    ),
)
