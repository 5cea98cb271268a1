"""What the experiments share: the network of the paper, its descent and its limit, and some claims on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from rankfall.data import Data, nearly_orthogonal
from rankfall.dynamics import descent
from rankfall.limits import Limit, limit
from rankfall.loss import logistic
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.papers.lab import (
    Check,
    Claim,
    all_certified,
    at_most,
    finished,
    orthogonal_enough,
    with_certificates,
)
from rankfall.theory.results import kou_descent

END = "limit"  # the name of its certificate


@dataclass(frozen=True)
class NearlyOrthogonal:
    """The theorems have no numbers of their own but p(X) above a constant: all of these are ours."""

    n: int
    p: float  # p(X) of the inputs
    width: int = 8  # neurons of each sign
    sigma: float = 0.1  # standard deviation of the initial weights
    steps: int = 4000  # of descent
    records: int = 40  # of descent, evenly in the logarithm of the step

    @property
    def dim(self) -> int:
        """The number of features: 20, or more where n nearly orthogonal inputs need more."""
        return max(20, 2 * self.n)

    def data(self, seed: int) -> Data:
        """Nearly orthogonal inputs of one norm."""
        return nearly_orthogonal(n=self.n, dim=self.dim, p=self.p, seed=seed)

    def network(self, slope: float, seed: int) -> Network:
        """The start."""
        return network(self.dim, self.width, slope, self.sigma, seed)


def network(dim: int, width: int, slope: float, sigma: float, seed: int) -> Network:
    """`width` neurons of each sign: a first layer N(0, σ²), a second layer ±1/width that is fixed."""
    first = np.random.default_rng([seed, 1]).normal(0.0, sigma, (2 * width, dim))
    second = np.repeat([1 / width, -1 / width], width)
    return Network([first, second[None]], slope=slope, trained=(True, False))


def longest_step(data: Data, width: int) -> float:
    """The longest step η of the hypotheses: η |a|² R_max² = n."""
    return float(data.n * width / 2 / (np.linalg.norm(data.x, axis=1) ** 2).max())


def descends(setting: NearlyOrthogonal, net: Network, data: Data) -> tuple[xr.Dataset, Limit]:
    """Descent with the longest step: its course, and the certified limit of the flow from where it stops."""
    step = longest_step(data, setting.width)
    record = recorded(setting.steps, setting.records)
    run = finished(
        descent(net, data, "logistic", step, setting.steps, measures=["weights"], record=record, show=False)
    )
    return curves(run.weights, net, data).assign(step_size=step), ends(run.network, data)


def recorded(steps: int, records: int) -> list[int]:
    """The steps that are recorded: evenly in their logarithm, and the start."""
    return sorted({round(t) for t in np.geomspace(1, steps, records)} | {0})


def curves(weights: xr.DataArray, net: Network, data: Data) -> xr.Dataset:
    """Stable ranks, norm, margins and the log of the mean logistic loss, of all recorded weights."""
    axis, rows = weights.dims[0], net.weights[0].shape[0]
    w = weights.values[:, : net.weights[0].size].reshape(-1, *net.weights[0].shape)
    blocks = [Spectrum.of(part).stable_rank for part in (w[:, : rows // 2], w[:, rows // 2 :])]
    z = data.x @ w.swapaxes(1, 2)
    outputs = np.where(z > 0, z, float(net.slope) * z) @ net.weights[1][0]
    return xr.Dataset(
        {
            "stable_rank": (axis, Spectrum.of(w).stable_rank),
            "block_stable_rank": ((axis, "sign"), np.stack(blocks, axis=1)),
            "norm": (axis, np.linalg.norm(w, axis=(1, 2))),
            "margins": ((axis, "sample"), data.y * outputs),
            "log_loss": (axis, np.array([float(logistic.log(each, data.y)) for each in outputs])),
        },
        {axis: weights[axis].values},
    )


def ends(net: Network, data: Data) -> Limit:
    """The certified limit of the flow from here; so of descent, once its steps change margins by little."""
    return limit(net, data, "logistic", optimality=False, show=False)


def blocks(end: Limit) -> list[float]:
    """The stable ranks of the positive and of the negative neurons."""
    return list(end.block_stable_ranks.values())


def with_end(run: xr.Dataset, seed: int, end: Limit, found: Mapping[str, Any]) -> xr.Dataset:
    """A run with what else was found, the numbers of its limit, and the certificate of that."""
    numbers = {
        "end_blocks": ("sign", blocks(end)),
        "end_stable_rank": end.stable_rank,
        "end_margins": ("sample", end.margins),
        "certified": end.certified,
    }
    return with_certificates(run.assign(numbers | dict(found)), seed, {END: end}, seeds=3)


def spread(margins: xr.DataArray) -> xr.DataArray:
    """The largest difference of two margins, relative to the smallest."""
    return (margins.max("sample") - margins.min("sample")) / margins.min("sample")


# --- in the claims ----------------------------------------------------------------------------------------

CERTIFIED = all_certified()


def nearly(metric: str) -> Check:
    """The data are as nearly orthogonal as a theorem asks."""
    return orthogonal_enough(
        lambda runs: runs.orthogonality,
        "near-orthogonality, with the constant of our proof",
        metric=metric,
        least=kou_descent.ORTHOGONALITY,
    )


def equal_margins(name: str, source: str, hypotheses: tuple[Check, ...]) -> Claim:
    """The claim that the limit has one margin."""
    return Claim(
        id=name,
        sentence="All samples end with the same normalised margin.",
        source=source,
        metric="(max − min)/min of the margins in the certified limit",
        measure=lambda runs: spread(runs.end_margins),
        expected=at_most(1e-8, "0, up to the tolerance of the certificate"),
        hypotheses=hypotheses,
        proofs=(END,),
        form="{:.1e}",
    )


def of_all(slopes: Sequence[float]) -> str:
    """The networks of these slopes, in words: "both activations" for two of them."""
    return {1: f"slope {slopes[0]:g}", 2: "both activations"}.get(len(slopes), "all slopes")
