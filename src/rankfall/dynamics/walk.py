"""The walk of a flow from region to region: one collocation step at a time, cut at the first event."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from rankfall.dynamics.collocation import INTEGRAL, STAGES, at, first_exit
from rankfall.dynamics.kinks import decide
from rankfall.dynamics.pull import Pull
from rankfall.dynamics.regions import AffineMotion, BilinearMotion, Region, Weights

Motion = AffineMotion | BilinearMotion

TOUCH = 1e-13  # relative to |x_i| |w_j|: a pre-activation this close to zero is at its kink
SWEEPS = 25  # of the iteration for one step
STIFF = 1.0  # steps longer than this, in units of the outputs' own time, take Newton's method
STALLED = 100  # events of one neuron at one and the same time
GROWTH = 4.0  # of the step size, at the most
_GAUSS = np.polynomial.legendre.leggauss(6)


Hit = tuple[int, int, str]  # neuron, sample, what


@dataclass(frozen=True)
class Watched:
    """Paths (one a row, on `GRID`) that are an event when they fall below minus their slack."""

    paths: np.ndarray
    slack: np.ndarray
    neurons: np.ndarray
    samples: np.ndarray
    kind: str


class Stalled(Exception):
    """One neuron switches again and again without time going on."""


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
class Piece:
    """A step that was taken, as far as it was kept: from `clock` on, `length` long, theta in [0, cut]."""

    clock: float
    step: float
    cut: float
    hits: tuple[Hit, ...]  # the events at its end: neuron, sample, what
    other: float  # the other clock at its start: log t where the walk's is s, the integral of L where it is t
    motion: Motion
    outputs: np.ndarray  # on GRID
    log_loss: np.ndarray  # on GRID
    normalised: bool

    def weights(self, theta: float) -> Weights:
        """The weights within the step."""
        return self.motion.weights(theta)

    def log_loss_at(self, theta: float) -> float:
        """The logarithm of the loss within the step."""
        return float(at(theta) @ self.log_loss)

    def other_clock(self, theta: float) -> float:
        """log t where the walk's clock is s; s where it is t."""
        log_rate = -self.log_loss if self.normalised else self.log_loss
        if theta <= 0 or not np.isfinite(log_rate).all():  # no time passes, or the loss is exactly zero
            return self.other
        parts = 1 + int(np.ptp(log_rate))
        nodes, weights = _GAUSS
        edges = np.linspace(0.0, theta, parts + 1)
        places = (edges[:-1, None] + (nodes + 1) / 2 * (theta / parts)).ravel()
        exponents = at(places) @ log_rate + np.log(np.tile(weights, parts))
        log_gain = np.log(theta / parts / 2 * self.step) + np.logaddexp.reduce(exponents)
        return float(np.logaddexp(self.other, log_gain) if self.normalised else self.other + np.exp(log_gain))


