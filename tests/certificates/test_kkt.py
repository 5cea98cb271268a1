from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from rankfall.certificates import Certificate, Missing, Point, Problem, check, propose

SLOPES = (0.0, 0.01, 0.1, 0.5)


def exactly(problem, point):
    """The KKT conditions from scratch: weights, slopes and margins as fractions, without a Gram matrix."""
    lam = dict(
        zip(point.support.tolist(), (Fraction(v, point.denominator) for v in point.multipliers), strict=True)
    )
    own = dict(zip(point.pairs(), (Fraction(v, point.denominator) for v in point.kinks), strict=True))
    x = [[Fraction(v) for v in row] for row in problem.inputs.tolist()]
    y, a, alpha = (
        problem.y.astype(int).tolist(),
        [Fraction(v) for v in problem.second.tolist()],
        Fraction(problem.slope),
    )
    outputs = [Fraction(0)] * len(y)
    for g, group in enumerate(point.groups):
        for j in group:
            pulls = {}
            for i, value in lam.items():
                side = int(point.patterns[g, i])
                pulls[i] = own[g, i] if side == 0 else value if side == 1 else alpha * value
                assert alpha * value <= pulls[i] <= value
            w = [
                a[j] * sum((y[i] * p * x[i][f] for i, p in pulls.items()), Fraction(0))
                for f in range(len(x[0]))
            ]
            for k in range(len(y)):
                z = sum((u * v for u, v in zip(w, x[k], strict=True)), Fraction(0))
                if alpha < 1:
                    assert int(point.patterns[g, k]) * z >= 0
                    assert point.patterns[g, k] or z == 0
                outputs[k] += a[j] * max(z, alpha * z)
    assert all(value > 0 for value in lam.values())
    margins = [label * output for label, output in zip(y, outputs, strict=True)]
    assert all(margins[k] == 1 if k in lam else margins[k] >= 1 for k in range(len(y)))


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("bias", [False, True])
def test_the_solution_of_a_cell_is_certified_exactly(cells, slope, bias):
    for seed in (0, 100):
        found = cells.solved(seed, slope=slope, bias=bias)
        point = found.propose()
        assert isinstance(point, Point), point
        np.testing.assert_allclose(
            point.weights(found.problem), found.weights, atol=1e-5 * np.abs(found.weights).max()
        )
        assert Certificate.of(found.problem, point).check().accepted
        exactly(found.problem, point)


