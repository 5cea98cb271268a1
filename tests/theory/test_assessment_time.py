"""An assessment that ends early: what is known then, and what is said about the rest."""

import os
import signal
import time
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

import rankfall as rf
from rankfall.theory import RESULTS, Assessment, Stopped, assess
from rankfall.theory.core.watch import watched
from rankfall.theory.examination import examine

FAR = 120.0  # seconds that no test waits for


@pytest.fixture(scope="module")
def situation():
    """A situation in which no result takes long: what JAX has to compile for it is compiled."""
    data = rf.data.symmetric_sine(pairs=20, dim=3, seed=0)
    return assess(rf.Network.rank_one((3, 6, 1), slope=0.0, scale=0.3, seed=0), data, "square").situation


def results_with(odd):
    """A result that applies, one whose hypotheses are those of `odd`, and one more."""
    first, last = RESULTS["linear_equivalence"], RESULTS["expressivity"]
    return {"first": first, "odd": replace(first, name="odd", hypotheses=odd), "last": last}


class Long:
    """Hypotheses that take long; `finished` if they were measured to the end."""

    def __init__(self, seconds):
        self.seconds, self.finished = seconds, False

    def __call__(self, situation):
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            np.linalg.norm(np.ones(10))
        self.finished = True
        return RESULTS["linear_equivalence"].hypotheses(situation)


def press_ctrl_c(situation):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(FAR)


def test_what_was_not_examined_when_the_time_is_spent_is_listed_with_the_reason(situation):
    long = Long(FAR)
    answer = examine(results_with(long), situation, seconds=1.0, show=False)
    assert [a.status for a in answer] == ["applies", "not examined", "not examined"]
    assert [a.name for a in answer.unexamined] == ["odd", "expressivity"]
    assert answer.stopped is Stopped.TIME
    assert {a.why for a in answer.unexamined} == {"the time was spent"}
    assert all(a.predictions == () and a.advice is None for a in answer.unexamined)
    assert not long.finished  # it was cut off in the midst of a result
    assert answer.missing.startswith(
        "2 of 3 results were not examined: the time was spent. Give `assess` more"
    )
    assert "theory.assessed(theory.RESULTS['odd'], answer.situation)" in answer.missing


def test_what_was_examined_in_time_is_what_it_would_have_been(situation):
    partly = examine(results_with(Long(FAR)), situation, seconds=1.0, show=False)
    whole = assess(situation.network, situation.data, "square", seconds=FAR)
    assert whole.stopped is None
    assert whole.missing == ""
    assert whole.unexamined == ()
    told = [h.measured for h in whole["linear_equivalence"].hypotheses]
    assert [h.measured for h in partly["linear_equivalence"].hypotheses] == told
    says = [p.says for p in whole["linear_equivalence"].predictions]
    assert [p.says for p in partly["linear_equivalence"].predictions] == says


def test_ctrl_c_gives_what_is_known(situation):
    answer = examine(results_with(press_ctrl_c), situation, seconds=FAR, show=False)
    assert [a.status for a in answer] == ["applies", "not examined", "not examined"]
    assert answer.stopped is Stopped.INTERRUPTED
    assert {a.why for a in answer.unexamined} == {"interrupted"}
    assert "Call `assess` again" in answer.missing


def test_every_result_is_in_the_table_with_its_status(situation):
    answer = assess(situation.network, situation.data, "square", seconds=1e-9)
    assert len(answer.unexamined) == len(RESULTS)
    cells = list(answer.__rich__().columns[2].cells)
    assert [cell.plain for cell in cells] == ["not examined: the time was spent"] * len(RESULTS)
    assert {str(span.style) for cell in cells for span in cell.spans} == {"magenta"}
    assert f"{len(RESULTS)} of {len(RESULTS)} results were not examined" in str(answer)


def test_advice_takes_no_more_time_when_the_time_is_spent():
    data = rf.data.gaussian_mixture(n=10, dim=20, seed=0)
    network = rf.Network.gaussian((20, 4, 1), slope=0.0, scale=1.0, seed=0)
    answer = assess(network, data, "logistic", seconds=1e-9)
    assert answer.advice == answer.missing
    assert vars(answer.situation).keys() == {"network", "data", "loss", "step", "penalty"}  # nothing measured


def test_the_predictions_are_part_of_the_examination(situation):
    answer = assess(situation.network, situation.data, "square", show=False)
    assert all("predictions" in vars(a) and "advice" in vars(a) for a in answer)


def test_a_run_is_compared_with_what_was_examined(situation):
    answer = examine(results_with(press_ctrl_c), situation, seconds=FAR, show=False)
    run = rf.descent(situation.network, situation.data, "square", 0.05, 20, measures=["weights", "loss"])
    assert {v.result for v in answer.verify(run)} == {"evidence", "linear_equivalence"}


def test_a_result_that_takes_more_than_two_seconds_shows_progress_meanwhile(situation, capsys):
    long = Long(FAR)
    examine(results_with(long), situation, seconds=2.5, show=True)
    assert "assess: 25% odd" in capsys.readouterr().err
    examine(results_with(long), situation, seconds=2.5, show=False)
    assert capsys.readouterr().err == ""


def test_outside_of_the_main_thread_a_result_that_was_begun_is_finished(situation):
    answers, long = [], Long(0.5)
    worker = Thread(target=lambda: answers.append(examine(results_with(long), situation, 0.4, False)))
    worker.start()
    worker.join()
    (answer,) = answers
    assert long.finished
    assert [a.name for a in answer.unexamined] == ["expressivity"]
    assert answer.stopped is Stopped.TIME


def test_the_signals_are_afterwards_what_they_were_and_a_users_own_alarm_is_left_alone(situation):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    try:
        examine(results_with(Long(FAR)), situation, seconds=0.3, show=False)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        answer = examine(results_with(Long(0.6)), situation, seconds=FAR, show=False)
        assert rang == [True]
        assert answer.stopped is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_look_that_raises_ends_the_block_once():
    looks = []

    def look():
        looks.append(True)
        raise KeyboardInterrupt

    def work():
        try:
            time.sleep(FAR)
        finally:
            time.sleep(0.3)  # several looks later
            cleaned.append(True)

    cleaned = []
    with pytest.raises(KeyboardInterrupt), watched(look):
        work()
    assert cleaned == [True]
    assert looks == [True]


def test_a_block_that_swallows_ctrl_c_is_ended_all_the_same():
    """Compiled code that calls back into Python prints an exception there, and goes on."""
    swallowed = []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(FAR)

    def stubborn():
        try:
            work()
        except KeyboardInterrupt:
            swallowed.append(True)
        time.sleep(FAR)

    with pytest.raises(KeyboardInterrupt), watched(lambda: None):
        stubborn()
    assert swallowed == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("seconds", [0.0, -1.0, np.nan])
def test_seconds_that_are_not_positive_are_refused(situation, seconds):
    with pytest.raises(ValueError, match="the seconds must be positive"):
        assess(situation.network, situation.data, "square", seconds=seconds)


def test_an_assessment_of_some_results_is_finished_unless_it_says_otherwise(situation):
    answer = assess(situation.network, situation.data, "square")
    assert Assessment(situation, answer.speaking).missing == ""
