"""Invariances, the rank-one tail, stably activated neurons, residual blocks and the sum over paths."""

from itertools import product

import equinox as eqx
import jax
import numpy as np
import pytest

import rankfall as rf
from rankfall._precision import float64
from rankfall.loss import named
from rankfall.measure import conserved_layers, with_weights
from rankfall.network import moving
from rankfall.theory.mathematics.decomposition import (
    path_activity,
    path_coefficients,
    sign_tree,
    sum_over_paths,
)
from rankfall.theory.results.le_invariances import excess_bounds, tail_layers
from rankfall.theory.results.le_stable_activation import stably_activated

RNG = np.random.default_rng(0)
Y = np.tile([1.0, -1.0], 6)
CLUSTERS = rf.Data(np.outer(Y, [2.0, 1.0, 0, 0, 0, 0]) + 0.3 * RNG.normal(size=(12, 6)), Y)
CLOUD = rf.Data(RNG.normal(size=(9, 4)), RNG.normal(size=9))


def rates(network, quantity, data=CLOUD, loss="square"):
    """The derivative of a quantity along the flow; it is quadratic in the weights: differences are exact."""
    trained, fixed = eqx.partition(network, moving(network))
    with float64():
        field = jax.grad(lambda part: named(loss)(eqx.combine(part, fixed)(data.x), data.y))(trained)
    ends = [
        quantity(eqx.combine(jax.tree.map(lambda w, g, s=s: w - s * np.asarray(g), trained, field), fixed))
        for s in (1.0, -1.0)
    ]
    return (ends[0] - ends[1]) / 2


def spread(a):
    return np.abs(a).max()


# Invariances


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_at_any_neuron_flow_conserves_the_squared_norm_out_minus_that_in_with_its_bias(slope):
    network = rf.Network.gaussian((4, 6, 5, 2), slope, 3.0, 0)
    biases = [RNG.normal(size=len(w)) for w in network.weights]
    network = rf.Network(network.weights, biases, slope)
    targets = rf.Data(CLOUD.x, RNG.normal(size=(9, 2)))
    for hidden in (0, 1):

        def balance(n, hidden=hidden):
            w, b, after = n.weights[hidden], n.biases[hidden], n.weights[hidden + 1]
            return (after**2).sum(axis=0) - (w**2).sum(axis=1) - b**2

        def without_bias(n, hidden=hidden):
            return balance(n) + n.biases[hidden] ** 2

        assert spread(rates(network, balance, targets)) < 1e-11
        assert spread(rates(network, without_bias, targets)) > 1e-2


def matrix(n, layer):
    return n.weights[layer].T @ n.weights[layer] - n.weights[layer - 1] @ n.weights[layer - 1].T


def test_flow_conserves_the_whole_balance_matrix_between_linear_layers_only():
    network = rf.Network.gaussian((4, 6, 5, 3, 1), 0.1, 3.0, 0, linear_tail=3)
    assert conserved_layers(network) == [((1,), False), ((2,), True), ((3,), True)]
    assert spread(rates(network, lambda n: matrix(n, 1))) > 1e-2
    assert spread(np.diag(rates(network, lambda n: matrix(n, 1)))) < 1e-12
    for layer in (2, 3):
        assert spread(rates(network, lambda n, layer=layer: matrix(n, layer))) < 1e-12
    half = rf.Network(network.weights, slope=0.1, linear_tail=3, trained=(True, True, False, True))
    assert conserved_layers(half) == [((1,), False)]


def test_descent_drifts_in_proportion_to_its_step_and_by_less_than_twice_the_step_times_the_loss():
    network = rf.Network.gaussian((6, 8, 5, 1), 0.0, 1.5, 3, linear_tail=2)
    drifts = []
    for step in (0.02, 0.01):
        end = rf.descent(network, CLUSTERS, "logistic", step, round(4 / step), measures=["loss"]).network
        drifts.append(np.linalg.norm(matrix(end, 2) - matrix(network, 2)))
        assert drifts[-1] <= 2 * step * float(rf.measure.loss(network, CLUSTERS, "logistic"))
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.1)


