"""`rankfall data`: which real data there are, fetch them, take files you have, and say where they are."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankfall.cli.output import NO_ANSWER

if TYPE_CHECKING:
    from rankfall.data import RealSet

app = typer.Typer(help="Real data: list, get, import, where.", no_args_is_help=True)


@app.command("list")
def list_sets() -> None:
    """List the sets of real data, whether they are here, and how to get them."""
    from rich.console import Console
    from rich.table import Table

    from rankfall.data import folder, real_sets, size_text

    table = Table("name", "samples x features", "classes", "size", "here", "how")
    for each in real_sets().values():
        shape = f"{sum(each.samples):,} x {each.features:,}"
        size = size_text(each.size) if each.size else "?"
        how = "get" if each.downloads else "import"
        table.add_row(each.name, shape, str(each.classes), size, _here(each), how)
    console = Console()
    with console.capture() as shown:
        console.print(table)
    lines = ["`rankfall data get NAME` fetches a set, `rankfall data import PATH` takes files you have:"]
    lines += [f"  {each.name} comes from {each.source}" for each in real_sets().values() if each.source]
    lines += [f"All are kept in {folder()}"]
    try:
        print(shown.get() + "\n".join(lines), flush=True)
    except BrokenPipeError:  # `rankfall data list | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _here(each: "RealSet") -> str:
    from rankfall.data import missing

    lacking = len(missing(each))
    here = len(each.files) - lacking
    return "yes" if not lacking else f"{here} of {len(each.files)}" if here else "no"


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="mnist, cifar10, ..., or all that can be fetched.")],
) -> None:
    """Fetch sets into the cache, and verify them."""
    from rankfall.data import bring, folder, real_set, real_sets

    every = [name for name, each in real_sets().items() if each.downloads]
    wanted = dict.fromkeys(one for name in names for one in (every if name == "all" else [name]))
    chosen = [real_set(name) for name in wanted]
    failures = []
    try:
        for each in chosen:
            try:
                done = "fetched and verified" if bring(each) else "verified"
            except ValueError as error:
                failures.append(str(error))
                continue
            print(f"{each.name}: {done}, in {folder() / each.name}", flush=True)
    except KeyboardInterrupt:
        print("rankfall: stopped. What was complete is kept, nothing else is left.", file=sys.stderr)
        raise typer.Exit(NO_ANSWER) from None
    if failures:
        raise ValueError("\n".join(failures))


@app.command("import")
def import_files(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives that you have.")],
) -> None:
    """Take files that you have into the cache: official files, folders and archives of them.

    A gene set is taken as .csv with a label column, or as .npz with X and y.
    """
    from rankfall.data import no_file, taking

    for path in paths:
        if not path.exists():
            raise no_file(path)
    sets: dict[str, RealSet] = {}
    refused = False
    try:
        for path in paths:
            foreign = 0
            for found in taking(path):
                if found.known is not None:
                    each, file = found.known
                    sets[each.name] = each
                    print(f"took: {_plain(found.where)} is {file.name} of {each.title}", flush=True)
                elif found.foreign and found.where != str(path):
                    foreign += 1  # only counted
                else:
                    refused = True
                    print(f"refused: {_plain(found.where)} {found.refusal}.", file=sys.stderr, flush=True)
            if foreign:
                print(f"left alone: {foreign} other files in {path}, which no known set has")
    except KeyboardInterrupt:
        print("rankfall: stopped. What was taken is kept, nothing else is left.", file=sys.stderr)
        raise typer.Exit(NO_ANSWER) from None
    if not sets:
        print("rankfall: nothing was taken.", file=sys.stderr)
        raise typer.Exit(2)
    for each in sets.values():
        print(f"{each.name}: {_completeness(each)}")
    if refused:
        raise typer.Exit(2)


def _plain(name: str) -> str:
    """The name of a member of somebody's archive, without what would speak to the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)


def _completeness(each: "RealSet") -> str:
    from rankfall.data import folder, missing

    lacking = [file.name for file in missing(each)]
    return f"still missing {', '.join(lacking)}" if lacking else f"complete, in {folder() / each.name}"


@app.command()
def where(
    name: Annotated[str | None, typer.Argument(help="A set (default: the folder of all).")] = None,
) -> None:
    """Print the folder where the sets are kept, or where one set is or would be."""
    from rankfall.data import folder, real_set

    print(folder() / real_set(name).name if name else folder())
