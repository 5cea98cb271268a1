"""Boursier, Pillaud-Vivien and Flammarion: orthogonal inputs, the square loss, and a start near zero."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rankfall as rf
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.situation import Situation
from rankfall.theory.results.boursier_orthogonal import both, example

RESULT = RESULTS["boursier"]


def scaled(s, factor):
    return replace(s, network=rf.Network([factor * w for w in s.network.weights]))


def test_scipys_flow_of_the_whole_network_fits_the_signs_when_predicted():
    s = scaled(example().situation, 1e2)  # from 1e-6
    x, y, m, d = s.x, s.y, *s.w.shape

    def velocity(_, theta):
        w, a = theta[: m * d].reshape(m, d), theta[m * d :]
        h = x @ w.T
        r = (y - np.maximum(h, 0) @ a) / len(y)
        return np.concatenate([(a[:, None] * ((h > 0).T * r @ x)).ravel(), r @ np.maximum(h, 0)])

    groups = both(s)
    times = np.array([group.half for group in groups])
    start = np.concatenate([s.w.ravel(), s.a])
    found = solve_ivp(velocity, (0, 60), start, t_eval=np.sort(times), rtol=1e-8, atol=1e-12)
    for theta, t in zip(found.y.T, np.sort(times), strict=True):
        w, a = theta[: m * d].reshape(m, d), theta[m * d :]
        f = np.maximum(x @ w.T, 0) @ a
        plus, minus = (y[own] @ f[own] / (y[own] @ y[own]) for own in (y > 0, y < 0))
        assert plus == pytest.approx(0.5 if t == times[0] else 1, abs=0.01)
        assert minus == pytest.approx(0.5 if t == times[1] else 0, abs=0.01)


def test_with_equal_norms_a_group_grows_like_the_logistic_function():
    data = rf.Data(1.3 * np.eye(4), [1.0, 2.0, -0.5, -0.6])
    s = replace(example().situation, network=rf.Network.balanced((4, 40, 1), 0.0, 1e-8, 2), data=data)
    for group in both(s):
        rate = np.linalg.norm(group.y) * 1.3 / 4
        assert group.rate == pytest.approx(rate)
        strength = np.linalg.norm(group.y) / 1.3
        for t in np.linspace(group.half - 5 / rate, group.half + 5 / rate, 9):
            part = 1 / (1 + (strength / group.seed - 1) * np.exp(-2 * rate * t))
            assert group.outputs(t) == pytest.approx(part * group.y, rel=2e-5)
        assert group.half == pytest.approx(np.log(strength / group.seed - 1) / (2 * rate), rel=1e-6)


def test_the_times_grow_by_the_logarithm_of_the_start_over_the_length_of_D():
    s = example().situation
    for large, small in zip(both(s), both(scaled(s, 1e-4)), strict=True):
        assert small.half - large.half == pytest.approx(np.log(1e4) / large.rate, rel=1e-9)


def test_no_interpolator_has_a_smaller_norm():
    # Weak duality: |theta|^2 >= 2 sum_i nu_i y_i if no unit neuron collects more than 1 from nu.
    s = example().situation
    plus, minus = both(s)
    strength = np.where(s.y > 0, plus.strength, minus.strength)
    nu = s.y / s.norms**2 / strength
    u = np.random.default_rng(0).normal(size=(100_000, 6))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    u = np.vstack([u, plus.end / plus.strength, minus.end / minus.strength])
    collected = np.abs(np.maximum(u @ s.x.T, 0) @ nu)
    assert collected.max() == pytest.approx(1, abs=1e-12)
    assert 2 * nu @ s.y == pytest.approx(2 * (plus.strength + minus.strength))


def test_the_two_vectors_interpolate():
    s = example().situation
    plus, minus = both(s)
    f = np.maximum(s.x @ plus.end, 0) - np.maximum(s.x @ minus.end, 0)
    assert f == pytest.approx(s.y)


def test_the_certified_end_is_the_interpolator_of_least_norm_up_to_the_share_of_the_others():
    s = example().situation
    least, excess = 2 * sum(group.strength for group in both(s)), []
    for factor in (1e2, 1.0):
        now = scaled(s, factor)
        end = rf.limit(now.network, now.data, "square", optimality=False, show=False)
        assert end.reached
        share = max(group.partial for group in both(now))
        excess.append(end.norm**2 / least - 1)
        assert 0 < excess[-1] < share
        assert assessed(RESULT, now).verify(end).verdict == "holds"
    assert excess[0] > 5 * excess[1]


def test_the_share_of_the_others_vanishes_with_the_power_of_the_start_that_their_rates_say():
    s = example().situation
    for now, later in zip(both(scaled(s, 1e-20)), both(scaled(s, 1e-30)), strict=True):
        fastest = max(part.k for part in now.others)
        power = np.log(now.partial / later.partial) / np.log(1e10)
        assert power == pytest.approx(2 * (1 - fastest / now.rate), abs=0.02)


@pytest.mark.parametrize("loss", ["square.mean", "square.sum"])
def test_it_holds_on_the_papers_orthogonal_pair(loss):
    data = rf.data.orthogonal_pair()
    network = rf.Network.balanced((2, 20, 1), slope=0.0, scale=1e-6, seed=0)
    here = assessed(RESULT, Situation(network, data, rf.loss.named(loss)))
    assert here.status == "applies", here.why
    times = np.linspace(0, 60 if loss == "square.mean" else 30, 100)
    run = rf.exact_flow(
        network, data, loss, times[-1], measures=["weights", "loss"], record=list(times), show=False
    )
    assert all(v.verdict == "holds" for v in here.verify(run))


def test_many_samples_make_a_start_of_1e_8_too_large():
    # With k equal samples a neuron that sees all but one grows sqrt(1 - 1/k) times as fast: almost as fast.
    data = rf.Data(np.eye(12), np.repeat([1.0, -1.2], 6))
    network = rf.Network.balanced((12, 2000, 1), slope=0.0, scale=1e-8, seed=0)
    here = assessed(RESULT, Situation(network, data, rf.loss.square))
    assert [h.id for h in here.violated] == ["few-partial"]
