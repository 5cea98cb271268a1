"""What two layers and three can express, with biases and without: TMLR Figs. 1 and 2."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from scipy.special import xlogy

from rankfall import plot
from rankfall.data import Data, circle, fan, is_symmetric, least_squares_floor
from rankfall.dynamics import descent, every
from rankfall.loss import logistic
from rankfall.network import Network
from rankfall.papers.lab import Claim, Experiment, at_most, between, finished, near, seed_lines

# --- Fig. 1 -----------------------------------------------------------------------------------------------

TWO, TWO_BIASED = "two layers, no biases", "two layers, biases"
THREE, THREE_BIASED = "three layers, no biases", "three layers, biases"
# The fan: margins ±ln 2 of the best linear map. The circle: outputs ln q and 2 ln q on a ray, 2q³ + q² = 1.
Q = float(np.roots([2, 1, 0, -1])[-1].real)
FLOORS = (log(3) - 2 / 3 * log(2), (log(1 + 1 / Q) + log(1 + Q**2)) / 2)
NEWTON = 50  # steps at the most; ten are usual


@dataclass(frozen=True)
class Setting:
    """Fig. 1: the paper prints pictures only, all numbers are ours."""

    n: int = 16  # points of the circle, half of them at either radius
    width: int = 50  # of a hidden layer
    scale: float = 1.0  # the norm of a layer's initial weights
    step: float = 0.2
    steps: int = 2000
    every: int = 50  # steps between records
    side: int = 61  # pixels of a picture
    reach: float = 2.6  # its half-width

    @property
    def sets(self) -> dict[str, Data]:
        """The two data sets."""
        return {"fan": fan(), "circle": circle(self.n)}


def run_figure_1(setting: Setting, seed: int) -> xr.Dataset:
    """Eight networks trained, and for both data sets the least loss that no bias-free network can beat."""
    sets = setting.sets
    rows = [
        xr.concat([_trained(setting, sets, name, kind, seed) for kind in _kinds()], dim="network")
        for name in sets
    ]
    runs = xr.concat(rows, dim="data").assign_coords(data=list(sets), network=list(_kinds()))
    floors = np.array([least_logistic(_span(data), data.y) for data in sets.values()])
    return runs.assign(floor=("data", floors[:, 0]), gap=("data", floors[:, 1]))


def _kinds() -> dict[str, tuple[int, bool]]:
    """The four networks, by name: how many hidden layers, and whether there are biases."""
    return {TWO: (1, False), TWO_BIASED: (1, True), THREE: (2, False), THREE_BIASED: (2, True)}


def _trained(setting: Setting, sets: Mapping[str, Data], name: str, kind: str, seed: int) -> xr.Dataset:
    """The losses of a training, the outputs over the plane, and how far those on the data leave the span."""
    data, (hidden, bias), side = sets[name], _kinds()[kind], setting.side
    network = Network.gaussian((2, *[setting.width] * hidden, 1), 0.0, setting.scale, seed, bias=bias)
    run = finished(
        descent(
            network,
            data,
            "logistic",
            setting.step,
            setting.steps,
            measures=["loss"],
            record=every(setting.every),
            show=False,
        )
    )
    # All points in one call: so that both data sets, whose sizes differ, share the compiled network.
    points = np.vstack([_plane(side, setting.reach), *(other.x for other in sets.values())])
    outputs = np.asarray(run.network(points))
    f, span = outputs[(points[:, None] == data.x).all(axis=2).argmax(axis=0)], _span(data)
    off = f - span @ np.linalg.lstsq(span, f, rcond=None)[0]
    picture = outputs[: side**2].astype(np.float32).reshape(side, side)
    return run.dataset[["loss"]].assign(
        outside=np.linalg.norm(off) / np.linalg.norm(f), output=(("x2", "x1"), picture)
    )


def _plane(side: int, reach: float) -> np.ndarray:
    ticks = np.linspace(-reach, reach, side)
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def _span(data: Data) -> np.ndarray:
    """Columns whose span holds the outputs, on these data, of every network that the figure says must fail.

    The fan, two layers: the coordinates (a linear function), and for each mirror pair a constant (an even
    one). The circle, any depth: for each ray a function that is proportional to the radius.
    """
    radius = np.linalg.norm(data.x, axis=1)
    rays = np.round(data.x / radius[:, None], 9)
    if not is_symmetric(data):
        return np.asarray((rays[:, None] == np.unique(rays, axis=0)).all(axis=2) * radius[:, None])
    pairs = np.abs(data.x @ data.x.T) >= np.multiply.outer(radius, radius) * (1 - 1e-9)
    return np.column_stack([data.x, np.unique(pairs, axis=0).T])


def least_logistic(span: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The least mean logistic loss of outputs in a span that cannot separate the labels, and its duality gap.

    Any λ in [0, 1]^n with Σ λ_i y_i φ(x_i) = 0 for all functions φ of the span proves that no loss is below
    the mean entropy ⟨H(λ)⟩, because ln(1 + e^-m) ≥ H(λ) - λ m. Newton's method finds the minimum, and with
    it the λ_i = 1/(1 + e^(m_i)) whose bound is the minimum itself.
    """
    z = np.linalg.qr(y[:, None] * span)[0]
    w, loss = np.zeros(z.shape[1]), logistic.of_margin
    for _ in range(NEWTON):
        pull = loss.pull(z @ w)
        step = np.linalg.solve((z.T * (pull * (1 - pull))) @ z, z.T @ pull)
        w = w + step
        if np.linalg.norm(step) < 1e-14:
            break
    pull = loss.pull(z @ w)
    pull -= z @ np.linalg.lstsq(z, pull, rcond=None)[0]  # the condition on λ, to rounding
    least = loss.value(z @ w).mean()
    bound = -(xlogy(pull, pull) + xlogy(1 - pull, 1 - pull)).mean()
    return float(least), float(least - bound)


