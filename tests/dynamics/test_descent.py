from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rankfall import Data, DescentWarning, Network, Trajectory, every
from rankfall._precision import float64
from rankfall.data import symmetric_sine
from rankfall.dynamics._descent.shuffle import permutation
from rankfall.outcome import Outcome
from tests.dynamics.paced import SHORT, paced

descent = paced()


def gradient(network, data, samples=slice(None)):
    """The gradient of the mean square loss of two layers without biases, by hand."""
    (w1, w2), slope = network.weights, float(network.slope)
    x, y = data.x[samples], data.y[samples]
    z = x @ w1.T
    sigma = np.where(z > 0, 1.0, slope)
    residual = ((sigma * z) @ w2[0] - y) / len(y)
    return [(sigma * residual[:, None] * w2[0]).T @ x, residual[None, :] @ (sigma * z)]


def moved(network, weights):
    return Network(weights, slope=network.slope)


def loss(network, data):
    z = data.x @ network.weights[0].T
    f = np.where(z > 0, z, float(network.slope) * z) @ network.weights[1][0]
    return ((f - data.y) ** 2 / 2).mean()


def assert_same_weights(found, expected, rtol):
    for a, b in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())


# Theorem 5 of Zhang et al.

SINE = symmetric_sine(pairs=10, dim=3, seed=0)
SIGNS = Data(SINE.x, np.sign(SINE.y))


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize(("name", "data"), [("square", SINE), ("logistic", SIGNS)])
def test_a_leaky_network_is_its_linear_twin_in_rescaled_time(name, data, slope):
    network = Network.rank_one((3, 6, 1), slope, 0.5, 1)
    c = (1 + slope) / 2
    leaky = descent(network, data, name, 0.1, 1000, measures=["loss"], record=every(100))
    linear = descent(network.linear_twin(), data, name, 0.1 * c, 1000, measures=["loss"], record=every(100))
    assert np.linalg.norm(leaky.network.weights[0]) > 1.2 * np.linalg.norm(network.weights[0])
    scaled = moved(network, [np.sqrt(c) * w for w in leaky.network.weights])
    assert_same_weights(scaled, linear.network, rtol=1e-12)
    np.testing.assert_allclose(leaky.loss, linear.loss, rtol=1e-12)


# Against loops by hand

START = Network.gaussian((3, 6, 1), 0.3, 1.5, 2)


def test_descent_is_the_loop_of_a_textbook_at_every_record():
    run = descent(START, SINE, "square", 0.1, 40, measures=["loss"], record=[1, 7, 20])
    network, losses = START, []
    for _ in range(40):
        losses.append(loss(network, SINE))
        steps = gradient(network, SINE)
        network = moved(network, [w - 0.1 * g for w, g in zip(network.weights, steps, strict=True)])
    losses.append(loss(network, SINE))
    np.testing.assert_array_equal(run.step, [0, 1, 7, 20, 40])
    np.testing.assert_allclose(run.loss, np.array(losses)[run.step.values], rtol=1e-12)
    assert_same_weights(run.network, network, rtol=1e-13)


@pytest.mark.parametrize(
    "optimiser", [optax.adam, partial(optax.sgd, momentum=0.9, nesterov=True)], ids=["adam", "momentum"]
)
def test_any_optax_optimiser_makes_the_steps_of_a_plain_loop(optimiser):
    run = descent(START, SINE, "square", 0.03, 20, optimiser=optimiser, measures=["loss"], record=[])
    with float64():
        steps = optimiser(0.03)
        weights = [jnp.asarray(w) for w in START.weights]
        state = steps.init(weights)
        for _ in range(20):
            slopes = gradient(moved(START, [np.asarray(w) for w in weights]), SINE)
            updates, state = steps.update([jnp.asarray(g) for g in slopes], state, weights)
            weights = optax.apply_updates(weights, updates)
    assert_same_weights(run.network, moved(START, weights), rtol=1e-12)


# SGD


def order(seed, epoch, n):
    """The order of the samples in an epoch."""
    with float64():
        key = jax.random.fold_in(jax.random.key(np.uint32(seed)), epoch)
        return np.asarray(jax.random.permutation(key, n))


def test_sgd_is_a_loop_over_shuffled_batches_of_which_the_last_is_smaller():
    run = descent(START, SINE, "square", 0.1, 30, batch=6, seed=4, measures=["loss"], record=every(10))
    network = START
    for step in range(30):  # 20 samples: batches of 6, 6, 6 and 2
        epoch, position = divmod(step, 4)
        batch = order(4, epoch, 20)[6 * position : 6 * position + 6]
        steps = gradient(network, SINE, batch)
        network = moved(network, [w - 0.1 * g for w, g in zip(network.weights, steps, strict=True)])
    assert_same_weights(run.network, network, rtol=1e-12)


