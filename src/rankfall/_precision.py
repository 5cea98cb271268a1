"""Double precision without touching the user's JAX configuration.

JAX computes in float32 unless told otherwise, and the switch is global. rankfall opens JAX's own
context manager around each of its computations and hands back NumPy arrays, which keep their
precision outside of it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np

Array = Any  # NumPy's outside of JAX's transformations, JAX's inside
Function = TypeVar("Function", bound=Callable[..., Any])


def float64() -> Any:
    """The context in which JAX keeps float64 (float32 input stays float32)."""
    return jax.enable_x64(True)


def is_traced(*values: object) -> bool:
    """Is any leaf of `values` being traced by a JAX transformation (jit, grad, vmap)?"""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def to_numpy(tree: Any) -> Any:
    """Every JAX array in `tree` as a NumPy array; the rest as it is."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, tree)


def in_float64(function: Function) -> Function:
    """Run `function` in float64 and return NumPy arrays; inside a JAX transformation, leave it as it is."""
    compiled = eqx.filter_jit(function)

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            return function(*args, **kwargs)
        with float64():
            return to_numpy(compiled(*args, **kwargs))

    return cast(Function, run)
