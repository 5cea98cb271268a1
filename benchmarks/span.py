"""Ten samples in 100,000 dimensions against ten in 784: in the span of the data they are alike."""

from collections.abc import Callable

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import per_step, say, side_by_side

SHORT, LONG = 1_000, 101_000


def stepper(dim: int, span: bool) -> Callable[[], float]:
    say(f"setting up d = {dim:,}{'' if span else ' without span'}")
    data = rf.data.gaussian_mixture(n=10, dim=dim, seed=0)
    network = rf.Network.fixed_second_layer((dim, 100, 1), 0.0, 1e-4, seed=1, bias=True)

    def run(steps: int) -> rf.Trajectory:
        return rf.descent(
            network, data, "logistic", 1e-4, steps, measures=["loss"], record=[steps], span=span, show=False
        )

    return per_step(run, SHORT, LONG)


def bench() -> list[Row]:
    measures = [stepper(100_000, True), stepper(784, True), stepper(784, False)]
    large, small, full = side_by_side(measures)
    return [
        Row(
            "span",
            duration(large),
            duration(small),
            large / small,
            "time of a step with 10 samples and 100 neurons: d = 100,000 against d = 784",
            at_most=1.5,
        ),
        Row(
            "span, left out",
            duration(small),
            duration(full),
            full / small,
            "time of a step at d = 784: in the span of the 10 samples against all coordinates (span=False)",
        ),
    ]