def test_every_epoch_visits_every_sample_once():
    # With inputs e_i the output on sample i is w_i alone, and each visit takes it half the way to y_i.
    data, network = Data(np.eye(7), np.arange(1.0, 8.0)), Network([np.zeros((1, 7))])
    run = descent(
        network, data, "square.sum", 0.5, 12, batch=3, measures=["weights"], record=every(3)
    )  # batches of 3, 3 and 1
    left = 0.5 ** np.arange(5)[:, None]
    np.testing.assert_allclose(run.weights, (1 - left) * data.y, rtol=1e-15)


def test_the_seed_decides_the_batches():
    def end(seed):
        return descent(
            START, SINE, "square", 0.1, 30, batch=6, seed=seed, measures=["loss"], record=every(10)
        )

    assert end(4).network.weights[0].tobytes() == end(4).network.weights[0].tobytes()
    assert end(4).network.weights[0].tobytes() != end(5).network.weights[0].tobytes()


def test_a_batch_of_all_samples_is_full_batch_descent():
    options = {"measures": ["loss"], "record": [1, 7, 20]}
    whole = descent(START, SINE, "square", 0.1, 40, **options)
    for batch in (20, 50):
        assert_same_weights(
            descent(START, SINE, "square", 0.1, 40, batch=batch, **options).network, whole.network, 0
        )


# Many at once


@pytest.mark.parametrize(
    ("batch", "measures"), [(None, ["loss", "stable_rank"]), (6, ["loss"])], ids=["full batches", "SGD"]
)
def test_networks_that_run_together_end_where_each_ends_alone(batch, measures):
    networks = [Network.gaussian((3, 6, 1), slope, 1.5, seed) for seed, slope in enumerate((0.0, 0.3, 1.0))]
    sizes = [0.05, 0.1, 0.2]
    options = {"batch": batch, "seed": 4, "measures": measures, "record": every(10)}
    together = descent(networks, SINE, "square", sizes, 30, along={"slope": [0.0, 0.3, 1.0]}, **options)
    assert together.loss.dims == ("step", "slope")
    for i, (network, size) in enumerate(zip(networks, sizes, strict=True)):
        alone = descent(network, SINE, "square", size, 30, **options)
        assert_same_weights(together.networks[i], alone.network, rtol=1e-12)
        assert together.networks[i].slope == network.slope
        assert together.networks[i].origin == network.origin
        for name in measures:
            np.testing.assert_allclose(together[name][:, i], alone[name], rtol=1e-12)
    np.testing.assert_array_equal(together.sel(slope=0.3).loss, together.loss[:, 1])
    with pytest.raises(ValueError, match="3 networks ran together: take one of"):
        _ = together.network


@pytest.mark.parametrize("busy", [0, 1e9], ids=["in turn", "at once"])
@pytest.mark.parametrize("width", [6, 40])
def test_networks_apart_have_the_bits_of_each_alone(busy, width):
    descent = paced(replace(SHORT, tiny=0, busy=busy))
    networks = [Network.gaussian((3, width, 1), 0.3, 1.5, seed) for seed in range(3)]
    options = {"batch": 6, "seed": 4, "measures": ["loss", "stable_rank"], "record": every(10)}
    sizes = [0.05, 0.1, 0.2]
    turns = descent(networks, SINE, "square", sizes, 30, **options)
    for i, (network, size) in enumerate(zip(networks, sizes, strict=True)):
        alone = descent(network, SINE, "square", size, 30, **options)
        assert turns.networks[i].weights[0].tobytes() == alone.network.weights[0].tobytes()
        for name in ("loss", "stable_rank", "batch_loss"):
            assert turns[name][:, i].values.tobytes() == alone[name].values.tobytes()
    half = descent(networks, SINE, "square", sizes, 17, **options)
    resumed = descent(networks, SINE, "square", sizes, 30, **options, resume=half)
    for a, b in zip(resumed.networks, turns.networks, strict=True):
        assert a.weights[0].tobytes() == b.weights[0].tobytes()


@pytest.mark.parametrize("optimiser", [optax.sgd, partial(optax.sgd, momentum=0.9), optax.adam])
def test_a_tall_matrix_runs_on_its_side_as_it_would_upright(optimiser):
    tall = Network.constant_second_layer((3, 40, 2), 0.3, 0.25, 0)
    data = Data(SINE.x, (SINE.y > 0).astype(float))
    options = {"batch": 6, "seed": 4, "optimiser": optimiser, "measures": ["loss", "stable_rank"]}
    turned = descent(tall, data, "cross_entropy", 0.05, 40, **options)
    upright = paced(replace(SHORT, tall=np.inf))(tall, data, "cross_entropy", 0.05, 40, **options)
    assert (3, 40) in {leaf.shape for leaf in turned.state}
    assert (3, 40) not in {leaf.shape for leaf in upright.state}
    assert_same_weights(turned.network, upright.network, rtol=1e-10)
    np.testing.assert_allclose(turned.stable_rank, upright.stable_rank, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 20, 1625, 1626, 5000])
