"""The lemmas and equations of the workshop version as relative errors, on random networks and symmetric data.

Everything here is NumPy and SciPy alone. Gradients come from the loss itself by complex steps, exact to
rounding, so that no formula is compared with a copy of itself. Where docs/errata.md corrects a formula, the
printed and the corrected one are measured on the same numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.linalg import expm

Layers = Sequence[np.ndarray]
Numbers = Iterator[tuple[str, float]]


@dataclass(frozen=True)
class Sizes:
    """Of data and networks; ours: the identities hold for any."""

    pairs: int = 40  # points, before their mirror images
    dim: int = 5
    width: int = 8  # of every hidden layer: even, one half for each sign
    short: float = 0.01  # inputs in the bounds: the two sides of Lemma 9 as printed scale differently


# --- networks, data, gradients ------------------------------------------------------------------------------


def sigma(z: np.ndarray, slope: float) -> np.ndarray:
    """The activation; of complex numbers the real part decides."""
    return np.where(z.real > 0, z, slope * z)


def output(layers: Layers, x: np.ndarray, slope: float) -> np.ndarray:
    """f(x) for every row of x."""
    h = x @ layers[0].T
    for w in layers[1:]:
        h = sigma(h, slope) @ w.T
    return h[:, 0]


def square(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The square loss of each sample."""
    return (f - y) ** 2 / 2


