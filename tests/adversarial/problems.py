"""Random problems that are hard on purpose: data of many kinds, and networks that start in awkward places.

Everything is drawn from the two numbers (seed, index), so that any problem can be drawn again alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SLOPES = (0.0, 0.01, 0.1, 0.5, 0.9, 1.0)
LOSSES = ("exponential", "logistic", "square")


@dataclass(frozen=True)
class Problem:
    """Data, a two-layer network and a loss, as plain arrays."""

    seed: int
    index: int
    kind: str
    x: np.ndarray  # (n, d)
    y: np.ndarray  # (n)
    w: np.ndarray  # (m, d)
    b: np.ndarray | None  # (m)
    a: np.ndarray  # (m)
    slope: float
    loss: str  # with its reduction: "logistic.sum"
    both: bool  # is the second layer trained too?

    @property
    def square(self) -> bool:
        return self.loss.startswith("square")

    @property
    def inputs(self) -> np.ndarray:
        """The inputs with the coordinate 1 of a bias."""
        return self.x if self.b is None else np.column_stack([self.x, np.ones(len(self.x))])

    @property
    def weights(self) -> np.ndarray:
        """The first layer with its bias as the last column."""
        return self.w if self.b is None else np.column_stack([self.w, self.b])

    def __str__(self) -> str:
        bias = "with bias" if self.b is not None else "no bias"
        layers = "both layers trained" if self.both else "second layer fixed"
        shape = f"n={len(self.x)}, d={self.x.shape[1]}, m={len(self.a)}"
        return f"{self.kind}: {shape}, slope {self.slope:g}, {self.loss}, {layers}, {bias}"

    def as_python(self) -> str:
        """Lines of Python that state the problem, every number exact."""
        arrays = {"x": self.x, "y": self.y, "w": self.w, "b": self.b, "a": self.a}
        lines = [f"{name} = {None if v is None else v.tolist()!r}" for name, v in arrays.items()]
        first = "None" if self.b is None else "[b, None]"
        lines += [
            f"network = Network([w, [a]], {first}, slope={self.slope!r}, trained=[True, {self.both}])",
            f"end = limit(network, Data(x, y), {self.loss!r})",
        ]
        return "\n".join(lines)


def problem(seed: int, index: int) -> Problem:
    """The problem with these numbers; the kinds of data take turns."""
    rng = np.random.default_rng([seed, index])
    kind = list(KINDS)[index % len(KINDS)]
    x, y, bias = KINDS[kind](rng)
    loss = str(rng.choice(LOSSES, p=(0.5, 0.25, 0.25))) + str(rng.choice(("", ".mean", ".sum")))
    if loss.startswith("square") and rng.random() < 0.5:
        y = rng.normal(size=len(y)) * float(rng.choice((0.1, 1.0, 10.0)))
    bias = bool(rng.random() < 0.4) if bias is None else bias
    m = int(rng.choice((1, 2, 3, 4, 6, 8, 12, 20)))
    both = bool(rng.random() < 0.35)
    w, b, a = start(rng, m, x.shape[1], bias, both)
    return Problem(seed, index, kind, x, y, w, b, a, float(rng.choice(SLOPES)), loss, both)


def start(
    rng: np.random.Generator, m: int, d: int, bias: bool, both: bool
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """First layer, bias and second layer: Gaussian or on a lattice, with rows of zeros now and then."""
    scale = 10.0 ** rng.uniform(-4, 1)
    if rng.random() < 0.3:  # products with integers are exact, so that pre-activations can be exactly zero
        rows = rng.integers(-2, 3, (m, d + 1)) * 2.0 ** np.round(np.log2(scale))
    else:
        rows = rng.normal(size=(m, d + 1)) * scale
    if rng.random() < 0.15:
        rows[rng.random(m) < 0.3] = 0.0
    signs = rng.choice((-1.0, 1.0), m)
    if m > 1:
        signs[:2] = rng.permutation((-1.0, 1.0)) if rng.random() < 0.9 else signs[:2]
    if both:
        a = signs * np.linalg.norm(rows, axis=1) if rng.random() < 0.5 else rng.normal(size=m) * scale
    elif rng.random() < 0.6:
        a = signs / np.sqrt(m)
    else:
        a = signs * np.abs(rng.normal(size=m))
        a[rng.random(m) < 0.1] = 0.0
    return rows[:, :d], rows[:, d] if bias else None, a


# Kinds of data: inputs, labels, and whether a bias is needed (None: as it falls)

Drawn = tuple[np.ndarray, np.ndarray, bool | None]


def labels(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Signs at random, or those of a small random network; both occur, but for one draw in thirty."""
    n, d = x.shape
    y = rng.choice((-1.0, 1.0), n)
    if rng.random() < 0.6:
        inside = x @ rng.normal(size=(d, 3))
        inside += rng.choice((0, 1)) * rng.normal(size=3) * np.abs(x).max()
        heights = np.maximum(inside, 0) @ rng.normal(size=3)
        y = np.where(heights > np.median(heights), 1.0, -1.0)
    if n > 1 and abs(y.sum()) == n and rng.random() < 29 / 30:
        y[rng.integers(0, n)] *= -1
    return y


def sizes(rng: np.random.Generator) -> tuple[int, int]:
    return int(rng.integers(2, 13)), int(rng.integers(1, 7))


def few_features(rng: np.random.Generator) -> Drawn:
    n, d = int(rng.integers(1, 13)), int(rng.integers(1, 7))
    x = rng.normal(size=(n, d))
    return x, labels(rng, x), None


