from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import expi, logsumexp

from rankfall import Data, Network, Trajectory, Until, exact_flow, flow, linear
from rankfall.dynamics import visited
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import Region, Weights, walk_of
from rankfall.dynamics.exact._affine import Affine
from rankfall.loss import named
from rankfall.outcome import Outcome

LOSSES = ("exponential", "logistic", "square", "exponential.sum", "logistic.sum", "square.sum")
SLOPES = (0.0, 0.01, 0.1, 0.5, 1.0)


def run(network, data, loss, until, **options):
    options = {"measures": [], "record": [], "show": False, "budget": 20_000, **options}
    return exact_flow(network, data, loss, until, **options)


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# Problems


@dataclass(frozen=True)
class Case:
    """A network on data with a loss; `end` is in the walk's own clock: s, or t for the square loss."""

    network: Network
    data: Data
    loss: str
    end: float
    name: str = field(default="", compare=False)

    @property
    def weights(self):
        """(W, a, c), a bias of the first layer as the last column of W."""
        return parameters(self.network)

    @property
    def x(self):
        x = self.data.x
        return x if self.network.biases[0] is None else np.column_stack([x, np.ones(len(x))])

    @property
    def trains(self):
        """Of the second layer and its bias: are they trained?"""
        second = self.network.trained[1]
        return second, second and self.network.biases[1] is not None

    @property
    def homogeneous(self):
        return self.network.biases[1] is None


def parameters(network):
    w, b, c = network.weights[0], network.biases[0], network.biases[1]
    return w if b is None else np.column_stack([w, b]), network.weights[1][0], 0.0 if c is None else c[0]


def network_of(w, a, slope, second=True, b=None, c=None):
    return Network([w, np.atleast_2d(a)], [b, c], slope=slope, trained=(True, second))


def signs(rng, n):
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    return y


def random_case(seed):
    rng = np.random.default_rng([7, seed])
    n, m, d = (int(rng.integers(*bounds)) for bounds in ((2, 9), (1, 13), (1, 7)))
    slope, second, loss = float(rng.choice(SLOPES)), bool(rng.integers(2)), str(rng.choice(LOSSES))
    scale = rng.choice([0.01, 0.1, 1.0])
    a = scale * rng.normal(size=m) if second else rng.choice([-1.0, 1.0], m) / np.sqrt(m)
    b, c = (scale * rng.normal(size=k) if rng.integers(2) else None for k in (m, 1))
    network = network_of(scale * rng.normal(size=(m, d)) / np.sqrt(d), a, slope, second, b, c)
    y = rng.normal(size=n) if loss.startswith("square") else signs(rng, n)
    return Case(network, Data(rng.normal(size=(n, d)), y), loss, 1.0 if second else 2.0, f"case {seed}")


def lattice_case(seed, start_at_kinks=True):
    """Inputs and weights of -1, 0 and 1 only: many kinks meet, at the start and later."""
    rng = np.random.default_rng([9, seed])
    n, m, d = (int(rng.integers(*bounds)) for bounds in ((2, 9), (1, 13), (1, 4)))
    second, loss = bool(rng.integers(2)), str(rng.choice(LOSSES))
    w = rng.integers(-1, 2, (m, d)) / 2 if start_at_kinks else rng.normal(size=(m, d))
    a = rng.integers(-1, 2, m) / 2 if second else rng.choice([-1.0, 1.0], m)
    b, c = (rng.integers(-1, 2, k) / 2 if rng.integers(2) else None for k in (m, 1))
    network = network_of(w, a, float(rng.choice(SLOPES)), second, b, c)
    y = rng.integers(-2, 3, n).astype(float) if loss.startswith("square") else signs(rng, n)
    return Case(network, Data(rng.integers(-1, 2, (n, d)).astype(float), y), loss, 1.0, f"lattice {seed}")


# Oracles: the gradient by hand, in NumPy, for many problems at once (filled up with zeros to one shape)


class Field:
    """The velocities of many problems in plain time, with one axis for the problems in front."""

    def __init__(self, cases):
        self.cases = cases
        n, m, d = np.max([(len(case.x), *case.weights[0].shape) for case in cases], axis=0)
        self.x, self.y = np.zeros((len(cases), n, d)), np.zeros((len(cases), n))
        self.weight = np.zeros((len(cases), n))  # of each sample in the loss
        self.start = np.zeros((len(cases), m, d)), np.zeros((len(cases), m)), np.zeros(len(cases))
        for i, case in enumerate(cases):
            (k, dim), (w, a, c) = case.x.shape, case.weights
            self.x[i, :k, :dim], self.y[i, :k] = case.x, case.data.y
            self.weight[i, :k] = 1.0 if case.loss.endswith("sum") else 1 / k
            self.start[0][i, : len(a), :dim], self.start[1][i, : len(a)], self.start[2][i] = w, a, c
        self.slope = self._column(float(c.network.slope) for c in cases)[..., None]
        self.second, self.bias = (self._column(c.trains[k] for c in cases)[:, 0] for k in (0, 1))
        self.square = self._column(c.loss.startswith("square") for c in cases) > 0
        self.exponential = self._column(c.loss.startswith("exponential") for c in cases) > 0

    def _column(self, values):
        return np.array([float(v) for v in values])[:, None]

    def __call__(self, w, a, c):
        """The velocities of (w, a, c), and the loss."""
        z = w @ self.x.transpose(0, 2, 1)
        p = np.where(z > 0, 1.0, self.slope)
        f = (a[:, None] @ (p * z))[:, 0] + c[:, None]
        e = np.exp(-np.where(self.square, 0.0, self.y * f))
        each = np.where(self.square, (f - self.y) ** 2 / 2, np.where(self.exponential, e, np.log1p(e)))
        pull = np.where(self.exponential, e, e / (1 + e)) * self.y
        r = self.weight * np.where(self.square, self.y - f, pull)
        u = p * r[:, None]
        moves = self.second[:, None] * (u * z).sum(axis=2), self.bias * r.sum(axis=1)
        return a[..., None] * (u @ self.x), *moves, (self.weight * each).sum(axis=1)

    def descend(self, steps):
        """Explicit Euler steps in the clock of each case: its last weights, and the other clock.

        ds = L dt for the exponential and logistic loss, with t beside it; t for the square loss, with s.
        """
        w, a, c = self.start
        square, end = self.square[:, 0], np.array([case.end for case in self.cases])
        other = np.zeros(len(self.cases))
        for _ in range(steps):
            dw, da, dc, loss = self(w, a, c)
            h = end / steps / np.where(square, 1.0, loss)
            w, a, c = w + h[:, None, None] * dw, a + h[:, None] * da, c + h * dc
            other = other + h * np.where(square, loss, 1.0)
        last = []
        for i, case in enumerate(self.cases):
            m, d = case.weights[0].shape
            last.append(np.concatenate([w[i, :m, :d].ravel(), a[i, :m], c[i : i + 1]]))
        return last, other


