"""Run the experiments again, keep every run, and run only what is new or has changed.

A folder holds, for each experiment, a netCDF file for every seed that was run, the verdicts, and the figure.
Runs are kept by a digest of the code that they rest on and of the versions of the libraries; verdicts
and figures also by that of the claims. So a changed tolerance is judged anew without running anything, and a
changed formula runs what rests on it, and nothing else.
"""

import hashlib
import json
import platform
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

from rankfall import plot
from rankfall.atomic import atomically
from rankfall.definitions import definition_of, digests, variable_of
from rankfall.naming import unknown
from rankfall.papers import PAPERS, paper
from rankfall.papers.experiment import Experiment, Paper
from rankfall.papers.outcome import Outcome, first_number, judged_rows
from rankfall.sweeps import sweep
from rankfall.trajectory import opened

LIBRARIES = ("jax", "jaxlib", "diffrax", "equinox", "optax", "numpy", "scipy", "xarray", "matplotlib")
MARK = "rankfall_experiment"
COMPILING = 5.0  # seconds; the first seed of each experiment goes first, and compiles for the others


def choose(
    name: str | None = None, figure: str | None = None, claim: int | None = None
) -> list[tuple[Paper, Experiment]]:
    """The experiments of one paper or of all; of one figure, or the one that tests a claim."""
    if name is None and (figure is not None or claim is not None):
        raise ValueError(
            "a figure or a claim belongs to a paper: say which, as in `rankfall reproduce frei`."
        )
    chosen = [(p, e) for p in map(paper, PAPERS if name is None else [name]) for e in p.experiments]
    if figure is not None:
        names = [e.name for _, e in chosen]
        if figure not in names:
            raise unknown(f"figure of {name}", figure, names)
        chosen = [(p, e) for p, e in chosen if e.name == figure]
    if claim is not None:
        total = sum(len(e.claims) for _, e in chosen)
        chosen = [(p, e) for p, e in chosen if 0 <= claim - first_number(p, e) < len(e.claims)]
        if not chosen:
            raise ValueError(f"{name} has the claims 1 to {total}, and no claim {claim} here.")
    return chosen


@cache
def environment() -> dict[str, str]:
    """What the numbers depend on besides the code: versions, and the kind of machine."""
    return {
        "rankfall": version("rankfall"),
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "machine": f"{platform.system()} {platform.machine()}",
    }


@dataclass(frozen=True)
class Kept:
    """The place of an experiment in a folder: its runs, its verdicts, and whether they are still true."""

    folder: Path
    paper: Paper
    experiment: Experiment
    seeds: int

    @property
    def place(self) -> Path:
        """The folder of its runs."""
        return self.folder / "runs" / f"{self.paper.name}-{self.experiment.name}"

    @cached_property
    def runs_rest_on(self) -> dict[str, str]:
        """What the runs depend on, with digests."""
        run = self.experiment.run
        return environment() | ({} if run is None else digests(definition_of(run)))

    @cached_property
    def verdicts_rest_on(self) -> dict[str, str]:
        """What the verdicts and the figure depend on, with digests."""
        own = [variable_of(self.experiment, self.experiment.run.__module__)] if self.experiment.run else []
        judging = [definition_of(thing) for thing in (judged_rows, plot.svg)]
        if not own:  # nothing runs: the sentences themselves
            return environment() | {"claims": _digest(repr(self.experiment.claims))}
        return self.runs_rest_on | digests(*own, *judging) | {"seeds": str(self.seeds)}

    def outcome(self) -> Outcome | None:
        """What was found before, if nothing that it rests on has changed since."""
        told = _read(self.place / "outcome.json")
        drawn = self.place / "figure.svg"
        if told.get("rests_on") != self.verdicts_rest_on or not (drawn.is_file() or not self.experiment.draw):
            return None
        figure = drawn.read_text(encoding="utf-8") if self.experiment.draw else ""
        rows = tuple(told["rows"])
        return Outcome(
            self.paper, self.experiment, self.seeds, rows, figure, told["seconds"], "from the cache"
        )

    def missing(self) -> list[int]:
        """The seeds that have not been run, or not with this code."""
        if self.experiment.run is None:
            return []
        return [seed for seed in range(self.seeds) if self._open(seed) is None]

    def why(self) -> str:
        """Why something has to be done: new, or what has changed."""
        before, now = _read(self.place / "outcome.json").get("rests_on", {}), self.verdicts_rest_on
        if not before:
            begun = self.place.is_dir() and any(self.place.glob("*.nc"))
            return "begun before, now finished" if begun else "new"
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        names = [_told(key, before.get(key), now.get(key)) for key in changed]
        if not names:
            return "a file was missing or damaged"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{', '.join(names[:3])}{more} changed"

    def keep(self, seed: int, run: xr.Dataset, seconds: float) -> None:
        """Write the run of a seed."""
        code = _digest(json.dumps(self.runs_rest_on))
        marked = run.assign_attrs({MARK: self.place.name, "rests_on": code, "seconds": seconds})
        with atomically(self.place / f"{seed}.nc") as draft:
            marked.to_netcdf(draft, engine="h5netcdf")

    def _open(self, seed: int) -> xr.Dataset | None:
        """The run of a seed, if it is whole and of this code."""
        try:
            with opened(self.place / f"{seed}.nc", MARK, "a run of an experiment") as groups:
                run = groups["/"]
        except ValueError:
            return None
        same = run.attrs.get("rests_on") == _digest(json.dumps(self.runs_rest_on))
        return run if same else None

    def judge(self, news: str) -> Outcome:
        """Judge the claims on the runs that are kept, draw the figure, and write both."""
        runs, seconds = None, 0.0
        if self.experiment.run is not None:
            kept = [run for seed in range(self.seeds) if (run := self._open(seed)) is not None]
            seconds = float(sum(run.attrs["seconds"] for run in kept))
            runs = xr.concat([run.drop_attrs() for run in kept], dim="seed")
        rows = judged_rows(self.paper, self.experiment, runs)
        figure = ""
        if self.experiment.draw is not None and runs is not None:
            figure = plot.svg(self.experiment.draw(runs))
            with atomically(self.place / "figure.svg") as draft:
                draft.write_text(figure, encoding="utf-8")
        told = {"rests_on": self.verdicts_rest_on, "rows": rows, "seconds": seconds}
        with atomically(self.place / "outcome.json") as draft:
            draft.write_text(json.dumps(told), encoding="utf-8")
        return Outcome(self.paper, self.experiment, self.seeds, rows, figure, seconds, news)


