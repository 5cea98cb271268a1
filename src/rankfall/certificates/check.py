"""Check a rankfall certificate with the standard library alone: python check.py file.json [--data mine.csv]

A certificate is about a network f(x) = sum_j a_j s(w_j.x), s(z) = max(z, alpha z), samples x_i with labels
y_i = +-1, and a KKT point of: minimise |W|^2/2 (both layers trained: |W|^2/2 + |a|^2/2) such that all margins
y_i f(x_i) are at least 1. It gives multipliers lam_i of the support vectors, and groups g of neurons with
one sign of a_j and one pattern: for each sample its side, "+" or "-", or "0" for a kink with a number mu_gi
of its own. With mu_gi = lam_i at "+" and alpha lam_i at "-"; P_gi = 1 at "+", alpha at "-", 0 at "0"; and the
Gram matrix G of the samples (a bias is one more coordinate 1 of every x_i),

    w_j = a_j v_g,   v_g = sum_i y_i mu_gi x_i,   t_gk = v_g.x_k = sum_i y_i mu_gi G_ik,
    the margin of sample k is  q_k = y_k sum_g c_g P_gk t_gk,   c_g = sum_{j in g} a_j^2.

Data are doubles, so all these are integers over known denominators. No float decides anything: floats propose
a Cholesky factor, and integers show what it proves. Exit code 0: all claims hold, 1: some claim is refused,
2: something cannot be read.
"""

import argparse
import csv
import hashlib
import json
import math
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain, compress
from math import floor, isqrt
from operator import mul
from typing import Any

UNIT = 1 << 320  # rounded numbers are integers in units of 2^-320, and their errors are accounted for
PRIME = 2**61 - 1
CORNERS = 14  # support vectors of one class up to which all corners are looked at
DEEPEST = 20  # levels of nesting in a document
NUMERAL, DIGITS = 100, 100_000  # characters of a number of JSON, and hexadecimal digits of an integer
FORMAT = "rankfall certificate"
FIRST, BOTH = "first layer", "both layers"  # which of them are trained
UNKNOWNS = {FIRST: 200_000, BOTH: 1_000}  # multipliers, kinks and amplitudes
COUPLED = 5_000  # unknowns whose equations are looked at as a whole
MEMORY, WORK = 2**33, 2**42  # bits that a matrix may take, and products of bits in an elimination
Data = tuple[Sequence[Sequence[float]], Sequence[float]]


class Refused(Exception):
    """An obligation does not hold; the sentence says which and where."""


class Malformed(Exception):
    """The document cannot be read; the sentence says why."""


def demand(holds: bool, sentence: str) -> None:
    """An obligation: refuse with this sentence unless it holds."""
    if not holds:
        raise Refused(sentence)


def expect(holds: bool, sentence: str) -> None:
    """The form of a document: without it nothing can be checked."""
    if not holds:
        raise Malformed(sentence)


def affordable(entries: int, bits: int) -> None:
    """A matrix with so many entries must not take more than a gigabyte: 300 bits and its own for each."""
    expect(entries * (bits + 300) <= MEMORY, "it is too large: a matrix would take more than a gigabyte.")


# The form of a certificate. Integers are spelled by hex(), doubles by float.hex(), each in one way only.


