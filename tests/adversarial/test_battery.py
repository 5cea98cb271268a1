"""A small slice of the battery; `make test-adversarial` runs as much of it as one likes."""

import pytest

from tests.adversarial import battery, table

SERIOUS = (battery.CRASH, battery.WRONG, battery.WRONG_REST)


@pytest.mark.slow
def test_no_answer_to_forty_random_problems_is_wrong():
    cases = list(battery.run(seed=2, indices=range(40), seconds=0.5, steps=1500))
    wrong = [case for case in cases if any(fault in SERIOUS for fault, _ in case.faults)]
    assert not wrong, table.faults(wrong, 0.5)
