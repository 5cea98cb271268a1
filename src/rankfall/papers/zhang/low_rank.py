"""A linear and a ReLU network from the same small weights: how they are trained, measured and pictured.

The inputs come with their mirror images, the target is w·x. What is predicted: docs/theory/zhang_deep.md.
"""

import warnings
from dataclasses import dataclass

import diffrax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from rankfall.data import Data
from rankfall.dynamics import FlowWarning, Until, flow
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.lab import finished
from rankfall.theory.mathematics import outside

NETWORKS = {"linear": 1.0, "ReLU": 0.0}  # and their slopes


@dataclass(frozen=True)
class PairSetting:
    """What the experiments on deep networks share. The numbers that have no source are ours."""

    dim: int = 20  # workshop, Appendix G
    left: float = 1e-6  # the part of the loss at which a run ends
    rtol: float = 1e-4  # the tolerance of the flow
    latest: float = 1e5  # a time long after every run has ended
    probes: int = 1000  # inputs off the sample
    values: int = 5  # leading singular values that are kept: claims speak of three

    def __post_init__(self) -> None:
        """Refuse what claims could not be judged on."""
        if self.values < 3:
            raise ValueError(f"values must be at least 3; {self.values} is not.")
        if not 0 < self.left < 1:
            raise ValueError(f"left must be between 0 and 1, such as 1e-6; {self.left:g} is not.")

    @property
    def unlearned(self) -> float:
        """The part of the target that is left to learn at the end."""
        return float(np.sqrt(self.left))


def pair(setting: PairSetting, data: Data, start: Network, times: np.ndarray, layers: int) -> xr.Dataset:
    """Follow the flow of both until the part `left` of the loss is left, with its values at `times`; measure.

    Along "layer" there are `layers` entries, along "middle" two fewer: NaN where a network is less deep.
    """
    first = float(np.mean(data.y**2) / 2)
    networks, curves = {}, {}
    for name, slope in NETWORKS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlowWarning)  # sticking to kinks costs time, not accuracy
            run = flow(
                Network(start.weights, slope=slope),
                data,
                "square",
                Until(time=setting.latest, loss=setting.left * first),
                rtol=setting.rtol,
                measures=["loss"],
                record=list(times),
                solver=diffrax.Bosh3(),  # kinks make a higher order useless
                show=False,
            )
        networks[name] = finished(run).network
        curves[name] = np.interp(times, run.time, run.loss / first)
    kept = _spectral(setting, data, start, networks, layers)
    kept |= _compared(networks, layers) | _pictures(networks, layers)
    kept |= {"loss": (("network", "time"), np.stack(list(curves.values()))), "delay": _delay(curves, times)}
    kept["late"] = kept["delay"] / 2 ** (start.depth / 2)
    return xr.Dataset(kept, coords={"network": list(NETWORKS), "time": times})


def _delay(curves: dict[str, np.ndarray], times: np.ndarray) -> float:
    """How many times as long the ReLU network takes: the ratio of the mean times at which loss is lost.

    That is the integral of the loss over its start. A network whose two chains escape one after the other
    waits with one half of the loss, so that the time at which half of it is left says little.
    """
    mean = {name: times[0] + np.trapezoid(curve, times) for name, curve in curves.items()}
    return float(mean["ReLU"] / mean["linear"])


def _weights(network: Network) -> list[np.ndarray]:
    return [np.asarray(w, dtype=float) for w in network.weights]


def _filled(values: list, size: int) -> np.ndarray:
    """The values, one for each layer, and NaN for the layers that are missing."""
    found = np.asarray(values, dtype=float)
    return np.concatenate([found, np.full((size - len(found), *found.shape[1:]), np.nan)])


