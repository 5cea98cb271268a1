"""Rank, stable rank, optimality, inseparable data and refuted sentences."""

import numpy as np
import pytest

from rankfall.certificates import (
    Certificate,
    Missing,
    Point,
    Problem,
    inseparable,
    optimal,
    propose,
    rank,
    refutes,
    stable_rank,
)


@pytest.mark.parametrize("large", [300, 0])
@pytest.mark.parametrize("slope", [0.0, 0.1, 0.5, 1.0])
def test_rank_and_stable_rank_are_those_of_the_singular_values(cells, slope, large):
    for seed in (0, 100):
        found = cells.solved(seed, slope=slope, bias=seed == 100)
        point = found.propose(large=large)
        if slope == 1 and large == 0 and isinstance(point, Missing):
            continue
        values = np.linalg.svd(point.weights(found.problem)[:, : found.problem.x.shape[1]], compute_uv=False)
        claims = [rank(found.problem, point), stable_rank(found.problem, point)]
        assert claims[0]["rank"] == (values > 1e-8 * values[0]).sum()
        lower, upper = (float.fromhex(claims[1][key]) for key in ("lower", "upper"))
        assert lower <= (values**2).sum() / values[0] ** 2 <= upper
        assert upper - lower < 1e-9
        report = Certificate.of(found.problem, point, claims).check()
        assert report.accepted, str(report)


def frei(seed, slope=0.3, n=6):
    """Nearly orthogonal data: one direction for each sign, globally optimal (Frei et al. 2023)."""
    rng = np.random.default_rng(seed)
    x = np.linalg.qr(rng.normal(size=(12, n)))[0].T + 0.01 * rng.normal(size=(n, 12))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    a = np.array([1.0, -1.0, 1.0, -1.0]) / 2
    problem = Problem(x, y, slope, a)
    return problem, propose(problem, np.where(a[:, None] * y > 0, 1, -1), np.ones(n))


def test_the_limit_on_nearly_orthogonal_data_is_globally_optimal():
    problem, point = frei(0)
    claim = optimal(problem, point)
    assert not isinstance(claim, Missing)
    assert Certificate.of(problem, point, [claim]).check().accepted
    assert Certificate.of(problem, point, [claim | {"+": claim["+"][:-1]}]).check().malformed
    other = 0 if claim["+"][0] is not None else 1
    corners = [*claim["+"]]
    corners[other] = [(0.29).hex()] * len(corners[other])
    assert not Certificate.of(problem, point, [claim | {"+": corners}]).check().accepted


def test_a_point_that_is_not_optimal_is_not_called_so(cells):
    """Against many random starts of the margin problem: where some network is shorter, there is no claim."""
    shorter = 0
    for seed in range(0, 200, 10):
        found = cells.solved(seed, slope=0.1, n=4, d=3, m=4)
        point = found.propose()
        norm = np.linalg.norm(point.weights(found.problem))
        rng, least = np.random.default_rng(seed), np.inf
        for _ in range(12):
            other = cells.solve(found.problem, np.where(rng.random((4, 4)) < 0.7, 1, -1))
            if other is not None and other.inside:
                least = min(least, float(np.linalg.norm(other.weights)))
        if least < norm * (1 - 1e-6):
            shorter += 1
            assert isinstance(optimal(found.problem, point), Missing)
    assert shorter >= 1


def test_with_slope_one_every_point_is_optimal(cells):
    found = cells.solved(0, slope=1.0, n=6)
    point = found.propose()
    claim = optimal(found.problem, point)
    assert claim == {"claim": "optimal", "+": [], "-": []}
    assert Certificate.of(found.problem, point, [claim]).check().accepted


A = np.array([1.0, -1.0])
Y = np.array([1.0, -1.0, 1.0])


def test_data_that_nothing_separates_are_told_by_their_reason():
    zero = Problem(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), Y, 0.1, A)
    assert inseparable(zero) == {"claim": "inseparable", "sample": 1}
    ray = Problem(np.array([[0.1, 0.3], [0.2, 0.6], [0.0, 1.0]]), Y, 0.0, None, width=3)
    assert inseparable(ray) == {"claim": "inseparable", "samples": [0, 1]}
    line = Problem(np.array([[1.0], [0.5], [-1.0]]), Y, 1.0, A)
    assert inseparable(line)["claim"] == "inseparable"
    inner = Problem(np.array([[1.0, 0.1], [0.1, 0.2], [-1.0, 0.4]]), Y, 1.0, A)
    found = inseparable(inner)
    assert [int(v, 16) > 0 for v in found["combination"]] == [True, True, True]
    for problem in (zero, ray, line, inner):
        report = Certificate.of(problem, None, [inseparable(problem)]).check()
        assert report.accepted, str(report)


def test_with_a_bias_a_sample_is_never_zero_and_rays_are_single_points():
    zero = Problem(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), Y, 0.1, A, bias=True)
    assert isinstance(inseparable(zero), Missing)
    ray = Problem(np.array([[0.1, 0.3], [0.2, 0.6], [0.0, 1.0]]), Y, 0.0, A, bias=True)
    assert isinstance(inseparable(ray), Missing)
    twice = Problem(np.array([[0.1, 0.3], [0.1, 0.3], [0.0, 1.0]]), Y, 0.0, A, bias=True)
    assert inseparable(twice)["samples"] == [0, 1]


@pytest.mark.parametrize(
    ("relation", "bound", "refuted"),
    [
        ("<=", 0.5, True),
        ("<", 0.5, True),
        ("<=", 9.0, False),
        (">=", 9.0, True),
        (">", 9.0, True),
        (">=", 0.5, False),
        ("=", 0.5, True),
        ("=", 9.0, True),
    ],
)
def test_a_sentence_is_refuted_only_if_the_interval_excludes_it(cells, relation, bound, refuted):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    assert isinstance(point, Point)
    for quantity, claim in (
        ("rank", rank(found.problem, point)),
        ("stable rank", stable_rank(found.problem, point)),
    ):
        told = refutes("paper/claim", "a sentence.", quantity, relation, bound)
        assert Certificate.of(found.problem, point, [claim, told]).check().accepted == refuted
        assert not Certificate.of(found.problem, point, [told]).check().accepted


def test_the_exact_value_is_not_refuted(cells):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    claim = rank(found.problem, point)
    for relation in ("<=", ">=", "="):
        told = refutes("paper/claim", "a sentence.", "rank", relation, claim["rank"])
        assert not Certificate.of(found.problem, point, [claim, told]).check().accepted
    for relation in ("<", ">"):
        told = refutes("paper/claim", "a sentence.", "rank", relation, claim["rank"])
        assert Certificate.of(found.problem, point, [claim, told]).check().accepted
