from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rankfall import Data, Network
from rankfall._precision import float64
from rankfall.loss import LOSSES
from rankfall.measure import gradient_norm
from rankfall.network import moving

# Depth 2 to 5; with and without biases, several outputs, linear tails, layers that are not trained.
STRUCTURES = {
    2: {"hidden": (5,), "slope": 0.3, "bias": True},
    3: {"hidden": (5, 4), "slope": 0.0, "bias": False, "linear_tail": 2},
    4: {
        "hidden": (5, 4, 3),
        "slope": 0.1,
        "bias": (True, False, True, True),
        "trained": (True, False, True, True),
    },
    5: {"hidden": (4, 4, 4, 3), "slope": 0.2, "bias": False, "trained": (False, True, True, True, True)},
}
CASES = [(loss, depth) for loss in LOSSES for depth in STRUCTURES]
REDUCTIONS = ("mean", "sum")


@cache
def problem(loss, depth):
    """A random network, and data for it."""
    outputs = {"cross_entropy": 3, "square": 1 if depth % 2 else 2}.get(loss, 1)
    rng = np.random.default_rng(depth)
    structure = dict(STRUCTURES[depth])
    widths, slope = (3, *structure.pop("hidden"), outputs), structure.pop("slope")
    drawn = Network.gaussian(widths, slope, 3.0, depth, **structure)
    biases = [None if b is None else rng.normal(size=b.shape) for b in drawn.biases]
    network = Network(drawn.weights, biases, slope, drawn.trained, drawn.linear_tail)
    y = {
        "square": rng.normal(size=(6, outputs) if outputs > 1 else 6),
        "cross_entropy": np.array([0.0, 1.0, 2.0, 1.0, 0.0, 2.0]),
    }.get(loss, np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]))
    return network, Data(rng.normal(size=(6, 3)), y)


@cache
def gradients(loss, depth):
    """The gradients of the mean, the sum and the log of the loss: networks with None where nothing moves."""
    network, data = problem(loss, depth)
    trained, fixed = eqx.partition(network, moving(network))

    def values(part):
        f, kind = eqx.combine(part, fixed)(data.x), LOSSES[loss]
        return jnp.stack([kind.mean(f, data.y), kind.sum(f, data.y), kind.mean.log(f, data.y)])

    with float64():
        slopes = jax.tree.map(np.asarray, jax.jit(jax.jacrev(values))(trained))
    return {
        name: jax.tree.map(lambda leaf, i=i: leaf[i], slopes) for i, name in enumerate((*REDUCTIONS, "log"))
    }


def naive_loss(loss, f, y):
    """The mean loss by the formula of a textbook; f has one row a sample."""
    if loss == "cross_entropy":
        p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
        return -np.log(p[np.arange(len(y)), y.astype(int)]).mean()
    if loss == "square":
        return ((f - y.reshape(f.shape)) ** 2 / 2).sum(axis=1).mean()
    margins = y * f[:, 0]
    return (np.log(1 + np.exp(-margins)) if loss == "logistic" else np.exp(-margins)).mean()


def naive_forward(network, weights, biases, x):
    h, nonlinear = x, network.depth - network.linear_tail
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
        if 0 < layer <= nonlinear:
            h = np.where(h > 0, h, float(network.slope) * h)
        h = h @ w.T + (0.0 if b is None else b)
    return h


def central_differences(loss, network, data, h=1e-5):
    """The gradient of the mean loss in every array, trained or not: (f(t + h) - f(t - h)) / 2h."""
    weights = [w.copy() for w in network.weights]
    biases = [None if b is None else b.copy() for b in network.biases]

    def value():
        return naive_loss(loss, naive_forward(network, weights, biases, data.x), data.y)

    def of(array):
        slope = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            here = array[i]
            array[i] = here + h
            above = value()
            array[i] = here - h
            slope[i] = (above - value()) / (2 * h)
            array[i] = here
        return slope

    return [of(w) for w in weights], [None if b is None else of(b) for b in biases], value()


def assert_gradient(network, gradient, weights, biases, rtol):
    """`gradient` is that of all `weights` and `biases` which are trained, and has nothing elsewhere."""
    size = max(np.abs(w).max() for w, t in zip(weights, network.trained, strict=True) if t)
    for mine, other in ((gradient.weights, weights), (gradient.biases, biases)):
        for a, b, trained in zip(mine, other, network.trained, strict=True):
            if trained and b is not None:
                np.testing.assert_allclose(a, b, rtol=0, atol=rtol * size)
            else:
                assert a is None
    assert gradient.slope is None


