"""The flow comes to rest without separating the data, or at a minimum of the square loss: proved."""

from functools import cache

import equinox as eqx
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rankfall as rf
from rankfall.data import Data
from rankfall.limits import Limit, Verdict
from rankfall.limits._fixed import FixedSecondLayer
from rankfall.limits._rest import derivatives, rest_point
from rankfall.plot import limit_figure

LOSSES = ("exponential", "logistic", "square")


def noisy(n=12, d=2, seed=0, flipped=0.25):
    """A half-space, with some labels wrong."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Data(x, np.where(x[:, 0] > 0, 1.0, -1.0) * np.where(rng.random(n) < flipped, -1, 1), "noisy")


def start(m=2, d=2, slope=0.1, seed=0):
    return rf.Network.fixed_second_layer((d, m, 1), slope=slope, sigma=0.3, seed=seed)


@cache
def end_of(loss, slope=0.1):
    return rf.limit(start(slope=slope), noisy(), loss, seconds=60, show=False)


def losses(name, y, f):
    """The loss of each sample, and its pull."""
    if name == "square":
        return (y - f) ** 2 / 2, y - f
    if name == "logistic":
        return np.logaddexp(0, -y * f), y / (1 + np.exp(y * f))
    return np.exp(-y * f), y * np.exp(-y * f)


def by_scipy(network, data, loss, time):
    """The first layer of the flow with kinks rounded off a little, by SciPy's integrator."""
    w, a, alpha, width = network.weights[0], network.weights[1][0], float(network.slope), 1e-6

    def flow(_, v):
        z = v.reshape(w.shape) @ data.x.T
        size = np.sqrt(z**2 + width**2)
        pulls = losses(loss, data.y, a @ (alpha * z + (1 - alpha) * (z + size) / 2))[1]
        return ((a[:, None] * (alpha + (1 - alpha) * (1 + z / size) / 2) * pulls) @ data.x).ravel()

    run = solve_ivp(flow, (0, time), np.ravel(w), method="LSODA", rtol=1e-9, atol=1e-11)
    return run.y[:, -1].reshape(w.shape)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_end_is_proved_and_is_where_scipy_takes_the_flow(loss):
    end, data = end_of(loss), noisy()
    assert end.verdict is Verdict.AT_REST, end.missing
    assert end.verdict.finished
    report = end.certificate().check((data.x.tolist(), data.y.tolist()))
    assert report.accepted, str(report)
    w = by_scipy(start(), data, loss, 20_000)
    z = w @ data.x.T
    f = end.network.weights[1][0] @ np.where(z > 0, z, 0.1 * z)
    each = losses(loss, data.y, f)[0]
    assert end.settings["loss_at_end"] == pytest.approx(each.mean(), rel=1e-4)
    np.testing.assert_allclose(end.margins * (1 if loss == "square" else data.y), f, atol=1e-2)
    assert end.residuals["gradient"] < 1e-12


@pytest.mark.parametrize("loss", LOSSES)
def test_it_says_what_it_knows(loss, tmp_path):
    end = end_of(loss)
    told = str(end)
    assert told.startswith("Limit: at rest")
    assert "the loss has a minimum here" in told
    assert "comes to rest in a minimum; the loss there" in told
    assert ("misclassifies 1 of 12 samples" in told) == (loss != "square")
    assert "at rest" in end._repr_html_()
    assert end.reached == (loss == "square")
    assert end.settings["error_over_room"] < 0.1
    again = Limit.load(end.to_netcdf(tmp_path / "end.nc"))
    assert again.verdict is Verdict.AT_REST
    assert again.document == end.document
    assert str(again) == told
    assert "at rest" in limit_figure(end, noisy()).axes[0].get_title(loc="left")


def test_the_flow_from_the_rest_point_stays_there():
    """A search that goes on from the last state says the same."""
    end = end_of("logistic")
    again = rf.limit(end, noisy(), "logistic", seconds=60, show=False)
    assert again.verdict is Verdict.AT_REST
    np.testing.assert_allclose(again.W, end.W, atol=1e-6)


def test_samples_that_occur_twice_count_twice():
    data = noisy()
    twice = Data(np.repeat(data.x, 2, axis=0), np.repeat(data.y, 2), "twice")
    end = rf.limit(start(), twice, "square", seconds=60, show=False)
    assert end.verdict is Verdict.AT_REST, end.missing
    np.testing.assert_allclose(end.W, end_of("square").W, atol=1e-6)
    assert end.certificate().check((twice.x.tolist(), twice.y.tolist())).accepted


def test_more_features_than_samples_are_fitted():
    rng = np.random.default_rng(3)
    data = Data(rng.normal(size=(5, 12)), rng.normal(size=5), "targets")
    end = rf.limit(start(m=4, d=12, slope=0.5), data, "square", seconds=60, show=False)
    assert end.verdict is Verdict.AT_REST, (end.verdict, end.missing)
    assert end.settings["end"] == "interpolates"
    claim = end.document["claims"][0]
    assert float.fromhex(claim["upper"]) == 0
    assert end.certificate().check((data.x.tolist(), data.y.tolist())).accepted


