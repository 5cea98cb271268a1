"""Ordinary tables: what an event of the exact flow costs, and how long a limit takes.

`python -m benchmarks.tables SHAPE SECONDS` walks one of `SHAPES` event by event, with whatever rankfall is
imported, and prints how far it came: this is how the commit from before is measured. The expression data are
looked for in the folder `gene_expression` of RANKFALL_TEST_DATA; where they are missing they are left out.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankfall as rf
from benchmarks.before import COMMIT, ROOT, source_before, with_source
from benchmarks.table import Row, duration
from benchmarks.timing import TURNS, say, seconds
from rankfall.dynamics import Reduction
from rankfall.dynamics.exact import Stalled, walk_of
from rankfall.loss import named

SHAPES = (  # samples, dimension, width
    (494, 12, 20),
    (494, 12, 100),
    (60, 12, 20),
    (10, 784, 100),
    (40, 784, 250),
    (168, 2905, 20),
    (250, 10_707, 1000),
)
TABLES = SHAPES[:3]
SLOPE, SCALE, NOISE = 0.1, 1e-4, 0.5
RTOL = 1e-10
WALK = 20.0  # seconds of the walk before, whose stretch is then walked by the compiled steps
QUIET = 100  # steps without event after which the walk has had its last, for this purpose
SECONDS = 60.0  # for an answer
SAMPLES = Path(os.environ.get("RANKFALL_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
EXPRESSION = ("golub", "gordon", "pomeroy")


def table_data(n: int, d: int) -> rf.Data:
    """Correlated columns, standardised; labels by a plane, with noise: no network of this kind fits all."""
    rng = np.random.default_rng([n, d])
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    height = x @ rng.normal(size=d)
    y = np.where(height + NOISE * height.std() * rng.normal(size=n) > 0, 1.0, -1.0)
    return rf.data.standardise(rf.Data(x, y, name=f"table of {n} x {d}"))


def expression_data(name: str) -> rf.Data | None:
    """A set of gene expression, standardised; None where it is missing."""
    file = SAMPLES / "gene_expression" / f"{name}.npz"
    if not file.exists():
        say(f"{name} is left out: it is not in {file.parent}")
        return None
    with np.load(file) as found:
        x, y = found["X"], found["y"].astype(float)
    return rf.data.standardise(rf.Data(x, np.where(y == y.max(), 1.0, -1.0), name=name))


def data_of(n: int, d: int) -> rf.Data | None:
    """Data of a shape: a table, Gaussian clusters in many dimensions, or samples and genes of gordon."""
    if d < 100:
        return table_data(n, d)
    if (n, d) != (168, 2905):
        return rf.data.gaussian_mixture(n=n, dim=d, seed=0)
    whole = expression_data("gordon")
    if whole is None:
        return None
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(whole.n)[:n], rng.permutation(whole.dim)[:d]
    return rf.data.standardise(rf.Data(whole.x[rows][:, columns], whole.y[rows], name="part of gordon"))


def walk_on(data: rf.Data, width: int) -> Any:
    """The walk of the flow on these data, at its start."""
    network = rf.Network.fixed_second_layer((data.dim, width, 1), SLOPE, SCALE, seed=1)
    return walk_of(Reduction([network], data, named("exponential")), RTOL)


def one_by_one(walk: Any, most: float) -> dict[str, float]:
    """The walk in NumPy, one step at a time, for so many seconds, or until no more events come."""
    started, last = time.perf_counter(), 0
    taken, clock = 0.0, 0.0
    while (now := time.perf_counter() - started) < most and walk.steps < last + QUIET:
        before = len(walk.events)
        try:
            walk.advance()
        except Stalled:
            break
        if len(walk.events) > before:
            last, clock, taken = walk.steps, walk.clock.now, time.perf_counter() - started
    del now
    return {"clock": clock, "events": len(walk.events), "seconds": taken}


def compiled(data: rf.Data, width: int, clock: float) -> tuple[float, int]:
    """The least time of a stretch by the compiled steps, and its events."""
    times, events = [], 0
    for _ in range(TURNS):
        walk = walk_on(data, width)
        times.append(seconds(lambda walk=walk: walk.forward(10**9, most=clock)))
        events = len(walk.events)
        if sum(times) > WALK:
            break
    return min(times), events


def one_pass(walk: Any, width: int) -> float:
    """The least time of one product X W' in NumPy, in the coordinates of the walk."""
    x, w = walk.region.x, np.ones((width, walk.region.x.shape[1]))
    often = max(1, int(1e7 / (x.size * width)))
    turns = [seconds(lambda: [x @ w.T for _ in range(often)]) / often for _ in range(5)]
    return min(turns)


