"""Small settings for the tests, one file per paper: for each experiment what differs from the paper's."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rankfall.papers import PAPERS


def small(paper: str, figure: str) -> dict[str, Any]:
    """The changes to the setting of an experiment with which a test runs it; none where no file has any."""
    module = f"{__package__}.{paper}"
    if paper not in PAPERS or find_spec(module) is None:
        return {}
    return dict(import_module(module).SMALL.get(figure, {}))
