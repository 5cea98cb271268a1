"""All neurons activated by the first step: descent in NumPy, and scikit-learn's SVM, as oracles."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import rankfall as rf
from rankfall.loss import exponential, logistic
from rankfall.theory import RESULTS, Situation, assessed
from rankfall.theory.results.hashimoto_activation import first_step, rest


def situation(seed, loss=exponential, kind="cones", sigma=1e-6, slope=0.3):
    """Aligned data in two cones, or nearly orthogonal ones, and a start far below the first step."""
    if kind == "cones":
        data = rf.data.orthogonally_separable(n=7, dim=6, seed=seed, balanced=False)
    else:
        data = rf.data.nearly_orthogonal(n=7, dim=9, p=2 * 60 / slope**4, seed=seed, balanced=False)
    network = rf.Network.fixed_second_layer(
        (data.dim, 8, 1), slope=slope, sigma=sigma, seed=seed, positive=3 + seed % 3
    )
    step = 0.9 / (data.x**2).sum(axis=1).max() / (len(data.y) if loss.reduction == "sum" else 1)
    return Situation(network, data, loss, step)


def descended(s, steps):
    """W after each step of plain NumPy descent."""
    w = s.w.copy()
    scale = len(s.y) if s.loss.reduction == "mean" else 1
    for _ in range(steps):
        h = w @ s.x.T
        q = s.y * (s.a @ np.where(h > 0, h, s.slope * h))
        pull = (np.exp(-q) if s.loss.name == "exponential" else 1 / (1 + np.exp(q))) / scale
        w = w + s.step * np.outer(s.a, np.ones(len(s.y))) * np.where(h > 0, 1.0, s.slope) * pull * s.y @ s.x
        yield w


@pytest.mark.parametrize("kind", ["cones", "orthogonal"])
@pytest.mark.parametrize("loss", [exponential, logistic, exponential.sum])
def test_one_step_activates_all_neurons_and_no_later_step_changes_it(kind, loss):
    for seed in range(3):
        s = situation(seed, loss, kind)
        assert assessed(RESULTS["hashimoto"], s).status == "applies"
        assert (s.own(s.w) < 0).any()
        after = list(descended(s, 1500))
        assert np.allclose(after[0], first_step(s), rtol=0, atol=1e-15)
        least = np.array([s.own(w).min() for w in after])
        assert least[0] > 0
        assert (np.diff(least) > 0).all()  # sign(a_j) y_i <w_j, x_i> only grows
        # What is not along one vector a block stays; the stable ranks of the blocks tend to 1.
        assert np.allclose(rest(s, after[-1]), rest(s, after[0]), rtol=0, atol=1e-12)
        for block in (s.a > 0, s.a < 0):
            first, last = (np.linalg.svd(w[block], compute_uv=False) for w in (after[0], after[-1]))
            assert (last[1:] ** 2).sum() / last[0] ** 2 < (first[1:] ** 2).sum() / first[0] ** 2 / 4


def svm(s):
    """The hard-margin classifier in the transformed space, by scikit-learn, as a first layer."""
    c, plus, minus = np.abs(s.a).max(), (s.a > 0).sum(), (s.a < 0).sum()
    on_v = c * np.sqrt(plus) * np.where(s.y > 0, 1.0, -s.slope)
    on_u = c * np.sqrt(minus) * np.where(s.y > 0, -s.slope, 1.0)
    features = np.hstack([on_v[:, None] * s.x, on_u[:, None] * s.x])
    found = LinearSVC(C=1e7, loss="hinge", dual=True, fit_intercept=False, tol=1e-10, max_iter=10**7)
    both = np.vstack([features, -features])
    w = found.fit(both, np.repeat([1, -1], len(s.y))).coef_[0]
    w = w / (features @ w).min()
    d = s.x.shape[1]
    return np.where(s.a[:, None] > 0, w[:d] / np.sqrt(plus), w[d:] / np.sqrt(minus))


@pytest.mark.parametrize("kind", ["cones", "orthogonal"])
def test_the_flow_after_one_step_ends_at_the_svm_in_the_transformed_space(kind):
    s = situation(1, kind=kind)
    here = assessed(RESULTS["hashimoto"], s)
    after = rf.Network([first_step(s), s.network.weights[1]], slope=s.slope, trained=(True, False))
    end = rf.limit(after, s.data, s.loss, optimality=False, show=False)
    assert end.certified
    assert all(v.verdict == "holds" for v in here.verify(end))
    expected = svm(s)
    assert np.linalg.norm(end.network.weights[0] - expected) < 1e-4 * np.linalg.norm(expected)


def test_a_long_descent_stays_within_a_bounded_distance_of_its_ray():
    # W_t = q W* + bounded, with q the least margin, which grows like log t: the direction comes like 1/log t.
    s = situation(2, kind="orthogonal")
    here = assessed(RESULTS["hashimoto"], s)
    steps, kept = [0, 1, 30, 300, 3000, 30_000], ["weights", "loss"]
    run = rf.descent(s.network, s.data, s.loss, s.step, steps[-1], measures=kept, record=steps, show=False)
    verification = here.verify(run)
    assert verification["pattern"].verdict == verification["rest"].verdict == "holds"
    expected, distances, margins = svm(s), [], []
    for w in run["weights"].values[2:, : s.w.size].reshape(4, *s.w.shape):
        h = w @ s.x.T
        margins.append((s.y * (s.a @ np.where(h > 0, h, s.slope * h))).min())
        distances.append(np.linalg.norm(w - margins[-1] * expected))
    assert np.allclose(np.diff(margins)[1:], np.log(10), rtol=0.05)
    assert np.ptp(distances[1:]) < 0.1 * distances[-1]
    assert (np.diff(np.array(distances) / margins) < 0).all()


def test_from_larger_weights_the_first_step_does_not_decide():
    s = situation(0, sigma=1.0)
    here = assessed(RESULTS["hashimoto"], s)
    assert here.status == "does not apply"
    assert "activated after one step" in here.why
    patterns = [np.sign(s.own(w)) for w in descended(s, 400)]
    assert (patterns[0] != patterns[-1]).any()
