"""Locks by name, for what must be done by one at a time and is no row."""

from core import sql


def lock(name: str) -> None:
    """Until the transaction ends; waits for whoever has it. To be taken before any row, see docs/architecture.md."""
    sql.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
