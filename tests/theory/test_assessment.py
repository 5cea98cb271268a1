import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import optax
import pytest

import rankfall as rf
from rankfall.judge import Verdict, at_most
from rankfall.theory import RESULTS, Prediction, Relation, Status, assess, assessed
from rankfall.theory.core.advice import advise
from rankfall.theory.core.evidence import Evidence
from rankfall.theory.core.result import Advice, Subject

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def situation():
    data = rf.data.symmetric_sine(pairs=20, dim=3, seed=0)
    return rf.Network.rank_one((3, 6, 1), slope=0.0, scale=0.3, seed=0), data


def test_every_result_is_listed_with_its_page_and_has_its_figure_there():
    missing = [sentence for name in RESULTS for sentence in missing_in_docs(name)]
    assert not missing, "\n".join(["the documentation lacks:", *missing])


def missing_in_docs(name):
    """What the documentation lacks of a result."""
    listed = (DOCS / "theory" / "index.md").read_text(encoding="utf-8")
    if not (DOCS / "assets" / "theory" / f"{name}.png").exists():
        yield f"the figure of {name}: run .venv/bin/python docs/theory_figures.py {name}"
    line = re.search(rf"^\| \[`{name}`\]\((\w+\.md)\)", listed, flags=re.MULTILINE)
    if line is None:
        yield f"a line of the table in docs/theory/index.md: | [`{name}`](PAGE.md) | ... |"
        return
    page = DOCS / "theory" / line[1]
    if f"theory/{page.name}\n" not in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"):
        yield f"a line in the nav of mkdocs.yml: - TITLE: theory/{page.name}"
    if not page.exists():
        yield f"the page docs/theory/{page.name} of {name}"
    elif f"(../assets/theory/{name}.png)" not in page.read_text(encoding="utf-8"):
        yield f"the figure on its page docs/theory/{page.name}: ![...](../assets/theory/{name}.png)"


def test_a_result_of_ones_own_is_assessed_with_the_others_or_alone(situation):
    mine = replace(RESULTS["linear_equivalence"], name="mine")
    alone = assess(*situation, "square", results=[mine])
    assert [each.name for each in alone] == ["mine"]
    assert alone["mine"].status is Status.APPLIES
    with pytest.raises(ValueError, match="two results have the name 'mine'"):
        assess(*situation, "square", results=[mine, mine])


def test_the_answer_is_a_table_in_a_terminal_and_in_a_notebook(situation):
    answer = assess(*situation, "square")
    text, html = str(answer), answer._repr_html_()
    assert "linear_equivalence" in html
    assert html.count("<tr>") == len(RESULTS) + 1
    assert "applies" in text
    assert "needs" in text
    assert "&lt;" in html  # signs in sentences are escaped


def test_each_status_has_its_colour():
    network = rf.Network.fixed_second_layer((784, 20, 1), slope=0.1, sigma=1e-4, seed=0)
    answer = assess(network, rf.data.gaussian_mixture(n=10, dim=784, balanced=True, seed=0), "exponential")
    cells = list(answer.__rich__().columns[2].cells)
    found = {cell.plain.split(":")[0]: {str(span.style) for span in cell.spans} for cell in cells}
    assert found["applies"] == {"green"}
    assert found["applies up to a violation"] == {"yellow"}
    assert found["does not apply"] == {"dim"}


def test_statuses_and_verdicts_are_values_whose_text_is_what_is_shown(situation):
    network, data = situation
    here = assess(network, data, "square")["linear_equivalence"]
    run = rf.descent(network, data, "square", 0.1, 5, measures=["weights", "loss"], show=False)
    assert here.status is Status.APPLIES
    assert here.verify(run).verdict is Verdict.HOLDS
    assert (str(here.status), str(here.verify(run).verdict)) == ("applies", "holds")


def test_a_hypothesis_is_found_by_its_id(situation):
    here = assess(*situation, "square")["frei_flow"]
    found = here.hypothesis("second-layer-fixed")
    assert found in here.violated
    assert (found.name, found.measured) == ("second layer +-c, fixed", "2 layers, 1 output, all trained")
    with pytest.raises(ValueError, match="Did you mean 'second-layer-fixed'"):
        here.hypothesis("second-layer-fix")


def test_the_results_that_speak_come_first(situation):
    answer = assess(*situation, "square")
    assert "linear_equivalence" in [a.name for a in answer.speaking]
    assert len(answer.speaking) + len(answer.silent) == len(answer)
    assert all(a.why for a in answer.silent)


