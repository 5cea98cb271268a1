r"""Dead samples: those on which no neuron of a ReLU network is active, so that their outputs stay zero.

A neuron with $y_i a_j > 0$ below the kink of such a sample i may still come up and wake it. If none does, the
loss never falls below that of the dead samples, while the margins of the others grow for ever. The pulls of
these become as nothing next to those of the dead, which let no neuron with $y_i a_j < 0$ cross: for it the
dead sample is a wall, along which it slides. How strong the wall is does not matter, so the flow is exactly
that of the other samples with walls, in another clock; in their own loss clock it has a limit direction.
"""

import numpy as np

from rankfall.dynamics.exact import Pull, Walk, Walled

_STRONG = 10.0  # the pull of a wall, in units of what all others together can pull against it


def dead_of(pull: Pull) -> np.ndarray:
    """The samples that are walls."""
    return pull.dead if isinstance(pull, Walled) else np.zeros(len(pull.y), dtype=bool)


def dark(walk: Walk) -> np.ndarray:
    """The samples on which no neuron is active, now; in a ReLU network."""
    region = walk.region
    if region.slope != 0:
        return np.zeros(len(region.x), dtype=bool)
    return np.asarray((region.side <= 0).all(axis=0))


def with_walls(walk: Walk, dead: np.ndarray) -> Walk:
    """The same flow where these samples are dead; in the loss clock of the others."""
    pull, lengths = walk.pull, walk.region.lengths
    plain = Pull(pull.loss, pull.y, pull.counts)
    if dead.any():
        least = lengths[dead & (lengths > 0)].min(initial=lengths.max())
        walls = np.where(dead, pull.y * _STRONG * lengths.max() / least, 0.0)
        plain = Walled(pull.loss, pull.y, pull.counts, walls=walls)
    clock = type(walk.clock)(plain, walk.clock.log_time)
    return walk.continued(walk.motion, clock, walk.rtol, np.inf)


def never_classified(silent: int, samples: int) -> str:
    """What the end of such a flow is."""
    return (
        f"{silent} of {samples} samples are never classified: no neuron is active on them. The margins of "
        "the others grow without bound, and this is the limit of the direction"
    )