# The linear layers at the end


@pytest.mark.parametrize("widths", [(6, 8, 5, 1), (6, 8, 6, 5, 1)])
def test_the_tail_stays_within_its_bound_of_rank_one_and_falls_to_it_as_the_weights_grow(widths):
    tail = len(widths) - 2
    network = rf.Network.gaussian(widths, 0.0, 0.3, 1, linear_tail=tail)
    until = rf.Until(time=60.0, loss=1e-200)
    run = rf.flow(network, CLUSTERS, "exponential", until, clock="loss", measures=["weights"], show=False)
    networks = with_weights(network, run["weights"].values)
    bound = 0.0
    for layer in range(network.depth - 1, network.depth - tail, -1):
        c = matrix(network, layer)
        bound += np.linalg.eigvalsh(c)[-1] - np.trace(c)
        squares = np.linalg.svd(networks.weights[layer - 1], compute_uv=False) ** 2
        excess = squares[:, 1:].sum(axis=1)
        assert (excess <= bound + 1e-9).all()
        assert excess.max() > 0.2 * bound
        assert squares[0].sum() / squares[0, 0] > 1.5
        assert squares[-1].sum() / squares[-1, 0] < 1.01
        assert spread(matrix(run.network, layer) - c) < 1e-7
        leading = np.linalg.svd(run.network.weights[layer - 1])[0][:, 0]
        assert abs(leading @ np.linalg.svd(run.network.weights[layer])[2][0]) > 0.999
    assert excess_bounds(network)[0] == pytest.approx(bound, rel=1e-12)
    assert list(tail_layers(network)) == list(range(2, network.depth))


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_algebra_and_is_no_larger_than_with_spectral_norms(seed):
    network = rf.Network.gaussian((3, 5, 4, 6, 1), 0.0, 2.0, seed, linear_tail=4)
    bounds = excess_bounds(network)
    for layer, bound in zip(tail_layers(network), bounds, strict=True):
        squares = np.linalg.svd(network.weights[layer - 1], compute_uv=False) ** 2
        printed = sum(
            np.linalg.norm(c, 2) - np.trace(c) for c in (matrix(network, above) for above in range(layer, 4))
        )
        assert squares[1:].sum() <= bound + 1e-12
        assert bound <= printed + 1e-12


def test_the_relu_layer_itself_need_not_fall_to_rank_one_two_activation_groups_keep_rank_two():
    # Le and Jegelka's warning: orthogonal samples of either class are each fitted by neurons of their own.
    data = rf.Data(np.eye(2), np.array([1.0, -1.0]))
    network = rf.Network.balanced((2, 8, 1), slope=0.0, scale=0.1, seed=0)
    end = rf.limit(network, data, optimality=False, show=False)
    assert end.reached
    assert end.rank == 2
    assert end.stable_rank == pytest.approx(2, rel=1e-6)  # two orthogonal rays of equal length
    linear = rf.limit(rf.Network(network.weights, slope=1.0), data, optimality=False, show=False)
    assert linear.reached
    assert linear.rank == 1


def test_the_excess_over_rank_one_counts_a_free_skip_as_further_columns():
    network = block(RNG.normal(size=(3, 3)))
    expected = []
    for w, skip in zip(network.weights, network.skips, strict=True):
        whole = w if skip is None else np.hstack([w, skip])
        expected.append(np.linalg.norm(whole) ** 2 - np.linalg.norm(whole, 2) ** 2)
    np.testing.assert_allclose(rf.measure.rank_excess(network), expected, rtol=1e-10, atol=1e-12)


