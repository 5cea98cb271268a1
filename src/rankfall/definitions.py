"""Which definitions of this package does a function rest on, and has any of them changed?

The source is read, not run: from a top-level definition to the names that it uses, through imports and
re-exports, to their definitions, and so on. Each gets a digest of its syntax tree, without comments and
docstrings. Names that are looked up by a string are followed where the string is that of a measure.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PACKAGE = FOLDER.name
Place = tuple[str, str]  # a module and a name in it; "" for what its import alone does


def definition_of(thing: Callable[..., Any]) -> Place:
    """Where a top-level function or class is defined."""
    if "<" in thing.__qualname__:
        raise ValueError(
            f"{thing.__qualname__} is not a definition of its own: what is in it cannot be told."
        )
    return thing.__module__, thing.__qualname__.partition(".")[0]


def variable_of(thing: object, module: str) -> Place:
    """The top-level name of `module` that holds this very object."""
    for name, value in vars(sys.modules[module]).items():
        if value is thing:
            return module, name
    raise ValueError(f"{module} has no top-level name for this {type(thing).__name__}: give it one.")


def digests(*roots: Place) -> dict[str, str]:
    """Every definition that the roots rest on, as "module.name", with its digest."""
    found: dict[Place, str] = {}
    waiting = [place for root in roots for place in _follow(root, ())]
    while waiting:
        place = waiting.pop()
        if place in found:
            continue
        found[place] = _module(place[0]).digest(place[1])
        waiting.extend(_used_by(place))
    return {".".join(filter(None, place)): digest for place, digest in sorted(found.items())}


@cache
def _used_by(place: Place) -> tuple[Place, ...]:
    return tuple(_module(place[0]).uses(place[1]))


@cache
def _module(name: str) -> "_Module":
    return _Module(name)


class _Module:
    """The top-level definitions of a module, and what its imports stand for."""

    def __init__(self, name: str):
        file = _file(name)
        if file is None:
            raise ValueError(f"there is no module {name}.")
        self.name = name
        self.statements: dict[str, list[ast.stmt]] = {"": []}
        self.imports: dict[str, Place] = {}
        home = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
        for statement in _run(_absolute(ast.parse(file.read_text(encoding="utf-8")), home)):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.imports |= dict(_imported(statement))
            elif not _is_text(statement):
                for bound in _bound([statement]) | ({""} if _does_something(statement) else set()):
                    self.statements.setdefault(bound, []).append(_without_docstrings(statement))

    def digest(self, name: str) -> str:
        text = "\n".join(ast.dump(statement) for statement in self.statements[name])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def uses(self, name: str) -> Iterator[Place]:
        """The places that a definition refers to; each also brings what the import of its module does."""
        if name:
            yield self.name, ""
        for statement in self.statements[name]:
            for used in _Uses(frozenset()).of(statement):
                if isinstance(used, str):
                    yield from ((_measures()[used],) if used in _measures() else ())
                elif isinstance(used, tuple):
                    yield from self.resolve(*used)
                else:
                    for _, place in _imported(used):
                        yield from _follow(place, ())

    def resolve(self, name: str, *attributes: str) -> Iterator[Place]:
        """What `name.attribute...` refers to; nothing for what is not of this package."""
        if name in self.statements:
            yield self.name, name
        elif name in self.imports:
            yield from _follow(self.imports[name], attributes)


def _follow(place: Place, attributes: tuple[str, ...]) -> Iterator[Place]:
    """An import, down to the definition."""
    module, name = place
    if "import_module" in (name, *attributes[:1]):
        raise ValueError(
            "what importlib finds at run time cannot be told from the source: import it by name."
        )
    if module.partition(".")[0] != PACKAGE:
        return
    names = ((name,) if name else ()) + attributes
    while names and _file(f"{module}.{names[0]}") and names[0] not in _module(module).statements:
        module, names = f"{module}.{names[0]}", names[1:]
    if names:
        inside = _module(module)
        if names[0] not in inside.statements and names[0] not in inside.imports:
            raise ValueError(f"it cannot be told where {module}.{names[0]} is defined: import it from there.")
        yield from inside.resolve(*names)
    else:  # the module itself is handed on: all of it counts
        yield from ((module, each) for each in _module(module).statements)
        for each in _module(module).imports.values():
            yield from _follow(each, ())


@cache
def _file(module: str) -> Path | None:
    """The file of a module of this package."""
    path = FOLDER.joinpath(*module.split(".")[1:])
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


@cache
def _measures() -> dict[str, Place]:
    """The measures, which runs are asked for by name."""
    modules = [_module(f"{PACKAGE}.measure.{file.stem}") for file in FOLDER.glob("measure/[a-z]*.py")]
    return {
        name: (module.name, name)
        for module in modules
        for name, statements in module.statements.items()
        for statement in statements
        if isinstance(statement, ast.FunctionDef)
        and "measured" in ast.dump(ast.List(statement.decorator_list))
    }


def _absolute(tree: ast.Module, home: list[str]) -> ast.Module:
    """The same code, with relative imports spelled out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module = ".".join([*home[: len(home) + 1 - node.level], *filter(None, [node.module])])
            node.level = 0
    return tree


