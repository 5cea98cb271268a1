"""The walk of a flow from region to region: one collocation step at a time, cut at the first event."""

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from rankfall.dynamics.exact._clock import Clock, LossClock, TimeClock
from rankfall.dynamics.exact._collocation import STAGES, at
from rankfall.dynamics.exact._events import AtRest, Hit, Stalled, Why
from rankfall.dynamics.exact._motion import ROUNDING, Motion, Path
from rankfall.dynamics.exact._pull import Pull, Walled
from rankfall.dynamics.exact._regions import Region, Weights
from rankfall.dynamics.exact._step import Piece, Solved, reach_of
from rankfall.dynamics.exact._switching import Switching
from rankfall.dynamics.exact._watch import at_kinks, first_event

if TYPE_CHECKING:
    from rankfall.dynamics.exact._forward import Forward

SHARP = 1e-9  # of a step: how sharply the moment is found at which a neuron is free
FLAT = 1e-10  # the share of its pulls that moves a neuron at rest
GONE = 1e-150  # the share of a sample that pulls no more: its margin is larger than others by 345
NOISE = 1e-6  # the most that rounding may add to the pulls
LOST = 10.0  # times its rounding: a sum of pulls that is smaller is none
GROWTH = 4.0  # of the step size, at the most
FIRST = 20  # steps before the compiled twin is loaded: some walks are shorter
PATIENCE, LONGEST = 12, 400  # short steps without event after which long ones are tried, at first and later
WITH_PINNED = 10  # short steps after which neurons that are held where repelling kinks meet are looked at
TRIALS, WORTH = 4, 8.0  # how many long steps are tried, and how much longer they must be,
GROWS = 1.1  # or become from one to the next


class Strides:
    """Whether long steps are taken, by collocation, or short ones by the compiled twin, and how long for.

    Collocation is worth its cost where the flow is stiff: where steps without event could be longer than a
    Taylor series allows. Where it turns out that they could not, it is tried again later and later.
    """

    def __init__(self) -> None:
        self.long, self.patience = False, PATIENCE
        self._short, self._last, self._count, self._hits = 0.0, 0.0, 0, 0

    def begin(self, short: float) -> None:
        """Take long steps; Taylor series allowed `short` ones."""
        self.long = True
        self._short, self._last, self._count, self._hits = short, 0.0, 0, 0

    def taken(self, piece: Piece) -> None:
        """A long step was taken."""
        self._count += 1
        self._hits = self._hits + 1 if piece.hits else 0
        pays, grows = piece.step >= WORTH * self._short, piece.step >= GROWS * self._last
        self._last = piece.step
        if self._hits > 1 or (self._count >= TRIALS and not pays and not grows):
            self.long = False
            self.patience = PATIENCE if pays else min(2 * self.patience, LONGEST)