def test_the_order_is_the_one_that_jax_draws(n):
    with float64():
        for seed in range(3):
            key = jax.random.key(seed)
            np.testing.assert_array_equal(permutation(key, n), jax.random.permutation(key, n))


# Epochs


def test_an_epoch_is_once_through_the_data_and_is_recorded():
    run = descent(START, SINE, "square", 0.1, epochs=3, batch=6, seed=4, measures=["loss"])
    np.testing.assert_array_equal(run.step, [0, 4, 8, 12])  # 20 samples: batches of 6, 6, 6 and 2
    np.testing.assert_array_equal(run.epoch, [0, 1, 2, 3])
    full = descent(START, SINE, "square", 0.1, epochs=3, measures=["loss"])
    np.testing.assert_array_equal(full.step, [0, 1, 2, 3])
    assert "batch_loss" not in full.dataset


def test_the_batch_loss_is_the_mean_over_the_batches_since_the_last_record():
    run = descent(START, SINE, "square", 0.1, 6, batch=6, seed=4, measures=["weights"], record=every(1))
    sparse = descent(START, SINE, "square", 0.1, 6, batch=6, seed=4, measures=["weights"], record=[2, 6])
    each = []
    for step in range(6):
        batch = order(4, step // 4, 20)[6 * (step % 4) : 6 * (step % 4) + 6]
        w = run.weights.values[step]
        network = moved(START, [w[:18].reshape(6, 3), w[18:].reshape(1, 6)])
        each.append(loss(network, Data(SINE.x[batch], SINE.y[batch])))
    np.testing.assert_allclose(run.batch_loss[1:], each, rtol=1e-12)
    np.testing.assert_allclose(sparse.batch_loss[1:], [np.mean(each[:2]), np.mean(each[2:])], rtol=1e-12)
    assert np.isnan(run.batch_loss[0])  # no batch yet


# Taking up again

ADAM = {
    "batch": 6,
    "seed": 4,
    "optimiser": optax.adam,
    "measures": ["loss", "stable_rank"],
    "record": every(10),
}


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one_also_from_a_file(tmp_path):
    whole = descent(START, SINE, "square", 0.01, 50, **ADAM)
    first = descent(START, SINE, "square", 0.01, 30, **ADAM)
    loaded = Trajectory.load(first.to_netcdf(tmp_path / "first.nc"))
    for half in (first, loaded):
        run = descent(START, SINE, "square", 0.01, 50, **ADAM, resume=half)
        for a, b in zip(run.network.weights, whole.network.weights, strict=True):
            assert a.tobytes() == b.tobytes()
        np.testing.assert_array_equal(run.step, whole.step)
        for name in ("loss", "stable_rank"):
            assert run[name].values.tobytes() == whole[name].values.tobytes()
        assert run.settings == whole.settings


ONE_STEP = replace(SHORT, seconds=0.0)  # at a time


def test_an_interrupted_run_keeps_what_it_reached_and_can_be_resumed(monkeypatch):
    whole = descent(START, SINE, "square", 0.01, 50, **ADAM)

    def interrupt(self, fraction, note=""):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rankfall._progress.Progress.update", interrupt)
        part = paced(ONE_STEP)(START, SINE, "square", 0.01, 50, **ADAM)
    assert part.statistics.steps == 26
    assert part.outcome is Outcome.INTERRUPTED
    np.testing.assert_array_equal(part.step, [0, 10, 20])
    run = descent(START, SINE, "square", 0.01, 50, **ADAM, resume=part)
    assert run.network.weights[0].tobytes() == whole.network.weights[0].tobytes()
    np.testing.assert_array_equal(run.step, whole.step)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step": 0.02}, "cannot be resumed.* its step differs"),
        ({"seed": 5}, "cannot be resumed.* its seed differs"),
        ({"batch": 5}, "cannot be resumed.* its method, batch differ"),
        ({"optimiser": optax.sgd}, "cannot be resumed.* its optimiser differs"),
        ({"loss": "square.sum"}, "cannot be resumed.* its loss differs"),
        ({"steps": 30}, "has 30 steps already: ask for more"),
        ({"measures": ["loss", "norms"]}, "cannot be resumed.*measures"),
        ({"network": Network.gaussian((3, 7, 1), 0.3, 1.5, 2)}, "cannot be resumed.*network"),
        ({"network": Network.gaussian((3, 6, 1), 0.3, 1.5, 9)}, "cannot be resumed.*network"),
    ],
)
def test_only_the_same_call_can_be_resumed(change, sentence):
    first = descent(START, SINE, "square", 0.01, 30, **ADAM)
    call = {"network": START, "data": SINE, "loss": "square", "step": 0.01, "steps": 50, **ADAM, **change}
    with pytest.raises(ValueError, match=sentence):
        descent(**call, resume=first)


