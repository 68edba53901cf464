"""One change of one appointment by a person: who may, until when, with which words, from which version."""

import datetime
from dataclasses import replace
from functools import partial

import pytest
from django.db import transaction

from appointments import decisions, lifecycle, locks
from appointments.lifecycle import NotAllowed, NotYours, TooEarly, TooLate
from appointments.matrix import Party, Verb
from appointments.models import Appointment
from appointments.timeout import TimeoutJob
from audit.models import AuditLine
from core import sql
from core.actors import Actor
from core.correlation import correlated
from core.errors import Inconsistent, InvalidField, NotFound, VersionConflict
from core.ids import new_id
from tests.appointments import state
from tests.appointments.concurrently import blocked
from tests.factories import (
    DAY,
    HOUR,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    TENANT,
    EventFactory,
    an_open_appointment,
    an_overdue_appointment,
    client_of,
    owner_of,
)

pytestmark = pytest.mark.django_db


def change(
    appointment: Appointment,
    verb: Verb,
    *,
    actor: Actor,
    as_of: datetime.datetime = NOON,
    reason: str = "",
    seen_version: int | None = None,
) -> Appointment:
    decisions.change(appointment.id, verb, actor=actor, as_of=as_of, reason=reason, seen_version=seen_version)
    return Appointment.objects.get(pk=appointment.pk)


# When


def test_the_owner_confirms_also_after_the_deadline_as_long_as_the_worker_has_not_come_first() -> None:
    overdue = an_overdue_appointment()

    confirmed = change(overdue, Verb.CONFIRM, actor=owner_of(overdue))

    assert (confirmed.status, confirmed.pending_expires_at) == ("Confirmed", overdue.pending_expires_at)
    assert TimeoutJob().cycle(as_of=NOON, limit=1, keep_going=lambda: True).expired_count == 0


def test_a_confirm_from_a_stale_page_after_the_expiry_is_refused_with_the_status_and_changes_nothing() -> None:
    overdue = an_overdue_appointment()
    TimeoutJob().cycle(as_of=NOON, limit=1, keep_going=lambda: True)

    before = state.everything()
    with pytest.raises(NotAllowed) as caught:
        change(overdue, Verb.CONFIRM, actor=owner_of(overdue))

    assert caught.value.facts["status"] == "Expired"
    assert "Expired" in caught.value.sentence
    assert state.everything() == before


@pytest.mark.parametrize(
    ("status", "verb"),
    [("Pending", Verb.CONFIRM), ("Pending", Verb.DECLINE), ("Pending", Verb.CANCEL), ("Confirmed", Verb.CANCEL)],
)
def test_before_the_start_means_up_to_the_last_microsecond(status: str, verb: Verb) -> None:
    in_time, too_late = (
        an_open_appointment(status=status, start_at=NOON + after) for after in (MICROSECOND, 0 * MICROSECOND)
    )

    change(in_time, verb, actor=owner_of(in_time))
    with pytest.raises(TooLate):
        change(too_late, verb, actor=owner_of(too_late))


@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.NO_SHOW])
def test_from_the_start_on_begins_with_the_start_itself(verb: Verb) -> None:
    started, not_yet = (
        an_open_appointment(status="Confirmed", start_at=NOON + after) for after in (0 * MICROSECOND, MICROSECOND)
    )

    change(started, verb, actor=owner_of(started))
    with pytest.raises(TooEarly):
        change(not_yet, verb, actor=owner_of(not_yet))


# Who


def test_a_stranger_is_told_that_there_is_no_such_appointment() -> None:
    appointment = an_open_appointment()

    for stranger in (
        Actor.user(new_id(), tenant_id=TENANT),
        Actor.user(appointment.owner_user_id, tenant_id=OTHER_TENANT),
        Actor.user(appointment.owner_user_id),
        Actor.tenant_admin(new_id(), tenant_id=OTHER_TENANT),
    ):
        with pytest.raises(NotFound):
            change(appointment, Verb.CANCEL, actor=stranger)


def test_an_unknown_appointment_is_not_found() -> None:
    with pytest.raises(NotFound):
        decisions.change(new_id(), Verb.CANCEL, actor=Actor.operator(), as_of=NOON)


def test_the_client_is_a_client_in_any_tenant() -> None:
    appointment = an_open_appointment()

    actor = Actor.user(appointment.client_user_id, tenant_id=OTHER_TENANT)

    assert change(appointment, Verb.CANCEL, actor=actor).cancelled_by == "Client"