def double(value: Any, where: str) -> float:
    """A finite double; -0.0 counts as 0.0."""
    try:
        number = float.fromhex(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    good = math.isfinite(number) and number.hex() == value
    expect(good, f"{where} must be a finite double as float.hex() spells it.")
    return number + 0.0


def integer(value: Any, where: str) -> int:
    """An integer of up to DIGITS hexadecimal digits."""
    expect(type(value) is not str or len(value) <= DIGITS + 3, f"{where} has more than {DIGITS} digits.")
    try:
        number = int(value, 16)
    except (TypeError, ValueError):
        number = 0
    expect(type(value) is str and hex(number) == value, f"{where} must be an integer as hex() spells it.")
    return number


WORDS = {int: "a whole number", str: "text", dict: "an object"}
NUMBERS = {None: [double]}  # a list of doubles, or null
SAMPLES = {"name": str, "samples": int, "features": int, "sha256": str, "x?": [[double]], "y?": [double]}
FORM = {
    "format": (FORMAT,),
    "version": (1,),
    "problem": {
        "data": SAMPLES,
        "bias": (False, True),
        "slope": double,
        "trained": (FIRST, BOTH),
        "second_layer": NUMBERS,
        "width": int,
        "loss": ("exponential", "logistic", "square"),
    },
    "point": {
        None: {
            "groups": [{"neurons": [int], "pattern": str, "sign?": (1, -1)}],
            "support": [int],
            "denominator": integer,
            "multipliers": [integer],  # numerators of lam, in the order of the support
            "kinks": [integer],  # numerators of mu at every "0" of a support vector, group by group
            "amplitudes?": [integer],  # numerators of c, if both layers are trained
            "tau?": double,  # there if the equations hold only nearly
        }
    },
    "claims": [object],
    "followed?": dict,  # told, and not judged
    "estimated?": dict,
}
CLAIMS: dict[str, dict[str, Any]] = {
    "kkt": {},
    "stays": {"coordinates": ("samples", "features"), "start": [[double]], "level": double, "radius": double},
    "rank": {"rank": int, "groups?": [int], "tau?": double},
    "stable rank": {"lower": double, "upper": double, "largest": double, "vector": [double]},
    "optimal": {"+": [NUMBERS], "-": [NUMBERS]},
    "refutes": {
        "id": str,
        "sentence": str,
        "quantity": ("rank", "stable rank"),
        "relation": ("<=", "<", "=", ">", ">="),
        "bound": double,
    },
    "inseparable": {"sample?": int, "samples?": [int], "combination?": [integer]},
    "rest": {
        "coordinates": ("samples", "features"),
        "start": [[double]],
        "groups": [{"neurons": [int], "pattern": str, "slopes": [double]}],
        "signs?": str,  # of the residuals, for the square loss
        "features": [int],
        **dict.fromkeys(("radius", "delta", "tau", "independent", "stiffness", "lower", "upper"), double),
        "wrong?": int,  # misclassified samples, for the other losses
    },
}


def read(value: Any, kind: Any, where: str) -> Any:
    """A value of a kind: a type, a function, constants (...), [kind], {None: kind or null}, {key: kind}.

    Whole numbers are not negative. Objects have all keys, but for those marked by "?", and no unknown ones.
    """
    if isinstance(kind, type):
        good = isinstance(value, kind) and (kind is not int or (type(value) is int and 0 <= value < 10**9))
        expect(good, f"{where} must be {WORDS.get(kind)}.")
        return value
    if isinstance(kind, tuple):
        good = any(type(value) is type(each) and value == each for each in kind)
        expect(good, f"{where} must be one of {', '.join(map(repr, kind))}.")
        return value
    if isinstance(kind, list):
        expect(type(value) is list, f"{where} must be a list.")
        one = kind[0] if kind[0] in (double, integer) else lambda each, where: read(each, kind[0], where)
        return [one(each, where) for each in value]
    if not isinstance(kind, dict):
        return kind(value, where)
    if None in kind:
        return None if value is None else read(value, kind[None], where)
    expect(type(value) is dict, f"{where} must be an object.")
    names = {key.rstrip("?"): key for key in kind}
    unknown = [*value.keys() - names]
    expect(not unknown, f"{where} has unknown keys: {repr(unknown)[1:80].rstrip(']')}.")
    for name, key in names.items():
        expect(name in value or key.endswith("?"), f"{where} has no {name!r}.")
    return {name: read(each, kind[names[name]], f"'{name}'") for name, each in value.items()}


def nested(document: Any) -> bool:
    """Is anything deeper than DEEPEST levels?"""
    level = [document]
    for _ in range(DEEPEST + 1):
        objects = [each.values() for each in level if type(each) is dict]
        level = [*chain(*objects, *(each for each in level if type(each) is list))]
    return bool(level)


def parse(document: str) -> Any:
    """JSON without repeated keys, NaN, infinity or long numbers."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        expect(len({key for key, _ in pairs}) == len(pairs), "a key occurs twice in one object.")
        return dict(pairs)

    def number(digits: str) -> int | float:
        expect(len(digits) <= NUMERAL, f"a number has more than {NUMERAL} characters.")
        found = int(digits) if digits.lstrip("-").isdigit() else float(digits)
        expect(math.isfinite(found), f"{digits} is not a finite number.")
        return found

    try:
        return json.loads(
            document, object_pairs_hook=once, parse_int=number, parse_float=number, parse_constant=number
        )
    except (RecursionError, MemoryError):
        raise Malformed("it is nested too deeply, or too large.") from None
    except ValueError as error:
        raise Malformed(f"this is not JSON: {str(error)[:80]}.") from None


# Arithmetic


def dyadic(values: Sequence[float]) -> tuple[list[int], int]:
    """Integers and a number s such that the values are exactly the integers over 2^s."""
    ratios = [value.as_integer_ratio() for value in values]
    shift = max((below.bit_length() - 1 for _, below in ratios), default=0)
    return [above << (shift - below.bit_length() + 1) for above, below in ratios], shift


def dot(u: Iterable[Any], v: Iterable[Any]) -> Any:
    """The sum of products."""
    return sum(map(mul, u, v))


def quadratic(row: Sequence[int], matrix: Sequence[Sequence[int]]) -> int:
    """row^T matrix row."""
    return int(dot(row, [dot(row, column) for column in matrix]))


def up(number: Fraction) -> int:
    """The least integer not below a number."""
    return -floor(-number)


def move(number: int, bits: int) -> int:
    """floor(number 2^bits)."""
    return number << bits if bits >= 0 else number >> -bits


def root(number: Fraction) -> Fraction:
    """A number not below the square root, and nearly it."""
    return Fraction(isqrt(up(number * UNIT * UNIT)) + 1, UNIT)


def exp(number: Fraction) -> tuple[int, int]:
    """(low, high) around e^number in units: Taylor at number/2^k < 1/2, rounded outwards, squared k times."""
    demand(number < 1000, "a pull is beyond e^1000.")
    if number < 0:
        low, high = exp(min(-number, Fraction(999)))
        return (UNIT * UNIT // high if number > -999 else 0), UNIT * UNIT // low + 1
    k = floor(number).bit_length() + 1
    x, y = floor(number * UNIT / 2**k), up(number * UNIT / 2**k)
    low = high = below = above = UNIT
    for order in range(1, 80):
        below, above = below * x // (UNIT * order), above * y // (UNIT * order) + 1
        low, high = low + below, high + above
    high += above  # what is left out is less than the last term
    for _ in range(k):
        low, high = low * low // UNIT, high * high // UNIT + 1
    return low, high


def definite(matrix: list[list[int]], first: Sequence[int], tau: Fraction) -> bool:
    """Is no eigenvalue of a symmetric matrix A below tau? Its entries are known to less than 1/2^120.

    Row e holds the columns first[e] to e, as integers over 2^120; before them it is 0. If M is any matrix,
    here a Cholesky factor of A - 2 tau in floats, and |A - 2 tau - M M^T| <= tau (Frobenius), then A >= tau.
    """
    away, factor, total = up(2 * tau * 2**120), [], 0
    for e, row in enumerate(matrix):
        row[-1] -= away
        made: list[float] = []
        factor.append(made)
        for f in range(first[e], e + 1):
            start = max(first[e], first[f])
            rest = row[f - first[e]] / 2**120
            rest -= dot(made[start - first[e] :], factor[f][start - first[f] : f - first[f]])
            if e == f and not 0 < rest < math.inf:
                return False
            made.append(math.sqrt(rest) if e == f else rest / factor[f][-1])
    M = [[int(value * 2**60) for value in row] for row in factor]
    for e, row in enumerate(matrix):
        for f in range(first[e], e + 1):
            start = max(first[e], first[f])
            product = dot(M[e][start - first[e] : f + 1 - first[e]], M[f][start - first[f] :])
            total += (abs(row[f - first[e]] - product) + 2) ** 2 * (1 if e == f else 2)
    return total <= (tau * 2**120) ** 2


def eliminate(rows: list[list[int]], prime: int = 0, enough: float = math.inf) -> int:
    """The rank of an integer matrix: over the rationals without fractions (Bareiss), or modulo a prime.

    It stops when the rank is known to be larger than `enough`.
    """
    found, last = 0, 1
    for k in range(len(rows[0])):
        pivot = next((row for row in rows if row[k]), None)
        if pivot is None or found > enough:
            continue
        rest = [row for row in rows if row is not pivot]
        rows = [[pivot[k] * v - row[k] * w for v, w in zip(row, pivot, strict=True)] for row in rest]
        rows = [[v % prime for v in row] if prime else [v // last for v in row] for row in rows]
        found, last = found + 1, pivot[k]
    return found


# The problem and the point


class Problem:
    """Data and network as integers: x in units of 2^-sx, G of 4^-sx, a of 2^-sa; alpha = slope/one."""

    def __init__(self, told: dict[str, Any], data: Data | None):
        x, y = samples(told["data"], data)
        same = hashlib.sha256(canonical(x, y)).hexdigest() == told["data"]["sha256"]
        expect(same, "the data are not those of the sha256 in the certificate.")
        square = told["loss"] == "square"
        expect(square or {*y} <= {1.0, -1.0}, "the labels must be -1 and +1.")
        expect(0 <= told["slope"] <= 1, "the slope must be from 0 to 1.")
        self.both, second = told["trained"] == BOTH, told["second_layer"]
        fits = second is None if self.both else second is not None and len(second) == told["width"]
        expect(fits, "'second_layer' must be null or 'width' numbers, as 'trained' says.")
        self.n, self.d = len(x), len(x[0])
        self.y: list[Any] = [Fraction(label) if square else int(label) for label in y]
        self.bias, self.loss, self.width = told["bias"], told["loss"], told["width"]
        self.unknowns = UNKNOWNS[told["trained"]]
        (self.slope,), shift = dyadic([told["slope"]])
        self.one = 1 << shift
        self.a, self.sa = dyadic(second or [])
        flat, self.sx = dyadic([value for row in x for value in row])
        end = [1 << self.sx] if self.bias else []
        self.x = [flat[i : i + self.d] + end for i in range(0, len(flat), self.d)]
        self.bits = 2 * max(map(abs, [*flat, *end])).bit_length()  # of the entries of G, but for their sum

    @cached_property
    def G(self) -> list[list[int]]:
        """The Gram matrix."""
        affordable(self.n**2, self.bits)
        half = [[dot(row, other) for other in self.x[: i + 1]] for i, row in enumerate(self.x)]
        return [[half[max(i, k)][min(i, k)] for k in range(self.n)] for i in range(self.n)]

    @cached_property
    def lengths(self) -> list[Fraction]:
        """|x_k|, rounded up."""
        return [root(Fraction(dot(row, row), 4**self.sx)) for row in self.x]


def samples(told: dict[str, Any], data: Data | None) -> Data:
    """The samples in the certificate, or the reader's; where there are both they must be equal."""
    held = "x" in told
    expect(held == ("y" in told), "the certificate must hold both 'x' and 'y', or none of them.")
    expect(held or data is not None, "the certificate does not hold the data: give them by --data.")
    mine = None if data is None else ([[v + 0.0 for v in row] for row in data[0]], [v + 0.0 for v in data[1]])
    x, y = (told["x"], told["y"]) if held else mine or ([], [])
    n, d = told["samples"], told["features"]
    good = n > 0 and d > 0 and len(x) == len(y) == n and {len(row) for row in x} == {d}
    expect(good, f"the data must be {n} samples with {d} features and a label each.")
    expect(mine in (None, (x, y)), "your data are not those of the certificate.")
    expect(all(math.isfinite(value) for row in [*x, y] for value in row), "your data are not finite.")
    return x, y


def canonical(x: Iterable[Sequence[float]], y: Iterable[float]) -> bytes:
    """What the sha256 is of: a line for each sample, features and label by float.hex(), split by commas."""
    rows = ([*row, label] for row, label in zip(x, y, strict=True))
    return "".join(",".join([(value + 0.0).hex() for value in row]) + "\n" for row in rows).encode()


class Point:
    """Numerators: lam over den, mu over below_mu, t over below_t, c over below_c, q over below_q."""

    def __init__(self, p: Problem, told: dict[str, Any]):
        self.tau, self.den, self.support = told.get("tau"), told["denominator"], told["support"]
        self.products: tuple[list[list[int]], Fraction] | None = None
        self.patterns = [group["pattern"] for group in told["groups"]]
        self.groups = [group["neurons"] for group in told["groups"]]
        well_formed(p, told)
        self.signs = signs_of(p, told["groups"])
        kinks = [(g, i) for g, pattern in enumerate(self.patterns) for i in self.support if pattern[i] == "0"]
        expect(len(told["kinks"]) == len(kinks), "'kinks' must be a number for each '0' of a support vector.")
        few = len(kinks) + len(self.support) + len(told.get("amplitudes", [])) <= p.unknowns
        expect(few, f"it is too large: there are more than {p.unknowns} unknowns.")
        self.kinks = dict(zip(kinks, told["kinks"], strict=True))
        self.lam = dict(zip(self.support, told["multipliers"], strict=True))
        slopes = {"+": p.one, "-": p.slope, "0": 0}
        self.P = [[slopes[side] for side in pattern] for pattern in self.patterns]
        self.mu = [[self.lam.get(i, 0) * slope for i, slope in enumerate(row)] for row in self.P]
        for (g, i), value in self.kinks.items():
            self.mu[g][i] = value * p.one
        self.c = told["amplitudes"] if p.both else [sum(p.a[j] ** 2 for j in group) for group in self.groups]
        self.below_mu, self.below_c = self.den * p.one, self.den if p.both else 4**p.sa
        self.below_t = self.below_mu * 4**p.sx
        self.below_q = self.below_t * p.one * self.below_c
        longest = max(map(abs, [self.den, *self.lam.values(), *self.kinks.values(), *self.c]))
        self.bits = longest.bit_length() + p.one.bit_length() + p.bits  # of t, but for sums
        affordable(len(self.groups) * p.n, self.bits)
        self.t, self.q, self.squares = self.evaluate(p, p.G, p.y, self.lam, self.kinks, self.c)

    def evaluate(self, p: Problem, G: Any, y: Any, lam: Any, kinks: Any, c: Any) -> tuple[Any, Any, Any]:
        """t_gk, q_k and |v_g|^2 = sum_i y_i mu_gi t_gi. Long numbers are multiplied once, then added up."""
        masks = [[[pattern[i] == side for i in lam] for side in "+-"] for pattern in self.patterns]
        pulls = [{i: y[i] * value * row[i] for i, value in lam.items()} for row in self.P]
        t: list[list[int]] = [[] for _ in masks]
        for row in G:
            terms = [y[i] * value * row[i] for i, value in lam.items()]
            for g, (plus, minus) in enumerate(masks):
                below = p.slope * sum(compress(terms, minus)) if p.slope else 0
                t[g].append(p.one * sum(compress(terms, plus)) + below)
        for (g, i), value in kinks.items():
            pulls[g][i] = pull = y[i] * value * p.one
            t[g] = [old + pull * inner for old, inner in zip(t[g], G[i], strict=True)]
        rows = [(cg, slopes, row) for cg, slopes, row in zip(c, self.P, t, strict=True)]
        q = [y[k] * sum(cg * slopes[k] * row[k] for cg, slopes, row in rows) for k in range(p.n)]
        return t, q, [sum(v * row[i] for i, v in pull.items()) for pull, row in zip(pulls, t, strict=True)]


def well_formed(p: Problem, told: dict[str, Any]) -> None:
    """Neurons and samples exist, and lists are as long as they must be."""
    groups, support = told["groups"], told["support"]
    expect(bool(groups) and all(group["neurons"] for group in groups), "a group has no neuron.")
    expect(max(max(group["neurons"]) for group in groups) < p.width, "a neuron does not exist.")
    good = all(len(group["pattern"]) == p.n and {*group["pattern"]} <= {*"+-0"} for group in groups)
    expect(good, f"a pattern must be {p.n} of the signs +, - and 0.")
    expect(bool(support) and support == sorted({*support}), "the support must be increasing.")
    expect(support[-1] < p.n and len(told["multipliers"]) == len(support), "the support does not fit.")
    expect(told["denominator"] > 0, "the denominator must be positive.")
    fits = all(("sign" in group) == p.both for group in groups) and ("amplitudes" in told) == p.both
    fits = fits and len(told.get("amplitudes", groups)) == len(groups)
    expect(fits, "groups must have signs and amplitudes if both layers are trained, else none.")


def signs_of(p: Problem, groups: list[dict[str, Any]]) -> list[int]:
    """One sign of a_j in each group; every neuron with a_j != 0 is in one, and no other neuron in any."""
    neurons = [j for group in groups for j in group["neurons"]]
    demand(len({*neurons}) == len(neurons), "a neuron is in two groups.")
    if p.both:
        return [group["sign"] for group in groups]
    demand({j for j, a in enumerate(p.a) if a} <= {*neurons}, "a neuron with a_j != 0 is in no group.")
    signs = [{(p.a[j] > 0) - (p.a[j] < 0) for j in group["neurons"]} for group in groups]
    demand(all(each in ({1}, {-1}) for each in signs), "the a_j of a group do not have one sign.")
    return [each.pop() for each in signs]


@dataclass
class Errors:
    """How far the true point may be: in any lam and mu, in any v_g (as a vector), in any c_g (relatively)."""

    mu: Fraction = Fraction(0)
    v: Fraction = Fraction(0)
    c: Fraction = Fraction(0)


# Claim "kkt"


def kkt(p: Problem, point: Point) -> tuple[Errors, str]:
    """The equations hold, exactly or for a true point nearby, and so do the inequalities there."""
    demand(p.slope < p.one or {*"".join(point.patterns)} == {"+"}, "with slope 1 every side must be '+'.")
    if point.tau is None:
        errors, how = exact(p, point), "with residual 0"
    else:
        demand(0 < point.tau < 1, "tau must be between 0 and 1.")
        errors, how = (newton if p.both else linear)(p, point), "proved to be next to these numbers"
    inequalities(p, point, errors)
    layers = "both layers" if p.both else "the first layer"
    return errors, f"this is a KKT point of the margin problem for {layers} ({how})."


def exact(p: Problem, point: Point) -> Errors:
    """q_k = 1 on the support; t_gk = 0 at every "0"; if both layers are trained |v_g|^2 = 1."""
    for k in point.support:
        demand(point.q[k] == point.below_q, f"the margin of the support vector {k} is not 1.")
    for g, pattern in enumerate(point.patterns):
        for k in (k for k, side in enumerate(pattern) if side == "0"):
            demand(not point.t[g][k], f"group {g} is not at the kink of sample {k}.")
        unit = not p.both or point.squares[g] == point.below_mu * point.below_t
        demand(unit, f"the two layers of group {g} are not balanced.")
    return Errors()


def inequalities(p: Problem, point: Point, errors: Errors) -> None:
    """lam > 0; c > 0; alpha lam <= mu <= lam at kinks; s t >= 0 at "+", <= 0 at "-", s = sign(a); q >= 1.

    Where t = 0 every slope from alpha to 1 is in Clarke's subdifferential, so these need not be strict; and
    t = 0 exactly for a sample that is orthogonal to all that v_g is made of.
    """
    near = up(errors.mu * point.below_mu)
    for i in point.support:
        demand(point.lam[i] * p.one > near, f"the multiplier of sample {i} is not positive.")
    demand(min(point.c) > 0 and errors.c < 1, "an amplitude is not positive.")
    for g, i in point.kinks:
        inside = p.slope * point.lam[i] + 2 * near <= point.mu[g][i] <= p.one * point.lam[i] - 2 * near
        demand(inside, f"the slope of group {g} at the kink of sample {i} is out of bounds.")
    near_t = [up(errors.v * length * point.below_t) for length in p.lengths]
    for g, pattern in enumerate(point.patterns):
        if p.slope == p.one or not any(point.mu[g]):  # there is no kink; or v_g = 0
            continue
        for k, side in enumerate(pattern):
            right = point.signs[g] * point.t[g][k] * (1 if side == "+" else -1) >= near_t[k]
            good = (not errors.mu or (g, k) in point.kinks) if side == "0" else right
            good = good or not any(p.G[i][k] for i in point.support if pattern[i] == "0" or point.P[g][i])
            demand(good, f"group {g} is not shown to be at '{side}' of sample {k}.")
    for k in (k for k in range(p.n) if k not in point.lam):
        enough = point.q[k] - point.below_q >= margin_error(p, point, errors, k)
        demand(enough, f"the margin of sample {k} is not shown to be at least 1.")


def margin_error(p: Problem, point: Point, errors: Errors, k: int) -> int:
    """How far q_k may be off: sum_g c_g ((1 + e_c) |x_k| e_v + e_c |t_gk|), as a numerator of q."""
    t = up(errors.v * p.lengths[k] * (1 + errors.c) * point.below_t)
    return p.one * sum(c * (t + up(errors.c * abs(row[k]))) for c, row in zip(point.c, point.t, strict=True))


def linear(p: Problem, point: Point) -> Errors:
    """Second layer fixed: c_g y_k t_gk = 0 (kinks), q_k = 1 (support) are A u = b in u = (mu at kinks, lam).

    A is the Gram matrix of (a_j y_i x_i)_{j in g} for kinks and (a_j P_ji y_i x_i)_j for the support, scaled
    by powers of two that bring its diagonal into [1/2, 2). If no eigenvalue is below tau there is one
    solution u*, with |u* - u| <= |r|/tau and |W* - W| <= |r|/sqrt(tau), r the residual. As u'Au is
    sum_g c_g |sum_i m_gi y_i x_i|^2, m = mu at kinks and P lam elsewhere, none is if none of the Gram matrix
    of the support vectors, scaled likewise, is below 4 tau. Where that fails A itself is looked at.
    """
    S, tau, groups = point.support, Fraction(point.tau or 0), range(len(point.P))
    unknowns = [(i, {g: p.one}) for g, i in point.kinks]
    unknowns += [(i, {g: point.P[g][i] for g in groups if point.P[g][i]}) for i in S]

    def entry(e: int, f: int) -> int:
        (i, left), (k, right) = unknowns[e], unknowns[f]
        common = sum(point.c[g] * slope * left.get(g, 0) for g, slope in right.items())
        return int(p.y[i] * p.y[k] * p.G[i][k] * common)

    def whole() -> bool:
        expect(len(unknowns) <= COUPLED, f"it is too large: more than {COUPLED} coupled unknowns.")
        block: dict[int, int] = {}
        first = [block.setdefault(g, e) for e, (g, _) in enumerate(point.kinks)] + [0] * len(S)
        affordable(sum(e + 1 - start for e, start in enumerate(first)), 120)
        rows = [[(e, f) for f in range(first[e], e + 1)] for e in range(len(unknowns))]
        matrix = [[move(entry(e, f), 120 - shift - size[e] - size[f]) for e, f in row] for row in rows]
        return definite(matrix, first, tau)

    shift, diagonal = 2 * (p.sx + p.sa + p.one.bit_length() - 1), [entry(e, e) for e in range(len(unknowns))]
    size = [(value.bit_length() - shift) // 2 for value in diagonal]
    long = {i: (p.G[i][i].bit_length() - 2 * p.sx) // 2 for i in S}
    gram = [
        [move(p.G[i][k], 120 - 2 * p.sx - long[i] - long[k]) for k in S[: e + 1]] for e, i in enumerate(S)
    ]
    regular = min(diagonal) > 0 and (definite(gram, [0] * len(S), 4 * tau) or whole())
    demand(regular, "the equations are not shown to have one solution by this tau.")
    r = [Fraction(point.c[g] * point.t[g][k] * p.one, point.below_q) for g, k in point.kinks]
    r += [Fraction(point.q[k], point.below_q) - 1 for k in S]
    squares = (up(abs(v) * UNIT / Fraction(2) ** s) ** 2 for v, s in zip(r, size, strict=True))
    length = Fraction(isqrt(sum(squares)) + 1, UNIT)
    far = length * root(Fraction(point.below_c, min(point.c)) / tau)  # sqrt(c_g) |v_g* - v_g| <= |W* - W|
    return Errors(length / tau / Fraction(2) ** min(size), far)


def newton(p: Problem, point: Point) -> Errors:
    """Both layers trained: F = (q_k - 1, |v_g|^2 - 1, t_gk at kinks) = 0 in u = (lam, mu at kinks, c).

    Every unknown is measured by a power of two h of its size, every equation by one of its row of the
    Jacobian J. F is quadratic, so central differences are J exactly, and |J' - J| <= L |u' - u| with L from
    the absolute values of its coefficients. If no eigenvalue of J^T J is below tau and 4 L |F| <= tau, then
    u - J^-1 F(u) maps the ball of radius 2 |F|/sqrt(tau) into itself: there is a zero in it.
    """
    S, kinks, tau = point.support, [*point.kinks], Fraction(point.tau or 0)
    u = [*point.lam.values(), *point.kinks.values(), *point.c]
    sized = [*(point.lam[i] for i in S), *(point.lam[i] for _, i in kinks), *point.c]
    demand(min(sized) > 0, "multipliers and amplitudes must be positive.")
    affordable(len(u) ** 2, 2 * point.bits)
    h = [1 << (value.bit_length() - 1) for value in sized]

    def equations(u: list[int], G: Any, y: Any) -> list[int]:
        lam, rest = dict(zip(S, u, strict=False)), u[len(S) :]
        own, c = dict(zip(kinks, rest, strict=False)), rest[len(kinks) :]
        t, q, squares = point.evaluate(p, G, y, lam, own, c)
        return [*(q[k] for k in S), *squares, *(t[g][k] * point.below_mu for g, k in kinks)]

    columns = []
    for e, step in enumerate(h):
        ahead, behind = (equations([*u[:e], u[e] + d, *u[e + 1 :]], p.G, p.y) for d in (step, -step))
        columns.append([(v - w) // 2 for v, w in zip(ahead, behind, strict=True)])
    ones = [point.below_q] * (len(S) + len(point.c)) + [0] * len(kinks)
    F = [v - w for v, w in zip(equations(u, p.G, p.y), ones, strict=True)]
    bends = equations(h, [[abs(v) for v in row] for row in p.G], [1] * p.n)
    size = [max(map(abs, row)).bit_length() for row in zip(*columns, strict=True)]
    columns = [[v << (max(size) - s) for v, s in zip(column, size, strict=True)] for column in columns]
    products = [[dot(left, right) for right in columns[: e + 1]] for e, left in enumerate(columns)]
    matrix = [[move(value, 120 - 2 * max(size)) for value in row] for row in products]
    demand(definite(matrix, [0] * len(u), tau), "the equations are not shown to be regular by this tau.")
    scaled = [[Fraction(v, 1 << s) for v, s in zip(row, size, strict=True)] for row in (F, bends)]
    length, bend = (root(Fraction(dot(row, row))) for row in scaled)  # L = 2 |bends|
    demand(8 * bend * length <= tau, "no solution of the equations is shown to be next to these numbers.")
    far = 2 * length * root(1 / tau)
    mu = far * Fraction(max(h[: len(S)]), point.den)
    return Errors(mu, mu * sum(p.lengths[i] for i in S), far)


class Rounded:
    """The point in units: lam and mu with errors of at most e_mu, t with e_t[k]; c as it is."""

    def __init__(self, p: Problem, point: Point, errors: Errors):
        self.lam = {i: value * UNIT // point.den for i, value in point.lam.items()}
        self.mu = [[value * UNIT // point.below_mu for value in row] for row in point.mu]
        self.t = [[value * UNIT // point.below_t for value in row] for row in point.t]
        self.e_mu = up(errors.mu * UNIT) + 1
        self.e_t = [up(errors.v * length * UNIT) + 1 for length in p.lengths]
        self.lengths = [up(length * UNIT) for length in p.lengths]
        self.c = [Fraction(value, point.below_c) for value in point.c]


# Claim "stays"


def stays(p: Problem, point: Point, errors: Errors, claim: dict[str, Any]) -> str:
    """Every flow from |W - B| <= R keeps its friendly sides and tends to the direction of U, the point.

    A pair is friendly if a_j y_i > 0. While the sides of these are kept the loss is convex, and margins are
    at most <h_i, W>, h_i = (a_j y_i p_ji x_i)_j with any p in [alpha, 1], here P, and mu/lam at kinks; at U
    they are equal. On the line V = B + T U, <h_i, V> = c_i + u_i T with u_i = 1 on the support S and u_i > 1
    elsewhere (demanded), and it exceeds the margin by at most e_i = sum_{unfriendly j} |a_j| (s(z) - p_ji z),
    z = B_j.x_i. With dt = L exp(T0 + T) dT, L = sum_i lam_i, b_i = L exp(T0 - c_i), convexity gives
        |W - V| <= R + I + delta T + sqrt(2 kappa T),     delta = |sum_S b_i h_i - U|,
        kappa = sum_i b_i (exp(e_i) - 1),     I = sum_{i not in S} b_i |h_i| / (u_i - 1)
    (logistic loss: I += sum_i L exp(T0 - 2 c_i) |h_i|). `keeps_sides` shows that no friendly pair gets to
    its kink. Then |W - V| = o(T) for the line on which delta = 0, so the direction is that of U.
    """
    demand(not p.both, "with both layers trained the flow is followed, not proved to stay.")
    radius = Fraction(claim["radius"])
    demand(radius > 0, "the radius must be positive.")
    line = Line(p, point, errors, claim)
    for g, j in ((g, j) for g, group in enumerate(point.groups) for j in group if p.slope < p.one):
        line.keeps_sides(g, j, up(radius * UNIT))
    return f"every gradient flow from within {spoken(radius)} of the given state ends in this direction."


def placed(p: Problem, claim: dict[str, Any]) -> tuple[list[list[int]], int]:
    """z_ji = B_j.x_i exactly, over the second: B is given by coefficients of the samples, or by features."""
    start = claim["start"]
    basis, shift = (p.G, 2 * p.sx) if claim["coordinates"] == "samples" else (p.x, p.sx)
    k = len(basis[0])
    good = len(start) == p.width and {len(row) for row in start} == {k}
    expect(good, f"'start' must be {p.width} rows of {k} numbers.")
    flat, more = dyadic([value for row in start for value in row])
    affordable(p.width * p.n, max(map(abs, flat)).bit_length() + p.bits)
    rows = [flat[i : i + k] for i in range(0, len(flat), k)]
    return [[dot(row, each) for each in basis] for row in rows], 1 << (shift + more)


class Line:
    """The numbers of `stays`, in units; z = B_j.x_i over below, and the slopes p_gi over one 2^64."""

    def __init__(self, p: Problem, point: Point, errors: Errors, claim: dict[str, Any]):
        self.p, self.point, self.near = p, point, Rounded(p, point, errors)
        self.z, self.below = placed(p, claim)
        self.slopes = self.majorants()
        near, level, pulls = self.near, Fraction(claim["level"]), {}
        total, weight = sum(near.lam.values()), up(root(sum(near.c, Fraction(0))) * UNIT)
        self.kappa = self.rest = 0
        for i in range(p.n):
            c, e = self.margin(i)
            low, high = (total * value // UNIT for value in exp(level - c))
            pulls[i] = low, high + 1
            self.kappa += (high + 1) * (exp(e)[1] - UNIT) // UNIT + 1 if e else 0
            reach = weight * near.lengths[i] // UNIT + 1  # |h_i| <= |a| |x_i|
            if i not in point.lam:
                over = point.q[i] - point.below_q - margin_error(p, point, errors, i)
                demand(over > 0, f"sample {i} has no multiplier, but its margin is not above 1.")
                self.rest += reach * (high + 1) * point.below_q // (over * UNIT) + 1
            if p.loss == "logistic":
                self.rest += reach * (total * exp(level - 2 * c)[1] // UNIT + 1) // UNIT + 1
        self.delta = self.mismatch(pulls)

    def majorants(self) -> list[list[int]]:
        """p_gi = P_gi, at kinks mu/lam rounded inside [alpha, 1]: every such choice is a valid one."""
        p, point = self.p, self.point
        slopes = [[value << 64 for value in row] for row in point.P]
        for g, pattern in enumerate(point.patterns):
            for i in (i for i, side in enumerate(pattern) if side == "0"):
                slope = (point.mu[g][i] << 64) // point.lam[i] if i in point.lam else 0
                slopes[g][i] = min(max(slope, p.slope << 64), p.one << 64)
        return slopes

    def margin(self, i: int) -> tuple[Fraction, Fraction]:
        """c_i = sum_j a_j y_i p_ji z_ji and e_i = sum_{unfriendly j} |a_j| (s(z_ji) - p_ji z_ji), exactly."""
        p, c, e = self.p, 0, 0
        for group, slopes in zip(self.point.groups, self.slopes, strict=True):
            for a, z in ((p.a[j] * p.y[i], self.z[j][i]) for j in group):
                c += a * slopes[i] * z
                e -= min(a, 0) * (((p.one if z > 0 else p.slope) << 64) - slopes[i]) * z
        below = self.below * p.one << (64 + p.sa)
        return Fraction(c, below), Fraction(e, below)

    def mismatch(self, pulls: dict[int, tuple[int, int]]) -> int:
        """delta^2 = sum_g c_g |sum_S y_i (b_i p_gi - mu_gi) x_i|^2: at the lower ends of b, plus the rest."""
        p, near, S, total = self.p, self.near, self.point.support, Fraction(0)
        off = sum((pulls[i][1] - pulls[i][0] + near.e_mu + 2) * near.lengths[i] // UNIT + 1 for i in S)
        inner = [[p.G[i][k] for k in S] for i in S]
        for c, slopes, mu in zip(near.c, self.slopes, near.mu, strict=True):
            row = [p.y[i] * (pulls[i][0] * slopes[i] // (p.one << 64) - mu[i]) for i in S]
            total += c * (isqrt(quadratic(row, inner) // 4**p.sx) + 1 + off) ** 2
        return isqrt(up(total)) + 1

    def keeps_sides(self, g: int, j: int, radius: int) -> None:
        """Every friendly pair (j, i), on the side s of its kink, has one of

        (a) v = s U_j.x_i - |x_i| delta > 0 and s B_j.x_i - |x_i| (R + I) > |x_i|^2 kappa / (2 v);
        (b) s B_j.x_i > |x_i| R, and each sample that can pull on j moves w_j.x_i towards s: s x_k.x_i >= 0
            for friendly k (but for "-" if alpha = 0, which does not pull), <= 0 for unfriendly k;
        (c) s B_j.x_i > |x_i| R, no friendly sample pulls on j, and B_j.x_k <= 0 for all unfriendly k, which
            then can only bring w_j nearer to B_j.
        """
        p, near, pattern, z = self.p, self.near, self.point.patterns[g], self.z[j]
        friendly = [p.a[j] * label > 0 for label in p.y]
        pulls = [side == "+" or p.slope > 0 or not own for side, own in zip(pattern, friendly, strict=True)]
        alone = all(not pulls[k] if friendly[k] else z[k] <= 0 for k in range(p.n))
        for i in compress(range(p.n), friendly):
            demand(pattern[i] != "0", f"neuron {j} is at the kink of its friendly sample {i}.")
            s, length = 1 if pattern[i] == "+" else -1, near.lengths[i]
            here = s * z[i] * UNIT // self.below
            speed = (s * p.a[j] * near.t[g][i] - abs(p.a[j]) * near.e_t[i]) >> p.sa
            speed -= length * self.delta // UNIT + 1
            room = here - length * (radius + self.rest) // UNIT - 1
            if speed > 0 and 2 * speed * room > length * length * self.kappa // UNIT + 1:
                continue
            towards = (s * (inner if own else -inner) for inner, own in zip(p.G[i], friendly, strict=True))
            helped = alone or all(inner >= 0 or not pull for inner, pull in zip(towards, pulls, strict=True))
            ahead = here > length * radius // UNIT + 1
            demand(helped and ahead, f"neuron {j} may cross the kink of its friendly sample {i}.")


# Claim "rest"


def rest(p: Problem, claim: dict[str, Any]) -> str:
    """Every flow from |W - B| <= R comes to rest in a minimum of the loss (second layer fixed).

    L = sum_i l(q_i), q_i = e_i f(x_i): e = y, and for the square loss the sign of y_i - f(x_i), which keeps
    it (`keeps_residuals`), or 0 where it may not. A pair is friendly if a_j e_i >= 0. While friendly pairs
    keep their sides L is convex. Let it go on so beyond them: then no flow gets away from a minimum W*, and
    from |W - B| <= R it stays within R + 2 away of B, if |W* - B| <= away.

    There is such a W*. For groups of neurons with one row P of slopes let V_g = sum a_j w_j. Then q_i is at
    most <h_i, V> - sum k_gi |V_g.x_i|, h_i = (e_i P_gi x_i)_g, the sum over pairs "0", which are unfriendly.
    P is any slope in [alpha, 1], k = min(P - alpha, 1 - P). B0 is the state next to B at these kinks, where
    both are equal (`to_kinks`). For a change D of V there, |D| = delta, and w_i <= l'', t_i <= -l' so near,
        loss(B0 + D) - loss(B0) >= <g, D> + D'MD/2,    g = sum_i l'_i h_i,
        M = sum_i w_i h_i h_i' + sum_{"0"} min(stiffness, 2 t_i k_gi/(|x_i| delta)) x_i x_i'.
    If M >= tau and tau delta > 2 |g|, a minimum V* is in this ball, and B0_j + a_j (V* - V0)_g / sum a^2 has
    the same margins, as no other pair comes to its kink. D needs only columns of x that span them all; these
    are scaled. Neurons all of whose slopes are 0 stay as they are.

    Residuals that all may change their signs: `fit`.
    """
    near = Rest(p, claim)
    if near.fits:
        near.fit()
    else:
        near.to_kinks()
        near.samples()
        near.minimum()
    near.keeps_sides()
    near.keeps_residuals()
    return near.told()


class Rest:
    """The numbers of `rest`: z = B_j.x_i over below, slopes P_gi over one, lengths in units."""

    def __init__(self, p: Problem, claim: dict[str, Any]):
        expect(not p.both, "this claim is for a fixed second layer.")
        self.p, self.claim, self.delta = p, claim, up(Fraction(claim["delta"]) * UNIT)
        self.radius = up(Fraction(claim["radius"]) * UNIT)
        self.tau, self.independent = Fraction(claim["tau"]), Fraction(claim["independent"])
        names = ("delta", "radius", "tau", "independent", "stiffness")
        positive = all(claim[name] > 0 for name in names)
        demand(
            positive and self.tau < UNIT, "radius, delta, tau, independent and stiffness must be positive."
        )
        square = p.loss == "square"
        expect(
            square == ("signs" in claim) == ("wrong" not in claim), "'signs' or 'wrong' do not fit the loss."
        )
        signs = claim.get("signs", "".join("+" if y > 0 else "-" for y in p.y))
        expect(len(signs) == p.n and {*signs} <= {*"+-0"}, f"'signs' must be {p.n} of the signs +, - and 0.")
        self.e = [(sign == "+") - (sign == "-") for sign in signs]
        self.q: list[tuple[int, int]] = []  # the margins at the minimum
        self.pull: list[tuple[int, int]] = []  # -l' at B0
        self.fits = square and not any(self.e) and not claim["features"]
        self.z, self.below = placed(p, claim)
        self.form_groups(claim["groups"])
        self.scale(claim["features"])

    def form_groups(self, groups: list[dict[str, Any]]) -> None:
        """Every neuron with a_j != 0 is in one group; "0" only where all its neurons are unfriendly."""
        p, neurons = self.p, [j for group in groups for j in group["neurons"]]
        good = all(len(each["pattern"]) == p.n and {*each["pattern"]} <= {*"+-0"} for each in groups)
        good = good and all(each["pattern"].count("0") == len(each["slopes"]) for each in groups)
        expect(good, f"a pattern must be {p.n} of the signs +, - and 0, with a slope for each 0.")
        expect(all(each["neurons"] for each in groups), "a group has no neuron.")
        some = {j for j, a in enumerate(p.a) if a}
        demand(len({*neurons}) == len(neurons), "a neuron is in two groups.")
        demand({*neurons} == some, "the groups do not hold the neurons with a_j != 0.")
        held, self.sp = dyadic(
            [p.slope / p.one, 1.0, *(slope for each in groups for slope in each["slopes"])]
        )
        self.low, self.one, *slopes = held
        demand(all(self.low <= slope <= self.one for slope in slopes), "a slope at a kink is out of bounds.")
        if p.slope == p.one:
            demand(
                {*"".join(each["pattern"] for each in groups)} <= {"+"},
                "with slope 1 every side must be '+'.",
            )
        self.groups, self.patterns = (
            [each["neurons"] for each in groups],
            [each["pattern"] for each in groups],
        )
        steep, rest = {"+": self.one, "-": self.low}, iter(slopes)
        self.P = [[next(rest) if side == "0" else steep[side] for side in row] for row in self.patterns]
        for group, pattern in zip(self.groups, self.patterns, strict=True):
            for i in (i for i, side in enumerate(pattern) if side == "0"):
                unfriendly = all(p.a[j] * self.e[i] < 0 for j in group)
                demand(unfriendly, f"a neuron is at the kink of its friendly sample {i}.")
        self.live = [g for g, row in enumerate(self.P) if any(row)]

    def scale(self, features: list[int]) -> None:
        """The columns in units of powers of two, and the lengths of x_i and of its part in these columns."""
        p, width = self.p, len(self.p.x[0])
        good = features == sorted({*features}) and max(features, default=0) < width
        expect(good, f"'features' must be increasing numbers below {width}.")
        if self.live and len(features) < width and not self.fits:
            demand(
                eliminate([[*column] for column in zip(*p.x, strict=True)], enough=len(features))
                <= len(features),
                "these features are not enough.",
            )
        columns = [[row[f] for row in p.x] for f in features]
        bits = [max(map(abs, column)).bit_length() for column in columns]
        self.top, self.sizes = max(bits, default=0), [size - p.sx for size in bits]
        moved = [[v << (self.top - size) for v in column] for column, size in zip(columns, bits, strict=True)]
        self.x = [[*row] for row in zip(*moved, strict=True)] or [[] for _ in range(p.n)]  # over 2^top
        self.short = [isqrt(dot(row, row) * UNIT**2 >> 2 * self.top) + 1 for row in self.x]
        self.long = [isqrt(dot(row, row) * UNIT**2 >> 2 * p.sx) + 1 if any(row) else 0 for row in p.x]
        total = [sum(self.P[g][i] ** 2 for g in self.live) for i in range(p.n)]
        self.steep = [isqrt(value * UNIT**2 // self.one**2) + 1 for value in total]
        self.c = [sum(p.a[j] ** 2 for j in self.groups[g]) for g in self.live]

    def to_kinks(self) -> None:
        """B0 is at the kinks "0". These are independent: |B0 - B|^2 <= |z|^2 / independent, scaled."""
        p, total = self.p, Fraction(0)
        for g in self.live:
            held = {tuple(p.x[i]): i for i, side in enumerate(self.patterns[g]) if side == "0"}
            rows = [*held]
            size = [(dot(row, row).bit_length() - 2 * p.sx) // 2 for row in rows]
            gram = [
                [move(dot(row, rows[f]), 120 - 2 * p.sx - size[e] - size[f]) for f in range(e + 1)]
                for e, row in enumerate(rows)
            ]
            demand(
                definite(gram, [0] * len(rows), self.independent), "the kinks of a group are not independent."
            )
            for j in self.groups[g]:
                total += sum(
                    Fraction(self.z[j][i] ** 2, self.below**2) / Fraction(4) ** s
                    for i, s in zip(held.values(), size, strict=True)
                )
        self.off = up(root(total / self.independent) * UNIT) if total else 0
        self.off_v = (
            self.off * up(root(Fraction(max(self.c, default=0), 4**p.sa)) * UNIT) // UNIT + 1 if total else 0
        )

    def samples(self) -> None:
        """For each sample <h_i, V> at B0, and from there what it pulls; w_i and t_i in the ball."""
        p, below = self.p, self.below * self.one << self.p.sa
        moves = [[sum(p.a[j] * self.z[j][i] for j in self.groups[g]) for i in range(p.n)] for g in self.live]
        self.loss, self.bend, self.least = [0, 0], [], []
        for i in range(p.n):
            value = (
                (self.e[i] or 1)
                * sum(self.P[g][i] * row[i] for g, row in zip(self.live, moves, strict=True))
                * UNIT
            )
            near = self.steep[i] * (self.long[i] * self.off_v // UNIT + 1) // UNIT + 1 if self.off_v else 0
            far = near + self.steep[i] * (self.short[i] * self.delta // UNIT + 1) // UNIT + 1
            low, high = value // below - near, -(-value // below) + near
            loss, pull = self.around(i, low, high)[:2]
            self.loss = [self.loss[0] + loss[0], self.loss[1] + loss[1]]
            self.pull.append(pull)
            self.q.append((low - far, high + far))
            _, (least, _), bend = self.around(i, low - far, high + far, False)
            self.bend.append(bend)
            self.least.append(least)

    def around(
        self, i: int, low: int, high: int, value: bool = True
    ) -> tuple[tuple[int, int], tuple[int, int], int]:
        """Of l(q), low <= q <= high: itself (if asked for), -l', and the least l'', all in units."""
        if self.p.loss == "square":
            goal = (self.e[i] or 1) * self.p.y[i] * UNIT
            ends = floor(goal) - high, up(goal) - low
            demand(ends[0] > 0 or not self.e[i], f"the residual of sample {i} may change its sign.")
            squares = [end * end for end in ends]
            inside = ends[0] <= 0 <= ends[1]
            return (0 if inside else min(squares) // (2 * UNIT), max(squares) // (2 * UNIT) + 1), ends, UNIT
        less, more = exp(Fraction(-high, UNIT))[0], exp(Fraction(-low, UNIT))[1]
        if self.p.loss == "exponential":
            return (less, more), (less, more), less
        ends = less * UNIT // (UNIT + less), more * UNIT // (UNIT + more) + 1
        bend = max(min(end * (UNIT - end) for end in ends) // UNIT, 0)
        return (log_loss(high)[0], log_loss(low)[1]) if value else (0, 0), ends, bend

    def gradient(self) -> int:
        """|g| at B0, at most."""
        off, total = 0, 0
        for i, (low, high) in enumerate(self.pull):
            off += ((high - low) * self.steep[i] // UNIT + 1) * self.short[i] // UNIT + 1
        for g in self.live:
            pulls = [(self.e[i] or 1) * low * self.P[g][i] for i, (low, _) in enumerate(self.pull)]
            total += sum(dot(pulls, column) ** 2 for column in zip(*self.x, strict=True))
        return isqrt(total // (self.one << self.top) ** 2) + 1 + off if self.live else 0

    def minimum(self) -> None:
        """M >= tau, and tau delta > 2 |g|: the loss there is from loss(B0) - |g| delta to loss(B0)."""
        lower, upper = (Fraction(self.claim[key]) * UNIT for key in ("lower", "upper"))
        g = self.gradient()
        demand(not self.live or self.tau * self.delta > 2 * g, "the gradient is too large for this ball.")
        least = self.loss[0] - g * self.delta // UNIT - 1
        demand(lower <= least, "the loss may be below its lower bound.")
        demand(self.loss[1] <= upper, "the loss may be above its upper bound.")
        demand(definite(*self.matrix(), self.tau), "the loss is not shown to be convex enough by this tau.")

    def fit(self) -> None:
        """f_i = <h_i, W> near B. The nearest W* with f(x_i) = y_i for all i is |K^-1/2 r| away.

        K_ik = <h_i, h_k> is >= tau, scaled by powers of two, and r are the residuals at B.
        """
        p = self.p
        places = 2 * (p.sx + p.sa + self.sp)
        c = [sum(p.a[j] ** 2 for j in group) for group in self.groups]
        rows = [[*map(mul, c, column)] for column in zip(*self.P, strict=True)]
        columns = [*zip(*self.P, strict=True)]
        K = [[dot(row, columns[k]) * p.G[i][k] for k in range(i + 1)] for i, row in enumerate(rows)]
        size = [(row[-1].bit_length() - places) // 2 for row in K]
        scaled = [
            [move(v, 120 - places - size[i] - s) for v, s in zip(row, size, strict=False)]
            for i, row in enumerate(K)
        ]
        demand(definite(scaled, [0] * p.n, self.tau), "the samples are not shown to be fitted next to B.")
        below, total = self.below * self.one << p.sa, Fraction(0)
        for i in range(p.n):
            f = sum(
                p.a[j] * row[i] * self.z[j][i] for g, row in zip(self.groups, self.P, strict=True) for j in g
            )
            total += (p.y[i] - Fraction(f, below)) ** 2 / Fraction(4) ** size[i]
        self.off = up(root(total / self.tau) * UNIT)
        lower, upper = self.claim["lower"], self.claim["upper"]
        demand(lower <= 0 <= upper, "the loss is 0 there, which must be in its bounds.")

    def away(self) -> int:
        """|W* - B| <= |B0 - B| + delta / min |a_g|, as D is scaled."""
        if not self.live or self.fits:
            return self.off
        change = self.delta * root(Fraction(4**self.p.sa, min(self.c))) / Fraction(2) ** min(self.sizes)
        return self.off + up(change)

    def matrix(self) -> tuple[list[list[int]], list[int]]:
        """M in units of 2^-120, block by block: sum_i weight_i x_i x_i', all entries of a block at once."""
        F, places = len(self.x[0]), 100  # of the weights w_i and of those of kinks, rounded down
        expect(len(self.live) * F <= COUPLED, f"it is too large: more than {COUPLED} coupled unknowns.")
        bends = [value >> 320 - places for value in self.bend]
        pairs = [(a, b) for a in range(F) for b in range(a + 1)]
        longest = (
            2 * self.top + 2 * self.sp + self.stiff(places).bit_length() + max(bends, default=0).bit_length()
        )
        slot = 8 * (longest + self.p.n.bit_length() + 16 >> 3)
        affordable(self.p.n * len(pairs), slot)
        affordable((len(self.live) * F) ** 2 // 2, 120)
        packed = [pack([row[a] * row[b] for a, b in pairs], slot) for row in self.x]
        rows: list[list[int]] = [[] for _ in range(len(self.live) * F)]
        for e, g in enumerate(self.live):
            steep = [bend * slope for bend, slope in zip(bends, self.P[g], strict=True)]
            for f, h in enumerate(self.live[: e + 1]):
                weights = [*map(mul, steep, self.P[h])]
                if e == f:
                    weights = [*map(sum, zip(weights, self.kinks(g, places), strict=True))]
                block = unpack(dot(weights, packed), slot, len(pairs))
                values = [move(value, 120 - places - 2 * self.top - 2 * self.sp) for value in block]
                for a in range(F):
                    rows[e * F + a] += [
                        values[max(a, b) * (max(a, b) + 1) // 2 + min(a, b)]
                        for b in range(a + 1 if e == f else F)
                    ]
        return rows, [0] * len(rows)

    def stiff(self, places: int) -> int:
        """The stiffness in units of 2^-places."""
        return floor(Fraction(self.claim["stiffness"]) * 2**places)

    def kinks(self, g: int, places: int) -> list[int]:
        """min(stiffness, 2 t_i k_gi/(|x_i| delta)) for the pairs "0" of a group, over 2^places one^2."""
        most, found = self.stiff(places), [0] * self.p.n
        for i in (i for i, side in enumerate(self.patterns[g]) if side == "0" and self.short[i] > 1):
            sharp = 2 * self.least[i] * min(self.P[g][i] - self.low, self.one - self.P[g][i])
            found[i] = (
                min(most, (sharp * UNIT << places) // (self.one * self.short[i] * self.delta)) * self.one**2
            )
        return found

    def keeps_sides(self) -> None:
        """Friendly pairs are farther than R + 2 away from their kinks, others not "0" farther than away."""
        p = self.p
        if p.slope == p.one:
            return
        away, live = self.away(), {*self.live}
        far = self.radius + 2 * away
        for g, (group, pattern) in enumerate(zip(self.groups, self.patterns, strict=True)):
            for j in group:
                for i in (i for i in range(p.n) if self.long[i] and not (pattern[i] == "0" and g in live)):
                    ahead, friendly = (
                        self.z[j][i] * (1 if pattern[i] == "+" else -1) * UNIT,
                        p.a[j] * self.e[i] >= 0,
                    )
                    needed = self.long[i] * (far if friendly else away) // UNIT + 1
                    good = ahead > needed * self.below if friendly or g in live else ahead >= 0
                    demand(good, f"neuron {j} is not shown to stay at '{pattern[i]}' of sample {i}.")

    def keeps_residuals(self) -> None:
        """Square loss: f(x_i) changes by |a| |x_i| |W - B0| at most, less than the residual at B0."""
        p = self.p
        length = up(root(Fraction(sum(a * a for a in p.a), 4**p.sa)) * UNIT)
        for i in (i for i in range(p.n) if p.loss == "square" and self.e[i]):
            reach = length * (self.long[i] * (self.radius + 3 * self.away()) // UNIT + 1) // UNIT + 1
            demand(self.pull[i][0] > reach, f"the residual of sample {i} may change its sign.")

    def told(self) -> str:
        """What is proved, with the number of samples that are misclassified at the minimum."""
        p, claim = self.p, self.claim
        radius, lower, upper = (spoken(claim[key]) for key in ("radius", "lower", "upper"))
        sentence = f"every gradient flow from within {radius} of the given state comes to rest in a minimum"
        sentence += f", where the loss is from {lower} to {upper}, summed over samples"
        if p.loss == "square":
            return f"{sentence}."
        wrong = sum(high < 0 for _, high in self.q)
        demand(wrong == claim["wrong"], f"{wrong} samples are shown to be misclassified.")
        return f"{sentence}; at least {wrong} of {p.n} samples are misclassified there."


def log_loss(q: int) -> tuple[int, int]:
    """(low, high) around log(1 + e^-q), all in units: log(1 + t) = 2 artanh(t/(2 + t)), t = e^-|q| <= 1."""
    low, high = exp(Fraction(-abs(q), UNIT))
    sums = []
    for t, away in ((low, 0), (high, 1)):
        u = t * UNIT // (2 * UNIT + t) + away
        square, power, total = u * u // UNIT + away, 2 * u, 0
        for order in range(1, 2 * 110, 2):
            total += power // order + away
            power = power * square // UNIT + away
        sums.append(total + power * away + max(-q, 0))  # what is left out is less than 9/8 of a term
    return sums[0], sums[1]


def pack(values: Sequence[int], slot: int) -> int:
    """Integers in one, in slots of so many bits: sums of multiples then are sums in every slot."""
    return sum(value << slot * k for k, value in enumerate(values))


def unpack(packed: int, slot: int, count: int) -> list[int]:
    """The integers in the slots, each less than 2^(slot - 1)."""
    half, step = 1 << slot - 1, slot // 8
    digits = (packed + pack([half] * count, slot)).to_bytes(step * count, "little")
    places = range(0, step * count, step)
    return [int.from_bytes(digits[place : place + step], "little") - half for place in places]


# The other claims


def inner_products(p: Problem, point: Point, errors: Errors) -> tuple[list[list[int]], Fraction]:
    """N_gh = v_g.v_h without the bias, sum_i y_i mu_gi (t_hi - sum_k y_k mu_hk), in units; and its error."""
    if point.products is not None:
        return point.products
    affordable(len(point.groups) ** 2, 640)
    near = Rounded(p, point, errors)
    pulls = [[*map(mul, p.y, row)] for row in near.mu]
    biases = [sum(pull) * p.bias for pull in pulls]
    t = [[value - bias for value in row] for row, bias in zip(near.t, biases, strict=True)]
    e_t = max(near.e_t) + p.n * near.e_mu
    most_mu, most_t = (max(abs(value) for row in rows for value in row) for rows in (near.mu, t))
    error = p.n * ((most_mu + near.e_mu) * e_t + most_t * near.e_mu) // UNIT + 2
    half = [[dot(pull, row) // UNIT for row in t[: g + 1]] for g, pull in enumerate(pulls)]
    N = [[half[max(g, h)][min(g, h)] for h in range(len(half))] for g in range(len(half))]
    point.products = N, Fraction(error, UNIT)  # two claims need them
    return point.products


def rank(p: Problem, point: Point, errors: Errors, claim: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """The rank of W without biases is r. It is that of t (groups x samples) without biases.

    At least r: by elimination modulo a prime, if the point is exact; else the matrix N of r groups has no
    eigenvalue below tau, which is more than its error. At most r: the number of groups, of support vectors or
    of features, elimination if that is not too much work, or `rank_at_most`.
    """
    r, groups, most = claim["rank"], claim.get("groups", []), min(len(point.t), len(point.support), p.d)
    if errors.mu:
        expect(len(groups) == r and max(groups, default=0) < len(point.t), f"'groups' must be {r} groups.")
        N, error = inner_products(p, point, errors)
        size = [(N[g][g].bit_length() - 320) // 2 for g in groups]
        pairs = [[(e, f) for f in range(e + 1)] for e in range(r)]
        matrix = [[move(N[groups[e]][groups[f]], -200 - size[e] - size[f]) for e, f in row] for row in pairs]
        tau = Fraction(claim.get("tau", 0.0))
        shown = tau > r * error / Fraction(4) ** min(size, default=0) and definite(matrix, [0] * r, tau)
    else:
        biases = [dot(p.y, row) * p.bias * 4**p.sx for row in point.mu]
        t = [[value - bias for value in row] for row, bias in zip(point.t, biases, strict=True)]
        shown = eliminate([[value % PRIME for value in row] for row in t], PRIME) >= r
        longest = (r + 1) * max(abs(value) for row in t for value in row).bit_length()  # as minors are
        if shown and r < most and (r + 1) * len(t) * p.n * longest**2 < WORK:
            most = eliminate(t, enough=r)
    demand(shown, f"the rank is not shown to be at least {r}.")
    demand(r >= most or r >= rank_at_most(point), f"the rank is not shown to be at most {r}.")
    return Fraction(r), Fraction(r)


def rank_at_most(point: Point) -> int:
    """A bound for the number of independent v_g, added up over classes: all groups, by sign, or by kinks.

    In a class no v_g has a part in the span of the samples at whose kinks all its groups are. Samples at the
    kinks of some of its groups count 1 each, and all others as many as the rank of their slopes P.
    """
    groups = [g for g, row in enumerate(point.mu) if any(row)]
    kinks = {g: frozenset(i for i in point.support if point.patterns[g][i] == "0") for g in groups}
    bounds = []
    for keys in (dict.fromkeys(groups, 0), {g: point.signs[g] for g in groups}, kinks):
        total, classes = 0, dict[Any, list[int]]()
        for g, key in keys.items():
            classes.setdefault(key, []).append(g)
        for own in classes.values():
            some = frozenset().union(*(kinks[g] for g in own))
            partly = some - some.intersection(*(kinks[g] for g in own))
            rows = [[point.P[g][i] for i in point.support if i not in some] for g in own]
            total += eliminate(rows) + len(partly)
        bounds.append(total)
    return min(bounds)


def stable_rank(p: Problem, point: Point, errors: Errors, claim: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """sum_g c_g N_gg / s^2 is from `lower` to `upper`; s is the largest singular value of W without biases.

    s^2 >= e'Ne / e'C^-1 e for every vector e, and s^2 <= `largest` if largest C - C N C has no negative
    eigenvalue. An error d of N changes these and the numerator by at most d sum_g c_g, one of C by a factor.
    """
    c, (N, error) = [Fraction(value, point.below_c) for value in point.c], inner_products(p, point, errors)
    expect(len(claim["vector"]) == len(c), "'vector' must have one number for each group.")
    (vector, _), most, error = dyadic(claim["vector"]), Fraction(claim["largest"]), error * sum(c)
    demand(most > 0 and any(vector), "the largest singular value and its vector must not be zero.")
    below = sum(Fraction(e * e) / each for e, each in zip(vector, c, strict=True))
    least = quadratic(vector, N) / below / UNIT
    demand(least > error, "the largest singular value is not shown to be positive.")
    size = [(floor(most * each * UNIT).bit_length() - 320) // 2 for each in c]
    rows, below_c = (
        [[(g, h, -200 - size[g] - size[h]) for h in range(g + 1)] for g in range(len(c))],
        point.below_c,
    )
    matrix = [
        [move(-point.c[g] * point.c[h] * N[g][h], shift) // below_c**2 for g, h, shift in row] for row in rows
    ]
    for g, row in enumerate(matrix):
        row[-1] += floor(most * c[g] / Fraction(4) ** size[g] * 2**120)
    demand(definite(matrix, [0] * len(c), Fraction(1, 2**40)), "the largest singular value may be larger.")
    trace = sum(each * N[g][g] for g, each in enumerate(c)) / Fraction(UNIT)
    lower, upper, ratio = Fraction(claim["lower"]), Fraction(claim["upper"]), (1 + errors.c) / (1 - errors.c)
    demand(lower * ratio <= (trace - error) / (most + error), "the stable rank may be below its lower bound.")
    high = ratio * (trace + error) / (least - error)
    demand(high <= upper, "the stable rank may be above its upper bound.")
    return lower, upper


def optimal(p: Problem, point: Point, errors: Errors, claim: dict[str, Any]) -> str:
    """No first layer with margins of at least 1 is shorter (second layer fixed; slope 1: every KKT point).

    All such W' have |W'|^2/2 >= sum lam - (S+ M+^2 + S- M-^2)/2, S+- the sum of a_j^2 by sign and M+- the
    maximum of +-sum_i lam_i y_i s(u.x_i) over |u| <= 1. Since |W|^2 = sum lam = sum c_g |v_g|^2, W is optimal
    if M+- = |v_g| for every group of that sign. M+ is the largest distance of a corner sum_{y_i = 1} p_i
    lam_i x_i, p_i = alpha or 1, from the set Z of all sum_{y_i = -1} p_i lam_i x_i, alpha <= p_i <= 1.
    A corner with the pattern of a group has a point of Z at the distance |v_g|, that with its slopes; for all
    other corners the claim gives slopes.
    """
    demand(not p.both and not errors.mu, "optimality is for exact points with a fixed second layer.")
    near, alpha = Rounded(p, point, errors), p.slope * UNIT // p.one
    off = sum(2 * (near.lengths[i] // UNIT + 1) * (near.lam[i] // UNIT + 2) for i in point.support) + 2
    for sign, name in ((1, "+"), (-1, "-")):
        groups = [g for g, each in enumerate(point.signs) if each == sign and p.slope < p.one]
        own, others = ([i for i in point.support if p.y[i] == each] for each in (sign, -sign))
        expect(not groups or len(own) <= CORNERS, f"a class has more than {CORNERS} support vectors.")
        good = len(claim[name]) == (2 ** len(own) if groups else 0)
        expect(good, f"'{name}' must have an entry for each corner.")
        demand(len({point.squares[g] for g in groups}) <= 1, f"groups of the sign '{name}' differ in |v_g|.")
        known = {"".join(point.patterns[g][i] for i in own) for g in groups}
        inner = [[p.G[i][k] for k in own + others] for i in own + others]
        for number, slopes in enumerate(claim[name]):
            sides = "".join("+" if number >> bit & 1 else "-" for bit in range(len(own)))
            if sides in known:
                continue
            good = slopes is not None and len(slopes) == len(others)
            expect(good, f"corner {number} of '{name}' must have {len(others)} slopes.")
            good = all(Fraction(p.slope, p.one) <= slope <= 1 for slope in slopes)
            demand(good, f"a slope of corner {number} of '{name}' is out of bounds.")
            steep = [UNIT if side == "+" else alpha for side in sides]
            row = [near.lam[i] * slope // UNIT for i, slope in zip(own, steep, strict=True)]
            row += [-floor(near.lam[i] * Fraction(slope)) for i, slope in zip(others, slopes, strict=True)]
            distance = isqrt(quadratic(row, inner) // 4**p.sx) + 1 + off
            length = isqrt(point.squares[groups[0]] * UNIT**2 // (point.below_mu * point.below_t))
            demand(distance <= length, f"corner {number} of '{name}' is farther than |v_g|.")
    return "no first layer with margins of at least 1 is shorter: this is a global optimum."


def inseparable(p: Problem, claim: dict[str, Any]) -> str:
    """No such network has positive margins only: f(r x) = r f(x) for r > 0, and with slope 1 f is linear."""
    expect(len(claim) == 2, "'inseparable' must have one of 'sample', 'samples' and 'combination'.")
    if "sample" in claim:
        i = claim["sample"]
        demand(i < p.n and not any(p.x[i]), f"sample {i} is not zero.")
        return f"no such network separates the data: sample {i} is zero, and so is its margin."
    if "samples" in claim:
        expect(len(claim["samples"]) == 2 and max(claim["samples"]) < p.n, "'samples' must be two samples.")
        i, k = claim["samples"]
        both = dot(p.x[i], p.x[k])
        on_ray = both > 0 and both**2 == dot(p.x[i], p.x[i]) * dot(p.x[k], p.x[k])
        demand(on_ray and p.y[i] != p.y[k], f"{i} and {k} are not on one ray with different labels.")
        return f"no such network separates the data: {i} and {k} are on one ray, with different labels."
    weights = claim["combination"]
    expect(len(weights) == p.n and p.slope == p.one, "a combination must be of all samples, and the slope 1.")
    demand(min(weights) >= 0 and any(weights), "the combination must be positive.")
    signed = [*map(mul, weights, p.y)]
    demand(not any(dot(signed, column) for column in zip(*p.x, strict=True)), "the combination is not zero.")
    return "no linear network separates the data: a positive combination of the y_i x_i is zero."


def refutes(claim: dict[str, Any], proved: dict[str, tuple[Fraction, Fraction]]) -> str:
    """A relation that is claimed, such as "stable rank <= 2", is false: the proved interval excludes it."""
    quantity, relation, bound = claim["quantity"], claim["relation"], Fraction(claim["bound"])
    demand(quantity in proved, f"the {quantity} must be proved first.")
    low, high = proved[quantity]
    false = {"<=": low > bound, "<": low >= bound, ">=": high < bound, ">": high <= bound}
    excluded = false.get(relation, low > bound or high < bound)
    told = f"{quantity} {relation} {spoken(bound)}"
    demand(excluded, f"{told} is not refuted.")
    return f"{told} is false here, against {plain(claim['id'])}: {plain(claim['sentence'])}"


# A certificate as a whole


def spoken(number: Fraction | float) -> str:
    """A double in the shortest spelling that reads back as it: a rounded one might say what is not proved."""
    return repr(float(number)).removesuffix(".0")


def plain(text: str) -> str:
    """Text of a file without line breaks and signs that are not seen: it must not look like a verdict."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


@dataclass
class Verdict:
    """A claim, whether it holds, and the sentence that says what is proved, or what is missing."""

    claim: str
    holds: bool
    sentence: str


@dataclass
class Report:
    """The verdicts on all claims; or why nothing could be checked; and what is told without proof."""

    verdicts: list[Verdict] = field(default_factory=list)
    malformed: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Are there claims, and do all of them hold?"""
        return not self.malformed and bool(self.verdicts) and all(each.holds for each in self.verdicts)

    def __str__(self) -> str:
        if self.malformed:
            return f"Nothing is checked: {self.malformed}"
        marks = {True: "proved", False: "REFUSED"}
        lines = [f"{marks[each.holds]}  {each.claim}: {each.sentence}" for each in self.verdicts]
        lines += [f"{key} (not proved): {value}"[:300] for key, value in self.told.items()]
        return "\n".join(lines)


def check(document: Any, data: Data | None = None) -> Report:
    """Check a certificate (parsed JSON); given the reader's data (x, y), it must be about these."""
    report = Report()
    try:
        expect(not nested(document), "it is nested too deeply.")
        told = read(document, FORM, "the certificate")
        report.told = {key: told[key] for key in ("followed", "estimated") if key in told}
        names: list[Any] = [each.get("claim") if type(each) is dict else None for each in told["claims"]]
        expect(all(type(name) is str and name in CLAIMS for name in names), "a claim has an unknown name.")
        expect(len({*names}) + max(names.count("refutes") - 1, 0) == len(names), "a claim occurs twice.")
        single = [["inseparable"], ["rest"]]
        good = names[:1] == ["kkt"] and [each for each in names if [each] in single] == []
        good = names in single if told["point"] is None else good
        expect(
            good, "the first claim must be 'kkt', or 'inseparable' or 'rest', alone, if the point is null."
        )
        fits = told["problem"]["loss"] != "square" or names == ["rest"]
        expect(fits, "for the square loss the claim must be 'rest'.")
        forms = [{"claim": str} | CLAIMS[name] for name in names]
        claims = [read(each, form, "a claim") for each, form in zip(told["claims"], forms, strict=True)]
        _judge(Problem(told["problem"], data), told["point"], claims, report)
    except Malformed as error:
        report.malformed = str(error)
    except Exception as error:  # never a traceback, never acceptance
        report.malformed = f"the numbers are out of range ({type(error).__name__})."
    return report


def check_text(text: str, data: Data | None = None) -> Report:
    """Check a certificate as it stands in its file."""
    try:
        return check(parse(text), data)
    except Malformed as error:
        return Report(malformed=str(error))


def _judge(p: Problem, told: Any, claims: list[dict[str, Any]], report: Report) -> None:
    known: list[Any] = []
    proved: dict[str, tuple[Fraction, Fraction]] = {}
    by_name: dict[str, Any] = {"stays": stays, "optimal": optimal, "rank": rank, "stable rank": stable_rank}

    def prove(name: str, claim: dict[str, Any]) -> str:
        if name in ("inseparable", "rest"):
            return (rest if name == "rest" else inseparable)(p, claim)
        if name == "kkt":
            point = Point(p, told)
            errors, sentence = kkt(p, point)
            known.extend((p, point, errors))
            return sentence
        demand(bool(known), "not looked at, because this is not shown to be a KKT point.")
        if name == "refutes":
            return refutes(claim, proved)
        found = by_name[name](*known, claim)
        if isinstance(found, str):
            return found
        proved[name] = low, high = found
        value = str(low) if low == high else f"from {spoken(low)} to {spoken(high)}"
        return f"the {name} of the first layer (without biases) is {value}."

    for claim in claims:
        try:
            report.verdicts.append(Verdict(claim["claim"], True, prove(claim["claim"], claim)))
        except Refused as error:
            report.verdicts.append(Verdict(claim["claim"], False, str(error)))


def read_csv(path: str, label: str | None) -> Data:
    """Samples and labels of a table: the labels are in the column `label`, else "y", else the last.

    The first row holds names if it has one for the labels. Else it is a sample, and no cell may be missing.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = file.read().splitlines() or [""]
        rows = [row for row in csv.reader(lines, delimiter=max(",;\t", key=lines[0].count)) if row]
        first = [cell.strip() for cell in rows[0]]
        usual = [name for name in first if name.lower() in ("y", "label", "target", "class")]
        expect(len(usual) < 2 or label is not None, "two columns may hold the labels: choose one by --label.")
        label = label or (usual or ["-1"])[0]
        column = first.index(label) if label in first and not is_number(label) else int(label)
        table = [[float(cell) for cell in row] for row in rows[not is_number(first[column]) :]]
        return table, [row.pop(column) for row in table]
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise Malformed(f"{path} is not a table of numbers with labels: {str(error)[:80]}.") from None


def is_number(cell: str) -> bool:
    """Does a cell hold a number?"""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Check a rankfall certificate.")
    parser.add_argument("certificate", help="the JSON file")
    parser.add_argument("--data", help="your own data (.csv): the certificate must be about these")
    parser.add_argument("--label", help="the column of the labels, name or number (default: y, or the last)")
    options = parser.parse_args(arguments)
    try:
        with open(options.certificate, encoding="utf-8") as file:
            text = file.read()
        report = check_text(text, read_csv(options.data, options.label) if options.data else None)
    except (OSError, UnicodeDecodeError, MemoryError, Malformed) as error:
        report = Report(malformed=str(error) or "the file is too large.")
    encoding = sys.stdout.encoding or "utf-8"
    print(str(report).encode(encoding, "backslashreplace").decode(encoding))
    return 2 if report.malformed else 0 if report.accepted else 1


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # a reader that closes early, as `head` does, is no refusal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
