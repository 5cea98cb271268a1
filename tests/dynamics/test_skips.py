"""Runs of networks with residual blocks, against plain NumPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rankfall import Data, Network, descent, exact_flow, flow, limit
from rankfall.data import hard_margin
from rankfall.limits._approximate import kkt_distance
from rankfall.measure import weights, with_weights

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 3)), RNG.normal(size=8)
DATA = Data(X, Y)
V, U, W = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=(1, 3))
DIAGONAL, FREE = RNG.normal(size=3), RNG.normal(size=(3, 3))
KINDS = pytest.mark.parametrize("skip", ["identity", DIAGONAL, FREE], ids=["identity", "diagonal", "free"])


def block(skip, **rest):
    """x -> S x + U s(V x) -> W: the skip takes the inputs themselves."""
    return Network([V, U, W], slope=0.3, skips=[None, skip, None], **rest)


def gradient(v, u, w, skip, slope, linear=False):
    """The gradients of (1/2n) sum (f - y)^2 for x -> S x + U s(V x) -> W, written out."""
    z = X @ v.T
    mask = np.ones_like(z) if linear else np.where(z > 0, 1.0, slope)
    through = X if isinstance(skip, str) else X * skip if skip.ndim == 1 else X @ skip.T
    h = (mask * z) @ u.T + through
    r = (h @ w[0] - Y)[:, None] / len(Y)
    back = r * w
    on_skip = None if isinstance(skip, str) else (back * X).sum(axis=0) if skip.ndim == 1 else back.T @ X
    return (mask * (back @ u)).T @ X, back.T @ (mask * z), r.T @ h, on_skip


@KINDS
@pytest.mark.parametrize("linear_tail", [1, 3])
def test_descent_of_a_residual_network_is_the_descent_written_out(skip, linear_tail):
    run = descent(block(skip, linear_tail=linear_tail), DATA, "square", 0.05, 40, measures=["weights"])
    v, u, w, s = V.copy(), U.copy(), W.copy(), skip if isinstance(skip, str) else skip.copy()
    for _ in range(40):
        gradients = gradient(v, u, w, s, 0.3, linear_tail == 3)
        v, u, w = (p - 0.05 * g for p, g in zip((v, u, w), gradients[:3], strict=True))
        s = s if isinstance(s, str) else s - 0.05 * gradients[3]
    end = run.network
    for found, expected in zip(end.weights, (v, u, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    if not isinstance(skip, str):
        np.testing.assert_allclose(end.skips[1], s, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(run["weights"].values[-1], weights(end))


def test_a_layer_that_is_fixed_keeps_its_skip():
    network = block(FREE, trained=(True, False, True))
    end = descent(network, DATA, "square", 0.05, 5).network
    np.testing.assert_array_equal(end.skips[1], FREE)
    np.testing.assert_array_equal(end.weights[1], U)
    assert np.abs(end.weights[0] - V).max() > 1e-3


@KINDS
def test_flow_of_a_linear_residual_network_is_that_of_scipy(skip):
    shapes = [V.shape, U.shape, W.shape] + ([] if isinstance(skip, str) else [skip.shape])
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def field(t, flat):
        parts = [p.reshape(s) for p, s in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
        gradients = gradient(*parts[:3], parts[3] if len(parts) > 3 else skip, 0.3, True)
        return -np.concatenate([g.ravel() for g in gradients if g is not None])

    start = weights(block(skip))
    solved = solve_ivp(field, (0, 2.0), start, rtol=1e-9, atol=1e-10)
    run = flow(block(skip, linear_tail=3), DATA, "square", 2.0, measures=["weights"], show=False)
    np.testing.assert_allclose(run["weights"].values[-1], solved.y[:, -1], rtol=1e-6, atol=1e-7)


@KINDS
def test_networks_with_skips_run_together_as_they_run_alone(skip):
    other = skip if isinstance(skip, str) else 2 * skip
    networks = [block(skip), Network([V, -U, W], slope=0.1, skips=[None, other, None])]
    together = descent(networks, DATA, "square", 0.05, 10)
    for network, end in zip(networks, together.networks, strict=True):
        alone = descent(network, DATA, "square", 0.05, 10).network
        np.testing.assert_allclose(weights(end), weights(alone), rtol=1e-12)


@pytest.mark.parametrize("where", [2, 3])
def test_with_fewer_samples_than_features_a_residual_run_is_the_same_in_the_span_of_the_data(where):
    rng = np.random.default_rng(1)
    data = Data(rng.normal(size=(4, 9)), rng.normal(size=4))
    widths = (9, 5, 9, 1) if where == 2 else (9, 5, 6, 1)
    skips = (None, "identity", None) if where == 2 else (None, None, rng.normal(size=(1, 5)))
    network = Network.gaussian(widths, 0.2, 1.0, 0, skips=skips)
    runs = [descent(network, data, "square", 0.05, 20, span=span) for span in (True, False)]
    assert runs[0].settings["span"] == (where == 3)  # a skip into layer 2 takes the inputs themselves
    np.testing.assert_allclose(weights(runs[0].network), weights(runs[1].network), rtol=1e-10, atol=1e-12)


def test_recorded_weights_make_the_networks_again():
    run = descent(block(FREE), DATA, "square", 0.05, 7, measures=["weights", "loss"])
    networks = with_weights(block(FREE), run["weights"].values)
    assert networks.skips[1].shape == (8, 3, 3)
    np.testing.assert_array_equal(networks.weights[1][-1], run.network.weights[1])
    last = with_weights(block(FREE), run["weights"].values[-1])
    np.testing.assert_array_equal(last(X), run.network(X))
    with pytest.raises(ValueError, match="42 weights, but 10 are given"):
        with_weights(block(FREE), np.zeros(10))


def test_what_is_exact_for_two_plain_layers_refuses_skips():
    labels = Data(X, np.sign(Y))
    network = Network.gaussian((3, 4, 1), 0.0, 1.0, 0, skips=(None, np.ones((1, 3))))
    with pytest.raises(ValueError, match="the exact flow is for networks without skips"):
        exact_flow(network, labels, "exponential", 1.0)
    with pytest.raises(ValueError, match=r"not homogeneous .* a skip needs a fixed layer"):
        limit(network, labels)
    with pytest.raises(ValueError, match="two-layer networks without skips"):
        limit(network, labels, "square")


def test_the_kkt_point_of_a_block_with_a_fixed_inner_layer_is_the_support_vector_machine_of_its_features():
    # f = U s(V x) + Z x is linear in (U, Z): the hard-margin problem in the features (s(V x), x).
    y = np.sign(X @ np.array([1.0, -2.0, 0.5]))
    z = X @ V.T
    features = np.column_stack([np.where(z > 0, z, 0.3 * z), X])
    svm = hard_margin(Data(features, y))
    u, skip = svm.w[None, :5], svm.w[None, 5:]
    for factor, near in ((1.0, True), (1.5, False)):
        network = Network([V, factor * u], slope=0.3, trained=(False, True), skips=[None, skip])
        assert network.homogeneity == 1
        assert (y * network(X)).min() > 0
        assert (kkt_distance(network, Data(X, y))[0] < 1e-8) == near
