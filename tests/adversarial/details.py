"""Everything about one case: the problem as Python, the answer, and the paths of the oracles."""

from itertools import pairwise

from tests.adversarial import opinion
from tests.adversarial.battery import Case


def everything(case: Case, steps: int) -> str:
    """The report of `--only`."""
    lines = [f"# problem {case.problem.index} of seed {case.problem.seed}: {case.problem}"]
    lines += [case.problem.as_python(), "", f"{case.seconds:.2f} s: {case.verdict or 'no answer'}"]
    lines += [f"! {fault}: {details}" for fault, details in case.faults]
    if case.limit is None:
        return "\n".join([*lines, case.reason])
    lines += ["", str(case.limit), ""]
    if case.opinion is not None:
        found = case.opinion
        lines.append(f"the oracles: {found.word}, {found.why} (distance {found.distance:.3g})")
        asked = opinion.question(case.limit, case.problem, steps)
        for path in (*found.paths, asked.descent(1)[0]):
            lines += marks(path, asked)
    return "\n".join(lines)


def marks(path, asked) -> list[str]:
    """A run, mark by mark: clock, smallest margin, and how far state and increment are from the limit."""
    lines = [f"  {path.steps} steps"]
    for before, now in pairwise(path.marks[-14:]):
        state, last = (
            m.theta if asked.problem.both or asked.problem.square else m.w[asked.problem.a != 0]
            for m in (now, before)
        )
        away = asked.distance(state, asked.target)
        turned = opinion.one_minus_cos(state - last, asked.target)
        q = (asked.problem.y * now.outputs).min()
        lines.append(
            f"    clock {now.clock:10.4g}  margin {q:10.4g}"
            f"  distance {away:9.2e}  of the increment {turned:9.2e}"
        )
    return lines
