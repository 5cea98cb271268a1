"""A paper of one's own: a Python file that ends in `PAPER = Paper(...)`, with its experiments and claims."""

import sys
import traceback
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from rankfall.papers.lab import Paper


def paper_in(file: Path) -> Paper:
    """The paper that a file defines. The file is run, like a script, with its folder on the path."""
    if not file.is_file():
        raise ValueError(f"there is no file {file}.")
    found = getattr(_module(file.resolve()), "PAPER", None)
    if not isinstance(found, Paper):
        raise ValueError(
            f"{file} defines no paper: end it with PAPER = Paper(name, title, source, experiments), see "
            "`rankfall.papers.Paper`."
        )
    return replace(found, file=str(file))


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
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{file} does not run: {_reason(error, file)}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def _reason(error: Exception, file: Path) -> str:
    """The error with its line in the file, in a sentence."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}" + (f" in line {line}" if line else "") + f": {said.rstrip('.')}."