def scipy_flow(case, times):
    """The weights of a case at times t, one row each, by SciPy."""
    moving = Field([case])
    w = case.weights[0]

    def unpack(theta):
        return theta[: w.size].reshape(1, *w.shape), theta[None, w.size : -1], theta[-1:]

    def direction(t, theta):
        dw, da, dc, _ = moving(*unpack(theta))
        return np.concatenate([dw.ravel(), da.ravel(), dc])

    solution = solve_ivp(
        direction, (0.0, times[-1]), packed(case.network), "DOP853", times, rtol=1e-12, atol=1e-14
    )
    assert solution.success
    return solution.y.T


def packed(network):
    w, a, c = parameters(network)
    return np.concatenate([w.ravel(), a, [c]])


def outputs(case, w, a, c):
    z = w @ case.x.T
    return a @ np.where(z > 0, z, float(case.network.slope) * z) + c


def losses(case, states):
    """The loss of every state; for the exponential and logistic loss its logarithm, summed over samples."""
    f = np.array([outputs(case, *state) for state in states])
    y = case.data.y
    if case.loss.startswith("square"):
        return ((f - y) ** 2).sum(axis=1) / 2
    q = y * f
    return logsumexp(-q if case.loss.startswith("exponential") else np.log(np.logaddexp(0, -q)), axis=1)


# The battery: 240 random problems, walked once


@dataclass(frozen=True)
class Followed:
    """Where a walk came: its states at the ends and in the middle of its steps, and itself."""

    case: Case
    states: list
    walk: object

    @property
    def last(self):
        w, a, c = self.states[-1]
        return np.concatenate([w.ravel(), a, [c]])


def meets_origin(followed):
    """Does a neuron come to w = 0, where all its kinks meet? In a plane it can leave in several ways."""
    lengths = np.array([np.linalg.norm(w, axis=1) for w, _, _ in followed.states])
    return followed.case.x.shape[1] > 1 and (lengths.min(axis=0) < 1e-9 * lengths.max(axis=0)).any()


def follow(case, rtol=1e-10):
    walk = walk_of(Reduction([case.network], case.data, named(case.loss), span=False), rtol)
    states = [tuple(map(np.array, (walk.weights.w, walk.weights.a, walk.weights.c)))]
    while walk.clock.now < case.end:
        assert walk.steps < 3000, f"{case.name} takes too many steps"
        piece = walk.step(case.end - walk.clock.now)
        for theta in (piece.cut / 2, piece.cut):
            now = piece.weights(theta)
            states.append(tuple(map(np.array, (now.w, now.a, now.c))))
        walk.take(piece)
    return Followed(case, states, walk)


PART = 60


@cache
def battery(part):
    return [follow(random_case(seed)) for seed in range(part * PART, (part + 1) * PART)]


PARTS = pytest.mark.parametrize("part", range(4))


def assert_loss_never_increases(followed):
    values, case = losses(followed.case, followed.states), followed.case
    if case.loss.startswith("square"):  # the rounding of f counts where the loss is nearly zero
        rounding = 1e-13 * values + 1e-28 * (1 + np.abs(case.data.y).max() ** 2)
    else:
        rounding = 1e-13 * (1 + np.abs(values))
    assert (np.diff(values) <= rounding[:-1]).all(), case.name


def assert_margin_never_falls(followed):
    case = followed.case
    total = losses(case, followed.states)
    with np.errstate(over="ignore", divide="ignore"):
        near = -total if case.loss.startswith("exponential") else -np.log(np.expm1(np.exp(total)))
    inverse = np.where(total < -30, -total, near)
    moved = [np.concatenate([w.ravel(), a * case.trains[0]]) for w, a, _ in followed.states]
    margin = inverse / np.linalg.norm(moved, axis=1) ** (1 + case.trains[0])
    margin = margin[margin > 0]
    assert (np.diff(margin) >= -1e-9 * margin[1:]).all(), case.name
    return margin


def assert_balance_is_conserved(followed):
    if followed.case.trains[0]:
        balance = np.array([(w**2).sum(axis=1) - a**2 for w, a, _ in followed.states])
        size = max(1.0, *((a**2).max() for _, a, _ in followed.states))
        assert np.abs(balance - balance[0]).max() < 1e-9 * size, followed.case.name


@PARTS
def test_the_loss_never_increases(part):
    for followed in battery(part):
        assert_loss_never_increases(followed)


@PARTS
def test_the_smoothed_margin_never_falls_once_it_is_positive(part):
    # Lyu and Li 2020, Theorem 4.1: for homogeneous networks.
    for followed in battery(part):
        if followed.case.homogeneous and not followed.case.loss.startswith("square"):
            assert_margin_never_falls(followed)


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_far_out_the_smoothed_margin_still_grows(slope, loss, second):
    rng = np.random.default_rng(6)
    network = network_of(rng.normal(size=(8, 3)), rng.normal(size=8), slope, second, rng.normal(size=8))
    data = Data(rng.normal(size=(6, 3)), signs(rng, 6))
    followed = follow(Case(network, data, loss, 5.0 if second else 100.0))
    assert len(assert_margin_never_falls(followed)) > 20
    assert losses(followed.case, followed.states)[-1] < -30


