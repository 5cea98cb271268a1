import numpy as np
import pytest
from scipy.optimize import minimize

import rankfall as rf
from rankfall.theory import assess
from rankfall.theory.results.frei_flow import two_vectors


def second_layer(plus, minus):
    return np.repeat([1.0, -1.0], [plus, minus]) / np.sqrt(plus + minus)


@pytest.mark.parametrize(("plus", "minus"), [(5, 5), (4, 16)])
@pytest.mark.parametrize("slope", [0.1, 0.5])
def test_the_two_vectors_minimise_the_convex_problem_that_scipy_minimises(plus, minus, slope):
    data = rf.data.nearly_orthogonal(n=6, dim=8, p=3 * slope**-3, seed=2)
    a = second_layer(plus, minus)
    ours = two_vectors(data.x, data.y, a, slope)
    c, x, y = np.abs(a[0]), data.x, data.y

    def margins(both):
        v, u = both.reshape(2, -1)
        positive = c * (plus * x @ v - slope * minus * x @ u)
        return np.where(y > 0, positive, c * (minus * x @ u - slope * plus * x @ v))

    def objective(both):
        v, u = both.reshape(2, -1)
        return plus / 2 * v @ v + minus / 2 * u @ u

    start = np.concatenate([ours.v, ours.u]) + 0.1 * np.random.default_rng(0).normal(size=16)
    found = minimize(
        objective,
        start,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda both: margins(both) - 1},
        options={"maxiter": 1000, "ftol": 1e-11},
    )
    assert found.success
    assert np.allclose(found.x, np.concatenate([ours.v, ours.u]), atol=1e-5)
    assert np.isclose(found.fun, objective(np.concatenate([ours.v, ours.u])), rtol=1e-8)


@pytest.mark.parametrize("slope", [0.1, 0.3, 0.9])
def test_on_orthogonal_samples_of_one_norm_everything_has_a_closed_form(slope):
    norm = 2.0
    data = rf.data.orthogonal(n=8, dim=10, norm=norm, seed=0)
    solution = two_vectors(data.x, data.y, second_layer(6, 6), slope)
    singular = np.linalg.svd(solution.w, compute_uv=False)
    assert np.allclose(solution.multipliers, 2 / ((1 + slope**2) * norm**2), rtol=1e-12)
    assert np.isclose((singular**2).sum() / singular[0] ** 2, 1 + ((1 - slope) / (1 + slope)) ** 2)
    svm = rf.data.hard_margin(data).w
    assert np.allclose(solution.z, (1 + slope) / (1 + slope**2) * svm, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_flow_ends_there_from_any_start_whatever_the_neurons_of_each_sign(seed, loss):
    data = rf.data.nearly_orthogonal(n=6, dim=9, p=30.0, seed=seed)
    network = rf.Network.fixed_second_layer(
        (9, 7, 1), slope=0.5, sigma=10.0 ** (seed - 2), seed=seed, positive=1 + seed
    )
    here = assess(network, data, loss)["frei_flow"]
    verification = here.verify(rf.limit(network, data, loss, show=False))
    assert here.status == "applies"
    assert verification.verdict == "holds"
    assert {v.verdict for v in verification} == {"holds"}


def test_the_stable_rank_is_that_of_two_rays_by_their_lengths_and_angle():
    data = rf.data.nearly_orthogonal(n=6, dim=9, p=50.0, seed=1)
    solution = two_vectors(data.x, data.y, second_layer(3, 9), 0.5)
    large, small = 3 * solution.v @ solution.v, 9 * solution.u @ solution.u
    cosine = solution.v @ solution.u / np.linalg.norm(solution.v) / np.linalg.norm(solution.u)
    root = np.sqrt((large - small) ** 2 + 4 * large * small * cosine**2)
    singular = np.linalg.svd(solution.w, compute_uv=False)
    expected = 2 * (large + small) / (large + small + root)
    assert np.isclose((singular**2).sum() / singular[0] ** 2, expected, rtol=1e-12)


def test_gaussian_data_are_told_to_be_outside_and_are_compared_all_the_same():
    data = rf.data.gaussian_mixture(n=10, dim=784, balanced=True, seed=0)
    network = rf.Network.fixed_second_layer((784, 20, 1), slope=0.01, sigma=1e-4, seed=0)
    here = assess(network, data, "exponential")["frei_flow"]
    assert here.status == "applies up to a violation"
    assert "needs ≥ 3e+06" in here.why
    verification = here.verify(rf.limit(network, data, optimality=False, show=False))
    assert verification.verdict == "outside its hypotheses"
    assert verification["equal margins"].agrees  # margins are equal all the same,
    assert not verification["rank two"].agrees  # but neurons of one sign are not all one vector
    assert verification["global optimum"].verdict == "not measured"


def test_a_late_run_is_compared_with_the_tolerance_of_its_own_distance_to_the_end():
    data = rf.data.nearly_orthogonal(n=6, dim=9, p=30.0, seed=0)
    network = rf.Network.fixed_second_layer((9, 8, 1), slope=0.5, sigma=1e-3, seed=0)
    here = assess(network, data, "exponential")["frei_flow"]
    early = rf.exact_flow(network, data, "exponential", 1.0, show=False)
    late = rf.exact_flow(network, data, "exponential", 400.0, clock="loss", show=False)
    assert here.verify(early)["weights"].verdict == "not measured"
    judged = here.verify(late)["weights"]
    assert judged.verdict == "holds"
    assert 1e-6 < judged.tolerance.high < 0.1
    assert here.verify(late)["arrives"].verdict == "not measured"