def many_features(rng: np.random.Generator) -> Drawn:
    n = int(rng.integers(2, 13))
    x = rng.normal(size=(n, 30))
    return x, labels(rng, x), None


def lattice(rng: np.random.Generator) -> Drawn:
    n, d = sizes(rng)
    top = int(rng.integers(1, 4))
    x = rng.integers(-top, top + 1, (n, d)).astype(float)
    return x, labels(rng, x), None


def equal_duplicates(rng: np.random.Generator) -> Drawn:
    x, y, bias = lattice(rng) if rng.random() < 0.5 else few_features(rng)
    again = rng.integers(0, len(x), rng.integers(1, 4))
    return np.concatenate([x, x[again]])[:12], np.concatenate([y, y[again]])[:12], bias


def opposite_duplicates(rng: np.random.Generator) -> Drawn:
    x, y, bias = lattice(rng) if rng.random() < 0.5 else few_features(rng)
    again = rng.integers(0, len(x))
    return np.concatenate([x[:11], x[[again]]]), np.concatenate([y[:11], -y[[again]]]), bias


def line_through_origin(rng: np.random.Generator) -> Drawn:
    n, d = sizes(rng)
    along = rng.integers(-3, 4, d) if rng.random() < 0.5 else rng.normal(size=d)
    steps = rng.integers(-3, 4, n) if rng.random() < 0.5 else rng.normal(size=n)
    x = np.outer(steps, along).astype(float)
    return x, labels(rng, x), None


def affine_line(rng: np.random.Generator) -> Drawn:
    x, y, _ = line_through_origin(rng)
    return x + rng.integers(-2, 3, x.shape[1]), y, True


def zero_inputs(rng: np.random.Generator) -> Drawn:
    x, y, _ = lattice(rng) if rng.random() < 0.3 else few_features(rng)
    x[rng.integers(0, len(x))] = 0.0
    return x, y, bool(rng.random() < 0.7)


def opposite_points(rng: np.random.Generator) -> Drawn:
    n, d = sizes(rng)
    x = rng.normal(size=(n, d))
    pairs = min(n // 2, int(rng.integers(1, 4)))
    x[n - pairs :] = -x[:pairs] * rng.choice((0.5, 1.0, 2.0))
    return x, labels(rng, x), None


def scaled_up(rng: np.random.Generator) -> Drawn:
    x, y, bias = few_features(rng)
    return 1e6 * x, y, bias


def scaled_down(rng: np.random.Generator) -> Drawn:
    x, y, bias = few_features(rng)
    return 1e-6 * x, y, bias


def badly_scaled_columns(rng: np.random.Generator) -> Drawn:
    x, y, bias = few_features(rng)
    return x * 10.0 ** rng.uniform(-4, 4, x.shape[1]), y, bias


def near_duplicates(rng: np.random.Generator) -> Drawn:
    n, d = sizes(rng)
    x = rng.normal(size=(n, d))
    y = labels(rng, x)
    x[-1] = x[0] + 10.0 ** rng.uniform(-14, -3) * rng.normal(size=d)
    y[-1] = y[0] if n > 2 and rng.random() < 0.7 else -y[0]
    return x, y, None


def orthogonal_inputs(rng: np.random.Generator) -> Drawn:
    d = int(rng.integers(2, 7))
    n = int(rng.integers(2, d + 1))
    sizes_of_rows = rng.choice((1.0, 0.5, 3.0), n)
    x = np.eye(d)[rng.permutation(d)[:n]] * (sizes_of_rows * rng.choice((-1.0, 1.0), n))[:, None]
    return x, labels(rng, x), bool(rng.random() < 0.2)


def one_dimension(rng: np.random.Generator) -> Drawn:
    n = int(rng.integers(2, 9))
    x = rng.integers(-5, 6, (n, 1)).astype(float) if rng.random() < 0.4 else rng.normal(size=(n, 1))
    return x, labels(rng, x), True


def more_samples_than_features(rng: np.random.Generator) -> Drawn:
    n, d = int(rng.integers(8, 13)), int(rng.integers(1, 4))
    x = rng.normal(size=(n, d))
    if rng.random() < 0.5:
        return x, labels(rng, x), None
    y = np.sign(x @ rng.normal(size=d) + 0.3 * rng.normal())
    return x, np.where(y == 0, 1.0, y), None


def symmetric(rng: np.random.Generator) -> Drawn:
    pairs, d = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    x = rng.normal(size=(pairs, d)) if rng.random() < 0.6 else rng.integers(-2, 3, (pairs, d)).astype(float)
    y = labels(rng, x)
    return np.concatenate([x, -x]), np.concatenate([y, -y]), None


KINDS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "few features": few_features,
    "many features": many_features,
    "integer lattice": lattice,
    "duplicates, equal labels": equal_duplicates,
    "duplicates, opposite labels": opposite_duplicates,
    "line through the origin": line_through_origin,
    "affine line with bias": affine_line,
    "zero inputs": zero_inputs,
    "opposite points": opposite_points,
    "inputs times 1e6": scaled_up,
    "inputs times 1e-6": scaled_down,
    "badly scaled columns": badly_scaled_columns,
    "near duplicates": near_duplicates,
    "orthogonal inputs": orthogonal_inputs,
    "one dimension with bias": one_dimension,
    "more samples than features": more_samples_than_features,
    "symmetric data": symmetric,
}
