"""Flows that come to rest: minima that SciPy finds, closed forms, a forgery for each obligation."""

import hashlib
import json
from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rankfall.certificates import Certificate, Missing, Problem, check, rest

LOSSES = ("exponential", "logistic", "square")


def document_of(problem, claim):
    return json.loads(json.dumps(Certificate.of(problem, None, [claim]).document))


def number(claim, key):
    return float.fromhex(claim[key])


def accepted(document):
    report = check.check(document)
    assert report.accepted, str(report)
    return report


# --- what is accepted is true -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("slope", [0.0, 0.1, 1.0])
def test_a_minimum_that_scipy_finds_is_proved_and_its_loss_is_in_the_interval(cells, loss, slope):
    found, made = cells.rested(0, loss=loss, slope=slope, kinks=slope < 1)
    accepted(document_of(found.problem, made.claim))
    lower, upper = number(made.claim, "lower"), number(made.claim, "upper")
    assert lower <= found.loss * (1 + 1e-12)
    assert upper >= found.loss * (1 - 1e-12)
    assert upper - lower < 1e-9 * upper
    if loss != "square":
        z = found.weights @ found.problem.inputs.T
        f = found.problem.second @ np.where(z > 0, z, slope * z)
        assert made.claim["wrong"] == (found.problem.y * f < -1e-9).sum()


@pytest.mark.parametrize("settings", [{"bias": True}, {"m": 3, "n": 24}, {"d": 1}, {"slope": 0.5, "m": 1}])
def test_so_it_is_with_biases_and_other_sizes(cells, settings):
    found, made = cells.rested(50, **settings)
    accepted(document_of(found.problem, made.claim))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_flow_from_anywhere_within_the_radius_ends_with_that_loss(cells, loss):
    """By SciPy's integrator with kinks rounded off a little, from the sphere of that radius."""
    found, made = cells.rested(0, loss=loss, kinks=1)
    problem, shape, width = found.problem, found.weights.shape, 1e-5
    x, y, a, alpha = problem.inputs, problem.y, problem.second, problem.slope

    def flow(_, v):
        z = v.reshape(shape) @ x.T
        size = np.sqrt(z**2 + width**2)
        slopes = alpha + (1 - alpha) * (1 + z / size) / 2
        pulls = cells.losses(loss, y, a @ (alpha * z + (1 - alpha) * (z + size) / 2))[1]
        return ((a[:, None] * slopes * pulls) @ x).ravel()

    rng = np.random.default_rng(0)
    for _ in range(3):
        away = rng.normal(size=shape)
        start = made.start + 0.999 * made.radius * away / np.linalg.norm(away)
        end = solve_ivp(flow, (0, 300), start.ravel(), method="LSODA", rtol=1e-8, atol=1e-10).y[:, -1]
        z = end.reshape(shape) @ x.T
        reached = cells.losses(loss, y, a @ np.where(z > 0, z, alpha * z))[0].sum()
        assert reached == pytest.approx(number(made.claim, "upper"), rel=1e-4)
        friendly = a[:, None] * (y if found.signs is None else found.signs) > 0
        assert (found.side * z > 0)[friendly].all()


@pytest.mark.parametrize(
    ("loss", "labels", "weight", "value", "radius"),
    [
        ("exponential", [1, 1, -1], np.log(2) / 2, 2 * np.sqrt(2), np.log(2) / 2),
        ("logistic", [1, 1, -1], np.log(2), 3 * np.log(3) - 2 * np.log(2), np.log(2)),
        ("square", [1, 2, 6], 3.0, 7.0, 1.0),
    ],
)
@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_one_neuron_and_one_input_with_contradicting_labels(loss, labels, weight, value, radius, slope):
    """2 e^-w + e^w, 2 log(1 + e^-w) + log(1 + e^w), a mean; the radius is up to the kink, or residual 0."""
    labels = np.array(labels, dtype=float)
    problem = Problem(np.ones((3, 1)), labels, slope, np.array([1.0]), loss=loss)
    signs = np.sign(labels - 3) if loss == "square" else None
    made = rest(problem, np.array([[weight]]), np.ones((1, 3)), np.ones((1, 3)), signs)
    report = accepted(document_of(problem, made.claim))
    assert number(made.claim, "lower") <= value * (1 + 1e-15)
    assert number(made.claim, "upper") >= value * (1 - 1e-15)
    assert made.radius == pytest.approx(radius)
    assert ("1 of 3 samples are misclassified" in report.verdicts[0].sentence) == (loss != "square")


