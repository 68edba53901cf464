"""Statements for many rows: checked, sent one behind the other in a batch, prepared by the session."""

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.db.utils import DatabaseError

from core import database, sql
from core.errors import Inconsistent

pytestmark = pytest.mark.django_db

_INSERT = "INSERT INTO things (id) SELECT unnest(%b::int[])"
_UPDATE = "UPDATE things SET version = version + 1 WHERE id = ANY(%b::int[])"


@pytest.fixture(autouse=True)
def things(db):
    sql.execute("CREATE TEMP TABLE things (id int PRIMARY KEY, version int NOT NULL DEFAULT 1) ON COMMIT DROP")


def versions():
    return dict(sql.fetch("SELECT id, version FROM things"))


@transaction.atomic
def in_one_batch(write):
    with sql.batched():
        write()


def test_a_write_that_touches_as_many_rows_as_expected_passes():
    sql.write(_INSERT, [[1, 2]])
    sql.write(_UPDATE, [[1, 2]], check=sql.expect(2, of="things"))

    assert versions() == {1: 2, 2: 2}


def test_a_write_that_touches_fewer_says_how_many_and_of_what():
    sql.write(_INSERT, [[1]])

    with pytest.raises(Inconsistent, match="2 of 3 things changed under their lock"):
        sql.write(_UPDATE, [[1, 2, 3]], check=sql.expect(3, of="things"))


def test_the_statements_of_a_batch_take_effect_in_their_order():
    with sql.batched():
        sql.write(_INSERT, [[1, 2]])
        sql.write(_UPDATE, [[2]], check=sql.expect(1, of="things"))
        sql.write(_UPDATE, [[1, 2]], check=sql.expect(2, of="things"))

    assert versions() == {1: 2, 2: 3}


def test_a_batch_sends_the_next_statement_before_it_has_heard_of_the_last_one():
    heard: list[int] = []
    with sql.batched():
        sql.write(_INSERT, [[1]], check=heard.append)
        sql.write(_UPDATE, [[1]], check=heard.append)
        assert heard == []

    assert heard == [1, 1]


def test_a_check_that_fails_is_raised_at_the_end_of_the_batch():
    def write():
        sql.write(_INSERT, [[1]])
        sql.write(_UPDATE, [[1, 2]], check=sql.expect(2, of="things"))
        sql.write(_INSERT, [[2]])

    with pytest.raises(Inconsistent, match="1 of 2 things"):
        in_one_batch(write)

    assert versions() == {}


def test_the_first_error_of_the_server_is_raised_as_djangos_own():
    def write():
        sql.write(_INSERT, [[1]])
        sql.write(_INSERT, [[1]])
        sql.write("UPDATE things SET version = 1 / 0", [])

    with pytest.raises(IntegrityError):
        in_one_batch(write)

    assert versions() == {}


def test_an_error_between_two_statements_is_the_one_that_is_raised():
    def write():
        sql.write(_INSERT, [[1, 1]])
        raise LookupError

    with pytest.raises(LookupError):
        in_one_batch(write)

    assert versions() == {}


def test_after_a_batch_that_failed_the_session_goes_on():
    with pytest.raises(DataError):
        in_one_batch(lambda: sql.write("SELECT 1 / %s", [0]))

    sql.write(_INSERT, [[1]], check=sql.expect(1, of="things"))
    assert versions() == {1: 1}


def run_until_prepared():
    for _ in range(connection.connection.prepare_threshold + 1):
        sql.write(_UPDATE, [[1]])
    return sql.fetch("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'UPDATE things%%'")


def behind_the_drivers_back(statement):
    """As a pooler or another session would; the driver takes notice of what it sees itself."""
    sql.execute(f"DO $$ BEGIN EXECUTE '{statement}'; END $$")


def test_a_statement_that_comes_again_is_prepared():
    assert run_until_prepared() == [(1,)]


def test_a_prepared_statement_that_is_gone_is_no_items_fault():
    run_until_prepared()
    behind_the_drivers_back("DEALLOCATE ALL")

    with pytest.raises(DatabaseError) as caught, transaction.atomic():
        sql.write(_UPDATE, [[1]])

    assert database.is_infrastructure_error(caught.value)


def test_a_prepared_query_whose_result_has_another_type_is_no_items_fault():
    query = "SELECT * FROM things WHERE id = %s"
    for _ in range(connection.connection.prepare_threshold + 1):
        sql.fetch(query, [1])
    behind_the_drivers_back("ALTER TABLE things ADD COLUMN name text")

    with pytest.raises(DatabaseError) as caught, transaction.atomic():
        sql.fetch(query, [1])

    assert database.is_infrastructure_error(caught.value)
