"""Sun and Tran, section 4: two properties of the limit, on certified limits; and when the second holds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.certificates import refutes
from rankfall.data import Data, nearly_orthogonal, p_orthogonality
from rankfall.limits import Limit, limit
from rankfall.loss import exponential
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    guide,
    orthogonal_enough,
    refuting,
    small_residuals,
    with_certificates,
)
from rankfall.theory import Situation
from rankfall.theory.results import sun_properties

RESIDUAL = 1e-9  # of a certificate: what is called certified is 1e-10 or better, as a rule 1e-15
SETS = ("nearly orthogonal", "as in Fig. 1")
SECOND = "In the limit the stable rank of W is at most 2."


def mixture(n: int, dim: int, positive: int, mean_scale: float, seed: int) -> Data:
    """The Gaussian mixture of section 5 with a given number of positive labels."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < positive, 1.0, -1.0)
    mean = rng.normal(0.0, mean_scale, dim)
    return Data(y[:, None] * mean + rng.normal(size=(n, dim)), y, "mixture")


# --- the two properties -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Sizes and mixture are those of section 5 for Fig. 1; section 4 has no numbers."""

    n: int = 10
    dim: int = 784
    mean_scale: float = 0.01  # the standard deviation of the entries of the classes' mean
    width: int = 100
    sigma: float = 1e-4  # section 5: one of the five initial scales
    p: float = 10.0  # ours, of the nearly orthogonal data: |x|² = 10 n max |<x_i, x_k>|
    norm: float = 28.0  # ours, of their inputs: that of a Gaussian sample in 784 dimensions


def run_properties(setting: Setting, seed: int) -> xr.Dataset:
    """The certified limits on two data sets: margins, stable ranks, residuals, and the hypothesis."""
    n, dim = setting.n, setting.dim
    positive = int(np.clip(np.random.default_rng(seed).binomial(n, 0.5), 1, n - 1))
    sets = (
        nearly_orthogonal(n=n, dim=dim, p=setting.p, norm=setting.norm, seed=seed),
        mixture(n, dim, positive, setting.mean_scale, seed),
    )
    found, ends = zip(*(_properties(setting, data, seed) for data in sets), strict=True)
    false = refutes("sun/property-2", SECOND, "stable rank", "<=", 2.0)
    proofs = {SETS[0]: refuting(ends[0], false), SETS[1]: ends[1]}  # the second set is outside the hypotheses
    return with_certificates(xr.concat(found, dim=xr.Variable("set", list(SETS))), seed, proofs, seeds=2)


def _properties(setting: Setting, data: Data, seed: int) -> tuple[xr.Dataset, Limit]:
    widths = (setting.dim, setting.width, 1)
    network = Network.fixed_second_layer(widths, 0.0, setting.sigma, seed, bias=True)
    end = limit(network, data, "exponential", optimality=False, show=False)
    s = Situation(network, data, exponential)
    found = xr.Dataset(
        {
            "stable_rank": end.stable_rank,
            "blocks": ("sign", list(end.block_stable_ranks.values())),
            "spread": float(end.margins.max() / end.margins.min() - 1),
            "certified": float(end.certified),
            "residual": max(end.residuals.values()),
            "nearly": 1 / sun_properties.overlap(s),
            "p": p_orthogonality(data, bias=True),
            "positive": int((data.y > 0).sum()),
        },
        coords={"sign": ["+", "-"]},
    )
    return found, end


def _of(runs: xr.Dataset, name: str, which: int = 0) -> xr.DataArray:
    return runs[name].sel(set=SETS[which])


def _margins(runs: xr.Dataset, which: int) -> xr.DataArray:
    """How far the margins are from equal, where the limit is certified."""
    return _of(runs, "spread", which).where(_of(runs, "certified", which) == 1)


def _hypothesis(which: int) -> Check:
    return orthogonal_enough(
        lambda runs: _of(runs, "nearly", which),
        "C = 3 is enough for property 1; the paper only asks for a large one",
        metric="near-orthogonality C = min |xᵢ|² / ((n-1) max |⟨xᵢ, xₖ⟩|) of the inputs (x, 1)",
        least=3.0,
        form="{:.3g}",
    )


# A limit without certificate counts as no number.
CERTIFIED = small_residuals(lambda runs: _of(runs, "residual").where(_of(runs, "certified") == 1))


