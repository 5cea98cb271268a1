"""`rankfall data`: which real data there are, fetch them, take files you have, and say where they are."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rankfall.data.catalogue import RealSet
    from rankfall.data.recognise import Found

app = typer.Typer(help="Real data: list, get, import, where.", no_args_is_help=True)


@app.command("list")
def list_sets() -> None:
    """List the sets of real data, whether they are here, and how to get them."""
    from rich.console import Console
    from rich.table import Table

    from rankfall.data import store
    from rankfall.data.catalogue import CATALOGUE

    table = Table("name", "samples x features", "classes", "size", "here", "how")
    for each in CATALOGUE.values():
        shape = f"{sum(each.samples):,} x {each.features:,}"
        size = store.size_text(each.size) if each.size else "?"
        how = "get" if each.downloads else "import"
        table.add_row(each.name, shape, str(each.classes), size, _here(each), how)
    Console().print(table)
    print("`rankfall data get NAME` fetches a set, `rankfall data import PATH` takes files you have:")
    for each in CATALOGUE.values():
        if each.source:
            print(f"  {each.name} comes from {each.source}")
    print(f"All are kept in {store.folder()}")


def _here(each: "RealSet") -> str:
    from rankfall.data import store

    lacking = len(store.missing(each))
    here = len(each.files) - lacking
    return "yes" if not lacking else f"{here} of {len(each.files)}" if here else "no"


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="mnist, cifar10, ..., or all that can be fetched.")],
) -> None:
    """Fetch sets into the cache, and verify them."""
    from rankfall.data import store
    from rankfall.data.catalogue import CATALOGUE, real_set
    from rankfall.data.download import fetch

    every = [name for name, each in CATALOGUE.items() if each.downloads]
    chosen = [real_set(name) for name in (every if "all" in names else dict.fromkeys(names))]
    failures = []
    try:
        for each in chosen:
            here = not store.missing(each)
            try:
                place = fetch(each.name)
            except ValueError as error:
                failures.append(str(error))
                continue
            print(f"{each.name}: {'verified' if here else 'fetched and verified'}, in {place}", flush=True)
    except KeyboardInterrupt:
        print("rankfall: stopped. What was complete is kept, nothing else is left.", file=sys.stderr)
        raise typer.Exit(130) from None
    if failures:
        raise ValueError("\n".join(failures))


@app.command("import")
def import_files(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives that you have.")],
) -> None:
    """Take files that you have into the cache: official files, archives of them, .npz or .csv."""
    from rankfall.data.recognise import taking

    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no file {path}.")
    sets: dict[str, RealSet] = {}
    refused = False
    try:
        for path in paths:
            foreign = 0
            for found in taking(path):
                foreign += found.foreign and found.where != str(path)
                _tell(found, path)
                refused |= found.known is None and found.where == str(path)
                if found.known is not None:
                    sets[found.known[0].name] = found.known[0]
            if foreign:
                print(f"left alone: {foreign} other files in {path}, which no known set has")
    except KeyboardInterrupt:
        print("rankfall: stopped. What was taken is kept, nothing else is left.", file=sys.stderr)
        raise typer.Exit(130) from None
    if not sets:
        print("rankfall: nothing was taken.", file=sys.stderr)
        raise typer.Exit(2)
    for each in sets.values():
        print(f"{each.name}: {_completeness(each)}")
    if refused:
        raise typer.Exit(2)


def _tell(found: "Found", path: Path) -> None:
    """Say what became of a file; what is foreign in a folder or an archive is only counted."""
    if found.known is not None:
        each, file = found.known
        print(f"took: {found.where} is {file.name} of {each.title}", flush=True)
    elif not found.foreign or found.where == str(path):
        print(f"refused: {found.where} {found.refusal}.", file=sys.stderr, flush=True)


def _completeness(each: "RealSet") -> str:
    from rankfall.data import store

    lacking = [file.name for file in store.missing(each)]
    return f"still missing {', '.join(lacking)}" if lacking else f"complete, in {store.folder() / each.name}"


@app.command()
def where(
    name: Annotated[str | None, typer.Argument(help="A set; the folder of all if not said.")] = None,
) -> None:
    """Print the folder where the sets are kept, or where one set is or would be."""
    from rankfall.data import store
    from rankfall.data.catalogue import real_set

    print(store.folder() / real_set(name).name if name else store.folder())
