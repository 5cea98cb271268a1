from itertools import product

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rankfall as rf
from rankfall.limits._kkt import Point, residuals
from rankfall.loss import named
from rankfall.measure import Spectrum
from rankfall.theory.core.situation import Situation
from rankfall.theory.results.frei_flow import two_vectors
from rankfall.theory.results.kou_orthogonal import LEARNED, course, final_slopes, limit_of


def situation(seed, n=5, dim=7, width=8, slope=0.0, loss="exponential", a=None, scale=1.0):
    """Orthogonal inputs of different norms; output weights `a`, or random ones."""
    rng = np.random.default_rng(seed)
    data = rf.data.orthogonal(n, dim, seed=seed, balanced=n % 2 == 0)
    norms = np.round(256 * rng.uniform(0.5, 2, (n, 1))) / 256  # few bits: the products are exact
    data = rf.Data(data.x * norms, [1.0, -1.0, *data.y[2:]])
    a = rng.normal(size=width) if a is None else a
    network = rf.Network([scale * rng.normal(size=(width, dim)), [a]], slope=slope, trained=(True, False))
    return Situation(network, data, named(loss))


def velocity(s, w):
    """The flow, written down anew: the gradient of the loss at the weights w."""
    z = w @ s.x.T
    q = s.y * (s.a @ np.where(z > 0, z, s.slope * z))
    pull = np.exp(-q) if s.loss.name == "exponential" else 1 / (1 + np.exp(q))
    pull = pull / len(s.y) if s.loss.reduction == "mean" else pull
    return (s.a[:, None] * np.where(z > 0, 1.0, s.slope)) @ ((pull * s.y)[:, None] * s.x)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("loss", ["exponential.mean", "logistic.mean", "exponential.sum", "logistic.sum"])
def test_closed_form_course_is_the_solution_that_scipy_finds(slope, loss):
    s = situation(3, slope=slope, loss=loss)
    times = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0])
    w, margins = course(s, times)
    solved = solve_ivp(
        lambda _, flat: velocity(s, flat.reshape(s.w.shape)).ravel(),
        (0, times[-1]),
        s.w.ravel(),
        t_eval=times,
        rtol=1e-8,
        atol=1e-9,
    )
    found = solved.y.T.reshape(w.shape)
    assert np.abs(w - found).max() < 1e-5 * np.abs(found).max()
    z = found @ s.x.T
    q = s.y * np.einsum("j,tji->ti", s.a, np.where(z > 0, z, slope * z))
    assert np.abs(margins - q).max() < 1e-5 * np.abs(q).max()


def test_the_course_passes_kinks_of_both_kinds():
    """So that the test above is about them."""
    s = situation(3, slope=0.3)
    friendly, active = np.outer(s.a, s.y) > 0, s.w @ s.x.T > 0
    assert (friendly & ~active).any()
    assert (~friendly & active).any()


