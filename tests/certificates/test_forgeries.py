"""One forged certificate for each obligation: all others hold, and the checker says which one does not."""

import json
from copy import deepcopy
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
