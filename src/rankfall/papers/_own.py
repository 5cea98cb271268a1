"""A paper of one's own: a Python file that ends in `PAPER = Paper(...)`, with its experiments and claims."""

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from types import ModuleType

from rankfall.papers.lab import Paper, in_words


def paper_in(file: Path) -> Paper:
    """The paper that a file defines. The file is run, like a script, with its folder on the path."""
    if not file.is_file():
        raise ValueError(f"there is no file {file}.")
    with in_words(str(file), "the file does not run"):
        module = _module(file.resolve())
    found = getattr(module, "PAPER", None)
    if not isinstance(found, Paper):
        raise ValueError(
            f"{file} defines no paper: end it with PAPER = Paper(name, title, source, experiments), see "
            "`rankfall.papers.Paper`."
        )
    found = replace(found, file=str(file))
    _check(found)
    return found


def _check(paper: Paper) -> None:
    """What can be known before anything is run: claims can be made, each under an id of its own."""
    figures: dict[str, str] = {}
    for experiment in paper.experiments:
        simulation, name = experiment.simulation, experiment.name
        if not isfunction(simulation) or simulation.__name__ == "<lambda>":
            raise ValueError(
                f"{paper.file}: the simulation of {name} must be a function that a file defines with def: a "
                "change in any other goes unnoticed, and old runs would be taken for new ones."
            )
        with in_words(paper.file, f"the claims of {name} cannot be made"):
            claims = experiment.claims
        for claim in claims:
            if claim.id in figures:
                raise ValueError(
                    f"{paper.file}: two claims of {paper.name} are called {claim.id!r} (figures "
                    f"{figures[claim.id]} and {name}): ids are unique within a paper."
                )
            figures[claim.id] = name


def _module(file: Path) -> ModuleType:
    """The module, run once in a process."""
    name = f"own_{file.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(file):
        return known
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return module
