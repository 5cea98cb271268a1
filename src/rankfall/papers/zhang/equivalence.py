"""Theorem 5 and Corollary 6: a bias-free network on symmetric data is a linear one, and ends like one."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import optax
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, beta, hard_margin, symmetric_sine, symmetrise
from rankfall.dynamics import Optimiser, descent, every, exact_flow
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    all_reached,
    at_least,
    at_most,
    finished,
    seed_lines,
    with_certificates,
)
from rankfall.theory.mathematics import time_course
from rankfall.theory.results import zhang_equivalence

# --- Theorem 5, in discrete steps -------------------------------------------------------------------------

ROUNDING = 1e-12  # of some hundred steps in float64
EQUAL = 0.5  # the share of either half for which the theorem holds


@dataclass(frozen=True)
class RankOneSetting:
    """Of descent from weights of rank one, without and with a penalty (Appendix C.4); ours: any will do."""

    pairs: int = 50  # points, before their mirror images
    dim: int = 10
    width: int = 40
    scale: float = 0.3  # the norm of either layer
    slopes: tuple[float, ...] = (0.0, 0.3, 0.7)
    step: float = 0.2
    steps: int = 400


@dataclass(frozen=True)
class StepSetting(RankOneSetting):
    """The theorem has no numbers of its own: all of these are ours."""

    shares: tuple[float, ...] = (0.5, 0.6, 0.8)  # of the positive half in the squared norm of W2

    @property
    def unequal(self) -> list[float]:
        """The shares that are not one half."""
        return [share for share in self.shares if share != EQUAL]


def run_steps(setting: StepSetting, seed: int) -> xr.Dataset:
    """Weight errors of rank-one starts: every slope with either loss, and every balance of the halves."""
    data = symmetric_sine(pairs=setting.pairs, dim=setting.dim, seed=seed)
    labels = labelled(seed, setting.pairs, setting.dim)
    starts = [_start(setting, slope, seed) for slope in setting.slopes]
    uneven = [unequal(_start(setting, 0.0, seed), share) for share in setting.shares]

    def errors(networks: list[Network], data: Data, loss: str) -> np.ndarray:
        return weight_errors(networks, data, loss, 0.0, setting.step, setting.steps)

    return xr.Dataset(
        {
            "error": (
                ("loss", "step", "slope"),
                np.array([errors(starts, data, "square"), errors(starts, labels, "logistic")]),
            ),
            "uneven": (("step", "share"), errors(uneven, data, "square")),
            "predicted": (("share",), [zhang_equivalence.weight_error(share) for share in setting.shares]),
        },
        {
            "loss": ["square", "logistic"],
            "slope": list(setting.slopes),
            "share": list(setting.shares),
            "step": recorded(setting.steps),
        },
    )


def _start(setting: StepSetting, slope: float, seed: int) -> Network:
    return Network.rank_one((setting.dim, setting.width, 1), slope, setting.scale, seed)


def labelled(seed: int, pairs: int, dim: int) -> Data:
    """The signs of the same targets: symmetric, and not separable."""
    data = symmetric_sine(pairs=pairs, dim=dim, seed=seed)
    return Data(data.x, np.where(data.y > 0, 1.0, -1.0), "signs of the sine")


def unequal(start: Network, share: float) -> Network:
    """ReLU weights of rank one whose positive half has this share of the squared norm of W2."""
    first, second = start.weights
    scale = np.sqrt(2 * np.where(second[0] > 0, share, 1 - share))
    return Network([scale[:, None] * first, scale * second], slope=0.0)


def weight_errors(
    networks: list[Network],
    data: Data,
    loss: str,
    penalty: float,
    step: float,
    steps: int,
) -> np.ndarray:
    """How far √c W is from the linear twin's weights, relative to these, when `recorded` (t, network).

    A step η of a network is a step c η of its twin, and a penalty λ is λ/c.
    """
    here = _descend(networks, data, loss, [step] * len(networks), steps, penalised(penalty))
    twins = []
    for network in networks:
        c = float(network.mean_slope)
        twins += [_descend([network.linear_twin()], data, loss, [c * step], steps, penalised(penalty / c))]
    there = np.concatenate(twins, axis=1)
    roots = np.sqrt([float(network.mean_slope) for network in networks])[:, None]
    return np.asarray(np.linalg.norm(roots * here - there, axis=2) / np.linalg.norm(there, axis=2))


def recorded(steps: int) -> np.ndarray:
    """The steps of the records: every tenth, and the last."""
    return np.append(np.arange(0, steps, 10), steps)


def _descend(
    networks: list[Network], data: Data, loss: str, sizes: list[float], steps: int, optimiser: Optimiser
) -> np.ndarray:
    """The weights of both layers (t, network, weight)."""
    run = descent(
        networks,
        data,
        loss,
        sizes,
        steps,
        optimiser=optimiser,
        measures=["weights"],
        record=every(10),
        show=False,
    )
    return np.asarray(finished(run)["weights"].values)


@cache  # one function for each penalty, so that JAX compiles it once
def penalised(penalty: float) -> Optimiser:
    """Gradient descent on the loss plus half the penalty times the squared norm of the weights."""
    if not penalty:
        return optax.sgd
    return lambda size: optax.chain(optax.add_decayed_weights(penalty), optax.sgd(size))


def draw_steps(setting: StepSetting, runs: xr.Dataset) -> Figure:
    """The errors over the steps: at rounding for equal halves, and towards their closed form for others."""
    with plot.style():
        figure, axes = plot.panels(3)
        for ax, loss, letter in zip(axes[0], ("square", "logistic"), "ab", strict=False):
            draw_errors(ax, runs, runs.error.sel(loss=loss))
            ax.set_title(f"({letter}) {loss} loss, rank one, equal halves")
        axes[0, 0].legend(title=r"slope $\alpha$", loc="upper right", ncols=3)
        for share, colour in zip(setting.unequal, plot.PALETTE, strict=False):
            curves = 100 * runs.uneven.sel(share=share).transpose("step", "seed")
            seed_lines(axes[0, 2], runs.step, curves, colour, f"$p = {share:g}$", alpha=1)
            end = 100 * float(runs.predicted.sel(share=share).max())
            label = "closed form" if share == setting.unequal[-1] else None
            plot.theory(axes[0, 2], [0, setting.steps], [end, end], label)
        axes[0, 2].legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
        axes[0, 2].set(xlabel="step", ylabel="weight error (%)", title="(c) ReLU, unequal halves")
    return figure


def draw_errors(ax: Axes, runs: xr.Dataset, errors: xr.DataArray) -> None:
    """A line for each slope and seed."""
    for slope, colour in zip(runs.slope.values, plot.colours(runs.sizes["slope"]), strict=True):
        curves = errors.sel(slope=slope).transpose("step", "seed")
        ax.semilogy(runs.step[1:], np.maximum(curves[1:], 1e-17), color=colour, linewidth=0.6)
        ax.plot([], [], color=colour, label=f"{slope:g}")
    ax.set(xlabel="step", ylabel="weight error", ylim=(1e-17, 1e-11))


def step_claims(setting: StepSetting) -> tuple[Claim, ...]:
    """Theorem 5, and its hypothesis on the halves, where some are not equal."""
    square, logistic, halves = (
        Claim(
            id="square-equivalence",
            sentence="Square loss: the weights are the linear network's over √c, on a slower clock.",
            source="workshop, Theorem 5; TMLR, Theorem 8",
            metric="largest relative weight error over the steps, for each slope",
            measure=lambda runs: runs.error.sel(loss="square").max("step").transpose("seed", "slope"),
            expected=at_most(ROUNDING, "exact but for rounding"),
        ),
        Claim(
            id="logistic-equivalence",
            sentence="Logistic loss: the weights are the linear network's over √c, on a slower clock.",
            source="workshop, Theorem 5; TMLR, Theorem 8",
            metric="largest relative weight error over the steps, for each slope",
            measure=lambda runs: runs.error.sel(loss="logistic").max("step").transpose("seed", "slope"),
            expected=at_most(ROUNDING, "exact but for rounding"),
            note="The workshop version prints the logistic loss with slips: docs/errata.md, E1 and E2.",
        ),
        Claim(
            id="unequal-halves",
            sentence="The halves of W₂ must have equal norms: else the weight error ends at its closed form.",
            source="rankfall; hypothesis of Theorem 5",
            metric=(
                "|error at the end − [(√p − √½)² + (√(1−p) − √½)²]^½| for p = "
                + " and ".join(f"{share:g}" for share in setting.unequal)
            ),
            measure=lambda runs: (
                np.abs(runs.uneven.isel(step=-1) - runs.predicted)
                .sel(share=setting.unequal)
                .transpose("seed", "share")
            ),
            expected=at_most(1e-3, f"what {setting.steps} steps leave of the even part"),
            form="{:.1e}",
        ),
    )
    return (square, logistic, halves) if setting.unequal else (square, logistic)


THEOREM_5 = Experiment(
    name="theorem-5",
    title="From weights of rank one the equivalence with a linear network is exact, step by step",
    setting=StepSetting(),
    simulation=run_steps,
    picture=draw_steps,
    statements=step_claims,
    seeds=20,
    cost=0.3,
    about=(
        "100 mirrored points in 10 dimensions, 40 neurons, W₁ = W₂ᵀrᵀ of norm 0.3 with a random r, "
        "α = 0, 0.3 and 0.7. The theorem speaks of the flow; here are 400 steps of descent, of size 0.2 for "
        "the network and 0.2c for the linear one, c = (1+α)/2. The labels of the logistic loss are signs of "
        "the same targets, which no linear map separates."
    ),
)

# --- Corollary 6: where it ends ---------------------------------------------------------------------------

END = "limit"  # its certificate


@dataclass(frozen=True)
class EndSetting:
    """The corollary has no numbers of its own: all of these are ours."""

    pairs: int = 9  # points, before their mirror images
    dim: int = 3
    width: int = 6  # from weights of rank one, of this norm
    scale: float = 0.3
    gaussian_width: int = 20  # from Gaussian weights, of this norm
    gaussian_scale: float = 1e-3
    end: float = 16.0  # of the start that goes nowhere, in units of 1/s
    records: int = 17


def run_ends(setting: EndSetting, seed: int) -> xr.Dataset:
    """The limits of both losses, and the start that goes nowhere."""
    sine = symmetric_sine(pairs=setting.pairs, dim=setting.dim, seed=seed)
    starts = [
        Network.rank_one((setting.dim, setting.width, 1), 0.0, setting.scale, seed),
        Network.gaussian((setting.dim, setting.gaussian_width, 1), 0.0, setting.gaussian_scale, seed),
    ]
    best = np.linalg.lstsq(sine.x, sine.y, rcond=None)[0]
    squares = [limit(start, sine, "square", optimality=False, show=False) for start in starts]
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(setting.pairs, setting.dim)), rng.normal(size=setting.dim)
    separable = symmetrise(Data(x, np.where(x @ w > 0, 1.0, -1.0), "separable"))
    svm = hard_margin(separable)
    if svm is None or svm.w is None:
        raise ValueError("labels by a linear map are separable")
    end = limit(starts[0], separable, "logistic", optimality=False, show=False)
    found = end.network.split()[0][0]
    runs = xr.Dataset(
        {
            "outputs": (("start", "sample"), [np.asarray(e.network(sine.x)) for e in squares]),
            "linear": (("sample",), sine.x @ best),
            "certified": (("start",), [float(e.reached) for e in squares]),
            "classifier": (("axis",), found),
            "svm": (("axis",), svm.w),
            "svm_certified": float(end.reached),
            **_opposite(setting, seed),
        },
        {"start": ["rank one", "gaussian"]},
    )
    return with_certificates(runs, seed, {END: end})


def _opposite(setting: EndSetting, seed: int) -> dict[str, object]:
    """ReLU on white data from weights of rank one along -beta: the flow, and eq. (38)."""
    data = symmetric_sine(pairs=setting.pairs, dim=setting.dim, seed=seed, white=True)
    b = beta(data)
    s = float(np.linalg.norm(b))
    start = Network.rank_one((setting.dim, setting.width, 1), 0.0, setting.scale, seed, direction=-b)
    times = np.linspace(0.0, setting.end, setting.records) / s
    run = exact_flow(start, data, "square", times[-1], record=times, measures=["outputs"], show=False)
    outputs = finished(run)["outputs"].values
    u0 = np.sqrt(0.5) * float(np.linalg.norm(start.weights[0]))
    exact = time_course(times, b, -b / s, u0, 0.0) @ data.x.T
    size = np.linalg.norm(data.x @ b)
    return {
        "opposite": (("time",), np.linalg.norm(outputs, axis=1) / size),
        "opposite_exact": (("time",), np.linalg.norm(exact, axis=1) / size),
        "opposite_missing": float(np.linalg.norm(outputs[-1] - data.x @ b) / size),
    }


def _missed(runs: xr.Dataset, start: str) -> np.ndarray:
    apart = np.abs(runs.outputs.sel(start=start) - runs.linear).max("sample")
    return np.asarray(apart / np.abs(runs.linear).max("sample"))


def _length(vectors: xr.DataArray) -> xr.DataArray:
    return (vectors**2).sum("axis") ** 0.5


def draw_ends(setting: EndSetting, runs: xr.Dataset) -> Figure:
    """Ends against least squares and the SVM, and the start that decays."""
    with plot.style():
        figure, ((square, svm, opposite),) = plot.panels(3)
        for ax, expected, found in (
            (square, runs.linear, runs.outputs.sel(start="rank one")),
            (svm, runs.svm, runs.classifier),
        ):
            most = 1.1 * float(np.abs(expected).max())
            plot.theory(ax, [-most, most], [-most, most])
            plot.simulation(
                ax, expected.values.ravel(), found.values.ravel(), markevery=1, color=plot.PALETTE[0]
            )
        square.set(xlabel=r"least squares, $w^* \cdot x$", ylabel="end of the flow, $f(x)$")
        square.set_title("(a) square loss, all draws")
        svm.set(
            xlabel="hard-margin SVM, entries of $w$",
            ylabel="network at the margin 1",
            xscale="symlog",
            yscale="symlog",
        )
        svm.set_title("(b) logistic loss, all draws")
        clock = np.linspace(0.0, setting.end / 2, runs.sizes["time"])
        for i in range(min(5, runs.sizes["seed"])):
            first = i == 0
            simulated, exact = runs.opposite[i], runs.opposite_exact[i]
            plot.simulation(opposite, clock, simulated, "flow" if first else None, color=plot.PALETTE[1])
            plot.theory(opposite, clock, exact, "eq. (38)" if first else None)
        opposite.set(xlabel=r"$\|\beta\|\,t/(2\tau)$", ylabel=r"$\|f\| / \|\beta^\top x\|$", yscale="log")
        opposite.set_title(r"(c) white data, start along $-\beta$")
        opposite.legend(loc="lower left")
    return figure


def end_claims(setting: EndSetting) -> tuple[Claim, ...]:
    """Corollary 6, and the starts from which it fails."""
    half = np.log(max(1.0, 2 / setting.scale**2))  # where u₀² e^{‖β‖t} is 1, u₀² being half of scale²
    return (
        Claim(
            id="least-squares-end",
            sentence="With the square loss the network ends at the least-squares linear map.",
            source="workshop, Corollary 6; TMLR, Corollary 10",
            metric="largest |f(x) − w*·x| / largest |w*·x|, from weights of rank one in a random direction",
            measure=lambda runs: _missed(runs, "rank one"),
            expected=at_most(1e-8, "the residual that a certificate allows, 1e-10, and a margin of 100"),
            hypotheses=(all_reached(lambda runs: runs.certified.sel(start="rank one")),),
        ),
        Claim(
            id="svm-direction",
            sentence="With the logistic loss and separable labels it ends in the direction of the SVM.",
            source="workshop, Corollary 6; TMLR, Corollary 10",
            metric="‖linear map at the margin 1 − hard-margin SVM‖ / ‖SVM‖",
            measure=lambda runs: _length(runs.classifier - runs.svm) / _length(runs.svm),
            expected=at_most(1e-8, "the residual that a certificate allows, 1e-10, and a margin of 100"),
            hypotheses=(all_reached(lambda runs: runs.svm_certified),),
            proofs=(END,),
        ),
        Claim(
            id="opposite-start",
            sentence="One start of rank one learns nothing: that opposite to β decays to zero.",
            source="rankfall, on Corollary 6",
            metric=f"‖f − w*·x‖ / ‖w*·x‖ at ‖β‖t = {setting.end:g}, white data, from r = −β/‖β‖",
            measure=lambda runs: runs.opposite_missing,
            expected=at_least(0.99, f"from other starts of this size half is learned at ‖β‖t ≈ {half:.0f}"),
            hypotheses=(
                Check(
                    "largest |‖f‖ of the flow − ‖f‖ of eq. (38)| / ‖w*·x‖ over time",
                    lambda runs: np.abs(runs.opposite - runs.opposite_exact).max("time"),
                    at_most(1e-6, "the exact solution decays like e^{−‖β‖t}; the tolerance of the flow"),
                ),
            ),
            note="Such starts are a null set: the corollary holds from almost every start.",
        ),
        Claim(
            id="gaussian-least-squares",
            sentence="From small Gaussian weights, too, the square loss ends at least squares.",
            source="rankfall; TMLR, Fig. 3a",
            metric="largest |f(x) − w*·x| / largest |w*·x|",
            measure=lambda runs: _missed(runs, "gaussian"),
            expected=at_most(
                10 * setting.gaussian_scale,
                f"weights of the order {setting.gaussian_scale:g} are left beside those that grow",
            ),
        ),
    )


COROLLARY_6 = Experiment(
    name="corollary-6",
    title="The ends of training: linear least squares, and the hard-margin SVM",
    setting=EndSetting(),
    simulation=run_ends,
    picture=draw_ends,
    statements=end_claims,
    seeds=20,
    cost=1.8,
    about=(
        "Nine points and their mirror images in three dimensions; ReLU. Square loss: the sine targets of "
        "Fig. 3, 6 neurons of rank one and norm 0.3, and 20 Gaussian neurons of norm 0.001. Logistic loss: "
        "labels by a random linear map. The ends are limits of the flow. The corollary excludes no "
        "start: white data from r = −β/‖β‖ are run too."
    ),
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (THEOREM_5, COROLLARY_6)
