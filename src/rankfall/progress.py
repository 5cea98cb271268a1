"""Progress of anything that takes over two seconds: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 2.0  # seconds before anything is shown
PAUSE = 0.5  # seconds of work between two updates: how long a person waits for Ctrl-C
LINES = 15.0  # seconds between two lines where there is no terminal


class Progress:
    """How far a task has come; `update` is cheap and shows nothing before `PATIENCE` has passed."""

    def __init__(self, task: str, enabled: bool):
        self._task, self._enabled = task, enabled
        self._start = self._shown = time.monotonic()
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()

    def update(self, fraction: float, note: str = "") -> None:
        """Tell that `fraction` of the task is done."""
        now = time.monotonic()
        if not self._enabled or fraction >= 1 or now - self._start < PATIENCE:
            return
        if self._terminal:
            self._draw(fraction, note)
        elif now - self._shown >= LINES or self._shown == self._start:
            self._shown = now
            print(f"{self._task}: {100 * fraction:.0f}% {note}", file=sys.stderr, flush=True)

    def _draw(self, fraction: float, note: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            name, remark = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
            self._bar = Bar(
                name, BarColumn(), TimeRemainingColumn(), remark, console=Console(stderr=True), transient=True
            )
            self._bar.start()
            self._bar.add_task(self._task, total=1.0, note="")
        self._bar.update(self._bar.task_ids[0], completed=fraction, note=note)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(task: str, enabled: bool = True) -> Iterator[Progress]:
    """A `Progress` for the time of a `with` block."""
    shown = Progress(task, enabled)
    try:
        yield shown
    finally:
        shown.close()