def _end(runs: xr.Dataset, data: str, *kinds: str) -> xr.DataArray:
    """The losses at the end: a row for each seed, a column for each of the networks."""
    return runs.loss.sel(data=data, network=list(kinds)).isel(step=-1).transpose("seed", "network")


def _off_the_proof(runs: xr.Dataset) -> np.ndarray:
    """The largest error in the proof of the floors: outputs outside the span, a gap, or another number."""
    fan, circle = runs.outside.sel(data="fan"), runs.outside.sel(data="circle")
    errors = [
        fan.sel(network=[TWO]).max("network"),
        circle.sel(network=[TWO, THREE]).max("network"),
        abs(runs.gap).max("data"),
        abs(runs.floor - xr.DataArray(list(FLOORS), dims="data")).max("data"),
    ]
    return np.max([error.values for error in errors], axis=0)


def draw_figure_1(setting: Setting, runs: xr.Dataset) -> Figure:
    """For each data set the outputs of the four networks of the first seed, and the losses of all seeds."""
    with plot.style():
        figure, axes = plot.panels(5, 2)
        figure.set_size_inches(12.4, 5.0)
        for row, letter, (name, data) in zip(axes, "ab", setting.sets.items(), strict=True):
            here = runs.sel(data=name)
            for ax, kind, colour in zip(row, _kinds(), plot.PALETTE, strict=False):
                draw_output(ax, data, here.output.sel(network=kind).isel(seed=0).values, setting.reach)
                ax.set_title(kind.replace(", ", ",\n"), color=colour)
            row[0].set_ylabel(f"({letter}) {name}\n$x_2$")
            _draw_losses(setting, row[-1], here)
            row[-1].set_title("loss, all seeds,\nin the colours of the titles")
            row[-1].legend(loc="lower left")
    return figure


def draw_output(ax: Axes, data: Data, output: np.ndarray, reach: float) -> AxesImage:
    """The output in colour, with circles for the labels +1 and short lines for -1: the paper's signs."""
    most = np.abs(output).max()
    picture = ax.imshow(
        output,
        origin="lower",
        extent=(-reach, reach, -reach, reach),
        cmap="RdBu_r",
        vmin=-most,
        vmax=most,
        interpolation="bilinear",
        rasterized=True,
    )
    for label, marker in ((1, "o"), (-1, "_")):
        x = data.x[data.y == label]
        ax.plot(*x.T, marker, color=plot.INK, markersize=6, fillstyle="none", markeredgewidth=1.3)
    ax.set(xlabel="$x_1$", xticks=[-int(reach), 0, int(reach)], yticks=[-int(reach), 0, int(reach)])
    return picture


