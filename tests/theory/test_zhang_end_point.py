import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sklearn.svm import SVC

from rankfall import Data, Network, flow, limit
from rankfall.data import beta, covariance, symmetric_sine, symmetrise
from rankfall.theory import RESULTS, Situation, assess, assessed
from rankfall.theory.results.zhang_end_point import weights_of
from rankfall.theory.results.zhang_time_course import mirror_pairs

DATA = symmetric_sine(pairs=12, dim=3, seed=0)
LABELLED = RESULTS["end_point_logistic"].example().situation.data
SLOPES = (0.0, 0.3)


def linear_map(network):
    first, second = network.weights
    return (1 + float(network.slope)) / 2 * (second @ first)[0]


def weights(network):
    return np.concatenate([np.ravel(w) for w in network.weights])


# The square loss


@pytest.mark.parametrize("slope", SLOPES)
def test_the_certified_end_of_the_square_loss_is_the_least_squares_solution(slope):
    network = Network.rank_one((3, 6, 1), slope, scale=0.3, seed=1)
    end = limit(network, DATA, "square", optimality=False)
    assert end.reached
    normal = np.linalg.solve(covariance(DATA), beta(DATA))
    np.testing.assert_allclose(linear_map(end.network), normal, rtol=1e-9)
    verification = assess(network, DATA, "square")["end_point_square"].verify(end)
    assert {v.verdict for v in verification} == {"holds"}


