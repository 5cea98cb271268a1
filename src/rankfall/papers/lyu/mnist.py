"""Fig. 1 on MNIST: constant and loss-based steps, with a fully connected network."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.atomic import atomically
from rankfall.data import Data, mnist, subset
from rankfall.papers.lab import Check, Claim, Experiment, at_least, at_most, guide, near

CLASSES = 10
KINDS = ("constant", "loss-based")
KEPT = 30.0  # seconds between two checkpoints
PATIENCE = 20  # epochs tried for each that counts, before a run is given up
LAYERS, PAPER_EPOCHS, PAPER_LAYERS = 2, 10_000, 4


@dataclass(frozen=True)
class Setting:
    """Sizes are ours, since those of the paper take days; the steps are those of the authors' code."""

    load: Callable[[], Data] = mnist  # pixels from 0 to 1
    samples: int = 5000  # ours, equally many of each digit; in the paper all 60000
    width: int = 128  # ours: the paper's network is a convolutional one
    batch: int = 100  # the paper's, appendix K
    epochs: int = 200  # ours; 10000 in the paper
    records: int = 200  # epochs that are shown, evenly in their logarithm
    constant: float = 0.01  # the constant step, Fig. 1
    first: float = 0.1  # the first rate of loss-based steps, as in the authors' code
    up: float = 2 ** (1 / 5)  # after an epoch that lowers the loss, as in the authors' code
    down: float = 2 ** (1 / 10)  # what the rate is divided by after one that does not; the same code


