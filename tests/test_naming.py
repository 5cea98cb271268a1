import pytest

from rankfall._naming import closest, suggestion, unknown

LOSSES = ["square", "logistic", "exponential", "cross_entropy"]


def test_an_unknown_name_is_answered_with_the_closest_known_one_and_all_of_them():
    error = unknown("loss", "sqare", LOSSES)
    assert isinstance(error, ValueError)
    assert str(error) == (
        "unknown loss 'sqare'. Did you mean 'square'? Known: square, logistic, exponential, cross_entropy."
    )


def test_a_name_like_no_other_gets_no_guess():
    assert str(unknown("loss", "zzz", LOSSES)).startswith("unknown loss 'zzz'. Known: square")


@pytest.mark.parametrize("name", ["SQUARE", "Square", "squares"])
def test_the_case_of_a_name_does_not_matter_for_the_guess(name):
    assert closest(name, LOSSES) == "square"


def test_the_guess_has_the_spelling_of_the_known_name():
    assert closest("event_free", ["Event_Free", "Age"]) == "Event_Free"


def test_of_a_long_list_only_the_beginning_is_shown():
    text = suggestion("gene", [f"gene{i}" for i in range(10_000)])
    assert text.endswith("gene19 and 9980 more.")
    assert len(text) < 300


def test_any_iterable_of_names_will_do_and_an_empty_one_is_said():
    assert closest("b", iter(["a", "b"])) == "b"
    assert "Known: a, b." in suggestion("c", dict.fromkeys("ab"))
    assert suggestion("c", []) == "None is known."


def test_a_name_that_is_no_string_is_answered_too():
    assert str(unknown("loss", 3, LOSSES)).startswith("unknown loss 3. Known:")
