"""Who lives? A neuron that sees no support vector of its class."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.claim import Check, Claim, at_least, at_most, with_certificates
from rankfall.papers.experiment import Experiment
from rankfall.papers.phuong.separable import VANISHED, degrees_to
from rankfall.theory.phuong_lampert import class_margins

TURNS = (100, 150, 174)  # degrees: where the neuron starts that sees x_2 alone
SCALES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.01)
LENGTHS = np.sqrt([4.6e-3, 1e-6, 1e-4])


def run_support(seed: int) -> xr.Dataset:
    """The limits of three neurons on three samples, from starts of several sizes."""
    x = np.array([[1, 0], 20 * _unit(85), [0, -1]])
    data = Data(x, [1.0, 1.0, -1.0], "a far sample")
    ends = class_margins(data.x, data.y)
    assert ends is not None
    shape = len(TURNS), len(SCALES)
    size, off, residual, certified = (np.zeros(shape) for _ in range(4))
    proofs = {}
    for at in np.ndindex(*shape):
        lengths = SCALES[at[1]] * LENGTHS
        first = lengths[:, None] * np.array([_unit(85), _unit(TURNS[at[0]]), _unit(-95)])
        network = Network([first, [lengths * [1, 1, -1]]])
        end = limit(network, data, "exponential", optimality=False, show=False)
        long = np.linalg.norm(end.W, axis=1)
        size[at], residual[at] = long[1] / long[0], max(end.residuals.values())
        off[at], certified[at] = degrees_to(end.W[0], ends.plus), end.reached
        proofs[_named(TURNS[at[0]], SCALES[at[1]])] = end
    names = ("turn", "scale")
    found = xr.Dataset(
        {
            "size": (names, size),
            "off": (names, off),
            "residual": (names, residual),
            "certified": (names, certified),
            "pull": float(ends.support[1]),
        },
        {"turn": list(TURNS), "scale": list(SCALES)},
    )
    return with_certificates(found, seed, proofs)


def _named(turn: int, scale: float) -> str:
    """The name of a certificate."""
    return f"from {turn} degrees, scale {scale:g}"


def _unit(degrees: float) -> np.ndarray:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def draw_support(runs: xr.Dataset) -> Figure:
    """The data and the starts; the length of the second neuron at the limit over the size of the start."""
    with plot.style():
        figure, axes = plot.panels(2)
        left, right = axes[0]
        for degrees, colour in zip(TURNS, plot.colours(len(TURNS)), strict=True):
            left.annotate("", 14 * _unit(degrees), (0, 0), arrowprops={"arrowstyle": "->", "color": colour})
            line = runs.size.isel(seed=0).sel(turn=degrees)
            plot.simulation(right, SCALES, line, f"{degrees}°", color=colour, linestyle="-", linewidth=0.7)
        for place, name in (((1, 0), "$x_1$"), (20 * _unit(85), "$x_2$"), ((0, -1), "$x_3$")):
            left.plot(*place, "o", color=plot.PALETTE[1] if name == "$x_3$" else plot.INK, markersize=4)
            left.annotate(name, place, (5, -9 if name == "$x_3$" else 2), textcoords="offset points")
        edge = 16 * _unit(175)
        left.plot([0, edge[0]], [0, edge[1]], color=plot.GUIDE, linestyle="--", linewidth=0.8)
        left.set(xlim=(-17, 6), ylim=(-3, 23), xlabel="$x$", ylabel="$y$")
        left.set_title("(a) samples, and three starts of $w_2$")
        right.set(xscale="log", xlabel=r"size $\lambda$ of the start", ylabel=r"$|w_2| / |w_1|$ at the limit")
        right.set_title("(b) does the second neuron live?")
        right.legend(title="start of $w_2$", loc="lower left")
    return figure


_CERTIFIED = Check(
    "residuals of the limits", lambda runs: runs.residual, at_most(1e-10, "the tolerance of a certificate")
)
_UNSUPPORTED = Check(
    "is x₂ a support vector of its class? 1 yes, 0 no", lambda runs: runs.pull, at_most(0.0, "it is not")
)

SUPPORT = Experiment(
    name="support",
    title="Who lives? A neuron that sees no support vector depends on the size of the start",
    run=run_support,
    draw=draw_support,
    cost=8.0,
    about=(
        "Ours: x₁ = (1, 0) and x₂, 20 long at 85 degrees, are positive, x₃ = (0, -1) is negative; the "
        "support vectors are x₁ and x₃. Of three balanced neurons the second sees x₂ alone, being at 100, "
        "150 or 174 degrees, and is the shortest. The start is scaled by λ; at λ = 1 no output exceeds 0.1."
    ),
    claims=(
        Claim(
            sentence="A neuron that sees a sample of its class, but no support vector, can vanish.",
            source="rankfall",
            metric="‖w₂‖/‖w₁‖ at the limit from λ = 1, starts at 150 and 174 degrees",
            measure=lambda runs: runs["size"].sel(scale=1.0)[..., runs.turn >= 150],
            expected=at_most(VANISHED, "shorter than this is none; both end at exactly 0"),
            hypotheses=(_CERTIFIED, _UNSUPPORTED),
            proofs=tuple(_named(turn, 1.0) for turn in TURNS if turn >= 150),
            note="The pull of x₂ ends before the neuron has turned to x₁, which pulls for ever.",
        ),
        Claim(
            sentence="From a start that is small enough a neuron lives that sees no support vector.",
            source="rankfall, after Theorem 1",
            metric="‖w₂‖/‖w₁‖ at the limit from λ = 0.1 and 0.01, all three starts",
            measure=lambda runs: runs["size"][..., runs.scale <= 0.1],
            expected=at_least(1e-3, "a tenth of the ratio of the lengths at the start, 0.0147"),
            hypotheses=(_CERTIFIED, _UNSUPPORTED),
            proofs=tuple(_named(turn, scale) for turn in TURNS for scale in SCALES if scale <= 0.1),
        ),
        Claim(
            sentence="The neuron that sees x₁ and x₂ ends along the max-margin vector from all six sizes.",
            source="Theorem 1; beyond small starts rankfall",
            metric="angle of w₁ with u₊, degrees",
            measure=lambda runs: runs.off,
            expected=at_most(1e-5, "limits are known to 1e-10, and directions to the root of it"),
            hypotheses=(_CERTIFIED,),
            proofs=tuple(_named(turn, scale) for turn in TURNS for scale in SCALES),
        ),
    ),
)
