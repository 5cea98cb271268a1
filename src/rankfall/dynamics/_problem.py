"""Problem: a network on data with a loss, in the coordinates in which it is cheapest to run."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from rankfall.data import Data
from rankfall.dynamics._span import Span, inside_basis, spans_of
from rankfall.loss import Loss
from rankfall.measure import Context
from rankfall.network import Network, moving, stack, unstack, with_origin


class Problem(eqx.Module):
    """What the dynamics need to know. The parameters that move are a tree of their own; the rest stays here.

    Everything is in the coordinates of a `Span`: only the first `k` columns of the first layer move.
    """

    start: Network
    x: Any
    y: Any
    test_x: Any
    test_y: Any
    loss: Loss = eqx.field(static=True)
    k: int = eqx.field(static=True)

    def parameters(self) -> Network:
        """The trained arrays at the start, as a network with None elsewhere."""
        return eqx.filter(self._narrow(), moving(self.start))

    def network(self, parameters: Network) -> Network:
        """The network with these parameters, on the first k input coordinates: what is differentiated."""
        return eqx.combine(parameters, self._narrow())

    def whole(self, parameters: Network) -> Network:
        """The network with these parameters on all coordinates: what is measured."""
        network = self.network(parameters)
        first = jnp.concatenate([network.weights[0], self.start.weights[0][:, self.k :]], axis=1)
        return eqx.tree_at(lambda n: n.weights[0], network, first)

    def value(self, parameters: Network, x: Any, y: Any, weight: Any = None) -> Any:
        """The loss on some samples, given by their first k coordinates."""
        return self.loss(self.network(parameters)(x), y, weight)

    def log_value(self, parameters: Network, x: Any = None, y: Any = None, weight: Any = None) -> Any:
        """The logarithm of the loss on some samples, or on all."""
        x, y = (self.x, self.y) if x is None else (x, y)
        return self.loss.log(self.network(parameters)(x), y, weight)

    def context(self) -> Context:
        """What measures may ask for: the data on all coordinates, the start, the loss."""
        still = self.start.widths[0] - self.k
        test = None if self.test_x is None else Data(self.test_x, self.test_y)
        return Context(Data(jnp.pad(self.x, ((0, 0), (0, still))), self.y, test=test), self.start, self.loss)

    def _narrow(self) -> Network:
        return eqx.tree_at(lambda n: n.weights[0], self.start, self.start.weights[0][:, : self.k])


def check_fit(network: Network, data: Data, loss: Loss) -> None:
    """Raise a ValueError where network, data and loss do not fit together."""
    if network.widths[0] != data.dim:
        raise ValueError(f"the network takes {network.widths[0]} features, but the data are {data!r}.")
    if not any(network.trained):
        raise ValueError("no layer of this network is trained: there is nothing to run.")
    loss.check_targets(data.y, network.outputs)
    if data.test is not None:
        loss.check_targets(data.test.y, network.outputs, training=False)


class Reduction:
    """The way from a user's networks and data to one `Problem`, and back with `lift`.

    For several networks the problem's start has a leading axis (and so has the test part, where each network
    brings its own basis): `axes` says so, in the form `jax.vmap` takes.
    """

    def __init__(self, networks: Sequence[Network], data: Data, loss: Loss, span: bool = True):
        for network in networks:
            check_fit(network, data, loss)
        self.networks, self.data = networks, data
        self.spans: list[Span] = []
        # A skip of the second layer hands x itself on: the basis of the inputs would be seen behind it.
        seen = any(n.depth > 1 and n.skips[1] is not None for n in networks)
        if span and data.n < data.dim and not seen:
            inside = inside_basis(data.x.astype(np.result_type(data.x, networks[0].dtype)))
            self.spans = spans_of(inside, [network.weights[0] for network in networks])
        problems = [self._problem(i, data, loss) for i in range(len(networks))]
        first = problems[0]
        own_tests = bool(self.spans) and data.test is not None
        test_x = np.stack([p.test_x for p in problems]) if own_tests else first.test_x
        starts: Any = stack([p.start for p in problems])
        self.one = first
        self.each = [  # the same arrays of data in all of them
            eqx.tree_at(lambda p: (p.x, p.y), problem, (first.x, first.y)) for problem in problems
        ]
        self.many = Problem(starts, first.x, first.y, test_x, first.test_y, loss, first.k)
        every: Any = 0
        self.axes = Problem(every, None, None, every if own_tests else None, None, loss, first.k)

    def _problem(self, i: int, data: Data, loss: Loss) -> Problem:
        """The i-th network's problem, in the dtype of the network."""
        start, x, k = with_origin(self.networks[i], ""), data.x, data.dim
        test_x, test_y = (None, None) if data.test is None else (data.test.x, data.test.y)
        if self.spans:
            span = self.spans[i]
            x, k = x @ span.inside, span.k
            test_x = None if test_x is None else span.coordinates(test_x)
            first = span.coordinates(start.weights[0]).astype(start.dtype)
            start = eqx.tree_at(lambda n: n.weights[0], start, first)
        arrays = {"x": x, "y": data.y, "test_x": test_x, "test_y": test_y}
        cast: Any = {
            name: None if a is None else a.astype(start.dtype, copy=False) for name, a in arrays.items()
        }
        return Problem(start, loss=loss, k=k, **cast)

    def lift(self, parameters: Network) -> list[Network]:
        """The networks with these parameters (leading axis: one a network), in the user's coordinates."""
        lifted = []
        for i, moved in enumerate(unstack(parameters, [n.origin for n in self.networks])):
            network = self.networks[i]
            if self.spans and network.trained[0]:
                first = self.spans[i].lift(network.weights[0], moved.weights[0]).astype(network.dtype)
                moved = eqx.tree_at(lambda n: n.weights[0], moved, first)
            lifted.append(with_origin(eqx.combine(moved, network), network.origin))
        return lifted
