"""The command line: `rankfall run`, `limit`, `check`, `assess`, `reproduce`, `data`.

Heavy imports are where they are used.
"""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

from rankfall import cli_data
from rankfall.cli_input import DataName, DataOption, Label, Prepare, file_name, read, saved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankfall.data import Data
    from rankfall.limits import Limit
    from rankfall.network import Network
    from rankfall.papers import Outcome
    from rankfall.theory import Assessment
    from rankfall.trajectory import Trajectory

NO_ANSWER = 3  # the exit code of a command that ended before it had an answer


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
app.add_typer(cli_data.app, name="data")

INITS = {  # how each initialisation calls its size
    "gaussian": "scale",
    "balanced": "scale",
    "rank_one": "scale",
    "glorot_uniform": "scale",
    "fixed_second_layer": "sigma",
    "constant_second_layer": "variance",
}


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


Width = Annotated[str, typer.Option(help="Hidden widths, e.g. 100 or 100,100.")]
Slope = Annotated[float, typer.Option(help="The leaky slope: 0 is ReLU, 1 is linear.")]
Init = Annotated[str, typer.Option(help=f"The initialisation: {', '.join(INITS)}.")]
Scale = Annotated[float, typer.Option(help="The size of the initial weights.")]


@app.command()
def run(
    data: DataName,
    label: Label = None,
    option: DataOption = None,
    prepare: Prepare = None,
    width: Width = "100",
    slope: Slope = 0.0,
    init: Init = "gaussian",
    scale: Scale = 1e-3,
    bias: Annotated[bool, typer.Option(help="Give the layers biases.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the weights, and of the batches.")] = 0,
    loss: Annotated[
        str, typer.Option(help="square, logistic, exponential or cross_entropy; with .sum for the sum.")
    ] = "square",
    until: Annotated[float | None, typer.Option(help="Gradient flow up to this time.")] = None,
    loss_below: Annotated[
        float | None, typer.Option(help="Gradient flow until the loss is below this.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Follow the flow of two layers from region to region, exactly.")
    ] = False,
    clock: Annotated[str, typer.Option(help="The clock of the flow: time or loss.")] = "time",
    rtol: Annotated[
        float | None, typer.Option(help="The tolerance of the flow; 1e-8 if not said, or 1e-10 with --exact.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="The most steps of the flow; 100,000 if not said, or 1,000,000 with --exact."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Gradient descent: how many steps.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Gradient descent: how many times through the data.")
    ] = None,
    step: Annotated[float, typer.Option(help="Gradient descent: the step size.")] = 0.01,
    batch: Annotated[int | None, typer.Option(help="Gradient descent: the batch size of SGD.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Gradient descent: a file to go on from, should the run be ended.")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="What to record; may be repeated.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="How many records; 200 if not said, or one an epoch with --epochs.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Spread the records evenly in log time.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for the trajectory and the figure.")] = Path("runs"),
) -> None:
    """Run one network by gradient flow (--until, --loss-below) or descent (--steps, --epochs); plot it.

    Exit code 0: it reached its end; 3: it was interrupted, spent its budget, stalled or diverged, and what
    was reached by then is saved; 2: the input is wrong.
    """
    from rankfall import dynamics, plot

    descends = steps is not None or epochs is not None
    if descends == (until is not None or loss_below is not None):
        raise ValueError(
            "say how long: --until TIME or --loss-below LOSS for gradient flow, --steps N or --epochs N for "
            "descent."
        )
    for flag, asked in (("--batch", batch is not None), ("--checkpoint", checkpoint is not None)):
        if asked and not descends:
            raise ValueError(f"{flag} is for gradient descent: it goes with --steps or --epochs.")
    for flag, asked in (("--clock", clock != "time"), ("--exact", exact)):
        if descends and asked:
            raise ValueError(f"{flag} is for gradient flow: it goes with --until or --loss-below.")
    points = read(data, label, option or [], prepare or [])
    network = _network(points, width, slope, init, scale, bias, seed, loss)
    spread = dynamics.logarithmic if log else dynamics.linear
    record = (
        None
        if epochs is not None and records is None and not log
        else spread(200 if records is None else records)
    )
    if descends:
        trajectory = dynamics.descent(
            network.astype(points.x.dtype),  # images are in float32, and so is their run
            points,
            loss,
            step,
            steps,
            epochs=epochs,
            batch=batch,
            seed=seed,
            measures=measure,
            record=record,
            checkpoint=checkpoint,
        )
    else:
        end = dynamics.Until(time=until if until is not None else float("inf"), loss=loss_below)
        given: dict[str, Any] = {"rtol": rtol, "budget": budget}
        trajectory = (dynamics.exact_flow if exact else dynamics.flow)(
            network,
            points,
            loss,
            end,
            clock=clock,  # type: ignore[arg-type]
            measures=measure,
            record=record if until is not None else None,
            **{key: value for key, value in given.items() if value is not None},
        )
    name = file_name(f"{points.name}_slope{slope:g}_seed{seed}")
    file = trajectory.to_netcdf(out / f"{name}.nc")
    kept = [f"saved: {file}"]
    if plot.drawable(trajectory):
        kept.append(f"figure: {plot.save(plot.run_figure(trajectory), out / f'{name}.png')}")
    _summarise(trajectory, network, kept)
    _end_run(trajectory, file)


def _end_run(trajectory: "Trajectory", file: Path) -> None:
    """Say so, with its exit code, if a run did not reach its end, and how to go on."""
    from rankfall.outcome import Outcome

    if trajectory.outcome.finished:
        return
    print(f"The run did not reach its end: {trajectory.outcome}.")
    if trajectory.outcome is Outcome.INTERRUPTED and trajectory.state is not None:
        print(f"go on: {_again(('--checkpoint',), '--checkpoint', str(file))}")
    raise typer.Exit(NO_ANSWER)


FLAGS = ("--bias", "--no-bias")  # options without a value


def _again(without: tuple[str, ...], *more: str) -> str:
    """This command once more, without some of its options and with others."""
    kept, words = ["rankfall"], iter(sys.argv[1:])
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in without:
            kept.append(word)
        elif not equals and name not in FLAGS:
            next(words, None)  # its value
    return shlex.join([*kept, *more])


def _network(
    data: "Data",
    width: str,
    slope: float,
    init: str,
    scale: float,
    bias: bool,
    seed: int,
    loss: str,
    homogeneous: bool = False,
) -> "Network":
    """The network to start from; a homogeneous one has a bias in its first layer at the most."""
    from rankfall.loss import named
    from rankfall.naming import unknown
    from rankfall.network import Network

    if init not in INITS:
        raise unknown("initialisation", init, INITS)
    try:
        hidden = [int(part) for part in width.split(",")]
    except ValueError:
        raise ValueError(f"--width takes whole numbers like 100 or 100,100, not {width!r}.") from None
    classes = named(loss).targets == "classes"
    outputs = max(int(data.y.max()) + 1, 2) if classes else data.y.reshape(data.n, -1).shape[1]
    sizes: dict[str, Any] = {INITS[init]: scale} | ({"bias": True} if bias else {})
    if homogeneous and init in ("gaussian", "glorot_uniform", "constant_second_layer"):
        sizes["bias"] = [bias, *(False for _ in hidden)]
    if bias and init in ("balanced", "rank_one"):
        raise ValueError(f"the initialisation {init} is for networks without biases.")
    made: Network = getattr(Network, init)((data.dim, *hidden, outputs), slope=slope, seed=seed, **sizes)
    return made


def _summarise(trajectory: "Trajectory", network: "Network", kept: list[str]) -> None:
    """What the run started from, what it came to, and where that is kept."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    _say(console, repr(network))
    table = Table("measure", "start", "end")
    for name, values in trajectory.dataset.data_vars.items():
        if values[0].size <= 10:
            table.add_row(str(name), _numbers(values[0].values), _numbers(values[-1].values))
    console.print(table)
    shown = {key: value for key, value in trajectory.settings.items() if key != "versions"}
    for key, value in shown.items():
        _say(console, f"{key.replace('_', ' ')}: {value}")
    _say(console, "\n".join(kept))


def _say(console: Any, text: str) -> None:
    """Print as it is: no markup, no colours, no line breaks but the text's own."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _numbers(values: Any) -> str:
    import numpy as np

    return ", ".join(f"{value:.6g}" for value in np.ravel(values))


@app.command()
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
    bias: Annotated[bool, typer.Option(help="Give the first layer a bias.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the weights.")] = 0,
    loss: Annotated[
        str | None,
        typer.Option(help="exponential (default), logistic or square; with --continue that of the file."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="The largest residual of a certificate.")] = 1e-10,
    budget: Annotated[int, typer.Option(help="The most steps of the search.")] = 100_000,
    seconds: Annotated[float, typer.Option(help="The most seconds of the search.")] = 60.0,
    go_on: Annotated[
        Path | None,
        typer.Option("--continue", help="Go on from a limit or a run (.nc) that was saved."),
    ] = None,
    optimality: Annotated[
        bool, typer.Option("--optimality/--no-optimality", help="Find out if the limit is globally optimal.")
    ] = True,
    out: Annotated[Path, typer.Option(help="The folder for the limit and its picture.")] = Path("limits"),
) -> None:
    """Where does the gradient flow end? The limit with its certificate; saved, and drawn.

    Exit code 0: there is an answer; 3: no answer yet, go on with --continue; 2: the input is wrong.
    """
    from rich.console import Console

    from rankfall import limits, plot
    from rankfall.loss import named

    before = None if go_on is None else saved(go_on)
    loss = loss or ("exponential" if before is None else before.settings["loss"])
    if named(loss).targets == "classes":
        raise ValueError(f"a limit is for one output: --loss exponential, logistic or square, not {loss}.")
    points = read(data, label, option or [], prepare or [])
    if before is None or go_on is None:
        network = _network(points, width, slope, init, scale, bias, seed, loss, homogeneous=True)
        name = file_name(f"{points.name}_slope{slope:g}_seed{seed}")
    else:
        _refuse_network_options(ctx)
        network, name = before.network, go_on.stem
    start = network if before is None else before
    limits.checked(start, points, loss, tolerance, budget, seconds)
    console = Console()
    _say(console, _effort(network, points, loss, seconds))
    began = time.monotonic()
    found = limits.limit(
        start, points, loss, tol=tolerance, budget=budget, seconds=seconds, optimality=optimality
    )
    taken = time.monotonic() - began
    about = repr(network).removeprefix("Network(").removesuffix(")")
    _say(console, f"data: {points.name}, {points.n} samples of {points.dim} features\nnetwork: {about}")
    _tell_verdict(console, found)
    finished = _is_finished(found)
    found = found if finished else _with_distance(found, points)
    file = found.to_netcdf(out / f"{name}.nc")
    proof = found.certificate().save(out / f"{name}.json") if found.document is not None else None
    drawn = plot.save(plot.limit_figure(found, points), out / f"{name}.png")
    _tell_residuals(console, found)
    _tell_facts(console, found)
    _tell_search(console, found, taken)
    _say(console, f"saved: {file}\nfigure: {drawn}")
    if proof is not None:
        _say(console, f"certificate: {proof}\ncheck it: rankfall check {proof}")
    if not finished:
        longer = 10 * seconds if taken >= seconds else seconds
        larger = 10 * budget if found.settings["steps"] >= budget else budget
        more = ("--continue", str(file), "--seconds", f"{longer:g}", "--budget", str(larger))
        _say(console, f"go on: {_again((*NETWORK, '--continue', '--seconds', '--budget'), *more)}")
        raise typer.Exit(NO_ANSWER)


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


