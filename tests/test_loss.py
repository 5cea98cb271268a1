import jax
import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp, softmax

from rankfall._precision import float64
from rankfall.loss import LOSSES, cross_entropy, exponential, logistic, named, square

RNG = np.random.default_rng(0)
F = RNG.normal(size=6)
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
F3 = RNG.normal(size=(6, 3))
CLASSES = np.array([0.0, 1.0, 2.0, 1.0, 0.0, 2.0])
NUMBERS = RNG.normal(size=(6, 3))
SAMPLES = {
    "square": (F, SIGNS),
    "logistic": (F, SIGNS),
    "exponential": (F, SIGNS),
    "cross_entropy": (F3, CLASSES),
}
HUGE = np.array([1e4, 1e4 + 1, 1e4 + 3, 2e4, 1e4 + 1, 3e4])  # margins at which every loss underflows


def gradient(function, f, y):
    with float64():
        return np.asarray(jax.jit(jax.grad(function))(f, y))


# Values


def test_the_square_loss_is_half_the_squared_distance():
    np.testing.assert_allclose(square(F, SIGNS), ((F - SIGNS) ** 2).sum() / 12, rtol=1e-14)
    np.testing.assert_allclose(square(F3, NUMBERS), ((F3 - NUMBERS) ** 2).sum() / 12, rtol=1e-14)


def test_the_logistic_loss_is_the_log_of_one_plus_the_exponential():
    np.testing.assert_allclose(logistic(F, SIGNS), np.log(1 + np.exp(-SIGNS * F)).mean(), rtol=1e-14)


def test_the_exponential_loss_is_the_exponential():
    np.testing.assert_allclose(exponential(F, SIGNS), np.exp(-SIGNS * F).mean(), rtol=1e-14)


def test_the_cross_entropy_is_minus_the_log_of_the_softmax():
    chosen = softmax(F3, axis=1)[np.arange(6), CLASSES.astype(int)]
    np.testing.assert_allclose(cross_entropy(F3, CLASSES), -np.log(chosen).mean(), rtol=1e-14)


def test_the_cross_entropy_of_two_classes_is_the_logistic_loss_of_their_difference():
    difference = F3[:, 1] - F3[:, 0]
    classes = (SIGNS + 1) / 2
    np.testing.assert_allclose(cross_entropy(F3[:, :2], classes), logistic(difference, SIGNS), rtol=1e-14)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=str)
def test_the_sum_is_n_times_the_mean(loss):
    f, y = SAMPLES[loss.name]
    np.testing.assert_allclose(loss.sum(f, y), 6 * loss.mean(f, y), rtol=1e-14)
    np.testing.assert_allclose(loss.sum.log(f, y), np.log(6) + loss.mean.log(f, y), rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=str)
def test_the_log_of_the_loss_is_its_logarithm(loss):
    f, y = SAMPLES[loss.name]
    np.testing.assert_allclose(loss.log(f, y), np.log(loss(f, y)), rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=str)
def test_samples_of_weight_zero_are_left_out(loss):
    f, y = SAMPLES[loss.name]
    weight = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    kept = weight > 0
    np.testing.assert_allclose(loss.mean(f, y, weight), loss.mean(f[kept], y[kept]), rtol=1e-14)
    np.testing.assert_allclose(loss.sum(f, y, weight), loss.sum(f[kept], y[kept]), rtol=1e-14)
    np.testing.assert_allclose(loss.mean.log(f, y, weight), loss.mean.log(f[kept], y[kept]), rtol=1e-14)
    np.testing.assert_allclose(loss.sum.log(f, y, weight), loss.sum.log(f[kept], y[kept]), rtol=1e-14)


@pytest.mark.parametrize("loss", [square, logistic, exponential], ids=str)
def test_a_column_of_targets_means_the_same_as_a_vector_of_them(loss):
    column = SIGNS[:, None]
    np.testing.assert_allclose(loss(F, column), loss(F, SIGNS), rtol=1e-14)
    np.testing.assert_allclose(loss.log(F, column), loss.log(F, SIGNS), rtol=1e-14)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=str)
def test_float32_stays_float32_and_float64_comes_back_as_numpy(loss):
    f, y = SAMPLES[loss.name]
    assert loss(f, y).dtype == np.float64
    assert isinstance(loss.log(f, y), np.ndarray)
    single = loss(f.astype(np.float32), y.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, loss(f, y), rtol=1e-6)


# Nothing underflows


