"""Homogeneous networks: the smoothed margin grows, the loss falls at a known rate, the end is a KKT point."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.optimize import nnls

from rankfall import plot
from rankfall.data import Data, orthogonally_separable
from rankfall.dynamics import Until, exact_flow, flow
from rankfall.limits import limit
from rankfall.loss import exponential
from rankfall.measure import with_weights
from rankfall.network import Network
from rankfall.papers.lab import (
    Claim,
    Experiment,
    all_reached,
    at_least,
    at_most,
    between,
    finished,
    near,
    power_law,
    seed_lines,
    superscript,
)

MEASURES = ("weights", "log_loss", "norms", "smoothed_margin", "normalised_margin")


@dataclass(frozen=True)
class Setting:
    """The paper prints no such run: all of these are ours."""

    orders: tuple[int, ...] = (1, 2, 3)  # L: the layers that are trained
    n: int = 6
    dim: int = 4
    width: int = 6  # L = 1, 2
    slope: float = 0.2
    sigma: float = 0.1  # L = 1
    scale: float = 0.5  # L = 2
    deep_widths: tuple[int, ...] = (5, 4)  # L = 3
    deep_slope: float = 0.5
    deep_scale: float = 2.0
    records: int = 48
    late: float = 690.0  # log t at the end: t is about 1e300
    rtol: float = 1e-6  # of a step, L = 3; the others are followed exactly at their kinks
    clock_start: float = 0.02  # the first record, in the clock of the loss, L = 1, 2
    clock_end_one: float = 3e4  # the last one, L = 1
    clock_end_two: float = 30.0  # L = 2
    first_log: float = 0.1  # log t at the first record, L = 3
    states: int = 8  # of the run whose KKT residuals are taken

    @property
    def shallow(self) -> list[int]:
        """The orders of two-layer networks, whose limits are known."""
        return [order for order in self.orders if order < 3]


def run_margins(setting: Setting, seed: int) -> xr.Dataset:
    """Flows of networks of order 1, 2 and 3 to t = 1e300, read at the same times."""
    data = orthogonally_separable(n=setting.n, dim=setting.dim, seed=seed)
    runs = [_course(setting, order, data, seed) for order in setting.orders]
    return xr.concat(runs, dim=xr.Variable("order", list(setting.orders)))


def _start(setting: Setting, order: int, seed: int) -> Network:
    """One layer trained, two, or three."""
    two = (setting.dim, setting.width, 1)
    if order == 1:
        return Network.fixed_second_layer(two, slope=setting.slope, sigma=setting.sigma, seed=seed)
    if order == 2:
        return Network.balanced(two, slope=setting.slope, scale=setting.scale, seed=seed)
    if order == 3:
        three = (setting.dim, *setting.deep_widths, 1)
        return Network.gaussian(three, slope=setting.deep_slope, scale=setting.deep_scale, seed=seed)
    raise ValueError(f"an order must be 1, 2 or 3; {order} is not.")


def _course(setting: Setting, order: int, data: Data, seed: int) -> xr.Dataset:
    net, loss = _start(setting, order, seed), exponential.sum
    if order < 3:
        last = setting.clock_end_one if order == 1 else setting.clock_end_two
        clock = [*np.geomspace(setting.clock_start, last, 2 * setting.records)]
        run = exact_flow(
            net,
            data,
            loss,
            Until(log_time=setting.late),
            clock="loss",
            measures=MEASURES,
            record=clock,
            show=False,
        )
        log_time = run.log_time.values
        end = limit(run, data, loss, optimality=False, show=False)
    else:
        times = [*np.exp(np.geomspace(setting.first_log, setting.late, 2 * setting.records))]
        run = flow(net, data, loss, times[-1], rtol=setting.rtol, measures=MEASURES, record=times, show=False)
        log_time, end = np.log(np.maximum(run.time.values, 1e-300)), None
    states = with_weights(net, finished(run).weights.values)
    curves = {
        "gained": -run.log_loss.values - log_time,  # log(1/loss) - log T: interpolated well, unlike each
        "norm": np.linalg.norm(run.norms.values[:, list(net.trained)], axis=1),
        "smoothed": run.smoothed_margin.values,
        "margin": run.normalised_margin.values,
    }
    after = np.flatnonzero(curves["smoothed"] > 0)
    if not after.size:
        raise ValueError(f"the loss is above its threshold still at log t = {setting.late:g}: raise `late`.")
    return _at_times(setting, curves, log_time).assign(
        **_certificates(setting, order, states, data, log_time, curves, after),
        drop_smoothed=_drop(curves["smoothed"][after]),
        drop_margin=_drop(curves["margin"][after]),
        limit_margin=np.nan if end is None else end.normalised_margin,
        certified=np.nan if end is None else float(end.reached),
    )


def _drop(values: np.ndarray) -> float:
    """How far the values ever are below what they were before, relative to that."""
    highest = np.maximum.accumulate(values)
    return float(((highest - values) / highest).max())


def _at_times(setting: Setting, curves: dict[str, np.ndarray], log_time: np.ndarray) -> xr.Dataset:
    """The curves at so many times, evenly spaced in log log T."""
    grid = np.geomspace(0.5, setting.late, setting.records)
    known = np.log(log_time[1:].clip(1e-9))
    return xr.Dataset(
        {name: ("time", np.interp(np.log(grid), known, values[1:])) for name, values in curves.items()},
        {"time": grid},
    )


def _certificates(
    setting: Setting,
    order: int,
    states: Network,
    data: Data,
    log_time: np.ndarray,
    curves: dict[str, np.ndarray],
    after: np.ndarray,
) -> dict[str, Any]:
    """KKT residuals of some states after the threshold, and what the growth in between promises."""
    some = np.linspace(after[0], len(log_time) - 1, setting.states).round().astype(int)
    grown, raised = (np.log(curves[name][some[-1]] / curves[name][some[0]]) for name in ("norm", "smoothed"))
    residuals = [
        _residual([w[i] for w in states.weights], states, data) if order < 3 else np.nan for i in some
    ]
    return {
        "residual": ("state", residuals),
        "state_log_time": ("state", log_time[some]),
        "promised": float(np.sqrt(raised / order / grown)),
    }


def _residual(weights: list[np.ndarray], net: Network, data: Data) -> float:
    r"""min |θ − Σ λᵢ hᵢ| / |θ| over λ ≥ 0 and hᵢ in Clarke's subdifferential of the margin of sample i.

    At a kink of neuron j on sample i the part μ ≤ λᵢ of the multiplier has the slope 1, the rest the leaky
    one; |λᵢ (qᵢ / q_min − 1)| is one more residual (complementarity).
    """
    (w, second), x, y = weights, data.x, data.y
    a, z, slope = second[0], x @ w.T, float(np.ravel(net.slope)[0])
    at_kink = np.abs(z) <= 1e-9 * np.abs(z).max()
    slopes = np.where((z > 0) & ~at_kink, 1.0, slope)
    rows = (y[:, None, None] * (slopes * a)[:, :, None] * x[:, None, :]).reshape(len(y), -1)
    flips = np.zeros((at_kink.sum(), rows.shape[1]))
    samples, neurons = np.nonzero(at_kink)
    for row, i, j in zip(flips, samples, neurons, strict=True):
        row.reshape(w.shape)[j] = y[i] * a[j] * (1 - slope) * x[i]
    theta = w.ravel()
    if net.trained[1]:
        rows = np.hstack([rows, y[:, None] * slopes * z])
        flips, theta = np.hstack([flips, np.zeros((len(flips), len(a)))]), np.append(theta, a)
    q = y * ((slopes * z) @ a)
    matrix = np.vstack([np.vstack([rows, flips]).T, np.zeros((len(y), len(y) + len(flips)))])
    matrix[len(theta) :, : len(y)] = np.diag((q / q.min() - 1) * np.linalg.norm(rows, axis=1))
    c, _ = nnls(matrix, np.append(theta, np.zeros(len(y))))
    parts = np.minimum(c[len(y) :], c[samples])
    return float(np.linalg.norm(theta - c[: len(y)] @ rows - parts @ flips) / np.linalg.norm(theta))


def _late(setting: Setting, runs: xr.Dataset) -> xr.Dataset:
    """The last factor of ten in log t."""
    return runs.sel(time=slice(setting.late / 10, None)).transpose("seed", "order", "time", ...)


def _loss_power(setting: Setting, runs: xr.Dataset) -> np.ndarray:
    """The power of log T in 1/(T loss), over the last factor of ten in log T, by seed and order."""
    late = _late(setting, runs)
    with np.errstate(over="ignore"):  # no power of what is infinite
        return power_law(late.time, np.exp(late.gained), axis=-1)


def _norm_power(setting: Setting, runs: xr.Dataset) -> np.ndarray:
    """The power of log T with which the norm grows there."""
    late = _late(setting, runs)
    return power_law(late.time, late.norm, axis=-1)


def _constant(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """log(1/loss) − log T − (2 − 2/L) log log(1/loss) − log(L² γ^(2/L)) at the end."""
    end, power = _late(setting, runs).isel(time=-1), 2 / runs.order
    with np.errstate(invalid="ignore"):  # no number for a loss above 1
        return (
            end.gained
            - (2 - power) * np.log(end.gained + setting.late)
            - np.log(runs.order**2 * end.smoothed**power)
        )


def _allowed(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """Twice the first corrections: (2 − 2/L + 2 log n) / log(1/loss), and what the direction still turns.

    With the cosine β of weights and velocity, β⁻² − 1 ≤ (d log γ̃ / d log ρ) / L.
    """
    last = _late(setting, runs).isel(time=slice(-2, None))
    turning = (last.smoothed / last.smoothed[..., 0] - 1) / (last.norm / last.norm[..., 0] - 1) / runs.order
    return 2 * ((2 - 2 / runs.order + 2 * np.log(setting.n)) / setting.late + turning.isel(time=-1))


def draw_margins(setting: Setting, runs: xr.Dataset) -> Figure:
    """The margins, the rate of the loss, and the KKT residuals."""
    with plot.style():
        figure, axes = plot.panels(3)
        shown = runs.transpose("time", "seed", "order", ...)
        ends = shown.smoothed.isel(time=-1)
        for order, colour in zip(setting.orders, plot.PALETTE, strict=False):
            one = shown.sel(order=order)
            scale = ends.sel(order=order).values
            seed_lines(axes[0, 0], one.time, one.smoothed / scale, colour, f"$L = {order}$")
            mean = (one.gained - one.gained[-1]).mean("seed")
            plot.simulation(axes[0, 1], one.time, mean, f"$L = {order}$", color=colour, markevery=2)
            line = (2 - 2 / order) * np.log(one.time / setting.late)
            plot.theory(
                axes[0, 1], one.time, line, r"$(2 - 2/L)\log\log T$" if order == setting.orders[0] else None
            )
            if order < 3:
                times = one.state_log_time.transpose("state", "seed")
                seed_lines(axes[0, 2], times, one.residual.transpose("state", "seed"), colour)
        runs_apart = shown.stack(run=("seed", "order"))
        one = runs_apart.isel(run=int(np.argmax(runs_apart.drop_margin.values)))
        axes[0, 0].plot(one.time, one.margin / float(one.smoothed[-1]), color=plot.INK, linewidth=0.9,
                        linestyle="--", label=r"a $\bar\gamma$ that falls")  # fmt: skip
        axes[0, 0].set(ylabel=r"smoothed margin / its last value", ylim=(0, 1.15))
        axes[0, 0].set_title("(a) the smoothed margin only grows")
        axes[0, 1].set(ylabel=r"$\log(1/\mathcal{L}) - \log T$, from its end")
        axes[0, 1].set_title("(b) the rate of the loss")
        axes[0, 2].set(yscale="log", ylabel=r"KKT residual $\varepsilon / |\theta|$")
        axes[0, 2].set_title(r"(c) distance from a KKT point")
        for ax in axes[0]:
            ax.set(xscale="log", xlabel=r"$\log T$")
        axes[0, 0].legend(loc="lower right")
        axes[0, 1].legend(loc="lower right")
    return figure


NEXT = "the next order is log log T / log T, and a deep γ̃ still grows by some percent"


def _listed(orders: Sequence[int]) -> str:
    return ", ".join(map(str, orders))


def _last(setting: Setting) -> str:
    """The last time, in words."""
    return f"T = 10{superscript(setting.late / np.log(10))}"


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Theorems 4.1, 4.3 and 4.4, and the constant of the rate."""
    return (*_on_margins(setting), *_on_rates(setting), *_on_kkt(setting))


