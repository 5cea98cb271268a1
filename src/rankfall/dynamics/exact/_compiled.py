r"""Plain steps of the exact flow, compiled: many of them in one call.

A step is a Taylor series in the walk's clock, of the order that the tolerance asks for. With $u = r P$ the
pulls of the pairs, order by order

    g_j = \sum_i u_{ji} x_i,  w_j' = a_j g_j,  a_j' = w_j . g_j,  f_i' = x_i . \sum_j P_{ji} (a_j w_j)'

are two products of the size n m k, and the series of the pulls r follows from that of the outputs f. The step
ends at the first root of what is watched, and the neuron there takes its side if the decision is plain. All
else is left to the walk in NumPy, the naive twin of this file: several kinks at one point, slopes at their
bounds, inputs on one line, neurons without output weight, and steps that are stiff.

After an event only one neuron moves otherwise than the series says, so that outputs, their rates and the g_j
are carried over from step to step, and computed anew from the weights every `FRESH` steps. Late in a run most
samples pull no more; there the outputs and their rates are computed anew in every step, and the higher orders
for the others alone.

All compiled functions are in this file: the cache of numba notices changes in the file of a function alone.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from rankfall.dynamics.exact._events import Why

ORDER = 20  # of the series, at the most
LEAST = 2  # orders that are always taken: the last two tell how long the step may be
LUCK = 1.5  # times what the order before the last allows
FRESH = 16  # steps after which outputs and their rates are computed anew from the weights
SAFETY = 0.85  # of the step that the last two orders allow
TOUCH = 1e-13  # as in `_regions`
ROUNDING = 1e-15  # as in `_motion`
FAR = 1e4  # as in `_motion`: kinks that are so near, in units of TOUCH, take part in a decision
INSIDE = 1e-11  # a slope this close to an end of [alpha, 1] is for the walk to judge
DEPENDENT = 1e-6  # inputs closer than this to the span of others are for the walk as well
GROWTH = 4.0  # of the step, at the most
FAR_TOO_LONG = 1e-2  # a step of which less than this is allowed is expanded anew in its own unit
PARTS = 50  # of a step, at the most, in which the other clock is gathered
STUCK = 50  # events without progress after which the walk takes over
FAINT = 1e-4  # of what pulls are resolved to: with less, a sample takes no part in higher orders of a series,
SLOW = 3.0  # if no output moves by more than this in a unit of the step, so that it stays faint
WORTH = 6  # the order of the step before from which on it is worth leaving samples out,
PART = 0.8  # if no more than this part of them is left

EXPONENTIAL, LOGISTIC, SQUARE = 0, 1, 2
CROSS, STICK, RELEASE = 0, 1, 2  # kinds of events
KINK, UP, DOWN = 0, 1, 2  # what ends a step
SPENT, ARRIVED, UNDECIDED, STIFF, FULL, CROWDED, NEAR, SIGN = map(int, Why)

compiled = njit(cache=True, error_model="numpy", nogil=True)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_BINOMIAL = np.zeros((ORDER + 1, ORDER + 1))
_BINOMIAL[:, 0] = 1.0
for _row in range(1, ORDER + 1):
    _BINOMIAL[_row, 1:] = _BINOMIAL[_row - 1, 1:] + _BINOMIAL[_row - 1, :-1]


class Setting(NamedTuple):
    """What does not change: inputs x (n, k), targets, loss, slope; `mated`: inputs on one line with others.

    `across` are the inputs (k, n), so that loops go along the samples.
    `walls`: the pulls of samples that hold neurons and take no part in the loss, zero for the others.
    `both`: the second layer is trained, too; `bias`: so is that of the output.
    """

    x: np.ndarray
    across: np.ndarray
    lengths: np.ndarray
    mated: np.ndarray
    y: np.ndarray
    often: np.ndarray
    walls: np.ndarray
    weight: float
    loss: int
    slope: float
    both: bool
    bias: bool


class State(NamedTuple):
    """What changes: weights, sides, slopes, the kinks held (`holding` many, `samples`), and the time.

    `basis` (m, h, k) spans the inputs of the kinks held, and `solver` @ g are minus their pulls. `gap` is how
    far each neuron was from its nearest kink, and `way` how far it has gone since.
    """

    w: np.ndarray
    a: np.ndarray
    c: np.ndarray
    side: np.ndarray
    slopes: np.ndarray
    holding: np.ndarray
    samples: np.ndarray
    basis: np.ndarray
    solver: np.ndarray
    sizes: np.ndarray
    gap: np.ndarray
    way: np.ndarray
    changed: np.ndarray
    pinned: np.ndarray
    live: np.ndarray  # samples that pull on some neuron, other than by being held
    f: np.ndarray  # the outputs, their rates, and g and the pulls of the kinks held, from the last series
    rate: np.ndarray
    g: np.ndarray
    held: np.ndarray
    age: np.ndarray  # steps since these were computed from the weights
    clock: np.ndarray  # its own, log t, the other one, the step to try next, calm steps, the last order


class Log(NamedTuple):
    """Events, in the order in which they happen; `number` counts them."""

    clock: np.ndarray
    log_time: np.ndarray
    neuron: np.ndarray
    sample: np.ndarray
    kind: np.ndarray
    side: np.ndarray
    number: np.ndarray


class Series(NamedTuple):
    """Taylor coefficients, a row for each order."""

    w: np.ndarray
    a: np.ndarray
    c: np.ndarray
    g: np.ndarray
    f: np.ndarray
    r: np.ndarray
    held: np.ndarray  # pulls of the kinks held (order, m, h)
    p: np.ndarray  # the sizes of the pulls r
    d: np.ndarray  # their logarithmic derivatives
    e: np.ndarray  # 1 / (1 + exp -q), for the logistic loss
    log_loss: np.ndarray  # the logarithm of the loss
    scale: np.ndarray  # what the pulls of a sample are resolved relative to (n)


@compiled
def _first_pulls(setting, f, series):  # type: ignore[no-untyped-def]
    """The pulls at outputs f."""
    n, y = len(f), setting.y
    r, p = series.r[0], series.p[0]
    if setting.loss == SQUARE:
        for i in range(n):
            r[i] = setting.weight * setting.often[i] * (y[i] - f[i])
        return
    top, total = -np.inf, 0.0
    for i in range(n):
        if setting.walls[i] != 0:
            p[i] = -np.inf
            continue
        q = y[i] * f[i]
        log = -q
        if setting.loss == LOGISTIC:  # log of 1 / (1 + e^q)
            log = -q - np.log1p(np.exp(-q)) if q > 0 else -np.log1p(np.exp(q))
        p[i] = log + np.log(setting.often[i])
        top = max(top, p[i])
    for i in range(n):
        q = y[i] * f[i]
        p[i] = np.exp(p[i] - top)
        if setting.loss == EXPONENTIAL or setting.walls[i] != 0:
            total += p[i]
        else:
            log = np.log1p(np.exp(-abs(q))) + max(-q, 0.0)
            if q > 30.0:  # e^-q (1 - e^-q / 2)
                total += setting.often[i] * np.exp(-q - top) * (1 - np.exp(-q) / 2)
            else:
                total += setting.often[i] * log * np.exp(-top)
    for i in range(n):
        p[i] /= total
        r[i] = y[i] * p[i] if setting.walls[i] == 0 else setting.walls[i]
        if setting.loss == LOGISTIC:
            q = y[i] * f[i]
            series.e[0, i] = 1 / (1 + np.exp(-q)) if q > 0 else np.exp(q) / (1 + np.exp(q))
    series.log_loss[0] = top + np.log(total) + np.log(setting.weight)


@compiled
def _next_pulls(setting, series, o):  # type: ignore[no-untyped-def]
    """The pulls of order o + 1, from the outputs up to that order.

    The shares p of the pulls in the loss, and for the logistic loss e = 1 / (1 + exp -q), follow
    p' = p (sum p q' - e q'), e' = e (1 - e) q'; for the exponential loss e is 1.
    """
    n, y, f, r, p, d, e = len(setting.y), setting.y, series.f, series.r, series.p, series.d, series.e
    if setting.loss == SQUARE:
        for i in range(n):
            r[o + 1, i] = -setting.weight * setting.often[i] * f[o + 1, i]
        return
    mean = 0.0
    for s in range(o + 1):  # of p y f', and p y is r
        mean += (o - s + 1) * np.dot(r[s], f[o - s + 1])
    for i in range(n):
        d[o, i] = mean
        p[o + 1, i] = 0.0
    if setting.loss == EXPONENTIAL:
        for i in range(n):
            d[o, i] -= (o + 1) * y[i] * f[o + 1, i]
    else:
        for i in range(n):
            e[o + 1, i] = 0.0
        for s in range(o + 1):
            for i in range(n):
                rate = (o - s + 1) * y[i] * f[o - s + 1, i]
                square = 0.0
                for t in range(s + 1):
                    square += e[t, i] * e[s - t, i]
                d[o, i] -= e[s, i] * rate
                e[o + 1, i] += (e[s, i] - square) * rate
        for i in range(n):
            e[o + 1, i] /= o + 1
    for s in range(o + 1):
        for i in range(n):
            p[o + 1, i] += p[s, i] * d[o - s, i]
    for i in range(n):
        p[o + 1, i] /= o + 1
        r[o + 1, i] = y[i] * p[o + 1, i]
    series.log_loss[o + 1] = -mean / (o + 1)


@compiled
def _outputs(setting, state, weighted, room, f):  # type: ignore[no-untyped-def]
    """f_i = x_i . sum_j P_ji (a_j w_j), without the bias; `weighted` are the a_j w_j (k, m)."""
    np.dot(weighted, state.slopes, room)
    k, n = setting.across.shape
    for i in range(n):
        f[i] = 0.0
    for dim in range(k):
        for i in range(n):
            f[i] += setting.across[dim, i] * room[dim, i]


@compiled
def _slide(state, j, g, held):  # type: ignore[no-untyped-def]
    """The pulls of the kinks that a neuron holds, and g without what they take away."""
    k = len(g)
    for s in range(state.holding[j]):
        pull = 0.0
        for dim in range(k):
            pull -= state.solver[j, s, dim] * g[dim]
        held[s] = pull
    for s in range(state.holding[j]):
        along = 0.0
        for dim in range(k):
            along += state.basis[j, s, dim] * g[dim]
        for dim in range(k):
            g[dim] -= along * state.basis[j, s, dim]


@compiled
def _derivatives(setting, state, series, o, h, room, weighted, known):  # type: ignore[no-untyped-def]
    """From the pulls of order o to weights and outputs of order o + 1, in units of the step h.

    `known`: g, the pulls of the kinks held and the rates of the outputs come from the step before.
    """
    (n, k), m = setting.x.shape, len(state.a)
    r, g, w, a = series.r[o], series.g[o], series.w, series.a
    if known:
        for j in range(m):
            for dim in range(k):
                g[j, dim] = state.g[j, dim]
            for s in range(state.holding[j]):
                series.held[o, j, s] = state.held[j, s]
    else:
        for dim in range(k):
            for i in range(n):
                room[dim, i] = r[i] * setting.across[dim, i]
        np.dot(room, state.slopes.T, weighted)
        for j in range(m):
            for dim in range(k):
                g[j, dim] = weighted[dim, j]
            if state.holding[j]:
                _slide(state, j, g[j], series.held[o, j])
    part = h / (o + 1)
    for j in range(m):
        if not setting.both:
            for dim in range(k):
                w[o + 1, j, dim] = part * state.a[j] * g[j, dim]
                weighted[dim, j] = state.a[j] * w[o + 1, j, dim]
            continue
        for dim in range(k):
            w[o + 1, j, dim] = 0.0
        a[o + 1, j] = 0.0
        for s in range(o + 1):
            inner = 0.0
            for dim in range(k):
                w[o + 1, j, dim] += a[s, j] * series.g[o - s, j, dim]
                inner += w[s, j, dim] * series.g[o - s, j, dim]
            a[o + 1, j] += inner
        a[o + 1, j] *= part
        for dim in range(k):
            w[o + 1, j, dim] *= part
            weighted[dim, j] = 0.0
        for s in range(o + 2):
            for dim in range(k):
                weighted[dim, j] += a[s, j] * w[o + 1 - s, j, dim]
    if setting.bias:
        total = 0.0
        for i in range(n):
            total += r[i]
        series.c[o + 1] = part * total
    if known:
        for i in range(n):
            series.f[o + 1, i] = part * state.rate[i]
        return
    _outputs(setting, state, weighted, room, series.f[o + 1])
    if setting.bias:
        for i in range(n):
            series.f[o + 1, i] += series.c[o + 1]


@compiled
def _largest(values):  # type: ignore[no-untyped-def]
    most = 0.0
    for value in values:
        most = max(most, abs(value))
    return most


@compiled
def _least(values):  # type: ignore[no-untyped-def]
    least = np.inf
    for value in values:
        if value > 0:
            least = min(least, value)
    return least


@compiled
def _scale(setting, state, series, h, rtol):  # type: ignore[no-untyped-def]
    """Resolve pulls relative to the largest; small ones relative to themselves, or to what would move the
    weights by as much as themselves.
    """
    whole, least = 0.0, 1e-300
    for i in range(len(setting.y)):
        if state.live[i]:
            whole = max(whole, abs(series.r[0, i]))
    if setting.loss == SQUARE:
        least = 3e-13 * setting.weight * max(_largest(series.f[0]), _largest(setting.y)) / rtol
    reach = _largest(state.sizes) / (h * _largest(state.a))
    for i in range(len(setting.y)):
        if not state.live[i]:
            series.scale[i] = np.inf
            continue
        enough = whole if setting.both else min(whole, reach / setting.lengths[i])
        series.scale[i] = max(abs(series.r[0, i]), enough, least)


@compiled
def _roughness(series, o):  # type: ignore[no-untyped-def]
    """The pulls of order o, relative to what they are resolved to."""
    most = 0.0
    for i in range(len(series.scale)):
        most = max(most, abs(series.r[o, i]) / series.scale[i])
    return most


@compiled
def _growth(series, state, o):  # type: ignore[no-untyped-def]
    """The weights of order o relative to themselves, at the most."""
    most, (m, k) = 0.0, state.w.shape
    for j in range(m):
        moved, own = series.a[o, j] ** 2, state.a[j] ** 2
        for dim in range(k):
            moved += series.w[o, j, dim] ** 2
            own += state.w[j, dim] ** 2
        if own > 0:
            most = max(most, moved / own)
    return np.sqrt(most)


@compiled
def _live_pulls(setting, state, series):  # type: ignore[no-untyped-def]
    """How much the samples pull at the most that pull on some neuron, other than by being held."""
    total = 0.0
    for i in range(len(setting.y)):
        if state.live[i]:
            total += abs(series.r[0, i]) * setting.lengths[i]
    return total


@compiled
def _is_noise(setting, state, series, h, rtol):  # type: ignore[no-untyped-def]
    """Are the pulls so nearly balanced that a step gathers more rounding than the tolerance allows?"""
    total, way, size = _live_pulls(setting, state, series), 0.0, 0.0
    for j in range(len(state.a)):
        square, own = 0.0, 0.0
        for dim in range(state.w.shape[1]):
            square += series.g[0, j, dim] ** 2
            own += state.w[j, dim] ** 2
        way, size = max(way, abs(state.a[j]) * np.sqrt(square)), max(size, own)
    error = ROUNDING * total * _largest(state.a)
    return h * (error - rtol * way) > rtol * np.sqrt(size)


@compiled
def _present(setting, state, series, weighted, room):  # type: ignore[no-untyped-def]
    """Outputs and pulls from the weights; `weighted` are the a_j w_j (k, m)."""
    _outputs(setting, state, weighted, room, series.f[0])
    for i in range(len(setting.y)):
        series.f[0, i] += state.c[0]
    _first_pulls(setting, series.f[0], series)


@compiled
def _expand(setting, state, series, h, rtol, room, weighted):  # type: ignore[no-untyped-def]
    """The series of a step in units of h, its order, and how many such units the tolerance allows."""
    m, k = state.w.shape
    for j in range(m):
        series.a[0, j] = state.a[j]
        for dim in range(k):
            series.w[0, j, dim] = state.w[j, dim]
            weighted[dim, j] = state.a[j] * state.w[j, dim]
    series.c[0] = state.c[0]
    known = 0 < state.age[0] < FRESH
    if known:
        for i in range(len(setting.y)):
            series.f[0, i] = state.f[i]
        _first_pulls(setting, series.f[0], series)
    else:
        state.age[0] = 0
        _present(setting, state, series, weighted, room)
    pulling, fewer = np.empty(0, dtype=np.int64), False
    if state.clock[5] >= WORTH and setting.loss != SQUARE:
        pulling = _pulling(setting, state, series, h, rtol)
        fewer = len(pulling) <= PART * len(setting.y)
    if fewer and known:  # outputs that are straight lines are not carried over
        known = False
        _present(setting, state, series, weighted, room)
    _derivatives(setting, state, series, 0, h, room, weighted, known)
    if _is_noise(setting, state, series, h, rtol):
        return 0, 0.0
    if not fewer or _largest(series.f[1]) > SLOW:
        order, theta = _higher(setting, state, series, h, rtol, room, weighted)
    else:
        some, those, their = _few(setting, state, series, pulling)
        order, theta = _higher(some, those, their, h, rtol, np.empty((k, len(pulling))), weighted)
        _spread(series, their, pulling, order)
        state.age[0] = -1
    state.clock[5] = order
    return order, theta


@compiled
def _higher(setting, state, series, h, rtol, room, weighted):  # type: ignore[no-untyped-def]
    """The series beyond the first order, from what `_expand` begins; returns the same."""
    _scale(setting, state, series, h, rtol)
    before, o = 0.0, len(series.c) - ORDER - 1
    while True:
        if o > 0:
            _derivatives(setting, state, series, o, h, room, weighted, False)
        _next_pulls(setting, series, o)
        o += 1
        rough = _roughness(series, o)
        if setting.both:
            rough = max(rough, _growth(series, state, o))
        if not np.isfinite(rough):  # of a unit that is far too long; that of the order before is better
            return o, before ** (-1.0 / (o - 1)) if before > 1 else 0.0
        allowed = (rtol / rough) ** (1.0 / o) if rough > 0 else GROWTH
        if o > 1 and before > 0:  # the last order may be small by chance: the one before has its say
            allowed = min(allowed, LUCK * (rtol ** ((o - 1.0) / o) / before) ** (1.0 / (o - 1)))
        before = rough
        if o == ORDER or (o >= LEAST and SAFETY * allowed >= 1.0):
            return o, min(SAFETY * allowed, GROWTH)


@compiled
def _pulling(setting, state, series, h, rtol):  # type: ignore[no-untyped-def]
    """The samples that pull, or whose kinks are held."""
    p, found, most = series.p[0], np.empty(len(state.f), dtype=np.bool_), 0.0
    for i in range(len(found)):
        if state.live[i]:
            most = max(most, p[i])
    reach = _least(state.sizes) / (h * _largest(state.a))  # as in `_scale`, but of the shortest weights
    for i in range(len(found)):
        faint = FAINT * rtol * min(most, reach / max(setting.lengths[i], 1e-300))
        found[i] = state.live[i] and not p[i] <= faint
    for j in range(len(state.a)):
        for s in range(state.holding[j]):
            found[state.samples[j, s]] = True
    return np.flatnonzero(found)


@compiled
def _few(setting, state, series, which):  # type: ignore[no-untyped-def]
    """Setting, state and series of some samples alone; weights and their series are shared."""
    n, orders = len(which), len(series.c)
    x, across = setting.x[which], np.ascontiguousarray(setting.x[which].T)
    slopes = np.empty((len(state.a), n))
    for j in range(len(state.a)):
        for i in range(n):
            slopes[j, i] = state.slopes[j, which[i]]
    some = Setting(
        x,
        across,
        setting.lengths[which],
        setting.mated[which],
        setting.y[which],
        setting.often[which],
        setting.walls[which],
        setting.weight,
        setting.loss,
        setting.slope,
        setting.both,
        setting.bias,
    )
    those = State(
        state.w,
        state.a,
        state.c,
        state.side,
        slopes,
        state.holding,
        state.samples,
        state.basis,
        state.solver,
        state.sizes,
        state.gap,
        state.way,
        state.changed,
        state.pinned,
        state.live[which],
        state.f,
        state.rate,
        state.g,
        state.held,
        state.age,
        state.clock,
    )
    f, r, p, e = np.empty((orders, n)), np.empty((orders, n)), np.empty((orders, n)), np.empty((orders, n))
    for i in range(n):
        f[0, i], f[1, i], r[0, i] = series.f[0, which[i]], series.f[1, which[i]], series.r[0, which[i]]
        p[0, i], e[0, i] = series.p[0, which[i]], series.e[0, which[i]]
    d = np.empty((orders, n))
    their = Series(
        series.w, series.a, series.c, series.g, f, r, series.held, p, d, e, series.log_loss, np.empty(n)
    )
    return some, those, their


@compiled
def _spread(series, their, which, order):  # type: ignore[no-untyped-def]
    """Bring the series of some samples to their places; the outputs of the others are straight lines."""
    for o in range(1, order + 1):
        for i in range(series.f.shape[1]):
            series.r[o, i] = 0.0
            if o > 1:
                series.f[o, i] = 0.0
        for i in range(len(which)):
            series.f[o, which[i]], series.r[o, which[i]] = their.f[o, i], their.r[o, i]


@compiled
def _value(c, order, theta):  # type: ignore[no-untyped-def]
    value = 0.0
    for o in range(order, -1, -1):
        value = value * theta + c[o]
    return value


@compiled
def _first_root(c, order, most, b, work):  # type: ignore[no-untyped-def]
    """Where a polynomial first falls below zero in [0, most]; infinity if it does not.

    Bernstein coefficients bound it from below, on halves of halves until it falls on one of them.
    """
    power = 1.0
    for o in range(order + 1):
        work[0, o] = c[o] * power
        power *= most
    for i in range(order + 1):
        value = 0.0
        for dim in range(i + 1):
            value += _BINOMIAL[i, dim] / _BINOMIAL[order, dim] * work[0, dim]
        b[0, i] = value
    low, high, depth = np.empty(64), np.empty(64), 1
    low[0], high[0] = 0.0, 1.0
    while depth:
        depth -= 1
        left, right = low[depth], high[depth]
        least, falls = b[depth, 0], True
        for i in range(order):
            least = min(least, b[depth, i + 1])
            falls = falls and b[depth, i + 1] < b[depth, i]
        if least >= 0:
            continue
        if b[depth, 0] < 0:
            return left * most
        if falls or right - left < 1e-4 or depth > 60:
            if b[depth, order] >= 0:
                continue
            above, below = left * most, right * most
            theta = above + (below - above) * b[depth, 0] / (b[depth, 0] - b[depth, order])
            for _ in range(200):
                value = _value(c, order, theta)
                if value >= 0:
                    above = theta
                else:
                    below = theta
                speed = 0.0
                for o in range(order, 0, -1):
                    speed = speed * theta + o * c[o]
                then = theta - value / speed if speed != 0 else above - 1.0
                if not above < then < below:
                    then = (above + below) / 2
                if abs(then - theta) <= 1e-16 * below or below - above <= 1e-15 * below:
                    break
                theta = then
            return theta
        # de Casteljau's halves: the right one waits where this one was, the left one comes first
        middle = (left + right) / 2
        for i in range(order + 1):
            work[0, i] = b[depth, i]
        for i in range(order + 1):
            b[depth + 1, i] = work[0, 0]
            b[depth, order - i] = work[0, order - i]
            for dim in range(order - i):
                work[0, dim] = (work[0, dim] + work[0, dim + 1]) / 2
        low[depth + 1], high[depth + 1] = left, middle
        low[depth], high[depth] = middle, right
        depth += 2
    return np.inf


@compiled
def _first_kink(setting, state, series, order, theta, rooms):  # type: ignore[no-untyped-def]
    """The first event within theta: its place, neuron, sample, and what it is."""
    x, lengths, slope = setting.x, setting.lengths, setting.slope
    (n, k), m = x.shape, len(state.a)
    z, v, c, b, work = rooms
    total = _live_pulls(setting, state, series)
    best, neuron, sample, what = theta, -1, -1, KINK
    for j in range(m):
        if state.a[j] == 0 and not setting.both:
            continue
        bend, power = 0.0, best
        for o in range(1, order + 1):
            square = 0.0
            for dim in range(k):
                square += series.w[o, j, dim] ** 2
            if o == 1:
                reach = np.sqrt(square) * power
            else:
                bend += np.sqrt(square) * power
            power *= best
        size = max(state.sizes[j], 1e-300)
        moves = reach + bend > 0  # else it meets no kink, wherever rounding has left it
        if moves and state.way[j] + reach + bend >= state.gap[j] - TOUCH * size:
            np.dot(x, state.w[j], z)
            np.dot(x, series.w[1, j], v)
            gap = np.inf
            for i in range(n):
                side = state.side[j, i]
                if side == 0 or lengths[i] == 0:
                    continue
                touch = TOUCH * size * lengths[i]
                now = side * z[i]
                gap = min(gap, abs(z[i]) / lengths[i])
                if now + touch + min(side * v[i] * best, 0.0) - bend * lengths[i] >= 0:
                    continue
                c[0], c[1] = now + touch, side * v[i]
                for o in range(2, order + 1):
                    value = 0.0
                    for dim in range(k):
                        value += x[i, dim] * series.w[o, j, dim]
                    c[o] = side * value
                root = _first_root(c, order, best, b, work)
                if root < best:
                    best, neuron, sample, what = root, j, i, KINK
            state.gap[j], state.way[j] = gap, 0.0
        for s in range(state.holding[j]):
            i = state.samples[j, s]
            sign = 1.0 if series.r[0, i] > 0 else -1.0
            slack = TOUCH * min(abs(series.r[0, i]), total / lengths[i])
            for end in range(2):  # its slope stays above alpha, and below 1
                least, power = 0.0, 1.0
                for o in range(order):
                    pull, own = series.held[o, j, s], series.r[o, i]
                    c[o] = sign * (own - pull if end else pull - slope * own)
                    if o == 0:
                        c[0] += slack
                        least = c[0]
                    else:
                        least -= abs(c[o]) * power
                    power *= best
                if least >= 0:
                    continue
                root = _first_root(c, order - 1, best, b, work)
                if root < best:
                    best, neuron, sample, what = root, j, i, UP if end else DOWN
    return best, neuron, sample, what


@compiled
def span_kinks(x, samples, count, basis, solver):  # type: ignore[no-untyped-def]
    """Orthonormal rows that span the inputs of some samples, and the solver of their pulls.

    False if the inputs are nearly dependent.
    """
    k = x.shape[1]
    triangle = np.zeros((count, count))
    for s in range(count):
        length = 0.0
        for dim in range(k):
            basis[s, dim] = x[samples[s], dim]
            length += basis[s, dim] ** 2
        for _ in range(2):
            for t in range(s):
                along = 0.0
                for dim in range(k):
                    along += basis[t, dim] * basis[s, dim]
                for dim in range(k):
                    basis[s, dim] -= along * basis[t, dim]
                triangle[t, s] += along
        rest = 0.0
        for dim in range(k):
            rest += basis[s, dim] ** 2
        if rest <= DEPENDENT**2 * length:
            return False
        triangle[s, s] = np.sqrt(rest)
        for dim in range(k):
            basis[s, dim] /= triangle[s, s]
    for s in range(count - 1, -1, -1):
        for dim in range(k):
            value = basis[s, dim]
            for t in range(s + 1, count):
                value -= triangle[s, t] * solver[t, dim]
            solver[s, dim] = value / triangle[s, s]
    return True


@compiled
def _release_outside(setting, samples, count, solver, g, r, row, freed, first):  # type: ignore[no-untyped-def]
    """Give the kinks whose slopes are out of bounds the bound as their slope, and leave them out.

    If the sample `first` is one of them, it is the only one. Returns how many are left, how many were freed,
    and whether each of them is clearly inside or outside.
    """
    kept, left, k = 0, freed[-1], len(g)
    slopes, alone = np.empty(count), False
    for s in range(count):
        i, pull = samples[s], 0.0
        for dim in range(k):
            pull -= solver[s, dim] * g[dim]
        slopes[s] = pull / r[i] if r[i] != 0 else np.nan
        if not (abs(slopes[s] - 1) > INSIDE and abs(slopes[s] - setting.slope) > INSIDE):
            return 0, 0, False
        alone = alone or (i == first and not setting.slope < slopes[s] < 1)
    for s in range(count):
        i, slope = samples[s], slopes[s]
        if setting.slope < slope < 1 or (alone and i != first):
            samples[kept] = i
            kept += 1
        else:
            row[i] = 1.0 if slope >= 1 else setting.slope
            freed[left] = i
            left += 1
    freed[-1] = left
    return kept, left, True


@compiled
def _away(basis, count, row):  # type: ignore[no-untyped-def]
    """A row without its part in the span of the basis."""
    for s in range(count):
        along = 0.0
        for dim in range(len(row)):
            along += basis[s, dim] * row[dim]
        for dim in range(len(row)):
            row[dim] -= along * basis[s, dim]


@compiled
def _rests_plainly(setting, samples, count, basis, r, sign):  # type: ignore[no-untyped-def]
    """Is no repelling kink in the span of those held? Else the walk has to watch when it becomes free."""
    n, k = setting.x.shape
    for i in range(n):
        if sign * r[i] < 0 or setting.lengths[i] == 0:
            continue
        own, among = setting.lengths[i] ** 2, False
        for s in range(count):
            along = 0.0
            for dim in range(k):
                along += basis[s, dim] * setting.x[i, dim]
            own -= along**2
            among = among or samples[s] == i
        if not among and own <= DEPENDENT**2 * setting.lengths[i] ** 2:
            return False
    return True


@compiled
def _decide(setting, state, log, j, i, what, r, z):  # type: ignore[no-untyped-def]
    """Let a neuron cross a kink, stick to it or leave it, if that is plain; False if it is not.

    Of the kinks that attract, those that were held and the new one, all are tried as held; those whose
    slopes come out of bounds are let go, and the velocities must then agree with that.
    """
    x, slope, (n, k) = setting.x, setting.slope, setting.x.shape
    sign = 1.0 if state.a[j] > 0 else -1.0
    count, room = state.holding[j], state.samples.shape[1]
    if (
        state.a[j] == 0
        or r[i] == 0
        or state.pinned[j]
        or setting.mated[i]
        or (what == KINK and (count == room or (setting.walls[i] != 0 and sign * r[i] > 0)))
    ):
        return False
    np.dot(x, state.w[j], z)
    total = 0.0
    for other in range(n):
        near = FAR * TOUCH * max(state.sizes[j], 1e-300) * setting.lengths[other]
        if other != i and state.side[j, other] != 0 and setting.lengths[other] > 0 and abs(z[other]) <= near:
            return False
        total += abs(r[other]) * setting.lengths[other]
    row, pulls, samples = np.empty(n), np.empty(n), np.empty(room, dtype=np.int64)
    basis, solver = np.empty((room, k)), np.empty((room, k))
    for other in range(n):
        row[other] = state.slopes[j, other]
    for s in range(count):
        samples[s] = state.samples[j, s]
    freed = np.zeros(room + 2, dtype=np.int64)  # the last one counts them
    if what == KINK and sign * r[i] < 0:
        samples[count], row[i], count = i, 0.0, count + 1
    elif what == KINK:
        row[i] = 1.0 if state.side[j, i] < 0 else slope
        freed[0], freed[-1] = i, 1
    else:
        row[i] = 1.0 if what == UP else slope
        kept = 0
        for s in range(count):
            if samples[s] != i:
                samples[kept] = samples[s]
                kept += 1
        count = kept
    g = np.empty(k)
    while True:
        if not span_kinks(x, samples, count, basis, solver):
            return False
        for other in range(n):
            pulls[other] = row[other] * r[other]
        np.dot(pulls, x, g)
        kept, left, clear = _release_outside(setting, samples, count, solver, g, r, row, freed, i)
        if not clear:
            return False
        if kept == count:
            break
        count = kept
    _away(basis, count, g)
    for s in range(left):
        speed, other = 0.0, freed[s]
        for dim in range(k):
            speed += sign * x[other, dim] * g[dim]
        if not (speed if row[other] == 1 else -speed) > 1e-12 * setting.lengths[other] * total:
            return False
    if what == KINK and count and not _rests_plainly(setting, samples, count, basis, r, sign):
        return False
    _away(state.basis[j], state.holding[j], state.w[j])
    direction = np.empty(k)  # to the kink exactly
    for dim in range(k):
        direction[dim] = x[i, dim]
    _away(state.basis[j], state.holding[j], direction)
    square, along = 0.0, 0.0
    for dim in range(k):
        square += direction[dim] ** 2
        along += direction[dim] * state.w[j, dim]
    if what == KINK:
        for dim in range(k):
            state.w[j, dim] -= along / square * direction[dim]
    _away(basis, count, state.w[j])
    _log_changes(setting, state, log, j, i, what, row, samples, count)
    for other in range(n):
        state.slopes[j, other] = row[other]
    for s in range(count):
        state.samples[j, s] = samples[s]
        for dim in range(k):
            state.basis[j, s, dim], state.solver[j, s, dim] = basis[s, dim], solver[s, dim]
    state.holding[j] = count
    state.gap[j], state.changed[j] = 0.0, True
    return True


@compiled
def _log_changes(setting, state, log, j, i, what, row, samples, count):  # type: ignore[no-untyped-def]
    """Write down what changes, and change the sides: of the sample i and of those that were held."""
    before = state.holding[j]
    for s in range(before + 1):
        sample = i if s == before else state.samples[j, s]
        if s < before and sample == i:
            continue
        now = 1 if row[sample] == 1 else -1
        for t in range(count):
            if samples[t] == sample:
                now = 0
        if now == state.side[j, sample]:
            continue
        e = log.number[0]
        log.clock[e], log.log_time[e] = state.clock[0], state.clock[1]
        log.neuron[e], log.sample[e], log.side[e] = j, sample, now
        log.kind[e] = STICK if now == 0 else (RELEASE if state.side[j, sample] == 0 else CROSS)
        log.number[0] = e + 1
        state.side[j, sample] = now
        state.live[sample] = row[sample] != 0
        for other in range(len(state.a)):
            state.live[sample] = state.live[sample] or (other != j and state.slopes[other, sample] != 0)


@compiled
def _log_loss(setting, series, order, theta):  # type: ignore[no-untyped-def]
    """The logarithm of the loss within a step."""
    if setting.loss != SQUARE:
        return _value(series.log_loss, order, theta)
    total = 0.0
    for i in range(len(setting.y)):
        f = 0.0
        for o in range(order, -1, -1):
            f = f * theta + series.f[o, i]
        total += setting.often[i] * (f - setting.y[i]) ** 2
    return np.log(max(setting.weight * total / 2, 1e-300))


@compiled
def _times(setting, state, series, order, theta, h):  # type: ignore[no-untyped-def]
    """The clock, log t and the other clock after a part of a step: of dt = ds / L, or of ds = L dt."""
    if not theta > 0:
        return state.clock[0], state.clock[1], state.clock[2]
    power = 1.0 if setting.loss == SQUARE else -1.0
    falls = _log_loss(setting, series, order, 0.0) - _log_loss(setting, series, order, theta)
    parts, top, total = 1 + min(int(abs(falls)), PARTS), -np.inf, 0.0
    for part in range(parts):
        for node in range(len(_NODES)):
            place = theta * (part + _NODES[node]) / parts
            value = power * _log_loss(setting, series, order, place) + np.log(_WEIGHTS[node])
            if value > top:
                top, total = value, total * np.exp(top - value)
            total += np.exp(value - top)
    clock, gathered = state.clock[0] + theta * h, np.log(theta * h / parts) + top + np.log(total)
    if setting.loss == SQUARE:
        return clock, np.log(clock), state.clock[2] + np.exp(gathered)
    more, less = max(state.clock[1], gathered), min(state.clock[1], gathered)
    log_time = more + np.log1p(np.exp(less - more))
    return clock, log_time, np.exp(min(log_time, 709.0))


@compiled
def _land(setting, state, series, order, theta):  # type: ignore[no-untyped-def]
    """Take the weights to a place in the step."""
    m, k = state.w.shape
    for j in range(m):
        reach, own, power = 0.0, 0.0, 1.0
        for o in range(1, order + 1):
            power *= theta
            square = 0.0
            for dim in range(k):
                square += series.w[o, j, dim] ** 2
            reach += np.sqrt(square) * power
        for dim in range(k):
            value = 0.0
            for o in range(order, -1, -1):
                value = value * theta + series.w[o, j, dim]
            state.w[j, dim] = value
            own += value**2
        state.way[j] += reach
        if reach > 0:
            own = np.sqrt(own)
            if own <= 1e-15 * (state.sizes[j] + reach):
                for dim in range(k):
                    state.w[j, dim] = 0.0
            kept = 1.0 if reach <= FAR * TOUCH * state.sizes[j] else ROUNDING / TOUCH
            state.sizes[j] = max(own, kept * (state.sizes[j] + reach))
        if setting.both:
            value = 0.0
            for o in range(order, -1, -1):
                value = value * theta + series.a[o, j]
            state.a[j] = value
    if setting.bias:
        state.c[0] = _value(series.c, order, theta)


@compiled
def _carry(setting, state, series, order, theta, h):  # type: ignore[no-untyped-def]
    """Keep outputs, rates and pulls at a place in the step for the next one."""
    n, (m, k) = len(setting.y), state.w.shape
    for i in range(n):
        value, rate = 0.0, 0.0
        for o in range(order, -1, -1):
            rate = rate * theta + value
            value = value * theta + series.f[o, i]
        state.f[i], state.rate[i] = value, rate / h
    for j in range(m):
        for dim in range(k):
            value = 0.0
            for o in range(order - 1, -1, -1):
                value = value * theta + series.g[o, j, dim]
            state.g[j, dim] = value
        for s in range(state.holding[j]):
            value = 0.0
            for o in range(order - 1, -1, -1):
                value = value * theta + series.held[o, j, s]
            state.held[j, s] = value
    state.age[0] += 1


@compiled
def _add_rates(setting, state, j, sign, z):  # type: ignore[no-untyped-def]
    """Add the rates of the outputs by one neuron, or with sign -1 take them away."""
    inner, k = 0.0, state.w.shape[1]
    velocity = np.empty(k)
    for dim in range(k):
        velocity[dim] = state.a[j] ** 2 * state.g[j, dim]
    if setting.both:
        for dim in range(k):
            inner += state.w[j, dim] * state.g[j, dim]
        for dim in range(k):
            velocity[dim] += inner * state.w[j, dim]
    np.dot(setting.x, velocity, z)
    for i in range(len(z)):
        state.rate[i] += sign * state.slopes[j, i] * z[i]


@compiled
def _changes_sign(state, series, order, theta):  # type: ignore[no-untyped-def]
    """May an output weight reach zero within a step, or is one zero that moves?"""
    for j in range(len(state.a)):
        reach, power = 0.0, 1.0
        for o in range(1, order + 1):
            power *= theta
            reach += abs(series.a[o, j]) * power
        if reach > 0 and abs(state.a[j]) <= reach * (1 + 1e-9):
            return True
    return False


@compiled
def advance(setting, state, log, series, rtol, steps, most, log_loss, log_time, patience):  # type: ignore[no-untyped-def]
    """Take up to `steps` steps, up to the clock `most`, or to just before a loss or a time is reached.

    After `patience` steps in a row without event it ends, because longer ones may be possible. Returns why
    it ends, the steps taken, the orders computed, and the hit that it did not decide.
    """
    n, k = setting.x.shape
    m, room, weighted = len(state.a), np.empty((k, n)), np.empty((k, len(state.a)))
    rooms = (
        np.empty(n),
        np.empty(n),
        np.empty(ORDER + 1),
        np.empty((64, ORDER + 1)),
        np.empty((1, ORDER + 1)),
    )
    z, r = np.empty(n), np.empty(n)
    orders, still, taken = 0, 0, 0
    while taken < steps:
        if log.number[0] + m >= len(log.clock):
            return FULL, taken, orders, -1, -1, KINK
        h = min(state.clock[3], most - state.clock[0])
        order, theta = _expand(setting, state, series, h, rtol, room, weighted)
        orders += order
        if not theta * h > 1e-14 * abs(state.clock[0]):
            return STIFF, taken, orders, -1, -1, KINK
        if theta < FAR_TOO_LONG:  # its coefficients may overflow
            state.clock[3] = theta * h
            continue
        theta = min(theta, (most - state.clock[0]) / h)
        if setting.both and _changes_sign(state, series, order, theta):
            return SIGN, taken, orders, -1, -1, KINK
        place, j, i, what = _first_kink(setting, state, series, order, theta, rooms)
        clock, now, other = _times(setting, state, series, order, place, h)
        if now >= log_time or _log_loss(setting, series, order, place) <= log_loss:
            return NEAR, taken, orders, -1, -1, KINK
        _land(setting, state, series, order, place)
        _carry(setting, state, series, order, place, h)
        state.clock[0], state.clock[1], state.clock[2] = clock, now, other
        taken += 1
        if j < 0:
            state.clock[3], state.clock[4] = theta * h * (1.5 if theta >= 1 else 1.0), state.clock[4] + 1
            if clock >= most * (1 - 1e-15):
                state.clock[0] = most
                return ARRIVED, taken, orders, -1, -1, KINK
            if state.clock[4] >= patience:
                return STIFF, taken, orders, -1, -1, KINK
            continue
        state.clock[3], state.clock[4] = max(2.0 * place * h, 0.3 * h), 0.0
        still = still + 1 if place * h <= 1e-14 * abs(clock) else 0
        for dim in range(n):
            value = 0.0
            for o in range(order, -1, -1):
                value = value * place + series.r[o, dim]
            r[dim] = value
        _add_rates(setting, state, j, -1.0, z)
        decided = still <= STUCK and _decide(setting, state, log, j, i, what, r, z)
        if decided:
            for dim in range(n):
                z[dim] = state.slopes[j, dim] * r[dim]
            np.dot(z, setting.x, state.g[j])
            _slide(state, j, state.g[j], state.held[j])
            _add_rates(setting, state, j, 1.0, z)
        else:
            state.age[0] = 0
            crowded = (
                state.holding[j] == state.samples.shape[1] and not state.pinned[j] and not setting.mated[i]
            )
            return CROWDED if crowded else UNDECIDED, taken, orders, j, i, what
    return SPENT, taken, orders, -1, -1, KINK