def events_of(shape: tuple[int, int, int], source: Path | None) -> Iterator[Row]:
    """What an event costs, against the commit from before and against one pass over the numbers."""
    n, d, width = shape
    data = data_of(n, d)
    if data is None:
        return
    name, where = f"event, {n} x {d}, m = {width}", f"(n, d, m) = ({n}, {d}, {width})"
    if source is not None:
        command = [sys.executable, "-m", "benchmarks.tables", *map(str, shape), str(WALK)]
        done = subprocess.run(command, cwd=ROOT, env=with_source(source), check=True, stdout=subprocess.PIPE)
        before = json.loads(done.stdout)
        say(f"{name}, before: {before['events']} events in {duration(before['seconds'])}")
    else:
        before = one_by_one(walk_on(data, width), WALK)
    took, events = compiled(data, width, before["clock"])
    say(f"{name}, now: {events} events in {duration(took)}")
    ours, theirs = took / max(events, 1), before["seconds"] / max(before["events"], 1)
    peer = f"the commit {COMMIT}" if source is not None else "the walk in NumPy"
    same = abs(events - before["events"]) <= 0.01 * events
    yield Row(
        name,
        duration(ours),
        duration(theirs),
        theirs / ours,
        f"time for an event at {where}, against {peer}: the same stretch, "
        f"{before['events']:.0f} events there, {events} here",
        at_least=15.0 if shape in TABLES else 1.0,
        also=same,
    )
    numbers = one_pass(walk_on(data, width), width)
    what = f"the same, against one product X W' of NumPy in the coordinates of the walk, {data.name}"
    yield Row(f"{name}, numbers", duration(ours), duration(numbers), numbers / ours, what)


def answered(name: str, data: rf.Data, width: int, slope: float) -> Row:
    """A limit with the default network of this width and slope."""
    network = rf.Network.fixed_second_layer((data.dim, width, 1), slope, SCALE, seed=0)
    started = time.perf_counter()
    limit = rf.limit(network, data, seconds=SECONDS, optimality=False, show=False)
    took = time.perf_counter() - started
    proved = limit.document is not None and limit.certificate().check().accepted
    say(f"{name}: {limit.verdict} in {duration(took)}, {limit.settings['events']:,} events")
    what = (
        f"time to an answer: {limit.verdict}, {'proved' if proved else 'not proved'}, "
        f"{limit.settings['events']:,} events, {data.n} x {data.dim}, m = {width}, slope {slope:g}"
        + "".join(f"; {why}" for why in limit.missing)
    )
    ratio = SECONDS / took if limit.verdict.finished else 0.0
    return Row(name, duration(took), f"{SECONDS:g} s", ratio, what, at_least=1)


def known_tables() -> Iterator[tuple[str, Callable[[], rf.Data]]]:
    """The tables that come with scikit-learn, standardised; digits two at a time."""
    from sklearn import datasets

    def of(loaded: Any, first: int, second: int, name: str) -> rf.Data:
        keep = (loaded.target == first) | (loaded.target == second)
        y = np.where(loaded.target[keep] == second, 1.0, -1.0)
        return rf.data.standardise(rf.Data(loaded.data[keep], y, name=name))

    def iris() -> rf.Data:
        loaded = datasets.load_iris()
        y = np.where(loaded.target == 1, 1.0, -1.0)
        return rf.data.standardise(rf.Data(loaded.data, y, name="iris, versicolor against the others"))

    yield "iris, 1 against 2", lambda: of(datasets.load_iris(), 1, 2, "iris, 1 against 2")
    yield "iris, 1 against others", iris
    yield "breast cancer", lambda: of(datasets.load_breast_cancer(), 0, 1, "breast cancer")
    yield "digits, 0 against 1", lambda: of(datasets.load_digits(), 0, 1, "digits, 0 against 1")
    yield "digits, 3 against 8", lambda: of(datasets.load_digits(), 3, 8, "digits, 3 against 8")


def limits() -> Iterator[Row]:
    """Answers within a minute."""
    data = table_data(494, 12)
    for width in (20, 100):
        for slope in (0.1, 0.0):
            yield answered(f"table, m = {width}, slope {slope:g}", data, width, slope)
    for name, load in known_tables():
        for slope in (0.1, 0.0):
            yield answered(f"{name}, slope {slope:g}", load(), 20, slope)
    for name in EXPRESSION:
        found = expression_data(name)
        if found is not None:
            yield answered(name, found, 20, 0.1)
    part = data_of(168, 2905)
    if part is not None:
        yield answered("168 x 2905", part, 20, 0.1)


def bench() -> list[Row]:
    compiled(table_data(60, 12), 20, 1.0)  # what is slow only once
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        source = source_before(Path(folder))
        for shape in SHAPES:
            rows.extend(events_of(shape, source))
    return rows + list(limits())


if __name__ == "__main__":
    n, d, width = map(int, sys.argv[1:4])
    data = data_of(n, d)
    assert data is not None
    print(json.dumps(one_by_one(walk_on(data, width), float(sys.argv[4]))))
