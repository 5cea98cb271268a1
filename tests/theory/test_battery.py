"""What every result must pass: it applies to its own example and holds there, it does not apply where one of
its hypotheses is broken, and none of its predictions survives every kind of tampering."""

import re
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import numpy as np
import pytest
import xarray as xr

import rankfall as rf
from rankfall.judge import Verdict
from rankfall.limits import Limit
from rankfall.limits import Verdict as LimitVerdict
from rankfall.theory import RESULTS, Condition, Kind, Status, assess, assessed
from rankfall.theory.core.evidence import Evidence
from rankfall.trajectory import Trajectory

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", RESULTS)
def test_the_result_holds_where_it_applies_and_can_fail(name):
    result = RESULTS[name]
    example = result.example()
    here = assessed(result, example.situation)
    evidence = example.evidence()
    says_where_it_comes_from(result)
    holds_on_its_example(here, evidence)
    predicts_finite_numbers(here, evidence)
    fails_when_tampered_with(here, example, evidence)


@pytest.mark.parametrize("name", RESULTS)
def test_the_result_does_not_apply_where_a_hypothesis_is_broken(name):
    result = RESULTS[name]
    here = assessed(result, result.example().situation)
    broken = result.broken()
    assert set(broken) == {hypothesis.condition for hypothesis in here.hypotheses}
    for which, situation in broken.items():
        there = assessed(result, situation)
        assert not there.hypothesis(which.id).holds, which
        assert there.status is Status.DOES_NOT_APPLY, f"{which}: {there.status}: {there.why}"
        assert there.why
        assert there.predictions == ()


