"""The equations by blocks against the matrix written out, and what the samples' Gram matrix says of them."""

import numpy as np
import pytest

from rankfall.certificates import Certificate, Problem, check
from rankfall.certificates._equations import DENSE, Equations, Singular


def drawn(seed, n=8, d=10, groups=6, slope=0.1):
    """Gram matrix of y x, c, kinks, slopes and the support; no kink is at a sample outside of it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    sides = rng.choice([-1, 0, 1], size=(groups, n), p=[0.3, 0.4, 0.3])
    sides[0] = 1  # every sample pulls on some group
    support = np.sort(rng.choice(n, n - 2, replace=False))
    held = np.zeros(sides.shape, dtype=bool)
    held[:, support] = sides[:, support] == 0
    p = np.where(sides > 0, 1.0, np.where(sides < 0, slope, 0.0))
    return x @ x.T, rng.uniform(0.1, 10, groups), held, p, support


def features(gram, c, held, p, s):
    """The unknowns as vectors of all groups' coordinates: their Gram matrix is that of the equations."""
    root = np.linalg.cholesky(gram + 1e-14 * np.diag(np.diag(gram)))
    rows = []
    for g, i in np.argwhere(held):
        row = np.zeros((len(c), len(gram)))
        row[g] = np.sqrt(c[g]) * root[i]
        rows.append(row.ravel())
    rows += [(np.sqrt(c)[:, None] * p[:, [i]] * root[i]).ravel() for i in s]
    return np.array(rows)


@pytest.mark.parametrize("seed", range(10))
def test_blocks_are_the_gram_matrix_of_the_features(seed):
    drawing = drawn(seed)
    rows, equations = features(*drawing), Equations.of(*drawing)
    matrix = rows @ rows.T
    scale = 1 / np.sqrt(np.diag(matrix))
    np.testing.assert_allclose(equations.scale, scale, rtol=1e-10)
    np.testing.assert_allclose(equations.whole(), scale[:, None] * matrix * scale, atol=1e-10)
    u = np.random.default_rng(seed).normal(size=len(matrix))
    np.testing.assert_allclose(equations.times(u), equations.whole() @ u, atol=1e-12)
    np.testing.assert_allclose(equations.whole() @ equations.solve(u), u, atol=1e-9)
    k = equations.kinks
    left = matrix[k:, k:] - matrix[k:, :k] @ np.linalg.solve(matrix[:k, :k], matrix[:k, k:])
    np.testing.assert_allclose(equations.kernel(), left, rtol=1e-6, atol=1e-8 * np.abs(left).max())


def test_singular_equations_are_solved_as_a_whole_if_they_are_few():
    gram, c, held, p, s = drawn(0)
    gram[1] = gram[0]
    gram[:, 1] = gram[:, 0]  # two equal samples
    held[1, :2], p[1, :2] = True, 0.0
    s = np.union1d(s, [0, 1])
    equations = Equations.of(gram, c, held, p, s)
    with pytest.raises(Singular):
        equations.solve(np.ones(len(equations.scale)))
    wanted = equations.whole() @ np.arange(len(equations.scale))
    np.testing.assert_allclose(equations.whole() @ equations.nearest(wanted), wanted, atol=1e-8)
    many = Equations.of(gram, np.ones(DENSE), np.tile(held[1], (DENSE, 1)), np.tile(p[0], (DENSE, 1)), s)
    assert many.nearest(np.ones(len(many.scale))) is None


def scaled(matrix):
    """By powers of two, as the checker does."""
    scale = 2.0 ** -(np.frexp(np.diag(matrix))[1] // 2)
    return scale[:, None] * matrix * scale


@pytest.mark.parametrize("seed", range(50))
def test_no_eigenvalue_is_below_a_quarter_of_the_least_one_of_the_samples(seed):
    gram, c, held, p, s = drawn(seed, n=5, d=6, groups=4, slope=float(seed % 3) / 2)
    rows = features(gram, c, held, p, s)
    least = np.linalg.eigvalsh(scaled(rows @ rows.T))[0]
    assert least >= np.linalg.eigvalsh(scaled(gram[np.ix_(s, s)]))[0] / 4 - 1e-12


@pytest.mark.parametrize("d", [3, 12])
def test_either_matrix_proves_an_enclosure_and_neither_means_refused(cells, monkeypatch, d):
    """Five samples: independent in twelve dimensions, dependent in three."""
    found = cells.solved(300, slope=0.1, d=d, m=8)
    point = found.propose(large=0)
    assert point.tau is not None
    document = Certificate.of(found.problem, point, []).document
    asked, definite, samples = [], check.definite, len(point.support)
    unknowns = samples + len(point.kinks)
    assert unknowns > samples > 3

    def recorded(matrix, first, tau):
        asked.append(len(matrix))
        return definite(matrix, first, tau)

    monkeypatch.setattr(check, "definite", recorded)
    assert check.check(document).accepted
    assert asked == ([samples] if d == 12 else [samples, unknowns])

    monkeypatch.setattr(check, "definite", lambda matrix, first, tau: len(matrix) == unknowns)
    assert check.check(document).accepted
    monkeypatch.setattr(check, "definite", lambda matrix, first, tau: False)
    assert "one solution" in str(check.check(document))


def test_a_sample_that_pulls_on_no_group_leaves_its_multiplier_open():
    """With slope 0 and both neurons below sample 1, its multiplier is in no equation."""
    x, y = np.eye(2), np.array([1.0, 1.0])
    point = {
        "groups": [{"neurons": [0], "pattern": "+-"}],
        "support": [0, 1],
        "denominator": "0x1",
        "multipliers": ["0x1", "0x1"],
        "kinks": [],
        "tau": (0.1).hex(),
    }
    problem = Problem(x, y, 0.0, np.ones(1))
    document = Certificate.of(problem, None, []).document | {"point": point, "claims": [{"claim": "kkt"}]}
    assert "REFUSED" in str(check.check(document))
    assert "one solution" in str(check.check(document))