def _effort(network: "Network", points: "Data", loss: str, seconds: float) -> str:
    """Roughly what the size of a problem means, said before the search begins."""
    from rankfall.limits.fixed import LARGE
    from rankfall.loss import named

    stops = f"The search stops after {seconds:g} s (--seconds)."
    if network.depth > 2:
        guess = "the flow is followed until it is near a KKT point, which takes minutes"
        return f"{network.depth} layers: {guess}. {stops}"
    pairs = network.widths[1] * points.n
    if pairs <= 2_000:
        guess = "usually seconds"
    elif pairs <= LARGE:
        guess = "usually a minute or more"
    elif network.trained[1] or named(loss).name == "square":
        guess = "hours perhaps"
    else:
        guess = "minutes, by an approximate route"
    if points.n > points.dim and pairs <= LARGE:
        guess += ", longer because there are more samples than features"
    sizes = f"{network.widths[1]:,} neurons x {points.n:,} samples = {pairs:,} pairs"
    return f"{sizes}, each with a kink that may be met: {guess}. {stops}"


COLOURS = {  # of the verdicts
    "certified": "green",
    "followed": "green",
    "not unique": "magenta",
    "not separated": "red",
}
CONDITIONS = {  # what each residual is the residual of
    "stationarity": "the weights are the sum of the samples' gradients, times their multipliers",
    "feasibility": "every margin is at least 1",
    "complementarity": "only samples of margin 1 have a multiplier",
    "slopes": "every slope lies between the leaky slope and 1",
    "signs": "off the kinks every slope is that of its side",
    "multipliers": "no multiplier is negative",
    "gradient": "the loss is stationary",
    "misfit": "the outputs are the targets",
    "epsilon": "the weights are the sum of the samples' gradients, times their multipliers",
    "delta": "only samples of margin 1 have a multiplier",
}


