"""A prediction beside what was measured: curves over time, entry against entry, or a number and its bound."""

import textwrap

import numpy as np
from matplotlib.axes import Axes

from rankfall.theory import Verdict, Verification

LINES = 8  # of a prediction with more entries, those that move most are drawn
MEASURED, PREDICTED, FORBIDDEN = "#31688e", "black", "#d1495b"
FLOOR = 1e-8  # errors below this share of the tolerance are drawn there


def is_series(verdict: Verdict, verification: Verification) -> bool:
    """Is it a curve over the run?"""
    times, measured = verification.times, verdict.measured
    return times is not None and measured is not None and measured.shape[:1] == times.shape


def draw_series(ax: Axes, verdict: Verdict, verification: Verification) -> None:
    """Measured curves, and the predicted ones dashed; the side that a bound forbids is shaded."""
    assert verification.times is not None
    assert verdict.measured is not None
    assert verdict.predicted is not None
    times, measured = verification.times, verdict.measured
    predicted = np.broadcast_to(verdict.predicted, measured.shape).reshape(len(times), -1)
    measured = measured.reshape(len(times), -1)
    keep = np.argsort(-np.ptp(measured, axis=0))[:LINES]
    ax.plot(times, measured[:, keep], color=MEASURED, lw=2.2, alpha=0.8)
    ax.plot(times, predicted[:, keep], color=PREDICTED, lw=0.9, ls=(0, (4, 2)))
    relation = verdict.prediction.relation
    if relation != "equals" and predicted.shape[1] == 1:
        low, high = ax.get_ylim()
        end = high if relation == "at most" else low
        ax.fill_between(times, predicted[:, 0], end, color=FORBIDDEN, alpha=0.12, lw=0)
        ax.set_ylim(low, high)
    if np.median(times) < times.max() / 10:
        ax.set_xscale("symlog", linthresh=times[times > 0].min())
        ax.set_xlim(left=0)
    values = np.concatenate([measured[:, keep].ravel(), predicted[:, keep].ravel()])
    if relation == "equals" and (values > 0).all() and values.max() > 1e3 * values.min():
        ax.set_yscale("log")
    ax.set_xlabel(verification.axis)
    _title(ax, verdict)


def draw_entries(ax: Axes, verdict: Verdict) -> None:
    """Entry against entry; or, where all predicted entries are one number, the entries beside it."""
    assert verdict.measured is not None
    assert verdict.predicted is not None
    measured = verdict.measured.ravel()
    predicted = np.broadcast_to(verdict.predicted, verdict.measured.shape).ravel()
    if np.ptp(predicted) > 0:
        both = [min(predicted.min(), measured.min()), max(predicted.max(), measured.max())]
        ax.plot(both, both, color=PREDICTED, lw=0.9, ls=(0, (4, 2)))
        ax.plot(predicted, measured, "o", ms=3.5, color=MEASURED, alpha=0.7)
        ax.set_xlabel("predicted")
        ax.set_ylabel("measured")
    else:
        ax.plot(measured, "o", ms=3.5, color=MEASURED, alpha=0.8)
        ax.axhline(predicted[0], color=PREDICTED, lw=0.9, ls=(0, (4, 2)))
        spread = max(np.abs(measured - predicted[0]).max(), 0.05 * abs(predicted[0]), 1e-12)
        ax.set_ylim(predicted[0] - 1.3 * spread, predicted[0] + 1.3 * spread)
        relation = verdict.prediction.relation
        if relation != "equals":
            end = ax.get_ylim()[1 if relation == "at most" else 0]
            ax.axhspan(predicted[0], end, color=FORBIDDEN, alpha=0.12, lw=0)
        ax.set_xlabel("entry")
    _title(ax, verdict)


def draw_errors(ax: Axes, verification: Verification) -> None:
    """Of every prediction the error as a part of its tolerance; beyond 1 it fails."""
    judged = [v for v in verification if v.tolerance is not None and v.result != "evidence"]
    for row, v in enumerate(judged):
        allowed = v.tolerance.value if v.tolerance else 0.0
        share = v.error / allowed if allowed > 0 else (0.0 if v.error == 0 else np.inf)
        x = float(np.clip(np.nan_to_num(share, nan=np.inf), FLOOR, 1e3))
        colour = MEASURED if v.agrees else FORBIDDEN
        ax.plot([FLOOR, x], [row, row], color=colour, lw=2)
        ax.plot([x], [row], "o", ms=4, color=colour)
    ax.axvline(1.0, color=PREDICTED, lw=0.9, ls=(0, (4, 2)))
    ax.set_xscale("log")
    ax.set_xlim(FLOOR / 2, 2e3)
    ax.axvspan(1.0, 2e3, color=FORBIDDEN, alpha=0.12, lw=0)
    ax.set_yticks(range(len(judged)), [textwrap.shorten(v.prediction.name, 30) for v in judged], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlabel("error / tolerance")
    ax.set_title("every prediction")


def _title(ax: Axes, verdict: Verdict) -> None:
    ax.set_title(textwrap.fill(verdict.prediction.name, 40))