def run_mnist(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Both kinds of steps from one start: log loss, normalised margin and test accuracy after the epochs."""
    data = subset(setting.load(), setting.samples, seed=0, balanced=True)
    made = [_descends(setting, data, kind, seed, place / f"{kind}.npz") for kind in KINDS]
    epochs = np.unique(np.geomspace(1, setting.epochs, setting.records).round().astype(int))
    rows = np.array([past[epochs - 1] for past in made])
    names = ("log_loss", "margin", "test_accuracy", "rate", "tries")
    arrays = {name: (("steps", "epoch"), rows[..., i]) for i, name in enumerate(names)}
    return xr.Dataset(arrays, {"steps": list(KINDS), "epoch": epochs}).assign(
        setting=("of", [setting.epochs / PAPER_EPOCHS, LAYERS / PAPER_LAYERS])
    )


class Weights(NamedTuple):
    """A two-layer ReLU network with a bias in the first layer only: homogeneous of order 2."""

    first: Any
    bias: Any
    second: Any

    def outputs(self, x: Any) -> Any:
        """One row a sample."""
        return jnp.maximum(x @ self.first.T + self.bias, 0.0) @ self.second.T


def _start(width: int, dim: int, seed: int) -> Weights:
    """He's start."""
    rng = np.random.default_rng(seed)
    first, second = (
        (rng.normal(size=(out, fan)) * np.sqrt(2 / fan)).astype(np.float32)
        for out, fan in ((width, dim), (CLASSES, width))
    )
    return Weights(first, np.zeros(width, np.float32), second)


def _gaps(outputs: Any, y: Any) -> Any:
    """The other outputs less the right one; -∞ in the place of the right one."""
    right = jnp.arange(outputs.shape[-1]) == y[:, None]
    return jnp.where(right, -jnp.inf, outputs - jnp.where(right, outputs, 0.0).sum(axis=1, keepdims=True))


def _log_losses(outputs: Any, y: Any) -> Any:
    """log of the cross-entropy log(1 + Σ e^gap) of each sample, which is log Σ e^gap where that is small."""
    inside = jax.scipy.special.logsumexp(_gaps(outputs, y), axis=1)
    return jnp.where(inside < -15.0, inside, jnp.log(jax.nn.softplus(jnp.maximum(inside, -15.0))))


@jax.jit
def _epoch(weights: Weights, x: Any, y: Any, order: Any, size: Any, frame: Any) -> Weights:
    """One epoch of SGD with the step `size` on the loss divided by e^frame.

    The gradient of the loss is that of its logarithm times the loss: nothing underflows.
    """

    def log_loss(w: Weights, batch: Any) -> Any:
        each = _log_losses(w.outputs(x[batch]), y[batch])
        return jax.scipy.special.logsumexp(each) - np.log(len(batch))

    def step(w: Weights, batch: Any) -> tuple[Weights, None]:
        value, slope = jax.value_and_grad(log_loss)(w, batch)
        moved = size * jnp.exp(value - frame)
        return jax.tree.map(lambda old, g: old - moved * g, w, slope), None

    return jax.lax.scan(step, weights, order)[0]


@jax.jit
def _state(weights: Weights, x: Any, y: Any, test_x: Any, test_y: Any) -> tuple[Any, Any, Any]:
    """log of the mean loss, normalised margin, and test accuracy."""
    outputs = weights.outputs(x)
    each = _log_losses(outputs, y)
    loss = jax.scipy.special.logsumexp(each) - np.log(len(y))
    norm2 = sum((leaf**2).sum() for leaf in weights)
    margin = -_gaps(outputs, y).max() / norm2
    return loss, margin, (weights.outputs(test_x).argmax(axis=1) == test_y).mean()


def _descends(setting: Setting, data: Data, kind: str, seed: int, file: Path) -> np.ndarray:
    """log loss, normalised margin, test accuracy, rate and tries after every epoch.

    Constant: the step is the rate. Loss-based: it is rate × (log 10 / loss after the epoch before); the rate
    grows after an epoch that lowers the loss, and shrinks after one that does not, which is taken back.
    """
    assert data.test is not None
    x, y, test = (
        jnp.asarray(data.x),
        jnp.asarray(data.y),
        (jnp.asarray(data.test.x), jnp.asarray(data.test.y)),
    )
    based = kind == KINDS[1]
    batch, epochs = setting.batch, setting.epochs
    steps = (setting.first, setting.up, setting.down) if based else (setting.constant,)
    inputs = (data.name, data.x.shape, float(data.x.sum(dtype=float)))
    settings = repr((kind, seed, *inputs, setting.width, batch, steps))
    weights, past, tries = _taken_up(setting, file, settings, data.dim, seed)
    rate = past[-1][3] if past else steps[0]
    now = past[-1][0] if past else np.log(np.log(CLASSES))
    written = time.monotonic()
    while len(past) < epochs:
        if tries > PATIENCE * epochs:
            raise ValueError(f"{kind} steps lower the loss no more after {len(past)} epochs: ask for fewer.")
        order = np.random.default_rng([seed, tries]).permutation(data.n)[: data.n // batch * batch]
        frame, size = (now, rate * np.log(CLASSES)) if based else (0.0, rate)
        tries += 1
        tried = _epoch(weights, x, y, order.reshape(-1, batch), np.float32(size), np.float32(frame))
        loss, margin, accuracy = (float(value) for value in _state(tried, x, y, *test))
        if based and not loss < now:
            rate /= setting.down
            continue
        weights, now, rate = tried, loss, rate * setting.up if based else rate
        past.append((loss, margin, accuracy, rate, float(tries)))
        if time.monotonic() - written > KEPT or len(past) == epochs:
            _keep(file, settings, weights, past)
            written = time.monotonic()
    return np.array(past)


def _keep(file: Path, settings: str, weights: Weights, past: list[tuple[float, ...]]) -> None:
    first, bias, second = map(np.asarray, weights)
    with atomically(file) as draft:
        np.savez(draft, settings=settings, past=np.array(past), first=first, bias=bias, second=second)


def _taken_up(
    setting: Setting, file: Path, settings: str, dim: int, seed: int
) -> tuple[Weights, list[tuple[float, ...]], int]:
    """Where the same run has come to before; the start if it has not."""
    if file.exists():
        with np.load(file, allow_pickle=False) as kept:
            if str(kept["settings"]) == settings and len(kept["past"]) <= setting.epochs:
                past = [tuple(map(float, row)) for row in kept["past"]]
                return Weights(*(kept[name] for name in Weights._fields)), past, int(past[-1][4])
    return _start(setting.width, dim, seed), [], 0


def _ratio(runs: xr.Dataset, name: str) -> xr.DataArray:
    end = runs[name].isel(epoch=-1)
    return end.sel(steps="loss-based") / end.sel(steps="constant")


def _straight(runs: xr.Dataset) -> xr.DataArray:
    """log(1/loss) of the loss-based steps at the end over that at half of the epochs."""
    logs = runs.log_loss.sel(steps="loss-based")
    half = int(np.abs(runs.epoch.values - runs.epoch.values[-1] / 2).argmin())
    return logs.isel(epoch=-1) / logs.isel(epoch=half)


def _margin(runs: xr.Dataset, steps: str) -> xr.DataArray:
    return runs.margin.sel(steps=steps).isel(epoch=-1)


def draw_mnist(setting: Setting, runs: xr.Dataset) -> Figure:
    """Loss, normalised margin and test accuracy over the epochs."""
    one = runs.isel(seed=0)
    with plot.style():
        figure, axes = plot.panels(3)
        for steps, colour in zip(KINDS, plot.PALETTE, strict=False):
            shown = one.sel(steps=steps)
            axes[0, 0].plot(one.epoch, -shown.log_loss / np.log(10), color=colour, label=f"{steps} steps")
            axes[0, 1].plot(one.epoch, shown.margin, color=colour)
            axes[0, 2].plot(one.epoch, 100 * shown.test_accuracy, color=colour)
        axes[0, 0].set(yscale="symlog", ylabel=r"$-\log_{10}$ loss", title="(a) loss", ylim=(0, None))
        axes[0, 0].legend(loc="upper left")
        axes[0, 1].set(
            ylabel=r"normalised margin $\bar\gamma$", title="(b) margin: positive once all are right"
        )
        guide(axes[0, 1], y=0)
        axes[0, 2].set(ylabel="test accuracy (%)", title="(c) test accuracy")
        for ax in axes[0]:
            ax.set(xscale="log", xlabel="epoch", xlim=(1, setting.epochs))
    return figure


THEIRS = Check(
    "epochs / 10000, and layers / 4",
    lambda runs: runs.setting,
    at_least(1.0, "the paper's epochs, and the layers of its convolutional network"),
)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Fig. 1: what the paper says of 10000 epochs, and what fewer show."""
    return (
        Claim(
            id="constant-steps-margin",
            sentence="With constant steps the normalised margin is 1.8e-4 after 10000 epochs.",
            source="ICLR, Fig. 1",
            metric=f"normalised margin at the end, step {setting.constant:g}",
            measure=lambda runs: _margin(runs, "constant"),
            expected=near(1.8e-4, 0.1, "the number in the text", relative=True),
            hypotheses=(THEIRS,),
            recorded="outside its hypotheses",
        ),
        Claim(
            id="tiny-loss",
            sentence="With loss-based steps the loss is below 1e-800 after 9000 epochs.",
            source="ICLR, Fig. 1",
            metric="log₁₀ of the loss at the end, loss-based",
            measure=lambda runs: runs.log_loss.sel(steps="loss-based").isel(epoch=-1) / np.log(10),
            expected=at_most(-800.0, "the number in the text"),
            hypotheses=(THEIRS,),
            recorded="outside its hypotheses",
        ),
        Claim(
            id="loss-based-steps-margin",
            sentence="With loss-based steps the normalised margin is 1.2e-3 after 10000 epochs.",
            source="ICLR, Fig. 1",
            metric="normalised margin at the end, loss-based",
            measure=lambda runs: _margin(runs, "loss-based"),
            expected=near(1.2e-3, 0.1, "the number in the text", relative=True),
            hypotheses=(THEIRS,),
            recorded="outside its hypotheses",
        ),
        Claim(
            id="larger-margin-mnist",
            sentence="After as many epochs, loss-based steps have a larger normalised margin.",
            source="rankfall, after Fig. 1",
            metric=f"normalised margin after {setting.epochs} epochs, loss-based − constant steps",
            measure=lambda runs: _margin(runs, "loss-based") - _margin(runs, "constant"),
            expected=at_least(0.0, "the order of the curves"),
            hypotheses=(
                Check(
                    f"normalised margin after {setting.epochs} epochs, constant steps",
                    lambda runs: _margin(runs, "constant"),
                    at_least(0.0, "all images are right: before, a margin says little"),
                ),
            ),
            recorded="outside its hypotheses",
            note="In the paper the factor is 7. Here constant steps have not yet put all images right.",
        ),
        Claim(
            id="faster-loss-mnist",
            sentence="With loss-based steps the loss falls by many orders of magnitude more.",
            source="rankfall, after Fig. 1",
            metric=f"log(1/loss) after {setting.epochs} epochs, loss-based / constant steps",
            measure=lambda runs: _ratio(runs, "log_loss"),
            expected=at_least(10.0, "an order of magnitude in the exponent, our reading of it"),
        ),
        Claim(
            id="proportional-log-loss",
            sentence="With loss-based steps log(1/loss) grows at least in proportion to the epochs.",
            source="rankfall, after Fig. 1",
            metric="log(1/loss) after all epochs / after half of them, loss-based",
            measure=_straight,
            expected=at_least(1.9, "2 in proportion, and a little less while the first epochs still count"),
            recorded="not reproduced",
            note="A little less: like the power 0.86 of the epochs. Two of three epochs are taken back.",
        ),
    )


MNIST = Experiment(
    name="1",
    title="MNIST: constant and loss-based steps",
    setting=Setting(),
    simulation=run_mnist,
    picture=draw_mnist,
    statements=claims,
    needs="mnist",
    cost=50.0,
    about=(
        "The paper trains a convolutional network of four layers on all of MNIST for 10000 epochs: days on a "
        "laptop. Here are the authors' steps on 5000 of the images, 500 of each digit, with two layers: 128 "
        "ReLU neurons, biases in the first layer only, 200 epochs of SGD with batches of 100, He's start, "
        "pixels from 0 to 1; constant steps of 0.01, and loss-based ones (first rate 0.1, times 2^(1/5) "
        "after an epoch that lowers the loss; one that does not is taken back, and the rate divided by "
        "2^(1/10)). In float32, with the logarithm of the loss. As in the authors' code, epochs that are "
        "taken back do not count."
    ),
)
