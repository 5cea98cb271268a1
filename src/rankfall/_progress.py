"""Progress of anything that takes over two seconds: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 2.0  # seconds before anything is shown
PAUSE = 0.5  # seconds of work between two updates: how long a person waits for Ctrl-C
SILENT = False  # true in worker processes, whose parent tells how far they are
OFTEN = 0.1  # seconds between two updates of a bar,
LINES = 15.0  # and seconds between two lines where there is no terminal


class Progress:
    """How far a task has come; `update` is cheap and shows nothing before `PATIENCE` has passed."""

    def __init__(self, task: str, enabled: bool):
        self._task, self._enabled = task, enabled and not SILENT
        self._start = self._shown = time.monotonic()
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()

    def update(self, fraction: float, note: str | Callable[[], str] = "") -> None:
        """Say that `fraction` of the task is done; a note may be a function, called if it is shown."""
        now = time.monotonic()
        if not self._enabled or fraction >= 1 or now - self._start < PATIENCE:
            return
        pause = OFTEN if self._terminal else LINES
        if now - self._shown < pause and self._shown != self._start:
            return
        self._shown = now
        note = ", ".join(filter(None, [note if isinstance(note, str) else note(), self._left(now, fraction)]))
        if self._terminal:
            self._draw(fraction, note)
        else:
            print(f"{self._task}: {100 * fraction:.0f}% {note}", file=sys.stderr, flush=True)

    def _left(self, now: float, fraction: float) -> str:
        """The time left, as far as it can be told from what was done."""
        if fraction < 0.02:
            return ""
        left = (now - self._start) * (1 - fraction) / fraction
        minutes, seconds = divmod(round(left), 60)
        return f"{minutes} min left" if minutes >= 10 else f"{minutes}:{seconds:02d} left"

    def _draw(self, fraction: float, note: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            name, remark = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
            self._bar = Bar(name, BarColumn(), remark, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self._task, total=1.0, note="")
        self._bar.update(self._bar.task_ids[0], completed=fraction, note=note)

    def hide(self) -> None:
        """Take the bar away; the next update draws it again, below what was printed meanwhile."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def progress(task: str, enabled: bool = True) -> Iterator[Progress]:
    """A `Progress` for the time of a `with` block."""
    shown = Progress(task, enabled)
    try:
        yield shown
    finally:
        shown.hide()