def test_a_neuron_that_is_dead_is_left_where_it_is():
    """Slope 0: two neurons with one sample on their wrong side and all others too."""
    problem = Problem(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]), 0.0, np.array([1.0, -1.0, 1.0, 0.0]))
    start = np.array([[np.log(2) / 2], [-0.5], [-0.25], [7.0]])
    side = np.repeat([[1], [-1], [-1], [1]], 3, axis=1)
    made = rest(problem, start, side, np.ones((4, 3)))
    accepted(document_of(problem, made.claim))
    assert made.radius == pytest.approx(0.25)
    start[1] = 1e-3  # a dead neuron with a_j < 0 on the other side of its unfriendly samples: that is none
    assert isinstance(rest(problem, start, side, np.ones((4, 3))), Missing)


def test_neurons_with_equal_slopes_count_as_one():
    problem = Problem(np.ones((3, 1)), np.array([1.0, 1.0, -1.0]), 0.5, np.array([1.0, 0.5, 2.0]))
    start = np.array([[0.1], [0.2], [(np.log(2) / 2 - 0.2) / 2]])
    made = rest(problem, start, np.ones((3, 3)), np.ones((3, 3)))
    document = document_of(problem, made.claim)
    accepted(document)
    assert [group["neurons"] for group in made.claim["groups"]] == [[0, 1, 2]]
    groups = [{**made.claim["groups"][0], "neurons": [j]} for j in range(3)]
    document["claims"][0]["groups"] = groups  # they are dependent then
    refused(document, "convex enough")


def test_columns_that_depend_on_others_are_left_out():
    """A column of zeros, one twice, and the sum of two: the same minimum in fewer features."""
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, size=(20, 2)).astype(float)
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    x, a = np.column_stack([x, np.zeros(20), x[:, 0], x.sum(axis=1)]), np.array([1.0])
    problem = Problem(x, y, 1.0, a)
    w = np.zeros(5)
    for _ in range(50):
        pulls = np.exp(-y * (x @ w))
        w += np.linalg.lstsq((x * pulls[:, None]).T @ x, x.T @ (y * pulls), rcond=1e-10)[0]
    made = rest(problem, w[None], np.ones((1, 20)), np.ones((1, 20)))
    document = document_of(problem, made.claim)
    accepted(document)
    features = made.claim["features"]
    assert len(features) == 2
    document["claims"][0]["features"] = features[:1]
    refused(document, "features are not enough")
    document["claims"][0]["features"] = [0, 1, 3]
    refused(document, "convex enough")


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_samples_that_are_fitted(slope):
    """More features than samples: the loss goes to zero, for targets of any size."""
    rng = np.random.default_rng(0)
    x, start, a = rng.normal(size=(4, 9)), rng.normal(size=(3, 9)), np.array([1.0, -0.5, 2.0])
    z = start @ x.T
    side, P = np.sign(z).astype(int), np.where(z > 0, 1.0, slope)
    problem = Problem(x, a @ (P * z), slope, a, loss="square")
    start += 1e-10 * rng.normal(size=start.shape)
    made = rest(problem, start, side, P, np.zeros(4))
    document = document_of(problem, made.claim)
    accepted(document)
    assert made.claim["features"] == []
    lengths = np.linalg.norm(x, axis=1)
    assert made.radius == pytest.approx((np.abs(z) / lengths).min(), rel=1e-6)
    for key, value, word in (
        ("lower", 1e-9, "the loss is 0"),
        ("upper", -1e-9, "the loss is 0"),
        ("tau", 1e3, "not shown to be fitted"),
        ("radius", made.radius * 1.001, "is not shown to stay"),
    ):
        changed = deepcopy(document)
        changed["claims"][0][key] = float(value).hex()
        refused(changed, word)


# --- what is false is refused -------------------------------------------------------------------------------


def refused(document, word):
    report = check.check(document)
    assert not report.accepted
    told = report.malformed or report.verdicts[0].sentence
    assert word in told, told


@pytest.fixture(scope="module")
def kinked(cells):
    found, made = cells.rested(0, kinks=2, slope=0.1)
    return found, document_of(found.problem, made.claim)


def with_claim(document, **changes):
    copy = deepcopy(document)
    copy["claims"][0] |= {key: float(v).hex() if isinstance(v, float) else v for key, v in changes.items()}
    return copy