@PARTS
def test_every_neuron_conserves_its_balance(part):
    for followed in battery(part):
        assert_balance_is_conserved(followed)


@PARTS
def test_small_steps_of_gradient_descent_come_as_close_as_their_size(part):
    # Distance C h with C < 8, on problems with up to 20 kinks held at once; where no kink is met Richardson's
    # extrapolation is closer still.
    followed = [one for one in battery(part) if not meets_origin(one)]
    assert len(followed) > 0.95 * PART
    oracle, steps = Field([one.case for one in followed]), 4000
    (coarse, other), (fine, other_fine) = oracle.descend(steps), oracle.descend(2 * steps)
    ratios = []
    for i, one in enumerate(followed):
        h = one.case.end / steps
        distance, half = relative(coarse[i], one.last), relative(fine[i], one.last)
        assert distance < 8 * h, one.case.name
        assert half < 8 * h / 2, one.case.name
        if distance > 1e-7:
            ratios.append(half / distance)
        if not one.walk.events:
            assert relative(2 * fine[i] - coarse[i], one.last) < 1e-5, one.case.name
        square = one.case.loss.startswith("square")
        clock = np.log(one.walk.clock.other) if square else one.walk.clock.log_time
        for reached, size in ((other[i], h), (other_fine[i], h / 2)):
            assert abs(np.log(reached) - clock) < 8 * size * max(1.0, abs(clock)), one.case.name
    assert 0.45 < np.median(ratios) < 0.55
    assert sum(bool(one.walk.events) for one in followed) > PART / 2


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(0, 10**6), st.booleans())
def test_where_many_kinks_meet_loss_and_balance_behave_as_well(seed, start_at_kinks):
    followed = follow(lattice_case(seed, start_at_kinks))
    assert np.isfinite(followed.last).all()
    assert_loss_never_increases(followed)
    assert_balance_is_conserved(followed)


@pytest.mark.parametrize("seed", [3, 5, 16, 28, 40, 47, 90])
def test_the_public_function_takes_the_same_way(seed):
    case = random_case(seed)
    clock = "time" if case.loss.startswith("square") else "loss"
    for span in (False, True):
        found = run(case.network, case.data, case.loss, case.end, clock=clock, span=span)
        assert relative(packed(found.network), follow(case).last) < 1e-9


# Against `flow`, and against SciPy


@pytest.mark.parametrize("seed", [19, 53, 63])
def test_away_from_sliding_the_flow_to_a_tolerance_agrees(seed):
    case = random_case(seed)
    options = {"record": [0.25, 0.5], "measures": ["weights"], "show": False}
    found = exact_flow(case.network, case.data, case.loss, 1.0, **options)
    expected = flow(case.network, case.data, case.loss, 1.0, rtol=1e-10, **options)
    assert (found.events.kind != "stick").all()
    np.testing.assert_array_equal(found.time, [0.0, 0.25, 0.5, 1.0])
    assert relative(packed(found.network), packed(expected.network)) < 1e-8
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("loss", ["exponential", "logistic.sum", "square"])
def test_a_linear_network_flows_as_scipy_says(loss, second):
    rng = np.random.default_rng(3)
    network = network_of(
        rng.normal(size=(4, 3)), rng.normal(size=4), 1.0, second, rng.normal(size=4), rng.normal(size=1)
    )
    case = Case(network, Data(rng.normal(size=(6, 3)), signs(rng, 6)), loss, 1.0)
    expected = scipy_flow(case, np.array([0.0, 2.0]))[-1]
    assert relative(packed(run(network, case.data, loss, 2.0).network), expected) < 1e-9


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_without_kinks_a_relu_network_flows_as_scipy_says(slope, second):
    # Inputs and weights in the positive orthant, wanted larger: all stay active.
    rng = np.random.default_rng(4)
    network = network_of(rng.uniform(0.1, 1, (3, 2)), rng.uniform(0.1, 1, 3), slope, second)
    case = Case(network, Data(rng.uniform(0.5, 1, (4, 2)), np.full(4, 6.0)), "square", 1.0)
    times = np.linspace(0.0, 1.0, 6)
    found = run(network, case.data, "square", 1.0, record=times, measures=["weights"])
    assert found.statistics.events == 0
    np.testing.assert_allclose(found.weights, scipy_flow(case, times)[:, :-1], rtol=1e-9)


# Closed forms


def test_the_square_loss_of_a_linear_network_decays_by_a_matrix_exponential():
    # f' = |a|^2 G (y - f) / n
    rng = np.random.default_rng(0)
    x, y, w, a = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(4, 3)), rng.normal(size=4)
    times = np.linspace(0.0, 3.0, 7)
    options = {"record": times, "measures": ["outputs", "log_loss"]}
    found = run(network_of(w, a, 1.0, False), Data(x, y), "square", 3.0, **options)
    start, rate = x @ w.T @ a, (a @ a) * (x @ x.T) / 5
    expected = np.array([y + expm(-rate * t) @ (start - y) for t in times])
    np.testing.assert_allclose(found.outputs, expected, atol=1e-11)
    np.testing.assert_allclose(found.log_loss, np.log(((expected - y) ** 2).mean(axis=1) / 2), rtol=1e-10)


MIRROR = Data([[0.6, 0.8], [-0.6, -0.8]], [1.0, -1.0])  # |x| = 1


def mirrored(a=2.0, second=False):
    """Two ReLU neurons, each active on one of two opposite samples: q' = a^2 exp(-q) / 2."""
    first = 0.25 * np.array([[0.6, 0.8], [-0.6, -0.8]])
    return network_of(first, [a, -a], 0.0, second)


def margin_of_mirrored(log_time, a=2.0):
    """q = log(exp(q(0)) + a^2 t / 2)."""
    return np.logaddexp(0.25 * a, 2 * np.log(a) - np.log(2) + log_time)


