"""How a run ended, and what it counted on the way: values, never sentences to be parsed."""

from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a run ended. As text it is what a user reads; the numbers are in `Statistics`."""

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


@dataclass(frozen=True)
class Statistics:
    """What a run counted; None for what its kind of run does not count.

    - `steps`: the steps it made, without those rejected. Descent: with those of epochs taken back.
    - `rejected_steps`: the steps that were tried again with a smaller size.
    - `evaluations`: how often the gradient was evaluated.
    - `error_estimate`: the sum of the errors of all steps, relative to the weights.
    - `steps_across_kinks`: the steps, rejected or not, at whose end a neuron had changed sides.
    - `chattering_pairs`: the pairs of neuron and sample that switched again and again.
    - `events`, `regions`: what happened at kinks, and the activation regions visited.
    - `kinks`: the pairs of neuron and sample that are held at their kink at the end.
    - `forks`: the points that several solutions leave.
    - `log_time`: the logarithm of the last time, which may be beyond float64.
    """

    steps: int = 0
    rejected_steps: int | None = None
    evaluations: int | None = None
    error_estimate: float | None = None
    steps_across_kinks: int | None = None
    chattering_pairs: int | None = None
    events: int | None = None
    regions: int | None = None
    kinks: int | None = None
    forks: int | None = None
    log_time: float | None = None

    @property
    def tried(self) -> int:
        """The steps, those rejected among them."""
        return self.steps + (self.rejected_steps or 0)

    @property
    def counted(self) -> dict[str, float]:
        """What the run counted, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
