"""The names of networks and data are no part of what is compiled."""

import logging

import jax
import numpy as np
import pytest

from rankfall import Data, Network, descent, exact_flow, flow, measure
from rankfall.limits import kkt_distance

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(11, 3)), np.resize([1.0, -1.0], 11)  # sizes of no other test: all is compiled here
WEIGHTS = [RNG.normal(size=(9, 3)), RNG.normal(size=(1, 9))]


def problem(name):
    """A network and data of that name."""
    test = Data(X, Y, f"test part of {name}")
    return Network(WEIGHTS, slope=0.3, origin=name), Data(X, Y, name, test)


@pytest.fixture
def compilations(caplog):
    """How many programs a call compiles."""

    def count(call):
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level(logging.WARNING, logger="jax"):
            call()
        return sum(record.message.startswith("Finished XLA compilation") for record in caplog.records)

    return count


MEASURED = ["loss", "stable_rank", "test_loss", "neuron_balance_drift"]
CALLS = {
    "descent": lambda net, data: descent(net, data, "logistic", 0.1, 5, measures=MEASURED),
    "several": lambda net, data: descent([net, net], data, "logistic", 0.1, 5, batch=2, measures=MEASURED),
    "flow": lambda net, data: flow(net, data, "logistic", 0.1, measures=MEASURED, record=[0.05]),
    "exact flow": lambda net, data: exact_flow(net, data, "logistic", 0.1, measures=MEASURED, record=[0.05]),
    "measures of data": lambda net, data: (
        measure.loss(net, data, "logistic"),
        measure.test_accuracy(net, data),
    ),
    "measures of networks": lambda net, data: (measure.stable_rank(net), measure.balance_matrices(net)),
    "distance to a KKT point": lambda net, data: kkt_distance(net, Data(data.x, np.sign(net(X)), data.name)),
    "outputs": lambda net, data: (net(data.x), measure.parameter_norm(net)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_other_names_compile_nothing_again(call, compilations):
    assert compilations(lambda: call(*problem("first"))) > 0
    assert compilations(lambda: call(*problem("second"))) == 0


def test_a_measure_that_refuses_data_tells_their_name():
    network, data = problem("mine")
    with pytest.raises(ValueError, match=r"needs a test part, and Data\('mine'"):
        measure.test_accuracy(network, Data(data.x, data.y, "mine"))