def logistic(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The logistic loss of each sample, with the sign of docs/errata.md, E1."""
    return np.log1p(np.exp(-y * f))


def velocity(layers: Layers, x: np.ndarray, y: np.ndarray, slope: float, loss: Callable) -> list[np.ndarray]:
    """Minus the gradient of the mean loss: Im L(W + i h e)/h for each entry e, where h² vanishes."""
    moved = [w.astype(complex) for w in layers]
    found = [np.zeros(w.shape) for w in layers]
    for w, v in zip(moved, found, strict=True):
        for entry in np.ndindex(w.shape):
            w[entry] += 1e-30j
            v[entry] = -loss(output(moved, x, slope), y).mean().imag / 1e-30
            w[entry] = w[entry].real
    return found


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest distance, relative to the largest entry."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def symmetric_data(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Condition 3: inputs with their mirror images, not white, and an odd target that is not linear."""
    dim = sizes.dim
    x = rng.normal(size=(sizes.pairs, dim)) @ rng.normal(size=(dim, dim)) / np.sqrt(dim)
    y = x @ rng.normal(size=dim) + np.sin(3 * x[:, 0])
    return np.concatenate([x, -x]), np.concatenate([y, -y])


def halves(rng: np.random.Generator, width: int) -> np.ndarray:
    """A unit vector whose positive entries, the first half of it, weigh as much as the negative ones."""
    a = np.abs(rng.normal(size=(2, width // 2)))
    a /= np.sqrt(2) * np.linalg.norm(a, axis=1, keepdims=True)
    return np.concatenate([a[0], -a[1]])


def unit(rng: np.random.Generator, dim: int) -> np.ndarray:
    """A random direction."""
    r = rng.normal(size=dim)
    return np.asarray(r / np.linalg.norm(r))


# --- the equations, each with its relative error ------------------------------------------------------------


def any_weights(rng: np.random.Generator, slope: float, sizes: Sizes) -> Numbers:
    """Lemmas 10 to 12, eqs. (7), (23) and (24), and the split of the loss: weights without structure."""
    x, y = symmetric_data(rng, sizes)
    n, c, sign = len(x), (1 + slope) / 2, np.sign(y)
    cov, beta = x.T @ x / n, y @ x / n
    w1, w2 = rng.normal(size=(sizes.width, sizes.dim)), rng.normal(size=(1, sizes.width))
    here = x @ unit(rng, sizes.dim) > 0
    integral = x[here].T @ x[here] / n  # of x xᵀ p(x) over the half-space: every sample has the weight 1/n
    yield "(14)", apart(x[here].T @ x[here] / here.sum(), cov)
    yield "(15)", apart(y[here] @ x[here] / here.sum(), beta)
    yield "Lemma 10, proof: printed", apart(integral, cov)
    yield "Lemma 10, proof", apart(2 * integral, cov)
    h = x @ w1.T
    active, s, f = np.where(h > 0, 1.0, slope), sigma(h, slope), output([w1, w2], x, slope)
    yield "(16a)", apart((active * w2 * y[:, None]).T @ x / n, c * w2.T * beta)
    yield "(16b)", apart(y @ s / n, c * beta @ w1.T)
    v1, v2 = velocity([w1, w2], x, y, slope, square)
    rate = (slope + 1) * beta @ w1.T @ w2[0] - 2 * w2[0] @ (s.T @ s / n) @ w2[0]
    yield "Lemma 12, proof", apart(2 * (w2 * v2).sum(), rate)
    yield "(24a)", apart(c * w2.T * beta - v1, (active * w2 * f[:, None]).T @ x / n)
    yield "(24b)", apart(c * beta @ w1.T - v2[0], w2[0] @ (s.T @ s) / n)
    yield "(23)", _linear_solution(w1, w2, c, beta, rng)
    even = f - c * x @ (w2 @ w1)[0]
    rest = y - c * x @ (w2 @ w1)[0]
    yield "E.4", apart(((y - f) ** 2).mean(), (rest**2).mean() + (even**2).mean())
    for name, factor in (("(7): printed", f), ("(7)", sign)):
        pull = factor / (np.exp(sign * f) + 1)
        formula = (active * w2 * pull[:, None]).T @ x / n, pull @ s / n
        true = velocity([w1, w2], x, sign, slope, logistic)
        yield name, max(apart(formula[0], true[0]), apart(formula[1], true[1][0]))


def _linear_solution(
    w1: np.ndarray, w2: np.ndarray, c: float, beta: np.ndarray, rng: np.random.Generator
) -> float:
    """Eq. (23) against the exponential of the matrix of (22), at a random time, τ = 1."""
    s = np.linalg.norm(beta)
    t = rng.uniform(0.2, 2.0) / s
    b = beta / s
    grows, falls = (w1 @ b + w2[0]) / 2, (w1 @ b - w2[0]) / 2
    found = np.exp(c * s * t) * np.outer([*b, 1], grows) + np.exp(-c * s * t) * np.outer([*b, -1], falls)
    found[:-1] += w1.T - np.outer(b, w1 @ b)
    m = np.block([[np.zeros((len(beta), len(beta))), beta[:, None]], [beta[None], np.zeros((1, 1))]])
    return apart(found, expm(c * t * m) @ np.vstack([w1.T, w2]))


def rank_one(rng: np.random.Generator, slope: float, sizes: Sizes) -> Numbers:
    """Eqs. (27) to (38): weights W1 = W2ᵀ rᵀ with equal halves (Assumption 4)."""
    x, y = symmetric_data(rng, sizes)
    n, c, sign, r = len(x), (1 + slope) / 2, np.sign(y), unit(rng, sizes.dim)
    cov, beta = x.T @ x / n, y @ x / n
    w2 = rng.uniform(0.5, 2.0) * halves(rng, sizes.width)[None]
    w1 = w2.T * r
    h, size2, along = x @ w1.T, (w2**2).sum(), x @ r
    active, s, f, linear = np.where(h > 0, 1.0, slope), sigma(h, slope), output([w1, w2], x, slope), h @ w2[0]
    yield "(27)", apart(f, c * along * size2)
    yield "(29)", apart(f, c * linear)
    yield "(31)", apart((active * w2 * linear[:, None]).T @ x / n, c * w2.T @ w2 @ w1 @ cov)
    yield "(33)", apart(x.T @ s / n, c * cov @ w1.T)
    v1, v2 = velocity([w1, w2], x, y, slope, square)
    yield "(34a)", apart(c * w2.T * beta - c**2 * w2.T @ w2 @ w1 @ cov, v1)
    yield "(34b)", apart(c * beta @ w1.T - c**2 * w2 @ w1 @ cov @ w1.T, v2)
    twin = velocity([np.sqrt(c) * w1, np.sqrt(c) * w2], x, y, 1.0, square)
    yield "(35)", max(apart(v / np.sqrt(c), w) for v, w in zip((v1, v2), twin, strict=True))
    drift = v1 @ w1.T + w1 @ v1.T - w2.T @ v2 - v2.T @ w2
    yield "(36)", float(np.abs(drift).max() / np.abs(v1 @ w1.T).max())
    yield "E12", apart((c * beta @ r - c**2 * size2 * r @ cov @ r) * w2, v2)
    yield from _logistic(x, sign, w1, w2, r, slope)
    # The map that the network computes at the start, against (38) at t = 0, where it is u0² r.
    yield "(38), t = 0: printed", apart((w1**2).sum() * along, f)
    yield "(38), t = 0", apart(c * (w1**2).sum() * along, f)
    yield "(38)", _course(beta, r, rng)


def _logistic(
    x: np.ndarray, y: np.ndarray, w1: np.ndarray, w2: np.ndarray, r: np.ndarray, slope: float
) -> Numbers:
    """What follows from (37): the factor of the reduced dynamics, and the slopes on a half-space."""
    n, c, linear = len(x), (1 + slope) / 2, x @ w1.T @ w2[0]
    weight = 1 / (np.exp(c * y * linear) + 1)
    v1, v2 = velocity([w1, w2], x, y, slope, logistic)
    for name, factor, pull in (("after (37): printed", c**2, linear), ("after (37)", c, y)):
        mean = factor * (weight * pull) @ x / n
        yield name, max(apart(w2.T * mean, v1), apart(mean @ w1.T, v2[0]))
    here = x @ r > 0
    active = np.where(x @ w1.T > 0, 1.0, slope)
    side = (active * w2 * (weight * linear * here)[:, None]).T @ x / here.sum()
    mean = (weight * linear * here) @ x / here.sum()
    for name, positive, negative in (
        ("half-space in (37): printed", slope, 1.0),
        ("half-space in (37)", 1.0, slope),
    ):
        yield name, apart(np.where(w2.T > 0, positive, negative) * w2.T * mean, side)


def _course(beta: np.ndarray, r: np.ndarray, rng: np.random.Generator) -> float:
    """Does (38) solve the linear flow for white inputs, dw/dt̃ = ‖w‖ (I + w wᵀ/‖w‖²)(β - w)?"""
    t, u0 = rng.uniform(0.2, 2.0) / np.linalg.norm(beta), rng.uniform(0.2, 1.0)
    w = _eq_38(t + 1e-30j, beta, r, u0)
    size, moves = np.linalg.norm(w.real), w.imag / 1e-30
    pull = beta - w.real
    return apart(moves, size * pull + w.real * (w.real @ pull) / size)


def _eq_38(t: Any, beta: np.ndarray, r: np.ndarray, u0: float) -> np.ndarray:
    s = np.linalg.norm(beta)
    b = beta / s
    q = (1 - r @ b) / (1 + r @ b)
    q2, e = 1 + r @ b, np.exp(-s * t)
    top = (1 + q * e**2) * (b * (1 - q * e**2) + 2 / q2 * (r - b * (b @ r)) * e)
    low = 4 / q2**2 * (u0**-2 + (1 - (r @ b) ** 2) * t) * e**2 + (1 + q**2 * e**2) * (1 - e**2) / s
    return np.asarray(top / low)


def deep(rng: np.random.Generator, depth: int, sizes: Sizes) -> Numbers:
    """Eqs. (41) to (45): deep ReLU networks with the weights of (40); σ'(0) = 0."""
    x, y = symmetric_data(rng, sizes)
    n, u, r, g = (
        len(x),
        rng.uniform(0.8, 1.2),
        unit(rng, sizes.dim),
        [halves(rng, sizes.width) for _ in range(depth - 1)],
    )
    cov, beta = x.T @ x / n, y @ x / n
    middle = [np.sqrt(2) * np.maximum(np.outer(a, b), 0) for a, b in zip(g[1:], g[:-1], strict=True)]
    w = [u * layer for layer in (np.outer(g[0], r), *middle, g[-1][None])]
    product = _product(w, np.eye(sizes.dim))
    gain = (u / np.sqrt(2)) ** depth
    found, f = velocity(w, x, y, 0.0, square), output(w, x, 0.0)
    yield "(41)", max(apart(f, x @ product[0] / 2), apart(f, gain * x @ r))
    pull = u ** (depth - 1) / np.sqrt(2) ** depth * (beta - gain * r @ cov)
    yield "(43)", apart(np.outer(g[0], pull), found[0])
    yield "(44)", max(apart(m * (pull @ r), v) for m, v in zip(middle, found[1:-1], strict=True))
    yield "(45)", apart(g[-1] * (pull @ r), found[-1][0])
    rates = np.array([(layer * v).sum() / u for layer, v in zip(w, found, strict=True)])
    yield "after (45)", apart(rates, np.full(depth, pull @ r))
    yield "linear twin", _twin(w, g, found, x, y)
    errors = []
    for layer, v in enumerate(found):  # (42), its last product over the layers below
        above, below = (
            _product(w[layer + 1 :], np.eye(w[layer].shape[0])),
            _product(w[:layer], np.eye(sizes.dim)),
        )
        errors.append(apart(above.T @ (beta[None] / 2 - product @ cov / 4) @ below.T, v))
    yield "(42), ends", max(errors[0], errors[-1])
    yield "(42), middle: printed", min(errors[1:-1])


def _twin(w: Layers, g: Layers, found: Layers, x: np.ndarray, y: np.ndarray) -> float:
    """W₁ and W_L are √2 times a linear network's, the others twice its positive entries, at half the speed.

    If the velocities agree wherever the weights do, so do the flows, and descent with steps of half the size.
    """
    middle = [np.linalg.norm(m) * np.outer(a, b) for m, a, b in zip(w[1:-1], g[1:], g[:-1], strict=True)]
    twin = [layer / np.sqrt(2) for layer in (w[0], *middle, w[-1])]
    first, *rest, last = velocity(twin, x, y, 1.0, square)
    expected = [
        first / np.sqrt(2),
        *[v * (m > 0) for v, m in zip(rest, twin[1:-1], strict=True)],
        last / np.sqrt(2),
    ]
    return max(apart(v, e) for v, e in zip(found, expected, strict=True))


def _product(layers: Layers, first: np.ndarray) -> np.ndarray:
    """The ordered product, the last layer on the left."""
    return reduce(lambda below, w: w @ below, layers, first)


def bounds(rng: np.random.Generator, slope: float, sizes: Sizes) -> Numbers:
    """The left side of Lemmas 8 and 9 over the right one: at most 1 if the lemma is true."""
    x = sizes.short * symmetric_data(rng, sizes)[0]
    n, trace = len(x), (x**2).sum() / len(x)
    w1, w2 = rng.normal(size=(sizes.width, sizes.dim)), rng.normal(size=(1, sizes.width))
    active, s = np.where(x @ w1.T > 0, 1.0, slope), sigma(x @ w1.T, slope)
    norm = np.linalg.norm
    yield "Lemma 8", float(norm(s.T @ s / n) / (norm(w1) ** 2 * trace))
    yield "Lemma 9: printed", float(norm((s * active).mean(axis=0)) / (norm(w1) * trace))
    term = (active * w2 * (s @ w2.T)).T @ x / n
    yield "Lemma 9", float(norm(term) / (norm(w2) ** 2 * norm(w1) * trace))
