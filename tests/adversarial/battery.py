"""The battery: `rankfall.limit` on random problems, and its answers before the judges."""

import inspect
import multiprocessing
import signal
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

import rankfall
from tests.adversarial import opinion as oracles
from tests.adversarial import printed, separation
from tests.adversarial.problems import Problem, problem

CRASH = "crash"
WRONG = "wrong certificate"
PRINTED = "printed numbers do not rebuild it"
WRONG_REST = 'wrong "not separated"'
LATE = "over time"
WARNED = "warning"
REFUSED = "refused"
CERTIFIED, FOLLOWED, NOT_UNIQUE, NOT_SEPARATED = "certified", "followed", "not unique", "not separated"
AT_REST, LATE_ANSWER = "at rest", "seconds are spent"  # a verdict; what an answer says that ran out of time
LIMITS = (CERTIFIED, AT_REST, FOLLOWED, "approximate route")  # verdicts that claim a limit
FAULTS = (CRASH, WRONG, PRINTED, WRONG_REST, LATE, WARNED)
TAKES_SECONDS = "seconds" in inspect.signature(rankfall.limit).parameters


@dataclass
class Case:
    """One problem, what `limit` said of it, and what the judges say of that."""

    problem: Problem
    verdict: str = ""  # "certified", "followed", or another verdict; "" after a crash
    reason: str = ""  # what is missing to a certificate
    seconds: float = 0.0
    faults: list[tuple[str, str]] = field(default_factory=list)  # (kind of fault, details)
    opinion: oracles.Opinion | None = None
    settles: bool = False  # where `limit` has no answer: does the flow with rounded kinks settle?
    limit: rankfall.Limit | None = None

    @property
    def open(self) -> bool:
        """Did `limit` return without an answer?"""
        return self.verdict not in ("", REFUSED, *LIMITS, NOT_UNIQUE, NOT_SEPARATED)

    @property
    def out_of_time(self) -> bool:
        """Did `limit` end without answer because its time was up?"""
        return self.open and LATE_ANSWER in self.reason

    def accuse(self, fault: str, details: str) -> None:
        self.faults.append((fault, details))


class HardStop(BaseException):
    """The call did not return long after its time."""


@contextmanager
def alarms(soft: float | None, hard: float) -> Iterator[None]:
    """KeyboardInterrupt after `soft` seconds, as by Ctrl-C, and HardStop after `hard` more."""
    bells = [HardStop] if soft is None else [HardStop, KeyboardInterrupt]

    def ring(number: int, frame: FrameType | None) -> None:
        bell = bells.pop()
        if bells:
            signal.setitimer(signal.ITIMER_REAL, hard)
        raise bell

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, hard if soft is None else soft)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def network_and_data(p: Problem) -> tuple[rankfall.Network, rankfall.Data]:
    biases = None if p.b is None else [p.b, None]
    network = rankfall.Network([p.w, [p.a]], biases, slope=p.slope, trained=[True, p.both])
    return network, rankfall.Data(p.x, p.y)


def answer(case: Case, seconds: float) -> None:
    """Call `limit` and write down what happened."""
    p = case.problem
    options = {"seconds": seconds} if TAKES_SECONDS else {}
    allowed = 1.5 * seconds + 2
    began, worked = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings(record=True) as heard, alarms(None if options else seconds, 3 * allowed):
            warnings.simplefilter("always")
            network, data = network_and_data(p)
            case.limit = rankfall.limit(network, data, p.loss, show=False, **options)
    except ValueError as error:
        message = str(error)
        case.verdict, case.reason = REFUSED, message
        word = printed.speaks_of_internals(message)
        if word or message.strip()[-1:] != ".":
            case.accuse(CRASH, traceback.format_exc())
            case.verdict = ""
    except KeyboardInterrupt:
        case.accuse(LATE, "Ctrl-C is not handled:\n" + traceback.format_exc())
    except HardStop:
        case.accuse(LATE, f"did not return within {3 * allowed:g} s:\n" + traceback.format_exc(limit=-3))
    except Exception:
        case.accuse(CRASH, traceback.format_exc())
    case.seconds = time.perf_counter() - began
    worked = time.process_time() - worked
    if case.limit is not None and case.seconds > allowed and worked > seconds:  # not for a busy machine
        case.accuse(LATE, f"took {case.seconds:.1f} s instead of {seconds:g}")
    unwanted = {f"{w.category.__name__}: {w.message}" for w in heard if w.category is RuntimeWarning}
    for warning in sorted(unwanted):
        case.accuse(WARNED, warning)


