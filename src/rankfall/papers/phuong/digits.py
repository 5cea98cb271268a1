"""The digits 0 and 1 of MNIST: do the neurons of a sign end along the max-margin vector of its class?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.data import Data, centre, hard_margin, mnist, pair
from rankfall.dynamics import descent
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.lab import Check, Claim, Experiment, Verdict, at_least, at_most, finished, guide
from rankfall.papers.phuong.separable import SIGNS, degrees_to
from rankfall.trajectory import Trajectory

INPUTS: dict[str, Callable[[Data], Data]] = {"pixels": lambda data: data, "centred": centre}
ENDS = ("class sum", "max margin of the class", "max margin of all")


def _data() -> Data:
    """Zeros (+1) and ones (-1), pixels from 0 to 1."""
    return pair(mnist(), 0, 1)


@dataclass(frozen=True)
class Setting:
    """The numbers of the paper's experiment, as others quote it; those that they do not name are ours."""

    load: Callable[[], Data] = _data
    width: int = 100  # ours
    factor: float = 0.05  # of all initial weights, as quoted
    batch: int = 50  # as quoted
    step: float = 0.1  # as quoted
    epochs: int = 500  # as quoted
    records: int = 60  # epochs that are recorded, evenly in their logarithm


def run_digits(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """SGD on the pixels as they are, and less their mean."""
    digits = setting.load()
    made = [_follows(setting, name, change(digits), seed, place) for name, change in INPUTS.items()]
    return xr.concat(made, dim=xr.Variable("inputs", list(INPUTS)))


def _follows(setting: Setting, name: str, data: Data, seed: int, place: Path) -> xr.Dataset:
    """One run: the directions of both signs, the singular values of both blocks, and the data's geometry."""
    per_epoch = -(-data.n // setting.batch)
    epochs = np.unique(np.geomspace(1, setting.epochs, setting.records).round().astype(int))
    run = descent(
        _network(setting, data.dim, seed),
        data,
        "logistic",
        setting.step,
        epochs=setting.epochs,
        batch=setting.batch,
        seed=seed,
        measures=["weights", "stable_rank", "test_accuracy", "log_loss"],
        record=[0, *(per_epoch * epochs)],
        checkpoint=place / f"{name}.nc",
    )
    return (
        _measured(setting.width, finished(run), data).assign_coords(epoch=[0, *epochs]).assign(_pairs(data))
    )


def _network(setting: Setting, dim: int, seed: int) -> Network:
    """PyTorch's default start without biases, uniform within 1/√in, times the factor."""
    rng = np.random.default_rng(seed)
    shapes = ((setting.width, dim), (1, setting.width))
    weights = [setting.factor / np.sqrt(fan) * rng.uniform(-1, 1, (out, fan)) for out, fan in shapes]
    return Network(weights).astype(np.float32)


def _measured(width: int, run: Trajectory, data: Data) -> xr.Dataset:
    x, y = data.x.astype(np.float64), data.y
    theta = run["weights"].values.astype(np.float64)
    w, a = theta[:, : width * data.dim].reshape(len(theta), width, -1), theta[:, width * data.dim :]
    angles, second = [], []
    everything = _widest(x, y)
    for sign in SIGNS:
        own = x[y == sign]
        total = own.sum(axis=0)
        alone = _widest(own, np.ones(len(own)))
        sums = np.einsum("tj,tjd->td", np.maximum(sign * a, 0.0), w)
        ends = (total / np.linalg.norm(total), alone, sign * everything)
        angles.append([degrees_to(sums, unit) for unit in ends])
        blocks = [now[sign * weight > 0] for now, weight in zip(w, a, strict=True)]
        second.append([Spectrum.of(block).share(2) for block in blocks])
    return xr.Dataset(
        {
            "angle": (("sign", "of", "epoch"), np.array(angles)),
            "second": (("sign", "epoch"), np.array(second)),
            "stable_rank": ("epoch", run["stable_rank"].values.reshape(len(theta))),
            "test_accuracy": ("epoch", run["test_accuracy"].values),
            "log_loss": ("epoch", run["log_loss"].values),
        },
        {"sign": list(SIGNS), "of": list(ENDS)},
    )


def _widest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unit vector u with the largest least y_i ⟨u, x_i⟩; y may be one sign only."""
    signs = np.resize([1.0, -1.0], len(y))  # only y x counts: every second sample mirrored, label and all
    solved = hard_margin(Data((signs * y)[:, None] * x, signs))
    assert solved is not None  # zeros and ones can be told apart by a line
    assert solved.w is not None  # as always where the inputs are known
    return np.asarray(solved.w / np.linalg.norm(solved.w))


def _pairs(data: Data) -> dict[str, object]:
    """The share of the pairs that violate orthogonal separability, within the classes and between them."""
    z = data.y[:, None] * data.x
    first, second = (z[data.y == sign] for sign in SIGNS)
    shares = []
    for ones, others, wrong in (
        (first, first, np.less_equal),
        (second, second, np.less_equal),
        (first, second, np.less),  # across the classes a right angle is allowed
    ):
        counts = [int(wrong(part @ others.T, 0).sum()) for part in np.array_split(ones, 8)]
        shares.append(sum(counts) / (len(ones) * len(others)))
    return {"violating": ("pair", np.array(shares)), "pair": ["0 and 0", "1 and 1", "0 and 1"]}


def _last(runs: xr.Dataset, name: str, inputs: str) -> xr.DataArray:
    return runs[name].sel(inputs=inputs).isel(epoch=-1)


def _angle(runs: xr.Dataset, inputs: str, of: str) -> xr.DataArray:
    return _last(runs, "angle", inputs).sel(of=of)


def draw_digits(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each kind of inputs: the angles, the stable rank, and the second singular values."""
    with plot.style():
        figure, axes = plot.panels(3, len(INPUTS))
        for row, inputs in zip(axes, INPUTS, strict=True):
            one = runs.isel(seed=0).sel(inputs=inputs).isel(epoch=slice(1, None))
            for sign, colour in zip(SIGNS, plot.PALETTE, strict=False):
                digit = "0" if sign > 0 else "1"
                for of, line in zip(ENDS, (":", "--", "-"), strict=True):
                    name = f"{digit}s: {of}" if inputs == "pixels" else None
                    row[0].plot(one.epoch, one.angle.sel(sign=sign, of=of), line, color=colour, label=name)
                row[2].plot(one.epoch, one.second.sel(sign=sign), color=colour)
            row[0].set(ylabel="angle (degrees)", title=f"{inputs}: where neurons point", ylim=(0, None))
            row[1].plot(one.epoch, one.stable_rank, color=plot.PALETTE[2])
            row[1].set(ylabel="stable rank of $W$", title="stable rank", ylim=(1, 1.4))
            guide(row[2], y=0.1)
            row[2].set(ylabel=r"$\sigma_2 / \sigma_1$", title="singular values of each sign", ylim=(0, 0.45))
            for ax in row:
                ax.set(xscale="log", xlabel="epoch")
        figure.legend(loc="outside lower center", ncols=len(ENDS), title="angle of the neurons of")
    return figure


def _separable(inputs: str) -> Check:
    return Check(
        "share of pairs that violate orthogonal separability, the most of three kinds",
        lambda runs: runs.violating.sel(inputs=inputs).max("pair"),
        at_most(0.0, "none: the hypothesis of Theorem 1"),
    )


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorem 1 on digits, as far as it reaches."""
    return (*_on_directions(), *_on_pixels())


def _on_directions() -> tuple[Claim, ...]:
    """Where the neurons point, on pixels and on centred digits."""
    return (
        Claim(
            id="digits-one-direction",
            sentence="After training, the neurons of one sign point in one direction.",
            source="rankfall, after the paper's experiment",
            metric="second singular value of W₊ and of W₋ / the first, pixels",
            measure=lambda runs: _last(runs, "second", "pixels"),
            expected=at_most(0.1, "a tenth: our reading, since training is finite"),
        ),
        Claim(
            id="digits-class-margin",
            sentence="After training, the neurons of a sign point to the max-margin vector of its class.",
            source="Theorem 1",
            metric="angle (degrees) of Σ |aⱼ| wⱼ with the max-margin vector of its class, each sign, pixels",
            measure=lambda runs: _angle(runs, "pixels", "max margin of the class"),
            expected=at_most(25.8, "a cosine of 0.9: our reading, since training is finite"),
            hypotheses=(_separable("pixels"),),
            recorded=Verdict.OUTSIDE,
            note="Pixels are not negative, so zeros and ones are not orthogonally separable.",
        ),
        Claim(
            id="centred-class-margin",
            sentence="On centred digits the neurons of a sign point to the max-margin vector of its class.",
            source="Theorem 1, on centred digits",
            metric="angle (degrees) of Σ |aⱼ| wⱼ with the max-margin vector of its class, each sign, centred",
            measure=lambda runs: _angle(runs, "centred", "max margin of the class"),
            expected=at_most(25.8, "a cosine of 0.9: our reading, since training is finite"),
            hypotheses=(_separable("centred"),),
            recorded=Verdict.OUTSIDE,
        ),
        Claim(
            id="centred-one-direction",
            sentence="On centred digits too the neurons of one sign point in one direction.",
            source="rankfall: the other reading of the inputs",
            metric="second singular value of W₊ and of W₋ / the first, centred",
            measure=lambda runs: _last(runs, "second", "centred"),
            expected=at_most(0.1, "a tenth, as for the pixels"),
            recorded=Verdict.NOT_REPRODUCED,
            note="They do in the first epochs, and part as training goes on.",
        ),
    )


def _on_pixels() -> tuple[Claim, ...]:
    """Why the theorem does not reach pixels."""
    return (
        Claim(
            id="pixels-not-separable",
            sentence="As pixels all images agree: almost every pair of a 0 and a 1 violates the hypothesis.",
            source="rankfall",
            metric="share of the pairs of a 0 and a 1 with ⟨xᵢ, xⱼ⟩ > 0, pixels",
            measure=lambda runs: runs.violating.sel(inputs="pixels", pair="0 and 1"),
            expected=at_least(0.99, "nearly all: no pixel is negative"),
            form="{:.4f}",
        ),
        Claim(
            id="common-margin-vector",
            sentence="On pixels neurons end nearer to the max-margin vector of all images than of a class.",
            source="rankfall",
            metric="angle with the vector of all images / with that of the class, at the end, pixels",
            measure=lambda runs: (
                _angle(runs, "pixels", "max margin of all")
                / _angle(runs, "pixels", "max margin of the class")
            ),
            expected=at_most(1.0, "nearer to the one than to the other"),
        ),
    )


DIGITS = Experiment(
    name="digits",
    title="The digits 0 and 1 of MNIST",
    setting=Setting(),
    simulation=run_digits,
    picture=draw_digits,
    statements=claims,
    needs="mnist",
    cost=150.0,
    about=(
        "As others quote the paper: the digits 0 and 1, a ReLU network with all initial weights scaled by "
        "0.05, stochastic gradient descent with batches of 50 and steps of 0.1, for 500 epochs. Ours: two "
        "layers, 100 neurons, no biases, PyTorch's default start before the scaling, the mean logistic loss, "
        "float32, and both the pixels from 0 to 1 and the same less their mean."
    ),
)