@pytest.mark.parametrize("loss", [logistic, exponential], ids=str)
def test_at_margins_of_ten_thousand_the_log_loss_is_the_log_sum_exp_of_minus_the_margins(loss):
    f = SIGNS * HUGE
    assert loss(f, SIGNS) == 0.0
    np.testing.assert_allclose(loss.sum.log(f, SIGNS), logsumexp(-HUGE), rtol=1e-15)
    np.testing.assert_allclose(loss.log(f, SIGNS), logsumexp(-HUGE) - np.log(6), rtol=1e-15)


@pytest.mark.parametrize("loss", [logistic, exponential], ids=str)
def test_at_margins_of_ten_thousand_the_gradient_of_the_log_loss_is_the_softmax(loss):
    f = SIGNS * HUGE
    np.testing.assert_allclose(gradient(loss.log, f, SIGNS), -SIGNS * softmax(-HUGE), rtol=1e-12)


def test_at_margins_of_ten_thousand_the_cross_entropy_has_a_log_and_a_gradient():
    f = np.zeros((2, 3))
    f[0] = [1e4, 1.0, 0.0]
    f[1] = [0.0, 1e4 + 1, 1.0]
    y = np.array([0.0, 1.0])
    # Each loss is e^{-f_y} (e^{f_j} + e^{f_k}) to rounding, and the log of the sum that of four exponentials.
    exponents = np.array([1.0 - 1e4, -1e4, -1e4 - 1, -1e4])
    np.testing.assert_allclose(cross_entropy.sum.log(f, y), logsumexp(exponents), rtol=1e-15)
    p = softmax(exponents)
    expected = [[-p[0] - p[1], p[0], p[1]], [p[2], -p[2] - p[3], p[3]]]
    np.testing.assert_allclose(gradient(cross_entropy.log, f, y), expected, rtol=1e-12)


def test_the_log_of_the_logistic_loss_is_smooth_where_its_series_begins():
    margins = np.linspace(25.0, 35.0, 41)
    expected = np.log(np.log1p(np.exp(-margins)))
    found = [logistic.log(np.array([m]), np.ones(1)) for m in margins]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    weight = expit(-margins) / np.log1p(np.exp(-margins))
    slopes = [gradient(logistic.log, np.array([m]), np.ones(1))[0] for m in margins[::5]]
    np.testing.assert_allclose(slopes, -weight[::5], rtol=1e-13)


def test_the_gradient_of_the_log_square_loss_is_finite_where_one_sample_is_fitted_exactly():
    f, y = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    # log((0 + 4/2)/2): its slope is (f - y) / sum of the losses
    np.testing.assert_allclose(gradient(square.log, f, y), [0.0, 1.0], rtol=1e-14)


def test_wrong_by_ten_thousand_is_a_finite_loss():
    assert logistic(np.array([-1e4]), np.ones(1)) == 1e4
    np.testing.assert_allclose(
        exponential.log(np.array([-1e4, 0.0]), np.ones(2)), 1e4 - np.log(2), rtol=1e-15
    )


# As functions of the margin

MARGINS = np.array([-1e4, -700.0, -30.0, -3.0, 0.0, 0.1, 5.0, 29.9, 30.1, 700.0, 1e4])


def test_the_logistic_loss_of_the_margin_is_scipys():
    loss, near = logistic.of_margin, MARGINS[1:-1]
    np.testing.assert_allclose(loss.value(near), -log_expit(near), rtol=1e-14)
    np.testing.assert_allclose(loss.log(near), np.log(-log_expit(near)), rtol=1e-14)
    np.testing.assert_allclose(loss.pull(near), expit(-near), rtol=1e-12)
    np.testing.assert_allclose(loss.log_pull(MARGINS), log_expit(-MARGINS), rtol=1e-15)
    np.testing.assert_allclose(loss.steepness(near), expit(near), rtol=1e-12)


def test_at_margins_of_ten_thousand_a_loss_and_its_pull_have_logarithms():
    for loss in (logistic.of_margin, exponential.of_margin):
        np.testing.assert_array_equal(loss.log(HUGE), -HUGE)
        np.testing.assert_array_equal(loss.log_pull(HUGE), -HUGE)
        np.testing.assert_array_equal(loss.at_log(-HUGE), HUGE)


