"""The theorem of the claim "stays", against flows that are followed step by step."""

import numpy as np
import pytest

from rankfall.certificates import Certificate, Missing, Point, Problem, Stays, check, propose, stays


def followed(problem, w, steps, size):
    """States (s, m, k) after steps of normalised descent, and which of them kept all friendly sides."""
    x, y, a, alpha = problem.inputs, problem.y, problem.second, problem.slope
    friendly = a[:, None] * y > 0
    sides, kept = np.sign(w @ x.T), np.ones(len(w), dtype=bool)
    for _ in range(steps):
        z = w @ x.T
        kept &= ((np.sign(z) == sides) | ~friendly).all(axis=(1, 2))
        slopes = np.where(z > 0, 1.0, alpha)
        logs = -y * np.einsum("j,sji->si", a, slopes * z)
        if problem.loss == "logistic":
            logs = -np.logaddexp(0.0, -logs)
        pulls = np.exp(logs - logs.max(axis=1, keepdims=True))
        pulls /= pulls.sum(axis=1, keepdims=True)
        w = w + size * a[:, None] * ((slopes * (pulls * y)[:, None, :]) @ x)
    return w, kept


def states_in(ball, problem, count, rng):
    """Random states on the sphere, and those nearest to the kinks of friendly pairs."""
    start, radius = ball.start, ball.radius * (1 - 1e-6)
    states = rng.normal(size=(count, *start.shape))
    states = [each / np.linalg.norm(each) for each in states]
    lengths = np.linalg.norm(problem.inputs, axis=1)
    for j, i in np.argwhere(problem.second[:, None] * problem.y > 0):
        towards = np.zeros_like(start)
        towards[j] = -np.sign(start[j] @ problem.inputs[i]) * problem.inputs[i] / lengths[i]
        states.append(towards)
    return start + radius * np.array(states)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("slope", [0.0, 0.1, 0.5])
