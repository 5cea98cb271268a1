"""Nearly symmetric data: a long plateau at an almost linear solution. Workshop version, Fig. 2."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import lsq_linear

from rankfall import plot
from rankfall.data import Data, six_points
from rankfall.dynamics import Until, descent, exact_flow, linear
from rankfall.loss import named, square
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_least, at_most, finished, near, seed_lines
from rankfall.papers.zhang.expressivity import draw_output

LOSSES = ("square", "logistic")
MOVED = 5  # the sample (1, asymmetry)
ZERO = 0.01  # the part of the plateau's loss that counts as zero: the logistic loss falls like 1/t
GAINED = 3e-3  # the gain up to which the escape is drawn
KINK = 1e-9  # the cosine of neuron and sample below which the sample is held at the neuron's kink


@dataclass(frozen=True)
class Setting:
    """The first four numbers are those of Appendix G, the others ours."""

    asymmetry: float = 0.15
    width: int = 100
    scale: float = 1e-3  # the norm of either layer
    step: float = 0.025  # of descent on the square loss
    steps: int = 48_000
    ends: tuple[float, ...] = (1500.0, 4000.0)  # of the losses: those that escape have long fitted the data
    records: int = 200
    rtol: float = 1e-8
    sweep: tuple[float, ...] = (0.025, 0.06)  # further asymmetries; the square loss
    longest: float = 400.0  # times 1/asymmetry: a plateau that is still there then is taken to stay
    angles: int = 1800  # at which the output is taken, 0.2 degrees apart
    side: int = 161  # pixels of the pictures
    reach: float = 1.6  # their half-width

    def __post_init__(self) -> None:
        """Refuse losses that have no end, and points that are not moved."""
        if len(self.ends) != len(LOSSES):
            raise ValueError(f"ends must be {len(LOSSES)}, one a loss: there are {len(self.ends)}.")
        if not all(asymmetry > 0 for asymmetry in self.asymmetries):
            raise ValueError(
                "asymmetry and sweep must be positive: else no point is moved, and no plateau ends."
            )

    @property
    def asymmetries(self) -> tuple[float, ...]:
        """All of them, the figure's own last."""
        return (*self.sweep, self.asymmetry)


# What is predicted: the loss as a convex function of the outputs, over spans of functions


def best(span: np.ndarray, y: np.ndarray, loss: str) -> np.ndarray:
    """The outputs of the least loss among those in the span of the columns, by Newton's method."""
    f, kind = np.zeros(len(y)), named(loss)
    for _ in range(50):
        pulls = kind.pulls(f, y)
        curvature = np.ones(len(y)) if loss == "square" else y * pulls * kind.of_margin.steepness(y * f)
        f = f + span @ np.linalg.solve((span.T * curvature) @ span, span.T @ pulls)
    return f


def halves(data: Data) -> np.ndarray:
    """A linear map for each of the half-planes x₁ > 0 and x₁ < 0: what neurons along ±(1, 0) can fit."""
    right = data.x[:, :1] > 0
    return np.hstack([data.x * right, data.x * ~right])


def escape_rate(data: Data, loss: str) -> float:
    """How fast negative neurons along (0, 1), held at the kink of (-1, 0), grow out of the plateau.

    There both layers of a neuron grow by the pull of its active samples along it, which is asymmetry/9 to
    first order for the square loss.
    """
    f = best(halves(data), data.y, loss)
    return float(-np.mean(named(loss).pulls(f, data.y) * np.maximum(data.x[:, 1], 0)))


def roomiest(data: Data) -> float:
    """The largest distance that all samples can have from the boundary of a classifier that is homogeneous.

    The boundary has a ray between any neighbours of different labels, best where it is equally far from both.
    """
    order = np.argsort(np.arctan2(data.x[:, 1], data.x[:, 0]))
    p, q = data.x[order], data.x[np.roll(order, -1)]
    cross = np.abs(p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0])
    differ = data.y[order] != data.y[np.roll(order, -1)]
    # The ray along p + q has |p × q| / |p + q| to both.
    return float((cross / np.linalg.norm(p + q, axis=1))[differ].min())


