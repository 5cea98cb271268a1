r"""The early phase on symmetric data: small weights grow along one direction, and become of rank one.

$W_1 = e^{cst} r_1 \bar\beta^T + O(w)$ and $W_2 = e^{cst} r_1^T + O(w)$ with the norm w of the larger layer
and $r_1 = (W_1(0)\bar\beta + W_2(0)^T)/2$, as long as $e^{cst} \le w^{-2/3}$: by then the weights have grown
from w to $w^{1/3}$. Zhang, Saxe and Latham 2024, Theorem 13, but with the window and the constants that the
flow itself gives. With $K = \|\Sigma\| / (4cs)$ (the largest eigenvalue) and the norm R of what does not
grow, $\|W - e^{cst} (r_1\bar\beta^T, r_1^T)\| \le R + K \|W(0)\|^3 e^{cst} (e^{2cst} - 1)$.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data
from rankfall.dynamics import flow
from rankfall.judge import Interval, at_most
from rankfall.limits import Limit
from rankfall.loss import logistic, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Relation, Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import ZHANG
from rankfall.theory.core.tolerances import integration
from rankfall.theory.results.zhang_equivalence import SMALL
from rankfall.theory.results.zhang_time_course import CORRELATED, GROWING, mirror_pairs, spectrum
from rankfall.trajectory import Trajectory

KINKS = Condition("no-kinks", "no sample on a neuron's hyperplane: least |cosine|")


@dataclass(frozen=True)
class Early:
    """The linear flow of small weights.

    - `unit`, `rate`: the direction of beta, and the rate c s of growth.
    - `grows`: r1; `decays`: the same with a minus; `stays`: what of W1 is orthogonal to beta.
    - `w`, `norm`: the larger norm of a layer at the start, and the norm of both together.
    - `cubic`: the K of what the linear flow leaves out.
    """

    unit: np.ndarray
    rate: float
    grows: np.ndarray
    decays: np.ndarray
    stays: np.ndarray
    w: float
    norm: float
    cubic: float

    @property
    def window(self) -> float:
        """The time at which the weights have grown by w^(-2/3)."""
        return -2 / 3 * np.log(self.w) / self.rate

    @property
    def rest(self) -> float:
        """The norm of what does not grow, at the start."""
        return float(np.sqrt(2 * self.decays @ self.decays + (self.stays**2).sum()))

    def left_out(self, times: np.ndarray) -> np.ndarray:
        """The bound on what the linear flow leaves out."""
        growth = np.exp(self.rate * times)
        return np.asarray(self.cubic * self.norm**3 * growth * (growth**2 - 1))

    def growing(self, times: np.ndarray) -> np.ndarray:
        """The growing part of both layers (t, m, d + 1), with W2 as the last column."""
        return np.exp(self.rate * times)[:, None, None] * np.outer(self.grows, np.append(self.unit, 1.0))

    def linear(self, times: np.ndarray) -> np.ndarray:
        """The whole linear flow, Zhang et al. eq. (23), likewise."""
        decaying = np.outer(self.decays, np.append(self.unit, -1.0))
        staying = np.column_stack([self.stays, np.zeros(len(self.stays))])
        return self.growing(times) + np.exp(-self.rate * times)[:, None, None] * decaying + staying


def early(s: Situation) -> Early:
    """The numbers of the early phase; asked for where beta is not zero."""
    clock = len(s.y) / s.parts  # the flow of a sum is n times as fast
    c, size = float(s.network.mean_slope), float(np.linalg.norm(s.beta))
    unit = s.beta / size
    along = s.w @ unit
    return Early(
        unit,
        clock * c * size,
        (along + s.a) / 2,
        (along - s.a) / 2,
        s.w - np.outer(along, unit),
        float(max(np.linalg.norm(s.w), np.linalg.norm(s.a))),
        s.start_norm,
        spectrum(s)[-1] / (4 * c * size),
    )


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Theorem 13: symmetric data, the square loss, small weights of which a part grows."""
    yield conditions.both_layers_trained(s)
    yield conditions.no_bias(s)
    yield conditions.square_loss(s)
    yield conditions.gradient_flow(s)
    yield conditions.symmetric(s)
    structure = s.both_trained and not s.network.has_bias and s.loss.name == "square"
    if not structure or s.asymmetry > conditions.NEAR_SYMMETRY:
        return
    scale = float(np.sqrt((s.norms**2).mean() * (s.y**2).mean())) or 1.0
    correlated = CORRELATED.at_least(float(np.linalg.norm(s.beta)) / scale, 1e-10)
    yield correlated
    if not correlated.holds:
        return
    known = early(s)
    # The cubic terms, relative to the weights, are at most 2 K w^(2/3) at the end of the window.
    bound, reach = (min(most, (share / (2 * known.cubic)) ** 1.5) for share, most in ((0.2, 0.1), (0.8, 0.5)))
    yield SMALL.at_most(known.w, bound, reach=reach)
    share = float(np.linalg.norm(known.grows)) / known.norm if known.norm > 0 else 0.0
    yield GROWING.at_least(share, 0.1, reach=0.02)
    yield KINKS.at_least(_nearest_kink(s), 1e-14)


