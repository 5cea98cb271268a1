"""How far a measurement may be from a prediction: the reasons that recur."""

from rankfall.judge import Interval, at_most
from rankfall.theory.core.evidence import Evidence, Unmeasurable

LATE = 0.01  # the KKT residual, relative to the weights, from which on a run is compared with the limit
GROWN = 10.0  # how many times larger than at the start the weights must be,
PULLED = 0.3  # and how far samples off the margin may still pull it
ROUNDING = at_most(1e-10, "an identity: nothing but rounding")


def integration(evidence: Evidence) -> Interval:
    """A flow is followed to a tolerance; descent leaves it by its step size."""
    if evidence.descends:
        size = evidence.step_size * float(evidence.situation.norms.max()) ** 2
        return at_most(max(1e-6, size), "descent is not flow: the step size times the largest |x|^2")
    error = evidence.run.statistics.error_estimate or 0.0
    return at_most(max(1e-6, 10 * error), "the errors of the flow's steps, ten times, and no less than 1e-6")


def scaled(allowed: Interval, factor: float) -> Interval:
    """The tolerance of an error that is `factor` times as large."""
    return at_most(factor * allowed.high, allowed.because)


def at_the_end(evidence: Evidence) -> Interval:
    """A certified limit is exact up to its residuals; a run is as near as its KKT certificate says."""
    epsilon, pulled = evidence.kkt
    if evidence.is_limit:
        if not evidence.limit.verdict.finished:
            raise Unmeasurable(f"needs a finished search: {'; '.join(evidence.limit.missing)}")
        if not epsilon <= LATE:
            raise Unmeasurable(f"needs a finished search: the limit's residuals are {epsilon:.2g}")
        return at_most(max(1e-8, 100 * epsilon), "the limit's residuals, no less than 1e-8")
    if evidence.growth < GROWN:
        raise Unmeasurable(
            f"needs a later state: the weights are {evidence.growth:.2g} times those at the start, {GROWN:g} "
            "is the least"
        )
    if not (epsilon <= LATE and pulled <= PULLED):
        raise Unmeasurable(
            f"needs a later state: its KKT residual is {epsilon:.2g} ({LATE:g} is the most), and samples off "
            f"the margin still pull it by {pulled:.2g} ({PULLED:g} is the most): run longer, in the loss "
            "clock, or verify rankfall.limit(network, data, loss)"
        )
    return at_most(
        10 * epsilon + pulled + 2 / evidence.growth,
        "not at its end: ten times the KKT residual, the pull of samples off the margin, and twice the share "
        "of the initial weights",
    )