# What is measured


def resting(network: Network, data: Data, loss: str) -> float:
    """Zero at a local minimum: the largest pull on a neuron, relative to that of all samples.

    If for each neuron the pulls of its active samples add up to zero, with a slope in [0, 1] for the samples
    at its kink, and these pull against its sign, then by convexity no network nearby has a smaller loss.
    """
    first, second = (np.asarray(w) for w in network.weights)
    p = named(loss).pulls(np.asarray(network(data.x)), data.y)
    force = p[:, None] * data.x / data.n
    cosine = first @ data.x.T / np.linalg.norm(first, axis=1)[:, None] / np.linalg.norm(data.x, axis=1)
    worst = 0.0
    for angles, a in zip(cosine, second[0], strict=True):
        held = np.abs(angles) <= KINK
        left = force[angles > KINK].sum(axis=0)
        if held.any():
            left = left + lsq_linear(force[held].T, -left, (0, 1)).x @ force[held]
        if (a * p[held] > 0).any():
            return float("inf")
        worst = max(worst, float(np.linalg.norm(left)))
    return worst / float(np.linalg.norm(force, axis=1).sum())


def boundary(around: np.ndarray) -> np.ndarray:
    """The angles of the rays where the output changes its sign, from the outputs around the unit circle.

    The network is homogeneous, so that its boundary consists of rays. Between two angles it is interpolated.
    """
    before = np.flatnonzero(np.sign(around[:-1]) != np.sign(around[1:]))
    part = around[before] / (around[before] - around[before + 1])
    return np.asarray((before + part) * 2 * np.pi / (len(around) - 1))


def closest(around: np.ndarray, data: Data) -> float:
    """The distance from the decision boundary to the sample that is closest to it."""
    off = np.subtract.outer(np.arctan2(data.x[:, 1], data.x[:, 0]), boundary(around)) % (2 * np.pi)
    off = np.minimum(off, 2 * np.pi - off)
    distance = np.linalg.norm(data.x, axis=1)[:, None] * np.sin(np.minimum(off, np.pi / 2))
    return float(distance.min(initial=np.inf))


def _around(network: Network, count: int) -> np.ndarray:
    """The outputs around the unit circle, both ends included: they tell the output everywhere."""
    angles = np.linspace(0, 2 * np.pi, count + 1)
    return np.asarray(network(np.column_stack([np.cos(angles), np.sin(angles)])))


# The runs


def run_six_points(setting: Setting, seed: int) -> xr.Dataset:
    """The flow for both losses, descent with the printed step, and the plateaus of other asymmetries."""
    network = Network.gaussian((2, setting.width, 1), 0.0, setting.scale, seed)
    data = six_points(setting.asymmetry)
    ends = zip(LOSSES, setting.ends, strict=True)
    flows = xr.concat([_flow(setting, network, data, loss, end) for loss, end in ends], dim="loss_name")
    steps = finished(
        descent(
            network,
            data,
            "square",
            setting.step,
            setting.steps,
            measures=["loss"],
            record=linear(setting.records),
            show=False,
        )
    )
    lengths = [_length(setting, network, asymmetry) for asymmetry in setting.sweep]
    lengths.append(_crossing(flows.isel(loss_name=0)))
    return (
        flows.assign_coords(loss_name=list(LOSSES))
        .assign(
            length=("asymmetry", lengths),
            stepped_time=("record", setting.step * steps.step.values),
            stepped_loss=("record", steps.loss.values),
            stepped_end=float(steps.loss[-1]) / flows.plateau.values[0],
        )
        .assign_coords(asymmetry=list(setting.asymmetries))
    )


