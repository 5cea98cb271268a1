r"""Gradient descent in plain NumPy, with steps so small that it follows gradient flow.

It knows nothing of regions, kinks and cells. $\sigma'(0) = \alpha$, and where the flow slides along a kink,
descent chatters about it.

With the exponential and the logistic loss the pulls are divided by their sum: only the clock changes, not the
path, and margins of thousands do not underflow. With $h_i = \nabla_\theta\, y_i f(x_i)$ the margins answer to
the pulls as $\dot q = K \pi$ with $K_{ii} = |h_i|^2$ and $\sum_i \pi_i = 1$, so descent is stable for steps
below $2 / \max_i |h_i|^2$. At the start the steps are also a share of the clock, because a neuron of length
$10^{-4}$ turns $10^4$ times sooner than one of length 1.

Late steps need not be small: chattering is bounded and the weights are not, so that descent with any stable
step has the limit direction of the flow, once it is in the same cell.
"""

import numpy as np

from tests.adversarial.path import Mark, Path, Stop, by_margin, start
from tests.adversarial.problems import Problem

STABLE = 0.25  # the coarsest step, as a share of 1 / max |h_i|^2
GRADED = 1 / 32  # the coarsest step, as a share of the clock
TURNING = 1 / 16  # the coarsest step, as a share of the time in which a small neuron of trained layers grows
CHUNK = 16  # coarsest steps between two choices of the step size


def descend(
    problem: Problem, fineness: int, steps: int, stop: Stop | None = None, nudge: float = 0.0
) -> Path:
    """Descent with steps divided by `fineness`, until `stop(path)` at a mark, or `steps` steps are taken."""
    state = _State(problem, fineness, nudge)
    path = Path(problem, [state.mark()])
    due = 1.0 if by_margin(problem) else 0.0
    last = path.marks[0]
    while path.steps < steps:
        count = min(CHUNK * fineness, steps - path.steps)
        state.advance(count)
        path.steps += count
        mark = state.mark()
        path.look(mark, last)
        last = mark
        reached = float((problem.y * mark.outputs).min()) if by_margin(problem) else mark.clock
        if reached >= due:
            path.marks.append(mark)
            due = 2 * reached
            if stop is not None and stop(path):
                return path
    path.marks.append(last)
    return path


class _State:
    """The weights and the clock."""

    def __init__(self, problem: Problem, fineness: int, nudge: float):
        self.problem, self.fineness = problem, fineness
        self.x, self.y = np.ascontiguousarray(problem.inputs), problem.y
        self.xt = np.ascontiguousarray(self.x.T)
        self.w, self.a = start(problem, nudge)
        self.clock = 0.0
        self.lengths = np.linalg.norm(self.x, axis=1)
        self.longest = max(float(self.lengths.max()), 1e-300)
        own = np.linalg.norm(self.w, axis=1)
        moving = (own > 0) & (self.a != 0)
        self.first_turn = float((own[moving] / np.abs(self.a[moving])).min() if moving.any() else np.inf)

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        z = self.w @ self.xt
        return np.where(z > 0, 1.0, self.problem.slope), z

    def outputs(self) -> np.ndarray:
        p, z = self.slopes()
        return self.a @ (p * z)

    def mark(self) -> Mark:
        return Mark(self.clock, self.w.copy(), self.a.copy(), self.outputs())

    def step(self) -> float:
        """The size of the next steps."""
        p, z = self.slopes()
        kernel = self.lengths**2 * (self.a**2 @ p**2)
        if self.problem.both:
            kernel = kernel + ((p * z) ** 2).sum(axis=0)
        pull, stiffness = 1.0, kernel.max()
        if self.problem.square:
            pull, stiffness = max(float(np.abs(self.y - self.a @ (p * z)).sum()), 1e-300), kernel.sum()
        speed = pull * self.longest
        sizes = [STABLE / max(stiffness, 1e-300), GRADED * (self.clock + self.first_turn / speed)]
        if self.problem.both:
            sizes.append(TURNING / speed)
        return min(sizes) / self.fineness

    def advance(self, count: int) -> None:
        """So many steps of one size."""
        slope, both, square = self.problem.slope, self.problem.both, self.problem.square
        logistic = self.problem.loss.startswith("logistic")
        w, a, x, xt, y = self.w, self.a, self.x, self.xt, self.y
        step = self.step()
        z, p, g = (np.empty((len(a), len(y))) for _ in range(3))
        up, v = np.empty(z.shape, dtype=bool), np.empty_like(w)
        rate, gain = (step * a)[:, None], 1 - slope
        for _ in range(count):
            np.matmul(w, xt, out=z)
            np.greater(z, 0.0, out=up)
            np.multiply(up, gain, out=p)
            p += slope
            z *= p
            f = a @ z
            if square:
                r = y - f
            else:
                f *= y
                r = np.logaddexp(0.0, f) if logistic else f
                r = np.exp(r.min() - r)
                r *= y / r.sum()
            np.multiply(p, r, out=g)
            np.matmul(g, x, out=v)
            if both:
                rate = (step * a)[:, None]
                a += step * (z @ r)
            v *= rate
            w += v
        self.clock += count * step
