r"""The flow with rounded kinks, by SciPy's LSODA: an oracle that gets as far as one likes.

The slope of a pair of neuron and sample is $p = \alpha + (1 - \alpha)\, s(z / \delta)$. Here
$s(t) = 3t^2 - 2t^3$ goes from 0 at $t = 0$ to 1 at $t = 1$, and $\delta$ is small, relative to the neuron and
the sample. So a kink is a layer just above zero: a neuron at $z = 0$ has the slope $\alpha$, and to slide
along a kink is to be inside its layer. Of two samples on opposite sides of the origin the second has its
layer just below zero, because their slopes change together and add up to $1 + \alpha$.

As $\delta \to 0$ the solutions tend to those of Filippov. The equations are stiff and the method is implicit,
so that neither large margins nor ill-conditioned data nor kinks limit its steps. But an implicit method with
long steps also stays where a solution would leave: inside the layer of a kink that repels. There its steps
are made short.

With both layers trained, margins beyond `CAP` pull as if they were in the same proportion at `CAP`: a change
of the order 1/`CAP`, without which the differences of margins would be lost to rounding.
"""

import warnings

import numpy as np
from scipy.integrate import LSODA
from scipy.special import expit

from tests.adversarial.path import Mark, Path, Stop, by_margin, start
from tests.adversarial.problems import Problem

SMALL = 1e-3  # a neuron smaller than this share of all weights is rounded as if it had this size
CAP = 1e7
OPPOSITE = -0.999  # the cosine between samples on opposite sides of the origin
RTOL = 1e-9
SHORT = 0.5  # a short step, times the rate at which a kink repels
FOREVER = 1e200


def follow(
    problem: Problem,
    width: float,
    steps: int,
    stop: Stop | None = None,
    nudge: float = 0.0,
    rtol: float = RTOL,
) -> Path:
    """The flow with kinks rounded at this width, until `stop(path)` at a mark, or `steps` steps are taken."""
    field = _Field(problem, width)
    theta = np.concatenate([part.ravel() for part in start(problem, nudge)])
    parts = np.abs(theta[theta != 0])
    atol = rtol * float(parts.min(initial=1.0))
    path = Path(problem, [field.mark(0.0, theta)])
    due = 1.0 if by_margin(problem) else 0.0
    last = path.marks[0]

    def solver_from(clock: float, theta: np.ndarray, **steps: float) -> LSODA:
        return LSODA(field.velocity, clock, theta, FOREVER, rtol=rtol, atol=atol, jac=field.jacobian, **steps)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSODA's failures end the run; they are seen in its status
        solver, longest = solver_from(0.0, theta), np.inf
        while path.steps < steps and solver.status == "running":
            solver.step()
            path.steps += 1
            if not np.isfinite(solver.y).all():
                return path
            mark = field.mark(solver.t, solver.y)
            path.look(mark, last)
            last = mark
            reached = float((problem.y * mark.outputs).min()) if by_margin(problem) else solver.t
            if reached >= due:
                path.marks.append(mark)
                due = 2 * reached
                if stop is not None and stop(path):
                    return path
            if solver.status != "running":
                break
            rate = field.repelled(solver.y)
            wanted = SHORT / rate if rate > 0 else np.inf
            if solver.step_size > wanted or longest < wanted / 10:
                longest = wanted / 2
                first = min(solver.step_size, longest / 10)
                if not first > 0:  # steps too short for a double
                    break
                solver = solver_from(solver.t, solver.y, max_step=longest, first_step=first)
    if last.clock > path.marks[-1].clock:
        path.marks.append(last)
    return path


