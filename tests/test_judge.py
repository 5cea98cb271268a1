import numpy as np
import pytest
import xarray as xr

from rankfall.judge import Check, Verdict, at_least, at_most, between, near


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "told"),
    [
        (at_most(2.0, "so"), [-np.inf, 0, 2], [2.001, np.inf, np.nan], "≤ 2"),
        (at_least(2.0, "so"), [2, np.inf], [1.999, -np.inf, np.nan], "≥ 2"),
        (between(1.0, 2.0, "so"), [1, 1.5, 2], [0.999, 2.001, np.nan], "1 to 2"),
        (near(-4.0, 0.5, "so"), [-4.5, -4, -3.5], [-4.6, -3.4, np.nan], "-4 ± 0.5"),
        (near(-4.0, 0.25, "so", relative=True), [-5, -3], [-5.1, -2.9], "-4 ± 25 %"),
    ],
)
def test_an_interval_holds_its_ends_and_never_a_nan(interval, inside, outside, told):
    assert interval.contains(np.array(inside, dtype=float)).all()
    assert not interval.contains(np.array(outside, dtype=float)).any()
    assert (interval.told, interval.because) == (told, "so")


def test_ends_that_are_arrays_are_compared_entry_by_entry_for_every_seed():
    runs = xr.Dataset({"rank": (("seed", "layer"), [[1.0, 2.0], [1.0, 2.5]])})
    found = Check("ranks", lambda runs: runs["rank"], near([1.0, 2.0], 0.1, "the theorem")).on(runs)
    assert found.within.tolist() == [[True, True], [True, False]]
    assert not found.holds
    assert str(found) == "1 to 2.5, median 1.5; 3 of 4 within"


def test_no_number_proves_nothing():
    empty = Check("none", lambda runs: [], at_most(1.0, "so")).on(xr.Dataset())
    assert not empty.holds
    assert str(empty) == "nothing was measured"


def test_every_verdict_is_its_text_and_has_a_meaning():
    assert all(verdict == verdict.value and verdict.meaning for verdict in Verdict)
    assert len({verdict.meaning for verdict in Verdict}) == len(Verdict)
