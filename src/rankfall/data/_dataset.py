"""Data: the points a network is trained on."""

from typing import Any, Optional

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from rankfall._precision import is_traced


class Data(eqx.Module):
    """Inputs `x` (n x d) with targets `y` (n numbers, or n x k), a name, and optionally a test part.

    Targets are real numbers for the square loss, -1 and +1 for the logistic and the exponential loss,
    and class numbers 0, 1, ..., k-1 for the cross-entropy. Arrays are kept in float64, unless `x`
    comes in float32. They are read-only: copies of what is given, unless that cannot be written to.
    """

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n *outputs"]
    name: str = eqx.field(static=True)
    test: Optional["Data"]

    def __init__(self, x: Any, y: Any, name: str = "data", test: Optional["Data"] = None):
        if not is_traced(x, y):
            dtype = np.float32 if np.asarray(x).dtype == np.float32 else np.float64
            x = _numbers(x, dtype, f"x of {name!r}")
            y = _numbers(y, dtype, f"y of {name!r}")
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        self.x, self.y, self.name, self.test = x, y, name, test

    def __check_init__(self) -> None:
        if self.x.ndim != 2:
            raise ValueError(
                f"x of {self.name!r} must be n x d, one row a sample, but has shape {self.x.shape}. "
                "For one feature pass x[:, None]; for images flatten them: x.reshape(len(x), -1)."
            )
        if self.x.size == 0:
            raise ValueError(f"x of {self.name!r} is empty: its shape is {self.x.shape}.")
        if self.y.ndim not in (1, 2) or len(self.y) != len(self.x):
            raise ValueError(
                f"y of {self.name!r} must have one target for each of the {len(self.x)} rows of x, "
                f"but has shape {self.y.shape}."
            )
        if self.test is not None and self.test.dim != self.dim:
            raise ValueError(
                f"the test part of {self.name!r} has {self.test.dim} features, the training part {self.dim}."
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        for array in (state["x"], state["y"]):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)  # which pickle does not keep
        self.__dict__.update(state)

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.x.shape[0])

    @property
    def dim(self) -> int:
        """The number of features d."""
        return int(self.x.shape[1])

    def __repr__(self) -> str:
        test = f", {self.test.n} test samples" if self.test is not None else ""
        return f"Data({self.name!r}: {self.n} samples of {self.dim} features{test})"


def with_name(data: Data, name: str) -> Data:
    """The same data under another name, the test part too."""
    leaves, structure = jax.tree.flatten(data)
    copy: Data = jax.tree.unflatten(structure, leaves)
    object.__setattr__(copy, "name", name)
    object.__setattr__(copy, "test", None if data.test is None else with_name(data.test, name))
    return copy


def is_frozen(values: Any) -> bool:
    """Is this a NumPy array to which nobody can write, nor to what it is a view of?"""
    if not isinstance(values, np.ndarray) or values.flags.writeable:
        return False
    base: Any = values.base
    return base is None or isinstance(base, bytes) or is_frozen(base)


def _numbers(values: Any, dtype: type, what: str) -> np.ndarray:
    """`values` as finite numbers of `dtype`, or a sentence that says which entry is not one."""
    try:
        if np.iscomplexobj(values):
            raise TypeError  # NumPy would drop the imaginary parts
        numbers: np.ndarray = np.array(values, dtype=dtype, copy=None if is_frozen(values) else True)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} must be real numbers, but holds {np.asarray(values).dtype} entries."
        ) from None
    with np.errstate(over="ignore", invalid="ignore"):
        doubtful = not np.isfinite(numbers.sum())  # takes no memory, as a mask of all numbers would
    if doubtful and not np.isfinite(numbers).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(numbers))[0])
        count = int((~np.isfinite(numbers)).sum())
        raise ValueError(
            f"{what} has {count} entries that are NaN or infinite, the first at {list(where)}: "
            "remove or impute them first."
        )
    numbers.setflags(write=False)
    return numbers
