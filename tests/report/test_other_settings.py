"""At another setting than the paper's, page and terminal say so, and whose setting the texts describe."""

from dataclasses import dataclass
from html import unescape

import pytest
import xarray as xr
from matplotlib.figure import Figure
from rich.console import Console

from rankfall.papers.lab import Claim, Experiment, Outcome, Paper, at_most, judged_rows
from rankfall.report import outcome_table, table
from rankfall.report._page import page
from rankfall.report._words import WRITTEN_FOR_THE_PAPER
from rankfall.theory.core import Source


@dataclass(frozen=True)
class Setting:
    """A paper that nobody wrote."""

    n: int = 8


CLAIM = Claim(
    id="small",
    sentence="The sum is small.",
    source="section 2",
    metric="sum",
    measure=lambda runs: runs["sum"],
    expected=at_most(9, "8 + 1"),
    note="Eight is less than nine.",
)
EXPERIMENT = Experiment(
    name="sums",
    title="Sums",
    setting=Setting(),
    simulation=lambda setting, seed: xr.Dataset({"sum": float(setting.n)}),
    picture=lambda *_: Figure(),
    statements=lambda _: (CLAIM,),
    about="Eight numbers are added.",
)
PAPER = Paper("made-up", "On a paper that nobody wrote", Source("Nobody", 2023, "JMLR"), (EXPERIMENT,))


def found(experiment):
    runs = xr.concat([experiment.run()], dim="seed")
    return Outcome(PAPER, experiment, 1, judged_rows(PAPER, experiment, runs))


def printed(rows):
    console = Console(width=400)
    with console.capture() as shown:
        console.print(outcome_table(rows))
    return shown.get()


@pytest.mark.parametrize(("experiment", "says"), [(EXPERIMENT, False), (EXPERIMENT.at(n=20), True)])
def test_the_texts_are_marked_as_the_papers_exactly_where_the_setting_is_another(experiment, says):
    outcome = found(experiment)
    html = unescape(page([outcome], {}))
    for text in (html, printed(outcome.rows)):
        assert (WRITTEN_FOR_THE_PAPER in text) is says
    for text in (html, table(outcome.rows)):
        assert ("n = 20 (paper: 8)" in text) is says
    about, note = EXPERIMENT.about, CLAIM.note
    assert (f"<b>At the paper's setting:</b> {about}" in html) is says
    assert (f"Written for the paper's setting: </span>{note}" in html) is says
    assert about in html
    assert note in html
