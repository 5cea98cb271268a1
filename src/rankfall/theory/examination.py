"""assess: ask all results about a network, data and a loss, within a given time."""

import time
from collections.abc import Iterable, Mapping

import numpy as np

from rankfall._progress import progress
from rankfall.data import Data
from rankfall.dynamics import check_fit
from rankfall.loss import Loss, named
from rankfall.network import Network
from rankfall.theory.core.assessment import Assessed, Assessment, Stopped, assessed
from rankfall.theory.core.result import Result
from rankfall.theory.core.situation import Situation
from rankfall.theory.core.watch import watched
from rankfall.theory.results import RESULTS


def assess(
    network: Network,
    data: Data,
    loss: Loss | str = "logistic",
    *,
    step: float | None = None,
    penalty: float = 0.0,
    results: Iterable[Result] | None = None,
    seconds: float = np.inf,
    show: bool = True,
) -> Assessment:
    """Which results speak about training `network` on `data`, and what do they predict?

    **Arguments:**

    - `network`: where training starts; `data`, `loss`: what is fitted, and how.
    - `step`: the step size of gradient descent; None for gradient flow.
    - `penalty`: the coefficient $\\lambda$ of an L2 penalty $\\frac\\lambda2|\\theta|^2$ in the loss.
    - `results`: those to ask, your own among them; all of `theory.RESULTS` by default.
    - `seconds`: how long it may take. Outside of the main thread, and on Windows, a result that was begun in
        time is finished.
    - `show`: show progress after two seconds.

    **Returns:** an `Assessment`: print it, `.verify` a run or a limit with it. When the time is spent, or
    after Ctrl-C, the remaining results have the status "not examined", and `.missing` says how to go on.
    """
    situation = checked(network, data, loss, step=step, penalty=penalty, seconds=seconds)
    return examine(RESULTS if results is None else _by_name(results), situation, seconds, show)


def checked(
    network: Network,
    data: Data,
    loss: Loss | str = "logistic",
    *,
    step: float | None = None,
    penalty: float = 0.0,
    seconds: float = np.inf,
) -> Situation:
    """The situation that `assess` examines; a ValueError where it cannot."""
    loss = named(loss)
    check_fit(network, data, loss)
    if not 0 <= penalty < np.inf:
        raise ValueError(f"the penalty must be finite and not negative, but is {penalty}.")
    if step is not None and not 0 < step < np.inf:
        raise ValueError(f"the step size must be positive and finite, not {step}.")
    if not seconds > 0:
        raise ValueError(f"the seconds must be positive, not {seconds}.")
    return Situation(network.astype(np.float64), data, loss, step, penalty)


def _by_name(results: Iterable[Result]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for result in results:
        if result.name in found:
            raise ValueError(f"two results have the name {result.name!r}: give one of them another.")
        found[result.name] = result
    return found


def examine(results: Mapping[str, Result], situation: Situation, seconds: float, show: bool) -> Assessment:
    """Examine one result after the other, until the time is spent or somebody presses Ctrl-C."""
    deadline = time.monotonic() + seconds
    tasks = [*results, "advice"]
    known: list[Assessed] = []
    stopped = None
    with progress("assess", show) as shown:

        def look() -> None:
            if time.monotonic() >= deadline:
                raise KeyboardInterrupt  # the time is up: no different from a person who has had enough
            shown.update(len(known) / len(tasks), tasks[len(known)])

        try:
            with watched(look):
                for result in results.values():
                    look()
                    here = assessed(result, situation)
                    _ = here.predictions, here.advice  # computed now, while time and Ctrl-C are heeded
                    known.append(here)
                _ = Assessment(situation, known).advice
        except KeyboardInterrupt:
            stopped = Stopped.TIME if time.monotonic() >= deadline else Stopped.INTERRUPTED
    left = list(results.values())[len(known) :]
    return Assessment(situation, [*known, *(Assessed(r, situation, (), stopped) for r in left)], stopped)
