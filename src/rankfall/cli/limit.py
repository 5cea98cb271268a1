"""`rankfall limit`: where the gradient flow ends."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankfall.cli import imports
from rankfall.cli.input import DataName, DataOption, Label, Prepare, file_name, read, saved
from rankfall.cli.options import FirstBias, Init, Scale, Seed, Slope, Width, network_of
from rankfall.cli.output import NO_ANSWER, again, say

if TYPE_CHECKING:
    from rich.console import Console

    from rankfall.data import Data
    from rankfall.limits import Limit
    from rankfall.network import Network


Loss = Annotated[
    str | None,
    typer.Option(help="exponential (default), logistic or square; with --continue that of the file."),
]
Tolerance = Annotated[float, typer.Option(help="The largest residual of a certificate.")]
Budget = Annotated[int, typer.Option(help="The most steps of the search.")]
Seconds = Annotated[float, typer.Option(help="The most seconds of the search.")]
GoOn = Annotated[
    Path | None, typer.Option("--continue", help="Go on from a limit or a run (.nc) that was saved.")
]
Globally = Annotated[
    bool, typer.Option("--optimality/--no-optimality", help="Find out if the limit is globally optimal.")
]
Out = Annotated[Path, typer.Option(help="The folder for the limit and its picture.")]


def limit(
    ctx: typer.Context,
    data: DataName,
    label: Label = None,
    option: DataOption = None,
    prepare: Prepare = None,
    width: Width = "100",
    slope: Slope = 0.0,
    init: Init = "fixed_second_layer",
    scale: Scale = 1e-4,
    bias: FirstBias = False,
    seed: Seed = 0,
    loss: Loss = None,
    tolerance: Tolerance = 1e-10,
    budget: Budget = 1_000_000,
    seconds: Seconds = 60.0,
    go_on: GoOn = None,
    optimality: Globally = True,
    out: Out = Path("limits"),
) -> None:
    """Where does the gradient flow end? The limit with its certificate; saved, and drawn.

    Exit code 0: there is an answer; 3: no answer yet, go on with --continue; 2: the input is wrong.
    """
    from rich.console import Console

    with imports.kept():
        from rankfall import limits
        from rankfall.loss import named

    before = None if go_on is None else saved(go_on)
    loss = loss or ("exponential" if before is None else before.settings["loss"])
    if named(loss).targets == "classes":
        raise ValueError(f"a limit is for one output: --loss exponential, logistic or square, not {loss}.")
    points = read(data, label, option or [], prepare or [])
    if before is None or go_on is None:
        network = network_of(points, width, slope, init, scale, bias, seed, loss, homogeneous=True)
        name = file_name(f"{points.name}_slope{slope:g}_seed{seed}")
    else:
        _refuse_network_options(ctx)
        network, name = before.network, go_on.stem
    start = network if before is None else before
    limits.checked(start, points, loss, tolerance, budget, seconds)
    console = Console()
    say(console, _effort(network, points, loss, seconds))
    began = time.monotonic()
    found = limits.limit(
        start, points, loss, tol=tolerance, budget=budget, seconds=seconds, optimality=optimality
    )
    taken = time.monotonic() - began
    file = _keep(console, found, network, points, taken, out, name)
    if not _is_finished(found):
        longer = 10 * seconds if taken >= seconds else seconds
        larger = 10 * budget if found.settings["steps"] >= budget else budget
        more = ("--continue", str(file), "--seconds", f"{longer:g}", "--budget", str(larger))
        say(console, f"go on: {again((*NETWORK, '--continue', '--seconds', '--budget'), *more)}")
        raise typer.Exit(NO_ANSWER)


def _keep(
    console: "Console", found: "Limit", network: "Network", points: "Data", taken: float, out: Path, name: str
) -> Path:
    """Save a limit, draw it and print it; the file."""
    from rankfall import plot

    found = found if _is_finished(found) else _with_distance(found, points)
    found = found.with_settings(seconds=round(taken, 1))
    file = found.to_netcdf(out / f"{name}.nc")
    proof = found.certificate().save(out / f"{name}.json") if found.document is not None else None
    drawn = plot.save(plot.limit_figure(found, points), out / f"{name}.png")
    about = repr(network).removeprefix("Network(").removesuffix(")")
    say(console, f"data: {points.name}, {points.n} samples of {points.dim} features\nnetwork: {about}")
    console.print(found, highlight=False, soft_wrap=True)
    say(console, f"saved: {file}\nfigure: {drawn}")
    if proof is not None:
        say(console, f"certificate: {proof}\ncheck it: rankfall check {proof}")
    return file


NETWORK = ("--width", "--slope", "--init", "--scale", "--bias", "--no-bias", "--seed")


def _refuse_network_options(ctx: typer.Context) -> None:
    """A search that goes on has the network of its file."""
    for flag in NETWORK:
        source = ctx.get_parameter_source(flag.removeprefix("--"))
        if source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"with --continue the network is that of the file: leave out {flag}.")


def _is_finished(found: "Limit") -> bool:
    """Is there an answer, as far as this search was to go?"""
    from rankfall.limits import Verdict

    if found.verdict is Verdict.NOT_UNIQUE:  # what else is missing, is so to the branch that is shown
        return len(found.missing) == 1
    return found.verdict.finished


GRADIENTS = 30_000_000  # numbers in the gradients of all margins, up to which (epsilon, delta) takes seconds


def _with_distance(found: "Limit", points: "Data") -> "Limit":
    """An unfinished limit with the (epsilon, delta) of its late state, if that separates the data."""
    from rankfall.limits import kkt_distance
    from rankfall.loss import named

    late = found.state
    if late is None or "epsilon" in found.residuals or named(found.settings["loss"]).name == "square":
        return found
    if sum(w.size for w in late.weights) * points.n > GRADIENTS or not (points.y * late(points.x)).min() > 0:
        return found
    try:
        epsilon, delta, _ = kkt_distance(late, points)
    except (RuntimeError, KeyboardInterrupt):  # the least squares do not converge; or nobody wants to wait
        return found
    return found.with_settings(epsilon=epsilon, delta=delta)


AN_EVENT, A_NUMBER = 2e-3, 2e-9  # seconds for a pair, and for each number of its event; certificates included
SLOW = 5  # times longer, where both layers are trained
GUESSES = ((10.0, "usually seconds"), (60.0, "usually less than a minute"), (600.0, "usually minutes"))


def _effort(network: "Network", points: "Data", loss: str, seconds: float) -> str:
    """Roughly what the size of a problem means, said before the search begins."""
    from rankfall.limits import LARGE
    from rankfall.loss import named

    stops = f"The search stops after {seconds:g} s (--seconds)."
    if network.depth > 2:
        guess = "the flow is followed until it is near a KKT point, which takes minutes"
        return f"{network.depth} layers: {guess}. {stops}"
    pairs, exact = network.widths[1] * points.n, network.trained[1] or named(loss).name == "square"
    sizes = f"{network.widths[1]:,} neurons x {points.n:,} samples = {pairs:,} pairs"
    if pairs > LARGE and not exact:
        return f"{sizes}: minutes, by an approximate route. {stops}"
    seconds = (
        pairs
        * (AN_EVENT + A_NUMBER * pairs * min(points.n, points.dim))
        * (SLOW if network.trained[1] else 1)
    )
    guess = next((words for most, words in GUESSES if seconds <= most), "hours perhaps")
    return f"{sizes}, and about as many events, at which a neuron comes to a sample's kink: {guess}. {stops}"