def _tell_verdict(console: Any, limit: "Limit") -> None:
    """The verdict in its colour, what is missing, and what it means."""
    from rich.text import Text

    reason = f": {'; '.join(limit.missing)}." if limit.missing else "."
    colour = COLOURS.get(limit.verdict, "yellow")
    console.print(Text.assemble((str(limit.verdict), f"bold {colour}"), reason), soft_wrap=True)
    _say(console, limit.verdict.meaning)
    if limit.document is not None:
        _say(console, "\n".join(str(limit.certificate()).splitlines()[1:]))
    for number, branch in enumerate(limit.branches, start=2):
        _say(
            console,
            f"branch {number}: {branch.verdict}; norm {branch.norm:.6g}, "
            f"stable rank {branch.stable_rank:.6g}, cosine {branch.cosine:.6g} to the one shown",
        )


def _tell_residuals(console: Any, limit: "Limit") -> None:
    """Each residual beside the tolerance, and the condition that it belongs to."""
    from rich.table import Table
    from rich.text import Text

    tolerance = limit.settings.get("tolerance", float("nan"))
    table = Table("residual", "value", "tolerance", "of the condition that")
    for name, value in limit.residuals.items():
        judged = name != "misfit" and tolerance > 0  # a least-squares fit is an end too
        colour = "" if not judged else "green" if value <= tolerance else "red"
        shown = Text(f"{value:.1e}" if value else "0", style=colour)
        table.add_row(name, shown, f"{tolerance:g}" if judged else "", CONDITIONS.get(name, ""))
    if limit.residuals:
        console.print(table)


