import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from rankfall import Data, Network, limit
from rankfall import data as rd
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics.exact import walk_of
from rankfall.limits import Verdict
from rankfall.limits._asymptote import asymptote
from rankfall.loss import named
from tests.adversarial.battery import network_and_data
from tests.adversarial.problems import problem

RNG = np.random.default_rng


# Problems


def small(seed, slope, n=5, d=6, m=8, bias=False):
    """A network with fixed second layer on data in general position with labels in turn."""
    data = Data(RNG(seed).normal(size=(n, d)), np.where(np.arange(n) % 2, 1.0, -1.0))
    return Network.fixed_second_layer((d, m, 1), slope, 0.3, seed + 100, bias=bias), data


def any_problem(seed):
    """A random network, data and loss: n <= 8, m <= 12, d <= 6."""
    rng = RNG(seed)
    n, m, d = (int(rng.integers(2, most + 1)) for most in (8, 12, 6))
    slope, scale = float(rng.choice([0.0, 0.01, 0.1, 0.5, 1.0])), float(rng.choice([1e-3, 0.1, 1.0]))
    bias, both, loss = (
        bool(rng.integers(2)),
        rng.integers(3) == 0,
        str(rng.choice(["exponential", "logistic"])),
    )
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    data = Data(rng.normal(size=(n, d)), y)
    if both:
        return Network.gaussian((d, m, 1), slope, scale, seed, bias=(bias, False)), data, loss
    positive = int(rng.integers(1, m))
    return Network.fixed_second_layer((d, m, 1), slope, scale, seed, bias, positive), data, loss


def walk_on(found, data, loss):
    """The exact flow from the state at which a limit was found."""
    return walk_of(Reduction([found.state], data, named(loss)), rtol=1e-10)


def theta(w, a, both):
    return np.concatenate([w.ravel(), a]) if both else w.ravel()


def angle(walk, found, data):
    """1 - cos between a walk's state and a limit, in the coordinates of the walk."""
    w, both = found.W, found.network.trained[1]
    if data.n < data.dim:
        w = w @ Reduction([found.network], data, walk.pull.loss).spans[0].inside
    if found.network.has_bias:
        w = np.column_stack([w, found.network.biases[0]])
    now = theta(walk.weights.w, walk.weights.a, both)
    then = theta(w, found.network.weights[1][0], both)
    return ((now / np.linalg.norm(now) - then / np.linalg.norm(then)) ** 2).sum() / 2


# The theorem: what is certified happens


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("slope", [0.0, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 7])
def test_after_the_certificate_no_friendly_pair_crosses_its_kink_and_the_flow_tends_to_the_limit(
    seed, slope, loss
):
    network, data = small(seed, slope, bias=seed > 0)
    found = limit(network, data, loss, budget=2000, optimality=False, show=False)
    assert found.certified, found.missing
    walk = walk_on(found, data, loss)
    friendly = network.weights[1][0][:, None] * data.y > 0
    side = walk.region.side.copy()
    angles = []
    for log_time in (1e3, 1e4):
        while walk.clock.log_time < log_time:
            walk.advance()
            np.testing.assert_array_equal(walk.region.side[friendly], side[friendly])
        angles.append(angle(walk, found, data))
    np.testing.assert_array_equal(found.region, walk.region.side)
    assert angles[1] <= 1e-5
    assert angles[1] <= angles[0] / 10  # like 1/(log t)^2 after the last kink: W = W_0 + T W_infinity


