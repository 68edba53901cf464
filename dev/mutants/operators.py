"""Mutation operators for what our rules are written in and Cosmic Ray's own leave alone: tables, texts, SQL, fields."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator

_SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|FROM|WHERE|AND|ORDER BY|FOR NO KEY)\b|status = '")
# What is replaced in a statement, by what: a rule each, tried at each place where it is found.
_SQL_DEFECTS = (
    (r" AND ", " OR "),
    (r" < ", " <= "),
    (r" > ", " >= "),
    (r" = (?!ANY)", " <> "),
    (r" <> ALL", " = ANY"),
    (r"\b(\w+) = x\.\1, ?", ""),
    (r" [-+] 1\b", ""),
    (r"'(\w+)'", r"'XX\1'"),
    (r" ?\bORDER BY [\w.]+(, [\w.]+)*", ""),
    (r" ?\bFOR NO KEY UPDATE( OF [\w, ]+)?( SKIP LOCKED)?", ""),
    (r" SKIP LOCKED", ""),
)
# A fact and another one of its kind that could stand in its place by mistake.
_TWINS = {
    "owner_user_id": "client_user_id",
    "client_user_id": "owner_user_id",
    "tenant_id": "owner_user_id",
    "start_at": "end_at",
    "end_at": "start_at",
    "due_at": "start_at",
    "before": "after",
    "after": "before",
    "slot": "to_slot",
    "to_slot": "slot",
    "calendar_event_id": "id",
    "slot_id": "id",
    "reminder_id": "event_id",
    "event_id": "tenant_id",
}


class OfText(Operator):  # type: ignore[misc]
    """An operator that replaces a node by other texts, which `texts` has for each node that it mutates."""

    cases: Sequence[tuple[str, str]] = ()

    def texts(self, node: Any) -> list[str]:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        return (_place(node) for _ in self.texts(node))

    def mutate(self, node: Any, index: int) -> Any:
        first = node.get_first_leaf()
        return parso.tree.Leaf(self.texts(node)[index], node.start_pos, prefix=first.prefix)

    @classmethod
    def examples(cls) -> list[Example]:
        return [Example(before, after) for before, after in cls.cases]


class EnumMember(OfText):
    """The next member, of those that the module names, in the place of an enum's member."""

    cases = [("a, b = State.NEW, State.DONE", "a, b = State.DONE, State.DONE")]

    def texts(self, node: Any) -> list[str]:
        if node.type != "trailer" or not re.fullmatch(r"\.[A-Z][A-Z_]+", node.get_code()):
            return []
        owner = node.get_previous_leaf()
        members = _members(node.get_root_node(), owner.value)
        name = node.children[1].value
        following = members[(members.index(name) + 1) % len(members)] if name in members else name
        return [f".{following}"] if following != name else []


class Constant(OfText):
    """The constants defined just before and after it in the place of a private constant of the module."""

    cases = [("_ONE = 1\n_TWO = 2\nx = _TWO", "_ONE = 1\n_TWO = 2\nx = _ONE")]

    def texts(self, node: Any) -> list[str]:
        if node.type != "name" or not re.fullmatch(r"_[A-Z_]+", node.value) or node.is_definition():
            return []
        names = _constants(node.get_root_node())
        if node.value not in names:
            return []
        at = names.index(node.value)
        return [*names[max(0, at - 1) : at], *names[at + 1 : at + 2]]


class Twin(OfText):
    """Another fact of the same kind, as the owner for the client."""

    cases = [("x, y = a.start_at, a.end_at", "x, y = a.end_at, a.end_at")]

    def texts(self, node: Any) -> list[str]:
        if node.type != "trailer" or node.children[0].value != ".":
            return []
        name = node.children[1].value
        twin = _TWINS.get(name, "")
        return [f".{twin}"] if twin and f".{twin}" in _code(node.get_root_node()) else []


class Text(OfText):
    """Another text for one that is neither documentation, nor a type, nor SQL, nor a key of a table."""

    cases = [
        ('x = "text"', 'x = "XXtext"'),
        ('def f(a: "T") -> "T":\n    """Says."""\n    x = ""', 'def f(a: "T") -> "T":\n    """Says."""\n    x = "XX"'),
    ]

    def texts(self, node: Any) -> list[str]:
        if node.type != "string" or node.parent.type in ("simple_stmt", "file_input") or _SQL.search(node.value):
            return []
        if node.parent.type in ("tfpdef", "funcdef", "annassign") and node.get_previous_leaf().value in (":", "->"):
            return []
        if (following := node.get_next_leaf()) is not None and following.value == ":":
            return []
        return [re.sub(r"""^(\w*(?:\"""|'''|"|'))""", r"\1XX", node.value)]