def test_unknown_names_are_answered_with_the_closest(situation):
    with pytest.raises(ValueError, match="Did you mean 'linear_equivalence'"):
        assess(*situation, "square")["linear_equivalenc"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"step": -1.0}, "step size"), ({"step": np.nan}, "step size"), ({"penalty": -1.0}, "penalty")],
)
def test_bad_input_is_a_sentence(situation, wrong, said):
    with pytest.raises(ValueError, match=said):
        assess(*situation, "square", **wrong)


def test_data_that_do_not_fit_the_network_are_refused(situation):
    with pytest.raises(ValueError, match="features"):
        assess(situation[0], rf.data.xor(), "square")


def test_what_a_run_does_not_tell_is_said_with_what_to_record(situation):
    run = rf.descent(*situation, "square", 0.1, 10, measures=["loss"], show=False)
    verification = assess(*situation, "square")["linear_equivalence"].verify(run)
    assert verification["weights"].verdict == "not measured"
    assert "record" in verification["weights"].note
    assert verification["belongs here"].verdict == "holds"


def test_a_run_that_is_not_of_these_data_fails(situation):
    network, data = situation
    run = rf.descent(network, rf.Data(data.x, data.y + 1), "square", 0.1, 50, show=False)
    answer = assess(network, data, "square")
    assert answer.verify(run)["belongs here"].verdict == "fails"
    assert answer.verify(run).verdict == "fails"


def test_outside_of_its_hypotheses_is_not_a_failure():
    data = rf.data.gaussian_mixture(n=10, dim=784, balanced=True, seed=0)
    network = rf.Network.fixed_second_layer((784, 20, 1), slope=0.01, sigma=1e-4, seed=0)
    here = assess(network, data, "exponential")["frei_flow"]
    verification = here.verify(rf.limit(network, data, optimality=False, show=False))
    assert verification.verdict == "outside its hypotheses"
    assert "differs" in str(verification)


def test_a_measurement_that_is_not_a_number_fails(situation):
    network, data = situation
    run = rf.descent(network, data, "square", 0.1, 5, show=False)
    odd = Prediction("odd", "nothing", 1.0, lambda e: np.nan, at_most(np.inf, "anything"))
    result = replace(RESULTS["linear_equivalence"], predictions=lambda s: [odd])
    here = assessed(result, assess(network, data, "square").situation)
    assert here.verify(run)["odd"].verdict == "fails"


@pytest.mark.parametrize(
    ("relation", "measured", "error"),
    [
        (Relation.EQUALS, [3.0, 8.0], 0.8),
        (Relation.AT_MOST, [3.0, 4.5], 0.125),
        (Relation.AT_MOST, [2.0, 1.0], 0.0),
        (Relation.AT_LEAST, [3.0, 3.0], 0.25),
    ],
)
def test_errors_are_relative_to_what_was_predicted(relation, measured, error):
    prediction = Prediction("p", "says", [3.0, 4.0], None, at_most(0.0, "none"), relation)
    assert np.isclose(prediction.error(np.array([3.0, 4.0]), np.array(measured)), error)


def test_measures_come_from_the_recorded_weights_where_they_were_not_recorded(situation):
    network, data = situation
    run = rf.descent(network, data, "square", 0.1, 20, measures=["weights", "stable_rank"], show=False)
    only = rf.descent(network, data, "square", 0.1, 20, measures=["weights"], show=False)
    here = assess(network, data, "square").situation
    assert np.allclose(
        Evidence(here, only).series("stable_rank"), Evidence(here, run).series("stable_rank"), rtol=1e-6
    )


def test_several_networks_are_verified_one_by_one(situation):
    network, data = situation
    run = rf.descent([network, network], data, "square", 0.1, 3, show=False)
    with pytest.raises(ValueError, match="one by one"):
        assess(network, data, "square").verify(run)


def test_the_advice_for_symmetric_data_names_the_share_that_a_linear_map_explains():
    data = rf.data.symmetric_sine(pairs=500, dim=3, seed=0)
    network = rf.Network.gaussian((3, 50, 1), slope=0.0, scale=1e-4, seed=0)
    w = np.linalg.lstsq(data.x, data.y, rcond=None)[0]
    share = 1 - ((data.y - data.x @ w) ** 2).sum() / (data.y**2).sum()
    advice = assess(network, data, "square").advice
    assert f"{100 * share:.0f} %" in advice
    assert "biases" in advice


