"""How long `assess` takes to ask every result, beside the eigenvalues of one Gram matrix."""

import time

import numpy as np

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import say

SIZES = (("many samples", 2000, 20, 5), ("many features", 250, 10_707, 30))  # and the seconds it may take


def networks(dim: int) -> list[rf.Network]:
    """One of each kind that results speak about."""
    return [
        rf.Network.gaussian((dim, 100, 1), slope=0.0, scale=1e-4, seed=0),
        rf.Network.fixed_second_layer((dim, 100, 1), slope=0.1, sigma=1e-4, seed=0),
    ]


def bench() -> list[Row]:
    rows = []
    for name, n, dim, seconds in SIZES:
        data = rf.data.gaussian_mixture(n=n, dim=dim, seed=0)
        symmetric = rf.data.symmetrise(rf.data.gaussian_mixture(n=n // 2, dim=dim, seed=0))
        slowest, results = 0.0, 0
        for points in (data, symmetric):
            for network in networks(dim):
                for loss in ("logistic", "square"):
                    started = time.perf_counter()
                    answer = rf.theory.assess(network, points, loss)
                    str(answer)
                    slowest, results = max(slowest, time.perf_counter() - started), len(answer)
        started = time.perf_counter()
        np.linalg.eigvalsh(data.x @ data.x.T)
        one = time.perf_counter() - started
        say(f"n = {n}, d = {dim}: {duration(slowest)}")
        what = (
            f"the slowest answer of {results} results on n = {n}, d = {dim} (8 situations, the first with "
            f"what is slow only once) against the eigenvalues of the Gram matrix; the target is {seconds} s"
        )
        rows.append(Row(f"assess, {name}", duration(slowest), duration(one), slowest / one, what))
    return rows
