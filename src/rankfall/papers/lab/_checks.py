"""What many claims suppose of their runs, each in one wording, and what many measure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from rankfall.judge import Check, at_least

Take = Callable[[xr.Dataset], Any]


def all_certified(take: Take = lambda runs: runs.certified) -> Check:
    """Every limit is certified: `take` gives 1 for each that is."""
    return Check("limits certified (1: yes)", take, at_least(1, "every limit is certified"), "{:.0f}")


def all_reached(take: Take = lambda runs: runs.certified) -> Check:
    """Every flow was followed to its limit: `take` gives 1 for each that was."""
    return Check("limits reached (1: yes)", take, at_least(1, "every flow comes to its limit"), "{:.0f}")


def orthogonal_enough(take: Take, because: str = "p(X) ≥ 3/γ³, as Theorem 3.2 asks") -> Check:
    """The data are as nearly orthogonal as the theorem asks: `take` gives p(X) over what it needs."""
    return Check("p(X) over the least that the theorem allows", take, at_least(1, because))


def power_law(x: ArrayLike, y: ArrayLike, axis: int = 0) -> np.ndarray:
    """The exponents b of y = c x^b along an axis, by least squares in the logarithms.

    Not a finite number where some x or y is not positive, or where x does not change.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        u, v = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
        u = u - u.mean(axis=axis, keepdims=True)
        return np.asarray((u * v).sum(axis=axis) / (u * u).sum(axis=axis))
