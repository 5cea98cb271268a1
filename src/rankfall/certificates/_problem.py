"""What a certificate is about: the data, the network, and a KKT point in exact numbers."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpz_mat

from rankfall.certificates import check


@dataclass(frozen=True)
class Missing:
    """There is no certificate, and `why` says in a sentence which obligation fails, and where.

    `pair` is the neuron and sample that forbid the claim "stays", and `lack` the radius, which is below 0.
    """

    why: str
    pair: tuple[int, int] | None = None
    lack: float = float("nan")

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class Problem:
    """Data and a two-layer network.

    - `x` (n, d), `y` (n): samples and labels, -1 or +1 (for the square loss any targets); `slope`: that of
      the leaky ReLU.
    - `second` (m): the output weights, if they are fixed; None if both layers are trained.
    - `bias`: does the first layer have biases?
    - `loss`: "exponential", "logistic" or "square"; `name`: that of the data; `width`: the number of neurons.
    """

    x: np.ndarray
    y: np.ndarray
    slope: float
    second: np.ndarray | None
    bias: bool = False
    loss: str = "exponential"
    name: str = "data"
    width: int = field(default=-1)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "x", np.asarray(self.x, dtype=np.float64) + 0.0)
        put(self, "y", np.asarray(self.y, dtype=np.float64) + 0.0)
        put(self, "slope", float(self.slope))
        if self.second is not None:
            put(self, "second", np.asarray(self.second, dtype=np.float64) + 0.0)
            put(self, "width", len(self.second))
        if self.x.ndim != 2 or self.y.shape != (len(self.x),) or not self.x.size:
            raise ValueError("x must be n samples with d features, and y one label for each.")
        if self.loss not in ("exponential", "logistic", "square"):
            raise ValueError(
                f"a certificate is for the exponential, the logistic or the square loss, not {self.loss!r}."
            )
        if self.loss != "square" and not np.isin(self.y, (-1.0, 1.0)).all():
            raise ValueError("a certificate is for labels -1 and +1.")
        if not np.isfinite(self.x).all() or not np.isfinite(self.y).all() or not 0 <= self.slope <= 1:
            raise ValueError("the samples must be finite, and the slope from 0 to 1.")
        if self.width < 1:
            raise ValueError("say how many neurons there are, by `width`, or give their output weights.")

    @property
    def both(self) -> bool:
        """Are both layers trained?"""
        return self.second is None

    @cached_property
    def inputs(self) -> np.ndarray:
        """The samples, with the coordinate 1 of a bias."""
        return np.column_stack([self.x, np.ones(len(self.x))]) if self.bias else self.x

    @cached_property
    def gram(self) -> np.ndarray:
        """The Gram matrix of `inputs`."""
        return np.asarray(self.inputs @ self.inputs.T)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The lengths of the inputs."""
        return np.sqrt(np.diag(self.gram))

    @cached_property
    def integers(self) -> "Integers":
        """The same as integers."""
        return Integers(self)

    @cached_property
    def points(self) -> "dict[bytes, Point]":
        """Exact points that are known already, by their patterns and support."""
        return {}

    @cached_property
    def checked(self) -> check.Problem:
        """The problem as the checker sees it, with the Gram matrix that is known already."""
        told = check.read(self.document(data=False), check.FORM["problem"], "the problem")
        return Checked(told, self)

    @cached_property
    def sha256(self) -> str:
        """That of the data."""
        return hashlib.sha256(check.canonical(self.x.tolist(), self.y.tolist())).hexdigest()

    def document(self, data: bool = True) -> dict[str, Any]:
        """The problem as it stands in a certificate; without `data` only their sha256 is given."""
        about: dict[str, Any] = {
            "name": self.name,
            "samples": len(self.x),
            "features": self.x.shape[1],
            "sha256": self.sha256,
        }
        if data:
            about |= {"x": [hexes(row) for row in self.x], "y": hexes(self.y)}
        return {
            "data": about,
            "bias": bool(self.bias),
            "slope": self.slope.hex(),
            "trained": check.BOTH if self.second is None else check.FIRST,
            "second_layer": None if self.second is None else hexes(self.second),
            "width": int(self.width),
            "loss": self.loss,
        }


