"""High dimension: many samples, nearly orthogonal or made so, and a start of 1e-20."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.dynamics import descent
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    finished,
    near,
    seed_lines,
)

SIGNS = (1, -1)
KINDS = ("Gaussian", "made orthogonal")


@dataclass(frozen=True)
class Setting:
    """The second example of the authors' notebooks, high_dimension, with fewer and longer steps."""

    n: int = 75  # the notebook's
    dims_per_sample: int = 2  # the notebook's: 150 dimensions; at least 1, or no inputs are orthogonal
    teachers: int = 6  # the teacher's neurons, the notebook's
    width: int = 200  # the notebook's
    scale: float = 1e-20  # of the start, the notebook's
    steps: int = 3000  # ours; 200,000 in the notebook
    last: float = 1.6  # ours: the last time in units of ln(1/lambda) / min |D|
    records: int = 301  # ours: of the loss, from the start to the end

    def __post_init__(self) -> None:
        """Refuse what has no phases, or no orthogonal inputs."""
        if self.dims_per_sample < 1:
            raise ValueError(f"dims_per_sample must be at least 1; {self.dims_per_sample} is not.")
        if not 0 < self.scale < 1:
            raise ValueError(f"scale must be between 0 and 1, such as 1e-20; {self.scale:g} is not.")
        if self.last <= 1:
            raise ValueError(f"last must be above 1, the time of the later phase; {self.last:g} is not.")

    @property
    def dim(self) -> int:
        """The number of features."""
        return self.dims_per_sample * self.n


def run_high(setting: Setting, seed: int) -> xr.Dataset:
    """The notebook's network on its Gaussian inputs, and on the nearest orthogonal ones."""
    runs = [_high(setting, _teacher(setting, seed, kind), seed) for kind in KINDS]
    return xr.concat(runs, dim=xr.Variable("kind", list(KINDS)))


def _teacher(setting: Setting, seed: int, kind: str) -> Data:
    rng = np.random.default_rng(seed)
    dim, teachers = setting.dim, setting.teachers
    w, v = rng.normal(size=(teachers, dim)) / np.sqrt(dim * teachers), np.abs(rng.normal(size=teachers))
    v[::2] *= -1
    x = rng.normal(size=(setting.n, dim))
    if kind != "Gaussian":  # the nearest matrix with orthogonal rows, and norms as before on average
        left, _, right = np.linalg.svd(x, full_matrices=False)
        x = np.sqrt(dim) * left @ right
    return Data(x, np.maximum(x @ w.T, 0) @ v / np.sqrt(teachers), f"teacher, {kind} inputs")


def _high(setting: Setting, data: Data, seed: int) -> xr.Dataset:
    n, steps, last = setting.n, setting.steps, setting.last
    widths = (setting.dim, setting.width, 1)
    network = Network.balanced(widths, slope=0.0, scale=setting.scale, seed=seed)
    y, squares = data.y, (data.x**2).sum(axis=1)
    own = [sign * y > 0 for sign in SIGNS]
    rates = np.array([np.linalg.norm(y[o] @ data.x[o]) / n for o in own])
    sees = [_sees(network, data, sign) for sign in SIGNS]
    fastest = np.array([_fastest(data, o, rows) for o, rows in zip(own, sees, strict=True)])
    unit = np.log(1 / setting.scale) / rates.min()
    step, kept = last * unit / steps, np.unique(np.linspace(0, steps, setting.records).round().astype(int))
    run = descent(network, data, "square", step, steps, measures=["loss"], record=list(kept), show=False)
    loss, tau = finished(run)["loss"].values, np.linspace(0, last, len(kept))
    cosines = np.abs(data.x @ data.x.T / np.sqrt(np.outer(squares, squares)) - np.eye(n))
    orthogonal = cosines.max() < 1e-10
    speeds = fastest if orthogonal else rates  # other inputs win more samples on the way
    saddle = (y[own[int(speeds.argmin())]] ** 2).sum() / (2 * n)
    falls = [np.interp(-level, -loss, tau) for level in ((loss[0] + saddle) / 2, saddle / 2)]
    least = 2 * sum(np.sqrt((y[o] ** 2 / squares[o]).sum()) for o in own)
    return xr.Dataset(
        {
            "loss": ("tau", loss[::3] / loss[0]),
            "falls": ("phase", np.array(falls)),
            "predicted": ("phase", rates.min() / _per_time(np.sort(rates)[::-1], step)),
            "by_fastest": ("phase", rates.min() / _per_time(np.sort(fastest)[::-1], step)),
            "left": loss[-1] / loss[0],
            "norm": sum((layer**2).sum() for layer in run.network.weights) / least,
            "full": min(rows.all(axis=1).sum() for rows in sees),
            "cosine": cosines.max(),
        },
        {"tau": tau[::3]},
    )


