"""Broken states, written by hand past every use case, and what is found of them."""

from typing import Any

from core import sql
from ops import proof
from ops.proof import FIRST_FAULTS, Finding
from tests.factories import NOON


def findings(**when: Any) -> dict[str, Finding]:
    return {finding.invariant.name: finding for finding in proof.check(**{"as_of": NOON, **when})}


def faults(name: str, **when: Any) -> list[str]:
    """The ids that break the invariant."""
    finding = findings(**when)[name]
    assert len(finding.first_faults) == min(finding.violation_count, FIRST_FAULTS)
    return [fault.id for fault in finding.first_faults]


def change(table: str, id_: object, **values: Any) -> None:
    """Write a row by hand, past every use case; dates that Python would quote come as SQL in `values`."""
    columns = ", ".join(f"{name} = {value}" for name, value in values.items())
    assert sql.execute(f"UPDATE {table} SET {columns} WHERE id = %s", [id_]) == 1


def forget(table: str, condition: str, *params: object) -> None:
    assert sql.execute(f"DELETE FROM {table} WHERE {condition}", params) > 0


def without(statement: str) -> None:
    """Take away what would refuse the broken state, until the test's transaction is rolled back."""
    sql.execute("SET CONSTRAINTS ALL IMMEDIATE")
    sql.execute(statement)