def judge(case: Case, steps: int) -> None:
    """Put the answer before the judges."""
    p, limit = case.problem, case.limit
    case.verdict = str(limit.verdict)
    case.reason = "; ".join(limit.missing)
    if p.both and limit.certified and not p.square:
        case.verdict = FOLLOWED
    word = printed.speaks_of_internals(case.reason) or printed.speaks_of_internals(str(limit))
    if word:
        case.accuse(CRASH, f"a message speaks of {word!r}: {case.reason or limit}")
    if case.verdict in LIMITS:
        _judge_numbers(case)
        if not p.square and "end" in limit.settings:  # samples stay on the wrong side
            _judge_rest(case, steps)
            return
        case.opinion = oracles.opinion(limit, p, steps)
        if case.opinion.word == oracles.CONTRADICTS:
            case.accuse(WRONG, f"{case.opinion.why}: distance {case.opinion.distance:.3g}")
    if case.verdict == NOT_SEPARATED:
        _judge_rest(case, steps)
    if case.open:
        case.settles = oracles.settles(p, steps)


def _judge_numbers(case: Case) -> None:
    p, limit = case.problem, case.limit
    if case.verdict == AT_REST:
        complaint = printed.complaint_of_checker(limit)
        if complaint:
            case.accuse(WRONG, f"the stand-alone checker: {complaint}")
    if p.square:
        for fault in printed.faults_of_end(limit, p):
            case.accuse(WRONG, fault)
        return
    if printed.rests_in_part(limit) and not p.both:
        for fault in printed.faults_of_part(limit, p):
            case.accuse(WRONG, fault)
        return
    if not limit.multipliers.any():
        for fault in printed.faults_of_rest(limit, p):
            case.accuse(WRONG, fault)
        return
    faults = printed.faults_of_kkt(limit, p)
    if faults:
        only_printed = "margin" not in " ".join(faults) and printed.is_kkt_point(limit, p)
        case.accuse(PRINTED if only_printed else WRONG, "; ".join(faults))
    if limit.certified:
        complaint = printed.complaint_of_checker(limit)
        if complaint:
            case.accuse(WRONG, f"the stand-alone checker: {complaint}")


def _judge_rest(case: Case, steps: int) -> None:
    p = case.problem
    if p.slope == 1 and not p.both and (p.a != 0).any():
        v = separation.separating_direction(p)
        if v is not None:
            case.accuse(WRONG_REST, f"the direction {v.tolist()} separates them, in exact arithmetic")
    elif separation.flow_separates(p, steps):
        case.accuse(WRONG_REST, "the flow with rounded kinks separates them, at all widths and equally soon")


def one(seed: int, index: int, seconds: float, steps: int) -> Case:
    """One case, judged."""
    case = Case(problem(seed, index))
    answer(case, seconds)
    if case.limit is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the oracles; what `limit` warns of is kept above
            judge(case, steps)
    return case


def run(seed: int, indices: Iterable[int], seconds: float, steps: int) -> Iterator[Case]:
    """The cases one by one."""
    for index in indices:
        yield one(seed, index, seconds, steps)


def run_in_processes(
    seed: int, indices: Iterable[int], seconds: float, steps: int, jobs: int
) -> Iterator[Case]:
    """The cases as they get ready, without their limits and paths: `one` makes those again."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(_in_brief, seed, index, seconds, steps) for index in indices]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_brief(seed: int, index: int, seconds: float, steps: int) -> Case:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the table
    case = one(seed, index, seconds, steps)
    opinion = case.opinion and replace(case.opinion, paths=())
    return replace(case, limit=None, opinion=opinion)
