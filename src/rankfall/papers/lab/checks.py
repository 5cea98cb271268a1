"""What many claims suppose of their runs, each in one wording, and what many measure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from rankfall.papers.lab.claim import Check, at_least

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


def power_law(x: Any, y: Any) -> float:
    """The exponent b of y = c x^b, by least squares in the logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0])
