"""Limit: the end of a flow, with everything that certifies it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from rankfall._atomic import atomically
from rankfall.certificates import Certificate
from rankfall.limits import _shown as shown
from rankfall.limits._compare import Comparison
from rankfall.limits._optimality import Optimality
from rankfall.limits._verdict import Verdict
from rankfall.loss import Loss, named
from rankfall.measure import Spectrum
from rankfall.network import Network, moving
from rankfall.trajectory import opened, pack, unpack

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Group


@dataclass(frozen=True)
class Branch:
    """The end of one of the solutions that leave one point, and what it is like."""

    verdict: Verdict
    norm: float
    stable_rank: float
    cosine: float  # to the limit that is shown; NaN if one of them is zero

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Verdict(self.verdict))  # a file has the word alone


@dataclass(frozen=True)
class Limit:
    r"""Where a gradient flow ends.

    For the exponential and the logistic loss the weights grow for ever, and the limit is their direction,
    scaled to the margin 1: a KKT point of $\min \frac12|\theta|^2$ with $y_i f(x_i) \ge 1$. For the square
    loss it is the end point itself.

    - `verdict`: a `Verdict`, a word such as "certified", "followed" or "not decided"; `verdict.meaning` says
        what it means.
    - `missing`: what is missing to an answer, or why there is no limit; empty if nothing is.
    - `network`: the limit, as a network.
    - `multipliers`: $\lambda_i$; `margins`: $y_i f(x_i)$ (the outputs, for the square loss).
    - `residuals`: the residual of each condition, by name; see `rankfall.limits._kkt.Residuals`.
    - `region`: (neuron, sample) 1 above, -1 below, 0 at the kink; `kinks`: (neuron, sample, slope) of those
        at it. With the multipliers they give the weights: $w_j = a_j \sum_i \lambda_i y_i P_{ji} x_i$.
    - `optimality`: is it a global optimum of the margin problem?
    - `comparison`: with the linear hard-margin SVM.
    - `settings`: how it was found, and what that cost.
    - `state`: the last state of the flow, as a network: `limit(end, data)` goes on from there.
    - `branches`: where several solutions leave one point, the end of each.
    """

    verdict: Verdict
    missing: tuple[str, ...]
    network: Network
    multipliers: np.ndarray
    margins: np.ndarray
    residuals: dict[str, float]
    region: np.ndarray | None
    kinks: tuple[tuple[int, int, float], ...]
    optimality: Optimality | None
    comparison: Comparison | None
    settings: dict[str, Any]
    state: Network | None = None
    document: dict[str, Any] | None = None  # of the certificate
    branches: tuple["Branch", ...] = ()

    @property
    def certified(self) -> bool:
        """Is the verdict "certified"?"""
        return self.verdict is Verdict.CERTIFIED

    @property
    def reached(self) -> bool:
        """Was the limit reached: is it certified or followed, or a minimum of the square loss that is proved?

        Where the flow of another loss comes to rest there is no limit: samples are misclassified.
        """
        known = self.verdict in (Verdict.CERTIFIED, Verdict.FOLLOWED, Verdict.AT_REST)
        return known and (self.loss.name == "square" or float(self.margins.min()) > 0)

    def certificate(self) -> Certificate:
        """What is proved of this limit, as a document that others can check; `.save` writes it."""
        if self.document is None:
            raise ValueError(f"there is no certificate: the verdict is {str(self.verdict)!r}.")
        return Certificate(self.document)

    @property
    def W(self) -> np.ndarray:
        """The first layer (m, d)."""
        return np.asarray(self.network.weights[0])

    @property
    def support(self) -> np.ndarray:
        """The numbers of the support vectors: the samples with a positive multiplier."""
        top = self.multipliers.max(initial=0.0)
        return np.flatnonzero(self.multipliers > 1e-12 * top) if top > 0 else np.empty(0, dtype=int)

    @property
    def blocks(self) -> dict[str, np.ndarray]:
        """The rows of the first layer by the sign of their output weight: "+" and "-"."""
        if self.network.depth != 2:
            return {}
        a = self.network.weights[1][0]
        return {"+": self.W[a > 0], "-": self.W[a < 0]}

    @property
    def loss(self) -> Loss:
        """The loss whose flow ends here."""
        return named(self.settings["loss"])

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of the first layer."""
        return Spectrum.of(self.W)

    @cached_property
    def block_spectra(self) -> dict[str, Spectrum]:
        """The spectrum of each sign block."""
        return {sign: Spectrum.of(rows) for sign, rows in self.blocks.items()}

    @property
    def singular_values(self) -> np.ndarray:
        """The singular values of the first layer."""
        return self.spectrum.values

    @property
    def stable_rank(self) -> float:
        """The stable rank of the first layer."""
        return self.spectrum.stable_rank

    @property
    def rank(self) -> int:
        """The number of singular values above 1e-6 times the largest."""
        return self.spectrum.rank

    @property
    def block_stable_ranks(self) -> dict[str, float]:
        """The stable rank of each sign block."""
        return {sign: each.stable_rank for sign, each in self.block_spectra.items()}

    @property
    def block_ranks(self) -> dict[str, int]:
        """The rank of each sign block."""
        return {sign: each.rank for sign, each in self.block_spectra.items()}

    @property
    def norm(self) -> float:
        """The norm of everything trained."""
        trained = jax.tree.leaves(eqx.filter(self.network, moving(self.network)))
        return float(np.sqrt(sum(np.sum(leaf**2) for leaf in trained)))

    @property
    def normalised_margin(self) -> float:
        r"""$\min_i y_i f(x_i) / |\theta|^k$ with the order of homogeneity k."""
        order = self.network.homogeneity
        return float("nan") if not order else float(self.margins.min() / self.norm**order)

    def __str__(self) -> str:
        return shown.as_text(self)

    __repr__ = __str__

    def __rich__(self) -> "Group":
        return shown.as_rich(self)

    def _repr_html_(self) -> str:
        return shown.as_html(self)

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one netCDF file: under a temporary name first, then renamed."""
        with atomically(path) as draft:
            self._dataset().to_netcdf(draft, engine="h5netcdf", mode="w")
            pack(self.network).to_netcdf(draft, engine="h5netcdf", mode="a", group="network_0")
            if self.state is not None:
                pack(self.state).to_netcdf(draft, engine="h5netcdf", mode="a", group="network_1")
        return Path(path)

    def _dataset(self) -> "xr.Dataset":
        import xarray as xr

        kinks = np.array(self.kinks, dtype=float).reshape(-1, 3)
        variables: dict[str, Any] = {
            "multipliers": ("samples", self.multipliers, {"long_name": "multiplier"}),
            "margins": ("samples", self.margins, {"long_name": "margin"}),
            "singular_values": ("values", self.singular_values, {"long_name": "singular value of $W_1$"}),
            "kink_neuron": ("kink", kinks[:, 0].astype(int)),
            "kink_sample": ("kink", kinks[:, 1].astype(int)),
            "kink_slope": ("kink", kinks[:, 2]),
        }
        if self.region is not None:
            variables["region"] = (("neurons", "samples"), self.region)
        if self.document is not None:  # as bytes: attributes may not be long
            text = json.dumps(self.document).encode()
            variables["certificate"] = ("bytes", np.frombuffer(text, dtype=np.uint8))
        told: dict[str, Any] = {
            "verdict": str(self.verdict),
            "branches": [asdict(branch) for branch in self.branches],
            "missing": list(self.missing),
            "residuals": self.residuals,
            "settings": self.settings,
        }
        for name, part in (("optimality", self.optimality), ("comparison", self.comparison)):
            if part is not None:
                told[name] = _plain(asdict(part))
        return xr.Dataset(variables, attrs={"rankfall_limit": json.dumps(told)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Limit":
        """Read what `to_netcdf` wrote."""
        with opened(path, "rankfall_limit", "a limit that rankfall wrote") as groups:
            root, network = groups["/"], unpack(groups["/network_0"].load())
            state = unpack(groups["/network_1"].load()) if "/network_1" in groups else None
        told = json.loads(root.attrs["rankfall_limit"])
        kinks = zip(root.kink_neuron.values, root.kink_sample.values, root.kink_slope.values, strict=True)
        return cls(
            verdict=Verdict(told["verdict"]),
            missing=tuple(told["missing"]),
            network=network,
            multipliers=root.multipliers.values,
            margins=root.margins.values,
            residuals=told["residuals"],
            region=root.region.values if "region" in root else None,
            kinks=tuple((int(j), int(i), float(p)) for j, i, p in kinks),
            optimality=_revive(Optimality, told.get("optimality")),
            comparison=_revive(Comparison, told.get("comparison")),
            settings=told["settings"],
            state=state,
            document=json.loads(root.certificate.values.tobytes()) if "certificate" in root else None,
            branches=tuple(Branch(**branch) for branch in told.get("branches", ())),
        )

    def with_settings(self, **more: Any) -> "Limit":
        """The same limit with more to tell about how it was found."""
        return replace(self, settings={**self.settings, **more})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as lists, so that JSON takes them."""
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in values.items()}


def _revive(kind: Any, told: dict[str, Any] | None) -> Any:
    """The inverse of `_plain`."""
    if told is None:
        return None
    return kind(**{key: np.array(value) if isinstance(value, list) else value for key, value in told.items()})