def _sees(network: Network, data: Data, sign: int) -> np.ndarray:
    """Which samples of a sign its neurons see at the start, (neuron, sample)."""
    mine = sign * network.weights[1][0] > 0
    return np.asarray(network.weights[0][mine] @ data.x[sign * data.y > 0].T > 0)


def _fastest(data: Data, own: np.ndarray, sees: np.ndarray) -> float:
    """The largest |D_j| of a neuron: on orthogonal inputs it keeps the samples of its sign that it sees."""
    return float(np.linalg.norm((sees * data.y[own]) @ data.x[own], axis=1).max() / data.n)


def _per_time(rates: np.ndarray, step: float) -> np.ndarray:
    """How fast steps of this size grow: by the factor 1 + step rate each, a little slower than the flow."""
    return np.asarray(np.log1p(step * rates) / step)


def draw_high(setting: Setting, runs: xr.Dataset) -> Figure:
    """The losses of all draws; when they fall; and the norms at the end."""
    with plot.style():
        figure, axes = plot.panels(3)
        left, middle, right = axes[0]
        predicted = [
            runs.predicted.sel(kind=KINDS[0]).values.ravel(),
            runs.by_fastest.sel(kind=KINDS[1]).values.ravel(),
        ]
        plot.theory(middle, [0, 1.2], [0, 1.2], "equal")
        for i, kind in enumerate(KINDS):
            here, colour = runs.sel(kind=kind), plot.PALETTE[i]
            seed_lines(left, runs.tau, here.loss.transpose("tau", "seed"), colour, kind)
            plot.simulation(middle, predicted[i], here.falls.values.ravel(), kind, color=colour)
            middle.lines[-1].set_markevery(1)
            order = np.arange(1, runs.sizes["seed"] + 1)
            plot.simulation(right, order, np.sort(here.norm), kind, color=colour)
        plot.theory(right, [1, runs.sizes["seed"]], [1, 1], "least norm")
        left.set(xlabel=r"$t\, \min|D_\pm| / \ln(1/\lambda)$", ylabel="loss / loss at the start")
        left.set_ylim(top=1.45)
        left.set_title("(a) the losses of all draws")
        middle.set(xlabel="predicted time of a phase, same unit", ylabel="time at which the loss falls")
        middle.set_title("(b) the times of the phases")
        right.set(xlabel="draw, sorted", ylabel=r"$|\theta|^2 / 2(|w_+| + |w_-|)$")
        right.set_title("(c) the norm at the end")
        left.legend(loc="upper right")
        for ax in (middle, right):
            ax.legend()
    return figure


