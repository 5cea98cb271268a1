"""What many claims suppose of their runs, each in one wording, and what many measure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from rankfall.judge import Check, at_least, at_most

Take = Callable[[xr.Dataset], Any]


def all_certified(take: Take = lambda runs: runs.certified) -> Check:
    """Every limit is certified: `take` gives 1 for each that is."""
    return Check("limits certified (1: yes)", take, at_least(1, "every limit is certified"), "{:.0f}")


def all_reached(take: Take = lambda runs: runs.certified) -> Check:
    """Every flow was followed to its limit: `take` gives 1 for each that was."""
    return Check("limits reached (1: yes)", take, at_least(1, "every flow comes to its limit"), "{:.0f}")


def small_residuals(take: Take = lambda runs: runs.residual) -> Check:
    """The residuals of the limits are those of certificates: `take` gives the largest of each."""
    because = "the largest that a certificate allows"
    return Check("largest residual of a KKT condition", take, at_most(1e-10, because))


def orthogonal_enough(
    take: Take,
    because: str,
    metric: str = "p(X) over the least that the theorem allows",
    least: float = 1.0,
    form: str = "{:.4g}",
) -> Check:
    """The data are as nearly orthogonal as a theorem asks, by its own measure: `take` gives that."""
    return Check(metric, take, at_least(least, because, form=form), form)


def scientific(number: float) -> str:
    """1e-7: three digits at most, and no zero in the exponent."""
    return np.format_float_scientific(number, precision=2, trim="-", exp_digits=1)


def superscript(number: float) -> str:
    """The number, rounded, as an exponent in plain text: -12 is ⁻¹²."""
    return str(round(number)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def number_word(count: int) -> str:
    """A number as it stands in a sentence: "three"."""
    words = dict(
        enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
    )
    return (words | {100: "a hundred"}).get(count, str(count))


def power_law(x: ArrayLike, y: ArrayLike, axis: int = 0) -> np.ndarray:
    """The exponents b of y = c x^b along an axis, by least squares in the logarithms.

    Not a finite number where some x or y is not positive, or where x does not change.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        u, v = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
        u = u - u.mean(axis=axis, keepdims=True)
        return np.asarray((u * v).sum(axis=axis) / (u * u).sum(axis=axis))
