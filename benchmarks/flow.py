"""Gradient flow to a tolerance against gradient descent with a small step: their work and their errors."""

import time

import numpy as np

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import say

STEP, RTOL = 0.004, 2e-5
REFERENCE = 1e-10


def halfway(network: rf.Network, data: rf.Data, end: float) -> int:
    """The step of descent at which the loss is halfway from its start to its end."""
    run = rf.flow(
        network, data, "square", end, rtol=1e-6, measures=["loss"], record=rf.every(0.1), show=False
    )
    middle = (run.loss[0] + run.loss[-1]) / 2
    return round(float(run.time[run.loss <= middle][0]) / STEP)


def errors(run: rf.Trajectory, exact: rf.Trajectory) -> np.ndarray:
    """The relative errors of the weights halfway and at the end."""
    found, true = run.weights.values[1:], exact.weights.values[1:]
    return np.linalg.norm(found - true, axis=1) / np.linalg.norm(true, axis=1)


def compare(slope: float, data: rf.Data) -> Row:
    network = rf.Network.gaussian((20, 500, 1), slope, scale=1e-8, seed=1)
    steps = round(20 / float(network.mean_slope) / STEP)
    end, at = steps * STEP, halfway(network, data, steps * STEP)

    def flow(rtol: float) -> rf.Trajectory:
        return rf.flow(
            network, data, "square", end, rtol=rtol, measures=["weights"], record=[at * STEP], show=False
        )

    say(f"slope {slope:g}: the reference, rtol {REFERENCE:g}")
    exact = flow(REFERENCE)
    started = time.perf_counter()
    ours = flow(RTOL)
    say(f"slope {slope:g}: flow in {duration(between := time.perf_counter() - started)}")
    peer = rf.descent(network, data, "square", STEP, steps, measures=["weights"], record=[at], show=False)
    say(f"slope {slope:g}: descent in {duration(time.perf_counter() - started - between)}")
    flowed, descended = errors(ours, exact), errors(peer, exact)
    evaluations = ours.statistics.evaluations
    what = (
        f"gradient evaluations to t = {end:g}: flow at rtol {RTOL:g} against descent at step {STEP:g}; "
        f"relative error of the weights halfway {flowed[0]:.1e} against {descended[0]:.1e}, "
        f"at the end {flowed[1]:.1e} against {descended[1]:.1e}"
    )
    return Row(
        f"flow, slope {slope:g}",
        f"{evaluations:,}",
        f"{steps:,}",
        steps / evaluations,
        what,
        at_least=15,
        also=bool((flowed < descended).all()),
    )


def bench() -> list[Row]:
    data = rf.data.symmetric_sine(pairs=1000, dim=20, seed=0)
    return [compare(slope, data) for slope in (0.0, 1.0)]