@pytest.mark.parametrize("name", RESULTS)
def test_each_hypothesis_of_a_result_has_an_id_of_its_own(name):
    result = RESULTS[name]
    for situation in (result.example().situation, *result.broken().values()):
        asked = [hypothesis.condition for hypothesis in assessed(result, situation).hypotheses]
        assert all(isinstance(condition, Condition) and condition.name for condition in asked)
        odd = [each.id for each in asked if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", each.id)]
        assert not odd, f"an id is words in small letters, with hyphens between them; these are not: {odd}"
        assert len({condition.id for condition in asked}) == len(asked)


# Results ask for these in several ways, and the name says in which.
ASKED_IN_SEVERAL_WAYS = {
    "aligned",
    "learned",
    "near-orthogonal",
    "short-steps",
    "small-start",
}


def test_an_id_means_the_same_condition_in_every_result():
    names = defaultdict(set)
    for result in RESULTS.values():
        for situation in (result.example().situation, *result.broken().values()):
            for hypothesis in assessed(result, situation).hypotheses:
                names[hypothesis.id].add(hypothesis.name)
    several = {id for id, told in names.items() if len(told) > 1}
    new = {id: sorted(names[id]) for id in several - ASKED_IN_SEVERAL_WAYS}
    assert not new, f"these ids are taken by other conditions, choose others: {new}"
    assert several == ASKED_IN_SEVERAL_WAYS


def says_where_it_comes_from(result):
    assert result.source.authors
    assert result.source.place
    assert isinstance(result.kind, Kind)
    assert result.statement.endswith(".")
    assert result.title


def holds_on_its_example(here, evidence):
    assert here.status is Status.APPLIES, here.why
    verification = here.verify(evidence)
    told = [(v.prediction.name, v.verdict, v.error, v.note) for v in verification]
    assert verification.verdict == Verdict.HOLDS, told
    assert all(v.verdict == Verdict.HOLDS for v in verification), told
    assert all(v.tolerance.because for v in verification)


def predicts_finite_numbers(here, evidence):
    known = Evidence(here.situation, evidence)
    assert here.predictions
    for prediction in here.predictions:
        predicted, measured = prediction.predicted(known), np.asarray(prediction.measure(known))
        assert np.isfinite(predicted).all(), prediction.name
        assert np.broadcast_shapes(predicted.shape, measured.shape) == measured.shape, prediction.name
        assert prediction.says


# Bounds and conservation laws that hold for any labels: of these other labels are no violation.
WHATEVER_THE_LABELS = {
    "invariances",
    "low_rank_tail",
    "skip_blocks",
    "stable_rank_bound",
    "stably_activated",
    "timor_rank_two",
}
# On other labels these have nothing to say: what they speak about does not come to be.
SILENT = {"deep_low_rank", "margin_kkt", "margin_maximisation", "sarussi"}


def fails_when_tampered_with(here, example, evidence):
    little, much = (shaken(here.situation, evidence, by) for by in (1e-2, 1.0))
    other = relabelled(example)
    verifications = [here.verify(forged) for forged in (little, much, other, *uncertified(evidence))]
    assert verifications[0]["belongs here"].verdict == Verdict.FAILS, (
        "weights shaken by a hundredth belong here"
    )
    own = [{v.verdict for v in found if v.result != "evidence"} for found in verifications]
    assert Verdict.FAILS in own[0] | own[1], "shaken weights pass"
    if here.name in WHATEVER_THE_LABELS:
        assert Verdict.HOLDS in own[2]
        assert Verdict.FAILS not in own[2], f"{here.name} is in WHATEVER_THE_LABELS, but other labels fail"
    elif here.name in SILENT:
        assert Verdict.NOT_MEASURED in own[2]
        assert Verdict.FAILS not in own[2], f"{here.name} is in SILENT, but other labels fail"
    else:
        assert Verdict.FAILS in own[2], (
            f"other labels pass, {own[2]}: if {here.name} speaks about any labels, add its name to "
            "WHATEVER_THE_LABELS; if what it speaks about does not come to be on other labels, to SILENT"
        )
    for prediction in here.predictions:
        verdicts = [found[f"{here.name}: {prediction.name}"].verdict for found in verifications]
        assert Verdict.FAILS in verdicts, (
            f"{prediction.name!r} passes whatever is done to the run: {verdicts}"
        )


def shaken(situation, evidence, by):
    """The evidence with noise in its weights, `by` times as large as they are; its loss stays."""
    rng = np.random.default_rng(0)

    def shake(values):
        noise = rng.normal(size=values.shape)
        axes = tuple(range(1, values.ndim)) if values.ndim > 1 and isinstance(evidence, Trajectory) else None
        size = np.sqrt((values**2).mean(axis=axes, keepdims=axes is not None))
        return values + by * size * noise

    weights = tuple(np.asarray(w, float) for w in evidence.network.weights)
    moved = tuple(
        w + by * np.sqrt((w**2).mean()) * rng.normal(size=w.shape) if trained else w
        for w, trained in zip(weights, evidence.network.trained, strict=True)
    )
    network = eqx.tree_at(lambda n: n.weights, evidence.network, moved)
    if isinstance(evidence, Limit):
        multipliers = evidence.multipliers * 10 ** (by * rng.uniform(-3, 3, len(evidence.multipliers)))
        return replace(evidence, network=network, multipliers=multipliers)
    kept = {name: evidence[name] for name in ("loss",) if name in evidence.dataset.data_vars}
    if "weights" in evidence.dataset:
        flat = shake(evidence["weights"].values)
        flat[-1] = np.concatenate([w.ravel() for w in moved])
        kept["weights"] = (evidence["weights"].dims, flat)
    else:
        for name, values in evidence.dataset.data_vars.items():
            if name not in kept and values.dtype.kind == "f":
                kept[name] = (values.dims, values.values * 10 ** (by * rng.uniform(-3, 3, values.shape)))
    return Trajectory(
        xr.Dataset(kept, coords=evidence.dataset.coords),
        [network],
        evidence.settings,
        events=evidence.events,
        statistics=evidence.statistics,
    )


def relabelled(example):
    """The evidence of a run on the same inputs with other labels: those of the first third are flipped."""
    data = example.situation.data
    y = data.y.copy()
    y[: max(1, len(y) // 3)] *= -1
    if example.situation.loss.targets == "signs" and len(np.unique(y)) < 2:
        y[-1] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.FlowWarning)  # on other labels kinks may attract
        return example.run(replace(example.situation, data=rf.Data(data.x, y, data.name, data.test)))


def uncertified(evidence):
    """A limit that claims neither to be certified nor to be optimal."""
    if not isinstance(evidence, Limit):
        return []
    optimality = evidence.optimality and replace(evidence.optimality, verdict="unknown")
    return [replace(evidence, verdict=LimitVerdict.NOT_DECIDED, optimality=optimality)]


@pytest.mark.parametrize("seed", range(60))
def test_assess_answers_for_any_network_and_data(seed):
    network, data, loss, step = anything(np.random.default_rng(seed))
    answer = assess(network, data, loss, step=step)
    assert {a.status for a in answer} <= set(Status) - {Status.NOT_EXAMINED}
    assert len(answer) == len(RESULTS)
    for a in answer:
        assert a.status is Status.APPLIES or a.why
        assert all(np.isfinite(p.value).all() for p in a.predictions if not callable(p.value))
    assert all(name in str(answer).replace("\n", "") for name in ("status", "predicts"))
    assert "<table>" in answer._repr_html_()
    assert answer.advice.strip()


def anything(rng):
    """A random network with data and a loss that fit it: degenerate ones included."""
    loss = rng.choice(["square", "logistic", "exponential", "cross_entropy"])
    depth, n, dim = int(rng.integers(1, 5)), int(rng.integers(2, 9)), int(rng.integers(1, 7))
    outputs = 3 if loss == "cross_entropy" else 1 if loss != "square" else int(rng.integers(1, 3))
    widths = [dim, *(int(rng.integers(1, 6)) for _ in range(depth - 1)), outputs]
    weights = [
        rng.choice([0.0, 1e-8, 1.0], p=[0.1, 0.4, 0.5]) * rng.normal(size=(o, i)) for i, o in pairwise(widths)
    ]
    biases = [rng.normal(size=len(w)) if rng.random() < 0.2 else None for w in weights]
    trained = [bool(rng.random() < 0.8) for _ in weights]
    trained[0] = trained[0] or not any(trained)
    skips = [None] * depth
    if depth > 1 and rng.random() < 0.2:
        skips[1] = rng.normal(size=(widths[2], widths[0]))
    slope, tail = float(rng.choice([0.0, 0.1, 1.0])), int(rng.integers(1, depth + 1))
    network = rf.Network(weights, biases, slope, trained, tail, skips=skips)
    x = rng.normal(size=(n, dim)) * 10 ** rng.uniform(-3, 3)
    kind = rng.choice(["plain", "zero", "equal", "orthogonal", "symmetric"])
    if kind == "zero":
        x[0] = 0
    elif kind == "equal":
        x[1] = x[0]
    elif kind == "orthogonal":
        x = np.eye(n, dim)
    y = rng.normal(size=(n, outputs)) if loss == "square" else rng.choice([-1.0, 1.0], n)
    if loss == "cross_entropy":
        y = rng.integers(0, 3, n).astype(float)
    elif kind == "symmetric":
        x, y = np.concatenate([x, -x]), np.concatenate([y, -y])
    y[:2] = [0.0, 1.0] if loss == "cross_entropy" else y[:2]
    if loss in ("logistic", "exponential"):
        y[:2] = [1.0, -1.0] if kind != "symmetric" else y[:2]
    return network, rf.Data(x, y), str(loss), [None, 0.1][int(rng.integers(2))]


@pytest.mark.filterwarnings("ignore::rankfall.FlowWarning", "ignore::rankfall.DescentWarning")
@pytest.mark.parametrize("kind", ["flow", "loss clock", "descent", "SGD", "single", "no measures", "limit"])
@pytest.mark.parametrize("seed", range(2))
def test_verify_answers_for_any_evidence(kind, seed):
    network, data, loss, _ = next(
        case
        for number in range(1000 * seed, 1000 * seed + 1000)
        for case in [anything(np.random.default_rng(number))]
        if case[2] in ("logistic", "exponential")
        and case[0].depth <= (2 if kind == "limit" else 3)
        and (kind != "limit" or (case[0].homogeneity and not case[0].has_skips and case[0].trained[0]))
        and np.abs(case[1].x).max() < 10
    )
    measures = ["loss"] if network.has_bias else ["weights", "loss"]
    made = {
        "flow": lambda: rf.flow(network, data, loss, 1.0, measures=measures, budget=300, show=False),
        "loss clock": lambda: rf.flow(
            network, data, loss, 1.0, clock="loss", measures=measures, budget=300, show=False
        ),
        "descent": lambda: rf.descent(network, data, loss, 0.01, 20, measures=measures, show=False),
        "SGD": lambda: rf.descent(network, data, loss, 0.01, 20, batch=2, measures=measures, show=False),
        "single": lambda: rf.descent(
            network.astype(np.float32), data, loss, 0.01, 20, measures=measures, show=False
        ),
        "no measures": lambda: rf.descent(network, data, loss, 0.01, 20, measures=["norms"], show=False),
        "limit": lambda: rf.limit(network, data, loss, budget=100, optimality=False, show=False),
    }
    answer = assess(network, data, loss)
    verification = answer.verify(made[kind]())
    assert verification.verdict in (Verdict.HOLDS, Verdict.FAILS, Verdict.OUTSIDE, Verdict.NOT_MEASURED)
    assert verification["belongs here"].verdict == (
        Verdict.NOT_MEASURED if kind == "no measures" else Verdict.HOLDS
    )
    assert "<table>" in verification._repr_html_()
    # What a proved result predicts does not fail on an honest run.
    assert verification.verdict != Verdict.FAILS, [
        (v.result, v.prediction.name) for v in verification if v.verdict == Verdict.FAILS
    ]


def test_evidence_of_another_network_is_refused():
    here = RESULTS["frei_flow"].example()
    other = rf.Network.fixed_second_layer((12, 4, 1), slope=0.5, sigma=0.1, seed=0)
    run = rf.descent(other, here.situation.data, "exponential", 0.1, 2)
    with pytest.raises(ValueError, match="this evidence is of"):
        assessed(RESULTS["frei_flow"], here.situation).verify(run)
