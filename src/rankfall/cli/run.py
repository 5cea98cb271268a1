"""`rankfall run`: one network by gradient flow or descent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankfall.cli import imports
from rankfall.cli.input import DataName, DataOption, Label, Prepare, file_name, read
from rankfall.cli.options import Init, Scale, Slope, Width, network_of
from rankfall.cli.output import NO_ANSWER, again, numbers, say

if TYPE_CHECKING:
    from rankfall.network import Network
    from rankfall.trajectory import Trajectory


Bias = Annotated[bool, typer.Option("--bias/--no-bias", help="Give the layers biases.")]
Seed = Annotated[int, typer.Option(help="The seed of the weights, and of the batches.")]
Loss = Annotated[
    str, typer.Option(help="square, logistic, exponential or cross_entropy; with .sum for the sum.")
]
Time = Annotated[float | None, typer.Option(help="Gradient flow up to this time.")]
LossBelow = Annotated[float | None, typer.Option(help="Gradient flow until the loss is below this.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Follow the flow of two layers from region to region, exactly.")
]
Clock = Annotated[str, typer.Option(help="The clock of the flow: time or loss.")]
Rtol = Annotated[
    float | None, typer.Option(help="The tolerance of the flow (default: 1e-8, or 1e-10 with --exact).")
]
Budget = Annotated[
    int | None,
    typer.Option(help="The most steps of the flow (default: 100,000, or 1,000,000 with --exact)."),
]
Steps = Annotated[int | None, typer.Option(help="Gradient descent: how many steps.")]
Epochs = Annotated[int | None, typer.Option(help="Gradient descent: how many times through the data.")]
Step = Annotated[float, typer.Option(help="Gradient descent: the step size.")]
Batch = Annotated[int | None, typer.Option(help="Gradient descent: the batch size of SGD.")]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Gradient descent: a file to go on from, should the run be ended.")
]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", "-m", help="What to record; may be repeated.")
]
Records = Annotated[
    int | None, typer.Option(help="How many records (default: 200, or one per epoch with --epochs).")
]
Log = Annotated[bool, typer.Option("--log", help="Spread the records evenly in log time.")]
Out = Annotated[Path, typer.Option(help="The folder for the trajectory and the figure.")]


def run(
    data: DataName,
    label: Label = None,
    option: DataOption = None,
    prepare: Prepare = None,
    width: Width = "100",
    slope: Slope = 0.0,
    init: Init = "gaussian",
    scale: Scale = 1e-3,
    bias: Bias = False,
    seed: Seed = 0,
    loss: Loss = "square",
    until: Time = None,
    loss_below: LossBelow = None,
    exact: Exact = False,
    clock: Clock = "time",
    rtol: Rtol = None,
    budget: Budget = None,
    steps: Steps = None,
    epochs: Epochs = None,
    step: Step = 0.01,
    batch: Batch = None,
    checkpoint: Checkpoint = None,
    measure: Measures = None,
    records: Records = None,
    log: Log = False,
    out: Out = Path("runs"),
) -> None:
    """Run one network by gradient flow (--until, --loss-below) or descent (--steps, --epochs); plot it.

    Exit code 0: it reached its end; 3: it was interrupted, spent its budget, stalled or diverged, and what
    was reached by then is saved; 2: the input is wrong.
    """
    with imports.kept():
        from rankfall import dynamics

    descends = steps is not None or epochs is not None
    flows = until is not None or loss_below is not None
    _check_kind(descends, flows, {"--batch": batch, "--checkpoint": checkpoint}, exact, clock)
    points = read(data, label, option or [], prepare or [])
    network = network_of(points, width, slope, init, scale, bias, seed, loss)
    record = (dynamics.logarithmic if log else dynamics.linear)(200 if records is None else records)
    given: dict[str, Any] = {"measures": measure}
    if descends:
        each_epoch = epochs is not None and records is None and not log
        given |= {"record": None if each_epoch else record, "checkpoint": checkpoint}
        start = network.astype(points.x.dtype)  # images are in float32, and so is their run
        trajectory = dynamics.descent(
            start, points, loss, step, steps, epochs=epochs, batch=batch, seed=seed, **given
        )
    else:
        end = dynamics.Until(time=until if until is not None else float("inf"), loss=loss_below)
        given |= {"record": record if until is not None else None, "rtol": rtol, "budget": budget}
        chosen = {key: value for key, value in given.items() if value is not None}
        follow = dynamics.exact_flow if exact else dynamics.flow
        trajectory = follow(network, points, loss, end, clock=clock, **chosen)  # type: ignore[arg-type]
    _keep(trajectory, network, out, file_name(f"{points.name}_slope{slope:g}_seed{seed}"))


def _check_kind(descends: bool, flows: bool, of_descent: dict[str, Any], exact: bool, clock: str) -> None:
    """A run is either descent or flow, with the options of its kind alone."""
    if descends == flows:
        raise ValueError(
            "say how long: --until TIME or --loss-below LOSS for gradient flow, --steps N or --epochs N for "
            "descent."
        )
    for flag, value in of_descent.items():
        if value is not None and not descends:
            raise ValueError(f"{flag} is for gradient descent: it goes with --steps or --epochs.")
    for flag, asked in (("--clock", clock != "time"), ("--exact", exact)):
        if descends and asked:
            raise ValueError(f"{flag} is for gradient flow: it goes with --until or --loss-below.")


def _keep(trajectory: "Trajectory", network: "Network", out: Path, name: str) -> None:
    """Save a run, draw it, and say what it came to."""
    from rankfall import plot

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
        print(f"go on: {again(('--checkpoint',), '--checkpoint', str(file))}")
    raise typer.Exit(NO_ANSWER)


def _summarise(trajectory: "Trajectory", network: "Network", kept: list[str]) -> None:
    """What the run started from, what it came to, and where that is kept."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    say(console, repr(network))
    table = Table("measure", "start", "end")
    for name, values in trajectory.dataset.data_vars.items():
        if values[0].size <= 10:
            table.add_row(str(name), numbers(values[0].values), numbers(values[-1].values))
    console.print(table)
    for key, value in {**trajectory.settings, **trajectory.statistics.counted}.items():
        if key != "versions":
            say(console, f"{key.replace('_', ' ')}: {value}")
    say(console, "\n".join(kept))