def test_descent_with_small_steps_agrees_with_all_of_it_outside_of_the_hypotheses():
    network = rf.Network.gaussian((6, 8, 5, 1), 0.0, 1.0, 3, linear_tail=2)
    run = rf.descent(network, CLUSTERS, "logistic", 0.05, 200, measures=["weights", "loss"], show=False)
    answer = rf.theory.assess(network, CLUSTERS, "logistic", step=0.05)
    for name in ("invariances", "low_rank_tail"):
        verdicts = [v for v in answer[name].verify(run) if v.result == name]
        assert {v.verdict for v in verdicts} <= {"outside its hypotheses", "not measured"}
        assert all(v.agrees for v in verdicts if v.verdict == "outside its hypotheses")
    assert answer["invariances"].verify(run)["neurons"].error > 1e-8  # it does drift


# Stably activated neurons


@pytest.fixture(scope="module")
def cone():
    x = np.array([2.0, 0.0, 0.0, 0.0]) + 0.5 * np.random.default_rng(0).normal(size=(10, 4))
    data = rf.Data(x, x @ np.array([0.5, 0.25, -0.25, 0.0]))
    network = rf.Network.gaussian((4, 12, 1), 0.2, 0.3, 1)
    w, a = (np.array(v) for v in network.weights)
    w[3], w[9] = w[1] + 0.2 * np.array([0, 0, 1.0, 0]), 2 * w[7]  # the last two: one pattern, however mixed
    a[0, 9] = 2 * a[0, 7]
    network = rf.Network([w, a], slope=0.2)
    run = rf.flow(network, data, "square", 6.0, measures=["weights"], record=rf.every(0.25), show=False)
    return data, run, with_weights(network, run["weights"].values)


def test_stably_activated_tells_since_when_a_neuron_has_been_active_on_all_samples(cone):
    data, run, networks = cone
    since = stably_activated(run, data)[1]
    times = run["time"].values
    for neuron in range(12):
        active = [(data.x @ w[neuron] > 0).all() for w in networks.weights[0]]
        expected = np.inf
        for i in reversed(range(len(times))):
            if not active[i]:
                break
            expected = times[i]
        assert since[neuron] == expected
    assert np.isfinite(since).sum() >= 3
    assert (np.isfinite(since) & (since > 0)).any()


def test_from_then_on_their_balance_is_kept_and_between_other_neurons_it_is_not(cone):
    data, run, networks = cone
    since = stably_activated(run, data)[1]
    w, a = networks.weights[0], networks.weights[1][:, 0]
    c = a[:, :, None] * a[:, None, :] - w @ w.transpose(0, 2, 1)
    stable = np.isfinite(since)
    begin = np.searchsorted(run["time"].values, since[stable].max())
    inside = c[begin:][:, stable][:, :, stable]
    assert spread(inside - inside[0]) < 1e-7
    bound = np.linalg.eigvalsh(inside[0])[-1] - np.trace(inside[0])
    excess = (np.linalg.svd(w[begin:, stable], compute_uv=False)[:, 1:] ** 2).sum(axis=1)
    assert (excess <= bound + 1e-7).all()
    assert spread(c[-1] - c[0]) > 1e-3
    assert spread(np.diagonal(c[-1] - c[0])) < 1e-7
    patterns = data.x @ w[:, [7, 9]].transpose(0, 2, 1) > 0
    assert (patterns[..., 0] == patterns[..., 1]).all()
    assert spread(c[:, 7, 9] - c[0, 7, 9]) < 1e-7


def test_a_run_without_its_weights_cannot_tell(cone):
    data, run, _ = cone
    other = rf.descent(run.network, data, "square", 0.01, 2)
    with pytest.raises(ValueError, match="record 'weights'"):
        stably_activated(other, data)


# Residual blocks: A, then S u + U s(V u), then W


def block(skip, linear_tail=1, a_rows=3):
    network = rf.Network.gaussian((4, a_rows, 5, 3, 1), 0.1, 3.0, 2, linear_tail=linear_tail)
    return rf.Network(network.weights, slope=0.1, linear_tail=linear_tail, skips=(None, None, skip, None))


def behind(n):
    _, _, u, w = n.weights
    return w.T @ w - u @ u.T


