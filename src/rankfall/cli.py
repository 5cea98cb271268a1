"""The command line: `rankfall run`, `rankfall reproduce`. Everything heavy is imported where it is used."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rankfall.data import Data
    from rankfall.network import Network
    from rankfall.papers import Experiment, Reproduction
    from rankfall.trajectory import Trajectory

app = typer.Typer(
    help="Where gradient flow takes a (leaky) ReLU network, how fast, and why it ends so simple.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ENDINGS = (".npz", ".npy", ".csv")
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


@app.command()
def run(
    data: Annotated[
        str, typer.Argument(help="A file (.npz, .npy, .csv) or a constructed set: symmetric_sine, xor, ...")
    ],
    label: Annotated[str | None, typer.Option(help="The label column of a .csv file.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--data-option", "-d", help="key=value for a constructed set, e.g. pairs=100."),
    ] = None,
    width: Annotated[str, typer.Option(help="Hidden widths, e.g. 100 or 100,100.")] = "100",
    slope: Annotated[float, typer.Option(help="The leaky slope: 0 is ReLU, 1 is linear.")] = 0.0,
    init: Annotated[str, typer.Option(help=f"The initialisation: {', '.join(INITS)}.")] = "gaussian",
    scale: Annotated[float, typer.Option(help="The size of the initial weights.")] = 1e-3,
    bias: Annotated[bool, typer.Option(help="Give the layers biases.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the weights, and of the batches.")] = 0,
    loss: Annotated[
        str, typer.Option(help="square, logistic, exponential or cross_entropy; with .sum for the sum.")
    ] = "square",
    until: Annotated[float | None, typer.Option(help="Gradient flow up to this time.")] = None,
    loss_below: Annotated[
        float | None, typer.Option(help="Gradient flow until the loss is below this.")
    ] = None,
    clock: Annotated[str, typer.Option(help="The clock of the flow: time or loss.")] = "time",
    rtol: Annotated[float, typer.Option(help="The tolerance of the flow.")] = 1e-8,
    budget: Annotated[int, typer.Option(help="The most steps that the flow may try.")] = 100_000,
    steps: Annotated[int | None, typer.Option(help="Gradient descent: how many steps.")] = None,
    step: Annotated[float, typer.Option(help="Gradient descent: the step size.")] = 0.01,
    batch: Annotated[int | None, typer.Option(help="Gradient descent: the batch size of SGD.")] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="What to record; may be repeated.")
    ] = None,
    records: Annotated[int, typer.Option(help="How many records.")] = 200,
    log: Annotated[bool, typer.Option("--log", help="Spread the records evenly in log time.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for the trajectory and the figure.")] = Path("runs"),
) -> None:
    """Run one network by gradient flow (--until, --loss-below) or descent (--steps); save and plot it."""
    from rankfall import dynamics, plot

    if (steps is None) == (until is None and loss_below is None):
        raise ValueError(
            "say how long: --until TIME or --loss-below LOSS for gradient flow, or --steps N for descent."
        )
    if steps is None and batch is not None:
        raise ValueError("--batch is for gradient descent: it goes with --steps.")
    if steps is not None and clock != "time":
        raise ValueError("--clock is for gradient flow: it goes with --until or --loss-below.")
    points = _data(data, label, option or [])
    network = _network(points, width, slope, init, scale, bias, seed, loss)
    record = (dynamics.logarithmic if log else dynamics.linear)(records)
    if steps is not None:
        trajectory = dynamics.descent(
            network, points, loss, step, steps, batch=batch, seed=seed, measures=measure, record=record
        )
    else:
        end = dynamics.Until(time=until if until is not None else float("inf"), loss=loss_below)
        trajectory = dynamics.flow(
            network,
            points,
            loss,
            end,
            clock=clock,  # type: ignore[arg-type]
            rtol=rtol,
            measures=measure,
            record=record if until is not None else None,
            budget=budget,
        )
    name = f"{points.name}_slope{slope:g}_seed{seed}"
    saved = trajectory.to_netcdf(out / f"{name}.nc")
    kept = [f"saved: {saved}"]
    if plot.drawable(trajectory):
        kept.append(f"figure: {plot.save(plot.run_figure(trajectory), out / f'{name}.png')}")
    _summarise(trajectory, network, kept)


def _data(data: str, label: str | None, options: list[str]) -> "Data":
    """A file, or a constructed set with its options."""
    from rankfall import data as sets
    from rankfall.data import synthetic
    from rankfall.naming import unknown

    if data.endswith(ENDINGS) or Path(data).exists():
        if options:
            raise ValueError("--data-option is for constructed sets; a file has no options.")
        return sets.load(data, label=label)
    if label is not None:
        raise ValueError("--label names a column of a .csv file; a constructed set has its own targets.")
    known = [name for name in sets.__all__ if hasattr(synthetic, name) and name not in ("Data", "symmetrise")]
    if data not in known:
        raise unknown("file or data set", data, known)
    try:
        return getattr(synthetic, data)(**dict(map(_key_value, options)))
    except TypeError as error:
        raise ValueError(f"{data} does not take these options: {error}.") from None


def _key_value(option: str) -> tuple[str, Any]:
    import ast

    key, found, value = option.partition("=")
    if not found:
        raise ValueError(f"a data option is key=value, not {option!r}.")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise ValueError(f"the value of {key!r} must be a number, True or False, not {value!r}.") from None


def _network(
    data: "Data", width: str, slope: float, init: str, scale: float, bias: bool, seed: int, loss: str
) -> "Network":
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
def reproduce(
    paper: Annotated[str | None, typer.Argument(help="zhang or sun; all papers if not said.")] = None,
    figure: Annotated[str | None, typer.Option(help="One figure of the paper.")] = None,
    full: Annotated[bool, typer.Option("--full", help="More seeds and tighter tolerances.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for the figures and claims.json.")] = Path("report"),
) -> None:
    """Re-run the papers' figures, and say claim by claim what holds."""
    from rich.console import Console

    from rankfall.papers import experiments, write_claims

    console = Console()
    results: list[tuple[Experiment, Reproduction]] = []
    chosen = list(experiments(paper, figure))
    for number, experiment in enumerate(chosen, 1):
        title = f"{experiment.paper}, Figure {experiment.figure}: {experiment.title}"
        _say(console, f"\n[{number} of {len(chosen)}] {title}")
        results.append((experiment, _one(experiment, full, out, console)))
        write_claims(results, out / "claims.json")
    verdicts = [claim.verdict for _, reproduction in results for claim in reproduction.claims]
    plural = {"holds": "hold", "fails": "fail", "outside its hypotheses": "outside their hypotheses"}
    counts = ", ".join(f"{plural[v]} {verdicts.count(v)}" for v in plural if v in verdicts)
    _say(console, f"\n{len(verdicts)} claims: {counts}. All of them are in {out / 'claims.json'}.")


def _one(experiment: "Experiment", full: bool, out: Path, console: Any) -> "Reproduction":
    """Run one experiment, save its figures, show its claims."""
    from rich.table import Table
    from rich.text import Text

    from rankfall import plot

    reproduction = experiment.run(full)
    table = Table(show_lines=True, expand=True)
    for name, share in (("claim", 5), ("expected", 3), ("measured", 3), ("verdict", 2)):
        table.add_column(name, ratio=share)
    colours = {"holds": "green", "fails": "red"}
    for claim in reproduction.claims:
        sentence = Text.assemble(claim.sentence, ("\n" + claim.note if claim.note else "", "dim"))
        verdict = Text(claim.verdict, style=colours.get(claim.verdict, "yellow"))
        table.add_row(sentence, Text(claim.expected), Text(claim.measured), verdict)
    console.print(table)
    for name, figure in reproduction.figures.items():
        _say(console, f"figure: {plot.save(figure, out / f'{name}.png')}")
    return reproduction
