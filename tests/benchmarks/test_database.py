"""The benchmarks' databases."""

from typing import Any

import pytest

from benchmarks import database
from core import sql

# Without the definitions: PostgreSQL words a list in a predicate in another way once it has read what it printed.
KEYS = """
    SELECT conrelid::regclass::text, conname, contype::text, conkey::text, condeferrable, convalidated
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
"""
INDEXES = """
    SELECT index.indrelid::regclass::text, relation.relname, indisunique, indisvalid, indkey::text, indpred IS NULL
    FROM pg_index AS index JOIN pg_class AS relation ON relation.oid = indexrelid
    WHERE relation.relnamespace = 'public'::regnamespace
"""


def schema() -> set[tuple[Any, ...]]:
    return {*sql.fetch(KEYS), *sql.fetch(INDEXES)}


@pytest.mark.django_db
def test_tables_that_were_bare_have_all_their_keys_and_indexes_again():
    before = schema()

    with database.bare("availability_slots", "calendar_events"):
        while_bare = schema()

    assert while_bare < before
    assert schema() == before
