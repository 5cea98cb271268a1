r"""Both layers of a ReLU network, trained on orthogonally separable data, end as one neuron a class.

Orthogonally separable: $\langle x_i, x_j \rangle > 0$ within a class and $\le 0$ between the classes. With
$u_\pm$ the unit vector of the largest margin $\gamma_\pm = \min_{y_i = \pm 1} \langle u_\pm, x_i \rangle$
of one class alone, every living neuron with $a_j > 0$ ends along $u_+$ and every one with $a_j < 0$ along
$u_-$. At the margin 1, $A = \sum_{a_j > 0} a_j^2 = 1/\gamma_+$ and $B = \sum_{a_j < 0} a_j^2 = 1/\gamma_-$.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rankfall import data as sets
from rankfall.data import Data, hard_margin_of_gram
from rankfall.judge import Interval, at_most
from rankfall.limits import kkt_distance
from rankfall.loss import exponential, square
from rankfall.measure import Spectrum
from rankfall.network import Network
from rankfall.theory.core import conditions, ending
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.hypothesis import Condition, Hypothesis
from rankfall.theory.core.result import Example, Kind, Prediction, Result, Subject
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.sources import PHUONG
from rankfall.theory.core.tolerances import at_the_end
from rankfall.theory.mathematics.early_flow import outputs_bound

ORTHOGONALLY_SEPARABLE = Condition("orthogonally-separable", "orthogonally separable: least y_i y_j cos")
SMALL = Condition("small-start", "small start: largest sum_j |a_j| |w_j| |x_i|")
LEARNERS = Condition("learners", "a neuron of either sign active on a sample of its sign")

ACTIVE = 1e-9  # a cosine with a sample below this is none: the rounding of a limit at a kink


def hypotheses(s: Situation) -> Iterator[Hypothesis]:
    """Orthogonally separable data, and a small balanced start with a neuron of either sign that can learn."""
    yield conditions.both_layers_trained(s)
    yield conditions.margin_loss(s)
    if not (s.both_trained and s.signs):
        return
    yield conditions.bias_in_first_layer_only(s)
    yield conditions.relu(s)
    yield conditions.gradient_flow(s)
    yield _orthogonally_separable(s)
    # Enough for the end: no output weight changes its sign. |a_j|^2 - |w_j|^2 is conserved.
    yield conditions.balanced_start.at_most(conditions.imbalance(s), 1e-8, reach=1.0)
    yield SMALL.at_most(outputs_bound(s), 0.1, reach=1e3)
    plus, minus = (int((learning(s) & (sign * s.a > 0)).sum()) for sign in (1, -1))
    yield LEARNERS.fact(
        min(plus, minus) > 0,
        f"{plus} +, {minus} -",
        "1 of each",
    )


def _orthogonally_separable(s: Situation) -> Hypothesis:
    holds = sets.is_orthogonally_separable(Data(s.x, s.y))
    return Hypothesis(ORTHOGONALLY_SEPARABLE, s.mu, "> 0", holds, s.mu >= -0.1)


def learning(s: Situation, samples: np.ndarray | None = None) -> np.ndarray:
    """The neurons that are active on a sample of their own sign, of all or of `samples`: they will be."""
    active = (s.w @ s.x.T > 0) & (np.outer(s.a, s.y) > 0)
    return np.asarray((active if samples is None else active[:, samples]).any(axis=1))


def dead(s: Situation) -> np.ndarray:
    """The neurons that are active on no sample: they will never move."""
    return np.asarray(~(s.w @ s.x.T > 0).any(axis=1))


@dataclass(frozen=True)
class ClassMargins:
    """The unit vectors of largest margin of each class alone, one over their margins, who supports them."""

    plus: np.ndarray
    minus: np.ndarray
    a: float
    b: float
    support: np.ndarray

    @property
    def cosine(self) -> float:
        """The cosine of the angle between the two vectors."""
        return float(self.plus @ self.minus)

    @property
    def stable_rank(self) -> float:
        """The stable rank of A u+ u+' + B u- u-': its trace over its largest eigenvalue."""
        total = self.a + self.b
        root = np.sqrt((self.a - self.b) ** 2 + 4 * self.a * self.b * self.cosine**2)
        return float(2 * total / (total + root))


def class_margins(x: np.ndarray, y: np.ndarray) -> ClassMargins | None:
    """Solve the two hard-margin problems; None if a class has no vector with positive inner products."""
    vectors, support = [], np.zeros(len(y), dtype=bool)
    for sign in (1, -1):
        own = x[y == sign]
        solved = hard_margin_of_gram(own @ own.T)
        if solved is None:
            return None
        vectors.append(solved.multipliers @ own)
        support[y == sign] = solved.support
    a, b = (float(np.linalg.norm(v)) for v in vectors)
    return ClassMargins(vectors[0] / a, vectors[1] / b, a, b, support)


def predictions(s: Situation) -> Iterator[Prediction]:
    """The whole limit, up to how the neurons of one sign share their strength."""
    ends = class_margins(s.x, s.y)
    if ends is None:
        return
    directions = np.where(s.a[:, None] > 0, ends.plus, ends.minus)
    yield Prediction(
        "directions",
        f"the living neurons of one sign are one direction, u+ or u-; their cosine is {ends.cosine:.4g}",
        lambda e: np.linalg.norm(_first_layer(e), axis=1)[:, None] * directions,
        _first_layer,
        lambda e: _along(e, ends),
    )
    yield Prediction(
        "strengths",
        f"at the margin 1 the positive neurons have sum a_j^2 = {ends.a:.4g}, the negative {ends.b:.4g}",
        [ends.a, ends.b],
        _strengths,
        at_the_end,
    )
    yield Prediction(
        "norm",
        f"at the margin 1, |theta|^2 = {2 * (ends.a + ends.b):.4g}: no two-layer ReLU network needs less",
        2 * (ends.a + ends.b),
        lambda e: e.last.start_norm**2 / _margin(e),
        at_the_end,
    )
    yield Prediction(
        "stable rank",
        f"the stable rank tends to {ends.stable_rank:.4g}",
        ends.stable_rank,
        lambda e: e.last.stable_rank,
        lambda e: _along(e, ends),
    )
    yield Prediction(
        "blocks of rank one",
        "the neurons of one sign have rank 1: the second singular values vanish",
        [0.0, 0.0],
        _second_values,
        at_the_end,
        scale=1.0,
    )
    yield _fates(s, ends)
    yield Prediction(
        "multipliers",
        f"the multipliers of the positive samples add up to {ends.a:.4g}, of the negative to {ends.b:.4g}",
        [ends.a, ends.b],
        lambda e: [e.limit.multipliers[s.y == sign].sum() for sign in (1, -1)],
        at_the_end,
    )
    yield Prediction(
        "arrives",
        "the flow separates the data and converges in direction",
        1.0,
        lambda e: float(e.limit.reached),
        at_most(0.0, "a certificate is there or not"),
    )


def _fates(s: Situation, ends: ClassMargins) -> Prediction:
    """Who lives, as far as the start tells.

    The pull of a support vector lasts: a neuron that sees one turns to its whole class. One that sees only
    others may stop before it does, and vanish beside those that grow.
    """
    lives = learning(s, ends.support)
    settled = lives | dead(s)
    return Prediction(
        "activation pattern",
        f"{lives.sum()} neurons end active on the samples of their sign and only these, "
        f"{dead(s).sum()} on none; {(~settled).sum()} are open",
        ((np.outer(s.a, s.y) > 0) & lives[:, None])[settled],
        lambda e: _active(e)[settled],
        at_most(0.0, "active or not; at the kink counts as not"),
        scale=1.0,
    )


def _along(e: Evidence, ends: ClassMargins) -> Interval:
    """A direction is known to the root of the duality gap: the margin problem is flat at its solution."""
    known = at_the_end(e)
    if e.is_limit:
        return known
    delta = kkt_distance(e.network, e.situation.data)[1]
    # |v - v*|^2 / 2 <= sum_i alpha_i (q_i - 1) for a feasible v = A u, with the multipliers alpha = A lambda.
    gap = len(e.situation.y) * delta / min(ends.a, ends.b)
    return at_most(known.high + np.sqrt(2 * gap), f"{known.because}, and the root of the duality gap")


# What is measured: of a run its last state, scaled to the margin 1


def _margin(e: Evidence) -> float:
    if not e.margins.min() > 0:
        raise Unmeasurable("needs a later state: not all samples are classified yet")
    return float(e.margins.min())


def _first_layer(e: Evidence) -> np.ndarray:
    return e.last.w / np.sqrt(_margin(e))


def _strengths(e: Evidence) -> np.ndarray:
    a = e.last.a
    return np.array([(a[sign * a > 0] ** 2).sum() for sign in (1, -1)]) / _margin(e)


def _second_values(e: Evidence) -> list[float]:
    blocks = [e.last.w[sign * e.situation.a > 0] for sign in (1, -1)]
    return [Spectrum.of(block).share(2) for block in blocks]


def _active(e: Evidence) -> np.ndarray:
    at_the_end(e)  # asked for first: an early state is no end
    lengths = np.outer(np.linalg.norm(e.last.w, axis=1), e.situation.norms)
    return np.asarray(e.last.w @ e.situation.x.T > ACTIVE * lengths, dtype=float)


def example() -> Example:
    """Ten unit vectors in R^6; of twelve neurons one is dead, and five can still go either way."""
    drawn = sets.orthogonally_separable(n=10, dim=6, seed=1)
    data = Data(drawn.x / np.linalg.norm(drawn.x, axis=1, keepdims=True), drawn.y, drawn.name)
    first, second = (w.copy() for w in Network.balanced((6, 12, 1), slope=0.0, scale=1e-2, seed=0).weights)
    first[1] = -np.linalg.norm(first[1]) * _inside(data)
    return Example(Situation(Network([first, second]), data, exponential), ending.ends)


def _inside(data: Data) -> np.ndarray:
    """A unit vector with positive inner products with all samples."""
    found = hard_margin_of_gram(data.x @ data.x.T)
    assert found is not None
    v = found.multipliers @ data.x
    return np.asarray(v / np.linalg.norm(v))


def broken() -> dict[Condition, Situation]:
    """The example with one hypothesis violated."""
    s = example().situation
    first, second = s.network.weights
    return {
        conditions.both_layers_trained: replace(s, network=Network([first, second], trained=(True, False))),
        conditions.margin_loss: replace(s, loss=square),
        conditions.bias_in_first_layer_only: replace(s, network=Network([first, second], [None, [0.0]])),
        conditions.relu: replace(s, network=Network([first, second], slope=0.5)),
        conditions.gradient_flow: replace(s, step=10.0),
        ORTHOGONALLY_SEPARABLE: replace(s, data=Data(s.data.x + 5 * s.data.x[0], s.data.y, "shifted")),
        conditions.balanced_start: replace(s, network=Network([first, 100 * second])),
        SMALL: replace(s, network=Network([1e4 * first, 1e4 * second])),
        LEARNERS: replace(s, network=Network([first, np.abs(second)])),
    }


def advice(s: Situation) -> str | None:
    """How little of the network and of the data is left at the end."""
    ends = class_margins(s.x, s.y)
    if ends is None:
        return None
    return (
        f"Your classes are orthogonally separable: trained long enough, the {len(s.a)} neurons become two, "
        f"which depend on {ends.support.sum()} of the {len(s.y)} samples alone. Two neurons are enough here."
    )


RESULTS = (
    Result(
        "phuong_lampert",
        "ReLU, both layers trained, orthogonally separable data: one neuron a class",
        PHUONG.at("Theorem 1"),
        "On orthogonally separable data the living neurons of one sign converge to the max-margin vector of "
        "their class alone, with strengths 1/margin.",
        hypotheses,
        predictions,
        example,
        broken,
        kind=Kind.RECALLED,
        advice=advice,
        subject=Subject.THE_END_OF_TRAINING,
    ),
)
