"""What a measure is: a pure function with a name, a unit and named dimensions.

A measure takes some of `network`, `data`, `loss` and `start` (the network a run began with), by these names,
and returns an array. Outside of a run it is called like any function; inside, the run hands it what it asks
for.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from rankfall._naming import unknown
from rankfall._precision import Function, float64, in_float64
from rankfall.data import Data, with_name
from rankfall.loss import Loss
from rankfall.network import Network, with_origin

RECORDED = ("network", "data", "loss", "start")

# What JAX raises where a function asks for the numbers of an array that is being compiled.
UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,  # if, float(), int()
    jax.errors.NonConcreteBooleanIndexError,  # x[x > 0]
    jax.errors.TracerArrayConversionError,  # a function of NumPy
    jax.errors.TracerIntegerConversionError,  # range()
)


class Context(eqx.Module):
    """What a run can hand to a measure."""

    data: Data
    start: Network
    loss: Loss = eqx.field(static=True)


@dataclass(frozen=True)
class Warm:
    """A measure that is cheaper to follow than to compute: it carries a state from one record to the next."""

    start: Callable[[Network], Any]
    follow: Callable[[Network, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Measure:
    """A named function of a network (and data, a loss, the starting network); see `measured`."""

    function: Callable[..., Any]
    name: str
    long_name: str
    units: str = ""
    dims: tuple[str, ...] = ()
    invariant: bool = False
    warm: Warm | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value, computed in float64; of a network and data in float32, in float32."""
        with self._saying_how_to_compile():
            return _compiled(self.function)(*args, **kwargs)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The function's own docstring."""
        return self.function.__doc__

    @property
    def parameters(self) -> list[str]:
        """What the function takes and has no default for."""
        known = inspect.signature(self.function).parameters.values()
        return [p.name for p in known if p.default is inspect.Parameter.empty]

    def of(self, **options: Any) -> "Measure":
        """The same measure with other options, which its name then tells: `rank.of(tol=1e-3)`."""
        told = ", ".join(f"{key}={value}" for key, value in options.items())
        return replace(self, function=partial(self.function, **options), name=f"{self.name}({told})")

    def check(self, network: Network, data: Data, loss: Loss) -> None:
        """Raise a ValueError if a run of `network` on `data` cannot record this measure."""
        foreign = [p for p in self.parameters if p not in RECORDED]
        if foreign:
            raise ValueError(
                f"a run cannot record {self.name!r}: it needs {', '.join(foreign)}. Call it afterwards; what "
                f"a run records may ask for {', '.join(RECORDED[:-1])} and {RECORDED[-1]}."
            )
        with float64(), self._saying_how_to_compile():  # the shapes alone bring out every other misfit
            value = eqx.filter_eval_shape(
                lambda n, d: self.record(n, Context(d, n, loss), None)[0], network, data
            )
        self._check_dims(value.shape)

    def _check_dims(self, shape: tuple[int, ...]) -> None:
        if len(shape) != len(self.dims):
            advice = {0: "leave dims out", 1: 'say dims=("neuron",)'}
            raise ValueError(
                f"{self.name!r} returns an array of shape {shape}, but declares "
                f"{f'dims={self.dims!r}' if self.dims else 'no dimensions'}: "
                f"{advice.get(len(shape), f'name its {len(shape)} axes in dims')}."
            )

    @contextmanager
    def _saying_how_to_compile(self) -> Iterator[None]:
        try:
            yield
        except UNTRACEABLE as error:
            raise ValueError(
                f"{self.name!r} cannot be compiled: it hands an array to NumPy or Python, or branches on a "
                "value. Use jax.numpy, jnp.where for if, and no indices that depend on values."
            ) from error

    def _given(self, network: Network, context: Context) -> dict[str, Any]:
        given = {"network": network, "data": context.data, "loss": context.loss, "start": context.start}
        return {p: given[p] for p in self.parameters}

    def record(self, network: Network, context: Context, state: Any) -> tuple[Any, Any]:
        """The value inside a run, and the state to carry to the next record; None computes it anew."""
        if self.warm is not None and state is not None:
            return self.warm.follow(network, state)
        return jnp.asarray(self.function(**self._given(network, context))), state


def compiled(function: Function) -> Function:
    """`function` in float64, compiled once for networks and data of any name."""
    run = in_float64(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nameless = jax.tree.map(_nameless, (args, kwargs), is_leaf=_has_name)
        try:
            return run(*nameless[0], **nameless[1])
        except ValueError:
            return run(*args, **kwargs)  # the message says which network or data it speaks of

    return cast(Function, call)


def _has_name(value: object) -> bool:
    return isinstance(value, Network | Data)


def _nameless(value: Any) -> Any:
    if isinstance(value, Network):
        return with_origin(value, "")
    return with_name(value, "") if isinstance(value, Data) else value


_compiled = cache(compiled)


MEASURES: dict[str, Measure] = {}


def measured(
    long_name: str,
    units: str = "",
    dims: tuple[str, ...] = (),
    invariant: bool = False,
    warm: Warm | None = None,
) -> Callable[[Callable[..., Any]], Measure]:
    """Make a function a `Measure` under its own name, so that runs can record it by that name.

    **Arguments:**

    - `long_name`, `units`: for the axes of figures.
    - `dims`: the names of the dimensions of what the function returns.
    - `invariant`: the value does not depend on the orthonormal basis in which the inputs are written. Only
        such measures can be taken in the span of the data; a run that records another is made in full.
    - `warm`: a cheaper way to follow the measure along a run.
    """
    if callable(long_name):
        raise ValueError('write @measured("what it is"), with parentheses.')

    def define(function: Callable[..., Any]) -> Measure:
        measure = Measure(function, function.__name__, long_name, units, dims, invariant, warm)
        known = MEASURES.get(measure.name)
        if known is not None and _home(known.function) != _home(function):  # the same: a cell run again
            taken = f"{known.function.__module__} has a measure {measure.name!r} already"
            raise ValueError(f"{taken}: give yours another name.")
        MEASURES[measure.name] = measure
        return measure

    return define


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    """Where a function is defined."""
    return function.__module__, function.__qualname__


def select(measures: Iterable[str | Measure]) -> tuple[Measure, ...]:
    """The measures of these names; a Measure stands for itself."""
    chosen = []
    for measure in [measures] if isinstance(measures, (str, Measure)) else measures:
        if isinstance(measure, str) and measure not in MEASURES:
            raise unknown("measure", measure, MEASURES)
        chosen.append(MEASURES[measure] if isinstance(measure, str) else measure)
    names = [measure.name for measure in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two measures to record have the name {name!r}.")
    return tuple(chosen)
