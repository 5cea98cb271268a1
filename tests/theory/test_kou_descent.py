"""Descent with kinks on nearly orthogonal data: plain NumPy descent and closed forms as oracles."""

import numpy as np
import pytest

import rankfall as rf
from rankfall.loss import exponential, logistic
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results.kou_descent import sees, shares


def leaky(seed, loss=logistic, slope=0.5, m=10, n=6, unequal=1.5):
    """Nearly orthogonal inputs of unequal norms."""
    rng = np.random.default_rng(seed)
    base = rf.data.nearly_orthogonal(n=n, dim=9, p=60 * 3 * unequal**4 / slope**4, seed=seed)
    x = base.x * rng.uniform(1, unequal, (n, 1))
    network = rf.Network.fixed_second_layer((9, m, 1), slope=slope, sigma=3e-3, seed=seed, positive=m // 2)
    scale = n if loss.reduction == "mean" else 1
    return Situation(network, rf.Data(x, base.y), loss, 0.9 * scale / (x**2).sum(axis=1).max())


def descended(s, steps):
    """W after each step of plain NumPy descent."""
    w, scale = s.w.copy(), s.parts
    yield w
    for _ in range(steps):
        h = w @ s.x.T
        q = s.y * (s.a @ np.where(h > 0, h, s.slope * h))
        pull = (np.exp(-q) if s.loss.name == "exponential" else 1 / (1 + np.exp(q))) / scale
        w = w + s.step * s.a[:, None] * ((np.where(h > 0, 1.0, s.slope) * pull * s.y) @ s.x)
        yield w


def stable_rank(w):
    singular = np.linalg.svd(w, compute_uv=False)
    return (singular**2).sum() / singular[0] ** 2


@pytest.mark.parametrize("loss", [logistic, exponential.sum])
@pytest.mark.parametrize("slope", [0.3, 0.8])
def test_leaky_neurons_turn_to_their_samples_and_each_block_becomes_one_direction(loss, slope):
    for seed in range(3):
        s = leaky(seed, loss, slope)
        assert assessed(RESULTS["kou_leaky"], s).status == "applies"
        every = np.array(list(descended(s, 2000)))
        own = np.sign(np.outer(s.a, s.y)) * (every @ s.x.T)
        assert (own[0] < 0).any()
        assert (np.diff(own, axis=0) > 0).all()
        settled = int((own > 0).all(axis=(1, 2)).argmax())
        assert settled > 0
        for block in (s.a > 0, s.a < 0):
            # The rows less their mean are constant: sr - 1 falls like the norm to the power -2.
            rest = every[settled:, block] - every[settled:, block].mean(axis=1, keepdims=True)
            assert np.abs(rest - rest[0]).max() < 1e-12
            last = every[-1, block]
            excess = (rest[0] ** 2).sum() / ((last**2).sum() - (rest[0] ** 2).sum())
            assert 0 <= stable_rank(last) - 1 <= excess * (1 + 1e-9)
            assert stable_rank(last) - 1 < 0.05


def test_the_excess_of_the_block_stable_rank_falls_like_one_over_log_squared():
    s = leaky(1)
    steps = [100, 1000, 10_000, 100_000]
    run = rf.descent(
        s.network, s.data, s.loss, s.step, steps[-1], record=[0, *steps], measures=["weights"], show=False
    )
    excess, margins = [], []
    for w in run["weights"].values[1:, : s.w.size].reshape(4, *s.w.shape):
        excess.append(stable_rank(w[s.a > 0]) - 1)
        h = w @ s.x.T
        margins.append((s.y * (s.a @ np.where(h > 0, h, s.slope * h))).min())
    scaled = np.array(excess) * np.array(margins) ** 2
    assert scaled[-1] == pytest.approx(scaled[-2], rel=0.1)
    assert np.diff(margins)[-1] == pytest.approx(np.log(10), rel=0.05)  # and the margin grows like log t


def test_margins_become_equal_and_the_norm_is_that_of_the_largest_margin():
    s = leaky(2)
    steps = [1000, 30_000]
    run = rf.descent(
        s.network,
        s.data,
        s.loss,
        s.step,
        steps[-1],
        record=[0, *steps],
        measures=["weights", "loss"],
        show=False,
    )
    verification = assessed(RESULTS["kou_leaky"], s).verify(run)
    assert all(v.verdict == "holds" for v in verification), verification
    spreads = fixed_second.spread(Evidence(s, run))
    q = s.y * run.network(s.data.x)
    assert spreads[-1] == pytest.approx(np.ptp(q), rel=1e-9)
    assert spreads[-1] < 1.1 * spreads[-2]  # bounded, while the margins grow
    assert (q.max() - q.min()) / q.min() < 0.1
    # The largest margin: orthogonal inputs and equal pulls, so that lambda_i |x_i|^2 (m1 + slope^2 m2)/m = 1.
    lam = 2 / (1 + s.slope**2) / s.norms**2
    norm2 = lam.sum()  # Euler: |W|^2 is the sum of the multipliers at a KKT point
    assert verification["norm of order log t"].predicted == pytest.approx(np.sqrt(norm2), rel=1e-2)


def test_the_limit_of_the_flow_verifies_what_it_can():
    s = leaky(3)
    end = rf.limit(s.network, s.data, s.loss, optimality=False, show=False)
    verification = assessed(RESULTS["kou_leaky"], s).verify(end)
    assert end.certified
    assert all(v.verdict == "holds" for v in verification), verification
    assert max(end.block_stable_ranks.values()) < 1 + 1e-8


def test_relu_blocks_stay_below_the_inverse_share_of_the_neurons_that_see_a_sample():
    here = 0
    for seed in range(5):
        data = rf.data.nearly_orthogonal(n=4, dim=6, p=300.0, seed=seed)
        network = rf.Network.fixed_second_layer((6, 16, 1), slope=0.0, sigma=1e-4, seed=seed)
        s = Situation(network, data, logistic)
        result = assessed(RESULTS["kou_relu"], s)
        if result.status != "applies":
            continue
        here += 1
        end = rf.limit(network, data, "logistic", optimality=False, show=False)
        assert end.certified
        assert all(v.verdict == "holds" for v in result.verify(end))
        for sign, name in ((1, "+"), (-1, "-")):
            least = min(
                sum(network.weights[0][j] @ data.x[i] > 0 for j in range(16) if s.a[j] * sign > 0) / 8
                for i in range(4)
                if data.y[i] == sign
            )
            assert least == shares(s)[data.y == sign].min()
            assert end.block_stable_ranks[name] <= 1.05 / least
    assert here >= 3


def test_on_orthogonal_inputs_the_relu_limit_is_known_and_obeys_the_bound():
    # Neurons that see a sample of their sign keep it: w_j = a_j sum_i lambda_i y_i x_i, lambda_i = m/|A_i|.
    rng = np.random.default_rng(0)
    for n, m in ((4, 30), (10, 60), (20, 200)):
        x, y = np.eye(n), np.where(np.arange(n) % 2, 1.0, -1.0)
        a = np.where(np.arange(m) % 2, 1.0, -1.0) / np.sqrt(m)
        network = rf.Network([rng.normal(size=(m, n)), a[None]], slope=0.0, trained=(True, False))
        s = Situation(network, rf.Data(x, y), logistic)
        active = sees(s)
        w = a[:, None] * (active * y * m / active.sum(axis=0))
        for sign in (1, -1):
            bound = 1 / shares(s)[y == sign].min()
            assert 1 < stable_rank(w[a * sign > 0]) <= bound < 10
        assert stable_rank(w) <= m / active.sum(axis=0).min()
        # The whole is above 2, where a leaky slope would give 2 at most.
        assert stable_rank(w) > 2 or n == 4


def test_with_a_leak_the_pattern_is_that_of_the_labels_but_without_one_it_is_that_of_the_start():
    data = rf.data.nearly_orthogonal(n=4, dim=6, p=3000.0, seed=1)
    for slope in (0.0, 0.5):
        network = rf.Network.fixed_second_layer((6, 12, 1), slope=slope, sigma=1e-3, seed=4)
        s = Situation(network, data, logistic)
        w = list(descended(Situation(network, data, logistic, 2.0), 3000))[-1]
        right = np.outer(s.a, s.y) > 0
        seen = (w @ s.x.T > 0) & right
        if slope:
            assert (seen == right).all()
        else:
            assert (seen[sees(s)]).all()
            assert seen.sum() < right.sum()


def test_a_run_that_has_not_outgrown_its_start_is_not_judged():
    s = RESULTS["kou_leaky"].example().situation
    rng = np.random.default_rng(0)
    across = rng.normal(size=s.w.shape)
    across -= across @ np.linalg.pinv(s.x) @ s.x
    network = rf.Network(
        [s.w + 10 * across, s.network.weights[1]], slope=float(s.network.slope), trained=(True, False)
    )
    run = rf.descent(network, s.data, s.loss, s.step, 200, measures=["weights", "loss"], show=False)
    verification = rf.theory.assess(network, s.data, s.loss, step=s.step)["kou_leaky"].verify(run)
    assert verification["block stable ranks"].verdict == "not measured"
    assert verification.verdict == "holds"
