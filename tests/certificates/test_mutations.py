"""Mutated certificates are refused: every field, several ways, over several certificates.

Not mutated are fields whose change leaves a certificate true: names and sentences, what is followed or
estimated, the loss, the order of groups, a smaller radius, a wider interval.
"""

import hashlib
import json
from copy import deepcopy

import numpy as np
import pytest
from scipy.optimize import root

from rankfall.certificates import Certificate, Problem, check, propose_both, rank, refutes, stable_rank, stays


def whole_certificates(cells):
    """Certificates with all claims: with kinks, with biases, enclosed, of both layers."""
    made = []
    for seed, slope, bias, large in (
        (0, 0.0, False, 300),
        (100, 0.1, True, 300),
        (200, 0.5, False, 300),
        (300, 0.0, False, 0),
    ):
        found = cells.solved(seed, slope=slope, bias=bias, d=7)
        problem, point = found.problem, found.propose(large=large)
        ball = stays(problem, point, cells.line_start(problem, point, 3000.0), "features")
        claims = [ball.claim, rank(problem, point), stable_rank(problem, point)]
        told = refutes("paper/claim", "the stable rank is at most 1/2", "stable rank", "<=", 0.5)
        made.append(Certificate.of(problem, point, [*claims, told], followed={"distance": 0.1}))
    lengths = np.array([1.0, 2.0, 0.7, 1.3, 1.1])
    x, y = np.diag(lengths) + 0.01, np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    both = Problem(x, y, 0.1, None, width=3)
    second = np.array([1.2, -0.8, 0.3])
    start = both_start(both, second)
    point = propose_both(both, np.where(second[:, None] * y > 0, 1, -1), *start)
    made.append(Certificate.of(both, point, [rank(both, point), stable_rank(both, point)]))
    return [json.loads(json.dumps(each.document)) for each in made]


def both_start(problem, second):
    """A zero of the equations of both layers, by SciPy."""
    y, n = problem.y, len(problem.y)
    p = np.array([np.where(s * y > 0, 1.0, problem.slope) for s in (1, -1)])

    def equations(u):
        v = (p * u[:n] * y) @ problem.x
        return np.append(y * (u[n:] @ (p * (v @ problem.x.T))) - 1, (v**2).sum(axis=1) - 1)

    found = root(equations, np.append(1 / np.diag(problem.gram), [1.5, 1.0]), tol=1e-13)
    assert found.success
    size = {s: np.sqrt((second[second * s > 0] ** 2).sum()) for s in (1, -1)}
    scaled = [v * np.sqrt(found.x[n + (v < 0)]) / size[1 if v > 0 else -1] for v in second]
    return np.array(scaled), found.x[:n]


def resealed(document):
    """The same with the sha256 of the data that it holds, as a careful forger would have it."""
    data = document["problem"]["data"]
    try:
        x = [[float.fromhex(v) for v in row] for row in data["x"]]
        y = [float.fromhex(v) for v in data["y"]]
        data["sha256"] = hashlib.sha256(check.canonical(x, y)).hexdigest()
    except (ValueError, KeyError, TypeError, OverflowError):
        pass
    return document


def at(document, path):
    for key in path:
        document = document[key]
    return document


def changed(document, path, value):
    """A copy with another value there; None for the value removes it."""
    copy = deepcopy(document)
    inner = at(copy, path[:-1])
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