def test_one_sample_a_neuron_grows_like_the_logarithm_of_time():
    times = np.array([0.0, 1e-3, 1.0, 1e4])
    found = run(mirrored(), MIRROR, "exponential", 1e4, record=times, measures=["margins"])
    np.testing.assert_array_equal(found.time, times)
    with np.errstate(divide="ignore"):
        expected = margin_of_mirrored(np.log(times))
    np.testing.assert_allclose(found.margins, np.column_stack([expected, expected]), rtol=1e-11)
    assert found.statistics.events == 0


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_at_ten_to_the_thousand_the_margin_is_still_that_of_the_closed_form(loss):
    end = 1000 * np.log(10)
    found = run(mirrored(), MIRROR, loss, Until(log_time=end), clock="loss", measures=["margins", "log_loss"])
    assert found.log_time[-1] == pytest.approx(end, rel=1e-14)
    # The logistic loss is late by a bounded time: q + exp(q) instead of exp(q).
    np.testing.assert_allclose(found.margins[-1], margin_of_mirrored(end), rtol=1e-12)
    np.testing.assert_allclose(found.log_loss[-1], -margin_of_mirrored(end), rtol=1e-12)
    assert "log t >= 2302.59" in found.settings["condition"]


def test_with_both_layers_trained_the_margin_is_an_inverse_exponential_integral():
    # Balanced: q = u^2, u' = u exp(-q) / 2, so that q' = q exp(-q) and Ei(q) - Ei(q(0)) = t.
    found = run(
        mirrored(a=0.25, second=True),
        MIRROR,
        "exponential",
        Until(log_time=600.0),
        clock="loss",
        measures=["margins"],
        record=[0.1, 1.0, 3.0],
    )
    times = np.exp(found.log_time.values)
    for q in found.margins.values.T:
        np.testing.assert_allclose(expi(q[1:]) - expi(0.0625), times[1:], rtol=1e-8)
    assert found.margins[-1].min() > 590


# Sliding: one ReLU neuron, x_1 = (1, 0) wanted at -pull holds it at w_1 = 0


@dataclass(frozen=True)
class Slide:
    """A slide along w_1 = 0: linear phases, each with a closed form."""

    x: np.ndarray
    y: np.ndarray
    start: np.ndarray
    side: int  # where it is released

    def free(self, w, active, time):
        """With some samples active, the slide not among them: w' = X'(y - X w)."""
        x, y = self.x[active], self.y[active]
        still = np.linalg.lstsq(x, y, rcond=None)[0]
        return still + expm(-x.T @ x * time) @ (w - still)

    def slid(self, w, time):
        """Along w_1 = 0: w_2' = sum x_2 (y - x_2 w_2)."""
        x, y = self.x[1:, 1], self.y[1:]
        still = (x @ y) / (x @ x)
        return np.array([0.0, still + np.exp(-(x @ x) * time) * (w[1] - still)])

    def slope(self, w):
        """P, for which the velocity of w_1 is zero."""
        return -self.x[1:, 0] @ (self.y[1:] - self.x[1:] @ w) / self.y[0]

    def phases(self):
        """When it comes to the kink, when it leaves it, and the solution."""
        everyone = [0, 1, 2]
        hit = brentq(lambda t: self.free(self.start, everyone, t)[0], 0.0, 1.0, xtol=1e-15)
        at_hit = self.free(self.start, everyone, hit)
        bound = 1.0 if self.side > 0 else 0.0
        slide = brentq(lambda t: self.slope(self.slid(at_hit, t)) - bound, 0.0, 5.0, xtol=1e-15)
        after = everyone if self.side > 0 else [1, 2]
        left = self.slid(at_hit, slide)

        def solution(t):
            if t < hit:
                return self.free(self.start, everyone, t)
            if t < hit + slide:
                return self.slid(at_hit, t - hit)
            return self.free(left, after, t - hit - slide)

        return hit, hit + slide, solution


SLIDES = {
    "released below": Slide(
        np.array([[1.0, 0.0], [0.5, 1.0], [-0.25, 1.0]]), np.array([-4.0, 2.0, 3.0]), np.array([0.1, 0.2]), -1
    ),
    "released above": Slide(
        np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 1.0]]), np.array([-1.0, 2.0, 0.5]), np.array([0.05, 0.2]), 1
    ),
}


def slide_network(start):
    return network_of([start], [1.0], 0.0, second=False)


@pytest.mark.parametrize("slide", SLIDES.values(), ids=SLIDES)
def test_a_neuron_comes_to_its_kink_slides_along_it_and_is_released(slide):
    hit, release, solution = slide.phases()
    assert hit < release < 1.5
    times = np.linspace(0.0, 2.0, 41)
    found = run(
        slide_network(slide.start),
        Data(slide.x, slide.y),
        "square.sum",
        2.0,
        record=times,
        measures=["weights"],
    )
    np.testing.assert_allclose(found.weights[:, :2], [solution(t) for t in times], atol=1e-10)
    events = found.events
    np.testing.assert_allclose(events.clock, [hit, release], rtol=1e-10)
    np.testing.assert_allclose(events.log_time, np.log([hit, release]), rtol=1e-9)
    assert events.kind.values.tolist() == ["stick", "release"]
    assert events.side.values.tolist() == [0, slide.side]
    assert not events.neuron.any()
    assert not events["sample"].any()
    np.testing.assert_array_equal(found.kinks, (times > hit) & (times < release))
    np.testing.assert_array_equal(found.regions, 1 + (times > hit) + 1.0 * (times > release))


@pytest.mark.parametrize("pull", [1.01, 2.0, 5.0, 20.0])
def test_a_neuron_that_is_never_released_slides_to_the_end(pull):
    # w_1 = 0 and w_2' = 2 - w_2, as in the tests of `flow`, but exactly.
    data = Data([[1.0, 0.0], [0.5, 1.0]], [-pull, 2.0])
    found = run(slide_network([0.3, 0.1]), data, "square.sum", 4.0, record=linear(9), measures=["weights"])
    hit = float(found.events.clock[0])
    w1, w2 = found.weights.values[:, 0], found.weights.values[:, 1]
    slides = found.time.values > hit
    np.testing.assert_allclose(w1[slides], 0.0, atol=1e-15)
    slid = w2[slides][0]
    expected = 2 - (2 - slid) * np.exp(found.time.values[slides][0] - found.time.values[slides])
    np.testing.assert_allclose(w2[slides], expected, rtol=1e-10)
    assert found.statistics.kinks == 1


