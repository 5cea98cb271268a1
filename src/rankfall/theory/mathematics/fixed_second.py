r"""Networks with a fixed second layer, in numbers: the first step, and how fast margins grow.

Along a step the secant slopes of the activation lie in $[\gamma, 1]$, kinks or not. So the margin of a sample
moves by $\eta |a|^2 / n$ times its own pull $g_k |x_k|^2$, up to a factor in $[\gamma^2, 1]$, and times the
others', at most $\zeta \sum_i g_i$. If $n \zeta C \le \gamma^2 R_{min}^2/5$, pulls never differ by more than
the factor C, and $e^{q_k}$ grows linearly. The proof is in docs/theory/frei_descent.md.
"""

from dataclasses import dataclass

import numpy as np

from rankfall.loss import logistic
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis, condition
from rankfall.theory.core.situation import Situation

ERROR = 5.0  # the part of the others in the motion of a margin is at most a fifth of its own
START = 0.1  # the largest |f(x_i)| at the start; the proof takes no more


@dataclass(frozen=True)
class Rates:
    """$e^q$ of every margin q grows by `slow` to `fast` in a unit of time.

    - `start`: the largest |f(x_i)| at the start; `ratio`: the bound C on $e^{q_i - q_k}$ at all times.
    """

    start: float
    ratio: float
    slow: float
    fast: float

    def least_margin(self, times: np.ndarray) -> np.ndarray:
        """Every margin is at least this."""
        return np.asarray(np.log(np.exp(-self.start) + self.slow * times))

    def largest_margin(self, times: np.ndarray) -> np.ndarray:
        """Every margin is at most this."""
        return np.asarray(np.log(np.exp(self.start) + self.fast * times))


def rates(s: Situation) -> Rates:
    """The constants of the proof; times are those of the flow, or steps times the step size."""
    q0, size = start_output(s), float(s.a @ s.a) / s.parts
    low, high = s.norms.min() ** 2, s.norms.max() ** 2
    pull = 1 + np.exp(q0) if s.loss.name == "logistic" else 1.0  # e^-q is at most that many pulls
    moved = (s.step or 0.0) * size * np.exp(q0) * high * (1 + s.slope**2 / ERROR)  # a margin, in one step
    grown = np.expm1(moved) / moved if moved > 0 else 1.0
    return Rates(
        q0,
        float(np.exp(moved) * pull * (high / low / s.slope**2 + 2 / ERROR)),
        float(size * (1 - 1 / ERROR) * s.slope**2 * low / pull),
        float(size * (high + s.slope**2 * low / ERROR) * grown),
    )


# The first step


def gradient(s: Situation) -> np.ndarray:
    """The gradient of the loss in the first layer at the start (m, d), written out."""
    return np.asarray(-s.a[:, None] * (slopes(s) * (pulls(s) * s.y)) @ s.x)


def pulls(s: Situation) -> np.ndarray:
    """-dL/dq_i at the start; of a loss that is no function of the margin, that of the logistic one."""
    margins = s.y * np.asarray(s.network(s.data.x), dtype=float)
    loss = s.loss if s.loss.targets == "signs" else logistic
    return np.asarray(loss.of_margin.pull(np.maximum(margins, -700.0)) / s.parts)


def slopes(s: Situation) -> np.ndarray:
    """The derivatives of the activation at the start (m, n)."""
    return np.where(s.w @ s.x.T > 0, 1.0, s.slope)


def stable_rank_bound(s: Situation) -> float:
    """(1 + slope)^2 / (4 slope) times the condition number of the matrix of cosines."""
    least, largest = cosines(s)
    return (1 + s.slope) ** 2 / (4 * s.slope) * largest / least


def least_change(s: Situation) -> float:
    """A bound on |W_t - W_0|_2 from below, for all steps after the first.

    The coefficients of a'(W_t - W_0) in the y_i x_i only grow.
    """
    each = pulls(s) * s.norms * (s.a**2 @ slopes(s)) / np.linalg.norm(s.a)
    return float(np.sqrt(cosines(s)[0]) * (s.step or 0.0) * np.linalg.norm(each))


# What is asked for


@condition("second-fixed", "two layers, second fixed")
def second_fixed(it: Condition, s: Situation) -> Hypothesis:
    """Two layers, the second fixed and not zero; its weights may differ."""
    yes = s.fixed_second and bool(s.a.any()) and not s.network.has_skips
    return it.fact(yes, f"{s.network!r}", "two layers, one output, first trained")


def cosines(s: Situation) -> tuple[float, float]:
    """The least and the largest eigenvalue of the matrix of cosines; the least is 0 for dependent inputs."""
    n, d = s.x.shape
    if n > d or not s.norms.min() > 0:
        return 0.0, float(n)
    values = np.linalg.eigvalsh(s.gram / np.outer(s.norms, s.norms))
    return max(0.0, float(values[0])), float(values[-1])


@condition("short-steps", "short steps: step |a|^2 R_max^2 / n (without n for a sum)")
def short_steps(it: Condition, s: Situation) -> Hypothesis:
    """A step moves no margin by much more than 1; the steps of a flow are 0."""
    share = (s.step or 0.0) * float(s.a @ s.a) * s.norms.max() ** 2 / s.parts
    return it.at_most(float(share), 1.0)


@condition("small-outputs", "small outputs at the start: largest |f(x_i)|")
def small_outputs(it: Condition, s: Situation) -> Hypothesis:
    """The network starts near 0."""
    return it.at_most(start_output(s), START, reach=1.0)


def start_output(s: Situation) -> float:
    """The largest |f(x_i)| at the start."""
    return float(np.abs(s.network(s.data.x)).max())


# What is measured


def plain(e: Evidence) -> None:
    """Refuse what is neither a flow nor descent with the step size in question, in plain time."""
    if e.in_loss_clock or (e.descends and e.step_size != e.situation.step):
        raise Unmeasurable("needs a run in plain time, with the step size that was assessed")


def first_layers(e: Evidence) -> np.ndarray:
    """The first layer at the recorded times (t, m, d)."""
    plain(e)
    return np.asarray(e.networks.weights[0])


def margins(e: Evidence) -> np.ndarray:
    """The margins at the recorded times (t, n); those of a limit are its own."""
    if e.is_limit:
        return e.margins[None]
    h = first_layers(e) @ e.situation.x.T
    f = e.situation.a @ np.maximum(h, e.situation.slope * h)
    return np.asarray(e.situation.y * f)


def spread(e: Evidence) -> np.ndarray:
    """The largest difference of two margins at the recorded times."""
    return np.asarray(np.ptp(margins(e), axis=1))
