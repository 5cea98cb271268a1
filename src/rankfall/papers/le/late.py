"""Late flows, and how far their layers are from rank one: what the experiments of this paper share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from rankfall.data import Data, orthogonally_separable
from rankfall.dynamics import Until, flow
from rankfall.measure import Spectrum, balance_matrices, with_weights
from rankfall.network import Network
from rankfall.papers.lab import Check, Interval, at_most, finished, scientific
from rankfall.theory.results import le_invariances
from rankfall.trajectory import Trajectory


@dataclass(frozen=True)
class Late:
    """The data, starts and length of late flows. Ours: the paper's own settings are not known to us."""

    n: int = 8  # samples, orthogonally separable
    dim: int = 4
    angle: float = 0.6 * np.pi  # between the axes of the classes
    scale: float = 0.5  # the norm of each layer at the start
    last_loss: float = 1e-300  # where a flow ends: margins of 690, times around e^680
    records: int = 32  # the start and the end among them
    rtol: float = 1e-7

    def __post_init__(self) -> None:
        """Refuse an end that is not late."""
        if not 0 < self.last_loss < 0.5:
            raise ValueError(
                f"last_loss must be between 0 and 0.5, such as 1e-300; {self.last_loss:g} is not."
            )

    @property
    def log10_last(self) -> float:
        """The power of ten of the loss at which a flow ends."""
        return math.log10(self.last_loss)

    def started(self, usual: float) -> float:
        """What goes like the square of the starts, from its value at the usual scale."""
        return usual * (self.scale / Late.scale) ** 2

    def grown(self, usual: float, depth: int) -> float:
        """A squared norm at the end, from that at the usual loss.

        Margins, which are -ln(loss), are of the degree `depth` in the weights.
        """
        return usual * (self.log10_last / math.log10(Late.last_loss)) ** (2 / depth)

    def share(self, usual: float, depth: int) -> float:
        """What goes like the share of the start in the squared weights at the end, from its usual value."""
        return self.grown(self.started(usual), -depth)


def arrived(setting: Late) -> Check:
    """Every flow came to the loss at which it was to end."""
    return Check(
        "log₁₀ of the loss at the end",
        lambda runs: runs.log10_loss,
        at_most(
            setting.log10_last + 0.1,
            f"late: where the flow was asked to stop, at a loss of {setting.last_loss:g}",
            "{:.1f}",
        ),
    )


def constant(setting: Late) -> Interval:
    """Where the drift of a constant of the flow must lie."""
    because = f"a constant of the flow, whose steps are followed to {scientific(setting.rtol)} of the weights"
    return at_most(10 * setting.rtol, because)


def within_bound(setting: Late, because: str) -> Interval:
    """Where a number over its bound must lie, at all times."""
    slack = 1000 * setting.rtol
    return at_most(1 + slack, f"{because}; {scientific(slack)} for the tolerance of the flow")


def samples(setting: Late, seed: int) -> Data:
    """Two classes in cones."""
    return orthogonally_separable(setting.n, setting.dim, seed, setting.angle)


def late_flow(setting: Late, network: Network, data: Data, loss: str) -> Trajectory:
    r"""The flow down to the last loss, twice: then with records even in the growth of the weights.

    In the loss clock the weights of $L \ge 3$ layers blow up at a finite $s^*$. There $d\rho/ds = 2 L q$ for
    $\rho = |\theta|^2$ and the margin $q \propto \rho^{L/2}$, so that $s^* - s = \rho / (L (L-2) q)$.
    """

    def run(record: Sequence[float] | np.ndarray) -> Trajectory:
        given: dict[str, Any] = {"measures": ["weights", "conserved", "log_loss"], "record": record}
        until = Until(loss=setting.last_loss)
        return finished(
            flow(network, data, loss, until, clock="loss", rtol=setting.rtol, show=False, **given)
        )

    end = run([]).dataset.isel(s=-1)
    order, margin, square = network.depth, -float(end.log_loss), float((end.weights**2).sum())
    left = square / (order * (order - 2) * margin)
    blows_up = float(end.s) + left
    return run(blows_up - np.geomspace(blows_up, left, setting.records)[1:-1])