_ORTHOGONAL = Check(
    "largest |cosine| of two Gaussian inputs",
    lambda runs: runs.cosine.sel(kind="Gaussian"),
    at_most(1e-10, "orthogonal inputs"),
)
_FULL = Check(
    "neurons of a sign that see all its samples, the fewer of both signs",
    lambda runs: runs.full.sel(kind="made orthogonal"),
    at_least(1.0, "the theorem needs one of each sign"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1 in high dimension, and what holds where it says nothing."""
    return (*_on_times(setting), *_on_the_end(setting))


def _on_times(setting: Setting) -> tuple[Claim, ...]:
    """When the loss falls."""
    waits, extra = np.log(1 / setting.scale), np.log(np.sqrt(setting.width)) + 1
    tolerance = np.ceil(10 * extra / waits) / 10
    constants = (
        f"ln √{setting.width} + 1 for the number of neurons and the strengths, beside "
        f"ln(1/λ) = {waits:.0f}: {100 * extra / waits:.0f} %; rounded up"
    )
    return (
        Claim(
            id="gaussian-times",
            sentence="On Gaussian inputs, too, the loss falls near ln(1/λ)/‖D₊‖ and ln(1/λ)/‖D₋‖.",
            source="rankfall, on the data of the notebook high_dimension",
            metric="time at which the loss falls / ln(1/λ)/‖D±‖, both falls",
            measure=lambda runs: (runs.falls / runs.predicted).sel(kind="Gaussian"),
            expected=near(1.0, tolerance, constants),
            form="{:.3f}",
            note=(
                "Against the times of the flow itself one of the forty falls is 22 % late: in its draw ‖D₊‖ "
                "is a twentieth of ‖D₋‖, the steps are 0.7, and these grow 23 % more slowly than the flow."
            ),
        ),
        Claim(
            id="fastest-neuron",
            sentence="On orthogonal inputs the time is that of the fastest neuron, ln(1/λ)/max ‖Dⱼ‖.",
            source="rankfall",
            metric="time at which the loss falls / ln(1/λ)/max ‖Dⱼ‖, both falls, Dⱼ over what neuron j sees",
            measure=lambda runs: (runs.falls / runs.by_fastest).sel(kind="made orthogonal"),
            expected=near(1.0, tolerance, constants),
            form="{:.3f}",
            note="A neuron never wins a sample of its sign there, and none sees all of them.",
        ),
    )


def _on_the_end(setting: Setting) -> tuple[Claim, ...]:
    """Where the flow ends."""
    of_a_sign = (setting.n + 1) // 2
    return (
        Claim(
            id="high-least-norm",
            sentence="The end has the least norm.",
            source="Theorem 1",
            metric="‖θ‖² / 2(‖w₊‖ + ‖w₋‖), inputs made orthogonal",
            measure=lambda runs: runs.norm.sel(kind="made orthogonal"),
            expected=near(1.0, 0.01, "what finite steps and the time leave"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_FULL,),
            note=(
                f"With some {of_a_sign} samples of a sign it would take 2^{of_a_sign} neurons "
                "to have one that sees them all."
            ),
        ),
        Claim(
            id="longer-than-shortest",
            sentence="Where no neuron sees all samples of its sign, the end is longer than the shortest.",
            source="rankfall",
            metric="‖θ‖² / 2(‖w₊‖ + ‖w₋‖), inputs made orthogonal",
            measure=lambda runs: runs.norm.sel(kind="made orthogonal"),
            expected=at_least(1.01, "more than finite steps and the time leave"),
            form="{:.3f}",
        ),
        Claim(
            id="gaussian-zero-loss",
            sentence="The loss goes to zero.",
            source="Theorem 1",
            metric="loss at the last time / at the start, Gaussian inputs",
            measure=lambda runs: runs.left.sel(kind="Gaussian"),
            expected=at_most(1e-4, f"{setting.last:g} times the time of the later phase"),
            recorded=Verdict.OUTSIDE,
            hypotheses=(_ORTHOGONAL,),
        ),
    )


HIGH = Experiment(
    name="high",
    title="High dimension: Gaussian inputs are not orthogonal enough, and 200 neurons not enough",
    setting=Setting(),
    simulation=run_high,
    picture=draw_high,
    statements=claims,
    seeds=20,
    cost=1.2,
    about=(
        "The notebook's second example: 75 Gaussian inputs in 150 dimensions, a teacher of six neurons, 200 "
        "neurons from a balanced start of size 1e-20; and the same with the nearest orthogonal inputs. The "
        "code takes 200,000 steps of 1e-3; here it is 3000 longer ones, of 0.08 to 0.8, to 1.6 times the "
        "predicted time of the later phase. Predicted times allow for the steps: one multiplies by 1 + η‖D‖, "
        "not by exp(η‖D‖). A sign is fitted where the loss falls through the middle between "
        "two saddles. The notebook has one draw; here there are twenty, with three neurons of either sign in "
        "the teacher, so that neither sign is rare."
    ),
)
