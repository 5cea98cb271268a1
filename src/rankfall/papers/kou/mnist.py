"""MNIST: the stable rank for five initial scales, ReLU and leaky ReLU."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, mnist
from rankfall.dynamics import descent
from rankfall.network import Network
from rankfall.papers.kou.network import of_all
from rankfall.papers.lab import Claim, Experiment, Verdict, at_least, at_most, finished

CLASSES = 10


def _data() -> Data:
    """All of MNIST, with the mean and the deviation of its pixels that are customary."""
    return mnist(0.1307, 0.3081)


@dataclass(frozen=True)
class Setting:
    """The numbers as Sun and Tran tell them."""

    width: int = 1000
    sigmas: tuple[float, ...] = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3)  # of the first layer's start, ascending
    slopes: tuple[float, ...] = (0.0, 0.01)
    batch: int = 64
    step: float = 0.1
    epochs: int = 10
    early_steps: tuple[int, ...] = (1, 3, 10, 30, 100, 300)  # ours: of the first epoch, recorded too
    load: Callable[[], Data] = _data


def run_mnist(setting: Setting, seed: int, folder: Path) -> xr.Dataset:
    """Each initial scale with each slope: stable rank and test accuracy."""
    data = setting.load()
    epoch = -(-data.n // setting.batch)
    early = [step for step in setting.early_steps if step < epoch]
    steps = [0, *early, *range(epoch, setting.epochs * epoch + 1, epoch)]
    made = []
    for slope in setting.slopes:
        run = descent(
            [_network(data.dim, setting.width, slope, value, seed) for value in setting.sigmas],
            data,
            "cross_entropy",
            setting.step,
            epochs=setting.epochs,
            batch=setting.batch,
            seed=seed,
            measures=["stable_rank", "test_accuracy"],
            record=steps,
            along={"value": setting.sigmas},
            checkpoint=folder / f"slope {slope:g}.nc",
        )
        made.append(finished(run).dataset[["stable_rank", "test_accuracy"]])
    kept = xr.concat(made, dim=xr.Variable("slope", list(setting.slopes)))
    first = kept.stable_rank.isel(matrix=0) if "matrix" in kept.stable_rank.dims else kept.stable_rank
    arrays = {"stable_rank": first, "test_accuracy": kept.test_accuracy}
    return xr.Dataset({name: array.drop_vars("matrix", errors="ignore") for name, array in arrays.items()})


def _network(dim: int, width: int, slope: float, sigma: float, seed: int) -> Network:
    """A first layer N(0, σ²) and PyTorch's default for the second, uniform within 1/√m; both are trained."""
    rng = np.random.default_rng(seed)
    first = rng.normal(0.0, sigma, (width, dim))
    second = rng.uniform(-1, 1, (CLASSES, width)) / np.sqrt(width)
    return Network([first, second], slope=slope).astype(np.float32)


def _ends(runs: xr.Dataset) -> xr.DataArray:
    return runs.stable_rank.isel(step=-1).transpose("seed", "slope", "value")


def _least(runs: xr.Dataset) -> xr.DataArray:
    return runs.stable_rank.min("step", skipna=False).transpose("seed", "slope", "value")


def _fall(runs: xr.Dataset) -> xr.DataArray:
    return (_least(runs) / runs.stable_rank.isel(step=0)).sel(value=runs.value.min())


