import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
# The tests do not see what the user keeps: their home folder is a new one, and so is the cache in it.
HOME = tempfile.TemporaryDirectory(prefix="rankfall-home-")
for name in ("RANKFALL_DATA", "RANKFALL_MIRROR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
    os.environ.pop(name, None)
os.environ["HOME"] = HOME.name
# The matrices are small, and `pytest -n` starts a process per core: more threads would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when a process imports NumPy or SciPy
os.environ["MPLBACKEND"] = "Agg"
os.environ["MPLCONFIGDIR"] = str(ROOT / ".pytest_cache" / "matplotlib")  # or every run lists the fonts again
# What one of the processes of a run compiles the others need not, nor the next run.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def annotated():
    """The modules whose signatures have shapes, but for the losses: the exact flow calls these without end.

    A hook on the other modules would find nothing, and double the time of what they do in loops.
    """
    for file in sorted((ROOT / "src" / "rankfall").rglob("*.py")):
        if "from jaxtyping import" in file.read_text(encoding="utf-8") and file.name != "loss.py":
            name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
            yield name.removesuffix(".__init__")


# Arrays must have the shapes and dtypes of the signatures, unless RANKFALL_TYPES is 0.
if os.environ.get("RANKFALL_TYPES") != "0":
    install_import_hook(list(annotated()), "array_types.checked")  # before rankfall is imported

NO_TORCH = "PyTorch is not installed"
NO_SAMPLE = "there is no sample file"
MISSING = {  # why tests are skipped, and what to do
    NO_TORCH: "To run them: make test-torch",
    "Playwright is not installed": "To run them: make test-browser",
    NO_SAMPLE: "To run them set RANKFALL_TEST_DATA to the folder of the sample data",
    "there is no browser": "To run them install Chromium, then: make test-browser",
}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """Compile the steps of the exact flow, or load them, before tests with time limits begin."""
    from rankfall.dynamics.exact import compile_steps

    compile_steps()


@pytest.fixture
def autism():
    """The autism data, which are shipped with the tests."""
    return Path(__file__).parent / "samples" / "autism" / "autism.csv"


@pytest.fixture(scope="session")
def sample():
    """The path of a file of the sample data that are not shipped; a test is skipped if its file is missing.

    A test that uses this fixture is marked `needs_data`.
    """
    folder = Path(os.environ.get("RANKFALL_TEST_DATA") or ROOT.parent / "shared" / "data").absolute()
    there = folder.is_dir()

    def find(name):
        if not (there and (folder / name).is_file()):
            pytest.skip(f"{NO_SAMPLE} {name} in {folder}: set RANKFALL_TEST_DATA to the folder that has it")
        return folder / name

    return find


@pytest.hookimpl(tryfirst=True)  # before -m selects by the markers
def pytest_collection_modifyitems(items):
    without_torch = find_spec("torch") is None
    for item in items:
        if "sample" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_data)
        if without_torch and item.get_closest_marker("torch"):
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


def pytest_unconfigure():
    HOME.cleanup()
