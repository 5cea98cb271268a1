import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import rankfall as rf
from rankfall.loss import named
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.situation import Situation
from rankfall.theory.results.frei_flow import two_vectors
from rankfall.theory.results.sarussi_agreement import agree, agreed_limit


def limit(s):
    return rf.limit(s.network, s.data, s.loss, optimality=False, show=False, budget=5000)


def separable(seed, slope=0.2, dim=3, positive=3):
    """Six samples on the right sides of a hyperplane, off the origin."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(6, dim)) + np.eye(dim)[0], rng.normal(size=dim)
    y = np.sign(x @ w)
    data = rf.Data(x + 0.5 * np.outer(y, w) / np.linalg.norm(w), y)
    network = rf.Network.fixed_second_layer((dim, 8, 1), slope, sigma=0.05, seed=seed, positive=positive)
    return Situation(network, data, named("exponential"))


def solved_by_scipy(s, region):
    """The convex problem for v and u, constraint by constraint."""
    plus, minus = region[np.argmax(s.a > 0)], region[np.argmax(s.a < 0)]
    many, few = (s.a > 0).sum(), (s.a < 0).sum()
    c, dim = np.abs(s.a).max(), s.x.shape[1]
    on = [np.where(side == 1, 1.0, s.slope) for side in (plus, minus)]

    def margins(p):
        v, u = p[:dim], p[dim:]
        return c * s.y * (many * on[0] * (s.x @ v) - few * on[1] * (s.x @ u)) - 1

    held = [{"type": "eq", "fun": lambda p, x=x: x @ p[:dim]} for x in s.x[plus == 0]]
    held += [{"type": "eq", "fun": lambda p, x=x: x @ p[dim:]} for x in s.x[minus == 0]]
    found = minimize(
        lambda p: (many * p[:dim] @ p[:dim] + few * p[dim:] @ p[dim:]) / 2,
        np.zeros(2 * dim),
        constraints=[{"type": "ineq", "fun": margins}, *held],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success
    return found.x[:dim], found.x[dim:]


def test_agreed_limit_with_kinks_and_unfriendly_sides_is_the_optimum_that_scipy_finds():
    example = RESULTS["sarussi"].example()
    s, end = example.situation, example.evidence()
    sides = np.sign(np.outer(s.a, s.y)) * end.region
    assert {-1, 0, 1} == set(np.unique(sides))  # wrong, held and right: no perfect agreement
    v, u = solved_by_scipy(s, end.region)
    rows = agreed_limit(s, end.region)
    assert np.allclose(rows[s.a > 0], v, atol=1e-6)
    assert np.allclose(rows[s.a < 0], u, atol=1e-6)
    assert np.allclose(end.W, rows, atol=1e-12)
    perfect = two_vectors(s.x, s.y, s.a, s.slope)
    assert np.abs(perfect.w - rows).max() > 0.1  # the problem for perfect agreement is another one


@pytest.mark.parametrize("seed", [1, 4, 11])
def test_certified_limit_with_agreement_solves_its_convex_problem(seed):
    s = separable(seed)
    end = limit(s)
    assert end.certified
    assert agree(end.region, s.a)
    assert np.allclose(end.W, agreed_limit(s, end.region), atol=1e-11)
    assert end.rank <= 2


def test_perfect_agreement_is_the_convex_problem_in_two_vectors():
    s = separable(3)
    region = np.sign(np.outer(s.a, s.y))
    rows = agreed_limit(s, region)
    assert np.allclose(rows, two_vectors(s.x, s.y, s.a, s.slope).w, rtol=1e-11)


def test_boundary_of_an_agreed_limit_is_linear_in_all_directions_of_the_plane():
    s = separable(5, slope=0.3, dim=2)
    end = limit(s)
    assert agree(end.region, s.a)
    angles = np.linspace(0, 2 * np.pi, 20_001)
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    linear = x @ (s.a @ end.W)
    sure = np.abs(linear) > 1e-9
    assert (np.sign(np.asarray(end.network(x)))[sure] == np.sign(linear)[sure]).all()


# Agreement can be lost


def lost():
    """Two positive neurons; the second has learned the first sample, so that only the second sample pulls.

    <x_1, x_2> < 0 with one label: its pull takes the first neuron off the first sample.
    """
    data = rf.Data([[1.0, 0.0], [-0.5, 1.0], [-1.0, -1.0]], [1.0, 1.0, -1.0])
    first = [[0.02, 0.2], [6.0, 4.0], [-0.1, -0.1], [-0.2, -0.2]]
    network = rf.Network([first, [[0.5, 0.5, -0.5, -0.5]]], slope=0.1, trained=(True, False))
    return Situation(network, data, named("exponential"))


def test_perfect_agreement_at_the_start_can_be_lost_for_ever():
    s = lost()
    assert (np.sign(s.w @ s.x.T) == np.sign(np.outer(s.a, s.y))).all()
    end = limit(s)
    assert end.certified
    assert not agree(end.region, s.a)
    assert np.linalg.svd(end.W[:2], compute_uv=False)[1] > 0.5  # two vectors for one sign
    assert s.mu < 0
    assert assessed(RESULTS["sarussi_course"], s).status == "does not apply"


def test_without_agreement_nothing_is_claimed():
    s = lost()
    here = assessed(RESULTS["sarussi"], s)
    assert here.status == "applies"
    verified = here.verify(limit(s))
    assert {v.verdict for v in verified if v.result == "sarussi"} == {"not measured"}


# Aligned data


def test_neurons_that_agree_keep_their_differences():
    s = RESULTS["sarussi_aligned"].example().situation
    times = [0.0, 100.0, 200.0, 400.0]
    run = rf.exact_flow(s.network, s.data, s.loss, 400.0, record=times, measures=["weights"], show=False)
    w = run["weights"].values[:, : s.w.size].reshape(-1, *s.w.shape)
    assert agree(np.sign(w[1] @ s.x.T), s.a)
    for block in (s.a > 0, s.a < 0):
        differences = w[:, block] - w[:, block][:, :1]
        assert np.allclose(differences[1], differences[-1], atol=1e-12)
        assert np.abs(w[-1, block] - w[1, block]).min() > 1e-3  # while they move
    assert np.abs(w[0] - w[1]).max() > 0.1


@pytest.mark.parametrize(("seed", "sigma"), [(0, 2.0), (1, 1e-3)])
def test_on_aligned_data_every_start_leads_to_the_same_limit(seed, sigma):
    data = rf.data.orthogonally_separable(n=7, dim=3, seed=4, balanced=False)
    network = rf.Network.fixed_second_layer((3, 6, 1), slope=0.3, sigma=sigma, seed=seed, positive=2)
    s = Situation(network, data, named("logistic"))
    here = assessed(RESULTS["sarussi_aligned"], s)
    assert here.status == "applies"
    end = limit(s)
    assert here.verify(end).verdict == "holds"
    assert np.allclose(end.W, two_vectors(s.x, s.y, s.a, 0.3).w, atol=1e-11)


@pytest.mark.parametrize("slope", [0.0, 0.4])
def test_on_aligned_data_no_neuron_ever_moves_to_the_wrong_side(slope):
    """The flow as SciPy integrates it, written down anew."""
    data = rf.data.orthogonally_separable(n=6, dim=3, seed=1)
    rng = np.random.default_rng(0)
    a, start = np.repeat([0.5, -0.5], 3), rng.normal(size=(6, 3))

    def velocity(_, flat):
        z = flat.reshape(6, 3) @ data.x.T
        pull = np.exp(-data.y * (a @ np.where(z > 0, z, slope * z))) / data.n
        return ((a[:, None] * np.where(z > 0, 1.0, slope)) @ ((pull * data.y)[:, None] * data.x)).ravel()

    times = np.linspace(0, 30, 61)
    solved = solve_ivp(velocity, (0, 30), start.ravel(), t_eval=times, rtol=1e-8, atol=1e-10)
    right = np.sign(np.outer(a, data.y)) * (solved.y.T.reshape(-1, 6, 3) @ data.x.T)
    assert np.diff(right, axis=0).min() > -1e-6
    assert np.diff(right, axis=0).max() > 0.1


def test_off_aligned_data_the_same_does_fall():
    s = lost()
    run = rf.exact_flow(s.network, s.data, s.loss, 2.0, measures=["weights"], show=False)
    w = run["weights"].values[:, : s.w.size].reshape(-1, *s.w.shape)
    right = np.sign(np.outer(s.a, s.y)) * (w @ s.x.T)
    assert np.diff(right[:, 0, 0]).min() < 0
    assert right[0, 0, 0] > 0 > right[-1, 0, 0]
