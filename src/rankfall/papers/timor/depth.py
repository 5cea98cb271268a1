"""Theorems 4 and 5: the layers of deep networks of least norm are near to low rank."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.optimize import minimize

from rankfall import plot
from rankfall.measure import Spectrum
from rankfall.papers.lab import Check, Claim, Experiment, at_least, at_most
from rankfall.theory.mathematics import interpolation_bound, margin_bound

SHALLOW = 2  # the depth of the network that is made deeper


class Problem(StrEnum):
    """What the networks of least norm must do."""

    INTERPOLATION = "interpolation"
    MARGIN = "margin"


@dataclass(frozen=True)
class Setting:
    """The theorems are for any depths; all of these are ours."""

    depths: tuple[int, ...] = (2, 3, 4, 6)
    searches: int = 4  # local searches for each network of least norm
    iterations: int = 300  # the most that a search takes

    @property
    def all_depths(self) -> tuple[int, ...]:
        """The depths in order; the bounds rest on the network of depth 2, so it is always among them."""
        return tuple(sorted({SHALLOW, *self.depths}))


def run_depth(setting: Setting, seed: int) -> xr.Dataset:
    """Networks of least norm, two neurons wide, of several depths: their ratios and norms, and the bounds."""
    rng = np.random.default_rng(seed)
    found = [_least_norms(setting, rng, problem) for problem in Problem]
    return xr.concat(found, dim=xr.Variable("problem", list(Problem)))


def _least_norms(setting: Setting, rng: np.random.Generator, problem: Problem) -> xr.Dataset:
    x, y, teacher = _problem(rng, problem)
    bound = margin_bound if problem is Problem.MARGIN else interpolation_bound
    shallow, rows = teacher, []
    for depth in setting.all_depths:
        start = _lengthened(shallow, depth, problem)
        found = _layers(_least(setting, x, y, start, depth, problem, rng), depth)
        norms = np.array([np.linalg.norm(w) for w in found])
        if depth == SHALLOW:
            shallow, norm = found, float(norms.max())
        ratio = np.mean([Spectrum.of(w).stable_rank ** -0.5 for w in found])  # of |W|_2 / |W|_F
        longer = norms @ norms / (start @ start)
        rows.append((ratio, bound(norm, 2, depth), _printed(norm, depth), longer))
    table = np.array(rows).T
    arrays = {name: ("depth", table[i]) for i, name in enumerate(("ratio", "bound", "printed", "longer"))}
    return xr.Dataset(arrays, {"depth": list(setting.all_depths)})


def _printed(norm: float, depth: int) -> float:
    """The bound of Theorem 5 as printed, for k = 2."""
    return float(np.sqrt(0.5) * (np.sqrt(2) / norm) ** (2 / depth) * np.sqrt(depth / (depth + 1)))


def _problem(rng: np.random.Generator, problem: Problem) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Three unit inputs, targets that a teacher of two neurons gives, and this teacher."""
    margin = problem is Problem.MARGIN
    while True:
        turns, w, v = rng.uniform(0, 2 * np.pi, 3), rng.normal(size=(2, 2)), rng.normal(size=2)
        x = np.stack([np.cos(turns), np.sin(turns)], axis=1)
        if margin:  # a linear teacher
            w, v = np.stack([w[0], -w[0]]), np.array([1.0, -1.0])
        f = np.maximum(x @ w.T, 0) @ v
        proper = f.min() < 0 < f.max() if margin else f.min() > 0
        if proper and np.abs(f).min() > 0.1 * np.abs(f).max():
            size = np.abs(f).min() if margin else f.max()
            return x, np.sign(f) if margin else f / size, [w, v[None] / size]


def _layers(theta: np.ndarray, depth: int) -> list[np.ndarray]:
    return [*theta[:-2].reshape(depth - 1, 2, 2), theta[-2:].reshape(1, 2)]


def _lengthened(two: list[np.ndarray], depth: int, problem: Problem) -> np.ndarray:
    """The same outputs with more layers, all of one norm: through (f, -f), or through f if it is positive."""
    w, v = two
    back = -1.0 if problem is Problem.MARGIN else 0.0
    passed = [np.vstack([v, back * v]), *[np.diag([1.0, -back])] * (depth - 3), np.array([[1.0, back]])]
    return _of_one_norm([w, *passed] if depth > 2 else two)