def _told(key: str, before: str | None, now: str | None) -> str:
    """A change in words: a version with its numbers, a definition by its name."""
    if key in environment() or key == "seeds":
        return f"{key} ({before} to {now})"
    return key.removeprefix("rankfall.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    """A JSON file; nothing if it is not there, or not whole."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def kept(
    chosen: Iterable[tuple[Paper, Experiment]], folder: Path, seeds: int | None = None
) -> Iterator[Kept]:
    """The places of experiments in a folder; `seeds` is for those that draw at random."""
    for p, e in chosen:
        yield Kept(folder, p, e, seeds if seeds is not None and e.seeds > 1 else e.seeds)


def reproduce(
    chosen: Sequence[tuple[Paper, Experiment]],
    folder: Path,
    seeds: int | None = None,
    executor: Executor | None = None,
    show: bool = True,
) -> Iterator[Outcome]:
    """Run what has to be run, and yield each experiment as soon as its claims are judged.

    **Arguments:**

    - `chosen`: the experiments, see `choose`.
    - `folder`: where runs, figures and verdicts are kept, run by run as they finish.
    - `seeds`: how many seeds instead of the experiments' own numbers.
    - `executor`: where to run, see `sweep`.
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"--seeds must be 1 or more, not {seeds}.")
    waiting: dict[tuple[str, str], tuple[Kept, set[int], str]] = {}
    for place in kept(chosen, folder, seeds):
        outcome = place.outcome()
        missing = [] if outcome else place.missing()
        if outcome:
            yield outcome
        elif missing:
            waiting[place.paper.name, place.experiment.name] = (place, set(missing), f"run: {place.why()}")
        else:
            yield place.judge(f"judged again: {place.why()}" if place.experiment.run else "nothing to run")
    tasks = [(*key, seed) for key, (_, missing, _) in waiting.items() for seed in sorted(missing)]
    costs = [
        waiting[name, figure][0].experiment.cost + COMPILING * (seed == min(waiting[name, figure][1]))
        for name, figure, seed in tasks
    ]
    failures = []
    for (name, figure, seed), (run, seconds, error) in sweep(_run, tasks, executor, costs, "reproduce", show):
        place, left, news = waiting[name, figure]
        if run is None:
            failures.append(f"{name} {figure}, seed {seed}:\n{error}")
            continue
        place.keep(seed, run, seconds)
        left.discard(seed)
        if not left:
            yield place.judge(news)
    if failures:
        raise RuntimeError(
            f"{len(failures)} of {len(tasks)} runs failed; the others are kept.\n" + failures[0]
        )


def _run(task: tuple[str, str, int]) -> tuple[xr.Dataset | None, float, str]:
    """One seed of one experiment, its seconds, and the error if there was one."""
    name, figure, seed = task
    run = next(e.run for e in paper(name).experiments if e.name == figure)
    assert run is not None
    start = time.perf_counter()
    try:
        return run(seed), time.perf_counter() - start, ""
    except Exception:
        return None, 0.0, traceback.format_exc()
