import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from rankfall import Data, FlowWarning, Network, Until, flow, linear
from rankfall.outcome import Outcome

RNG = np.random.default_rng(5)


# The oracle: the gradient by hand, and SciPy's integrator


def unpack(theta, network):
    parts, at = [], 0
    for w in network.weights:
        parts.append(theta[at : at + w.size].reshape(w.shape))
        at += w.size
    return parts


def pack(weights):
    return np.concatenate([w.ravel() for w in weights])


def layers(weights, slope, x):
    """The inputs of each layer and its slopes, for a network without biases."""
    inputs, slopes, h = [x], [], x
    for w in weights[:-1]:
        z = h @ w.T
        slopes.append(np.where(z > 0, 1.0, slope))
        h = slopes[-1] * z
        inputs.append(h)
    return inputs, slopes, (h @ weights[-1].T)[:, 0]


def descent_direction(network, data, residual):
    """theta -> -grad L, where `residual(f, y)` is the derivative of the loss in each output."""

    def direction(t, theta):
        weights = unpack(theta, network)
        inputs, slopes, f = layers(weights, float(network.slope), data.x)
        back, gradient = residual(f, data.y)[:, None], []
        for layer in reversed(range(network.depth)):
            gradient.append(back.T @ inputs[layer])
            if layer:
                back = (back @ weights[layer]) * slopes[layer - 1]
        return -pack(gradient[::-1])

    return direction


def oracle(network, data, residual, times):
    """The weights at `times`, one row each."""
    direction = descent_direction(network, data, residual)
    solution = solve_ivp(
        direction, (0.0, times[-1]), pack(network.weights), "DOP853", times, rtol=1e-13, atol=1e-15
    )
    assert solution.success
    return solution.y.T


def square(f, y):
    return (f - y) / len(y)


def exponential(f, y):
    return -y * np.exp(-y * f) / len(y)


# Three layers against SciPy

REGRESSION = Data(RNG.normal(size=(6, 3)), RNG.normal(size=6))
TIMES = np.linspace(0.0, 1.0, 11)


def deep(slope, seed=68):
    return Network.gaussian((3, 4, 3, 1), slope, 2.5, seed)


def run_deep(network, rtol=1e-10):
    run = flow(network, REGRESSION, "square", 1.0, rtol=rtol, measures=["weights"], record=TIMES)
    return run, oracle(network, REGRESSION, square, TIMES)


def patterns(theta, network):
    return np.concatenate(
        [s.ravel() for s in layers(unpack(theta, network), float(network.slope), REGRESSION.x)[1]]
    )


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("slope", [1.0, 0.2])
def test_a_deep_flow_is_that_of_scipy(slope):
    network = deep(slope)
    run, expected = run_deep(network)
    for row in expected:
        np.testing.assert_array_equal(
            patterns(row, network), patterns(expected[0], network)
        )  # no kink is met
    assert relative(expected[-1], expected[0]) > 0.1
    assert relative(pack(run.network.weights), expected[-1]) < 1e-8
    for found, row in zip(run.weights.values, expected, strict=True):
        assert relative(found, row) < 1e-7  # the interpolation between steps is of a lower order
    np.testing.assert_array_equal(run.time, TIMES)
    assert run.outcome is Outcome.ARRIVED


def test_a_flow_across_kinks_is_that_of_scipy():
    network = deep(0.2, seed=9)
    run, expected = run_deep(network)
    assert (patterns(expected[-1], network) != patterns(expected[0], network)).any()
    assert run.statistics.steps_across_kinks > 0
    assert run.statistics.chattering_pairs == 0
    assert relative(pack(run.network.weights), expected[-1]) < 1e-7


def test_the_error_falls_in_proportion_to_the_tolerance_and_with_the_fifth_power_of_the_steps():
    runs = {rtol: run_deep(deep(1.0), rtol) for rtol in (1e-6, 1e-10)}
    errors = {
        rtol: relative(pack(run.network.weights), expected[-1]) for rtol, (run, expected) in runs.items()
    }
    steps = {rtol: run.statistics.steps for rtol, (run, _) in runs.items()}
    assert 0.8 < np.log(errors[1e-6] / errors[1e-10]) / np.log(1e4) < 1.25
    assert 4 < np.log(errors[1e-6] / errors[1e-10]) / np.log(steps[1e-10] / steps[1e-6]) < 7
    for rtol, (run, _) in runs.items():
        assert errors[rtol] / 10 < run.statistics.error_estimate < 1000 * errors[rtol]
        tried = run.statistics.tried
        assert 6 * tried <= run.statistics.evaluations <= 6 * tried + 3  # Tsit5 has six stages


