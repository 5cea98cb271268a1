"""The three panels of the picture of a limit: the plane, the singular values, the samples."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import maximum_filter

from rankfall.data import Data
from rankfall.limits import Limit
from rankfall.measure import RANK, Spectrum
from rankfall.network import Network
from rankfall.plot._style import PANEL, style

SIGNS = {1: "#2a6f97", -1: "#c4622d", 0: "grey"}  # of labels and of output weights; 0 is without a sign
SHORT: dict[str, Any] = {
    "handlelength": 1.2,
    "handletextpad": 0.5,
    "columnspacing": 1.2,
}  # of a legend of dots
HALO = withStroke(linewidth=2, foreground="white")  # of a text that lies on lines
ONE = 0.9999  # the cosine of the angle within which directions are one to the eye
MANY = 60  # samples, beyond which they are sorted by size


def limit_figure(limit: Limit, data: Data) -> Figure:
    """A limit in three panels: data and neurons in a plane, the singular values, and the multipliers.

    The plane is that of the two leading singular vectors of the first layer; two-dimensional data are shown
    as they are. Where there are no multipliers, the outputs and their targets are shown (square loss), or
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
        draw_plane(axes["plane"], limit, data)
        draw_singular_values(axes["values"], limit)
        draw_samples(axes["samples"], limit, data)
    return figure


def draw_plane(ax: Axes, limit: Limit, data: Data) -> None:
    """The data, the neurons and the decision boundary in a plane."""
    plane = _plane(limit.W, data)
    points = data.x @ plane
    rays = _rays(limit)
    tips = np.array([w @ plane for w, _, _ in rays]).reshape(-1, 2)
    reach = np.linalg.norm(points, axis=1).max()
    tips *= 0.8 * reach / max(np.linalg.norm(tips, axis=1).max(initial=0.0), 1e-300)
    low, high = _square(np.concatenate([points, tips, np.zeros((1, 2))]))
    sides = _draw_sides(ax, limit.network, plane, low, high)
    _draw_rays(ax, tips, rays)
    _draw_points(ax, points, limit, data)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    title, across, up = _words(limit, data, plane)
    ax.set(xlabel=across, ylabel=up)
    ax.set_title(title)
    key = [*_key(limit, data), *sides]
    ax.legend(handles=key, loc="upper left", bbox_to_anchor=(-0.02, -0.12), ncols=3, **SHORT)


def _words(limit: Limit, data: Data, plane: np.ndarray) -> tuple[str, str, str]:
    """The title, with what a projection leaves out, and the names of the two axes."""
    loss = str(limit.settings.get("loss", "")).partition(".")[0]
    name = data.name.replace("$", r"\$")  # else it begins a formula
    title = f"{name}, {loss} loss: {limit.verdict}"
    if data.dim <= 2:
        return title, "$x_1$", "$x_2$" if data.dim == 2 else ""
    shares = ((limit.W @ plane) ** 2).sum(axis=0) / max((limit.W**2).sum(), 1e-300)
    share = shares.sum()
    held = "over 99.9%" if share > 0.999 else f"{100 * share:.3g}%"
    seen = "$f$ depends on nothing else" if share > 1 - 1e-9 else f"the plane holds {held} of $|W|^2$"
    kinds = ["singular vector of $W$" if part > 1e-14 else "leading in the data" for part in shares]
    names = [f"$v_{k} \\cdot x$   ($v_{k}$: {kind})" for k, kind in enumerate(kinds, 1)]
    return f"{title}\nprojection: {seen}", names[0], names[1]


def _plane(w: np.ndarray, data: Data) -> np.ndarray:
    """Two orthonormal columns: the leading right singular vectors of w, or the axes of two-dimensional data.

    Where w has rank one, the leading direction of the data at right angles is the second. A column is zero
    where there is no direction left. Large targets lie to the right and up.
    """
    if data.dim <= 2:
        return np.eye(data.dim, 2)
    plane = np.zeros((data.dim, 0))
    for rows in (w, data.x):
        missing = 2 - plane.shape[1]
        if missing:
            plane = np.concatenate([plane, _leading(rows - (rows @ plane) @ plane.T, missing)], axis=1)
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
    """The longest neuron of each direction and sign of the output weight, that sign, and their number."""
    w = limit.W
    two_layers = limit.network.depth == 2
    signs = np.sign(limit.network.weights[1][0]).astype(int) if two_layers else np.zeros(len(w), dtype=int)
    lengths = np.linalg.norm(w, axis=1)
    left = np.argsort(-lengths, kind="stable")[:1000]  # of more the eye sees nothing
    left = left[lengths[left] > 1e-6 * lengths.max()]
    units = w[left] / lengths[left, None]
    same = (units @ units.T > ONE) & (signs[left, None] == signs[left])
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


