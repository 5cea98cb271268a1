"""The two checkers, in Python and in JavaScript, which share no code, agree on every document."""

import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import rankfall as rf
from rankfall.certificates import (
    Certificate,
    Point,
    Problem,
    check,
    inseparable,
    optimal,
    propose,
    propose_both,
    rank,
    refutes,
    rest,
    stable_rank,
    stays,
)
from rankfall.data import Data

SCRIPT = Path(check.__file__).with_name("check.js")
# A process for all documents: it reads a line with a text (and data) for each, and answers with a line.
RUNNER = """
const { checkText } = require(process.argv[1]);
for (const line of require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean)) {
  const { text, data } = JSON.parse(line);
  const { accepted, malformed, claims } = checkText(text, data);
  console.log(JSON.stringify({ accepted, malformed, claims }));
}
"""


@pytest.fixture(scope="session")
def node():
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        pytest.skip("there is no Node.js: the program node was not found")
    return found


@pytest.fixture(scope="session")
def in_javascript(node):
    """The reports of check.js on texts, each with the reader's data or None."""

    def run(cases):
        lines = "".join(json.dumps({"text": text, "data": data}) + "\n" for text, data in cases)
        ran = subprocess.run([node, "-e", RUNNER, str(SCRIPT)], input=lines, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


def in_python(text, data):
    try:
        document = check.parse(text)
    except check.Malformed as error:
        return check.Report(malformed=str(error))
    return check.check(document, None if data is None else (data["x"], data["y"]))


def agreement(in_javascript, cases):
    """Both reports on every case (name, text, data): the same is accepted, and for the same claims."""
    cases = list(cases)
    found = in_javascript([(text, data) for _, text, data in cases])
    counts = Counter()
    for (name, text, data), theirs in zip(cases, found, strict=True):
        ours = in_python(text, data)
        told = f"{name}\n{ours}\n{theirs}"
        assert ours.accepted == theirs["accepted"], told
        if not ours.malformed and not theirs["malformed"]:
            holds = [(each["claim"], each["holds"]) for each in theirs["claims"]]
            assert [(each.claim, each.holds) for each in ours.verdicts] == holds, told
        refused = bool(ours.malformed or theirs["malformed"])
        counts["accepted" if ours.accepted else "malformed" if refused else "refused"] += 1
    return counts


# --- certificates of limits -------------------------------------------------------------------------------


def _limits():
    """Limits of all kinds: (name, network, data, loss)."""
    wide = rf.data.gaussian_mixture(n=10, dim=784, seed=1)
    for slope in (0.0, 0.01, 0.1, 0.5):
        yield f"slope {slope}", (784, 10, 1), {"slope": slope}, wide, "exponential"
    yield "biases", (784, 10, 1), {"slope": 0.0, "bias": True}, wide, "exponential"
    small = rf.data.gaussian_mixture(n=6, dim=40, seed=2)
    yield "logistic", (40, 8, 1), {"slope": 0.1}, small, "logistic"
    yield "linear", (40, 4, 1), {"slope": 1.0}, small, "exponential"
    twice = Data(np.repeat(small.x, 2, axis=0), np.repeat(small.y, 2), "twice")
    yield "duplicates", (40, 8, 1), {"slope": 0.1}, twice, "exponential"
    rng = np.random.default_rng(3)
    whole = Data(
        rng.integers(-3, 4, size=(6, 9)).astype(float), np.where(np.arange(6) % 2, 1.0, -1.0), "integers"
    )
    yield "integers", (9, 6, 1), {"slope": 0.5}, whole, "logistic"
    few = Data(
        rng.normal(size=(9, 4)) + np.where(np.arange(9) % 2, 2.0, -2.0)[:, None],
        np.where(np.arange(9) % 2, 1.0, -1.0),
        "more samples than features",
    )
    yield "features", (4, 6, 1), {"slope": 0.1, "bias": True}, few, "exponential"


def _limits_of_both_layers():
    data = rf.data.gaussian_mixture(n=6, dim=20, seed=0)
    for slope in (0.0, 0.1, 1.0):
        network = rf.Network.balanced((20, 8, 1), slope, 1e-3, 0)
        yield f"both layers, slope {slope}", rf.limit(network, data, "exponential", show=False)


@pytest.fixture(scope="session")
def limits():
    found = {}
    for name, widths, settings, data, loss in _limits():
        network = rf.Network.fixed_second_layer(widths, sigma=1e-3, seed=1, **settings)
        end = rf.limit(network, data, loss, show=False)
        assert end.document is not None, (name, str(end.verdict), end.missing)
        found[name] = json.loads(json.dumps(end.document))
    for name, end in _limits_of_both_layers():
        assert end.document is not None, (name, str(end.verdict), end.missing)
        found[name] = json.loads(json.dumps(end.document))
    return found


def test_the_checkers_agree_on_the_certificates_of_limits(in_javascript, limits):
    counts = agreement(in_javascript, ((name, json.dumps(each), None) for name, each in limits.items()))
    print(f"\nlimits: {dict(counts)}")
    assert counts == {"accepted": len(limits)}
    claimed = {claim["claim"] for each in limits.values() for claim in each["claims"]}
    assert {"kkt", "stays"} <= claimed


def test_the_checkers_agree_on_certificates_of_limits_with_one_digit_changed(in_javascript, limits):
    rng = np.random.default_rng(0)
    cases = [case for name, each in limits.items() for case in digits_changed(name, each, 6, rng)]
    counts = agreement(in_javascript, cases)
    print(f"\nlimits with a digit changed: {dict(counts)}")
    assert counts["refused"] + counts["malformed"] > 0.7 * counts.total()  # tiny changes may leave it true


def test_the_checkers_agree_on_a_readers_own_data(in_javascript, limits):
    document = limits["logistic"]
    x, y = (document["problem"]["data"][key] for key in "xy")
    x, y = [[float.fromhex(v) for v in row] for row in x], [float.fromhex(v) for v in y]
    other = deepcopy(x)
    other[2][3] = float(np.nextafter(other[2][3], 9.0))
    without = deepcopy(document)
    for key in "xy":
        del without["problem"]["data"][key]
    texts = [json.dumps(document), json.dumps(without)]
    mine = [
        None,
        {"x": x, "y": y},
        {"x": other, "y": y},
        {"x": x, "y": y[::-1]},
        {"x": x[1:], "y": y[1:]},
        {"x": [row[1:] for row in x], "y": y},
    ]
    counts = agreement(in_javascript, ((f"{data}"[:80], text, data) for text in texts for data in mine))
    assert counts["accepted"] == 3


# --- small certificates with every claim, mutated -----------------------------------------------------------


def _both(slope):
    """Both layers trained, on nearly orthogonal samples: a zero of the equations, by Newton's method."""
    lengths, y = np.array([1.0, 2.0, 0.7, 1.3, 1.1]), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    problem = Problem(np.diag(lengths) + (0.01 if slope else -0.01), y, slope, None, width=3)
    p = np.array([np.where(s * y > 0, 1.0, slope) for s in (1, -1)])
    n = len(y)

    def equations(u):
        v = (p * u[:n] * y) @ problem.x
        return np.append(y * (u[n:] @ (p * (v @ problem.x.T))) - 1, (v**2).sum(axis=1) - 1)

    u = np.append(1 / np.diag(problem.gram), [1.5, 1.0])
    for _ in range(50):
        columns = [(equations(u + e) - equations(u - e)) / 2e-5 for e in 1e-5 * np.eye(len(u))]
        u = u - np.linalg.solve(np.array(columns).T, equations(u))
    second = np.sqrt([u[n] / 2, u[n + 1], u[n] / 2]) * [1, -1, 1]
    side = np.where(second[:, None] * y > 0, 1, -1)
    point = propose_both(problem, side, second, u[:n])
    assert isinstance(point, Point), point
    return problem, point


def small_certificates(cells):
    """Every claim: points with kinks, with biases, enclosures, both layers, inseparable data, and rest."""
    made = {}
    for seed, slope, large, settings in (
        (0, 0.0, 300, {}),
        (100, 0.1, 300, {"bias": True}),
        (200, 0.5, 300, {"loss": "logistic"}),
        (300, 0.0, 0, {}),
        (400, 0.1, 0, {"bias": True, "loss": "logistic"}),
        (500, 1.0, 300, {}),
    ):
        found = cells.solved(seed, slope=slope, d=7, **settings)
        problem, point = found.problem, found.propose(large=large)
        ball = stays(problem, point, cells.line_start(problem, point, 3000.0), "features")
        claims = [ball.claim, rank(problem, point), stable_rank(problem, point), optimal(problem, point)]
        false = refutes("paper/claim", "the stable rank is at most 1/2", "stable rank", "<=", 0.5)
        made[f"cell {seed}"] = Certificate.of(
            problem, point, [*filter(bool, claims), false], followed={"distance": 0.1}
        )
    for slope in (0.0, 0.1):
        problem, point = _both(slope)
        claims = [rank(problem, point), stable_rank(problem, point)]
        made[f"both {slope}"] = Certificate.of(problem, point, claims)
    x, y = np.array([[1.0, 2], [2, 4], [-1, 1], [0, 0.5]]), np.array([1.0, -1, 1, -1])
    nothing = np.vstack([np.zeros(2), x[1:]])
    triangle = np.array([[1.0, 0], [-1, 1], [-1, -1], [3, 3]])
    for name, samples, labels, slope in (
        ("ray", x, y, 0.1),
        ("zero", nothing, y, 0.1),
        ("combination", triangle, np.array([1.0, 1, 1, 1]), 1.0),
    ):
        problem = Problem(samples, labels, slope, np.array([1.0, -1.0]))
        claim = inseparable(problem)
        assert claim, claim
        made[name] = Certificate.of(problem, None, [claim])
    for loss in ("exponential", "logistic", "square"):
        for slope, settings in ((0.0, {}), (0.1, {"bias": True, "n": 20}), (0.1, {"m": 3}), (1.0, {})):
            found, minimum = cells.rested(0, loss=loss, slope=slope, kinks=slope < 1, **settings)
            made[f"rest {loss} {slope} {len(made)}"] = Certificate.of(found.problem, None, [minimum.claim])
    made["rest, fitted"] = fitted(0.1)
    return {name: json.loads(json.dumps(each.document)) for name, each in made.items()}


def fitted(slope):
    """Samples that the square loss fits: the state is next to a network whose outputs are the targets."""
    rng = np.random.default_rng(0)
    x, start, a = rng.normal(size=(4, 9)), rng.normal(size=(3, 9)), np.array([1.0, -0.5, 2.0])
    z = start @ x.T
    slopes = np.where(z > 0, 1.0, slope)
    problem = Problem(x, a @ (slopes * z), slope, a, loss="square")
    start += 1e-10 * rng.normal(size=start.shape)
    coefficients = start @ np.linalg.pinv(x)
    minimum = rest(problem, coefficients, np.sign(z).astype(int), slopes, np.zeros(4), "samples")
    return Certificate.of(problem, None, [minimum.claim])


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


def places(value, path=()):
    """The paths to everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def replacements(value, rng):
    """Other values for what stands at a place: some of them true as well, some false, some of no kind."""
    odd = [None, True, False, 1, 1.0, -1, 10**9, 10**30, 0.5, [], {}, [[]]]
    odd += ["", "0x1", "+", "NaN", "-0x0", "0x01"]
    picked = [odd[i] for i in rng.choice(len(odd), size=3, replace=False)]
    if isinstance(value, bool) or value is None:
        return [not value, *picked]
    if isinstance(value, int):
        return [value + 1, value - 1, *picked]
    if isinstance(value, str) and re.fullmatch(r"-?0x[0-9a-f]+", value):
        number = int(value, 16)
        near = [number ^ 1 << int(rng.integers(0, 9)), -number, 2 * number, number + 1, number // 2]
        return [*(hex(each) for each in near), value.upper(), value + "0", *picked]
    if isinstance(value, str) and re.fullmatch(r"-?0x[01]\.[0-9a-f]+p[+-]\d+", value):
        number = float.fromhex(value)
        near = [np.nextafter(number, 9.0), -number, 2 * number, number / 2, number + 0.25, 0.0, 5e-324, 1e308]
        near += [number * (1 + 1e-9), number * (1 - 1e-9), number * 1.001, number * 0.999]
        more = ["0x1.8p0", "0x1p99999", "0x0.0p-0", "-0x0.0p+0", "0x1.0000000000000p+1024"]
        return [*(float(each).hex() for each in near), *more, *picked]
    if isinstance(value, str) and value and {*value} <= {*"+-0"}:
        i = int(rng.integers(len(value)))
        return [*(value[:i] + side + value[i + 1 :] for side in "+-0x"), value[1:], value + "+", value[::-1]]
    if isinstance(value, str):
        return [value + "x", *picked]
    if isinstance(value, list) and value:
        i = int(rng.integers(len(value)))
        return [value[1:], value[:-1], value[::-1], [*value, value[i]], value[:i] + value[i + 1 :], picked[0]]
    if isinstance(value, dict) and value:
        key = list(value)[int(rng.integers(len(value)))]
        return [{k: v for k, v in value.items() if k != key}, value | {f"{key}s": value[key]}, picked[0]]
    return picked


def mutants(name, document, rng, most=2):
    """Every place of the document, but `most` of one kind; and changes of more than one place."""
    numbers = Counter()
    everything = list(places(document))
    for n in rng.permutation(len(everything)):
        path = everything[n]
        kind = tuple(each for each in path if isinstance(each, str))
        numbers[kind] += 1
        if numbers[kind] > most or path[0] in ("followed", "estimated"):
            continue
        for value in replacements(_at(document, path), rng):
            if repr(value) == repr(_at(document, path)):
                continue
            copy = deepcopy(document)
            _at(copy, path[:-1])[path[-1]] = value
            about_data = "x" in path or "y" in path
            yield f"{name} {path}", json.dumps(resealed(copy) if about_data else copy), None
    yield from whole_mutants(name, document)
    yield from text_mutants(name, json.dumps(document))


def whole_mutants(name, document):
    data = document["problem"]["data"]
    for key, changed in (
        ("y", [data["y"][-1], *data["y"][1:-1], data["y"][0]]),
        ("x", [data["x"][1], data["x"][0], *data["x"][2:]]),
        ("x", [[(2 * float.fromhex(v)).hex() for v in row] for row in data["x"]]),
        ("x", [[(float.fromhex(v) / 2**900).hex() for v in row] for row in data["x"]]),
        ("x", [row[::-1] for row in data["x"]]),
        ("x", [[*row, (0.0).hex()] for row in data["x"]]),
        ("x", [[v.replace("0x0.0p+0", "-0x0.0p+0") for v in row] for row in data["x"]]),
    ):
        copy = deepcopy(document)
        copy["problem"]["data"][key] = changed
        copy["problem"]["data"]["features"] = len(copy["problem"]["data"]["x"][0])
        yield f"{name}, other {key}", json.dumps(resealed(copy)), None
    if document["point"] is None:
        return
    for factor in (2, 3, 2**61 - 1, -1):  # lam, mu and c are the same, but for the sign
        copy = deepcopy(document)
        for key in ("multipliers", "kinks", "amplitudes"):
            if key in copy["point"]:
                copy["point"][key] = [hex(factor * int(v, 16)) for v in copy["point"][key]]
        copy["point"]["denominator"] = hex(factor * int(copy["point"]["denominator"], 16))
        yield f"{name}, all numbers times {factor}", json.dumps(copy), None
    claims = document["claims"]
    for relation in ("<=", "<", "=", ">=", ">"):
        for bound in (0.5, 1.0, 2.0, 3.0, 1e3):
            for quantity in ("rank", "stable rank"):
                more = refutes("a/b", "-", quantity, relation, bound)
                text = json.dumps(document | {"claims": [*claims, more]})
                yield f"{name} {quantity} {relation} {bound}", text, None
    for k in range(len(claims)):
        yield f"{name}, claims from {k}", json.dumps(document | {"claims": claims[k:]}), None
        yield f"{name}, claim {k} twice", json.dumps(document | {"claims": [*claims, claims[k]]}), None


def text_mutants(name, text):
    """Changes of the text that a reader of JSON may overlook."""
    yield f"{name}, a key twice", text.replace('"version": 1', '"version": 1, "version": 1'), None
    yield f"{name}, an escaped key twice", text.replace('"version"', '"version": 1, "versio\\u006e"'), None
    yield f"{name}, version 1.0", text.replace('"version": 1', '"version": 1.0'), None
    yield f"{name}, version 1e0", text.replace('"version": 1', '"version": 1e0'), None
    yield f"{name}, width with a sign", re.sub(r'"width": ', '"width": +', text), None
    yield f"{name}, width with a zero", re.sub(r'"width": ', '"width": 0', text), None
    yield f"{name}, minus zero", text.replace("[0,", "[-0,").replace('"sample": 0', '"sample": -0'), None
    yield f"{name}, proto", text.replace('"version": 1', '"version": 1, "__proto__": {}'), None
    yield f"{name}, told", text[:-1] + ', "estimated": {"__proto__": [1e999, -0.0, "\\ud800", null]}}', None
    numbers, texts = ("NaN", "Infinity", "-Infinity", "01", "1.", ".5"), ("'a'", '"\t"', '"\\x"')
    for more in (*numbers, *texts, "1" * 4300, "1" * 4301):
        yield f"{name}, told {more[:9]}", f'{text[:-1]}, "estimated": {{"a": {more}}}}}', None
    yield f"{name}, told a number", f'{text[:-1]}, "estimated": 1}}', None
    yield f"{name}, an order mark", f"\ufeff{text}", None
    yield f"{name}, space", f" \t\r\n{text}\n", None
    yield f"{name}, another space", f"\u00a0{text}", None
    yield f"{name}, more", f"{text}1", None
    yield f"{name}, a comma", f"{text[:-1]},}}", None
    yield f"{name}, cut", text[: len(text) // 2], None


def digits_changed(name, document, count, rng):
    """Texts with one digit changed, where a number of the data, the point or the claims stands."""
    text = json.dumps(document)
    digits = [found.start() for found in re.finditer(r"(?<=[0-9a-f])[0-9a-f](?=[0-9a-f.p\"])", text)]
    for place in rng.choice(digits, size=count):
        other = str(rng.choice([each for each in "0123456789abcdef" if each != text[place]]))
        changed = text[:place] + other + text[place + 1 :]
        with suppress(ValueError):  # it may be no JSON any more
            changed = json.dumps(resealed(json.loads(changed)))
        yield f"{name}, digit {place}", changed, None


def _at(document, path):
    for key in path:
        document = document[key]
    return document


@pytest.fixture(scope="session")
def small(cells):
    return small_certificates(cells)


def test_small_certificates_hold_and_make_every_claim(in_javascript, small):
    counts = agreement(in_javascript, ((name, json.dumps(each), None) for name, each in small.items()))
    assert counts == {"accepted": len(small)}
    assert {claim["claim"] for each in small.values() for claim in each["claims"]} == set(check.CLAIMS)


@pytest.mark.slow
def test_the_checkers_agree_on_thousands_of_mutated_certificates(in_javascript, small):
    rng = np.random.default_rng(0)
    cases = [case for name, each in small.items() for case in mutants(name, each, rng)]
    cases += [case for name, each in small.items() for case in digits_changed(name, each, 20, rng)]
    counts = agreement(in_javascript, cases)
    print(f"\nmutated certificates: {dict(counts)}")
    assert counts["refused"] + counts["malformed"] >= 1000
    assert min(counts.values()) > 100  # some changes leave a certificate true: both accept these


def test_exact_orthogonality_and_leaving_neurons(in_javascript):
    """Pairs that stay by (b) and (c) of the theorem: orthogonal samples, slope 0, a neuron that leaves."""
    x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.3], [0.2, 0.1, 1.0]])
    problem = Problem(x, np.array([1.0, -1.0, -1.0]), 0.0, np.array([1.0, -1.0, 1.0]))
    side = np.array([[1, -1, -1], [-1, 1, 1], [-1, -1, 0]])
    point = propose(problem, side, np.ones(3))
    line, lam = np.linalg.inv(x), point.lam()
    levels = 30 - np.log(lam / lam.sum())
    start = np.array(
        [
            line.T[0] * levels[0] - 0.3 * line.T[1] - 0.3 * line.T[2],
            -0.3 * line.T[0] + line.T[1] * levels[1] + line.T[2] * levels[2],
            -0.4 * line.T[0] - 0.2 * line.T[1] + 1e-17 * line.T[2],
        ]
    )
    ball = stays(problem, point, start, "features")
    assert ball, ball
    document = json.loads(json.dumps(Certificate.of(problem, point, [ball.claim]).document))
    rng = np.random.default_rng(0)
    cases = [("leaving", json.dumps(document), None), *mutants("leaving", document, rng)]
    counts = agreement(in_javascript, cases)
    assert counts["accepted"] > 1


def test_the_program_in_node_says_what_it_proved(node, small, tmp_path):
    file = tmp_path / "certificate.json"

    def run(text):
        file.write_text(text, encoding="utf-8")
        return subprocess.run([node, str(SCRIPT), str(file)], capture_output=True, text=True)

    document = small["cell 0"]
    told = run(json.dumps(document))
    assert (told.returncode, told.stderr) == (0, "")
    assert "proved  kkt: this is a KKT point" in told.stdout
    assert "followed (not proved): " in told.stdout
    wrong = deepcopy(document)
    wrong["point"]["multipliers"].reverse()
    told = run(json.dumps(wrong))
    assert (told.returncode, "REFUSED  kkt" in told.stdout) == (1, True)
    assert run("{").returncode == 2
    file.unlink()
    gone = subprocess.run([node, str(SCRIPT), str(file)], capture_output=True, text=True)
    assert (gone.returncode, "cannot be read" in gone.stdout) == (2, True)
