"""Real data at the speed of the machine: autism, MNIST, CIFAR-10 and gordon as Sun and Tran ran them.

Each part needs its data (`rankfall data get mnist cifar10 autism`, `rankfall data import gordon.npz`) and is
left out, saying so, where they are missing. A part of its own is `python -m benchmarks.real mnist`.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import rankfall as rf
from benchmarks import threads
from benchmarks.table import Row, duration
from benchmarks.timing import say, seconds

VALUES = [1e-5, 5e-5, 1e-4, 5e-4, 1e-3]
ROOT = Path(__file__).parent.parent
MEASURES = ["stable_rank", "test_accuracy"]
FIGURE_6 = np.array([15, 20, 26, 68, 110])  # the ends of the curves of Figure 6, read off
SIDE, PRODUCTS = 2048, 40  # of the matrices whose products are the peak: their size and number


def networks(widths: tuple[int, int, int], slopes: tuple[float, ...] = (0.0,)) -> list[rf.Network]:
    make = rf.Network.constant_second_layer
    return [make(widths, s, v, seed=42).astype(np.float32) for s in slopes for v in VALUES]


def in_float32(data: rf.Data) -> rf.Data:
    test = None if data.test is None else in_float32(data.test)
    return rf.Data(data.x.astype(np.float32), data.y, data.name, test)


# What rankfall does, each in a new process: nothing is compiled yet, and the memory is its own


def run_autism() -> dict[str, Any]:
    """Fig. 4 and 5: ten networks, 5000 epochs, the stable rank at every epoch."""
    data = in_float32(rf.data.split(rf.data.autism(), test=0.2, seed=42))
    starts = networks((5, 1000, 2), (0.0, 0.01))
    import rankfall.dynamics  # noqa: F401  # as PyTorch is imported before its time is taken

    options = {"epochs": 5000, "measures": MEASURES, "show": False}
    found: list[rf.Trajectory] = []
    return _timed(lambda: found.append(rf.descent(starts, data, "cross_entropy", 0.01, **options)), found)


def run_gordon() -> dict[str, Any]:
    """Fig. 2 and 3 on gordon: ten networks, 500 epochs, in the span of 144 samples of 12,533 genes."""
    found: list[rf.Trajectory] = []

    def run() -> None:
        whole = rf.data.split(rf.data.standardise(rf.data.gordon()), test=0.2, seed=42)
        starts = networks((whole.dim, 1000, 2), (0.0, 0.01))
        options = {"epochs": 500, "measures": MEASURES, "show": False}
        found.append(rf.descent(starts, in_float32(whole), "cross_entropy", 0.22, **options))

    return _timed(run, found)


def run_mnist() -> dict[str, Any]:
    """Fig. 6, one seed: five networks, ten epochs."""
    data, starts = rf.data.mnist(0.1307, 0.3081), networks((784, 1000, 10))
    options = {"batch": 64, "seed": 42, "measures": MEASURES, "show": False}
    short = {"steps": 120, "record": rf.linear(11), **options}  # as many records: compiles the same loop
    rf.descent(starts, data, "cross_entropy", 0.1, **short)
    found: list[rf.Trajectory] = []
    call = {"epochs": 10, **options}
    before = peak()
    told = _timed(lambda: found.append(rf.descent(starts, data, "cross_entropy", 0.1, **call)), found)
    return told | {"peak": (before + peak()) / 2}


def run_cifar() -> dict[str, Any]:
    """Fig. 8: five epochs of one network."""
    data, start = rf.data.cifar10(0.5, 0.5), networks((3072, 512, 10))[0]
    options = {"batch": 128, "seed": 42, "measures": MEASURES, "show": False}
    short = {"steps": 60, "record": rf.linear(6), **options}  # as many records: compiles the same loop
    rf.descent(start, data, "cross_entropy", 0.01, **short)
    found: list[rf.Trajectory] = []
    call = {"epochs": 5, **options}
    return _timed(lambda: found.append(rf.descent(start, data, "cross_entropy", 0.01, **call)), found)


def _timed(run: Callable[[], None], found: list[rf.Trajectory]) -> dict[str, Any]:
    took = seconds(run)
    ends = found[-1].stable_rank.values[-1]
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": took, "ranks": ends[..., 0].ravel().tolist(), "gigabytes": gigabytes}


def peak() -> float:
    """The float32 operations a second that products of square matrices reach here, over a few seconds."""
    import jax

    matrix = jax.numpy.asarray(np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32))
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(matrix))  # compiles
    took = seconds(lambda: [jax.block_until_ready(product(matrix)) for _ in range(PRODUCTS)])
    return 2 * PRODUCTS * SIDE**3 / took


def fresh(name: str) -> dict[str, Any]:
    """The same in a new process."""
    command = [sys.executable, "-m", "benchmarks.real", "--in-this-process", name]
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    told = json.loads(done.stdout)
    say(f"rankfall, {name}: {duration(told['seconds'])}, {told['gigabytes']:.2f} GB")
    return told


# What a user would write instead


def singular_values(weight: Any) -> np.ndarray:
    """As the authors' program takes them."""
    return np.linalg.svd(weight.numpy(), compute_uv=False)


