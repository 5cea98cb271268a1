"""The exact flow against explicit solvers, and the limit against loss-normalised gradient descent."""

import time
import warnings

import numpy as np
from scipy.integrate import solve_ivp

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import say

CLOSE = 1e-6  # 1 - cos to the limit, and the margin's distance from the limit's, relative
CAP = 400_000  # evaluations after which a peer is stopped
PATIENCE = 60.0  # seconds after which descent is stopped
RTOL = 1e-6


class Stopped(Exception):
    """A peer has used its evaluations up."""


def problem(slope: float) -> tuple[rf.Network, rf.Data]:
    """Sun's data, n = 10, d = 784, in the coordinates of its span, so that peers profit from it too."""
    data = rf.data.gaussian_mixture(n=10, dim=784, seed=0)
    data = rf.Data(data.x @ np.linalg.qr(data.x.T)[0], data.y, name="gaussian_mixture")
    return rf.Network.fixed_second_layer((10, 100, 1), slope=slope, sigma=1e-4, seed=1), data


def off(w: np.ndarray, limit: rf.Limit) -> float:
    """1 - cos of the angle between a first layer and the limit's."""
    return float(1 - (w * limit.W).sum() / np.linalg.norm(w) / np.linalg.norm(limit.W))


def field(network: rf.Network, data: rf.Data, w: np.ndarray) -> np.ndarray:
    """The flow in the loss clock, as one writes it in NumPy."""
    a, slope = network.weights[1][0], float(network.slope)
    z = w @ data.x.T
    slopes = np.where(z > 0, 1.0, slope)
    q = data.y * (a @ (slopes * z))
    pulls = np.exp(q.min() - q)
    return a[:, None] * ((slopes * (pulls / pulls.sum() * data.y)) @ data.x)


def end(network: rf.Network, data: rf.Data, limit: rf.Limit) -> float:
    """The s at which the exact flow is CLOSE to its limit."""
    run = rf.exact_flow(
        network,
        data,
        "exponential",
        100.0,
        clock="loss",
        measures=["weights"],
        record=rf.logarithmic(300, 0.1),
    )
    size = network.weights[0].size
    close = [off(w[:size].reshape(network.weights[0].shape), limit) <= CLOSE for w in run["weights"].values]
    return float(run.s[close][0])


def scipy_evaluations(network: rf.Network, data: rf.Data, s: float) -> tuple[int, float]:
    """The evaluations SciPy's RK45 takes, and how far in s it comes with CAP of them."""
    count, last = 0, 0.0

    def right(t: float, w: np.ndarray) -> np.ndarray:
        nonlocal count, last
        count, last = count + 1, t
        if count > CAP:
            raise Stopped
        return field(network, data, w.reshape(network.weights[0].shape)).ravel()

    try:
        solve_ivp(right, (0.0, s), network.weights[0].ravel(), rtol=RTOL, atol=1e-9)
    except Stopped:
        return CAP, last
    return count, s


def evaluations(slope: float) -> list[Row]:
    network, data = problem(slope)
    limit = rf.limit(network, data, optimality=False)
    s = end(network, data, limit)
    ours = rf.exact_flow(network, data, "exponential", s, clock="loss", measures=["log_loss"], record=[s])
    say(f"slope {slope:g}: exact flow to s = {s:.3g}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.FlowWarning)
        flow = rf.flow(
            network,
            data,
            "exponential",
            s,
            clock="loss",
            rtol=RTOL,
            measures=["log_loss"],
            record=[s],
            budget=CAP // 6,
        )
    say(f"slope {slope:g}: diffrax stopped at s = {float(flow.s[-1]):.3g}")
    scipy, reached = scipy_evaluations(network, data, s)
    say(f"slope {slope:g}: SciPy stopped at s = {reached:.3g}")
    found, here = off(ours.network.weights[0], limit), ours.statistics.evaluations
    rows = []
    for name, there, at in (
        ("diffrax's Tsit5", flow.statistics.evaluations, float(flow.s[-1])),
        ("SciPy's RK45", scipy, reached),
    ):
        stopped = "" if at >= s else f", which came no further than s = {at:.3g} and was stopped there"
        what = (
            f"gradient evaluations (or as much work) to s = {s:.3g}, where 1 - cos to the certified limit is "
            f"{found:.1e}: {len(ours.events.clock)} events exactly against {name} at rtol {RTOL:g}{stopped}"
        )
        title = f"exact flow, slope {slope:g}, against {name}"
        rows.append(
            Row(title, f"{here:,}", f"{there:,}", there / here, what, at_least=100, also=found <= CLOSE)
        )
    return rows


def margin(slope: float) -> Row:
    """The time to the limit's margin, against steps of gradient descent divided by the loss."""
    network, data = problem(slope)
    started = time.perf_counter()
    limit = rf.limit(network, data, optimality=False)
    ours = time.perf_counter() - started
    say(f"slope {slope:g}: limit in {duration(ours)}")
    w, a = network.weights[0].copy(), network.weights[1][0]
    step, steps, best = 0.02 / 78.4, 0, 0.0  # a tenth of what is stable
    started = time.perf_counter()
    while (there := time.perf_counter() - started) < PATIENCE and best < (
        1 - CLOSE
    ) * limit.normalised_margin:
        for _ in range(1000):
            w += step * field(network, data, w)
        steps += 1000
        z = w @ data.x.T
        best = float((data.y * (a @ np.where(z > 0, z, slope * z))).min() / np.linalg.norm(w))
        there = time.perf_counter() - started
    lacks = 1 - best / limit.normalised_margin
    say(f"slope {slope:g}: descent lacks {lacks:.1e} after {steps:,} steps")
    what = (
        f"time to a normalised margin within {CLOSE:g} of the limit's: the certified limit against "
        f"loss-normalised gradient descent, which after {steps:,} steps in {duration(there)} "
        f"lacks {lacks:.1e}"
    )
    return Row(f"limit, slope {slope:g}", duration(ours), duration(there), there / ours, what)


def bench() -> list[Row]:
    return [row for slope in (0.1, 0.0) for row in (*evaluations(slope), margin(slope))]