def hexes(values: Sequence[float] | np.ndarray) -> list[str]:
    """Doubles as float.hex() spells them."""
    return [value.hex() for value in (np.asarray(values, dtype=np.float64) + 0.0).tolist()]


def dyadic(values: np.ndarray) -> tuple[list[int], int]:
    """Integers and the least number s such that the values are exactly the integers over 2^s."""
    parts, exponents = np.frexp(values.ravel())
    whole = np.ldexp(parts, 53).astype(np.int64)  # the values are whole 2^(exponents - 53)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    shift = max(0, int((53 - exponents - lowest)[whole != 0].max(initial=0)))
    up = shift + exponents.astype(np.int64) - 53
    odd = np.where(up < 0, whole >> np.minimum(np.maximum(-up, 0), 63), whole)
    return [v << u for v, u in zip(odd.tolist(), np.maximum(up, 0).tolist(), strict=True)], shift


class Checked(check.Problem):
    """The checker's problem, with the Gram matrix that is known already as integers."""

    def __init__(self, told: dict[str, Any], problem: Problem):
        super().__init__(told, (problem.x.tolist(), problem.y.tolist()))
        self._problem = problem

    @cached_property
    def G(self) -> list[list[int]]:
        """The Gram matrix."""
        check.affordable(self.n**2, self.bits)
        return [list(map(int, row)) for row in self._problem.integers.gram.tolist()]


class Integers:
    """A problem as integers: G over 4^sx, c_j = a_j^2 over 4^sa, alpha = slope/one, one = 2^ss."""

    def __init__(self, problem: Problem):
        n, k = problem.inputs.shape
        flat, self.sx = dyadic(problem.inputs)
        x = fmpz_mat(n, k, flat)
        self.x, self.gram = x, x * x.transpose()
        self.a, self.sa = check.dyadic([] if problem.second is None else problem.second.tolist())
        (self.slope,), self.ss = check.dyadic([problem.slope])
        self.one = 1 << self.ss


