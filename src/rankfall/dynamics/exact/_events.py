"""What happens on a walk: what is watched within a step, what a neuron then does, and why a walk ends."""

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import NamedTuple

import numpy as np


class What(Enum):
    """What ends a step."""

    KINK = auto()  # a pre-activation reaches zero
    UP = auto()  # the slope of a pair held at its kink reaches 1
    DOWN = auto()  # it reaches alpha
    SIGN = auto()  # an output weight reaches zero
    FREE = auto()  # a neuron no longer rests where repelling kinks meet
    LEAVE = auto()  # a support vector's multiplier reaches zero (in the slow flow of `rankfall.limits`)
    JOIN = auto()  # a sample's margin is no longer larger than those of the support vectors (there too)


class Why(IntEnum):
    """Why the compiled steps of a walk end."""

    SPENT = 0  # as many steps as were asked for
    ARRIVED = 1  # the clock has come to where it was to go
    UNDECIDED = 2  # a neuron is at a kink, and what it does there is for the walk to decide
    STIFF = 3  # several steps without event: longer ones may be possible
    FULL = 4  # the log of events is full
    CROWDED = 5  # a neuron is to hold more kinks than there is room for
    NEAR = 6  # the loss or the time that was given is reached in the next step
    SIGN = 7  # an output weight may reach zero in the next step


class Hit(NamedTuple):
    """What ends a step, of which neuron and sample; -1 where it is of none."""

    neuron: int
    sample: int
    what: What


@dataclass(frozen=True)
class Watched:
    """Paths (one a row, on `GRID`) that are an event when they fall below minus their slack."""

    paths: np.ndarray
    slack: np.ndarray
    neurons: np.ndarray
    samples: np.ndarray
    what: What


@dataclass(frozen=True)
class Event:
    """A pair of neuron and sample crosses its kink, sticks to it, or is released from it.

    `side` is where it goes: 1 above, -1 below, 0 if it sticks. `clock` is the walk's own.
    """

    clock: float
    log_time: float
    neuron: int
    sample: int
    kind: str
    side: int


@dataclass(frozen=True)
class Fork:
    """A point from which several solutions leave: a neuron at kinks of these samples.

    `slopes` are those of the solution that is followed, on all samples, and `others` those of the other
    solutions; `complete`: there are no more than these.
    """

    clock: float
    log_time: float
    neuron: int
    samples: tuple[int, ...]
    slopes: np.ndarray
    others: tuple[np.ndarray, ...]
    complete: bool


class Stalled(Exception):
    """The walk cannot go on: one neuron switches again and again, or no step is short enough."""


class AtRest(Stalled):
    """The pulls balance each other so well that the next step would be nothing but rounding."""