@pytest.mark.parametrize("seed", range(12))
def test_a_sliding_neuron_goes_straight_through_the_origin_where_all_kinks_meet(seed):
    # Held at w_1 = 0, pulled down by x_2 until w_2 = 0, and by x_3 from there on; in rotated coordinates.
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(2, 2)))[0]
    data = Data(np.array([[1.0, 0.0], [-0.5, 1.0], [0.2, -1.0]]) @ turn, [-3.0, -2.0, 2.0])
    found = run(slide_network(np.array([0.0, 1.0]) @ turn), data, "square.sum", 3.0)
    through = np.log(1.5)  # where w_2 = 3 exp(-t) - 2 is zero
    expected = np.array([0.0, -2 * (1 - np.exp(through - 3.0))])
    np.testing.assert_allclose(found.network.weights[0][0] @ turn.T, expected, atol=1e-9)


# Inputs on one line: their kinks are one kink


def twice(x, y, spread):
    """Every sample twice, with targets that differ by 2 spread and have the mean y."""
    return Data(np.vstack([x, x]), np.concatenate([y + spread, y - spread]))


@pytest.mark.parametrize(
    "spread",
    [
        pytest.param(0.0, id="same targets"),
        pytest.param(2.0, id="contradicting targets"),
    ],
)
def test_under_the_square_loss_a_sample_given_twice_is_one_with_the_mean_target(spread):
    # The gradients are the same: (f - y - d) + (f - y + d) = 2 (f - y).
    slides = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y, apart = rng.normal(size=(4, 2)), 2 * rng.normal(size=4), spread * rng.normal(size=4)
        network = network_of(rng.normal(size=(5, 2)) / 2, rng.choice([-1.0, 1.0], 5), 0.0, second=False)
        once = run(network, Data(x, y), "square", 3.0)
        found = run(network, twice(x, y, apart), "square", 3.0)
        assert relative(packed(found.network), packed(once.network)) < 1e-8, seed
        slides += int((once.events.kind == "stick").sum())
    assert slides > 5


@pytest.mark.slow
def test_on_symmetric_data_descent_comes_as_close_as_its_step():
    # x and -x have one kink, the one above it where the other is below.
    cases = []
    for seed in range(60):
        rng = np.random.default_rng([3, seed])
        h, m, d = (int(rng.integers(*bounds)) for bounds in ((1, 5), (1, 9), (1, 5)))
        x, second = rng.normal(size=(h, d)), bool(seed % 2)
        a = rng.normal(size=m) / 2 if second else rng.choice([-1.0, 1.0], m)
        network = network_of(rng.normal(size=(m, d)) / 2, a, float(rng.choice([0.0, 0.1])), second)
        y = rng.normal(size=h)
        data = Data(np.vstack([x, -x]), np.concatenate([y, -y]))
        cases.append(Case(network, data, "square", 2.0, f"symmetric {seed}"))
    fine, _ = Field(cases).descend(8000)
    for case, expected in zip(cases, fine, strict=True):
        followed = follow(case)
        if not meets_origin(followed):
            assert relative(followed.last, expected) < 8 * case.end / 8000, case.name


