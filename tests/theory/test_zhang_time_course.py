from functools import cache

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rankfall import Network, flow, linear
from rankfall.data import beta, symmetric_sine
from rankfall.loss import square
from rankfall.theory import RESULTS, Situation, assess, assessed, effective_start, time_course
from rankfall.theory.mathematics.white_course import half_time

DATA = symmetric_sine(pairs=30, dim=4, seed=0, white=True)
BETA = beta(DATA)
S = np.linalg.norm(BETA)
UNIT = BETA / S
TILTED = np.array([0.6, 0.0, -0.8, 0.0])  # a unit vector, neither along BETA nor across it
TIMES = np.linspace(0.0, 12.0, 25)
SLOPES = (0.0, 0.5, 1.0)


def apart(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def computed_map(network, end):
    """The times and the map c W2 W1 of rankfall's own flow, all of one shape so that it compiles once."""
    run = flow(network, DATA, "square", end, rtol=1e-10, measures=["weights"], record=linear(41))
    first, second = np.split(run["weights"].values, [network.weights[0].size], axis=1)
    product = np.einsum("th,thi->ti", second, first.reshape(-1, *network.weights[0].shape))
    return run.time.values, (1 + float(network.slope)) / 2 * product


@cache
def rank_one_course(slope):
    network = Network.rank_one((4, 6, 1), slope, scale=0.3, seed=1)
    return network, *computed_map(network, 16 / (1 + slope))


def direction(network):
    return network.weights[0][0] / network.weights[1][0, 0]


# Against the flow


@pytest.mark.parametrize("slope", SLOPES)
def test_eq_38_with_scaled_u0_is_the_flow_on_white_data(slope):
    network, times, found = rank_one_course(slope)
    u0 = np.sqrt((1 + slope) / 2) * np.linalg.norm(network.weights[0])
    expected = time_course(times, BETA, direction(network), u0, slope)
    assert apart(found, expected) < 1e-6


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_eq_38_with_the_printed_u0_is_not_the_flow_unless_the_network_is_linear(slope):
    network, times, found = rank_one_course(slope)
    printed = np.linalg.norm(network.weights[0])
    assert apart(found, time_course(times, BETA, direction(network), printed, slope)) > 0.03


def mirrored_gaussian(slope, scale):
    """Gaussian weights, each neuron with its mirror image (-w, -a): no rank one, and ||W2+|| = ||W2-||."""
    first, second = Network.gaussian((4, 3, 1), slope=1.0, scale=scale, seed=0).weights
    return Network([np.vstack([first, -first]), np.hstack([second, -second])], slope=slope)


@pytest.mark.parametrize("slope", SLOPES)
def test_small_gaussian_weights_follow_their_effective_start_up_to_their_size(slope):
    errors = []
    for scale in (1e-3, 1e-5):
        network = mirrored_gaussian(slope, scale)
        r, u0 = effective_start(network, BETA)
        times, found = computed_map(network, (np.log(1 / u0) / S + 5) * 2 / (1 + slope))
        assert found[-1] == pytest.approx(BETA, rel=0.01)  # the course is followed to its end
        errors.append(apart(found, time_course(times, BETA, r, u0, slope)))
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 50


# Against SciPy


@pytest.mark.parametrize("r", [TILTED, -TILTED, UNIT], ids=["tilted", "away", "along"])
@pytest.mark.parametrize("slope", SLOPES)
def test_eq_38_is_the_two_layer_linear_network_in_rescaled_time(slope, r):
    u0, second = 0.4, np.array([0.6, -0.8, 0.0]) * 0.4

    def velocity(_, weights):
        w1, w2 = weights[:12].reshape(3, 4), weights[12:]
        left = BETA - w2 @ w1
        return np.concatenate([np.outer(w2, left).ravel(), w1 @ left])

    start = np.concatenate([np.outer(second, r).ravel(), second])
    rescaled = (1 + slope) / 2 * TIMES
    solution = solve_ivp(velocity, (0, 12), start, "DOP853", rescaled, rtol=1e-12, atol=1e-14).y.T
    w = np.einsum("th,thi->ti", solution[:, 12:], solution[:, :12].reshape(-1, 3, 4))
    assert apart(w, time_course(TIMES, BETA, r, u0, slope)) < 1e-9


def test_eq_38_solves_the_riccati_equation_it_is_derived_from():
    """M' = F M + M F - M^2 for M = Q Q^T, Q = (W1, W2^T)^T, whose corner is w (Fukumizu 1998)."""
    u0 = 0.7
    f = np.zeros((5, 5))
    f[:4, 4] = f[4, :4] = BETA
    q = u0 * np.append(TILTED, 1.0)

    def velocity(_, flat):
        m = flat.reshape(5, 5)
        return (f @ m + m @ f - m @ m).ravel()

    solution = solve_ivp(velocity, (0, 12), np.outer(q, q).ravel(), "DOP853", TIMES, rtol=1e-12, atol=1e-14)
    w = solution.y.T.reshape(-1, 5, 5)[:, :4, 4]
    assert apart(w, time_course(TIMES, BETA, TILTED, u0, 1.0)) < 1e-9


# Special cases


def test_a_single_layer_relaxes_from_zero_weights_to_beta_at_the_rate_one():
    """On white data and from zero, the flow w' = beta - w has the solution (1 - e^(-t)) beta."""
    run = flow(
        Network([np.zeros((1, 4))]), DATA, "square", 2.0, rtol=1e-10, measures=["weights"], budget=1000
    )
    expected = (1 - np.exp(-run.time.values))[:, None] * BETA
    np.testing.assert_allclose(run["weights"], expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("r", [TILTED, UNIT, -UNIT], ids=["tilted", "along", "opposite"])
def test_the_course_starts_at_u0_squared_r(r):
    np.testing.assert_allclose(time_course([0.0], BETA, r, 1e-4, 0.3)[0], 1e-8 * r, rtol=1e-14, atol=1e-24)


@pytest.mark.parametrize("time", [1e3, 1e5, 1e300])
@pytest.mark.parametrize("slope", SLOPES)
def test_the_course_ends_at_beta(slope, time):
    np.testing.assert_allclose(time_course([time], BETA, TILTED, 1e-8, slope)[0], BETA, rtol=1e-12)


def test_along_beta_the_course_is_the_logistic_curve():
    u0, slope = 1e-3, 0.25
    curve = S / (1 + (S / u0**2 - 1) * np.exp(-2 * S * 0.625 * TIMES))
    found = time_course(TIMES, BETA, UNIT, u0, slope)
    np.testing.assert_allclose(found, curve[:, None] * UNIT, rtol=1e-10, atol=0)


def test_against_beta_the_course_runs_into_the_saddle_at_zero():
    """With w = -g unit the flow is g' = -2 g (s + g)."""
    u0 = 0.5
    decay = np.exp(-2 * S * TIMES)
    g = u0**2 * decay / (1 + u0**2 * (1 - decay) / S)
    found = time_course(TIMES, BETA, -UNIT, u0, 1.0)
    np.testing.assert_allclose(found, -g[:, None] * UNIT, rtol=1e-10, atol=1e-12)


def test_against_beta_the_course_is_finite_at_all_times():
    beta_ = np.array([2.0, 0.0])  # here r = -beta/|beta| to the last bit
    late = time_course([1e2, 1e3, 1e6], beta_, np.array([-1.0, 0.0]), 0.5, 1.0)
    np.testing.assert_allclose(late, np.zeros((3, 2)), atol=1e-80)


def test_the_slope_only_changes_the_clock():
    for slope in (0.0, 0.3):
        slow = time_course(TIMES, BETA, TILTED, 0.1, slope)
        fast = time_course((1 + slope) / 2 * TIMES, BETA, TILTED, 0.1, 1.0)
        np.testing.assert_allclose(slow, fast, rtol=1e-13)


def test_zero_weights_stay_zero():
    np.testing.assert_array_equal(time_course(TIMES, BETA, UNIT, 0.0, 0.0), np.zeros((len(TIMES), 4)))


def test_targets_without_correlation_to_the_inputs_are_refused_rather_than_nan():
    with pytest.raises(ValueError, match="beta"):
        time_course(TIMES, np.zeros(4), UNIT, 0.1, 0.0)
    with pytest.raises(ValueError, match="beta"):
        effective_start(mirrored_gaussian(0.0, 1e-3), np.zeros(4))


# The effective start


@pytest.mark.parametrize("slope", SLOPES)
def test_weights_of_rank_one_along_beta_are_their_own_effective_start(slope):
    network = Network.rank_one((4, 6, 1), slope, scale=0.2, seed=3, direction=UNIT)
    r, u0 = effective_start(network, BETA)
    np.testing.assert_allclose(r, UNIT, rtol=1e-14)
    assert u0 == pytest.approx(np.sqrt((1 + slope) / 2) * 0.2, rel=1e-12)


def test_weights_that_only_decay_have_no_effective_start():
    network = Network.rank_one((4, 6, 1), slope=0.0, scale=0.2, seed=3, direction=-UNIT)
    assert effective_start(network, BETA)[1] == pytest.approx(0.0, abs=1e-15)


# The results


def test_along_beta_half_is_learnt_when_the_logistic_curve_is_at_its_half():
    u0, slope = 1e-3, 0.25
    expected = np.log(S / u0**2 - 1) / (2 * S * 0.625)
    found = half_time(lambda t: time_course(t, BETA, UNIT, u0, slope), BETA, u0, slope)
    assert found == pytest.approx(expected, rel=1e-12)


def test_nothing_is_left_to_learn_or_nothing_ever_learnt_has_no_half_time():
    for r, u0 in ((UNIT, np.sqrt(S)), (-np.array([1.0, 0, 0, 0]), 0.5), (UNIT, 0.0)):
        b = S * np.array([1.0, 0, 0, 0]) if r[0] == -1 else BETA
        assert half_time(lambda t, b=b, r=r, u0=u0: time_course(t, b, r, u0, 1.0), b, u0, 1.0) is None


def test_weights_nearly_against_beta_turn_round_first_and_reach_the_half_at_the_time_predicted():
    rng = np.random.default_rng(0)
    r = -UNIT + 1e-5 * rng.normal(size=4)
    r /= np.linalg.norm(r)

    def velocity(_, state):  # w' = |w| g + w (w.g)/|w| with g = beta - w
        size, g = np.linalg.norm(state), BETA - state
        return size * g + state * (state @ g) / size

    def half(_, state):
        return state @ UNIT - S / 2

    half.terminal = True
    solution = solve_ivp(velocity, (0, 200), 0.25 * r, "DOP853", rtol=1e-12, atol=1e-22, events=half)
    found = half_time(lambda t: time_course(t, BETA, r, 0.5, 1.0), BETA, 0.5, 1.0)
    assert found == pytest.approx(solution.t_events[0][0], rel=1e-6)


@pytest.mark.parametrize("slope", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("share", [0.55, 0.65, 0.8])
def test_halves_that_differ_by_little_move_the_course_by_the_square_of_it(slope, share):
    """P and M, the squared norms of the halves: the map is c (P + M), the even part k (P - M)|r.x|."""
    c, k, u0 = (1 + slope) / 2, (1 - slope) / 2, 1e-3

    def velocity(_, halves):
        pull, even = c * (S - c * halves.sum()), k * (halves[0] - halves[1])
        return 2 * halves * (pull - k * np.array([even, -even]))

    times = np.linspace(0, (np.log(1 / u0) / S + 10) / c, 200)
    start = u0**2 / c * np.array([share, 1 - share])
    p, m = solve_ivp(velocity, (0, times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-16).y
    course = time_course(times, BETA, UNIT, u0, slope) @ UNIT
    off = np.abs(c * (p + m) - course).max() / S
    assert 0.5 < off / ((1 - slope) * (share - 0.5)) ** 2 < 1.2
    assert p[-1] / m[-1] < share / (1 - share)  # the halves come nearer to each other


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_the_course_of_the_summed_loss_is_n_times_as_fast(slope):
    network = Network.rank_one((4, 6, 1), slope, scale=0.3, seed=1)
    mean = assess(network, DATA, "square")["time_course"]
    total = assess(network, DATA, "square.sum")["time_course"]
    values = [{p.name: p.value for p in here.predictions} for here in (mean, total)]
    assert values[0]["half time"] == pytest.approx(60 * values[1]["half time"], rel=1e-12)
    run = flow(network, DATA, "square.sum", 20 / 60 / (1 + slope), measures=["weights", "loss"])
    assert {v.verdict for v in total.verify(run)} == {"holds"}


@pytest.mark.parametrize("slope", SLOPES)
def test_plain_gaussian_weights_follow_the_course_within_the_tolerance_that_is_told(slope):
    for seed in (0, 1):
        network = Network.gaussian((4, 40, 1), slope, scale=1e-3, seed=seed)
        here = assess(network, DATA, "square")["time_course_small"]
        assert here.status == "applies"
        half = here.predictions[-1].value
        run = flow(network, DATA, "square", 1.5 * half, measures=["weights", "loss"], record=linear(61))
        verification = here.verify(run)
        assert verification.verdict == "holds"
        assert verification["linear map"].tolerance.high < 0.05


def test_zero_weights_are_told_as_no_start_of_rank_one():
    for first, second in ((0, 1), (1, 0), (0, 0)):
        network = Network([first * np.ones((5, 4)), second * np.ones((1, 5))])
        here = assessed(RESULTS["time_course"], Situation(network, DATA, square))
        assert here.status == "does not apply"
        assert "rank one" in here.why


def test_a_run_that_is_too_short_is_told_how_long_it_must_be():
    network = Network.rank_one((4, 6, 1), 0.0, scale=0.3, seed=1)
    here = assess(network, DATA, "square")["time_course"]
    verification = here.verify(flow(network, DATA, "square", 1.0, measures=["weights", "loss"]))
    assert verification["half time"].verdict == "not measured"
    assert "needs a run to the time" in verification["half time"].note
    assert verification["linear map"].verdict == "holds"
