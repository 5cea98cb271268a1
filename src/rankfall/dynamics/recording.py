"""Which measures a run records."""

from collections.abc import Iterable

from rankfall.data import Data
from rankfall.dynamics.problem import check
from rankfall.loss import Loss
from rankfall.measure import Measure, matrix_layers, select
from rankfall.network import Network


def choose(
    measures: Iterable[str | Measure] | None, network: Network, data: Data, loss: Loss
) -> tuple[Measure, ...]:
    """The measures asked for, checked; or the usual ones: loss, stable rank, and accuracy for labels."""
    check(network, data, loss)
    if measures is None:
        measures = ["loss", *(["stable_rank"] if matrix_layers(network) else [])]
        measures += ["accuracy"] if loss.targets != "numbers" else []
    chosen = select(measures)
    for measure in chosen:
        measure.check(network, data, loss)
    return chosen
