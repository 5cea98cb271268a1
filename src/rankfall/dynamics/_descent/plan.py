"""What a descent is asked for: checked, and put into the form in which it runs."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np

from rankfall._identity import stable_name
from rankfall.data import Data
from rankfall.dynamics._descent.loss_based import LossBased
from rankfall.dynamics._descent.stepper import Optimiser
from rankfall.dynamics._problem import Reduction
from rankfall.dynamics._record import Record, choose, every, linear, record_steps
from rankfall.loss import Loss, named
from rankfall.measure import Measure
from rankfall.network import Network


@dataclass(frozen=True)
class Plan:
    """A descent that is ready to run.

    - `sizes`: the step size, or one for each network; the first rate, where there is a `rule`.
    - `wanted`: the steps to record at; are they `chosen` by the user?
    - `along`: the name and the labels of the dimension of the networks, where several run.
    - `settings`: all of it as the trajectory tells it. Only a run with the same settings can be taken up.
    """

    reduction: Reduction
    sizes: np.ndarray
    rule: LossBased | None
    steps: int
    batch: int | None
    seed: int
    optimiser: Optimiser
    measures: tuple[Measure, ...]
    wanted: np.ndarray
    chosen: bool
    along: tuple[str, Sequence[Any]] | None
    settings: Mapping[str, Any]

    @property
    def multiplications(self) -> int:
        """Those of the products with trained matrices in one network's forward pass on a batch."""
        moving = sum(leaf.size for leaf in jax.tree.leaves(self.reduction.one.parameters()))
        return int((self.batch or len(self.reduction.one.y)) * moving)


def plan(
    network: Network | Sequence[Network],
    data: Data,
    loss: Loss | str,
    step: float | Sequence[float] | LossBased,
    steps: int | None,
    epochs: int | None,
    batch: int | None,
    seed: int,
    optimiser: Optimiser,
    measures: Iterable[str | Measure] | None,
    record: Record | None,
    along: Mapping[str, Sequence[Any]] | None,
    span: bool,
) -> Plan:
    """The plan of a call of `descent`; a ValueError where it makes no sense."""
    loss = named(loss)
    networks = [network] if isinstance(network, Network) else list(network)
    rule = step if isinstance(step, LossBased) else None
    _check(networks, step, batch, seed, optimiser)
    batch = None if batch is None or batch >= data.n else batch
    length, records = _length(steps, epochs, record, 1 if batch is None else -(-data.n // batch))
    axis = None if isinstance(network, Network) else _axis_of_networks(along, len(networks))
    measured = choose(measures, networks[0], data, loss)
    reduction = Reduction(networks, data, loss, span and all(m.invariant for m in measured))
    sizes = np.asarray(step if rule is None else rule.first, dtype=networks[0].dtype)
    settings = {
        "method": "gradient descent" if batch is None else f"SGD, batches of {batch}",
        "batch": batch,
        "optimiser": stable_name(optimiser),
        "loss": str(loss),
        "data": data.name,
        "step": sizes.tolist(),
        "rule": None if rule is None else asdict(rule),
        "seed": int(seed),
        "span": bool(reduction.spans),
        "measures": [measure.name for measure in measured],
        "along": [] if axis is None else [axis[0], *map(str, axis[1])],
        "fingerprint": _fingerprint(networks, data),
    }
    return Plan(
        reduction,
        sizes,
        rule,
        length,
        batch,
        seed,
        optimiser,
        measured,
        wanted=record_steps(records, length),
        chosen=record is not None or epochs is not None,
        along=axis,
        settings=settings,
    )


def _check(networks: list[Network], step: Any, batch: int | None, seed: int, optimiser: Any) -> None:
    if not networks:
        raise ValueError("there is no network to run.")
    if not callable(optimiser):
        raise ValueError(
            "the optimiser must be a function of the step size: optax.adam rather than optax.adam(1e-3), or "
            "lambda step: optax.sgd(step, momentum=0.9)."
        )
    if not isinstance(step, LossBased):
        _check_sizes(step, len(networks))
    if int(seed) != seed or not 0 <= seed < 2**32:
        raise ValueError(f"the seed must be a whole number from 0 to 2^32 - 1, not {seed}.")
    if batch is not None and (int(batch) != batch or batch < 1):
        raise ValueError(f"the batch size must be a whole number of at least 1, not {batch}.")


def _check_sizes(step: Any, count: int) -> None:
    if isinstance(step, Sequence) and any(isinstance(each, LossBased) for each in step):
        raise ValueError(
            "give one LossBased for all networks, each of which has its own rate; run different rules apart."
        )
    sizes = np.asarray(step, dtype=float)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise ValueError(f"the step size must be positive, not {step}.")
    if sizes.ndim and sizes.shape != (count,):
        raise ValueError(f"there are {count} networks, but {sizes.size} step sizes.")


def _length(steps: int | None, epochs: int | None, record: Record | None, epoch: int) -> tuple[int, Record]:
    """The number of steps, and when to record; `epoch` is the number of steps in an epoch."""
    if (steps is None) == (epochs is None):
        raise ValueError("say how long to run: the number of `steps`, or of `epochs`.")
    for what, number in (("steps", steps), ("epochs", epochs)):
        if number is not None and (int(number) != number or number < 1):
            raise ValueError(f"the number of {what} must be a whole number of at least 1, not {number}.")
    if epochs is None:
        assert steps is not None
        return int(steps), linear(200) if record is None else record
    return int(epochs) * epoch, every(epoch) if record is None else record


def _axis_of_networks(along: Mapping[str, Sequence[Any]] | None, count: int) -> tuple[str, Sequence[Any]]:
    if along is None:
        return "network", range(count)
    (name, labels), *more = along.items()
    if more or len(labels) != count:
        raise ValueError(f"`along` names one axis with a label for each of the {count} networks.")
    return name, labels


def _fingerprint(networks: list[Network], data: Data) -> str:
    """A short hash of all numbers a run starts from: a run is only resumed from its own start."""
    digest = hashlib.sha256()  # processors have instructions for it
    for network in networks:
        digest.update(repr((network.trained, network.linear_tail, network.skip_kinds)).encode())
    for leaf in map(np.ascontiguousarray, jax.tree.leaves((networks, data))):
        digest.update(f"{leaf.dtype} {leaf.shape}".encode())
        digest.update(leaf.data)
    return digest.hexdigest()[:16]