def _draw_losses(setting: Setting, ax: Axes, here: xr.Dataset) -> None:
    steps = np.maximum(here.step, 1)
    for kind, colour in zip(_kinds(), plot.PALETTE, strict=False):
        lines = here.loss.sel(network=kind).transpose("step", "seed").values
        seed_lines(ax, steps, lines[:, 1:], colour, alpha=0.25)
        ax.plot(steps, lines[:, 0], color=colour)
    floor = float(here.floor[0])
    plot.theory(ax, [steps[1], setting.steps], [floor, floor], "proven floor", linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel="mean logistic loss")
    ax.set_xlim(setting.every, setting.steps)


def claims_fits(setting: Setting) -> tuple[Claim, ...]:
    """What each network can fit, and a proof for those that cannot."""
    return (*_on_the_fan(setting), *_on_the_circle(setting), *_on_floors())


def _on_the_fan(setting: Setting) -> tuple[Claim, ...]:
    """What fits the fan."""
    return (
        Claim(
            id="two-layers-miss-fan",
            sentence="Two layers without biases cannot fit the fan.",
            source="TMLR, Fig. 1a",
            metric="mean logistic loss at the end",
            measure=lambda runs: _end(runs, "fan", TWO),
            expected=near(
                FLOORS[0],
                1e-3,
                "ln 3 − (2/3) ln 2, the loss of the best linear map; "
                f"{setting.steps} steps come within 0.001",
            ),
            form="{:.6f}",
        ),
        Claim(
            id="others-fit-fan",
            sentence="Three layers without biases fit the fan, and so do two or three with biases.",
            source="TMLR, Fig. 1a",
            metric="mean logistic loss at the end, three networks",
            measure=lambda runs: _end(runs, "fan", THREE, TWO_BIASED, THREE_BIASED),
            expected=at_most(log(2) / 6, "a mean loss below ln(2)/n classifies all n = 6 samples"),
        ),
    )


def _on_the_circle(setting: Setting) -> tuple[Claim, ...]:
    """What fits the circle."""
    return (
        Claim(
            id="no-biases-miss-circle",
            sentence="Neither two nor three layers without biases can fit the circle.",
            source="TMLR, Fig. 1b",
            metric="mean logistic loss at the end, two networks",
            measure=lambda runs: _end(runs, "circle", TWO, THREE),
            expected=near(
                FLOORS[1],
                1e-3,
                "the least loss with f(2x) = 2 f(x): f = ln q on each ray, 2q³ + q² = 1; "
                f"{setting.steps} steps come within 0.001",
            ),
            form="{:.6f}",
        ),
        Claim(
            id="biases-fit-circle",
            sentence="With biases two and three layers fit the circle.",
            source="TMLR, Fig. 1b",
            metric="mean logistic loss at the end, two networks",
            measure=lambda runs: _end(runs, "circle", TWO_BIASED, THREE_BIASED),
            expected=at_most(
                log(2) / setting.n, f"a mean loss below ln(2)/n classifies all n = {setting.n} samples"
            ),
        ),
    )


def _on_floors() -> tuple[Claim, ...]:
    """The proof for those that cannot."""
    return (
        Claim(
            id="proven-floors",
            sentence="Both failures are proven: no weights of any width have a loss below these floors.",
            source="rankfall",
            metric=(
                "largest of: duality gap of a floor; its distance from the closed form; relative distance of "
                "the trained outputs from the functions that it covers"
            ),
            measure=_off_the_proof,
            expected=at_most(1e-12, "exact: nothing but rounding"),
            note=(
                "On the fan two layers are a linear function and an even one (Theorem 1); on the circle any "
                "network without biases is proportional to the radius along each ray. Over these functions "
                "the loss is convex, and a dual certificate bounds it from below."
            ),
        ),
    )


FIGURE_1 = Experiment(
    name="1",
    title="What two and three layers can fit, with biases and without",
    setting=Setting(),
    simulation=run_figure_1,
    picture=draw_figure_1,
    statements=claims_fits,
    seeds=20,
    cost=0.6,
    about=(
        "The points are not published. The fan: (1, 1), (1, −1), (−1, 0) with the label +1, their mirror "
        "images with −1. The circle: eight rays, each with +1 at radius 1 and −1 at radius 2. ReLU, 50 "
        "neurons a hidden layer, weights N(0, 1/N_l) with N_l the number of weights of the layer, biases "
        "from zero, mean logistic loss, 2000 full-batch steps of size 0.2. By then the loss has stopped "
        "where it cannot reach zero; where it can, it falls for ever, and training ends with every sample "
        "classified. The seeds draw the weights."
    ),
)

