"""Appendices C.4 to C.6: how far the equivalence holds with a penalty, large weights and large steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, beta, covariance, least_squares_floor, symmetric_sine
from rankfall.dynamics import descent, linear
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_least, at_most, finished, guide
from rankfall.papers.zhang.closed_form import same_moments, share_of
from rankfall.papers.zhang.equivalence import (
    ROUNDING,
    RankOneSetting,
    draw_errors,
    labelled,
    penalised,
    recorded,
    weight_errors,
)
from rankfall.theory.results import zhang_equivalence
from rankfall.trajectory import Trajectory

SEEN = 0.02  # of the height of a printed panel: about the width of its lines

# --- C.4: an L2 penalty -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PenaltySetting(RankOneSetting):
    """As for Theorem 5, where all numbers are ours."""

    penalty: float = 0.6  # for the ends, in units of |beta|, which is 1 here
    late: int = 1500  # steps to the ends

    @property
    def weak(self) -> float:
        """The penalty for the errors: a sixth."""
        return self.penalty / 6

    @property
    def kinds(self) -> list[float]:
        """The slopes whose ends are taken: these, and the linear network's."""
        return [*self.slopes, 1.0]


def run_penalty(setting: PenaltySetting, seed: int) -> xr.Dataset:
    """Weight errors with a penalty, either loss; and where the penalised square loss ends on white data."""
    pairs, dim, slopes = setting.pairs, setting.dim, setting.kinds
    white = _unit(symmetric_sine(pairs=pairs, dim=dim, seed=seed, white=True))
    sets = {"square": white, "logistic": labelled(seed, pairs, dim)}
    starts = [Network.rank_one((dim, setting.width, 1), a, setting.scale, seed) for a in slopes]
    errors = [
        weight_errors(starts[:-1], data, loss, setting.weak, setting.step, setting.steps)
        for loss, data in sets.items()
    ]
    b = beta(white)
    run = descent(
        starts,
        white,
        "square",
        setting.step,
        setting.late,
        optimiser=penalised(setting.penalty),
        measures=["loss"],
        record=linear(2),
        show=False,
    )
    ends = np.array([network.split()[0][0] for network in finished(run).networks])
    kept = [max(0.0, 1 - setting.penalty / ((1 + a) / 2)) for a in slopes]
    return xr.Dataset(
        {
            "error": (("loss", "step", "slope"), np.array(errors)),
            "end": (("kind",), ends @ b),
            "off": (("kind",), np.linalg.norm(ends - np.outer(kept, b), axis=1)),
            "kept": (("kind",), kept),
        },
        {
            "loss": list(sets),
            "slope": list(setting.slopes),
            "kind": slopes,
            "step": recorded(setting.steps),
        },
    )


def _unit(data: Data) -> Data:
    """The targets scaled so that |<y x>| = 1."""
    return Data(data.x, data.y / np.linalg.norm(beta(data)), data.name)


def draw_penalty(setting: PenaltySetting, runs: xr.Dataset) -> Figure:
    """The errors over the steps for both losses, and the shrunken map against the slope."""
    with plot.style():
        figure, axes = plot.panels(3)
        for ax, loss, letter in zip(axes[0], ("square", "logistic"), "ab", strict=False):
            draw_errors(ax, runs, runs.error.sel(loss=loss))
            ax.set_title(f"({letter}) {loss} loss with a penalty")
        axes[0, 0].legend(title=r"slope $\alpha$", loc="upper right", ncols=3)
        slopes = np.linspace(0, 1, 101)
        shrunk = np.maximum(0, 1 - setting.penalty / ((1 + slopes) / 2))
        plot.theory(axes[0, 2], slopes, shrunk, r"$(1 - \lambda/(c\|\beta\|))_+$")
        for i in range(runs.sizes["seed"]):
            label = "descent" if i == 0 else None
            plot.simulation(axes[0, 2], runs.kind, runs.end[i], label, color=plot.PALETTE[0], alpha=0.5)
        axes[0, 2].legend(loc="upper left")
        axes[0, 2].set(xlabel=r"slope $\alpha$", ylabel=r"$w^\top\beta / \|\beta\|^2$ at the end")
        axes[0, 2].set_title(rf"(c) white data, $\lambda = {setting.penalty:g}\,\|\beta\|$")
    return figure


