r"""The slow flow: what remains of the flow of both layers when margins are huge.

At large margins q the pulls of the support vectors adjust at once, so that all their margins grow at one
rate, and only directions and shares of neurons still change. With features $h_i = y_i \nabla f(x_i)$ and
their Gram matrix $K(\theta)$, the tangent kernel, the flow tends to

    d\theta/d\tau = \sum_i \lambda_i h_i(\theta) - \theta/2,    K \lambda = 1 on the support,  \lambda \ge 0,
      \tau = \log q,

where the last term keeps $\theta$ at the margin 1.

With $v_j = 2\sum_i \lambda_i y_i P_{ji} x_i$ a neuron then grows like $q^{|v_j|/2}$ and one with $|v_j| < 1$
loses its share like a power of q: that takes margins of $10^{100}$ and more, which no clock of the flow
itself reaches in float64, and $\tau$ does. Its rest points are the KKT points. Kinks are those of the flow;
a support vector leaves when its multiplier reaches zero, and a sample joins when its margin is no longer
larger than the others'. The error of the slow flow is of order 1/q.
"""

from collections.abc import Iterator

import numpy as np

from rankfall.data import hard_margin_of_gram
from rankfall.dynamics.exact import (
    SWEEPS,
    TOUCH,
    Bilinear,
    BilinearPath,
    Clock,
    Hit,
    Motion,
    Path,
    Piece,
    Pull,
    Solved,
    Stalled,
    Walk,
    Watched,
    Weights,
    What,
)
from rankfall.limits._dead import dead_of
from rankfall.limits._tangent import Tangent

_TINY = 1e-60  # neurons do not become smaller than this: they pull on nothing, and their squares underflow
_EQUAL = 5  # rounds of Newton's method that make margins equal
_SUPPORT = 1e-9  # pulls below this share of the largest are no support vectors'
_SETTLED = 0.005  # how far pulls may be from those of the slow flow: about 2/q at a late state
_RTOL = 1e-8  # of a walk of the slow flow,
_FIRST = 0.1  # and its first step


def slow_walk(walk: Walk) -> Walk | None:
    """The slow flow from a late state of a walk.

    None if its pulls are not yet those with which margins grow at one rate, or if its margins differ so much
    that neurons cross kinks when they are made equal.
    """
    pulls = np.where(dead_of(walk.pull), 0.0, np.abs(walk.present_pulls()))
    weights = walk.weights
    motion = Bilinear(
        walk.region.copy(), Weights(weights.w.copy(), weights.a.copy(), weights.c), bias=False, decay=0.5
    )
    clock = SlowClock(walk.pull, walk.clock.log_time, motion, tight=pulls > _SUPPORT * pulls.max())
    if walk.region.slope < 1 and (motion.z * motion.region.side < -motion.touch()).any():
        return None
    settled = np.where(clock.dead, 0.0, np.abs(clock.pulls(motion)))
    settled, pulls = settled / settled.sum(), pulls / pulls.sum()
    if not np.abs(settled - pulls).max() <= _SETTLED * settled.max():
        return None
    return walk.continued(motion, clock, _RTOL, _FIRST)