def draw_properties(setting: Setting, runs: xr.Dataset) -> Figure:
    """Stable ranks of the limits for each data set, and how far the margins are from equal."""
    with plot.style():
        figure, ((ranks, margins),) = plot.panels(2)
        for place, (which, colour) in enumerate(zip(SETS, plot.PALETTE, strict=False)):
            spread = np.linspace(-0.25, 0.25, runs.sizes["seed"]) + place
            values = runs.sel(set=which)
            ranks.plot(spread, values.stable_rank, "o", ms=3, color=colour)
            ranks.plot(spread, values.blocks.max("sign"), "x", ms=3, color=colour, alpha=0.7)
            margins.semilogy(spread, np.maximum(values.spread, 1e-16), "o", ms=3, color=colour)
        guide(ranks, y=2)
        ranks.plot([], [], "o", ms=3, color=plot.GUIDE, label="whole matrix")
        ranks.plot([], [], "x", ms=3, color=plot.GUIDE, label="larger of the two sign blocks")
        ranks.legend(loc="lower right")
        ranks.set(
            ylabel=r"stable rank of $W$ in the limit", title="(a) property 2: at most 2?", ylim=(0, None)
        )
        margins.set(
            ylabel=r"$\max_i q_i\,/\min_i q_i - 1$", title="(b) property 1: equal margins?", ylim=(1e-17, 1)
        )
        for ax in (ranks, margins):
            ax.set_xticks(range(2), SETS)
            ax.set_xlim(-0.6, 1.6)
    return figure


def claims(setting: Setting) -> tuple[Claim, ...]:
    """The two properties, on data that satisfy the hypothesis and on the paper's own."""
    return (
        Claim(
            id="equal-margins",
            sentence="In the limit all margins are equal.",
            source="section 4, property 1",
            metric="max qᵢ / min qᵢ - 1, qᵢ = yᵢ f(xᵢ)",
            measure=lambda runs: _margins(runs, 0),
            expected=at_most(RESIDUAL, "the residual of a certificate"),
            hypotheses=(_hypothesis(0),),
            proofs=SETS[:1],
            form="{:.0e}",
            note="The report leaves it open; it is true with C = 3, and proved on the page of the theorem.",
        ),
        Claim(
            id="rank-at-most-two",
            sentence=SECOND,
            source="section 4, property 2",
            metric="stable rank of W in the limit, biases left out",
            measure=lambda runs: _of(runs, "stable_rank"),
            expected=at_most(2.0, "the number in the text"),
            recorded=Verdict.REFUTED,
            hypotheses=(_hypothesis(0),),
            certificate=CERTIFIED,
            proofs=SETS[:1],
            form="{:.2f}",
            note="The report sets out to show it and leaves it open.",
        ),
        Claim(
            id="own-data-margins",
            sentence="In the limit all margins are equal, on the paper's own data.",
            source="section 4, property 1, with the data of section 5",
            metric="max qᵢ / min qᵢ - 1, qᵢ = yᵢ f(xᵢ)",
            measure=lambda runs: _margins(runs, 1),
            expected=at_most(RESIDUAL, "the residual of a certificate"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_hypothesis(1),),
            proofs=SETS[1:],
            form="{:.0e}",
            note="These data are not nearly orthogonal. It holds all the same.",
        ),
        Claim(
            id="own-data-rank",
            sentence="In the limit the stable rank of W is at most 2, on the paper's own data.",
            source="section 4, property 2, with the data of section 5",
            metric="stable rank of W in the limit, biases left out",
            measure=lambda runs: _of(runs, "stable_rank", 1),
            expected=at_most(2.0, "the number in the text"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_hypothesis(1),),
            proofs=SETS[1:],
            form="{:.2f}",
        ),
    )


PROPERTIES = Experiment(
    name="properties",
    title="The two properties of section 4, on certified limits",
    setting=Setting(),
    simulation=run_properties,
    picture=draw_properties,
    statements=claims,
    seeds=20,
    cost=2.4,
    about=(
        "100 ReLU neurons, second layer fixed at ±1/√100, exponential loss, initial weights N(0, 1e-8); "
        "the limit of gradient flow with its certificate. Two data sets of 10 samples in 784 dimensions: "
        "nearly orthogonal ones that satisfy the hypothesis, five of each class, and the mixture of Fig. 1 "
        "with random labels. Both with biases: a bias is one more feature."
    ),
)