def before(n):
    a, v, _, _ = n.weights
    return v.T @ v - a @ a.T


def inner(n):
    _, v, u, _ = n.weights
    return u.T @ u - v @ v.T


@pytest.mark.parametrize(
    "skip", ["identity", RNG.normal(size=3), RNG.normal(size=(3, 3))], ids=["identity", "diagonal", "free"]
)
def test_inside_a_block_the_balance_is_that_of_two_layers(skip):
    assert spread(rates(block(skip, linear_tail=4), inner)) < 1e-11
    assert spread(np.diag(rates(block(skip), inner))) < 1e-11
    assert spread(rates(block(skip), inner)) > 1e-3


@pytest.mark.parametrize("linear_tail", [1, 4])
def test_a_free_skip_counts_like_further_columns_behind_the_block_and_further_rows_before_it(linear_tail):
    network = block(RNG.normal(size=(3, 3)), linear_tail)
    behind_rate = rates(network, lambda n: behind(n) - n.skips[2] @ n.skips[2].T)
    before_rate = rates(network, lambda n: before(n) + n.skips[2].T @ n.skips[2])
    assert spread(behind_rate) < 1e-11  # whatever the activation inside
    assert spread(before_rate if linear_tail == 4 else np.diag(before_rate)) < 1e-11
    assert spread(rates(network, behind)) > 1e-3
    wholly = linear_tail == 4
    assert conserved_layers(network) == [((1,), wholly), ((2,), wholly), ((3,), True)]


@pytest.mark.parametrize("linear_tail", [1, 4])
def test_a_diagonal_skip_keeps_the_diagonals_only(linear_tail):
    network = block(RNG.normal(size=3), linear_tail)
    behind_rate = rates(network, lambda n: behind(n) - np.diag(n.skips[2] ** 2))
    before_rate = rates(network, lambda n: before(n) + np.diag(n.skips[2] ** 2))
    for rate in (behind_rate, before_rate):
        assert spread(np.diag(rate)) < 1e-11
        assert spread(rate) > 1e-3
    assert spread(np.diag(rates(network, behind))) > 1e-3


@pytest.mark.parametrize("linear_tail", [1, 4])
def test_an_identity_keeps_only_the_sum_of_the_balances_before_and_behind(linear_tail):
    network = block("identity", linear_tail)
    both = rates(network, lambda n: before(n) + behind(n))
    assert spread(both if linear_tail == 4 else np.diag(both)) < 1e-11
    for alone in (before, behind):
        assert spread(np.diag(rates(network, alone))) > 1e-3
    assert conserved_layers(network) == [((1, 3), linear_tail == 4), ((2,), linear_tail == 4)]


def test_an_identity_from_the_inputs_or_into_the_outputs_keeps_nothing_there():
    network = rf.Network.gaussian((4, 5, 4, 1), 0.1, 3.0, 0, skips=(None, "identity", None), linear_tail=3)
    assert conserved_layers(network) == [((1,), True)]
    assert spread(np.diag(rates(network, lambda n: matrix(n, 2)))) > 1e-3
    out = rf.Network.gaussian((4, 1, 3, 1), 0.1, 3.0, 0, skips=(None, None, "identity"), linear_tail=3)
    assert conserved_layers(out) == [((2,), True)]


def test_the_measure_of_what_is_conserved_does_not_move_along_a_flow():
    network = block(RNG.normal(size=(3, 3)), linear_tail=4)
    measures = ["conserved", "weights"]
    run = rf.flow(network, CLOUD, "square", 0.2, measures=measures, record=rf.every(0.02), show=False)
    kept = run["conserved"].values
    assert spread(kept - kept[0]) < 1e-7 * (run["weights"].values[0] ** 2).sum()
    assert spread(run["weights"].values - run["weights"].values[0]) > 0.1
    every = [behind(network) - network.skips[2] @ network.skips[2].T, inner(network)]
    every.append(before(network) + network.skips[2].T @ network.skips[2])
    np.testing.assert_allclose(kept[0], np.concatenate([every[i].ravel() for i in (2, 1, 0)]), rtol=1e-12)


