"""The check of migrations sees ours, under the limits they really run with, and finds what locks a live table."""

from pathlib import Path

import pytest

from dev.migrations import ROOT, are_safe, write_sql

LIMITS = "SET lock_timeout = '5s';\nSET statement_timeout = '30s';\n"


@pytest.mark.django_db(transaction=True)  # an index made concurrently is not even written out inside of one
def test_every_migration_of_ours_is_written_below_the_limits(tmp_path: Path) -> None:
    written = {path.name: path.read_text() for path in write_sql(tmp_path)}

    files = {path for path in ROOT.glob("*/migrations/*.py") if path.name != "__init__.py"}
    assert set(written) == {f"{path.parent.parent.name}.{path.stem}.sql" for path in files}
    assert all(sql.startswith(LIMITS) for sql in written.values())
    assert 'CREATE TABLE "appointments"' in written["appointments.0001_initial.sql"]


@pytest.mark.parametrize(
    ("statement", "safe"),
    [
        ("CREATE TABLE made (id uuid NOT NULL PRIMARY KEY, note varchar(20) NOT NULL)", True),
        ("CREATE INDEX CONCURRENTLY ix ON appointments (status)", True),
        ("CREATE INDEX ix ON appointments (status)", False),
        ("ALTER TABLE appointments ADD COLUMN note text NOT NULL", False),
        ("ALTER TABLE appointments RENAME COLUMN status TO state", False),
        ("ALTER TABLE appointments ALTER COLUMN status TYPE text", False),
    ],
)
def test_what_locks_or_breaks_a_live_table_is_found(tmp_path: Path, statement: str, safe: bool) -> None:
    path = tmp_path / "planted.sql"
    path.write_text(f"{LIMITS}{statement};\n")
    assert are_safe([path]) is safe


def test_a_statement_without_limits_is_found(tmp_path: Path) -> None:
    path = tmp_path / "planted.sql"
    path.write_text("ALTER TABLE appointments ADD COLUMN note text;\n")
    assert not are_safe([path])