def _on_margins(setting: Setting) -> tuple[Claim, ...]:
    """The margins along the flow: Theorem 4.1."""
    return (
        Claim(
            id="smoothed-margin-grows",
            sentence="Once the loss is below its threshold, the smoothed margin never decreases.",
            source="ICLR, Theorem 4.1",
            metric=f"largest fall of γ̃ below an earlier value, relative; L = {_listed(setting.orders)}",
            measure=lambda runs: runs.drop_smoothed,
            expected=at_most(setting.rtol, "0, up to the tolerance of the flow"),
            form="{:.1e}",
        ),
        Claim(
            id="margin-may-fall",
            sentence="The normalised margin itself may fall for a while.",
            source="ICLR, after Theorem 4.1",
            metric="largest fall of γ̄ below an earlier value, relative; all runs",
            measure=lambda runs: runs.drop_margin.max(),
            expected=at_least(
                100 * setting.rtol, "a hundred times what the tolerance of the flow could feign"
            ),
        ),
    )


def _on_rates(setting: Setting) -> tuple[Claim, ...]:
    """Loss and norm: Theorem 4.3, and the constant of the rate."""
    orders, named = setting.orders, _listed(setting.orders)
    return (
        Claim(
            id="loss-rate",
            sentence="The loss is of the order 1/(T (log T)^(2−2/L)).",
            source="ICLR, Theorem 4.3",
            metric=f"power of log T in 1/(T loss), last decade of log T; L = {named}",
            measure=lambda runs: _loss_power(setting, runs),
            expected=near(tuple(2 - 2 / order for order in orders), 0.06, NEXT, form="{:.3f}"),
        ),
        Claim(
            id="norm-rate",
            sentence="The norm of the weights is of the order (log T)^(1/L).",
            source="ICLR, Theorem 4.3",
            metric=f"power of log T with which ‖θ‖ grows, last decade of log T; L = {named}",
            measure=lambda runs: _norm_power(setting, runs),
            expected=near(tuple(1 / order for order in orders), 0.05, NEXT, form="{:.3f}"),
        ),
        Claim(
            id="rate-constant",
            sentence="The constant of the rate is L² γ^(2/L), with the margin γ of the limit.",
            source="rankfall, docs/theory/lyu_margin.md",
            metric=f"|log(T loss (log 1/loss)^(2−2/L) L² γ̃^(2/L))| at {_last(setting)} / what is allowed",
            measure=lambda runs: np.abs(_constant(setting, runs)) / _allowed(setting, runs),
            expected=at_most(1.0, "twice the first corrections: entropy and logarithms, turning"),
        ),
    )


