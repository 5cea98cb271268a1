"""What descent adds to the first layer, against a NumPy SGD of many networks and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest

import rankfall as rf
from rankfall.loss import exponential, logistic
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.mathematics import fixed_second
from rankfall.theory.results.frei_descent import orthogonality


def sgd(w, a, x, y, slope, step, batch, steps, loss, rng):
    """W_t - W_0 of many networks at once, (runs, m, d), yielded after every step: plain NumPy."""
    start = w.copy()
    for _ in range(steps):
        chosen = np.argsort(rng.random((len(w), y.shape[1])), axis=1)[:, :batch]
        xb, yb = np.take_along_axis(x, chosen[:, :, None], 1), np.take_along_axis(y, chosen, 1)
        h = np.einsum("rmd,rbd->rmb", w, xb)
        q = yb * np.einsum("rm,rmb->rb", a, np.where(h > 0, h, slope[:, None, None] * h))
        pull = np.where(loss[:, None], np.exp(np.minimum(-q, 50)), 1 / (1 + np.exp(np.minimum(q, 700))))
        slopes = np.where(h > 0, 1.0, slope[:, None, None])
        w = w + step[:, None, None] * a[:, :, None] * np.einsum("rmb,rb,rbd->rmd", slopes, pull * yb, xb)
        yield w - start


def stable_ranks(w):
    """|w|_F^2 / |w|_2^2 of each matrix."""
    return np.linalg.norm(w, axis=(1, 2)) ** 2 / np.linalg.norm(w, 2, axis=(1, 2)) ** 2


def many(runs, rng, n=5, d=12, m=10, slope=None):
    """Random networks with output weights of all sizes, random data, random slopes and steps."""
    mixed = np.eye(n) + rng.uniform(0, 0.5, (runs, 1, 1)) * rng.normal(size=(runs, n, n)) / np.sqrt(n)
    x = 10 ** rng.uniform(-0.5, 0.5, (runs, n, 1)) * (mixed @ np.linalg.qr(rng.normal(size=(d, d)))[0][:n])
    y = rng.choice([-1.0, 1.0], (runs, n))
    a = rng.normal(size=(runs, m))
    w = 10 ** rng.uniform(-3, 1, (runs, 1, 1)) * rng.normal(size=(runs, m, d))
    slope = 10 ** rng.uniform(-2, 0, runs) if slope is None else np.full(runs, slope)
    return w, a, x, y, slope, 10 ** rng.uniform(-4, 0, runs)


def bounds(x, slope):
    """The bound by another way: singular values of the inputs scaled to norm one."""
    unit = x / np.linalg.norm(x, axis=2, keepdims=True)
    singular = np.linalg.svd(unit, compute_uv=False)
    return (1 + slope) ** 2 / (4 * slope) * (singular[:, 0] / singular[:, -1]) ** 2


def test_the_change_is_of_bounded_stable_rank_in_a_thousand_runs_of_sgd():
    rng = np.random.default_rng(0)
    w, a, x, y, slope, step = many(1000, rng)
    bound = bounds(x, slope)
    largest = np.zeros(1000)
    for change in sgd(w, a, x, y, slope, step, 2, 60, rng.random(1000) < 0.5, rng):
        moved = np.linalg.norm(change, axis=(1, 2)) > 1e-9 * np.linalg.norm(w, axis=(1, 2))
        largest[moved] = np.maximum(largest[moved], stable_ranks(change[moved]))
    assert (largest > 0).sum() > 950
    assert (largest <= bound * (1 + 1e-6)).all()
    assert (bound < 5).sum() > 300  # of min(n, m, d) = 5: there it says something
    assert (largest / bound).max() > 0.7  # and is nearly met
    assert largest.max() > 2


def test_without_a_leak_there_is_no_bound():
    rng = np.random.default_rng(1)
    w, a, x, y, slope, step = many(300, rng, slope=0.0)
    changes = list(sgd(w, a, x, y, slope, step, 5, 5, np.zeros(300, bool), rng))[-1]
    alive = np.linalg.norm(changes, axis=(1, 2)) > 0
    # What the bound would be at the slope 1/2 is exceeded by ReLU, and often.
    ratios = stable_ranks(changes[alive]) / bounds(x, np.full(300, 0.5))[alive]
    assert (ratios > 1).sum() > 20


def test_without_a_leak_the_stable_rank_of_the_change_is_as_large_as_the_number_of_samples():
    n = 8
    w = 1e-3 * (2 * np.eye(n) - 1)  # neuron i sees the sample i alone
    a, y = np.where(np.arange(n) % 2, -1.0, 1.0) / np.sqrt(n), np.where(np.arange(n) % 2, -1.0, 1.0)
    network = rf.Network([w, a[None]], slope=0.0, trained=(True, False))
    run = rf.descent(network, rf.Data(np.eye(n), y), "logistic", 1.0, 1, measures=["weights"], show=False)
    change = run.network.weights[0] - w
    assert stable_ranks(change[None])[0] == pytest.approx(n, rel=1e-10)


@pytest.mark.parametrize("slope", [0.5, 0.1])
def test_the_constant_cannot_be_improved(slope):
    # Orthogonal inputs, every pair active with the probability slope / (1 + slope): the worst mean of slopes.
    n = m = 400
    rng = np.random.default_rng(2)
    active = rng.random((m, n)) < slope / (1 + slope)
    w = 1e-6 * np.where(active, 1.0, -1.0)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    network = rf.Network([w, np.full((1, m), m**-0.5)], slope=slope, trained=(True, False))
    s = Situation(network, rf.Data(np.eye(n), y), exponential, 1.0)
    bound = fixed_second.stable_rank_bound(s)
    assert bound == pytest.approx((1 + slope) ** 2 / (4 * slope), rel=1e-12)
    change = rf.descent(network, s.data, s.loss, 1.0, 1, measures=[], show=False).network.weights[0] - w
    assert 0.985 * bound < stable_ranks(change[None])[0] <= bound


def test_the_bound_in_terms_of_the_inner_products_is_weaker():
    rng = np.random.default_rng(3)
    for p in (1.5, 3.0, 30.0):
        data = rf.data.nearly_orthogonal(n=8, dim=20, p=p, seed=int(rng.integers(99)))
        network = rf.Network.fixed_second_layer((20, 6, 1), slope=0.3, sigma=0.1, seed=0)
        xi = 1 / p  # n max |<x_i, x_k>| / R_min^2, the inputs having one norm
        assert fixed_second.stable_rank_bound(Situation(network, data, logistic)) <= (1.3**2 / 1.2) * (
            1 + xi
        ) / (1 - xi)


def test_descent_flow_and_sgd_of_this_package_stay_below_the_bound():
    data = rf.data.nearly_orthogonal(n=6, dim=10, p=2.0, seed=5)
    network = rf.Network.fixed_second_layer((10, 8, 1), slope=0.2, sigma=0.3, seed=6)
    result = RESULTS["stable_rank_bound"]
    kept = {"measures": ["weights", "loss"], "show": False}
    for step, run in (
        (0.3, rf.descent(network, data, "logistic", 0.3, 200, batch=2, seed=1, **kept)),
        (5.0, rf.descent(network, data, "exponential", 5.0, 100, **kept)),
        (None, rf.flow(network, data, "logistic", 50.0, **kept)),
    ):
        loss = rf.loss.named(run.settings["loss"])
        verification = assessed(result, Situation(network, data, loss, step)).verify(run)
        assert all(v.verdict == "holds" for v in verification), verification


def test_the_gradient_written_out_is_that_of_autodiff():
    rng = np.random.default_rng(4)
    for loss in (logistic, exponential, logistic.sum):
        data = rf.Data(rng.normal(size=(7, 4)), np.where(np.arange(7) % 2, 1.0, -1.0))
        network = rf.Network(
            [rng.normal(size=(5, 4)), rng.normal(size=(1, 5))], slope=0.2, trained=(True, False)
        )
        step = 0.1
        after = rf.descent(network, data, loss, step, 1, measures=[], show=False).network.weights[0]
        gradient = fixed_second.gradient(Situation(network, data, loss, step))
        assert np.allclose(network.weights[0] - step * gradient, after, rtol=0, atol=1e-14)


def test_the_stable_rank_after_one_step_goes_over_from_that_of_the_start_to_that_of_the_gradient():
    # Random weights are nearly orthogonal to the gradient: |W_1|^2 = |W_0|^2 (1 + ratio^2) nearly, and the
    # spectral norm is the larger of the two. So it falls from the ratio (sr(G)/sr(W_0))^(1/2) on, and at the
    # ratio 1 it is below three times that of the gradient.
    data = rf.data.nearly_orthogonal(n=6, dim=80, p=5.0, seed=0)
    network = rf.Network.fixed_second_layer((80, 60, 1), slope=0.3, sigma=1e-3, seed=1)
    s = Situation(network, data, logistic, 1.0)
    g = fixed_second.gradient(s)
    before, low = stable_ranks(np.stack([network.weights[0], g]))
    assert before > 10 * low
    onset = np.sqrt(low / before)
    unit = np.linalg.norm(network.weights[0]) / np.linalg.norm(g)
    result = RESULTS["one_step_collapse"]
    for ratio in (0.05 * onset, 0.5 * onset, 1.0, 3.0, 10.0, 100.0):
        here = assessed(result, replace(s, step=ratio * unit))
        run = rf.descent(network, data, "logistic", ratio * unit, 1, measures=["weights", "loss"], show=False)
        after = stable_ranks(run.network.weights[0][None])[0]
        assert (here.status == "applies") == (ratio >= 1)
        if ratio < onset:
            assert after > 0.6 * before
        if ratio >= 1:
            assert low * (1 - 0.1) < after < 1.25 * low * (1 + 1 / ratio**2)
            assert here.predictions[0].value == pytest.approx(after, rel=1e-9)
            # Weyl: |W_1|_F <= |W_0|_F + |step|_F and |W_1|_2 >= |step|_2 - |W_0|_2
            assert after <= ((ratio + 1) / (ratio / low**0.5 - before**-0.5)) ** 2
        if ratio == 100.0:
            assert after == pytest.approx(low, rel=0.01)


def test_after_a_dominating_first_step_the_stable_rank_stays_below_a_number_known_at_the_start():
    rng = np.random.default_rng(7)
    result = RESULTS["one_step_collapse"]
    told = 0
    for seed in range(4):
        p, slope = 10 ** rng.uniform(0.3, 2), 10 ** rng.uniform(-1, 0)
        data = rf.data.nearly_orthogonal(n=6, dim=40, p=p, seed=seed)
        network = rf.Network.fixed_second_layer((40, 30, 1), slope=slope, sigma=3e-4, seed=seed)
        here = assessed(result, Situation(network, data, logistic, 3.0))
        kept = ["weights", "loss"]
        run = rf.descent(network, data, "logistic", 3.0, 100, measures=kept, record=rf.every(1), show=False)
        verdict = here.verify(run)["at all times"]
        assert verdict.verdict == "holds"
        told += verdict.predicted < here.situation.stable_rank
        # a record for each step, all of them below, with SciPy-free singular values
        flat = run["weights"].values[1:, : 30 * 40].reshape(-1, 30, 40)
        assert stable_ranks(flat).max() <= verdict.predicted
    assert told >= 3


def scalar_descent(s, steps):
    """The margins of full descent, sample by sample in NumPy loops of einsum: (steps + 1, n)."""
    w, found = s.w.copy(), []
    for _ in range(steps + 1):
        h = w @ s.x.T
        q = s.y * (s.a @ np.where(h > 0, h, s.slope * h))
        found.append(q)
        pull = (np.exp(-q) if s.loss.name == "exponential" else 1 / (1 + np.exp(q))) / s.parts
        w = w + s.step * s.a[:, None] * ((np.where(h > 0, 1.0, s.slope) * pull * s.y) @ s.x)
    return np.array(found)


@pytest.mark.parametrize("loss", [logistic, exponential, logistic.sum])
@pytest.mark.parametrize("slope", [0.3, 0.7, 1.0])
def test_margins_grow_like_log_t_and_stay_together_whatever_the_norms(loss, slope):
    rng = np.random.default_rng(8)
    gram = np.eye(5) + 1e-6 * rng.uniform(-1, 1, (5, 5))
    x = np.linalg.cholesky((gram + gram.T) / 2) @ np.eye(5, 9) * rng.uniform(1, 2, (5, 1))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    network = rf.Network(
        [0.01 * rng.normal(size=(7, 9)), rng.normal(size=(1, 7))], slope=slope, trained=(True, False)
    )
    s = Situation(network, rf.Data(x, y), loss, 1.0)
    s = replace(s, step=s.parts / (s.a @ s.a * s.norms.max() ** 2))  # the longest allowed
    assert assessed(RESULTS["frei_descent"], s).status == "applies"
    q = scalar_descent(s, 3000)
    r, times = fixed_second.rates(s), s.step * np.arange(3001)
    assert (q.min(axis=1) >= r.least_margin(times) - 1e-12).all()
    assert (q.max(axis=1) <= r.largest_margin(times) + 1e-12).all()
    assert np.ptp(q, axis=1).max() <= np.log(r.ratio)
    assert np.ptp(q, axis=1).max() > 0.1 * np.log(r.ratio)  # within a factor of ten of the truth
    assert np.exp(q[-1].min() - r.least_margin(times)[-1]) < 25 / slope**2


def test_the_orthogonality_asked_for_is_that_of_theorem_4_2():
    data = rf.data.nearly_orthogonal(n=6, dim=10, p=7.0, seed=0)
    network = rf.Network.fixed_second_layer((10, 4, 1), slope=0.5, sigma=0.1, seed=0)
    c_r = 10 / 0.5**2 + 10
    zeta = np.abs(data.x @ data.x.T - np.diag((data.x**2).sum(axis=1))).max()
    needed = 5 / 0.5**2 * c_r * 6 * zeta
    r_min2 = (data.x**2).sum(axis=1).min()
    assert orthogonality(Situation(network, data, logistic)) == pytest.approx(r_min2 / needed, rel=1e-6)


def test_other_ways_of_running_are_told_apart():
    import optax

    example = RESULTS["frei_descent"].example()
    s = example.situation
    kept = {"measures": ["weights", "loss"], "show": False}
    here = assessed(RESULTS["frei_descent"], s)
    for run in (
        rf.descent(s.network, s.data, s.loss, s.step, 5, batch=2, **kept),
        rf.descent(s.network, s.data, s.loss, s.step, 5, optimiser=optax.adam, **kept),
        rf.descent(s.network, s.data, s.loss, s.step / 2, 5, **kept),
    ):
        assert here.verify(run)["margins stay together"].verdict == "not measured"