class Sql(OfText):
    """A statement with one of the defects above."""

    cases = [('x = "SELECT a WHERE b = 1 AND c"', 'x = "SELECT a WHERE b = 1 OR c"')]

    def texts(self, node: Any) -> list[str]:
        is_documentation = node.type == "string" and node.parent.type in ("simple_stmt", "file_input")
        if node.type not in ("string", "fstring_string") or is_documentation or not _SQL.search(node.value):
            return []
        return [
            node.value[: found.start()] + found.expand(instead) + node.value[found.end() :]
            for pattern, instead in _SQL_DEFECTS
            for found in re.finditer(pattern, node.value)
        ]


class Argument(OfText):
    """None for what is passed by keyword."""

    cases = [("f(1, at=now)", "f(1, at=None)")]

    def texts(self, node: Any) -> list[str]:
        if node.type != "argument" or node.children[1] != "=":
            return []
        return [f"{node.children[0].value}=None"] if node.children[2].get_code().strip() != "None" else []


class Statement(OfText):
    """Nothing instead of a call, a change of a field or a raise."""

    cases = [("if a:\n    f()\n", "if a:\n    pass\n"), ("def f():\n    raise E\n", "def f():\n    pass\n")]

    def texts(self, node: Any) -> list[str]:
        if node.parent is None or node.parent.type != "simple_stmt":
            return []
        is_call = node.type == "atom_expr" and node.children[-1].get_code().startswith("(")
        is_change = node.type == "expr_stmt" and (
            node.children[0].type == "atom_expr" or node.children[1].get_code().strip() in ("+=", "-=", "|=")
        )
        return ["pass"] if is_call or is_change or node.type == "raise_stmt" else []


class Entry(OfText):
    """A table or tuple without one of its entries; a list has the parameters of a statement."""

    cases = [("x = {1: 2, 3: 4}", "x = {3: 4,}"), ("x = (a, b, c)", "x = (b, c,)"), ("x = (a,)", "x = ()")]

    def texts(self, node: Any) -> list[str]:
        if node.type not in ("testlist_comp", "dictorsetmaker") or node.parent.get_code().lstrip().startswith("["):
            return []
        entries: list[list[Any]] = [[]]
        for child in node.children:
            if child.type in ("comp_for", "sync_comp_for"):
                return []
            if child.type == "operator" and child.value == ",":
                entries.append([])
            else:
                entries[-1].append(child)
        codes = ["".join(part.get_code() for part in entry) for entry in entries if entry]
        left = [codes[:at] + codes[at + 1 :] for at in range(len(codes))]
        return ["".join(f"{code}," for code in rest).lstrip() for rest in left]


class Filter(OfText):
    """The condition of a comprehension, turned round."""

    cases = [("[a for a in b if a.c]", "[a for a in b if not (a.c)]")]

    def texts(self, node: Any) -> list[str]:
        if node.type != "comp_if":
            return []
        condition, *more = node.children[1:]
        return [f"if not ({condition.get_code().strip()})" + "".join(part.get_code() for part in more)]


class Membership(OfText):
    """`not in` for `in`, and the reverse."""

    cases = [("a in b", "a not in b"), ("a not in b", "a in b")]

    def texts(self, node: Any) -> list[str]:
        if node.parent is None or node.parent.type != "comparison":
            return []
        return {"in": ["not in"], "notin": ["in"]}.get("".join(node.get_code().split()), [])


OURS = (EnumMember, Constant, Twin, Text, Sql, Argument, Statement, Entry, Filter, Membership)


def _place(node: Any) -> tuple[Any, Any]:
    return node.start_pos, node.end_pos


@lru_cache(maxsize=2)
def _code(root: Any) -> str:
    return str(root.get_code())


def _members(root: Any, owner: str) -> list[str]:
    return list(dict.fromkeys(re.findall(rf"\b{owner}\.([A-Z][A-Z_]+)\b", _code(root))))


def _constants(root: Any) -> list[str]:
    return re.findall(r"^(_[A-Z_]+)\b.* = ", _code(root), re.MULTILINE)