def spectra(run: Trajectory, start: Network, first: int, names: Sequence[str]) -> xr.Dataset:
    r"""Of the linear layers k from `first` to the last but one, over the records of a run:

    - `log10_time`, and `log10_loss` at the end;
    - `square` $|W_k|_F^2$, `excess` $|W_k|_F^2 - |W_k|_2^2$, its `bound` $D_k$;
    - `settled`, $\sum_{l \ge k} (v_{l+1}^T C_l v_{l+1} - tr\,C_l)$: where the excess ends, see `_settled`;
    - `aligned`, $\langle v_{k+1}, u_k\rangle^2$, and the `least` that it can be.

    A free or diagonal skip into a layer counts as further columns.
    """
    networks = with_weights(start, run["weights"].values)
    frames = [np.linalg.svd(whole(networks, k), full_matrices=False) for k in range(first, start.depth + 1)]
    balances = [np.asarray(c) for c in balance_matrices(start)[first - 1 :]]
    bounds = le_invariances.excess_bounds(_with_tail(start, start.depth - first + 1))
    squares = np.stack([(s**2).sum(axis=1) for _, s, _ in frames[:-1]], axis=1)
    excess = np.stack([Spectrum(s).excess for _, s, _ in frames[:-1]], axis=1)
    aligned = [(u[:, :, 0] * v[:, 0]).sum(axis=1) ** 2 for (u, _, _), (_, _, v) in pairwise(frames)]
    spread = np.array([np.ptp(np.linalg.eigvalsh(c)) for c in balances])
    room = np.maximum(squares - excess - bounds, spread)
    leading = [v[:, 0] for _, _, v in frames[1:]]
    count = len(leading)
    return xr.Dataset(
        {
            "log10_time": _shared(run["log_time"].values / np.log(10), count),
            "log10_loss": ("matrix", np.full(count, float(run["log_loss"][-1]) / np.log(10))),
            "square": (("record", "matrix"), squares),
            "excess": (("record", "matrix"), excess),
            "bound": ("matrix", bounds),
            "settled": (("record", "matrix"), _settled(leading, balances)),
            "aligned": (("record", "matrix"), np.stack(aligned, axis=1)),
            "least": (("record", "matrix"), 1 - spread / room),
        },
        coords={"matrix": list(names)},
    )


def whole(networks: Network, layer: int) -> np.ndarray:
    """The weights into a layer, of many records: [W Z] with a free skip, [W D] with a diagonal one."""
    w, kind = np.asarray(networks.weights[layer - 1]), networks.skip_kinds[layer - 1]
    if kind in (None, "identity"):
        return w
    skip = np.asarray(networks.skips[layer - 1])
    skip = skip[:, :, None] * np.eye(skip.shape[1]) if kind == "diagonal" else skip
    return np.concatenate([w, skip], axis=2)


def drift(run: Trajectory) -> np.ndarray:
    """The largest change of all that flow conserves, relative to the squared weights at the time."""
    changes = np.abs(run["conserved"].values - run["conserved"].values[0]).max(axis=1)
    return np.asarray(changes / (run["weights"].values ** 2).sum(axis=1))


def _settled(leading: list[np.ndarray], balances: list[np.ndarray]) -> np.ndarray:
    r"""$W_k W_k^T = W_{k+1}^T W_{k+1} - C_k$, and a growing top eigenvalue moves by $-v^T C_k v$.

    What is left out is not negative, and at most $|C_k|^2$ over the gap to the second eigenvalue.
    """
    steps = [np.einsum("ri,ij,rj->r", v, c, v) - np.trace(c) for v, c in zip(leading, balances, strict=True)]
    return np.cumsum(np.stack(steps, axis=1)[:, ::-1], axis=1)[:, ::-1]


def _with_tail(network: Network, tail: int) -> Network:
    return Network(network.weights, slope=float(network.slope), linear_tail=tail, skips=network.skips)


def _shared(values: np.ndarray, count: int) -> tuple[tuple[str, str], np.ndarray]:
    return ("record", "matrix"), np.repeat(values[:, None], count, axis=1)


def stable_rank(runs: xr.Dataset) -> xr.DataArray:
    """The stable ranks of the matrices along the runs, from the two numbers of a spectrum that these keep."""
    return runs.square / (runs.square - runs.excess)


def last(values: xr.DataArray) -> xr.DataArray:
    """What it is at the end."""
    return values.isel(record=-1)


def log_time_axis(ax: Axes) -> None:
    """Powers of ten of t, themselves on a logarithmic axis: t goes to 10^295."""
    ax.set_xscale("log")
    ax.set_xlim(0.5, 400)
    ax.set_xticks([1, 10, 100], labels=["$10^{1}$", "$10^{10}$", "$10^{100}$"])
    ax.set_xlabel("time $t$")