def _nearest_kink(s: Situation) -> float:
    """The least |cosine| between a neuron and an input that is not zero; 0 for a neuron that is zero."""
    lengths = np.linalg.norm(s.w, axis=1)
    x = s.x[s.norms > 0] / s.norms[s.norms > 0, None]
    if not lengths.min() > 0 or not len(x):
        return 0.0
    return float(np.abs((s.w / lengths[:, None]) @ x.T).min())


def predictions(s: Situation) -> Iterator[Prediction]:
    """Theorem 13 with its constants, in its window."""
    known = early(s)
    end = known.window
    if not (end > 0 and known.grows.any()):
        return
    constant = (known.rest + float(known.left_out(np.array([end]))[0])) / known.w
    yield Prediction(
        "one direction",
        f"until t = {end:.4g} the weights are e^({known.rate:.3g} t) (r1 b', r1') up to {constant:.3g} times "
        f"{known.w:.3g}",
        constant,
        lambda e: _distances(e, known, known.growing) / known.w,
        lambda e: _steps(e, known, constant * known.w),
        Relation.AT_MOST,
    )
    yield Prediction(
        "linear flow",
        f"until t = {end:.4g} the weights follow the linear flow, eq. (23), up to "
        f"{known.left_out(np.array([end]))[0]:.3g}",
        lambda e: known.left_out(_times(e, known)),
        lambda e: _distances(e, known, known.linear),
        lambda e: _steps(e, known, float(known.left_out(_times(e, known)).max())),
        Relation.AT_MOST,
    )
    yield Prediction(
        "growth",
        f"|W1 b + W2'| / 2 grows from {np.linalg.norm(known.grows):.3g} at the rate {known.rate:.4g}",
        lambda e: np.linalg.norm(known.grows) * np.exp(known.rate * _times(e, known)),
        lambda e: _amplitudes(e, known),
        lambda e: _cubic(e, known),
    )
    at_end = _off_rank_one(known, end)
    if at_end is not None:
        yield Prediction(
            "rank one",
            f"at t = {end:.4g} the second singular value of W1 is at most {at_end:.3g} of the first",
            lambda e: _off_rank_one(known, float(_times(e, known)[-1])) or 1.0,
            lambda e: _second_singular_value(e, known),
            at_most(1e-3, "the flow's steps"),
            Relation.AT_MOST,
        )


def _off_rank_one(known: Early, time: float) -> float | None:
    """The bound on the second singular value of W1 over the first, if there is one."""
    off = known.rest + float(known.left_out(np.array([time]))[0])
    first = float(np.linalg.norm(known.grows)) * np.exp(known.rate * time) - off
    return off / first if first > off else None


