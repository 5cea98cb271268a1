import gc
import pickle
import weakref

import jax
import numpy as np
import pytest

from rankfall import data as rd
from rankfall.data import Data
from rankfall.data._facts import once
from rankfall.loss import logistic
from rankfall.network import Network
from rankfall.theory.core.situation import Situation

FACTS = (
    rd.angles,
    rd.beta,
    rd.coordinates,
    rd.covariance,
    rd.gram,
    rd.hard_margin,
    rd.largest_cosine,
    rd.margin_bounds,
    rd.norms,
    rd.orthogonal_margin,
    rd.p_orthogonality,
)


def two_blobs(seed=0):
    return rd.gaussian_mixture(12, 30, seed=seed)


def counted(**options):
    """A measure that lists what it was asked for, and its list."""
    asked = []

    def total(data, bias=False):
        asked.append((data.name, bias))
        return data.x.sum(axis=0)

    return once(total, **options), asked


def test_what_is_asked_twice_is_measured_once_however_the_option_is_given():
    (total, asked), data = counted(), two_blobs()
    first = total(data)
    assert total(data, False) is first
    assert total(data, bias=False) is first
    assert len(asked) == 1
    total(data, bias=True)
    assert len(asked) == 2


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_a_fact_of_a_data_is_one_object(fact):
    data = two_blobs()
    assert fact(data) is fact(data)


def test_two_data_with_equal_arrays_have_facts_of_their_own():
    (total, asked), data = counted(), two_blobs()
    twin = Data(data.x, data.y, "twin")
    np.testing.assert_array_equal(total(data), total(twin))
    assert [name for name, _ in asked] == [data.name, "twin"]


def test_facts_of_data_with_a_bias_are_those_of_inputs_with_the_coordinate_one():
    data = two_blobs()
    augmented = Data(np.column_stack([data.x, np.ones(data.n)]), data.y)
    for fact in (rd.gram, rd.norms, rd.covariance, rd.beta, rd.largest_cosine, rd.asymmetry):
        np.testing.assert_array_equal(fact(data, bias=True), fact(augmented))
    np.testing.assert_allclose(
        rd.coordinates(data, bias=True) @ rd.coordinates(data, bias=True).T, rd.gram(augmented), atol=1e-12
    )


def test_facts_are_freed_with_their_data():
    data = two_blobs()
    fact = weakref.ref(rd.gram(data))
    assert fact() is not None
    del data
    gc.collect()
    assert fact() is None


def test_a_large_array_is_not_kept():
    (total, asked), data = counted(largest=29), two_blobs()
    assert len(total(data)) == 30
    total(data)
    assert len(asked) == 2


def test_what_all_share_cannot_be_written_to():
    data = two_blobs()
    for array in (data.x, data.y, rd.gram(data), rd.hard_margin(data).multipliers):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_data_that_can_still_be_written_to_are_measured_again():
    (total, asked), data = counted(), two_blobs()
    loose = jax.tree.map(np.array, data)  # a pytree's leaves are whatever the map makes of them
    before = total(loose)
    loose.x[0] += 1.0
    np.testing.assert_allclose(total(loose), before + 1.0)
    assert len(asked) == 2


def test_traced_data_are_measured_while_they_are_traced():
    total, asked = counted()
    with jax.enable_x64(True):
        found = jax.jit(lambda data: total(data) + total(data))(two_blobs())
    assert len(asked) == 2
    np.testing.assert_allclose(found, 2 * two_blobs().x.sum(axis=0), rtol=1e-12)


def test_data_travel_without_their_facts_and_are_remembered_again_where_they_arrive():
    data, bare = two_blobs(), len(pickle.dumps(two_blobs()))
    rd.gram(data)
    assert len(pickle.dumps(data)) == bare
    there = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(rd.gram(there), rd.gram(data))
    assert rd.gram(there) is rd.gram(there)


def test_situations_of_many_networks_on_one_data_share_its_facts():
    data = two_blobs()
    first, second = (
        Situation(Network.gaussian((30, 6, 1), slope=0.1, scale=1.0, seed=seed), data, logistic)
        for seed in (0, 1)
    )
    assert first.svm is second.svm
    assert first.gram is second.gram
    assert first.p is second.p