def _draw_sides(
    ax: Axes, network: Network, plane: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[Artist]:
    """The set f = 0 in the plane, and its two sides, white where f is next to nothing; returns their key."""
    across, up = (np.linspace(low[k], high[k], 301) for k in (0, 1))
    weights = [network.weights[0] @ plane, *network.weights[1:]]
    inside = Network(weights, network.biases, float(network.slope), linear_tail=network.linear_tail)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(7, -1, 2)  # in parts, for the memory
    f = np.concatenate([inside(part) for part in grid]).reshape(301, 301)
    small = 1e-5 * max(np.abs(f).max(), 1e-300)
    colours = (SIGNS[-1], "white", SIGNS[1])
    ax.contourf(across, up, f, levels=[-np.inf, -small, small, np.inf], colors=colours, alpha=0.12)
    nothing = maximum_filter(np.abs(f), 5) <= small
    key: list[Artist] = []
    if (f > small).any() and (f < -small).any():
        sharp = np.ma.masked_where(maximum_filter(nothing, 7), f)
        ax.contour(across, up, sharp, levels=[0.0], colors="black", linewidths=0.8)
        key.append(Line2D([], [], color="black", linewidth=0.8, label="$f = 0$"))
    if nothing.mean() > 1e-3:
        key.append(Patch(fc="white", ec="grey", lw=0.6, label=r"$|f| < 10^{-5} \max |f|$"))
    return key


def _draw_rays(ax: Axes, tips: np.ndarray, rays: list[tuple[np.ndarray, int, int]]) -> None:
    """The neurons from the origin: arrows with their number where they are few, else thin lines."""
    colours = [SIGNS[sign] for _, sign, _ in rays]
    if len(rays) > 12:
        lines = [[(0.0, 0.0), tip] for tip in tips]
        ax.add_collection(LineCollection(lines, colors=colours, linewidths=0.6, alpha=0.6, zorder=2))
        return
    counted = any(count > 1 for _, _, count in rays)
    for tip, colour, (_, _, count) in zip(tips, colours, rays, strict=True):
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", tip, (0, 0), arrowprops=arrow, zorder=3.5)
        if counted:
            offset = 9 * tip / max(np.linalg.norm(tip), 1e-300)
            text = ax.annotate(f"{count}", tip, offset, textcoords="offset points", ha="center", va="center")
            text.set(color=colour, fontsize=8, path_effects=[HALO], zorder=5)


def _draw_points(ax: Axes, points: np.ndarray, limit: Limit, data: Data) -> None:
    """The samples, coloured by label, or by target as in the panel of the outputs; support vectors ringed."""
    size = 22 if data.n <= 100 else 8
    if _labelled(data):
        for sign, marker in ((1, "o"), (-1, "s")):
            x, y = points[data.y == sign].T
            ax.scatter(x, y, s=size, c=SIGNS[sign], marker=marker, edgecolors="white", lw=0.4, zorder=3)
    else:
        ax.scatter(points[:, 0], points[:, 1], s=size, c=data.y, cmap="viridis", zorder=3)
    x, y = points[limit.support].T
    ax.scatter(x, y, s=3.2 * size, facecolors="none", edgecolors="black", lw=0.7, zorder=4)


def _key(limit: Limit, data: Data) -> list[Artist]:
    """What the points and the arrows mean."""
    key: list[Artist] = []
    for sign, marker in ((1, "o"), (-1, "s")) if _labelled(data) else ():
        key.append(Line2D([], [], ls="none", marker=marker, ms=5, color=SIGNS[sign], label=f"$y = {sign:+}$"))
    if len(limit.support):
        look: dict[str, Any] = {
            "ls": "none",
            "marker": "o",
            "ms": 7,
            "mfc": "none",
            "mec": "black",
            "mew": 0.7,
        }
        key.append(Line2D([], [], label="support vector", **look))
    if limit.network.depth != 2:
        return [*key, Line2D([], [], color=SIGNS[0], lw=1.2, label=f"{len(limit.W)} neurons")]
    for name, sign, relation in (("+", 1, ">"), ("-", -1, "<")):
        label = f"{len(limit.blocks[name])} neurons, $a_j {relation} 0$"
        key.append(Line2D([], [], color=SIGNS[sign], lw=1.2, label=label))
    return key


def draw_singular_values(ax: Axes, limit: Limit) -> None:
    """The singular values of the first layer and its two sign blocks; the title tells their ranks."""
    spectra = _spectra(limit)
    whole, *blocks = [f"{k}: {v.stable_rank:.4g} and {v.rank}" for k, v in spectra.items()]
    title = "stable rank and rank of " + whole
    ax.set_title(title + (f"\n({', '.join(blocks)})" if blocks else ""))
    top = max(limit.singular_values[0], 1e-300)
    shown = [
        v.values[v.values > 1e-18 * top][:20] for v in spectra.values()
    ]  # what is smaller is rounding alone
    lowest = min((v[-1] for v in shown if v.size), default=top)
    looks = {"$W$": (0.0, "black"), "$W_+$": (0.22, SIGNS[1]), "$W_-$": (-0.22, SIGNS[-1])}
    for name, values in zip(spectra, shown, strict=True):
        shift, colour = looks[name]
        at = np.arange(1, len(values) + 1) + shift
        ax.vlines(at, lowest / 10, values, color=colour, linewidth=0.8)
        ax.plot(at, values, "o", color=colour, markersize=3, label=name)
    if lowest < RANK * top:
        ax.axhline(RANK * top, color="grey", linewidth=0.8, linestyle="--")
        text = ax.text(1, 0.5 * RANK * top, "counts as zero", transform=ax.get_yaxis_transform())
        text.set(color="grey", fontsize=7, ha="right", va="top", path_effects=[HALO])
    room = (top / lowest) ** 0.25  # for the legend
    ax.set(yscale="log", ylim=(lowest / 10, 10 * room * top), xlim=(0.4, max(3, *map(len, shown)) + 0.6))
    ax.set(xlabel="number $k$", ylabel="singular value $s_k$")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="upper right", ncols=3, **SHORT)