def test_advice_of_what_applies_comes_first_and_then_what_cannot_be_learned():
    near = Advice(Subject.WHAT_CAN_BE_LEARNED, "near", "symmetric data: 0.1, needs ≤ 1e-12")
    found = [near, *(Advice(subject, subject.name) for subject in reversed(Subject))]
    while found:
        best = min(found, key=lambda a: (bool(a.violation), list(Subject).index(a.subject)))
        assert best.text in advise(None, found)
        found.remove(best)


def test_advice_falls_back_on_what_is_known_of_the_data():
    rng = np.random.default_rng(0)
    data = rf.Data(rng.normal(size=(60, 3)), np.where(np.arange(60) % 2, 1.0, -1.0))
    network = rf.Network.gaussian((3, 5, 5, 1), slope=0.0, scale=1.0, seed=0, bias=True)
    assert "not linearly separable" in assess(network, data, "logistic").advice
    aligned = rf.Data(data.x, np.where(data.x[:, 0] > 0, 1.0, -1.0))
    assert "linearly separable with the margin" in assess(network, aligned, "logistic").advice


def test_an_unfinished_limit_is_not_judged():
    s = RESULTS["end_point_logistic"].example().situation
    unfinished = rf.limit(s.network, s.data, s.loss, budget=60, optimality=False, show=False)
    verification = assessed(RESULTS["end_point_logistic"], s).verify(unfinished)
    assert verification.verdict == "not measured"
    assert "finished search" in verification["hard-margin SVM"].note


def test_a_run_is_judged_by_the_way_it_was_trained():
    s = RESULTS["invariances"].example().situation
    here = assessed(RESULTS["invariances"], s)
    measures = ["weights", "loss"]
    steps = rf.descent(s.network, s.data, s.loss, 0.01, 20, measures=measures, show=False)
    batches = rf.descent(s.network, s.data, s.loss, 0.01, 20, batch=2, measures=measures, show=False)
    adam = rf.descent(
        s.network, s.data, s.loss, 0.01, 20, optimiser=optax.adam, measures=measures, show=False
    )
    assert here.verify(steps).verdict == "outside its hypotheses"  # descent is not flow
    assert "SGD" in here.verify(batches)["neurons"].note
    assert "plain descent, not adam" in here.verify(adam)["neurons"].note
    based = rf.descent(s.network, s.data, s.loss, rf.LossBased(), 20, measures=measures, show=False)
    assert "steps of one size, not loss-based" in here.verify(based)["neurons"].note
    long = rf.descent(s.network, s.data, s.loss, 0.5, 3, measures=measures, show=False)
    assert "does not apply to this run" in here.verify(long)["neurons"].note


def test_a_run_from_another_start_fails(situation):
    network, data = situation
    other = rf.Network.rank_one((3, 6, 1), slope=0.0, scale=0.3, seed=1)
    run = rf.descent(other, data, "square", 0.1, 5, measures=["weights", "loss"], show=False)
    assert assess(network, data, "square").verify(run)["starts here"].verdict == "fails"
    leaky = rf.Network(network.weights, slope=0.5)
    with pytest.raises(ValueError, match="this evidence is of"):
        assess(leaky, data, "square").verify(run)


def test_a_refuted_conjecture_does_not_fail_a_limit():
    data = rf.data.orthogonal(n=6, dim=10, seed=0)
    network = rf.Network.fixed_second_layer((10, 24, 1), slope=0.0, sigma=0.1, seed=0)
    verification = assess(network, data, "exponential").verify(
        rf.limit(network, data, optimality=False, show=False)
    )
    assert verification["stable rank at most 2"].verdict == "fails"
    assert verification.verdict == "holds"
    with pytest.raises(ValueError, match="several results predict 'equal margins': say which"):
        verification["equal margins"]


def test_a_fit_down_to_rounding_belongs_to_its_run():
    rng = np.random.default_rng(0)
    data = rf.Data(rng.normal(size=(4, 6)), rng.normal(size=4))
    network = rf.Network.gaussian((6, 10, 1), slope=0.2, scale=1.0, seed=0)
    run = rf.descent(network, data, "square", 0.05, 20000, record=[20000], show=False)
    assert run.loss[-1] < 1e-25
    assert assess(network, data, "square").verify(run)["belongs here"].verdict == "holds"


def test_single_precision_is_allowed_for(situation):
    network, data = situation
    run = rf.descent(
        network.astype(np.float32), data, "square", 0.1, 30, measures=["weights", "loss"], show=False
    )
    verdict = assess(network, data, "square")["linear_equivalence"].verify(run)["weights"]
    assert verdict.verdict == "holds"
    assert "single precision" in verdict.tolerance.because
