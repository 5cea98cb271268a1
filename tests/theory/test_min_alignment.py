"""Min, Mallada and Vidal: early alignment on data with y_i y_j <x_i, x_j> > 0."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rankfall as rf
from rankfall.theory import RESULTS, assessed
from rankfall.theory.core.situation import Situation
from rankfall.theory.mathematics.early_flow import EARLY, EarlyFlow, pull, window
from rankfall.theory.results.min_alignment import example

RESULT = RESULTS["min_alignment"]


def test_the_closed_form_solves_the_equation_of_directions():
    # d/dt w/|w| = c sign(a) P_w x_a(w), by SciPy from the start, kinks and all
    s = example().situation
    early = EarlyFlow(s)

    def turning(_, u):
        u = u.reshape(s.w.shape)
        sums = (u @ s.x.T > 0) * s.y @ s.x * np.sign(s.a)[:, None]
        return (sums - (sums * u).sum(axis=1, keepdims=True) * u).ravel() * pull(s)

    start = s.w / np.linalg.norm(s.w, axis=1, keepdims=True)
    times = np.linspace(0, early.end, 7)
    found = solve_ivp(
        turning, (0, early.end), start.ravel(), t_eval=times, rtol=1e-8, atol=1e-10, max_step=1e-3
    )
    for t, u in zip(times, found.y.T, strict=True):
        w, a = early.weights(t)
        assert np.linalg.norm(w, axis=1) == pytest.approx(a, rel=1e-9)  # balanced for ever
        assert u.reshape(w.shape) == pytest.approx(w / a[:, None], abs=2e-3)


def test_no_output_is_large_before_the_window_ends():
    for loss in ("exponential.sum", "logistic"):
        s = replace(example().situation, loss=rf.loss.named(loss))
        run = rf.exact_flow(s.network, s.data, loss, window(s), measures=["loss"], show=False)
        assert np.abs(run.network(s.data.x)).max() <= EARLY
        assert EarlyFlow(s).end >= window(s)


def test_every_neuron_ends_on_its_class_or_dead_and_those_active_on_it_live():
    for seed in range(20):
        data = rf.data.orthogonally_separable(n=10, dim=4, seed=seed)
        network = rf.Network.balanced((4, 15, 1), slope=0.0, scale=1e-5, seed=seed)
        s = Situation(network, data, rf.loss.exponential)
        early = EarlyFlow(s)
        own = np.outer(s.a, s.y) > 0
        assert ((early.pattern == own).all(axis=1) | ~early.alive).all()
        starts = ((s.w @ s.x.T > 0) & own).any(axis=1)
        assert early.alive[starts].all()


def test_the_angle_to_the_class_sum_follows_the_hyperbolic_tangent():
    # In its class's pattern: cos(t) = (cos + T) / (1 + cos T) with T = tanh(c |x_+| t)
    s = example().situation
    early = EarlyFlow(s)
    for j in np.flatnonzero(early.alive):
        part = early.stretches[j][-1]
        total = s.x[s.y == np.sign(s.a[j])].sum(axis=0)
        k = np.linalg.norm(total)
        begin = part.w @ total / k / np.linalg.norm(part.w)
        w, _ = early.weights(part.time + 0.3)
        tanh = np.tanh(pull(s) * k * 0.3)
        assert w[j] @ total / k / np.linalg.norm(w[j]) == pytest.approx((begin + tanh) / (1 + begin * tanh))


@pytest.mark.parametrize("loss", ["logistic.sum", "exponential.mean"])
def test_it_holds_for_other_losses_with_time_rescaled_by_the_pull_at_zero(loss):
    s = replace(example().situation, loss=rf.loss.named(loss))
    here = assessed(RESULT, s)
    assert here.status == "applies"
    assert EarlyFlow(s).end == pytest.approx(EarlyFlow(example().situation).end / pull(s), rel=1e-6)
    times = np.linspace(0, 3 * window(s), 60)
    run = rf.exact_flow(
        s.network, s.data, loss, times[-1], measures=["weights", "loss"], record=list(times), show=False
    )
    assert here.verify(run).verdict == "holds"


def test_what_a_block_keeps_beside_its_first_singular_value_is_of_second_order_in_the_start():
    s = example().situation
    small = replace(s, network=rf.Network([1e-3 * w for w in s.network.weights]))
    for sign in (1, -1):
        ratio = EarlyFlow(small).unaligned(sign) / EarlyFlow(s).unaligned(sign)
        assert ratio == pytest.approx(1e-6, rel=1e-3)


def test_a_smaller_start_is_aligned_better_by_the_time_it_takes_off():
    s = example().situation
    angles = []
    for scale in (1.0, 1e-2, 1e-4):
        early = EarlyFlow(replace(s, network=rf.Network([scale * w for w in s.network.weights])))
        w, a = early.weights(early.end)
        total = s.x[s.y > 0].sum(axis=0)
        own = early.alive & (s.a > 0)
        angles.append(np.sqrt(2 - 2 * (w[own] @ total / a[own] / np.linalg.norm(total)).min()))
    assert angles[0] > 30 * angles[1] > 900 * angles[2]


def test_a_large_start_is_outside_its_hypotheses():
    s = example().situation
    large = replace(s, network=rf.Network([100 * w for w in s.network.weights]))
    assert assessed(RESULT, large).status == "does not apply"