def reduced_flow(data, slope, d, z0):
    """The end of v' = c z.g, z' = c v g with g = <y x> - c v <x x^T> z, by SciPy: W2 = v d, W1 = d^T z^T."""
    c, sigma, b = (1 + slope) / 2, covariance(data), beta(data)

    def velocity(_, state):
        v, z = state[0], state[1:]
        g = b - c * v * sigma @ z
        return c * np.append(z @ g, v * g)

    start = np.append(np.linalg.norm(d), z0)
    v, *z = solve_ivp(velocity, (0, 400), start, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    unit = d / np.linalg.norm(d)
    return np.concatenate([np.outer(unit, z).ravel(), v * unit])


@pytest.mark.parametrize("size", [1.0, 0.4])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_weights_follow_from_what_is_conserved_also_outside_of_the_span_of_the_data(slope, size):
    """Two pairs in three dimensions, so that a part of W1 never moves; the first layer `size` times r."""
    data = Data(DATA.x[[0, 1, 12, 13]], DATA.y[[0, 1, 12, 13]])
    first, second = Network.rank_one((3, 6, 1), slope, scale=0.5, seed=1).weights
    network = Network([size * first, second], slope=slope)
    z0 = size * first.T @ second[0] / np.linalg.norm(second)
    expected = reduced_flow(data, slope, second[0], z0)
    values = {p.name: p.value for p in assess(network, data, "square")["end_point_square"].predictions}
    np.testing.assert_allclose(values["weights"], expected, atol=1e-8)
    assert np.linalg.norm(data.x @ z0) < np.linalg.norm(data.x, 2) * np.linalg.norm(z0)


def test_the_weights_compute_their_target_and_keep_what_is_conserved():
    s = Situation(Network.rank_one((3, 6, 1), 0.3, scale=0.5, seed=1), DATA, "square")
    target, across = np.array([1.0, -2.0, 0.0]), np.array([0.0, 0.0, 0.7])
    flat = weights_of(s, target, 0.4, across)
    first, second = flat[:18].reshape(6, 3), flat[18:]
    np.testing.assert_allclose((0.65 * second @ first)[:2], target[:2], rtol=1e-12)
    assert second @ second - (first**2).sum() == pytest.approx(0.4, rel=1e-12)


def test_a_long_run_arrives_and_a_short_one_is_told_to_go_on():
    network = Network.rank_one((3, 6, 1), 0.0, scale=0.3, seed=1)
    here = assess(network, DATA, "square")["end_point_square"]
    for end, verdict in ((200.0, "holds"), (2.0, "not measured")):
        run = flow(network, DATA, "square", end, measures=["weights", "loss"], show=False)
        verification = here.verify(run)
        assert verification.verdict == verdict
    assert "needs a later state" in verification["weights"].note


def test_weights_opposite_to_the_correlation_on_white_data_end_at_the_saddle_and_not_at_the_minimum():
    data = symmetric_sine(pairs=12, dim=3, seed=0, white=True)
    network = Network.rank_one((3, 6, 1), 0.0, scale=0.3, seed=1, direction=-beta(data))
    run = flow(network, data, "square", 20.0, measures=["loss"], show=False)
    assert np.linalg.norm(linear_map(run.network)) < 1e-3
    assert run.loss.values[-1] == pytest.approx((data.y**2).mean() / 2, rel=1e-4)
    assert assess(network, data, "square")["end_point_square"].status == "does not apply"


def test_small_random_weights_end_near_though_they_are_outside_of_the_hypotheses():
    network = Network.gaussian((3, 40, 1), 0.3, scale=1e-3, seed=2)
    here = assess(network, DATA, "square")["end_point_square"]
    assert here.status == "applies up to a violation"
    run = flow(network, DATA, "square", 300.0, rtol=1e-6, measures=["weights", "loss"], show=False)
    verdict = here.verify(run)["least squares"]
    assert verdict.verdict == "outside its hypotheses"
    assert verdict.error < 1e-3


# Labels


def scikit_learn_svm(data):
    return SVC(kernel="linear", C=1e10, tol=1e-10).fit(data.x, data.y).coef_[0]


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("slope", SLOPES)
def test_the_certified_limit_on_separable_symmetric_data_is_the_hard_margin_svm(slope, loss):
    network = Network.rank_one((3, 6, 1), slope, scale=0.3, seed=1)
    end = limit(network, LABELLED, loss, optimality=False)
    assert end.reached
    np.testing.assert_allclose(linear_map(end.network), scikit_learn_svm(LABELLED), rtol=1e-5)
    verification = assess(network, LABELLED, loss)["end_point_logistic"].verify(end)
    assert {v.verdict for v in verification} == {"holds"}


def test_at_the_limit_both_layers_have_the_norm_that_the_svm_asks_for():
    """c |W2|^2 = |w| for weights W1 = W2^T r^T that compute w."""
    network = Network.rank_one((3, 6, 1), 0.3, scale=0.3, seed=1)
    values = {p.name: p.value for p in assess(network, LABELLED)["end_point_logistic"].predictions}
    expected = np.sqrt(np.linalg.norm(scikit_learn_svm(LABELLED)) / 0.65)
    first, second = values["weights"][:18], values["weights"][18:]
    assert np.linalg.norm(first) == pytest.approx(expected, rel=1e-5)
    assert np.linalg.norm(second) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(second / network.weights[1][0], expected / 0.3, rtol=1e-5)


def test_a_late_state_is_as_near_to_the_svm_as_the_pulls_of_the_samples_off_the_margin_say():
    """At s = 10 the KKT residual is below 1 %, and the map still 63 % away from the SVM: too early."""
    network = Network.rank_one((3, 6, 1), 0.3, scale=0.3, seed=1)
    here = assess(network, LABELLED)["end_point_logistic"]
    for end, verdict in ((10.0, "not measured"), (22.0, "holds")):
        run = flow(network, LABELLED, "logistic", end, clock="loss", measures=["weights", "loss"], show=False)
        assert here.verify(run).verdict == verdict
    svm = scikit_learn_svm(LABELLED)
    found = linear_map(run.network)
    off = np.linalg.norm(found / (LABELLED.y * (LABELLED.x @ found)).min() - svm) / np.linalg.norm(svm)
    assert off < here.verify(run)["hard-margin SVM"].tolerance.high < 0.2


def test_the_advice_tells_the_margin():
    s = RESULTS["end_point_logistic"].example().situation
    margin = 1 / np.linalg.norm(scikit_learn_svm(LABELLED))
    assert f"margin {margin:.3g}" in RESULTS["end_point_logistic"].advice(s)


@pytest.mark.parametrize("name", ["end_point_square", "end_point_logistic"])
def test_the_mirror_images_of_fewer_samples_than_features_are_no_exception(name):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 6))
    data = mirror_pairs(symmetrise(Data(x, [1.0, -1.0, 1.0])))
    loss = "square" if name.endswith("square") else "logistic"
    network = Network.rank_one((6, 8, 1), 0.0, scale=0.3, seed=1)
    end = limit(network, data, loss, optimality=False)
    here = assessed(RESULTS[name], assess(network, data, loss).situation)
    assert {v.verdict for v in here.verify(end)} == {"holds"}
    if loss == "square":
        values = {p.name: p.value for p in here.predictions}
        np.testing.assert_allclose(weights(end.network), values["weights"], atol=1e-9)
        assert values["global minimum"] < 1e-20
