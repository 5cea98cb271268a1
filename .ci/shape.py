"""The shape of the code in numbers, and that of earlier commits: python .ci/shape.py [commit ...]."""

import ast
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

LONG = 60  # lines that fit on a screen


def modules(folder: Path) -> dict[str, ast.Module]:
    """The syntax trees of all modules, by name."""
    root = folder / "src"
    return {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            file.read_text(encoding="utf-8")
        )
        for file in sorted(root.rglob("*.py"))
    }


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions, inner ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines it has, without its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    text = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - text


def has_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does the signature say Any?"""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    hints = [argument.annotation for argument in every if argument is not None] + [function.returns]
    return any(isinstance(n, ast.Name) and n.id == "Any" for h in hints if h is not None for n in ast.walk(h))


def inner_imports(tree: ast.Module) -> int:
    """Imports within functions."""
    kinds = (ast.Import, ast.ImportFrom)
    return len({id(n) for f in functions(tree) for n in ast.walk(f) if isinstance(n, kinds)})


def imports_of_files(name: str, tree: ast.Module, packages: set[str]) -> int:
    """Imports from a file of another package, which should be from the package."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.count(".") >= 2:
            package = ".".join(node.module.split(".")[:2])
            own = name == package or name.startswith(f"{package}.")
            found += package in packages and node.module not in packages and not own
    return found


def patched_constants(folder: Path) -> int:
    """Constants of our modules that tests patch; a test's own globals are its business."""
    found = 0
    for file in (folder / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                texts = [
                    a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                own = any(isinstance(a, ast.Call) for a in node.args[:1])  # globals()
                constant = not own and any(text.rpartition(".")[2].isupper() for text in texts)
                found += node.func.attr in ("setattr", "setitem") and constant
    return found


def branches_on_text(tree: ast.Module) -> int:
    """Comparisons with a sentence, and questions whether a text begins or ends with a word."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found += any(
                " " in text.strip() for side in (node.left, *node.comparators) for text in texts(side)
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asks = node.func.attr in ("startswith", "endswith", "removeprefix", "removesuffix")
            words = [text.replace(" ", "") for argument in node.args for text in texts(argument)]
            found += asks and any(map(str.isalpha, words))
    return found


def texts(node: ast.expr) -> list[str]:
    """The text that an expression is, or those that it lists."""
    each = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return [e.value for e in each if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def shape(folder: Path) -> dict[str, str]:
    """The numbers of one checkout."""
    trees = modules(folder)
    packages = {name for name in trees if any(other.startswith(f"{name}.") for other in trees)}
    lines = {
        file: len(file.read_text(encoding="utf-8").splitlines()) for file in (folder / "src").rglob("*.py")
    }
    longest = max(lines, key=lambda file: lines[file])
    every = [function for tree in trees.values() for function in functions(tree)]
    imports = [imports_of_files(name, tree, packages) for name, tree in trees.items()]
    numbers = {
        "files": len(lines),
        "lines": sum(lines.values()),
        "median file": int(statistics.median(lines.values())),
        "longest file": f"{lines[longest]} ({longest.name})",
        f"functions over {LONG} lines": sum(length(f) > LONG for f in every),
        "signatures with Any": sum(map(has_any, every)),
        "imports within functions": sum(map(inner_imports, trees.values())),
        "imports from files of other packages": sum(imports),
        "module constants that tests patch": patched_constants(folder),
        "branches on a sentence or how it begins": sum(map(branches_on_text, trees.values())),
    }
    return {name: str(number) for name, number in numbers.items()}


def of_commit(folder: Path, commit: str) -> dict[str, str]:
    """The numbers of an earlier commit of the same checkout."""
    with tempfile.TemporaryDirectory() as place:
        archive = Path(place) / "commit.tar"
        command = ["git", "-C", str(folder), "archive", "-o", str(archive), commit, "src", "tests"]
        subprocess.run(command, check=True, capture_output=True)
        with tarfile.open(archive) as files:
            files.extractall(place, filter="data")
        return shape(Path(place))


def main(folder: Path, commits: list[str]) -> None:
    """Print the numbers, those of earlier commits to their left."""
    columns: dict[str, dict[str, str]] = {}
    for commit in commits:
        try:
            columns[commit] = of_commit(folder, commit)
        except (OSError, subprocess.CalledProcessError):
            print(f"This clone has no commit {commit} to compare with.")
    columns["now"] = shape(folder)
    print(" " * 41, *(f"{name:>24}" for name in columns))
    for row in columns["now"]:
        print(f"{row:41}", *(f"{column[row]:>24}" for column in columns.values()))


if __name__ == "__main__":
    main(Path(__file__).parents[1], sys.argv[1:])
