"""Many networks in one call against as many calls."""

import numpy as np

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import side_by_side

NETWORKS, STEPS = 20, 1000


def row(name: str, networks: list[rf.Network], data: rf.Data, loss: str, step: float) -> Row:
    options = {"measures": ["stable_rank"], "record": rf.every(1), "show": False}

    def run(networks: rf.Network | list[rf.Network]) -> rf.Trajectory:
        return rf.descent(networks, data, loss, step, STEPS, **options)

    together, apart = side_by_side([lambda: run(networks), lambda: [run(each) for each in networks]])
    what = (
        f"{len(networks)} networks {networks[0].widths} on {data.n} samples for {STEPS:,} steps with the "
        "stable rank at each: one call against one after another, compilation left out of both"
    )
    return Row(name, duration(together), duration(apart), apart / together, what)


def bench() -> list[Row]:
    rng, tiny = np.random.default_rng(0), rf.data.gaussian_mixture(n=10, dim=784, seed=0)
    x = rng.standard_normal((80, 5), dtype=np.float32)
    wide = rf.Data(x, (x[:, 0] > 0).astype(float))
    narrow = [
        rf.Network.fixed_second_layer((784, 50, 1), 0.0, 1e-4, seed, bias=True) for seed in range(NETWORKS)
    ]
    tall = [
        rf.Network.constant_second_layer((5, 1000, 2), 0.0, 1e-4, seed).astype(np.float32)
        for seed in range(NETWORKS)
    ]
    return [
        row("many, in one loop", narrow, tiny, "logistic", 1e-4),
        row("many, on all cores", tall, wide, "cross_entropy", 1e-2),
    ]
