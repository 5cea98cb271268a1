import equinox as eqx
import jax
import numpy as np
import pytest

from rankfall import Network
from rankfall._precision import float64
from rankfall.measure import neuron_balance
from rankfall.network import activation, moving, stack, unstack

X = np.random.default_rng(0).normal(size=(7, 3))


def forward(network, x):
    """f(x), one row a point, by plain NumPy."""
    slope, nonlinear = float(network.slope), network.depth - network.linear_tail
    h = np.asarray(x)
    for layer, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        if 0 < layer <= nonlinear:
            h = np.where(h > 0, h, slope * h)
        h = h @ w.T + (0.0 if b is None else b)
    return h


def with_biases(network, seed=0):
    """The same network with random biases where it has any."""
    rng = np.random.default_rng(seed)
    biases = [None if b is None else rng.normal(size=b.shape) for b in network.biases]
    return Network(network.weights, biases, network.slope, network.trained, network.linear_tail)


# What it computes


@pytest.mark.parametrize("linear_tail", [1, 2, 3])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_forward_pass_is_that_of_the_formula(slope, linear_tail):
    network = Network.gaussian((3, 5, 4, 2), slope, 2.0, 1, bias=(True, False, True), linear_tail=linear_tail)
    network = with_biases(network)
    np.testing.assert_allclose(network(X), forward(network, X), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(network(X[0]), forward(network, X[0]), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_jax_pass_through_the_same_network(dtype):
    network = with_biases(Network.gaussian((3, 5, 4, 2), 0.3, 2.0, 1, bias=True)).astype(dtype)
    with float64():
        traced = jax.jit(lambda network, x: network.preactivations(x))(network, X.astype(dtype))
    for mine, theirs in zip(network.preactivations(X), traced, strict=True):
        assert isinstance(mine, np.ndarray)
        assert mine.dtype == theirs.dtype == dtype
        np.testing.assert_allclose(mine, theirs, rtol=50 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


def test_the_slope_alone_can_be_differentiated():
    network = Network([[[1.0], [-1.0]], [[2.0, 3.0]]])

    def value(slope):
        return eqx.tree_at(lambda n: n.slope, network, slope)(np.ones(1))

    assert jax.grad(value)(0.1) == -3.0  # f(1) = 2 - 3 slope


def test_outputs_beyond_the_largest_number_are_infinite_and_no_warning():
    assert Network([[[1e300]], [[1e300]]])(np.ones(1)) == np.inf


def test_one_output_is_one_number_a_point_and_the_preactivations_end_with_it():
    network = Network.gaussian((3, 6, 1), 0.1, 1.0, 0)
    hidden, out = network.preactivations(X)
    np.testing.assert_allclose(hidden, X @ network.weights[0].T, rtol=1e-14)
    assert network(X).shape == (7,)
    assert network(X[0]).shape == ()
    np.testing.assert_array_equal(network(X), out[:, 0])


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_the_derivative_at_the_kink_is_the_slope(slope):
    with float64():
        at = [float(jax.grad(activation)(z, slope)) for z in (-1.0, 0.0, 1.0)]
    assert at == [slope, slope, 1.0]


def test_float64_stays_float64_and_float32_stays_float32():
    double = Network.gaussian((3, 6, 1), 0.1, 1.0, 0)
    single = Network([w.astype(np.float32) for w in double.weights], slope=0.1)
    for network, dtype in ((double, np.float64), (single, np.float32)):
        assert isinstance(network(X), np.ndarray)
        assert network(X).dtype == network.dtype == dtype
    np.testing.assert_allclose(single(X), double(X), rtol=1e-5, atol=1e-6)
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_the_odd_part_of_two_layers_without_bias_is_linear(slope):
    network = Network.gaussian((3, 6, 1), slope, 3.0, 4)
    w1, w2 = network.weights
    expected = (1 + slope) / 2 * (X @ (w2 @ w1)[0])
    np.testing.assert_allclose(network.odd_part(X), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(network.odd_part(X) + network.even_part(X), network(X), rtol=1e-14)


@pytest.mark.parametrize("linear_tail", [1, 2])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_the_split_adds_up_to_the_network(slope, linear_tail):
    network = Network.gaussian((3, 6, 1), slope, 3.0, 4, linear_tail=linear_tail)
    linear, even = network.split()
    np.testing.assert_allclose(X @ linear[0] + even(X), network(X), rtol=1e-13, atol=1e-13)


def test_the_even_part_network_is_even_and_is_the_absolute_value():
    network = Network.gaussian((3, 6, 1), 0.3, 3.0, 4)
    w1, w2 = network.weights
    even = network.split()[1]
    np.testing.assert_allclose(even(-X), even(X), rtol=1e-14)
    np.testing.assert_allclose(even(X), 0.35 * np.abs(X @ w1.T) @ w2[0], rtol=1e-13, atol=1e-14)


def test_three_layers_compute_an_odd_function_that_is_not_linear():
    def relu(z):
        return np.maximum(z, 0.0)

    g = Network.depth_separation()
    a, b = np.random.default_rng(1).normal(size=(2, 50))
    x = np.column_stack([a, b])
    expected = relu(relu(a) - relu(b)) - relu(relu(-a) - relu(-b))
    np.testing.assert_allclose(g(x), expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(g(-x), -g(x))
    assert abs(g(np.array([1.0, 0.0])) + g(np.array([0.0, 1.0])) - g(np.array([1.0, 1.0]))) == 1.0


@pytest.mark.parametrize("linear_tail", [1, 2])
def test_the_linear_twin_computes_the_odd_part_from_weights_scaled_by_the_root_of_the_mean_slope(linear_tail):
    network = Network.rank_one((3, 6, 1), 0.3, 2.0, 1)
    network = Network(network.weights, slope=0.3, linear_tail=linear_tail)
    twin = network.linear_twin()
    assert twin.slope == 1
    np.testing.assert_allclose(twin(X), network.odd_part(X), rtol=1e-13)


# Orders of homogeneity


@pytest.mark.parametrize(
    ("bias", "trained", "order"),
    [
        ((False, False, False), (True, True, True), 3),
        ((False, False, False), (True, False, True), 2),
        ((False, False, False), (False, True, False), 1),
        ((True, False, False), (True, True, True), 3),
        ((True, True, False), (True, True, True), None),
        ((True, True, False), (False, True, True), 2),
        ((True, True, True), (False, False, True), 1),
        ((False, True, False), (True, False, True), None),
        ((False, False, True), (True, True, True), None),
        ((True, False, False), (False, True, True), 2),
    ],
)
def test_scaling_the_trained_parameters_scales_the_output_by_the_order_of_homogeneity(bias, trained, order):
    network = with_biases(Network.gaussian((3, 5, 4, 2), 0.2, 3.0, 2, bias=bias, trained=trained))
    assert network.homogeneity == order
    k = 1.7
    scaled = Network(
        [k * w if t else w for w, t in zip(network.weights, trained, strict=True)],
        [None if b is None else k * b if t else b for b, t in zip(network.biases, trained, strict=True)],
        0.2,
    )
    before, after = forward(network, X), forward(scaled, X)
    if order is None:
        assert all(np.abs(after - k**power * before).max() > 1e-3 for power in range(4))
    else:
        np.testing.assert_allclose(after, k**order * before, rtol=1e-13)


# Where training starts

INITIALISATIONS = {
    "gaussian": lambda seed: Network.gaussian((3, 6, 4, 2), 0.1, 0.5, seed),
    "fixed_second_layer": lambda seed: Network.fixed_second_layer((3, 6, 1), 0.1, 0.5, seed),
    "constant_second_layer": lambda seed: Network.constant_second_layer((3, 6, 2), 0.1, 0.5, seed),
    "balanced": lambda seed: Network.balanced((3, 6, 4, 2), 0.1, 0.5, seed),
    "rank_one": lambda seed: Network.rank_one((3, 6, 1), 0.1, 0.5, seed),
    "glorot_uniform": lambda seed: Network.glorot_uniform((3, 6, 4, 2), 0.1, seed),
}


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_gives_others(name):
    first, again, other = (INITIALISATIONS[name](seed) for seed in (5, 5, 6))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first.weights, again.weights, strict=True))
    assert first.weights[0].tobytes() != other.weights[0].tobytes()
    assert first.dtype == np.float64
    assert first.slope == 0.1
    assert first.origin.startswith(name)
    assert "seed=5" in first.origin


def test_gaussian_layers_are_normal_with_a_norm_close_to_the_scale():
    network = Network.gaussian((40, 200, 100, 30), 0.0, 1e-3, 0, bias=True)
    for w, b in zip(network.weights, network.biases, strict=True):
        assert abs(np.linalg.norm(w) / 1e-3 - 1) < 5 / np.sqrt(2 * w.size)
        z = w * np.sqrt(w.size) / 1e-3
        assert abs(z.mean()) < 5 / np.sqrt(w.size)
        assert abs((z**4).mean() - 3) < 5 * np.sqrt(96 / w.size)
        assert not b.any()
    assert network.trained == (True, True, True)


@pytest.mark.parametrize(("positive", "expected"), [(None, 3), (0, 0), (1, 1), (6, 6)])
def test_a_fixed_second_layer_has_the_signs_asked_for_and_does_not_move(positive, expected):
    network = Network.fixed_second_layer((3, 6, 1), 0.1, 0.5, 0, positive=positive)
    np.testing.assert_array_equal(
        network.weights[1], [[1 / np.sqrt(6)] * expected + [-1 / np.sqrt(6)] * (6 - expected)]
    )
    assert network.trained == (True, False)
    assert network.homogeneity == 1


def test_the_first_layer_of_a_fixed_second_layer_has_the_standard_deviation_sigma():
    first = Network.fixed_second_layer((100, 400, 1), 0.1, 0.02, 0, bias=True).weights[0]
    assert abs(first.std() / 0.02 - 1) < 5 / np.sqrt(2 * first.size)


def test_a_constant_second_layer_is_one_over_the_width_and_trained():
    network = Network.constant_second_layer((100, 400, 3), 0.1, 0.04, 0)
    np.testing.assert_array_equal(network.weights[1], np.full((3, 400), 1 / 400))
    assert abs(network.weights[0].std() / 0.2 - 1) < 5 / np.sqrt(2 * 40_000)
    assert network.trained == (True, True)
    assert network.has_bias


@pytest.mark.parametrize("widths", [(3, 6, 1), (3, 6, 4, 2), (4, 3, 5, 2, 3)])
def test_balanced_neurons_have_equal_norms_in_and_out_at_any_depth(widths):
    network = Network.balanced(widths, 0.1, 2.0, 3)
    for before, after in zip(network.weights[:-1], network.weights[1:], strict=True):
        np.testing.assert_allclose(np.linalg.norm(after, axis=0), np.linalg.norm(before, axis=1), rtol=1e-14)
    assert np.abs(neuron_balance(network)).max() < 1e-15


def test_one_output_of_a_balanced_network_is_plus_or_minus_the_norm_of_the_row():
    first, second = Network.balanced((3, 50, 1), 0.1, 2.0, 3).weights
    np.testing.assert_allclose(np.abs(second[0]), np.linalg.norm(first, axis=1), rtol=1e-14)
    assert {-1.0, 1.0} == set(np.sign(second[0]))


@pytest.mark.parametrize("width", [2, 6, 7])
def test_rank_one_weights_satisfy_the_assumption_of_the_linear_twin(width):
    network = Network.rank_one((3, width, 1), 0.1, 0.25, 0, direction=[0.0, 3.0, 4.0])
    first, second = network.weights
    np.testing.assert_allclose(first, np.outer(second[0], [0.0, 0.6, 0.8]), rtol=1e-14)
    positive, negative = second[second > 0], second[second < 0]
    np.testing.assert_allclose(np.linalg.norm(positive), np.linalg.norm(negative), rtol=1e-14)
    np.testing.assert_allclose([np.linalg.norm(first), np.linalg.norm(second)], 0.25, rtol=1e-14)


def test_a_random_rank_one_direction_is_a_unit_vector():
    first, second = Network.rank_one((3, 6, 1), 0.1, 0.25, 0).weights
    assert np.linalg.matrix_rank(first) == 1
    np.testing.assert_allclose(np.linalg.norm(first[0]) / abs(second[0, 0]), 1.0, rtol=1e-14)


def test_glorot_weights_fill_their_interval_evenly():
    network = Network.glorot_uniform((60, 200, 100), 0.0, 0, scale=0.5)
    for w in network.weights:
        bound = 0.5 * np.sqrt(6 / sum(w.shape))
        assert 0.99 * bound < np.abs(w).max() <= bound
        assert abs(w.var() / (bound**2 / 3) - 1) < 5 * np.sqrt(0.8 / w.size)


# Many at once


def test_stacked_networks_come_apart_again():
    networks = [Network.gaussian((3, 6, 1), slope, 1.0, i, bias=True) for i, slope in enumerate((0.0, 0.5))]
    together = stack(networks)
    assert together.weights[0].shape == (2, 6, 3)
    for before, after in zip(networks, unstack(together, [n.origin for n in networks]), strict=True):
        assert jax.tree.all(jax.tree.map(np.array_equal, before, after))
        assert after.origin == before.origin
    with pytest.raises(ValueError, match="must agree in widths"):
        stack([networks[0], Network.gaussian((3, 5, 1), 0.0, 1.0, 0, bias=True)])


def test_a_network_says_what_it_is():
    network = Network.gaussian(
        (3, 5, 4, 1), 0.1, 1.0, 7, bias=True, trained=(True, False, True), linear_tail=2
    )
    assert repr(network) == (
        "Network(3-5-4-1, slope 0.1, biases, 2 linear layers at the end, layer 2 fixed; "
        "gaussian(scale=1, seed=7))"
    )
    assert (network.depth, network.widths, network.outputs) == (3, (3, 5, 4, 1), 1)


# Bad input

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Network([]), "at least one weight matrix"),
        (lambda: Network([EYE], slope=-0.1), r"slope must lie in \[0, 1\].*-0.1"),
        (lambda: Network([EYE], slope=1.5), r"slope must lie in \[0, 1\]"),
        (lambda: Network([EYE], slope=np.nan), r"slope must lie in \[0, 1\]"),
        (lambda: Network([[[1.0, np.nan]]]), "W_1 has entries that are NaN or infinite"),
        (lambda: Network([EYE, [[np.inf, 1.0]]]), "W_2 has entries that are NaN or infinite"),
        (lambda: Network([EYE], [[np.nan, 0.0]]), "b_1 has entries that are NaN or infinite"),
        (lambda: Network([np.ones(3)]), r"W_1 must be a matrix out x in.*\(3,\)"),
        (lambda: Network([np.ones((0, 3))]), "at least one row and column"),
        (lambda: Network([EYE, np.ones((1, 3))]), "W_2 takes 3 inputs, but W_1 has 2 outputs"),
        (lambda: Network([EYE], [np.ones(3)]), "b_1 must have one entry for each of the 2 rows"),
        (lambda: Network([EYE, EYE], [np.ones(2)]), "biases must have one entry for each of the 2 layers"),
        (lambda: Network([EYE, EYE], trained=(True,)), "trained must have one entry for each"),
        (lambda: Network([EYE, EYE], linear_tail=0), "linear_tail must lie between 1"),
        (lambda: Network([EYE, EYE], linear_tail=3), "the depth 2, but is 3"),
        (lambda: Network.gaussian((3, 0, 1), 0.0, 1.0, 0), "widths must be whole numbers.*at least 1"),
        (lambda: Network.gaussian((3, 2.5, 1), 0.0, 1.0, 0), "widths must be whole numbers"),
        (lambda: Network.gaussian((3,), 0.0, 1.0, 0), "widths must be whole numbers"),
        (lambda: Network.gaussian((3, 4, 1), 0.0, 1.0, 0, bias=(True,)), "one for each of the 2 layers"),
        (lambda: Network.fixed_second_layer((3, 5, 1), 0.0, 1.0, 0), "half of 5 neurons cannot be positive"),
        (lambda: Network.fixed_second_layer((3, 4, 1), 0.0, 1.0, 0, positive=5), "between 0 and 4"),
        (lambda: Network.fixed_second_layer((3, 4, 2), 0.0, 1.0, 0), r"two layers: widths \(d, m, 1\)"),
        (lambda: Network.constant_second_layer((3, 4), 0.0, 1.0, 0), r"widths \(d, m, outputs\)"),
        (lambda: Network.rank_one((3, 1, 1), 0.0, 1.0, 0), "at least two neurons"),
        (lambda: Network.rank_one((3, 4, 1), 0.0, 1.0, 0, direction=[1.0, 0.0]), "a vector of 3 numbers"),
        (lambda: Network.rank_one((3, 4, 1), 0.0, 1.0, 0, direction=[0.0] * 3), "not all zero"),
        (lambda: Network.gaussian((3, 4, 4, 1), 0.0, 1.0, 0).linear_twin(), "fact about two-layer networks"),
        (lambda: Network.gaussian((3, 4, 1), 0.0, 1.0, 0, bias=True).split(), "without biases"),
        (lambda: Network.gaussian((3, 4, 1), 0.0, 1.0, 0)(np.ones((5, 2))), "takes 3 features, but x has 2"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_whole_numbers_are_widths_however_they_are_written():
    assert Network.gaussian((3.0, np.int64(4), 1.0), 0.0, 1.0, 0).widths == (3, 4, 1)


def test_a_balanced_network_of_scale_zero_is_zero():
    assert not any(w.any() for w in Network.balanced((3, 4, 1), 0.0, 0.0, 0).weights)


# Residual blocks: h_l = W_l s(W_{l-1} u) + S_l u

SKIPS = np.random.default_rng(5)
DIAGONAL, FREE = SKIPS.normal(size=3), SKIPS.normal(size=(3, 3))
KINDS = pytest.mark.parametrize("skip", ["identity", DIAGONAL, FREE], ids=["identity", "diagonal", "free"])


def residual(skip, linear_tail=1, slope=0.2, **rest):
    """x -> A x -> S u + U s(V u), with u = s(A x), -> W."""
    skips = (None, None, skip, None)
    network = Network.gaussian((3, 3, 5, 3, 2), slope, 2.0, 1, bias=(True, False, True, False), skips=skips,
                               linear_tail=linear_tail, **rest)  # fmt: skip
    rng = np.random.default_rng(0)
    biases = [None if b is None else rng.normal(size=b.shape) for b in network.biases]
    return Network(
        network.weights, biases, network.slope, network.trained, network.linear_tail, skips=network.skips
    )


def residual_forward(weights, biases, skip, slope, linear_tail, x):
    """The same by plain NumPy, written out."""

    def act(z, layer):
        return np.where(z > 0, z, slope * z) if layer <= 4 - linear_tail else z

    a, v, u_out, w = weights
    u = act(x @ a.T + biases[0], 1)
    through = u if isinstance(skip, str) else u * skip if skip.ndim == 1 else u @ skip.T
    h = act(u @ v.T, 2) @ u_out.T + biases[2] + through
    return h @ w.T


@KINDS
@pytest.mark.parametrize("linear_tail", [1, 2, 3, 4])
def test_a_residual_block_adds_its_input_through_the_skip_and_is_not_activated(skip, linear_tail):
    network = residual(skip, linear_tail)
    expected = residual_forward(network.weights, network.biases, skip, 0.2, linear_tail, X)
    np.testing.assert_allclose(network(X), expected, rtol=1e-13, atol=1e-14)
    assert network.activated == tuple(layer for layer in (1, 2) if layer <= 4 - linear_tail)
    np.testing.assert_allclose(network.astype(np.float32)(X), expected, rtol=1e-4, atol=1e-5)


def test_blocks_follow_one_another_and_the_first_may_take_the_inputs_themselves():
    rng = np.random.default_rng(2)
    v1, u1, v2, u2 = (rng.normal(size=shape) for shape in ((4, 3), (3, 4), (5, 3), (3, 5)))
    network = Network([v1, u1, v2, u2], slope=0.0, skips=[None, "identity", None, DIAGONAL])
    h = X + np.maximum(X @ v1.T, 0) @ u1.T
    np.testing.assert_allclose(network(X), DIAGONAL * h + np.maximum(h @ v2.T, 0) @ u2.T, rtol=1e-13)
    assert network.activated == (1, 3)
    assert "identity skip into layer 2, diagonal skip into layer 4" in repr(network)


@KINDS
def test_the_gradient_of_a_residual_network_is_that_of_finite_differences(skip):
    network = residual(skip, trained=(True, True, True, False))
    target = np.random.default_rng(3).normal(size=(7, 2))

    def loss(n):
        return ((n(X) - target) ** 2).sum()

    with float64():
        gradient = jax.grad(loss)(network)
    pairs = list(zip(jax.tree.leaves(network.skips), jax.tree.leaves(gradient.skips), strict=True))
    assert len(pairs) == (0 if isinstance(skip, str) else 1)
    pairs += list(zip(network.weights, gradient.weights, strict=True))
    places = jax.tree.leaves(network)
    for leaf, slopes in pairs:
        which = next(i for i, place in enumerate(places) if place is leaf)
        found = np.empty(leaf.shape)
        for index in np.ndindex(leaf.shape):
            ends = []
            for h in (1e-6, -1e-6):
                moved = [place.copy() for place in places]
                moved[which][index] += h
                ends.append(float(loss(jax.tree.unflatten(jax.tree.structure(network), moved))))
            found[index] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(slopes, found, rtol=1e-5, atol=1e-5 * np.abs(found).max())


def test_what_moves_of_a_skip_is_what_moves_of_its_layer():
    for trained in (True, False):
        network = residual(FREE, trained=(True, True, trained, True))
        assert moving(network).skips == (None, None, trained, None)
    assert jax.tree.leaves(moving(residual("identity")).skips) == []
    assert residual("identity").skip_kinds == (None, None, "identity", None)


@pytest.mark.parametrize(
    ("skip", "trained", "order"),
    [
        ("identity", (True, True, True, True), None),
        ("identity", (True, False, False, True), 2),
        (FREE, (True, True, True, True), None),
        (FREE, (True, False, True, True), 3),
        (DIAGONAL, (False, False, True, False), 1),
        (DIAGONAL, (True, True, False, False), None),
    ],
)
def test_a_residual_network_is_homogeneous_where_both_ways_through_its_blocks_are(skip, trained, order):
    network = Network.gaussian((3, 3, 5, 3, 1), 0.2, 2.0, 1, skips=(None, None, skip, None), trained=trained)
    assert network.homogeneity == order
    orders = range(5) if order is None else [order]
    flags = moving(network)
    doubled = jax.tree.map(lambda leaf, moves: 2 * leaf if moves else leaf, network, flags)
    assert any(np.allclose(doubled(X), 2.0**k * network(X), rtol=1e-12) for k in orders) == (
        order is not None
    )


@pytest.mark.parametrize(
    ("skips", "message"),
    [
        ((None, None, "identity"), "one entry for each of the 4 layers"),
        (("identity", None, None, None), "layer 1 has none before it"),
        ((None, np.ones((5, 3)), FREE, None), "blocks must not overlap"),
        ((None, "identity", None, None), "3 inputs and 5 outputs, but an identity needs as many"),
        ((None, None, np.ones(4), None), r"its diagonal skip has shape \(4,\)"),
        ((None, None, np.ones((3, 4)), None), r"its free skip has shape \(3, 4\)"),
        ((None, None, 2.0, None), "a skip is a vector or a matrix"),
        ((None, None, "identty", None), "unknown skip 'identty'. Did you mean 'identity'"),
        ((None, None, [1.0, np.nan, 0.0], None), "the skip of layer 3 has entries that are NaN"),
    ],
)
def test_a_skip_that_does_not_fit_is_named(skips, message):
    with pytest.raises(ValueError, match=message):
        Network.gaussian((3, 3, 5, 3, 2), 0.0, 1.0, 0, skips=skips)


def test_a_free_skip_may_change_the_dimension_and_facts_of_two_plain_layers_refuse_skips():
    network = Network.gaussian((3, 4, 1), 0.0, 1.0, 0, skips=(None, np.ones((1, 3))))
    w, a = network.weights
    np.testing.assert_allclose(network(X), X.sum(axis=1) + np.maximum(X @ w.T, 0) @ a[0], rtol=1e-13)
    for refused in (network.split, network.linear_twin):
        with pytest.raises(ValueError, match=r"without biases and skips; this is .*free skip into layer 2"):
            refused()


@KINDS
def test_stacked_residual_networks_come_apart_again(skip):
    networks = [residual(skip), Network(residual(skip).weights, residual(skip).biases, 0.7, skips=(
        None, None, skip if isinstance(skip, str) else 2 * skip, None))]  # fmt: skip
    for before, after in zip(networks, unstack(stack(networks), ["a", "b"]), strict=True):
        np.testing.assert_array_equal(after(X), before(X))
    with pytest.raises(ValueError, match="must agree in widths, biases, skips"):
        stack([residual(skip), residual(None)])
