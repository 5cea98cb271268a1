"""Who lives? A neuron that sees no support vector of its class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data
from rankfall.limits import limit
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    at_least,
    at_most,
    small_residuals,
    with_certificates,
)
from rankfall.papers.phuong.separable import VANISHED, degrees_to
from rankfall.theory.results import phuong_separable


@dataclass(frozen=True)
class Setting:
    """The example is ours, and so are its numbers. Directions are in degrees; x_1 is at 0, x_3 at -90."""

    turns: tuple[int, ...] = (100, 150, 174)  # where the neuron starts that sees x_2 alone
    scales: tuple[float, ...] = (1.0, 0.5, 0.3, 0.2, 0.1, 0.01)
    far: float = 20.0  # the length of x_2
    first: float = 85.0  # where x_2 is, and where the neuron starts that sees x_1 and x_2
    third: float = -95.0  # where the neuron starts that sees x_3 alone
    beyond: int = 150  # from here on the neuron that sees x_2 alone vanishes, if the start is large
    small: float = 0.1  # up to this scale of the start it lives
    squares: tuple[float, ...] = (4.6e-3, 1e-6, 1e-4)  # of the lengths of the three neurons at scale 1

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the three neurons at scale 1."""
        return np.sqrt(self.squares)

    @property
    def samples(self) -> np.ndarray:
        """The inputs x_1, x_2 and x_3."""
        return np.array([[1, 0], self.far * _unit(self.first), [0, -1]])

    def network(self, turn: float, scale: float) -> Network:
        """The start."""
        lengths = scale * self.lengths
        units = np.array([_unit(self.first), _unit(turn), _unit(self.third)])
        return Network([lengths[:, None] * units, [lengths * [1, 1, -1]]])


def run_support(setting: Setting, seed: int) -> xr.Dataset:
    """The limits of three neurons on three samples, from starts of several sizes."""
    turns, scales = setting.turns, setting.scales
    data = Data(setting.samples, [1.0, 1.0, -1.0], "a far sample")
    ends = phuong_separable.class_margins(data.x, data.y)
    assert ends is not None
    shape = len(turns), len(scales)
    size, off, residual, certified = (np.zeros(shape) for _ in range(4))
    proofs = {}
    for at in np.ndindex(*shape):
        turn, scale = turns[at[0]], scales[at[1]]
        network = setting.network(turn, scale)
        end = limit(network, data, "exponential", optimality=False, show=False)
        long = np.linalg.norm(end.W, axis=1)
        size[at], residual[at] = long[1] / long[0], max(end.residuals.values())
        off[at], certified[at] = degrees_to(end.W[0], ends.plus), end.reached
        proofs[_named(turn, scale)] = end
    names = ("turn", "scale")
    found = xr.Dataset(
        {
            "size": (names, size),
            "off": (names, off),
            "residual": (names, residual),
            "certified": (names, certified),
            "pull": float(ends.support[1]),
        },
        {"turn": list(turns), "scale": list(scales)},
    )
    return with_certificates(found, seed, proofs)


def _named(turn: int, scale: float) -> str:
    """The name of a certificate."""
    return f"from {turn} degrees, scale {scale:g}"


def _unit(degrees: float) -> np.ndarray:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def draw_support(setting: Setting, runs: xr.Dataset) -> Figure:
    """The data and the starts; the length of the second neuron at the limit over the size of the start."""
    turns, far = setting.turns, setting.far
    with plot.style():
        figure, axes = plot.panels(2)
        left, right = axes[0]
        for degrees, colour in zip(turns, plot.colours(len(turns)), strict=True):
            left.annotate(
                "", 0.7 * far * _unit(degrees), (0, 0), arrowprops={"arrowstyle": "->", "color": colour}
            )
            line = runs.size.isel(seed=0).sel(turn=degrees)
            plot.simulation(
                right, setting.scales, line, f"{degrees}°", color=colour, linestyle="-", linewidth=0.7
            )
        for place, name in zip(setting.samples, ("$x_1$", "$x_2$", "$x_3$"), strict=True):
            left.plot(*place, "o", color=plot.PALETTE[1] if name == "$x_3$" else plot.INK, markersize=4)
            left.annotate(name, place, (5, -9 if name == "$x_3$" else 2), textcoords="offset points")
        edge = 0.8 * far * _unit(setting.first + 90)
        left.plot([0, edge[0]], [0, edge[1]], color=plot.GUIDE, linestyle="--", linewidth=0.8)
        left.set(xlim=(-0.85 * far, 0.3 * far), ylim=(-3, far + 3), xlabel="$x$", ylabel="$y$")
        left.set_title("(a) samples, and the starts of $w_2$")
        right.set(xscale="log", xlabel=r"size $\lambda$ of the start", ylabel=r"$|w_2| / |w_1|$ at the limit")
        right.set_title("(b) does the second neuron live?")
        right.legend(title="start of $w_2$", loc="lower left")
    return figure