def claims_penalty(setting: PenaltySetting) -> tuple[Claim, ...]:
    """The equivalence with a penalty, and what the penalty does."""
    return (
        Claim(
            id="penalty-equivalence",
            sentence="With a penalty λ the network is the linear one with the penalty λ/c, step by step.",
            source="rankfall, on the subject of TMLR, Appendix C.4",
            metric="largest relative weight error over the steps, for each slope and either loss",
            measure=lambda runs: runs.error.max("step").transpose("seed", "loss", "slope"),
            expected=at_most(ROUNDING, "exact but for rounding"),
        ),
        Claim(
            id="penalty-shrinks-map",
            sentence="On white data the penalty shrinks the map to (1 − λ/(c‖β‖))₊ β.",
            source="rankfall",
            metric="‖w − (1 − λ/(c‖β‖))₊ β‖ / ‖β‖ at the end, for each slope",
            measure=lambda runs: runs.off.transpose("seed", "kind"),
            expected=at_most(1e-6, f"what {setting.late} steps leave, in the slowest mode"),
            form="{:.1e}",
            note="The least squared norm of weights with the map w is 2‖w‖/c: a soft threshold. "
            "The smaller the slope, the sooner nothing is learned.",
        ),
    )


C4 = Experiment(
    name="C.4",
    title="With an L2 penalty the network is a linear one with a larger penalty",
    setting=PenaltySetting(),
    simulation=run_penalty,
    picture=draw_penalty,
    statements=claims_penalty,
    seeds=20,
    cost=0.4,
    about=(
        "The setting of theorem-5 with half a penalty λ times the squared weights added to the loss; λ = 0.1 "
        "for the errors. For the ends white data with ‖β‖ = 1, λ = 0.6, α = 0, 0.3, 0.7 and 1. The journal's "
        "Appendix C.4 has the statement; its text was not available to us, the form here is derived."
    ),
)

# --- C.5: large initial weights ---------------------------------------------------------------------------


@dataclass(frozen=True)
class TwinSetting:
    """Of ReLU networks and their linear twins; the data are those of Fig. 3, the numbers ours."""

    pairs: int = 100  # points, before their mirror images
    dim: int = 20
    width: int = 100
    records: int = 81

    def data(self, seed: int) -> Data:
        """Of one draw."""
        return symmetric_sine(pairs=self.pairs, dim=self.dim, seed=seed)


@dataclass(frozen=True)
class ScaleSetting(TwinSetting):
    """The same, from several scales."""

    scales: tuple[float, ...] = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0)  # of the linear network's layers
    step: float = 0.04  # of the ReLU network
    steps: int = 600

    def within(self, low: float, high: float) -> list[float]:
        """The scales between two others."""
        return [scale for scale in self.scales if low <= scale <= high]


def run_scales(setting: ScaleSetting, seed: int) -> xr.Dataset:
    """ReLU against the linear twin from Gaussian weights of every scale: weights, loss and even part."""
    data, scales, widths = setting.data(seed), setting.scales, (setting.dim, setting.width, 1)
    networks = [Network.gaussian(widths, 0.0, np.sqrt(2) * scale, seed) for scale in scales]
    runs = _against_twins(networks, data, [setting.step] * len(scales), setting.steps, setting.records)
    named = runs.rename(run="scale").assign_coords(scale=list(scales))
    return named.assign(predicted=zhang_equivalence.weight_error(share_of(data, networks[0])))