def test_recorded_weights_are_evidence_for_residual_blocks_too():
    network = block(RNG.normal(size=(3, 3)), linear_tail=4)
    run = rf.flow(
        network, CLOUD, "square", 0.2, measures=["weights", "loss"], record=rf.every(0.02), show=False
    )
    verified = rf.theory.assess(network, CLOUD, "square")["skip_blocks"].verify(run)
    names = ("belongs here", "starts here", "inside", "between", "concatenation")
    assert {v.prediction.name: v.verdict for v in verified} == dict.fromkeys(names, "holds")


# The sum over paths


@pytest.mark.parametrize(("slope", "tail"), list(product([0.0, 0.3], [1, 2, 4])))
def test_the_network_is_the_sum_over_its_paths_and_the_tree_of_its_signs(slope, tail):
    network = rf.Network.gaussian((4, 5, 4, 3, 2), slope, 5.0, 0, linear_tail=tail)
    f = network(CLOUD.x)
    np.testing.assert_allclose(sum_over_paths(network, CLOUD.x), f, rtol=1e-12, atol=1e-13 * spread(f))
    np.testing.assert_allclose(sign_tree(network, CLOUD.x), f, rtol=1e-12, atol=1e-13 * spread(f))


def test_one_path_is_the_product_of_its_weights_and_slopes():
    network = rf.Network.gaussian((2, 3, 2, 1), 0.3, 5.0, 1)
    x = np.array([[0.7, -1.2]])
    w1, w2, w3 = network.weights
    h1 = w1 @ x[0]
    h2 = w2 @ np.where(h1 > 0, h1, 0.3 * h1)
    for i, j, k in product(range(2), range(3), range(2)):
        assert path_coefficients(network)[i, j, k, 0] == pytest.approx(w1[j, i] * w2[k, j] * w3[0, k])
        slopes = [1.0 if h > 0 else 0.3 for h in (h1[j], h2[k])]
        assert path_activity(network, x)[0, i, j, k] == pytest.approx(x[0, i] * np.prod(slopes))


def test_moduli_cannot_be_pushed_out_of_a_network_whose_paths_share_neurons():
    # s(2 x1 - x2) at (1, 1.5) is 0.5, but with the signs alone the neuron is not active: s(x1 - x2) = 0.
    network = rf.Network([[[2.0, -1.0]], [[1.0]]], slope=0.0)
    x = np.array([[1.0, 1.5]])
    signs = rf.Network([np.sign(w) for w in network.weights], slope=0.0)
    moduli = np.abs(path_coefficients(network))
    pushed_out = (path_activity(signs, x) * (np.sign(path_coefficients(network)) * moduli)[..., 0]).sum()
    assert network(x)[0] == sign_tree(network, x)[0, 0] == 0.5
    assert pushed_out == 0.0


def test_the_tree_knows_moduli_only_through_the_products_along_paths():
    network = rf.Network.gaussian((3, 4, 2, 1), 0.1, 5.0, 0)
    scale = np.exp(RNG.normal(size=4))  # a neuron scaled up on one side and down on the other
    first, second, third = network.weights
    moved = rf.Network([first * scale[:, None], second / scale, third], slope=0.1)
    np.testing.assert_allclose(path_coefficients(moved), path_coefficients(network), rtol=1e-13)
    np.testing.assert_allclose(moved(CLOUD.x[:, :3]), network(CLOUD.x[:, :3]), rtol=1e-12)


def test_too_many_paths_and_biases_are_refused():
    with pytest.raises(ValueError, match="1,000,000,000 paths"):
        path_coefficients(rf.Network.gaussian((1000, 1000, 1000, 1), 0.0, 1.0, 0))
    with pytest.raises(ValueError, match="without biases and skips"):
        sign_tree(rf.Network.gaussian((4, 3, 1), 0.0, 1.0, 0, bias=True), CLOUD.x)
