import numpy as np
import optax
import pytest

import rankfall as rf
from rankfall.theory import assess
from rankfall.theory.results.zhang_equivalence import perturbation, weight_error


def linear_descent(first, second, data, loss, step, steps, penalty=0.0):
    """Plain gradient descent of W2 W1 x in NumPy."""
    for _ in range(steps):
        f = data.x @ (second @ first)[0]
        pull = (data.y - f if loss == "square" else data.y / (1 + np.exp(data.y * f))) / data.n
        g = pull @ data.x
        first, second = (
            first + step * (np.outer(second[0], g) - penalty * first),
            second + step * (first @ g - penalty * second[0])[None, :],
        )
    return first, second


@pytest.mark.parametrize("penalty", [0.0, 0.03])
@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_descent_is_that_of_the_linear_network_with_scaled_weights_step_and_penalty(loss, slope, penalty):
    data = rf.data.symmetric_sine(pairs=30, dim=3, seed=0)
    if loss == "logistic":
        data = rf.Data(data.x, np.sign(data.y))
    network = rf.Network.rank_one((3, 8, 1), slope=slope, scale=0.5, seed=2)
    c = (1 + slope) / 2
    run = rf.descent(
        network,
        data,
        loss,
        0.1,
        1000,
        optimiser=lambda size: optax.chain(optax.add_decayed_weights(penalty), optax.sgd(size)),
        show=False,
    )
    first, second = (np.sqrt(c) * w for w in network.weights)
    first, second = linear_descent(first, second, data, loss, 0.1 * c, 1000, penalty / c)
    assert np.allclose(np.sqrt(c) * run.network.weights[0], first, rtol=1e-11, atol=1e-13)
    assert np.allclose(np.sqrt(c) * run.network.weights[1], second, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("loss", "penalty", "step"), [("logistic", 0.0, None), ("square", 0.05, 0.1)])
def test_the_verdict_holds_for_flow_and_for_descent_with_a_penalty(loss, penalty, step):
    data = rf.data.symmetric_sine(pairs=20, dim=3, seed=1)
    if loss == "logistic":
        data = rf.Data(data.x, np.sign(data.y))
    network = rf.Network.rank_one((3, 8, 1), slope=0.2, scale=0.3, seed=0)
    here = assess(network, data, loss, step=step, penalty=penalty)["linear_equivalence"]
    measures = ["weights", "loss"]
    if step is None:
        run = rf.flow(network, data, loss, 5.0, measures=measures, show=False)
    else:
        run = rf.descent(
            network,
            data,
            loss,
            step,
            200,
            measures=measures,
            optimiser=lambda size: optax.chain(optax.add_decayed_weights(penalty), optax.sgd(size)),
            show=False,
        )
    assert here.status == "applies"
    assert here.verify(run).verdict == "holds"
    twice = assess(network, data, loss, step=step, penalty=2 * penalty)["linear_equivalence"]
    assert (twice.verify(run).verdict == "fails") == (penalty > 0)


def test_no_other_result_speaks_about_a_penalised_loss():
    data = rf.data.symmetric_sine(pairs=20, dim=3, seed=1)
    network = rf.Network.rank_one((3, 8, 1), slope=0.0, scale=0.3, seed=0)
    answer = assess(network, data, "square", penalty=0.1)
    assert [a.name for a in answer.speaking if not a.result.penalised] == []
    assert answer["linear_equivalence"].status == "applies"


def test_nearly_symmetric_data_are_told_as_a_perturbation_of_its_size():
    data = rf.data.symmetric_sine(pairs=40, dim=3, seed=0)
    network = rf.Network.rank_one((3, 8, 1), slope=0.0, scale=0.3, seed=0)
    noise = np.random.default_rng(0).normal(size=data.y.shape)
    sizes = []
    for amount in (1e-3, 1e-2):
        noisy = rf.Data(data.x, data.y + amount * noise)
        here = assess(network, noisy, "square")["linear_equivalence"]
        assert here.status == "applies up to a violation"
        run = rf.descent(network, noisy, "square", 0.05, 300, measures=["weights", "loss"], show=False)
        verdict = here.verify(run)["weights"]
        assert verdict.verdict == "outside its hypotheses"
        assert verdict.agrees
        assert verdict.error > 1e-6  # what the perturbation does is there to be seen
        sizes.append((perturbation(here.situation), verdict.error))
    (first, error), (second, larger) = sizes
    assert np.isclose(second / first, 10, rtol=0.05)  # both grow in proportion
    assert 5 < larger / error < 20


@pytest.mark.parametrize("seed", range(3))
def test_small_random_weights_end_at_the_distance_that_their_signs_foretell(seed):
    data = rf.data.symmetric_sine(pairs=12, dim=2, seed=3)
    network = rf.Network.gaussian((2, 30, 1), slope=0.0, scale=1e-4, seed=seed)
    here = assess(network, data, "square")["linear_equivalence_small"]
    run = rf.flow(network, data, "square", 60.0, measures=["weights", "loss"], show=False)
    judged = here.verify(run)["distance to the twin"]
    assert judged.verdict == "holds"
    assert judged.error < 1e-4
    assert judged.measured > 0.02  # far from the 0.3 % of the paper, which is a matter of the signs


@pytest.mark.slow
def test_with_equal_halves_the_weight_error_is_below_three_per_mille_at_width_500():
    data = rf.data.symmetric_sine(pairs=200, dim=20, seed=0)
    network = rf.Network.gaussian((20, 500, 1), slope=0.0, scale=1e-8, seed=1)
    grows = assess(network, data, "square").situation.growing
    share = (grows[grows > 0] ** 2).sum() / (grows**2).sum()
    factors = np.where(grows > 0, np.sqrt(0.5 / share), np.sqrt(0.5 / (1 - share)))
    equal = rf.Network([network.weights[0] * factors[:, None], network.weights[1] * factors])
    ends = []
    for start, until in ((equal, 60.0), (equal.linear_twin(), 30.0)):
        run = rf.flow(start, data, "square", until, rtol=1e-7, record=[until], show=False)
        ends.append(np.concatenate([w.ravel() for w in run.network.weights]))
    error = np.linalg.norm(np.sqrt(0.5) * ends[0] - ends[1]) / np.linalg.norm(ends[1])
    assert error < 3e-3
    assert weight_error(share) > 3e-3  # as drawn, the two would not come so close
