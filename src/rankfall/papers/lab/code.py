"""Has the code behind a run changed? A digest of every module of this package that a module rests on.

The source is read, not run. Imports are followed: of a package, to the modules from which it takes the names
that are asked for. The digest is that of the syntax tree, without docstrings, messages of exceptions, and
what says only how claims are judged and figures drawn. It is coarse: whatever else changes in a module, all
runs that rest on the module are made anew.
"""

import ast
import copy
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
FOLDER = Path(__file__).parents[2]
JUDGED = {"statements", "picture"}  # functions of an experiment that its runs do not rest on
CONSTRUCTORS = {"Experiment", "Claim", "Check", "Paper"}  # values for readers
MEASURES = f"{PACKAGE}.measure."
LAB = f"{PACKAGE}.papers.lab."
NOT_FOR_RUNS = tuple(LAB + name for name in ("claim", "drawing", "experiment", "outcome", "setting"))


@cache
def code_of_runs(module: str) -> dict[str, str]:
    """Every module that the runs of an experiment in this module rest on, with its digest."""
    return {name: _digest_for_runs(name) for name in _closure(module, runs=True)}


@cache
def code_of_all(module: str) -> dict[str, str]:
    """Every module on which the claims and figures rest too, with the digest of its text."""
    return {name: _digest_of_text(name) for name in _closure(module, runs=False)}


@cache
def _digest_for_runs(module: str) -> str:
    return _digest(ast.dump(_for_runs(module)))


@cache
def _digest_of_text(module: str) -> str:
    return _digest(_file(module).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _closure(module: str, runs: bool) -> list[str]:
    """The module and what it imports, directly or not."""
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name in found or (runs and _only_shown(name)):
            continue
        found.add(name)
        waiting += _imports(name)
        if name.startswith(MEASURES):  # they are asked for by name, so that all of them count
            waiting += [MEASURES + file.stem for file in FOLDER.glob("measure/[a-z]*.py")]
    return sorted(found)


def _only_shown(module: str) -> bool:
    return module in NOT_FOR_RUNS or module.startswith((f"{PACKAGE}.plot", f"{PACKAGE}.report"))


@cache
def _imports(module: str) -> tuple[str, ...]:
    return tuple(
        place
        for node in ast.walk(_tree(module))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for place in _imported(node)
    )


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of this package that an import names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
    elif (node.module or "").split(".")[0] == PACKAGE:
        yield from (_defining(node.module or "", alias.name) for alias in node.names)


def _defining(module: str, name: str) -> str:
    """The module in which `from module import name` finds the name: a package takes it from another one."""
    if _exists(f"{module}.{name}"):
        return f"{module}.{name}"
    for node in _tree(module).body if _file(module).name == "__init__.py" else ():
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defining(node.module or "", alias.name)
    return module


def _exists(module: str) -> bool:
    path = FOLDER.joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _file(module: str) -> Path:
    path = FOLDER.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(module: str) -> ast.Module:
    """The syntax tree, with full names in imports, and without what only a type checker reads."""
    file = _file(module)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    home = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            within = home[: len(home) + 1 - node.level]
            node.module, node.level = ".".join([*within, *filter(None, [node.module])]), 0
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    return tree


def _for_runs(module: str) -> ast.Module:
    """The tree of a module without text, claims and figures."""
    tree = copy.deepcopy(_tree(module))
    judged = {
        word.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in JUDGED and isinstance(word.value, ast.Name)
    }
    tree.body = [n for n in tree.body if not (isinstance(n, ast.FunctionDef) and n.name in judged)]
    return ast.fix_missing_locations(_WithoutText().visit(tree))


class _WithoutText(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in CONSTRUCTORS:
            return ast.Constant(node.func.id)
        return self.generic_visit(node)
