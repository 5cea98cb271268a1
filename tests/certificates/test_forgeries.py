"""One forged certificate for each obligation: all others hold, and the checker says which one does not.

At the end, thousands of small problems with samples on one line, equal or zero, with any pattern, support and
state: the checker accepts exactly what follows from the definitions and the theorem, evaluated another way.
"""

import json
from copy import deepcopy
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from rankfall.certificates import (
    Certificate,
    Problem,
    check,
    optimal,
    propose,
    propose_both,
    rank,
    stable_rank,
    stays,
)


def solved_exactly(x, y, a, slope, patterns, groups, support):
    """The equations alone, by elimination over fractions: a document's point, whatever its inequalities."""
    x = [[Fraction(v) for v in row] for row in x]
    gram = [[sum((u * v for u, v in zip(p, q, strict=True)), Fraction(0)) for q in x] for p in x]
    value = {"+": Fraction(1), "-": Fraction(slope), "0": Fraction(0)}
    c = [sum((Fraction(a[j]) ** 2 for j in group), Fraction(0)) for group in groups]
    unknowns = [(g, i) for g, pattern in enumerate(patterns) for i in support if pattern[i] == "0"]
    unknowns += [(None, i) for i in support]

    def slopes(unknown):
        g, i = unknown
        return [
            Fraction(h == g) if g is not None else value[pattern[i]] for h, pattern in enumerate(patterns)
        ]

    rows = []
    for e in unknowns:
        row = []
        for f in unknowns:
            common = sum((w * u * v for w, u, v in zip(c, slopes(e), slopes(f), strict=True)), Fraction(0))
            row.append(int(y[e[1]] * y[f[1]]) * gram[e[1]][f[1]] * common)
        rows.append([*row, Fraction(e[0] is None)])
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    found = [row[-1] for row in rows]
    below = int(np.lcm.reduce([1, *(v.denominator for v in found)], dtype=object))
    numbers = [hex(int(v * below)) for v in found]
    kinks = len(unknowns) - len(support)
    return {
        "groups": [{"neurons": g, "pattern": p} for g, p in zip(groups, patterns, strict=True)],
        "support": support,
        "denominator": hex(below),
        "multipliers": numbers[kinks:],
        "kinks": numbers[:kinks],
    }


X = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 1.0, 3.0]])
Y = np.array([1.0, -1.0, 1.0])
A = [1.0, -1.0]


def forged(patterns, support, x=X, y=Y, slope=0.5):
    problem = Problem(x, y, slope, np.array(A))
    document = Certificate.of(problem, None).document
    document["claims"] = [{"claim": "kkt"}]
    document["point"] = solved_exactly(x.tolist(), y.tolist(), A, slope, patterns, [[0], [1]], support)
    return check.check(json.loads(json.dumps(document)))


def test_the_right_point_is_accepted():
    """The forger's own elimination, with the pattern and the support that are right."""
    problem = Problem(X, Y, 0.5, np.array(A))
    point = propose(problem, np.array([[1, -1, 1], [-1, 1, -1]]), np.ones(3))
    patterns = ["".join("-0+"[side + 1] for side in row) for row in point.patterns.tolist()]
    report = forged(patterns, point.support.tolist())
    assert report.accepted, str(report)


FORGED = {
    "a multiplier that is not positive": (
        ["+-+", "-+-"],
        [0, 1, 2],
        np.array([[1.0, 0, 0], [0, 1, 0], [3, 0, 0.1]]),
        Y,
        0.5,
    ),
    "a margin below 1": (["+-+", "-+-"], [1, 2], np.array([[0.1, 0, 0], [0, 1, 0], [3, 0, 1]]), Y, 0.5),
    "a wrong side": (["++-", "-+-"], [0, 1, 2], np.eye(3), Y, 0.5),
    "a slope above 1": (["+0+", "-+-"], [0, 1, 2], np.array([[1.0, 0.9, 0], [0, 1, 0], [0, 0.9, 1]]), Y, 0.5),
    "a slope below alpha": (
        ["+0+", "-+-"],
        [0, 1, 2],
        np.array([[1.0, 0.01, 0], [0, 1, 0], [0, 0.01, 1]]),
        Y,
        0.5,
    ),
}
SENTENCES = {
    "a multiplier that is not positive": "multiplier",
    "a margin below 1": "margin of sample 0",
    "a wrong side": "side|not shown to be at",
    "a slope above 1": "out of bounds",
    "a slope below alpha": "out of bounds",
}


@pytest.mark.parametrize("name", FORGED)
def test_solutions_of_the_equations_that_break_an_inequality_are_refused(name):
    patterns, support, x, y, slope = FORGED[name]
    report = forged(patterns, support, x, y, slope)
    assert not report.malformed
    assert not report.accepted
    assert any(word in report.verdicts[0].sentence for word in SENTENCES[name].split("|")), str(report)


@pytest.fixture(scope="module")
def whole(kinked, cells):
    """A certificate with kinks and all claims that hold for it."""
    found, point = kinked
    problem = found.problem
    start = cells.line_start(problem, point, 2000.0)
    claims = [
        stays(problem, point, start, "features").claim,
        rank(problem, point),
        stable_rank(problem, point),
    ]
    document = json.loads(json.dumps(Certificate.of(problem, point, claims).document))
    assert check.check(document).accepted
    return document


