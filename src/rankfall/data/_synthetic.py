"""The data sets that the papers construct.

References, by the names used below:

- Zhang: Zhang, Saxe and Latham, "When are bias-free ReLU networks effectively linear networks?", TMLR
  2025; "workshop" is the shorter version of 2024, whose Appendix G gives numbers.
- Frei: Frei, Vardi, Bartlett, Srebro and Hu, "Implicit bias in leaky ReLU networks trained on
  high-dimensional data", ICLR 2023.
- Kou: Kou, Chen and Gu, "Implicit bias of gradient descent for two-layer ReLU and leaky ReLU networks on
  nearly-orthogonal data", NeurIPS 2023.
- Sun: Sun et al., "Implicit bias of gradient flow for two-layer ReLU networks trained on
  nearly-orthogonal data".
- Boursier: Boursier, Pillaud-Vivien and Flammarion, "Gradient flow dynamics of shallow ReLU networks for
  square loss and orthogonal inputs", NeurIPS 2022.

Labels are -1 and +1. Random sets take a `seed`; the same call gives the same bits. Where a paper draws
labels at random, they are drawn again until both classes occur: the paper's law, given that event, which
fails with probability 2^(1-n) and would leave nothing to classify.
"""

from math import pi

import numpy as np

from ._dataset import Data


def symmetric_sine(pairs: int = 1000, dim: int = 20, seed: int = 0, white: bool = False) -> Data:
    """Zhang, Figure 3 (workshop, Figure 1): x ~ N(0, I) together with -x, and y = w.x + sin(4 w.x).

    w is uniform on [-1/2, 1/2]^dim. The set holds 2 * `pairs` samples, first all x, then all -x. With
    `white` the inputs are whitened before y is computed, so that <x x^T> = I to rounding: the closed form
    of the loss, workshop eq. (38), assumes it, and a plain sample misses it by some percent.
    """
    x, w = _gaussian_with_teacher(pairs, dim, seed)
    if white:
        x = _whitened(x)
    target = x @ w
    return _with_mirror_image(x, target + np.sin(4 * target), "symmetric_sine")


def symmetric_linear(pairs: int = 1000, dim: int = 20, seed: int = 0) -> Data:
    """Zhang, Figure 5 (workshop, Figure 3): as `symmetric_sine`, same x and w, with y = w.x."""
    x, w = _gaussian_with_teacher(pairs, dim, seed)
    return _with_mirror_image(x, x @ w, "symmetric_linear")


def linear_teacher(
    n: int = 1000, dim: int = 20, seed: int = 0, noise: float = 0.0, classification: bool = False
) -> Data:
    """Inputs x ~ N(0, I) without mirror images, y = w.x + noise * N(0, 1), w uniform on [-1/2, 1/2]^dim.

    With `classification` the sign of that y; x is drawn again until both signs occur.
    """
    _require_sizes(n=n, dim=dim)
    _require_not_negative(noise=noise)
    if classification and n < 2:
        raise ValueError("linear_teacher needs n >= 2 for a classification: one sample of each class.")
    rng = np.random.default_rng(seed)
    w = rng.uniform(-0.5, 0.5, dim)
    while True:
        x = rng.normal(size=(n, dim))
        y = x @ w + noise * rng.normal(size=n)
        if classification:
            y = np.where(y >= 0, 1.0, -1.0)
        if not classification or np.unique(y).size == 2:
            return Data(x, y, "linear_teacher")


def fan() -> Data:
    """Zhang, Figure 1a: six points whose labels alternate around the origin; odd and symmetric.

    The coordinates are those of `six_points` without the asymmetry. The labels are not published: these
    are the only ones up to a sign that alternate, so that no linear classifier exists.
    """
    return Data(*_six_points(0.0), "fan")


def six_points(asymmetry: float = 0.15) -> Data:
    """Workshop, Figure 2: the points of Appendix G, the right middle one moved up to (1, asymmetry).

    The labels are not published. Consistent with the figure, and assumed here: +1 at (1, 1), (1, -1) and
    (-1, 0), and -1 at (-1, -1), (-1, 1) and (1, asymmetry). `six_points(0)` is `fan()`.
    """
    return Data(*_six_points(asymmetry), "six_points")


