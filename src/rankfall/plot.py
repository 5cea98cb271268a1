"""The one figure style, and the standard pictures of a run and of a limit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from rankfall.atomic import atomically
from rankfall.data import Data
from rankfall.limits import Limit
from rankfall.limits.result import NO_MARGIN, RANK
from rankfall.network import Network
from rankfall.trajectory import Trajectory

STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "font.family": "serif",
    "mathtext.fontset": "cm",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.direction": "in",
    "ytick.direction": "in",
}
PANEL = (3.1, 2.4)  # inches: two panels fill the text width of a page
SIGNS = {1: "#2a6f97", -1: "#c4622d", 0: "grey"}  # of labels and of output weights; 0 is without a sign
MANY = 60  # samples, beyond which they are sorted by size


@contextmanager
def style() -> Iterator[None]:
    """The style, for the time of a `with` block: the user's own settings come back after it."""
    with plt.rc_context(STYLE):
        yield


def panels(columns: int, rows: int = 1) -> tuple[Figure, np.ndarray]:
    """A figure of so many panels, each of the standard size."""
    figure, axes = plt.subplots(rows, columns, figsize=(PANEL[0] * columns, PANEL[1] * rows), squeeze=False)
    return figure, axes


def colours(count: int) -> np.ndarray:
    """So many colours in an order that the eye follows, in print too."""
    return plt.get_cmap("viridis")(np.linspace(0.0, 0.88, count))


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write the figure under a temporary name, rename it, and close it."""
    path = Path(path)
    if not path.suffix:
        raise ValueError(f"say the format of the figure by an ending: {path}.png, .pdf or .svg.")
    try:
        with atomically(path) as draft, style():
            figure.savefig(draft)
    finally:
        plt.close(figure)
    return path


def drawable(run: Trajectory) -> list[xr.DataArray]:
    """The measures of a run that are a line, or a few lines, over time."""
    return [run[name] for name in run.dataset.data_vars if _lines(run[name]) is not None]


def run_figure(run: Trajectory) -> Figure:
    """One panel for each measure of a run that is a line, or a few lines, over time."""
    shown = drawable(run)
    if not shown:
        raise ValueError("this run recorded nothing that can be drawn as lines over time.")
    with style():
        columns = 2 if len(shown) in (2, 4) else min(len(shown), 3)
        figure, axes = panels(columns, -(-len(shown) // columns))
        for ax, values in zip(axes.flat, shown, strict=False):
            draw(ax, values)
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
    return figure


def draw(ax: Axes, values: xr.DataArray) -> None:
    """A measure over time: one line, or one for each entry of its second dimension."""
    hue = _lines(values)
    axis = values.dims[0]
    series: Sequence[Any] = [None] if not hue else list(values[hue].values)
    for colour, entry in zip(colours(len(series)), series, strict=True):
        line = values if entry is None else values.sel({hue: entry})
        ax.plot(values[axis], line, color=colour, label=None if entry is None else label(entry))
    if hue:
        ax.legend(title=hue)
    ax.set_xlabel(values[axis].attrs.get("long_name", str(axis)))
    ax.set_ylabel(values.attrs.get("long_name", str(values.name)))
    if _falls_far(values):
        ax.set_yscale("log")
    times = values[axis].values
    if np.median(times) < times.max() / 10:  # recorded evenly in log time: shown so, with the start at zero
        ax.set_xscale("symlog", linthresh=times[times > 0].min())


def label(entry: Any) -> str:
    """A coordinate as a legend shows it."""
    return f"{entry:g}" if isinstance(entry, (float, np.floating)) else str(entry)


def _lines(values: xr.DataArray) -> str | None:
    """The dimension of the lines, "" for a single one, None for what cannot be drawn as a few lines."""
    if values.ndim == 1:
        return ""
    few = values.ndim == 2 and values.shape[1] <= 10
    return str(values.dims[1]) if few else None


def _falls_far(values: xr.DataArray) -> bool:
    numbers = values.values[np.isfinite(values.values)]
    return bool(numbers.size and (numbers > 0).all() and numbers.max() > 1e3 * numbers.min())


# The picture of a limit


def limit_figure(limit: Limit, data: Data) -> Figure:
    """A limit in three panels: data and neurons in a plane, the singular values, and the multipliers.

    The plane is that of the two leading singular vectors of the first layer; two-dimensional data are shown as
    they are. Where there are no multipliers, the outputs and their targets are shown (square loss), or
    the margins (data that were not separated).
    """
    if limit.W.shape[1] != data.dim or len(limit.margins) != data.n:
        raise ValueError(
            f"this is the limit of another data set: it has {len(limit.margins)} samples of "
            f"{limit.W.shape[1]} features, and {data!r} has not."
        )
    with style():
        figure, axes = plt.subplot_mosaic(
            [["plane", "values"], ["plane", "samples"]],
            figsize=(2.35 * PANEL[0], 1.9 * PANEL[1]),
            width_ratios=(1.2, 1.0),
        )
        loss = limit.settings.get("loss", "").partition(".")[0]
        figure.suptitle(f"{data.name}, {loss} loss: {limit.verdict}", x=0.01, ha="left", fontsize=10)
        _draw_plane(axes["plane"], limit, data)
        _draw_singular_values(axes["values"], limit)
        if limit.multipliers.any():
            _draw_multipliers(axes["samples"], limit, data)
        elif limit.verdict == NO_MARGIN:
            _draw_margins(axes["samples"], limit, data)
        else:
            _draw_fit(axes["samples"], limit, data)
    return figure


def _draw_plane(ax: Axes, limit: Limit, data: Data) -> None:
    """The data, the neurons and the decision boundary in a plane."""
    plane = _plane(limit.W, data)
    points = data.x @ plane
    rays = _rays(limit)
    tips = np.array([w @ plane for w, _, _ in rays]).reshape(-1, 2)
    reach = np.linalg.norm(points, axis=1).max()
    tips *= 0.8 * reach / max(np.linalg.norm(tips, axis=1).max(initial=0.0), 1e-300)
    low, high = _square(np.concatenate([points, tips, np.zeros((1, 2))]))
    _draw_sides(ax, limit.network, plane, low, high)
    _draw_rays(ax, tips, rays)
    _draw_points(ax, points, limit, data)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    names = ("$x_1$", "$x_2$") if data.dim <= 2 else ("$v_1 \\cdot x$", "$v_2 \\cdot x$")
    ax.set(xlabel=names[0], ylabel=names[1] if data.dim > 1 else "")
    if data.dim > 2:
        share = ((limit.W @ plane) ** 2).sum() / max((limit.W**2).sum(), 1e-300)
        held = "which alone $f$ depends on" if share > 1 - 1e-9 else f"with {100 * share:.3g}% of $|W|^2$"
        ax.set_title(f"projection on the singular vectors $v_1, v_2$ of $W$,\n{held}")
    ax.legend(handles=_key(limit, data), loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)


def _plane(w: np.ndarray, data: Data) -> np.ndarray:
    """Two orthonormal columns: the leading right singular vectors of w, or the axes of two-dimensional data.

    Where w has rank one, the leading direction of the data at right angles is the second. A column is zero
    where there is no direction left. Large targets lie to the right and up.
    """
    if data.dim <= 2:
        return np.eye(data.dim, 2)
    plane = np.zeros((data.dim, 0))
    for rows in (w, data.x):
        found = _leading(rows - (rows @ plane) @ plane.T, 2 - plane.shape[1])
        plane = np.concatenate([plane, found], axis=1)
    plane *= np.where(data.y @ data.x @ plane < 0, -1.0, 1.0)
    return np.concatenate([plane, np.zeros((data.dim, 2 - plane.shape[1]))], axis=1)


def _leading(rows: np.ndarray, count: int) -> np.ndarray:
    """At most so many leading right singular vectors, by the smaller of the two Gram matrices."""
    wide = rows.shape[0] < rows.shape[1]
    squares, vectors = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    chosen = [k for k in range(-1, -count - 1, -1) if -k <= len(squares) and squares[k] > 1e-12 * squares[-1]]
    if not chosen or not squares[-1] > 0:
        return np.zeros((rows.shape[1], 0))
    vectors = vectors[:, chosen]
    return np.asarray(rows.T @ vectors / np.sqrt(squares[chosen]) if wide else vectors)


def _rays(limit: Limit) -> list[tuple[np.ndarray, int, int]]:
    """Directions of neurons, the sign of their output weight and their number; the longest of each."""
    w = limit.W
    two_layers = limit.network.depth == 2
    signs = np.sign(limit.network.weights[1][0]).astype(int) if two_layers else np.zeros(len(w), dtype=int)
    lengths = np.linalg.norm(w, axis=1)
    left = np.argsort(-lengths, kind="stable")
    left = left[lengths[left] > 1e-6 * lengths.max()]
    units = w[left] / lengths[left, None]
    same = (units @ units.T > 1 - 1e-6) & (signs[left, None] == signs[left])
    rays = []
    free = np.ones(len(left), dtype=bool)
    for k, neuron in enumerate(left):
        if free[k]:
            rays.append((w[neuron], int(signs[neuron]), int((same[k] & free).sum())))
            free &= ~same[k]
    return rays


def _square(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a square around the points, with room."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = 0.6 * float((high - low).max()) or 1.0
    return (low + high) / 2 - half, (low + high) / 2 + half


def _draw_sides(ax: Axes, network: Network, plane: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """The set f = 0 in the plane, and its two sides; white where f vanishes on more than a line."""
    across, up = (np.linspace(low[k], high[k], 301) for k in (0, 1))
    first = network.weights[0] @ plane
    inside = Network(
        [first, *network.weights[1:]], network.biases, float(network.slope), linear_tail=network.linear_tail
    )
    f = np.stack([inside(np.column_stack([across, np.full(across.size, height)])) for height in up])
    zero = 1e-9 * max(np.abs(f).max(), 1e-300)
    colours = (SIGNS[-1], "white", SIGNS[1])
    ax.contourf(across, up, f, levels=[-np.inf, -zero, zero, np.inf], colors=colours, alpha=0.12)
    if (f > zero).any() and (f < -zero).any():
        f = np.ma.masked_where(np.abs(f) <= zero, f)
        ax.contour(across, up, f, levels=[0.0], colors="black", linewidths=0.8)


def _draw_rays(ax: Axes, tips: np.ndarray, rays: list[tuple[np.ndarray, int, int]]) -> None:
    """The neurons from the origin: arrows with their number where they are few, else thin lines."""
    colours = [SIGNS[sign] for _, sign, _ in rays]
    if len(rays) > 12:
        lines = [[(0.0, 0.0), tip] for tip in tips]
        ax.add_collection(LineCollection(lines, colors=colours, linewidths=0.6, alpha=0.6, zorder=2))
        return
    for tip, colour, (_, _, count) in zip(tips, colours, rays, strict=True):
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", tip, (0, 0), arrowprops=arrow, zorder=2)
        if count > 1:
            offset = 9 * tip / max(np.linalg.norm(tip), 1e-300)
            text = ax.annotate(f"{count}", tip, offset, textcoords="offset points", ha="center", va="center")
            text.set(color=colour, fontsize=8, path_effects=[withStroke(linewidth=2, foreground="white")])


def _draw_points(ax: Axes, points: np.ndarray, limit: Limit, data: Data) -> None:
    """The samples, coloured by their label, or by their target, with rings around the support vectors."""
    size = 22 if data.n <= 100 else 8
    if _labelled(data):
        for sign, marker in ((1, "o"), (-1, "s")):
            mine = points[data.y == sign]
            ax.scatter(*mine.T, s=size, c=SIGNS[sign], marker=marker, edgecolors="white", lw=0.4, zorder=3)
    else:
        drawn = ax.scatter(*points.T, s=size, c=data.y, cmap="viridis", zorder=3)
        ax.figure.colorbar(drawn, ax=ax, label="target $y$", shrink=0.6, pad=0.02)
    ringed = points[limit.support]
    ax.scatter(*ringed.T, s=3.2 * size, facecolors="none", edgecolors="black", lw=0.7, zorder=4)


def _key(limit: Limit, data: Data) -> list[Line2D]:
    """What the signs in the plane mean."""

    def sign(label: str, **look: Any) -> Line2D:
        return Line2D([], [], **{"linestyle": "none", "markersize": 5, "label": label, **look})

    def line(label: str, colour: str, width: float) -> Line2D:
        return Line2D([], [], color=colour, linewidth=width, label=label)

    signs = {1: "$y = +1$", -1: "$y = -1$"} if _labelled(data) else {}
    key = [sign(text, marker="o" if s > 0 else "s", color=SIGNS[s]) for s, text in signs.items()]
    if len(limit.support):
        key.append(sign("support", marker="o", markersize=7, mfc="none", mec="black", mew=0.7))
    if limit.network.depth == 2:
        key += [line("neurons $a_j > 0$", SIGNS[1], 1.2), line("neurons $a_j < 0$", SIGNS[-1], 1.2)]
    else:
        key.append(line("neurons", SIGNS[0], 1.2))
    return [*key, line("$f = 0$", "black", 0.8)]


def _draw_singular_values(ax: Axes, limit: Limit) -> None:
    """The singular values of the first layer, and of its two sign blocks."""
    parts = {"$W$": (limit.singular_values, "black", 0.0)}
    title = f"stable rank {limit.stable_rank:.4g}, rank {limit.rank}"
    if limit.network.depth == 2:
        for name, sign in (("+", 1), ("-", -1)):
            values = np.linalg.svd(_triangle(limit.blocks[name]), compute_uv=False)
            parts[f"$W_{name}$"] = (values, SIGNS[sign], 0.22 * sign)
        each = ", ".join(f"$W_{sign}$ {value:.4g}" for sign, value in limit.block_stable_ranks.items())
        title = f"stable rank {limit.stable_rank:.4g} ({each}), rank {limit.rank}"
    top = max(limit.singular_values[0], 1e-300)
    floor = 1e-18 * top
    for name, (values, colour, shift) in parts.items():
        at = np.arange(1, len(values) + 1)[:20]
        seen = values[:20] > floor
        ax.vlines(at[seen] + shift, floor, values[:20][seen], color=colour, linewidth=0.8)
        ax.plot(at[seen] + shift, values[:20][seen], "o", color=colour, markersize=3, label=name)
    ax.axhline(RANK * top, color="grey", linewidth=0.8, linestyle="--")
    ax.set(yscale="log", ylim=(floor, 10 * top), xlabel="number $k$", ylabel="singular value $s_k$")
    ax.set_xlim(0.5, max(5, min(20, len(limit.singular_values))) + 0.5)
    below = {"color": "grey", "fontsize": 7, "ha": "right", "va": "top"}
    ax.text(1, 0.5 * RANK * top, "counts as zero", transform=ax.get_yaxis_transform(), **below)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="upper right", ncols=3)
    ax.set_title(title)


def _triangle(rows: np.ndarray) -> np.ndarray:
    """The triangular factor: the same singular values in a matrix that is small however wide the rows are."""
    return np.asarray(np.linalg.qr(rows.T if rows.shape[0] < rows.shape[1] else rows, mode="r"))


def _draw_multipliers(ax: Axes, limit: Limit, data: Data) -> None:
    """The multipliers of the samples."""
    _stems(ax, limit.multipliers, data)
    ax.set(ylabel="multiplier $\\lambda_i$", ylim=(0, None))
    ax.set_title(f"{len(limit.support)} of {data.n} samples are support vectors")


def _draw_margins(ax: Axes, limit: Limit, data: Data) -> None:
    """The margins where some of them are not positive."""
    _stems(ax, limit.margins, data)
    ax.set(ylabel="margin $y_i f(x_i)$")
    ax.set_title(f"{int((limit.margins <= 0).sum())} of {data.n} samples are on the wrong side")


def _stems(ax: Axes, values: np.ndarray, data: Data) -> None:
    """A number for each sample, coloured by its label; sorted by size where they are many."""
    order = np.arange(data.n) if data.n <= MANY else np.argsort(-values, kind="stable")
    colours = [SIGNS[int(sign)] for sign in np.sign(data.y[order])]
    at = np.arange(data.n)
    ax.vlines(at, 0, values[order], colors=colours, linewidth=1.2 if data.n <= MANY else 0.6)
    ax.scatter(at, values[order], c=colours, s=14 if data.n <= MANY else 4, zorder=3, clip_on=False)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set_xlabel("sample $i$" if data.n <= MANY else "samples, by size")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_fit(ax: Axes, limit: Limit, data: Data) -> None:
    """The outputs beside their targets."""
    order = np.arange(data.n) if data.n <= MANY else np.argsort(data.y, kind="stable")
    at, f, y = np.arange(data.n), limit.margins[order], data.y[order]
    ax.vlines(at, f, y, color="grey", linewidth=0.8)
    ax.plot(at, y, "o", color="black", markersize=6, mfc="none", mew=0.7, label="target $y_i$")
    ax.plot(at, f, "o", color=SIGNS[1], markersize=3, label="output $f(x_i)$")
    ax.set_xlabel("sample $i$" if data.n <= MANY else "samples, by target")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="upper right", ncols=2)
    ax.margins(y=0.25)
    ax.set_title(f"largest misfit {np.abs(f - y).max():.1e}")


def _labelled(data: Data) -> bool:
    return bool(np.isin(data.y, (-1, 1)).all())