def refused(document, word, claim=0):
    """The verdict on a claim is no, for this reason, and the whole is not accepted."""
    report = check.check(document)
    assert not report.accepted
    told = report.malformed or report.verdicts[claim].sentence
    assert report.malformed or not report.verdicts[claim].holds
    assert word in told, told
    return True


def test_equations_that_do_not_hold_are_refused(whole):
    document = deepcopy(whole)
    document["point"]["denominator"] = hex(int(document["point"]["denominator"], 16) + 1)
    refused(document, "the margin of the support vector")
    document = deepcopy(whole)
    document["point"]["kinks"][0] = hex(int(document["point"]["kinks"][0], 16) + 1)
    refused(document, "")


def test_groups_must_hold_every_neuron_once_and_one_sign(whole):
    document = deepcopy(whole)
    groups = document["point"]["groups"]
    groups[0]["neurons"].append(groups[-1]["neurons"][0])
    refused(document, "in two groups")
    document = deepcopy(whole)
    groups = document["point"]["groups"]
    removed = groups.pop()
    document["point"]["kinks"] = document["point"]["kinks"][: sum(g["pattern"].count("0") for g in groups)]
    refused(document, "")
    document = deepcopy(whole)
    document["point"]["groups"][0]["neurons"] += removed["neurons"]
    refused(document, "two groups")
    document = deepcopy(whole)
    a = document["problem"]["second_layer"]
    plus, minus = (
        next(g for g in document["point"]["groups"] if (a[g["neurons"][0]][0] == "-") == s)
        for s in (False, True)
    )
    plus["neurons"] += minus["neurons"]
    document["point"]["groups"].remove(minus)
    refused(document, "")
    document = deepcopy(whole)
    document["problem"]["second_layer"].append((0.5).hex())
    document["problem"]["width"] += 1
    refused(document, "is in no group")


def test_radius_and_level_and_start_are_held_against_the_theorem(whole):
    for key, factor in (("radius", 1.001), ("level", 1.01), ("level", 0.99)):
        document = deepcopy(whole)
        claim = document["claims"][1]
        claim[key] = (float.fromhex(claim[key]) * factor).hex()
        refused(document, "", 1)
    document = deepcopy(whole)
    document["claims"][1]["radius"] = (0.0).hex()
    refused(document, "radius must be positive", 1)
    document = deepcopy(whole)
    document["claims"][1]["radius"] = (-1.0).hex()
    refused(document, "radius must be positive", 1)
    document = deepcopy(whole)
    start = document["claims"][1]["start"]
    start[0] = [(-float.fromhex(v) + 0.0).hex() for v in start[0]]
    refused(document, "", 1)


def test_a_sample_without_multiplier_must_have_a_margin_above_one_if_the_flow_is_to_stay():
    """Three orthogonal samples; the third is twice the first, with half the multipliers' share: margin 2 > 1.

    Then the same with a third equal to the first, and the multiplier of one of them put to zero: margin 1.
    """
    for factor, holds in ((2.0, True), (1.0, False)):
        x, y = np.array([[1.0, 0.0], [0.0, 1.0], [factor, 0.0]]), np.array([1.0, -1.0, 1.0])
        problem = Problem(x, y, 0.5, np.array(A))
        point = propose(problem, np.array([[1, -1, 1], [-1, 1, -1]]), np.array([1.0, 1.0, 0.0]))
        assert point.support.tolist() == [0, 1]
        u = point.weights(problem)
        level = -np.log(point.lam()[:2] / point.lam().sum())
        base = np.linalg.solve(np.array([[1.0, 0.5], [0.5, 1.0]]), level)
        start = 30 * u + np.array([[base[0], -base[1]], [-base[0], base[1]]]) * 0.8
        found = stays(problem, point, start, "features")
        assert bool(found) == holds or not holds
        if not holds:
            assert "margin is not above 1" in found.why


def test_a_neuron_leaves_only_if_no_sample_that_it_harms_is_on_its_positive_side():
    """(c) of the theorem, slope 0: sample 1 would push neuron 2 over the kink of sample 0."""
    problem = Problem(
        np.array([[1.0, 0.0], [-1.0, 1.0]]), np.array([1.0, -1.0]), 0.0, np.array([1.0, -1.0, 1.0])
    )
    point = propose(problem, np.array([[1, -1], [-1, 1], [-1, -1]]), np.ones(2))
    level, lam = 30.0, point.lam()
    assert lam.tolist() == [1.0, 0.5]
    c = level - np.log(lam / lam.sum())
    for last, holds in (
        ([-0.5, -0.6], True),
        ([-0.5, -0.5], True),
        ([-0.5, -0.4], False),
        ([-0.5, 0.0], False),
    ):
        start = [[c[0], 0.0], [-c[1] / 2, c[1] / 2], last]
        claim = {"coordinates": "features", "start": [[float(v).hex() for v in row] for row in start]}
        claim |= {"claim": "stays", "level": level.hex(), "radius": (0.01).hex()}
        document = Certificate.of(problem, point, [claim]).document
        if holds:
            assert check.check(document).accepted, str(check.check(document))
        else:
            refused(document, "neuron 2 may cross the kink of its friendly sample 0", 1)


def test_wrong_ranks_are_refused(whole):
    for change in (1, -1):
        document = deepcopy(whole)
        document["claims"][2]["rank"] += change
        refused(document, "at least" if change > 0 else "at most", 2)


