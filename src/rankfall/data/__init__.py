"""Data: the papers' constructed sets, real data, a user's own files, and what the theorems ask about."""

from .dataset import Data
from .download import fetch
from .files import load
from .geometry import (
    beta,
    covariance,
    is_separable,
    least_squares_floor,
    margin,
    whiteness,
)
from .hard_margin import (
    HardMargin,
    combination_that_vanishes,
    hard_margin,
    hard_margin_of_gram,
    hard_margin_of_rows,
)
from .orthogonality import Angles, angles, is_orthogonally_separable, orthogonal_margin, p_orthogonality
from .prepare import centre, pair, split, standardise, subset, with_bias
from .real import (
    autism,
    cifar10,
    fashion_mnist,
    gene_expression,
    golub,
    gordon,
    mnist,
    neuroblastoma,
    pomeroy,
    seqc_neuroblastoma,
)
from .recognise import take
from .separation import margin_bounds
from .store import available
from .symmetry import asymmetry, is_symmetric
from .synthetic import (
    circle,
    fan,
    gaussian_mixture,
    linear_teacher,
    nearly_orthogonal,
    orthogonal,
    orthogonal_pair,
    orthogonally_separable,
    six_points,
    symmetric_linear,
    symmetric_sine,
    symmetrise,
    xor,
)

__all__ = [
    "Angles",
    "Data",
    "HardMargin",
    "angles",
    "asymmetry",
    "autism",
    "available",
    "beta",
    "centre",
    "cifar10",
    "circle",
    "combination_that_vanishes",
    "covariance",
    "fan",
    "fashion_mnist",
    "fetch",
    "gaussian_mixture",
    "gene_expression",
    "golub",
    "gordon",
    "hard_margin",
    "hard_margin_of_gram",
    "hard_margin_of_rows",
    "is_orthogonally_separable",
    "is_separable",
    "is_symmetric",
    "least_squares_floor",
    "linear_teacher",
    "load",
    "margin",
    "margin_bounds",
    "mnist",
    "nearly_orthogonal",
    "neuroblastoma",
    "orthogonal",
    "orthogonal_margin",
    "orthogonal_pair",
    "orthogonally_separable",
    "p_orthogonality",
    "pair",
    "pomeroy",
    "seqc_neuroblastoma",
    "six_points",
    "split",
    "standardise",
    "subset",
    "symmetric_linear",
    "symmetric_sine",
    "symmetrise",
    "take",
    "whiteness",
    "with_bias",
    "xor",
]
