"""The early phase of a small ReLU network: its outputs are nearly zero, and so each neuron moves alone.

With all pulls frozen at their values for zero outputs, a neuron with one activation pattern is pulled along
one vector: cosh and sinh. It wins the samples that pull it to them one by one, and loses the others.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
from scipy.optimize import brentq

from rankfall.theory.core.hypothesis import Condition, Hypothesis, condition
from rankfall.theory.core.situation import Situation

EARLY = 0.01  # the early phase lasts until an output exceeds this: our choice, the errors are of its order


@condition("followable", "not too large to follow each neuron: m n max(n, d)")
def followable(it: Condition, s: Situation) -> Hypothesis:
    """Not of the theorem: every change of every neuron's pattern is followed, which must not take long."""
    size = len(s.a) * len(s.y) * max(s.x.shape)
    return it.at_most(size, 1e7)


def pull(s: Situation) -> float:
    """The weight of one sample in the gradient where all outputs are zero: -l'(0), divided by n in a mean."""
    at_zero = 0.5 if s.loss.name == "logistic" else 1.0
    return at_zero / s.parts


def outputs_bound(s: Situation) -> float:
    """What no output of the network at the start exceeds on the data."""
    return float(np.abs(s.a) @ np.linalg.norm(s.w, axis=1) * s.norms.max())


def window(s: Situation) -> float:
    """A time before which no output can exceed EARLY: no neuron grows faster than the longer class sum."""
    longest = max(np.linalg.norm(s.x[s.y == sign].sum(axis=0)) for sign in (-1, 1))
    room = EARLY / max(outputs_bound(s), 1e-300)
    return float(max(0.0, np.log(room)) / (2 * pull(s) * longest * np.exp(EARLY)))


@dataclass(frozen=True)
class Stretch:
    """A neuron from `time` on with one activation pattern: it is pulled along `e` with the strength `k`.

    w' = k a e and a' = k <w, e>, for output weights made positive by the sign of the labels.
    """

    time: float
    w: np.ndarray
    a: float
    k: float
    e: np.ndarray

    def at(self, t: float) -> tuple[np.ndarray, float]:
        """The weights at a time t."""
        p, c, s = self.w @ self.e, np.cosh(self.k * (t - self.time)), np.sinh(self.k * (t - self.time))
        return self.w + self.e * (p * (c - 1) + self.a * s), float(self.a * c + p * s)


class EarlyFlow:
    """The flow with all pulls frozen at their values for zero outputs: each neuron alone, in closed form.

    `pulls` are the factors of the x_i in the gradient, by default c y_i.
    """

    def __init__(self, s: Situation, pulls: np.ndarray | None = None):
        self.s, self.pulls = s, pull(s) * s.y if pulls is None else pulls
        neurons = [self._neuron(j) for j in range(len(s.a))]
        self.stretches = [parts for parts, _ in neurons]
        self.pattern = np.array([active for _, active in neurons])  # which ends active on which sample

    def _neuron(self, j: int) -> tuple[list[Stretch], np.ndarray]:
        """A neuron wins the samples that pull it to them one by one, and loses the others."""
        x, gram, pulls = self.s.x, self.s.gram, np.sign(self.s.a[j]) * self.pulls
        t, w, a, h = 0.0, self.s.w[j], float(abs(self.s.a[j])), x @ self.s.w[j]
        active, parts = h > 0, []
        total, g = (pulls * active) @ x, gram @ (pulls * active)
        while True:
            k = float(np.linalg.norm(total)) if active.any() else 0.0
            parts.append(Stretch(t, w, a, k, total / k if k else total))
            flips = np.flatnonzero((active != (pulls > 0)) & (np.abs(g) > 1e-12 * k * self.s.norms))
            if not k or not len(flips):
                return parts, active
            # x_i flips when its pre-activation h + g F / k vanishes, F being what w has gained along e.
            needed = np.maximum(-h[flips] * k / g[flips], 0.0)
            first, least, p = int(flips[needed.argmin()]), float(needed.min()), float(w @ parts[-1].e)
            growth = (p + least + np.sqrt((p + least) ** 2 + max(a * a - p * p, 0.0))) / max(a + p, 1e-300)
            t = t + float(np.log(max(growth, 1.0))) / k
            w, a = parts[-1].at(t)
            h = h + g * least / k
            active[first] ^= True  # won with a pull > 0, or lost with one < 0: in both cases the sum grows
            total, g = total + abs(pulls[first]) * x[first], g + abs(pulls[first]) * gram[first]

    def weights(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """The first layer and the moduli of the output weights at a time t."""
        now = [parts[bisect_right(parts, t, key=attrgetter("time")) - 1].at(t) for parts in self.stretches]
        return np.array([w for w, _ in now]), np.array([a for _, a in now])

    @cached_property
    def alive(self) -> np.ndarray:
        """Which neurons do not die."""
        return np.asarray(self.pattern.any(axis=1))

    @property
    def sorted(self) -> float:
        """The time of the last change of a pattern."""
        return max(parts[-1].time for parts in self.stretches)

    @cached_property
    def end(self) -> float:
        """The time at which the largest output is EARLY."""

        def excess(t: float) -> float:
            w, a = self.weights(t)
            return float(np.log(largest_output(self.s, w, a * np.sign(self.s.a)) / EARLY))

        high = max(window(self.s), self.sorted) + 1e-3 / pull(self.s) / self.s.norms.max()
        while excess(high) < 0:
            high *= 1.5
        return float(brentq(excess, 0.0, high)) if excess(0.0) < 0 else 0.0

    def unaligned(self, sign: int) -> float:
        """The most that |W|_F^2 - |W|_2^2 of a sign's neurons can be: W W' - a a' stays what it is."""
        (w, a), own = self.weights(self.end), sign * self.s.a > 0
        alive, dead = own & self.alive, own & ~self.alive
        kept = np.linalg.eigvalsh(w[alive] @ w[alive].T - np.outer(a[alive], a[alive]))
        return float(np.abs(kept).max(initial=0.0) + (w[dead] ** 2).sum())


def largest_output(s: Situation, w: np.ndarray, a: np.ndarray) -> float:
    """The largest |f(x_i)| of a ReLU network."""
    return float(np.abs(np.maximum(s.x @ w.T, 0) @ a).max())