@pytest.mark.parametrize(
    "actor", [Actor.tenant_admin(new_id(), tenant_id=TENANT), Actor.operator(new_id()), Actor.operator()]
)
def test_a_tenant_admin_and_an_operator_act_as_the_owner_and_the_audit_log_keeps_who_really_acted(actor: Actor) -> None:
    appointment = an_open_appointment()

    with correlated() as correlation:
        cancelled = change(appointment, Verb.CANCEL, actor=actor)

    assert (cancelled.cancelled_by, cancelled.cancel_reason) == ("Owner", "Запись отменена агентом")
    lines = AuditLine.objects.values_list("actor_kind", "actor_user_id", "occurred_at", "correlation_id")
    assert set(lines) == {(actor.kind.value, actor.user_id, NOON, correlation)}


def test_who_is_owner_and_client_at_once_acts_as_the_owner() -> None:
    person = new_id()
    appointment = an_open_appointment(slot__owner_user_id=person, client_user_id=person)

    confirmed = change(appointment, Verb.CONFIRM, actor=Actor.user(person, tenant_id=TENANT))
    cancelled = change(appointment, Verb.CANCEL, actor=Actor.user(person, tenant_id=TENANT))

    assert confirmed.status == "Confirmed"
    assert cancelled.cancelled_by == "Owner"


def test_who_is_owner_and_client_at_once_is_the_client_outside_of_the_tenant() -> None:
    person = new_id()
    appointment = an_open_appointment(slot__owner_user_id=person, client_user_id=person)

    with pytest.raises(NotYours):
        change(appointment, Verb.CONFIRM, actor=Actor.user(person))

    assert change(appointment, Verb.CANCEL, actor=Actor.user(person)).cancelled_by == "Client"


# With which words

TEXTS = [
    (Verb.DECLINE, "owner", "Запись отклонена агентом"),
    (Verb.CANCEL, "owner", "Запись отменена агентом"),
    (Verb.CANCEL, "client", "Запись отменена клиентом"),
]


@pytest.mark.parametrize("given", ["", "   \n"])
@pytest.mark.parametrize(("verb", "party", "text"), TEXTS)
def test_without_a_reason_the_text_is_the_default_one(verb: Verb, party: str, text: str, given: str) -> None:
    appointment = an_open_appointment()
    actor = client_of(appointment) if party == "client" else owner_of(appointment)

    ended = change(appointment, verb, actor=actor, reason=given)

    assert (ended.cancel_reason, ended.calendar_event.cancel_reason) == (text, text)


@pytest.mark.parametrize(("verb", "party", "_text"), TEXTS)
def test_a_given_reason_is_kept_on_appointment_and_event_and_told_to_nobody(
    verb: Verb, party: str, _text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    appointment = an_open_appointment()
    actor = client_of(appointment) if party == "client" else owner_of(appointment)
    reason = "Заболела Анна, тел. +371 20000000"

    ended = change(appointment, verb, actor=actor, reason=reason)

    assert (ended.cancel_reason, ended.calendar_event.cancel_reason) == (reason, reason)
    elsewhere = [row for table, row in state.everything() if table not in ("appointments", "calendar_events")]
    assert not any("Анна" in row for row in elsewhere)
    assert "Анна" not in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["я" * 501, "before\x00after", "half of a pair: \ud800"])
def test_a_reason_that_is_too_long_or_no_text_is_refused_and_changes_nothing(reason: str) -> None:
    appointment = an_open_appointment()
    before = state.everything()

    with pytest.raises(InvalidField) as caught:
        change(appointment, Verb.CANCEL, actor=client_of(appointment), reason=reason)

    assert caught.value.field == "reason"
    assert state.everything() == before


def test_a_reason_of_500_characters_of_any_script_is_kept() -> None:
    appointment = an_open_appointment()
    reason = ("%s \\ \" ' {} \u2028 📅" * 50)[:500]

    assert change(appointment, Verb.CANCEL, actor=client_of(appointment), reason=reason).cancel_reason == reason.strip()


# From which version


def test_a_stale_version_is_refused_and_changes_nothing() -> None:
    appointment = an_open_appointment()
    change(appointment, Verb.CONFIRM, actor=owner_of(appointment), seen_version=1)

    before = state.everything()
    with pytest.raises(VersionConflict):
        change(appointment, Verb.CANCEL, actor=client_of(appointment), seen_version=1)

    assert state.everything() == before


def test_a_stranger_learns_nothing_from_a_version() -> None:
    appointment = an_open_appointment()

    with pytest.raises(NotFound):
        change(appointment, Verb.CANCEL, actor=Actor.user(new_id()), seen_version=7)


def test_every_line_of_the_audit_log_is_of_the_appointments_tenant_and_names_its_record() -> None:
    appointment = an_open_appointment(slot__tenant_id=OTHER_TENANT)

    change(appointment, Verb.CANCEL, actor=client_of(appointment))

    assert set(AuditLine.objects.values_list("aggregate", "aggregate_id", "tenant_id")) == {
        ("Appointment", appointment.id, OTHER_TENANT),
        ("Slot", appointment.slot_id, OTHER_TENANT),
        ("Event", appointment.calendar_event_id, OTHER_TENANT),
    }


