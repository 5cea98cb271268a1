import pytest

from rankfall.data import _catalogue as catalogue


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The folder of the real data, empty, and gone after the test."""
    monkeypatch.setenv("RANKFALL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def mnist(sample):
    """The paths of the official files of MNIST, by their names."""
    files = catalogue.real_set("mnist").downloads
    return {file.name: sample(f"mnist/{file.name}") for file in files}
