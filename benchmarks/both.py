"""The limit with both layers trained, against loss-normalised gradient descent, at n = 50, d = 20, m = 50."""

import time

import numpy as np

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import say

SAMPLES, DIM, WIDTH, SCALE = 50, 20, 50, 1e-4
SECONDS = 60.0  # for an answer
CLOSE = 1e-3  # 1 - cos to the limit
CAP = 60.0  # seconds after which descent is stopped
STEP = 0.05  # of descent, over the largest |x_i|^2: what is stable


def problem(labels: str, slope: float) -> tuple[rf.Network, rf.Data]:
    """Gaussian inputs with linear labels, those of a teacher with three neurons, or random ones."""
    rng = np.random.default_rng([0, 77])
    x = rng.normal(size=(SAMPLES, DIM))
    if labels == "random":
        y = rng.choice((-1.0, 1.0), SAMPLES)
    elif labels == "linear":
        y = np.sign(x @ rng.normal(size=DIM))
    else:
        heights = np.maximum(x @ rng.normal(size=(3, DIM)).T, 0) @ [1.0, -1.0, 1.0]
        y = np.where(heights > np.median(heights), 1.0, -1.0)
    return rf.Network.balanced((DIM, WIDTH, 1), slope, SCALE, 0), rf.Data(x, y, name=labels)


def off(w: np.ndarray, a: np.ndarray, limit: rf.Limit) -> float:
    """1 - cos of the angle between a network and the limit."""
    now = np.concatenate([w.ravel(), a])
    end = np.concatenate([limit.W.ravel(), np.asarray(limit.network.weights[1])[0]])
    return float(1 - now @ end / np.linalg.norm(now) / np.linalg.norm(end))


def descent(network: rf.Network, data: rf.Data, limit: rf.Limit) -> tuple[float, float]:
    """The seconds that gradient descent on log L takes to come CLOSE, or CAP, and where it is then."""
    w, a = network.weights[0].copy(), network.weights[1][0].copy()
    x, y, slope = data.x, data.y, float(network.slope)
    step = STEP / float((x**2).sum(axis=1).max())
    started = time.perf_counter()
    while (spent := time.perf_counter() - started) < CAP and off(w, a, limit) > CLOSE:
        for _ in range(1000):
            z = w @ x.T
            slopes = np.where(z > 0, 1.0, slope)
            q = y * (a @ (slopes * z))
            pulls = np.exp(q.min() - q)
            g = (slopes * (pulls / pulls.sum() * y)) @ x
            w, a = w + step * a[:, None] * g, a + step * (w * g).sum(axis=1)
    return spent, off(w, a, limit)


def one(labels: str, slope: float) -> Row:
    network, data = problem(labels, slope)
    started = time.perf_counter()
    limit = rf.limit(network, data, seconds=SECONDS, optimality=False, show=False)
    ours = time.perf_counter() - started
    steps = limit.settings["steps"]
    say(f"{labels} labels, slope {slope:g}: {limit.verdict} in {duration(ours)}, {steps:,} steps")
    there, lacks = descent(network, data, limit) if limit.reached else (float("nan"), float("nan"))
    say(f"descent: 1 - cos = {lacks:.1e} after {duration(there)}")
    stopped = f"; it was stopped at {lacks:.1e}" if lacks > CLOSE else ""
    what = (
        f"time to an answer ({limit.verdict}, {steps:,} steps) against loss-normalised gradient descent to "
        f"1 - cos = {CLOSE:g} from this limit{stopped}"
    )
    if limit.verdict.finished and not limit.reached:
        there, what = (
            SECONDS,
            f"time to an answer ({limit.verdict}, {steps:,} steps): {limit.settings['end']}",
        )
    elif not limit.reached:
        what = f"no answer within {SECONDS:g} s: {'; '.join(limit.missing)}"
    name = f"both layers, {labels} labels, slope {slope:g}"
    ratio = there / ours if limit.verdict.finished else 0.0
    answered = limit.verdict.finished and ours <= SECONDS + 2
    return Row(name, duration(ours), duration(there), ratio, what, at_least=1, also=answered)


def bench() -> list[Row]:
    return [one(labels, slope) for labels in ("linear", "teacher", "random") for slope in (0.1, 0.0)]