def _on_kkt(setting: Setting) -> tuple[Claim, ...]:
    """The way to a KKT point: Theorem 4.4."""
    shallow, named = setting.shallow, _listed(setting.shallow)
    if not shallow:
        return ()
    entropy = float(np.log(setting.n) / setting.late)  # what log n leaves of the margin
    return (
        Claim(
            id="kkt-residual",
            sentence="Some state is as near to a KKT point as the growth of margin and norm promises.",
            source="ICLR, Theorem 4.4 and its proof; the constant from docs/theory/lyu_margin.md",
            metric=f"least KKT residual ε / its bound (log(γ̃₂/γ̃₁) / (L log(ρ₂/ρ₁)))^½; L = {named}",
            measure=lambda runs: (
                runs.residual.sel(order=shallow).min("state") / runs.promised.sel(order=shallow)
            ),
            expected=at_most(1.0, "the bound"),
        ),
        Claim(
            id="kkt-margin",
            sentence="The normalised margin tends to that of a KKT point.",
            source="ICLR, Theorem 4.4",
            metric=f"1 − γ̄ at {_last(setting)} / γ̄ of the limit; L = {named}",
            measure=lambda runs: (
                1 - runs.margin.isel(time=-1).sel(order=shallow) / runs.limit_margin.sel(order=shallow)
            ),
            expected=between(
                -1e-6,
                max(0.003, entropy),
                f"at most log n / log(1/loss) = {entropy:.2g} is left, by γ̃ ≤ γ̄ ≤ γ*",
            ),
            hypotheses=(all_reached(lambda runs: runs.certified.sel(order=shallow)),),
        ),
    )


MARGINS = Experiment(
    name="margins",
    title="Homogeneous networks of order 1, 2 and 3: margin, loss and norm to t = 10³⁰⁰",
    setting=Setting(),
    simulation=run_margins,
    picture=draw_margins,
    statements=claims,
    seeds=20,
    cost=0.8,
    about=(
        "Gradient flow of the summed exponential loss on 6 orthogonally separable samples in 4 dimensions; "
        "L = 1: 6 neurons of slope 0.2, second layer fixed; L = 2: both layers trained; L = 3: three layers "
        "4-5-4-1 of slope 0.5. The paper prints no such run: data and networks are our choice. L = 1 and 2 "
        "are followed exactly at their kinks, L = 3 to a tolerance of 1e-6 a step."
    ),
)
