"""What every experiment must pass: it says what it claims, it runs, it is drawn, and each of its claims can
fail: tampering with the runs changes the verdict."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from rankfall.data import Data, centre, circle, fan, pair, take
from rankfall.papers import PAPERS, paper
from rankfall.papers.claim import VERDICTS
from rankfall.papers.frei.cifar import STARTS, Start

pytestmark = pytest.mark.slow

# Stand-ins for real data


def clouds(n, dim, classes, make=lambda x: x):
    """So many classes around random means, in float32, with a test part."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(classes, dim))

    def part(count, test=None):
        y = np.arange(count) % classes
        return Data(make(means[y] + 0.3 * rng.normal(size=(count, dim))).astype(np.float32), y, test=test)

    return part(n, part(n // 2))


def images():
    return clouds(120, 12, 10)


def digits():
    return pair(clouds(60, 8, 2, np.abs), 0, 1)


def genes():
    return clouds(10, 60, 2)


# Smaller sizes for the tests: what the modules' constants are set to.
_SETS = {"fan": Data(fan().x, fan().y), "circle": Data(circle(6).x, circle(6).y)}  # compiled once for both
SMALL: dict[tuple[str, str], dict[str, object]] = {
    ("zhang", "1"): {"WIDTH": 20, "SIDE": 5, "SETS": _SETS},
    ("zhang", "2"): {"RING_WIDTH": 20, "SIDE": 5},
    ("zhang", "3"): {"WIDTH": 10},
    ("zhang", "3-draws"): {"WIDTH": 10},
    ("zhang", "theorem-5"): {"STEPS": 100},
    ("zhang", "corollary-6"): {"POINTS": 4, "PLANE": 2},
    ("zhang", "corollary-14"): {"PAIRS": 8, "DIM": 3, "WIDTH": 6},
    ("zhang", "theorem-13"): {"PAIRS": 8, "DIM": 3, "WIDTH": 6, "NORMS": (1e-2, 1e-4)},
    ("zhang", "4"): {"WIDTH": 12, "RECORDS": 21},
    ("zhang", "5"): {"DIM": 4, "WIDTH": 24, "PAIRS": 20, "FEWER": 20, "LEFT": 1e-5},
    ("zhang", "deeper"): {"DIM": 4, "WIDTH": 24, "SCALES": {3: 0.03}, "PAIRS": 20},
    ("zhang", "workshop-2"): {
        "WIDTH": 20, "STEPS": 400, "ANGLES": 360, "SIDE": 5, "RTOL": 1e-4, "SWEEP": (0.025, 0.05),
    },
    ("zhang", "C.4"): {"LATE": 300, "SLOPES": (0.0,)},
    ("zhang", "C.5"): {"PAIRS": 10, "DIM": 3, "WIDTH": 10, "STEPS": 200},
    ("zhang", "C.6"): {"PAIRS": 10, "DIM": 3, "WIDTH": 10, "MANY": 200},
    ("frei", "limits"): {
        "N": 4, "DIM": 6, "WIDTH": 4, "SLOPES": (0.5, 0.3),
        "SETTINGS": {"1:1": (2, 0.01), "1:4": (1, 0.01), "1:4, large start": (1, 0.3)},
    },
    ("frei", "orthogonality"): {"N": 4, "WIDTH": 4, "SLOPES": (0.5, 0.3), "REDUCED": (2.5, 40.0)},
    ("frei", "descent"): {"N": 4, "DIM": 20, "WIDTH": 8, "STEPS": 100, "RECORDS": (1, 10)},
    ("frei", "step"): {"N": 10, "DIM": 400, "WIDTH": 200, "STEPS": 5, "RECORDS": (1, 2)},
    ("frei", "dimension"): {"N": 10, "DIMS": (200, 400), "WIDTH": 200, "STEPS": 5, "RECORDS": (1, 2)},
    ("frei", "cifar"): {
        "_data": images, "WIDTH": 8, "BATCH": 40, "STEP": 0.3, "EARLY": (1,),
        "STARTS": dict.fromkeys(STARTS, Start(0.02, 1.0, 0, 4)),
    },
    ("le", "linear"): {"NETWORKS": {3: ((4, 12, 6, 1), "exponential")}},
    ("le", "tail"): {"NETWORKS": {2: ((4, 12, 6, 1), "exponential")}},
    ("le", "skips"): {"KINDS": ("diagonal", "free")},
    ("le", "counterexample"): {"WIDTH": 10},
    ("sun", "1"): {"EPOCHS": 100},
    ("sun", "2-3"): {"_neuroblastoma": genes, "WIDTH": 8, "EPOCHS": 20},
    ("sun", "2-3-gordon"): {"_gordon": genes, "WIDTH": 8, "EPOCHS": 20},
    ("sun", "4-5"): {"_data": lambda: clouds(16, 5, 2), "WIDTHS": (8, 8), "EPOCHS": 50, "KEPT": 1},
    ("sun", "6-7"): {
        "_data": images, "WIDTH": 8, "BATCH": 40, "EPOCHS": 2,
        "START": 1, "READ_OFF": (1,) * 5, "ACCURACY": 1,
    },
    ("sun", "8"): {"_data": images, "WIDTHS": (8, 8), "BATCH": 40, "EPOCHS": 2, "START": 1, "FIRST": 1},
    ("sun", "9"): {"_data": images, "WIDTHS": (8, 8), "BATCH": 40, "LONG_EPOCHS": 40},
    ("sun", "properties"): {"N": 4, "DIM": 40, "WIDTH": 12},
    ("sun", "map"): {"N": 6, "SLOPES": (0.0, 0.1, 0.5), "RATIOS": (80, 800), "MAP_WIDTH": 4},
    ("kou", "leaky"): {"WIDTH": 4, "N": 4, "STEPS": 100, "RECORDS": 20, "LAST": 7},
    ("kou", "relu"): {"WIDTH": 6, "N": 4, "STEPS": 50, "PER_CLASS": (2, 4), "WIDE": 200},
    ("kou", "synthetic"): {
        "WIDTH": 16, "DIM": 300, "STEPS": 30, "RECORDS": 8, "FEW": 6, "SLOPES": (0.01, 0.3),
    },
    ("kou", "mnist"): {"_data": images, "WIDTH": 8, "BATCH": 40, "EPOCHS": 2, "EARLY": (1,)},
    ("lyu", "1"): {"_data": images, "WIDTH": 32, "BATCH": 10, "EPOCHS": 20, "RECORDS": 12},
    ("lyu", "margins"): {"N": 4, "WIDTH": 4, "RECORDS": 20},
    ("lyu", "schedule"): {"EPOCHS": 600, "WIDTH": 10},
    ("lyu", "symmetric"): {"WIDTHS": (2, 3), "PAIRS": 1, "HINT_WIDTH": 6, "ANGLES": 61},
    ("boursier", "pair"): {"WIDTH": 12, "RECORDS": 51, "STEPS": 15_000},
    ("boursier", "high"): {"DIM": 30, "N": 12, "NEURONS": 40, "COUNT": 900},
    ("boursier", "toys"): {"WIDTH": 8, "STARTS": 2, "LONG": 4000},
    ("phuong", "limits"): {"N": 6, "DIM": 4, "WIDTH": 6},
    ("phuong", "support"): {"SCALES": (1.0, 0.1), "TURNS": (150,)},
    ("phuong", "digits"): {"_data": digits, "WIDTH": 8, "BATCH": 20, "EPOCHS": 8, "RECORDS": 5},
    ("timor", "ranks"): {"STEPS": 2000},
    ("timor", "angles"): {"STARTS": 30, "STEPS": 2000, "ANGLES": (100,)},
    ("timor", "depth"): {"DEPTHS": (2, 4), "SEARCHES": 2},
    ("min", "alignment"): {"N": 6, "WIDTH": 8, "EARLY_RECORDS": 24, "LATE_RECORDS": 12},
    ("min", "time"): {"SIZES": (4, 8), "NEURONS": 6},
    ("min", "mnist"): {
        "_data": lambda: centre(digits()), "WIDTH": 6, "SIGMA": 1e-3, "STEP": 1.0, "STEPS": 100, "EVERY": 5,
        "ALIGNED": 10, "MOVES": 20,
    },
}  # fmt: skip
EXPERIMENTS = [(name, e.name) for name in PAPERS for e in paper(name).experiments]


@pytest.fixture
def experiment(request, monkeypatch, tmp_path, autism):
    name, figure = request.param
    found = next(e for e in paper(name).experiments if e.name == figure)
    module = __import__(found.run.__module__, fromlist=["_"])
    for constant, value in SMALL.get(request.param, {}).items():
        monkeypatch.setattr(module, constant, value)
    if found.needs == "autism":  # the correlations of the genes are taken of the data themselves
        monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
        take(autism)
    return found


@pytest.mark.parametrize("experiment", EXPERIMENTS, indirect=True, ids="-".join)
def test_the_experiment_runs_is_drawn_and_each_of_its_claims_can_fail(experiment, tmp_path):
    says_what_it_claims(experiment)
    assert {claim.judge(None).verdict for claim in experiment.claims} == {"needs data"}
    seeds = range(min(2, experiment.seeds))
    made = [
        experiment.run(*((seed, tmp_path / str(seed)) if experiment.needs else (seed,))) for seed in seeds
    ]
    runs = xr.concat(made, dim="seed")
    figure = experiment.draw(runs)
    figure.canvas.draw()
    plt.close(figure)
    for claim in experiment.claims:
        plain = claim.judge(runs).verdict
        changed = any(claim.judge(tampered).verdict != plain for tampered in tamperings(runs))
        assert changed, f"nothing changes the verdict {plain!r} of: {claim.sentence}"


def says_what_it_claims(experiment):
    assert experiment.title
    assert experiment.about
    assert experiment.seeds == 1 or experiment.needs or experiment.seeds >= 20
    assert experiment.claims
    for claim in experiment.claims:
        for text in (claim.sentence, claim.source, claim.metric, claim.expected.told, claim.expected.because):
            assert text
        assert claim.sentence.endswith(".")
        assert claim.recorded in VERDICTS
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
