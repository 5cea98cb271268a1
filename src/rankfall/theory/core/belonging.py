"""Does a run or a limit belong to a situation? Its record must be that of its weights, and of the start."""

from collections.abc import Iterator

import numpy as np

from rankfall.judge import at_most
from rankfall.measure import loss as loss_measure
from rankfall.measure import weights
from rankfall.theory.core.evidence import Evidence, Unmeasurable
from rankfall.theory.core.result import Prediction


def belonging(evidence: Evidence) -> Iterator[Prediction]:
    """What must be so whatever the results say; else the evidence is of something else."""
    yield Prediction(
        "belongs here",
        "what was recorded is what the last weights give on these data",
        _recorded,
        _computed,
        at_most(1e-6, "both are computed in double precision"),
        scale=_loss_scale(evidence),
    )
    start = evidence.start
    if not evidence.is_limit and "weights" in evidence.run.dataset and not start.has_bias:
        yield Prediction(
            "starts here",
            "the first recorded weights are those of the start",
            np.asarray(weights(start)),
            lambda e: e.run["weights"].values[0],
            at_most(1e-9, "the same numbers"),
        )


def _loss_scale(e: Evidence) -> float | None:
    """What the last loss is compared with: itself, unless it is a square and may be nothing but rounding."""
    if e.is_limit:
        return 1.0  # margins
    try:
        losses = e.series("loss")
    except Unmeasurable:
        return None
    return max(float(losses[-1]), 1e-10 * float(losses[0])) if e.situation.loss.name == "square" else None


def _recorded(e: Evidence) -> float:
    return float(e.limit.margins.min()) if e.is_limit else float(e.series("loss")[-1])


def _computed(e: Evidence) -> float:
    s = e.situation
    if not e.is_limit:
        return float(loss_measure(e.network, s.data, s.loss))
    f = np.asarray(e.network(s.data.x))
    return float((f if s.loss.name == "square" else s.y * f).min())
