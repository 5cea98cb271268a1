"""How claims write small numbers."""

import numpy as np


def scientific(number: float) -> str:
    """1e-7, with no zero in the exponent."""
    return np.format_float_scientific(number, precision=2, trim="-", exp_digits=1)
