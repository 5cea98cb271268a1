import io
from contextlib import redirect_stderr
from itertools import count
from types import SimpleNamespace

import pytest

from rankfall._progress import LINES, OFTEN, PATIENCE, progress


class Clock:
    """A clock that goes when it is told to."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("rankfall._progress.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


def test_a_short_task_shows_nothing(clock, capsys):
    with progress("flow") as shown:
        for tenth in range(10):
            clock.now += 0.9 * PATIENCE / 10
            shown.update(tenth / 10)
    assert capsys.readouterr() == ("", "")


def test_a_long_task_says_how_far_it_is_on_stderr_only(clock, capsys):
    with progress("flow") as shown:
        clock.now += PATIENCE
        shown.update(0.254, "t = 3")
    assert capsys.readouterr() == ("", "flow: 25% t = 3, 0:06 left\n")


def test_without_a_terminal_there_is_a_line_now_and_then(clock, capsys):
    with progress("flow") as shown:
        said = []
        for second in range(1, 62):
            clock.now += 1
            shown.update(second / 100)
            if capsys.readouterr().err:
                said.append(second)
    assert said == [PATIENCE, *(PATIENCE + LINES * k for k in (1, 2, 3))]


def test_a_note_is_made_only_where_it_is_shown(clock, capsys):
    made = count(1)
    with progress("flow") as shown:
        for second in range(1, 62):
            clock.now += 1
            shown.update(second / 100, lambda: f"note {next(made)}")
    said = capsys.readouterr().err
    assert "note 1" in said
    assert said.count("note") == next(made) - 1 == 4


def test_the_end_needs_no_line(clock, capsys):
    with progress("flow") as shown:
        clock.now += 100
        shown.update(1.0)
    assert capsys.readouterr().err == ""


def test_progress_that_is_not_wanted_is_not_shown(clock, terminal):
    with redirect_stderr(terminal), progress("flow", enabled=False) as shown:
        clock.now += 100
        shown.update(0.5)
    assert terminal.getvalue() == ""


def test_on_a_terminal_there_is_a_bar_with_the_task_and_the_note(clock, terminal):
    with redirect_stderr(terminal), progress("flow") as shown:
        shown.update(0.1, "too early")
        assert terminal.getvalue() == ""
        clock.now += PATIENCE
        shown.update(0.5, "t = 3")
        clock.now += 2 * OFTEN
        shown.update(0.6, "t = 4")
    drawn = terminal.getvalue()
    assert "flow" in drawn
    assert "t = 4" in drawn
    assert "too early" not in drawn


def test_the_bar_is_taken_away_also_after_ctrl_c(clock, terminal):
    def interrupted():
        with progress("flow") as shown:
            clock.now += PATIENCE
            shown.update(0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), redirect_stderr(terminal):
        interrupted()
    hide_cursor, show_cursor = "\x1b[?25l", "\x1b[?25h"
    assert terminal.getvalue().count(hide_cursor) == terminal.getvalue().count(show_cursor) == 1