def leaves(value, path=()):
    """The paths to all that is neither a list nor an object."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from leaves(each, (*path, i))
    else:
        yield path


TRUE_IF_CHANGED = {
    "name",
    "followed",
    "estimated",
    "loss",
    "id",
    "sentence",
    "level",
    "start",
    "vector",
    "tau",
}


def mutants_of_leaf(value, path, exact):
    """Values that make the certificate false or malformed."""
    key = next((each for each in reversed(path) if isinstance(each, str)), "")
    malformed = [True, 1.5, "NaN", "inf", "-0x", [], {}, 10**30]
    if value is None:
        return malformed
    if isinstance(value, bool):
        return [not value, 0, "true"]
    if isinstance(value, int):
        return [value + 1 if key not in ("width",) else value - 1, -1, True, str(value), 10**9]
    if key in ("denominator", "multipliers", "kinks", "amplitudes"):
        number = int(value, 16)
        digit = hex(number ^ (1 << 3)) if exact else hex(number + number // 2 + 1)
        return [digit, hex(-number), hex(2 * number), value.upper(), f" {value}", *malformed]
    if key == "pattern":
        other = {"+": "-", "-": "+", "0": "+"}
        flips = [value[:i] + other[side] + value[i + 1 :] for i, side in enumerate(value)]
        return [*flips, value[1:], value + "+", value.replace("+", "x"), 3]
    if key in ("x", "second_layer", "slope"):
        number = float.fromhex(value)
        small = [np.nextafter(number, 9.0)] if exact else []
        moved = [*small, number + 0.25, -number - 0.25]
        return [*(float(v).hex() for v in moved), "0x1.8p0", "0x1p99999", *malformed]
    if key == "y":
        return [(-float.fromhex(value)).hex(), (0.0).hex(), *malformed]
    if key in ("radius", "lower"):
        return [(float.fromhex(value) * 1.001).hex(), "nan", *malformed]
    if key in ("upper", "largest"):
        return [(float.fromhex(value) * 0.999).hex(), "nan", *malformed]
    if key == "bound":
        return [(1e3).hex(), *malformed]
    if key in TRUE_IF_CHANGED:
        return [1.5, [], {}] if key not in ("followed", "estimated", "name") else []
    return ["", value + "x", 0, []]


def unaffected(document, path):
    """What may change a little and leave a true certificate: a sample that is no support vector."""
    others = {*range(document["problem"]["data"]["samples"])} - {*document["point"]["support"]}
    return path[0] in ("followed", "estimated") or ("x" in path and path[-2] in others)


def mutants(document, rng):
    exact = "tau" not in document["point"]
    paths = [path for path in leaves(document) if not unaffected(document, path)]
    numbers = [path for path in paths if "x" in path or "start" in path]
    keep = {numbers[i] for i in rng.choice(len(numbers), size=20, replace=False)}
    for path in paths:
        if path in numbers and path not in keep:
            continue
        for value in mutants_of_leaf(at(document, path), path, exact):
            if repr(value) != repr(at(document, path)):
                mutant = changed(document, path, value)
                yield path, resealed(mutant) if {"x", "y"} & {*path} else mutant
    for key in ("format", "version", "problem", "point", "claims"):
        yield (key,), changed(document, (key,), None)
    for key in document["problem"]:
        yield ("problem", key), changed(document, ("problem", key), None)
    for key in document["point"]:
        if key != "tau":
            yield ("point", key), changed(document, ("point", key), None)
        yield ("point", key, "more"), changed(document, ("point", f"{key}s"), "0x1")
    yield from whole_mutants(document)


def whole_mutants(document):
    """Changes of more than one field."""
    y = document["problem"]["data"]["y"]
    swapped = deepcopy(document)
    swapped["problem"]["data"]["y"] = [y[-1], *y[1:-1], y[0]] if y[0] != y[-1] else [y[1], y[0], *y[2:]]
    yield ("labels swapped",), resealed(swapped)
    for i, k in ((0, 1), (1, 2)):
        other = deepcopy(document)
        x = other["problem"]["data"]["x"]
        x[i], x[k] = x[k], x[i]
        yield ("samples swapped",), resealed(other)
    other = deepcopy(document)
    other["problem"]["data"]["x"] = [
        [(2 * float.fromhex(v)).hex() for v in row] for row in other["problem"]["data"]["x"]
    ]
    yield ("other data",), resealed(other)
    other = deepcopy(document)
    other["problem"]["bias"] = not other["problem"]["bias"]
    yield ("bias",), other
    other = deepcopy(document)
    other["point"]["multipliers"] = other["point"]["multipliers"][::-1]
    yield ("multipliers reversed",), other
    if len(set(other["point"]["kinks"])) > 1:
        other = deepcopy(document)
        other["point"]["kinks"] = other["point"]["kinks"][::-1]
        yield ("kinks reversed",), other
    for part in ("support", "multipliers"):
        other = deepcopy(document)
        other["point"][part] = other["point"][part][1:]
        yield (part, "shorter"), other
    other = deepcopy(document)
    other["point"]["support"], other["point"]["multipliers"] = (
        other["point"][k][1:] for k in ("support", "multipliers")
    )
    yield ("a support vector less",), other
    for claim in document["claims"][1:]:
        yield ("no kkt",), document | {"claims": [claim]}
        yield (
            ("twice",),
            document | {"claims": [*document["claims"], claim]} if claim["claim"] != "refutes" else {},
        )
    yield ("unknown claim",), document | {"claims": [*document["claims"], {"claim": "true"}]}
    yield ("no claim",), document | {"claims": []}
    yield (
        ("inseparable",),
        document | {"claims": [*document["claims"], {"claim": "inseparable", "sample": 0}]},
    )


@pytest.fixture(scope="module")
def certificates(cells):
    made = whole_certificates(cells)
    for document in made:
        report = check.check(document)
        assert report.accepted, str(report)
    return made


def test_a_thousand_mutated_certificates_are_refused(certificates):
    refused, kinds = 0, set()
    for seed, document in enumerate(certificates):
        for path, mutant in mutants(document, np.random.default_rng(seed)):
            report = check.check(mutant)
            assert not report.accepted, (seed, path)
            assert report.malformed or any(not each.holds and each.sentence for each in report.verdicts)
            refused += 1
            kinds.add(tuple(each for each in path if isinstance(each, str)))
    assert refused >= 1000
    assert len(kinds) >= 40


def test_changes_that_leave_it_true_are_accepted(certificates):
    for document in certificates:
        groups = document["point"]["groups"]
        same = deepcopy(document)
        same["problem"]["data"]["name"] = "another name"
        same["followed"] = {"whatever": [1, {"you": "like"}]}
        same["estimated"] = {}
        if not document["point"]["kinks"]:
            order = list(reversed(range(len(groups))))
            same["point"]["groups"] = [groups[g] for g in order]
            if "amplitudes" in same["point"]:
                same["point"]["amplitudes"] = [same["point"]["amplitudes"][g] for g in order]
            for claim in same["claims"]:
                if claim["claim"] == "stable rank":
                    claim["vector"] = [claim["vector"][g] for g in order]
                if "groups" in claim:
                    claim["groups"] = [len(groups) - 1 - g for g in claim["groups"]]
        for claim in same["claims"]:
            if claim["claim"] == "stays":
                claim["radius"] = (float.fromhex(claim["radius"]) / 2).hex()
            if claim["claim"] == "stable rank":
                claim["lower"], claim["upper"] = (0.6).hex(), (float.fromhex(claim["upper"]) + 1).hex()
        report = check.check(same)
        assert report.accepted, str(report)


def test_whatever_is_put_anywhere_there_is_a_sentence_and_no_traceback(certificates):
    """Every leaf and every branch, replaced by things of all types."""
    odd = [None, True, -1, 1e308, "", "0x", "nan", [], [[]], [None], {}, {"": 0}, "😀", 10**400]
    document = certificates[0]
    paths = {path[:k] for path in leaves(document) for k in range(1, len(path) + 1)}
    rng = np.random.default_rng(0)
    chosen = sorted(paths, key=str)
    for n in rng.choice(len(chosen), size=min(len(chosen), 250), replace=False):
        path = chosen[n]
        if path[0] in ("followed", "estimated"):
            continue
        copy = deepcopy(document)
        at(copy, path[:-1])[path[-1]] = odd[n % len(odd)]
        report = check.check(copy)
        assert isinstance(str(report), str)
        assert not report.accepted or path[-1] in ("name", "id", "sentence") or "start" in path
    for thing in odd:
        assert not check.check(thing).accepted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        '{"format": 1, "format": 2}',
        '{"x": NaN}',
        '{"x": -Infinity}',
        "1" * 10_000,
        "\x00",
    ],
)
def test_text_that_is_not_plain_json_is_told(text):
    try:
        report = check.check(check.parse(text))
    except check.Malformed as error:
        report = check.Report(malformed=str(error))
    assert report.malformed.endswith(".")
