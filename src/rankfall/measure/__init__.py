"""Measures: pure, named functions of a network and its data. A run records those it is asked for."""

from rankfall.measure._core import MEASURES, Context, Measure, Warm, compiled, measured, select
from rankfall.measure._fit import (
    accuracy,
    gradient_norm,
    log_loss,
    loss,
    margins,
    normalised_margin,
    norms,
    outputs,
    parameter_norm,
    smoothed_margin,
    test_accuracy,
    test_loss,
    weights,
    with_weights,
)
from rankfall.measure._linearity import distance_to_twin, fresh_linearity, linearity
from rankfall.measure._matrix import RANK, Spectrum, stable_rank_of_gram
from rankfall.measure._neurons import (
    activation_patterns,
    balance,
    balance_drift,
    balance_matrices,
    conserved,
    conserved_layers,
    dead_neurons,
    distinct_directions,
    neuron_balance,
    neuron_balance_drift,
)
from rankfall.measure._spectrum import (
    alignment,
    block_stable_rank,
    effective_rank,
    matrix_layers,
    rank,
    rank_excess,
    sign_blocks,
    singular_values,
    stable_rank,
)

__all__ = [
    "MEASURES",
    "RANK",
    "Context",
    "Measure",
    "Spectrum",
    "Warm",
    "accuracy",
    "activation_patterns",
    "alignment",
    "balance",
    "balance_drift",
    "balance_matrices",
    "block_stable_rank",
    "compiled",
    "conserved",
    "conserved_layers",
    "dead_neurons",
    "distance_to_twin",
    "distinct_directions",
    "effective_rank",
    "fresh_linearity",
    "gradient_norm",
    "linearity",
    "log_loss",
    "loss",
    "margins",
    "matrix_layers",
    "measured",
    "neuron_balance",
    "neuron_balance_drift",
    "normalised_margin",
    "norms",
    "outputs",
    "parameter_norm",
    "rank",
    "rank_excess",
    "select",
    "sign_blocks",
    "singular_values",
    "smoothed_margin",
    "stable_rank",
    "stable_rank_of_gram",
    "test_accuracy",
    "test_loss",
    "weights",
    "with_weights",
]


def __getattr__(name: str) -> Measure:
    """A measure that was defined elsewhere, by its name."""
    if name not in MEASURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MEASURES[name]
