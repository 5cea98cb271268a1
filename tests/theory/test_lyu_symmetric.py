"""Separable and symmetric data end at the linear SVM, and a few more samples spoil it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sklearn.svm import SVC

import rankfall as rf
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.results.lyu_hints import example as hinted_example
from rankfall.theory.results.lyu_hints import faster, hinted, one_neuron
from rankfall.theory.results.lyu_symmetric import example

SYMMETRIC, HINTS = RESULTS["lyu_2021"], RESULTS["lyu_2021_hints"]


def end(network, data, loss, **more):
    return rf.limit(network, data, loss, show=False, **{"optimality": False, **more})


def network_of(w, a, slope):
    """The outputs of a two-layer network, in NumPy alone."""

    def f(x):
        z = x @ w.T
        return np.where(z > 0, z, slope * z) @ a

    return f


def test_the_limit_is_the_linear_svm_of_scikit_learn():
    s = example().situation
    found = end(s.network, s.data, s.loss)
    svm = SVC(kernel="linear", C=1e9, tol=1e-10).fit(s.data.x, s.data.y)  # symmetric: its intercept is zero
    z = svm.coef_[0]
    a = found.network.weights[1][0]
    assert abs(svm.intercept_[0]) < 1e-6
    assert np.allclose(a @ found.W / np.linalg.norm(a @ found.W), z / np.linalg.norm(z), atol=1e-5)
    assert np.isclose(found.normalised_margin, 1.3 / 4 / np.linalg.norm(z), rtol=1e-5)


def test_no_random_network_has_a_larger_normalised_margin():
    s = example().situation
    best = 1.3 / 4 * s.svm.norm2**-0.5
    rng = np.random.default_rng(1)
    for _ in range(3000):
        w, a = rng.normal(size=(5, 3)), rng.normal(size=5)
        w += np.outer(a, rng.uniform(0, 10) * s.svm.w)  # many of them near the optimum
        a *= np.linalg.norm(w) / np.linalg.norm(a)
        margin = (s.y * network_of(w, a, 0.3)(s.x)).min() / ((w**2).sum() + (a**2).sum())
        assert margin <= best * (1 + 1e-12)


def test_the_sign_of_the_growing_part_is_the_sign_of_the_output_weight_after_the_early_phase():
    s = example().situation
    m, d = s.w.shape

    def velocity(_, theta):
        w, a = theta[: m * d].reshape(m, d), theta[m * d :]
        z = s.x @ w.T
        pull = s.y / (1 + np.exp(s.y * network_of(w, a, 0.3)(s.x))) / len(s.y)
        slopes = np.where(z > 0, 1.0, 0.3)
        return np.append((a[:, None] * ((slopes * pull[:, None]).T @ s.x)).ravel(), (slopes * z).T @ pull)

    start = np.append(s.w.ravel(), s.a)
    late = solve_ivp(velocity, (0, 40), start, rtol=1e-8, atol=1e-14).y[:, -1]
    moved = np.abs(late[m * d :]) > 10 * np.abs(start).max()
    assert moved.sum() >= 4
    assert (np.sign(late[m * d :]) == np.sign(s.growing))[moved].all()


def test_where_only_one_sign_grows_the_margin_is_smaller_by_two_slopes_over_one_plus_slope():
    # Then f = sigma(<w*, x>)/2 has the margin slope/2 on the other class, and not (1 + slope)/4.
    s = example().situation
    network = rf.Network.gaussian((3, 6, 1), slope=0.3, scale=1e-4, seed=2)
    there = replace(s, network=network)
    assert assessed(SYMMETRIC, there).status == "does not apply"
    assert len(set(np.sign(there.growing))) == 1
    found = end(network, s.data, s.loss)
    assert found.reached
    assert np.isclose(found.normalised_margin / (1.3 / 4 * s.svm.norm2**-0.5), 2 * 0.3 / 1.3, rtol=1e-9)


def test_neurons_of_both_signs_grow_with_probability_one_minus_two_to_the_one_minus_m():
    s = example().situation
    m, draws = 4, 4000
    both = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        drawn = replace(s, network=rf.Network([rng.normal(size=(m, 3)), rng.normal(size=(1, m))], slope=0.3))
        both += len(set(np.sign(drawn.growing))) == 2
    expected = 1 - 2.0 ** (1 - m)
    assert abs(both / draws - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)


@pytest.mark.parametrize(("seed", "loss"), [(1, "exponential"), (3, "logistic")])
def test_other_starts_and_losses_end_there_too(seed, loss):
    s = example().situation
    network = rf.Network.gaussian((3, 5, 1), slope=0.3, scale=1e-3, seed=seed)
    here = assessed(SYMMETRIC, Situation(network, s.data, rf.loss.named(loss)))
    assert here.status == "applies", here.why
    assert here.verify(end(network, s.data, loss)).verdict == "holds"


# The hints


def test_without_the_hints_the_same_network_ends_at_the_best_margin_and_with_them_it_does_not():
    s = hinted_example().situation
    pairs = rf.Data(s.data.x[:4], s.data.y[:4])
    plain = end(s.network, pairs, "exponential", optimality=True)
    hinted_end = end(s.network, s.data, "exponential", optimality=True)
    assert plain.reached
    assert hinted_end.reached
    assert plain.optimality.verdict == "globally optimal"
    assert hinted_end.optimality.verdict == "not globally optimal"


def test_another_network_of_the_same_width_has_a_larger_margin_on_the_hinted_data():
    # Three neurons by hand: one along each small hint, and one of the other sign for the negative samples.
    data = hinted()
    w = np.array([[0.6, 0.6], [-0.6, 0.6], [0.0, -0.25]])
    a = np.array([1.0, 1.0, -1.0]) * np.linalg.norm(w, axis=1)
    w, a = np.vstack([w, np.zeros((3, 2))]), np.append(a, np.zeros(3))
    margin = (data.y * network_of(w, a, 0.2)(data.x)).min() / ((w**2).sum() + (a**2).sum())
    s = hinted_example().situation
    ends = 1 / (2 * np.linalg.norm(one_neuron(s).z))
    assert margin > 1.2 * ends


def test_the_single_neuron_is_the_svm_of_scikit_learn_with_shortened_inputs():
    s = hinted_example().situation
    shortened = np.where(s.y > 0, 1.0, 0.2)[:, None] * s.x
    rows = s.y[:, None] * shortened  # with mirror images, so that the intercept is zero
    svm = SVC(kernel="linear", C=1e9, tol=1e-12).fit(
        np.vstack([rows, -rows]), np.repeat([1.0, -1.0], len(rows))
    )
    assert np.allclose(svm.coef_[0], one_neuron(s).z, rtol=1e-5, atol=1e-5)


def test_the_pull_on_the_other_sign_is_what_its_neurons_grow_by_late():
    # Late, log|a_j| of a small neuron grows like its pull times that of the others: d log a = pull d log rho.
    s = hinted_example().situation
    run = rf.exact_flow(
        s.network,
        s.data,
        "exponential",
        rf.Until(log_time=400.0),
        clock="loss",
        measures=["weights"],
        record=list(np.geomspace(1.0, 2000.0, 400)),
        show=False,
    )
    a = run["weights"].values[:, -6:]
    sign, _ = faster(s)
    mine, others = np.abs(a[:, a[-1] * sign > 0]).max(axis=1), np.abs(a[:, a[-1] * sign < 0]).max(axis=1)
    late = slice(-2, None)
    grown = np.diff(np.log(others[late])) / np.diff(np.log(mine[late]))
    assert np.allclose(grown, one_neuron(s).other, rtol=0.1)


def test_with_mirrored_labels_the_negative_neurons_win():
    s = hinted_example().situation
    data = rf.Data(s.data.x, -s.data.y)
    here = assessed(HINTS, replace(s, data=data))
    assert here.status == "applies", here.why
    assert faster(here.situation)[0] == -1
    assert here.verify(end(s.network, data, "exponential")).verdict == "holds"


def test_the_linear_boundary_of_the_single_neuron_can_be_far_from_that_of_the_svm():
    data = rf.Data(np.array([[1.0, 0.0], [-0.1, 0.3], [0.2, 4.5]]), np.array([1.0, -1.0, -1.0]))
    network = rf.Network.balanced((2, 6, 1), slope=0.5, scale=1e-8, seed=1)
    here = assessed(HINTS, Situation(network, data, rf.loss.exponential))
    assert here.status == "applies", here.why
    found = end(network, data, "exponential")
    assert here.verify(found).verdict == "holds"
    z = found.network.weights[1][0] @ found.W
    z /= np.linalg.norm(z)
    # By hand: negative neurons win, (2, -8/3) has the margins 1/2 * 2 and 1; the linear SVM is (1, -3).
    assert np.allclose(z, [0.6, -0.8], atol=1e-9)
    angles = np.radians(np.linspace(0, 360, 360_001))
    linear = (data.y[:, None] * data.x @ np.array([np.cos(angles), np.sin(angles)])).min(axis=0)
    assert np.isclose(linear.max(), np.sqrt(0.1), rtol=1e-6)
    assert np.isclose((data.y * (data.x @ z)).min(), 0.3, rtol=1e-9)
