"""limit: from a network and data, or from where a search stopped, to the end of the flow."""

import numpy as np

from rankfall.data import Data
from rankfall.dynamics import check_fit
from rankfall.dynamics.exact import LOSSES
from rankfall.limits._approximate import approximate
from rankfall.limits._base import Search
from rankfall.limits._both import BothLayers
from rankfall.limits._fixed import LARGE, FixedSecondLayer
from rankfall.limits._result import Limit
from rankfall.limits._square import SquareLoss
from rankfall.limits._unique import with_branches
from rankfall.loss import Loss, named
from rankfall.network import Network
from rankfall.trajectory import Trajectory


def limit(
    network: Network | Trajectory | Limit,
    data: Data,
    loss: Loss | str = "exponential",
    *,
    tol: float = 1e-10,
    budget: int = 1_000_000,
    seconds: float = np.inf,
    large: int = LARGE,
    optimality: bool = True,
    show: bool = True,
) -> Limit:
    r"""Where the gradient flow from `network` ends, with a certificate.

    A two-layer network is followed exactly, from region to region (`exact_flow`), and after every stretch the
    end of the flow in its present cell is computed. It is the limit if its KKT conditions hold and the flow
    stays in the cell, both proved in exact arithmetic; else the flow goes on. With a fixed second layer it is
    proved, too, where the flow comes to rest: by the square loss, or without separating the data. With both
    layers trained the end is followed and not proved. Deeper networks are followed by `flow`, and their last
    state is judged as it is: that is approximate.

    **Arguments:**

    - `network`: where the flow starts; or a run or a limit, to go on from where it stopped.
    - `data`, `loss`: exponential and logistic loss have a limit direction, the square loss an end point.
    - `tol`: the largest residual that a limit may have.
    - `budget`, `seconds`: how many steps to take, and how long, at most.
    - `large`: with more pairs of neuron and sample than this, and a fixed second layer, the route to the
        limit is approximate: to meet every kink would take too long.
    - `optimality`: also find out whether the limit is globally optimal.
    - `show`: show progress after two seconds.

    **Returns:** a `Limit`. Print it. When the budget or the time is spent, or after Ctrl-C, its verdict is
    "not decided" and `limit(it, data, loss)` goes on from the state that was reached.
    """
    network, loss = checked(network, data, loss, tol, budget, seconds)
    if not _exact(network, loss):
        return approximate(network, data, loss, budget=budget, seconds=seconds, show=show)
    kind: type[Search] = SquareLoss
    if loss.name != "square":
        kind = BothLayers if network.trained[1] else FixedSecondLayer

    def search(seconds: float, choices: tuple[int, ...] = ()) -> Search:
        return kind(
            network,
            data,
            loss,
            tol=tol,
            budget=budget,
            seconds=seconds,
            large=large,
            optimality=optimality,
            show=show,
            choices=choices,
        )

    return with_branches(search, seconds)


def checked(
    network: Network | Trajectory | Limit,
    data: Data,
    loss: Loss | str,
    tol: float = 1e-10,
    budget: int = 1,
    seconds: float = np.inf,
) -> tuple[Network, Loss]:
    """The network from which a search starts, and its loss; a ValueError where there can be no limit."""
    if not tol > 0 or budget < 1 or not seconds > 0:
        raise ValueError("the tolerance and the seconds must be positive, and the budget at least one step.")
    loss = named(loss)
    if isinstance(network, Limit):
        network = network.network if network.state is None else network.state
    network = network.network if isinstance(network, Trajectory) else network
    network = network.astype(np.float64)
    if network.outputs != 1 or loss.targets == "classes":
        raise ValueError(f"a limit is for networks with one output; this is {network!r}.")
    if loss.name != "square" and not network.homogeneity:
        raise ValueError(
            "this network is not homogeneous in what is trained, so that the margin problem is not defined: "
            "only the first trained layer may have a bias, and a skip needs a fixed layer beside it."
        )
    if loss.name == "square" and not _exact(network, loss):
        raise ValueError(
            "the end point of the square loss is for two-layer networks without skips whose first layer is "
            "trained: for others use `flow` until the gradient is small, Until(gradient=1e-10)."
        )
    check_fit(network, data, loss)
    return network, loss


def _exact(network: Network, loss: Loss) -> bool:
    """Is the flow of this network followed exactly?"""
    return network.depth == 2 and network.trained[0] and not network.has_skips and loss.name in LOSSES