# --- the map: when would property 2 hold? -----------------------------------------------------------------

FAR = 80  # the d/n from which on a small slope is enough
TENTH, HALF = 0.1, 0.5  # a small slope, and one that is always enough


@dataclass(frozen=True)
class MapSetting:
    """The mixture is that of section 5; the map is ours."""

    n: int = 10
    mean_scale: float = 0.01  # the standard deviation of the entries of the classes' mean
    slopes: tuple[float, ...] = (0.0, 0.1, 0.5)
    ratios: tuple[int, ...] = (10, 80, 800)  # d / n
    shares: tuple[float, ...] = (0.2, 0.5)  # of the positive labels, in rising order
    width: int = 12
    sigma: float = 1e-4

    @property
    def positives(self) -> tuple[int, ...]:
        """The numbers of positive labels; there is one at least, and a negative one."""
        return tuple(sorted({min(max(round(share * self.n), 1), self.n - 1) for share in self.shares}))

    @property
    def balanced(self) -> int:
        """The number of positive labels that comes nearest to a half."""
        return min(self.positives, key=self.imbalance)

    def imbalance(self, positive: int) -> int:
        """How many labels more there are of one sign than of the other."""
        return abs(2 * positive - self.n)

    @property
    def unbalanced(self) -> tuple[int, ...]:
        """The numbers of positive labels that are less balanced than the most balanced one."""
        least = self.imbalance(self.balanced)
        return tuple(each for each in self.positives if self.imbalance(each) > least)

    @property
    def far(self) -> tuple[int, ...]:
        """The ratios at which a small slope is enough, in rising order."""
        return tuple(sorted(ratio for ratio in self.ratios if ratio >= FAR))


def run_map(setting: MapSetting, seed: int) -> xr.Dataset:
    """The stable rank of the certified limit for every slope, ratio d / n and balance of the labels."""
    slopes, ratios, positives = setting.slopes, setting.ratios, setting.positives
    shape = (len(slopes), len(ratios), len(positives))
    ranks, certified, proofs = np.empty(shape), np.empty(shape), {}
    for place in np.ndindex(shape):
        slope, ratio, positive = slopes[place[0]], ratios[place[1]], positives[place[2]]
        data = mixture(setting.n, ratio * setting.n, positive, setting.mean_scale, seed)
        network = Network.fixed_second_layer((data.dim, setting.width, 1), slope, setting.sigma, seed)
        end = limit(network, data, "exponential", optimality=False, show=False)
        ranks[place], certified[place] = end.stable_rank, end.certified
        proofs[_named(slope, ratio, positive)] = end
    dims = ("slope", "ratio", "positive")
    found = xr.Dataset(
        {"stable_rank": (dims, ranks), "certified": (dims, certified)},
        coords={"slope": list(slopes), "ratio": list(ratios), "positive": list(positives)},
    )
    kept = (*_low(setting, *slopes), *_higher(setting))
    return with_certificates(found, seed, {name: proofs[name] for name in kept if name in proofs})


def _named(slope: float, ratio: int, positive: int) -> str:
    return f"slope {slope:g}, d/n {ratio}, {positive} positive"


def _low(setting: MapSetting, *slopes: float) -> tuple[str, ...]:
    """The limits whose certificates are kept: these hold the data, a megabyte each where d/n is 800."""
    lowest = min(setting.ratios)
    return tuple(_named(slope, lowest, positive) for slope in slopes for positive in setting.positives)


def _higher(setting: MapSetting) -> tuple[str, ...]:
    """One more, with a larger d/n."""
    return tuple(_named(TENTH, ratio, setting.balanced) for ratio in setting.far[:1])


def _ranks(runs: xr.Dataset) -> xr.DataArray:
    """The stable ranks of the certified limits; the others are no number."""
    return runs.stable_rank.where(runs.certified == 1)


