"""Every ```python block of the README and the documentation runs.

The blocks of a page share one namespace, in order, and run in an empty directory. What is not meant to run is
fenced as something else: console, text or pycon.
"""

import re
import sys
import textwrap
import traceback
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(?ms)^(?P<indent>[ \t]*)```python[ \t]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$")


def blocks(page: Path) -> list[tuple[int, str]]:
    """The python blocks of a page, each with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    found = BLOCK.finditer(text)
    return [(text.count("\n", 0, b.start("code")) + 1, textwrap.dedent(b["code"])) for b in found]


def pages():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        found = blocks(page) if page.exists() else []
        if found:
            needs_torch = any(re.search(r"\b(import|from) torch\b", code) for _, code in found)
            marks = [pytest.mark.torch] if needs_torch else []
            yield pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("page", list(pages()))
def test_every_python_block_of_the_page_runs(page, tmp_path, monkeypatch):
    namespace = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    monkeypatch.chdir(tmp_path)
    try:
        for line, code in blocks(page):
            run(page, line, code, namespace)
    finally:
        plt.close("all")


def run(page: Path, line: int, code: str, namespace: ModuleType) -> None:
    try:
        # The empty lines in front give every statement the line number it has on the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace.__dict__)
    except Exception as error:
        on_page = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(page)]
        where = on_page[-1] if on_page else getattr(error, "lineno", None) or line
        place = f"{page.relative_to(ROOT).as_posix()}, line {where}"
        raise AssertionError(f"{place}: {type(error).__name__}: {error}") from error
