"""Twenty networks in one call against twenty calls."""

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import side_by_side

NETWORKS, STEPS = 20, 1000


def bench() -> list[Row]:
    data = rf.data.gaussian_mixture(n=10, dim=784, seed=0)
    networks = [
        rf.Network.fixed_second_layer((784, 100, 1), 0.0, 1e-4, seed=seed, bias=True)
        for seed in range(NETWORKS)
    ]
    options = {"measures": ["stable_rank"], "record": rf.every(1), "show": False}

    def run(networks: rf.Network | list[rf.Network]) -> rf.Trajectory:
        return rf.descent(networks, data, "logistic", 1e-4, STEPS, **options)

    together, apart = side_by_side([lambda: run(networks), lambda: [run(each) for each in networks]])
    what = (
        f"{NETWORKS} networks for {STEPS:,} steps with the stable rank at each: one call against one after "
        "another, compilation left out of both"
    )
    return [Row("many", duration(together), duration(apart), apart / together, what)]
