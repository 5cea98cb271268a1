"""The figures of the theory pages: each result's predictions beside its example. `make figures` runs it.

With names, only those. "uniqueness" is the figure of the page about flows that are not unique.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rankfall import Data, Network, limit, plot
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import Walk, walk_of
from rankfall.limits import Limit
from rankfall.loss import named
from rankfall.plot import HALO, draw_plane
from rankfall.theory import RESULTS, assessed

FOLDER = Path(__file__).parent / "assets" / "theory"

# A neuron slides into the origin, and two solutions leave it: the example of docs/theory/uniqueness.md.
X = np.array([[1.9, 1.3], [0.4, 1.1], [0.6, -1.4], [-1.3, -0.1]])
Y = np.array([1.0, -1.0, 1.0, -1.0])
W = np.array([[-0.018, 0.009], [-0.033, 0.008], [0.026, -0.001], [0.008, -0.002]])
A, SLOPE = np.array([1.0, -1.0, 1.0, -1.0]), 0.1
STEPS, RUNS, OFF, LATER = (2e-5, 1e-5, 5e-6), 20, 1e-6, 0.12
WIDE, NEAR = 0.011, 5e-5  # the half-widths of the two windows
BRANCHES = plot.PALETTE[2:4]


def main(names: list[str]) -> None:
    """Draw them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or [*RESULTS, "uniqueness"]:
        figure = uniqueness_figure() if name == "uniqueness" else result_figure(name)
        print(plot.save(figure, FOLDER / f"{name}.png"), flush=True)


def result_figure(name: str) -> Figure:
    """The predictions of a result beside its example."""
    example = RESULTS[name].example()
    verification = assessed(RESULTS[name], example.situation).verify(example.evidence())
    return plot.verdict_figure(verification)


def uniqueness_figure() -> Figure:
    """Two solutions that leave one point, descent that takes either of them, and where they end."""
    runs = [descents(step, seed) for seed, step in enumerate(STEPS)]
    ends = np.concatenate([last for _, last in runs])
    second = ends[:, 0] @ X[0] < 0  # those that leave below the kink of sample 0
    with plot.style():
        figure, axes = plot.panels(2, 2)
        figure.set_size_inches(2 * plot.PANEL[0], 2.15 * plot.PANEL[0])
        draw_fan(axes[0, 0], walk_to_fork())
        draw_descents(axes[0, 1], [path for path, _ in runs])
        for ax, letter, branch in zip(axes[1], "cd", (0, 1), strict=True):
            found = limit(network(ends[second == branch][0]), Data(X, Y), "exponential", show=False)
            draw_end(ax, found, letter, branch, int((second == branch).sum()))
        figure.legend(handles=legend(), loc="outside lower center", ncols=3)
    return figure


def network(w: np.ndarray) -> Network:
    """The network with this first layer."""
    return Network([w, A[None]], slope=SLOPE, trained=(True, False))


def walk_to_fork() -> Walk:
    """The exact flow, up to the point from which two solutions leave."""
    walk = walk_of(Reduction([network(W)], Data(X, Y), named("exponential")), 1e-10)
    while not walk.forks:
        walk.advance()
    return walk