# Clocks, ends and records


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
@pytest.mark.parametrize("loss", ["exponential", "logistic.sum", "square"])
def test_both_clocks_go_through_the_same_states(loss, second):
    rng = np.random.default_rng(11)
    network = network_of(rng.normal(size=(6, 3)), rng.normal(size=6) / 2, 0.1, second)
    data = Data(rng.normal(size=(5, 3)), signs(rng, 5))
    by_loss = run(network, data, loss, 0.3, clock="loss", record=linear(6), measures=["weights", "log_loss"])
    np.testing.assert_allclose(by_loss.s, np.linspace(0.0, 0.3, 6), rtol=1e-15)
    times = np.exp(by_loss.log_time.values)
    assert times[0] == 0
    by_time = run(network, data, loss, times[-1], record=times[:-1], measures=["weights", "log_loss"])
    np.testing.assert_allclose(by_time.time, times, rtol=1e-12)
    np.testing.assert_allclose(by_time.weights, by_loss.weights, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(by_time.log_loss, by_loss.log_loss, rtol=1e-8, atol=1e-9)
    for found in (by_loss, by_time):
        assert found.statistics.log_time == pytest.approx(np.log(times[-1]), abs=1e-10)


def test_the_square_loss_runs_out_of_its_clock_as_the_closed_form_says():
    # One active neuron, one sample: f - y decays like exp(-k t), so that (f - y)^2 = (f_0 - y)^2 - 4 k s.
    data, network = Data([[2.0]], [3.0]), network_of([[0.5]], [1.5], 0.0, second=False)
    k, start = (2.0 * 1.5) ** 2, 1.5 - 3.0
    s = np.array([0.0, 0.01, 0.03, 0.06])
    found = run(network, data, "square", 0.06, clock="loss", record=s, measures=["outputs"])
    expected = 3.0 - np.sqrt(start**2 - 4 * k * s)
    np.testing.assert_allclose(found.outputs, expected, rtol=1e-9)
    np.testing.assert_allclose(np.exp(found.log_time), np.log(start / (expected - 3.0)) / k, atol=1e-10)


def test_the_run_ends_exactly_at_a_loss_a_gradient_or_a_time():
    # The mean loss is exp(-q), and the gradient sqrt(2) times a |x| exp(-q) / 2.
    rate = 2.0
    for bounds, level in (({"loss": 1e-5}, 1e-5), ({"gradient": 1e-5}, 1e-5 / np.sqrt(2))):
        for clock in ("time", "loss"):
            found = run(
                mirrored(),
                MIRROR,
                "exponential",
                Until(**bounds),
                clock=clock,
                measures=["loss", "gradient_norm"],
            )
            assert float(found["loss"][-1]) == pytest.approx(level, rel=1e-10)
            assert float(found["gradient_norm"][-1]) == pytest.approx(np.sqrt(2) * level, rel=1e-10)
            elapsed = (1 / level - np.exp(0.5)) / rate
            assert found.statistics.log_time == pytest.approx(np.log(elapsed), rel=1e-11)
            assert found.outcome is Outcome.MET
            assert f"{next(iter(bounds))} <= 1e-05" in found.settings["condition"]


def test_whichever_comes_first_ends_the_run():
    until = Until(time=1e3, loss=1e-2, log_time=50.0)
    found = run(mirrored(), MIRROR, "exponential", until, measures=["loss"])
    assert float(found["loss"][-1]) == pytest.approx(1e-2, rel=1e-10)
    until = Until(time=3.0, loss=1e-2, log_time=50.0)
    found = run(mirrored(), MIRROR, "exponential", until)
    assert found.time[-1] == 3.0
    assert found.outcome is Outcome.ARRIVED


@pytest.mark.parametrize("loss", ["exponential", "square"])
def test_the_logarithm_of_a_time_is_an_end_for_every_loss(loss):
    found = run(mirrored(), MIRROR, loss, Until(log_time=1.0), budget=500)
    assert found.statistics.log_time == pytest.approx(1.0, abs=1e-12)
    assert found.time[-1] == pytest.approx(np.e, rel=1e-12)
    assert "log t >= 1" in found.settings["condition"]


def test_a_condition_that_holds_at_the_start_ends_the_run_there():
    found = run(mirrored(), MIRROR, "exponential", Until(loss=10.0))
    np.testing.assert_array_equal(found.time, [0.0])
    np.testing.assert_array_equal(found.network.weights[0], mirrored().weights[0])


@pytest.mark.parametrize("clock", ["time", "loss"])
@pytest.mark.parametrize("loss", ["exponential", "logistic", "square"])
@pytest.mark.parametrize("end", [1.0, 0.7, 3.0])
def test_records_are_at_the_times_asked_for_and_the_last_is_the_end(loss, clock, end):
    scale = 0.005 if clock == "loss" else 1.0
    asked = scale * end * np.array([0.1, 0.35, 0.9])
    found = run(mirrored(), MIRROR, loss, scale * end, clock=clock, record=asked)
    np.testing.assert_array_equal(found["time" if clock == "time" else "s"], [0.0, *asked, scale * end])


def test_two_hundred_records_if_not_said():
    found = run(mirrored(), MIRROR, "exponential", 2.0, record=None, measures=None)
    np.testing.assert_allclose(found.time, np.linspace(0.0, 2.0, 200), rtol=1e-12)
    assert {"loss", "stable_rank", "accuracy", "kinks", "regions"} <= set(found.data_vars)


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
def test_the_square_loss_goes_on_at_the_end_of_its_decay(second):
    # At a residual of 1e-16 all that is left is rounding.
    found = run(mirrored(second=second), MIRROR, "square", 200.0, measures=["loss"])
    assert found.time[-1] == 200.0
    assert float(found["loss"][-1]) < 1e-20


# Events


@pytest.mark.parametrize("seed", [1, 6, 10, 14, 15, 19, 24, 32])
def test_the_regions_visited_are_those_of_the_signs_of_the_preactivations(seed):
    case = random_case(seed)
    clock = "time" if case.loss.startswith("square") else "loss"
    first, end = case.network.biases[0], case.end
    # states at many times, also the biases, by runs to these times: `weights` records no biases
    times = np.linspace(0.0, end, 6)[1:]
    found = run(case.network, case.data, case.loss, end, clock=clock, record=times)
    regions = list(visited(found))
    assert len(regions) == found.statistics.regions == found.regions[-1]
    assert found.statistics.events == found.events.sizes["event"] > 0
    assert all((here != there).any() for here, there in pairwise(regions))
    for record, time in enumerate(times, 1):
        state = run(case.network, case.data, case.loss, time, clock=clock).network
        z = state.weights[0] @ case.data.x.T + (0.0 if first is None else state.biases[0][:, None])
        region = regions[int(found.regions[record]) - 1]
        sizes = np.linalg.norm(parameters(state)[0], axis=1)[:, None] * np.linalg.norm(case.x, axis=1)
        at_kink = np.abs(z) <= 1e-12 * sizes
        assert at_kink[region == 0].all()
        np.testing.assert_array_equal(np.sign(z)[~at_kink], region[~at_kink])
        assert int(found.kinks[record]) == (region == 0).sum()


def test_events_tell_when_which_pair_did_what():
    case = random_case(15)
    events = run(case.network, case.data, case.loss, case.end).events
    assert set(events.data_vars) == {"clock", "log_time", "neuron", "sample", "side", "kind", "first_region"}
    assert (np.diff(events.clock) >= 0).all()
    assert set(events.kind.values) == {"cross", "stick", "release"}
    np.testing.assert_array_equal(events.kind == "stick", events.side == 0)
    z = case.weights[0] @ case.x.T
    np.testing.assert_array_equal(events.first_region, np.sign(z))
    assert events.clock.attrs["long_name"] == "time $t$"


def test_the_events_of_one_pair_follow_each_other():
    case = random_case(15)
    events = run(case.network, case.data, case.loss, case.end).events
    side = events.first_region.values.copy()
    rows = (events[name].values for name in ("neuron", "sample", "side", "kind"))
    for neuron, sample, now, kind in zip(*rows, strict=True):
        before, side[neuron, sample] = side[neuron, sample], now
        assert now != before
        assert kind == ("stick" if now == 0 else "release" if before == 0 else "cross")


def test_a_run_with_its_events_can_be_written_and_read(tmp_path):
    slide = SLIDES["released above"]
    found = run(slide_network(slide.start), Data(slide.x, slide.y), "square.sum", 2.0, measures=["loss"])
    read = Trajectory.load(found.to_netcdf(tmp_path / "run.nc"))
    assert read.dataset.identical(found.dataset)
    assert (read.settings, read.statistics) == (found.settings, found.statistics)
    np.testing.assert_array_equal(read.network.weights[0], found.network.weights[0])
    assert set(read.events) == set(found.events)
    for name in found.events:
        np.testing.assert_array_equal(read.events[name], found.events[name])
    for here, there in zip(visited(read), visited(found), strict=True):
        np.testing.assert_array_equal(here, there)


def test_a_run_without_events_can_be_written_and_read(tmp_path):
    read = Trajectory.load(run(mirrored(), MIRROR, "logistic", 1.0).to_netcdf(tmp_path / "run.nc"))
    assert read.events.sizes["event"] == 0
    (region,) = visited(read)
    np.testing.assert_array_equal(region, [[1, -1], [-1, 1]])


def test_only_an_exact_flow_knows_its_regions():
    with pytest.raises(ValueError, match="only an exact flow tells the regions"):
        next(visited(flow(mirrored(), MIRROR, "logistic", 0.1, measures=["loss"], show=False)))


# The span, and the same bits


def test_in_many_dimensions_the_flow_is_that_in_the_span_of_the_data():
    rng = np.random.default_rng(8)
    x, w = rng.normal(size=(5, 300)) / np.sqrt(300), rng.normal(size=(4, 300))
    a, y = rng.choice([-1.0, 1.0], 4), signs(rng, 5)
    q, triangle = np.linalg.qr(x.T)
    options = {"measures": ["loss"], "record": linear(5)}
    whole = run(network_of(w, a, 0.0, False), Data(x, y), "logistic", 5.0, **options)
    plain = run(network_of(w, a, 0.0, False), Data(x, y), "logistic", 5.0, span=False, **options)
    small = run(network_of(w @ q, a, 0.0, False), Data(triangle.T, y), "logistic", 5.0, **options)
    assert whole.settings["span"]
    assert not plain.settings["span"]
    assert whole.statistics.events == plain.statistics.events == small.statistics.events > 0
    for other in (plain, small):
        np.testing.assert_allclose(whole["loss"], other["loss"], rtol=1e-9)
    np.testing.assert_allclose(whole.network.weights[0], plain.network.weights[0], atol=1e-9)
    moved = whole.network.weights[0] - w
    np.testing.assert_allclose(moved @ q, small.network.weights[0] - w @ q, atol=1e-9)
    np.testing.assert_allclose(moved - moved @ q @ q.T, 0.0, atol=1e-13)


@pytest.mark.parametrize("seed", [1, 6])
def test_the_same_call_gives_the_same_bits(seed):
    case = random_case(seed)
    one, two = (run(case.network, case.data, case.loss, 1.0, measures=["weights"]) for _ in range(2))
    assert one.dataset.identical(two.dataset)
    assert one.events.identical(two.events)
    assert (one.settings, one.statistics) == (two.settings, two.statistics)


def test_single_precision_flows_in_double_precision():
    found = run(mirrored().astype(np.float32), MIRROR, "exponential", 1.0, measures=["margins"])
    assert found.network.dtype == np.float64
    np.testing.assert_allclose(found.margins[-1], margin_of_mirrored(0.0), rtol=1e-6)


# Unusual input


def lone(w, a, slope=0.0, second=True):
    return network_of(np.atleast_2d(w), np.atleast_1d(a), slope, second)


PAIR = Data([[1.0], [-0.5]], [1.0, -1.0])
ODD = {
    "no weights": (lone(0.0, 0.0), PAIR),
    "no weights, leaky": (lone(0.0, 0.0, 0.1), PAIR),
    "no first layer": (lone(0.0, 0.5), PAIR),
    "no first layer, leaky": (lone(0.0, 0.5, 0.1), PAIR),
    "no second layer": (lone(0.3, 0.0, 0.1), PAIR),
    "no second layer, fixed": (lone(0.3, 0.0, 0.1, False), PAIR),
    "dead": (lone(-1.0, 1.0), Data([[1.0], [0.5]], [1.0, -1.0])),
    "a zero input": (lone(0.3, 0.5, 0.1), Data([[1.0], [0.0], [-0.4]], [1.0, 1.0, -1.0])),
    "only zero inputs": (lone(0.3, 0.5, 0.1), Data([[0.0], [0.0]], [1.0, -1.0])),
    "contradicting samples": (lone(0.3, 0.5, 0.1), Data([[1.0], [1.0]], [1.0, -1.0])),
    "equal neurons": (lone([[0.3], [0.3], [0.3]], [0.5, 0.5, -0.5]), PAIR),
    "one neuron, one feature": (lone(0.3, 0.5), PAIR),
    "tiny weights": (Network.gaussian((2, 5, 1), 0.0, 1e-8, 0), MIRROR),
    "weights near the least": (Network.gaussian((2, 5, 1), 0.0, 1e-200, 0), MIRROR),
    "large weights": (Network.gaussian((2, 5, 1), 0.1, 10.0, 0), MIRROR),
}


@pytest.mark.parametrize("loss", ["exponential", "logistic", "square"])
@pytest.mark.parametrize(("network", "data"), ODD.values(), ids=ODD)
def test_unusual_input_flows_to_its_end(network, data, loss):
    found = run(network, data, loss, 1.0, measures=["loss"], record=linear(5))
    assert found.time[-1] == 1.0
    assert np.isfinite(packed(found.network)).all()
    assert (np.diff(found["loss"]) <= 1e-12 * found["loss"][0].item() + 1e-28).all()


def test_weights_of_zero_stay_zero():
    for network in (lone(0.0, 0.0), lone(0.0, 0.0, 0.1)):
        found = run(network, PAIR, "exponential", 1.0)
        np.testing.assert_array_equal(packed(found.network), packed(network))


def test_a_relu_neuron_with_no_weights_at_all_stays():
    rng = np.random.default_rng(0)
    for _ in range(10):
        data = Data(rng.normal(size=(5, 3)), rng.permutation([-1.0, 1.0, 1.0, -1.0, 1.0]))
        w = np.vstack([np.zeros(3), rng.normal(size=3)])
        found = run(network_of(w, rng.choice([-1.0, 1.0], 2), 0.0, second=False), data, "logistic", 1.0)
        np.testing.assert_array_equal(found.network.weights[0][0], np.zeros(3))


def test_a_relu_at_zero_moves_if_both_sides_say_so():
    # On x = 1, y = 1 and x = -1/2, y = -1 the loss has the slopes -1/2 above and -1/4 below w = 0.
    found = run(lone(0.0, 1.0, second=False), PAIR, "exponential", 1.0)
    assert found.network.weights[0][0, 0] == pytest.approx(np.log(1.5), rel=1e-12)  # w' = e^-w / 2


def test_equal_neurons_stay_equal():
    rng = np.random.default_rng(2)
    w, a = rng.normal(size=(3, 2)), rng.normal(size=3)
    network = network_of(np.vstack([w, w]), np.concatenate([a, a]), 0.0)
    data = Data(rng.normal(size=(6, 2)), signs(rng, 6))
    found = run(network, data, "logistic", 5.0).network
    np.testing.assert_allclose(found.weights[0][:3], found.weights[0][3:], rtol=1e-12)


@pytest.mark.parametrize("second", [False, True], ids=["fixed", "both"])
def test_a_network_that_fits_already_stays(second):
    for w, a, y in ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)):
        found = run(lone(w, a, second=second), Data([[1.0]], [y]), "square", 3.0)
        assert found.time[-1] == 3.0
        np.testing.assert_array_equal(packed(found.network), [w, a, 0.0])