@pytest.mark.parametrize("loss", [logistic, exponential], ids=str)
def test_the_pull_is_minus_the_derivative_and_the_steepness_that_of_its_logarithm(loss):
    each, q = loss.of_margin, MARGINS[2:-2]
    with float64():
        slope, fall = jax.vmap(jax.grad(each.value))(q), jax.vmap(jax.grad(each.log_pull))(q)
    np.testing.assert_allclose(each.pull(q), -np.asarray(slope), rtol=1e-13)
    np.testing.assert_allclose(each.steepness(q), -np.asarray(fall), rtol=1e-13)


@pytest.mark.parametrize("part", ["value", "log", "pull", "log_pull", "steepness", "at_log"])
@pytest.mark.parametrize("loss", [logistic, exponential], ids=str)
def test_numpy_and_jax_arrays_of_margins_have_the_same_numbers(loss, part):
    q = MARGINS[2:-2].reshape(7, 1)
    function = getattr(loss.of_margin, part)
    with float64():
        found = jax.jit(function)(q)
    assert isinstance(function(q), np.ndarray)
    np.testing.assert_allclose(function(q), np.asarray(found), rtol=1e-14)


def test_the_margin_at_the_logarithm_of_a_loss_is_the_margin():
    q = np.linspace(-50.0, 50.0, 101)
    for loss in (logistic.of_margin, exponential.of_margin):
        np.testing.assert_allclose(loss.at_log(loss.log(q)), q, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("loss", [square, logistic, exponential], ids=str)
def test_the_pull_on_an_output_is_minus_the_gradient_of_the_summed_loss(loss):
    np.testing.assert_allclose(loss.pulls(F, SIGNS), -gradient(loss.sum, F, SIGNS), rtol=1e-14)


def test_the_square_loss_is_no_function_of_the_margin():
    with pytest.raises(ValueError, match="Take the logistic or the exponential loss"):
        square.of_margin  # noqa: B018


# Names and targets


def test_a_loss_is_known_by_its_name_with_or_without_its_reduction():
    assert named("square") == square == square.mean
    assert named("logistic.sum") == logistic.sum
    assert named(exponential) is exponential
    assert str(cross_entropy.sum) == "cross_entropy.sum"
    assert named(str(square.sum)) == square.sum


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sqare", "unknown loss 'sqare'. Did you mean 'square'"),
        ("square.media", "unknown reduction 'media'"),
        ("hinge", "Known: square, logistic, exponential, cross_entropy"),
    ],
)
def test_an_unknown_loss_is_answered_with_the_known_ones(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        named(name)


@pytest.mark.parametrize(
    ("loss", "y", "outputs"),
    [
        (square, NUMBERS, 3),
        (square, NUMBERS[:, 0], 1),
        (square, NUMBERS[:, :1], 1),
        (logistic, SIGNS, 1),
        (exponential, SIGNS, 1),
        (cross_entropy, CLASSES, 3),
        (cross_entropy, CLASSES, 5),
    ],
)
def test_targets_that_fit_pass(loss, y, outputs):
    loss.check_targets(y, outputs)


@pytest.mark.parametrize(
    ("loss", "y", "outputs", "sentence"),
    [
        (square, NUMBERS, 1, r"network has 1 outputs, but the targets have shape \(6, 3\)"),
        (square, NUMBERS[:, 0], 2, "network has 2 outputs"),
        (
            logistic,
            np.array([0.0, 1.0, 1.0]),
            1,
            r"needs labels -1 and \+1.*0, 1\. Take two classes by `rf.data.pair\(data, 1, 0\)`",
        ),
        (exponential, np.arange(7.0), 1, r"the exponential loss needs labels.*0, 1, 2, 3, 4, \.\.\."),
        (logistic, np.ones(4), 1, r"all 4 labels are 1: the logistic loss needs two classes"),
        (logistic, np.stack([SIGNS, SIGNS], axis=1), 2, "for one output; for 2 use 'cross_entropy'"),
        (cross_entropy, CLASSES, 1, "one output per class, and so at least two; for one use 'logistic'"),
        (cross_entropy, CLASSES, 2, "needs class numbers 0 to 1, but the targets reach from 0 to 2"),
        (cross_entropy, SIGNS, 2, "class numbers 0 to 1, but the targets reach from -1 to 1"),
        (cross_entropy, np.array([0.5, 1.0]), 2, "needs class numbers"),
        (cross_entropy, np.zeros(4), 3, "all 4 labels are 0"),
    ],
)
def test_targets_that_do_not_fit_are_refused_with_a_sentence(loss, y, outputs, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss.check_targets(y, outputs)