def _flow(setting: Setting, network: Network, data: Data, loss: str, end: float) -> xr.Dataset:
    """One flow: its loss, what it looks like on the plateau and at the end, and what was predicted."""
    run = finished(
        exact_flow(
            network,
            data,
            loss,
            end,
            measures=["loss", "weights"],
            record=linear(setting.records),
            rtol=setting.rtol,
            show=False,
        )
    )
    level = float(named(loss)(best(halves(data), data.y, loss), data.y))
    on = _flattest(run.loss.values, level)
    there = _network(run.weights.values[on], setting.width)
    straight = best(data.x, data.y, loss)
    f = np.asarray(there(data.x))
    held = np.abs(there.weights[0] @ data.x[MOVED]) <= KINK * np.linalg.norm(there.weights[0], axis=1)
    gain = np.log(np.clip(level - run.loss.values, 1e-300, None) / level)
    around = [_around(there, setting.angles), _around(run.network, setting.angles)]
    return xr.Dataset(
        {
            "time": ("record", run.time.values),
            "loss": ("record", run.loss.values),
            "plateau": level,
            "flattest": run.loss.values[on],
            "linearity": np.linalg.norm(f - straight) / np.linalg.norm(straight),
            "reached": run.time.values[np.argmax(run.loss.values <= 1.01 * level)],
            "positive_held": int((held & (there.weights[1][0] > 0)).sum()),
            "gain": ("record", gain),
            "rate": _slope(run.time.values[on:], gain[on:]) / 2,
            "predicted_rate": escape_rate(data, loss),
            "rest": resting(run.network, data, loss),
            "closest": closest(around[1], data),
            "roomiest": roomiest(data),
            "around": (("moment", "angle"), np.stack(around)),
        }
    )


def _network(weights: np.ndarray, width: int) -> Network:
    return Network(
        [weights[: 2 * width].reshape(width, 2), weights[2 * width :].reshape(1, width)], slope=0.0
    )