# What is measured: the records within the window


def _times(e: Evidence, known: Early) -> np.ndarray:
    inside = e.times[e.times <= known.window * (1 + 1e-9)]
    if len(inside) < 2:
        raise Unmeasurable(f"needs records between the start and the time {known.window:.4g}")
    return np.asarray(inside)


def _weights(e: Evidence, known: Early) -> np.ndarray:
    """Both layers (t, m, d + 1), with W2 as the last column."""
    first, second = e.networks.weights
    both = np.concatenate([first, np.swapaxes(second, 1, 2)], axis=2)
    return np.asarray(both[: len(_times(e, known))])


def _distances(e: Evidence, known: Early, course: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return np.linalg.norm(_weights(e, known) - course(_times(e, known)), axis=(1, 2))


def _amplitudes(e: Evidence, known: Early) -> np.ndarray:
    return np.linalg.norm(_weights(e, known) @ np.append(known.unit, 1.0), axis=1) / 2


def _second_singular_value(e: Evidence, known: Early) -> float:
    return float(Spectrum.of(_weights(e, known)[-1, :, :-1]).share(2))


def _steps(e: Evidence, known: Early, bound: float) -> Interval:
    """The flow's errors are relative to the weights, the bound is much smaller than these."""
    weights = known.norm * float(np.exp(known.rate * _times(e, known)[-1]))
    return at_most(integration(e).high * weights / bound, "a bound: only the errors of the flow's steps")


def _cubic(e: Evidence, known: Early) -> Interval:
    last = _times(e, known)[-1:]
    relative = known.left_out(last)[0] / (np.linalg.norm(known.grows) * np.exp(known.rate * last[0]))
    return at_most(float(relative) + integration(e).high, "the cubic terms at the last record, and the steps")


def _runs(s: Situation) -> Trajectory | Limit:
    times = list(np.linspace(0, 25, 61))
    return flow(
        s.network, s.data, s.loss, 25.0, measures=["weights", "loss"], record=times, budget=3000, show=False
    )


def example() -> Example:
    """ReLU on the symmetric sine data, from small Gaussian weights."""
    data = mirror_pairs(sets.symmetric_sine(pairs=30, dim=4, seed=0))
    return Example(Situation(Network.gaussian((4, 30, 1), 0.0, scale=1e-4, seed=0), data, square), _runs)


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    n, x, y = s.network, s.data.x, s.data.y
    first, second = n.weights
    unit = s.beta / np.linalg.norm(s.beta)
    cube = x[:, 0] ** 3
    uncorrelated = cube - x @ np.linalg.lstsq(x, cube, rcond=None)[0]
    dead = np.vstack([first[:-1], np.zeros((1, 4))])
    return {
        conditions.both_layers_trained: replace(s, network=Network(n.weights, trained=(True, False))),
        conditions.no_bias: replace(s, network=Network(n.weights, [np.zeros(30), None])),
        conditions.square_loss: replace(s, data=Data(x, np.where(x[:, 0] > 0, 1.0, -1.0)), loss=logistic),
        conditions.gradient_flow: replace(s, step=10.0),
        conditions.symmetric: replace(s, data=Data(x[::2], np.abs(y[::2]))),
        CORRELATED: replace(s, data=Data(x, uncorrelated)),
        SMALL: replace(s, network=Network([1e4 * first, 1e4 * second])),
        GROWING: replace(s, network=Network([-np.outer(second[0], unit), second])),
        KINKS: replace(s, network=Network([dead, second])),
    }


RESULTS = (
    Result(
        "early_phase",
        "Symmetric data: small weights grow along one direction first",
        ZHANG.at("Theorem 13 of the workshop version, with its window corrected"),
        "On symmetric data small weights of norm w grow along one direction, W1 = e^(cst) r1 b' and "
        "W2 = e^(cst) r1' up to a multiple of w, until they have grown by w^(-2/3).",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.DERIVED,
    ),
)
