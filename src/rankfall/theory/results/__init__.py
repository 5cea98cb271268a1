"""All results by name: those in the `RESULTS` of every file in this folder, a file for author and subject."""

from importlib import import_module
from pkgutil import iter_modules

from rankfall.theory.core.result import Result

FIRST = ("zhang", "lyu", "frei", "kou", "le", "sun")  # who is asked first, by `assess` too; then the others


def _place(file: str) -> tuple[int, str]:
    author = file.partition("_")[0]
    return (*FIRST, author).index(author), file


RESULTS: dict[str, Result] = {
    result.name: result
    for file in sorted((module.name for module in iter_modules(__path__)), key=_place)
    for result in import_module(f"{__name__}.{file}").RESULTS
}