def _tell_facts(console: Any, limit: "Limit") -> None:
    """What the limit is like."""
    _print_table(console, "the limit", dict([*_weights(limit), *_margin_facts(limit), *_judgements(limit)]))


def _weights(limit: "Limit") -> "Iterator[tuple[str, str]]":
    """The ranks of the first layer, whole and by the sign of the output weights."""
    ranks = (
        ("stable rank", limit.stable_rank, limit.block_stable_ranks),
        ("rank", limit.rank, limit.block_ranks),
    )
    for name, whole, blocks in ranks:
        each = ", ".join(f"{sign} block {value:.6g}" for sign, value in blocks.items())
        yield name, f"{whole:.6g}" + (f"   ({each})" if limit.network.depth == 2 else "")


def _margin_facts(limit: "Limit") -> "Iterator[tuple[str, str]]":
    """Support vectors and margins, or the outputs."""
    if limit.multipliers.any():
        listed = ", ".join(map(str, limit.support[:20])) + (", ..." if len(limit.support) > 20 else "")
        yield "support vectors", f"{len(limit.support)} of {len(limit.multipliers)} samples: {listed}"
    yield (
        "outputs" if limit.loss.name == "square" else "margins",
        f"{limit.margins.min():.6g} to {limit.margins.max():.6g}",
    )
    if limit.multipliers.any() and limit.network.homogeneity:
        yield "normalised margin", f"{limit.normalised_margin:.6g}"
    if limit.region is not None and limit.multipliers.any():
        yield "kinks", f"{len(limit.kinks)} of {limit.region.size:,} pairs of neuron and sample"


