import os
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"
# What one of the processes of a run compiles the others need not, nor the next run.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

NO_TORCH = "PyTorch is not installed"
MISSING = {  # why tests are skipped, and what to do
    NO_TORCH: "To run them: make test-torch",
    "Playwright is not installed": "To run them: make test-browser",
    "the sample data are not in": "To run them set RANKFALL_TEST_DATA to the folder of the sample data",
    "there is no browser": "To run them install Chromium, then: make test-browser",
}


def pytest_collection_modifyitems(items):
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason=NO_TORCH))


def pytest_terminal_summary(terminalreporter):
    # With pytest-xdist the workers' reports arrive here too, so the section is the same for any -n.
    reports = terminalreporter.getreports("skipped")
    for reason, advice in MISSING.items():
        skipped = [report.nodeid for report in reports if reason in str(report.longrepr)]
        if skipped:
            terminalreporter.section(f"{reason}, so {len(skipped)} of the tests did not run")
            for nodeid in sorted(skipped):
                terminalreporter.line(nodeid)
            terminalreporter.line(advice)
