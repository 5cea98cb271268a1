"""Run the benchmarks of these names, or all: `python -m benchmarks [names...]`."""

import os
import platform
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from benchmarks import threads
from benchmarks.table import Row, table
from rankfall.dynamics.exact import compile_steps

NAMES = (
    "sun",
    "flow",
    "span",
    "sgd",
    "many",
    "exact",
    "tables",
    "both",
    "scale",
    "assess",
    "real",
    "kills",
    "start",
)


def machine() -> str:
    """Where the numbers were made, and with what."""
    packages = []
    for name in ("rankfall", "jax", "torch"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"no {name}")
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return (
        f"{platform.machine()}, {threads.COUNT} threads for XLA and as many for PyTorch{load}; "
        f"Python {platform.python_version()}, {', '.join(packages)}"
    )


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    compile_steps()
    where, started, rows = machine(), time.monotonic(), list[Row]()
    for name in names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += import_module(f"benchmarks.{name}").bench()
    found = table(rows) if rows else "Nothing was compared."
    print(f"\n{where}\n\n{found}\n\n{time.monotonic() - started:.0f} s in all.")
    for verdict in ("falls short", "too noisy to tell"):
        names = [row.name for row in rows if row.verdict == verdict]
        if names:
            print(f"{verdict.capitalize()}: {'; '.join(names)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