def _spectral(
    setting: PairSetting, data: Data, start: Network, networks: dict[str, Network], layers: int
) -> dict:
    """Norms, stable ranks and singular values, in units of ‖w‖^(1/L) where they have a unit."""
    w = np.linalg.lstsq(data.x, data.y, rcond=None)[0]
    one = float(np.linalg.norm(w)) ** (1 / start.depth)
    spectra = [[Spectrum.of(v) for v in _weights(n)] for n in networks.values()]
    norm = [_filled([np.linalg.norm(s.values) / one for s in of], layers) for of in spectra]
    ranks = [[s.stable_rank for s in of[:-1]] for of in spectra]  # the last layer is one row
    leading = [_filled([s.values[: setting.values] / one for s in of[1:-1]], layers - 2) for of in spectra]
    initial = _filled([np.linalg.norm(v, 2) / one for v in _weights(start)[1:-1]], layers - 2)
    x = np.random.default_rng(0).normal(size=(setting.probes, data.dim))
    off = [float(np.linalg.norm(n(x) - x @ w) / np.linalg.norm(x @ w)) for n in networks.values()]
    return {
        "norm": (("network", "layer"), np.stack(norm)),
        "first_rank": ("network", [of[0] for of in ranks]),  # stable ranks
        "middle_rank": (("network", "middle"), np.stack([_filled(of[1:], layers - 2) for of in ranks])),
        "singular_value": (("network", "middle", "value"), np.stack(leading)),
        "initial": ("middle", initial),  # the spectral norm at the start
        "off_sample": ("network", off),  # the error of f(x) = w·x for Gaussian x, relative
    }


def _compared(networks: dict[str, Network], layers: int) -> dict:
    """The ReLU network's layers beside the linear one's."""
    alike, negative = [], []
    linear, relu = (_weights(networks[name]) for name in ("linear", "ReLU"))
    for layer, (a, b) in enumerate(zip(linear, relu, strict=True)):
        both = a > 0 if 0 < layer < len(linear) - 1 else np.full(a.shape, True)
        cosine = (a * b)[both].sum() / (np.linalg.norm(a[both]) * np.linalg.norm(b[both]))
        alike.append(float(cosine))
        negative.append(float((b[~both] ** 2).sum() / (b**2).sum()))
    return {
        "alike": (
            "layer",
            _filled(alike, layers),
        ),  # the cosine; of the middle layers where linear is positive
        "where_negative": ("middle", _filled(negative[1:-1], layers - 2)),  # the share of ReLU's squared norm
        "outside": ("middle", _filled(list(outside(networks["ReLU"])), layers - 2)),
    }


def _pictures(networks: dict[str, Network], layers: int) -> dict:
    """The weights, sorted by the linear network's chains and in these by size, in both networks alike."""
    order = [np.argsort(-side, kind="stable") for side in _sides(_weights(networks["linear"]))]
    first, middle, last = [], [], []
    for network in networks.values():
        w = _weights(network)
        for layer, new in enumerate(order):
            w[layer], w[layer + 1] = w[layer][new], w[layer + 1][:, new]
        first.append(w[0])
        middle.append(_filled(w[1:-1], layers - 2))
        last.append(w[-1][0])
    return {
        "first_layer": (("network", "neuron", "input"), np.array(first, np.float32)),
        "middle_layer": (("network", "middle", "neuron_above", "neuron"), np.array(middle, np.float32)),
        "last_layer": (("network", "neuron"), np.array(last, np.float32)),
    }


def _sides(weights: list[np.ndarray]) -> list[np.ndarray]:
    """For each hidden layer the product of the layers above: its sign tells the chain of a neuron."""
    sides = [weights[-1][0]]
    for w in weights[-2:0:-1]:
        sides.insert(0, sides[0] @ w)
    return sides


def worst(values: xr.DataArray, target: float = 0.0) -> xr.DataArray:
    """The largest distance from the target among layers and singular values, as a part of it if not 0."""
    distance = abs(values - target) / (target or 1.0)
    return distance.max([d for d in values.dims if d in ("layer", "middle", "value")])


def spread(runs: xr.Dataset) -> xr.DataArray:
    """How far the norms of a network's layers are apart, relative to their mean."""
    return (runs.norm.max("layer") - runs.norm.min("layer")) / runs.norm.mean("layer")


def draw_weights(axes: list[Axes], runs: xr.Dataset) -> AxesImage:
    """The layers of one network, one in each panel; each scaled to its own largest entry."""
    middle = [m for m in runs.middle_layer.values if np.isfinite(m).all()]
    layers = [runs.first_layer.values, *middle, runs.last_layer.values[:, None]]
    for number, (ax, w) in enumerate(zip(axes, layers, strict=True), start=1):
        scaled = w / np.abs(w).max()
        image = ax.imshow(
            scaled, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="none", rasterized=True
        )
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
        ax.set_title(f"$W_{number}$" if number < len(layers) else rf"$W_{number}^\top$")
    return image
