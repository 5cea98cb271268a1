"""A prediction beside what was measured: curves over time, entry against entry, or a number and its bound."""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rankfall.plot._style import panels, style
from rankfall.theory import Judged, Relation, Verification

LINES = 8  # of a prediction with more entries, those that move most are drawn
MEASURED, PREDICTED, FORBIDDEN = "#31688e", "black", "#d1495b"
DASHED = (0, (4, 2))
FLOOR = 1e-8  # errors below this share of the tolerance are drawn there


def verdict_figure(verification: Verification, most: int = 5) -> Figure:
    """Predictions beside measurements, `most` of them a panel each, and the errors of all.

    Curves over time come first, then arrays, entry against entry. In a run the predicted curves are dashed.
    """
    judged = [v for v in verification if v.measured is not None and v.kind is not None]
    if not judged:
        raise ValueError("nothing was measured: this evidence cannot be compared with any prediction.")
    series = [v for v in judged if is_series(v, verification)]
    arrays = [
        v for v in judged if not is_series(v, verification) and v.measured is not None and v.measured.size > 1
    ]
    shown = [*series, *arrays][:most]
    with style():
        columns = 2 if len(shown) in (1, 3) else min(len(shown) + 1, 3)
        figure, axes = panels(columns, -(-(len(shown) + 1) // columns))
        for ax, verdict in zip(axes.flat, shown, strict=False):
            if is_series(verdict, verification):
                draw_series(ax, verdict, verification)
            else:
                draw_entries(ax, verdict)
        draw_errors(axes.flat[len(shown)], verification)
        for ax in axes.flat[len(shown) + 1 :]:
            ax.set_visible(False)
    return figure


def is_series(verdict: Judged, verification: Verification) -> bool:
    """Is it a curve over the run?"""
    times, measured, value = verification.times, verdict.measured, verdict.prediction.value
    if times is None or measured is None or measured.shape[:1] != times.shape:
        return False
    return callable(value) or np.ndim(value) == 0  # an array that is known at the start is no curve


def draw_series(ax: Axes, verdict: Judged, verification: Verification) -> None:
    """Measured curves, and the predicted ones dashed; the side that a bound forbids is shaded."""
    assert verification.times is not None
    times = verification.times
    predicted, measured = (values.reshape(len(times), -1) for values in _both(verdict))
    keep = np.argsort(-np.ptp(measured, axis=0))[:LINES]
    ax.plot(times, measured[:, keep], color=MEASURED, lw=2.2, alpha=0.8)
    ax.plot(times, predicted[:, keep], color=PREDICTED, lw=0.9, ls=DASHED)
    relation = verdict.prediction.relation
    if relation is not Relation.EQUALS and predicted.shape[1] == 1:
        low, high = ax.get_ylim()
        bound = predicted[:, 0] + (1 if relation is Relation.AT_MOST else -1) * _allowed(
            verdict, predicted[:, 0]
        )
        ax.fill_between(times, bound, _beyond(relation, bound, low, high), color=FORBIDDEN, alpha=0.12, lw=0)
        ax.set_ylim(low, high)
    if np.median(times) < times.max() / 10:
        ax.set_xscale("symlog", linthresh=times[times > 0].min())
        ax.set_xlim(left=0)
    values = np.concatenate([measured[:, keep].ravel(), predicted[:, keep].ravel()])
    if relation is Relation.EQUALS and (values > 0).all() and values.max() > 1e3 * values.min():
        ax.set_yscale("log")
    ax.set_xlabel(verification.axis)
    _title(ax, verdict)


def draw_entries(ax: Axes, verdict: Judged) -> None:
    """Entry against entry; or, where all predicted entries are one number, the entries beside it."""
    predicted, measured = (values.ravel() for values in _both(verdict))
    relation = verdict.prediction.relation
    if np.ptp(predicted) > 1e-6 * np.abs(predicted).max():
        both = np.array([min(predicted.min(), measured.min()), max(predicted.max(), measured.max())])
        ax.plot(both, both, color=PREDICTED, lw=0.9, ls=DASHED)
        ax.plot(predicted, measured, "o", ms=3.5, color=MEASURED, alpha=0.7)
        if relation is not Relation.EQUALS:
            end = both[1 if relation is Relation.AT_MOST else 0]
            ax.fill_between(both, both, end, color=FORBIDDEN, alpha=0.12, lw=0)
        ax.set_xlabel("predicted")
        ax.set_ylabel("measured")
    else:
        ax.plot(measured, "o", ms=3.5, color=MEASURED, alpha=0.8)
        ax.axhline(predicted[0], color=PREDICTED, lw=0.9, ls=DASHED)
        spread = max(np.abs(measured - predicted[0]).max(), 0.05 * abs(predicted[0]), 1e-12)
        low, high = predicted[0] - 1.3 * spread, predicted[0] + 1.3 * spread
        ax.set_ylim(low, high)
        if relation is not Relation.EQUALS:
            ax.axhspan(
                predicted[0], high if relation is Relation.AT_MOST else low, color=FORBIDDEN, alpha=0.12, lw=0
            )
        ax.set_xlabel("entry")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.locator_params(axis="both", nbins=5)
    ax.ticklabel_format(useOffset=False, scilimits=(-3, 5))
    _title(ax, verdict)


def _both(verdict: Judged) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and measured in one shape."""
    assert verdict.measured is not None
    assert verdict.predicted is not None
    return np.broadcast_to(verdict.predicted, verdict.measured.shape), verdict.measured


def _allowed(verdict: Judged, predicted: np.ndarray) -> np.ndarray:
    """How far a bound may be passed."""
    given = verdict.tolerance.high if verdict.tolerance else 0.0
    size = verdict.prediction.scale or np.where(predicted != 0, np.abs(predicted), 1.0)
    return np.asarray(given * size)


def _beyond(relation: Relation, bound: np.ndarray, low: float, high: float) -> np.ndarray:
    """The end of the forbidden side: that of the axis, or the bound itself if it is off the axis."""
    return np.maximum(bound, high) if relation is Relation.AT_MOST else np.minimum(bound, low)


def draw_errors(ax: Axes, verification: Verification) -> None:
    """Of every prediction the error as a part of its tolerance; beyond 1 it fails."""
    judged = [v for v in verification if v.tolerance is not None and v.kind is not None]
    for row, v in enumerate(judged):
        allowed = v.tolerance.high if v.tolerance else 0.0
        share = v.error / allowed if allowed > 0 else (0.0 if v.error == 0 else np.inf)
        x = float(np.clip(np.nan_to_num(share, nan=np.inf), FLOOR, 1e3))
        colour = MEASURED if v.agrees else FORBIDDEN
        ax.plot([FLOOR, x], [row, row], color=colour, lw=2)
        ax.plot([x], [row], "o", ms=4, color=colour)
        told = _numbers(v)
        if told:
            ax.annotate(told, (x, row), (7, 0), textcoords="offset points", fontsize=6.5, va="center")
    ax.axvline(1.0, color=PREDICTED, lw=0.9, ls=DASHED)
    ax.set_xscale("log")
    ax.set_xlim(FLOOR / 2, 2e3)
    ax.axvspan(1.0, 2e3, color=FORBIDDEN, alpha=0.12, lw=0)
    ax.margins(y=0.15)
    ax.set_yticks(range(len(judged)), [textwrap.shorten(v.prediction.name, 30) for v in judged], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlabel("error / tolerance")
    ax.set_title("every prediction")


def _numbers(verdict: Judged) -> str:
    """A single number that was measured, and its prediction in parentheses."""
    if verdict.measured is None or verdict.predicted is None or verdict.measured.size != 1:
        return ""
    sign = verdict.prediction.relation.sign
    return f"{verdict.measured.item():.4g} ({sign}{verdict.predicted.ravel()[0]:.4g})"


def _title(ax: Axes, verdict: Judged) -> None:
    ax.set_title(textwrap.fill(verdict.prediction.name, 40))
