"""Where several solutions leave one point: each of them followed to its end, and the verdict "not unique"."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rankfall.dynamics.exact import Fork
from rankfall.limits._base import Search
from rankfall.limits._result import Branch, Limit
from rankfall.limits._verdict import Verdict

MOST = 4  # branches that are followed
MORE = 10.0  # times the time of the first branch that each of the others may take


def with_branches(search: Callable[..., Search], seconds: float) -> Limit:
    """The limit that a search finds; if the flow is not unique, with the ends of the other branches."""
    began = time.monotonic()
    first = search(seconds)
    found = first.run()
    fork = first.fork
    if fork is None or found.verdict is Verdict.NOT_SEPARATED:
        return found
    taken = time.monotonic() - began
    ends = []
    for branch in range(1, min(len(fork.others), MOST - 1) + 1):
        left = min(seconds - (time.monotonic() - began), MORE * taken + 1.0)
        if left <= 0 or first.interrupted:
            break
        ends.append(search(left, (branch,)).run())
    return replace(
        found,
        verdict=Verdict.NOT_UNIQUE,
        missing=(_sentence(fork), *found.missing),
        branches=tuple(_branch(end, found) for end in ends),
        document=None,
    )


def _branch(end: Limit, first: Limit) -> Branch:
    rows = [
        np.concatenate([each.W.ravel(), *(b for b in each.network.biases if b is not None)])
        for each in (end, first)
    ]
    sizes = np.linalg.norm(rows[0]) * np.linalg.norm(rows[1])
    cosine = float(rows[0] @ rows[1] / sizes) if sizes > 0 else float("nan")
    return Branch(end.verdict, end.norm, end.stable_rank, cosine)


def _sentence(fork: Fork) -> str:
    count = len(fork.others) + 1
    ways = f"{count} solutions leave" if fork.complete else "several solutions may leave"
    samples = ", ".join(map(str, fork.samples[:8])) + (", ..." if len(fork.samples) > 8 else "")
    when = f"at log t = {fork.log_time:.6g}" if np.isfinite(fork.log_time) else "at the start"
    return f"{when} neuron {fork.neuron} is at the kinks of the samples {samples}, from where {ways}"
