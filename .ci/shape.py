"""The shape of the code in numbers: python .ci/shape.py [folder of a checkout]."""

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

LONG = 60  # lines of a function that no longer fits on a screen


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
    """Module constants that tests patch."""
    found = 0
    for file in (folder / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                texts = [
                    a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
                ]
                constant = any(text.rpartition(".")[2].isupper() for text in texts)
                found += node.func.attr in ("setattr", "setitem") and constant
    return found


def branches_on_text(tree: ast.Module) -> int:
    """`if` and the like that ask whether a text begins with a word."""
    tests = [n.test for n in ast.walk(tree) if isinstance(n, (ast.If, ast.IfExp, ast.While))]
    calls = [n for test in tests for n in ast.walk(test) if isinstance(n, ast.Call)]
    asked = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "startswith"]
    return sum(any(isinstance(a, ast.Constant) and str(a.value).isalpha() for a in c.args) for c in asked)


def main(folder: Path) -> None:
    """Print the numbers."""
    trees = modules(folder)
    packages = {name for name in trees if any(other.startswith(f"{name}.") for other in trees)}
    lines = {
        str(file.relative_to(folder)): len(file.read_text(encoding="utf-8").splitlines())
        for file in (folder / "src").rglob("*.py")
    }
    longest = max(lines, key=lambda name: lines[name])
    every = [function for tree in trees.values() for function in functions(tree)]
    rows = {
        "files": len(lines),
        "lines": sum(lines.values()),
        "median file": int(statistics.median(lines.values())),
        "longest file": f"{lines[longest]} ({longest})",
        f"functions over {LONG} lines": sum((f.end_lineno or 0) - f.lineno >= LONG for f in every),
        "signatures with Any": sum(map(has_any, every)),
        "imports within functions": sum(map(inner_imports, trees.values())),
        "imports from files of other packages": sum(
            imports_of_files(name, tree, packages) for name, tree in trees.items()
        ),
        "module constants that tests patch": patched_constants(folder),
        "branches on how a text begins": sum(map(branches_on_text, trees.values())),
    }
    for name, value in rows.items():
        print(f"{name:38} {value}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
