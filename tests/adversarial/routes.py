"""The approximate route of large problems against the exact one, on problems small enough for both."""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported: the matrices are tiny

import numpy as np

import rankfall
from tests.adversarial import printed
from tests.adversarial.battery import CERTIFIED, CRASH, HardStop, alarms, network_and_data
from tests.adversarial.opinion import one_minus_cos
from tests.adversarial.problems import KINDS, Problem, start
from tests.adversarial.table import counted, without_numbers

SAME = 1e-9  # 1 - cos of two limits that agree
SLOPES = (0.0, 0.01, 0.1, 0.5)
LOSSES = ("exponential", "logistic")
ROUTES = {"exact": {}, "large": {"large": 0}}  # options of limit
APPROXIMATE = "approximate route"
ANSWERS = (CERTIFIED, APPROXIMATE)
LIES, REJECTED = '"certified" on the large route', "rejected by the checker"
FAULTS = (CRASH, LIES, REJECTED)
MIXTURE = "Gaussian mixture"
COLUMNS = (
    "problems",
    "both",
    "agree",
    "differ",
    "only exact",
    "only large",
    "neither",
    *("exact s", "large s"),
)
LEGEND = f"""\
Problems that both routes answer, and whether they agree (1 - cos < {SAME:g}) or differ; that one of them
answers, or neither. The seconds are means. That they differ is no fault: the limit is not a continuous
function of the state, and the large route says "{APPROXIMATE}". Faults are crashes, a large route that says
"{CERTIFIED}", and certificates that the stand-alone checker rejects."""


@dataclass
class Case:
    """One problem, and what `limit` says of it on each route."""

    problem: Problem
    limits: dict[str, rankfall.Limit] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)  # (kind of fault, details)

    def verdict(self, route: str) -> str:
        return str(self.limits[route].verdict) if route in self.limits else CRASH

    def answers(self, *routes: str) -> bool:
        return all(self.verdict(route) in ANSWERS for route in routes)

    @property
    def distance(self) -> float:
        """1 - cos of the two limits."""
        alive = self.problem.a != 0
        return one_minus_cos(
            *(printed.weights(limit, self.problem)[0][alive] for limit in self.limits.values())
        )

    @property
    def distance_of_multipliers(self) -> float:
        """The largest difference, relative to the largest multiplier."""
        exact, large = (limit.multipliers for limit in self.limits.values())
        return float(np.abs(exact - large).max() / exact.max())

    @property
    def agree(self) -> bool:
        return self.answers(*ROUTES) and self.distance < SAME


