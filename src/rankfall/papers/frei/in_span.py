"""Descent of one random start at many scales, in the span of the data, with the stable ranks on the way.

Gradient descent never leaves W_0 + (span of the inputs). So only the part of W_0 inside the span is trained;
of the rest of it nothing but its Gram matrix is needed for the singular values of the whole. This is exact,
and the cost hardly depends on the dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from rankfall.data import Data
from rankfall.dynamics import descent
from rankfall.measure import Spectrum, stable_rank_of_gram
from rankfall.network import Network
from rankfall.papers.lab import finished


@dataclass(frozen=True)
class Start:
    """First-layer weights N(0, 1), to be scaled, in an orthonormal basis that begins with the data's span.

    - `data`: the inputs in coordinates of their span (n, k).
    - `inside`: the weights in the span (m, k); `outside`: the Gram matrix of what is left of them (m, m).
    - `a`: the output weights, half of them 1/sqrt(m), the others -1/sqrt(m).
    """

    data: Data
    inside: np.ndarray
    outside: np.ndarray
    a: np.ndarray

    def network(self, sigma: float, slope: float) -> Network:
        """The part that is trained, for weights N(0, sigma^2)."""
        return Network([sigma * self.inside, self.a[None]], slope=slope, trained=(True, False))

    def stable_rank(self, inside: np.ndarray, sigma: float) -> float:
        """The stable rank of the whole first layer, of which `inside` is the part in the span."""
        gram = (inside @ inside.T) / sigma**2 + self.outside  # relative: the weights may be tiny
        return stable_rank_of_gram(gram, near=self.a)


def settled(slope: float) -> float:
    """The stable rank 1 + ((1 - slope)/(1 + slope))^2 of the limit, for orthogonal inputs of one norm."""
    return 2 * (1 + slope**2) / (1 + slope) ** 2


def start(data: Data, width: int, seed: int) -> Start:
    """Weights N(0, 1) of the shape width x d, in the basis of the data."""
    weights = np.random.default_rng([seed, width]).normal(size=(width, data.dim))
    basis, coordinates = np.linalg.qr(data.x.T)
    inside = weights @ basis
    outside = weights @ weights.T - inside @ inside.T
    signs = np.where(np.arange(width) < width // 2, 1.0, -1.0)
    return Start(Data(coordinates.T, data.y, data.name), inside, outside, signs / np.sqrt(width))


def descend(
    begun: Start,
    sigmas: Sequence[float],
    slope: float,
    step: float | Sequence[float],
    steps: int,
    record: Sequence[float],
) -> xr.Dataset:
    """Stable rank of W_t and of W_t - W_0, and the loss: before and after the first step, and at the records.

    Records after the last step are left out.
    """
    networks = [begun.network(sigma, slope) for sigma in sigmas]
    run = finished(
        descent(
            networks,
            begun.data,
            "logistic",
            step,
            steps,
            measures=["weights", "loss"],
            record=[1, *(at for at in record if at <= steps)],
            along={"run": range(len(networks))},
            show=False,
        )
    )
    recorded = run["weights"].transpose("run", "step", "weight").values
    w = recorded[..., : begun.inside.size].reshape(*recorded.shape[:2], *begun.inside.shape)
    whole = [[begun.stable_rank(at, sigma) for at in run] for run, sigma in zip(w, sigmas, strict=True)]
    change = [[Spectrum.of(at - run[0]).stable_rank for at in run] for run in w]
    return xr.Dataset(
        {
            "stable_rank": (("run", "step"), whole),
            "change": (("run", "step"), change),
            "loss": run["loss"].transpose("run", "step").drop_vars("run"),
        },
        coords={"step": run["step"].values},
    )
