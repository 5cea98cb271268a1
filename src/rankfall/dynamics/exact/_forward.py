"""From a walk to its compiled twin and back: many plain steps in one call."""

from contextlib import nullcontext
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import typeof

from rankfall.dynamics.exact import _compiled as compiled
from rankfall.dynamics.exact._events import Event, Hit, What, Why
from rankfall.dynamics.exact._pull import Walled
from rankfall.dynamics.exact._regions import Region, Weights
from rankfall.dynamics.exact._threads import OneThread

if TYPE_CHECKING:
    from rankfall.dynamics.exact._walk import Walk

ROOM = 4  # kinks of one neuron for which there is room at first
EVENTS = 4096  # of one call, at the most, besides one for each neuron

LOADS = 3.0  # seconds in which the code is loaded, if it was compiled before
SMALL = 10_000_000  # multiplications in one matrix product, up to which a second BLAS thread does not pay
HEARD = 500_000_000  # products of a call, at the most, so that Ctrl-C is heard

_LOSSES = {"exponential": compiled.EXPONENTIAL, "logistic": compiled.LOGISTIC, "square": compiled.SQUARE}
_KINDS = ("cross", "stick", "release")
_WHATS = (What.KINK, What.UP, What.DOWN)


def _on_one_line_with_others(region: Region) -> np.ndarray:
    """The samples whose kinks are also those of others."""
    if region.lines is None:
        return np.zeros(len(region.x), dtype=np.bool_)
    return np.asarray((region.lines != 0).sum(axis=1) > 1)


_lock = Lock()
_loader: Thread | None = None


class Snapshot(NamedTuple):
    """Where a walk was, to go back to."""

    weights: Weights
    sizes: np.ndarray
    region: Region
    times: tuple[float, float, float]
    events: int


