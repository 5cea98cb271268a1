"""The command line: one file a command. Heavy imports are where they are used."""

import sys
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from rankfall.cli import data
from rankfall.cli.assess import assess
from rankfall.cli.check import check
from rankfall.cli.limit import limit
from rankfall.cli.output import NO_ANSWER
from rankfall.cli.reproduce import reproduce
from rankfall.cli.run import run


class Commands(typer.core.TyperGroup):
    """The commands; Ctrl-C where there is nothing to keep yet is "no answer yet" like everywhere else."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("rankfall: interrupted.", file=sys.stderr)
            raise typer.Exit(NO_ANSWER) from None


app = typer.Typer(
    cls=Commands,
    help="Where gradient flow takes a (leaky) ReLU network, how fast, and why it ends so simple.",
    epilog="Exit codes: 0 finished; 1 a claim or a run failed; 2 bad input; 3 no answer yet "
    "(interrupted, time or budget spent, stalled, diverged).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, limit, check, assess, reproduce):
    app.command()(command)
app.add_typer(data.app, name="data")


def main() -> NoReturn:
    """Run the command line: a user's mistake is one sentence and exit code 2, never a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"rankfall: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError as error:
        print(f"rankfall: this needs more memory than there is. {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"rankfall {version('rankfall')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
