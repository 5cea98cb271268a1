"""The place of an experiment in a folder: what was run and found before, and whether it is still true."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr

from rankfall import plot
from rankfall._atomic import atomically
from rankfall.data import available
from rankfall.papers.lab import (
    CERTIFICATES,
    Experiment,
    Outcome,
    Paper,
    Row,
    certificates_of,
    code_of_all,
    digest,
    in_words,
    judged_rows,
    module_of,
    values,
)
from rankfall.papers.reproduction._choice import Chosen
from rankfall.papers.reproduction._provenance import code_below, code_of, environment
from rankfall.papers.reproduction._task import Task
from rankfall.trajectory import opened

MARK = "rankfall_experiment"
AGAIN = "-again"  # the checkpoints of a run that is made once more, until it is kept


@dataclass(frozen=True)
class Kept:
    """The place of an experiment in a folder: its runs, its verdicts, and whether they are still true."""

    folder: Path
    paper: Paper
    experiment: Experiment[Any]
    seeds: int

    @property
    def place(self) -> Path:
        """The folder of its runs; a setting that is not the paper's has one of its own."""
        name = f"{self.paper.name}-{self.experiment.name}"
        if self.experiment.differs:
            name += f"@{digest(json.dumps(values(self.experiment.setting)))[:8]}"
        return self.folder / "runs" / name

    @cached_property
    def code(self) -> str:
        """The digest of all that the runs rest on."""
        return code_of(self.experiment)

    @cached_property
    def rests_on(self) -> dict[str, str]:
        """What the verdicts and the figure depend on, with digests."""
        setting = {f"setting {name}": value for name, value in values(self.experiment.setting).items()}
        judging = {"seeds": str(self.seeds)} | setting | code_of_all(__name__)
        file = self.paper.file  # which may take its simulation from another one
        users = code_of_all(str(Path(file).resolve())) if file else {}
        return environment() | judging | users | code_of_all(module_of(self.experiment.simulation))

    def outcome(self, stale: bool = False) -> Outcome | None:
        """What was found before, if it is whole and nothing that it rests on has changed since.

        With `stale` also if something has: then it is not `current`.
        """
        told = _read(self.place / "outcome.json")
        current = told.get("rests_on") == self.rests_on
        if not told or not (current or stale):
            return None
        try:
            figure = (self.place / "figure.svg").read_text(encoding="utf-8")
            proofs = (self.place / "certificates.json").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        if (digest(figure), digest(proofs)) != (told["figure"], told["certificates"]):
            return None
        ids = [f"{self.paper.name}/{claim.id}" for claim in self.experiment.claims]
        if [row.get("id") for row in told["rows"]] != ids:
            return None
        return Outcome(
            self.paper,
            self.experiment,
            told["seeds"],
            tuple(map(Row.of_json, told["rows"])),
            figure,
            told["seconds"],
            "from the cache" if current else "kept from before: the code has changed since",
            json.loads(proofs),
            current,
        )

    def awaits(self, full: bool) -> str:
        """What is missing before it can run: the data, or the wish for a full run; nothing if empty."""
        needs = self.experiment.needs
        if not needs:
            return ""
        if not available(needs):
            return f"{needs}: see `rankfall data list`"
        return "" if full else f"--full: it runs on {needs}, for about {_time(self.cost)}"

    @property
    def cost(self) -> float:
        """Roughly the seconds that its seeds take."""
        return self.seeds * self.experiment.cost

    @property
    def checkpoints(self) -> Path:
        """The folder for what long runs write on their way, apart for each version of the code below."""
        return self.place / "checkpoints" / code_below(self.experiment)

    def missing(self) -> list[int]:
        """The seeds that have not been run, or not with this code."""
        return [seed for seed in range(self.seeds) if self._entry(seed) is None]

    def why(self) -> str:
        """Why something has to be done: new, or what has changed."""
        before, now = _read(self.place / "outcome.json").get("rests_on", {}), self.rests_on
        if not before:
            begun = self.place.is_dir() and any(self.place.glob("*.nc"))
            return "begun before, now finished" if begun else "new"
        changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        names = [_told(key, before.get(key), now.get(key)) for key in changed]
        if not names:
            return "a file was missing or damaged"
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{', '.join(names[:3])}{more} changed"

    def task(self, seed: int, anew: bool) -> Task:
        """The run of a seed; one that is made `anew` does not go on from the checkpoints of that before."""
        name = f"{seed}{AGAIN}" if anew else str(seed)
        checkpoints = str(self.checkpoints / name) if self.experiment.needs else ""
        return Task(self.paper.address, self.experiment.name, self.experiment.changes, seed, checkpoints)

    def keep(self, seed: int, run: xr.Dataset, seconds: float) -> None:
        """Write the run of a seed, and then what it rests on and its checksum."""
        with atomically(self.place / f"{seed}.nc") as draft:
            with in_words(self.paper.file, f"the run of {self.experiment.name} cannot be written"):
                run.assign_attrs({MARK: self.place.name}).to_netcdf(draft, engine="h5netcdf")
            entry = {"sha256": _sum(draft), "rests_on": self.code, "seconds": seconds}
        with atomically(self.place / f"{seed}.json") as draft:
            draft.write_text(json.dumps(entry), encoding="utf-8")
        if self.experiment.needs:
            self._tidy(seed)

    def _tidy(self, seed: int) -> None:
        """Of all checkpoints of a seed leave those of the run that was kept: the newest of this code."""
        again, usual = (self.checkpoints / name for name in (f"{seed}{AGAIN}", str(seed)))
        for old in self.checkpoints.parent.glob("*"):
            if again.exists() or old != self.checkpoints:
                shutil.rmtree(old / str(seed), ignore_errors=True)
        if again.exists():
            again.rename(usual)

    def _entry(self, seed: int) -> dict[str, Any] | None:
        """What is known of the run of a seed, if it is there, whole, and of this code."""
        entry, file = _read(self.place / f"{seed}.json"), self.place / f"{seed}.nc"
        whole = entry.get("rests_on") == self.code and file.is_file() and _sum(file) == entry.get("sha256")
        return entry if whole else None

    def left_out(self, news: str) -> Outcome:
        """The claims without runs."""
        return Outcome(
            self.paper, self.experiment, 0, judged_rows(self.paper, self.experiment, None), news=news
        )

    def judge(self, news: str) -> Outcome:
        """Judge the claims on the runs that are kept, draw the figure, and write both."""
        entries = [entry for seed in range(self.seeds) if (entry := self._entry(seed)) is not None]
        if len(entries) < self.seeds:
            raise RuntimeError(f"the runs in {self.place} were changed meanwhile: run it again.")
        by_seed = [self._load(seed) for seed in range(self.seeds)]
        with in_words(self.paper.file, f"the seeds of {self.experiment.name} cannot be joined"):
            runs = xr.concat(by_seed, dim="seed")
        rows = judged_rows(self.paper, self.experiment, runs)
        with in_words(self.paper.file, f"the picture of {self.experiment.name} does not run"):
            figure = plot.svg(self.experiment.draw(runs.drop_vars(CERTIFICATES, errors="ignore")))
        proofs = certificates_of(self.paper, self.experiment, runs)
        seconds = float(sum(entry["seconds"] for entry in entries))
        files = {"figure.svg": figure, "certificates.json": json.dumps(proofs)}
        told = {
            "rests_on": self.rests_on,
            "seeds": self.seeds,
            "changes": self._changes(),
            "seconds": seconds,
            "rows": [row.as_json() for row in rows],
        }
        told |= {name.split(".")[0]: digest(text) for name, text in files.items()}
        for name, text in (files | {"outcome.json": json.dumps(told)}).items():
            with atomically(self.place / name) as draft:
                draft.write_text(text, encoding="utf-8")
        return Outcome(self.paper, self.experiment, self.seeds, rows, figure, seconds, news, proofs)

    def _changes(self) -> dict[str, Any] | None:
        """The changes to the setting as JSON has them; None where it has no word for one."""
        try:
            found: dict[str, Any] = json.loads(json.dumps(self.experiment.changes))
        except TypeError:
            return None
        return found

    def _load(self, seed: int) -> xr.Dataset:
        with opened(self.place / f"{seed}.nc", MARK, "a run of an experiment") as groups:
            return groups["/"].drop_attrs()