def _against_twins(
    networks: list[Network], data: Data, sizes: list[float], steps: int, records: int
) -> xr.Dataset:
    """Descent of networks of one slope and of their linear twins, compared at the records."""
    c, few, floor = float(networks[0].mean_slope), same_moments(data), least_squares_floor(data)
    here = _descend(networks, data, sizes, steps, records)
    linear_networks = [network.linear_twin() for network in networks]
    there = _descend(linear_networks, few, [c * size for size in sizes], steps, records)
    weights, twins = np.sqrt(c) * here["weights"].values, there["weights"].values
    linear_loss = there.loss.values + (np.mean(data.y**2) - np.mean(few.y**2)) / 2
    dims = ("step", "run")
    return xr.Dataset(
        {
            "error": (dims, np.linalg.norm(weights - twins, axis=2) / np.linalg.norm(twins, axis=2)),
            "loss": (dims, here.loss.values / floor),
            "linear_loss": (dims, linear_loss / floor),
            "apart": (dims, (here.loss.values - linear_loss) / (linear_loss[0] - floor)),
            "unsettled": (("run",), np.minimum(here.loss.values, linear_loss)[-10:].max(axis=0) / floor - 1),
            "even": (("run",), [_even_share(network, data) for network in here.networks]),
        },
        {"step": here.step.values},
    )


def _descend(networks: list[Network], data: Data, sizes: list[float], steps: int, records: int) -> Trajectory:
    kept, times = ["loss", "weights"], linear(records)
    run = descent(networks, data, "square", sizes, steps, measures=kept, record=times, show=False)
    return finished(run)


def _even_share(network: Network, data: Data) -> float:
    """The norm of the even part of the outputs over that of all of it."""
    return float(np.linalg.norm(network.even_part(data.x)) / np.linalg.norm(network(data.x)))


def draw_scales(setting: ScaleSetting, runs: xr.Dataset) -> Figure:
    """Losses of the first seed, their distances, and the weight errors, against the scale."""
    scales = setting.scales
    shown = scales[1:] or scales  # the smallest looks like the next one
    with plot.style():
        figure, ((loss, apart, error),) = plot.panels(3)
        for scale, colour in zip(shown, plot.colours(len(shown)), strict=True):
            one = runs.sel(scale=scale).isel(seed=0)
            plot.simulation(loss, runs.step, one.loss, f"{scale:g}", color=colour)
            plot.theory(loss, runs.step, one.linear_loss, "linear" if scale == scales[-1] else None)
        loss.legend(title="scale", loc="upper right")
        loss.set(xlabel="step", ylabel="loss / least squares", xlim=(-5, setting.steps / 2))
        loss.set_title("(a) one draw")
        plot.simulation(apart, scales, 100 * _largest(runs)[0], color=plot.PALETTE[0])
        apart.plot(scales, 100 * _largest(runs)[1:].T, "o", color=plot.PALETTE[0], markersize=2, alpha=0.4)
        guide(apart, y=100 * SEEN)
        apart.set(
            xscale="log", yscale="log", xlabel="initial scale", ylabel="|loss − linear loss| (% of the fall)"
        )
        apart.set_title("(b) largest distance, each draw")
        ends = 100 * runs.error.isel(step=-1).transpose("scale", "seed")
        error.plot(scales, ends, color=plot.PALETTE[1], linewidth=0.7, marker="o", markersize=2)
        error.set(xscale="log", ylim=(0, None), xlabel="initial scale", ylabel="weight error at the end (%)")
        error.set_title("(c) distance to the linear network")
    return figure


def _largest(runs: xr.Dataset) -> np.ndarray:
    """The largest distance of the losses (seed, scale)."""
    return np.asarray(abs(runs["apart"]).max("step").transpose("seed", ...))