# On which state


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE availability_slots SET status = 'Available'",
        "UPDATE calendar_events SET status = 'Completed'",
        "UPDATE calendar_events SET origin = 'CrmDeadline'",
        "UPDATE calendar_events SET source_id = id",
    ],
)
@pytest.mark.parametrize("verb", [Verb.CONFIRM, Verb.DECLINE, Verb.CANCEL])
def test_a_state_that_the_cascade_does_not_expect_is_an_error_and_nothing_is_written(verb: Verb, damage: str) -> None:
    appointment = an_open_appointment()
    sql.execute(damage)
    before = state.everything()

    with pytest.raises(Inconsistent):
        change(appointment, verb, actor=owner_of(appointment))

    assert state.everything() == before


def test_an_appointment_that_is_not_as_it_was_read_is_not_written() -> None:
    appointment = an_open_appointment()
    [case] = locks.wait_for([appointment.id])
    row = lifecycle.permit(Verb.CONFIRM, case, party=Party.OWNER, as_of=NOON)
    planned = lifecycle.plan(row, case, party=Party.OWNER, as_of=NOON)
    sql.execute("UPDATE appointments SET version = 9")

    with pytest.raises(Inconsistent, match="1 of 1 appointments"):
        lifecycle.write([planned], actor=owner_of(appointment), as_of=NOON)

    appointment.refresh_from_db()
    assert appointment.status == "Pending"


def test_the_worker_may_expire_after_the_deadline_only_and_never_what_has_none() -> None:
    appointment = an_open_appointment(pending_expires_at=NOON)
    [case] = locks.wait_for([appointment.id])
    without_deadline = replace(case, appointment=replace(case.appointment, pending_expires_at=None))
    may_expire = partial(lifecycle.permit, Verb.EXPIRE, party=Party.TIMEOUT)

    assert may_expire(case, as_of=NOON + MICROSECOND).to == "Expired"
    with pytest.raises(TooEarly) as caught:
        may_expire(case, as_of=NOON)
    assert caught.value.facts == {"status": "Pending"}
    with pytest.raises(TooEarly):
        may_expire(without_deadline, as_of=NOON)


def test_a_move_is_no_decision() -> None:
    """Without a slot to move to nothing of the cascade may be written."""
    appointment = an_open_appointment(status="Confirmed")
    before = state.everything()

    with pytest.raises(Inconsistent):
        change(appointment, Verb.RESCHEDULE, actor=owner_of(appointment))

    assert state.everything() == before


def test_a_cancelled_appointment_leaves_other_events_alone() -> None:
    appointment = an_open_appointment()
    other = EventFactory.create(owner_user_id=appointment.owner_user_id, start_at=NOON + DAY + HOUR)

    change(appointment, Verb.CANCEL, actor=client_of(appointment))

    other.refresh_from_db()
    assert (other.status, other.version) == ("Scheduled", 1)


@pytest.mark.django_db(transaction=True)
def test_a_confirm_that_meets_the_expiry_waits_for_its_commit_and_is_then_refused() -> None:
    overdue = an_overdue_appointment()
    confirm = partial(decisions.change, overdue.id, Verb.CONFIRM, actor=owner_of(overdue), as_of=NOON)

    with transaction.atomic():
        [case] = locks.claim_overdue(as_of=NOON, after=None, without=(), limit=1).cases
        row = lifecycle.permit(Verb.EXPIRE, case, party=Party.TIMEOUT, as_of=NOON)
        expiry = lifecycle.plan(row, case, party=Party.TIMEOUT, as_of=NOON)
        lifecycle.write([expiry], actor=Actor.system(), as_of=NOON)
        finish = blocked(confirm)

    refused = finish()
    assert isinstance(refused, NotAllowed)
    assert refused.facts["status"] == "Expired"
    assert state.topics() == ["appointment-cancelled", "event-status-changed"]


@pytest.mark.django_db(transaction=True)
def test_of_a_confirm_and_a_cancel_at_once_the_later_one_sees_what_the_earlier_one_did() -> None:
    appointment = an_open_appointment()
    cancel = partial(decisions.change, appointment.id, Verb.CANCEL, actor=client_of(appointment), as_of=NOON)

    with transaction.atomic():
        [case] = locks.wait_for([appointment.id])
        row = lifecycle.permit(Verb.CONFIRM, case, party=Party.OWNER, as_of=NOON)
        confirmation = lifecycle.plan(row, case, party=Party.OWNER, as_of=NOON)
        lifecycle.write([confirmation], actor=owner_of(appointment), as_of=NOON)
        finish = blocked(cancel)

    assert finish().before.status == "Confirmed"
    assert state.topics() == ["appointment-confirmed", "appointment-cancelled", "event-status-changed"]