_CERTIFIED = small_residuals()
_UNSUPPORTED = Check(
    "is x₂ a support vector of its class? 1 yes, 0 no", lambda runs: runs.pull, at_most(0.0, "it is not")
)


def _listed(numbers: Sequence[float]) -> str:
    return " and ".join(f"{number:g}" for number in numbers)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Who lives, and where the others end; of starts that are not run nothing is claimed."""
    shown = {
        "unsupported-vanishes": max(setting.turns) >= setting.beyond,
        "unsupported-lives": min(setting.scales) <= setting.small,
    }
    return tuple(claim for claim in _claims(setting) if shown.get(claim.id, True))


def _claims(setting: Setting) -> tuple[Claim, ...]:
    turns, scales = setting.turns, setting.scales
    largest, small = max(scales), [scale for scale in scales if scale <= setting.small]
    beyond = [turn for turn in turns if turn >= setting.beyond]
    ratio = setting.lengths[1] / setting.lengths[0]
    return (
        Claim(
            id="unsupported-vanishes",
            sentence="A neuron that sees a sample of its class, but no support vector, can vanish.",
            source="rankfall",
            metric=f"‖w₂‖/‖w₁‖ at the limit from λ = {largest:g}, starts at {_listed(beyond)} degrees",
            measure=lambda runs: runs["size"].sel(scale=largest)[..., runs.turn >= setting.beyond],
            expected=at_most(VANISHED, "shorter than this is none"),
            hypotheses=(_CERTIFIED, _UNSUPPORTED),
            proofs=tuple(_named(turn, largest) for turn in beyond),
            note="The pull of x₂ ends before the neuron has turned to x₁, which pulls for ever.",
        ),
        Claim(
            id="unsupported-lives",
            sentence="From a start that is small enough a neuron lives that sees no support vector.",
            source="rankfall, after Theorem 1",
            metric=f"‖w₂‖/‖w₁‖ at the limit from λ = {_listed(small)}, all starts",
            measure=lambda runs: runs["size"][..., runs.scale <= setting.small],
            expected=at_least(ratio / 10, f"a tenth of the ratio of the lengths at the start, {ratio:.3g}"),
            hypotheses=(_CERTIFIED, _UNSUPPORTED),
            proofs=tuple(_named(turn, scale) for turn in turns for scale in small),
        ),
        Claim(
            id="any-size",
            sentence="The neuron that sees x₁ and x₂ ends along the max-margin vector, at every size.",
            source="Theorem 1; beyond small starts rankfall",
            metric="angle of w₁ with u₊, degrees",
            measure=lambda runs: runs.off,
            expected=at_most(1e-5, "limits are known to 1e-10, and directions to the root of it"),
            hypotheses=(_CERTIFIED,),
            proofs=tuple(_named(turn, scale) for turn in turns for scale in scales),
        ),
    )


SUPPORT = Experiment(
    name="support",
    title="Who lives? A neuron that sees no support vector depends on the size of the start",
    setting=Setting(),
    simulation=run_support,
    picture=draw_support,
    statements=claims,
    cost=8.0,
    about=(
        "Ours: x₁ = (1, 0) and x₂, 20 long at 85 degrees, are positive, x₃ = (0, -1) is negative; the "
        "support vectors are x₁ and x₃. Of three balanced neurons the second sees x₂ alone, being at 100, "
        "150 or 174 degrees, and is the shortest. The start is scaled by λ; at λ = 1 no output exceeds 0.1."
    ),
)