class Walk:
    """A flow under way: where it is, how it moves (`motion`), what time it is (`clock`), what has happened
    (`events`, `forks`); and `advance` to take one step.

    `begin` first, where neurons may be at their kinks at the start. `first` is the length of the first step,
    if it is known.
    """

    def __init__(
        self,
        motion: Motion,
        clock: Clock,
        rtol: float,
        choices: tuple[int, ...] = (),
        first: float = np.inf,
    ):
        self.motion, self.clock, self.rtol = motion, clock, rtol
        self.region, self.pull = motion.region, clock.pull
        self.switching = Switching(motion, clock, choices)
        self.events, self.forks = self.switching.events, self.switching.forks
        self.steps = 0
        self._next, self._calm = first, 0.0
        self._strides = Strides()
        self._twin: Forward | None = None
        self._twin_to_be: Forward | None = None
        plain = type(clock) in (LossClock, TimeClock) and type(self.pull) in (Pull, Walled)
        self._plain = plain and self.region.slope < 1 and not getattr(motion, "decay", 0.0)

    def begin(self) -> "Walk":
        """Let all neurons that begin at kinks take their sides."""
        self.switching.begin()
        return self

    def continued(self, motion: Motion, clock: Clock, rtol: float, first: float) -> "Walk":
        """Another walk from where this one is, by another motion and clock; it knows of the forks so far.

        This walk stays as it is if the motion has a region and weights of its own.
        """
        walk = Walk(motion, clock, rtol, self.switching.choices, first)
        walk.steps, motion.evaluations = self.steps, self.evaluations
        walk.events.extend(self.events)
        walk.forks.extend(self.forks)
        walk.switching.pinned.update(self.switching.pinned)
        return walk

    def jump(self, w: np.ndarray, region: Region) -> None:
        """Go to another first layer, with the kinks held there."""
        self.region.copy_kinks(region)
        self.motion.go_to(Weights(w, self.motion.second, self.motion.weights.c))
        self.motion.sizes = np.linalg.norm(w, axis=1)
        self._next, self._calm = np.inf, 0.0

    # Where it is

    @property
    def weights(self) -> Weights:
        """The weights now."""
        return self.motion.weights

    @property
    def z(self) -> np.ndarray:
        """The pre-activations (m, n); those at the kink are zero."""
        return self.motion.z

    @property
    def outputs(self) -> np.ndarray:
        """f on the samples."""
        return self.motion.outputs

    def outputs_of(self, weights: Weights) -> np.ndarray:
        """f on the samples for other weights, by the forward pass."""
        z = weights.w @ self.region.x.T
        return weights.a @ np.where(z > 0, z, self.region.slope * z) + weights.c

    def present_pulls(self) -> np.ndarray:
        """The pulls r of the samples."""
        return self.clock.pulls(self.motion)

    @property
    def evaluations(self) -> float:
        """The work so far, in gradients of all samples and neurons."""
        return self.motion.evaluations

    def at_rest(self) -> bool:
        """Are the pulls of every neuron balanced, or gone, so that nothing moves any more?"""
        motion, r = self.motion, self.present_pulls()
        u = self.region.pulls(np.where(np.abs(r) > GONE * np.abs(r).max(), r, 0.0))
        moves = np.full(len(u), True) if motion.trains_second else motion.second != 0
        left, all_of_it = np.linalg.norm(u @ self.region.x, axis=1), np.abs(u) @ self.region.lengths
        return bool((left <= FLAT * all_of_it)[moves].all())

    # Many steps

    @property
    def compiles(self) -> bool:
        """Is the compiled twin being loaded, or compiled for the first time?"""
        return self._twin is None and self._plain and self.steps >= FIRST

    def _loaded(self) -> "Forward | None":
        """The compiled twin, once its code is there."""
        from rankfall.dynamics.exact._forward import Forward  # loads numba

        self._twin_to_be = self._twin_to_be or Forward(self)
        return self._twin_to_be if self._twin_to_be.ready() else None

    @property
    def calm(self) -> bool:
        """Was the last step without event?"""
        return self._calm > 0

    def forward(
        self, steps: int, most: float = np.inf, log_loss: float = -np.inf, log_time: float = np.inf
    ) -> None:
        """Take `steps` steps, or up to the clock `most`: plain ones by the compiled twin, others here.

        It ends just before a step in which the logarithm of the loss or of time reaches these values, and
        right after one in which a neuron becomes active on a sample that is a wall.
        """
        end = self.steps + steps
        while self.steps < end and self.clock.now < most and not self._wakes():
            if self.compiles:
                self._twin = self._loaded()
            if self._twin is None or self._strides.long:
                if self._reaches(log_loss, log_time, most):
                    return
                continue
            pinned, left = self.switching.pinned, end - self.steps
            before = self._twin.snapshot() if pinned else None
            first = self._next if np.isfinite(self._next) else self._natural(self.present_pulls())
            started, left = self.clock.now, min(left, WITH_PINNED) if pinned else left
            why, hits, self._next = self._twin.go(
                left, most, first, log_loss, log_time, self._strides.patience, list(pinned)
            )
            if before is not None and self.switching.become_free_now():
                self._twin.restore(before)  # and find out here when
                self._next, self._calm = first, 0.0
                self._strides.begin(0.0)
                continue
            self._calm = self._next if self._twin.calm else 0.0
            if hits:
                self.switching.switch(hits)
            elif why is Why.STIFF:
                self._twin.state.clock[4] = 0.0
                self._strides.begin(self._next if self.clock.now > started else 0.0)
            elif why is Why.SIGN:
                if self._reaches(log_loss, log_time, most):
                    return
            elif why is Why.NEAR:
                return

    def _wakes(self) -> bool:
        """Is a neuron active on a sample that is a wall?"""
        return isinstance(self.pull, Walled) and bool((self.region.side[:, self.pull.dead] > 0).any())

    def _reaches(self, log_loss: float, log_time: float, most: float) -> bool:
        """Take a step here; not, and True, if the loss or the time is reached in it."""
        piece = self.step(most - self.clock.now)
        late = self.clock.log_time_at(piece, piece.cut) >= log_time
        if late or (np.isfinite(log_loss) and piece.log_loss_at(piece.cut) <= log_loss):
            return True
        self.take(piece)
        self._strides.taken(piece)
        return False

    # One step

    def advance(self, most: float = np.inf) -> Piece:
        """Make a step and take it."""
        piece = self.step(most)
        self.take(piece)
        return piece

    def step(self, most: float = np.inf) -> Piece:
        """The next step, of at most `most` in the walk's clock, up to its first event. `take` goes there."""
        f, r = self.outputs, self.present_pulls()
        if np.isinf(self._next):
            self._next = self._natural(r)
        u = self.region.pulls(r)
        step, velocities = self._longest(u, min(self._next, most)), np.zeros_like(u)
        if self.region.slope < 1:
            velocities = self.motion.moved(u)
            step = min(step, max(self._first_crossing(velocities), GROWTH * self._calm))
        path, (outputs, pulls), rough = self._resolved(f, r, velocities, step)
        whole = np.concatenate([f[None], outputs])
        cut, hits = self._first_event(path, whole, np.concatenate([r[None], pulls]))
        grown = path.step * min(GROWTH, 0.8 * float(max(rough, 1e-30)) ** (-1 / STAGES))
        self._next = max(grown, self._next) if path.step < self._next else grown
        self._calm = 0.0 if hits else path.step  # after a step without event, the next may be longer
        return Piece(self.clock.now, path.step, cut, tuple(hits), path, whole, self.pull)

    def take(self, piece: Piece, theta: float | None = None) -> None:
        """Go to the end of a step and decide what the neurons there do; or go to `theta` before its end."""
        theta = piece.cut if theta is None else theta
        hits = piece.hits if theta == piece.cut else ()
        piece.path.land(theta)
        self.clock.go(piece, theta)
        self.steps += 1
        self.switching.switch(hits)
        self.clock.arrive(self.motion, hits)

    def _resolved(
        self, f: np.ndarray, r: np.ndarray, velocities: np.ndarray, step: float
    ) -> tuple[Path, Solved, float]:
        """A step of this length, or shorter if polynomials do not resolve it.

        Returns its path, its outputs and pulls at the nodes, and what is unresolved, relative to what may be.
        """
        while True:
            path = self.motion.path(f, r, velocities, float(step))
            with np.errstate(all="ignore"):  # a step that is too long may overflow, and is then shortened
                solved, cost = self.clock.solve(path, f, r)
            self.motion.evaluations += cost
            if solved is None:
                step /= 4
                if step < np.finfo(float).tiny:
                    raise Stalled("no step is short enough")
                continue
            noise = min(ROUNDING * (np.abs(f).max() + reach_of(path, r)), NOISE)
            unresolved = path.unresolved(solved[1], self.pull.rounding(f) / self.rtol)
            rough = max(unresolved - noise, 0.0) / max(self.rtol, noise)  # shorter steps have the same noise
            if rough <= 1 or step < 1e-14 * abs(self.clock.now):
                return path, solved, rough
            step *= max(0.1, 0.8 * rough ** (-1 / STAGES))

    def _longest(self, u: np.ndarray, wanted: float) -> float:
        """The longest step, up to the one `wanted`, in which the rounding of pulls u that cancel stays within
        the tolerance.
        """
        motion, region = self.motion, self.region
        a, size = np.abs(motion.second), motion.largest
        rounding, moves = ROUNDING * (np.abs(u) @ region.lengths), np.linalg.norm(u @ region.x, axis=1)
        error, way = float((a * rounding).max()), float((a * moves).max())
        if error <= self.rtol * way or not size > 0:
            return wanted
        longest = self.rtol * size / (error - self.rtol * way)
        if wanted > longest and (moves <= LOST * rounding)[(a > 0) | motion.trains_second].all():
            raise AtRest("at rest: the pulls balance each other, and what is left of them is rounding")
        return min(wanted, longest)

    def _first_crossing(self, v: np.ndarray) -> float:
        """A little beyond the first crossing of a kink, if velocities stayed as they are."""
        z = self.z
        with np.errstate(all="ignore"):
            times = np.where((z * v < 0) & (np.abs(z) > 10 * self.motion.touch()), -z / v, np.inf)
        return float(times.min(initial=np.inf)) * 1.25

    def _natural(self, r: np.ndarray) -> float:
        """A first step: outputs move by a tenth, or neurons by a tenth of their length."""
        rate = np.abs(self.motion.kernel @ r).max()
        if self.motion.trains_second:
            rate = max(rate, np.abs(r) @ self.region.lengths)
        return 0.1 / rate if rate > 1e-300 else 1.0

    def _first_event(self, path: Path, f: np.ndarray, r: np.ndarray) -> tuple[float, list[Hit]]:
        """The part of a step before the first event, and the events there, given f and r on `GRID`."""
        first, found = first_event(chain(at_kinks(self.region, path, r), self.clock.watched(f, r)))
        free = self.switching.become_free(f, first) if self.switching.pinned else []
        if free:
            low, found = 0.0, free
            while first - low > SHARP:
                middle = (low + first) / 2
                free = self.switching.become_free(f, middle)
                low, first, found = (low, middle, free) if free else (middle, first, found)
        return first, found

    def log_gradient(self, piece: Piece, theta: float) -> float:
        """The logarithm of the gradient norm of the loss within the next step."""
        weights, motion = piece.weights(theta), self.motion
        r = self.pull(at(theta) @ piece.outputs)
        g = self.region.pulls(r) @ self.region.x
        squares = ((weights.a[:, None] * g) ** 2).sum()
        if motion.trains_second:
            squares += ((weights.w * g).sum(axis=1) ** 2).sum() + motion.trains_bias * r.sum() ** 2
        with np.errstate(divide="ignore"):
            norm = float(np.log(squares)) / 2
        return norm + (piece.log_loss_at(theta) if self.pull.normalised else 0.0)
