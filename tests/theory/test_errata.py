"""docs/errata.md, Zhang et al., workshop version: what is printed fails, what stands corrected holds.

E9 and E10 are textual. E14 to E22, Sun and Tran, are checked in test_sun_properties.py and on the page.
"""

from functools import cache
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import rankfall as rf
from rankfall._precision import float64
from rankfall.data import six_points
from rankfall.theory import time_course

SLOPES = (0.0, 0.3, 1.0)
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(40, 4)) * [1.0, 0.5, 1.5, 1.0]
VALUES = POINTS[:, 0] + np.sin(2 * POINTS @ RNG.normal(size=4))
X, Y = np.concatenate([POINTS, -POINTS]), np.concatenate([VALUES, -VALUES])  # symmetric: Condition 3
LABELS = np.sign(Y)
SIGMA, BETA = X.T @ X / len(X), Y @ X / len(X)
S, TRACE = float(np.linalg.norm(BETA)), float(np.trace(SIGMA))
W1, W2 = RNG.normal(size=(6, 4)), RNG.normal(size=6)


def relu(z, slope):
    return np.where(z > 0, z, slope * z)


def slopes_at(z, slope):
    return np.where(z > 0, 1.0, slope)


def output(w1, w2, x, slope):
    return relu(x @ w1.T, slope) @ w2


def descends(weights, x, y, slope, pointwise):
    """The flow of any network by automatic differentiation: minus the gradient of the mean of `pointwise`."""

    def value(layers):
        h = x.T
        for w in layers[:-1]:
            h = w @ h
            h = jnp.where(h > 0, h, slope * h)
        return pointwise((layers[-1] @ h)[0], y).mean()

    with float64():
        gradients = jax.grad(value)([jnp.asarray(np.atleast_2d(w)) for w in weights])
    return [-np.asarray(g) for g in gradients]


def follows(w1, w2, slope, end, **options):
    """The flow of the square loss on (X, Y), two layers, by SciPy."""

    def moves(_, w):
        first, second = w[:-6].reshape(6, 4), w[-6:]
        h = X @ first.T
        e = (Y - relu(h, slope) @ second) / len(X)
        return np.append((slopes_at(h, slope) * second * e[:, None]).T @ X, e @ relu(h, slope))

    start = np.append(w1, w2)
    return solve_ivp(moves, (0, end), start, "DOP853", rtol=1e-10, atol=1e-12 * abs(start).max(), **options)


def square(f, y):
    return (f - y) ** 2 / 2


def logistic(f, y):
    return jax.nn.softplus(-y * f)


