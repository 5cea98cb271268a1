"""What can be said of a limit: proved, followed, or not yet."""

from enum import StrEnum


class Verdict(StrEnum):
    """How a search for a limit ended. `meaning` says what it means and what to do."""

    CERTIFIED = "certified"
    FOLLOWED = "followed"
    APPROXIMATE_ROUTE = "approximate route"
    APPROXIMATE = "approximate"
    NOT_UNIQUE = "not unique"
    NOT_DECIDED = "not decided"
    NOT_SEPARATED = "not separated"
    AT_REST = "at rest"

    @property
    def meaning(self) -> str:
        """One or two sentences for somebody who sees the word for the first time."""
        return MEANINGS[self]

    @property
    def finished(self) -> bool:
        """Is this an answer? Otherwise a longer search may give one."""
        return self is not Verdict.NOT_DECIDED


MEANINGS = {
    Verdict.CERTIFIED: (
        "Proved in exact arithmetic: this is a KKT point of the margin problem, and the flow ends here from "
        "the state that was reached and from every state near it. The run up to that state was followed "
        "numerically."
    ),
    Verdict.FOLLOWED: (
        "This is where the flow goes, as far as it was followed numerically. That it stays is not proved."
    ),
    Verdict.APPROXIMATE_ROUTE: (
        "Proved in exact arithmetic: this is a KKT point, or a minimum of the loss, and the flow ends here "
        "from the state that was reached. But the route to that state was approximate, and the flow itself "
        "may end elsewhere."
    ),
    Verdict.APPROXIMATE: (
        "This is a late state of the flow, near its end; the residuals say how near it is to a KKT point."
    ),
    Verdict.NOT_UNIQUE: (
        "The flow comes to a point from which several solutions leave. The end of each branch is listed."
    ),
    Verdict.NOT_DECIDED: (
        "There is no answer yet: this is the last state. Go on from it with more time or a larger budget."
    ),
    Verdict.NOT_SEPARATED: (
        "Proved: no network of this kind classifies all samples, so there is no margin and no limit."
    ),
    Verdict.AT_REST: (
        "Proved in exact arithmetic: the loss has a minimum here, and the flow comes to rest in it from the "
        "state that was reached and from every state near it. The run up to that state was followed "
        "numerically."
    ),
}
