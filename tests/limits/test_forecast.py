"""How many events a search expects."""

from rankfall.limits._forecast import Forecast


def after(counts, pairs=1000):
    """A forecast that has seen these events at doublings of the clock, and the last of them."""
    forecast = Forecast(pairs)
    for place, events in enumerate(counts):
        forecast.update(2.0**place, events)
    return forecast, counts[-1]


def test_as_many_events_as_pairs_are_expected_at_first():
    forecast, events = after([0, 10, 30, 70])
    assert forecast.expected(events) == 1000


def test_more_than_so_many_have_happened_already_are_expected():
    forecast, events = after([0, 400, 900, 1500])
    assert forecast.expected(events) == 1500


def test_events_that_halve_with_each_doubling_of_the_clock_add_up():
    forecast, events = after([800, 1200, 1400, 1500, 1550])  # 400, 200, 100, 50, and so 50 more
    assert forecast.expected(events) == 1600


def test_the_clock_has_to_double_before_events_count():
    forecast = Forecast(10)
    for clock, events in ((1.0, 5), (1.1, 9), (1.2, 12)):
        forecast.update(clock, events)
    assert forecast.expected(12) == 12
