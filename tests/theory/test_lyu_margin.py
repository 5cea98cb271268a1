"""The smoothed margin of a homogeneous network after separation, against closed forms and SciPy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rankfall as rf
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.results.lyu_margin import _course, example

WAY = RESULTS["margin_maximisation"]


def verdicts(network, data, loss, run):
    return {v.prediction.name: v for v in assessed(WAY, Situation(network, data, loss)).verify(run)}


@pytest.fixture(scope="module")
def course():
    """The example's run, as the result measures it."""
    here = example()
    return _course(Evidence(here.situation, here.evidence()))


def test_with_one_sample_on_each_side_the_loss_of_a_linear_classifier_is_known_in_closed_form():
    # x = +-(1, 0): w_1' = e^-w_1 (mean loss), so that w_1 = log(1 + t), the sum of the losses is 2/(1 + t).
    data = rf.Data(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0]))
    network = rf.Network([[[0.0, 0.0]]])
    run = rf.flow(
        network,
        data,
        "exponential",
        1e30,
        record=list(np.geomspace(1, 1e30, 40)),
        measures=["weights", "loss"],
        show=False,
    )
    measured = _course(Evidence(Situation(network, data, rf.loss.exponential), run))
    assert np.allclose(measured.exponent, np.log((1 + 1e30) / 2), rtol=1e-9)
    assert np.isclose(measured.log_rate, np.log(1e30 / 2) + 2 * np.log(measured.smoothed[-1]), rtol=1e-12)
    assert np.isclose(measured.margin, 1.0, rtol=1e-12)
    told = verdicts(network, data, rf.loss.exponential, run)
    assert {v.verdict for v in told.values()} == {"holds"}


@pytest.mark.parametrize(("order", "power"), [(1, 0.0), (2, 1.0), (3, 4 / 3)])
def test_along_a_ray_the_rate_has_the_constant_L_squared_margin_to_the_2_over_L(order, power):
    # theta = rho u with the margin gamma: rho' = L gamma rho^(L-1) e^(-gamma rho^L), one sample.
    gamma = 0.3

    def exponent_rate(log_time, exponent):  # d log(1/loss) / d log t in the loss' own logarithm
        rho = (exponent / gamma) ** (1 / order)
        return order**2 * gamma**2 * rho ** (2 * order - 2) * np.exp(log_time - exponent)

    late = 300.0
    solved = solve_ivp(exponent_rate, (0.0, late), [1.0], method="LSODA", rtol=1e-10, atol=1e-10).y[0, -1]
    predicted = late + power * np.log(solved) + np.log(order**2 * gamma ** (2 / order))
    assert abs(solved - predicted) < 2 * power / solved + 1e-6
    assert (
        power == 0 or abs(solved - predicted) > 0.5 * power / solved
    )  # the first correction is power/exponent


def test_the_pulls_have_the_entropy_that_the_energy_identity_says(course):
    # <theta, velocity> in the loss clock is L (log(1/loss) + entropy of the pulls): Euler's identity.
    here = example()
    evidence = Evidence(here.situation, here.evidence())
    q = evidence.margins
    pulls = np.exp(q.min() - q) / np.exp(q.min() - q).sum()
    entropy = -(pulls * np.log(np.maximum(pulls, 1e-300))).sum()
    gradient = rf.measure.gradient_norm(evidence.network, here.situation.data, here.situation.loss)
    loss = rf.measure.loss(evidence.network, here.situation.data, here.situation.loss)
    projected = course.cosine[-1] * course.rho[-1] * float(gradient) / float(loss)
    assert np.isclose(projected, 3 * (course.exponent + entropy), rtol=1e-6)


def test_the_cosine_is_that_of_finite_differences_of_the_run(course):
    # 1/cosine^2 - 1 = |d direction / d log rho|^2, here between neighbouring records.
    turned = np.linalg.norm(np.diff(course.direction, axis=0), axis=1) / np.diff(np.log(course.rho))
    between = (course.cosine[1:] + course.cosine[:-1]) / 2
    assert np.allclose(turned[-20:], np.sqrt(between[-20:] ** -2 - 1), rtol=2e-2)


def test_the_smoothed_margin_lies_between_the_margin_and_the_margin_less_log_n_over_norm_to_the_L(course):
    last = course.smoothed[-1]
    assert course.margin - np.log(6) / course.rho[-1] ** 3 <= last <= course.margin


def test_the_margin_itself_may_go_down_where_the_smoothed_margin_goes_up():
    # A flow of a linear classifier that starts along the SVM can only lose margin at first.
    data = rf.Data(np.array([[1.0, 2.0], [1.0, -1.0], [-1.0, -2.0]]), np.array([1.0, 1.0, -1.0]))
    svm = rf.data.hard_margin(data).w
    network = rf.Network([3 * svm[None]])
    run = rf.flow(
        network,
        data,
        "exponential",
        1e6,
        record=list(np.geomspace(1e-2, 1e6, 50)),
        measures=["weights", "loss", "normalised_margin"],
        show=False,
    )
    assert np.diff(run.normalised_margin.values).min() < -1e-4
    assert verdicts(network, data, rf.loss.exponential, run)["smoothed margin"].verdict == "holds"


@pytest.mark.parametrize("loss", ["exponential.sum", "logistic"])
def test_every_turn_is_paid_for_with_either_loss_and_two_layers(loss):
    data = rf.data.orthogonally_separable(n=6, dim=4, seed=1)
    network = rf.Network.gaussian((4, 5, 1), slope=0.2, scale=1.0, seed=3)
    run = rf.exact_flow(
        network,
        data,
        loss,
        rf.Until(log_time=120.0),
        clock="loss",
        record=list(np.geomspace(0.1, 20, 60)),
        measures=["weights", "loss"],
        show=False,
    )
    told = verdicts(network, data, rf.loss.named(loss), run)
    assert {v.verdict for v in told.values()} == {"holds"}, {n: (v.verdict, v.note) for n, v in told.items()}


def test_a_run_that_has_not_separated_the_data_is_told_to_go_on():
    here = example()
    s = here.situation
    run = rf.flow(s.network, s.data, s.loss, 1e-2, measures=["weights", "loss"], show=False)
    told = verdicts(s.network, s.data, s.loss, run)
    assert told["smoothed margin"].verdict == "not measured"
    assert "run longer" in told["smoothed margin"].note


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1.0, -1.0, 1.0]),
        ([[0.0, 0.0], [1.0, 1.0]], [1.0, -1.0]),
    ],
)
def test_samples_on_one_ray_with_two_labels_and_zero_are_never_separated_without_a_bias(x, y):
    data = rf.Data(np.array(x), np.array(y))
    plain = rf.Network.gaussian((2, 4, 1), slope=0.1, scale=1.0, seed=0)
    biased = rf.Network.gaussian((2, 4, 1), slope=0.1, scale=1.0, seed=0, bias=(True, False))
    assert assessed(WAY, Situation(plain, data, rf.loss.logistic)).status == "does not apply"
    assert assessed(WAY, Situation(biased, data, rf.loss.logistic)).status == "applies"
    assert (data.y * plain(data.x)).min() <= 0
