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
from rankfall.dynamics.bilinear import BilinearMotion
from rankfall.dynamics.collocation import NODES
from rankfall.dynamics.regions import Weights
from rankfall.dynamics.step import SWEEPS, Motion, Piece
from rankfall.dynamics.walk import TOUCH, Stalled, Walk, Watched

_TINY = 1e-60  # neurons do not become smaller than this: they pull on nothing, and their squares underflow
_EQUAL = 5  # rounds of Newton's method that make margins equal
_SUPPORT = 1e-9  # pulls below this share of the largest are no support vectors'


class SlowWalk(Walk):
    """The slow flow from a late state of a walk; its clock is tau: by how much log q has grown since."""

    def __init__(self, walk: Walk):
        self.__dict__.update(walk.__dict__)
        self.clock, self.rtol, self.events = 0.0, 1e-8, []
        self._next, self._calm = 0.1, 0.0
        pulls = np.abs(walk.present_pulls())
        self.support = pulls > _SUPPORT * pulls.max()
        self._choose_support(self.support)
        self._rescale()
        self._make_equal()

    def _make_equal(self) -> None:
        """The nearest weights at which all support vectors have the margin 1.

        In the flow their margins differ by the logarithms of their pulls, which is nothing beside q: the slow
        flow begins where that has gone.
        """
        s, y = self.support, self.pull.y
        for _ in range(_EQUAL):
            w, a = self.weights.w, self.weights.a
            gap = (1 - y * self.outputs)[s]
            if np.abs(gap).max() < 1e-14:
                break
            kernel = (y[:, None] * self.region.tangent_kernel(w, a) * y)[np.ix_(s, s)]
            r = np.zeros(len(y))
            r[s] = y[s] * np.linalg.lstsq(kernel, gap, rcond=1e-12)[0]
            g = self.region.pulls(r) @ self.region.x
            self.weights = Weights(w + a[:, None] * g, a + (w * g).sum(axis=1), self.weights.c)

    def _rescale(self) -> None:
        """Back to the margin 1: directions and shares are all that matters."""
        smallest = float((self.pull.y * self.outputs)[self.support].min())
        factor = smallest**-0.5
        w, a = self.weights.w * factor, self.weights.a * factor
        sizes = np.abs(w).max(axis=1) + np.abs(a)
        least = _TINY * sizes.max()
        up = np.where((sizes > 0) & (sizes < least), least / np.maximum(sizes, 1e-300), 1.0)
        self.weights = Weights(w * up[:, None], a * up, self.weights.c)
        self.sizes = np.linalg.norm(self.weights.w, axis=1)

    def _choose_support(self, tight: np.ndarray) -> None:
        """Of the tight samples those with a positive multiplier; the others' margins then grow faster."""
        q = (self.pull.y * self.outputs)[tight]
        y = self.pull.y[tight]
        kernel = self.region.tangent_kernel(self.weights.w, self.weights.a)[np.ix_(tight, tight)]
        try:
            solution = hard_margin_of_gram(kernel * np.outer(y / q, y / q))
        except ValueError as error:
            raise Stalled(f"the support vectors cannot be told apart: {error}") from None
        if solution is None:
            raise Stalled("no direction enlarges all margins")
        self.support = np.zeros_like(tight)
        self.support[np.flatnonzero(tight)[solution.multipliers > 0]] = True

    def _pulls(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        """y lambda, with K lambda = 1 on the support: all its margins grow at one rate."""
        s, y = self.support, self.pull.y
        kernel = self.region.tangent_kernel(w, a)[np.ix_(s, s)]
        pulls = np.zeros(len(y))
        pulls[s] = np.linalg.lstsq(kernel, y[s], rcond=1e-12)[0]
        return pulls

    def present_pulls(self) -> np.ndarray:
        """The pulls r of the samples."""
        return self._pulls(self.weights.w, self.weights.a)

    def log_loss(self, outputs: np.ndarray) -> np.ndarray:
        """Not used: the loss is zero to all digits."""
        return np.zeros(len(outputs))

    def _motion(self, f: np.ndarray, step: float) -> Motion:
        return BilinearMotion(self.region, self.weights, f, step, bias=False, decay=0.5)

    def _solve(self, motion: Motion, f0: np.ndarray, r0: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        assert isinstance(motion, BilinearMotion)
        f, last = motion.guess(r0), np.inf
        for sweep in range(SWEEPS):
            self.evaluations += 1
            r = np.array([self._pulls(motion.w[k], motion.a[k]) for k in range(len(NODES))])
            f = motion.respond(r)
            if not np.isfinite(motion.change):
                return None
            if motion.change < 1e-13 or (motion.change < 1e-10 and motion.change > 0.5 * last):
                return f, r
            if sweep > 2 and motion.change > 0.7 * last:
                return None
            last = motion.change
        return None

    def _watched(self, motion: Motion, f: np.ndarray, r: np.ndarray) -> Iterator[Watched]:
        yield from super()._watched(motion, f, r)
        q = self.pull.y * f
        inside, outside = np.flatnonzero(self.support), np.flatnonzero(~self.support)
        multipliers = (self.pull.y * r)[:, inside].T
        yield Watched(
            multipliers,
            TOUCH * np.abs(r).max() * np.ones(len(inside)),
            np.full(len(inside), -1),
            inside,
            "leave",
        )
        if len(outside):
            gap = q[:, outside].T / q[:, inside].min(axis=1) - 1
            yield Watched(gap, TOUCH * np.ones(len(outside)), np.full(len(outside), -1), outside, "join")

    def take(self, piece: Piece, theta: float | None = None) -> None:
        """Go to the end of a step; there neurons meet kinks, and support vectors come and go."""
        log_time = self.log_time
        super().take(piece, theta)
        self.log_time = log_time
        joined = {sample for _, sample, kind in piece.hits if kind == "join"}
        if joined or any(kind == "leave" for _, _, kind in piece.hits):
            tight = self.support.copy()
            tight[list(joined)] = True
            self._choose_support(tight)
        self._rescale()
        self._make_equal()

    @property
    def speed(self) -> float:
        """How fast directions and shares still change: |d theta/d tau - theta/2| / |theta|."""
        w, a = self.weights.w, self.weights.a
        g = self.region.pulls(self.present_pulls()) @ self.region.x
        rest = ((a[:, None] * g - w / 2) ** 2).sum() + (((w * g).sum(axis=1) - a / 2) ** 2).sum()
        return float(np.sqrt(rest / ((w**2).sum() + (a**2).sum())))
