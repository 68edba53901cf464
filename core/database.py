"""Telling a fault of the database from a fault of the row."""

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

# SQLSTATE classes that say "the server or the way to it": connection, resources, operator intervention, system, the
# transaction states that follow a fail-over to a read-only server, and what a session says of its prepared statements
# when they are gone, or return something else since a migration. A new session knows better.
_INFRASTRUCTURE_CLASSES = ("08", "53", "58", "57P", "25006", "26000", "0A000", "F0", "XX")
_CANCELLED = "57014"
# Lock not available, deadlock detected, serialization failure, and a cancelled statement, which has waited for long.
_IN_THE_WAY = frozenset({"55P03", "40P01", "40001", _CANCELLED})


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a Django database error, None when the server sent none."""
    state = getattr(error.__cause__, "sqlstate", None)
    return state if isinstance(state, str) else None


def constraint_name(error: BaseException) -> str | None:
    """The constraint that an IntegrityError names, None for other errors."""
    diagnostics = getattr(error.__cause__, "diag", None)
    name = getattr(diagnostics, "constraint_name", None)
    return name if isinstance(name, str) else None


def is_infrastructure_error(error: BaseException) -> bool:
    """True when the database or the connection is at fault, so that no single row is to blame and a retry may help."""
    if not isinstance(error, DatabaseError):
        return False
    state = sqlstate(error)
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return state.startswith(_INFRASTRUCTURE_CLASSES)


def is_cancelled(error: BaseException) -> bool:
    """True when the statement was cancelled: by its time-out, an operator, or the watchdog of a stopping worker."""
    return sqlstate(error) == _CANCELLED


def is_in_the_way(error: BaseException) -> bool:
    """True when another transaction was in the way: neither the row nor the database is to blame, and a retry helps."""
    return sqlstate(error) in _IN_THE_WAY
