"""How a run ended: a value, whose text says what to do about it."""

from enum import StrEnum


class Outcome(StrEnum):
    """How a run ended. As text it is what a user reads; numbers are in the settings of the run."""

    ARRIVED = "reached the time asked for"
    MADE = "made the steps asked for"
    MET = "reached the condition asked for"
    RESTS = "came to rest: nothing moves any more, and what was asked for will never be reached"
    INTERRUPTED = "interrupted: what was reached by then is kept, and a run can go on from it"
    SPENT = "spent its budget of steps: raise `budget`, or loosen `rtol`"
    LATE = "spent its seconds: allow more `seconds`, or loosen `rtol`"
    DIVERGED = "diverged, and was stopped before: take a smaller `step`"
    STALLED = "cannot go on in floating point"

    @property
    def finished(self) -> bool:
        """Did the run do what was asked for?"""
        return self in (Outcome.ARRIVED, Outcome.MADE, Outcome.MET)