def _of_one_norm(layers: list[np.ndarray]) -> np.ndarray:
    """All weights in one vector; the layers are given one norm, which leaves the outputs as they are."""
    norms = np.array([np.linalg.norm(layer) for layer in layers])
    one = np.exp(np.log(norms).mean())
    return np.concatenate([one / n * layer.ravel() for layer, n in zip(layers, norms, strict=True)])


def _outputs(theta: np.ndarray, depth: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f(x) and its derivatives by all weights."""
    layers, hidden = _layers(theta, depth), [x]
    for w in layers[:-1]:
        hidden.append(np.maximum(hidden[-1] @ w.T, 0))
    back, rows = np.repeat(layers[-1], len(x), axis=0), [hidden[-1]]
    for w, below, above in zip(layers[-2::-1], hidden[-2::-1], hidden[:0:-1], strict=True):
        back = back * (above > 0)
        rows.append((back[:, :, None] * below[:, None, :]).reshape(len(x), -1))
        back = back @ w
    return hidden[-1] @ layers[-1][0], np.hstack(rows[::-1])


def _least(
    setting: Setting,
    x: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    depth: int,
    problem: Problem,
    rng: np.random.Generator,
) -> np.ndarray:
    """The shortest network that several local searches find, `start` itself if none is better."""
    signs = y if problem is Problem.MARGIN else np.ones(len(y))
    offset = np.ones(len(y)) if problem is Problem.MARGIN else y

    def misses(t: np.ndarray) -> np.ndarray:
        return np.asarray(signs * _outputs(t, depth, x)[0] - offset)

    constraint = {
        "type": "ineq" if problem is Problem.MARGIN else "eq",
        "fun": misses,
        "jac": lambda t: signs[:, None] * _outputs(t, depth, x)[1],
    }
    options, best = {"maxiter": setting.iterations, "ftol": 1e-12}, start
    for size in np.linspace(0, 0.5, setting.searches):
        begin = start + size * rng.normal(size=start.shape)
        end = minimize(lambda t: t @ t / 2, begin, jac=lambda t: t, constraints=constraint, options=options).x
        off = -misses(end).min() if problem is Problem.MARGIN else np.abs(misses(end)).max()
        if off < 1e-7 and end @ end < best @ best:
            best = end
    return _of_one_norm(_layers(best, depth))


def _gain(runs: xr.Dataset, problem: Problem) -> xr.DataArray:
    """What the mean ratio gains from the smallest depth to the largest."""
    ratio = runs.ratio.sel(problem=problem)
    return ratio.isel(depth=-1) - ratio.isel(depth=0)


def draw_depth(setting: Setting, runs: xr.Dataset) -> Figure:
    """The mean ratio over the depth in both problems, and the bounds, for each seed."""
    depths = setting.all_depths
    names = {
        Problem.INTERPOLATION: "(a) interpolation, Theorem 4",
        Problem.MARGIN: "(b) margin 1, Theorem 5",
    }
    with plot.style():
        figure, axes = plot.panels(2)
        for ax, (problem, title) in zip(axes[0], names.items(), strict=True):
            here = runs.sel(problem=problem)
            for i in range(here.sizes["seed"]):
                one = here.isel(seed=i)
                ax.plot(depths, one.bound, color=plot.GUIDE, linewidth=0.5, label=None if i else "bounds")
                near_by = np.array(depths) + 0.012 * (i - here.sizes["seed"] / 2)
                plot.simulation(
                    ax, near_by, one.ratio, None if i else "found", color=plot.PALETTE[0], alpha=0.7
                )
            end = 1.0 if problem is Problem.INTERPOLATION else np.sqrt(0.5)
            plot.theory(ax, depths, [end] * len(depths), "bound for infinite depth", linestyle="--")
            ax.set(xlabel="depth $k'$", ylim=(0.15, 1.03), title=title, xticks=depths)
            ax.set_ylabel(r"mean of $|W_l|_2 / |W_l|_F$")
        axes[0, 1].legend(loc="lower right")
    return figure


_SHORT = Check(
    "squared norm / that of the shallow network made deeper",
    lambda runs: runs.longer,
    at_most(1 + 1e-6, "a network of least norm is no longer than this one"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorems 4 and 5, and what depth does."""
    return (*_on_bounds(setting), *_on_depth(setting))


def _on_bounds(setting: Setting) -> tuple[Claim, ...]:
    """Theorems 4 and 5."""
    shallow, deep = setting.all_depths[0], setting.all_depths[-1]
    over = f"smallest difference of the mean ratio and the bound, depths k' from {shallow} to {deep}, k = 2"
    return (
        Claim(
            id="interpolation-bound",
            sentence="In interpolation the mean of ‖W‖₂/‖W‖F over the layers is at least (1/B)^(k/k').",
            source="Theorem 4",
            metric=over,
            measure=lambda runs: (runs.ratio - runs.bound).sel(problem=Problem.INTERPOLATION).min("depth"),
            expected=at_least(-1e-6, "the searches meet the targets to 1e-7"),
            hypotheses=(_SHORT,),
        ),
        Claim(
            id="margin-bound",
            sentence="With margins of 1 the mean of ‖W‖₂/‖W‖F is at least (1/√2) (√2/B)^(k/k') √(k'/(k'+1)).",
            source="Theorem 5",
            metric=over,
            measure=lambda runs: (runs.ratio - runs.printed).sel(problem=Problem.MARGIN).min("depth"),
            expected=at_least(-1e-6, "the searches keep the margins to 1e-7"),
            hypotheses=(_SHORT,),
        ),
        Claim(
            id="sharper-margin-bound",
            sentence="The last factor of the bound of Theorem 5 can be 2^(-1/2k'), which is larger.",
            source="rankfall, after Theorem 5",
            metric="smaller of: mean ratio - new bound, new bound - printed bound; all depths",
            measure=lambda runs: (
                np.minimum(runs.ratio - runs.bound, runs.bound - runs.printed)
                .sel(problem=Problem.MARGIN)
                .min("depth")
            ),
            expected=at_least(-1e-6, "the searches keep the margins to 1e-7"),
            hypotheses=(_SHORT,),
        ),
    )


def _on_depth(setting: Setting) -> tuple[Claim, ...]:
    """What depth does, where there is more than one."""
    shallow, deep = setting.all_depths[0], setting.all_depths[-1]
    if deep == shallow:
        return ()
    gain = f"mean ratio at depth {deep} - mean ratio at depth {shallow}"
    return (
        Claim(
            id="depth-towards-rank-one",
            sentence="Depth takes interpolating networks of least norm nearer to rank one.",
            source="after Theorem 4",
            metric=gain,
            measure=lambda runs: _gain(runs, Problem.INTERPOLATION),
            expected=at_least(-1e-6, "the searches meet the targets to 1e-7"),
        ),
        Claim(
            id="depth-from-rank-one",
            sentence="Depth takes classifying networks of least norm away from rank one.",
            source="rankfall",
            metric=f"{gain}, margins of 1",
            measure=lambda runs: _gain(runs, Problem.MARGIN),
            expected=at_most(0.0, "away: in every draw"),
            note=(
                "Both signs must be passed on, by two neurons: a layer that does so with equal strength has "
                "the ratio 1/√2, which is what the bound of Theorem 5 tends to."
            ),
        ),
    )


DEPTH = Experiment(
    name="depth",
    title="Networks of least norm: how near to rank one are their layers?",
    setting=Setting(),
    simulation=run_depth,
    picture=draw_depth,
    statements=claims,
    seeds=20,
    cost=0.6,
    about=(
        "Three random unit inputs in the plane; interpolation of targets up to 1 that a teacher of two "
        "neurons gives, or margins of 1 for the labels of a linear teacher. Networks two neurons wide, of "
        "depth 2 to 6; the shortest that four local searches find stands for the one of least norm, with its "
        "layers scaled to one norm. There is no certificate that none is shorter, but the bounds hold for "
        "every such network that is no longer than the shallow one made deeper, which is checked. B is the "
        "norm of the layers found at depth 2."
    ),
)