def torch_epochs(
    torch: ModuleType,
    data: rf.Data,
    start: rf.Network,
    step: float,
    batches: Callable[[], Any],
    epochs: int,
    tests: Callable[[], Any] | None = None,
    singular: Callable[[Any], np.ndarray] = singular_values,
) -> float:
    """Seconds for so many epochs of an eager loop, each with an SVD and the test accuracy."""
    first, second = (torch.nn.Linear(*w.shape[::-1]) for w in start.weights)
    for layer, w, b in zip((first, second), start.weights, start.biases, strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(w), torch.tensor(b)
    model = torch.nn.Sequential(first, torch.nn.LeakyReLU(float(start.slope)), second)
    optimiser = torch.optim.SGD(model.parameters(), lr=step)
    assert data.test is not None
    whole = [(torch.tensor(data.test.x), torch.tensor(data.test.y).long())]
    records = []

    def run() -> None:
        for _ in range(epochs):
            for x, y in batches():
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimiser.step()
            values = singular(first.weight.detach())
            with torch.no_grad():
                each = tests() if tests else whole
                right = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in each)
            records.append(((values**2).sum() / values[0] ** 2, right / data.test.n))

    return seconds(run)


def in_memory(torch: ModuleType, data: rf.Data, batch: int) -> Callable[[], Any]:
    """Shuffled batches of tensors in memory."""
    x, y = torch.tensor(data.x), torch.tensor(data.y).long()
    return lambda: ((x[chosen], y[chosen]) for chosen in torch.randperm(len(x)).split(batch))


