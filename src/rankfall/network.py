r"""Network: weights, biases and slope of a (leaky) ReLU network, its forward pass and its initialisations.

A network of depth L computes $h_1 = W_1 x + b_1$, $h_l = W_l \sigma(h_{l-1}) + b_l$ and $f(x) = h_L$, with
$\sigma(z) = \max(z, \alpha z)$. At the kink the derivative is $\sigma'(0) = \alpha$, as in PyTorch.

A layer with a skip closes a residual block, $h_l = W_l \sigma(h_{l-1}) + b_l + S_l u$ with the input u of
layer l - 1. The sum is not activated: the next layer takes it as it is.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from rankfall._naming import unknown
from rankfall._precision import Array, in_float64, is_traced

Widths = Sequence[int]


class Identity(eqx.Module):
    """The skip x -> x: it has no parameters, and so no leaves."""

    def __repr__(self) -> str:
        return "identity"


Skip = Identity | Float[Array, "..."] | None


class Network(eqx.Module):
    r"""A (leaky) ReLU network of any depth and width.

    **Arguments:**

    - `weights`: the matrices $W_1, \dots, W_L$, each out x in.
    - `biases`: one vector a layer, `None` for a layer without; or `None` for none at all.
    - `slope`: the leaky slope $\alpha$ in [0, 1]: 0 is ReLU, 1 a linear network.
    - `trained`: which layers move in training; one `bool` a layer, or one for all.
    - `linear_tail`: how many of the last layers are linear, i.e. have no activation between them.
        The output layer always is: 1 is an ordinary network, L a linear one.
    - `origin`: how the weights came to be, for the record of a run.
    - `skips`: one entry a layer, `None` for a layer without; or `None` for none at all. A layer with a skip
        closes a residual block with the layer before, whose input u it adds: "identity" adds u, a vector D
        the product $D_i u_i$, a matrix Z the product $Z u$ (ResNetIdentity, ResNetDiagonal and ResNetFree of
        Le and Jegelka 2022). Vector and matrix are trained where their layer is.

    A JAX pytree: `jax.grad`, `jax.vmap` and `jax.tree.map` take it as it is. Outside of JAX's
    transformations its arrays are NumPy's, so that float64 stays float64.
    """

    weights: tuple[Float[Array, "_out _in"], ...]
    biases: tuple[Float[Array, " _out"] | None, ...]
    skips: tuple[Skip, ...]
    slope: Float[Array, ""]
    trained: tuple[bool, ...] = eqx.field(static=True)
    linear_tail: int = eqx.field(static=True)
    origin: str = eqx.field(static=True)

    def __init__(
        self,
        weights: Sequence[Any],
        biases: Sequence[Any] | None = None,
        slope: float = 0.0,
        trained: bool | Sequence[bool] = True,
        linear_tail: int = 1,
        origin: str = "given",
        skips: Sequence[Any] | None = None,
    ):
        self.weights = tuple(_floats(w) for w in weights)
        biases = [None] * len(self.weights) if biases is None else biases
        self.biases = tuple(None if b is None else _floats(b) for b in biases)
        self.slope = np.asarray(slope, dtype=np.float64)
        depth = len(self.weights)
        self.skips = (None,) * depth if skips is None else tuple(map(_skip, skips))
        self.trained = (trained,) * depth if isinstance(trained, bool) else tuple(map(bool, trained))
        self.linear_tail = linear_tail
        self.origin = origin

    def __check_init__(self) -> None:
        if not self.weights:
            raise ValueError("a network needs at least one weight matrix.")
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=False), start=1):
            if w.ndim != 2 or 0 in w.shape:
                raise ValueError(
                    f"W_{layer} must be a matrix out x in with at least one row and column, "
                    f"but has shape {w.shape}."
                )
            for name, values in ((f"W_{layer}", w), (f"b_{layer}", b)):
                if values is not None and not np.isfinite(values).all():
                    raise ValueError(f"{name} has entries that are NaN or infinite.")
            if b is not None and b.shape != (w.shape[0],):
                raise ValueError(
                    f"b_{layer} must have one entry for each of the {w.shape[0]} rows of W_{layer}."
                )
            if layer > 1 and w.shape[1] != self.weights[layer - 2].shape[0]:
                raise ValueError(
                    f"W_{layer} takes {w.shape[1]} inputs, but W_{layer - 1} has "
                    f"{self.weights[layer - 2].shape[0]} outputs."
                )
        for what, entries in (("biases", self.biases), ("trained", self.trained), ("skips", self.skips)):
            if len(entries) != self.depth:
                raise ValueError(f"{what} must have one entry for each of the {self.depth} layers.")
        if not 0.0 <= float(self.slope) <= 1.0:
            raise ValueError(f"the slope must lie in [0, 1] (0 is ReLU, 1 is linear), but is {self.slope:g}.")
        if not 1 <= self.linear_tail <= self.depth:
            raise ValueError(
                f"linear_tail must lie between 1 (the output layer) and the depth {self.depth}, "
                f"but is {self.linear_tail}."
            )
        self._check_skips()

    def _check_skips(self) -> None:
        for layer, skip in enumerate(self.skips, start=1):
            if skip is None:
                continue
            if layer == 1 or self.skips[layer - 2] is not None:
                raise ValueError(
                    f"a skip closes a block of two layers, {layer - 1} and {layer}: "
                    + ("layer 1 has none before it." if layer == 1 else "blocks must not overlap.")
                )
            taken, given = self.widths[layer - 2], self.widths[layer]
            if isinstance(skip, Identity):
                fits, needed = taken == given, "an identity needs as many of the one as of the other"
            elif skip.ndim == 1:
                fits, needed = skip.shape == (given,) == (taken,), f"its diagonal skip has shape {skip.shape}"
            else:
                fits, needed = skip.shape == (given, taken), f"its free skip has shape {skip.shape}"
            if not fits:
                raise ValueError(
                    f"the block of layers {layer - 1} and {layer} has {taken} inputs and {given} outputs, "
                    f"but {needed}."
                )
            if not isinstance(skip, Identity) and not np.isfinite(skip).all():
                raise ValueError(f"the skip of layer {layer} has entries that are NaN or infinite.")

    # What it is

    @property
    def depth(self) -> int:
        """The number of layers L."""
        return len(self.weights)

    @property
    def widths(self) -> tuple[int, ...]:
        """The dimensions (d, m_1, ..., outputs)."""
        return (self.weights[0].shape[-1], *(w.shape[-2] for w in self.weights))

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.widths[-1]

    @property
    def dtype(self) -> np.dtype:
        """The floating-point type of the weights."""
        return np.dtype(self.weights[0].dtype)

    @property
    def has_bias(self) -> bool:
        """Does any layer have a bias?"""
        return any(b is not None for b in self.biases)

    @property
    def has_skips(self) -> bool:
        """Does any layer close a residual block?"""
        return any(skip is not None for skip in self.skips)

    @property
    def skip_kinds(self) -> tuple[str | None, ...]:
        """One of "identity", "diagonal" and "free" for each layer with a skip, None for the others."""
        own = self.weights[0].ndim - 2  # leading axes, where networks are stacked
        return tuple(
            skip
            if skip is None
            else repr(skip)
            if isinstance(skip, Identity)
            else "diagonal"
            if skip.ndim - own == 1
            else "free"
            for skip in self.skips
        )

    @property
    def activated(self) -> tuple[int, ...]:
        r"""The numbers (from 1) of the layers whose outputs $h_l$ go through the activation.

        Those of the linear tail do not, nor do the sums of residual blocks.
        """
        below = range(1, self.depth - self.linear_tail + 1)
        return tuple(layer for layer in below if self.skips[layer - 1] is None)

    @property
    def mean_slope(self) -> Float[Array, ""]:
        """The mean c = (1 + slope)/2 of the two slopes: the factor of Theorem 5 of Zhang et al.

        Where all layers are linear it is 1, whatever the slope.
        """
        return np.ones(()) if self.linear_tail == self.depth else (1 + self.slope) / 2

    @property
    def homogeneity(self) -> int | None:
        r"""The order of homogeneity of f in the trained parameters; None where f is not homogeneous.

        Scaling them by k scales f by $k^{\text{order}}$. A bias counts as one more weight, so only the
        first trained layer may have one. The two ways through a residual block must be of one order: a
        trained skip asks for a fixed inner layer, and an identity for a fixed block.
        """
        orders = [0, 0]  # of the inputs of the layer before and of this one
        for bias, skip, trained in zip(self.biases, self.skips, self.trained, strict=True):
            order = orders[-1] + trained
            if bias is not None and order != trained:
                return None
            if skip is not None and order != orders[-2] + (trained and not isinstance(skip, Identity)):
                return None
            orders.append(order)
        return orders[-1]

    def __repr__(self) -> str:
        shape = "-".join(map(str, self.widths))
        known = not is_traced(self.slope) and np.ndim(self.slope) == 0
        kind = f", slope {float(self.slope):g}" if known else ""
        bias = ", biases" if self.has_bias else ""
        tail = f", {self.linear_tail} linear layers at the end" if self.linear_tail > 1 else ""
        kinds = [f"{kind} skip into layer {layer}" for layer, kind in enumerate(self.skip_kinds, 1) if kind]
        skips = "".join(f", {kind}" for kind in kinds)
        fixed = [str(layer) for layer, trained in enumerate(self.trained, 1) if not trained]
        frozen = f", layer {' and '.join(fixed)} fixed" if fixed else ""
        return f"Network({shape}{kind}{bias}{tail}{skips}{frozen}; {self.origin})"

    def astype(self, dtype: Any) -> "Network":
        """The same network in float32 or float64."""
        return jax.tree.map(lambda leaf: leaf if leaf is self.slope else leaf.astype(dtype), self)

    # What it computes

    def __call__(
        self, x: Float[Array, "*batch d"] | list[Any]
    ) -> Float[Array, "*batch"] | Float[Array, "*batch k"]:
        """The outputs f(x): one number a point for one output, else one row a point.

        `x` is one point (d,) or many (n, d).
        """
        outputs = self.preactivations(x)[-1]
        return outputs[..., 0] if self.outputs == 1 else outputs

    def preactivations(
        self, x: Float[Array, "*batch d"] | list[Any]
    ) -> tuple[Float[Array, "*batch _out"], ...]:
        r"""The vectors $h_1, \dots, h_L$ at `x`; the last are the outputs."""
        points: Any = x if is_traced(x) else np.asarray(x, dtype=self.dtype)
        if points.shape[-1] != self.widths[0]:
            raise ValueError(f"the network takes {self.widths[0]} features, but x has {points.shape[-1]}.")
        if all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves((self, points))):
            with np.errstate(over="ignore", invalid="ignore"):  # as JAX has it: infinite, or NaN
                return _preactivations(self, points)
        # where it comes from is no reason to compile again
        return _compiled_preactivations(with_origin(self, ""), points)

    def odd_part(self, x: Float[Array, "*batch d"]) -> Float[Array, "..."]:
        """(f(x) - f(-x))/2, for any network."""
        return (self(x) - self(-x)) / 2

    def even_part(self, x: Float[Array, "*batch d"]) -> Float[Array, "..."]:
        """(f(x) + f(-x))/2, for any network."""
        return (self(x) + self(-x)) / 2

    def split(self) -> tuple[Float[Array, "k d"], "Network"]:
        r"""The linear and the even part of a two-layer bias-free network (Zhang et al., Theorem 1).

        $f(x) = \frac{1+\alpha}{2} W_2 W_1 x + \frac{1-\alpha}{2} W_2 |W_1 x|$. The first summand is returned
        as the matrix that maps x to it. The second is a network of twice the width, because
        $\sigma(z) + \sigma(-z) = (1-\alpha)|z|$.
        """
        self._require_two_layers_without_bias("the split into a linear and an even part")
        first, second = self.weights
        linear = self.mean_slope * (second @ first)
        even = Network(
            [np.vstack([first, -first]), np.hstack([second, second]) / 2],
            slope=2 * self.mean_slope - 1,
            origin=f"even part of ({self.origin})",
        )
        return linear, even

    def linear_twin(self) -> "Network":
        r"""The linear network that this one follows in rescaled time (Zhang et al., Theorem 5).

        With $c = (1+\alpha)/2$ (`mean_slope`) it starts from $\sqrt{c}\,W$, and then
        $W(t) = c^{-1/2}\, W^{lin}(c t)$: one step of size $\eta$ here is one step of size $c\eta$ there. This
        holds on symmetric data from weights of rank one (`Network.rank_one`).
        """
        self._require_two_layers_without_bias("the linear twin")
        root = np.sqrt(self.mean_slope)
        twin = Network(
            [(root * w).astype(self.dtype) for w in self.weights],
            slope=1.0,
            trained=self.trained,
            origin=f"linear twin of ({self.origin})",
        )
        return twin

    def _require_two_layers_without_bias(self, what: str) -> None:
        if self.depth != 2 or self.has_bias or self.has_skips:
            raise ValueError(
                f"{what} is a fact about two-layer networks without biases and skips; this is {self!r}."
            )

    # Where training starts

    @classmethod
    def gaussian(
        cls,
        widths: Widths,
        slope: float,
        scale: float,
        seed: int,
        bias: bool | Sequence[bool] = False,
        **rest: Any,
    ) -> "Network":
        """Weights N(0, scale^2 / N_l), with N_l the number of weights of layer l (Zhang et al., App. G).

        Each layer starts with a Frobenius norm close to `scale`. Biases start at zero.
        """
        rng = _rng(seed)
        weights = [rng.normal(0.0, scale / np.sqrt(o * i), (o, i)) for i, o in _layers(widths)]
        return cls._new(weights, bias, slope, f"gaussian(scale={scale:g}, seed={seed})", **rest)

    @classmethod
    def fixed_second_layer(
        cls,
        widths: Widths,
        slope: float,
        sigma: float,
        seed: int,
        bias: bool = False,
        positive: int | None = None,
    ) -> "Network":
        """First layer N(0, sigma^2), second layer +-1/sqrt(m), fixed (Frei et al.; Sun and Tran as printed).

        The first `positive` neurons (half of them, if not said) have the sign +, the others -.
        """
        dim, width = _two_layers(widths, "fixed_second_layer", outputs=1)
        if positive is None and width % 2:
            raise ValueError(
                f"half of {width} neurons cannot be positive: take an even width, or say `positive`."
            )
        positive = width // 2 if positive is None else positive
        if not 0 <= positive <= width:
            raise ValueError(
                f"`positive` counts neurons, so it must lie between 0 and {width}, not be {positive}."
            )
        signs = np.where(np.arange(width) < positive, 1.0, -1.0)
        weights = [_rng(seed).normal(0.0, sigma, (width, dim)), signs[None, :] / np.sqrt(width)]
        origin = f"fixed_second_layer(sigma={sigma:g}, positive={positive}, seed={seed})"
        return cls._new(weights, (bias, False), slope, origin, trained=(True, False))

    @classmethod
    def constant_second_layer(
        cls, widths: Widths, slope: float, variance: float, seed: int, bias: bool = True
    ) -> "Network":
        """First layer N(0, variance), second layer constant 1/m, all trained (Sun and Tran as run).

        `variance` is the square of the standard deviation. With equal output weights and the
        cross-entropy the first layer has no gradient at the first step.
        """
        dim, width = _two_layers(widths, "constant_second_layer")
        weights = [
            _rng(seed).normal(0.0, np.sqrt(variance), (width, dim)),
            np.full((int(widths[2]), width), 1.0 / width),
        ]
        return cls._new(weights, bias, slope, f"constant_second_layer(variance={variance:g}, seed={seed})")

    @classmethod
    def balanced(cls, widths: Widths, slope: float, scale: float, seed: int, **rest: Any) -> "Network":
        r"""Every hidden neuron's weights in and out have the same norm.

        The first layer is N(0, scale^2 / N_1). In each later layer the columns of a Gaussian matrix are
        scaled to the norms of the rows before: with one output this is $a_j = \pm\|w_j\|$ (Boursier et
        al. 2022, Phuong and Lampert 2021).
        """
        rng = _rng(seed)
        weights: list[np.ndarray] = []
        for i, o in _layers(widths):
            w = rng.normal(0.0, scale / np.sqrt(o * i), (o, i))
            if weights:
                lengths = np.linalg.norm(w, axis=0)
                w *= np.linalg.norm(weights[-1], axis=1) / np.where(lengths > 0, lengths, 1.0)
            weights.append(w)
        return cls._new(weights, False, slope, f"balanced(scale={scale:g}, seed={seed})", **rest)

    @classmethod
    def rank_one(
        cls,
        widths: Widths,
        slope: float,
        scale: float,
        seed: int,
        direction: ArrayLike | None = None,
    ) -> "Network":
        r"""$W_1 = W_2^T r^T$ with a unit vector r, and $\|W_2^+\| = \|W_2^-\|$ (Zhang et al., Assumption 4).

        Both layers have the Frobenius norm `scale`. r is `direction` (normalised), or drawn at random.
        """
        dim, width = _two_layers(widths, "rank_one", outputs=1)
        if width < 2:
            raise ValueError("rank_one needs at least two neurons, one of each sign.")
        rng = _rng(seed)
        second = np.abs(rng.normal(size=width))
        halves = np.arange(width) < width // 2
        for half, sign in ((halves, 1.0), (~halves, -1.0)):
            second[half] *= sign * scale / np.sqrt(2) / np.linalg.norm(second[half])
        r = rng.normal(size=dim) if direction is None else _floats(direction)
        if r.shape != (dim,) or not np.linalg.norm(r) > 0:
            raise ValueError(f"the direction must be a vector of {dim} numbers, not all zero.")
        weights = [np.outer(second, r / np.linalg.norm(r)), second[None, :]]
        return cls._new(weights, False, slope, f"rank_one(scale={scale:g}, seed={seed})")

    @classmethod
    def glorot_uniform(
        cls,
        widths: Widths,
        slope: float,
        seed: int,
        scale: float = 1.0,
        bias: bool | Sequence[bool] = False,
        **rest: Any,
    ) -> "Network":
        r"""Weights uniform within $\sqrt{6/(in + out)}$ times `scale`, the default of Keras; biases zero."""
        rng = _rng(seed)
        weights = [
            scale * rng.uniform(-1.0, 1.0, (o, i)) * np.sqrt(6.0 / (i + o)) for i, o in _layers(widths)
        ]
        return cls._new(weights, bias, slope, f"glorot_uniform(scale={scale:g}, seed={seed})", **rest)

    @classmethod
    def depth_separation(cls) -> "Network":
        r"""Three layers that compute g of Zhang et al., eq. (3): odd, and not linear.

        $g(x) = \sigma(\sigma(x_1) - \sigma(x_2)) - \sigma(\sigma(-x_1) - \sigma(-x_2))$ with ReLU. No
        bias-free network of two layers can.
        """
        first = [[1, 0], [0, 1], [-1, 0], [0, -1]]
        second = [[1, -1, 0, 0], [0, 0, 1, -1]]
        return cls([first, second, [[1, -1]]], slope=0.0, origin="depth_separation()")

    @classmethod
    def _new(
        cls, weights: list[np.ndarray], bias: bool | Sequence[bool], slope: float, origin: str, **rest: Any
    ) -> "Network":
        wanted = [bias] * len(weights) if isinstance(bias, bool) else list(bias)
        if len(wanted) != len(weights):
            raise ValueError(f"bias must be one bool, or one for each of the {len(weights)} layers.")
        biases = [np.zeros(len(w)) if b else None for w, b in zip(weights, wanted, strict=True)]
        return cls(weights, biases, slope, origin=origin, **rest)


def activation(z: Float[Array, "..."], slope: Float[Array, ""] | float) -> Float[Array, "..."]:
    """The leaky ReLU max(z, slope z), with derivative `slope` at 0."""
    xp = z.__array_namespace__()
    return xp.where(z > 0, z, xp.asarray(slope, dtype=z.dtype) * z)


def through_skip(
    skip: Identity | Float[Array, "..."], u: Float[Array, "*batch in"]
) -> Float[Array, "*batch out"]:
    """What a skip adds to its block's output, for the block's input u."""
    if isinstance(skip, Identity):
        return u
    return u * skip if skip.ndim == 1 else u @ skip.T


def _preactivations(network: Network, x: Any) -> tuple[Any, ...]:
    """Of NumPy arrays by NumPy, which has nothing to compile; of JAX's by JAX."""
    u = entering = x  # the inputs of the layer before and of this one
    seen = []
    layers = zip(network.weights, network.biases, network.skips, strict=True)
    for layer, (w, b, skip) in enumerate(layers, start=1):
        h = entering @ w.T
        h = h if b is None else h + b
        h = h if skip is None else h + through_skip(skip, u)
        seen.append(h)
        u, entering = entering, activation(h, network.slope) if layer in network.activated else h
    return tuple(seen)