def apart(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


# E1 to E3: the logistic loss


def test_e1_the_logistic_loss_falls_with_the_margin_and_the_printed_one_rises():
    margins = np.linspace(-5, 5, 11)
    printed, corrected = np.log1p(np.exp(margins)), np.log1p(np.exp(-margins))
    found = [float(rf.loss.logistic(np.array([m]), np.array([1.0]))) for m in margins]
    assert apart(np.array(found), corrected) < 1e-14
    assert (np.diff(corrected) < 0).all()
    assert (np.diff(printed) > 0).all()


def logistic_flow(target, slope):
    """Equations (7), or (10) for the slope 1, with `target` where the label must stand."""
    h = X @ W1.T
    pull = target / (np.exp(LABELS * output(W1, W2, X, slope)) + 1)
    return (slopes_at(h, slope) * W2 * pull[:, None]).T @ X / len(X), pull @ relu(h, slope) / len(X)


@pytest.mark.parametrize("slope", SLOPES)
def test_e2_the_logistic_flow_has_the_label_where_the_output_is_printed(slope):
    first, second = descends([W1, W2], X, LABELS, slope, logistic)
    corrected, printed = logistic_flow(LABELS, slope), logistic_flow(output(W1, W2, X, slope), slope)
    assert max(apart(corrected[0], first), apart(corrected[1], second[0])) < 1e-13
    assert min(apart(printed[0], first), apart(printed[1], second[0])) > 0.3


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_e2_as_printed_the_output_grows_whatever_the_label(label):
    x, w1, w2 = np.array([[1.0, 2.0]]), np.array([[0.3, 0.1]]), np.array([0.4])
    f = output(w1, w2, x, 0.0)
    for target, rises in ((f, True), (np.array([label]), label > 0)):
        pull = target / (np.exp(label * f) + 1)
        moved = w1 + 0.1 * (w2[:, None] * pull) @ x, w2 + 0.1 * pull * relu(x @ w1.T, 0.0)[0]
        assert (output(*moved, x, 0.0)[0] > f[0]) == rises


def rank_one(share=0.5, seed=1):
    """Weights W1 = W2' r', with the share of |W2|^2 that is positive."""
    rng = np.random.default_rng(seed)
    a = np.abs(rng.normal(size=6))
    a[:3] *= np.sqrt(share) / np.linalg.norm(a[:3])
    a[3:] *= -np.sqrt(1 - share) / np.linalg.norm(a[3:])
    r = rng.normal(size=4)
    r /= np.linalg.norm(r)
    return np.outer(a, r), a, r


@pytest.mark.parametrize("slope", SLOPES)
def test_e2_theorem_5_survives_with_one_factor_c(slope):
    w1, a, _ = rank_one()
    c = (1 + slope) / 2
    first, second = descends([w1, a], X, LABELS, slope, logistic)
    mean = (LABELS / (np.exp(c * LABELS * (X @ w1.T @ a)) + 1)) @ X / len(X)
    assert apart(c * np.outer(a, mean), first) < 1e-13
    assert apart(c * w1 @ mean, second[0]) < 1e-13
    if slope < 1:
        assert apart(c**2 * np.outer(a, mean), first) > 0.1


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_e3_on_the_positive_half_space_the_positive_neurons_are_active(slope):
    w1, a, r = rank_one()
    c = (1 + slope) / 2
    pull = X @ w1.T @ a / (np.exp(c * LABELS * (X @ w1.T @ a)) + 1)
    here = X @ r > 0
    side = ((slopes_at(X @ w1.T, slope) * a * pull[:, None]).T * here) @ X / here.sum()
    mean = (pull * here) @ X / here.sum()
    assert apart(np.outer(a * np.where(a > 0, 1.0, slope), mean), side) < 1e-13
    assert apart(np.outer(a * np.where(a > 0, slope, 1.0), mean), side) > 0.3


# E4: the averages over a half-space


@pytest.mark.parametrize("seed", range(5))
def test_e4_lemma_10_averages_over_a_half_space_are_those_over_all_data(seed):
    here = X @ np.random.default_rng(seed).normal(size=4) > 0
    assert apart(X[here].T @ X[here] / here.sum(), SIGMA) < 1e-13
    assert apart(Y[here] @ X[here] / here.sum(), BETA) < 1e-13
    integral = X[here].T @ X[here] / len(X)  # of x x' p(x), where every sample has the weight 1/n
    assert apart(2 * integral, SIGMA) < 1e-13
    assert apart(integral / 2, SIGMA) > 0.7  # what the proof calls the average
    assert apart(integral, SIGMA) > 0.4  # what the proof ends with


@pytest.mark.parametrize("slope", SLOPES)
def test_e4_lemma_11_the_first_terms_of_the_flow_are_linear(slope):
    c, h = (1 + slope) / 2, X @ W1.T
    assert apart((slopes_at(h, slope) * W2 * Y[:, None]).T @ X / len(X), c * np.outer(W2, BETA)) < 1e-13
    assert apart(Y @ relu(h, slope) / len(X), c * W1 @ BETA) < 1e-13


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_e4_a_sample_on_the_hyperplane_breaks_the_lemmas_unless_the_kink_has_the_mean_slope(slope):
    across = np.array([W1[0, 1], -W1[0, 0], 0.0, 0.0])  # W1[0] . across is exactly zero
    x, y = np.vstack([X, across, -across]), np.append(Y, [1.0, -1.0])
    h, c = x @ W1[0], (1 + slope) / 2
    h[-2:] = 0.0
    here = h > 0
    assert apart(x[here].T @ x[here] / here.sum(), x.T @ x / len(x)) > 1e-3
    beta = y @ x / len(x)
    left, middle = slopes_at(h, slope), np.where(h == 0, c, slopes_at(h, slope))
    assert apart((left * y) @ x / len(x), c * beta) > 1e-3
    assert apart((middle * y) @ x / len(x), c * beta) < 1e-13


# E5 and E6: the early phase


def cubic_term(slope):
    """What (24a) means: <s'(W1 x) * W2' W2 s(W1 x) x'>."""
    f = output(W1, W2, X, slope)
    return (slopes_at(X @ W1.T, slope) * W2 * f[:, None]).T @ X / len(X)


@pytest.mark.parametrize("slope", SLOPES)
def test_e5_the_cubic_term_is_what_the_linear_dynamics_leave_out(slope):
    first, _ = descends([W1, W2], X, Y, slope, square)
    assert apart((1 + slope) / 2 * np.outer(W2, BETA) - first, cubic_term(slope)) < 1e-12
    bound = np.linalg.norm(W2) ** 2 * np.linalg.norm(W1) * TRACE
    assert np.linalg.norm(cubic_term(slope)) <= bound


def test_e5_as_printed_two_columns_are_multiplied():
    column = relu(W1 @ X[:1].T, 0.0)
    with pytest.raises(ValueError, match="mismatch"):
        column @ slopes_at(W1 @ X[:1].T, 0.0)


def test_e6_the_norm_of_m():
    m = np.block([[np.zeros((4, 4)), BETA[:, None]], [BETA[None], np.zeros((1, 1))]])
    assert np.isclose(np.linalg.norm(m), np.sqrt(2) * S, rtol=1e-14)
    assert np.isclose(np.linalg.norm(m, 2), S, rtol=1e-14)


@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_e6_the_kernel_of_gronwall_s_inequality(tau):
    """v = A(t) + int b v, with A(t) = e^(k t/tau) - 1 and b = sqrt(2) s/tau, makes it an equality."""
    s, k, end = 0.7, 3.0, 0.8
    b = np.sqrt(2) * s / tau

    def rises(t):
        return np.exp(k * t / tau) - 1

    exact = solve_ivp(
        lambda t, v: k / tau * np.exp(k * t / tau) + b * v, (0, end), [0.0], rtol=1e-12, atol=1e-14
    ).y[0, -1]
    kernel = rises(end) + quad(lambda t: rises(t) * b * np.exp(b * (end - t)), 0, end)[0]
    printed = rises(end) + quad(lambda t: rises(t) * np.sqrt(2) * s * np.exp(np.sqrt(2) * s * t), 0, end)[0]
    assert np.isclose(kernel, exact, rtol=1e-9)
    assert abs(printed / exact - 1) > 0.02


@cache
def early(slope, size, fraction):
    """Two neurons on x = +-1 with y = 10 x from W1 = W2' = (size, -size)/sqrt 2, at a fraction of the window.

    The largest norm of W minus that of the growing part e^(c s t) (r1, r1'), integrated by SciPy.
    """
    s, trace, c = 10.0, 1.0, (1 + slope) / 2
    x, y = np.array([1.0, -1.0]), np.array([10.0, -10.0])

    def moves(_, w):
        first, second = np.split(w, 2)
        h = np.outer(x, first)
        e = y - relu(h, slope) @ second
        return np.concatenate([(slopes_at(h, slope) * second).T @ (e * x), relu(h, slope).T @ e]) / 2

    start = np.tile([size, -size], 2) / np.sqrt(2)
    end = fraction * np.log(1 / size) / (s + trace)
    w = solve_ivp(moves, (0, end), start, "DOP853", rtol=1e-13, atol=1e-16 * size).y[:, -1]
    return np.linalg.norm(w - np.exp(c * s * end) * start), end


@pytest.mark.parametrize(
    ("slope", "printed_c1", "printed_theorem"), [(0.0, False, True), (1.0, False, False)]
)
def test_e6_at_the_end_of_the_window_the_error_is_of_another_order(slope, printed_c1, printed_theorem):
    """With s = 10 and Tr Sigma = 1 like size^(3 - 3 c s/(s + Tr Sigma)): 1.64 for ReLU, 0.27 if linear."""
    sizes = np.array([1e-2, 1e-3, 1e-4])
    errors = np.array([early(slope, size, 1.0)[0] for size in sizes])
    order = np.diff(np.log(errors)) / np.diff(np.log(sizes))
    expected = 3 - 3 * (1 + slope) / 2 * 10 / 11
    assert np.abs(order - expected).max() < 0.06
    assert ((np.diff(errors / sizes**2) < 0).all()) == printed_c1  # |W - W~| < C1 size^2
    assert ((np.diff(errors / sizes) < 0).all()) == printed_theorem  # Theorem 13: O(size)


@pytest.mark.parametrize("slope", SLOPES)
def test_e6_the_corrected_bound_holds_at_all_times_and_gives_the_window(slope):
    """|W - W~| <= sqrt(2) Tr Sigma size^3 (e^(3cst) - e^(cst))/(2cs); here W~ is the growing part itself."""
    c, s = (1 + slope) / 2, 10.0
    window = (2 / 3) * (s + 1) / (c * s)  # t = (2/3) ln(1/size)/(c s), as a fraction of the printed one
    for size in (1e-2, 1e-4):
        for fraction in (0.5 * window, window):
            error, t = early(slope, size, fraction)
            bound = np.sqrt(2) * size**3 * (np.exp(3 * c * s * t) - np.exp(c * s * t)) / (2 * c * s)
            assert error <= bound
        assert bound <= np.sqrt(2) / (2 * c * s) * size * (1 + 1e-9)


@pytest.mark.parametrize("slope", SLOPES)
def test_e6_from_any_small_start_both_layers_stay_below_their_exponential(slope):
    """Lemma 12 with the rate c s and for all times, and the bound that follows; W~ is eq. (23)."""
    c, size = (1 + slope) / 2, 1e-3
    w1, w2 = size * W1 / np.linalg.norm(W1), size * W2 / np.linalg.norm(W2)
    m = np.block([[np.zeros((4, 4)), BETA[:, None]], [BETA[None], np.zeros((1, 1))]])
    values, vectors = np.linalg.eigh(m)
    for end in np.log(1 / size) / (c * S) * np.array([0.3, 2 / 3, 1.5]):
        w = follows(w1, w2, slope, end).y[:, -1]
        first, second = w[:-6].reshape(6, 4), w[-6:]
        assert max(np.linalg.norm(first), np.linalg.norm(second)) <= size * np.exp(c * S * end)
        linear = vectors * np.exp(c * values * end) @ vectors.T @ np.vstack([w1.T, w2])
        error = np.linalg.norm(np.vstack([first.T, second]) - linear)
        rate = c * S
        assert error <= np.sqrt(2) * TRACE * size**3 * (np.exp(3 * rate * end) - np.exp(rate * end)) / (
            2 * rate
        )


# E7: the clock


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_e7_at_time_zero_the_course_is_the_network_only_with_the_scaled_norm(slope):
    w1, a, r = rank_one()
    size, c = np.linalg.norm(w1), (1 + slope) / 2
    computed = np.linalg.lstsq(X, output(w1, a, X, slope), rcond=None)[0]
    assert apart(time_course([0.0], BETA, r, np.sqrt(c) * size, slope)[0], computed) < 1e-13
    assert apart(time_course([0.0], BETA, r, size, slope)[0], computed) > 0.5


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_e7_a_slope_makes_learning_slower_by_two_over_one_plus_the_slope(slope):
    def half_time(slope):
        w1, a, _ = rank_one()
        scale = 0.1 / np.sqrt((1 + slope) / 2)

        def learned(_, w):
            return np.linalg.norm((1 + slope) / 2 * w[-6:] @ w[:-6].reshape(6, 4)) - 0.3

        learned.terminal = True
        return follows(scale * w1, scale * a, slope, 50, events=learned).t_events[0][0]

    ratio = half_time(slope) / half_time(1.0)
    assert np.isclose(ratio, 2 / (1 + slope), rtol=1e-5)
    assert abs(ratio - (1 + slope) / 2) > 0.5


# E8: deep networks


@cache
def deep(depth=4, width=6, u=1.3):
    """The weights of eq. (40) with the flow they are in, on a linear target; and r_l, r, u."""
    rng = np.random.default_rng(3)
    sides = np.repeat([True, False], width // 2)
    rs = []
    for _ in range(depth - 1):
        r = np.abs(rng.normal(size=width)) * np.where(sides, 1, -1)
        for half in (sides, ~sides):
            r[half] /= np.sqrt(2) * np.linalg.norm(r[half])
        rs.append(r)
    r = rng.normal(size=4)
    r /= np.linalg.norm(r)
    blocks = np.equal.outer(sides, sides)
    middle = [u * np.sqrt(2) * blocks * np.outer(b, a) for a, b in pairwise(rs)]
    weights = [u * np.outer(rs[0], r), *middle, u * rs[-1][None]]
    target = X @ np.array([1.0, -0.5, 0.3, 2.0])
    return weights, descends(weights, X, target, 0.0, square), rs, r, u, target @ X / len(X), blocks


def ordered(weights, columns):
    found = np.eye(columns)
    for w in weights:
        found = w @ found
    return found


def test_e8_equations_43_to_45_are_the_flow():
    weights, flowing, rs, r, u, beta, blocks = deep()
    depth = len(weights)
    pull = beta - (u / np.sqrt(2)) ** depth * r @ SIGMA
    factor = u ** (depth - 1) / np.sqrt(2) ** depth
    expected = [factor * np.outer(rs[0], pull)]
    for below, here in pairwise(rs):
        expected.append(factor * np.sqrt(2) * (pull @ r) * blocks * np.outer(here, below))
    expected.append(factor * (pull @ r) * rs[-1][None])
    assert max(apart(found, e) for found, e in zip(flowing, expected, strict=True)) < 1e-12


def test_e8_equation_42_is_the_flow_of_the_outer_layers_and_of_the_diagonal_blocks_only():
    weights, flowing, *_, beta, blocks = deep()
    for layer, found in enumerate(flowing):
        above = ordered(weights[layer + 1 :], len(weights[layer]))
        below = ordered(weights[:layer], 4)
        pull = beta[None] / 2 - ordered(weights, 4) @ SIGMA / 4
        printed = above.T @ pull @ below.T  # with the last product over the layers below
        if layer in (0, len(weights) - 1):
            assert apart(printed, found) < 1e-12
        else:
            assert apart(printed[blocks], found[blocks]) < 1e-12
            assert np.abs(printed[~blocks]).min() > 0.01 * np.abs(found).max()
            assert np.abs(found[~blocks]).max() == 0.0


def test_e8_the_printed_product_over_the_layers_above_does_not_fit():
    weights, *_, beta, _ = deep()
    with pytest.raises(ValueError, match="mismatch"):
        beta[None] @ ordered(weights[1:], 6).T


# E11 to E13


def test_e11_the_labels_of_figure_2_are_the_only_odd_ones_that_no_line_separates():
    moved, data = six_points(), six_points(0.0)
    assert rf.data.is_symmetric(data)
    assert not rf.data.is_symmetric(moved)
    half = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]])
    x = np.vstack([half, -half])
    stuck = []
    for signs in product([1.0, -1.0], repeat=3):
        if not rf.data.is_separable(rf.Data(x, np.append(signs, np.negative(signs)))):
            stuck.append(signs)
    ours = tuple(float(data.y[(data.x == point).all(axis=1)][0]) for point in half)
    assert sorted(stuck) == sorted([ours, tuple(-s for s in ours)])


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("pointwise", [square, logistic])
def test_e12_the_second_layer_moves_along_itself_if_its_halves_are_equal(slope, pointwise):
    def across(share):
        w1, a, _ = rank_one(share)
        _, second = descends([w1, a], X, LABELS, slope, pointwise)
        return np.linalg.norm(second[0] - (second[0] @ a) / (a @ a) * a) / np.linalg.norm(second)

    assert across(0.5) < 1e-12
    assert across(0.7) > 1e-3


