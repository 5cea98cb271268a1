"""Figure 1 of Sun and Tran: five networks, 5000 epochs, the stable rank at every epoch."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np

import rankfall as rf
from benchmarks import threads
from benchmarks.table import Row, duration
from benchmarks.timing import say, seconds
from rankfall import descent, every  # here, so that their import is not timed

SIGMAS = np.array([1e-5, 5e-5, 1e-4, 5e-4, 1e-3])
STEP, EPOCHS, FRESH = 1e-4, 5000, 3
ROOT = Path(__file__).parent.parent


def problem() -> tuple[rf.Data, list[rf.Network]]:
    """The data, and one network for each sigma."""
    data = rf.data.gaussian_mixture(n=10, dim=784, seed=0)
    networks = [rf.Network.fixed_second_layer((784, 100, 1), 0.0, s, seed=1, bias=True) for s in SIGMAS]
    return data, networks


def rankfall_ranks(data: rf.Data, networks: list[rf.Network]) -> np.ndarray:
    """The stable ranks, epochs x networks."""
    run = descent(
        networks, data, "logistic", STEP, EPOCHS, measures=["stable_rank"], record=every(1), show=False
    )
    return run.stable_rank.values


def torch_ranks(torch: ModuleType, data: rf.Data, network: rf.Network) -> list[float]:
    """The same for one network, by an eager loop."""
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    first = torch.nn.Linear(*network.weights[0].shape[::-1], dtype=torch.float64)
    first.weight.data, first.bias.data = torch.tensor(network.weights[0]), torch.tensor(network.biases[0])
    second = torch.tensor(network.weights[1][0])
    optimiser = torch.optim.SGD(first.parameters(), lr=STEP)

    def stable_rank() -> float:
        values = torch.linalg.svdvals(first.weight.detach())
        return ((values**2).sum() / values[0] ** 2).item()

    ranks = [stable_rank()]
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        torch.nn.functional.softplus(-y * (torch.relu(first(x)) @ second)).mean().backward()
        optimiser.step()
        ranks.append(stable_rank())
    return ranks


def fresh() -> tuple[float, np.ndarray]:
    """The time and the ranks of rankfall in a new process, where nothing is compiled yet."""
    with TemporaryDirectory() as folder:
        kept = Path(folder) / "ranks.npy"
        command = [sys.executable, "-m", "benchmarks.sun", str(kept)]
        environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout), np.load(kept)


def bench() -> list[Row]:
    torch = threads.torch()
    if torch is None:
        say("PyTorch is not installed, so there is nothing to compare with here: `make bench` installs it")
        return []
    runs = []
    for i in range(FRESH):
        runs.append(fresh())
        say(f"rankfall in new process {i + 1} of {FRESH}: {duration(runs[-1][0])}")
    ours, ranks = median(time for time, _ in runs), runs[0][1]
    (data, networks), theirs, peer = problem(), [], 0.0
    for network in networks:
        peer += seconds(lambda network=network: theirs.append(torch_ranks(torch, data, network)))
        say(f"PyTorch, {len(theirs)} of {len(networks)} networks: {duration(peer)} so far")
    apart = np.abs(ranks - np.transpose(theirs))
    what = (
        "Sun and Tran, Figure 1, complete: one call with five networks, compilation included, against an "
        f"eager float64 PyTorch loop; the stable ranks differ by {apart.max():.1g} at most "
        f"({(apart / np.transpose(theirs)).max():.1g} relative)"
    )
    return [Row("sun", duration(ours), duration(peer), peer / ours, what, at_least=50)]


if __name__ == "__main__":
    data, networks = problem()
    found: list[np.ndarray] = []
    print(json.dumps(seconds(lambda: found.append(rankfall_ranks(data, networks)))))
    np.save(sys.argv[1], found[0])