@in_float64
def _compiled_preactivations(network: Network, x: Any) -> tuple[Any, ...]:
    return _preactivations(network, jnp.asarray(x))


def moving(network: Network) -> Network:
    """A network-shaped tree of bools: which arrays training moves."""
    return eqx.tree_at(
        lambda n: (n.weights, n.biases, n.skips, n.slope),
        network,
        (
            network.trained,
            tuple(None if b is None else t for b, t in zip(network.biases, network.trained, strict=True)),
            tuple(
                t if eqx.is_array_like(s) else s for s, t in zip(network.skips, network.trained, strict=True)
            ),
            False,
        ),
        is_leaf=lambda leaf: leaf is None,
    )


def stack(networks: Sequence[Network]) -> Network:
    """Many networks of one shape as one, each array with a leading axis: for `jax.vmap`."""
    shapes = {
        (n.widths, n.trained, n.linear_tail, n.dtype, n.skip_kinds, tuple(b is None for b in n.biases))
        for n in networks
    }
    if len(shapes) != 1:
        raise ValueError(
            "networks that run together must agree in widths, biases, skips, trained layers, linear tail and "
            "dtype; run the different ones apart."
        )
    plain = [eqx.tree_at(lambda n: n.slope, with_origin(n, ""), np.asarray(n.slope)) for n in networks]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *plain)