def test_a_dead_network_that_can_never_meet_the_condition_ends_with_a_sentence():
    network, data = ODD["dead"]
    for loss in ("exponential", "square"):
        found = run(network, data, loss, Until(loss=1e-3), budget=2000)
        assert np.isfinite(packed(found.network)).all()
        assert found.outcome is not Outcome.MET


# A run that ends early


def test_a_spent_budget_says_so_and_keeps_what_was_reached():
    found = run(mirrored(), MIRROR, "exponential", 1e6, budget=2, measures=["margins"], record=[1e-3])
    assert found.outcome is Outcome.SPENT
    assert found.statistics.steps == 2
    assert 1e-3 < found.time[-1] < 1e6
    expected = margin_of_mirrored(np.log(found.time.values[1:]))
    np.testing.assert_allclose(found.margins[1:, 0], expected, rtol=1e-10)


def test_an_interrupt_keeps_what_was_reached(monkeypatch):
    from rankfall.dynamics.exact import Walk

    take = Walk.take

    def interrupted(self, *args):
        if self.steps == 2:
            raise KeyboardInterrupt
        take(self, *args)

    monkeypatch.setattr(Walk, "take", interrupted)
    found = run(mirrored(), MIRROR, "exponential", 1e6, measures=["margins"])
    assert found.outcome is Outcome.INTERRUPTED
    assert found.statistics.steps == 2
    assert 0 < found.time[-1] < 1e6
    expected = margin_of_mirrored(np.log(found.time.values[-1]))
    np.testing.assert_allclose(found.margins[-1], expected, rtol=1e-10)


# Bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"network": Network.gaussian((2, 3, 3, 1), 0.0, 1.0, 0)},
            "two layers and one output.*`flow`",
        ),
        ({"network": Network.gaussian((2, 1), 0.0, 1.0, 0)}, "two layers and one output"),
        ({"network": Network.gaussian((2, 3, 2), 0.0, 1.0, 0)}, "output"),
        (
            {
                "network": Network.gaussian((2, 3, 2), 0.0, 1.0, 0),
                "data": Data(MIRROR.x, [0.0, 1.0]),
                "loss": "cross_entropy",
            },
            "unknown loss of an exact flow 'cross_entropy'",
        ),
        (
            {"network": Network(mirrored().weights, trained=(False, True))},
            "first layer.*fixed.*use `flow`",
        ),
        ({"network": Network(mirrored().weights, trained=False)}, "fixed|no layer"),
        ({"clock": "los"}, "unknown clock 'los'. Did you mean 'loss'"),
        ({"rtol": 0.0}, "rtol must lie between 1e-14 and 1, but is 0"),
        ({"rtol": 1.0}, "rtol must lie between 1e-14 and 1"),
        ({"rtol": np.nan}, "rtol must lie between 1e-14 and 1"),
        ({"until": 0.0}, "a flow must end: say `until` a positive time"),
        ({"until": np.inf}, "a flow must end"),
        ({"loss": "logistik"}, "Did you mean 'logistic'"),
        ({"data": Data(MIRROR.x, [1.0, 1.0])}, "all 2 labels are 1"),
        ({"data": Data(MIRROR.x, [0.0, 1.0])}, r"needs labels -1 and \+1"),
        ({"data": Data([[1.0], [2.0]], [1.0, -1.0])}, "takes 2 features"),
        ({"record": [2.0]}, "times between 0 and 1"),
        ({"record": linear(5), "until": Until(loss=1e-3)}, "a schedule needs an end"),
        ({"measures": ["lss"]}, "Did you mean 'loss'"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(options, sentence):
    given_ = {"network": mirrored(), "data": MIRROR, "loss": "exponential", "until": 1.0, **options}
    with pytest.raises(ValueError, match=sentence):
        run(**given_)


def test_a_neuron_at_the_kink_of_opposite_inputs_is_moved_by_no_more_than_it_was_off():
    rng = np.random.default_rng(0)
    for _ in range(500):
        half = rng.normal(size=(3, 3))
        x, w = np.vstack([half, -half]), rng.normal(size=(1, 3)) * 1e-4
        w -= (w @ x[0]) / (x[0] @ x[0]) * x[0]  # at the kinks of the samples 0 and 3, up to rounding
        w += 1e-17 * rng.normal(size=(1, 3))
        motion = Affine(Region.around(w, x, 0.0, None), Weights(w, np.ones(1), np.zeros(())))
        motion.z[0, [0, 3]] = x[[0, 3]] @ w[0]
        step = motion.step_to_kinks(0, np.array([0, 3]))
        off = np.abs(motion.z[0, [0, 3]]).max()
        assert np.abs(step).max() <= 10 * off / np.square(x[0]).sum()