def by_sample(torch: ModuleType, data: rf.Data, batch: int, count: int) -> Callable[[], Any]:
    """Batches of a DataLoader that prepares `count` images one by one, as torchvision's transforms do.

    From bytes to an image, from that to a tensor of channels with numbers from 0 to 1, then normalised.
    """
    from PIL import Image

    pixels = np.rint((data.x[:count] * 0.3081 + 0.1307) * 255).astype(np.uint8).reshape(-1, 28, 28)
    labels = data.y[:count].astype(int)

    class Images(torch.utils.data.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return count

        def __getitem__(self, i: int) -> tuple[Any, int]:
            image = np.array(Image.fromarray(pixels[i]), copy=True)
            tensor = torch.from_numpy(image).view(28, 28, 1).permute(2, 0, 1).contiguous()
            tensor = tensor.to(torch.float32).div(255).clone()
            mean, std = (torch.as_tensor([v], dtype=torch.float32) for v in (0.1307, 0.3081))
            return tensor.sub_(mean[:, None, None]).div_(std[:, None, None]).view(-1), int(labels[i])

    return lambda: torch.utils.data.DataLoader(Images(), batch_size=batch, shuffle=True)


# Side by side


def bench_autism(torch: ModuleType) -> list[Row]:
    took = fresh("autism")["seconds"]
    data = in_float32(rf.data.split(rf.data.autism(), test=0.2, seed=42))
    assert data.test is not None
    start = networks((5, 1000, 2))[0]
    tools = torch.utils.data

    def loader(part: rf.Data) -> Callable[[], Any]:
        samples = tools.TensorDataset(torch.tensor(part.x), torch.tensor(part.y).long())
        return lambda: tools.DataLoader(samples, batch_size=104, shuffle=part is data)

    def memory() -> Any:
        return [(x, y)]

    def full_svd(weight: Any) -> np.ndarray:
        return torch.linalg.svd(weight)[1].numpy()

    x, y = torch.tensor(data.x), torch.tensor(data.y).long()
    loaders = {"batches": loader(data), "tests": loader(data.test)}
    ways: dict[str, tuple[dict[str, Any], str]] = {
        "svd": (loaders | {"singular": full_svd}, "DataLoaders and torch.linalg.svd as it is called"),
        "authors": (loaders, "DataLoaders and the singular values alone, as the authors' program has it"),
        "memory": ({"batches": memory}, "tensors in memory and the singular values alone"),
    }
    rows = []
    for way, (options, told) in ways.items():
        peer = 10 * torch_epochs(torch, data, start, 0.01, epochs=5000, **options)
        say(f"PyTorch, {way}: {duration(peer)} for ten networks, from one")
        what = (
            "Sun and Tran, Figures 4 and 5 as run, complete: ten networks, 5000 epochs, stable rank and test "
            "accuracy at each, compilation included (target: 20 s), against an eager PyTorch loop with "
            f"{told}"
        )
        goal = 30 if way == "svd" else None
        rows.append(
            Row(f"autism, {way}", duration(took), duration(peer), peer / took, what, goal, also=took < 20)
        )
    return rows


def bench_gordon(torch: ModuleType) -> list[Row]:
    ours = fresh("gordon")
    whole = in_float32(rf.data.split(rf.data.standardise(rf.data.gordon()), test=0.2, seed=42))
    x, y = torch.tensor(whole.x), torch.tensor(whole.y).long()
    start = networks((whole.dim, 1000, 2))[0]
    peer = torch_epochs(torch, whole, start, 0.22, lambda: [(x, y)], 3) / 3 * 500 * 10
    what = (
        "Sun and Tran, Figures 2 and 3 on gordon: ten networks, 500 epochs, in the span of 144 samples of "
        "12,533 genes, all included (target: 60 s), against an eager PyTorch loop (three epochs of one)"
    )
    took = ours["seconds"]
    return [Row("gordon", duration(took), duration(peer), peer / took, what, at_least=1, also=took < 60)]


def bench_mnist(torch: ModuleType) -> list[Row]:
    ours, data, start = fresh("mnist"), rf.data.mnist(0.1307, 0.3081), networks((784, 1000, 10))[0]
    took, off = ours["seconds"], np.abs(np.array(ours["ranks"]) / FIGURE_6 - 1)
    operations = 50 * 2 * 785 * 1000 * (2 * 60_000 + 10_000) + 50 * 2 * 1000 * 10 * (3 * 60_000 + 10_000)
    operations += 50 * 2 * 784**2 * 1000  # the Gram matrices of the stable ranks
    speed = operations / took
    eager = min(torch_epochs(torch, data, start, 0.1, in_memory(torch, data, 64), 1) for _ in range(3)) * 50
    say(f"PyTorch, tensors in memory: {duration(eager)} for fifty epochs, from one")
    some = 12_800
    loader = torch_epochs(torch, data, start, 0.1, by_sample(torch, data, 64, some), 1) * 60_000 / some * 50
    say(f"PyTorch, image by image: {duration(loader)} for fifty epochs, from a part of one")
    ranks = ", ".join(f"{rank:.1f}" for rank in ours["ranks"])
    figure = "Sun and Tran, Figure 6 as run, one seed: five networks, ten epochs"
    return [
        Row(
            "mnist, peak",
            f"{speed / 1e9:.0f} GFLOP/s",
            f"{ours['peak'] / 1e9:.0f} GFLOP/s",
            speed / ours["peak"],
            f"{figure}: the operations of its matrix products a second against products of {SIDE} x {SIDE} "
            f"float32 matrices before and after; the stable ranks end at {ranks}, off the figure by "
            f"{off.max():.0%} at most",
            at_least=0.7,
            also=bool((off < 0.1).all()),
        ),
        Row(
            "mnist, PyTorch",
            duration(took),
            duration(eager),
            eager / took,
            f"{figure}, against an eager PyTorch loop on tensors in memory, stable rank and test accuracy "
            "once an epoch in both",
            at_least=1,
        ),
        Row(
            "mnist, loader",
            duration(took),
            duration(loader),
            loader / took,
            f"{figure}, against the same loop with a DataLoader that prepares image by image",
            at_least=3,
        ),
    ]


def bench_cifar(torch: ModuleType) -> list[Row]:
    ours, data, start = fresh("cifar10"), rf.data.cifar10(0.5, 0.5), networks((3072, 512, 10))[0]
    took = ours["seconds"] / 5
    eager = torch_epochs(torch, data, start, 0.01, in_memory(torch, data, 128), 2) / 2
    return [
        Row(
            "cifar10, PyTorch",
            duration(took),
            duration(eager),
            eager / took,
            "Sun and Tran, Figure 8 as run: one epoch of one network, stable rank and test accuracy "
            "included, against an eager PyTorch loop on tensors in memory",
            at_least=1,
        ),
        Row(
            "cifar10, memory",
            f"{ours['gigabytes']:.2f} GB",
            "3 GB",
            ours["gigabytes"] / 3,
            "the most memory that the process of this run took, loading included",
            at_most=1,
        ),
    ]


PARTS = {"autism": bench_autism, "mnist": bench_mnist, "cifar10": bench_cifar, "gordon": bench_gordon}
RUNS = {"autism": run_autism, "mnist": run_mnist, "cifar10": run_cifar, "gordon": run_gordon}


def bench(names: tuple[str, ...] = tuple(PARTS)) -> list[Row]:
    torch = threads.torch()
    if torch is None:
        say("PyTorch is not installed, so there is nothing to compare with here: `make bench` installs it")
        return []
    rows = []
    for name in names:
        if rf.data.available(name):
            rows += PARTS[name](torch)
        else:
            say(f"{name} is not here, so it is left out: see `rankfall data list`")
    return rows


if __name__ == "__main__":
    if sys.argv[1] == "--in-this-process":
        print(json.dumps(RUNS[sys.argv[2]]()))
    else:
        from benchmarks.table import table

        print(table(bench(tuple(sys.argv[1:]))))
