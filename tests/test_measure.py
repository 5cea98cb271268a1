import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp

from rankfall import Data, Network, descent, every
from rankfall import measure as ms
from rankfall.measure import Measure

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 4))
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
CLASSES = np.array([0.0, 1.0, 2.0, 1.0, 0.0, 2.0, 2.0, 1.0, 0.0])
DEEP = Network(
    [RNG.normal(size=(6, 4)), RNG.normal(size=(5, 6)), RNG.normal(size=(3, 5))],
    [RNG.normal(size=6), None, RNG.normal(size=3)],
    slope=0.2,
)
TWO = Network([RNG.normal(size=(6, 4)), RNG.normal(size=(1, 6))], slope=0.2)
ON_DEEP = Data(X, CLASSES, test=Data(X[:4] + 1.0, CLASSES[:4]))
ON_TWO = Data(X, SIGNS, test=Data(X[:4] + 1.0, SIGNS[:4]))


def scaled(network, factor, dtype=np.float64):
    return Network([(factor * w).astype(dtype) for w in network.weights], slope=network.slope)


def values(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


def stable(matrix):
    """The stable rank by the SVD."""
    s = values(matrix)
    return (s**2).sum() / s[0] ** 2


def deep_outputs(x):
    """The outputs of DEEP by hand."""
    (w1, w2, w3), (b1, _, b3) = DEEP.weights, DEEP.biases
    h = x @ w1.T + b1
    h = np.where(h > 0, h, 0.2 * h) @ w2.T
    return np.where(h > 0, h, 0.2 * h) @ w3.T + b3


def two_outputs(x, network=TWO):
    h = x @ network.weights[0].T
    return np.where(h > 0, h, float(network.slope) * h) @ network.weights[1][0]


# The spectrum


def test_stable_rank_is_the_squared_frobenius_norm_over_the_squared_spectral_norm():
    np.testing.assert_allclose(ms.stable_rank(DEEP), [stable(w) for w in DEEP.weights], rtol=1e-13)
    np.testing.assert_allclose(ms.stable_rank(TWO), [stable(TWO.weights[0])], rtol=1e-13)


def test_singular_values_are_those_of_each_matrix_and_nan_beyond():
    found = ms.singular_values(DEEP)
    for row, w in zip(found, DEEP.weights, strict=True):
        np.testing.assert_allclose(row[: min(w.shape)], values(w), rtol=1e-13)
        assert np.isnan(row[min(w.shape) :]).all()


def test_rank_counts_the_singular_values_above_the_tolerance():
    u, v = np.linalg.qr(RNG.normal(size=(6, 6)))[0], np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    network = Network([u[:, :4] @ np.diag([3.0, 1.0, 1e-4, 1e-9]) @ v, np.ones((1, 6))])
    assert ms.rank(network) == [3]
    assert ms.rank(network, tol=1e-3) == ms.rank.of(tol=1e-3)(network) == [2]
    assert ms.rank(network, tol=1e-12) == [4]


def test_effective_rank_is_the_exponential_of_the_entropy_of_the_singular_values():
    for w, found in zip(DEEP.weights, ms.effective_rank(DEEP), strict=True):
        p = values(w) / values(w).sum()
        np.testing.assert_allclose(found, np.prod(p**-p), rtol=1e-13)
    np.testing.assert_allclose(ms.effective_rank(Network([np.eye(4)])), [4.0], rtol=1e-14)


def test_alignment_is_one_exactly_if_a_layer_reads_what_the_one_before_writes():
    expected = []
    for before, after in zip(DEEP.weights[:-1], DEEP.weights[1:], strict=True):
        u, v = np.linalg.eigh(before @ before.T)[1][:, -1], np.linalg.eigh(after.T @ after)[1][:, -1]
        expected.append(abs(u @ v))
    np.testing.assert_allclose(ms.alignment(DEEP), expected, rtol=1e-10)
    np.testing.assert_allclose(ms.alignment(Network.rank_one((4, 6, 1), 0.2, 1.0, 0)), [1.0], rtol=1e-13)


def test_sign_blocks_are_the_rows_with_a_positive_and_with_a_negative_output_weight():
    first, signs = TWO.weights[0], TWO.weights[1][0]
    blocks = [first * (signs > 0)[:, None], first * (signs < 0)[:, None]]
    for found, expected in zip(ms.sign_blocks(TWO), blocks, strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(ms.block_stable_rank(TWO), [stable(b) for b in blocks], rtol=1e-13)


def test_layers_of_one_row_or_column_have_no_rank_to_speak_of():
    assert ms.matrix_layers(DEEP) == [1, 2, 3]
    assert ms.matrix_layers(TWO) == [1]
    with pytest.raises(ValueError, match="single row or column: its rank is one by its shape"):
        ms.stable_rank(Network([[[1.0, 2.0]]]))
    with pytest.raises(ValueError, match="sign blocks belong to a two-layer network with one output"):
        ms.block_stable_rank(DEEP)


# The neurons


def test_balance_is_the_difference_of_the_gram_matrices_biases_counted_in():
    (w1, w2, w3), b1 = DEEP.weights, DEEP.biases[0]
    expected = [w2.T @ w2 - w1 @ w1.T - np.outer(b1, b1), w3.T @ w3 - w2 @ w2.T]
    for found, matrix in zip(ms.balance_matrices(DEEP), expected, strict=True):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, matrix, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(ms.balance(DEEP), [np.linalg.norm(c) for c in expected], rtol=1e-13)
    neurons = np.concatenate([np.diag(c) for c in expected])
    np.testing.assert_allclose(ms.neuron_balance(DEEP), neurons, rtol=1e-13, atol=1e-13)
    moved = scaled(DEEP, 1.1)  # without biases
    after = [1.21 * (w2.T @ w2 - w1 @ w1.T), 1.21 * expected[1]]
    drifts = [now - then for now, then in zip(after, expected, strict=True)]
    np.testing.assert_allclose(ms.balance_drift(moved, DEEP), [np.linalg.norm(d) for d in drifts], rtol=1e-12)
    largest = max(np.abs(np.diag(d)).max() for d in drifts)
    np.testing.assert_allclose(ms.neuron_balance_drift(moved, DEEP), largest, rtol=1e-12)


def test_patterns_are_the_signs_of_the_preactivations_and_dead_neurons_have_none():
    (w1, w2, _), b1 = DEEP.weights, DEEP.biases[0]
    h = X @ w1.T + b1
    patterns = np.hstack([h > 0, np.where(h > 0, h, 0.2 * h) @ w2.T > 0])
    np.testing.assert_array_equal(ms.activation_patterns(DEEP, ON_DEEP), patterns)
    dead = Network([np.vstack([np.abs(TWO.weights[0][:2]), -np.abs(TWO.weights[0][:3])]), np.ones((1, 5))])
    positive = Data(np.abs(X), SIGNS)
    assert ms.dead_neurons(dead, positive) == 3
    assert ms.dead_neurons(DEEP, ON_DEEP) == (~patterns.any(axis=0)).sum()


def test_distinct_directions_are_counted_up_to_an_angle():
    angles = [0.0, 5e-4, 1.0, 1.0 + 2e-3, 4.0]
    rows = np.array([(3.0 + i) * np.array([np.cos(a), np.sin(a)]) for i, a in enumerate(angles)])
    rows = np.vstack([rows, 1e-7 * np.ones(2)])
    network = Network([rows, np.ones((1, 6))])
    assert ms.distinct_directions(network) == 4
    assert ms.distinct_directions(network, tol=1e-2) == 3
    assert ms.distinct_directions(network, tol=1e-5) == 5
    assert ms.distinct_directions(network, small=1e-9) == 5


# The fit


def test_outputs_and_margins_are_those_of_the_network():
    f = deep_outputs(X)
    np.testing.assert_allclose(ms.outputs(DEEP, ON_DEEP), f, rtol=1e-12)
    margins = [row[int(c)] - max(np.delete(row, int(c))) for row, c in zip(f, CLASSES, strict=True)]
    np.testing.assert_allclose(ms.margins(DEEP, ON_DEEP), margins, rtol=1e-12)
    right, test_right = f.argmax(axis=1) == CLASSES, deep_outputs(X[:4] + 1.0).argmax(axis=1) == CLASSES[:4]
    np.testing.assert_allclose(ms.accuracy(DEEP, ON_DEEP), right.mean(), rtol=1e-6)
    np.testing.assert_allclose(ms.test_accuracy(DEEP, ON_DEEP), test_right.mean(), rtol=1e-6)
    np.testing.assert_allclose(ms.margins(TWO, ON_TWO), SIGNS * two_outputs(X), rtol=1e-12)
    np.testing.assert_allclose(ms.outputs(TWO, ON_TWO), two_outputs(X)[:, None], rtol=1e-12)


def test_a_column_of_labels_has_the_same_margins_as_a_vector_of_them():
    column = Data(X, SIGNS[:, None])
    np.testing.assert_array_equal(ms.margins(TWO, column), ms.margins(TWO, ON_TWO))
    assert ms.accuracy(TWO, column) == ms.accuracy(TWO, ON_TWO)


def test_loss_and_log_loss_are_those_of_the_outputs_on_both_parts():
    q = SIGNS * two_outputs(X)
    np.testing.assert_allclose(ms.loss(TWO, ON_TWO, "exponential"), np.exp(-q).mean(), rtol=1e-12)
    np.testing.assert_allclose(ms.log_loss(TWO, ON_TWO, "exponential.sum"), logsumexp(-q), rtol=1e-12)
    test = (two_outputs(X[:4] + 1.0) - SIGNS[:4]) ** 2 / 2
    np.testing.assert_allclose(ms.test_loss(TWO, ON_TWO, "square"), test.mean(), rtol=1e-12)


def test_norms_are_frobenius_norms_and_the_parameter_norm_is_over_what_is_trained():
    np.testing.assert_allclose(ms.norms(DEEP), [np.linalg.norm(w) for w in DEEP.weights], rtol=1e-14)
    half = Network(DEEP.weights, DEEP.biases, 0.2, trained=(True, False, True))
    kept = [DEEP.weights[0], DEEP.weights[2], DEEP.biases[0], DEEP.biases[2]]
    found = ms.parameter_norm(half)
    np.testing.assert_allclose(found, np.sqrt(sum((a**2).sum() for a in kept)), rtol=1e-13)
    assert np.asarray(found).dtype == np.float64


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_smoothed_margin_inverts_the_loss_and_lies_just_below_the_normalised_one(loss):
    # gbar - log(n) / rho^k <= gtil <= gbar (Lyu and Li 2020)
    w = np.linalg.lstsq(X, SIGNS, rcond=None)[0]
    labels = np.where(X @ w > 0, 1.0, -1.0)
    ell = {"exponential": lambda q: np.exp(-q), "logistic": lambda q: np.log1p(np.exp(-q))}[loss]
    for size in (1.0, 3.0, 10.0):
        network = Network([size * np.vstack([w, -w]), size * np.array([[1.0, -1.0]])], slope=0.2)
        data = Data(X, labels)
        q, norm = labels * two_outputs(X, network), sum((a**2).sum() for a in network.weights)
        normalised, smoothed = ms.normalised_margin(network, data), ms.smoothed_margin(network, data, loss)
        np.testing.assert_allclose(normalised, q.min() / norm, rtol=1e-12)
        total = ell(q).sum()
        inverse = brentq(lambda s, total=total: np.log(ell(s) / total), -20.0, 600.0, xtol=1e-12)
        np.testing.assert_allclose(smoothed, inverse / norm, rtol=1e-9)
        assert smoothed <= normalised
        if loss == "exponential":
            assert smoothed >= normalised - np.log(9) / norm * (1 + 1e-9)


def test_the_smoothed_margin_of_the_cross_entropy_inverts_the_logistic_loss():
    network = Network(DEEP.weights, slope=0.2)
    f = ms.outputs(network, ON_DEEP)
    total = (logsumexp(f, axis=1) - f[np.arange(9), CLASSES.astype(int)]).sum()
    norm = np.sqrt(sum((w**2).sum() for w in network.weights))
    found = ms.smoothed_margin(network, ON_DEEP, "cross_entropy")
    np.testing.assert_allclose(found, -np.log(np.expm1(total)) / norm**3, rtol=1e-12)


@pytest.mark.parametrize("size", [0.1, 10.0, 100.0])
def test_the_smoothed_margin_of_a_network_that_is_all_wrong_is_finite(size):
    network = Network([[[size], [-size]], [[size, -size]]])
    data = Data([[1.0], [2.0]], [-1.0, -1.0])
    margins = -(size**2) * np.array([1.0, 2.0])
    total = np.logaddexp(0.0, -margins).sum()
    inverse = -total - np.log1p(-np.exp(-total))  # of log(1 + e^-q)
    found = ms.smoothed_margin(network, data, "logistic")
    np.testing.assert_allclose(found, inverse / (4 * size**2), rtol=1e-12)


def test_margins_are_normalised_only_where_the_network_is_homogeneous():
    with pytest.raises(ValueError, match="not homogeneous in its trained parameters"):
        ms.normalised_margin(DEEP, ON_DEEP)
    with pytest.raises(ValueError, match="square loss is not a function of the margin"):
        ms.smoothed_margin(TWO, ON_TWO, "square")


# Linearity


def test_a_linear_network_is_linear_and_the_absolute_value_is_not_at_all():
    linear = Network(TWO.weights, slope=1.0)
    symmetric = Data(np.vstack([X, -X]), np.concatenate([SIGNS, -SIGNS]))
    np.testing.assert_allclose(ms.linearity(linear, symmetric), 1.0, rtol=1e-14)
    np.testing.assert_allclose(ms.fresh_linearity(linear, symmetric), 1.0, rtol=1e-14)
    absolute = Network([np.vstack([X[0], -X[0]]), [[1.0, 1.0]]])
    assert abs(ms.linearity(absolute, symmetric)) < 1e-14
    assert abs(ms.fresh_linearity(absolute, symmetric)) < 0.05


def test_linearity_is_the_explained_fraction_of_the_least_squares_fit():
    f = two_outputs(X)
    fit = X @ np.linalg.lstsq(X, f, rcond=None)[0]
    expected = 1 - ((f - fit) ** 2).sum() / (f**2).sum()
    np.testing.assert_allclose(ms.linearity(TWO, ON_TWO), expected, rtol=1e-12)
    f, affine = deep_outputs(X), np.column_stack([X, np.ones(9)])
    fit = affine @ np.linalg.lstsq(affine, f, rcond=None)[0]
    expected = 1 - ((f - fit) ** 2).sum() / ((f - f.mean(axis=0)) ** 2).sum()
    np.testing.assert_allclose(ms.linearity(DEEP, ON_DEEP), expected, rtol=1e-12)


def test_the_twin_is_at_distance_zero_from_its_network_and_the_distance_is_relative():
    twin = TWO.linear_twin()
    assert ms.distance_to_twin(TWO, twin) < 1e-15
    np.testing.assert_allclose(ms.distance_to_twin(scaled(TWO, 1.5), twin), 0.5, rtol=1e-13)


# Very small, zero, single precision


@pytest.mark.parametrize(
    "measure",
    [ms.stable_rank, ms.block_stable_rank, ms.rank, ms.effective_rank, ms.alignment, ms.distinct_directions],
    ids=lambda measure: measure.name,
)
def test_ranks_do_not_see_the_scale_of_the_weights_down_to_1e_minus_200(measure):
    np.testing.assert_allclose(measure(scaled(TWO, 1e-200)), measure(TWO), rtol=1e-12)


@pytest.mark.parametrize("measure", [ms.norms, ms.singular_values], ids=lambda measure: measure.name)
def test_norms_and_singular_values_scale_with_the_weights_down_to_1e_minus_200(measure):
    np.testing.assert_allclose(measure(scaled(TWO, 1e-200)) * 1e200, measure(TWO), rtol=1e-12)


def test_relative_measures_do_not_see_the_scale_of_tiny_weights():
    tiny = scaled(TWO, 1e-90)  # f is of the order 1e-180, and its square vanishes
    np.testing.assert_allclose(ms.linearity(tiny, ON_TWO), ms.linearity(TWO, ON_TWO), rtol=1e-12)
    tiny = scaled(TWO, 1e-200)
    np.testing.assert_allclose(ms.distance_to_twin(scaled(tiny, 1.5), tiny.linear_twin()), 0.5, rtol=1e-12)


@pytest.mark.parametrize(
    "measure",
    [ms.stable_rank, ms.rank, ms.effective_rank, ms.norms, ms.balance],
    ids=lambda measure: measure.name,
)
def test_the_zero_matrix_has_rank_and_norm_zero(measure):
    assert not measure(Network([np.zeros((4, 3)), np.zeros((2, 4))])).any()


def test_single_precision_is_measured_to_single_precision():
    single = scaled(TWO, 1.0, np.float32)
    data = Data(X.astype(np.float32), SIGNS)
    for measure in (ms.stable_rank, ms.singular_values, ms.effective_rank, ms.norms, ms.alignment):
        found = measure(single)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, measure(TWO), rtol=1e-5)
    assert ms.rank(single) == [4]
    for measure in (ms.linearity, ms.margins):
        np.testing.assert_allclose(measure(single, data), measure(TWO, ON_TWO), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "measure", [ms.stable_rank, ms.norms, ms.margins, ms.accuracy, ms.gradient_norm], ids=lambda m: m.name
)
def test_measures_return_float64_numpy_and_leave_jax_in_single_precision(measure):
    given = {"network": TWO, "data": ON_TWO, "loss": "logistic"}
    found = measure(**{name: given[name] for name in measure.parameters})
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


# All measures

GUIDE = (Path(__file__).parents[1] / "docs" / "guide" / "measures.md").read_text(encoding="utf-8")
OF_NORM_ZERO = {"normalised_margin", "distance_to_twin"}  # 0/0 for zero weights: NaN is the answer


def value(name, network):
    given = {"network": network, "data": ON_TWO, "loss": "logistic", "start": TWO}
    given["twin"] = network.linear_twin()
    return ms.MEASURES[name](**{p: given[p] for p in ms.MEASURES[name].parameters})


@pytest.mark.parametrize("name", ms.MEASURES)
def test_a_measure_is_double_precision_or_counts_and_has_the_dimensions_that_it_declares(name):
    found = value(name, TWO)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64 or found.dtype.kind in "ib", f"{name} is of {found.dtype}"
    assert found.ndim == len(ms.MEASURES[name].dims), f"{name} has the shape {found.shape}"


@pytest.mark.parametrize("name", ms.MEASURES)
def test_zero_weights_are_measured_without_a_warning_or_nan(name):
    found = value(name, scaled(TWO, 0.0))
    assert np.isnan(found).any() == (name in OF_NORM_ZERO), f"{name} of zero weights is {found}"


@pytest.mark.parametrize("name", ms.MEASURES)
def test_a_measure_is_exported_and_in_the_table_of_the_guide(name):
    assert name in ms.__all__, f"import {name} in measure/__init__.py, and add it to __all__"
    assert re.search(rf"^\|.*`{name}`", GUIDE, re.MULTILINE), (
        f"add {name} to the table in docs/guide/measures.md"
    )


# Measures in a run

FIRST = Measure(lambda network: network.weights[0], "first", "first layer", dims=("row", "column"))
SECOND = Measure(lambda network: network.weights[1], "second", "second layer", dims=("out", "row"))


def learn_modes(speed, final, frame, start, step=0.04, steps=1500):
    """Descent of a linear network that learns modes, each at its own speed to its own size.

    The inputs are orthogonal, of squared norm n speed/final: mode i grows like exp(speed_i t) until the
    network maps a unit vector of its direction to one of length final_i (Saxe et al. 2014).
    """
    speed, final = np.asarray(speed), np.asarray(final)
    x = np.diag(np.sqrt(len(speed) * speed / final)) @ frame
    network = Network([start, start.T], slope=1.0, linear_tail=2)
    data = Data(x, x @ frame.T @ np.diag(final) @ frame)
    measures = ["stable_rank", FIRST, SECOND]
    return descent(network, data, "square", step, steps, measures=measures, record=every(1))


@pytest.mark.parametrize("size", [3, 36])  # small matrices are computed anew, larger ones followed
@pytest.mark.parametrize("axes", ["random axes", "the coordinate axes"])
@pytest.mark.parametrize(
    ("speed", "final"),
    [
        ((3.0, 1.0, 0.3), (1.0, 4.0, 0.5)),  # the second mode overtakes the first
        (
            (1.5, 1.2, 0.48),
            (1.5, 1.2, 12.0),
        ),  # the third overtakes both, after a long time in which it is small
    ],
)
def test_the_followed_stable_rank_is_that_of_the_svd_at_every_record(speed, final, axes, size):
    rng = np.random.default_rng(0)
    if axes == "random axes":
        frame, start = np.linalg.qr(rng.normal(size=(size, 3)))[0].T, 1e-5 * rng.normal(size=(size + 4, size))
    else:
        frame, start = np.eye(3, size), 1e-5 * np.eye(size + 4, size)
    run = learn_modes(speed, final, frame, start)
    leading = np.abs([np.linalg.svd(w)[2][0] @ frame.T for w in run.first.values]).argmax(axis=1)
    assert len(set(leading[3:])) > 1  # which mode leads has changed
    for matrix, layer in enumerate((run.first.values, run.second.values)):
        np.testing.assert_allclose(run.stable_rank[:, matrix], [stable(w) for w in layer], rtol=1e-6)


def test_the_followed_stable_rank_is_that_of_the_svd_where_many_values_are_nearly_the_same():
    rng = np.random.default_rng(3)
    frame = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    speed, final = np.exp(rng.uniform(-2.0, 1.0, 20)), rng.uniform(0.9, 1.1, 20)
    start = 1e-3 * np.linalg.qr(rng.normal(size=(24, 20)))[0]
    run = learn_modes(speed, final, frame, start, step=0.02, steps=1200)
    for matrix, layer in enumerate((run.first.values, run.second.values)):
        np.testing.assert_allclose(run.stable_rank[:, matrix], [stable(w) for w in layer], rtol=1e-6)


def test_the_followed_stable_rank_of_a_sign_block_wakes_up_with_it():
    # All output weights are positive at first; that of the first neuron changes its sign later.
    network = Network([np.array([[1.0, 0.5], [0.2, 1.0], [0.3, 0.4]]), [[0.5, 0.1, 0.2]]], slope=1.0)
    data = Data([[2.0, 0.0], [0.0, 1.0]], [-3.0, 0.2])
    run = descent(
        network, data, "square", 0.01, 60, measures=["block_stable_rank", FIRST, SECOND], record=every(1)
    )
    signs = run.second.values
    assert (signs[:5] > 0).all()
    assert (signs[-1] < 0).any()
    for found, w, a in zip(run.block_stable_rank.values, run.first.values, signs, strict=True):
        expected = [stable(w[a > 0]) if (a > 0).any() else 0.0, stable(w[a < 0]) if (a < 0).any() else 0.0]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_one_measure_with_two_options_is_recorded_twice_and_two_measures_of_one_name_are_refused():
    run = descent(TWO, ON_TWO, "square", 0.01, 1, measures=[ms.rank, ms.rank.of(tol=0.9)])
    ranks = [run[name].values[0] for name in run.dataset.data_vars]
    assert ranks == [4, (values(TWO.weights[0]) > 0.9 * values(TWO.weights[0])[0]).sum()]
    with pytest.raises(ValueError, match="'first'"):
        descent(TWO, ON_TWO, "square", 0.01, 1, measures=[FIRST, FIRST])


def test_a_run_refuses_what_it_cannot_record_with_a_sentence():
    for measures, sentence in (
        (["stable_rnk"], "unknown measure 'stable_rnk'. Did you mean 'stable_rank'"),
        (["distance_to_twin"], "cannot record 'distance_to_twin': it needs twin. Call it afterwards"),
        (["distance_to_twin"], "may ask for network, data, loss and start"),
        (["block_stable_rank", "normalised_margin"], "not homogeneous"),
        (["smoothed_margin"], "square loss is not a function of the margin"),
    ):
        network = TWO if "normalised_margin" not in measures else Network(TWO.weights, [None, np.ones(1)])
        with pytest.raises(ValueError, match=sentence):
            descent(network, ON_TWO, "square", 0.01, 1, measures=measures)
    with pytest.raises(ValueError, match="needs a test part"):
        descent(TWO, Data(X, SIGNS), "square", 0.01, 1, measures=["test_loss"])


@pytest.mark.parametrize(
    ("function", "dims", "sentence"),
    [
        (lambda network: network.weights[0][:, 0], (), r"shape (6,), but declares no dimensions: say dims=("),
        (lambda network: network.weights[0][:, 0], "neuron", "declares dims='neuron': say dims=("),
        (
            lambda network: network.weights[0],
            ("neuron",),
            "shape (6, 4), but declares dims=('neuron',): name",
        ),
        (
            lambda network: network.weights[0].sum(),
            ("neuron",),
            "shape (), but declares dims=('neuron',): leave",
        ),
    ],
)
def test_a_run_refuses_an_array_of_other_dimensions_than_declared(function, dims, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        descent(TWO, ON_TWO, "square", 0.01, 1, measures=[Measure(function, "x", "x", dims=dims)])


@pytest.mark.parametrize(
    "function",
    [
        lambda network: np.linalg.norm(network.weights[0]),
        lambda network: float(network.weights[0].sum()),
        lambda network: 1.0 if network.weights[0].sum() > 0 else 0.0,
        lambda network: network.weights[0][network.weights[0] > 0].sum(),
        lambda network: sum(range(network.weights[0].argmax())),
    ],
    ids=["NumPy", "float", "if", "mask", "range"],
)
def test_a_measure_that_cannot_be_compiled_is_told_how(function):
    measure = Measure(function, "x", "x")
    for call in (
        lambda: measure(TWO),
        lambda: descent(TWO, ON_TWO, "square", 0.01, 1, measures=[measure]),
    ):
        with pytest.raises(ValueError, match=r"'x' cannot be compiled.* Use jax\.numpy, jnp\.where for if"):
            call()


def test_a_name_that_is_taken_is_refused_and_a_cell_may_be_run_again():
    with pytest.raises(ValueError, match="_fit has a measure 'loss' already: give yours another name"):

        @ms.measured("another loss")
        def loss(network):
            return network.weights[0].sum()

    assert ms.MEASURES["loss"] is ms.loss
    cell = "@ms.measured('sum')\ndef total(network):\n    return network.weights[0].sum()"
    try:
        for _ in range(2):
            page = {"ms": ms, "__name__": "notebook"}
            exec(cell, page)
            assert ms.MEASURES["total"] is page["total"]
    finally:
        del ms.MEASURES["total"]
    with pytest.raises(ValueError, match=re.escape('write @measured("what it is"), with parentheses.')):
        ms.measured(lambda network: network.weights[0].sum())


def test_a_measure_defined_elsewhere_is_found_by_its_name():
    @ms.measured(long_name="number of neurons")
    def number_of_neurons(network):
        return jnp.asarray(float(network.widths[1]))

    try:
        assert ms.number_of_neurons is number_of_neurons
        assert ms.select(["number_of_neurons"]) == (number_of_neurons,)
    finally:
        del ms.MEASURES["number_of_neurons"]
    with pytest.raises(AttributeError, match="has no attribute 'number_of_neurons'"):
        _ = ms.number_of_neurons