class _Field:
    """The velocity of all weights, and its derivative."""

    def __init__(self, problem: Problem, width: float):
        self.problem, self.width = problem, width
        self.x, self.y = problem.inputs, problem.y
        self.m, self.k = problem.weights.shape
        self.lengths = np.maximum(np.linalg.norm(self.x, axis=1), 1e-300)
        self.logistic = problem.loss.startswith("logistic")
        cosines = (self.x / self.lengths[:, None]) @ (self.x / self.lengths[:, None]).T
        self.below = np.zeros(len(self.y))
        for i in range(len(self.y)):
            self.below[i] = ((cosines[i, :i] < OPPOSITE) & (self.below[:i] == 0)).any()

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return theta[: self.m * self.k].reshape(self.m, self.k), theta[self.m * self.k :]

    def mark(self, clock: float, theta: np.ndarray) -> Mark:
        w, a = self.split(theta)
        z = w @ self.x.T
        return Mark(clock, w.copy(), a.copy(), a @ np.where(z > 0, z, self.problem.slope * z))

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pre-activations, rounded slopes, and their derivatives by the pre-activations."""
        alpha = self.problem.slope
        z = w @ self.x.T
        own = (w**2).sum(axis=1)
        widths = self.width * np.sqrt(own + SMALL**2 * own.sum() + 1e-300)[:, None] * self.lengths
        t = np.clip(z / widths + self.below, 0.0, 1.0)
        return z, alpha + (1 - alpha) * t**2 * (3 - 2 * t), (1 - alpha) * 6 * t * (1 - t) / widths

    def pulls(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pulls on the outputs, and the matrix of their derivatives by the outputs."""
        y = self.y
        if self.problem.square:
            return y - f, -np.eye(len(f))
        q = y * f
        share = min(1.0, CAP / max(q.min(), 1e-300)) if self.problem.both else 1.0
        level = np.logaddexp(0.0, share * q) if self.logistic else share * q
        pi = np.exp(level.min() - level)
        pi /= pi.sum()
        by_level = np.outer(pi, pi) - np.diag(pi)
        return y * pi, y[:, None] * by_level * (y * share * (expit(share * q) if self.logistic else 1.0))

    def velocity(self, clock: float, theta: np.ndarray) -> np.ndarray:
        w, a = self.split(theta)
        z, p, _ = self.slopes(w)
        values = np.where(z > 0, z, self.problem.slope * z)
        r, _ = self.pulls(a @ values)
        dw = a[:, None] * ((p * r) @ self.x)
        da = values @ r if self.problem.both else np.zeros_like(a)
        return np.concatenate([dw.ravel(), da])

    def repelled(self, theta: np.ndarray) -> float:
        """The largest rate at which a neuron inside layers is driven out of them."""
        w, a = self.split(theta)
        z, _, dp = self.slopes(w)
        if not dp.any():
            return 0.0
        r, _ = self.pulls(a @ np.where(z > 0, z, self.problem.slope * z))
        rates = [0.0]
        for j in np.flatnonzero(dp.any(axis=1) & (a != 0)):
            inside = dp[j] > 0
            rows = self.x[inside]
            # dw/dt = ... + a_j sum_i p_ji r_i x_i, and of its derivative by w only the samples inside matter
            rates.append(float(np.linalg.eigvals(a[j] * (rows @ rows.T) * (dp[j] * r)[inside]).real.max()))
        return max(rates)

    def jacobian(self, clock: float, theta: np.ndarray) -> np.ndarray:
        """The derivative of the velocity, but for that of the widths: Newton's method needs no more."""
        w, a = self.split(theta)
        m, k, n = self.m, self.k, len(self.y)
        z, p, dp = self.slopes(w)
        sharp = np.where(z > 0, 1.0, self.problem.slope)
        r, dr = self.pulls(a @ (sharp * z))
        moved, felt = np.zeros((m * (k + 1), n)), np.zeros((m * (k + 1), n))  # by the pulls; what moves f
        moved[: m * k] = ((a[:, None] * p)[:, None, :] * self.x.T).reshape(m * k, n)
        felt[: m * k] = ((a[:, None] * sharp)[:, None, :] * self.x.T).reshape(m * k, n)
        if self.problem.both:
            moved[m * k :] = felt[m * k :] = sharp * z
        out = moved @ dr @ felt.T
        for j in range(m):
            rows = slice(j * k, (j + 1) * k)
            out[rows, rows] += a[j] * (self.x.T * (dp[j] * r)) @ self.x
            if self.problem.both:
                out[rows, m * k + j] += (p[j] * r) @ self.x
                out[m * k + j, rows] += (sharp[j] * r) @ self.x
        return out