def draw_mnist(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each activation: the stable rank on the left, the test accuracy on the right."""
    slopes, sigmas = setting.slopes, setting.sigmas
    one = runs.isel(seed=0)
    with plot.style():
        figure, axes = plot.panels(2, len(slopes))
        for row, slope in zip(axes, slopes, strict=True):
            for value, colour in zip(sigmas, plot.colours(len(sigmas)), strict=True):
                shown = one.sel(slope=slope, value=value)
                row[0].plot(one.step, shown.stable_rank, color=colour, label=f"{value:g}")
                row[1].plot(one.step, 100 * shown.test_accuracy, color=colour)
            title = f"leaky ReLU, slope {slope:g}" if slope else "ReLU"
            row[0].set(yscale="log", ylabel="stable rank of $W_1$", title=title)
            row[0].set_yticks([3, 10, 30, 100, 200], labels=["3", "10", "30", "100", "200"])
            row[0].minorticks_off()
            row[1].set(ylabel="test accuracy (%)", title="test accuracy")
            for ax in row:
                ax.set(xscale="symlog", xlabel="step", xlim=(0, None))
                ax.set_xticks([0, 1, 10, 100, 1000], labels=["0", "1", "10", "100", "1000"])
        axes[0, 0].legend(title=r"$\sigma_0$", ncols=2)
    return figure


# --- the claims -------------------------------------------------------------------------------------------

COMPARING = ("mnist-scale-order", "mnist-order-lasts", "mnist-forgets-start")


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What the stable rank does; initial scales are compared where there are several."""
    several = len(setting.sigmas) > 1
    return tuple(claim for claim in _claims(setting) if several or claim.id not in COMPARING)


def _claims(setting: Setting) -> tuple[Claim, ...]:
    sigmas, end = setting.sigmas, f"after {setting.epochs} epochs"
    order = f"the order of the curves, {of_all(setting.slopes)}"
    return (
        Claim(
            id="mnist-scale-order",
            sentence="Smaller initial weights make the stable rank fall lower.",
            source="rankfall, after the paper's experiments on MNIST",
            metric="smallest step of the least stable rank of a run from one σ₀ to the next larger one",
            measure=lambda runs: _least(runs).diff("value").min("value"),
            expected=at_least(0.0, order),
            note="The least comes within the first hundred steps, not at the end.",
        ),
        Claim(
            id="mnist-drastic-fall",
            sentence="From the smallest start the stable rank falls drastically.",
            source="rankfall, after the paper's experiments on MNIST",
            metric="least stable rank of W / that at the start, smallest σ₀",
            measure=_fall,
            expected=at_most(0.1, "falls by an order of magnitude, our reading of it"),
        ),
        Claim(
            id="mnist-order-lasts",
            sentence=f"The order lasts: smaller initial weights have a lower stable rank {end}.",
            source="rankfall",
            metric=f"smallest step of the stable rank {end} from one σ₀ to the next larger one",
            measure=lambda runs: _ends(runs).diff("value").min("value"),
            expected=at_least(0.0, order),
            recorded=Verdict.NOT_REPRODUCED,
        ),
        Claim(
            id="mnist-forgets-start",
            sentence=f"{end.capitalize()} the stable rank has forgotten the size of the start.",
            source="rankfall",
            metric=f"largest stable rank {end} among all σ₀ / the smallest",
            measure=lambda runs: _ends(runs).max("value") / _ends(runs).min("value"),
            expected=at_most(
                1.1, f"a tenth, where the sizes differ by a factor of {max(sigmas) / min(sigmas):g}"
            ),
            form="{:.4f}",
            note="Beside what the second layer, PyTorch's default, makes of them all starts are small.",
        ),
        Claim(
            id="mnist-rises-again",
            sentence="The stable rank rises again once it has fallen.",
            source="rankfall",
            metric=f"stable rank {end} / its least along the run, the least of all σ₀",
            measure=lambda runs: (_ends(runs) / _least(runs)).min("value"),
            expected=at_least(1.5, "by half at least: beyond the noise of SGD"),
            form="{:.2f}",
        ),
    )


MNIST = Experiment(
    name="mnist",
    title="MNIST: stable rank for five initial scales, ReLU and leaky ReLU",
    setting=Setting(),
    simulation=run_mnist,
    picture=draw_mnist,
    statements=claims,
    needs="mnist",
    cost=240.0,
    about=(
        "1000 neurons, SGD with batches of 64 and the step 0.1 for 10 epochs, σ₀ from 1e-5 to 1e-3, ReLU and "
        "the slope 0.01: the setting as Sun and Tran tell it. Ours: ten outputs with the cross-entropy, no "
        "biases, PyTorch's default start for the second layer, both layers trained, pixels standardised by "
        "0.1307 and 0.3081, float32."
    ),
)
