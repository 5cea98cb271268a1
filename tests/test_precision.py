import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rankfall as rf
from rankfall._precision import float64, in_float64, is_traced, to_numpy

THIRDS = np.array([1.0, 2.0]) / 3  # no float32 is equal to these


def users_default():
    """The precision that the user's own JAX code gets."""
    return jnp.asarray(1 / 3).dtype


# The user's configuration


def test_float64_is_on_inside_the_context_and_off_after_it():
    before = users_default()
    with float64():
        assert jnp.asarray(1 / 3).dtype == np.float64
    assert users_default() == before == np.float32


def test_the_context_is_left_also_by_an_exception():
    with pytest.raises(KeyError), float64():
        raise KeyError
    assert users_default() == np.float32


def test_a_run_computes_in_float64_and_leaves_the_users_float32_alone():
    seen = []
    network = rf.Network.gaussian((2, 3, 1), slope=0.1, scale=1.0, seed=0)
    run = rf.descent(network, rf.data.xor(), "square", 0.1, 2, measures=["loss"])
    seen.append(users_default())
    assert run.network.weights[0].dtype == run.loss.dtype == np.float64
    assert seen == [np.float32]
    assert not jax.config.jax_enable_x64


def test_a_user_who_works_in_float64_keeps_it():
    with jax.enable_x64(True):
        in_float64(lambda x: x + 1)(THIRDS)
        assert users_default() == np.float64


# in_float64


@in_float64
def squares(x, scale=1.0):
    """The squares."""
    return scale * x**2


def test_the_result_is_a_numpy_array_of_full_precision():
    result = squares(THIRDS)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, THIRDS**2)
    np.testing.assert_array_equal(squares(THIRDS, scale=np.float64(3)), 3 * THIRDS**2)


def test_float32_stays_float32():
    assert squares(THIRDS.astype(np.float32)).dtype == np.float32


def test_every_array_of_a_structured_result_is_numpys():
    result = in_float64(lambda x: {"a": (x, None), "b": x.sum()})(THIRDS)
    assert type(result["a"][0]) is np.ndarray
    assert result["a"][1] is None
    assert result["b"].dtype == np.float64


def test_inside_a_transformation_the_function_is_left_as_it_is():
    x = THIRDS.astype(np.float32)
    np.testing.assert_allclose(jax.grad(lambda x: squares(x).sum())(x), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(squares)(x), x**2, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(squares)(x), x**2, rtol=1e-6)
    assert jax.jit(squares)(THIRDS).dtype == np.float32  # the user's jit, the user's precision
    with float64():
        np.testing.assert_array_equal(jax.grad(lambda x: squares(x).sum())(jnp.asarray(THIRDS)), 2 * THIRDS)


def test_the_function_keeps_its_name_and_docstring():
    assert (squares.__name__, squares.__doc__) == ("squares", "The squares.")


def test_the_function_is_compiled_once_for_inputs_of_one_shape():
    traced = []

    @in_float64
    def noted(x):
        traced.append(x.shape)
        return x + 1

    for start in (0.0, 1.0, 2.0):
        noted(THIRDS + start)
    assert len(traced) == 1


# is_traced and to_numpy


def test_a_tracer_is_found_anywhere_in_a_tree():
    found = []

    @jax.jit
    def look(x):
        found.extend(
            [is_traced(x), is_traced({"deep": [1.0, (x,)]}), is_traced(THIRDS, x), is_traced(THIRDS)]
        )
        return x

    look(1.0)
    assert found == [True, True, True, False]
    assert not is_traced(jnp.ones(2), None, "text", 3)


def test_to_numpy_changes_jax_arrays_only():
    tree = {"a": jnp.ones(2), "b": "text", "c": None, "d": 2.5, "e": THIRDS}
    changed = to_numpy(tree)
    assert type(changed["a"]) is np.ndarray
    assert {k: changed[k] for k in "bcd"} == {"b": "text", "c": None, "d": 2.5}
    assert changed["e"] is THIRDS
    assert eqx.is_array(tree["a"])