def _run(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, without those that only a type checker reads."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from statement.orelse
        else:
            yield statement


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Place]]:
    """The names that an import binds, and what they stand for."""
    for alias in statement.names:
        if alias.name == "*":
            raise ValueError("what a star imports cannot be told from the source: import it by name.")
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, (statement.module or "", alias.name)
        elif alias.asname:
            yield alias.asname, (alias.name, "")
        else:
            yield alias.name.partition(".")[0], (alias.name.partition(".")[0], "")


def _does_something(statement: ast.stmt) -> bool:
    """Does it more than bind names when the module is imported?"""
    simple = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    return not (isinstance(statement, simple) and _bound([statement]))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bound(statements: list[ast.stmt]) -> set[str]:
    """The names that statements bind in their own scope."""
    bound: set[str] = set()
    shared: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {name for name, _ in _imported(node)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            shared |= set(node.names)
        elif not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            waiting.extend(ast.iter_child_nodes(node))
    return bound - shared


def _without_docstrings(statement: ast.stmt) -> ast.stmt:
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return statement


Use = str | tuple[str, ...] | ast.Import | ast.ImportFrom


class _Uses:
    """What a piece of code uses: global names with the attributes taken of them, strings, and imports.

    The names in `local` belong to the scope that it is in. Annotations are left out: what a parameter is
    comes from the caller.
    """

    def __init__(self, local: frozenset[str]):
        self.local = local

    def of(self, node: ast.AST | None) -> Iterator[Use]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from self._of_function(node)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = _bound([ast.Expr(g.target) for g in node.generators])
            yield from self.of(node.generators[0].iter)  # belongs to the scope around it
            yield from _Uses(self.local | targets)._of_children(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.AnnAssign):
            yield from self.of(node.value)
        elif isinstance(node, (ast.Attribute, ast.Name)):
            yield from self._of_chain(node)
        elif isinstance(node, ast.Constant):
            yield from [node.value] if isinstance(node.value, str) else []
        elif node is not None:
            yield from self._of_children(node)

    def _of_children(self, node: ast.AST) -> Iterator[Use]:
        for child in ast.iter_child_nodes(node):
            yield from self.of(child)

    def _of_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[Use]:
        for outer in [*node.args.defaults, *node.args.kw_defaults, *getattr(node, "decorator_list", [])]:
            yield from self.of(outer)
        body: list[ast.stmt] = node.body if isinstance(node.body, list) else [ast.Expr(node.body)]
        given = [
            *node.args.posonlyargs,
            *node.args.args,
            *node.args.kwonlyargs,
            node.args.vararg,
            node.args.kwarg,
        ]
        own = _bound(body) | {argument.arg for argument in given if argument is not None}
        inside = _Uses(self.local | own)
        for statement in body:
            yield from inside.of(statement)

    def _of_chain(self, node: ast.Attribute | ast.Name) -> Iterator[Use]:
        attributes: list[str] = []
        base: ast.AST = node
        while isinstance(base, ast.Attribute):
            attributes.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            yield from self.of(base)
        elif base.id not in self.local:
            yield (base.id, *reversed(attributes))
