import os
from importlib.util import find_spec

import pytest

os.environ["MPLBACKEND"] = "Agg"

NO_TORCH = "PyTorch is not installed"


def pytest_collection_modifyitems(items):
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(pytest.mark.skip(reason=NO_TORCH))


def pytest_terminal_summary(terminalreporter):
    # With pytest-xdist the workers' reports arrive here too, so the section is the same for any -n.
    skipped = [r.nodeid for r in terminalreporter.getreports("skipped") if NO_TORCH in str(r.longrepr)]
    if skipped:
        terminalreporter.section(f"{NO_TORCH}, so {len(skipped)} of the tests did not run")
        for nodeid in sorted(skipped):
            terminalreporter.line(nodeid)
        terminalreporter.line("To run them: make test-torch")
