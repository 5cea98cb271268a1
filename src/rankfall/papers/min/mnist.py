"""The paper's own runs: the digits 0 and 1 of MNIST, from weights of a millionth."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, centre, mnist, pair
from rankfall.dynamics import descent
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    between,
    finished,
    guide,
    near,
)
from rankfall.trajectory import Trajectory

SIGNS = (1, -1)


def _data() -> Data:
    """Zeros (+1) and ones (-1), less the mean of all of them."""
    return centre(pair(mnist(), 0, 1))


@dataclass(frozen=True)
class Setting:
    """The numbers of the paper's experiments."""

    width: int = 50
    sigma: float = 1e-6  # standard deviation of the initial weights
    step: float = 2e-3
    steps: int = 15_000
    aligned: int = 2000  # the step by which the paper sees alignment
    moves: int = 3000  # and the one by which loss and norm begin to move
    every: int = 100  # ours: steps between two records
    grows: float = 0.9  # ours: the rate of growth is measured from `aligned` to this part of `moves`
    near: float = 10.0  # ours: the degrees within which a neuron counts as aligned
    load: Callable[[], Data] = _data

    @property
    def growing(self) -> slice:
        """The steps over which the rate of growth is measured."""
        return slice(self.aligned, self.grows * self.moves)


def run_mnist(setting: Setting, seed: int, folder: Path) -> xr.Dataset:
    """The descent of both layers, with the directions of all neurons; and the geometry of the data."""
    data, width = setting.load(), setting.width
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, setting.sigma, shape) for shape in ((width, data.dim), (1, width))]
    run = descent(
        Network(weights).astype(np.float32),
        data,
        "exponential",
        setting.step,
        setting.steps,
        measures=["weights", "loss", "stable_rank", "norms", "test_accuracy"],
        record=list(range(0, setting.steps + 1, setting.every)),
        checkpoint=folder / "run.nc",
    )
    return _directions(setting, finished(run), data).assign(_pairs(data))


def _directions(setting: Setting, run: Trajectory, data: Data) -> xr.Dataset:
    """The neurons over time: the signs of their output weights, lengths, and angles with their attractors."""
    x, y = data.x.astype(np.float64), data.y
    theta = run["weights"].values.astype(np.float64)
    first = setting.width * data.dim
    w, a = theta[:, :first].reshape(len(theta), setting.width, -1), theta[:, first:]
    lengths = np.linalg.norm(w, axis=2)
    unit = w / np.where(lengths > 0, lengths, 1.0)[..., None]
    sums = np.array([x[y == sign].sum(axis=0) for sign in SIGNS])
    pulls = np.array([attractor(x, y, sign) for sign in SIGNS])
    angles = [_degrees(unit @ _units(ends).T) for ends in (sums, pulls)]
    own = [np.where(a > 0, angle[..., 0], angle[..., 1]) for angle in angles]
    sizes = np.linalg.norm(pulls, axis=1) / data.n
    return xr.Dataset(
        {
            "angle": (("to", "step", "neuron"), np.array(own)),
            "sign": (("step", "neuron"), np.sign(a)),
            "length": (("step", "neuron"), lengths),
            "seen": (("step", "neuron"), np.array([(x @ now.T > 0).any(axis=0) for now in w])),
            "stable_rank": ("step", run["stable_rank"].values.reshape(len(theta))),
            "loss": ("step", run["loss"].values),
            "test_accuracy": ("step", run["test_accuracy"].values),
            "norm": ("step", run["norms"].values[:, 0]),
            "rate": ("of_sign", setting.step * sizes),
            "sums_cosine": float(_units(sums)[0] @ _units(sums)[1]),
            "apart": ("of_sign", _degrees((_units(sums) * _units(pulls)).sum(axis=1))),
        },
        {"to": ["class sum", "attractor"], "step": run["step"].values, "of_sign": list(SIGNS)},
    )


