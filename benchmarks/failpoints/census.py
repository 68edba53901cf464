"""What writes to the database, found in the code: functions that open a transaction, run a writing statement, or save.

The sweep must have run each of them, so a new one that no path of the sweep reaches fails it.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    *("api", "appointments", "audit", "backoffice", "core", "crm", "notifications"),
    *("ops", "outbox", "pin_calendar", "reminders", "workers"),
)
_WRITES = re.compile(r"\b(INSERT\s+INTO|UPDATE\s+\S+\s+(AS\s+\w+\s+)?SET|DELETE\s+FROM)\s")
_SAVES = frozenset({"save", "bulk_create", "bulk_update", "get_or_create", "update_or_create"})
_ON_MANAGERS = frozenset({"create", "delete", "update"})


@dataclass(frozen=True, order=True)
class Writer:
    """A function, by its file and qualified name, as its code object has them."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}: {self.name}"


def writers() -> set[Writer]:
    """All of them."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {
        Writer(str(path.relative_to(ROOT)), name)
        for path in files
        if "migrations" not in path.parts
        for name in writers_in(path.read_text())
    }


def writers_in(source: str) -> set[str]:
    """The qualified names of those in a module's text."""
    tree = ast.parse(source)
    statements = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_statement(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {
        name
        for name, function in _functions(tree, prefix="")
        if any(_writes(node, statements) for node in _own_nodes(function))
    }


def _functions(node: ast.AST, *, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, prefix=f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, prefix=f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix=prefix)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Without those of functions inside it, which are found for themselves, and without its docstring."""
    has_docstring = ast.get_docstring(function) is not None
    todo: list[ast.AST] = [*function.decorator_list, *function.body[has_docstring:]]
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.FunctionDef):
            yield node
            todo += ast.iter_child_nodes(node)


def _writes(node: ast.AST, statements: set[str]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="transaction"), attr="atomic"):
            return True
        case ast.Name(id=name):
            return name in statements
        case ast.Call(func=ast.Attribute(value=receiver, attr=attr), args=args):
            # A dictionary's or a digest's update() takes an argument by position, a query set's does not; `create` is
            # also what use cases are called, whose receiver is a module.
            is_use_case = attr == "create" and isinstance(receiver, ast.Name)
            return attr in _SAVES or (attr in _ON_MANAGERS and not args and not is_use_case)
        case _:
            return _is_statement(node)


def _is_statement(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return bool(_WRITES.search(text))
        case ast.JoinedStr(values=values):
            parts = (part.value if isinstance(part, ast.Constant) else "x" for part in values)
            return bool(_WRITES.search("".join(map(str, parts))))
        case _:
            return False