def test_flow_conserves_the_balance_of_linear_layers_and_of_every_neuron():
    for slope, conserved in ((1.0, lambda c: c), (0.2, np.diag)):
        network = deep(slope)
        run, _ = run_deep(network)
        for before, after in ((0, 1), (1, 2)):
            balance = [
                conserved(w[after].T @ w[after] - w[before] @ w[before].T)
                for w in (network.weights, run.network.weights)
            ]
            np.testing.assert_allclose(balance[1], balance[0], atol=1e-8)


# One sample: closed forms

PAIR = Data([[3.0, 4.0]], [2.0])  # |x| = 5
LOSS = 1e-3


def one_sample(u0=0.1):
    """A balanced two-layer linear network aligned with its sample, of two neurons."""
    a = u0 * np.array([0.6, 0.8])
    return Network([np.outer(a, [0.6, 0.8]), a[None, :]], slope=1.0)


def growth(t, u0=0.1):
    """g(t) = |y| / (1 + (|y| / (u0^2 |x|) - 1) exp(-2 |y| |x| t)), the output on the sample."""
    return 2.0 / (1 + (2.0 / (u0**2 * 5.0) - 1) * np.exp(-2 * 2.0 * 5.0 * t))


def run_one_sample(network=None, time=np.inf, record=None, **options):
    network = one_sample() if network is None else network
    until = Until(time=time, loss=LOSS)
    return flow(network, PAIR, "square", until, measures=["outputs", "loss"], record=record, **options)


MET_AT = brentq(lambda t: (2.0 - growth(t)) ** 2 / 2 - LOSS, 0.0, 10.0, xtol=1e-14)


def test_one_sample_grows_like_the_logistic_function_and_stops_exactly_at_the_loss():
    run = run_one_sample(time=10.0, record=linear(5001))
    np.testing.assert_allclose(run.outputs, growth(run.time.values), rtol=1e-6)
    np.testing.assert_allclose(run.loss[-1], LOSS, rtol=1e-8)
    np.testing.assert_allclose(run.time[-1], MET_AT, rtol=1e-7)
    assert (np.diff(run.time) > 0).all()
    assert run.outcome is Outcome.MET
    assert "loss" in run.settings["condition"]


@pytest.mark.parametrize("record", [None, [0.0, 0.1, 0.2]], ids=["records not said", "records given"])
def test_without_a_time_the_flow_runs_until_the_condition(record):
    run = run_one_sample(record=record)
    np.testing.assert_allclose(run.time[-1], MET_AT, rtol=1e-7)
    np.testing.assert_allclose(run.outputs, growth(run.time.values), rtol=1e-6)
    if record:
        np.testing.assert_allclose(run.time, [0.0, 0.1, 0.2, MET_AT], rtol=1e-7)


def test_the_flow_ends_at_its_time_where_the_condition_is_not_met_before():
    run = run_one_sample(time=0.2, record=[0.1])
    np.testing.assert_array_equal(run.time, [0.0, 0.1, 0.2])
    assert run.outcome is Outcome.ARRIVED


def test_a_condition_that_holds_at_the_start_ends_the_flow_there():
    run = run_one_sample(one_sample(u0=np.sqrt(0.4)))  # f = y
    np.testing.assert_array_equal(run.time, [0.0])
    assert run.outcome is Outcome.MET


def test_single_precision_flows_in_double_precision():
    single = Network([w.astype(np.float32) for w in one_sample().weights], slope=1.0)
    run = run_one_sample(single)
    assert run.network.dtype == np.float64
    np.testing.assert_allclose(run.time[-1], MET_AT, rtol=1e-5)


def test_a_spent_budget_is_a_warning_and_what_was_reached_is_kept():
    with pytest.warns(FlowWarning, match="spent its budget"):
        run = run_one_sample(time=10.0, budget=7)
    assert run.statistics.tried == 7
    assert 0 < run.time[-1] < MET_AT
    np.testing.assert_allclose(run.outputs, growth(run.time.values), rtol=1e-6)