class Forward:
    """The compiled twin of a walk."""

    def __init__(self, walk: "Walk"):
        self.walk = walk
        region, pull, motion = walk.region, walk.pull, walk.motion
        (m, n), k = region.side.shape, region.x.shape[1]
        self.setting = compiled.Setting(
            x=np.array(region.x, order="C"),
            across=np.array(region.x.T, order="C"),
            lengths=np.array(region.lengths),
            mated=_on_one_line_with_others(region),
            y=np.array(pull.y, dtype=float),
            often=np.array(pull.often, dtype=float),
            walls=np.array(pull.walls) if isinstance(pull, Walled) else np.zeros(n),
            weight=float(pull.weight),
            loss=_LOSSES[pull.loss.name],
            slope=float(region.slope),
            both=motion.trains_second,
            bias=motion.trains_bias,
        )
        events = EVENTS + 2 * m
        self.log = compiled.Log(
            clock=np.zeros(events),
            log_time=np.zeros(events),
            neuron=np.zeros(events, dtype=np.int64),
            sample=np.zeros(events, dtype=np.int64),
            kind=np.zeros(events, dtype=np.int64),
            side=np.zeros(events, dtype=np.int64),
            number=np.zeros(1, dtype=np.int64),
        )
        self._make_room(m, n, k, ROOM)

    def _make_room(self, m: int, n: int, k: int, kinks: int) -> None:
        """Arrays for this many kinks of one neuron."""
        orders = compiled.ORDER + 1
        self.state = compiled.State(
            w=np.zeros((m, k)),
            a=np.zeros(m),
            c=np.zeros(1),
            side=np.zeros((m, n), dtype=np.int8),
            slopes=np.zeros((m, n)),
            holding=np.zeros(m, dtype=np.int64),
            samples=np.full((m, kinks), -1, dtype=np.int64),
            basis=np.zeros((m, kinks, k)),
            solver=np.zeros((m, kinks, k)),
            sizes=np.zeros(m),
            gap=np.zeros(m),
            way=np.zeros(m),
            changed=np.zeros(m, dtype=np.bool_),
            pinned=np.zeros(m, dtype=np.bool_),
            live=np.ones(n, dtype=np.bool_),
            f=np.zeros(n),
            rate=np.zeros(n),
            g=np.zeros((m, k)),
            held=np.zeros((m, kinks)),
            age=np.zeros(1, dtype=np.int64),
            clock=np.zeros(6),
        )
        self.series = compiled.Series(
            w=np.zeros((orders, m, k)),
            a=np.zeros((orders, m)),
            c=np.zeros(orders),
            g=np.zeros((orders, m, k)),
            f=np.zeros((orders, n)),
            r=np.zeros((orders, n)),
            held=np.zeros((orders, m, kinks)),
            p=np.zeros((orders, n)),
            d=np.zeros((orders, n)),
            e=np.zeros((orders, n)),
            log_loss=np.zeros(orders),
            scale=np.ones(n),
        )

    def ready(self) -> bool:
        """Is the code there? The first time it is compiled in a thread, and the walk may go on without."""
        global _loader
        with _lock:
            if _loader is None:
                _loader = Thread(target=self._load_code)
                _loader.start()
                _loader.join(LOADS)
        return not _loader.is_alive()

    def _load_code(self) -> None:
        """Load the code from the cache of numba, or compile it and keep it there."""
        setting, state = self.setting, self.state
        kinks = setting.x, state.samples[0], 0, state.basis[0], state.solver[0]
        compiled.span_kinks.compile(tuple(map(typeof, kinks)))
        compiled.advance.compile(tuple(map(typeof, self._arguments(1, 0.0, 0.0, 0.0, 1))))

    def _arguments(
        self, steps: int, most: float, log_loss: float, log_time: float, patience: int
    ) -> tuple[object, ...]:
        """What `advance` takes."""
        rtol, given = float(self.walk.rtol), (float(most), float(log_loss), float(log_time), patience)
        return self.setting, self.state, self.log, self.series, rtol, steps, *given

    @property
    def calm(self) -> bool:
        """Was the last step without event?"""
        return bool(self.state.clock[4] > 0)

    def snapshot(self) -> "Snapshot":
        """Where the walk is."""
        walk = self.walk
        weights, clock = walk.weights, walk.clock
        return Snapshot(
            Weights(weights.w.copy(), weights.a.copy(), weights.c.copy()),
            walk.motion.sizes.copy(),
            walk.region.copy(),
            (clock.now, clock.log_time, clock.other),
            len(walk.events),
        )

    def restore(self, before: "Snapshot") -> None:
        """Take the walk back there."""
        walk = self.walk
        walk.region.copy_kinks(before.region)
        walk.motion.go_to(before.weights)
        walk.motion.sizes = before.sizes
        walk.clock.put(*before.times)
        del walk.events[before.events :]

    def go(
        self,
        steps: int,
        most: float,
        step: float,
        log_loss: float,
        log_time: float,
        patience: int,
        pinned: list[int],
    ) -> tuple[Why, tuple[Hit, ...], float]:
        """Take up to `steps` steps, the first of about the length `step`; `patience`: see `Why.STIFF`.

        Returns why it ends, the hits that the walk has to decide, and the length to try next.
        Neurons that are `pinned` are for the walk.
        """
        if not self._load():
            return Why.SIGN, (), step
        self.state.clock[3] = step
        steps = max(1, min(steps, HEARD // self.state.w.size // len(self.setting.x)))
        self.state.pinned[:] = False
        self.state.pinned[pinned] = True
        small = self.state.w.size * len(self.setting.x) <= SMALL
        with OneThread() if small else nullcontext():
            code, taken, orders, neuron, sample, what = compiled.advance(
                *self._arguments(steps, most, log_loss, log_time, patience)
            )
        self._store(taken, orders)
        hits = (Hit(neuron, sample, _WHATS[what]),) if neuron >= 0 else ()
        why, then = Why(code), float(self.state.clock[3])
        if why is Why.CROWDED:
            m, n = self.state.side.shape
            self._make_room(m, n, self.state.w.shape[1], 2 * self.state.samples.shape[1])
        return why, hits, then

    def _load(self) -> bool:
        """Be where the walk is. False if kinks are held by inputs that are dependent, or nearly so."""
        walk, state = self.walk, self.state
        if (walk.region.held & self.setting.mated).any():
            return False
        weights, region = walk.weights, walk.region
        state.w[:], state.a[:], state.c[:] = weights.w, weights.a, weights.c
        state.sizes[:] = walk.motion.sizes
        most = int(region.held.sum(axis=1).max(initial=0))
        if most > state.samples.shape[1]:
            (m, n), k = state.side.shape, state.w.shape[1]
            self._make_room(m, n, k, 2 * most)
            return self._load()
        other = (state.side != region.side).any(axis=1) | (state.slopes != region.slopes).any(axis=1)
        held = region.held.sum(axis=1)
        for j in np.flatnonzero(other | (held != state.holding)):
            samples = np.flatnonzero(region.held[j])
            state.samples[j, : len(samples)], state.holding[j] = samples, len(samples)
            if not compiled.span_kinks(
                self.setting.x, state.samples[j], len(samples), state.basis[j], state.solver[j]
            ):
                state.holding[j] = -1
                return False
        state.side[:], state.slopes[:], state.live[:] = region.side, region.slopes, region.live
        state.gap[:], state.way[:], state.changed[:], state.age[:] = 0.0, 0.0, False, 0
        state.clock[:3] = walk.clock.now, walk.clock.log_time, walk.clock.other
        self.log.number[0] = 0
        return True

    def _store(self, taken: int, orders: int) -> None:
        """Bring the walk to where its twin is."""
        walk, state, log = self.walk, self.state, self.log
        for j in np.flatnonzero(state.changed):
            walk.region.put(int(j), state.side[j], state.slopes[j], state.samples[j, : state.holding[j]])
        walk.motion.go_to(Weights(state.w.copy(), state.a.copy(), state.c[0].copy()))
        walk.motion.sizes = state.sizes.copy()
        walk.motion.evaluations += orders + 0.5 * taken
        walk.clock.put(*state.clock[:3].tolist())
        walk.steps += taken
        number = int(log.number[0])
        rows = zip(
            *(column[:number].tolist() for column in log[:6]),
            strict=True,
        )
        for clock, log_time, neuron, sample, kind, side in rows:
            walk.events.append(Event(clock, log_time, neuron, sample, _KINDS[kind], side))