def test_each_obligation_is_asked_for(kinked):
    """One forged certificate for each: everything else holds."""
    _, document = kinked
    claim = document["claims"][0]
    lower, upper, radius = (number(claim, key) for key in ("lower", "upper", "radius"))
    for changes, word in (
        ({"radius": radius * 1.001}, "is not shown to stay"),
        ({"radius": 0.0}, "must be positive"),
        ({"lower": upper * (1 + 1e-9)}, "below its lower bound"),
        ({"upper": lower * (1 - 1e-9)}, "above its upper bound"),
        ({"wrong": claim["wrong"] + 1}, "samples are shown to be misclassified"),
        ({"wrong": claim["wrong"] - 1}, "samples are shown to be misclassified"),
        ({"tau": 5 * number(claim, "tau")}, "convex enough"),
        ({"tau": number(claim, "tau") / 1e6}, "gradient is too large"),
        ({"delta": number(claim, "delta") / 100}, "gradient is too large"),
        ({"independent": 9.0}, "not independent"),
        ({"features": [0]}, "not enough"),
        ({"groups": claim["groups"][:1]}, "do not hold the neurons"),
        ({"groups": [*claim["groups"], claim["groups"][0]]}, "in two groups"),
    ):
        refused(with_claim(document, **changes), word)
    moved = [[*row] for row in claim["start"]]
    moved[0][0] = (float.fromhex(moved[0][0]) + 1e-6).hex()
    refused(with_claim(document, start=moved), "gradient")


def test_slopes_and_sides_are_asked_for(kinked):
    found, document = kinked
    groups = document["claims"][0]["groups"]
    g = next(k for k, group in enumerate(groups) if group["slopes"])
    i = groups[g]["pattern"].index("0")
    for slope, word in ((1.5, "out of bounds"), (0.05, "out of bounds")):
        copy = deepcopy(document)
        copy["claims"][0]["groups"][g]["slopes"][0] = float(slope).hex()
        refused(copy, word)
    near = float.fromhex(groups[g]["slopes"][0])
    copy = deepcopy(document)
    copy["claims"][0]["groups"][g]["slopes"][0] = (near * (1 + 1e-6)).hex()
    refused(copy, "gradient")
    for side in "+-":  # at its kink it is on neither side
        copy = deepcopy(document)
        pattern = groups[g]["pattern"]
        copy["claims"][0]["groups"][g]["pattern"] = pattern[:i] + side + pattern[i + 1 :]
        copy["claims"][0]["groups"][g]["slopes"] = groups[g]["slopes"][1:]
        refused(copy, "")
    j, friendly = groups[g]["neurons"][0], found.problem.second[groups[g]["neurons"][0]] * found.problem.y > 0
    k = int(np.flatnonzero(friendly)[0])
    assert found.side[j, k] != 0
    copy = deepcopy(document)
    pattern = groups[g]["pattern"]
    copy["claims"][0]["groups"][g]["pattern"] = pattern[:k] + "0" + pattern[k + 1 :]
    place = pattern[:k].count("0")
    slopes = [*groups[g]["slopes"][:place], (1.0).hex(), *groups[g]["slopes"][place:]]
    copy["claims"][0]["groups"][g]["slopes"] = slopes
    refused(copy, "friendly sample")


def test_residuals_must_keep_their_signs(cells):
    """Square loss: a sign that is wrong, a radius in which one may change, and 0 at a kink."""
    found, made = cells.rested(0, loss="square", kinks=1)
    document = document_of(found.problem, made.claim)
    signs = made.claim["signs"]
    for i in range(len(signs)):
        other = {"+": "-", "-": "+"}[signs[i]]
        refused(with_claim(document, signs=signs[:i] + other + signs[i + 1 :]), "")
    linear, made = cells.rested(0, loss="square", slope=1.0)
    document = document_of(linear.problem, made.claim)
    refused(with_claim(document, radius=made.radius * 1.001), "residual")
    i = int(np.flatnonzero((found.side == 0).any(axis=0))[0])
    document = document_of(found.problem, cells.rested(0, loss="square", kinks=1)[1].claim)
    refused(with_claim(document, signs=signs[:i] + "0" + signs[i + 1 :]), "friendly")


def test_the_claim_stands_alone_and_the_square_loss_has_no_other(kinked):
    _, document = kinked
    claim = document["claims"][0]
    for claims in ([claim, claim], [{"claim": "inseparable", "sample": 0}, claim], [{"claim": "kkt"}, claim]):
        refused(document | {"claims": claims}, "")
    problem = document["problem"] | {"loss": "square"}
    refused(document | {"problem": problem}, "'signs' or 'wrong'")
    refused(document | {"problem": problem, "claims": [{"claim": "inseparable", "sample": 0}]}, "square loss")
    both = document["problem"] | {"trained": "both layers", "second_layer": None}
    refused(document | {"problem": both}, "fixed second layer")