def test_zero_weights_stay_zero():
    zero = Network([np.zeros((2, 2)), np.zeros((1, 2))], slope=1.0)
    run = run_one_sample(zero, time=1.0, budget=1000)
    assert run.time[-1] == 1.0
    assert not run.outputs.any()


def test_an_interrupt_keeps_what_was_reached(monkeypatch):
    def interrupt(self, fraction, note=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankfall._progress.Progress.update", interrupt)
    run = run_one_sample(time=10.0)
    assert run.outcome is Outcome.INTERRUPTED
    assert run.time[-1] > 0
    np.testing.assert_allclose(run.outputs, growth(run.time.values), rtol=1e-6)


def test_the_flow_stops_exactly_where_the_gradient_is_small_enough():
    # Both layers are u: the gradient is sqrt(2) |x| u |y - g|, and it grows before it falls.
    run = flow(one_sample(), PAIR, "square", Until(gradient=1e-2), measures=["gradient_norm"])
    np.testing.assert_allclose(run.gradient_norm[-1], 1e-2, rtol=1e-8)

    def gradient(t):
        return np.sqrt(2) * 5.0 * np.sqrt(growth(t) / 5.0) * (2.0 - growth(t)) - 1e-2

    np.testing.assert_allclose(run.time[-1], brentq(gradient, 0.25, 2.0, xtol=1e-14), rtol=1e-6)


# The loss clock

SEPARABLE = Data([[1.0, 0.2], [0.3, 1.0], [-1.0, 0.1], [-0.2, -0.9]], [1.0, 1.0, -1.0, -1.0])
MARGINS = ["log_loss", "smoothed_margin", "normalised_margin", "margins"]


def run_loss_clock():
    network = Network.gaussian((2, 4, 1), 0.2, 1.0, 2)
    return network, flow(network, SEPARABLE, "exponential", 9.0, clock="loss", measures=MARGINS, rtol=1e-9)


def test_the_loss_clock_runs_through_the_same_weights_as_plain_time():
    network, run = run_loss_clock()
    early = run.sel(s=slice(0.0, 1.0))
    times = np.exp(early.log_time.values)
    assert times[0] == 0.0
    assert times[-1] > 1.0
    for theta, margins in zip(oracle(network, SEPARABLE, exponential, times), early.margins, strict=True):
        f = layers(unpack(theta, network), 0.2, SEPARABLE.x)[2]
        np.testing.assert_allclose(margins, SEPARABLE.y * f, rtol=1e-6, atol=1e-7)


def test_the_smoothed_margin_never_falls_and_stays_below_the_normalised_one():
    _, run = run_loss_clock()
    separated = run.log_loss + np.log(4) < 0
    assert separated.values.sum() > 100
    smoothed = run.smoothed_margin.values[separated]
    assert (np.diff(smoothed) >= -1e-9 * smoothed[1:]).all()
    assert (smoothed <= run.normalised_margin.values[separated] * (1 + 1e-12)).all()


def test_at_margins_above_800_nothing_underflows():
    _, run = run_loss_clock()
    assert run.margins[-1].min() > 800
    for name in ("log_loss", "smoothed_margin", "normalised_margin"):
        assert np.isfinite(run[name]).all()
    assert np.isfinite(run.log_time[1:]).all()
    # log t follows the smallest margin: t is of the order 1 / loss
    np.testing.assert_allclose(run.log_time[-1], run.margins[-1].min(), rtol=0.02)
    np.testing.assert_allclose(run.log_loss[-1], -run.margins[-1].min(), rtol=0.01)


def test_the_log_time_of_a_linear_model_is_known_in_closed_form():
    # L = exp(-w) gives dw/ds = 1 and t = exp(w0) (exp(s) - 1).
    data = Data([[1.0], [-1.0]], [1.0, -1.0])
    network = Network([[[0.5]]])
    run = flow(
        network, data, "exponential", 1000.0, clock="loss", measures=["log_loss"], record=[1e-3, 1.0, 30.0]
    )
    s = np.array([0.0, 1e-3, 1.0, 30.0, 1000.0])
    np.testing.assert_array_equal(run.s, s)
    np.testing.assert_allclose(run.log_loss, -0.5 - s, rtol=1e-7)
    expected = 0.5 + s[1:] + np.log(-np.expm1(-s[1:]))
    np.testing.assert_allclose(run.log_time[1:], expected, rtol=1e-6, atol=1e-6)
    assert run.log_time[0] == -np.inf
    assert run.s.attrs["long_name"] == "loss clock $s$"


# Kinks


@pytest.mark.parametrize("pull", [1.01, 2.0, 5.0, 20.0])
def test_a_flow_that_sticks_to_a_kink_slides_along_it_and_is_reported(pull):
    # One ReLU neuron. Active on x_1 = (1, 0), it is pushed down there by `pull`; inactive, up by
    # x_2 = (1/2, 1), where it is wanted at 2. So it comes to the kink and slides along it: w_1 = 0,
    # w_2' = 2 - w_2 (Filippov 1988).
    network = Network([[[0.3, 0.1]], [[1.0]]], slope=0.0, trained=(True, False))
    data = Data([[1.0, 0.0], [0.5, 1.0]], [-pull, 2.0])
    with pytest.warns(FlowWarning) as caught:
        run = flow(network, data, "square.sum", 1.0, rtol=1e-5, measures=["weights"], record=linear(11))
    assert run.time[-1] == 1.0
    w1, w2 = run.weights.values[:, 0], run.weights.values[:, 1]
    first = (np.abs(w1) < 1e-3).argmax()
    np.testing.assert_allclose(w1[first:], 0.0, atol=1e-3)
    slide = 2 - (2 - w2[first]) * np.exp(run.time.values[first] - run.time.values)
    np.testing.assert_allclose(w2[first:], slide[first:], rtol=1e-3)
    assert "chattering on kinks: 1 pair" in str(caught[0].message)
    assert run.statistics.chattering_pairs == 1
    assert run.statistics.steps_across_kinks > 50


# Bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"until": 0.0}, "a flow must end: say `until` a positive time"),
        ({"until": np.nan}, "a flow must end"),
        ({"until": np.inf}, "a flow must end"),
        ({"clock": "los"}, "unknown clock 'los'. Did you mean 'loss'"),
        ({"rtol": 0.0}, r"rtol must lie in \(0, 1\)"),
        ({"rtol": 2.0}, r"rtol must lie in \(0, 1\)"),
        ({"atol": -1.0}, "atol must not be negative"),
        ({"loss": "sqare"}, "Did you mean 'square'"),
        ({"loss": "logistic"}, r"needs labels -1 and \+1"),
        ({"data": Data([[1.0, 2.0]], [1.0])}, "takes 3 features"),
        ({"network": Network(deep(1.0).weights, trained=False)}, "no layer of this network is trained"),
        ({"record": [2.0]}, "times between 0 and 1"),
        ({"record": [-0.5], "until": Until(loss=1e-3), "budget": 1}, "record"),
        ({"record": [np.nan], "until": Until(loss=1e-3), "budget": 1}, "record"),
        ({"record": linear(5), "until": Until(loss=1e-3)}, "a schedule needs an end"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(options, sentence):
    given = {"network": deep(1.0), "data": REGRESSION, "loss": "square", "until": 1.0, **options}
    with pytest.raises(ValueError, match=sentence):
        flow(**given)


def test_a_bound_to_stop_at_must_be_positive():
    for bounds in ({"loss": 0.0}, {"gradient": -1.0}, {"loss": np.nan}):
        with pytest.raises(ValueError, match="must be positive"):
            Until(time=1.0, **bounds)


def test_in_the_loss_clock_a_run_goes_on_from_where_the_loss_is_tiny():
    # There the time of a first step is out of all proportion, e^30, and the step is to be shortened.
    network = Network([[[30.0]], [[1.0]]], slope=1.0, trained=(True, False))
    run = flow(
        network,
        Data([[1.0], [-1.0]], [1.0, -1.0]),
        "exponential",
        1.0,
        clock="loss",
        rtol=1e-6,
        budget=300,
        show=False,
    )
    assert run.network.weights[0][0, 0] == pytest.approx(31.0, rel=1e-9)  # q' = 1
    assert float(run.log_time[-1]) == pytest.approx(30.0 + np.log(np.e - 1), rel=1e-5)  # t' = e^q
