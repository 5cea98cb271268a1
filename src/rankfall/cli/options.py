"""The options that several commands share, and the network that they describe."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rankfall.data import Data
    from rankfall.network import Network

INITS = {  # how each initialisation calls its size
    "gaussian": "scale",
    "balanced": "scale",
    "rank_one": "scale",
    "glorot_uniform": "scale",
    "fixed_second_layer": "sigma",
    "constant_second_layer": "variance",
}

Width = Annotated[str, typer.Option(help="Hidden widths, e.g. 100 or 100,100.")]
Slope = Annotated[float, typer.Option(help="The leaky slope: 0 is ReLU, 1 is linear.")]
Init = Annotated[str, typer.Option(help=f"The initialisation: {', '.join(INITS)}.")]
Scale = Annotated[float, typer.Option(help="The size of the initial weights.")]
FirstBias = Annotated[bool, typer.Option("--bias/--no-bias", help="Give the first layer a bias.")]
Seed = Annotated[int, typer.Option(help="The seed of the weights.")]


def network_of(
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
    """The network to start from; a homogeneous one has at most a bias in its first layer."""
    from rankfall._naming import unknown
    from rankfall.loss import named
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
