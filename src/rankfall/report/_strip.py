"""A strip beside a measured number: where it lies, against the interval in which it was expected."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from rankfall.papers.lab import Interval

WIDTH, HEIGHT, MARGIN = 180.0, 16.0, 18.0
DECADES = 1.5  # from so many on the scale is logarithmic


def strip(values: Mapping[str, float], expected: Interval) -> str:
    """An SVG of the range and the median on the expected interval; empty where one axis cannot show them."""
    if "low" not in values or np.ndim(expected.low) or np.ndim(expected.high):
        return ""
    ends = (float(expected.low), float(expected.high))
    measured = (values["low"], values["median"], values["high"])
    place, scale = _scale([*measured, *(end for end in ends if math.isfinite(end))])
    left, right = (
        place(end) if math.isfinite(end) else edge for end, edge in zip(ends, (0, WIDTH), strict=True)
    )
    low, middle, high = (place(value) for value in measured)
    return (
        f'<svg class="strip" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" aria-hidden="true">'
        f"<title>shaded: expected; line and dot: range and median, {scale} scale</title>"
        f'<rect class="expected" x="{left:.1f}" width="{max(right - left, 3):.1f}" height="{HEIGHT:g}"/>'
        f'<path class="axis" d="M0 {HEIGHT:g}H{WIDTH:g}"/>'
        f'<path class="range" d="M{low:.1f} {HEIGHT / 2:g}H{high:.1f}"/>'
        f'<circle class="median" cx="{middle:.1f}" cy="{HEIGHT / 2:g}" r="3.2"/></svg>'
    )


def _scale(points: list[float]) -> tuple[Callable[[float], float], str]:
    """Where a number lies on the strip, and the name of the scale."""
    far = min(points) > 0 and max(points) / min(points) > 10**DECADES
    shape: Callable[[float], float] = math.log if far else float
    start, end = shape(min(points)), shape(max(points))
    if end <= start:
        return lambda value: WIDTH / 2, "linear"
    inner = WIDTH - 2 * MARGIN
    return lambda value: MARGIN + inner * (shape(value) - start) / (end - start), "log" if far else "linear"