def circle(n: int = 16, radii: tuple[float, float] = (1.0, 2.0)) -> Data:
    """Zhang, Figure 1b: the label is +1 on the inner circle and -1 on the outer one.

    Each of n/2 evenly spaced rays holds a point of both circles: a function without bias has one sign on
    a ray, and cannot tell them apart. The paper's own coordinates are not published.
    """
    _require_sizes(n=n)
    if n % 2:
        raise ValueError(f"circle needs an even n, as many points on one circle as on the other, not {n}.")
    inner, outer = radii
    if not 0 < inner < outer:
        raise ValueError(f"circle needs radii 0 < inner < outer, not {radii}.")
    angles = 2 * pi * np.arange(n // 2) / (n // 2)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Data(np.concatenate([inner * rays, outer * rays]), np.repeat([1.0, -1.0], n // 2), "circle")


def xor() -> Data:
    """Zhang, Figure 4c, the XOR-like set: +1 at (1, 1) and (-1, -1), -1 at (1, -1) and (-1, 1).

    No inner product of two points is positive, so that the network splits into four linear ones. The
    paper's own coordinates are not published.
    """
    return Data([[1, 1], [-1, -1], [1, -1], [-1, 1]], [1, 1, -1, -1], "xor")


def orthogonal_pair() -> Data:
    """Zhang, Figure 4a, after Boursier: -1 at (-0.5, 1) and +1 at (2, 1), which are orthogonal."""
    return Data([[-0.5, 1], [2, 1]], [-1, 1], "orthogonal_pair")


def orthogonal(n: int = 10, dim: int = 100, seed: int = 0, norm: float = 1.0, balanced: bool = True) -> Data:
    """Orthogonal inputs of one norm in a random frame of R^dim (the setting of Boursier).

    They are orthogonal exactly, not only up to rounding: for a ReLU network an inner product of 1e-17 leads,
    after a time of exp(1e17), to another limit. The norm is rounded to 44 bits for that. The labels are n/2
    of each in random order, or independent coin flips without `balanced`.
    """
    _require_frame(n, dim, norm)
    rng = np.random.default_rng(seed)
    mantissa, exponent = np.frexp(norm)
    x = np.ldexp(np.round(np.ldexp(mantissa, 44)), int(exponent) - 44) * _exact_frame(n, dim, rng)
    return Data(x, _random_labels(n, balanced, rng), "orthogonal")


def nearly_orthogonal(
    n: int = 10, dim: int = 100, p: float = 10.0, seed: int = 0, norm: float = 1.0, balanced: bool = True
) -> Data:
    """Inputs of one norm r whose p-orthogonality number r^2 / (n max_{i != j} |<x_i, x_j>|) is p.

    Frei's Theorem 3.2 asks for p >= 3 / slope^3, which Gaussian data of realistic size do not reach. So
    the Gram matrix is made: r^2 (I + S) with random S_ij, the largest of modulus 1/(n p); for small p
    the other entries are halved until the matrix is positive definite. Then the points are put in a
    random frame of R^dim. Labels as in `orthogonal`.
    """
    _require_frame(n, dim, norm)
    if n < 2 or not 1 / n < p < np.inf:
        raise ValueError(
            f"nearly_orthogonal needs n >= 2 points and 1/n < p < infinity, not n = {n} and p = {p}: "
            "distinct points of one norm have p > 1/n; for exactly orthogonal points use orthogonal()."
        )
    rng = np.random.default_rng(seed)
    gram = _gram(n, 1 / (n * p), rng)
    x = norm * np.linalg.cholesky(gram) @ _frame(n, dim, rng)
    return Data(x, _random_labels(n, balanced, rng), "nearly_orthogonal")


def orthogonally_separable(
    n: int = 10,
    dim: int = 20,
    seed: int = 0,
    angle: float = 0.75 * pi,
    spread: float = 0.9,
    balanced: bool = True,
) -> Data:
    """Inputs with <x_i, x_j> > 0 within a class and <= 0 between the classes (Phuong and Lampert, ICLR 2021).

    Each class fills a cone around its axis; the axes are at `angle`, from pi/2 to pi. `spread`, between 0
    and 1, is the half-angle of the cones as a part of (angle - pi/2) / 2, the largest that keeps the
    classes orthogonally separable. Norms are uniform on [1/2, 3/2]; labels as in `orthogonal`.
    """
    _require_sizes(n=n, dim=dim)
    if dim < 2:
        raise ValueError("orthogonally_separable needs dim >= 2, to have room for an angle.")
    if not pi / 2 <= angle <= pi:
        raise ValueError(f"the angle between the classes must be from pi/2 to pi (in radians), not {angle}.")
    if not 0 <= spread < 1:
        raise ValueError(f"spread must be at least 0 and less than 1, not {spread}.")
    rng = np.random.default_rng(seed)
    first, second = _frame(2, dim, rng)
    y = _random_labels(n, balanced, rng)
    axes = np.where(y[:, None] > 0, first, np.cos(angle) * first + np.sin(angle) * second)
    across = rng.normal(size=(n, dim))
    across -= (across * axes).sum(axis=1, keepdims=True) * axes
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    tilt = spread * (angle - pi / 2) / 2 * rng.uniform(size=(n, 1))
    norms = rng.uniform(0.5, 1.5, (n, 1))
    return Data(norms * (np.cos(tilt) * axes + np.sin(tilt) * across), y, "orthogonally_separable")


def gaussian_mixture(
    n: int = 10,
    dim: int = 784,
    mean_scale: float = 0.01,
    noise: float = 1.0,
    label_noise: float = 0.0,
    balanced: bool = False,
    seed: int = 0,
    test: int = 0,
    mean_norm: float | None = None,
) -> Data:
    """Inputs x = y mu + z with z ~ N(0, noise^2 I) and mu ~ N(0, mean_scale^2 I): Sun, Figure 1, after Kou.

    With `mean_norm` mu is scaled to that norm instead; Frei, Section 5, takes dim^0.26. y is a fair coin,
    or n/2 of each class if `balanced`. `label_noise` is the probability that the label a sample is given
    differs from the y it was made with. `test` samples are drawn from the same mixture, with fair coins
    and true labels; asking for them does not change the training part.
    """
    _require_sizes(n=n, dim=dim)
    _require_not_negative(mean_scale=mean_scale, noise=noise, mean_norm=mean_norm or 0.0)
    if not 0 <= label_noise <= 0.5:
        raise ValueError(f"label_noise is a probability from 0 to 1/2, not {label_noise}.")
    rng = np.random.default_rng(seed)
    mu = rng.normal(size=dim)
    mu *= mean_scale if mean_norm is None else mean_norm / np.linalg.norm(mu)
    true, given = _noisy_labels(n, balanced, label_noise, rng)
    x = true[:, None] * mu + noise * rng.normal(size=(n, dim))
    if not test:
        return Data(x, given, "gaussian_mixture")
    _require_sizes(test=test)
    y = rng.choice([-1.0, 1.0], test)
    held_out = Data(y[:, None] * mu + noise * rng.normal(size=(test, dim)), y, "gaussian_mixture test")
    return Data(x, given, "gaussian_mixture", held_out)


CONSTRUCTED = {
    make.__name__: make
    for make in (
        circle,
        fan,
        gaussian_mixture,
        linear_teacher,
        nearly_orthogonal,
        orthogonal,
        orthogonal_pair,
        orthogonally_separable,
        six_points,
        symmetric_linear,
        symmetric_sine,
        xor,
    )
}


def symmetrise(data: Data) -> Data:
    """The data with the mirror image (-x, -y) of each sample added; the test part stays as it is.

    The augmentation of Lyu, Li, Wang and Arora, NeurIPS 2021.
    """
    classes = np.unique(data.y)
    if len(classes) > 1 and np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"y of {data.name!r} holds class numbers 0 to {len(classes) - 1}, which have no mirror image: "
            "make it the labels -1 and +1 for two classes, or real numbers, before symmetrise()."
        )
    return _with_mirror_image(data.x, data.y, f"{data.name}, symmetrised", data.test)


