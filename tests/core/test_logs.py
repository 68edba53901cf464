"""What a line of the log looks like, and what must never be on one."""

import contextlib
import logging
import os
import sys
from uuid import UUID

import orjson
import pytest
import structlog
from django.db import DatabaseError, connection
from django.test import RequestFactory
from django.urls import resolve
from django.utils.log import log_message
from pydantic import ValidationError

from contracts.calendar import ReminderDue
from core import logs
from core.correlation import correlated, correlation_id
from tests.factories import EventFactory

log = logs.get(__name__)
RUN = UUID(int=7)


@pytest.fixture
def lines(capsys):
    """The lines logged so far, each a dict."""
    return lambda: [orjson.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_one_json_object_with_fields_in_camel_case(lines):
    log.info("reminder-sent", reminder_id=RUN, lag_seconds=1.5)

    [line] = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "reminder-sent",
        "level": "info",
        "logger": __name__,
        "reminderId": str(RUN),
        "lagSeconds": 1.5,
    }


@pytest.mark.parametrize(("path", "shown"), [("/api/v1/feeds/secret.ics", "…"), ("/ж", "…"), ("/", "")])
def test_a_request_is_told_without_its_path(lines, path, shown):
    request = RequestFactory().get(path)

    log_message(logging.getLogger("django.request"), "Internal Server Error: %s", path, request=request)

    [line] = lines()
    assert line["event"] == f"Internal Server Error: /{shown}"
    assert "request" not in line


def test_a_request_is_told_by_its_route(lines):
    request = RequestFactory().get(path := "/api/v1/feeds/secret.ics")
    request.resolver_match = resolve(path)

    log_message(logging.getLogger("django.request"), "Internal Server Error: %s", path, request=request)

    assert [line["event"] for line in lines()] == ["Internal Server Error: /api/v1/feeds/<str:token>.ics"]


def test_a_line_below_the_level_is_not_written(lines):
    log.debug("cycle started")

    assert lines() == []


def test_lines_of_libraries_look_the_same(lines):
    logging.getLogger("django.request").warning("Not Found: %s", "/api", extra={"status_code": 404})

    [line] = lines()
    assert (line["event"], line["level"], line["logger"], line["statusCode"]) == (
        "Not Found: /api",
        "warning",
        "django.request",
        404,
    )


def test_lines_in_a_correlated_block_carry_its_id_and_fields(lines):
    with correlated(RUN, job="fake"):
        log.info("cycle started")
        logging.getLogger("library").warning("seen")
        assert correlation_id() == RUN
    log.info("worker stopped")

    inside, library, outside = lines()
    assert (inside["correlationId"], inside["job"]) == (library["correlationId"], library["job"]) == (str(RUN), "fake")
    assert "correlationId" not in outside


def test_blocks_nest_and_each_has_an_id_of_its_own():
    with correlated() as outer:
        with correlated() as inner:
            assert correlation_id() == inner != outer
        assert correlation_id() == outer
    assert structlog.contextvars.get_contextvars() == {}


def test_held_lines_are_written_when_they_are_released_and_only_then(lines):
    held = logs.Held()
    with held:
        log.info("first", n=1)
        log.info("second", n=2)
    log.info("outside")
    assert [line["event"] for line in lines()] == ["outside"]

    held.release()
    assert [line["event"] for line in lines()] == ["first", "second"]

    held.release()
    assert lines() == []


def test_held_lines_that_are_never_released_are_not_written(lines):
    with contextlib.suppress(LookupError), logs.Held():
        log.info("rolled back")
        raise LookupError

    log.info("after")
    assert [line["event"] for line in lines()] == ["after"]


def test_outside_of_any_block_an_id_is_made():
    assert correlation_id() != correlation_id()


def test_a_line_break_in_a_value_does_not_break_the_line(lines):
    log.info("seen", text="one\ntwo", more={"at": RUN})

    assert [line["text"] for line in lines()] == ["one\ntwo"]


def test_stdout_stays_free_for_the_result_of_a_command(capsys):
    log.info("seen")

    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["\ud800", 2**70, {1: 2}, {(1, 2): 3}, object(), float("nan")])
def test_a_value_that_json_cannot_spell_hurts_nobody(lines, value):
    log.info("seen", value=value)

    assert [line["event"] for line in lines()] == ["seen"]


def test_a_reader_that_is_gone_stops_nobody(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)

        log.info("seen")

        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            stderr.close()


def test_an_exception_is_told_with_its_traceback(lines):
    try:
        raise RuntimeError("the broker is away")
    except RuntimeError as error:
        log.error("item failed", exc_info=error)

    [line] = lines()
    assert line["exception"].endswith("RuntimeError: the broker is away")
    assert "test_logs.py" in line["exception"]
    assert "exc_info" not in line


SECRET = "Анна Петрова\n+371 20000000"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calendar_events SET status = 'Nonsense' WHERE id = %s",  # DETAIL: Failing row contains (...)
        "UPDATE calendar_events SET title = repeat(title, 99) WHERE id = %s",
        f"SELECT '{SECRET}'::int, %s",  # LINE 1: SELECT '...', and in the message itself
        f"SELECT '{SECRET}'::timestamptz, %s",
        f"SELECT '{{{SECRET}'::jsonb, %s",
        f"DO $$ BEGIN RAISE 'no' USING DETAIL = '{SECRET}', HINT = '{SECRET}'; END $$; SELECT %s",
        f"DO $$ BEGIN PERFORM 1 / length(left('{SECRET}', 0)); END $$; SELECT %s",  # CONTEXT: SQL expression "..."
    ],
)
def test_what_postgresql_quotes_of_a_row_is_never_logged(lines, statement):
    event = EventFactory.create(title=SECRET)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, [event.id])
    except DatabaseError as error:
        log.error("item failed", exc_info=error)
        logging.getLogger("library").error("failed", exc_info=error)

    ours, library = lines()
    for line in (ours, library):
        assert line["exception"].count("Traceback") == 2
        assert "test_logs.py" in line["exception"]
        assert "Анна" not in line["exception"]
        assert "20000000" not in line["exception"]


def test_what_pydantic_quotes_of_an_input_is_never_logged(lines):
    try:
        ReminderDue.model_validate({"tenantId": SECRET, "offsetMinutes": SECRET})
    except ValidationError as error:
        log.error("item failed", exc_info=error)

    [line] = lines()
    assert "tenantId" in line["exception"]
    assert "Анна" not in line["exception"]