def test_a_state_that_is_no_minimum_is_not_proposed(cells):
    found, _ = cells.rested(0, kinks=1)
    moved = found.weights + 0.1
    made = rest(found.problem, moved, found.side, found.slopes)
    assert isinstance(made, Missing)
    assert made.why
    separable = Problem(np.eye(2), np.array([1.0, -1.0]), 0.1, np.array([1.0, -1.0]))
    made = rest(separable, np.array([[5.0, -1], [-1, 5.0]]), np.array([[1, -1], [-1, 1]]), np.ones((2, 2)))
    assert isinstance(made, Missing)


# --- everything that is changed is refused ----------------------------------------------------------------

SLACK = {"name", "start", "delta", "tau", "independent", "stiffness"}  # a little more or less leaves it true
OTHERS = (None, True, -1, 1.5, "", "0x", "nan", [], {}, 10**30)


def leaves(value, path=()):
    """The paths to all that is neither a list nor an object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from leaves(each, (*path, key))
    if not isinstance(value, dict | list):
        yield path


def nearby(value, key):
    """Values next to one that make the claim false."""
    if key in SLACK or value in ("rankfall certificate", "features", "exponential", "first layer"):
        return [] if key in SLACK else [f"{value}s"]
    if key in ("radius", "lower"):
        return [(float.fromhex(value) * 1.001).hex()]
    if key == "upper":
        return [(float.fromhex(value) * 0.999).hex()]
    if key == "pattern":
        other = {"+": "-", "-": "+", "0": "+"}
        return [*(value[:i] + other[side] + value[i + 1 :] for i, side in enumerate(value)), value + "+"]
    if key == "sha256":
        return [value[::-1]]
    if key == "claim":
        return ["kkt", "inseparable"]
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    return [(float.fromhex(value) + 0.25).hex(), (-float.fromhex(value) - 0.25).hex()]


def test_whatever_is_changed_is_refused(kinked):
    """Every number, sign and word of the document; the data resealed, as a careful forger would."""
    _, document = kinked
    count = 0
    for path in leaves(document):
        inner, key = document, next(each for each in reversed(path) if isinstance(each, str))
        for step in path[:-1]:
            inner = inner[step]
        value = inner[path[-1]]
        for other in (*nearby(value, key), *OTHERS):
            if (type(other), other) == (type(value), value) or (key == "name" and isinstance(other, str)):
                continue
            copy = deepcopy(document)
            place = copy
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = other
            if key in ("x", "y"):
                copy = resealed(copy)
            report = check.check(copy)
            assert not report.accepted, (path, other, str(report))
            count += 1
    assert count > 1000


def resealed(document):
    """The same with the sha256 of the data that it holds."""
    data = document["problem"]["data"]
    try:
        x = [[float.fromhex(v) for v in row] for row in data["x"]]
        y = [float.fromhex(v) for v in data["y"]]
        data["sha256"] = hashlib.sha256(check.canonical(x, y)).hexdigest()
    except (ValueError, TypeError):
        pass
    return document


# --- the arithmetic -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [-50.0, -3.7, -1e-9, 0.0, 1e-30, 0.3, 2.0, 40.0, 500.0])
def test_the_logistic_loss_is_enclosed(q):
    """The exponential of it is 1 + e^-q."""
    units = int(Fraction(q) * check.UNIT)
    low, high = check.log_loss(units)
    assert low <= high < low + 2**40
    below, above = check.exp(Fraction(low, check.UNIT))[1], check.exp(Fraction(high, check.UNIT))[0]
    e = check.exp(-Fraction(units, check.UNIT))
    slack = 2**60 * max(below // check.UNIT, 1)
    assert below <= check.UNIT + e[1] + slack
    assert above >= check.UNIT + e[0] - slack


def test_numbers_that_are_packed_come_out_again():
    values = [0, 1, -1, 2**60, -(2**60), 12345, -7]
    slot = 72
    assert check.unpack(check.pack(values, slot), slot, len(values)) == values
    together = 3 * check.pack(values, slot) - 5 * check.pack(values[::-1], slot)
    assert check.unpack(together, slot, 7) == [
        3 * v - 5 * u for v, u in zip(values, values[::-1], strict=True)
    ]