def _spectra(limit: Limit) -> dict[str, Spectrum]:
    """The spectra of the first layer, and of its sign blocks in a network of two layers."""
    blocks = {f"$W_{sign}$": each for sign, each in limit.block_spectra.items() if len(limit.blocks[sign])}
    return {"$W$": limit.spectrum} | blocks


def draw_samples(ax: Axes, limit: Limit, data: Data) -> None:
    """The multipliers; where there are none, the margins if not separated, else outputs and targets."""
    if limit.multipliers.any():
        _stems(ax, limit.multipliers, data)
        ax.set(ylabel="multiplier $\\lambda_i$", ylim=(0, None))
        ax.set_title(f"{len(limit.support)} of {data.n} samples are support vectors")
    elif limit.loss.name != "square":
        _stems(ax, limit.margins, data)
        ax.set(ylabel="margin $y_i f(x_i)$")
        ax.set_title(f"{int((limit.margins <= 0).sum())} of {data.n} samples are on the wrong side")
    else:
        _draw_fit(ax, limit, data)


def _stems(ax: Axes, values: np.ndarray, data: Data) -> None:
    """A number for each sample, coloured by its label; if they are many sorted, and most zeros left out."""
    order = np.arange(data.n) if data.n <= MANY else np.argsort(-values, kind="stable")
    order = order[: max(MANY, int((values != 0).sum()))]
    colours = [SIGNS[int(sign)] for sign in np.sign(data.y[order])]
    at = np.arange(len(order))
    ax.vlines(at, 0, values[order], colors=colours, linewidth=1.2 if len(order) <= MANY else 0.6)
    ax.scatter(at, values[order], c=colours, s=14 if len(order) <= MANY else 4, zorder=3, clip_on=False)
    ax.axhline(0, color="black", linewidth=0.6)
    ax.set_xlabel("sample $i$" if data.n <= MANY else "samples, by size")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}".replace("-", "\N{MINUS SIGN}"))


def _draw_fit(ax: Axes, limit: Limit, data: Data) -> None:
    """The outputs beside their targets; sorted by target where that is a number, or the samples are many."""
    sort = data.n > MANY or not _labelled(data)
    order = np.argsort(data.y, kind="stable") if sort else np.arange(data.n)
    at, f, y = np.arange(data.n), limit.margins[order], data.y[order]
    size = 6 if data.n <= MANY else 3
    ax.vlines(at, f, y, color="grey", linewidth=0.8)
    ax.plot(at, y, "o", color="black", markersize=size, mfc="none", mew=0.7, label="target $y_i$")
    shades = [SIGNS[int(sign)] for sign in y] if _labelled(data) else y
    ax.scatter(at, f, c=shades, cmap=None if _labelled(data) else "viridis", s=size**2 / 4, zorder=3)
    ax.plot([], [], "o", color="black", markersize=size / 2, label="output $f(x_i)$")
    ax.set_xlabel("samples, by target" if sort else "sample $i$")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(y=0.12)
    ax.legend(loc="center" if _labelled(data) else "upper left", ncols=2 if _labelled(data) else 1, **SHORT)
    ax.set_title(f"largest misfit {np.abs(f - y).max():.1e}")


def _labelled(data: Data) -> bool:
    return bool(np.isin(data.y, (-1, 1)).all())
