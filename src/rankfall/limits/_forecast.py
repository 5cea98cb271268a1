"""How many events a search is to expect: from the pairs of neuron and sample, then from the events so far."""

import math
from itertools import pairwise

FALLING = 3  # doublings of the clock in a row, each with fewer events than the one before


class Forecast:
    """An estimate of all events of a run: as many as there are pairs, until fewer and fewer come.

    From then on the events in each doubling of the clock are taken to fall as they have fallen. On tables and
    gene expression there are from half an event to three events for each pair.
    """

    def __init__(self, pairs: int):
        self.pairs, self._counts = pairs, [0]  # events up to each doubling
        self._place = -math.inf

    def update(self, clock: float, events: int) -> None:
        """So many events up to this clock."""
        place = math.log2(clock) if clock > 0 else -math.inf
        if place >= self._place + 1:
            self._counts, self._place = [*self._counts, events][-FALLING - 2 :], place

    def expected(self, events: int) -> int:
        """All events that are expected, after so many."""
        each = [after - before for before, after in pairwise(self._counts)]
        falls = len(each) > FALLING and all(before > after for before, after in pairwise(each))
        if not falls:
            return max(self.pairs, events)
        share = (each[-1] / each[0]) ** (1 / (len(each) - 1))
        return max(events, round(self._counts[-1] + each[-1] * share / (1 - share)))
