"""The source of a commit from before ordinary tables were made fast, where the history is at hand."""

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from benchmarks.timing import say

ROOT = Path(__file__).parents[1]
COMMIT = "afb86e1"


def source_before(folder: Path) -> Path | None:
    """That source, unpacked in a folder; None where there is no history."""
    archive = ["git", "archive", COMMIT, "src"]
    try:
        found = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        say(f"the commit {COMMIT} is left out: the history of the repository is not here")
        return None
    with tarfile.open(fileobj=BytesIO(found.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def with_source(source: Path) -> dict[str, str]:
    """The environment of a process that imports rankfall from there."""
    unwritten = "PYTHONDONTWRITEBYTECODE"  # with it every process would compile rankfall anew
    inherited = {name: value for name, value in os.environ.items() if name != unwritten}
    return inherited | {"PYTHONPATH": os.pathsep.join((str(source), str(ROOT))), "PYTHONUNBUFFERED": "1"}