def shortest_in_cell(network, data, region):
    """The W of least norm with margins of at least 1 and the friendly pairs on their sides, by SciPy.

    An unfriendly pair lowers the margin by |a_j| t, t >= z and t >= slope z: a quadratic program in (W, t).
    """
    a, slope, (m, d) = network.weights[1][0], float(network.slope), network.weights[0].shape
    friendly = a[:, None] * data.y > 0
    pairs = np.argwhere(~friendly)
    slopes = np.where(region > 0, 1.0, slope) * friendly
    margins = np.zeros((data.n, m * d + len(pairs)))
    margins[:, : m * d] = np.einsum("ji,j,id->ijd", slopes, np.abs(a), data.x).reshape(data.n, -1)
    above = np.zeros((2 * len(pairs), m * d + len(pairs)))
    for k, (j, i) in enumerate(pairs):
        margins[i, m * d + k] = -np.abs(a[j])
        above[2 * k : 2 * k + 2, m * d + k] = 1.0
        above[2 * k : 2 * k + 2, j * d : (j + 1) * d] = np.outer([-1.0, -slope], data.x[i])
    solved = minimize(
        lambda v: (v[: m * d] ** 2).sum() / 2,
        np.zeros(m * d + len(pairs)),
        jac=lambda v: np.concatenate([v[: m * d], np.zeros(len(pairs))]),
        constraints=[
            {"type": "ineq", "fun": lambda v: margins @ v - 1, "jac": lambda v: margins},
            {"type": "ineq", "fun": lambda v: above @ v, "jac": lambda v: above},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    # 8: rounding leaves no way down; a point that is not the solution would not agree with the limit
    assert solved.success or solved.status == 8
    return solved.x[: m * d].reshape(m, d)


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_the_limit_is_the_solution_of_the_convex_program_of_its_cell(seed, slope):
    network, data = small(seed, slope, n=6, d=4, m=6)
    found = limit(network, data, budget=2000, optimality=False, show=False)
    assert found.certified, found.missing
    expected = shortest_in_cell(network, data, found.region)
    np.testing.assert_allclose(found.W, expected, atol=1e-6 * np.abs(expected).max())


def test_a_kink_is_crossed_whose_sample_has_all_but_lost_its_pull():
    # The last event is at log t = 706, where the sample's pull is e^-573 of the others'.
    data = Data(RNG(5).normal(size=(5, 6)), [-1.0, 1.0, -1.0, 1.0, -1.0])
    network = Network.fixed_second_layer((6, 8, 1), 0.01, 0.3, 5, bias=True)
    found = limit(network, data, budget=1000, optimality=False, show=False)
    assert found.certified, found.missing


def walk_that_stays(seed):
    """A flow on nearly orthogonal data, just certified: no kinks, and all are support vectors (Frei F1)."""
    data = rd.nearly_orthogonal(6, 6, p=30.0, seed=seed + 100)
    network = Network.fixed_second_layer((6, 8, 1), 0.5, 0.3, seed)
    walk = walk_of(Reduction([network], data, named("exponential")), rtol=1e-10)
    while not ((data.y * walk.outputs).min() > 0 and asymptote(walk).stays):
        walk.advance()
    assert not walk.region.held.any()
    return walk, data


def multipliers_and_distance(walk, data):
    """The multipliers of the region, and how far W is from the line on which the margins are T - log pi."""
    slopes = np.where(walk.z > 0, 1.0, walk.region.slope)
    features = np.einsum("i,ji,j,id->ijd", data.y, slopes, walk.weights.a, walk.region.x).reshape(data.n, -1)
    gram = features @ features.T
    multipliers = np.linalg.solve(gram, np.ones(data.n))
    assert (multipliers > 0).all()
    goal = -np.log(multipliers / multipliers.sum())
    gap = np.linalg.solve(gram, goal - data.y * walk.outputs) @ features
    along = multipliers @ features / np.linalg.norm(multipliers @ features)
    return multipliers, np.linalg.norm(gap - (gap @ along) * along)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_flow_never_moves_away_from_the_half_line(seed):
    # All samples are support vectors, so that the line is a solution itself, and two solutions never part.
    walk, data = walk_that_stays(seed)
    distances = [multipliers_and_distance(walk, data)[1]]
    while walk.clock.log_time < 300:
        walk.advance()
        distances.append(multipliers_and_distance(walk, data)[1])
    assert distances[0] > 1e-3
    assert (np.diff(distances) <= 1e-10).all()  # the tolerance of the walk
    assert distances[-1] < 1e-8


def test_the_distance_that_is_reported_is_that_to_the_half_line():
    walk, data = walk_that_stays(0)
    multipliers, distance = multipliers_and_distance(walk, data)
    found = asymptote(walk)
    assert found.line.distance == pytest.approx(distance, rel=1e-8)
    np.testing.assert_allclose(found.point.multipliers, multipliers, rtol=1e-10)


def test_the_multipliers_of_dependent_features_are_those_to_which_the_pulls_tend():
    # Four points y_i x_i on a line: of all lambda with the same sum_i lambda_i y_i x_i the flow takes one.
    x = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0], [-1.0, 0.0]])
    network = Network([[[0.3, 0.5], [0.1, -0.4]], [[0.6, 0.8]]], slope=1.0, trained=(True, False))
    data = Data(x, [1.0, 1.0, 1.0, -1.0])
    found = limit(network, data, show=False)
    assert found.certified, found.missing
    walk = walk_of(Reduction([network], data, named("exponential")), rtol=1e-10)
    while walk.clock.log_time < 200:
        walk.advance()
    shares = np.abs(walk.present_pulls())
    np.testing.assert_allclose(found.multipliers / found.multipliers.sum(), shares / shares.sum(), rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_with_a_fixed_second_layer_the_multipliers_sum_to_the_square_of_the_norm(seed, slope):
    network, data = small(seed, slope, n=8, d=6)
    found = limit(network, data, show=False, optimality=False)
    assert found.certified, found.missing
    assert found.multipliers.sum() == pytest.approx(found.norm**2, rel=1e-10)  # Euler, order 1
    assert found.normalised_margin == pytest.approx(1 / found.norm, rel=1e-10)


# A battery of random problems


def continued(found, data, loss):
    """The angle to the limit of a flow that goes on: to log t = 10^4, or to tenfold margins."""
    walk = walk_on(found, data, loss)
    start = walk.steps
    if "slow flow" in found.settings["way"]:
        return angle(walk, found, data)
    if found.network.trained[1]:
        goal = 10 * (walk.pull.y * walk.outputs).min()
        while (walk.pull.y * walk.outputs).min() < goal and walk.steps < start + 100:
            walk.advance()
    else:
        goal = max(1e4, 20 * found.settings["log_time"])
        while walk.clock.log_time < goal and walk.steps < start + 2000:
            walk.advance()
    return angle(walk, found, data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 200, 4))  # `make test-adversarial` has thousands
