import pytest


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The folder of the real data, empty, and gone after the test."""
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"
