"""The judge of certificates: the KKT conditions, from what a Limit prints alone."""

import contextlib
import importlib.util
import io
import re
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
from scipy.optimize import linprog, lsq_linear

import rankfall
from rankfall import Limit
from tests.adversarial.problems import Problem

TOLERANCE = 1e-9  # what printed numbers may be off, relative to the weights
ROUNDING = 1e-15  # of the weights, relative: margins of badly scaled samples show it
INTERNALS = re.compile(
    r"LinAlg|semi-?definite|\b[Nn]a[Nn]\b|Traceback|[a-z]Error\b|[Ss]ingular matrix|broadcast|array\("
)
CHECKER = Path(rankfall.__file__).parent / "certificates" / "check.py"


def speaks_of_internals(text: str) -> str | None:
    """The first word of a message that a user should never read."""
    found = INTERNALS.search(text)
    return found.group(0) if found else None


def weights(limit: Limit, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The first layer, with its bias as the last column, and the second layer."""
    w = np.asarray(limit.network.weights[0])
    if problem.b is not None:
        w = np.column_stack([w, limit.network.biases[0]])
    return w, np.asarray(limit.network.weights[1])[0]


def slopes(limit: Limit, problem: Problem) -> np.ndarray:
    """The slope of every pair of neuron and sample: that of its side, or the printed one at a kink."""
    found = np.where(limit.region > 0, 1.0, problem.slope)
    for neuron, sample, slope in limit.kinks:
        found[neuron, sample] = slope
    return found


def faults_of_kkt(limit: Limit, problem: Problem) -> list[str]:
    r"""The KKT conditions that fail, by the printed numbers.

    $w_j = a_j \sum_i \lambda_i y_i p_{ji} x_i$, and $a_j = \sum_i \lambda_i y_i p_{ji}\, w_j \cdot x_i$ if
    both layers are trained; $\lambda_i \ge 0$; margins of at least 1, and exactly 1 where $\lambda_i > 0$;
    slopes that are those of the sides, and in $[\alpha, 1]$ at the kinks.
    """
    x, y, alpha = problem.inputs, problem.y, problem.slope
    (w, a), p, multipliers = weights(limit, problem), slopes(limit, problem), limit.multipliers
    z = w @ x.T
    tiny = TOLERANCE * np.linalg.norm(x, axis=1) * np.linalg.norm(w, axis=1).max()
    margins = y * (a @ np.where(z > 0, z, alpha * z))
    margins = np.where(silent(limit, problem), 1.0, margins)
    lengths = np.linalg.norm(x, axis=1)
    rebuilt = ROUNDING * float(np.abs(a).max() * (multipliers @ lengths) / max(np.abs(w).max(), 1e-300))
    apart = max(relative(w - a[:, None] * ((p * multipliers * y) @ x), w) - rebuilt, 0.0)
    sums = np.abs(a) @ (np.linalg.norm(w, axis=1)[:, None] * np.linalg.norm(x, axis=1))  # that may cancel
    off = np.maximum(np.abs(margins - 1) - ROUNDING * sums, 0.0)
    slack = float((multipliers * off).max() / max(multipliers.sum(), 1e-300))
    held = np.zeros(z.shape, dtype=bool)
    for neuron, sample, _ in limit.kinks:
        held[neuron, sample] = True
    conditions = {
        f"multipliers and slopes give another W, {apart:.1e} away": apart <= TOLERANCE,
        f"the smallest margin is {margins.min():.12g} and not 1": off[np.argmin(margins)] <= TOLERANCE,
        f"a sample with a multiplier has no margin 1, by {slack:.1e}": slack <= TOLERANCE,
        "a multiplier is negative": multipliers.min() >= -TOLERANCE * multipliers.max(),
        "a slope is out of range": p.min() >= alpha - TOLERANCE and p.max() <= 1 + TOLERANCE,
    }
    if problem.both:
        apart = relative(a - (p * z) @ (multipliers * y), a)
        conditions[f"multipliers and slopes give another second layer, {apart:.1e} away"] = apart <= TOLERANCE
    if alpha < 1:
        conditions["the region is not that of the weights"] = (limit.region * z >= -tiny).all()
        conditions["a kink is not at its kink"] = (np.abs(z) <= tiny)[held].all()
    return [fault for fault, holds in conditions.items() if not holds]


def silent(limit: Limit, problem: Problem) -> np.ndarray:
    """The samples on which, as `limit` says, no neuron is active for ever: no margin is asked of them."""
    if "end" not in limit.settings or not limit.multipliers.any() or problem.slope > 0:
        return np.zeros(len(problem.y), dtype=bool)
    return (limit.region <= 0).all(axis=0)


def faults_of_rest(limit: Limit, problem: Problem) -> list[str]:
    """A rest point at finite weights: do the samples' pulls balance on every neuron?"""
    w, a = weights(limit, problem)
    z = w @ problem.inputs.T
    q = problem.y * (a @ np.where(z > 0, z, problem.slope * z))
    pulls = np.exp(-q) if problem.loss.startswith("exponential") else 1 / (1 + np.exp(q))
    sizes = np.abs(a) @ (np.linalg.norm(w, axis=1)[:, None] * np.linalg.norm(problem.inputs, axis=1))
    least, most = (int((q <= zero).sum()) for zero in (-ROUNDING * sizes, ROUNDING * sizes))
    said = "; ".join([limit.settings["end"], *limit.missing])
    right = any(f" {wrong} of" in said for wrong in range(least, most + 1))
    if (np.abs(q) <= ROUNDING * sizes).all():
        right = right or "does not separate the data" in said
    faults = [] if right else [f"{least} to {most} samples are on the wrong side"]
    return faults + unbalanced(w, problem, problem.y * pulls, None if problem.both else a)


def rests_in_part(limit: Limit) -> bool:
    """Does it say that some margins stay finite, and others grow?"""
    return limit.settings.get("end") == "at rest in part"


def faults_of_part(limit: Limit, problem: Problem) -> list[str]:
    r"""The direction U of a flow of which some samples come to rest: is it the shortest?

    Of all directions that leave the outputs of the samples at rest as they are, with the slopes of the
    printed region, U is the shortest with margins of 1 on the others: it is a combination of their gradients
    with weights that are nonnegative, and zero where the margin is larger, and of any of what is held fixed.
    """
    x, y, alpha = problem.inputs, problem.y, problem.slope
    (w, a), late = weights(limit, problem), limit.state(problem.x)
    z, rests = w @ x.T, limit.margins == 0
    own = y * (a @ np.where(z > 0, z, alpha * z))
    sizes = np.abs(a) @ (np.linalg.norm(w, axis=1)[:, None] * np.linalg.norm(x, axis=1))
    slopes, held = np.where(limit.region > 0, 1.0, alpha), limit.region == 0
    slopes[held] = 0.0
    tight = np.flatnonzero(~rests & (own <= 1 + 1e-6))
    tied = [(a * slopes[:, i])[:, None] * y[i] * x[i] for i in np.flatnonzero(rests)]
    kinks = [(np.arange(len(a)) == j)[:, None] * x[i] for j, i in np.argwhere(held)]
    free = np.reshape(tied + kinks, (-1, w.size)).T
    grow = np.reshape([(a * slopes[:, i])[:, None] * y[i] * x[i] for i in tight], (-1, w.size)).T
    columns = np.hstack([grow, free])
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    low = np.where(np.arange(columns.shape[1]) < grow.shape[1], 0.0, -np.inf)
    off = lsq_linear(columns / scale, w.ravel(), bounds=(low, np.inf), tol=1e-14).cost
    zero = 1e-9 * np.abs(late).max()
    least, most = (int((rests & (y * np.ravel(late) <= off)).sum()) for off in (-zero, zero))
    conditions = {
        "a sample at rest is moved": (np.abs(own[rests]) <= 1e-7 * sizes[rests]).all(),
        "a margin that grows is below 1": own[~rests].min(initial=np.inf) >= 1 - 1e-7,
        "the region is not that of the direction": alpha == 1
        or (limit.region * z >= -1e-7 * sizes.max()).all(),
        "this is not the shortest direction": np.sqrt(2 * off) <= 1e-6 * np.linalg.norm(w),
        f"{least} to {most} samples at rest are misclassified": any(
            f"and {wrong} of them" in limit.missing[-1]
            or limit.missing[-1].startswith(f"{wrong} of {len(y)} samples are never classified")
            for wrong in range(least, most + 1)
        ),
    }
    return [fault for fault, holds in conditions.items() if not holds]


def relative(gap: np.ndarray, size: np.ndarray) -> float:
    return float(np.abs(gap).max() / max(np.abs(size).max(), 1e-300))


def is_kkt_point(limit: Limit, problem: Problem) -> bool:
    r"""Do any multipliers and slopes make the weights a KKT point?

    A linear program in $\lambda_i$ and $\mu_{ji} \in [\alpha \lambda_i, \lambda_i]$ at the kinks, with the
    largest error of the weights as its objective. It tells an error of the point from one of the numbers
    about it.
    """
    x, y, alpha = problem.inputs, problem.y, problem.slope
    w, a = weights(limit, problem)
    m, n = len(a), len(y)
    z = w @ x.T
    margins = y * (a @ np.where(z > 0, z, alpha * z))
    sizes = np.linalg.norm(x, axis=1) * np.linalg.norm(w, axis=1).max()
    kinks = np.argwhere((np.abs(z) <= 1e-8 * sizes) & (alpha < 1))
    p = np.where(z > 0, 1.0, alpha)
    p[tuple(kinks.T)] = 0.0

    def pulled(slopes: np.ndarray, sample: int) -> np.ndarray:
        """What a multiplier 1 of the sample gives to the weights, with these slopes of the neurons."""
        first = ((a * slopes)[:, None] * y[sample] * x[sample]).ravel()
        return np.concatenate([first, slopes * y[sample] * z[:, sample]]) if problem.both else first

    columns = [pulled(p[:, i], i) for i in range(n)]
    columns += [pulled(np.eye(m)[j], i) for j, i in kinks]
    theta, right = np.array(columns).T, np.concatenate([w.ravel(), a]) if problem.both else w.ravel()
    bounds = np.zeros((2 * len(kinks), theta.shape[1]))
    for number, (_, i) in enumerate(kinks):
        bounds[2 * number, [i, n + number]] = alpha, -1.0
        bounds[2 * number + 1, [i, n + number]] = -1.0, 1.0
    theta, right = theta / max(np.abs(theta).max(), 1e-300), right / np.abs(right).max()
    ones = np.ones((len(right), 1))
    found = linprog(
        np.append(np.zeros(theta.shape[1]), 1.0),
        A_ub=np.block([[theta, -ones], [-theta, -ones], [bounds, np.zeros((len(bounds), 1))]]),
        b_ub=np.concatenate([right, -right, np.zeros(len(bounds))]),
        bounds=[(0.0, 0.0 if q > 1 + 1e-6 else None) for q in margins] + [(0.0, None)] * (len(kinks) + 1),
    )
    return bool(found.status == 0 and found.fun <= 1e-7)


def faults_of_end(limit: Limit, problem: Problem) -> list[str]:
    r"""Square loss: is zero in Clarke's subdifferential at the end, neuron by neuron?

    At the kinks the slopes are the best ones in $[\alpha, 1]$: $a_j \sum_i p_{ji} r_i x_i = 0$ with the
    residuals $r_i$ of the samples.
    """
    x, y, alpha = problem.inputs, problem.y, problem.slope
    w, a = weights(limit, problem)
    z = w @ x.T
    r = y - a @ np.where(z > 0, z, alpha * z)
    return unbalanced(w, problem, r, a, float(np.abs(a).max() * (np.abs(y) @ np.linalg.norm(x, axis=1))))


def unbalanced(
    w: np.ndarray, problem: Problem, r: np.ndarray, a: np.ndarray | None = None, scale: float | None = None
) -> list[str]:
    """Is there a neuron, times a if given, on which the samples' pulls r do not balance?"""
    x, alpha, z = problem.inputs, problem.slope, w @ problem.inputs.T
    a = np.ones(len(w)) if a is None else a
    scale = float(np.abs(r) @ np.linalg.norm(x, axis=1)) if scale is None else scale
    sizes = np.linalg.norm(x, axis=1) * np.linalg.norm(w, axis=1).max()
    worst = 0.0
    for j in range(len(a)):
        kinks = (np.abs(z[j]) <= 1e-8 * sizes) & (alpha < 1)
        g = (np.where(kinks, 0.0, np.where(z[j] > 0, 1.0, alpha)) * r) @ x
        pulls = (r[kinks, None] * x[kinks]).T
        if np.abs(pulls).max(initial=0.0) > 0:
            unit = max(np.abs(pulls).max(), np.abs(g).max())
            g = g + pulls @ lsq_linear(pulls / unit, -g / unit, bounds=(alpha, 1.0), tol=1e-14).x
        worst = max(worst, abs(a[j]) * float(np.linalg.norm(g)))
    return [] if worst <= 1e-7 * scale else [f"the gradient at the end is {worst / scale:.1e}, not 0"]


@cache
def checker() -> ModuleType | None:
    """The stand-alone checker of certificates, loaded from its file; None if there is none."""
    if not CHECKER.exists():
        return None
    spec = importlib.util.spec_from_file_location("stand_alone_checker", CHECKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complaint_of_checker(limit: Limit) -> str:
    """What the stand-alone checker says against the saved certificate; empty if it accepts it."""
    if checker() is None or not hasattr(limit, "certificate"):
        return ""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        path = Path(folder) / "certificate.json"
        try:
            limit.certificate().save(path)
            status = checker().main([str(path)])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return said.getvalue().strip() if status else ""
