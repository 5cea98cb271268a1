import jax
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import rankfall as rf
from rankfall._precision import float64
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.situation import Situation
from rankfall.theory.mathematics.deep_form import (
    blocks,
    chains,
    form,
    gain,
    low_rank,
    outside,
    sorted_by_blocks,
)


def white(pairs=12, dim=3, seed=0):
    """Inputs with <x x^T> = I, and a linear target of norm 1."""
    data = rf.data.symmetric_sine(pairs=pairs, dim=dim, seed=seed, white=True)
    w = np.arange(1.0, dim + 1) / np.linalg.norm(np.arange(1.0, dim + 1))
    return rf.Data(data.x, data.x @ w), w


def trained(network, data, rtol=1e-5, left=1e-7):
    until = rf.Until(time=1e6, loss=left)
    return rf.flow(network, data, "square", until, rtol=rtol, measures=["loss"], show=False, budget=20_000)


def singular(w):
    return np.linalg.svd(w, compute_uv=False)


@pytest.mark.filterwarnings("ignore::rankfall.FlowWarning")  # the smallest neurons chatter, and weigh nothing
@pytest.mark.parametrize(
    ("depth", "scale"),
    [(3, 0.05), pytest.param(4, 0.1, marks=pytest.mark.slow), pytest.param(5, 0.2, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_from_small_weights_a_deep_relu_network_ends_with_two_equal_chains(depth, scale, seed):
    data = rf.data.symmetric_linear(pairs=30, dim=4, seed=0)
    w = np.linalg.lstsq(data.x, data.y)[0]
    one = np.linalg.norm(w) ** (1 / depth)
    start = rf.Network.gaussian((4, *[40] * (depth - 1), 1), slope=0.0, scale=scale, seed=seed)
    network = trained(start, data, 1e-4, 1e-6).network
    assert np.allclose([np.linalg.norm(m) for m in network.weights], np.sqrt(2) * one, rtol=0.02)
    assert singular(network.weights[0])[1] < 0.15 * one
    for m in network.weights[1:-1]:
        assert np.allclose(singular(m)[:2], one, rtol=0.05)
        assert singular(m)[2] < 0.1 * one
    assert np.allclose(chains(network), one, rtol=0.02)
    assert outside(network).max() < 0.02
    x = np.random.default_rng(0).normal(size=(200, 4))
    assert np.linalg.norm(network(x) - x @ w) < 0.05 * np.linalg.norm(x @ w)


def test_from_small_weights_a_deep_linear_network_ends_with_one_chain_of_rank_one():
    data = rf.data.symmetric_linear(pairs=30, dim=4, seed=0)
    one = np.linalg.norm(np.linalg.lstsq(data.x, data.y)[0]) ** (1 / 3)
    network = trained(rf.Network.gaussian((4, 40, 40, 1), 1.0, 0.05, seed=0), data, 1e-4, 1e-6).network
    for m in network.weights:
        assert np.isclose(singular(m)[0], one, rtol=0.01)
        assert np.isclose(np.linalg.norm(m), one, rtol=0.01)


def test_a_leaky_network_from_small_weights_ends_with_the_norms_of_its_gain():
    data = rf.data.symmetric_linear(pairs=30, dim=4, seed=0)
    size = np.linalg.norm(np.linalg.lstsq(data.x, data.y)[0])
    network = trained(rf.Network.gaussian((4, 40, 40, 1), 0.3, 0.05, seed=0), data, 1e-4, 1e-6).network
    expected = (size / np.sqrt(0.65**4 + 0.35**4)) ** (1 / 3)
    assert np.allclose([np.linalg.norm(m) for m in network.weights], expected, rtol=2e-3)


def test_the_chains_of_a_relu_network_grow_one_by_one_and_end_equal():
    # Unequal halves: on white inputs each chain is da/dt = a^(L-1) (1 - a^L) / 2 by itself.
    data, w = white()
    plus, minus = np.array([0.6, 0.8, 0.0, 0.0]), np.array([0.0, 0.0, 0.8, 0.6])
    a, b = 0.4, 0.3
    middle = a * np.outer(plus, plus) + b * np.outer(minus, minus)
    network = rf.Network([np.outer(a * plus - b * minus, w), middle, (a * plus - b * minus)[None]])
    times = np.linspace(0, 30, 31)
    run = rf.flow(network, data, "square", 30.0, record=list(times), measures=["weights", "loss"], show=False)
    settings = {"method": "DOP853", "t_eval": times, "rtol": 1e-11, "atol": 1e-14}
    own = solve_ivp(lambda t, u: u**2 * (1 - u**3) / 2, (0, 30), [a, b], **settings).y
    first = np.linalg.norm(run["weights"].values[:, :12], axis=1)
    assert np.allclose(first**2, (own**2).sum(0), rtol=1e-6)
    assert np.allclose(run["loss"].values, ((1 - own**3) ** 2).sum(0) / 4, atol=1e-7)
    assert np.allclose(chains(run.network), 1.0, atol=1e-3)


@pytest.mark.parametrize("depth", [3, 4, 5, 6])
def test_the_gain_of_relu_is_a_half_power_and_that_of_a_linear_network_one(depth):
    value, middle = gain(depth, 0.0)
    assert np.isclose(value, 2 ** (-depth / 2), rtol=1e-14)
    assert np.allclose(middle, np.sqrt(0.5))
    assert gain(depth, 1.0)[0] == 1


@pytest.mark.parametrize("slope", [0.0, 0.2, 0.7])
def test_no_other_ratio_of_the_singular_values_gives_a_larger_output(slope):
    # Brute force on networks of two neurons a layer: all angles of both middle layers.
    g = np.array([1.0, -1.0]) / np.sqrt(2)
    angles = np.linspace(0, np.pi / 2, 181)

    def layer(angle):
        return np.cos(angle) * np.outer(g, g) + np.sin(angle) * np.outer(abs(g), abs(g))

    def output(*middle):
        h = g
        for angle in middle:
            h = layer(angle) @ np.maximum(h, slope * h)
        return g @ np.maximum(h, slope * h)

    value, found = gain(4, slope)
    best = max(((output(p, q), p, q) for p in angles for q in angles[::4]), key=lambda o: o[0])
    assert value >= best[0]
    assert np.isclose(value, best[0], rtol=1e-3)
    assert np.isclose(output(*np.arctan2(found[:, 1], found[:, 0])), value, rtol=1e-12)
    assert np.isclose(gain(3, slope)[0], np.hypot((1 + slope) ** 2, (1 - slope) ** 2) / 4, rtol=1e-14)


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_weights_of_the_form_compute_a_linear_map_and_are_recognised(slope):
    r = np.array([1.0, -2.0, 2.0]) / 3
    network = low_rank((3, 5, 8, 6, 1), slope, scale=0.7, r=r, seed=0)
    x = np.random.default_rng(1).normal(size=(50, 3))
    assert np.allclose(network(x), gain(4, slope)[0] * 0.7**4 * x @ r, rtol=1e-12)
    found, off = form(network)
    assert off < 1e-14
    assert np.allclose(found.r, r)
    assert np.allclose(singular(network.weights[1])[:2], 0.7 * gain(4, slope)[1][0])
    assert form(rf.Network.gaussian((3, 5, 8, 6, 1), slope, 0.7, seed=0))[1] > 0.1
    with pytest.raises(ValueError, match="three layers or more"):
        low_rank((3, 5, 1), slope, 0.7, r, 0)


def test_the_blocks_are_found_again_after_any_permutation():
    rng = np.random.default_rng(0)
    network = low_rank((3, 6, 8, 1), 0.0, 0.7, np.ones(3), seed=0)
    first, second = rng.permutation(6), rng.permutation(8)
    w1, w2, w3 = network.weights
    mixed = rf.Network([w1[first], w2[second][:, first], w3[:, second]])
    assert [list(b) for b in blocks(mixed)] == [list(first < 3), list(second < 4)]
    ordered = sorted_by_blocks(mixed)
    assert (ordered.weights[1][:4, 3:] == 0).all()
    assert (ordered.weights[1][4:, :3] == 0).all()
    assert (ordered.weights[1] >= 0).all()
    x = rng.normal(size=(20, 3))
    assert np.allclose(ordered(x), network(x), rtol=1e-12)
    assert outside(mixed).max() < 1e-14


def test_the_gradient_of_a_middle_layer_has_the_blocks_of_the_layer_itself():
    # Eq. (42) of the workshop version as printed has all four blocks; eqs. (43) to (45) are right.
    data, _ = white()
    network = low_rank((3, 4, 6, 1), 0.0, 0.5, np.array([1.0, 0.5, -2.0]), seed=0)
    with float64():
        gradient = jax.grad(lambda n: ((n(data.x) - data.y) ** 2).mean() / 2)(network)
    middle, slope = network.weights[1], np.asarray(gradient.weights[1])
    assert np.allclose(slope, middle * (slope[0, 0] / middle[0, 0]), atol=1e-14)
    assert np.allclose(slope[:3, 2:], 0, atol=1e-15)


@pytest.mark.parametrize(("slope", "loss"), [(0.0, "square"), (0.3, "logistic")])
def test_descent_of_a_deep_network_of_the_form_is_that_of_its_linear_twin_with_smaller_steps(slope, loss):
    data = rf.data.symmetric_sine(pairs=10, dim=3, seed=0)
    data = rf.Data(data.x, np.sign(data.y)) if loss == "logistic" else data
    value, r = gain(4, slope)[0], np.array([1.0, 2.0, -1.0])
    network = low_rank((3, 4, 6, 4, 1), slope, 0.7, r, seed=0)
    twin = low_rank((3, 4, 6, 4, 1), 1.0, 0.7 * value**0.25, r, seed=1)
    rate = value**0.5
    run, other = (
        rf.descent(n, data, loss, step, 200, measures=["weights", "loss"], show=False)
        for n, step in ((network, 0.1), (twin, 0.1 * rate))
    )
    assert np.allclose(run["loss"].values, other["loss"].values, rtol=1e-10)
    for mine, its in zip(run.network.weights, other.network.weights, strict=True):
        assert np.isclose(np.linalg.norm(mine), np.linalg.norm(its) / value**0.25, rtol=1e-10)
    result = RESULTS["deep_low_rank_course"]
    here = assessed(result, Situation(network, data, rf.loss.named(loss), step=0.1))
    assert {v.verdict for v in here.verify(run)} == {"holds"}


def test_the_norm_and_the_direction_follow_the_two_equations_of_appendix_f():
    data = rf.data.symmetric_sine(pairs=12, dim=3, seed=0)
    sigma, beta = data.x.T @ data.x / 24, data.x.T @ data.y / 24
    r = np.array([2.0, 2.0, -1.0]) / 3

    def paper(t, state):  # state is u r
        u, rate = np.linalg.norm(state), 2**-1.5 * np.linalg.norm(state) ** 2
        return rate * (beta - (u / np.sqrt(2)) ** 3 * sigma @ state / u)

    ends = solve_ivp(paper, (0, 6), 0.5 * r, rtol=1e-11, atol=1e-13).y[:, -1]
    network = low_rank((3, 4, 6, 1), 0.0, 0.5, r, seed=0)
    run = rf.flow(network, data, "square", rf.Until(time=6.0, loss=1e-9), measures=["loss"], show=False)
    for w in run.network.weights:
        assert np.isclose(np.linalg.norm(w), np.linalg.norm(ends), rtol=1e-6)
    assert np.allclose(form(run.network)[0].r, ends / np.linalg.norm(ends), atol=1e-6)


def test_from_equal_norms_relu_learns_later_than_a_linear_network_by_half_a_power_of_two_a_layer():
    data, w = white()
    times = []
    for slope, g in ((0.0, 2**-1.5), (1.0, 1.0)):
        network = low_rank((3, 4, 6, 1), slope, 0.02, w, seed=0)
        half = rf.Until(time=1e4, loss=data.y.var() / 8)  # f = w.x / 2
        times.append(rf.flow(network, data, "square", half, measures=["loss"], show=False)["time"].values[-1])
        end = (0.5 / g) ** (1 / 3)
        exact = quad(lambda u, g=g: 1 / (g * u**2 * (1 - g * u**3)), 0.02, end, epsabs=0, epsrel=1e-10)[0]
        assert np.isclose(times[-1], exact, rtol=1e-6)
    assert np.isclose(times[0] / times[1], 2**1.5, rtol=0.02)


def test_a_run_that_has_not_learned_the_target_is_not_judged():
    data = rf.data.symmetric_linear(pairs=30, dim=4, seed=0)
    s = Situation(rf.Network.gaussian((4, 40, 40, 1), 0.0, 0.05, seed=0), data, rf.loss.named("square"))
    run = rf.flow(s.network, data, "square", rf.Until(time=1.0, loss=1e-6), measures=["loss"], show=False)
    verdicts = {v.prediction.name: v for v in assessed(RESULTS["deep_low_rank"], s).verify(run)}
    assert verdicts["norms"].verdict == "not measured"
    assert "run longer" in verdicts["norms"].note


def test_the_linear_network_is_predicted_with_rank_one():
    s = RESULTS["deep_low_rank"].example().situation
    linear = rf.Network(s.network.weights, slope=1.0)
    here = assessed(RESULTS["deep_low_rank"], Situation(linear, s.data, s.loss))
    predicted = {p.name: p for p in here.predictions}
    size = np.linalg.norm(np.linalg.lstsq(s.data.x, s.data.y)[0])
    assert here.status == "applies"
    assert np.allclose(predicted["norms"].value, size ** (1 / 3))
    assert np.allclose(predicted["stable ranks"].value, 1)
    assert "blocks" not in predicted
