"""A slice of the comparison of both routes; `python -m tests.adversarial.routes` has more."""

import pytest

from tests.adversarial import routes


@pytest.mark.slow
def test_the_large_route_answers_and_never_says_certified():
    cases = list(routes.run(seed=0, indices=(7, 23), seconds=600))
    assert not any(case.faults for case in cases), routes.faults(cases, 0, 600)
    assert all(case.verdict("exact") == "certified" for case in cases)
    assert all(case.verdict("large") == "approximate route" for case in cases)
