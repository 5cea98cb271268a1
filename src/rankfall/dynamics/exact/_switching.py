"""What neurons do at their kinks on a walk: where they begin, cross, stick, and become free."""

import numpy as np

from rankfall.dynamics.exact._clock import Clock
from rankfall.dynamics.exact._collocation import at
from rankfall.dynamics.exact._events import Event, Fork, Hit, Stalled, What
from rankfall.dynamics.exact._kinks import Decision, decide_lines, in_span
from rankfall.dynamics.exact._motion import FAR, Motion
from rankfall.dynamics.exact._regions import TOUCH

STALLED = 100  # events of one neuron at one and the same time


class Switching:
    """The sides that neurons take at their kinks, and the log of it.

    At a point from which several solutions leave (`forks`) the first is followed, or the one that `choices`
    names for this fork.
    """

    def __init__(self, motion: Motion, clock: Clock, choices: tuple[int, ...]):
        self.motion, self.region, self.clock, self.choices = motion, motion.region, clock, choices
        self.events: list[Event] = []
        self.forks: list[Fork] = []
        self.pinned: dict[int, np.ndarray] = {}  # neurons held where repelling kinks meet, and those kinks
        self._stall = (-1, -1.0, 0)

    def begin(self) -> None:
        """Let all neurons that begin at kinks take their sides."""
        side = self.region.side.copy()
        for neuron in np.flatnonzero((side == 0).any(axis=1)):
            self._begin(int(neuron), np.flatnonzero(side[neuron] == 0))
        self.events.clear()

    def _begin(self, neuron: int, at_kink: np.ndarray) -> None:
        """A neuron that begins at kinks goes where the first step of descent goes, with slope alpha at 0."""
        region, r, lengths = self.region, self._pulls(), self.region.lengths
        at_kink = self._whole_lines(at_kink[lengths[at_kink] > 0])
        slopes = region.slopes[neuron].copy()
        slopes[at_kink] = region.slope
        if region.lines is not None:  # of opposite inputs the one is above where the other is below
            slopes[at_kink[(np.tril(region.lines)[at_kink] < 0).any(axis=1)]] = 1.0
        sign = self._sign(neuron, r)
        velocity = sign * (region.x @ ((slopes * r) @ region.x))
        moves = bool((np.abs(velocity) > TOUCH * lengths * (np.abs(r) @ lengths)).any())
        if moves:
            slopes[at_kink] = np.where(velocity[at_kink] > 0, 1.0, region.slope)
        decision = Decision(slopes)
        if sign and len(at_kink):
            decision = self._decide(at_kink, slopes, r, sign, comes=False)
            solutions = (decision.slopes, *decision.others)
            own = [k for k, found in enumerate(solutions) if (found[at_kink] == slopes[at_kink]).all()]
            if moves and own:  # of several solutions that of descent
                rest = (*solutions[: own[0]], *solutions[own[0] + 1 :])
                decision = Decision(solutions[own[0]], rest, decision.complete)
            if not moves:  # descent does not move it, though other solutions leave
                other = (decision.slopes, *decision.others) if decision.moves else decision.others
                decision = Decision(slopes, other, decision.complete)
        self._place(neuron, at_kink, decision, region.side[neuron].copy())

    def switch(self, hits: tuple[Hit, ...]) -> None:
        """Let all neurons that were hit take their sides."""
        for neuron in dict.fromkeys(hit.neuron for hit in hits if hit.neuron >= 0):
            self._switch(neuron, [hit for hit in hits if hit.neuron == neuron])

    def _switch(self, neuron: int, hits: list[Hit]) -> None:
        now, (last, when, count) = self.clock.now, self._stall
        same = last == neuron and abs(now - when) <= 1e-14 * abs(now)
        self._stall = (neuron, now, count + 1 if same else 0)
        if self._stall[2] > STALLED:
            raise Stalled(f"neuron {neuron} switches again and again at its kinks")
        region = self.region
        coming: dict[int, int] = {}
        for _, sample, what in hits:
            if what is What.KINK:
                coming[sample] = -int(region.side[neuron, sample])
            elif what in (What.UP, What.DOWN):
                coming[sample] = 1 if what is What.UP else -1
        for sample, side in list(coming.items()):  # inputs on one line go together
            coming |= {other: side * sign for other, sign in region.mates(sample)}
        released = [hit.sample for hit in hits if hit.what in (What.UP, What.DOWN)]
        left = [mate for sample in released for mate, _ in region.mates(sample)]
        freed = any(hit.what is What.FREE for hit in hits)
        self._settle(neuron, coming, left, freed)

    def _settle(self, neuron: int, coming: dict[int, int], left: list[int], freed: bool) -> None:
        """Decide what a neuron does at its kinks.

        `coming` tells the side to which a sample comes: it crosses there, or it was released there (`left`).
        Attracting kinks that are touched take part. Repelling ones take part where the neuron comes to them,
        or where they are at zero with those that are held; others have a side.
        """
        region, r = self.region, self._pulls()
        before = region.side[neuron].copy()
        slopes = region.slopes[neuron].copy()
        slopes[before == 0] = region.slope
        for sample, side in coming.items():
            slopes[sample] = 1.0 if side > 0 else region.slope
            region.side[neuron, sample] = side
        sign = self._sign(neuron, r)
        there = np.setdiff1d(np.union1d(np.flatnonzero(before == 0), list(coming)).astype(int), left)
        at_kink = np.setdiff1d(self._at_kink(neuron, there, sign, r), left)
        decision = Decision(slopes)
        if len(at_kink) and sign:
            alone = not freed and self._lines_among(at_kink[before[at_kink] != 0]) == 1
            decision = self._decide(at_kink, slopes, r, sign, comes=alone)
        self._place(neuron, at_kink, decision, before)

    def _decide(
        self, at_kink: np.ndarray, slopes: np.ndarray, r: np.ndarray, sign: float, comes: bool
    ) -> Decision:
        region = self.region
        noise = self.clock.pull.rounding(self.motion.outputs)
        return decide_lines(
            at_kink, slopes, region.x, r, sign, region.slope, region.lines, comes=comes, noise=noise
        )

    def _place(self, neuron: int, at_kink: np.ndarray, decision: Decision, before: np.ndarray) -> None:
        """Give a neuron the slopes that were decided, and log what changes."""
        region, when = self.region, (self.clock.now, self.clock.log_time)
        slopes = decision.slopes
        if not decision.unique:
            which = self.choices[len(self.forks)] if len(self.forks) < len(self.choices) else 0
            solutions = [decision.slopes, *decision.others]
            slopes = solutions.pop(which)
            samples = tuple(int(i) for i in at_kink)
            self.forks.append(Fork(*when, neuron, samples, slopes, tuple(solutions), decision.complete))
        self.motion.place(neuron, at_kink, slopes)
        if len(at_kink):
            self.motion.to_kinks(neuron, at_kink)
        self._pin(neuron, np.flatnonzero(region.held[neuron]))
        for changed in np.flatnonzero(region.side[neuron] != before).tolist():
            now = int(region.side[neuron, changed])
            kind = "stick" if now == 0 else "release" if before[changed] == 0 else "cross"
            self.events.append(Event(*when, neuron, changed, kind, now))

    # Neurons held where repelling kinks meet

    def _pin(self, neuron: int, held: np.ndarray) -> None:
        """Remember the repelling kinks at which a neuron is held by others: it may become free there."""
        self.pinned.pop(neuron, None)
        if not len(held):
            return
        r = self._pulls()
        repels = self._sign(neuron, r) * self._line_pulls(r) > 0
        others = np.flatnonzero(repels & (self.region.lengths > 0) & ~self.region.held[neuron])
        others = in_span(others, held, self.region.x)
        if len(others):
            self.pinned[neuron] = others

    def become_free(self, f: np.ndarray, theta: float) -> list[Hit]:
        """The pinned neurons that no longer rest where repelling kinks meet, at a place in a step.

        Its outputs on `GRID` are f.
        """
        return self._free(self.clock.pull(at(theta) @ f))

    def become_free_now(self) -> list[Hit]:
        """The same at the present state."""
        return self._free(self._pulls())

    def _free(self, r: np.ndarray) -> list[Hit]:
        region = self.region
        found: list[Hit] = []
        for neuron, others in self.pinned.items():
            sign = self._sign(neuron, r)
            at_kink = self._at_kink(neuron, np.flatnonzero(region.held[neuron]), sign, r)
            slopes = np.where(region.side[neuron] > 0, 1.0, region.slope)
            if self._decide(at_kink, slopes, r, sign, comes=False).moves:
                found.append(Hit(neuron, int(others[0]), What.FREE))
        return found

    # Which kinks take part in a decision

    def _touching(self, neuron: int, units: float) -> np.ndarray:
        """The samples that are at their kinks up to this many units of rounding."""
        motion, region = self.motion, self.region
        near = np.abs(motion.z[neuron]) <= units * TOUCH * motion.sizes[neuron] * region.lengths
        return np.flatnonzero((near | (region.side[neuron] == 0)) & (region.lengths > 0))

    def _at_kink(self, neuron: int, there: np.ndarray, sign: float, r: np.ndarray) -> np.ndarray:
        """The samples that take part in a decision at the kinks `there`: those with inputs in the span of
        these, and all other attracting kinks that are touched.
        """
        touching = self._touching(neuron, 10.0)
        attracting = touching[sign * self._line_pulls(r)[touching] < 0]
        with_them = in_span(self._touching(neuron, FAR), there, self.region.x)
        every = np.unique(np.concatenate([there, attracting, with_them])).astype(int)
        return self._whole_lines(every[self.region.lengths[every] > 0])

    def _lines_among(self, samples: np.ndarray) -> int:
        """How many kinks these samples have: those on one line have one."""
        lines = self.region.lines
        if lines is None:
            return len(samples)
        return len({int(np.flatnonzero(lines[sample])[0]) for sample in samples})

    def _whole_lines(self, at_kink: np.ndarray) -> np.ndarray:
        """With each sample all on its line, however rounding may see their inputs."""
        lines = self.region.lines
        return at_kink if lines is None else np.flatnonzero(lines[at_kink].any(axis=0))

    # Pulls and signs

    def _pulls(self) -> np.ndarray:
        return self.clock.pulls(self.motion)

    def _line_pulls(self, r: np.ndarray) -> np.ndarray:
        """The pulls of the samples, taken together along each line."""
        lines = self.region.lines
        return r if lines is None else np.asarray(np.abs(lines) @ r)

    def _sign(self, neuron: int, r: np.ndarray) -> float:
        """The sign of the output weight, or if it is zero the sign that it takes next."""
        a = self.motion.second[neuron]
        if a == 0 and self.motion.trains_second:
            a = (r * self.region.slopes[neuron]) @ self.motion.z[neuron]
        return float(np.sign(a))