def descents(step: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent from perturbed starts: the paths of neuron 0, and the last weights."""
    w = W + OFF * np.random.default_rng(seed).normal(size=(RUNS, *W.shape))
    path = []
    for _ in range(round(LATER / step)):
        z = w @ X.T
        slopes = np.where(z > 0, 1.0, SLOPE)
        pulls = Y * np.exp(-Y * (A @ (slopes * z))) / len(Y)
        w = w + step * A[:, None] * ((slopes * pulls[:, None]) @ X)
        path.append(w[:, 0])
    return np.array(path), w


def draw_fan(ax: Axes, walk: Walk) -> None:
    """The plane of neuron 0: its kinks, the velocity between them, the slide, and the two ways out."""
    fork, pulls = walk.forks[0], walk.present_pulls()
    across = np.linspace(-1, 1, 15)[1:-1] * WIDE
    grid = np.stack(np.meshgrid(across, across), axis=-1)
    field = (np.where(grid @ X.T > 0, 1.0, SLOPE) * pulls) @ X
    arrows = np.moveaxis(field / np.linalg.norm(field, axis=-1)[..., None], -1, 0)
    ax.quiver(*np.moveaxis(grid, -1, 0), *arrows, color="#b0b0b0", scale=24, width=0.004, pivot="mid")
    draw_kinks(ax, WIDE)
    slide = np.array([-X[1, 1], X[1, 0]]) / np.linalg.norm(X[1])
    draw_way(ax, 0.97 * WIDE * slide, np.zeros(2), plot.INK)
    for colour, slopes in zip(BRANCHES, (fork.slopes, *fork.others), strict=True):
        velocity = (slopes * pulls) @ X
        draw_way(ax, np.zeros(2), 0.97 * WIDE * velocity / np.linalg.norm(velocity), colour)
    ax.set_title("(a) the plane of neuron 0")
    frame(ax, WIDE)


def draw_kinks(ax: Axes, size: float) -> None:
    """The kinks of neuron 0: solid if they attract, dashed if they repel. The numbers are above them."""
    for i, x in enumerate(X):
        along = np.array([-x[1], x[0]]) / np.abs([x[1], x[0]]).max() * size
        kind = "-" if A[0] * Y[i] < 0 else "--"
        ax.plot(*np.stack([-along, along]).T, color=plot.GUIDE, lw=0.9, ls=kind, zorder=2)
        across, up = along * np.sign(along[1]) * 0.88 + 0.07 * size * x / np.linalg.norm(x)
        text = ax.text(across, up, f"{i}", fontsize=8, ha="center", va="center", color=plot.INK, zorder=6)
        text.set_path_effects([HALO])


def draw_way(ax: Axes, start: np.ndarray, end: np.ndarray, colour: str) -> None:
    """An arrow."""
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 2.0, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (end[0], end[1]), (start[0], start[1]), arrowprops=arrow, zorder=5)


def draw_descents(ax: Axes, paths: list[np.ndarray]) -> None:
    """The paths of neuron 0 next to the origin, each in the colour of its branch."""
    draw_kinks(ax, NEAR)
    runs = [run for path in paths for run in np.moveaxis(path, 1, 0)]
    for run in sorted(runs, key=lambda run: float(run[-1] @ X[0]), reverse=True):  # the rarer ones on top
        near = run[np.abs(run).max(axis=1) < 1.5 * NEAR]
        ax.plot(*near.T, color=BRANCHES[int(run[-1] @ X[0] < 0)], lw=0.4, marker=".", ms=1.5, alpha=0.7)
    ax.set_title(f"(b) {len(STEPS) * RUNS} descents, 200 times closer")
    frame(ax, NEAR)


def frame(ax: Axes, size: float) -> None:
    """A square window around the origin."""
    ax.set(xlim=(-size, size), ylim=(-size, size), aspect="equal", xlabel="$w_1$", ylabel="$w_2$")
    ax.ticklabel_format(style="sci", scilimits=(0, 0), useMathText=True)
    ax.locator_params(nbins=5)


def draw_end(ax: Axes, found: Limit, letter: str, branch: int, runs: int) -> None:
    """The end of a branch, and how many runs of descent come to it."""
    draw_plane(ax, found, Data(X, Y))
    ax.legend(handles=[]).remove()
    ax.locator_params(nbins=5)
    ax.set_title(f"({letter}) the end of {runs} runs: $|W| = {found.norm:.4f}$", color=BRANCHES[branch])


def legend() -> list[Line2D]:
    """What the lines of (a) and (b) and the marks of (c) and (d) mean."""
    lines = [
        ("-", 0.9, plot.GUIDE, "kink that attracts"),
        ("--", 0.9, plot.GUIDE, "kink that repels"),
        ("-", 2.0, plot.INK, "slide into the origin"),
        *(("-", 2.0, colour, f"solution {k}") for k, colour in enumerate(BRANCHES, start=1)),
        ("-", 0.8, "black", "$f = 0$"),
    ]
    return [Line2D([], [], ls=ls, lw=lw, color=colour, label=label) for ls, lw, colour, label in lines]


if __name__ == "__main__":
    main(sys.argv[1:])
