"""`rankfall assess`: which theorems speak about the data."""

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rankfall.cli import imports
from rankfall.cli.input import DataName, DataOption, Label, Prepare, read
from rankfall.cli.options import FirstBias, Init, Scale, Seed, Slope, Width, network_of
from rankfall.cli.output import NO_ANSWER, again, say

if TYPE_CHECKING:
    from rankfall.data import Data
    from rankfall.theory import Assessment


def assess(
    data: DataName,
    label: Label = None,
    option: DataOption = None,
    prepare: Prepare = None,
    width: Width = "100",
    slope: Slope = 0.0,
    init: Init = "gaussian",
    scale: Scale = 1e-4,
    bias: FirstBias = False,
    seed: Seed = 0,
    loss: Annotated[str, typer.Option(help="logistic, exponential, square or cross_entropy.")] = "logistic",
    step: Annotated[
        float | None, typer.Option(help="The step size of gradient descent (default: gradient flow).")
    ] = None,
    penalty: Annotated[float, typer.Option(help="The coefficient of an L2 penalty.")] = 0.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list the results that do not apply, with the reasons.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="The most seconds it may take.")] = 60.0,
) -> None:
    """Which theorems speak about my data, what do they predict, and what follows?

    Exit code 0: every result was examined; 3: some were not, for lack of time or because of Ctrl-C; 2: the
    input is wrong.
    """
    from rich.console import Console

    with imports.kept():
        from rankfall import theory

    points = read(data, label, option or [], prepare or [])
    network = network_of(points, width, slope, init, scale, bias, seed, loss, homogeneous=True)
    theory.checked(network, points, loss, step=step, penalty=penalty, seconds=seconds)
    console = Console()
    say(console, _examination(points, seconds))
    answer = theory.assess(network, points, loss, step=step, penalty=penalty, seconds=seconds)
    if answer.speaking or everything:
        listed = answer.assessed if everything else answer.speaking
        console.print(theory.Assessment(answer.situation, listed))
    if answer.silent:
        silent = f"{len(answer.silent)} of {len(answer)} results do not apply"
        say(console, silent + ("." if everything else ": --all lists them, with the reasons."))
    if answer.stopped is not None:
        _end_assessment(console, answer, seconds)
    console.print(answer.advice, style="bold", highlight=False, markup=False, soft_wrap=True)


def _examination(points: "Data", seconds: float) -> str:
    """Roughly what the size of the data means, said before the results are examined."""
    smaller = min(points.n, points.dim)  # the size of the margin problems
    guess = "seconds" if smaller <= 1_000 else "a minute or so" if smaller <= 2_000 else "many minutes"
    if points.n > 20_000:
        guess = f"{8e-9 * points.n**2:.0f} GB for each matrix of inner products, and many minutes"
    sizes = f"{points.n:,} samples x {points.dim:,} features"
    return f"{sizes}: {guess}. It stops after {seconds:g} s (--seconds)."


def _end_assessment(console: Any, answer: "Assessment", seconds: float) -> NoReturn:
    """What was not examined, what is known so far, and how to go on."""
    from rankfall.theory import Stopped

    names = ", ".join(a.name for a in answer.unexamined) or "nothing but the advice"
    say(
        console,
        f"{len(answer.unexamined)} of {len(answer)} results were not examined ({answer.stopped}): {names}.",
    )
    if any(a.advice for a in answer.speaking):
        say(console, f"So far: {answer.advice}")
    longer = 10 * seconds if answer.stopped is Stopped.TIME else seconds
    say(console, f"go on: {again(('--seconds',), '--seconds', f'{longer:g}')}")
    raise typer.Exit(NO_ANSWER)
