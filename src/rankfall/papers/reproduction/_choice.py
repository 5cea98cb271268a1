"""Which experiments to run: of all papers or one, of a figure, a claim, or at another setting."""

from collections.abc import Mapping, Sequence
from typing import Any

from rankfall._naming import unknown
from rankfall.papers import PAPERS, paper
from rankfall.papers.lab import Experiment, Paper, in_words, parsed

Chosen = tuple[Paper, Experiment[Any]]


def choose(
    name: str | None = None,
    figure: str | None = None,
    claim: str | None = None,
    changes: Sequence[str] = (),
) -> list[Chosen]:
    """The experiments of one paper or of all; of one figure, or the one that tests a claim.

    `name` may be a file with a paper of your own, such as "mine.py".
    `claim` is an id such as "frei/rank-two", or "rank-two" if the paper is named. `changes` to the setting,
    such as "n=20", need one experiment.
    """
    if claim is not None and "/" in claim:
        of, claim = claim.split("/", 1)
        if name is not None and paper(name).name != of:
            raise ValueError(f"{of}/{claim} is no claim of {name}.")
        name = name or of
    if name is None and (figure is not None or claim is not None):
        raise ValueError(
            "a figure or a claim belongs to a paper: say which, as in `rankfall reproduce frei`, or in "
            "`--claim frei/rank-two`."
        )
    chosen = [(p, e) for p in map(paper, PAPERS if name is None else [name]) for e in p.experiments]
    if figure is not None:
        names = [e.name for _, e in chosen]
        if figure not in names:
            raise unknown(f"figure of {name}", figure, names)
        chosen = [(p, e) for p, e in chosen if e.name == figure]
    if claim is not None:
        ids = [each.id for _, e in chosen for each in e.claims]
        if claim not in ids:
            raise unknown(f"claim of {name}", claim, ids)
        chosen = [(p, e) for p, e in chosen if claim in {each.id for each in e.claims}]
    if changes:
        if len(chosen) != 1:
            raise ValueError("--set changes the setting of one figure: say which, by --figure or --claim.")
        ((p, e),) = chosen
        chosen = [(p, _at(p, e, parsed(e.setting, changes), claim))]
    return chosen


def _at(p: Paper, e: Experiment[Any], changes: Mapping[str, Any], claim: str | None) -> Experiment[Any]:
    """The experiment at another setting, where it still has to have the claim that was asked for."""
    with in_words(p.file, f"{e.name} is not possible at this setting"):
        other = e.at(**changes)
        ids = [each.id for each in other.claims]
    if claim is not None and claim not in ids:
        raise unknown(f"claim of {e.name} at this setting", claim, ids)
    return other
