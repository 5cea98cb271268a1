"""The walk of a flow from region to region: one collocation step at a time, cut at the first event."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankfall.dynamics.bilinear import BilinearMotion
from rankfall.dynamics.collocation import STAGES, at, first_exit
from rankfall.dynamics.kinks import Decision, decide_lines, in_span
from rankfall.dynamics.pull import Pull
from rankfall.dynamics.regions import Region, Weights
from rankfall.dynamics.step import Hit, Motion, Piece, collocate, reach_of

TOUCH = 1e-13  # relative to |x_i| |w_j|: a pre-activation this close to zero is at its kink
FAR = 1e4  # how far, in units of TOUCH, a neuron is moved to be at its kinks exactly
SHARP = 1e-9  # of a step: how sharply the moment is found at which a neuron is free
STALLED = 100  # events of one neuron at one and the same time
FLAT = 1e-10  # the share of its pulls that moves a neuron at rest
GONE = 1e-150  # the share of a sample that pulls no more: its margin is larger than others by 345
ROUNDING = 1e-15  # of a sum, relative to its terms
NOISE = 1e-6  # the most that rounding may add to the pulls
LOST = 10.0  # times its rounding: a sum of pulls that is smaller is none
GROWTH = 4.0  # of the step size, at the most


@dataclass(frozen=True)
class Watched:
    """Paths (one a row, on `GRID`) that are an event when they fall below minus their slack."""

    paths: np.ndarray
    slack: np.ndarray
    neurons: np.ndarray
    samples: np.ndarray
    kind: str


class Stalled(Exception):
    """The walk cannot go on: one neuron switches again and again, or no step is short enough."""


class AtRest(Stalled):
    """The pulls balance each other so well that the next step would be nothing but rounding."""


@dataclass(frozen=True)
class Event:
    """A pair of neuron and sample crosses its kink, sticks to it, or is released from it.

    `side` is where it goes: 1 above, -1 below, 0 if it sticks. `clock` is the walk's own.
    """

    clock: float
    log_time: float
    neuron: int
    sample: int
    kind: str
    side: int


@dataclass(frozen=True)
class Fork:
    """A point from which several solutions leave: a neuron at kinks of these samples.

    `slopes` are those of the solution that is followed, on all samples, and `others` those of the other
    solutions; `complete`: there are no more than these.
    """

    clock: float
    log_time: float
    neuron: int
    samples: tuple[int, ...]
    slopes: np.ndarray
    others: tuple[np.ndarray, ...]
    complete: bool


def first_zero(z: np.ndarray, v: np.ndarray, least: np.ndarray) -> float:
    """A little beyond where the first of z + v t is zero, of those that are not at zero now."""
    with np.errstate(all="ignore"):
        times = np.where((z * v < 0) & (np.abs(z) > least), -z / v, np.inf)
    return float(times.min(initial=np.inf)) * 1.25


class Walk:
    """A flow under way: where it is (`weights`, `region`, `clock`), and `advance` to take one step.

    The clock is s (exponential and logistic loss, with log t beside it) or t (square loss, with s beside it).
    At a point from which several solutions leave (`forks`) the first is followed, or the one that `choices`
    names for this fork.
    """

    def __init__(
        self,
        x: np.ndarray,
        lines: np.ndarray | None,
        pull: Pull,
        slope: float,
        start: Weights,
        trains: tuple[bool, bool],
        rtol: float,
        choices: tuple[int, ...] = (),
    ):
        self.choices = choices
        self.pull, self.weights, self.rtol = pull, start, rtol
        self.train_second, self.train_bias = trains
        self.clock, self.log_time, self.gathered_loss = 0.0, -np.inf, 0.0
        self.steps = 0
        self.evaluations = 0.0  # in gradients of all samples and neurons: two products of the size of W X
        self.events: list[Event] = []
        self.lengths = np.linalg.norm(x, axis=1)
        self.sizes = np.linalg.norm(start.w, axis=1)  # of the rows, or of the terms that cancelled in them
        z = start.w @ x.T
        side = np.where(np.abs(z) <= self._touch(self.sizes), 0, np.sign(z))
        self.region = Region(x, slope, side, lines)
        self.forks: list[Fork] = []
        self._pinned: dict[int, np.ndarray] = {}  # neurons held where repelling kinks meet, and those kinks
        self._next, self._calm = np.inf, 0.0
        self._stall = (-1, -1.0, 0)
        if slope < 1:
            for neuron in np.flatnonzero((side == 0).any(axis=1)):
                self._begin(int(neuron), np.flatnonzero(side[neuron] == 0))
        else:
            self.region.side[:] = 1
        self.events.clear()

    # Where it is

    @property
    def weights(self) -> Weights:
        """The weights now."""
        return self._weights

    @weights.setter
    def weights(self, weights: Weights) -> None:
        self._weights = weights
        self._z: np.ndarray | None = None

    @property
    def z(self) -> np.ndarray:
        """The pre-activations (m, n); those at the kink are zero."""
        z = self._z
        if z is None:
            z = self.weights.w @ self.region.x.T
            z[self.region.side == 0] = 0.0
            self._z = z
        return z

    @property
    def outputs(self) -> np.ndarray:
        """f on the samples."""
        return self.weights.a @ (self.region.slopes * self.z) + self.weights.c

    def outputs_of(self, weights: Weights) -> np.ndarray:
        """f on the samples for other weights, by the forward pass."""
        z = weights.w @ self.region.x.T
        return weights.a @ np.where(z > 0, z, self.region.slope * z) + weights.c

    def present_pulls(self) -> np.ndarray:
        """The pulls r of the samples."""
        return self.pull(self.outputs)

    def at_rest(self) -> bool:
        """Are the pulls of every neuron balanced, or gone, so that nothing moves any more?"""
        r = self.present_pulls()
        u = self.region.pulls(np.where(np.abs(r) > GONE * np.abs(r).max(), r, 0.0))
        moves = np.full(len(u), True) if self.train_second else self.second != 0
        left, all_of_it = np.linalg.norm(u @ self.region.x, axis=1), np.abs(u) @ self.lengths
        return bool((left <= FLAT * all_of_it)[moves].all())

    def log_loss(self, outputs: np.ndarray) -> np.ndarray:
        """The logarithm of the loss."""
        return self.pull.log_loss(outputs)

    def _touch(self, sizes: np.ndarray) -> np.ndarray:
        return TOUCH * sizes[:, None] * self.lengths

    # One step

    def step(self, most: float = np.inf) -> Piece:
        """The next step, of at most `most` in the walk's clock, up to its first event. `take` goes there."""
        f, r = self.outputs, self.present_pulls()
        if np.isinf(self._next):
            self._next = self._natural(r)
        u = self.region.pulls(r)
        longest = self._longest(u, min(self._next, most))
        step = min(longest, max(self._guess_step(u, longest), GROWTH * self._calm))
        while True:
            motion = self._motion(f, step)
            with np.errstate(all="ignore"):  # a step that is too long may overflow, and is then shortened
                solved = self._solve(motion, f, r)
            if solved is None:
                step /= 4
                if step < np.finfo(float).tiny:
                    raise Stalled("no step is short enough")
                continue
            outputs, pulls = solved
            noise = min(ROUNDING * (np.abs(f).max() + reach_of(motion, r)), NOISE)
            rough = motion.unresolved(pulls, self.pull.rounding(f) / self.rtol) / max(self.rtol, noise)
            if rough <= 1 or step < 1e-14 * abs(self.clock):
                break
            step *= max(0.1, 0.8 * rough ** (-1 / STAGES))
        whole = np.concatenate([f[None], outputs])
        theta, hits = self._first_event(motion, whole, np.concatenate([r[None], pulls]))
        piece = Piece(
            clock=self.clock,
            step=step,
            cut=theta,
            hits=tuple(hits),
            other=self.log_time if self.pull.normalised else self.gathered_loss,
            motion=motion,
            outputs=whole,
            log_loss=self.log_loss(whole),
            normalised=self.pull.normalised,
        )
        grown = float(step) * min(GROWTH, 0.8 * float(max(rough, 1e-30)) ** (-1 / STAGES))
        self._next = max(grown, self._next) if step < self._next else grown
        self._calm = 0.0 if hits else float(step)  # after a step without event, the next may be longer
        return piece

    def _longest(self, u: np.ndarray, wanted: float) -> float:
        """The longest step, up to the one `wanted`, in which the rounding of pulls u that cancel stays within
        the tolerance.
        """
        a, size = np.abs(self.second), self.largest
        rounding, moves = ROUNDING * (np.abs(u) @ self.lengths), np.linalg.norm(u @ self.region.x, axis=1)
        error, way = float((a * rounding).max()), float((a * moves).max())
        if error <= self.rtol * way or not size > 0:
            return wanted
        longest = self.rtol * size / (error - self.rtol * way)
        if wanted > longest and (moves <= LOST * rounding)[(a > 0) | self.train_second].all():
            raise AtRest("at rest: the pulls balance each other, and what is left of them is rounding")
        return min(wanted, longest)

    def _guess_step(self, u: np.ndarray, longest: float) -> float:
        """A little beyond the first crossing, if velocities stayed as they are."""
        region, weights = self.region, self.weights
        if region.slope == 1:
            return longest
        self.evaluations += 1.0
        v = weights.a[:, None] * ((u @ region.x) @ region.x.T)
        return first_zero(self.z, v, 10 * self._touch(self.sizes))

    def _natural(self, r: np.ndarray) -> float:
        """A first step: outputs move by a tenth, or neurons by a tenth of their length."""
        motion = self._motion(self.outputs, 1.0)
        rate = np.abs(motion.kernel @ r).max()
        if self.train_second:
            rate = max(rate, np.abs(r) @ self.lengths)
        return 0.1 / rate if rate > 1e-300 else 1.0

    def _motion(self, f: np.ndarray, step: float) -> Motion:
        return BilinearMotion(self.region, self.weights, f, step, self.train_bias)

    def _solve(self, motion: Motion, f: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The outputs and pulls at the nodes; None if the step is too long."""
        solved, sweeps = collocate(motion, self.pull, f, r)
        self.evaluations += sweeps * motion.sweep_cost
        return solved

    def log_gradient(self, piece: Piece, theta: float) -> float:
        """The logarithm of the gradient norm of the loss within the next step."""
        weights = piece.weights(theta)
        r = self.pull(at(theta) @ piece.outputs)
        g = self.region.pulls(r) @ self.region.x
        squares = ((weights.a[:, None] * g) ** 2).sum()
        if self.train_second:
            squares += ((weights.w * g).sum(axis=1) ** 2).sum() + self.train_bias * r.sum() ** 2
        with np.errstate(divide="ignore"):
            norm = float(np.log(squares)) / 2
        return norm + (piece.log_loss_at(theta) if self.pull.normalised else 0.0)

    # Events

    def _first_event(self, motion: Motion, f: np.ndarray, r: np.ndarray) -> tuple[float, list[Hit]]:
        """The part of the step before the first event, and the events (neuron, sample, what) there."""
        first = 1.0
        found: list[Hit] = []
        for watched in self._watched(motion, f, r):
            hit = first_exit(watched.paths, watched.slack)
            if hit is None or hit[0] > first:
                continue
            events = [(int(watched.neurons[i]), int(watched.samples[i]), watched.kind) for i in hit[1]]
            found = events if hit[0] < first - 1e-13 else found + events
            first = min(first, hit[0])
        free = self._becomes_free(f, first) if self._pinned else []
        if free:
            low, found = 0.0, free
            while first - low > SHARP:
                middle = (low + first) / 2
                free = self._becomes_free(f, middle)
                low, first, found = (low, middle, free) if free else (middle, first, found)
        return first, found

    def _watched(self, motion: Motion, f: np.ndarray, r: np.ndarray) -> Iterator[Watched]:
        """What must not become negative within a step, given outputs f and pulls r on `GRID`."""
        if self.region.slope == 1:
            return
        yield self._approaching(motion)
        neurons, samples = self._loose(r)
        if len(neurons):
            some, place = np.unique(neurons, return_inverse=True)
            pulls, ups, sizes = self.region.by_line(self.region.pulls(r, some), r)
            u, rs, sizes = pulls[:, place, samples], ups[:, samples], sizes[:, samples]
            sign, slack = np.sign(rs[0]), TOUCH * sizes.max(axis=0)
            yield Watched(((u - self.region.slope * rs) * sign).T, slack, neurons, samples, "down")
            yield Watched(((rs - u) * sign).T, slack, neurons, samples, "up")
        second = motion.second_layer()
        if second is not None:
            sign = np.where(second[:, 0] != 0, np.sign(second[:, 0]), np.sign(second[:, 1]))
            moves = np.flatnonzero(sign)
            slack = TOUCH * np.abs(second[moves]).max(axis=1)
            none = np.full(len(moves), -1)
            yield Watched(second[moves] * sign[moves, None], slack, moves, none, "sign")

    def _approaching(self, motion: Motion) -> Watched:
        """The pre-activations that may reach their kinks within a step."""
        neurons, samples, paths = motion.preactivations(self.z)
        side = self.region.side[neurons, samples].astype(float)
        touch = TOUCH * motion.sizes()[neurons] * self.lengths[samples]
        return Watched(paths * side[:, None], touch, neurons, samples, "hit")

    def _loose(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pairs held whose slope may leave [alpha, 1] within a step with pulls r on `GRID`."""
        neurons, samples = np.nonzero(self.region.held)
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.abs(r / r[0] - 1).max()
        if not change < 0.5:
            return neurons, samples
        slack = self.region.loosest(r[0], neurons, samples)
        loose = ~(slack > 2 * change / (1 - change) * np.abs(r[0]).max())
        if self.region.lines is not None:  # pulls on one line may cancel
            loose |= ((self.region.lines != 0).sum(axis=1) > 1)[samples]
        return neurons[loose], samples[loose]

    def take(self, piece: Piece, theta: float | None = None) -> None:
        """Go to the end of a step and decide what the neurons there do; or go to `theta` before its end."""
        theta = piece.cut if theta is None else theta
        other = piece.other_clock(theta)
        self._land(piece, theta)
        self.clock = piece.clock + theta * piece.step
        if self.pull.normalised:
            self.log_time = other
        else:
            self.gathered_loss = other
            self.log_time = float(np.log(self.clock)) if self.clock > 0 else -np.inf
        self.steps += 1
        if theta == piece.cut:
            for neuron in dict.fromkeys(j for j, _, _ in piece.hits if j >= 0):
                self._event(neuron, [(s, kind) for j, s, kind in piece.hits if j == neuron])

    def _land(self, piece: Piece, theta: float) -> None:
        weights, terms = piece.weights(theta), piece.motion.sizes()
        own = np.linalg.norm(weights.w, axis=1)
        weights.w[own <= ROUNDING * terms] = 0.0
        self.sizes = np.maximum(own, ROUNDING / TOUCH * terms)
        self.weights = weights
        self.evaluations += 1.0

    def advance(self, most: float = np.inf) -> Piece:
        """Make a step and take it."""
        piece = self.step(most)
        self.take(piece)
        return piece

    def _event(self, neuron: int, what: list[tuple[int, str]]) -> None:
        last, when, count = self._stall
        same = last == neuron and abs(self.clock - when) <= 1e-14 * abs(self.clock)
        self._stall = (neuron, self.clock, count + 1 if same else 0)
        if self._stall[2] > STALLED:
            raise Stalled(f"neuron {neuron} switches again and again at its kinks")
        region = self.region
        coming: dict[int, int] = {}
        for sample, kind in what:
            if kind == "hit":
                coming[sample] = -int(region.side[neuron, sample])
            elif kind in ("up", "down"):
                coming[sample] = 1 if kind == "up" else -1
        for sample, side in list(coming.items()):  # inputs on one line go together
            coming |= {other: side * sign for other, sign in region.mates(sample)}
        left = [mate for sample, kind in what if kind in ("up", "down") for mate, _ in region.mates(sample)]
        freed = any(kind == "free" for _, kind in what)
        self._settle(neuron, coming, left, freed)

    def _touching(self, neuron: int, units: float) -> np.ndarray:
        """The samples that are at their kinks up to so many units of rounding."""
        near = np.abs(self.z[neuron]) <= units * TOUCH * self.sizes[neuron] * self.lengths
        return np.flatnonzero((near | (self.region.side[neuron] == 0)) & (self.lengths > 0))

    def _begin(self, neuron: int, at_kink: np.ndarray) -> None:
        """A neuron that begins at kinks goes where the first step of descent goes, with slope alpha at 0."""
        region, r = self.region, self.present_pulls()
        at_kink = self._whole_lines(at_kink[self.lengths[at_kink] > 0])
        slopes = region.slopes[neuron].copy()
        slopes[at_kink] = region.slope
        if region.lines is not None:  # of opposite inputs the one is above where the other is below
            slopes[at_kink[(np.tril(region.lines)[at_kink] < 0).any(axis=1)]] = 1.0
        sign = self._sign(neuron, r)
        velocity = sign * (region.x @ ((slopes * r) @ region.x))
        moves = bool((np.abs(velocity) > TOUCH * self.lengths * (np.abs(r) @ self.lengths)).any())
        if moves:
            slopes[at_kink] = np.where(velocity[at_kink] > 0, 1.0, region.slope)
        decision = Decision(slopes)
        if sign and len(at_kink):
            decision = decide_lines(
                at_kink, slopes, region.x, r, sign, region.slope, region.lines, comes=False
            )
            solutions = (decision.slopes, *decision.others)
            own = [k for k, found in enumerate(solutions) if (found[at_kink] == slopes[at_kink]).all()]
            if moves and own:  # of several solutions that of descent
                rest = (*solutions[: own[0]], *solutions[own[0] + 1 :])
                decision = Decision(solutions[own[0]], rest, decision.complete)
            if not moves:  # descent does not move it, though other solutions leave
                other = (decision.slopes, *decision.others) if decision.moves else decision.others
                decision = Decision(slopes, other, decision.complete)
        self._place(neuron, at_kink, decision, region.side[neuron].copy())

    def _settle(self, neuron: int, coming: dict[int, int], left: list[int], freed: bool) -> None:
        """Decide what a neuron does at its kinks.

        `coming` tells the side to which a sample comes: it crosses there, or it was released there (`left`).
        Attracting kinks that are touched take part. Repelling ones take part where the neuron comes to them,
        or where they are at zero with those that are held; others have a side.
        """
        region, r = self.region, self.present_pulls()
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
            decision = decide_lines(
                at_kink, slopes, region.x, r, sign, region.slope, region.lines, comes=alone
            )
        self._place(neuron, at_kink, decision, before)

    def _lines_among(self, samples: np.ndarray) -> int:
        """How many kinks these samples have: those on one line have one."""
        lines = self.region.lines
        if lines is None:
            return len(samples)
        return len({int(np.flatnonzero(lines[sample])[0]) for sample in samples})

    def _at_kink(self, neuron: int, there: np.ndarray, sign: float, r: np.ndarray) -> np.ndarray:
        """The samples that take part in a decision at the kinks `there`: those with inputs in the span of
        these, and all other attracting kinks that are touched.
        """
        touching = self._touching(neuron, 10.0)
        attracting = touching[sign * self._line_pulls(r)[touching] < 0]
        with_them = in_span(self._touching(neuron, FAR), there, self.region.x)
        every = np.unique(np.concatenate([there, attracting, with_them])).astype(int)
        return self._whole_lines(every[self.lengths[every] > 0])

    def _whole_lines(self, at_kink: np.ndarray) -> np.ndarray:
        """With each sample all on its line, however rounding may see their inputs."""
        lines = self.region.lines
        return at_kink if lines is None else np.flatnonzero(lines[at_kink].any(axis=0))

    def _line_pulls(self, r: np.ndarray) -> np.ndarray:
        """The pulls of the samples, taken together along each line."""
        lines = self.region.lines
        return r if lines is None else np.asarray(np.abs(lines) @ r)

    def _place(self, neuron: int, at_kink: np.ndarray, decision: Decision, before: np.ndarray) -> None:
        """Give a neuron the slopes that were decided, and log what changes."""
        region = self.region
        slopes = decision.slopes
        if not decision.unique:
            which = self.choices[len(self.forks)] if len(self.forks) < len(self.choices) else 0
            solutions = [decision.slopes, *decision.others]
            slopes = solutions.pop(which)
            samples = tuple(int(i) for i in at_kink)
            when = self.clock, self.log_time
            self.forks.append(Fork(*when, neuron, samples, slopes, tuple(solutions), decision.complete))
        region.place(neuron, at_kink, slopes)
        if len(at_kink):
            self._to_kinks(neuron, at_kink)
        self._pin(neuron, np.flatnonzero(region.held[neuron]))
        for changed in np.flatnonzero(region.side[neuron] != before).tolist():
            now = int(region.side[neuron, changed])
            kind = "stick" if now == 0 else "release" if before[changed] == 0 else "cross"
            self.events.append(Event(self.clock, self.log_time, neuron, changed, kind, now))

    def _pin(self, neuron: int, held: np.ndarray) -> None:
        """Remember the repelling kinks at which a neuron is held by others: it may become free there."""
        self._pinned.pop(neuron, None)
        if not len(held):
            return
        repels = self._sign(neuron, self.present_pulls()) * self._line_pulls(self.present_pulls()) > 0
        others = np.flatnonzero(repels & (self.lengths > 0) & ~self.region.held[neuron])
        others = in_span(others, held, self.region.x)
        if len(others):
            self._pinned[neuron] = others

    def _becomes_free(self, f: np.ndarray, theta: float) -> list[Hit]:
        """The pinned neurons that no longer rest where repelling kinks meet, at a place in a step."""
        region, r = self.region, self.pull(at(theta) @ f)
        found: list[Hit] = []
        for neuron, others in self._pinned.items():
            sign = self._sign(neuron, r)
            at_kink = self._at_kink(neuron, np.flatnonzero(region.held[neuron]), sign, r)
            slopes = np.where(region.side[neuron] > 0, 1.0, region.slope)
            decision = decide_lines(
                at_kink, slopes, region.x, r, sign, region.slope, region.lines, comes=False
            )
            if decision.moves:
                found.append((neuron, int(others[0]), "free"))
        return found

    @property
    def second(self) -> np.ndarray:
        """The second layer (m)."""
        return self.weights.a

    @property
    def largest(self) -> float:
        """The length of the longest row of the first layer."""
        return float(np.linalg.norm(self.weights.w, axis=1).max())

    def _to_kinks(self, neuron: int, samples: np.ndarray) -> None:
        """Take a neuron to the kinks of these samples; it was there up to rounding."""
        step = self._step_to_kinks(neuron, samples)
        self.weights.w[neuron] -= step @ self.region.x[samples]
        self.z[neuron] = self.region.x @ self.weights.w[neuron]
        self.z[neuron, samples] = 0.0

    def _step_to_kinks(self, neuron: int, samples: np.ndarray) -> np.ndarray:
        """How much of each input takes the neuron's pre-activations of these samples to zero.

        What rounding left of them is no larger than `TOUCH`. Nearly parallel inputs would make a large step
        of that: such a part is left out.
        """
        lengths = self.lengths[samples]
        unit = self.region.x[samples] / lengths[:, None]
        u, s, _ = np.linalg.svd(unit, full_matrices=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (u.T @ (self.z[neuron, samples] / lengths)) / s
        small = np.abs(parts) <= FAR * TOUCH * max(self.sizes[neuron], np.finfo(float).tiny)
        step = np.where(small, parts, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            back = np.where(small & (s > 0), step / s, 0.0)  # step = v^T parts = unit^T (u parts / s)
        return np.asarray((u @ back) / lengths)

    def _sign(self, neuron: int, r: np.ndarray) -> float:
        """The sign of the output weight, or if it is zero the sign that it takes next."""
        a = self.second[neuron]
        if a == 0 and self.train_second:
            a = (r * self.region.slopes[neuron]) @ self.z[neuron]
        return float(np.sign(a))