def test_no_flow_from_the_ball_changes_a_friendly_side_and_all_end_in_the_direction_of_the_point(
    cells, slope, loss
):
    rng = np.random.default_rng(7)
    for seed in (0, 100, 200):
        found = cells.solved(seed, slope=slope, loss=loss, bias=seed == 100)
        problem, point = found.problem, found.propose()
        ball = next(
            each
            for level in (3.0, 10.0, 100.0, 1000.0)
            if isinstance(
                each := stays(problem, point, cells.line_start(problem, point, level), "features"), Stays
            )
        )
        assert Certificate.of(problem, point, [ball.claim]).check().accepted
        u = point.weights(problem)
        total = point.lam().sum()
        level = float.fromhex(ball.claim["level"])
        w, kept = followed(problem, states_in(ball, problem, 30, rng), 3000, (10 + level) / 300 * total)
        assert kept.all()
        cosines = (w * u).sum(axis=(1, 2)) / np.linalg.norm(w, axis=(1, 2)) / np.linalg.norm(u)
        assert cosines.min() > 0.99


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_starts_off_the_line_are_proved_with_errors_and_hold_too(cells, loss):
    """The centre is pushed off its line and its kinks, so that delta and kappa count; I counts where there
    are more samples than support vectors."""
    rng, errors = np.random.default_rng(1), []
    for seed in range(0, 1200, 60):
        found = cells.solved(seed, slope=(0.0, 0.1, 0.5)[seed // 60 % 3], loss=loss, d=8 if seed % 120 else 3)
        problem, point = found.problem, found.propose()
        for level, noise in ((2.0, 0.01), (10.0, 0.03), (60.0, 0.1)):
            start = cells.line_start(problem, point, level) + noise * rng.normal(size=found.weights.shape)
            ball = stays(problem, point, start, "features")
            if isinstance(ball, Missing):
                continue
            told = check.read(point.document(), check.FORM["point"], "the point")
            claim = check.read(ball.claim, {"claim": str} | check.CLAIMS["stays"], "the claim")
            line = check.Line(problem.checked, check.Point(problem.checked, told), check.Errors(), claim)
            errors.append([value / check.UNIT for value in (line.delta, line.kappa, line.rest)])
            size = (10 + level) / 300 * point.lam().sum()
            assert followed(problem, states_in(ball, problem, 10, rng), 1500, size)[1].all()
    assert len(errors) >= 8
    assert (np.array(errors) > [1e-3, 1e-6, 1e-6]).any(axis=0).all()  # each of the three counts somewhere


def test_the_radius_is_the_largest_that_the_theorem_gives(cells):
    found = cells.solved(0, slope=0.5)
    point = found.propose()
    ball = stays(found.problem, point, cells.line_start(found.problem, point, 20.0), "features")
    for factor, holds in ((0.5, True), (1 + 1e-6, False), (2.0, False)):
        claim = ball.claim | {"radius": (ball.radius * factor).hex()}
        assert Certificate.of(found.problem, point, [claim]).check().accepted == holds
    friendly = found.problem.second[:, None] * found.problem.y > 0
    heights = np.abs(ball.start @ found.problem.inputs.T) / found.problem.lengths
    assert 0.99 * heights[friendly].min() < ball.radius <= heights[friendly].min()


def test_rows_over_samples_and_over_features_claim_the_same_ball(cells):
    found = cells.solved(0, slope=0.1, n=5, d=8)
    point = found.propose()
    start = cells.line_start(found.problem, point, 100.0)
    over_samples = np.linalg.lstsq(found.problem.inputs.T, start.T, rcond=None)[0].T
    one, other = (
        stays(found.problem, point, start, "features"),
        stays(found.problem, point, over_samples, "samples"),
    )
    assert one.radius == pytest.approx(other.radius, rel=1e-6)
    np.testing.assert_allclose(other.start @ found.problem.inputs, start, atol=1e-10 * np.abs(start).max())


def test_a_state_off_the_line_says_which_pair_forbids_the_claim(cells):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    start = cells.line_start(found.problem, point, 100.0)
    j, i = np.argwhere(found.problem.second[:, None] * found.problem.y > 0)[0]
    x = found.problem.inputs[i]
    start[j] -= (start[j] @ x) / (x @ x) * x * 1.1
    failed = stays(found.problem, point, start, "features")
    assert isinstance(failed, Missing)
    assert f"neuron {j} may cross the kink of sample {i}" in failed.why
    assert failed.pair == (j, i)
    assert failed.lack < 0
    shifted = stays(
        found.problem, point, 2 * cells.line_start(found.problem, point, 100.0), "features", level=100.0
    )
    assert isinstance(shifted, Missing)


def orthogonal(slope=0.0):
    """Four orthogonal samples; with slope 0 neurons are pulled by those of their own class alone."""
    x = np.diag([1.0, 2.0, 1.0, 0.5])
    problem = Problem(x, np.array([1.0, 1.0, -1.0, -1.0]), slope, np.array([1.0, 1.0, -1.0, -1.0]))
    side = np.array([[1, 1, -1, -1], [1, -1, -1, -1], [-1, -1, 1, 1], [-1, -1, -1, 1]])
    return problem, side


def test_on_orthogonal_data_a_pair_that_does_not_move_in_the_limit_stays_where_nothing_pushes_it():
    problem, side = orthogonal()
    point = propose(problem, side, np.ones(4))
    assert isinstance(point, Point)
    start = cells_line(problem, point, side)
    ball = stays(problem, point, start, "features")
    assert isinstance(ball, Stays), ball
    assert ball.radius == pytest.approx(0.25, rel=1e-6)  # w_1.x_1 = -1/2 and |x_1| = 2
    assert Certificate.of(problem, point, [ball.claim]).check().accepted
    rng = np.random.default_rng(0)
    assert followed(problem, states_in(ball, problem, 50, rng), 2000, 0.05)[1].all()


def cells_line(problem, point, side):
    """The line at level 20, with the pairs that are at their kinks in the limit 0.5 away from them."""
    lam = point.lam()
    z = side * 0.5
    counts = np.array(
        [(side[problem.second > 0] > 0).sum(axis=0), (side[problem.second < 0] > 0).sum(axis=0)]
    )
    for i, label in enumerate(problem.y):
        share = (20.0 - np.log(lam[i] / lam.sum())) / counts[0 if label > 0 else 1][i]
        own = (problem.second * label > 0) & (side[:, i] > 0)
        z[own, i] = share
    return z @ np.linalg.inv(problem.inputs).T


def test_a_leaving_neuron_may_be_far_from_everything():
    """Slope 0: neuron 2 has no friendly sample left; unfriendly ones push it away, and it slides at one."""
    x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.3], [0.2, 0.1, 1.0]])
    problem = Problem(x, np.array([1.0, -1.0, -1.0]), 0.0, np.array([1.0, -1.0, 1.0]))
    side = np.array([[1, -1, -1], [-1, 1, 1], [-1, -1, 0]])
    point = propose(problem, side, np.ones(3))
    assert isinstance(point, Point)
    assert not point.weights(problem)[2].any()
    line = np.linalg.lstsq(problem.inputs, np.diag([1.0, 1.0, 1.0]), rcond=None)[0].T
    lam = point.lam()
    start = np.zeros((3, 3))
    start[0] = line[0] * (30 - np.log(lam[0] / lam.sum())) - 0.3 * line[1] - 0.3 * line[2]
    start[1] = -0.3 * line[0] + sum(line[i] * (30 - np.log(lam[i] / lam.sum())) for i in (1, 2))
    start[2] = -0.4 * line[0] - 0.2 * line[1] + 1e-17 * line[2]  # it slides at the kink of sample 2
    ball = stays(problem, point, start, "features")
    assert isinstance(ball, Stays), ball
    assert ball.radius > 0.2
    assert Certificate.of(problem, point, [ball.claim]).check().accepted
    rng = np.random.default_rng(0)
    assert followed(problem, states_in(ball, problem, 50, rng), 2000, 0.05)[1].all()


