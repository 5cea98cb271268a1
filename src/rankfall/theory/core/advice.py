"""What a practitioner should do: the advice of the results that speak, or the facts that decide it."""

from collections.abc import Iterable

from rankfall.theory.core.result import Advice
from rankfall.theory.core.situation import Situation


def advise(situation: Situation, found: Iterable[Advice]) -> str:
    """A plain sentence or two. Results that apply come before those that apply up to a violation."""
    ranked = sorted(found, key=lambda a: (a.violation != "", a.subject))
    if ranked:
        best = ranked[0]
        return (
            f"Not quite in its hypotheses ({best.violation}), but near: {best.text}"
            if best.violation
            else best.text
        )
    return facts(situation)


def facts(s: Situation) -> str:
    """What can be said where no result has advice."""
    if not s.signs or s.loss.targets != "signs":
        return (
            "No result gives advice here. Train by rankfall.flow and look: the stable ranks say which layers "
            "have fallen to low rank, and `linearity` how much of the network is a linear map."
        )
    if s.svm is not None:
        margin = f"Your data are linearly separable with the margin {s.svm.norm2**-0.5:.3g}"
        if not s.network.homogeneity:
            return f"{margin}: a linear classifier is enough, and a network should be no worse."
        return (
            f"{margin}, so that training ends in a direction: `rankfall limit` finds it, and says whether it "
            "is more than linear."
        )
    if s.slope == 1:
        return "Your data are not linearly separable: a linear network cannot fit them, a slope below 1 may."
    return (
        "Your data are not linearly separable"
        + (f", with {len(s.y)} samples of {s.data.dim} features" if len(s.y) > s.data.dim else "")
        + ". A network that fits them all must use its nonlinearity: train by rankfall.flow until the "
        "training error is zero, then ask `rankfall limit` where it ends."
    )
