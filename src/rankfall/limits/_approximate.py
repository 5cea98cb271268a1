r"""How near a late state of any homogeneous network is to a KKT point: its ($\varepsilon,\delta$)-KKT
certificate.

Lyu and Li 2020, App. C: $\theta$ scaled to the margin 1 is an ($\varepsilon,\delta$)-KKT point if there are
$\lambda \ge 0$ and $h_i$ in Clarke's subdifferential of $y_i f(x_i; \theta)$ with $|\theta - \sum_i \lambda_i
h_i| \le \varepsilon$ and $\lambda_i (y_i f(x_i) - 1) \le \delta$.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.optimize import nnls

from rankfall.data import Data
from rankfall.dynamics import FlowWarning, flow
from rankfall.limits._result import Limit
from rankfall.limits._verdict import Verdict
from rankfall.loss import Loss
from rankfall.measure import compiled
from rankfall.network import Network, moving, through_skip, with_origin
from rankfall.outcome import Outcome
from rankfall.trajectory import versions

NEAR = 1e-6  # a pre-activation this small, relative to the others of its layer, may be at its kink
VARIANTS = 500  # elements of Clarke's subdifferentials that are tried beside the gradients
ENOUGH = 1e-3  # an epsilon, relative to the weights, with which the search ends


@dataclass
class _Late:
    """A late state of the flow, and how near it is to a KKT point."""

    network: Network
    margins: np.ndarray
    multipliers: np.ndarray
    epsilon: float = np.inf
    delta: float = np.inf
    steps: int = 0
    clock: float = 0.0
    interrupted: bool = False

    @property
    def separates(self) -> bool:
        """Are all samples on the right side?"""
        return bool(self.margins.min() > 0)

    @property
    def near(self) -> bool:
        """Is it near enough to a KKT point?"""
        return max(self.epsilon, self.delta / max(self.multipliers.sum(), 1e-300)) <= ENOUGH


def approximate(network: Network, data: Data, loss: Loss, budget: int, seconds: float, show: bool) -> Limit:
    """Follow the loss-clock flow until its state is near a KKT point, or budget or time are spent."""
    late = _late_state(network, data, loss, budget, seconds, show)
    smallest = float(late.margins.min())
    scaled = _scaled(late.network, smallest) if late.separates else late.network
    missing: tuple[str, ...] = ("a late state, not the limit itself",)
    if not late.separates:
        missing = (f"{int((late.margins <= 0).sum())} of {data.n} samples are on the wrong side so far",)
    if not late.near:
        spent = (
            f"the budget of {budget:,} steps is spent"
            if late.steps >= budget
            else f"the {seconds:g} seconds are spent"
        )
        missing = (*missing, "interrupted" if late.interrupted else spent)
    return Limit(
        verdict=Verdict.APPROXIMATE if late.near else Verdict.NOT_DECIDED,
        missing=missing,
        network=with_origin(scaled, f"late state of ({late.network.origin})"),
        multipliers=late.multipliers,
        margins=late.margins / smallest if late.separates else late.margins,
        residuals={"epsilon": late.epsilon, "delta": late.delta} if np.isfinite(late.epsilon) else {},
        region=None,
        kinks=(),
        optimality=None,
        comparison=None,
        settings={
            "way": "adaptive flow in the loss clock, late state",
            "loss": str(loss),
            "data": data.name,
            "steps": late.steps,
            "s": late.clock,
            "versions": versions(),
        },
        state=late.network,
    )


def _late_state(network: Network, data: Data, loss: Loss, budget: int, seconds: float, show: bool) -> _Late:
    """The first state near a KKT point, of those at which the loss clock is 1, 3, 7, ...; or the last."""
    deadline, span = time.monotonic() + seconds, 1.0
    late = _Late(network, np.full(data.n, -np.inf), np.zeros(data.n))
    while late.steps < budget and time.monotonic() < deadline and not (late.near or late.interrupted):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlowWarning)  # the verdict says it
            run = flow(
                late.network,
                data,
                loss,
                span,
                clock="loss",
                rtol=1e-6,
                measures=["log_loss"],
                record=[span],
                budget=budget - late.steps,
                seconds=deadline - time.monotonic(),
                show=show,
            )
        late.network = run.network
        late.steps += run.statistics.tried
        late.clock += float(run.s[-1])
        late.interrupted = run.outcome is Outcome.INTERRUPTED
        late.margins = np.asarray(data.y * late.network(data.x))
        try:
            if late.separates:
                late.epsilon, late.delta, late.multipliers = kkt_distance(late.network, data)
        except KeyboardInterrupt:
            late.interrupted = True
        span *= 2
    return late


def kkt_distance(network: Network, data: Data) -> tuple[float, float, np.ndarray]:
    r"""$\varepsilon$ (relative to the weights), $\delta$ and the multipliers of a network that separates the
    data.

    The multipliers are those for which $\varepsilon$ is least, by nonnegative least squares over the
    gradients and, for pre-activations that may be at their kink, also those with the other slope.
    """
    margins = np.asarray(data.y * network(data.x))
    if not margins.min() > 0:
        raise ValueError("a KKT point separates the data, and this network does not.")
    network = _scaled(network, float(margins.min()))
    trained = eqx.filter(network, moving(network))
    theta = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trained)])
    rows, owners = _subgradients(network, data)
    # |theta - rows^T c| in the coordinates of the span of the rows and theta.
    n, size, q = data.n, float(np.linalg.norm(theta)), margins / margins.min()
    flips, of = rows[n:] - rows[owners[n:]], owners[n:]
    kept = np.linalg.norm(flips, axis=1) > 1e-14 * np.linalg.norm(rows, axis=1).max()
    flips, of = flips[kept], of[kept]
    triangle = np.asarray(np.linalg.qr(np.column_stack([rows[:n].T, flips.T, theta]), mode="r"))
    k = len(flips)
    # lambda_i, and of every pair at its kink the parts of lambda_i with the other slope and with this one.
    matrix = np.zeros((len(triangle) + n + k, n + 2 * k))
    matrix[: len(triangle), : n + k] = triangle[:, :-1]
    matrix[len(triangle) : len(triangle) + n, :n] = np.diag((q - 1) / size)  # complementarity
    heavy = 1e4 * np.abs(triangle).max()
    whole = matrix[len(triangle) + n :]
    whole[np.arange(k), of] = heavy
    whole[np.arange(k), n + np.arange(k)] = whole[np.arange(k), n + k + np.arange(k)] = -heavy
    target = np.concatenate([triangle[:, -1], np.zeros(n + k)])
    c, _ = nnls(matrix, target, maxiter=100 * (n + 2 * k))
    multipliers, parts = c[:n], np.minimum(c[n : n + k], c[of])
    rest = np.linalg.norm(theta - multipliers @ rows[:n] - parts @ flips)
    return float(rest) / size, float((multipliers * (q - 1)).max()), multipliers


def _scaled(network: Network, smallest: float) -> Network:
    """The network with what is trained scaled such that the smallest margin is 1."""
    order = network.homogeneity
    factor = smallest ** (-1 / order) if order else 1.0
    trained, fixed = eqx.partition(network, moving(network))
    return eqx.combine(jax.tree.map(lambda leaf: leaf * factor, trained), fixed)


def _subgradients(network: Network, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Elements of Clarke's subdifferentials of the margins, one a row, and the samples they belong to."""
    seen = network.preactivations(data.x)
    hidden = [np.asarray(seen[layer - 1]) for layer in network.activated]
    slopes = [np.where(h > 0, 1.0, float(network.slope)) for h in hidden]
    masks = [[s[i] for s in slopes] for i in range(data.n)]
    owners = list(range(data.n))
    for layer, h in enumerate(hidden):
        near = np.abs(h) <= NEAR * np.abs(h).max()
        for i, unit in np.argwhere(near)[:VARIANTS]:
            other = [mask.copy() for mask in masks[i]]
            other[layer][unit] = 1.0 + float(network.slope) - other[layer][unit]
            masks.append(other)
            owners.append(int(i))
    stacked = [np.stack([mask[layer] for mask in masks]) for layer in range(len(hidden))]
    leaves = jax.tree.leaves(_gradients(network, data.x[owners], data.y[owners], stacked))
    rows = np.concatenate([np.asarray(leaf).reshape(len(owners), -1) for leaf in leaves], axis=1)
    return rows, np.array(owners)


@compiled
def _gradients(network: Network, x: Any, y: Any, slopes: list[Any]) -> Network:
    """The gradients of the margins by what is trained, with these slopes in place of the activations."""
    trained, fixed = eqx.partition(network, moving(network))

    def margin(part: Network, x: Any, y: Any, slopes: list[Any]) -> Any:
        return y * _linear_pass(eqx.combine(part, fixed), x, slopes)

    found: Network = jax.vmap(jax.grad(margin), in_axes=(None, 0, 0, 0))(trained, x, y, slopes)
    return found


def _linear_pass(network: Network, x: Any, slopes: list[Any]) -> Any:
    """The output at x with these slopes in place of the activations."""
    slope_of = dict(zip(network.activated, slopes, strict=True))
    u = h = x
    layers = zip(network.weights, network.biases, network.skips, strict=True)
    for layer, (w, b, skip) in enumerate(layers, start=1):
        out = w @ h
        out = out if b is None else out + b
        out = out if skip is None else out + through_skip(skip, u)
        u, h = h, slope_of[layer] * out if layer in slope_of else out
    return h[0]
