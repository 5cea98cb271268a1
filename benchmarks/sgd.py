"""SGD on a set of the size of MNIST, against its matrix products alone and against PyTorch."""

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import rankfall as rf
from benchmarks import threads
from benchmarks.table import Row, duration
from benchmarks.timing import Run, say, side_by_side, step_times
from rankfall._precision import float64
from rankfall.dynamics._descent.shuffle import permutation

SAMPLES, DIM, WIDTH, CLASSES, BATCH, STEP = 60_000, 784, 1000, 10, 64, 0.01
SHORT, LONG = 200, 1400


def problem() -> tuple[rf.Data, rf.Network]:
    """Random numbers in float32: only their number matters here."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SAMPLES, DIM), dtype=np.float32)
    weights = rf.Network.glorot_uniform((DIM, WIDTH, CLASSES), 0.0, seed=1).weights
    network = rf.Network([w.astype(np.float32) for w in weights], slope=0.0)
    return rf.Data(x, rng.integers(0, CLASSES, SAMPLES)), network


def rankfall_run(data: rf.Data, network: rf.Network) -> Run:
    options = {"batch": BATCH, "measures": ["norms"], "show": False}

    def run(steps: int) -> rf.Trajectory:
        return rf.descent(network, data, "cross_entropy", STEP, steps, record=[steps], **options)

    return Run(run, SHORT, LONG)


def products_run() -> Run:
    """The five matrix products of one step, and nothing else.

    Each turn of the loop feeds the next, so that none can be left out; orthonormal rows keep the numbers in
    range.
    """
    rng = np.random.default_rng(0)
    x = jnp.asarray(np.linalg.qr(rng.normal(size=(DIM, BATCH)))[0].T, dtype=jnp.float32)
    second = jnp.asarray(np.linalg.qr(rng.normal(size=(WIDTH, CLASSES)))[0].T, dtype=jnp.float32)
    first = jnp.asarray(rng.normal(size=(WIDTH, DIM)), dtype=jnp.float32)

    def turn(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        hidden = x @ carry[0].T
        outputs = hidden @ second.T
        return (outputs @ second).T @ x, outputs.T @ hidden

    loop = jax.jit(lambda first, turns: jax.lax.fori_loop(0, turns, turn, (first, second)))
    return Run(lambda turns: jax.block_until_ready(loop(first, turns)), SHORT, LONG)


def batches(torch: ModuleType) -> Iterator[Any]:
    """The indices of the batches, shuffled anew in every epoch, without end."""
    while True:
        yield from torch.randperm(SAMPLES).split(BATCH)


def torch_run(torch: ModuleType, data: rf.Data, network: rf.Network) -> Run:
    """An eager loop on tensors in memory."""
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y).long()
    model = torch.nn.Sequential(
        torch.nn.Linear(DIM, WIDTH, bias=False), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES, bias=False)
    )
    for parameter, weight in zip(model.parameters(), network.weights, strict=True):
        parameter.data = torch.tensor(weight)
    optimiser = torch.optim.SGD(model.parameters(), lr=STEP)

    def run(steps: int) -> None:
        for chosen, _ in zip(batches(torch), range(steps), strict=False):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimiser.step()

    return Run(run, SHORT, LONG)


def shuffles() -> Row:
    """The order of an epoch, against JAX's own way to the same order."""
    with float64():
        key = jax.random.key(0)
        ways = (permutation, jax.random.permutation)
        draws = [partial(jax.jit(way, static_argnums=1), key, SAMPLES) for way in ways]
        ours, peer = side_by_side([lambda draw=draw: jax.block_until_ready(draw()) for draw in draws])
    what = f"a random order of {SAMPLES:,} samples against jax.random.permutation, which draws the same"
    return Row("sgd, shuffle", duration(ours), duration(peer), peer / ours, what, at_least=1)


def bench() -> list[Row]:
    data, network = problem()
    runs = [rankfall_run(data, network), products_run()]
    torch = threads.torch()
    if torch is None:
        say("PyTorch is not installed, so only the matrix products are compared: `make bench` installs it")
    else:
        runs.append(torch_run(torch, data, network))
    ours, needed, *peer = step_times(runs)
    size = f"float32, {SAMPLES:,} x {DIM}, {WIDTH} neurons, {CLASSES} classes, batches of {BATCH}"
    rows = [
        Row(
            "sgd, products",
            duration(ours),
            duration(needed),
            needed / ours,
            f"the part of a step of SGD that its matrix products alone take ({size})",
            at_least=0.7,
        )
    ]
    for eager in peer:
        what = "time of a step of SGD against an eager PyTorch loop on tensors in memory, the same network"
        rows.append(Row("sgd, PyTorch", duration(ours), duration(eager), eager / ours, what, at_least=1))
    return [*rows, shuffles()]