def problem(seed: int, index: int) -> Problem:
    """Every second problem is a Gaussian mixture; the others are small, and the kinds of data take turns."""
    rng = np.random.default_rng([seed, index])
    slope, loss = float(rng.choice(SLOPES)), str(rng.choice(LOSSES))
    if index % 2:
        n, d, m = int(rng.integers(10, 41)), int(rng.integers(20, 101)), int(rng.integers(10, 61))
        y = rng.permutation(np.where(np.arange(n) % 2, 1.0, -1.0))
        x = y[:, None] * rng.normal(size=d) * rng.choice((0.01, 0.3)) + rng.normal(size=(n, d))
        rows = rng.normal(size=(m, d + 1)) * 10.0 ** rng.uniform(-4, 0)
        w, b, a = rows[:, :d], rows[:, d], np.where(np.arange(m) % 2, 1.0, -1.0) / np.sqrt(m)
        return Problem(
            seed, index, MIXTURE, x, y, w, b if rng.random() < 0.5 else None, a, slope, loss, False
        )
    kind = list(KINDS)[index // 2 % len(KINDS)]
    x, y, bias = KINDS[kind](rng)
    if abs(y.sum()) == len(y):  # one class only is refused
        y[0] *= -1
    bias = bool(rng.random() < 0.4) if bias is None else bias
    w, b, a = start(rng, int(rng.choice((2, 4, 8, 12, 20))), x.shape[1], bias, both=False)
    return Problem(seed, index, kind, x, y, w, b, a, slope, loss, False)


def compare(seed: int, index: int, seconds: float) -> Case:
    """One problem on both routes."""
    case = Case(problem(seed, index))
    for route, options in ROUTES.items():
        began = time.perf_counter()
        try:
            with alarms(None, 5 * seconds + 10):
                network, data = network_and_data(case.problem)
                case.limits[route] = rankfall.limit(
                    network, data, case.problem.loss, seconds=seconds, show=False, optimality=False, **options
                )
        except (Exception, HardStop):
            case.faults.append((CRASH, f"{route} route: {traceback.format_exc()}"))
        case.seconds[route] = time.perf_counter() - began
    if case.verdict("large") == CERTIFIED:
        case.faults.append((LIES, str(case.limits["large"])))
    for route, limit in case.limits.items():
        complaint = printed.complaint_of_checker(limit) if limit.document is not None else ""
        if complaint:
            case.faults.append((REJECTED, f"{route} route: {complaint}"))
    return case


def run(seed: int, indices: Iterable[int], seconds: float) -> Iterator[Case]:
    """The cases one by one."""
    for index in indices:
        yield compare(seed, index, seconds)


# What comes out


def table(cases: list[Case]) -> str:
    head = f"{'data':28}" + "".join(f"{name:>11}" for name in COLUMNS)
    mixtures = [case for case in cases if case.problem.kind == MIXTURE]
    groups = {"small, of many kinds": [case for case in cases if case.problem.kind != MIXTURE]}
    for slope in SLOPES:
        groups[f"mixtures, slope {slope:g}"] = [case for case in mixtures if case.problem.slope == slope]
    groups["all"] = cases
    lines = [head, "-" * len(head)]
    lines += [
        f"{name:28}" + "".join(f"{value:>11}" for value in row(group))
        for name, group in groups.items()
        if group
    ]
    lines += ["", LEGEND, ""]
    lines += counted(
        "verdicts, exact route / large route:",
        Counter(" / ".join(case.verdict(route) for route in ROUTES) for case in cases),
    )
    for route in ROUTES:
        silent = [case for case in cases if case.verdict(route) == "not decided"]
        reasons = (without_numbers("; ".join(case.limits[route].missing)) for case in silent)
        lines += counted(f"why the {route} route has no answer:", Counter(reasons))
    return "\n".join([*lines, "", differences(cases)])


def row(group: list[Case]) -> list[str]:
    both = [case for case in group if case.answers(*ROUTES)]
    agree = sum(case.agree for case in both)
    exact, large = (sum(case.answers(route) for case in group) - len(both) for route in ROUTES)
    counts = [
        len(group),
        len(both),
        agree,
        len(both) - agree,
        exact,
        large,
        len(group) - len(both) - exact - large,
    ]
    means = [np.mean([case.seconds[route] for case in group]) for route in ROUTES]
    return [str(count or ".") for count in counts] + [f"{mean:.2f}" for mean in means]


def differences(cases: list[Case]) -> str:
    """The problems on which the two routes end elsewhere, and by how much."""
    lines = []
    for case in cases:
        if case.answers(*ROUTES) and not case.agree:
            p, norms = case.problem, " and ".join(f"{limit.norm:.6g}" for limit in case.limits.values())
            lines += [
                f"  {p.index:4}  1 - cos {case.distance:.1e}, "
                f"multipliers {case.distance_of_multipliers:.1e}, norms {norms}: {p}",
                f"        {case.limits['large'].settings['way']}",
            ]
    return "\n".join(["they differ:", *lines]) if lines else "they differ nowhere"


def faults(cases: list[Case], seed: int, seconds: float) -> str:
    """Every fault, with the command that runs its problem again alone."""
    lines = []
    for case in cases:
        for fault, details in case.faults:
            which = f"--seed {seed} --only {case.problem.index} --seconds {seconds:g}"
            again = f"python -m tests.adversarial.routes {which}"
            lines += [f"{fault}: {case.problem}", f"    {details.strip().splitlines()[-1]}", f"    {again}"]
    return "\n".join(lines) or "no faults"


def main() -> int:
    """Run both routes on all problems, print the table and the faults; 1 if there are any."""
    parser = argparse.ArgumentParser("python -m tests.adversarial.routes", description=__doc__)
    parser.add_argument("--problems", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the problems (default: 0)")
    parser.add_argument("--only", type=int, nargs="+", help="only the problems with these numbers, in detail")
    parser.add_argument("--seconds", type=float, default=20.0, help="per call of limit (default: 20)")
    options = parser.parse_args()
    cases = []
    try:
        for case in run(options.seed, options.only or range(options.problems), options.seconds):
            cases.append(case)
            if options.only:
                print(case.problem, *case.limits.values(), sep="\n\n", flush=True)
            elif sys.stderr.isatty():
                print(f"\r{len(cases)} of {options.problems} problems", end="", file=sys.stderr)
    except KeyboardInterrupt:
        pass  # the table of what is known by now
    print(f"\nlimit with {options.seconds:g} s for each problem, on both routes\n")
    print(table(cases), faults(cases, options.seed, options.seconds), sep="\n\n")
    return int(any(case.faults for case in cases))


if __name__ == "__main__":
    sys.exit(main())
