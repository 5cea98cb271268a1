"""A plugin of pytest: the clone is tested, and a test is skipped only for what a stranger does not have."""

from pathlib import Path

import pytest

ABSENT = ("PyTorch is not installed", "there is no browser", "there is no sample file")


def pytest_sessionstart(session):
    """The code under test is the clone's."""
    import rankfall

    source = Path(rankfall.__file__)
    if not source.is_relative_to(session.config.rootpath / "src"):
        raise pytest.UsageError(f"rankfall was imported from {source.parent}, not from the clone")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that is skipped for any other reason fails."""
    report = yield
    why = str(report.longrepr)
    if report.skipped and not hasattr(report, "wasxfail") and not any(reason in why for reason in ABSENT):
        report.outcome, report.longrepr = "failed", f"skipped for a reason that is not in {ABSENT}: {why}"
    return report
