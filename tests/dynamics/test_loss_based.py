from dataclasses import replace

import jax
import numpy as np
import pytest

from rankfall import Data, LossBased, Network, Trajectory, every
from rankfall._precision import float64
from rankfall.data import gaussian_mixture
from rankfall.outcome import Outcome
from tests.dynamics.paced import SHORT, paced

descent = paced()
RNG = np.random.default_rng(3)
DATA = Data(RNG.normal(size=(10, 4)), np.resize([1.0, -1.0], 10))
START = Network.gaussian((4, 6, 1), 0.3, 1.5, 2)
RULE = LossBased(first=0.3)
ORDER = {"batch": 4, "seed": 7}  # batches of 4, 4 and 2
MEASURES = ["log_loss", "norms"]


# The oracle: the mean logistic loss of two layers and its gradient by hand, without logarithms


def loss_and_gradient(weights, data, samples):
    (w1, w2), slope = weights, float(START.slope)
    x, y = data.x[samples], data.y[samples]
    z = x @ w1.T
    sigma = np.where(z > 0, 1.0, slope)
    q = y * ((sigma * z) @ w2[0])
    with np.errstate(over="ignore"):
        loss, pull = np.log1p(np.exp(-q)).mean(), -y / (1 + np.exp(q)) / len(y)
    return loss, [(sigma * pull[:, None] * w2[0]).T @ x, pull[None, :] @ (sigma * z)]


def batches(epoch, batch, seed):
    with float64():
        key = jax.random.fold_in(jax.random.key(np.uint32(seed)), epoch)
        order = np.asarray(jax.random.permutation(key, DATA.n))
    return [order[i : i + batch] for i in range(0, DATA.n, batch)]


def by_hand(epochs, rule, batch=None, seed=0):
    """The logarithm of the loss, the rate and the epochs kept after every epoch tried; and the weights."""
    everything = np.arange(DATA.n)
    weights, rate, kept = START.weights, rule.first, 0
    first = rule.loss or loss_and_gradient(weights, DATA, everything)[0]
    loss, rows = first, []
    for epoch in range(epochs):
        tried = weights
        for samples in [everything] if batch is None else batches(epoch, batch, seed):
            _, gradient = loss_and_gradient(tried, DATA, samples)
            tried = [w - rate * first / loss * g for w, g in zip(tried, gradient, strict=True)]
        there, _ = loss_and_gradient(tried, DATA, everything)
        if there < loss:
            weights, loss, rate, kept = tried, there, rate * rule.up, kept + 1
        else:
            rate /= rule.down
        rows.append((np.log(loss_and_gradient(weights, DATA, everything)[0]), rate, kept))
    return np.array(rows).T, weights


