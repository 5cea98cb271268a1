"""KKT points of the margin problem as the limits of flows, against scikit-learn, SciPy and brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC

import rankfall as rf
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.results.lyu_kkt import _end, _features, _slopes, example

KKT = RESULTS["margin_kkt"]


@pytest.fixture(scope="module")
def evidence():
    """The limit of the example."""
    here = example()
    return Evidence(here.situation, here.evidence())


def test_the_limit_is_the_hard_margin_svm_of_scikit_learn_in_its_own_features(evidence):
    end, y = _end(evidence), evidence.situation.y
    svm = SVC(kernel="precomputed", C=1e9, tol=1e-10)
    # The SVM has an intercept, a constraint on the multipliers; mirror images of all samples remove it.
    rows, labels = np.vstack([end.features, -end.features]), np.repeat([1.0, -1.0], len(y))
    svm.fit(rows @ rows.T, labels)
    found = svm.dual_coef_[0] @ rows[svm.support_]
    assert len(evidence.limit.kinks) > 0
    assert np.allclose(2 * found, end.theta, atol=1e-5 * np.linalg.norm(end.theta))


def test_the_features_are_gradients_by_finite_differences_where_there_is_no_kink(evidence):
    s = evidence.situation
    network = rf.Network.gaussian((4, 3, 3, 1), slope=0.2, scale=1.0, seed=5)
    theta, rows = _features(network, s)
    sizes = np.cumsum([w.size for w in network.weights])[:-1]

    def margins(flat):
        parts = [p.reshape(w.shape) for p, w in zip(np.split(flat, sizes), network.weights, strict=True)]
        return s.y * np.asarray(rf.Network(parts, slope=0.2)(s.data.x))

    step = 1e-6
    numeric = [
        (margins(theta + step * e) - margins(theta - step * e)) / (2 * step) for e in np.eye(len(theta))
    ]
    assert np.allclose(rows, np.array(numeric).T, atol=1e-8)
    assert np.allclose(rows @ theta, 3 * margins(theta), atol=1e-12)  # Euler: homogeneous of order 3


def test_the_slopes_at_the_kinks_lie_between_the_leaky_slope_and_one(evidence):
    slopes = _slopes(evidence)
    assert slopes.min() >= 0.1 - 1e-12
    assert slopes.max() <= 1 + 1e-12
    between = (slopes > 0.1 + 1e-9) & (slopes < 1 - 1e-9)
    assert between.any()
    pre = evidence.last.w @ evidence.last.x.T
    assert np.abs(pre[between]).max() < 1e-12


def test_no_shorter_weights_near_the_limit_have_the_margin_one(evidence):
    # First order only: SciPy's SLSQP from the limit finds nothing shorter among the same signs.
    s, end = evidence.situation, _end(evidence)

    def margins(theta):
        w, a = theta[:16].reshape(4, 4), theta[16:]
        z = s.x @ w.T
        return s.y * (np.where(z > 0, z, 0.1 * z) @ a)

    assert np.allclose(margins(end.theta).min(), 1, atol=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = end.theta + 1e-3 * rng.normal(size=20)
        found = minimize(
            lambda t: t @ t / 2,
            start,
            jac=lambda t: t,
            constraints={"type": "ineq", "fun": lambda t: margins(t) - 1},
        )
        assert margins(found.x).min() < 1 - 1e-9 or found.fun >= end.theta @ end.theta / 2 - 1e-6


@pytest.mark.parametrize("trained", [(True, False), (True, True)])
def test_multipliers_add_up_to_the_squared_norm_over_the_order_for_one_sample_a_side(trained):
    # Orthogonal samples: with both layers one neuron a sample, |w| = |a|, a |w| |x| = 1, lambda = 1/|x|.
    data = rf.Data(np.diag([1.0, 2.0]), np.array([1.0, -1.0]))
    w = np.array([[0.2, 0.1], [0.1, 0.3]])
    network = rf.Network([w, [[0.3, -0.4]]], slope=0.0, trained=trained)
    end = rf.limit(network, data, "exponential", optimality=False, show=False)
    assert end.reached
    expected = [1.0, 0.5] if trained[1] else [1 / 0.3**2, 1 / 0.4**2 / 4]
    assert np.allclose(end.multipliers, expected, rtol=1e-9)
    verified = assessed(KKT, Situation(network, data, rf.loss.exponential)).verify(end)
    assert verified.verdict == "holds"
    assert np.isclose(end.norm**2, (2 if trained[1] else 1) * end.multipliers.sum(), rtol=1e-9)


def test_a_late_run_of_three_linear_layers_is_its_own_svm_up_to_its_kkt_residual():
    data = rf.data.orthogonally_separable(n=4, dim=3, seed=0)
    network = rf.Network.balanced((3, 3, 3, 1), slope=1.0, scale=0.1, seed=1)
    late = rf.flow(
        network, data, "exponential", rf.Until(loss=1e-250), clock="loss", record=[1.0], show=False
    )
    verified = assessed(KKT, Situation(network, data, rf.loss.exponential)).verify(late)
    told = {v.prediction.name: (v.verdict, v.error, v.note) for v in verified}
    assert all(v.verdict == "holds" for v in verified), told


def test_what_does_not_separate_the_data_is_not_judged(evidence):
    s = evidence.situation
    forged = replace(evidence.limit, network=s.network)
    verified = assessed(KKT, s).verify(forged)
    assert verified["Euler"].verdict == "not measured"
    assert "separates" in verified["Euler"].note
