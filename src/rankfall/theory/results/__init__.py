"""All results by name: those in the `RESULTS` of every file in this folder, a file for author and subject."""

from importlib import import_module
from pkgutil import iter_modules

from rankfall.theory.core.result import Result

FIRST = ("zhang", "lyu", "frei", "kou", "le", "sun")  # who is asked first, by `assess` too; then the others


def _place(file: str) -> tuple[int, str]:
    author = file.partition("_")[0]
    return (*FIRST, author).index(author), file


def _found() -> dict[str, Result]:
    found: dict[str, Result] = {}
    files: dict[str, str] = {}
    for file in sorted((module.name for module in iter_modules(__path__)), key=_place):
        for result in import_module(f"{__name__}.{file}").RESULTS:
            if result.name in found:
                both = " and ".join(dict.fromkeys([f"{files[result.name]}.py", f"{file}.py"]))
                raise ValueError(f"two results have the name {result.name!r}, in {both}: rename one.")
            found[result.name], files[result.name] = result, file
    return found


RESULTS = _found()
