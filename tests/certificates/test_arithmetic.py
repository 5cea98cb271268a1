from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from rankfall.certificates import Problem, check
from rankfall.certificates._problem import dyadic

RNG = np.random.default_rng


@pytest.mark.parametrize(
    "number", ["0", "1e-80", "0.3", "0.5", "1", "7.75", "123.456", "998.5", "-1e-60", "-0.7", "-40", "-700"]
)
def test_the_exponential_function_is_enclosed_tightly(number):
    getcontext().prec = 700
    low, high = check.exp(Fraction(number))
    true = Decimal(number).exp() * Decimal(check.UNIT)
    assert low <= true <= high
    assert high - low <= Decimal(2) ** -280 * true + 2


def test_below_the_range_the_exponential_function_is_bounded_and_above_it_is_refused():
    low, high = check.exp(Fraction(-(10**9)))
    assert low == 0
    assert 0 < high <= 2
    with pytest.raises(check.Refused, match="e\\^1000"):
        check.exp(Fraction(1000))


def test_roots_are_rounded_up():
    for number in (Fraction(0), Fraction(2), Fraction(1, 3), Fraction(10**40 + 1), Fraction(1, 10**60)):
        found = check.root(number)
        assert number <= found**2 <= (1 + Fraction(1, 2**64)) * number + Fraction(1, 2**300)


@pytest.mark.parametrize("seed", range(30))
def test_a_matrix_is_called_definite_only_if_it_is(seed):
    rng = RNG(seed)
    n = int(rng.integers(1, 9))
    root = rng.normal(size=(n, n + 2 - seed % 3))
    a = root @ root.T
    a /= np.abs(a).max()
    smallest = float(np.linalg.eigvalsh(a)[0])
    rows = [[int(value * 2.0**60) << 60 for value in row[: e + 1]] for e, row in enumerate(a)]

    def judged(tau):
        return check.definite([list(row) for row in rows], [0] * n, Fraction(tau))

    assert not judged(max(smallest, 0) + 1e-9)
    if smallest > 1e-6:
        assert judged(smallest / 4)


def test_zeros_before_the_envelope_of_a_matrix_are_used():
    first = [0, 1, 0]
    rows = [[4], [4], [1, 1, 3]]
    scaled = [[value << 120 for value in row] for row in rows]
    smallest = np.linalg.eigvalsh(np.array([[4.0, 0, 1], [0, 4, 1], [1, 1, 3]]))[0]
    assert check.definite([list(row) for row in scaled], first, Fraction(float(smallest) / 3))
    assert not check.definite([list(row) for row in scaled], first, Fraction(float(smallest) * 1.01))


@pytest.mark.parametrize("seed", range(30))
def test_the_rank_by_elimination_is_that_of_the_largest_minor(seed):
    rng = RNG(seed)
    rows, columns, r = rng.integers(1, 6), rng.integers(1, 6), rng.integers(0, 5)
    a = rng.integers(-3, 4, size=(rows, r)) @ rng.integers(-3, 4, size=(r, columns))
    true = 0
    for size in range(1, min(rows, columns) + 1):
        for some in combinations(range(rows), size):
            for others in combinations(range(columns), size):
                if round(np.linalg.det(a[np.ix_(some, others)].astype(float))):
                    true = size
    numbers = [[int(value) for value in row] for row in a]
    assert check.eliminate(numbers) == true
    assert check.eliminate([[v % check.PRIME for v in row] for row in numbers], check.PRIME) == true


def test_doubles_of_all_sizes_are_integers_over_one_power_of_two():
    values = [0.0, 1.5, -0.1, 1e-300, 1e300, 5e-324]
    numbers, shift = check.dyadic(values)
    assert [Fraction(number, 2**shift) for number in numbers] == [Fraction(value) for value in values]


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.5, -0.1, 1e-300, 1.7e308, 5e-324, -5e-324],
        [4.0, -8.0, 0.0],
        [0.0, 0.0],
        [],
        (RNG(0).normal(size=500) * 10.0 ** RNG(1).integers(-20, 20, 500)).tolist(),
    ],
)
def test_whole_arrays_become_the_integers_of_the_checker(values):
    assert dyadic(np.array(values)) == check.dyadic(values)


@pytest.mark.parametrize("bias", [False, True])
def test_the_checker_is_given_the_gram_matrix_that_it_would_compute(bias):
    x, y = RNG(2).normal(size=(5, 3)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    problem = Problem(x, y, 0.1, np.array([1.0, -0.5]), bias)
    told = check.read(problem.document(), check.FORM["problem"], "the problem")
    alone = check.Problem(told, None)
    assert problem.checked.G == alone.G
    known = {key: value for key, value in vars(problem.checked).items() if key in vars(alone)}
    assert known == vars(alone)
