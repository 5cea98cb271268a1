"""Has the code behind a run changed? A digest of every module of this package that an experiment rests on.

An experiment in a file of the user's rests on that file, and on those in the same folder that it imports.

The source is read, not run. Imports are followed: of a package, to the modules from which it takes the names
that are asked for. The digest is that of the syntax tree, without docstrings, messages of exceptions, and
what says only how claims are judged and figures drawn: the functions that an experiment names for it, and
private ones that nothing else uses. It is coarse: whatever else changes in a module, all runs that rest on
the module are run again.
"""

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]
FOLDER = Path(__file__).parents[2]
JUDGED = {"statements", "picture"}  # functions of an experiment that its runs do not rest on
CONSTRUCTORS = {"Experiment", "Claim", "Check", "Paper"}  # values for readers
MEASURES = f"{PACKAGE}.measure."
LAB = f"{PACKAGE}.papers.lab."
NOT_FOR_RUNS = (
    f"{PACKAGE}.judge",
    *(LAB + name for name in ("_claim", "_drawing", "_experiment", "_outcome", "_setting")),
)


def module_of(function: Callable[..., Any]) -> str:
    """The module of a function: its name within this package, the path of its file elsewhere."""
    name = function.__module__
    return name if _is_ours(name) else str(Path(inspect.getfile(function)).resolve())


@cache
def code_of_runs(module: str, folder: Path = FOLDER) -> dict[str, str]:
    """Every module that the runs of an experiment in this module rest on, with its digest.

    `folder` holds the source: that of this package, or a copy of it.
    """
    found = _closure(module, folder, runs=True)
    return {_name(each): _digest_for_runs(each, folder) for each in found}


@cache
def code_of_all(module: str, folder: Path = FOLDER) -> dict[str, str]:
    """Every module on which the claims and figures rest too, with the digest of its text."""
    found = _closure(module, folder, runs=False)
    return {_name(each): _digest_of_text(each, folder) for each in found}


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _name(module: str) -> str:
    """What a module is called in words: of a file of the user's, the name of the file."""
    return module if _is_ours(module) else Path(module).name


@cache
def _digest_for_runs(module: str, folder: Path) -> str:
    return digest(ast.dump(_for_runs(module, folder)))


@cache
def _digest_of_text(module: str, folder: Path) -> str:
    return digest(_file(module, folder).read_text(encoding="utf-8"))


def digest(text: str) -> str:
    """A digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _closure(module: str, folder: Path, runs: bool) -> list[str]:
    """The module and what it imports, directly or not."""
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name in found or (runs and _only_shown(name)):
            continue
        found.add(name)
        waiting += _imports(name, folder)
        if name.startswith(MEASURES):  # they are asked for by name, so that all of them count
            waiting += [MEASURES + file.stem for file in folder.glob("measure/_[a-z]*.py")]
    return sorted(found)


def _only_shown(module: str) -> bool:
    return module in NOT_FOR_RUNS or module.startswith((f"{PACKAGE}.plot", f"{PACKAGE}.report"))


@cache
def _imports(module: str, folder: Path) -> tuple[str, ...]:
    return tuple(
        place
        for node in ast.walk(_tree(module, folder))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for place in (
            _imported(node, folder) if _is_ours(module) else _imported_by_user(node, Path(module), folder)
        )
    )


def _imported_by_user(node: ast.Import | ast.ImportFrom, file: Path, folder: Path) -> Iterator[str]:
    """The modules of this package that an import names, and files in the folder of the user's own."""
    yield from _imported(node, folder)
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    near = (file.with_name(f"{name.partition('.')[0]}.py") for name in names)
    yield from (str(each) for each in near if each.is_file())


def _imported(node: ast.Import | ast.ImportFrom, folder: Path) -> Iterator[str]:
    """The modules of this package that an import names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _is_ours(alias.name))
    elif _is_ours(node.module or ""):
        yield from (_defining(node.module or "", alias.name, folder) for alias in node.names)


def _defining(module: str, name: str, folder: Path) -> str:
    """The module in which `from module import name` finds the name: a package takes it from another one."""
    if _exists(f"{module}.{name}", folder):
        return f"{module}.{name}"
    for node in _taken(module, folder):
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                return _defining(node.module or "", alias.name, folder)
    return module


@cache
def _taken(module: str, folder: Path) -> tuple[ast.ImportFrom, ...]:
    """From where a package takes its names. What it imports when it is first used, a type checker reads."""
    if _file(module, folder).name != "__init__.py":
        return ()
    body = _read(module, folder).body
    later = [node for part in body if _for_types(part) for node in ast.walk(part)]
    return tuple(node for node in [*body, *later] if isinstance(node, ast.ImportFrom))


def _exists(module: str, folder: Path) -> bool:
    path = folder.joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _file(module: str, folder: Path) -> Path:
    if not _is_ours(module):
        return Path(module)
    path = folder.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(module: str, folder: Path) -> ast.Module:
    """The syntax tree, to be read and not changed."""
    return _parsed(module, folder)


def _parsed(module: str, folder: Path) -> ast.Module:
    """The syntax tree, with full names in imports, and without what only a type checker reads."""
    tree = _read(module, folder)
    tree.body = [node for node in tree.body if not _for_types(node)]
    return tree


def _for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _read(module: str, folder: Path) -> ast.Module:
    """The syntax tree, with full names in imports."""
    file = _file(module, folder)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    home = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            within = home[: len(home) + 1 - node.level]
            node.module, node.level = ".".join([*within, *filter(None, [node.module])]), 0
    return tree


def _for_runs(module: str, folder: Path) -> ast.Module:
    """The tree of a module without text, claims and figures."""
    tree = _parsed(module, folder)
    judged = {
        word.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in JUDGED and isinstance(word.value, ast.Name)
    }
    tree.body = [n for n in tree.body if not (isinstance(n, ast.FunctionDef) and n.name in judged)]
    while judged and (unused := _unused(tree)):
        tree.body = [n for n in tree.body if n not in unused]
    return ast.fix_missing_locations(_WithoutText().visit(tree))


def _unused(tree: ast.Module) -> list[ast.stmt]:
    """The private functions of a module that nothing else in it refers to."""
    names = {n: {word.id for word in ast.walk(n) if isinstance(word, ast.Name)} for n in tree.body}
    return [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef)
        and n.name.startswith("_")
        and not n.decorator_list
        and not any(n.name in used for other, used in names.items() if other is not n)
    ]


class _WithoutText(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in CONSTRUCTORS:
            return ast.Constant(node.func.id)
        return self.generic_visit(node)
