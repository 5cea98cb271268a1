"""Ten samples in 100,000 dimensions against ten in 784: in the span of the data they are alike."""

import rankfall as rf
from benchmarks.table import Row, duration
from benchmarks.timing import Run, say, step_times


def problem(dim: int, span: bool, steps: int) -> Run:
    say(f"setting up d = {dim:,}{'' if span else ' without the span'}")
    data = rf.data.gaussian_mixture(n=10, dim=dim, seed=0)
    network = rf.Network.fixed_second_layer((dim, 100, 1), 0.0, 1e-4, seed=1, bias=True)

    def run(steps: int) -> rf.Trajectory:
        return rf.descent(
            network, data, "logistic", 1e-4, steps, measures=["loss"], record=[steps], span=span, show=False
        )

    return Run(run, 1_000, steps)


def bench() -> list[Row]:
    # A step takes microseconds and the set-up at d = 100,000 a second or two: only long runs outweigh it.
    runs = [problem(100_000, True, 801_000), problem(784, True, 801_000), problem(784, False, 11_000)]
    large, small, full = step_times(runs)
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