def test_a_linear_network_ends_at_its_point_from_everywhere(cells):
    found = cells.solved(0, slope=1.0)
    point = found.propose()
    ball = stays(found.problem, point, np.zeros((4, 8)), "features")
    assert ball.radius > 1e300
    assert Certificate.of(found.problem, point, [ball.claim]).check().accepted


def test_late_states_with_margins_of_a_hundred_thousand_do_not_overflow(cells):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    ball = stays(found.problem, point, cells.line_start(found.problem, point, 1e5), "features")
    assert isinstance(ball, Stays)
    assert Certificate.of(found.problem, point, [ball.claim]).check().accepted


def test_bad_input_is_told(cells):
    found = cells.solved(0, slope=0.1)
    point = found.propose()
    for start in (np.zeros((3, 8)), np.zeros((4, 5)), np.full((4, 8), np.nan)):
        with pytest.raises(ValueError, match="start must be 4 rows of 8 finite numbers"):
            stays(found.problem, point, start, "features")


def test_the_checker_shows_what_the_floats_only_propose(cells):
    """The line in exact arithmetic: delta, kappa and I are those of the floats, up to rounding."""
    found = cells.solved(0, slope=0.0)
    point = found.propose()
    start = cells.line_start(found.problem, point, 50.0)
    ball = stays(found.problem, point, start, "features")
    told = check.read(point.document(), check.FORM["point"], "the point")
    inside = check.Point(found.problem.checked, told)
    claim = check.read(ball.claim, {"claim": str} | check.CLAIMS["stays"], "the claim")
    line = check.Line(found.problem.checked, inside, check.Errors(), claim)
    u = np.linalg.norm(point.weights(found.problem))
    assert 0 < line.delta / check.UNIT < 1e-10 * u
    assert 0 <= line.kappa / check.UNIT < 1e-10
