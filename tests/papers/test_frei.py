"""The law of a random matrix plus a step, and descent in the span of the data, against linear algebra."""

import numpy as np
import pytest

from rankfall.dynamics import descent
from rankfall.network import Network
from rankfall.papers.frei import step
from rankfall.papers.frei.in_span import descend, start


@pytest.mark.parametrize("strength", [0.3, 0.9, 2.0, 10.0])
def test_stable_rank_of_a_gaussian_matrix_plus_one_of_rank_one(strength):
    m, d, sigma = 400, 700, 1e-3
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=m), rng.normal(size=d)
    spectral = strength * sigma * (m * d) ** 0.25  # 1: where the largest singular value begins to move
    moved = spectral * np.outer(left, right) / np.linalg.norm(left) / np.linalg.norm(right)
    w = rng.normal(0.0, sigma, (m, d)) + moved
    measured = (np.linalg.norm(w) / np.linalg.norm(w, 2)) ** 2
    assert step.after_one_step(m, d, sigma, spectral, 1.0) == pytest.approx(measured, rel=0.03)


def test_descent_in_the_span_is_descent_of_the_whole_network():
    data = step.mixture(step.Setting(n=6), 30, seed=0)
    begun = start(data, 8, seed=0)
    found = descend(begun, [0.1], 0.1, 0.05, 20, [1, 5])
    whole = np.random.default_rng([0, 8]).normal(size=(8, 30))  # the weights that `start` draws
    network = Network([0.1 * whole, begun.a[None]], slope=0.1, trained=(True, False))
    run = descent(network, data, "logistic", 0.05, 20, record=[1, 5], span=False, show=False)
    np.testing.assert_allclose(found.stable_rank.values[0], run["stable_rank"].values.ravel(), rtol=1e-7)
    np.testing.assert_allclose(found.loss.values[0], run["loss"].values, rtol=1e-10)