def _require_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{name} must be a positive whole number, not {size!r}.")


def _require_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} must be finite and not negative, but is {value!r}.")


def _require_frame(n: int, dim: int, norm: float) -> None:
    _require_sizes(n=n, dim=dim)
    if n > dim:
        raise ValueError(
            f"{n} independent directions do not fit into {dim} dimensions: take n <= dim, "
            f"so fewer samples or dim >= {n}."
        )
    if not 0 < norm < np.inf:
        raise ValueError(f"the norm of the inputs must be positive and finite, not {norm!r}.")


def _gaussian_with_teacher(n: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    _require_sizes(pairs=n, dim=dim)
    rng = np.random.default_rng(seed)
    w = rng.uniform(-0.5, 0.5, dim)
    return rng.normal(size=(n, dim)), w


def _whitened(x: np.ndarray) -> np.ndarray:
    """The inputs x Sigma^(-1/2), from the singular vectors: the nearest inputs with <x x^T> = I."""
    n, dim = x.shape
    if n < dim:
        raise ValueError(f"white inputs in {dim} dimensions need pairs >= {dim}, not {n}.")
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return np.asarray(np.sqrt(n) * left @ right)


def _with_mirror_image(x: np.ndarray, y: np.ndarray, name: str, test: Data | None = None) -> Data:
    return Data(np.concatenate([x, -x]), np.concatenate([y, -y]), name, test)


def _six_points(asymmetry: float) -> tuple[np.ndarray, np.ndarray]:
    x = [[1, 1], [-1, -1], [1, -1], [-1, 1], [-1, 0], [1, asymmetry]]
    return np.array(x, float), np.array([1.0, -1, 1, -1, 1, -1])


def _exact_frame(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """n orthonormal rows in R^dim, exactly: some axes after reflections at vectors with four entries +-1.

    Such a reflection, I - v v^T / 2, adds one bit to the entries: no more than 8 in all.
    """
    rows = np.zeros((n, dim))
    rows[np.arange(n), rng.permutation(dim)[:n]] = rng.choice([-1.0, 1.0], n)
    for _ in range(8 if dim >= 4 else 0):
        order = rng.permutation(dim)
        for four in order[: dim - dim % 4].reshape(-1, 4):
            v = rng.choice([-1.0, 1.0], 4)
            rows[:, four] -= np.outer(rows[:, four] @ v, v) / 2
    return rows


def _frame(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """A matrix of n orthonormal rows of R^dim, uniformly distributed."""
    q, r = np.linalg.qr(rng.normal(size=(dim, n)))
    # QR fixes the signs in its own way; those of r's diagonal make the frame uniform.
    return np.asarray((q * np.sign(np.diag(r))).T)


def _gram(n: int, largest: float, rng: np.random.Generator) -> np.ndarray:
    """A random positive definite matrix: 1 on the diagonal, and elsewhere of maximal modulus `largest`."""
    s = np.triu(rng.uniform(-1, 1, (n, n)), 1)
    i, j = np.unravel_index(np.argmax(np.abs(s)), s.shape)
    s *= largest / np.abs(s[i, j])
    s[i, j] = np.copysign(largest, s[i, j])
    # Without the other entries the least eigenvalue would be 1 - largest > 0: halving them comes to an end.
    while np.linalg.eigvalsh(np.eye(n) + s + s.T)[0] < (1 - largest) / 2:
        kept = s[i, j]
        s /= 2
        s[i, j] = kept
    return np.asarray(np.eye(n) + s + s.T)


def _random_labels(n: int, balanced: bool, rng: np.random.Generator) -> np.ndarray:
    """Labels -1 and +1, both present: half of each in random order, or fair coins."""
    if balanced and n % 2:
        raise ValueError(f"balanced classes need an even n, not {n}: change n or pass balanced=False.")
    if n < 2:
        raise ValueError("two classes need n >= 2 samples.")
    if balanced:
        return rng.permutation(np.repeat([-1.0, 1.0], n // 2))
    while True:
        y = rng.choice([-1.0, 1.0], n)
        if np.unique(y).size == 2:
            return y


def _noisy_labels(
    n: int, balanced: bool, label_noise: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The labels that samples are made with, and those they are given; both classes are given."""
    while True:
        true = _random_labels(n, balanced, rng)
        given = np.where(rng.uniform(size=n) < label_noise, -true, true)
        if np.unique(given).size == 2:
            return true, given
