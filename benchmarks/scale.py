"""How the cost of a certified limit grows with the samples n, the width m and the dimension d."""

import time
from collections.abc import Callable, Iterator

import numpy as np

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import say

BASE = {"n": 10, "m": 60, "d": 784}
TABLE = {"n": 60, "m": 10, "d": 8}  # more samples than features
SPARE = 1.5  # times what pairs times events grow by, that a limit may take longer
LARGEST = {"n": 40, "m": 250, "d": 784}
HUGE = {"n": 250, "m": 1000, "d": 10_707}  # a quarter of a million pairs of neuron and sample


def certified(n: int, m: int, d: int, slope: float = 0.0) -> tuple[float, rf.Limit]:
    """The time for the limit of a ReLU network, and the limit."""
    data = rf.data.gaussian_mixture(n=n, dim=d, seed=0)
    network = rf.Network.fixed_second_layer((d, m, 1), slope=slope, sigma=1e-4, seed=1)
    return timed(network, data)


def of_table(n: int, m: int, d: int) -> tuple[float, rf.Limit]:
    """The time for the limit of a leaky ReLU network on Gaussian samples with linear labels."""
    rng = np.random.default_rng([n, d])
    x = rng.normal(size=(n, d))
    network = rf.Network.fixed_second_layer((d, m, 1), slope=0.1, sigma=1e-4, seed=1)
    return timed(network, rf.Data(x, np.sign(x @ rng.normal(size=d))))


def growth(name: str, base: dict[str, int], limit_of: Callable[..., tuple[float, rf.Limit]]) -> Iterator[Row]:
    """How the time grows by factors of 2 and 4 in n, m and d."""
    limit_of(**base)  # whatever is slow only once
    first, start = limit_of(**base)
    say(f"{base}: {duration(first)}, {start.settings['events']} events, {start.verdict}")
    for key in base:
        for factor in (2, 4):
            grown = {**base, key: factor * base[key]}
            took, limit = limit_of(**grown)
            events = limit.settings["events"] / start.settings["events"]
            work = events * grown["n"] * grown["m"] / base["n"] / base["m"]
            say(f"{key} = {grown[key]}: {duration(took)}, {limit.settings['events']} events, {limit.verdict}")
            what = (
                f"time for a limit with {key} = {grown[key]} against {base[key]}, the others as in {base}; "
                f"pairs times events grow by {work:.3g}; {limit.verdict}"
            )
            yield Row(
                f"{name}, {key} x {factor}",
                duration(took),
                duration(first),
                took / first,
                what,
                at_most=SPARE * max(work, 1.0),
                also=limit.verdict.finished,
            )


def timed(network: rf.Network, data: rf.Data) -> tuple[float, rf.Limit]:
    started = time.perf_counter()
    limit = rf.limit(network, data, optimality=False)
    return time.perf_counter() - started, limit


def embedded(n: int, m: int, d: int, wide: int) -> tuple[float, rf.Limit]:
    """The same with more features, all zero: the flow is the same, and so are its events."""
    narrow = rf.data.gaussian_mixture(n=n, dim=d, seed=0)
    network = rf.Network.fixed_second_layer((d, m, 1), slope=0.0, sigma=1e-4, seed=1)
    others = rf.Network.fixed_second_layer((wide - d, m, 1), slope=0.0, sigma=1e-4, seed=2)
    weights = np.hstack([network.weights[0], others.weights[0]])
    whole = rf.Network([weights, network.weights[1]], slope=0.0, trained=(True, False))
    return timed(whole, rf.Data(np.pad(narrow.x, ((0, 0), (0, wide - d))), narrow.y))


def bench() -> list[Row]:
    rows = [*growth("scale, n < d", BASE, certified), *growth("scale, n > d", TABLE, of_table)]
    small, limit = certified(**LARGEST)
    say(f"{LARGEST}: {duration(small)}")
    wide, wider = embedded(**LARGEST, wide=100_000)
    what = (
        f"time for the limit of 10,000 pairs of neuron and sample, {LARGEST}: {limit.verdict}, "
        f"{limit.settings['events']} events; the target is 60 s; beside it d = 100,000, {wider.verdict}"
    )
    rows.append(
        Row(
            "scale, n = 40, m = 250",
            duration(small),
            duration(wide),
            wide / small,
            what,
            at_most=1.5,
            also=small < 60 and limit.certified and wider.certified,
        )
    )
    for slope in (0.1, 0.0):
        took, limit = certified(**HUGE, slope=slope)
        say(f"{HUGE}, slope {slope}: {duration(took)}, {limit.verdict}")
        proved = limit.document is not None and limit.certificate().check().accepted
        what = (
            f"time for the limit with {HUGE}, slope {slope}: {limit.verdict}, {len(limit.kinks)} kinks, "
            f"{'proved to be a KKT point where flows stay' if proved else 'not proved'}; "
            f"{limit.settings['way']}"
        )
        rows.append(
            Row(
                f"scale, slope {slope}",
                duration(took),
                "600 s",
                600 / took,
                what,
                at_least=1,
                also=proved,
            )
        )
    return rows
