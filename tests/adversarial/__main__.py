"""Random problems that try to break `rankfall.limit`, and judges that share no code with it."""

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported: the matrices are tiny


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.adversarial", description=__doc__)
    parser.add_argument("--problems", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the problems (default: 0)")
    parser.add_argument("--start", type=int, default=0, help="the number of the first problem (default: 0)")
    parser.add_argument("--only", type=int, nargs="+", help="only the problems with these numbers, in detail")
    parser.add_argument("--seconds", type=float, default=6.0, help="per call of limit (default: 6)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument("--steps", type=int, default=20_000, help="per run of an oracle (default: 20000)")
    return parser.parse_args()


def main() -> int:
    """Run the battery, print the table and the faults; 1 if there are any."""
    from rankfall.dynamics.exact import compile_steps
    from tests.adversarial import battery, details, table

    options = arguments()
    compile_steps()  # which is not part of anybody's time
    indices = options.only or range(options.start, options.start + options.problems)
    each = options.seed, indices, options.seconds, options.steps
    cases: list[battery.Case] = []
    shown = time.monotonic()
    try:
        for case in battery.run(*each) if options.only else battery.run_in_processes(*each, options.jobs):
            cases.append(case)
            if options.only:
                print(details.everything(case, options.steps), flush=True)
            elif case.faults or time.monotonic() > shown + 60:
                shown = time.monotonic()
                wrong = sum(bool(case.faults) for case in cases)
                print(f"{len(cases)} of {len(indices)} problems, {wrong} with faults", file=sys.stderr)
                if case.faults:
                    print(table.faults([case], options.seconds), file=sys.stderr)
    except KeyboardInterrupt:
        pass  # the table of what is known by now
    print()
    print(table.table(cases, options.seconds), table.faults(cases, options.seconds), sep="\n\n")
    return int(any(case.faults for case in cases))


if __name__ == "__main__":
    sys.exit(main())
