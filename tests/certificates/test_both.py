"""Both layers trained: points in closed form, and zeros that SciPy finds."""

import numpy as np
import pytest
from scipy.optimize import root

from rankfall.certificates import Certificate, Missing, Point, Problem, check, propose_both, rank, stable_rank


def orthogonal(lengths, slope=0.0):
    """Orthogonal samples, slope 0: lambda_i = 1/(A |x_i|^2), A^2 = sum of 1/|x_i|^2 over the class."""
    x, y = np.diag(lengths), np.where(np.arange(len(lengths)) % 2, 1.0, -1.0)
    problem = Problem(x, y, slope, None, width=3)
    amplitude = {s: np.sqrt((1 / np.asarray(lengths)[y == s] ** 2).sum()) for s in (1.0, -1.0)}
    lam = np.array([1 / (amplitude[s] * length**2) for s, length in zip(y, lengths, strict=True)])
    second = np.array([np.sqrt(amplitude[1.0]), -np.sqrt(amplitude[-1.0]), 0.0])
    side = np.where(np.array([1.0, -1.0, 1.0])[:, None] * y > 0, 1, -1)
    return problem, side, second, lam, amplitude


def test_orthogonal_samples_have_the_point_in_closed_form():
    problem, side, second, lam, amplitude = orthogonal([1.0, 2.0, 0.7, 1.3, 1.1])
    point = propose_both(problem, side, second, lam)
    assert isinstance(point, Point), point
    found = dict(zip(point.signs.tolist(), (v / point.denominator for v in point.amplitudes), strict=True))
    assert found == pytest.approx({1: amplitude[1.0], -1: amplitude[-1.0]}, rel=1e-15)
    np.testing.assert_allclose(point.lam(), lam, rtol=1e-15)
    claims = [rank(problem, point), stable_rank(problem, point)]
    report = Certificate.of(problem, point, claims).check()
    assert report.accepted, str(report)
    assert claims[0]["rank"] == 2
    true = (amplitude[1.0] + amplitude[-1.0]) / max(amplitude.values())
    assert float.fromhex(claims[1]["lower"]) <= true <= float.fromhex(claims[1]["upper"])


def test_rational_points_need_no_enclosure():
    """(1, 1), (1, -1) and their like: A = 1 and lambda = 1/2 exactly."""
    x = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, -1, 0, 0], [0, 0, 1, -1]])
    y = np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(x, y, 0.0, None, width=2)
    point = Point(
        groups=[np.array([0]), np.array([1])],
        signs=np.array([1, -1]),
        patterns=np.array([[1, -1, 1, -1], [-1, 1, -1, 1]]),
        support=np.arange(4),
        denominator=2,
        multipliers=[1, 1, 1, 1],
        kinks=[],
        amplitudes=[2, 2],
    )
    assert Certificate.of(problem, point).check().accepted
    document = Certificate.of(problem, point).document
    document["point"]["amplitudes"] = ["0x2", "0x3"]
    assert not check.check(document).accepted


@pytest.mark.parametrize("slope", [0.0, 0.2, 0.5])
def test_zeros_of_the_equations_found_by_scipy_are_certified(slope):
    rng = np.random.default_rng(3)
    n = 6
    x = np.linalg.qr(rng.normal(size=(10, n)))[0].T + 0.05 * rng.normal(size=(n, 10))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    p = np.array([np.where(y > 0, 1.0, slope), np.where(y < 0, 1.0, slope)])

    def equations(u):
        v = (p * u[:n] * y) @ x
        return np.append(y * (u[n:] @ (p * (v @ x.T))) - 1, (v**2).sum(axis=1) - 1)

    found = root(equations, np.append(np.full(n, 0.6), [1.7, 1.7]), tol=1e-13)
    assert found.success
    second = np.array([1.0, -1.0, 2.0]) * np.sqrt([found.x[n] / 5, found.x[n + 1], found.x[n] / 5])
    problem = Problem(x, y, slope, None, width=3)
    side = np.where(np.array([1.0, -1.0, 1.0])[:, None] * y > 0, 1, -1)
    z = np.sign(second)[:2, None] * ((p * found.x[:n] * y) @ x @ x.T)
    point = propose_both(problem, side, second, found.x[:n])
    if (side[:2] * z > 1e-9).all():
        assert isinstance(point, Point), point
        assert Certificate.of(problem, point, [stable_rank(problem, point)]).check().accepted
        np.testing.assert_allclose([v / point.denominator for v in point.amplitudes], found.x[n:], rtol=1e-10)
    else:
        assert isinstance(point, Missing)


def test_the_solution_is_as_near_as_the_checker_says():
    problem, side, second, lam, _ = orthogonal([1.0, 2.0, 0.7, 1.3, 1.1])
    point = propose_both(problem, side, second, lam * (1 + 1e-9))
    inside = check.Point(problem.checked, check.read(point.document(), check.FORM["point"], "the point"))
    errors, _ = check.kkt(problem.checked, inside)
    assert float(errors.mu) < 1e-45
    assert 0 < float(errors.c) < 1e-45


def test_a_linear_network_has_one_direction():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 6)), np.array([1.0, -1.0, 1.0, -1.0])
    lam = np.linalg.solve(y[:, None] * (x @ x.T) * y, np.ones(4))
    support = np.maximum(lam, 0)
    if (lam > 0).all():
        norm = np.sqrt(lam.sum())  # |w| of the hard-margin machine; |v| = 1 and A |w| v = w
        second = np.sqrt(norm) * np.array([0.6, -0.8])
        problem = Problem(x, y, 1.0, None, width=2)
        point = propose_both(problem, np.ones((2, 4)), second, support / norm)
        assert isinstance(point, Point), point
        assert Certificate.of(problem, point, [rank(problem, point)]).check().accepted


def test_amplitudes_that_are_not_unique_are_told():
    """Two groups of one direction: only the sum of their amplitudes is determined."""
    problem, side, second, lam, _ = orthogonal([1.0, 2.0, 0.7, 1.3])
    wide = Problem(problem.x, problem.y, 0.0, None, width=3)
    side[2] = side[0]
    side[2, 0] = 0  # at the kink of an orthogonal sample, with the same direction
    second = np.array([second[0] / np.sqrt(2), second[1], second[0] / np.sqrt(2)])
    missing = propose_both(wide, side, second, lam, np.zeros(side.shape))
    assert isinstance(missing, Missing)