def test_a_random_problem_is_certified_and_the_flow_goes_there_or_the_limit_says_what_is_missing(seed):
    network, data, loss = any_problem(seed)
    found = limit(network, data, loss, budget=1500, optimality=False, show=False)
    assert found.settings["steps"] <= 1500
    if found.reached:
        assert not found.missing
        assert max(found.residuals.values()) <= 1e-10
        assert (data.y * found.network(data.x) >= 1 - 1e-10).all()
        assert continued(found, data, loss) <= 1e-4
        assert found.certified != network.trained[1]
    else:
        assert found.verdict in ("not decided", "not unique", "not separated", "at rest", "followed")
        assert found.missing or "end" in found.settings
        assert all(found.missing)


@pytest.mark.slow
@settings(deadline=None, max_examples=40, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_no_small_lattice_problem_is_too_degenerate(draw):
    """Points that coincide, contradict each other, or lie on kinks and in the origin."""
    whole = st.integers(-2, 2).map(float)
    n, m, d = (draw.draw(st.integers(low, 4)) for low in (2, 1, 1))
    x = draw.draw(st.lists(st.lists(whole, min_size=d, max_size=d), min_size=n, max_size=n))
    w = draw.draw(st.lists(st.lists(whole, min_size=d, max_size=d), min_size=m, max_size=m))
    a = draw.draw(st.lists(whole, min_size=m, max_size=m))
    both = draw.draw(st.booleans())
    network = Network([w, [a]], slope=draw.draw(st.sampled_from([0.0, 0.5, 1.0])), trained=(True, both))
    y = [1.0, -1.0, *draw.draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=n - 2, max_size=n - 2))]
    found = limit(network, Data(x, y), budget=300, show=False)
    assert found.verdict in set(Verdict)
    assert not (found.reached and found.missing)
    assert found.reached or found.missing or "end" in found.settings
    if found.reached:
        assert max(found.residuals.values()) <= 1e-10


def test_pulls_that_all_vanish_but_one_end_the_search_for_shares_without_a_warning():
    """Inputs of 1e6: the second derivative of the shares underflows, and no step is taken from it."""
    case = problem(600, 196)
    network, data = network_and_data(case)
    found = limit(network, data, case.loss, seconds=2, show=False)
    assert np.isfinite(found.margins).all()