@pytest.mark.parametrize("rule", [RULE, replace(RULE, loss=2.0, up=1.5, down=1.3)])
@pytest.mark.parametrize("batches", [{}, ORDER], ids=["full batches", "SGD"])
def test_loss_based_descent_is_the_loop_by_hand_after_every_epoch(rule, batches):
    run = descent(START, DATA, "logistic", rule, epochs=60, measures=MEASURES, **batches)
    (log_loss, rate, kept), weights = by_hand(60, rule, **batches)
    assert 10 < kept[-1] < 50
    np.testing.assert_array_equal(run.epochs_kept[1:], kept)
    np.testing.assert_allclose(run.rate[1:], rate, rtol=1e-13)
    np.testing.assert_allclose(run.log_loss[1:], log_loss, rtol=1e-8)
    for found, expected in zip(run.network.weights, weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert (run.rate[0], run.epochs_kept[0]) == (rule.first, 0)


def test_the_loss_never_rises_and_the_rate_counts_what_was_kept_and_taken_back():
    run = descent(START, DATA, "logistic", RULE, epochs=500, measures=MEASURES, **ORDER)
    tries, kept = np.arange(501), run.epochs_kept.values
    same = np.diff(kept) == 0
    assert 0 < same.sum() < 500
    assert (np.diff(run.log_loss)[same] == 0).all()
    assert (np.diff(run.log_loss)[~same] < 0).all()
    np.testing.assert_allclose(run.rate, RULE.first * RULE.up**kept / RULE.down ** (tries - kept), rtol=1e-12)
    np.testing.assert_array_equal(run.epoch, tries)


@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_far_below_the_smallest_number_do_not_underflow(dtype, batch):
    # L = exp(-w) on both samples: every step of rate r adds r exp(-w_0) exp(w_k - w), w_k being the weight
    # after the last epoch, and all epochs are kept. With full batches w_n = w_0 + L_0 r (1 + u + u^2 + ...).
    data = Data(np.array([[1.0], [-1.0]], dtype=dtype), [1.0, -1.0])
    start = Network([np.array([[0.5]], dtype=dtype)])
    rule, rtol = LossBased(first=0.1, up=1.1), 1e-4 if dtype is np.float32 else 1e-12
    run = descent(start, data, "exponential", rule, epochs=90, batch=batch, measures=["log_loss"])
    w = 0.5
    for epoch in range(90):
        base, size = w, 0.1 * 1.1**epoch * np.exp(-0.5)
        for _ in range(2 if batch else 1):
            w += size * np.exp(base - w)
        np.testing.assert_allclose(-run.log_loss[epoch + 1], w, rtol=rtol)
    assert run.epochs_kept[-1] == 90
    assert w > 3000
    assert run.network.dtype == dtype


def test_an_epoch_that_overflows_is_taken_back():
    run = descent(START, DATA, "square", LossBased(first=1e200, down=10.0), epochs=220, measures=["loss"])
    assert run.outcome is Outcome.MADE
    assert run.epochs_kept[9] == 0
    assert run.epochs_kept[-1] > 0
    assert np.isfinite(run.loss).all()
    assert run.loss[-1] < run.loss[0]


@pytest.mark.parametrize("pace", [SHORT, replace(SHORT, tiny=0)], ids=["together", "apart"])
@pytest.mark.parametrize("batches", [{}, ORDER], ids=["full batches", "SGD"])
def test_of_many_networks_each_has_its_own_rate(pace, batches):
    networks = [Network.gaussian((4, 6, 1), slope, 1.5, seed) for seed, slope in enumerate((0.0, 0.3, 1.0))]
    call = {"epochs": 30, "measures": MEASURES, **batches}
    together = paced(pace)(networks, DATA, "logistic", RULE, along={"slope": [0.0, 0.3, 1.0]}, **call)
    assert together.rate.dims == together.epochs_kept.dims == ("step", "slope")
    assert len(set(together.rate.values[-1])) > 1
    for i, network in enumerate(networks):
        alone = descent(network, DATA, "logistic", RULE, **call)
        for name in ("epochs_kept", "rate", "log_loss", "norms"):
            np.testing.assert_allclose(together[name][:, i], alone[name], rtol=1e-9)


def test_a_run_stopped_inside_an_epoch_returns_the_last_one_kept_and_goes_on_bit_for_bit(tmp_path):
    call = {"measures": MEASURES, "record": every(1), **ORDER}
    whole = descent(START, DATA, "logistic", RULE, 90, **call)
    for steps in range(40, 46):
        half = descent(START, DATA, "logistic", RULE, steps, **call)
        epochs = steps // 3
        assert half.log_loss[-1] == whole.log_loss[3 * epochs]
        np.testing.assert_allclose(np.linalg.norm(half.network.weights[0]), half.norms[-1, 0], rtol=1e-14)
        loaded = Trajectory.load(half.to_netcdf(tmp_path / "half.nc"))
        resumed = descent(START, DATA, "logistic", RULE, 90, **call, resume=loaded)
        assert resumed.dataset.identical(whole.dataset)
        assert resumed.network.weights[0].tobytes() == whole.network.weights[0].tobytes()


def test_a_checkpoint_goes_on_and_that_of_another_rule_is_refused(tmp_path):
    path, call = tmp_path / "run.nc", {"measures": MEASURES, **ORDER}
    descent(START, DATA, "logistic", RULE, epochs=10, checkpoint=path, **call)
    resumed = descent(START, DATA, "logistic", RULE, epochs=30, checkpoint=path, **call)
    assert resumed.dataset.identical(descent(START, DATA, "logistic", RULE, epochs=30, **call).dataset)
    for other in (replace(RULE, up=1.5), RULE.first):
        with pytest.raises(ValueError, match="cannot be resumed by this call: its rule differs"):
            descent(START, DATA, "logistic", other, epochs=40, checkpoint=path, **call)


def test_in_single_precision_on_images_the_loss_falls_below_what_single_precision_holds():
    data = gaussian_mixture(n=20, dim=30, mean_scale=1.0, seed=0)
    images = Data(data.x.astype(np.float32), (data.y + 1) / 2)
    start = Network.gaussian((30, 8, 2), 0.0, 1.0, 0).astype(np.float32)
    run = descent(start, images, "cross_entropy", LossBased(), epochs=600, batch=5, measures=["log_loss"])
    assert run.log_loss[-1] < np.log(np.finfo(np.float32).smallest_subnormal)
    assert run.network.dtype == np.float32


@pytest.mark.parametrize("field", ["first", "up", "down", "loss"])
def test_the_numbers_of_a_rule_must_make_sense(field):
    for value in (-1.0, 0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"`{field}` of LossBased must be a number above"):
            LossBased(**{field: value})


def test_several_rules_for_several_networks_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"give one LossBased for all networks.*run different rules apart"):
        descent([START, START], DATA, "logistic", [RULE, LossBased()], 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_run_from_where_the_loss_is_tiny_needs_a_loss_to_measure_steps_by(dtype):
    data = Data(np.array([[1.0], [-1.0]], dtype=dtype), [1.0, -1.0])
    late = Network([np.array([[900.0]], dtype=dtype)])  # its loss is e^-900
    with pytest.raises(ValueError, match=r"at the start is e\^-900, too small.*LossBased\(loss=1.0\)"):
        descent(late, data, "exponential", LossBased(), epochs=3)
    run = descent(late, data, "exponential", LossBased(loss=1.0), epochs=3, measures=["log_loss"])
    # The first epoch does not move; then each step is the rate, since the gradient of -log L is 1.
    steps = 0.1 * RULE.up ** np.arange(1, 3)
    np.testing.assert_allclose(-run.log_loss, 900 + np.array([0, 0, *np.cumsum(steps)]), rtol=1e-6)