KINDS = ["integers", "duplicates", "multiples", "opposite", "narrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_dependent_samples_are_no_obstacle(cells, kind):
    """Where multipliers or slopes are not unique some rational ones are found; other cells are refused."""
    accepted = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n, d, m = 4, (2 if kind == "narrow" else 3), 4
        x = rng.integers(-2, 3, size=(n, d)).astype(float) if kind == "integers" else rng.normal(size=(n, d))
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        if kind in ("duplicates", "multiples"):
            x[:2], y[:2] = x[2:] * (1 if kind == "duplicates" else 2), y[2:]
        if kind == "opposite":
            x[:2] = -x[2:]
        a = np.array([1.0, -1.0, 0.5, -0.5])
        problem = Problem(x, y, SLOPES[seed % 4], a, bias=seed % 3 == 0)
        sides = np.where(rng.normal(size=(m, problem.inputs.shape[1])) @ problem.inputs.T > 0, 1, -1)
        found = cells.solve(problem, sides)
        if found is None:
            continue
        point = found.propose()
        assert not (found.inside and isinstance(point, Missing)), (seed, point)
        if isinstance(point, Point):
            accepted += 1
            assert Certificate.of(problem, point).check().accepted
            exactly(problem, point)
            np.testing.assert_allclose(
                point.weights(problem), found.weights, atol=1e-4 * np.abs(found.weights).max()
            )
    assert accepted >= 3


def test_a_linear_network_is_the_hard_margin_machine(cells):
    """Slope 1, against all supports: the one whose multipliers are positive and whose margins are enough."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(6, 4)), np.where(np.arange(6) % 2, 1.0, -1.0)
        x[:, 0] = y * (np.abs(x[:, 0]) + 0.2)
        rows, best = y[:, None] * x, None
        for some in (list(s) for size in range(1, 5) for s in combinations(range(6), size)):
            lam = np.linalg.lstsq(rows[some] @ rows[some].T, np.ones(len(some)), rcond=1e-12)[0]
            if (lam > 0).all() and (rows @ (lam @ rows[some]) >= 1 - 1e-12).all():
                best = lam @ rows[some]
        problem = Problem(x, y, 1.0, np.array([2.0, -1.0, 1.0]))
        point = propose(problem, np.ones((3, 6)), np.ones(6))
        assert isinstance(point, Point)
        np.testing.assert_allclose(problem.second @ point.weights(problem), best, atol=1e-12)
        assert Certificate.of(problem, point).check().accepted


def test_kinks_and_support_vectors_that_floats_got_wrong_are_exchanged(cells):
    for seed in (0, 100, 200):
        found = cells.solved(seed, slope=0.0)
        right, unfriendly = found.propose(), found.problem.second[:, None] * found.problem.y < 0
        wrong = np.where(unfriendly, -found.side, found.side)
        point = replace(found, side=wrong, multipliers=np.ones(5)).propose()
        assert isinstance(point, Point)
        np.testing.assert_allclose(point.weights(found.problem), right.weights(found.problem), atol=1e-12)
        assert Certificate.of(found.problem, point).check().accepted


def test_a_friendly_pair_on_the_wrong_side_is_told(cells):
    """Friendly pairs are never exchanged: of random cells most have their solution elsewhere, and say so."""
    told = 0
    for seed in range(12):
        problem = cells.random_problem(seed)
        sides = np.where(np.random.default_rng(seed).random((4, 5)) < 0.5, 1, -1)
        found = cells.solve(problem, sides)
        if found is not None and not found.inside:
            point = found.propose()
            assert isinstance(point, Missing)
            assert not point
            told += "whose margin it raises" in point.why
    assert told >= 3


@pytest.mark.parametrize("slope", SLOPES)
def test_an_enclosure_holds_the_exact_point(cells, slope):
    found = cells.solved(300, slope=slope, d=12)
    exact, near = found.propose(), found.propose(large=0)
    assert exact.exact
    assert not near.exact
    assert Certificate.of(found.problem, near).check().accepted
    told = check.read(near.document(), check.FORM["point"], "the point")
    errors, _ = check.kkt(found.problem.checked, check.Point(found.problem.checked, told))
    assert errors.mu < Fraction(1, 2**150)
    for side in ("multipliers", "kinks"):
        for u, v in zip(getattr(exact, side), getattr(near, side), strict=True):
            assert abs(Fraction(u, exact.denominator) - Fraction(v, near.denominator)) <= errors.mu


def test_a_wrong_number_in_an_enclosure_is_refused_if_its_ball_does_not_hold_the_point(cells):
    found = cells.solved(300, slope=0.1, d=12)
    near = found.propose(large=0)
    for share in (2, 100, 10**6):
        document = Certificate.of(found.problem, near).document
        value = near.multipliers[0]
        document["point"]["multipliers"][0] = hex(value + value // share)
        report = check.check(document)
        if report.accepted:  # then it is true: the ball is larger, and still all inequalities hold on it
            told = check.read(document["point"], check.FORM["point"], "the point")
            errors, _ = check.kkt(found.problem.checked, check.Point(found.problem.checked, told))
            assert Fraction(value // share, near.denominator) <= errors.mu
        else:
            assert share < 10**6


def test_neurons_without_output_weight_are_in_no_group(cells):
    problem = cells.random_problem(1)
    more = Problem(problem.x, problem.y, problem.slope, np.append(problem.second, 0.0))
    sides = np.ones((4, 5))
    found = cells.solve(problem, sides)
    point = propose(
        more, np.vstack([found.side, np.ones(5)]), found.multipliers, np.vstack([found.slopes, np.ones(5)])
    )
    if isinstance(point, Point):
        assert 4 not in np.concatenate(point.groups)
        assert Certificate.of(more, point).check().accepted


def test_zero_and_contradictory_samples_have_no_point():
    a = np.array([1.0, -1.0])
    zero = Problem(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, -1.0]), 0.1, a)
    assert isinstance(propose(zero, np.ones((2, 2)), np.ones(2)), Missing)
    twice = Problem(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([1.0, -1.0]), 0.1, a)
    assert isinstance(propose(twice, np.array([[1, 1], [-1, -1]]), np.ones(2)), Missing)