def _flattest(losses: np.ndarray, level: float) -> int:
    """The record on the plateau: after the first fall, where the loss changes least."""
    start = int(np.argmax(losses <= 1.01 * level))
    late = losses[start : start + max(3, len(losses) // 4)]
    return start + int(np.argmin(np.abs(np.diff(late))))


def _slope(times: np.ndarray, gain: np.ndarray) -> float:
    """The slope of the logarithm of the gain while it is small: from 1e-6 to 1e-4 of the plateau's loss."""
    small = (gain > np.log(1e-6)) & (gain < np.log(1e-4)) & (np.cumsum(gain > np.log(1e-4)) == 0)
    return float(np.polyfit(times[small], gain[small], 1)[0]) if small.sum() > 2 else float("nan")


def _crossing(flow: xr.Dataset) -> float:
    """When the loss is half of the plateau's, between two records by interpolation; infinity if never."""
    below = np.flatnonzero(flow.loss.values <= flow.plateau.values / 2)
    if not below.size:
        return float("inf")
    i = int(below[0])
    two = slice(i - 1, i + 1)
    return float(np.interp(-flow.plateau / 2, -flow.loss.values[two], flow.time.values[two]))


def _length(setting: Setting, network: Network, asymmetry: float) -> float:
    """When the flow of the square loss has left its plateau: at half of the plateau's loss."""
    data = six_points(asymmetry)
    half = float(square(best(halves(data), data.y, "square"), data.y)) / 2
    until, rtol = Until(time=setting.longest / asymmetry, loss=half), setting.rtol
    run = finished(
        exact_flow(network, data, "square", until, measures=["loss"], record=linear(2), rtol=rtol, show=False)
    )
    return float(run.time[-1]) if run.loss[-1] <= 1.001 * half else float("inf")


# The claims


def _ends(runs: xr.Dataset) -> xr.DataArray:
    """The losses at the end, as parts of the plateau's: a column for each loss, and one for descent."""
    flows = runs.loss.isel(record=-1) / runs.plateau
    stepped = runs.stepped_end.expand_dims(loss_name=["descent"])
    return xr.concat([flows, stepped], dim="loss_name").transpose("seed", "loss_name")


def _escaped(runs: xr.Dataset) -> xr.DataArray:
    return runs.loss.isel(record=-1) <= ZERO * runs.plateau


def _those(values: xr.DataArray, where: xr.DataArray) -> np.ndarray:
    """The values of the draws of which something holds."""
    values, where = xr.broadcast(values, where)
    return np.asarray(values.values[where.values])


def _exponent(runs: xr.Dataset) -> xr.DataArray:
    """d log(length) / d log(asymmetry), between the first two asymmetries."""
    with np.errstate(invalid="ignore", divide="ignore"):  # no number where a plateau never ends
        two = np.log(runs.length.isel(asymmetry=slice(0, 2)))
        return (two.diff("asymmetry") / np.diff(np.log(two.asymmetry)))[..., 0]


def draw_six_points(setting: Setting, runs: xr.Dataset) -> Figure:
    """The losses, the outputs on the plateau and at the end, the escape, and the lengths of the plateau."""
    with plot.style():
        figure, axes = plot.panels(3, 2)
        figure.set_size_inches(10.2, 5.4)
        _draw_losses(setting, axes[0, 0], runs, "square", "(a) square loss, all seeds")
        _draw_losses(setting, axes[1, 0], runs, "logistic", "(d) logistic loss, all seeds")
        first = int(_escaped(runs).all("loss_name").values.argmax())
        for ax, moment, title in zip(
            axes[0, 1:], (0, 1), ("(b) on the plateau", "(c) at the end"), strict=True
        ):
            around = runs.around.isel(loss_name=0, seed=first, moment=moment).values
            _draw_output(setting, figure, ax, around)
            ax.set_title(title)
        _draw_escape(axes[1, 1], runs)
        _draw_lengths(axes[1, 2], runs)
    return figure


def _draw_losses(setting: Setting, ax: Axes, runs: xr.Dataset, loss: str, title: str) -> None:
    here = runs.sel(loss_name=loss)
    escaped = _escaped(runs).sel(loss_name=loss).values
    for kept, colour, label in (
        (escaped, plot.PALETTE[0], "fits the data"),
        (~escaped, plot.PALETTE[1], "stuck"),
    ):
        if kept.any():
            lines = here.loss.transpose("record", "seed").values[:, kept]
            name = f"{label}: {kept.sum()} of {kept.size}"
            seed_lines(ax, here.time.values[0], lines[:, 1:], colour)
            ax.plot(here.time.values[0], lines[:, 0], color=colour, linewidth=0.8, label=name)
    if loss == "square":
        plot.simulation(
            ax,
            runs.stepped_time.values[0],
            runs.stepped_loss.values[0],
            f"descent, step {setting.step:g}, seed 0",
            color=plot.PALETTE[2],
        )
    level = float(here.plateau[0])
    plot.theory(ax, [0, here.time.values[0, -1]], [level, level], "two linear fits", linestyle="--")
    ax.set(xlabel="time $t$", ylabel="mean loss", title=title, ylim=(-0.02 * level, 1.9 * level))
    ax.legend(loc="upper right", fontsize=7)


def _draw_output(setting: Setting, figure: Figure, ax: Axes, around: np.ndarray) -> None:
    """The output in colour, from that around the unit circle, and where it changes its sign."""
    reach = setting.reach
    x1, x2 = np.meshgrid(*[np.linspace(-reach, reach, setting.side)] * 2)
    at = np.arctan2(x2, x1) % (2 * np.pi) * (len(around) - 1) / (2 * np.pi)
    output = np.hypot(x1, x2) * np.interp(at, np.arange(len(around)), around)
    picture = draw_output(ax, six_points(setting.asymmetry), output, reach)
    for ray in boundary(around):
        ax.plot([0, 3 * np.cos(ray)], [0, 3 * np.sin(ray)], color=plot.INK, linewidth=0.7)
    figure.colorbar(picture, ax=ax, label="$f(x)$")
    ax.set(ylabel="$x_2$", xlim=(-reach, reach), ylim=(-reach, reach))


def _draw_escape(ax: Axes, runs: xr.Dataset) -> None:
    for loss, colour in zip(LOSSES, plot.PALETTE, strict=False):
        here = runs.sel(loss_name=loss)
        times, gain = here.time.values[0], np.exp(here.gain.transpose("record", "seed").values)
        shown = (
            (gain > 1e-8)
            & (np.cumsum(gain > GAINED, axis=0) == 0)
            & (times > here.reached.values[0])[:, None]
        )
        plot.simulation(ax, times, np.where(shown, gain, np.nan), color=colour, markevery=2, markersize=2)
        predicted = 2 * float(here.predicted_rate[0])
        middle = np.nanmedian(
            np.where(shown & (gain > 1e-6) & (gain < 1e-4), np.log(gain), np.nan) - predicted * times[:, None]
        )
        line = np.exp(predicted * times + middle)
        kept = (line > 1e-8) & (line < GAINED)
        plot.theory(ax, times[kept], line[kept], "predicted slopes" if loss == "square" else None)
        ax.plot([], [], "o", markersize=3, color=colour, label=f"{loss} loss")
    ax.set(yscale="log", xlabel="time $t$", ylabel="1 − loss / plateau", title="(e) escape from the plateau")
    ax.legend(loc="lower right", fontsize=7)


def _draw_lengths(ax: Axes, runs: xr.Dataset) -> None:
    asymmetry = runs.asymmetry.values
    lengths = runs.length.transpose("asymmetry", "seed").values
    shown = np.where(np.isfinite(lengths), lengths, np.nan)
    plot.simulation(ax, asymmetry, shown, color=plot.PALETTE[0], markersize=3)
    middle = np.nanmedian(shown[:2] * asymmetry[:2, None])
    plot.theory(ax, asymmetry, middle / asymmetry, f"{middle:.0f} / asymmetry")
    ax.plot([], [], "o", markersize=3, color=plot.PALETTE[0], label="square loss, all seeds")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="asymmetry",
        ylabel="time at half the plateau",
        title="(f) length of the plateau",
    )
    ax.set_xticks(asymmetry, labels=[f"{a:g}" for a in asymmetry])
    ax.set_yticks([500, 1000, 2000, 4000], labels=["500", "1000", "2000", "4000"])
    ax.minorticks_off()
    ax.legend(loc="upper right", fontsize=7)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """The plateau, what comes after it, and how long it lasts."""
    return (*_on_the_plateau(setting), *_on_the_end(), *_on_the_length(setting))


def _on_the_plateau(setting: Setting) -> tuple[Claim, ...]:
    """The plateau."""
    return (
        Claim(
            id="long-plateau",
            sentence="The network stays for long at a plateau of the loss.",
            source="workshop version, Appendix B and Fig. 2a",
            metric="time at half of the plateau's loss / time when it comes within 1 % of it; square loss",
            measure=lambda runs: runs.length.isel(asymmetry=-1) / runs.reached.sel(loss_name="square"),
            expected=at_least(5.0, "several times as long as the fall to it, our reading of the figure"),
            form="{:.1f}",
            note="Infinite for the draws that never leave it.",
        ),
        Claim(
            id="plateau-almost-linear",
            sentence="On the plateau the network is almost a linear map.",
            source="workshop version, Appendix B and Fig. 2b",
            metric="‖f − best linear map‖ / ‖best linear map‖ on the data, both losses",
            measure=lambda runs: runs.linearity.transpose("seed", "loss_name"),
            expected=at_most(setting.asymmetry, "the asymmetry: what the data are off by"),
        ),
        Claim(
            id="plateau-two-maps",
            sentence="On the plateau each of x₁ > 0 and x₁ < 0 has the linear map that fits it best.",
            source="rankfall",
            metric="loss on the plateau / least loss of two linear maps, one for each sign of x₁",
            measure=lambda runs: (runs.flattest / runs.plateau).transpose("seed", "loss_name"),
            expected=near(1.0, 1e-4, "the growing neurons have gained less than that", form="{:g}"),
            form="{:.7f}",
        ),
    )


def _on_the_end() -> tuple[Claim, ...]:
    """What comes after it."""
    return (
        Claim(
            id="loss-falls-after-plateau",
            sentence="After the plateau the loss falls to zero: the network finds a nonlinear solution.",
            source="workshop version, Appendix B and Fig. 2a",
            metric="share of the draws whose loss ends below 1 % of the plateau: square, logistic, descent",
            measure=lambda runs: (_ends(runs) <= ZERO).mean("seed"),
            expected=at_least(0.5, "the paper shows one draw; it should be a typical one"),
            form="{:.2f}",
            note="The loss at the end is below 1 % of the plateau's and falling, the logistic one like 1/t.",
        ),
        Claim(
            id="stuck-local-minimum",
            sentence="A draw that does not fit the six points ends in a local minimum.",
            source="rankfall",
            metric="largest pull on a neuron where a flow is stuck / sum of the pulls of the samples",
            measure=lambda runs: _those(runs.rest, ~_escaped(runs)),
            expected=at_most(1e-6, "at 0 no network nearby has a smaller loss, by convexity"),
            form="{:.1e}",
            note="One draw in four, the same ones for both losses and for descent.",
        ),
        Claim(
            id="held-neuron-predicts",
            sentence=(
                "A draw fits the data exactly if on the plateau a neuron with a positive output weight is "
                "held at the kink of the point that was moved."
            ),
            source="rankfall",
            metric="1 where the number of such neurons predicts the end, else 0; both losses",
            measure=lambda runs: (
                ((runs.positive_held > 0) == _escaped(runs)).where(np.isfinite(runs.positive_held), 0)
            ).transpose("seed", "loss_name"),
            expected=at_least(1.0, "in every draw"),
            note="A rule for these draws, no theorem: fewer neurons and larger weights have exceptions.",
        ),
        Claim(
            id="boundary-near-data",
            sentence="The decision boundary ends close to data points.",
            source="workshop version, Appendix B and Fig. 2c",
            metric="least distance of a sample from the boundary / the largest possible, in fitted draws",
            measure=lambda runs: _those(runs.closest / runs.roomiest, _escaped(runs)),
            expected=at_most(0.5, "less than half of the room that there is, our reading"),
        ),
    )


def _on_the_length(setting: Setting) -> tuple[Claim, ...]:
    """How long it lasts; at several asymmetries, if there are."""
    smallest = " to ".join(f"{asymmetry:g}" for asymmetry in setting.asymmetries[:2])
    rate, length = (
        Claim(
            id="escape-rate",
            sentence=(
                "The plateau is left by neurons held at the kink of (−1, 0), at a rate that is known: to "
                "first order asymmetry/9 for the square loss."
            ),
            source="rankfall",
            metric="growth rate of the loss's gain / (2 × the pull along these neurons), both losses",
            measure=lambda runs: (runs.rate / runs.predicted_rate).transpose("seed", "loss_name"),
            expected=near(
                1.0,
                0.01,
                "while the gain is below 10⁻⁴, growth has lowered the pull by 1 % on average at the most",
            ),
            form="{:.4f}",
        ),
        Claim(
            id="plateau-inverse-asymmetry",
            sentence="The length of the plateau is inversely proportional to the asymmetry.",
            source="rankfall",
            metric=f"d log(time at half the plateau's loss) / d log(asymmetry), from {smallest}",
            measure=_exponent,
            expected=near(-1.0, 0.05, "corrections are of the order of the asymmetry"),
            form="{:.3f}",
        ),
    )
    return (rate, length) if len(set(setting.asymmetries[:2])) == 2 else (rate,)


WORKSHOP_2 = Experiment(
    name="workshop-2",
    title="Six nearly symmetric points: a plateau at an almost linear solution, and what comes after",
    setting=Setting(),
    simulation=run_six_points,
    picture=draw_six_points,
    statements=claims,
    seeds=20,
    cost=4.2,
    about=(
        "The six points (1, 1), (−1, −1), (1, −1), (−1, 1), (−1, 0), (1, 0.15); 100 ReLU neurons without "
        "biases, weights N(0, 10⁻⁶/N_l) with N_l the number of weights of the layer. Neither the labels nor "
        "the loss are published. Labels: those that make the set odd but for the point that was moved, and "
        "that no line through the origin separates: +1 at (1, 1), (1, −1), (−1, 0) and −1 at the others; "
        "they are unique up to a sign. Losses: square and logistic, both run, by exact gradient flow; the "
        "square loss also by 48 000 steps of descent with the printed size 0.025. The seeds draw the weights."
    ),
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (WORKSHOP_2,)
