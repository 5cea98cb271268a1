"""Outcomes for the page: a real experiment in small, and a made-up paper with every verdict."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from rankfall import plot
from rankfall.certificates import Certificate, Problem, propose, rank, refutes, stable_rank
from rankfall.papers import paper
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Outcome,
    Paper,
    at_least,
    at_most,
    between,
    certificates_of,
    judged_rows,
    near,
    refuting,
    with_certificates,
)
from rankfall.report._page import page
from rankfall.theory.core import Source

ENVIRONMENT = {"rankfall": "0.1.0", "Python": "3.11.9", "jax": "0.8.0", "machine": "x86_64, 2 cores <&>"}


@pytest.fixture(scope="session")
def outcomes():
    real = paper("sun")
    experiment = next(e for e in real.experiments if e.name == "1")
    runs = xr.concat([experiment.run(seed, epochs=100) for seed in range(2)], dim="seed")
    figure = plot.svg(experiment.at(epochs=100).draw(runs))
    first = Outcome(real, experiment, 2, judged_rows(real, experiment, runs), figure, 3.21, "run: new")
    return [first, *made_up_outcomes()]


@pytest.fixture(scope="session")
def html(outcomes):
    return page(outcomes, ENVIRONMENT, "made on 2026-11-16 in 6 min 12 s")


@dataclass(frozen=True)
class Setting:
    """A paper that nobody wrote has no numbers."""


def made_up_outcomes():
    """Every verdict, some of them not the one on record, and text that HTML could take for its own."""
    by_seed = made_up_runs()

    def made(name, title, claims, **more):
        return Experiment(
            name, title, Setting(), lambda *_: by_seed, lambda *_: Figure(), lambda _: claims, **more
        )

    every = made("4b", "Every verdict & a <b>title</b>", CLAIMS, seeds=20, about=ABOUT)
    lonely = made("Lemma 7", "A word that does not break", (UNBROKEN,), about="-")
    absent = made("9", "What needs a download", (AWAY,), needs="MNIST & CIFAR-10")
    made_up = Paper(
        "made-up",
        "On a paper that nobody wrote",
        Source("Author, Éva & Co", 2023, "JMLR"),
        (every, lonely, absent),
    )
    return [
        Outcome(
            made_up,
            every,
            20,
            judged_rows(made_up, every, by_seed),
            hostile_figure(),
            4000.0,
            "from the cache",
            certificates_of(made_up, every, by_seed),
        ),
        Outcome(
            made_up,
            lonely,
            1,
            judged_rows(made_up, lonely, by_seed.isel(seed=[0])),
            "",
            0.03,
            "judged again: a claim changed",
        ),
        Outcome(made_up, absent, 0, judged_rows(made_up, absent, None), "", 0.0, "not run: no data"),
    ]


def made_up_runs():
    """Twenty seeds with numbers; the first two bring certificates of two limits, one of which refutes."""
    runs = []
    for seed, value in enumerate(np.linspace(1.0, 3.0, 20)):
        ends = {"first": point(seed), "second": point(9)} if seed < 2 else {}
        runs.append(with_certificates(xr.Dataset({"rank": value, "kkt": 1e-13}), seed, ends, seeds=2))
    return xr.concat(runs, dim="seed")


def point(seed):
    """The certificate of a KKT point: orthogonal samples, two neurons, each active on its class."""
    lengths = 1 + np.random.default_rng(seed).random(4)
    y = np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(np.diag(lengths), y, 0.5, np.array([1.0, -1.0]), name="made up <&>")
    found = propose(problem, np.array([y, -y]), np.ones(4))
    claims = [rank(problem, found), stable_rank(problem, found)]
    false = refutes("made-up/3", "The stable rank is above 3.", "stable rank", ">", 3.0)
    return refuting(Certificate.of(problem, found, claims), false)


def hostile_figure():
    """Black, white, grey and coloured artists, an image, hatching, and a label that looks like markup."""
    with plot.style():
        figure, (axes,) = plot.panels(3)
        for colour in plot.colours(5):
            axes[0].plot(np.random.default_rng(0).normal(size=30).cumsum() + 9 * colour[1], color=colour)
        for k, colour in enumerate(plot.PALETTE):
            axes[1].plot([0, 1], [k, k + 1], "o-", color=colour, markerfacecolor="white", label=f"kind {k}")
        axes[1].fill_between([0, 1], 2, 3, color="0.9")
        axes[1].legend()
        axes[2].imshow(np.arange(12.0).reshape(3, 4))
        axes[2].text(1, 1, "black --> </svg><script>", color="black")
        axes[2].bar([0, 1], [1, 2], hatch="//", facecolor="none", edgecolor=plot.GUIDE)
    return plot.svg(figure)


ABOUT = "A first paragraph: 1 < 2 & 3 > 2.\n\nA second one, “quoted”, whose <em>markup</em> must stay text."
ALONE = Check("KKT residual", lambda runs: runs.kkt, at_most(1e-10, "far above rounding"))
SUPPOSED = Check("stable rank at the end", lambda runs: runs["rank"], at_most(2.5, "the theorem's bound"))
HOLDING = Check(
    "‖W‖ at the end, in units of the initial norm", lambda runs: runs["rank"], at_least(0.5, "else no flow")
)

CLAIMS = (
    Claim(
        id="claim-1",
        sentence="The stable rank lies between one and three.",
        source="arXiv v2, Fig. 4b",
        metric="stable rank of W₁",
        measure=lambda runs: runs["rank"],
        expected=between(1.0, 3.0, "the axis of the figure"),
        hypotheses=(HOLDING,),
        proofs=("first", "second"),
    ),
    Claim(
        id="claim-2",
        sentence="It is <script>document.title = 'taken'</script> & stays below 2.",
        source="section 5, \"quoted\" & 'single'",
        metric="stable rank of W₁, largest over the layers",
        measure=lambda runs: runs["rank"],
        expected=at_most(2.0, "the number in the text"),
        recorded="reproduced",
        form="{:.2f}",
        note="One draw of twenty decides <nothing>.",
    ),
    Claim(
        id="claim-3",
        sentence="Every limit is a local optimum.",
        source="Theorem 3 | Remark 4",
        metric="residual",
        measure=lambda runs: 1e7 * runs.kkt,
        expected=at_most(1e-8, "the solver's tolerance"),
        recorded="refuted",
        certificate=ALONE,
        proofs=("first",),
    ),
    Claim(
        id="claim-4",
        sentence="Under the theorem's hypotheses the rank is two.",
        source="Theorem 5",
        metric="rank",
        measure=lambda runs: runs["rank"],
        expected=near(2.0, 0.01, "one per cent, since the seeds scatter by as much", relative=True),
        recorded="outside its hypotheses",
        hypotheses=(SUPPOSED, HOLDING),
    ),
    Claim(
        id="claim-5",
        sentence="Entry by entry the modes are where the formula says.",
        source="rankfall",
        metric="three ratios",
        measure=lambda runs: runs["rank"].values[:3] / runs["rank"].values[:3],
        expected=near([1.0, 1.0, 1.0], 1e-9, "rounding"),
    ),
)
UNBROKEN = Claim(
    id="claim-6",
    sentence="A" + "verylongword" * 12 + " is not wider than a phone.",
    source="https://example.org/" + "path/" * 30,
    metric="x" * 120,
    measure=lambda runs: runs.kkt,
    expected=at_most(1e-10, "w" * 90),
    recorded="not reproduced",
)
AWAY = replace(
    CLAIMS[0], id="claim-7", sentence="It is the same on photographs.", recorded="needs data", hypotheses=()
)
