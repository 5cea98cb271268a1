"""The network of the paper, its descent, and its limit."""

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from rankfall.data import Data
from rankfall.dynamics import descent
from rankfall.limits import Limit, limit
from rankfall.loss import logistic
from rankfall.network import Network
from rankfall.papers.lab import finished


def room(n: int) -> int:
    """The number of features for so many nearly orthogonal inputs: 20, more where they would not fit."""
    return max(20, 2 * n)


def network(dim: int, width: int, slope: float, sigma: float, seed: int) -> Network:
    """`width` neurons of each sign: a first layer N(0, σ²), a second layer ±1/width that is fixed."""
    first = np.random.default_rng([seed, 1]).normal(0.0, sigma, (2 * width, dim))
    second = np.repeat([1 / width, -1 / width], width)
    return Network([first, second[None]], slope=slope, trained=(True, False))


def longest_step(data: Data, width: int) -> float:
    """The longest step η of the hypotheses: η |a|² R_max² = n."""
    return float(data.n * width / 2 / (np.linalg.norm(data.x, axis=1) ** 2).max())


def descends(net: Network, data: Data, width: int, steps: int, records: int) -> tuple[xr.Dataset, Network]:
    """Descent with the longest step: its course, evenly in the logarithm of the step, and where it stops."""
    step = longest_step(data, width)
    record = sorted({round(t) for t in np.geomspace(1, steps, records)} | {0})
    run = finished(
        descent(net, data, "logistic", step, steps, measures=["weights"], record=record, show=False)
    )
    return curves(run.weights, net, data).assign(step_size=step), run.network


def curves(weights: xr.DataArray, net: Network, data: Data) -> xr.Dataset:
    """Stable ranks, norm, margins and the log of the mean logistic loss, of all recorded weights."""
    axis, rows = weights.dims[0], net.weights[0].shape[0]
    w = weights.values[:, : net.weights[0].size].reshape(-1, *net.weights[0].shape)
    singular = [np.linalg.svd(part, compute_uv=False) for part in (w, w[:, : rows // 2], w[:, rows // 2 :])]
    ranks = [(values**2).sum(axis=1) / values[:, 0] ** 2 for values in singular]
    z = data.x @ w.swapaxes(1, 2)
    q = data.y * (np.where(z > 0, z, float(net.slope) * z) @ net.weights[1][0])
    return xr.Dataset(
        {
            "stable_rank": (axis, ranks[0]),
            "block_stable_rank": ((axis, "sign"), np.stack(ranks[1:], axis=1)),
            "norm": (axis, np.linalg.norm(singular[0], axis=1)),
            "margins": ((axis, "sample"), q),
            "log_loss": (axis, logsumexp(logistic.of_margin.log(q), axis=1) - np.log(data.n)),
        },
        {axis: weights[axis].values},
    )


def ends(net: Network, data: Data) -> Limit:
    """The certified limit of the flow from here; so of descent, once its steps change margins by little."""
    return limit(net, data, "logistic", optimality=False, show=False)


def blocks(end: Limit) -> list[float]:
    """The stable ranks of the positive and of the negative neurons."""
    return list(end.block_stable_ranks.values())


def spread(margins: xr.DataArray) -> xr.DataArray:
    """The largest difference of two margins, relative to the smallest."""
    return (margins.max("sample") - margins.min("sample")) / margins.min("sample")