def claims_scales(setting: ScaleSetting) -> tuple[Claim, ...]:
    """Whether the losses collapse, and what becomes of the weights; at the scales that are run."""
    small, middle, large = setting.within(0, 0.01), setting.within(0.1, 0.3), setting.within(3, np.inf)
    largest = max(small, default=0.01)
    supposed = {"large-start-collapse": middle, "too-large-start": large, "small-start-error": small}
    found = (
        Claim(
            id="large-start-collapse",
            sentence="The losses of both networks collapse even from weights that are not small.",
            source="rankfall, on the subject of TMLR, Appendix C.5",
            metric=f"largest |loss − linear loss| / fall of the loss, for {_named(middle)}",
            measure=lambda runs: _largest(runs.sel(scale=middle)),
            expected=at_most(SEEN, "what a reader can see: the width of a printed line"),
        ),
        Claim(
            id="too-large-start",
            sentence="The losses do not collapse if the initial weights are larger than the final ones.",
            source="rankfall",
            metric=f"largest |loss − linear loss| / fall of the loss, for {_named(large)}",
            measure=lambda runs: _largest(runs.sel(scale=large)),
            expected=at_least(SEEN, "what a reader can see: the width of a printed line"),
        ),
        Claim(
            id="small-start-error",
            sentence="The weight error does not go to zero with the initial weights: it tends to |p − 1/2|.",
            source="rankfall; against workshop, caption of Fig. 1",
            metric=(
                f"|weight error at the end − [(√p − √½)² + (√(1−p) − √½)²]^½|, for scales up to {largest:g}"
            ),
            measure=lambda runs: (
                np.abs(runs.error.isel(step=-1) - runs.predicted).sel(scale=small).transpose("seed", "scale")
            ),
            expected=at_most(largest, "of the order of the scale"),
            form="{:.1e}",
            note="The workshop version ascribes the error to initial weights that are not zero.",
        ),
        Claim(
            id="any-scale-linear",
            sentence="From weights of any scale the network ends as a linear map.",
            source="rankfall",
            metric="‖even part‖ / ‖f‖ on the data at the end, for each scale",
            measure=lambda runs: runs.even.transpose("seed", "scale"),
            expected=at_most(SEEN, "what a reader can see: the width of a printed line"),
        ),
    )
    return tuple(claim for claim in found if supposed.get(claim.id, True))


def _named(scales: list[float]) -> str:
    """The smallest and the largest of them, in words."""
    low, high = min(scales, default=0.0), max(scales, default=0.0)
    return f"scales from {low:g} to {high:g}" if low < high else f"a scale of {low:g}"


C5 = Experiment(
    name="C.5",
    title="Large initial weights: how far the equivalence holds",
    setting=ScaleSetting(),
    simulation=run_scales,
    picture=draw_scales,
    statements=claims_scales,
    seeds=20,
    cost=0.4,
    about=(
        "The data of Fig. 3 with 100 pairs, 100 ReLU neurons, Gaussian weights √2 times as large as those of "
        "the linear network, whose scale runs from 0.001 to 3; its layers end with norms of about 1.2. 600 "
        "steps of 0.04, and of 0.02 for the linear network. The text of the journal's Appendix C.5 was not "
        "available to us: what is asked here is our reading of its subject."
    ),
)

# --- C.6: large steps -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepSetting(TwinSetting):
    """The same, with several steps."""

    scale: float = 0.01  # the norm of either layer
    parts: tuple[float, ...] = (0.1, 0.5, 0.9, 1.1, 1.3)  # of the largest stable step
    steps: int = 400

    @property
    def stable(self) -> list[float]:
        """The parts below the edge of stability."""
        return [part for part in self.parts if part < 1]


def run_large_steps(setting: StepSetting, seed: int) -> xr.Dataset:
    """ReLU against the linear twin with every step, from rank one and from small Gaussian weights."""
    data, parts, widths = setting.data(seed), setting.parts, (setting.dim, setting.width, 1)
    edge = largest_step(data)
    starts = {
        "rank one": Network.rank_one(widths, 0.0, setting.scale, seed),
        "gaussian": Network.gaussian(widths, 0.0, setting.scale, seed),
    }
    sizes = [2 * edge * part for part in parts]  # c = 1/2: the ReLU network takes twice the step
    kept = [
        _against_twins([start] * len(parts), data, sizes, setting.steps, setting.records)
        for start in starts.values()
    ]
    runs = xr.concat(kept, dim=xr.Variable("start", list(starts)))
    return runs.rename(run="part").assign_coords(part=list(parts))


def largest_step(data: Data) -> float:
    """2 / sharpness of a balanced linear network f = v z.x at the least-squares solution, v^2 = |z|^2."""
    sigma = covariance(data)
    best = np.linalg.solve(sigma, beta(data))
    v = np.sqrt(np.linalg.norm(best))
    pull = sigma @ best  # of v z = best: the mixed derivatives in v and z, where the residual drops out
    z = best / v
    hessian = np.block([[np.array([[z @ sigma @ z]]), pull[None]], [pull[:, None], v**2 * sigma]])
    return float(2 / np.linalg.eigvalsh(hessian)[-1])


