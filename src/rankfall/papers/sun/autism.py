"""Sun and Tran, Fig. 4 and 5: the stable rank on five genes of the autism data, ReLU and leaky ReLU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from rankfall.data import Data, autism
from rankfall.papers.lab import (
    Check,
    Claim,
    Experiment,
    Verdict,
    at_least,
    at_most,
    near,
    number_word,
    scientific,
)
from rankfall.papers.sun.genes import Genes, run_genes
from rankfall.papers.sun.readings import (
    FAST,
    TWO_CLASSES,
    Reading,
    draw_readings,
    duration,
    ends,
    listed,
    no_gradient,
    rise_between,
    smallest,
)

VISIBLE = at_least(0.05, "a hundredth of what the stable rank can be; our reading of visible")
CHANCE = 0.373  # a correlation in 104 samples that is larger has a probability below 1e-4 (t-test)
LOST = 1.5  # test samples: above it, more than one


@dataclass(frozen=True)
class Setting(Genes):
    """Section 5, on the autism data: step size and epochs are the same in the text and in the program."""

    width: int = 1000
    printed_width: int = 128
    step: float = 0.01
    epochs: int = 5000
    every: int = 10  # ours: every tenth epoch is kept
    early: int = 100  # ours: the epoch at which we look at the networks as printed
    late: int = 3000  # the epoch from which on the text sees overfitting
    load: Callable[[], Data] = autism

    @property
    def last(self) -> int:
        """The last epoch that is kept."""
        return self.epochs - self.epochs % self.every


def run_figure_4(setting: Setting, seed: int, place: Path) -> xr.Dataset:
    """Stable rank and test accuracy of a network for each value and slope, in both readings."""
    data = setting.parts(setting.load())
    assert data.test is not None  # it was split off
    kept = run_genes(setting, data, seed, place)
    return kept.isel(epoch=slice(None, None, setting.every)).assign(
        tested=data.test.n,
        correlation=(("gene", "other"), np.corrcoef(autism().x.T)),
    )


def _correlated(runs: xr.Dataset) -> xr.DataArray:
    """The largest correlation of two genes, whatever its sign."""
    genes = runs.correlation.isel(seed=0)  # the data are the same in all draws
    return np.abs(genes.where(~np.eye(len(genes), dtype=bool))).max()


def _rises(runs: xr.Dataset) -> xr.DataArray:
    """How high each curve rises between two falls, as run."""
    curves = runs.stable_rank.sel(reading=Reading.RUN)
    found: xr.DataArray = xr.apply_ufunc(rise_between, curves, input_core_dims=[["epoch"]], vectorize=True)
    return found


def _alike(runs: xr.Dataset) -> list[xr.DataArray]:
    """The least and the largest ratio of the stable ranks with leaky ReLU and with ReLU on the way."""
    ranks = runs.stable_rank.sel(reading=Reading.RUN)
    ratio = ranks.sel(activation="leaky ReLU") / ranks.sel(activation="ReLU")
    return [ratio.min("epoch"), ratio.max("epoch")]


def _leaky_to_plain(runs: xr.Dataset, reading: Reading) -> xr.DataArray:
    return ends(runs, reading, "leaky ReLU") / ends(runs, reading, "ReLU")


def _late(setting: Setting, runs: xr.Dataset, name: str) -> xr.DataArray:
    """A measure as run, from the epoch on from which the text sees overfitting."""
    late = runs[name].sel(reading=Reading.RUN)
    return late.where(late.epoch >= setting.late, drop=True)


def _lost(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    """How many test samples more are classified wrongly at the end than then."""
    late = _late(setting, runs, "test_accuracy")
    return (late.isel(epoch=0) - late.isel(epoch=-1)) * runs.tested


def _rise(setting: Setting, runs: xr.Dataset) -> xr.DataArray:
    late = _late(setting, runs, "stable_rank")
    return late.isel(epoch=-1) / late.min("epoch") - 1


def draw_figure_4(setting: Setting, runs: xr.Dataset) -> Figure:
    """A row for each reading: stable rank with ReLU and with leaky ReLU, and the test accuracy."""
    return draw_readings(runs, setting.titles)


def claims(setting: Setting) -> tuple[Claim, ...]:
    """What section 5 says about Fig. 4 and 5, and what else is seen in them."""
    return (
        _on_genes(),
        *_on_leaky(setting),
        *_on_curves(setting),
        *_on_overfitting(setting),
        *_as_printed(setting),
    )


def _on_genes() -> Claim:
    """The data, whatever the networks are trained on."""
    return Claim(
        id="genes-orthogonal",
        sentence="The five genes are orthogonal to each other.",
        source="section 5",
        metric="largest |correlation| of two of the five genes over the 104 samples",
        measure=_correlated,
        expected=at_most(0.1, "our reading of orthogonal: a hundredth of the variance in common"),
        recorded=Verdict.REFUTED,
        certificate=Check(
            "the same correlation",
            _correlated,
            at_least(CHANCE, "of uncorrelated genes 1 in 1000 samples of this size has it in any pair"),
        ),
        form="{:.2f}",
        note="The text takes the sentence from elsewhere. Without the means taken off, as they enter the "
        "network, the genes have cosines of 0.74 to 0.99. The theorems ask for orthogonal samples.",
    )


def _on_leaky(setting: Setting) -> tuple[Claim, ...]:
    """ReLU and leaky ReLU compared."""
    return (
        Claim(
            id="autism-curves-alike",
            sentence="The curves of ReLU and leaky ReLU are much alike.",
            source="section 5, Fig. 4 and 5",
            metric="stable rank of W₁ with leaky ReLU / with ReLU, least and largest of all epochs, as run",
            measure=_alike,
            expected=near(1.0, 0.05, "remarkably similar: 5 % is what an eye sees, our reading"),
            form="{:.3f}",
        ),
        Claim(
            id="autism-same-ends",
            sentence="ReLU and leaky ReLU end at the same stable rank, for each initial scale.",
            source="section 5, Fig. 4 and 5",
            metric=f"stable rank of W₁ with leaky ReLU / with ReLU, after {setting.last} epochs, as run",
            measure=lambda runs: _leaky_to_plain(runs, Reading.RUN),
            expected=near(1.0, 0.05, "equivalent values: 5 % is what an eye sees, our reading"),
            form="{:.3f}",
        ),
    )


def _on_curves(setting: Setting) -> Iterator[Claim]:
    """The shape of the curves."""
    count = number_word(len(setting.values) * len(setting.slopes))
    yield Claim(
        id="fall-rise-fall",
        sentence="Each curve of the stable rank falls, rises, and falls again.",
        source="section 5, Fig. 4 and 5",
        metric=f"rise between two falls of each of the {count} curves, as run",
        measure=_rises,
        expected=VISIBLE,
        recorded=Verdict.NOT_REPRODUCED,
        form="{:.2f}",
        note="It is so from the three smallest scales, and cannot be seen from the largest.",
    )
    yield Claim(
        id="large-start-no-rise",
        sentence="From the largest initial scale no rise between two falls can be seen, in any draw.",
        source="rankfall",
        metric=f"rise of the stable rank between two falls, as run, value {scientific(setting.values[-1])}",
        measure=lambda runs: _rises(runs).isel(value=-1),
        expected=at_most(VISIBLE.low, VISIBLE.because),
        form="{:.3f}",
    )
    if setting.small:
        yield Claim(
            id="small-starts-rise",
            sentence=f"The curves of the {smallest(setting)} fall, rise, and fall again.",
            source="rankfall",
            metric=f"rise of the stable rank between two falls, as run, {listed(setting.small)}",
            measure=lambda runs: _rises(runs).sel(value=list(setting.small)),
            expected=VISIBLE,
            form="{:.2f}",
        )
    yield Claim(
        id="autism-fast-fall",
        sentence="Once the stable rank begins to fall, it converges fast.",
        source="section 5, Fig. 4 and 5",
        metric="part of the run between a tenth and nine tenths of the fall of each curve, as run",
        measure=duration,
        expected=FAST,
        recorded=Verdict.NOT_REPRODUCED,
        form="{:.2f}",
        note="It does from the two smallest scales.",
    )


def _on_overfitting(setting: Setting) -> Iterator[Claim]:
    """What overfitting does."""
    if setting.late >= setting.last:
        return
    while_late = f"from epoch {setting.late} to {setting.last}"
    yield Claim(
        id="late-overfitting",
        sentence=(
            f"After {setting.late} epochs networks overfit: at some initial scale the test accuracy falls."
        ),
        source="section 5, Fig. 4 and 5; that it is not all scales is our reading",
        metric=f"largest number of test samples lost among the values {while_late}, as run",
        measure=lambda runs: _lost(setting, runs).max("value"),
        expected=at_least(LOST, "more than one test sample: our reading of significant"),
        form="{:.0f}",
    )
    if setting.small:
        yield Claim(
            id="small-starts-keep-accuracy",
            sentence=f"With the {smallest(setting)} no more than one test sample is lost.",
            source="rankfall",
            metric=f"number of test samples lost {while_late}, as run, {listed(setting.small)}",
            measure=lambda runs: _lost(setting, runs).sel(value=list(setting.small)),
            expected=at_most(LOST, "one sample, and not two"),
            form="{:.0f}",
        )
    yield Claim(
        id="steady-rank-while-overfitting",
        sentence="While the networks overfit the stable rank goes on to converge, and rises marginally.",
        source="section 5, Fig. 4 and 5",
        metric=f"stable rank after {setting.last} epochs / lowest since epoch {setting.late} - 1, as run",
        measure=lambda runs: _rise(setting, runs),
        expected=at_most(0.05, "marginal: 5 % is what an eye sees, our reading"),
        form="{:.3f}",
    )


def _as_printed(setting: Setting) -> Iterator[Claim]:
    """The reading of the text."""
    yield Claim(
        id="autism-printed-same-ends",
        sentence="As printed, too, ReLU and leaky ReLU end at the same stable rank.",
        source="rankfall: Fig. 4 and 5 in the reading of the text",
        metric=f"stable rank of W₁ with leaky ReLU / with ReLU, after {setting.last} epochs, as printed",
        measure=lambda runs: _leaky_to_plain(runs, Reading.PRINTED),
        expected=near(1.0, 0.05, "as for the other reading"),
        recorded=Verdict.NOT_REPRODUCED,
        form="{:.3f}",
    )
    if setting.early <= setting.last:
        yield Claim(
            id="autism-printed-collapse",
            sentence=(
                f"As printed the stable rank is near 1 after {number_word(setting.early)} epochs, at every "
                "initial scale."
            ),
            source="rankfall",
            metric=f"stable rank of W₁ after {setting.early} epochs, as printed",
            measure=lambda runs: [
                ends(runs, Reading.PRINTED, name, setting.early) for name in runs.activation.values
            ],
            expected=at_most(1.5, "nearer to 1 than to 2"),
            form="{:.2f}",
        )
    yield no_gradient("autism-no-first-gradient")


AUTISM = Experiment(
    name="4-5",
    title="Stable rank on the autism data, ReLU and leaky ReLU, five initial scales",
    setting=Setting(),
    simulation=run_figure_4,
    picture=draw_figure_4,
    statements=claims,
    seeds=5,
    cost=25,
    needs="autism",
    about=(
        "83 training and 21 test samples of five genes, unscaled; full batches, step size 0.01, 5000 epochs; "
        "the stable rank is taken at every epoch, and every tenth is kept. Hidden width 1000 as run, 128 as "
        "printed. One split, as in the authors' program; five draws of the weights. The stable rank cannot "
        f"exceed 5, the number of features. {TWO_CLASSES}"
    ),
)