def test_after_an_approximate_route_the_verdict_says_so():
    """The state is proved to be near a minimum, and that the flow comes to that state is not known."""
    near = search(end_of("logistic").state, noisy(), "logistic")
    near.route = "adaptive flow to rtol 0.0001"
    found = near.at_rest(near.near_kinks())
    assert found.verdict is Verdict.APPROXIMATE_ROUTE
    assert found.certificate().check().accepted
    assert "error" not in found.settings


POSITIVE = np.column_stack([np.linspace(1, 2, 8), np.linspace(2, 1, 8) ** 2])


def positive():
    """Samples that all neurons are active on, with labels that nothing linear fits."""
    network = rf.Network([[[1.0, 0.5], [0.5, 1.0]], [[1.0, -1.0]]], None, 0.0, trained=(True, False))
    return network, Data(POSITIVE, [1.0, -1, 1, 1, -1, -1, 1, -1], "positive")


@pytest.mark.parametrize("loss", LOSSES)
def test_neurons_of_both_signs_may_move_together_and_change_nothing(loss):
    """Then the minimum is not unique, but that the flow comes to rest in one is proved all the same."""
    end = rf.limit(*positive(), loss, seconds=60, show=False)
    assert end.verdict is Verdict.AT_REST, (end.verdict, end.missing)
    assert [group["neurons"] for group in end.document["claims"][0]["groups"]] == [[0, 1]]
    assert end.certificate().check().accepted


def test_what_cannot_be_proved_is_followed():
    """Three points with two targets each, and twelve weights: the minima are many, and not of one group."""
    x = np.repeat([[1.0, 0.2], [-0.3, 1.0], [-0.5, -1.0]], 2, axis=0)
    data = Data(x, [1.0, 2.0, -1.0, -3.0, 2.0, 0.5], "contradictions")
    end = rf.limit(start(m=6, slope=0.5), data, "square", seconds=60, show=False)
    assert end.verdict is Verdict.FOLLOWED, (end.verdict, end.missing)
    assert end.document is None
    assert end.settings["loss_at_end"] == pytest.approx((0.25 + 0.25 + 1 + 1 + 0.5625 * 2) / 12)


# --- the candidate ------------------------------------------------------------------------------------------


def search(network, data, loss):
    return FixedSecondLayer(
        network,
        data,
        rf.loss.named(loss),
        tol=1e-10,
        budget=10,
        seconds=60,
        large=20_000,
        optimality=False,
        show=False,
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("away", [1e-2, 1e-4, 1e-8])
def test_newton_finds_the_same_minimum_from_states_next_to_it(loss, away):
    end = end_of(loss)
    other = end.W + away * np.random.default_rng(1).normal(size=end.W.shape)
    network = eqx.tree_at(lambda n: n.weights[0], end.network, other)
    near = search(network, noisy(), loss)
    found = near.candidate(None)
    if away == 1e-2 and found is None:  # too far to tell is an answer
        return
    np.testing.assert_allclose(near.to_user(found.w), end.W, atol=1e-7)
    assert ((found.side == 0) == (end.region == 0)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_no_weights_next_to_the_minimum_have_less_loss(loss):
    end = end_of(loss)
    near = search(end.network, noisy(), loss)
    least = derivatives(near.walk.pull, near.walk.outputs_of(near.walk.weights))[2]
    rng = np.random.default_rng(0)
    data, a = noisy(), end.network.weights[1][0]
    for size in 10.0 ** -np.arange(2, 7):
        for _ in range(20):
            z = (end.W + size * rng.normal(size=end.W.shape)) @ data.x.T
            each = losses(loss, data.y, a @ np.where(z > 0, z, 0.1 * z))[0]
            assert each.sum() >= least * (1 - 1e-13)


def test_a_flow_that_separates_the_data_is_near_no_minimum():
    data = rf.data.gaussian_mixture(n=6, dim=20, seed=0)
    network = rf.Network.fixed_second_layer((20, 4, 1), slope=0.1, sigma=1e-2, seed=0)
    near = search(network, data, "exponential")
    for _ in range(30):
        near.walk.advance()
        assert rest_point(near.walk) is None


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_inputs_on_a_line_come_to_rest_where_scipy_takes_them(seed):
    """Rounding makes the inputs independent, so that nothing is proved; but nothing moves any more."""
    rng = np.random.default_rng(seed)
    along, direction = rng.normal(size=4), rng.normal(size=5)
    y = rng.choice([-1.0, 1.0], 4)
    y[0] = -y[1]
    data = Data(np.outer(along, direction), y)
    network = rf.Network.fixed_second_layer((5, 2, 1), slope=0.5, sigma=0.3, seed=seed)
    end = rf.limit(network, data, seconds=60, show=False)
    assert end.verdict is Verdict.FOLLOWED
    assert end.settings["end"].startswith("rest point")
    w = by_scipy(network, data, "exponential", 500)
    z = w @ data.x.T
    q = y * (network.weights[1][0] @ np.where(z > 0, z, 0.5 * z))
    np.testing.assert_allclose(end.margins, q, atol=1e-4)
    assert f"{(q <= 0).sum()} of 4" in end.settings["end"]
