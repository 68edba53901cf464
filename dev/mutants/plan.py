"""Which modules are checked, and by which tests: those that are about it, the quickest first."""

PLAN: dict[str, tuple[str, ...]] = {
    "appointments/matrix.py": ("tests/appointments/test_matrix_rows.py", "tests/appointments/test_matrix.py"),
    "appointments/deadlines.py": ("tests/appointments/test_deadlines.py",),
    "appointments/lifecycle.py": (
        "tests/appointments/test_messages.py",
        "tests/appointments/test_decisions.py",
        "tests/appointments/test_booking.py",
        "tests/appointments/test_rescheduling.py",
        "tests/appointments/test_timeout.py",
        "tests/appointments/test_matrix.py",
    ),
    "pin_calendar/slots.py": (
        "tests/pin_calendar/test_cascade_parts.py",
        "tests/appointments/test_booking.py",
        "tests/appointments/test_decisions.py",
        "tests/appointments/test_rescheduling.py",
        "tests/races/test_publishing.py",
    ),
    "pin_calendar/events.py": (
        "tests/pin_calendar/test_cascade_parts.py",
        "tests/pin_calendar/test_locks.py",
        "tests/pin_calendar/test_events_reminders.py",
        "tests/pin_calendar/test_diary.py",
        "tests/appointments/test_messages.py",
        "tests/appointments/test_reassignment.py",
    ),
    "reminders/schedule.py": (
        "tests/reminders/test_schedule.py",
        "tests/pin_calendar/test_events_reminders.py",
        "tests/reminders/test_dispatch.py",
        "tests/pin_calendar/test_diary.py",
        "tests/appointments/test_timeout_faults.py",
    ),
    "reminders/dispatch.py": (
        "tests/reminders/test_dispatch.py",
        "tests/reminders/test_isolation.py",
        "tests/reminders/test_watching.py",
    ),
    "outbox/floor.py": ("tests/outbox/test_floor.py",),
}