def attractor(x: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    """The sum of y_i x_i over the samples that a neuron along it sees, found from the class sum on.

    A small neuron with an output weight of this sign is pulled along it. On orthogonally separable data it is
    the class sum itself.
    """
    pull = x[y == sign].sum(axis=0)
    for _ in range(1000):
        there = sign * ((x @ pull > 0) * y) @ x
        if np.array_equal(there, pull):
            break
        pull = there
    return np.asarray(pull)


def _degrees(cosines: np.ndarray) -> np.ndarray:
    return np.asarray(np.degrees(np.arccos(np.clip(cosines, -1, 1))))


def _units(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _pairs(data: Data) -> dict[str, object]:
    """The least y_i y_j cos(x_i, x_j), and the share of the pairs for which it is not positive, by kind."""
    z = (data.y[:, None] * _units(data.x)).astype(np.float32)
    parts = {sign: z[data.y == sign] for sign in SIGNS}
    kinds = {"0 and 0": (1, 1), "1 and 1": (-1, -1), "0 and 1": (1, -1)}
    least, share = [], []
    for one, other in kinds.values():
        blocks = [part @ parts[other].T for part in np.array_split(parts[one], 8)]
        least.append(min(float(block.min()) for block in blocks))
        share.append(sum(int((block <= 0).sum()) for block in blocks) / sum(block.size for block in blocks))
    kind = xr.Variable("pair", list(kinds))
    return {"mu": float(min(least)), "violating": ("pair", np.array(share)), "pair": kind}


def _near(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """The share of the living neurons that are near to the sum of their class when they should be."""
    now = runs.sel(step=setting.aligned, method="nearest")
    lives = now.seen > 0
    return ((now.angle.sel(to="class sum") <= setting.near) & lives).sum("neuron") / lives.sum("neuron")


def _moved(runs: xr.Dataset) -> xr.DataArray:
    """The first recorded step at which the loss is a tenth below its start; the end if there is none."""
    fell = runs.loss <= 0.9 * runs.loss.isel(step=0)
    return runs.step.where(fell, runs.step.max()).min("step")


def _rate(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """The rate at which log ‖W‖ grows before the loss moves, over what the attractors predict."""
    window = runs.norm.sel(step=setting.growing)
    with np.errstate(invalid="ignore", divide="ignore"):
        grown = np.log(window.isel(step=-1) / window.isel(step=0))
    return grown / (window.step[-1] - window.step[0]) / runs.rate.max("of_sign")


def draw_mnist(setting: Setting, runs: xr.Dataset) -> Figure:
    """The neurons' angles, norm and loss, stable rank and test accuracy over the steps."""
    one = runs.isel(seed=0)
    with plot.style():
        figure, axes = plot.panels(2, 2)
        ax = axes[0, 0]
        for sign, colour in zip(SIGNS, plot.PALETTE, strict=False):
            lines = one.angle.sel(to="class sum").where(one.sign == sign).transpose("step", "neuron")
            ax.plot(one.step, lines, color=colour, linewidth=0.6, alpha=0.6)
            ax.plot([], [], color=colour, label=f"$a_j {'>' if sign > 0 else '<'} 0$ now")
        guide(ax, y=setting.near)
        ax.set(xlim=(0, setting.steps / 3), ylim=(0, 100), yticks=range(0, 91, 30), xlabel="step")
        ax.set(ylabel="angle (degrees)", title="(a) neurons and the sum of their class")
        ax.legend()
        ax = axes[0, 1]
        ax.plot(one.step, one.loss, color=plot.PALETTE[1], label="loss")
        ax.plot(one.step, one.norm / one.norm.max(), color=plot.PALETTE[2], label=r"$\|W\|$ / its end")
        guide(ax, x=setting.moves)
        ax.set(xlabel="step", title="(b) then they grow", ylim=(0, 1.05))
        ax.legend(loc="center right")
        ax = axes[1, 0]
        ax.plot(one.step, one.stable_rank, color=plot.PALETTE[0])
        guide(ax, y=2)
        ax.set(xlabel="step", yscale="log", title="(c) stable rank", ylabel="stable rank of $W$")
        ax.set_yticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
        ax.minorticks_off()
        ax = axes[1, 1]
        ax.plot(one.step, 100 * one.test_accuracy, color=plot.PALETTE[0])
        ax.set(xlabel="step", title="(d) test accuracy", ylabel="test accuracy (%)", ylim=(99, 100))
    return figure


# --- the claims -------------------------------------------------------------------------------------------

MU = Check(
    "μ = min yᵢ yⱼ cos(xᵢ, xⱼ)",
    lambda runs: runs.mu,
    at_least(1e-6, "positive: orthogonally separable"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What the paper sees, and why, though its theorem does not hold here; of steps not run nothing."""
    growing = setting.growing
    needed = {
        "mnist-aligned": setting.aligned,
        "mnist-growth-begins": setting.moves,
        "mnist-rank-two": setting.moves,
        "growth-rate": growing.stop if growing.start + setting.every <= growing.stop else np.inf,
    }
    claimed = (*_on_the_figure(setting), *_on_the_theorem(setting), *_on_alignment(setting))
    return tuple(claim for claim in claimed if needed.get(claim.id, 0) <= setting.steps)


def _on_the_figure(setting: Setting) -> tuple[Claim, ...]:
    """What the paper sees."""
    aligned, moves, steps = setting.aligned, setting.moves, setting.steps
    return (
        Claim(
            id="mnist-aligned",
            sentence=f"The neurons are aligned with their class after about {aligned} steps.",
            source="rankfall: the paper's experiment, with the exponential loss",
            metric=(
                f"share of the living neurons within {setting.near:g} degrees of the sum of their class, "
                f"step {aligned}"
            ),
            measure=lambda runs: _near(setting, runs),
            expected=at_least(0.9, "almost all, our reading of the figure"),
            note="The loss decides: with the logistic one everything takes twice as many steps.",
        ),
        Claim(
            id="mnist-growth-begins",
            sentence=f"Loss and norm begin to move after about {moves} steps.",
            source="rankfall: the paper's experiment, with the exponential loss",
            metric=f"first recorded step at which the loss is a tenth below its start / {moves}",
            measure=lambda runs: _moved(runs) / moves,
            expected=between(0.8, 1.2, "a fifth to both sides: our reading of the figure"),
            note="The exponential loss was chosen because this then comes out.",
        ),
        Claim(
            id="mnist-rank-near-one",
            sentence="The stable rank falls below 2, close to 1.",
            source="ICLR, experiments",
            metric=f"stable rank of W after {steps} steps",
            measure=lambda runs: runs.stable_rank.isel(step=-1),
            expected=between(1.0, 1.2, "close to 1, our reading of the figure"),
        ),
    )


def _on_the_theorem(setting: Setting) -> tuple[Claim, ...]:
    """Its theorem, and why it does not hold here."""
    moves = setting.moves
    return (
        Claim(
            id="mnist-rank-two",
            sentence="After the early phase the stable rank of the first layer is at most 2.",
            source="ICLR, Theorem 1",
            metric=f"largest stable rank of W from step {moves} on",
            measure=lambda runs: runs.stable_rank.sel(step=slice(moves, None)).max("step"),
            expected=at_most(2.0, "the number in the theorem"),
            hypotheses=(MU,),
            recorded=Verdict.OUTSIDE,
            note="These digits are not orthogonally separable: Theorem 1 does not speak about them.",
        ),
        Claim(
            id="mnist-not-separable",
            sentence="Centred digits 0 and 1 are not orthogonally separable, whichever pairs one looks at.",
            source="rankfall",
            metric="share of pairs with yᵢ yⱼ cos(xᵢ, xⱼ) ≤ 0: 0 and 0, 1 and 1, 0 and 1",
            measure=lambda runs: runs.violating,
            expected=at_least(1e-6, "more than none, in each kind"),
        ),
        Claim(
            id="opposite-class-sums",
            sentence="Centring by the common mean makes the two class sums opposite: one direction, not two.",
            source="rankfall",
            metric="cosine of the sums of the two classes",
            measure=lambda runs: runs.sums_cosine,
            expected=near(-1.0, 1e-6, "all samples sum to zero, up to the rounding of float32"),
            form="{:.8f}",
            note="While neurons are aligned, a stable rank near 1 comes of it: opposites have rank one.",
        ),
    )


def _on_alignment(setting: Setting) -> tuple[Claim, ...]:
    """Why the neurons align all the same, and what comes after."""
    aligned, steps = setting.aligned, setting.steps
    return (
        Claim(
            id="attractor-near-sum",
            sentence="All that a neuron along it sees still pulls within a degree of the sum of its class.",
            source="rankfall, after Theorem 1",
            metric="angle of the attractor of each sign, Σ yᵢ xᵢ over what it sees, with its class sum",
            measure=lambda runs: runs.apart,
            expected=at_most(1.0, f"small beside the {setting.near:g} degrees by which alignment is judged"),
            note="So the neurons align as in the theorem although its hypothesis fails for some pairs.",
        ),
        Claim(
            id="growth-rate",
            sentence="Once aligned, and until the loss falls, the neurons grow as the attractor predicts.",
            source="rankfall, after Theorem 1",
            metric=(
                f"rate of log ‖W‖ from step {aligned} to {setting.growing.stop:.0f} / η max |x±| / n, "
                "x± the attractors"
            ),
            measure=lambda runs: _rate(setting, runs),
            expected=near(1.0, 0.1, "our reading: the last neurons to turn grow less, and the loss is not 1"),
        ),
        Claim(
            id="leaves-class-sum",
            sentence="Once the loss falls the neurons leave the sum of their class again.",
            source="rankfall, after Phuong and Lampert",
            metric=f"median angle of the neurons with the sum of their class after {steps} steps, degrees",
            measure=lambda runs: runs.angle.sel(to="class sum").isel(step=-1).median("neuron"),
            expected=at_least(setting.near, "further than what counts as aligned"),
            form="{:.1f}",
        ),
        Claim(
            id="signs-change",
            sentence="Output weights change their signs on the way: the start is not balanced.",
            source="rankfall",
            metric="share of the neurons that end with the other sign than they began with",
            measure=lambda runs: (runs.sign.isel(step=0) != runs.sign.isel(step=-1)).mean("neuron"),
            expected=at_least(1e-6, "more than none"),
            note="Theorem 1 supposes |aⱼ| = |wⱼ| at the start, where signs stay; here |aⱼ| is √d times less.",
        ),
    )


MNIST = Experiment(
    name="mnist",
    title="MNIST digits 0 and 1: alignment, then growth, then a low stable rank",
    setting=Setting(),
    simulation=run_mnist,
    picture=draw_mnist,
    statements=claims,
    needs="mnist",
    cost=200.0,
    about=(
        "All 12665 digits 0 and 1, pixels from 0 to 1, centred by their common mean; 50 ReLU neurons, all "
        "weights N(0, 1e-12), descent on both layers with full batches and the step 2e-3 for 15000 steps, in "
        "float32. The loss is our choice: the mean exponential loss, with which the growth begins where "
        "the paper says; the logistic loss pulls half as strongly at first, and takes twice as long."
    ),
)
