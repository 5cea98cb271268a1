"""Small settings for the tests, one file per paper: for each experiment what differs from the paper's."""

from importlib import import_module
from typing import Any

from rankfall.papers import PAPERS


def small(paper: str, figure: str) -> dict[str, Any]:
    """The changes to the setting of an experiment with which a test runs it."""
    return dict(import_module(f"{__package__}.{paper}").SMALL.get(figure, {})) if paper in PAPERS else {}
