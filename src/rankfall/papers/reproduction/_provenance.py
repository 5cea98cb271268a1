"""What a run rests on: its setting, the code, and the environment."""

import json
import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from rankfall.papers.lab import Experiment, code_of_runs, digest, module_of, values

LIBRARIES = (
    *("jax", "jaxlib", "diffrax", "equinox", "lineax", "optimistix", "optax"),
    *("numpy", "scipy", "xarray", "matplotlib"),
)


@cache
def environment() -> dict[str, str]:
    """What the numbers depend on besides the code: versions, and the kind of machine."""
    return {
        "rankfall": version("rankfall"),
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "machine": f"{platform.system()} {platform.machine()}",
    }


def code_of(experiment: Experiment[Any]) -> str:
    """The digest of all that the runs of an experiment rest on: the setting, the code, the environment."""
    rests_on = environment() | code_of_runs(module_of(experiment.simulation))
    return digest(json.dumps([rests_on, values(experiment.setting)]))


def code_below(experiment: Experiment[Any]) -> str:
    """The digest of what its checkpoints rest on: the same without the code of the papers and the setting.

    So a longer run goes on from the checkpoints of a shorter one; `descent` refuses those of another call.
    """
    code = code_of_runs(module_of(experiment.simulation))
    below = {key: value for key, value in code.items() if not key.startswith("rankfall.papers.")}
    return digest(json.dumps(environment() | below))