# --- Fig. 2 and equation (3) ------------------------------------------------------------------------------

# On the unit circle ⟨g²⟩ = 1/2 - 1/(2π), ⟨g x⟩ = (3/8, -1/8) and ⟨x xᵀ⟩ = I/2: what w = (3/4, -1/4) misses.
MISSED = 3 / 16 - 1 / (2 * pi)


@dataclass(frozen=True)
class RingSetting:
    """Fig. 2: the paper draws g and trains nothing, all numbers are ours."""

    points: int = 1000  # at which the formula is checked
    n: int = 64  # evenly spaced points of the unit circle
    fine: int = 4096  # so many for the part that a linear map misses
    width: int = 50  # of a hidden layer
    scale: float = 1.0  # the norm of a layer's initial weights
    step: float = 0.2
    steps: int = 4000
    every: int = 50  # steps between records
    side: int = 61  # pixels of the picture


def run_figure_2(setting: RingSetting, seed: int) -> xr.Dataset:
    """g by its formula and by three layers; and two and three layers trained to fit it on the unit circle."""
    x = np.random.default_rng(seed).normal(size=(setting.points, 2))
    layers = Network.depth_separation()
    g = formula(x)
    off = [np.asarray(layers(x)) - g, formula(-x) + g, formula(4 * x) - 4 * g]
    data = ring(setting.n)
    losses = [_fitted(setting, data, hidden, seed) for hidden in (1, 2)]
    runs = xr.concat(losses, dim="network").assign_coords(network=[TWO, THREE])
    return runs.assign(
        off=("property", [float(np.abs(o).max() / np.abs(g).max()) for o in off]),
        floor=least_squares_floor(data),
        missed=least_squares_floor(ring(setting.fine)),
    ).assign_coords(property=["three layers", "odd", "homogeneous"])


def formula(x: np.ndarray) -> np.ndarray:
    """g of eq. (3), by its formula."""
    up, down = np.maximum(x, 0), np.maximum(-x, 0)
    g = np.maximum(up[:, 0] - up[:, 1], 0) - np.maximum(down[:, 0] - down[:, 1], 0)
    return np.asarray(g)


def ring(count: int) -> Data:
    """g at so many evenly spaced points of the unit circle: a set that is its own mirror image."""
    angles = 2 * pi * (np.arange(count) + 0.5) / count
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    return Data(x, formula(x), "ring")


def _fitted(setting: RingSetting, data: Data, hidden: int, seed: int) -> xr.Dataset:
    """The losses of one training, and the output around the circle at its end."""
    network = Network.gaussian((2, *[setting.width] * hidden, 1), 0.0, setting.scale, seed)
    run = finished(
        descent(
            network,
            data,
            "square",
            setting.step,
            setting.steps,
            measures=["loss"],
            record=every(setting.every),
            show=False,
        )
    )
    return run.dataset[["loss"]].assign(output=("angle", np.asarray(run.network(data.x))))


def _last(runs: xr.Dataset, kind: str) -> xr.DataArray:
    return runs.loss.sel(network=kind).isel(step=-1) / runs.floor


def draw_figure_2(setting: RingSetting, runs: xr.Dataset) -> Figure:
    """g in colour, g and its fits around the circle, and the losses of all seeds with the floor."""
    with plot.style():
        figure, axes = plot.panels(3)
        _draw_g(setting, figure, axes[0, 0])
        _draw_around(setting, axes[0, 1], runs)
        _draw_fits(setting, axes[0, 2], runs)
    return figure


def _draw_g(setting: RingSetting, figure: Figure, ax: Axes) -> None:
    picture = ax.imshow(
        formula(_plane(setting.side, 1.0)).reshape(setting.side, setting.side),
        origin="lower",
        extent=(-1, 1, -1, 1),
        cmap="RdBu_r",
        interpolation="bilinear",
        rasterized=True,
    )
    figure.colorbar(picture, ax=ax, label="$g(x)$")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xticks=[-1, 0, 1], yticks=[-1, 0, 1], title="(a) $g$ of eq. (3)")


