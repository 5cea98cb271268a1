"""What every experiment must pass: it says what it claims, it runs, it is drawn, and each of its claims can
fail: tampering with the runs changes the verdict."""

from importlib import import_module
from pkgutil import iter_modules

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from rankfall.data import take
from rankfall.papers import PAPERS, paper
from rankfall.papers.lab import Experiment
from tests.papers.small import small

pytestmark = pytest.mark.slow

EXPERIMENTS = [(name, e.name) for name in PAPERS for e in paper(name).experiments]


@pytest.fixture
def experiment(request, monkeypatch, tmp_path, autism):
    name, figure = request.param
    found = next(e for e in paper(name).experiments if e.name == figure).at(**small(name, figure))
    if found.needs == "autism":  # the correlations of the genes are taken of the data themselves
        monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
        take(autism)
    return found


@pytest.mark.parametrize("experiment", EXPERIMENTS, indirect=True, ids="-".join)
def test_the_experiment_runs_is_drawn_and_each_of_its_claims_can_fail(experiment, tmp_path):
    says_what_it_claims(experiment)
    assert {claim.judge(None).verdict for claim in experiment.claims} == {"needs data"}
    seeds = range(min(2, experiment.seeds))
    made = [experiment.run(seed, tmp_path / str(seed)) for seed in seeds]
    runs = xr.concat(made, dim="seed")
    figure = experiment.draw(runs)
    figure.canvas.draw()
    plt.close(figure)
    for claim in experiment.claims:
        plain = claim.judge(runs).verdict
        changed = any(claim.judge(tampered).verdict != plain for tampered in tamperings(runs))
        assert changed, f"nothing changes the verdict {plain!r} of: {claim.sentence}"


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_lists_every_experiment_of_its_files_once(name):
    listed = paper(name).experiments
    names = [experiment.name for experiment in listed]
    assert len(set(names)) == len(names)
    package = import_module(f"rankfall.papers.{name}")
    missing = [
        f"{info.name}.py defines {variable}, which {name}/__init__.py does not list"
        for info in iter_modules(package.__path__)
        for variable, value in vars(import_module(f"{package.__name__}.{info.name}")).items()
        if isinstance(value, Experiment) and not any(value is each for each in listed)
    ]
    assert not missing


def says_what_it_claims(experiment):
    assert experiment.title
    assert experiment.about
    assert experiment.seeds == 1 or experiment.needs or experiment.seeds >= 20
    assert experiment.claims
    for claim in experiment.claims:
        for text in (claim.sentence, claim.source, claim.metric, claim.expected.told, claim.expected.because):
            assert text
        assert claim.sentence.endswith(".")
        assert claim.recorded != "refuted" or claim.certificate is not None
        assert claim.recorded != "outside its hypotheses" or claim.hypotheses


def tamperings(runs):
    """One array at a time made larger, smaller, negative, constant, noisy, reversed, steeper or NaN."""
    rng = np.random.default_rng(0)
    for name, values in runs.data_vars.items():
        numbers = values.astype(float)
        changed = [
            numbers * 1000, numbers / 1000, -numbers, numbers + 1, numbers - 1, 0 * numbers, 0 * numbers + 1,
            numbers * rng.lognormal(size=numbers.shape), numbers * np.nan,
            numbers.copy(data=numbers.values[(slice(None, None, -1),) * numbers.ndim]),
        ]  # fmt: skip
        for axis, size in enumerate(numbers.shape):
            shape = [size if other == axis else 1 for other in range(numbers.ndim)]
            changed += [numbers * np.geomspace(1, end, size).reshape(shape) for end in (1e-3, 1e3)]
        yield from (runs.assign({name: other}) for other in changed)
