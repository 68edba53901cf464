"""Thousands of rows at once, by SQL: for races, faults and benchmarks."""

import datetime

from core import sql
from core.ids import new_id_text
from tests.factories import NOON, TENANT

_IDS = ("appointments", "slots", "events", "owners", "clients", "days_before", "hours_before")


def overdue_appointments(count: int, *, as_of: datetime.datetime = NOON, lead_passed_every: int = 2) -> None:
    """Pending appointments that lapsed before `as_of`, a second apart, each with slot, event and two Pending reminders.

    Every `lead_passed_every`-th lapsed with the lead time of its slot, which cannot go back to the showcase; it starts
    within half an hour. The others start a day later.
    """
    sql.execute(
        """
        CREATE TEMP TABLE made ON COMMIT DROP AS
        SELECT id.*, %(as_of)s - n * interval '1 second' AS expired_at,
               CASE WHEN n %% %(every)s = 0 THEN 30 + n / 60 ELSE 60 END AS lead_minutes,
               %(as_of)s + CASE WHEN n %% %(every)s = 0 THEN interval '30 minutes' - n %% 60 * interval '1 second'
                                ELSE interval '1 day' END AS start_at
        FROM unnest(%(appointments)s::uuid[], %(slots)s::uuid[], %(events)s::uuid[], %(owners)s::uuid[],
                    %(clients)s::uuid[], %(days_before)s::uuid[], %(hours_before)s::uuid[]) WITH ORDINALITY
             AS id(appointment_id, slot_id, event_id, owner_id, client_id, day_before_id, hour_before_id, n);
        INSERT INTO availability_slots (id, tenant_id, owner_user_id, start_at, end_at, time_zone,
               min_lead_time_minutes, auto_confirm, status, version, created_at, updated_at)
        SELECT slot_id, %(tenant)s, owner_id, start_at, start_at + interval '1 hour', 'Europe/Moscow',
               lead_minutes, false,
               'Booked', 2, expired_at - interval '1 day', expired_at - interval '1 day' FROM made;
        INSERT INTO calendar_events (id, tenant_id, owner_user_id, client_user_id, origin, source_id, title, start_at,
               end_at, time_zone, reminder_offsets_minutes, status, cancel_reason, version, created_at, updated_at)
        SELECT event_id, %(tenant)s, owner_id, client_id, 'Appointment', appointment_id, '', start_at,
               start_at + interval '1 hour', 'Europe/Moscow', '{1440,60}', 'Scheduled', '', 1,
               expired_at - interval '1 day', expired_at - interval '1 day' FROM made;
        INSERT INTO appointments (id, tenant_id, slot_id, calendar_event_id, owner_user_id, client_user_id, status,
               pending_expires_at, cancel_reason, version, created_at, updated_at)
        SELECT appointment_id, %(tenant)s, slot_id, event_id, owner_id, client_id, 'Pending', expired_at, '', 1,
               expired_at - interval '1 day', expired_at - interval '1 day' FROM made;
        INSERT INTO event_reminders (id, event_id, offset_minutes, due_at, status, created_at, updated_at)
        SELECT reminder_id, event_id, minutes, start_at - minutes * interval '1 minute', 'Pending',
               expired_at - interval '1 day', expired_at - interval '1 day'
        FROM made CROSS JOIN LATERAL (VALUES (1440, day_before_id), (60, hour_before_id)) AS o(minutes, reminder_id);
        """,
        {
            "as_of": as_of,
            "every": lead_passed_every,
            "tenant": TENANT,
            # By the application, as the real ones: `uuidv7()` is of PostgreSQL 18.
            **{name: sql.array(new_id_text() for _ in range(count)) for name in _IDS},
        },
    )