def test_the_settings_of_a_run_are_the_same_in_every_process(tmp_path):
    # A memory address in them would make a run that was loaded impossible to resume.
    momentum = partial(optax.sgd, momentum=0.9, nesterov=True)
    run = descent(
        START, SINE, "square", 0.03, 20, optimiser=momentum, measures=["loss"], record=[], seed=np.int64(3)
    )
    assert " at 0x" not in str(run.settings)
    assert Trajectory.load(run.to_netcdf(tmp_path / "run.nc")).settings == run.settings


# Divergence


def test_the_first_piece_is_one_step_since_nobody_knows_how_long_it_takes(monkeypatch):
    seen = []
    monkeypatch.setattr("rankfall._progress.Progress.update", lambda self, done, note: seen.append(done))
    descent(START, SINE, "square", 0.01, 1000, record=[1000], show=False)
    assert seen[0] == 1 / 1000
    assert seen[-1] == 1


def test_a_run_that_diverges_says_so_and_ends_with_its_last_finite_weights(tmp_path):
    network, count = START, 0
    with np.errstate(all="ignore"):
        while True:
            steps = gradient(network, SINE)
            weights = [w - 3.0 * g for w, g in zip(network.weights, steps, strict=True)]
            if not all(np.isfinite(w).all() for w in weights):
                break
            network, count = moved(network, weights), count + 1
    assert 2 < count < 30
    with pytest.warns(DescentWarning, match="diverged.*smaller `step`"):
        run = descent(START, SINE, "square", 3.0, 30, measures=["loss"], record=every(1))
    assert run.outcome is Outcome.DIVERGED
    assert all(np.isfinite(w).all() for w in run.network.weights)
    assert count - 2 <= run.statistics.steps <= count
    loaded = Trajectory.load(run.to_netcdf(tmp_path / "run.nc"))
    assert loaded.network.weights[0].tobytes() == run.network.weights[0].tobytes()


# Single precision


def test_single_precision_stays_single_and_is_close_to_double():
    double = descent(START, SINE, "square", 0.1, 40, measures=["loss"], record=[1, 7, 20])
    start = Network([w.astype(np.float32) for w in START.weights], slope=0.3)
    data = Data(SINE.x.astype(np.float32), SINE.y)
    single = descent(start, data, "square", 0.1, 40, measures=["loss"], record=[1, 7, 20])
    assert single.network.dtype == single.loss.dtype == np.float32
    np.testing.assert_allclose(single.loss, double.loss, rtol=1e-5)


# Bad input


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": []}, "no network to run"),
        ({"step": 0.0}, "step size must be positive, not 0"),
        ({"step": np.nan}, "step size must be positive"),
        ({"network": [START, START], "step": [0.1, 0.1, 0.1]}, "2 networks, but 3 step sizes"),
        ({"network": [START, Network.gaussian((3, 5, 1), 0.3, 1.0, 0)]}, "must agree in widths"),
        ({"network": [START, START], "along": {"slope": [0.1]}}, "a label for each of the 2 networks"),
        ({"steps": 0}, "number of steps must be a whole number of at least 1, not 0"),
        ({"steps": 2.5}, "number of steps must be a whole number"),
        ({"batch": 0}, "batch size must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed"),
        ({"loss": "logistic"}, r"needs labels -1 and \+1"),
        ({"loss": "huber"}, "unknown loss 'huber'"),
        ({"measures": ["loss", "rnk"]}, "unknown measure 'rnk'. Did you mean 'rank'"),
        ({"record": [50]}, "times between 0 and 4"),
        ({"network": Network.gaussian((4, 5, 1), 0.3, 1.0, 0)}, "takes 4 features"),
        ({"network": Network(START.weights, trained=False)}, "no layer of this network is trained"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(change, sentence):
    call = {"network": START, "data": SINE, "loss": "square", "step": 0.1, "steps": 4, **change}
    with pytest.raises(ValueError, match=sentence):
        descent(**call)


def test_an_optimiser_that_is_no_function_of_the_step_is_refused_with_advice():
    network, data = Network.gaussian((3, 4, 1), 0.0, 0.1, seed=0), Data(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match=r"optax\.adam rather than optax\.adam\(1e-3\)"):
        descent(network, data, "square", 0.1, 3, optimiser=optax.adam(1e-3))
