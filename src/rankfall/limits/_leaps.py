r"""From cell to cell along half-lines: the way of large problems, where to meet every kink takes too long.

A flow that is within D of the half-line of its cell stays so up to the first friendly pair that crosses its
kink. A leap goes along the half-line to that crossing, or a little further if others are next to it, and lets
the pairs be beyond their kinks. Where none is ahead, it goes to where the half-line is in the region of the
limit, and on until the margins are twice what they were. Which pair is the first may be wrong by D, and the
limit is not a continuous function of the state: so this way is approximate, and `limit` says so.
"""

import numpy as np

from rankfall.dynamics.exact import Walk
from rankfall.limits._asymptote import Asymptote

TOGETHER = 0.05  # the share of its T within which crossings are passed in one leap


def leap(walk: Walk, end: Asymptote) -> bool:
    """Take a walk along the half-line to which it tends; False if there is none."""
    origin, region, point = end.origin, end.region, end.point
    if origin is None:
        return False

    def along(w: np.ndarray) -> float:
        """The T of what is nearest to these weights on the ray of U."""
        return float((w * point.w).sum() / (point.w**2).sum())

    z, speed = origin @ region.x.T, point.w @ region.x.T
    friendly = walk.motion.second[:, None] * walk.pull.y > 0
    turns = friendly & (region.side * speed < -1e-12 * region.lengths * np.linalg.norm(point.w, axis=1).max())
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(turns, -z / speed, np.inf)
    nearest = along(walk.weights.w - origin)
    if turns.any():
        first = max(nearest, float(times.min()))
        last = first + TOGETHER * max(along(origin) + first, 0.0)
        then = max(nearest, float(times[times <= last].max()) * (1 + 1e-9))
    elif end.line is not None:
        then = max(nearest + along(walk.weights.w), along(end.line.start - origin))
    else:
        return False
    beyond = times <= then
    if region.lines is not None:  # inputs on one line cross together
        beyond = beyond @ (region.lines != 0)
    region.side[beyond] *= -1
    region.slopes[beyond] = np.where(region.side[beyond] > 0, 1.0, region.slope)
    walk.jump(origin + then * point.w, region)
    total = float(point.multipliers.sum())
    walk.clock.now += (then - nearest) * total
    walk.clock.log_time = float(np.log(total) - walk.pull.log_loss(walk.outputs))
    walk.steps += 1
    return True