def draw_large_steps(setting: StepSetting, runs: xr.Dataset) -> Figure:
    """Losses of both networks below and above the edge of stability, and the weight errors."""
    parts = setting.parts
    with plot.style():
        figure, ((loss, rank_one, gaussian),) = plot.panels(3)
        for part, colour in zip(parts, plot.colours(len(parts)), strict=True):
            one = runs.sel(part=part)
            last = one.sel(start="gaussian").isel(seed=0)
            plot.simulation(loss, runs.step, last.loss, f"{part:g}", color=colour, markevery=1)
            plot.theory(loss, runs.step, last.linear_loss, "linear" if part == parts[-1] else None)
            for ax, start in ((rank_one, "rank one"), (gaussian, "gaussian")):
                curves = one.error.sel(start=start).transpose("step", "seed")
                ax.semilogy(runs.step[1:], np.maximum(curves[1:], 1e-17), color=colour, linewidth=0.6)
        loss.legend(title="step / edge", loc="upper right")
        loss.set(xlabel="step", ylabel="loss / least squares", title="(a) Gaussian weights, one draw")
        loss.set_xlim(-3, setting.steps / 3)
        for ax, title in (
            (rank_one, "(b) rank one, all draws"),
            (gaussian, "(c) Gaussian weights, all draws"),
        ):
            ax.set(xlabel="step", ylabel="weight error", ylim=(1e-17, 10), title=title)
    return figure


def claims_large_steps(setting: StepSetting) -> tuple[Claim, ...]:
    """The equivalence below the edge of stability, and beyond it; with the steps that are run."""
    largest = max(setting.parts, default=0.0)
    supposed = {"stable-steps-collapse": bool(setting.stable), "unstable-beyond-edge": largest > 1}
    found = (
        Claim(
            id="any-step-exact",
            sentence="The equivalence needs no small steps: from weights of rank one it is exact for any.",
            source="rankfall, on the subject of TMLR, Appendix C.6",
            metric="largest relative weight error over the steps, for each step size",
            measure=lambda runs: runs.error.sel(start="rank one").max("step").transpose("seed", "part"),
            expected=at_most(1e-10, "exact but for rounding, which the oscillations beyond the edge amplify"),
        ),
        Claim(
            id="stable-steps-collapse",
            sentence="From small Gaussian weights the losses collapse for every stable step.",
            source="rankfall, on the subject of TMLR, Appendix C.6",
            metric="largest |loss − linear loss| / fall of the loss, for steps below the edge",
            measure=lambda runs: _largest(runs.sel(start="gaussian", part=setting.stable)),
            expected=at_most(SEEN, "what a reader can see: the width of a printed line"),
        ),
        Claim(
            id="unstable-beyond-edge",
            sentence="Beyond the edge of stability neither network settles.",
            source="rankfall",
            metric=(
                f"the lower of both losses / least squares − 1, largest of ten late records, at {largest:g}"
            ),
            measure=lambda runs: runs.unsettled.sel(part=largest).transpose("seed", "start"),
            expected=at_least(1e-3, "a loss that has not converged"),
            note="From Gaussian weights the losses then differ visibly in about half of the draws.",
        ),
    )
    return tuple(claim for claim in found if supposed.get(claim.id, True))


C6 = Experiment(
    name="C.6",
    title="Large steps, up to the edge of stability and beyond it",
    setting=StepSetting(),
    simulation=run_large_steps,
    picture=draw_large_steps,
    statements=claims_large_steps,
    seeds=20,
    cost=0.4,
    about=(
        "The data of Fig. 3 with 100 pairs, 100 ReLU neurons, weights of norm 0.01, of rank one or Gaussian; "
        "400 steps. The linear network's step is 0.1 to 1.3 times the largest at which the least-squares "
        "solution is stable (2 over the sharpness), the ReLU network's is twice that. The text of the "
        "journal's Appendix C.6 was not available to us: what is asked here is our reading of its subject."
    ),
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (C4, C5, C6)