class SlowClock(Clock):
    """tau: by how much log q has grown since the slow flow began.

    It begins at a late state at which the `tight` samples may be support vectors; the weights are kept at the
    margin 1. t is beyond all numbers and stays what it was.
    """

    def __init__(self, pull: Pull, log_time: float, motion: Motion, tight: np.ndarray):
        super().__init__(pull, log_time)
        self.dead = dead_of(pull)
        self.support = self._support_among(tight & ~self.dead, motion)
        self._to_margin_one(motion)

    def log_time_at(self, piece: Piece, theta: float) -> float:
        """log t of the state at which the slow flow began."""
        return self.log_time

    # The pulls

    def pulls(self, motion: Motion) -> np.ndarray:
        """The pulls r of the samples: y lambda, with K lambda = 1 on the support."""
        tangent = Tangent(motion.region, self.support, self.pull.y)
        return self._with_dead(tangent.pulls(motion.z[None], motion.weights.a[None]))[0]

    def _with_dead(self, r: np.ndarray) -> np.ndarray:
        """The pulls with those of dead samples, which only hold neurons at their kinks."""
        r[:, self.dead] = self.pull(np.zeros(len(self.dead)))[self.dead]
        return r

    @property
    def outside(self) -> np.ndarray:
        """The samples with larger margins."""
        return np.asarray(~self.support & ~self.dead)

    def leap(self, motion: Motion, step: float) -> None:
        """Go this far at once, to a state that the motion has come to."""
        self.now += step
        self._to_margin_one(motion)

    def solve(self, path: Path, f: np.ndarray, r: np.ndarray) -> tuple[Solved | None, float]:
        """The outputs and pulls at the nodes: the pulls follow from the weights there, sweep by sweep."""
        assert isinstance(path, BilinearPath)
        tangent = Tangent(path.region, self.support, self.pull.y)
        path.guess(r)
        last = np.inf
        for sweep in range(SWEEPS):
            r = self._with_dead(tangent.pulls(path.z, path.a))
            f = path.respond(r)
            if not np.isfinite(path.change):
                return None, sweep + 1
            if path.change < 1e-13 or (path.change < 1e-10 and path.change > 0.5 * last):
                return (f, r), sweep + 1
            if sweep > 2 and path.change > 0.7 * last:
                return None, sweep + 1
            last = path.change
        return None, SWEEPS

    # Support vectors

    def watched(self, f: np.ndarray, r: np.ndarray) -> Iterator[Watched]:
        """The multipliers of support vectors, and how much larger the margins of other samples are."""
        q = self.pull.y * f
        inside, outside = np.flatnonzero(self.support), np.flatnonzero(self.outside)
        multipliers = (self.pull.y * r)[:, inside].T
        slack = TOUCH * np.abs(r).max() * np.ones(len(inside))
        yield Watched(multipliers, slack, np.full(len(inside), -1), inside, What.LEAVE)
        if len(outside):
            gap = q[:, outside].T / q[:, inside].min(axis=1) - 1
            slack = TOUCH * np.ones(len(outside))
            yield Watched(gap, slack, np.full(len(outside), -1), outside, What.JOIN)

    def arrive(self, motion: Motion, hits: tuple[Hit, ...]) -> None:
        """Let support vectors come and go; then back to the margin 1."""
        joined = [hit.sample for hit in hits if hit.what is What.JOIN]
        if joined or any(hit.what is What.LEAVE for hit in hits):
            tight = self.support.copy()
            tight[joined] = True
            self.support = self._support_among(tight, motion)
        self._to_margin_one(motion)

    def _support_among(self, tight: np.ndarray, motion: Motion) -> np.ndarray:
        """Of the tight samples those with a positive multiplier; the others' margins then grow faster."""
        q = (self.pull.y * motion.outputs)[tight]
        y = self.pull.y[tight]
        weights = motion.weights
        kernel = motion.region.tangent_kernel(weights.w, weights.a)[np.ix_(tight, tight)]
        try:
            solution = hard_margin_of_gram(kernel * np.outer(y / q, y / q))
        except ValueError as error:
            raise Stalled(f"the support vectors cannot be told apart: {error}") from None
        if solution is None:
            raise Stalled("no direction enlarges all margins")
        support = np.zeros_like(tight)
        support[np.flatnonzero(tight)[solution.multipliers > 0]] = True
        return support

    def _to_margin_one(self, motion: Motion) -> None:
        self._rescale(motion)
        self._make_equal(motion)

    def _rescale(self, motion: Motion) -> None:
        """Back to the margin 1: directions and shares are all that matters."""
        smallest = float((self.pull.y * motion.outputs)[self.support].min())
        factor = smallest**-0.5
        w, a = motion.weights.w * factor, motion.weights.a * factor
        sizes = np.abs(w).max(axis=1) + np.abs(a)
        least = _TINY * sizes.max()
        up = np.where((sizes > 0) & (sizes < least), least / np.maximum(sizes, 1e-300), 1.0)
        motion.go_to(Weights(w * up[:, None], a * up, motion.weights.c))
        motion.sizes = np.linalg.norm(motion.weights.w, axis=1)

    def _make_equal(self, motion: Motion) -> None:
        """The nearest weights at which all support vectors have the margin 1.

        In the flow their margins differ by the logarithms of their pulls, which is nothing compared with q:
        the slow flow begins where that has gone.
        """
        s, y, region = self.support, self.pull.y, motion.region
        for _ in range(_EQUAL):
            w, a, c = motion.weights.w, motion.weights.a, motion.weights.c
            gap = (1 - y * motion.outputs)[s]
            if np.abs(gap).max() < 1e-14:
                break
            kernel = (y[:, None] * region.tangent_kernel(w, a) * y)[np.ix_(s, s)]
            r = np.zeros(len(y))
            r[s] = y[s] * np.linalg.lstsq(kernel, gap, rcond=1e-12)[0]
            g = region.pulls(r) @ region.x
            motion.go_to(Weights(w + a[:, None] * g, a + (w * g).sum(axis=1), c))