def test_wrong_stable_ranks_are_refused(whole):
    for key, factor, word in (
        ("lower", 1 + 1e-8, "lower"),
        ("upper", 1 - 1e-8, "upper"),
        ("largest", 0.999, "larger"),
    ):
        document = deepcopy(whole)
        claim = document["claims"][3]
        claim[key] = (float.fromhex(claim[key]) * factor).hex()
        refused(document, word, 3)
    document = deepcopy(whole)
    document["claims"][3]["vector"] = [(0.0).hex()] * len(document["claims"][3]["vector"])
    refused(document, "zero", 3)


def test_a_point_with_a_shorter_rival_is_not_optimal(cells):
    """Weights of different lengths, or a corner that is farther than they are long."""
    for seed in range(0, 300, 10):
        found = cells.solved(seed, slope=0.1, n=4, d=3, m=4)
        point = found.propose()
        if not optimal(found.problem, point):
            s = (
                [i for i in point.support if found.problem.y[i] > 0],
                [i for i in point.support if found.problem.y[i] < 0],
            )
            corners = {
                name: [[(0.5).hex()] * len(other)] * 2 ** len(own)
                for name, own, other in (("+", s[0], s[1]), ("-", s[1], s[0]))
            }
            report = Certificate.of(found.problem, point, [{"claim": "optimal", **corners}]).check()
            assert not report.accepted
            return
    raise AssertionError("all points were optimal")


def test_an_enclosure_needs_a_tau_that_holds(cells):
    found = cells.solved(300, slope=0.0, d=12)
    point = found.propose(large=0)
    document = Certificate.of(found.problem, point).document
    assert check.check(document).accepted
    for tau, word in (
        (0.9, "one solution"),
        (0.0, "between 0 and 1"),
        (-1.0, "between 0 and 1"),
        (2.0, "between"),
    ):
        refused(document | {"point": document["point"] | {"tau": tau.hex()}}, word)
    tiny = document | {"point": document["point"] | {"tau": (1e-70).hex()}}
    refused(tiny, "")
    without = {key: value for key, value in document["point"].items() if key != "tau"}
    refused(document | {"point": without}, "margin of the support vector")


def test_both_layers_have_obligations_of_their_own():
    x, y = np.diag([1.0, 2.0, 0.7, 1.3]), np.array([1.0, -1.0, 1.0, -1.0])
    amplitude = {s: np.sqrt((1 / np.diag(x)[y == s] ** 2).sum()) for s in (1.0, -1.0)}
    lam = np.array([1 / (amplitude[s] * v**2) for s, v in zip(y, np.diag(x), strict=True)])
    problem = Problem(x, y, 0.0, None, width=2)
    second = np.array([np.sqrt(amplitude[1.0]), -np.sqrt(amplitude[-1.0])])
    point = propose_both(problem, np.where(np.sign(second)[:, None] * y > 0, 1, -1), second, lam)
    document = json.loads(json.dumps(Certificate.of(problem, point).document))
    assert check.check(document).accepted

    def changed(**changes):
        return document | {"point": document["point"] | changes}

    amplitudes = document["point"]["amplitudes"]
    refused(changed(amplitudes=[amplitudes[0], hex(int(amplitudes[1], 16) * 2)]), "next to these numbers")
    refused(changed(amplitudes=[amplitudes[0], "-0x1"]), "positive")
    refused(changed(amplitudes=amplitudes[:1]), "amplitudes")
    refused(changed(tau=(0.9).hex()), "regular")
    flipped = deepcopy(document["point"]["groups"])
    flipped[0]["sign"] *= -1
    refused(changed(groups=flipped), "not shown to be at")
    claims = [
        *document["claims"],
        {
            "claim": "stays",
            "coordinates": "features",
            "start": [],
            "level": (1.0).hex(),
            "radius": (1.0).hex(),
        },
    ]
    refused(document | {"claims": claims}, "followed", 1)
    claims = [*document["claims"], {"claim": "optimal", "+": [], "-": []}]
    refused(document | {"claims": claims}, "fixed second layer", 1)


def test_reasons_why_data_are_inseparable_are_checked():
    x, y = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    document = Certificate.of(
        Problem(x, y, 1.0, np.array(A)), None, [{"claim": "inseparable", "samples": [0, 1]}]
    ).document
    assert check.check(document).accepted
    for claim, word in (
        ({"sample": 0}, "not zero"),
        ({"samples": [0, 2]}, "one ray"),
        ({"samples": [0, 0]}, "one ray"),
        ({"samples": [0, 3]}, "two samples"),
        ({"combination": ["0x2", "0x1", "0x1"]}, "not zero"),
        ({"combination": ["0x0", "0x0", "0x0"]}, "positive"),
        ({"combination": ["-0x2", "-0x1", "0x0"]}, "positive"),
        ({}, "one of"),
        ({"sample": 0, "samples": [0, 1]}, "one of"),
    ):
        refused(document | {"claims": [{"claim": "inseparable", **claim}]}, word)
    good = document | {"claims": [{"claim": "inseparable", "combination": ["0x2", "0x1", "0x0"]}]}
    assert check.check(good).accepted


# --- the definitions and the theorem, evaluated neuron by neuron, in fractions and decimals --------------