@pytest.mark.parametrize("slope", [0.0, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_limit_from_the_initial_pattern_satisfies_the_kkt_conditions(slope, seed):
    s = situation(seed, width=24, slope=slope)
    w, multipliers = limit_of(s)
    found = residuals(Point(w, s.a, multipliers, final_slopes(s)), s.x, s.y, slope, both=False)
    # The pre-activations of inactive ReLU neurons are 0 up to rounding, where no slope is wrong.
    assert found.largest < 1e-14
    assert np.isclose((w**2).sum(), multipliers.sum(), rtol=1e-13)  # Euler: f is 1-homogeneous


@pytest.mark.parametrize(("slope", "loss"), [(0.0, "exponential"), (0.0, "logistic"), (0.3, "exponential")])
def test_certified_limit_of_the_flow_is_the_closed_form(slope, loss):
    s = situation(1, n=4, width=20, slope=slope, loss=loss, scale=0.1)
    end = rf.limit(s.network, s.data, loss, optimality=False, show=False)
    w, multipliers = limit_of(s)
    assert end.certified
    assert np.allclose(end.W, w, atol=1e-12 * np.abs(w).max())
    assert np.allclose(end.multipliers, multipliers, rtol=1e-11)


def test_constant_for_output_weights_c_is_one_over_c_squared_times_the_number_of_active_neurons():
    signs = np.repeat([1.0, -1.0], 10)
    for c in (0.5, 2.0):
        s = situation(5, n=4, width=20, a=c * signs, scale=0.1)
        count = ((np.outer(s.a, s.y) > 0) & (s.w @ s.x.T > 0)).sum(axis=0)
        end = rf.limit(s.network, s.data, "exponential", optimality=False, show=False)
        assert np.allclose(end.multipliers, 1 / (c**2 * count * s.norms**2), rtol=1e-11)


def test_bias_is_one_more_coordinate_and_can_make_the_inputs_orthogonal():
    """The inputs -1/2 and 2 on the line, with the coordinate 1 appended, are orthogonal."""
    data = rf.Data([[-0.5], [2.0]], [-1.0, 1.0])
    rng = np.random.default_rng(0)
    network = rf.Network(
        [rng.normal(size=(12, 1)), np.repeat([[1.0, -1.0]], 6, axis=1).reshape(1, 12)],
        [rng.normal(size=12), None],
        trained=(True, False),
    )
    here = rf.theory.assess(network, data, "exponential")["relu_orthogonal"]
    assert here.status == "applies"
    end = rf.limit(network, data, "exponential", optimality=False, show=False)
    assert here.verify(end).verdict == "holds"
    plain = rf.Network(network.weights, trained=(True, False))
    assert rf.theory.assess(plain, data, "exponential")["relu_orthogonal"].status == "does not apply"


@pytest.mark.parametrize("seed", range(3))
def test_stable_rank_follows_from_the_overlaps_of_the_activation_sets(seed):
    """sum_i 1/(|x_i|^2 N_ii) over the largest eigenvalue of N_ik/(|x_i||x_k| N_ii N_kk), N the overlaps."""
    s = situation(seed, n=8, dim=9, width=40, a=np.repeat([0.7, -0.7], 20))
    sets = final_slopes(s)
    overlaps = sets.T @ sets
    own = np.diag(overlaps)
    matrix = overlaps / np.outer(s.norms * own, s.norms * own)
    value = (1 / (s.norms**2 * own)).sum() / np.linalg.eigvalsh(matrix)[-1]
    assert np.isclose(Spectrum.of(limit_of(s)[0]).stable_rank, value, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_all_subsets_equally_often_give_2k_over_k_plus_1_a_block_and_twice_that_in_all(k):
    subsets = np.array(list(product([-1.0, 1.0], repeat=k)))
    none = -np.ones_like(subsets)
    first = np.block([[subsets, none], [none, subsets]])
    a = np.repeat([1.0, -1.0], len(subsets))
    network = rf.Network([first, [a]], trained=(True, False))
    s = Situation(network, rf.Data(np.eye(2 * k), np.repeat([1.0, -1.0], k)), named("exponential"))
    w, _ = limit_of(s)
    assert np.isclose(Spectrum.of(w[a > 0]).stable_rank, 2 * k / (k + 1), rtol=1e-13)
    assert np.isclose(Spectrum.of(w).stable_rank, 4 * k / (k + 1), rtol=1e-13)


def test_many_random_neurons_come_near_the_stable_rank_of_all_subsets():
    data = rf.data.orthogonal(10, 10, seed=0)
    network = rf.Network.fixed_second_layer((10, 20_000, 1), slope=0.0, sigma=1.0, seed=0)
    w, _ = limit_of(Situation(network, data, named("logistic")))
    assert abs(Spectrum.of(w).stable_rank - 20 / 6) < 0.05


@pytest.mark.parametrize("slope", [0.1, 0.5, 0.9])
def test_leaky_limit_on_equal_norms_is_the_closed_form_of_frei(slope):
    data = rf.data.orthogonal(6, 8, seed=1, norm=2.0)
    network = rf.Network.fixed_second_layer((8, 10, 1), slope=slope, sigma=0.1, seed=0)
    s = Situation(network, data, named("exponential"))
    w, multipliers = limit_of(s)
    assert np.allclose(multipliers, 2 / ((1 + slope**2) * 4), rtol=1e-13)
    assert np.isclose(Spectrum.of(w).stable_rank, 1 + ((1 - slope) / (1 + slope)) ** 2, rtol=1e-12)
    assert np.allclose(w, two_vectors(s.x, s.y, s.a, slope).w, rtol=0, atol=1e-12)


def test_sample_without_a_neuron_is_never_learned_and_the_loss_ends_at_its_share():
    s = rf.theory.RESULTS["relu_orthogonal"].broken()[LEARNED]
    lost = int(np.argmax(s.y > 0))
    end = rf.limit(s.network, s.data, s.loss, optimality=False, show=False, budget=5000)
    assert end.verdict == "not decided"
    run = rf.exact_flow(s.network, s.data, s.loss, 1e5, measures=["loss", "margins"], show=False)
    margins = run["margins"].values[-1]
    assert abs(margins[lost]) < 1e-12
    assert np.delete(margins, lost).min() > 3
    assert np.isclose(run["loss"].values[-1], np.log(2) / len(s.y), rtol=1e-2)


def test_loss_times_time_tends_to_the_squared_norm_of_the_limit():
    s = situation(0, width=20, loss="logistic.mean", scale=0.1)
    w, multipliers = limit_of(s)
    time = 1e16
    run = rf.exact_flow(s.network, s.data, s.loss, time, measures=["loss"], show=False)
    assert np.isclose(run["loss"].values[-1] * time, (w**2).sum(), rtol=1e-9)
    assert np.isclose((w**2).sum(), multipliers.sum())


def test_limit_is_not_continuous_at_orthogonality():
    """A cosine of 1e-3 within a class switches on, in the end, what orthogonal inputs leave off."""
    a = np.array([[0.5, 0.5, -0.5]])
    first = 0.01 * np.array([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])
    network = rf.Network([first, a], trained=(True, False))
    ends = []
    for cosine in (0.0, 1e-3):
        x = np.array([[1.0, 0.0, 0.0], [cosine, np.sqrt(1 - cosine**2), 0.0], [0.0, 0.0, 1.0]])
        end = rf.limit(network, rf.Data(x, [1.0, 1.0, -1.0]), "exponential", optimality=False, show=False)
        assert end.certified
        ends.append(end.W)
    assert np.allclose(ends[0][:2], [[1, 2, 0], [1, 0, 0]], atol=1e-12)
    assert np.allclose(ends[1][:2], [[1, 1, 0], [1, 1, 0]], atol=5e-3)
