"""`rankfall check`: is a certificate right?"""

from pathlib import Path
from typing import Annotated

import typer


def check(
    certificate: Annotated[Path, typer.Argument(help="A certificate that `rankfall limit` wrote (.json).")],
    data: Annotated[
        Path | None,
        typer.Option(help="Your data (.csv): the certificate must be about exactly these numbers."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column; by default the last one.")] = None,
) -> None:
    """Check a certificate in exact arithmetic, with the standard library of Python alone.

    Exit code 0: every claim holds; 1: a claim is refused; 2: the file cannot be read.
    """
    from rankfall.certificates import check as checker

    told = [str(certificate)]
    told += ["--data", str(data)] if data is not None else []
    told += ["--label", label] if label is not None else []
    raise typer.Exit(checker.main(told))
