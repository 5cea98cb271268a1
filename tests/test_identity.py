"""A function has one spelling wherever it is made, and another function has another."""

from functools import partial

import numpy as np
import optax
import pytest

from rankfall._identity import stable_name


def defined(momentum):
    def optimiser(step):
        return optax.sgd(step, momentum=momentum)

    return optimiser


def anonymous(momentum):
    return lambda step: optax.sgd(step, momentum=momentum)


def inner(momentum):
    return lambda step: (lambda inside: optax.sgd(inside, momentum=momentum))(step)


def scheduled(steps):
    schedule = optax.cosine_decay_schedule(1.0, steps)
    return lambda step: optax.chain(optax.scale_by_schedule(schedule), optax.sgd(step))


def masked(size):
    return partial(optax.adamw, mask=lambda parameters: size > 1)


def weighed(last):
    weights = np.zeros(5000)  # so many that they are not written out
    weights[2500] = last
    return lambda step: optax.sgd(step * weights.mean())


def optional(decay):
    return partial(optax.adam, b1=decay)


MAKERS = [defined, anonymous, inner, scheduled, masked, weighed, optional]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_it_tells_what_a_function_holds_and_not_where_it_lies(make):
    assert stable_name(make(0.5)) == stable_name(make(0.5))
    assert stable_name(make(0.5)) != stable_name(make(0.9))


def test_values_of_the_module_around_are_told_too(monkeypatch):
    before = stable_name(of_the_module)
    monkeypatch.setitem(globals(), "MOMENTUM", 0.9)
    assert stable_name(of_the_module) != before


MOMENTUM = 0.5


def of_the_module(step):
    return optax.sgd(step, momentum=MOMENTUM)


def test_so_are_those_that_a_function_inside_or_beside_it_uses(monkeypatch):
    before = (
        stable_name(calling),
        stable_name(lambda step: (lambda inside: optax.sgd(inside, MOMENTUM))(step)),
    )
    monkeypatch.setitem(globals(), "MOMENTUM", 0.9)
    after = stable_name(calling), stable_name(lambda step: (lambda inside: optax.sgd(inside, MOMENTUM))(step))
    assert before[0] != after[0]
    assert before[1] != after[1]


def calling(step):
    return of_the_module(step)


def test_what_a_library_defines_goes_by_its_name():
    assert stable_name(optax.sgd) == "sgd"
    assert stable_name(partial(optax.sgd, momentum=0.9)) == "sgd(momentum=0.9)"