def kept(chosen: Iterable[Chosen], folder: Path, seeds: int | None = None) -> Iterator[Kept]:
    """The places of experiments in a folder; `seeds` is for those that draw at random."""
    if seeds is not None and seeds < 1:
        raise ValueError(f"--seeds must be 1 or more, not {seeds}.")
    for p, e in chosen:
        yield Kept(folder, p, e, seeds if seeds is not None and e.seeds > 1 else e.seeds)


def found_before(p: Paper, e: Experiment[Any], folder: Path) -> Outcome | None:
    """What a folder holds of an experiment, with whatever number of seeds, even if the code has changed."""
    place = Kept(folder, p, e, e.seeds)
    seeds = _read(place.place / "outcome.json").get("seeds", e.seeds)
    return replace(place, seeds=seeds).outcome(stale=True)


def found_at_other_settings(p: Paper, e: Experiment[Any], folder: Path) -> list[Outcome]:
    """What a folder holds of an experiment at other settings than the paper's."""
    found = []
    for file in sorted((folder / "runs").glob(f"{p.name}-{e.name}@*/outcome.json")):
        changes = _read(file).get("changes")
        try:
            with in_words(p.file, f"{e.name} is not possible at this setting"):
                outcome = None if not changes else found_before(p, e.at(**changes), folder)
        except ValueError:  # a field of an earlier version
            continue
        if outcome is not None:
            found.append(outcome)
    return found


def _time(seconds: float) -> str:
    """A time in words, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _told(key: str, before: str | None, now: str | None) -> str:
    """A change in words: a version with its numbers, a definition by its name."""
    if key in environment() or key == "seeds":
        return f"{key} ({before} to {now})"
    return key.removeprefix("rankfall.")


def _read(path: Path) -> dict[str, Any]:
    """A JSON file; nothing if it is not there, or not whole."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