def unstack(network: Network, origins: Sequence[str]) -> list[Network]:
    """The inverse of `stack`."""
    return [
        with_origin(jax.tree.map(lambda leaf, i=i: leaf[i], network), origin)
        for i, origin in enumerate(origins)
    ]


def with_origin(network: Network, origin: str) -> Network:
    """The same network with another record of where it comes from."""
    leaves, structure = jax.tree.flatten(network)
    copy = jax.tree.unflatten(structure, leaves)
    object.__setattr__(copy, "origin", origin)
    return copy


def _skip(skip: Any) -> Skip:
    """A skip as a user gives it: None, "identity", a vector or a matrix."""
    if skip is None or isinstance(skip, Identity):
        return skip
    if isinstance(skip, str):
        if skip != "identity":
            raise unknown("skip", skip, ("identity",))
        return Identity()
    array = _floats(skip)
    if array.ndim not in (1, 2):
        raise ValueError(f"a skip is a vector or a matrix, or 'identity'; this one has shape {array.shape}.")
    return array


def _floats(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _rng(seed: int) -> np.random.Generator:
    if int(seed) != seed or seed < 0:
        raise ValueError(f"the seed must be a whole number of at least 0, not {seed}.")
    return np.random.default_rng(seed)


def _layers(widths: Widths) -> list[tuple[int, int]]:
    """The (in, out) pair of each layer."""
    if len(widths) < 2 or any(int(w) != w or w < 1 for w in widths):
        raise ValueError(
            f"widths must be whole numbers (d, m_1, ..., outputs) of at least 1, not {tuple(widths)}."
        )
    return list(pairwise(map(int, widths)))


def _two_layers(widths: Widths, what: str, outputs: int | None = None) -> tuple[int, int]:
    _layers(widths)
    if len(widths) != 3 or (outputs is not None and widths[2] != outputs):
        last = "outputs" if outputs is None else str(outputs)
        raise ValueError(f"{what} is for two layers: widths (d, m, {last}), not {tuple(widths)}.")
    return int(widths[0]), int(widths[1])
