"""From a proposal in floating point to a certificate in exact arithmetic, with a fixed second layer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankfall.certificates import Certificate, Missing, Point, Problem, propose, rest, stays
from rankfall.dynamics.exact import Region
from rankfall.limits._asymptote import Asymptote
from rankfall.limits._kkt import Point as KKT
from rankfall.limits._rest import RestPoint

if TYPE_CHECKING:
    from rankfall.limits._base import Search


ROUNDED_ONCE = 1_000_000  # products up to which weights are computed exactly, and then rounded


@dataclass(frozen=True)
class Proof:
    """What was proved of a limit: the point, and that every flow within `radius` of a start ends there.

    The present state is at `distance` from that start: `room` is left for the error of the run to it.
    """

    problem: Problem
    point: Point
    claim: dict[str, Any]
    radius: float
    distance: float

    @property
    def room(self) -> float:
        """How far from the present state the flow may be and still end there."""
        return self.radius - self.distance


def prove(search: "Search", found: Asymptote) -> Proof | Missing:
    """A proof that the flow ends where an asymptote says; or what is missing to it."""
    problem, samples, walk = search.problem, search.samples, search.walk
    side, slopes = samples.each(found.region.side), samples.each(found.point.slopes)
    if problem.slope == 1:
        side = np.ones_like(side)
    point = propose(problem, side, samples.shared(found.point.multipliers), slopes)
    if isinstance(point, Missing):
        return point
    start = walk.weights.w if found.line is None else found.line.start
    if len(problem.y) < problem.inputs.shape[1]:  # as combinations of the samples: fewer numbers
        every = samples.each(walk.region.x.T).T
        claim = stays(problem, point, _coefficients(start, every), "samples")
        now = _coefficients(walk.weights.w, every) @ every  # what is outside of their span never moves
    else:
        every, now = np.eye(problem.inputs.shape[1]), search.to_user(walk.weights.w)
        claim = stays(problem, point, search.to_user(start), "features")
    if isinstance(claim, Missing):
        return claim
    distance = float(np.linalg.norm(now - claim.start @ every))
    if not distance < claim.radius:
        return Missing(
            f"the state is {distance:.2e} away from the line to the limit, and {claim.radius:.2e} is allowed."
        )
    return Proof(problem, point, claim.claim, claim.radius, distance)


@dataclass(frozen=True)
class RestProof:
    """What was proved of a minimum: every flow within `radius` of a start, `distance` away, comes to rest."""

    problem: Problem
    claim: dict[str, Any]
    radius: float
    distance: float

    @property
    def room(self) -> float:
        """How far from the present state the flow may be and still come to rest there."""
        return self.radius - self.distance


def prove_rest(search: "Search", found: RestPoint) -> RestProof | Missing:
    """A proof that the flow comes to rest in a minimum next to the one found; or what is missing to it."""
    problem, samples, walk = search.problem, search.samples, search.walk
    if float(walk.weights.c) != 0:
        return Missing("a certificate is for networks without output bias.")
    signs = None if walk.pull.normalised else samples.each(found.signs)
    side, slopes = samples.each(found.side), samples.each(found.slopes)
    if len(problem.y) < problem.inputs.shape[1]:  # as combinations of the samples: fewer numbers
        every = samples.each(walk.region.x.T).T
        claim = rest(problem, _coefficients(found.w, every), side, slopes, signs, "samples")
        now = _coefficients(walk.weights.w, every) @ every  # what is outside of their span never moves
    else:
        every, now = np.eye(problem.inputs.shape[1]), search.to_user(walk.weights.w)
        claim = rest(problem, search.to_user(found.w), side, slopes, signs, "features")
    if isinstance(claim, Missing):
        return claim
    distance = float(np.linalg.norm(now - claim.start @ every))
    if not distance < claim.radius:
        return Missing(f"the state is {distance:.2e} away, and {claim.radius:.2e} is allowed.")
    return RestProof(problem, claim.claim, claim.radius, distance)


def _coefficients(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The combinations of the rows `of` that are nearest to some rows."""
    return np.asarray(np.linalg.lstsq(of.T, rows.T, rcond=1e-14)[0].T)


def proved_point(search: "Search", proof: Proof, region: Region) -> tuple[KKT, Region]:
    """The point that was proved, in floats and in the coordinates of the search, with its region."""
    problem, samples, walk = proof.problem, search.samples, search.walk
    patterns, mu, lam = (
        np.ones((problem.width, len(problem.y))),
        np.zeros((problem.width, len(problem.y))),
        proof.point.lam(),
    )
    exact = proof.point.mu(problem.slope)
    for g, group in enumerate(proof.point.groups):
        patterns[group], mu[group] = proof.point.patterns[g], exact[g]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.where(
            lam > 0, np.clip(mu / lam, problem.slope, 1.0), np.where(patterns > 0, 1.0, problem.slope)
        )
    slopes = np.where(patterns > 0, 1.0, np.where(patterns < 0, problem.slope, slopes))
    first = samples.first
    multipliers = np.bincount(samples.where, lam)
    a, y = walk.weights.a, walk.pull.y
    held = slopes[:, first]
    if not samples.once:  # equal samples share what they pull at a kink
        together = np.stack([np.bincount(samples.where, row) for row in mu])
        with np.errstate(divide="ignore", invalid="ignore"):
            held = np.where(
                patterns[:, first] == 0, np.where(multipliers > 0, together / multipliers, held), held
            )
    if proof.point.exact and len(proof.point.groups) * problem.inputs.size <= ROUNDED_ONCE:
        w = search.from_user(proof.point.weights(problem))
    else:
        w = a[:, None] * ((held * multipliers * y) @ region.x)
    shown = Region(region.x, region.slope, patterns[:, first], region.lines)
    return KKT(w, a, multipliers, held), shown


def document_of(proof: Proof, followed: dict[str, Any], claims: list[dict[str, Any]]) -> dict[str, Any]:
    """The certificate's document, with what was followed."""
    return Certificate.of(proof.problem, proof.point, [proof.claim, *claims], followed=followed).document
