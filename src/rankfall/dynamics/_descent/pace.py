"""How a descent is cut into pieces and shared among the cores."""

from dataclasses import dataclass

from rankfall._progress import PAUSE


@dataclass(frozen=True)
class Pace:
    """The sizes that decide how long a descent takes. Its numbers do not depend on them, up to rounding."""

    seconds: float = PAUSE  # of work in a piece: how long a person waits for Ctrl-C
    rounds: int = 4  # lanes of one thread that have all these seconds in a piece; more than these share them
    records: int = 256  # that one call of the compiled loop makes, at most
    checkpoint: float = 30.0  # seconds between two checkpoints
    tiny: float = 1e4  # multiplications in a step below which networks share one loop
    busy: float = 2e7  # ... and from which on one network keeps all cores busy: then they take turns
    tall: float = 8  # times as many rows as columns make a matrix tall
    sparse: int = 10  # steps between two records from which on measures are not followed but computed anew