def _judgements(limit: "Limit") -> "Iterator[tuple[str, str]]":
    """Is it globally optimal, is its boundary linear, and how does it compare with the linear SVM?"""
    if limit.optimality is not None:
        yield "global optimum", f"{limit.optimality.verdict}. {limit.optimality.reason}"
    if limit.comparison is None:
        return
    compared = limit.comparison
    yield "decision boundary", f"{compared.boundary}: {compared.reason}."
    if compared.svm is None:
        yield "linear SVM", "none: the data are not linearly separable."
        return
    own = f"{compared.margin:.6g}, at an angle of {compared.angle:.3g} degrees"
    part = own if compared.margin == compared.margin else "none: it vanishes"  # NaN is not itself
    yield "linear SVM", f"margin {compared.svm_margin:.6g}; the network's linear part: {part}."


def _tell_search(console: Any, limit: "Limit", seconds: float) -> None:
    """How the limit was found, and what that cost."""
    names = {
        "way": "found by",
        "log_time": "log t reached",
        "s": "loss clock reached",
        "distance": "distance of the last state",
        "stays": "the flow stays there",
        "error_over_room": "error / room",
        "epsilon": "epsilon of the last state",
        "delta": "delta of the last state",
    }
    rows = {}
    for key, value in limit.settings.items():
        name = names.get(key, key.replace("_", " "))
        if isinstance(value, int):
            rows[name] = f"{value:,}"
        elif isinstance(value, float) and abs(value) < float("inf") and key != "tolerance":
            rows[name] = f"{value:.4g}"
        elif isinstance(value, str) and key != "data":
            rows[name] = value
    _print_table(console, "the search", rows | {"time": f"{seconds:.1f} s"})


def _print_table(console: Any, title: str, rows: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title, "")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    console.print(table)


@app.command()
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
    from rankfall.certificates.check import main as stand_alone

    told = [str(certificate)]
    told += ["--data", str(data)] if data is not None else []
    told += ["--label", label] if label is not None else []
    raise typer.Exit(stand_alone(told))