def draw_map(setting: MapSetting, runs: xr.Dataset) -> Figure:
    """A panel for each balance: the stable rank against d / n for each slope, every seed a dot."""
    with plot.style():
        figure, (axes,) = plot.panels(len(setting.positives))
        for ax, positive in zip(axes, setting.positives, strict=True):
            colours = plot.colours(len(setting.slopes))
            for place, (colour, slope) in enumerate(zip(colours, setting.slopes, strict=True)):
                values = _ranks(runs).sel(slope=slope, positive=positive).transpose("ratio", "seed")
                shifted = np.array(setting.ratios) * (1 + 0.08 * (place - 1))  # beside each other
                ax.plot(shifted, values, "o", ms=2, color=colour, alpha=0.4)
                ax.plot(shifted, values.median("seed"), color=colour, label=f"{slope:g}")
            guide(ax, y=2)
            ax.set(
                xscale="log", xlabel=r"$d\,/\,n$", ylabel=r"stable rank of $W$ in the limit", ylim=(0.9, 3.7)
            )
            ax.set_title(f"{positive} of {setting.n} labels positive")
        axes[0].legend(title=r"slope $\gamma$", ncols=2)
    return figure


def map_claims(setting: MapSetting) -> tuple[Claim, ...]:
    """Where property 2 holds and where it does not."""
    return (*_on_slopes(setting), *_on_balance(setting))


def _on_slopes(setting: MapSetting) -> Iterator[Claim]:
    """Which slope is enough; where no limit of a slope was looked at there is nothing to claim."""
    if 0.0 in setting.slopes and setting.imbalance(setting.balanced) <= 1:
        yield Claim(
            id="relu-above-two",
            sentence="For ReLU and balanced labels the limit exceeds 2 in most draws, at every d/n.",
            source="rankfall",
            metric="share of the draws with a stable rank above 2, for each d/n",
            measure=lambda runs: (_ranks(runs).sel(slope=0.0, positive=setting.balanced) > 2).mean("seed"),
            expected=at_least(0.5, "most"),
            proofs=(_named(0.0, min(setting.ratios), setting.balanced),),
            form="{:.2f}",
        )
    if HALF in setting.slopes:
        yield Claim(
            id="slope-half-suffices",
            sentence=f"A slope of {HALF} is enough for property 2, at every d/n and balance.",
            source="rankfall",
            metric=f"stable rank of W in the limit, slope {HALF}",
            measure=lambda runs: _ranks(runs).sel(slope=HALF),
            expected=at_most(2.0, "the bound of property 2"),
            proofs=_low(setting, HALF),
            form="{:.2f}",
        )
    if TENTH in setting.slopes and setting.far:
        ratios = " and ".join(map(str, setting.far))
        yield Claim(
            id="slope-tenth-suffices",
            sentence=f"A slope of {TENTH} is enough once d/n is {FAR}, at every balance.",
            source="rankfall",
            metric=f"stable rank of W in the limit, slope {TENTH}, d/n = {ratios}",
            measure=lambda runs: _ranks(runs).sel(slope=TENTH, ratio=list(setting.far)),
            expected=at_most(2.0, "the bound of property 2"),
            proofs=_higher(setting),
            form="{:.2f}",
        )


def _on_balance(setting: MapSetting) -> Iterator[Claim]:
    """What the balance of the labels changes."""
    if setting.unbalanced:
        others = " and ".join(map(str, setting.unbalanced))
        yield Claim(
            id="imbalance-lowers-rank",
            sentence="Unbalanced labels lower the stable rank: on average, for every slope and d/n.",
            source="rankfall",
            metric=(
                f"mean stable rank with {setting.balanced} of {setting.n} labels positive minus that with "
                f"{others} of {setting.n}"
            ),
            measure=lambda runs: _lowered(setting, runs),
            expected=at_least(0.0, "the sign is the claim"),
            proofs=_low(setting, *setting.slopes),
            form="{:.2f}",
        )


def _lowered(setting: MapSetting, runs: xr.Dataset) -> xr.DataArray:
    """By how much the mean stable rank is lower than with the most balanced labels."""
    means = _ranks(runs).mean("seed")
    return means.sel(positive=setting.balanced) - means.sel(positive=list(setting.unbalanced))


MAP = Experiment(
    name="map",
    title="When would property 2 hold? The stable rank of the limit over slope, d/n and label balance",
    setting=MapSetting(),
    simulation=run_map,
    picture=draw_map,
    statements=map_claims,
    seeds=20,
    cost=2.5,
    about=(
        "The mixture of section 5 with 10 samples, without biases, 12 neurons, certified limits of gradient "
        "flow with the exponential loss, for three slopes, three ratios d/n and two balances of the labels."
    ),
)