@pytest.mark.parametrize(("loss", "depth"), CASES)
def test_the_gradient_is_the_limit_of_central_differences(loss, depth):
    network, data = problem(loss, depth)
    weights, biases, value = central_differences(loss, network, data)
    for kind, factor in (("mean", 1.0), ("sum", data.n), ("log", 1 / value)):
        scaled = [factor * w for w in weights], [None if b is None else factor * b for b in biases]
        assert_gradient(network, gradients(loss, depth)[kind], *scaled, rtol=1e-6)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("loss", "depth"), CASES)
def test_the_gradient_is_that_of_pytorch(loss, depth, reduction):
    import torch
    from torch.nn import functional

    network, data = problem(loss, depth)
    weights = [torch.tensor(w, requires_grad=True) for w in network.weights]
    biases = [None if b is None else torch.tensor(b, requires_grad=True) for b in network.biases]
    h = torch.tensor(data.x)
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
        if 0 < layer <= network.depth - network.linear_tail:
            h = functional.leaky_relu(h, float(network.slope))
        h = functional.linear(h, w, b)
    y = torch.tensor(data.y)
    if loss == "cross_entropy":
        value = functional.cross_entropy(h, y.long(), reduction=reduction)
    elif loss == "square":
        value = functional.mse_loss(h, y.reshape(h.shape), reduction="sum") / 2
        value = value / (data.n if reduction == "mean" else 1)
    elif loss == "logistic":
        value = functional.soft_margin_loss(h[:, 0], y, reduction=reduction)
    else:
        value = getattr(torch.exp(-y * h[:, 0]), reduction)()
    value.backward()
    assert_gradient(
        network,
        gradients(loss, depth)[reduction],
        [w.grad.numpy() for w in weights],
        [None if b is None else b.grad.numpy() for b in biases],
        rtol=1e-10,
    )


@pytest.mark.torch
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_gradient_on_a_kink_is_that_of_pytorch(slope):
    import torch
    from torch.nn import functional

    first, second, x, y = np.array([[1.0, -1.0], [2.0, 1.0]]), np.array([[1.5, -0.5]]), np.ones((1, 2)), 3.0
    w1, w2 = torch.tensor(first, requires_grad=True), torch.tensor(second, requires_grad=True)
    out = functional.leaky_relu(torch.tensor(x) @ w1.T, slope) @ w2.T  # the first neuron is on its kink
    ((out - y) ** 2 / 2).sum().backward()
    with float64():
        network = Network([first, second], slope=slope)
        mine = jax.jit(jax.grad(lambda n: LOSSES["square"](n(x), np.array([y]))))(network)
    np.testing.assert_allclose(mine.weights[0], w1.grad, rtol=1e-14)
    np.testing.assert_allclose(mine.weights[1], w2.grad, rtol=1e-14)


@pytest.mark.parametrize(("loss", "depth"), [("square", 3), ("logistic", 4)])
def test_the_gradient_norm_is_the_norm_over_everything_trained(loss, depth):
    network, data = problem(loss, depth)
    leaves = jax.tree.leaves(gradients(loss, depth)["mean"])
    expected = np.sqrt(sum((leaf**2).sum() for leaf in leaves))
    np.testing.assert_allclose(gradient_norm(network, data, loss), expected, rtol=1e-12)


def test_equal_output_weights_give_the_first_layer_no_gradient_under_the_cross_entropy():
    network = Network.constant_second_layer((3, 5, 3), 0.1, 1.0, 0)
    _, data = problem("cross_entropy", 2)
    with float64():
        gradient = jax.jit(jax.grad(lambda n: LOSSES["cross_entropy"](n(data.x), data.y)))(network)
    assert np.abs(gradient.weights[0]).max() < 1e-16
    assert np.abs(gradient.weights[1]).max() > 1e-2


def test_the_gradient_of_a_network_at_a_margin_of_ten_thousand_does_not_underflow_in_the_log():
    data = Data([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    network = Network([[[1e4, -1e4 - 1.0]]])
    with float64():
        gradient = jax.jit(jax.grad(lambda n: LOSSES["logistic"].log(n(data.x), data.y)))(network).weights[0]
    weight = 1 / (1 + np.exp(-1.0))  # the softmax of (-10000, -10001)
    np.testing.assert_allclose(gradient, [[-weight, 1 - weight]], rtol=1e-12)
