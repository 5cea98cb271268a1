"""Phuong and Lampert: one neuron a class on orthogonally separable data."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import rankfall as rf
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.situation import Situation
from rankfall.theory.results.phuong_separable import class_margins, example

RESULT = RESULTS["phuong_lampert"]


def brute_force(x):
    """The shortest w with <w, x_i> >= 1, by sequential quadratic programming."""
    found = minimize(
        lambda w: w @ w / 2,
        np.linalg.lstsq(x, np.full(len(x), 2.0), rcond=None)[0] + x.mean(axis=0),
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": lambda w: x @ w - 1, "jac": lambda w: x},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    return found.x


@pytest.mark.parametrize("seed", range(3))
def test_the_vectors_are_the_hard_margin_solutions_of_each_class_alone(seed):
    data = rf.data.orthogonally_separable(n=12, dim=5, seed=seed)
    ends = class_margins(data.x, data.y)
    for sign, u, strength in ((1, ends.plus, ends.a), (-1, ends.minus, ends.b)):
        w = brute_force(data.x[data.y == sign])
        assert strength == pytest.approx(np.linalg.norm(w), rel=1e-6)
        assert u == pytest.approx(w / np.linalg.norm(w), abs=1e-4)


def test_the_stable_rank_is_that_of_any_matrix_with_these_two_directions_and_strengths():
    data = rf.data.orthogonally_separable(n=12, dim=5, seed=3)
    ends = class_margins(data.x, data.y)
    rng = np.random.default_rng(0)
    shares = [rng.dirichlet(np.ones(4)) * total for total in (ends.a, ends.b)]
    rows = [np.outer(np.sqrt(s), u) for s, u in zip(shares, (ends.plus, ends.minus), strict=True)]
    singular = np.linalg.svd(np.vstack(rows), compute_uv=False)
    assert ends.stable_rank == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-12)


def test_no_network_of_two_layers_has_a_larger_normalised_margin():
    # Weak duality: |theta|^2 >= 2 sum_i lambda_i if no unit neuron collects more than 1 from the multipliers.
    data = rf.data.orthogonally_separable(n=10, dim=3, seed=0)
    ends = class_margins(data.x, data.y)
    multipliers = np.zeros(10)
    for sign, strength in ((1, ends.a), (-1, ends.b)):
        own = data.x[data.y == sign]
        w = brute_force(own)
        active = np.flatnonzero(own @ w < 1 + 1e-6)
        alpha = np.linalg.lstsq(own[active].T, w, rcond=None)[0]
        multipliers[np.flatnonzero(data.y == sign)[active]] = alpha / strength
    assert multipliers.min() > -1e-6
    u = np.random.default_rng(0).normal(size=(200_000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    collected = np.abs(np.maximum(u @ data.x.T, 0) @ (multipliers * data.y))
    assert 0.98 < collected.max() <= 1 + 1e-6
    assert 2 * multipliers.sum() == pytest.approx(2 * (ends.a + ends.b), rel=1e-6)


def test_scipys_flow_in_the_loss_clock_goes_to_the_two_vectors():
    s = example().situation
    x, y, m, d = s.x, s.y, *s.w.shape

    def velocity(_, theta):
        w, a = theta[: m * d].reshape(m, d), theta[m * d :]
        h = x @ w.T
        q = y * (np.maximum(h, 0) @ a)
        r = np.exp(q.min() - q)
        r = y * r / r.sum()
        return np.concatenate([(a[:, None] * ((h > 0).T * r @ x)).ravel(), r @ np.maximum(h, 0)])

    start = np.concatenate([s.w.ravel(), s.a])
    theta = solve_ivp(velocity, (0, 18), start, method="RK45", rtol=1e-6, atol=1e-8).y[:, -1]
    w, a = theta[: m * d].reshape(m, d), theta[m * d :]
    q = (y * (np.maximum(x @ w.T, 0) @ a)).min()
    ends = class_margins(x, y)
    assert q > 100
    assert (a[a > 0] ** 2).sum() / q == pytest.approx(ends.a, rel=0.01)
    assert (a[a < 0] ** 2).sum() / q == pytest.approx(ends.b, rel=0.01)
    along = np.where(a[:, None] > 0, ends.plus, ends.minus)
    assert w == pytest.approx(np.abs(a)[:, None] * along, abs=0.05 * np.abs(w).max())


def test_a_late_run_is_where_it_should_be_within_what_its_certificate_allows():
    s = example().situation
    until = rf.Until(log_time=300.0)
    run = rf.exact_flow(s.network, s.data, "exponential", until, clock="loss", measures=["loss"], show=False)
    verdicts = {v.prediction.name: v for v in assessed(RESULT, s).verify(run)}
    for name in ("directions", "strengths", "norm", "stable rank", "blocks of rank one"):
        assert verdicts[name].verdict == "holds"
    assert verdicts["multipliers"].verdict == "not measured"


def test_a_neuron_never_loses_a_sample_of_its_sign_and_never_wins_one_of_the_other():
    s = example().situation
    run = rf.exact_flow(s.network, s.data, "exponential", 30.0, measures=["weights"], show=False)
    m, d = s.w.shape
    w = run["weights"].values[:, : m * d].reshape(-1, m, d)
    gain = np.diff(w @ s.x.T, axis=0) * np.sign(np.outer(s.a, s.y))
    assert gain.min() > -1e-12
    assert gain.max() > 0.01


@pytest.mark.parametrize("scale", [1e-2, 1.0, 5.0])
def test_the_end_is_the_same_from_starts_of_any_size(scale):
    data = example().situation.data
    network = rf.Network.balanced((6, 12, 1), slope=0.0, scale=scale, seed=2)
    end = rf.limit(network, data, "logistic", optimality=False, show=False)
    ends = class_margins(data.x, data.y)
    assert end.reached
    assert end.norm**2 == pytest.approx(2 * (ends.a + ends.b), rel=1e-9)
    assert end.stable_rank == pytest.approx(ends.stable_rank, rel=1e-9)


def test_it_holds_where_the_classes_are_orthogonal_to_each_other_and_neurons_end_at_kinks():
    rng = np.random.default_rng(0)
    x = np.zeros((6, 6))
    x[:3, :3], x[3:, 3:] = np.abs(rng.normal(size=(2, 3, 3)))
    data = rf.Data(x, np.repeat([1.0, -1.0], 3))
    network = rf.Network.balanced((6, 12, 1), slope=0.0, scale=1e-2, seed=0)
    here = assessed(RESULT, Situation(network, data, rf.loss.exponential))
    assert here.status == "applies"
    assert here.verify(rf.limit(network, data, optimality=False, show=False)).verdict == "holds"


def test_the_first_layers_bias_is_a_coordinate_of_the_inputs():
    data = rf.data.orthogonally_separable(n=8, dim=4, seed=2, angle=np.pi)
    data = rf.Data(4 * data.x, data.y)
    first, second = rf.Network.balanced((5, 10, 1), slope=0.0, scale=1e-2, seed=1).weights
    network = rf.Network([first[:, :4], second], [first[:, 4], None])
    here = assessed(RESULT, Situation(network, data, rf.loss.exponential))
    assert here.status == "applies"
    assert here.verify(rf.limit(network, data, optimality=False, show=False)).verdict == "holds"


def test_the_fate_of_a_neuron_that_sees_no_support_vector_is_left_open():
    far = np.radians(85)
    data = rf.Data([[1, 0], [20 * np.cos(far), 20 * np.sin(far)], [0, -1]], [1.0, 1.0, -1.0])
    lengths, angles = np.sqrt([0.0046, 1e-6, 1e-4]), np.radians([85, 174.9, -95])
    first = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    network = rf.Network([first, [[lengths[0], lengths[1], -lengths[2]]]])
    here = rf.theory.assess(network, data, "exponential")["phuong_lampert"]
    end = rf.limit(network, data, "exponential", optimality=False, show=False)
    assert here.status == "applies"
    assert end.reached
    assert end.W[1] @ data.x[1] <= 1e-6 * np.linalg.norm(end.W[0])  # active on x_2 at the start, it vanished
    assert first[1] @ data.x[1] > 0
    assert here.verify(end).verdict == "holds"
