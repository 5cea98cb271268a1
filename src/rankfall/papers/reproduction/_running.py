"""Run what has to be run, here or on workers, and judge each experiment as soon as it is whole."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from itertools import chain
from pathlib import Path

from rankfall.papers.lab import Outcome, Paper
from rankfall.papers.reproduction._choice import Chosen
from rankfall.papers.reproduction._folder import Kept, kept
from rankfall.papers.reproduction._task import Task, run
from rankfall.sweeps import sweep

COMPILING = 5.0  # seconds; the first seed of each experiment goes first, and compiles for the others


def reproduce(
    chosen: Sequence[Chosen],
    folder: Path,
    seeds: int | None = None,
    executor: Executor | int | None = None,
    again: bool = False,
    full: bool = False,
    show: bool = True,
) -> Iterator[Outcome]:
    """Run what has to be run, and yield each experiment as soon as its claims are judged.

    **Arguments:**

    - `chosen`: the experiments, see `choose`.
    - `folder`: where runs, figures and verdicts are kept, run by run as they finish.
    - `seeds`: how many seeds instead of the experiments' own numbers.
    - `executor`: where to run, see `sweep`.
    - `again`: run also what was run before.
    - `full`: run also what takes long, on real data; here, one after the other, with all cores for each.
    """
    places = list(kept(chosen, folder, seeds))
    folder.mkdir(parents=True, exist_ok=True)
    waiting: dict[tuple[str, str], tuple[Kept, set[int], str]] = {}
    tasks = []
    for place in places:
        awaited = place.awaits(full)
        anew = again and not awaited
        outcome = None if anew else place.outcome()
        missing = [] if outcome else list(range(place.seeds)) if anew else place.missing()
        if outcome:
            yield outcome
        elif awaited:
            yield place.left_out(f"not run: needs {awaited}")
        elif missing:
            news = "run: asked for" if anew else f"run: {place.why()}"
            waiting[place.paper.address, place.experiment.name] = (place, set(missing), news)
            tasks += [place.task(seed, anew) for seed in missing]
        else:
            yield place.judge(f"judged again: {place.why()}")
    short, long = ([task for task in tasks if bool(task.checkpoints) == is_long] for is_long in (False, True))
    costs = [
        waiting[task.of][0].experiment.cost + COMPILING * (task.seed == min(waiting[task.of][1]))
        for task in short
    ]
    failures: list[tuple[Paper, Task, str]] = []
    ran_all = chain(sweep(run, short, executor, costs, "reproduce", show), ((t, run(t)) for t in long))
    for task, ran in ran_all:
        place, left, news = waiting[task.of]
        if ran.run is None or ran.code != place.code:
            failures.append((place.paper, task, ran.error or "the code was changed meanwhile."))
            continue
        place.keep(task.seed, ran.run, ran.seconds)
        left.discard(task.seed)
        if not left:
            yield place.judge(news)
    if failures:
        raise _failed(failures, len(tasks))


def _failed(failures: Sequence[tuple[Paper, Task, str]], of: int) -> ValueError | RuntimeError:
    """What to raise for runs that failed: in a user's file it is the user's mistake, elsewhere ours."""
    paper, task, why = failures[0]
    others = "; the others are kept" if len(failures) < of else ""
    count = f"{len(failures)} of {of} runs failed{others}."
    if paper.file:
        return ValueError(f"{why} {count}")
    return RuntimeError(f"{count}\n{task.name} {task.figure}, seed {task.seed}:\n{why}")
