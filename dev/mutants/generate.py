"""Makes the mutants of modules: `python -m dev.mutants.generate MODULE.py...` prints each as a line of JSON.

Run by a Python that has Cosmic Ray, which our own environment does not need.
"""

import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from dev.mutants import operators

# Of Cosmic Ray's own: each bound and its side, each condition, number, flag and loop.
_THEIRS = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_Gt", "LtE_GtE", "Gt_Lt", "GtE_LtE", "Is_IsNot", "IsNot_Is")),
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceUnaryOperator_Delete_Not",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "NumberReplacer",
    "ZeroIterationForLoop",
    "ReplaceBreakWithContinue",
)


def mutants(module: str) -> Iterator[dict[str, Any]]:
    """Each different mutant of the module: where it is, the lines that it changes, its whole text.

    One that changes the same words in the same way as one before it, a line of a table as a rule, has a number.
    """
    code = Path(module).read_text()
    seen = {code}
    alike: Counter[tuple[str, str, str]] = Counter()
    provider = OperatorProvider()
    for operator in (*(provider[name] for name in _THEIRS), *operators.OURS):
        made = operator()
        places = [node for node in ast_nodes(get_ast(code)) for _ in made.mutation_positions(node)]
        for occurrence, node in enumerate(places):
            source = mutate_code(code, operator(), occurrence)
            if source not in seen and not _is_for_people(node) and not _is_doubled(operator, node):
                seen.add(source)
                change = _enclosing(node), *_difference(code, source)
                alike[change] += 1
                where, was, becomes = change
                where += f" ({alike[change]})" * (alike[change] > 1)
                yield {"module": module, "where": where, "was": was, "becomes": becomes, "source": source}


def _difference(code: str, source: str) -> tuple[str, str]:
    """The lines that differ, on one line each."""
    sides: dict[str, list[str]] = {"-": [], "+": []}
    _, _, *changes = difflib.unified_diff(code.splitlines(), source.splitlines(), n=0, lineterm="")
    for line in changes:
        if line[0] in sides:
            sides[line[0]].append(line[1:])
    was, becomes = (" ".join(" ".join(lines).split()) for lines in sides.values())
    return was, becomes


def _enclosing(node: Any) -> str:
    """The dotted name of the function or class around the node; empty at the module's level."""
    names = []
    while node := node.parent:
        if node.type in ("funcdef", "classdef"):
            names.append(node.name.value)
    return ".".join(reversed(names))


def _is_for_people(node: Any) -> bool:
    """Whether it is in the message of an error, or in a decorator: dataclasses are frozen to read well."""
    if node.search_ancestor("decorator"):
        return True
    return node.search_ancestor("raise_stmt") is not None and node.search_ancestor("fstring") is not None


def _is_doubled(operator: type, node: Any) -> bool:
    """Whether another operator turns the condition round: that of comparisons, or of `not`."""
    if operator.__name__ != "AddNot":
        return False
    return node.children[2 if node.type == "test" else 1].type in ("comparison", "not_test")


def check_examples() -> None:
    """Fail unless each operator of ours does what its examples say."""
    for operator in operators.OURS:
        for example in operator.examples():
            made = mutate_code(example.pre_mutation_code, operator(), example.occurrence)
            assert made == example.post_mutation_code, (operator.__name__, made)


if __name__ == "__main__":
    check_examples()
    for path in sys.argv[1:]:
        for mutant in mutants(path):
            sys.stdout.write(json.dumps(mutant) + "\n")