@cache
def ends(slope, seed):
    """The scaled weights at the end of the flow from small Gaussian ones, larger by c^(-1/2)."""
    c = (1 + slope) / 2
    drawn = rf.Network.gaussian((3, 40, 1), 1.0, 1e-6, seed)
    network = rf.Network([w / np.sqrt(c) for w in drawn.weights], slope=slope)
    data = rf.data.symmetric_sine(pairs=40, dim=3, seed=0, white=True)
    run = rf.flow(network, data, "square", 60 / c, measures=["loss"], show=False)
    return [np.sqrt(c) * np.asarray(w) for w in run.network.weights]


@pytest.mark.parametrize("seed", range(3))
def test_e13_the_weight_error_is_the_imbalance_of_the_linear_network(seed):
    linear, found = ends(1.0, seed), ends(0.0, seed)
    a = linear[1][0]
    p = (a[a > 0] ** 2).sum() / (a**2).sum()
    b = found[1][0]
    assert abs((b[b > 0] ** 2).sum() / (b**2).sum() - 0.5) < 1e-4
    apart = np.sqrt(sum(((v - w) ** 2).sum() for v, w in zip(linear, found, strict=True)))
    error = apart / np.sqrt(sum((w**2).sum() for w in linear))
    assert abs(p - 0.5) > 0.01  # the printed bound, whatever the small initial scale
    assert np.isclose(error, abs(p - 0.5), rtol=0.1)
    assert np.isclose(error, np.sqrt(2 - np.sqrt(2) * (np.sqrt(p) + np.sqrt(1 - p))), rtol=1e-2)
