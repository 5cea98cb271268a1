"""What the judges say, as a table by kind of data and a list of faults."""

import re
from collections import Counter

from tests.adversarial import opinion
from tests.adversarial.battery import (
    AT_REST,
    CERTIFIED,
    FAULTS,
    FOLLOWED,
    LIMITS,
    NOT_SEPARATED,
    NOT_UNIQUE,
    REFUSED,
    Case,
)
from tests.adversarial.problems import KINDS

COLUMNS = (
    *("problems", "certified", "at rest", "followed", "forked", "not sep.", "refused", "open"),
    *("agrees", "unsure", "denies"),
    *("crash", "wrong", "printed", "not rest", "late", "warned"),
)
LEGEND = """\
The verdicts of limit: certified; at rest; followed; forked (not unique); not sep. (not separated); refused
(bad input, with a clear sentence); open (no answer). What the oracles say of limits that are claimed: agrees,
unsure, denies. Faults: crash; wrong certificate; printed numbers that do not rebuild W; not rest ("not
separated" where the flow separates the data); late; NumPy warnings that reach the user."""


def table(cases: list[Case], seconds: float) -> str:
    """Kinds of data in rows, verdicts, opinions and faults in columns, and why the rest is open."""
    head = f"{'data':28}" + "".join(f"{name:>10}" for name in COLUMNS)
    lines = [f"limit with {seconds:g} s for each problem", "", head, "-" * len(head)]
    groups = {kind: [case for case in cases if case.problem.kind == kind] for kind in KINDS}
    for kind, group in [*groups.items(), ("all", cases)]:
        if group:
            lines.append(f"{kind:28}" + "".join(f"{value:>10}" for value in row(group)))
    asked = [case for case in cases if case.verdict != REFUSED]
    ended = sum(case.verdict in (*LIMITS, NOT_UNIQUE, NOT_SEPARATED) for case in asked)
    limits = sum(case.verdict in LIMITS for case in asked)
    can = [case for case in asked if not case.problem.both and not case.problem.square]
    proved = sum(case.verdict == CERTIFIED for case in can)
    lines += ["", LEGEND, ""]
    lines.append(f"certified, of those with a fixed second layer and margins: {of(proved, len(can))}")
    lines.append(f"certified, at rest or followed: {of(limits, len(asked))}")
    lines.append(f"answered: {of(ended, len(asked))}")
    lines.append(f"out of time: {of(sum(case.out_of_time for case in asked), len(asked))}")
    unanswered = [case for case in cases if case.open]
    settled = [str(case.problem.index) for case in unanswered if case.settles]
    lines.append(f"open: {len(unanswered)}, of which the flow with rounded kinks settles in {len(settled)}")
    lines += [f"  these are --only {' '.join(settled)}"] if settled else []
    lines += counted("why they are open:", Counter(without_numbers(case.reason) for case in unanswered))
    undecided = (c.opinion.why for c in cases if c.opinion and c.opinion.word == opinion.UNDECIDED)
    lines += counted("why the oracles are undecided:", Counter(undecided))
    return "\n".join(lines)


def row(group: list[Case]) -> list[str]:
    verdicts = Counter(case.verdict for case in group)
    words = Counter(case.opinion.word for case in group if case.opinion)
    faults = Counter(fault for case in group for fault in {name for name, _ in case.faults})
    numbers = [verdicts[name] for name in (AT_REST, FOLLOWED, NOT_UNIQUE, NOT_SEPARATED, REFUSED)]
    numbers += [sum(case.open for case in group)]
    numbers += [words[word] for word in (opinion.AGREES, opinion.UNDECIDED, opinion.CONTRADICTS)]
    numbers += [faults[fault] for fault in FAULTS]
    certified = verdicts[CERTIFIED]
    first = [str(len(group)), f"{certified} ({share(certified, len(group))})"]
    return first + [str(number) if number else "." for number in numbers]


def of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({share(part, whole)})"


def share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.0f}%"


def without_numbers(reason: str) -> str:
    """The first reason without its numbers, so that equal reasons count together."""
    return re.sub(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", reason.split("; ")[0])


def counted(title: str, counts: Counter[str]) -> list[str]:
    return [title, *(f"  {count:5}  {reason}" for reason, count in counts.most_common())] if counts else []


def faults(cases: list[Case], seconds: float) -> str:
    """Every fault, with the command that runs its problem again alone."""
    lines = []
    for case in cases:
        p = case.problem
        for fault, details in case.faults:
            lines += [
                f"{fault}: {p}",
                f"    {details.strip().splitlines()[-1]}",
                f"    python -m tests.adversarial --seed {p.seed} --only {p.index} --seconds {seconds:g}",
            ]
    return "\n".join(lines) or "no faults"