class Walk:
    """A flow under way: where it is (`weights`, `region`, `clock`), and `advance` to take one step.

    The clock is s (exponential and logistic loss, with log t beside it) or t (square loss, with s beside it).
    """

    def __init__(
        self, x: np.ndarray, pull: Pull, slope: float, start: Weights, trains: tuple[bool, bool], rtol: float
    ):
        self.pull, self.weights, self.rtol = pull, start, rtol
        self.train_second, self.train_bias = trains
        self.clock, self.log_time, self.gathered_loss = 0.0, -np.inf, 0.0
        self.steps = self.evaluations = 0
        self.events: list[Event] = []
        self.lengths = np.linalg.norm(x, axis=1)
        z = start.w @ x.T
        side = np.where(np.abs(z) <= self._touch(np.linalg.norm(start.w, axis=1)), 0, np.sign(z))
        self.region = Region(x, slope, side)
        self._kernel: np.ndarray | None = None
        self._kernel_age = 0
        self._next, self._calm = np.inf, 0.0
        self._stall = (-1, -1.0, 0)
        if slope < 1:
            for neuron in np.flatnonzero((side == 0).any(axis=1)):
                self._settle(int(neuron), np.flatnonzero(side[neuron] == 0), {})
        else:
            self.region.side[:] = 1
        self.events.clear()

    # Where it is

    @property
    def z(self) -> np.ndarray:
        """The pre-activations (m, n); those at the kink are zero."""
        z = self.weights.w @ self.region.x.T
        z[self.region.side == 0] = 0.0
        return z

    @property
    def outputs(self) -> np.ndarray:
        """f on the samples."""
        return self.weights.a @ (self.region.slopes * self.z) + self.weights.c

    def outputs_of(self, weights: Weights) -> np.ndarray:
        """f on the samples for other weights, by the forward pass."""
        z = weights.w @ self.region.x.T
        return weights.a @ np.where(z > 0, z, self.region.slope * z) + weights.c

    @property
    def kernel(self) -> np.ndarray:
        """K with the second layer fixed: kept up to date neuron by neuron, and now and then made anew."""
        if self._kernel is None or self._kernel_age > 200:
            self._kernel = self.region.kernel(self.weights.a)
            self._kernel_age = 0
        return self._kernel

    def present_pulls(self) -> np.ndarray:
        """The pulls r of the samples."""
        return self.pull(self.outputs)

    def log_loss(self, outputs: np.ndarray) -> np.ndarray:
        """The logarithm of the loss."""
        return self.pull.log_loss(outputs)

    def _touch(self, sizes: np.ndarray) -> np.ndarray:
        return TOUCH * sizes[:, None] * self.lengths

    # One step

    def step(self, most: float = np.inf) -> Piece:
        """The next step, of at most `most` in the walk's clock, up to its first event. `take` goes there."""
        f, z = self.outputs, self.z
        r = self.present_pulls()
        step = min(self._next, most, max(self._guess_step(r, z), GROWTH * self._calm))
        while True:
            motion = self._motion(f, step)
            with np.errstate(all="ignore"):  # a step that is too long may overflow, and is then shortened
                solved = self._solve(motion, f, r)
            if solved is None:
                step /= 4
                continue
            outputs, pulls = solved
            rough = motion.unresolved(pulls, self.pull.rounding(f) / self.rtol) / self.rtol
            if rough <= 1 or step < 1e-14 * abs(self.clock):
                break
            step *= max(0.1, 0.8 * rough ** (-1 / STAGES))
        whole = np.concatenate([f[None], outputs])
        theta, hits = self._first_event(motion, z, whole, np.concatenate([r[None], pulls]))
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
        grown = step * min(GROWTH, 0.8 * max(rough, 1e-30) ** (-1 / STAGES))
        self._next = max(grown, self._next) if step < self._next else grown
        self._calm = 0.0 if hits else step  # after a step without event, the next may be longer
        return piece

    def _guess_step(self, r: np.ndarray, z: np.ndarray) -> float:
        """A little beyond the first crossing, if velocities stayed as they are."""
        region = self.region
        if region.slope == 1:
            return np.inf if np.isfinite(self._next) else self._natural(r)
        v = self.weights.a[:, None] * ((region.pulls(r) @ region.x) @ region.x.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.abs(z) > 10 * self._touch(np.linalg.norm(self.weights.w, axis=1))
            times = np.where((z * v < 0) & away, -z / v, np.inf)
        first = float(times.min()) * 1.25
        return first if np.isfinite(self._next) else min(first, self._natural(r))

    def _natural(self, r: np.ndarray) -> float:
        """A first step: outputs move by a tenth, or neurons by a tenth of their length."""
        motion = self._motion(self.outputs, 1.0)
        rate = np.abs(motion.kernel @ r).max()
        if self.train_second:
            rate = max(rate, np.abs(r) @ self.lengths)
        return 0.1 / rate if rate > 0 else 1.0

    def _motion(self, f: np.ndarray, step: float) -> Motion:
        if self.train_second:
            return BilinearMotion(self.region, self.weights, f, step, self.train_bias)
        return AffineMotion(self.region, self.weights, self.kernel, f, step)

    def _solve(
        self, motion: Motion, f0: np.ndarray, r0: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The outputs and pulls at the nodes that solve the collocation equations; None if they are too far."""
        f = motion.guess(r0)
        stiff = motion.step * float((np.abs(motion.kernel) @ np.abs(r0)).max()) > STIFF
        factors = self._factors(motion, f) if stiff else None
        last = np.inf
        small = 1e-15 * (1 + np.abs(f0).max())
        for sweep in range(SWEEPS):
            self.evaluations += 1
            change = motion.respond(self.pull(f)) - f
            size = float(np.abs(change).max())
            if not np.isfinite(size):
                return None
            if size <= 100 * small and (motion.change < 1e-13):
                return f + change, self.pull(f + change)
            if size > 0.5 * last and sweep > 1:
                if size <= 1e4 * small and motion.change < 1e-11:  # no further by rounding
                    return f + change, self.pull(f + change)
                if factors is not None and size > 0.9 * last:
                    return None
                factors = self._factors(motion, f)
            last = size
            f = f + (change if factors is None else lu_solve(factors, change.ravel()).reshape(f.shape))
        return None

    def _factors(self, motion: Motion, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The matrix of Newton's method for the outputs: I - h A (x) K dr/df."""
        n = f.shape[1]
        response = motion.kernel @ self.pull.jacobian(f)  # (nodes, n, n)
        matrix = -motion.step * np.einsum("kl,lij->kilj", INTEGRAL, response).reshape(STAGES * n, STAGES * n)
        matrix[np.diag_indices(STAGES * n)] += 1.0
        return lu_factor(matrix)

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

    def _first_event(
        self, motion: Motion, z: np.ndarray, f: np.ndarray, r: np.ndarray
    ) -> tuple[float, list[Hit]]:
        """The part of the step before the first event, and the events (neuron, sample, what) there."""
        first, found = 1.0, []
        for watched in self._watched(motion, z, f, r):
            hit = first_exit(watched.paths, watched.slack)
            if hit is None or hit[0] > first:
                continue
            events = [(int(watched.neurons[i]), int(watched.samples[i]), watched.kind) for i in hit[1]]
            found = events if hit[0] < first - 1e-13 else found + events
            first = min(first, hit[0])
        return first, found

    def _watched(self, motion: Motion, z: np.ndarray, f: np.ndarray, r: np.ndarray) -> Iterator[Watched]:
        """What must not become negative within a step, given outputs f and pulls r on `GRID`."""
        if self.region.slope == 1:
            return
        neurons, samples, paths = motion.preactivations(z)
        side = self.region.side[neurons, samples].astype(float)
        touch = TOUCH * motion.sizes()[neurons] * self.lengths[samples]
        yield Watched(paths * side[:, None], touch, neurons, samples, "hit")
        neurons, samples = np.nonzero(self.region.held)
        if len(neurons):
            u, rs = self.region.pulls(r)[:, neurons, samples], r[:, samples]
            sign, slack = np.sign(rs[0]), TOUCH * np.abs(rs).max(axis=0)
            yield Watched(((u - self.region.slope * rs) * sign).T, slack, neurons, samples, "down")
            yield Watched(((rs - u) * sign).T, slack, neurons, samples, "up")
        second = motion.second_layer()
        if second is not None:
            sign = np.where(second[:, 0] != 0, np.sign(second[:, 0]), np.sign(second[:, 1]))
            moves = np.flatnonzero(sign)
            slack = TOUCH * np.abs(second[moves]).max(axis=1)
            none = np.full(len(moves), -1)
            yield Watched(second[moves] * sign[moves, None], slack, moves, none, "sign")

    def take(self, piece: Piece, theta: float | None = None) -> None:
        """Go to the end of a step and decide what the neurons there do; or only to `theta`, before its end."""
        theta = piece.cut if theta is None else theta
        other = piece.other_clock(theta)
        self.weights = piece.weights(theta)
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
        at_kink = np.flatnonzero(region.side[neuron] == 0)
        coming: dict[int, int] = {}
        for sample, kind in what:
            if kind == "hit":
                at_kink = np.union1d(at_kink, [sample])
                coming[sample] = -int(region.side[neuron, sample])
            elif kind != "sign":
                at_kink = np.setdiff1d(at_kink, [sample])
                coming[sample] = 1 if kind == "up" else -1
        self._settle(neuron, at_kink, coming)

    def _settle(self, neuron: int, at_kink: np.ndarray, coming: dict[int, int]) -> None:
        """Decide what a neuron does at its kinks, and log what changes.

        `coming` tells the side to which a sample comes: it crosses there, or it was released there.
        """
        region, weights = self.region, self.weights
        a = float(weights.a[neuron])
        before = region.side[neuron].copy()
        old = None if self._kernel is None else region.kernel_of(neuron, a)
        r = self.present_pulls()
        slopes = region.slopes[neuron].copy()
        slopes[before == 0] = region.slope
        for sample, side in coming.items():
            slopes[sample] = 1.0 if side > 0 else region.slope
            region.side[neuron, sample] = side
        at_kink = at_kink[self.lengths[at_kink] > 0]
        sign = self._sign(neuron, r)
        if len(at_kink) and sign:
            slopes = decide(at_kink, slopes, region.x, r, sign, region.slope)
        region.place(neuron, at_kink, slopes)
        touching = np.union1d(at_kink, list(coming)).astype(int)
        if len(touching):  # to the kinks exactly
            rows = region.x[touching]
            w = weights.w[neuron]
            weights.w[neuron] = w - np.linalg.lstsq(rows, rows @ w, rcond=1e-10)[0]
        if old is not None:
            self._kernel = self._kernel - old + region.kernel_of(neuron, a)
            self._kernel_age += 1
        for sample in np.flatnonzero(region.side[neuron] != before):
            now = int(region.side[neuron, sample])
            kind = "stick" if now == 0 else "release" if before[sample] == 0 else "cross"
            self.events.append(Event(self.clock, self.log_time, neuron, int(sample), kind, now))

    def _sign(self, neuron: int, r: np.ndarray) -> float:
        """The sign of the output weight, or if it is zero the sign that it takes next."""
        a = self.weights.a[neuron]
        if a == 0 and self.train_second:
            a = (r * self.region.slopes[neuron]) @ self.z[neuron]
        return float(np.sign(a))