@dataclass(frozen=True, eq=False)
class Point:
    """A KKT point in exact numbers.

    - `groups`: the neurons of each group; `signs` (g): those of their output weights; `patterns` (g, n): the
      sides 1 and -1, and 0 for a kink.
    - `support`: the support vectors; `multipliers`: their numerators over `denominator`; `kinks`: those of
      mu, for every 0 in `patterns` of a support vector, row by row.
    - `tau`: None if these numbers are the point itself; else the equations hold nearly, no eigenvalue of
      their matrix is below tau, and the point is next to these numbers.
    - `amplitudes`: the numerators of the sums of squared output weights, if both layers are trained.
    """

    groups: list[np.ndarray]
    signs: np.ndarray
    patterns: np.ndarray
    support: np.ndarray
    denominator: int
    multipliers: list[int]
    kinks: list[int]
    tau: float | None = None
    amplitudes: list[int] | None = None

    @property
    def exact(self) -> bool:
        """Are these numbers the point itself?"""
        return self.tau is None

    def lam(self) -> np.ndarray:
        """The multipliers of all samples, as floats."""
        found = np.zeros(self.patterns.shape[1])
        found[self.support] = [value / self.denominator for value in self.multipliers]
        return found

    def mu(self, slope: float) -> np.ndarray:
        """The numbers mu (g, n), as floats."""
        found = self.lam() * np.where(self.patterns > 0, 1.0, np.where(self.patterns < 0, slope, 0.0))
        for (g, i), value in zip(self.pairs(), self.kinks, strict=True):
            found[g, i] = value / self.denominator
        return found

    def pairs(self) -> list[tuple[int, int]]:
        """(group, sample) of the kinks."""
        held = np.zeros(self.patterns.shape, dtype=bool)
        held[:, self.support] = self.patterns[:, self.support] == 0
        return [(int(g), int(i)) for g, i in np.argwhere(held)]

    def weights(self, problem: Problem) -> np.ndarray:
        """The first layer (m, d + bias), as floats; with both layers trained, equal shares in each group."""
        w = np.zeros((problem.width, problem.inputs.shape[1]))
        directions = self.directions(problem)
        for g, group in enumerate(self.groups):
            w[group] = self._output(problem, g)[:, None] * directions[g]
        return w

    def directions(self, problem: Problem) -> np.ndarray:
        """The v_g (g, d + bias): of an exact point each number is the nearest float, whatever cancels."""
        if not self.exact:
            return np.asarray((self.mu(problem.slope) * problem.y) @ problem.inputs)
        ints, y = problem.integers, problem.y.astype(int).tolist()
        lam = dict(zip(self.support.tolist(), self.multipliers, strict=True))
        steep = {1: ints.one, -1: ints.slope, 0: 0}
        mu = [[lam.get(i, 0) * steep[int(side)] for i, side in enumerate(row)] for row in self.patterns]
        for (g, i), value in zip(self.pairs(), self.kinks, strict=True):
            mu[g][i] = value * ints.one
        signed = fmpz_mat([[sign * value for sign, value in zip(y, row, strict=True)] for row in mu])
        below = self.denominator * ints.one << ints.sx
        return np.array([[int(value) / below for value in row] for row in (signed * ints.x).tolist()])

    def _output(self, problem: Problem, g: int) -> np.ndarray:
        if problem.second is not None:
            return np.asarray(problem.second[self.groups[g]])
        assert self.amplitudes is not None
        share = self.amplitudes[g] / self.denominator / len(self.groups[g])
        return np.full(len(self.groups[g]), self.signs[g] * np.sqrt(share))

    def document(self) -> dict[str, Any]:
        """The point as it stands in a certificate."""
        groups: list[dict[str, Any]] = [
            {"neurons": [int(j) for j in group], "pattern": "".join("-0+"[side + 1] for side in row.tolist())}
            for group, row in zip(self.groups, self.patterns, strict=True)
        ]
        told: dict[str, Any] = {
            "groups": groups,
            "support": [int(i) for i in self.support],
            "denominator": hex(self.denominator),
            "multipliers": [hex(value) for value in self.multipliers],
            "kinks": [hex(value) for value in self.kinks],
        }
        if self.amplitudes is not None:
            told["amplitudes"] = [hex(value) for value in self.amplitudes]
            for group, sign in zip(groups, self.signs, strict=True):
                group["sign"] = int(sign)
        if self.tau is not None:
            told["tau"] = self.tau.hex()
        return told


Seen = tuple[check.Problem, check.Point, check.Errors]


def seen(problem: Problem, point: Point) -> Seen | Missing:
    """The problem and the point as the checker sees them, and how far the point may be off; kept."""
    kept: Seen | Missing | None = vars(point).get("_seen")
    if kept is None:
        try:
            inside = check.Point(
                problem.checked, check.read(point.document(), check.FORM["point"], "the point")
            )
            kept = (problem.checked, inside, check.kkt(problem.checked, inside)[0])
        except (check.Refused, check.Malformed) as error:
            kept = Missing(f"this is not proved to be a KKT point: {error}")
        object.__setattr__(point, "_seen", kept)
    return kept


def claimed(
    name: str, prove: Callable[..., Any], known: Seen, claim: Mapping[str, Any]
) -> dict[str, Any] | Missing:
    """The claim, if the checker's function proves it."""
    full = {"claim": name, **claim}
    try:
        prove(*known, check.read(full, {"claim": str} | check.CLAIMS[name], f"'{name}'"))
    except (check.Refused, check.Malformed) as error:
        return Missing(f"in exact arithmetic {error}")
    return full