def _draw_around(setting: RingSetting, ax: Axes, runs: xr.Dataset) -> None:
    degrees = 360 * (np.arange(setting.n) + 0.5) / setting.n
    data = ring(setting.n)
    plot.theory(ax, degrees, data.y, "$g$")
    linear = data.x @ np.linalg.lstsq(data.x, data.y, rcond=None)[0]
    plot.theory(ax, degrees, linear, "best linear map", linestyle="--")
    for kind, colour in zip((TWO, THREE), plot.PALETTE, strict=False):
        plot.simulation(ax, degrees, runs.output.sel(network=kind).isel(seed=0), kind, color=colour)
    ax.set(xlabel="angle of $x$ (degrees)", ylabel="output", xticks=[0, 90, 180, 270, 360])
    ax.set(yticks=[-1, 0, 1], ylim=(-1.15, 2.1))
    ax.set_title("(b) on the unit circle, first seed")
    ax.legend(loc="upper center", fontsize=7, ncols=2, columnspacing=1.0, handlelength=1.5)


def _draw_fits(setting: RingSetting, ax: Axes, runs: xr.Dataset) -> None:
    steps = np.maximum(runs.step, 1)
    for kind, colour in zip((TWO, THREE), plot.PALETTE, strict=False):
        lines = runs.loss.sel(network=kind).transpose("step", "seed").values
        seed_lines(ax, steps, lines[:, 1:], colour, alpha=0.25)
        ax.plot(steps, lines[:, 0], color=colour, label=kind)
    floor = float(runs.floor[0])
    ends = (setting.every, setting.steps)
    plot.theory(ax, ends, [floor, floor], "floor of two layers", linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel="square loss", xlim=ends)
    ax.set_title("(c) trained on it, all seeds")
    ax.legend(loc="lower left", fontsize=7)


def claims_ring(setting: RingSetting) -> tuple[Claim, ...]:
    """What g is, and which networks can express it."""
    return (
        Claim(
            id="three-layers-compute-g",
            sentence="g is odd and positively homogeneous, and three layers without biases compute it.",
            source="workshop, eq. (3); TMLR, Fig. 2",
            metric=f"largest error of each of the three equalities at {setting.points} points / largest |g|",
            measure=lambda runs: runs.off.transpose("seed", "property"),
            expected=at_most(1e-15, "exact: nothing but rounding"),
        ),
        Claim(
            id="g-not-linear",
            sentence="g is not linear: the best linear map misses a twelfth of its power.",
            source="workshop, eq. (3)",
            metric=f"½ min_w ⟨(g − w·x)²⟩ on the unit circle, {setting.fine} angles",
            measure=lambda runs: runs.missed,
            expected=near(
                MISSED / 2,
                1e-4 * (RingSetting.fine / setting.fine) ** 2,  # of a sum instead of an integral
                f"½ (3/16 − 1/(2π)), of ½ ⟨g²⟩ = ¼ (1 − 1/π); angles {2 * pi / setting.fine:.2g} apart",
                relative=True,
            ),
            form="{:.6f}",
        ),
        Claim(
            id="two-layers-miss-g",
            sentence="Two layers without biases cannot express g.",
            source="workshop, eq. (3)",
            metric="loss of two trained layers at the end / loss of the best linear map",
            measure=lambda runs: _last(runs, TWO),
            expected=between(
                1 - 1e-12,
                1.01,
                f"no weights are below 1, their odd part being linear; {setting.steps} steps come within 1 %",
            ),
            form="{:.6f}",
        ),
        Claim(
            id="three-layers-learn-g",
            sentence="Three layers without biases also learn g from random weights.",
            source="rankfall",
            metric="loss of three trained layers at the end / loss of the best linear map",
            measure=lambda runs: _last(runs, THREE),
            expected=at_most(0.01, "a hundredth of what two layers can reach"),
        ),
    )


FIGURE_2 = Experiment(
    name="2",
    title="An odd function that three layers without biases express and two cannot",
    setting=RingSetting(),
    simulation=run_figure_2,
    picture=draw_figure_2,
    statements=claims_ring,
    seeds=20,
    cost=0.4,
    about=(
        "g(x) = σ(σ(x₁) − σ(x₂)) − σ(σ(−x₁) − σ(−x₂)) of equation (3). The paper draws it; here two and "
        "three ReLU layers without biases, 50 neurons a hidden layer, are also trained to fit it: square "
        "loss on 64 evenly spaced points of the unit circle, 4000 full-batch steps of size 0.2. The seeds "
        "draw the weights, and the 1000 Gaussian points at which the formula is checked."
    ),
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (FIGURE_1, FIGURE_2)