@app.command()
def assess(
    data: DataName,
    label: Label = None,
    option: DataOption = None,
    prepare: Prepare = None,
    width: Width = "100",
    slope: Slope = 0.0,
    init: Init = "gaussian",
    scale: Scale = 1e-4,
    bias: Annotated[bool, typer.Option(help="Give the first layer a bias.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the weights.")] = 0,
    loss: Annotated[str, typer.Option(help="logistic, exponential, square or cross_entropy.")] = "logistic",
    step: Annotated[
        float | None, typer.Option(help="The step size of gradient descent; gradient flow if not said.")
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

    from rankfall import theory

    points = read(data, label, option or [], prepare or [])
    network = _network(points, width, slope, init, scale, bias, seed, loss, homogeneous=True)
    theory.checked(network, points, loss, step=step, penalty=penalty, seconds=seconds)
    console = Console()
    _say(console, _examination(points, seconds))
    answer = theory.assess(network, points, loss, step=step, penalty=penalty, seconds=seconds)
    if answer.speaking or everything:
        listed = answer.assessed if everything else answer.speaking
        console.print(theory.Assessment(answer.situation, listed))
    if answer.silent:
        silent = f"{len(answer.silent)} of {len(answer)} results do not apply"
        _say(console, silent + ("." if everything else ": --all lists them, with the reasons."))
    if answer.stopped is not None:
        _end_assessment(console, answer, seconds)
    console.print(answer.advice, style="bold", highlight=False, markup=False, soft_wrap=True)


def _examination(points: "Data", seconds: float) -> str:
    """Roughly what the size of the data means, said before the results are examined."""
    smaller = min(points.n, points.dim)  # the margin problems have so many unknowns that matter
    guess = "seconds" if smaller <= 1_000 else "a minute or so" if smaller <= 2_000 else "many minutes"
    if points.n > 20_000:
        guess = f"{8e-9 * points.n**2:.0f} GB for each matrix of inner products, and many minutes"
    sizes = f"{points.n:,} samples x {points.dim:,} features"
    return f"{sizes}: {guess}. It stops after {seconds:g} s (--seconds)."


def _end_assessment(console: Any, answer: "Assessment", seconds: float) -> NoReturn:
    """What was not examined, what is known so far, and how to go on."""
    from rankfall.theory import Stopped

    names = ", ".join(a.name for a in answer.unexamined) or "nothing but the advice"
    _say(
        console,
        f"{len(answer.unexamined)} of {len(answer)} results were not examined ({answer.stopped}): {names}.",
    )
    if any(a.advice for a in answer.speaking):
        _say(console, f"So far: {answer.advice}")
    longer = 10 * seconds if answer.stopped is Stopped.TIME else seconds
    _say(console, f"go on: {_again(('--seconds',), '--seconds', f'{longer:g}')}")
    raise typer.Exit(NO_ANSWER)


@app.command()
def reproduce(
    paper: Annotated[str | None, typer.Argument(help="zhang, frei, le, sun, ...; all if not said.")] = None,
    figure: Annotated[str | None, typer.Option(help="One figure of the paper; --list names them.")] = None,
    claim: Annotated[
        str | None, typer.Option(help="One claim, such as frei/rank-two; --list has all of them.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change the setting of one figure: --set n=20 --set slope=0.3."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="So many seeds where something is drawn.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="So many processes; one for each core if not said.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run also what was run before.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Run also what takes long, on real data (rankfall data get).")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the figures and claims; run nothing.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for the page, and for what is kept.")] = Path(
        "report"
    ),
) -> None:
    """Re-run the papers claim by claim, and write a page of what holds.

    Exit code 0: every verdict is the one on record; 1: one is not, or a run failed; 2: the input is wrong; 3:
    interrupted, and everything that was finished is kept.
    """
    from rich.console import Console

    from rankfall.papers.lab import Row, differs
    from rankfall.papers.reproduction import choose, kept
    from rankfall.papers.reproduction import reproduce as run
    from rankfall.report.files import write
    from rankfall.report.terminal import listing, outcome_table, summary

    console = Console()
    chosen = choose(paper, figure, claim, changes or ())
    wanted = None if claim is None else f"{chosen[0][0].name}/{claim.rpartition('/')[2]}"
    if listed:
        console.print(listing(list(kept(chosen, out, seeds)), claim))
        return
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be 1 or more, not {workers}.")
    start = time.monotonic()
    outcomes: list[Outcome] = []
    rows: list[Row] = []
    try:
        for outcome in run(chosen, out, seeds, workers, again, full):
            outcomes.append(outcome)
            rows += (asked := [row for row in outcome.rows if wanted in (None, row.id)])
            name = f"{outcome.paper.name} {outcome.experiment.name}: {outcome.experiment.title}"
            _say(console, f"\n[{len(outcomes)} of {len(chosen)}] {name} ({outcome.news})")
            if outcome.experiment.differs:
                _say(console, f"The setting is not the paper's: {outcome.experiment.differs}.")
            console.print(outcome_table(asked))
    except KeyboardInterrupt:
        done = f"{len(outcomes)} of {len(chosen)} experiments are finished"
        _say(console, f"\nStopped: {done}, and all runs that ended are kept in {out}. Run it again to go on.")
        raise typer.Exit(NO_ANSWER) from None
    except RuntimeError as error:
        print(f"rankfall: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        if outcomes:
            page = write(outcomes, out, time.monotonic() - start)
    _say(console, "")
    console.print(summary(rows))
    _say(console, f"The page is {page}; the claims are also in claims.json and claims.md beside it.")
    if any(map(differs, rows)):
        raise typer.Exit(1)
