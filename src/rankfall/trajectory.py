"""Trajectory: what a run leaves. The measures over time, the last network, and how it was made."""

import json
import os
import platform
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from rankfall._atomic import atomically
from rankfall.measure import Measure, matrix_layers
from rankfall.network import Identity, Network
from rankfall.outcome import Outcome, Statistics

if TYPE_CHECKING:
    import xarray as xr

PACKAGES = ("rankfall", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy")


class Trajectory:
    """The measures of a run as an `xarray.Dataset`, its last network, its settings and what it counted.

    Names of the dataset are names of the run: `run.stable_rank.plot()`, `run.sel(step=100)`, `run["loss"]`.

    - `dataset`: the measures over `time` (flow), `s` (flow in the loss clock) or `step` (descent), with one
        more dimension where several networks ran together.
    - `networks`: the last networks; `network` if there is only one.
    - `settings`: how the run was made, and the versions of the libraries.
    - `state`: the arrays from which the run can be taken up again, None if it cannot.
    - `events`: what happened at the kinks, for an exact flow; else None.
    - `statistics`: what the run counted: its steps, its evaluations of the gradient, ...
    """

    def __init__(
        self,
        dataset: "xr.Dataset",
        networks: Sequence[Network],
        settings: Mapping[str, Any],
        state: Any = None,
        events: "xr.Dataset | None" = None,
        statistics: Statistics | None = None,
    ):
        self.dataset = dataset
        self.networks = tuple(networks)
        self.settings = dict(settings)
        self.events = events
        self.statistics = statistics or Statistics()
        self.state = None if state is None else tuple(np.asarray(leaf) for leaf in jax.tree.leaves(state))

    @property
    def network(self) -> Network:
        """The last network."""
        if len(self.networks) > 1:
            raise ValueError(f"{len(self.networks)} networks ran together: take one of `run.networks`.")
        return self.networks[0]

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return Outcome(self.settings["outcome"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, name: Hashable) -> "xr.DataArray":
        return self.dataset[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(str, self.dataset.variables)]

    def __repr__(self) -> str:
        networks = "\n".join(f"  {network!r}" for network in self.networks[:3])
        more = f"\n  and {len(self.networks) - 3} more" if len(self.networks) > 3 else ""
        told = {**self.settings, **self.statistics.counted}
        lines = "\n".join(f"  {key}: {value}" for key, value in told.items() if key != "versions")
        return f"Trajectory\n{networks}{more}\n{lines}\n{self.dataset!r}"

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one netCDF file: under a temporary name first, then renamed."""
        import xarray as xr

        with atomically(path) as draft:
            dataset = self.dataset.copy()
            dataset.attrs["rankfall_settings"] = json.dumps(self.settings)
            dataset.attrs["rankfall_statistics"] = json.dumps(self.statistics.counted)
            dataset.to_netcdf(draft, engine="h5netcdf", mode="w")
            for i, network in enumerate(self.networks):
                pack(network).to_netcdf(draft, engine="h5netcdf", mode="a", group=f"network_{i}")
            if self.events is not None:
                self.events.to_netcdf(draft, engine="h5netcdf", mode="a", group="events")
            if self.state is not None:
                leaves = {
                    f"leaf_{i}": ([f"leaf_{i}_{a}" for a in range(v.ndim)], v)
                    for i, v in enumerate(self.state)
                }
                xr.Dataset(leaves).to_netcdf(draft, engine="h5netcdf", mode="a", group="state")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectory":
        """Read what `to_netcdf` wrote."""
        with opened(path, "rankfall_settings", "one that a rankfall run wrote") as groups:
            root = groups["/"]
            settings = json.loads(root.attrs.pop("rankfall_settings"))
            statistics = _statistics(root.attrs.pop("rankfall_statistics", None), settings)
            count = sum(name.startswith("/network_") for name in groups)
            networks = [unpack(groups[f"/network_{i}"].load()) for i in range(count)]
            state = None
            if "/state" in groups:
                leaves = groups["/state"].load()
                state = tuple(leaves[f"leaf_{i}"].values for i in range(len(leaves.data_vars)))
            events = groups["/events"].load() if "/events" in groups else None
        return cls(root, networks, settings, state, events, statistics)


def _statistics(written: str | None, settings: dict[str, Any]) -> Statistics:
    """What a run counted, from its file; older files have it among the settings, which then lose it."""
    if written is not None:
        return Statistics(**json.loads(written))
    names = [field.name for field in fields(Statistics) if field.name in settings]
    return Statistics(**{name: settings.pop(name) for name in names})


@contextmanager
def opened(path: str | os.PathLike[str], mark: str, what: str) -> Iterator[dict[str, "xr.Dataset"]]:
    """The groups of a netCDF file that has the attribute `mark`, and so is `what`; its root is loaded."""
    import xarray as xr

    try:
        groups = xr.open_groups(path, engine="h5netcdf")
    except FileNotFoundError:
        raise ValueError(f"there is no file {os.fspath(path)!r}.") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a netCDF file: {error}") from None
    try:
        groups["/"] = groups["/"].load()
        if mark not in groups["/"].attrs:
            raise ValueError(f"{os.fspath(path)!r} is a netCDF file, but not {what}.")
        yield groups
    finally:
        for group in groups.values():
            group.close()


def pack(network: Network) -> "xr.Dataset":
    """A network as a dataset, for a file."""
    import xarray as xr

    arrays = {f"W{layer}": ((f"out{layer}", f"in{layer}"), w) for layer, w in enumerate(network.weights, 1)}
    biases = {
        f"b{layer}": ((f"out{layer}",), b) for layer, b in enumerate(network.biases, 1) if b is not None
    }
    skips: dict[str, Any] = {}
    for layer, skip in enumerate(network.skips, 1):
        if skip is not None and not isinstance(skip, Identity):
            skips[f"S{layer}"] = ((f"out{layer}", f"in{layer - 1}")[: skip.ndim], skip)
    attrs = {
        "slope": float(network.slope),
        "trained": np.asarray(network.trained, dtype=np.int8),
        "linear_tail": network.linear_tail,
        "origin": network.origin,
    }
    if network.has_skips:
        attrs["skips"] = ",".join(kind or "" for kind in network.skip_kinds)
    return xr.Dataset({**arrays, **biases, **skips}, attrs=attrs)


def unpack(packed: "xr.Dataset") -> Network:
    """The inverse of `pack`."""
    trained = [bool(each) for each in np.atleast_1d(packed.attrs["trained"])]
    depth = len(trained)
    kinds = str(packed.attrs.get("skips", "," * (depth - 1))).split(",")
    return Network(
        [packed[f"W{layer}"].values for layer in range(1, depth + 1)],
        [packed[f"b{layer}"].values if f"b{layer}" in packed else None for layer in range(1, depth + 1)],
        slope=float(packed.attrs["slope"]),
        trained=trained,
        linear_tail=int(packed.attrs["linear_tail"]),
        origin=str(packed.attrs["origin"]),
        skips=[
            packed[f"S{layer}"].values if f"S{layer}" in packed else kind or None
            for layer, kind in enumerate(kinds, 1)
        ],
    )


def versions() -> dict[str, str]:
    """The versions of what a run's numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def to_dataset(
    records: Mapping[str, np.ndarray],
    measures: Sequence[Measure],
    axis: "xr.DataArray",
    network: Network,
    along: tuple[str, Sequence[Any]] | None = None,
) -> "xr.Dataset":
    """The records of a run as a dataset: names, units and coordinates, and no dimension of length one.

    Each record has the axis of the run first, then (if networks ran together) that of `along`, then the
    dimensions of its measure.
    """
    import xarray as xr

    variables: dict[str, tuple[list[str], np.ndarray, dict[str, str]]] = {}
    for measure in measures:
        values = np.asarray(records[measure.name])
        dims = [str(axis.name), *([along[0]] if along else []), *measure.dims]
        long_name = measure.long_name
        for dim in measure.dims:
            position = dims.index(dim)
            if values.shape[position] == 1:
                values = values.squeeze(position)
                dims.remove(dim)
                if dim == "matrix":
                    long_name += f" of $W_{matrix_layers(network)[0]}$"
        attrs = {"long_name": long_name} | ({"units": measure.units} if measure.units else {})
        variables[measure.name] = (dims, values, attrs)
    used = {dim for dims, _, _ in variables.values() for dim in dims}
    labels = {dim: values for dim, values in _labels(network).items() if dim in used}
    coords: dict[str, Any] = {str(axis.name): axis, **labels, **({along[0]: list(along[1])} if along else {})}
    return xr.Dataset(variables, coords=coords)


def _labels(network: Network) -> dict[str, Any]:
    """The coordinates of the dimensions that measures use; the others are counted from 0."""
    return {
        "layer": np.arange(1, network.depth + 1),
        "matrix": matrix_layers(network),
        "hidden": np.arange(1, network.depth),
        "sign": ["+", "-"],
    }