def some_solution(rows, rng):
    """A solution of equations with the right side last, free unknowns at random; None if there is none."""
    size, pivots = len(rows[0]) - 1, []
    for column in range(size):
        place = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if place is None:
            continue
        k = len(pivots)
        rows[k], rows[place] = rows[place], rows[k]
        rows[k] = [v / rows[k][column] for v in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [v - rows[i][column] * w for v, w in zip(rows[i], rows[k], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    found = {k: Fraction(int(rng.integers(9)), 8) for k in range(size) if k not in pivots}
    free = dict(found)
    for row, column in zip(rows, pivots, strict=False):
        found[column] = row[-1] - sum(row[k] * v for k, v in free.items())
    return [found[k] for k in range(size)]


class Guess:
    """A small problem, patterns and a support at random, and numbers that solve the equations."""

    def __init__(self, rng):
        n, d, m = (int(v) for v in rng.integers(1, [5, 5, 4]))
        x = rng.choice([-2.0, -1.0, 0.0, 0.0, 0.5, 1.0, 2.0], size=(n, d))
        if n > 1 and rng.random() < 0.3:
            x[1] = x[0] * rng.choice([-1.0, 2.0, -0.5, 1.0])
        self.y = rng.choice([-1, 1], size=n).tolist()
        self.a = [Fraction(float(v)) for v in rng.choice([-1.0, 0.0, 1.0, 2.0, -0.5], size=m)]
        self.alpha = Fraction(float(rng.choice([0.0, 0.0, 0.25, 0.5, 1.0])))
        self.loss = str(rng.choice(["exponential", "logistic"]))
        bias = bool(rng.random() < 0.3)
        a = np.array([float(v) for v in self.a])
        self.problem = Problem(x, np.array(self.y, dtype=float), float(self.alpha), a, bias, self.loss)
        self.x = [[Fraction(v) for v in row] for row in self.problem.inputs.tolist()]
        self.live, self.n = [j for j in range(m) if self.a[j]], n
        friend, other = ([0.7, 0.2, 0.1], [0.15, 0.5, 0.35]) if self.alpha < 1 else 2 * ([1.0, 0.0, 0.0],)
        own = [[0.0, 1.0, 0.0] if self.alpha == 0 and rng.random() < 0.3 else friend for _ in self.a]
        odds = [[own[j] if self.a[j] * label > 0 else other for label in self.y] for j in range(m)]
        self.side = {j: "".join(rng.choice([*"+-0"], p=p) for p in odds[j]) for j in self.live}
        self.support = np.flatnonzero(rng.random(n) < 0.75).tolist()
        self.found = self.solve(rng) if self.live and self.support else None

    def solve(self, rng):
        names = dict.fromkeys((self.a[j] > 0, self.side[j]) for j in self.live)
        self.groups = [[j for j in self.live if (self.a[j] > 0, self.side[j]) == name] for name in names]
        slope = {"+": Fraction(1), "-": self.alpha, "0": Fraction(0)}
        kinks = [
            (g, i) for g, (j, *_) in enumerate(self.groups) for i in self.support if self.side[j][i] == "0"
        ]
        unknowns = [*kinks, *((None, i) for i in self.support)]

        def part(unknown, j):  # by which the unknown is multiplied in w_j, but for a_j y_i x_i
            g, i = unknown
            return slope[self.side[j][i]] if g is None else Fraction(j in self.groups[g])

        def entry(e, f):
            common = sum((self.a[j] ** 2 * part(e, j) * part(f, j) for j in self.live), Fraction(0))
            return self.y[e[1]] * self.y[f[1]] * inner(self.x[e[1]], self.x[f[1]]) * common

        rows = [[*(entry(e, f) for f in unknowns), Fraction(e[0] is None)] for e in unknowns]
        found = some_solution(rows, rng)
        if found is None:
            return None
        self.lam = dict(zip(self.support, found[len(kinks) :], strict=True))
        self.mu = dict(zip(kinks, found, strict=False))
        below = int(np.lcm.reduce([1, *(v.denominator for v in found)], dtype=object))
        numbers = [hex(int(v * below)) for v in found]
        return {
            "groups": [{"neurons": group, "pattern": self.side[group[0]]} for group in self.groups],
            "support": self.support,
            "denominator": hex(below),
            "multipliers": numbers[len(kinks) :],
            "kinks": numbers[: len(kinks)],
        }

    def sigma(self, z):
        return max(z, self.alpha * z)

    def is_kkt(self):
        """w_j = a_j sum lam y P x with P in the subdifferential at w_j.x, margins >= 1, = 1 where lam > 0."""
        if min(self.lam.values()) <= 0:
            return False
        at = {j: g for g, group in enumerate(self.groups) for j in group}
        self.p, self.w = {}, [[Fraction(0)] * len(self.x[0]) for _ in self.a]
        for j in self.live:
            for i in range(self.n):
                known = {"+": Fraction(1), "-": self.alpha}.get(self.side[j][i])
                held = self.mu[at[j], i] / self.lam[i] if (at[j], i) in self.mu else self.alpha
                self.p[j, i] = held if known is None else known
            pulls = [self.a[j] * self.y[i] * v * self.p[j, i] for i, v in self.lam.items()]
            self.w[j] = [inner(pulls, [self.x[i][f] for i in self.lam]) for f in range(len(self.x[0]))]
        for (j, i), p in self.p.items():
            z = inner(self.w[j], self.x[i])
            if not (self.alpha <= p <= 1 and p * z == self.sigma(z)) or (self.side[j][i] == "0" and z):
                return False
        q = [
            y * inner(self.a, [self.sigma(inner(w, x)) for w in self.w])
            for x, y in zip(self.x, self.y, strict=True)
        ]
        return all(q[i] == 1 if i in self.lam else q[i] >= 1 for i in range(self.n))

    def state(self, rng):
        """A state on the line of the theorem, or next to it, and its level."""
        u, n = np.array([[float(v) for v in row] for row in self.w]), len(self.lam)
        h = np.zeros((n, *u.shape))
        for e, i in enumerate(self.lam):
            for j in self.live:
                h[e, j] = float(self.a[j] * self.y[i] * self.p[j, i]) * self.problem.inputs[i]
        lam, level = np.array([float(v) for v in self.lam.values()]), float(rng.choice([1, 3, 10, 30]))
        base = np.linalg.lstsq(h.reshape(n, -1), -np.log(lam / lam.sum()), rcond=1e-9)[0].reshape(u.shape)
        noise = float(rng.choice([0, 1e-3, 0.1, 1])) * rng.normal(size=u.shape)
        return base + level * u + noise, level + float(rng.choice([0, 0.01, 0.2])) * rng.normal()

    def largest(self, b, level):
        """The largest radius for which the hypothesis of the theorem holds; it is not positive if none is."""
        b = [[Fraction(v) for v in row] for row in b.tolist()]
        x, y, a, p, n = self.x, self.y, self.a, self.p, self.n
        z = {(j, i): inner(b[j], x[i]) for j, i in p}
        u = [sum(a[j] * y[i] * p[j, i] * inner(self.w[j], x[i]) for j in self.live) for i in range(n)]
        if any(u[i] <= 1 for i in range(n) if i not in self.lam):
            return Decimal(-1)
        lengths = [decimal(inner(row, row)).sqrt() for row in x]
        total, kappa, rest, pulls = decimal(sum(self.lam.values())), Decimal(0), Decimal(0), []
        for i in range(n):
            c = sum(a[j] * y[i] * p[j, i] * z[j, i] for j in self.live)
            unfriendly = [j for j in self.live if a[j] * y[i] < 0]
            e = sum((abs(a[j]) * (self.sigma(z[j, i]) - p[j, i] * z[j, i]) for j in unfriendly), Fraction(0))
            pulls.append(total * decimal(Fraction(level) - c).exp())
            kappa += pulls[i] * (decimal(e).exp() - 1)
            reach = decimal(sum(a[j] ** 2 for j in self.live)).sqrt() * lengths[i]
            if i not in self.lam:
                rest += pulls[i] * reach / decimal(u[i] - 1)
            if self.loss == "logistic":
                rest += total * decimal(Fraction(level) - 2 * c).exp() * reach
        delta = Decimal(0)
        for j in self.live:
            for f, own in enumerate(self.w[j]):
                pulled = sum(pulls[i] * decimal(a[j] * y[i] * p[j, i] * x[i][f]) for i in self.lam)
                delta += (pulled - decimal(own)) ** 2
        delta = delta.sqrt()

        def allowed(j, i):
            s = {"+": 1, "-": -1, "0": 0}[self.side[j][i]]
            v, here = (
                s * decimal(inner(self.w[j], x[i])) - lengths[i] * delta,
                s * decimal(z[j, i]) / lengths[i],
            )
            moves = here - rest - lengths[i] * kappa / (2 * v) if v > 0 else Decimal(-1)
            friends = [k for k in range(n) if a[j] * y[k] > 0]
            others = [k for k in range(n) if a[j] * y[k] < 0]
            helped = all(s * inner(x[k], x[i]) >= 0 for k in friends if p[j, k])
            helped = helped and all(s * inner(x[k], x[i]) <= 0 for k in others)
            leaves = self.alpha == 0 and all(self.side[j][k] == "-" for k in friends)
            leaves = leaves and all(z[j, k] <= 0 for k in others)
            return max(moves, here) if helped or leaves else moves

        pairs = [(j, i) for j, i in p if a[j] * y[i] > 0 and self.alpha < 1]
        return min((allowed(j, i) for j, i in pairs), default=Decimal("inf"))


def inner(u, v):
    return sum((s * t for s, t in zip(u, v, strict=True)), Fraction(0))


def decimal(value):
    return Decimal(Fraction(value).numerator) / Decimal(Fraction(value).denominator)


@pytest.mark.slow
def test_exactly_what_follows_from_the_definitions_and_the_theorem_is_accepted():
    rng, counts = (
        np.random.default_rng(0),
        {(claim, holds): 0 for claim in ("kkt", "stays") for holds in (0, 1)},
    )
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 100, -(10**9), 10**9
        for _ in range(10_000):
            guess = Guess(rng)
            if guess.found is None:
                continue
            document = Certificate.of(guess.problem, None).document
            document |= {"point": guess.found, "claims": [{"claim": "kkt"}]}
            report = check.check(document)
            assert report.accepted == guess.is_kkt(), f"{report}\n{json.dumps(document)}"
            counts["kkt", report.accepted] += 1
            if not report.accepted:
                continue
            true = rank_of([row[: guess.problem.x.shape[1]] for row in guess.w])
            for r in range(max(true - 1, 0), true + 2):
                assert claims(document, {"claim": "rank", "rank": r}) == (r == true), json.dumps(document)
            b, level = guess.state(rng)
            largest = min(guess.largest(b, level), Decimal(10**6))
            claim = {"claim": "stays", "coordinates": "features", "level": level.hex()}
            claim["start"] = [[float(v).hex() for v in row] for row in b + 0.0]
            for share, holds in ((1 - 1e-9, largest > 0), (1 + 1e-9, largest == 10**6)):
                radius = float(largest) * share if largest > 0 else 1e-9
                document["claims"][1:] = [claim | {"radius": radius.hex()}]
                report = check.check(document)
                assert report.accepted == holds, f"{report}\n{json.dumps(document)}"
                counts["stays", holds] += 1
    assert min(counts.values()) > 30, counts


# --- enclosures: numbers that are off by more than usual, so that what is accounted for decides -----------


class Coarse:
    """The solution of a guess, rounded to a few bits, as an enclosure."""

    def __init__(self, guess, rng):
        self.bits = int(rng.choice([5, 8, 12, 20]))
        exact = [*guess.mu.values(), *guess.lam.values()]
        numbers = [round(v * 2**self.bits) + int(rng.integers(-1, 2)) for v in exact]
        self.error = max(abs(Fraction(v, 2**self.bits) - w) for v, w in zip(numbers, exact, strict=True))
        k, self.tau = len(guess.mu), float(rng.choice([0.3, 0.1, 0.01, 0.001]))
        point = {"kinks": [hex(v) for v in numbers[:k]], "multipliers": [hex(v) for v in numbers[k:]]}
        point |= {"denominator": hex(2**self.bits), "tau": self.tau.hex()}
        self.document = Certificate.of(guess.problem, None).document
        self.document |= {"point": guess.found | point, "claims": [{"claim": "kkt"}]}
        self.p = guess.problem.checked
        told = check.read(self.document["point"], check.FORM["point"], "")
        self.point = check.Point(self.p, told)
        self.lam = dict(zip(guess.lam, (Fraction(v, 2**self.bits) for v in numbers[k:]), strict=True))
        self.mu = dict(zip(guess.mu, (Fraction(v, 2**self.bits) for v in numbers), strict=False))

    def v(self, guess, g):
        """v_g of the rounded numbers, and of the exact ones."""
        slope, side = {"+": Fraction(1), "-": guess.alpha}, guess.side[guess.groups[g][0]]
        made = []
        for lam, mu in ((self.lam, self.mu), (guess.lam, guess.mu)):
            pulls = {i: guess.y[i] * (mu[g, i] if side[i] == "0" else slope[side[i]] * lam[i]) for i in lam}
            made.append([sum(pulls[i] * guess.x[i][f] for i in lam) for f in range(len(guess.x[0]))])
        return made

    def holds_with(self, guess, errors):
        """Do the inequalities hold for all numbers and all v_g that are as near as this?"""
        e = errors.mu
        good = all(v > e for v in self.lam.values())
        for (_, i), v in self.mu.items():
            good = good and guess.alpha * (self.lam[i] + e) <= v - e and v + e <= self.lam[i] - e
        q = [Fraction(0)] * guess.n
        for g, group in enumerate(guess.groups):
            side, v = guess.side[group[0]], self.v(guess, g)[0]
            alive = any(
                s == "0" or slope for s, slope in ((side[i], guess.alpha or side[i] == "+") for i in self.lam)
            )
            for i, x in enumerate(guess.x):
                t = inner(v, x) * (1 if guess.a[group[0]] > 0 else -1)
                far, made = errors.v**2 * inner(x, x), [k for k in self.lam if side[k] != "-" or guess.alpha]
                still = not any(inner(guess.x[k], x) for k in made)  # orthogonal to all of it
                if alive and not still and guess.alpha < 1:
                    away = t if side[i] == "+" else -t
                    good = good and ((g, i) in self.mu if side[i] == "0" else away >= 0 and away**2 >= far)
                weight = sum(guess.a[j] ** 2 for j in group) * {"+": 1, "-": guess.alpha, "0": 0}[side[i]]
                off = Fraction(float(errors.v) * float(inner(x, x)) ** 0.5) * (1 - Fraction(1, 10**9))
                q[i] += weight * (guess.y[i] * inner(v, x) - off)
        return good and all(q[i] >= 1 for i in range(guess.n) if i not in self.lam)


def rank_of(rows):
    rows, found = [list(row) for row in rows], 0
    for k in range(len(rows[0])):
        pivot = next((row for row in rows if row[k]), None)
        if pivot is not None:
            rows = [[v - row[k] / pivot[k] * w for v, w in zip(row, pivot, strict=True)] for row in rows]
            found += 1
    return found


@pytest.mark.slow
def test_what_is_accepted_of_coarse_enclosures_holds_for_the_exact_point():
    rng, counts = np.random.default_rng(1), dict.fromkeys(("kkt", "stays", "rank", "stable rank", "near"), 0)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        for _ in range(8000):
            guess = Guess(rng)
            if guess.found is None or min(guess.lam.values()) <= 0:
                continue
            coarse = Coarse(guess, rng)
            try:
                errors = check.linear(coarse.p, coarse.point)
            except check.Refused:
                continue
            counts["near"] += 1
            assert coarse.error <= errors.mu
            for g in range(len(guess.groups)):
                off = [s - t for s, t in zip(*coarse.v(guess, g), strict=True)]
                assert inner(off, off) <= errors.v**2
            if not check.check(coarse.document).accepted:
                continue
            counts["kkt"] += 1
            told = json.dumps(coarse.document)
            assert coarse.holds_with(guess, errors), told
            assert guess.is_kkt(), told
            counts["stays"] += claims_a_ball(guess, coarse, rng)
            counts["rank"] += claims_a_rank(guess, coarse, rng)
            counts["stable rank"] += claims_a_stable_rank(guess, coarse, rng)
    assert min(counts.values()) > 100, counts


def claims(document, claim):
    return check.check(document | {"claims": [{"claim": "kkt"}, claim]}).accepted


def claims_a_ball(guess, coarse, rng):
    """No radius is accepted that is too large for the exact point."""
    b, level = guess.state(rng)
    largest = guess.largest(b, level)
    claim = {"claim": "stays", "coordinates": "features", "level": level.hex()}
    claim["start"] = [[float(v).hex() for v in row] for row in b + 0.0]
    too_large = float(largest) * (1 + 1e-9) if largest > 0 else 1e-9
    if largest < 10**6:
        assert not claims(coarse.document, claim | {"radius": too_large.hex()}), json.dumps(coarse.document)
    smaller = min(float(largest) * 0.5, 1e6)
    return smaller > 0 and claims(coarse.document, claim | {"radius": smaller.hex()})


def claims_a_rank(guess, coarse, rng):
    """No rank but that of the exact point is accepted."""
    true, accepted = rank_of([row[: guess.problem.x.shape[1]] for row in guess.w]), 0
    for r in range(len(guess.groups) + 1):
        some = sorted(rng.choice(len(guess.groups), size=r, replace=False).tolist())
        tau = float(rng.choice([0.1, 1e-3, 1e-6, 1e-12])).hex()
        if claims(coarse.document, {"claim": "rank", "rank": r, "groups": some, "tau": tau}):
            assert r == true, json.dumps(coarse.document)
            accepted += 1
    return accepted


def claims_a_stable_rank(guess, coarse, rng):
    """Intervals around the stable rank of the rounded numbers: none that lacks the exact one is accepted."""
    d, accepted = guess.problem.x.shape[1], 0
    w = np.array([[float(v) for v in row[:d]] for row in guess.w])
    c = np.array([float(sum(guess.a[j] ** 2 for j in group)) for group in guess.groups])
    pairs = [coarse.v(guess, g) for g in range(len(c))]
    rounded = np.sqrt(c)[:, None] * np.array([[float(v) for v in near[:d]] for near, _ in pairs])
    values, vectors = np.linalg.eigh(rounded @ rounded.T)
    if not values[-1] > 1e-9 or not w.any():
        return 0
    true = (w**2).sum() / np.linalg.norm(w, 2) ** 2
    near, vector = values.sum() / values[-1], np.sqrt(c) * vectors[:, -1] + 0.0
    for width in (1e-9, 1e-4, 1e-2, 0.3):
        low, high, most = near * (1 - width), near * (1 + width), float(values[-1]) * (1 + width / 4)
        claim = {"claim": "stable rank", "lower": float(low).hex(), "upper": float(high).hex()}
        claim |= {"largest": most.hex(), "vector": [float(v).hex() for v in vector]}
        if claims(coarse.document, claim):
            assert low - 1e-12 <= true <= high + 1e-12, json.dumps(coarse.document | {"claims": [claim]})
            accepted += 1
    return accepted


@pytest.mark.parametrize("bits", [16, 20, 30])
def test_a_coarse_enclosure_of_both_layers_is_as_near_as_the_checker_says(bits):
    """Orthogonal samples: multipliers 1/(c x^2) and amplitudes c = sqrt(sum 1/x^2), class by class."""
    lengths, y = np.array([1.0, 2.0, 0.75, 1.25]), np.array([1.0, -1.0, 1.0, -1.0])
    size = {s: np.sqrt((1 / lengths[y == s] ** 2).sum()) for s in (1.0, -1.0)}
    lam = np.array([1 / (size[s] * v**2) for s, v in zip(y, lengths, strict=True)])
    problem, c = Problem(np.diag(lengths), y, 0.0, None, width=2), np.array([size[1.0], size[-1.0]])
    rng, found = np.random.default_rng(bits), 0
    for _ in range(40):
        numbers = [round(v * 2**bits) + int(rng.integers(-1, 2)) for v in [*lam, *c]]
        point = {
            "groups": [
                {"neurons": [0], "pattern": "+-+-", "sign": 1},
                {"neurons": [1], "pattern": "-+-+", "sign": -1},
            ],
            "support": [0, 1, 2, 3],
            "denominator": hex(2**bits),
            "multipliers": [hex(v) for v in numbers[:4]],
            "kinks": [],
            "amplitudes": [hex(v) for v in numbers[4:]],
            "tau": (0.01).hex(),
        }
        inside = check.Point(problem.checked, check.read(point, check.FORM["point"], ""))
        try:
            errors = check.newton(problem.checked, inside)
        except check.Refused:
            continue
        found += 1
        near = np.array(numbers) / 2**bits
        assert np.abs(near[:4] - lam).max() <= float(errors.mu) + 1e-15
        assert (np.abs(near[4:] - c) / near[4:]).max() <= float(errors.c) + 1e-15
        for s in (1.0, -1.0):
            assert np.linalg.norm(((near[:4] - lam) * lengths)[y == s]) <= float(errors.v) + 1e-15
        document = Certificate.of(problem, None).document | {"point": point}
        told = near[4] / max(near[4:]) + near[5] / max(near[4:])
        true = c.sum() / c.max()
        for width in (1e-12, 0.3 * 2.0**-bits, 2.0**-bits, 4 * 2.0**-bits, 100 * 2.0**-bits):
            vector = [float(v).hex() for v in (near[4:] == max(near[4:])).astype(float)]
            claim = {
                "claim": "stable rank",
                "lower": (told * (1 - width)).hex(),
                "upper": (told * (1 + width)).hex(),
            }
            claim |= {"largest": (max(near[4:]) * (1 + width / 8)).hex(), "vector": vector}
            if claims(document, claim):
                assert told * (1 - width) <= true <= told * (1 + width)
    assert found > 5


def test_an_exact_point_of_both_layers_must_be_balanced():
    """One sample, one neuron: lam = c = 1; with lam = 2 and c = 1/2 the margin is 1, and |v| is 2."""
    problem = Problem(np.array([[1.0]]), np.array([1.0]), 0.0, None, width=1)
    document = Certificate.of(problem, None).document
    for lam, c, holds in ((2, 2, True), (4, 1, False), (1, 4, False)):
        document["point"] = {
            "groups": [{"neurons": [0], "pattern": "+", "sign": 1}],
            "support": [0],
            "denominator": "0x2",
            "multipliers": [hex(lam)],
            "kinks": [],
            "amplitudes": [hex(c)],
        }
        document["claims"] = [{"claim": "kkt"}]
        if holds:
            assert check.check(document).accepted
        else:
            refused(document, "not balanced")


def test_a_relation_is_refuted_only_if_the_interval_excludes_it(whole):
    low, high = (float.fromhex(whole["claims"][3][key]) for key in ("lower", "upper"))
    middle, eps = (low + high) / 2, 1e-6
    for relation, bounds in {
        "<": {low: 1, low - eps: 1, middle: 0, high: 0, high + eps: 0},
        "<=": {low: 0, low - eps: 1, middle: 0, high: 0, high + eps: 0},
        ">": {high: 1, high + eps: 1, middle: 0, low: 0, low - eps: 0},
        ">=": {high: 0, high + eps: 1, middle: 0, low: 0, low - eps: 0},
        "=": {low - eps: 1, high + eps: 1, low: 0, high: 0, middle: 0},
    }.items():
        for bound, holds in bounds.items():
            claim = {"claim": "refutes", "id": "a", "sentence": "b", "quantity": "stable rank"}
            claim |= {"relation": relation, "bound": bound.hex()}
            assert check.check(whole | {"claims": [*whole["claims"], claim]}).accepted == holds, (
                relation,
                bound,
            )


def test_opposite_samples_with_different_labels_may_be_separable():
    x, y = np.array([[1.0, 2.0], [-1.0, -2.0]]), np.array([1.0, -1.0])
    claim = {"claim": "inseparable", "samples": [0, 1]}
    refused(Certificate.of(Problem(x, y, 0.1, np.ones(1)), None, [claim]).document, "one ray")


def test_optimality_needs_an_exact_point(cells):
    """The slopes of corners are compared with a length that would be known only nearly."""
    for seed in range(0, 300, 10):
        found = cells.solved(seed, slope=0.1, n=4, d=8, m=4)
        claim = optimal(found.problem, found.propose())
        if claim:
            document = Certificate.of(found.problem, found.propose(large=0), [claim]).document
            assert "tau" in document["point"]
            refused(document, "exact points", 1)
            return
    raise AssertionError("no point was optimal")


def test_every_error_of_an_enclosure_is_accounted_for(cells):
    """The checker's functions, with errors that are larger or smaller than an inequality can bear."""
    for seed in range(0, 400, 10):  # a point without kinks, at which all samples are support vectors
        found = cells.solved(seed, slope=0.5, n=4, d=6)
        problem, point = found.problem, found.propose()
        if not point.kinks and len(point.support) == 4:
            break
    ball = stays(problem, point, cells.line_start(problem, point, 200.0), "features")
    wide = ball.claim | {"radius": (ball.radius / 2).hex()}
    p, tiny = problem.checked, Fraction(1, 2**200)
    inside = check.Point(p, check.read(point.document(), check.FORM["point"], ""))
    sides = [
        abs(Fraction(t, inside.below_t)) / length
        for row in inside.t
        for t, length in zip(row, p.lengths, strict=True)
    ]
    multipliers = [Fraction(v, inside.den) for v in inside.lam.values()]

    def refuses(function, *arguments):
        try:
            function(p, inside, *arguments)
        except check.Refused:
            return True
        return False

    for share, far in ((1 - Fraction(1, 10**9), False), (1 + Fraction(1, 10**9), True)):
        assert refuses(check.inequalities, check.Errors(tiny, min(sides) * share)) == far
        assert refuses(check.inequalities, check.Errors(min(multipliers) * share, tiny)) == far
    told = check.read(wide, {"claim": str} | check.CLAIMS["stays"], "")
    exact = check.Line(p, inside, check.Errors(), told)
    assert not refuses(check.stays, check.Errors(tiny, min(sides) / 100), told)
    assert refuses(check.stays, check.Errors(tiny, 2 * max(sides)), told)
    off = Fraction(1, 1000)
    line = check.Line(p, inside, check.Errors(off, tiny), told)
    worst = off * sum(p.lengths) * check.root(sum(exact.near.c, Fraction(0)))
    assert abs(Fraction(line.delta - exact.delta, check.UNIT) / worst - 1) < Fraction(1, 10**6)
    claim = stable_rank(problem, point)
    for share, far in ((1, True), (1.0015, True), (1.0025, False)):
        wider = {key: float.fromhex(claim[key]) for key in ("lower", "upper")}
        wider = {"lower": (wider["lower"] / share).hex(), "upper": (wider["upper"] * share).hex()}
        told = check.read(claim | wider, {"claim": str} | check.CLAIMS["stable rank"], "")
        assert refuses(check.stable_rank, check.Errors(c=off), told) == far
